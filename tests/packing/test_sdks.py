"""SDKs that are installed when they are needed: by a real pip, from a folder of wheels in place of an index."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

from stark_lsp.agents.models import sdk
from stark_lsp.core.errors import BadInput

NAME = "tiny_sdk_of_a_test"


async def yes(package: str, command: str) -> None:
    assert package == NAME
    assert "--require-hashes" in command


async def no(package: str, command: str) -> None:
    raise BadInput("The user said no.")


@pytest.fixture
def sdks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what is installed appears."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / f"{NAME}-1.0-py3-none-any.whl"
    about = f"{NAME}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr(f"{NAME}.py", "WORKS = True\n")
        packed.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
        packed.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{about}/RECORD", f"{NAME}.py,,\n")
    lock = tmp_path / "sdks.txt"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"--no-index\n--find-links {wheels}\n{NAME}==1.0 --hash=sha256:{digest}\n")
    monkeypatch.setattr(sdk, "LOCK", lock)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    return tmp_path / "data" / "stark-lsp" / "sdks"


async def test_it_is_installed_once_and_found_from_then_on(sdks: Path) -> None:
    assert sdk.missing(NAME)
    told: list[str] = []
    await sdk.provide(NAME, yes, told.append)
    assert told == [f"Installing {NAME}"]
    assert __import__(NAME).WORKS
    (folder,) = sdks.iterdir()
    assert folder.name.startswith(sys.implementation.cache_tag or "")
    sys.path.remove(str(folder))
    assert not sdk.missing(NAME), "another process finds it"
    await sdk.provide(NAME, no)


async def test_nothing_happens_without_the_users_word(sdks: Path) -> None:
    with pytest.raises(BadInput, match="said no"):
        await sdk.provide(NAME, no)
    with pytest.raises(BadInput, match="not installed") as caught:
        await sdk.provide(NAME, None)
    assert "-m pip install" in caught.value.cure, "where nobody can be asked, the command is told"
    assert not sdks.exists()


async def test_a_file_that_is_not_the_one_that_was_checked_is_refused(sdks: Path) -> None:
    text = sdk.LOCK.read_text()
    sdk.LOCK.write_text(text[:-5] + "0000\n")
    with pytest.raises(BadInput, match=r"could not be installed.*(?i:hash)") as caught:
        await sdk.provide(NAME, yes)
    assert "sha256" in caught.value.details
    assert list(sdks.iterdir()) == []
    assert sdk.missing(NAME)


async def test_who_cancels_leaves_nothing_behind(sdks: Path) -> None:
    def installs(child: psutil.Process) -> bool:
        try:
            return any(str(sdks) in word for word in child.cmdline())
        except psutil.Error:  # it, or one that other tests left, has just ended
            return False

    def pips() -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if installs(child)]

    task = asyncio.ensure_future(sdk.provide(NAME, yes))
    while not pips():
        assert not task.done(), "it was over before it was cancelled"
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pips() == []
    assert list(sdks.iterdir()) == []


KILLED = """
import asyncio, sys
from pathlib import Path
from stark_lsp.agents.models import sdk
async def yes(package, command): pass
sdk.LOCK = Path(sys.argv[1])
asyncio.run(sdk.provide(sys.argv[2], yes))
"""


async def test_after_a_kill_amid_pip_the_next_one_installs_and_clears(sdks: Path) -> None:
    process = psutil.Popen([sys.executable, "-c", KILLED, str(sdk.LOCK), NAME])
    while not (pips := process.children()):
        assert process.poll() is None, "it was over before it was killed"
        await asyncio.sleep(0.005)
    process.kill()
    process.wait()
    psutil.wait_procs(pips)
    (left,) = sdks.iterdir()
    assert sdk.missing(NAME), "what is left half-way is not taken for whole"
    await sdk.provide(NAME, yes)
    assert __import__(NAME).WORKS
    (folder,) = sdks.iterdir()
    assert folder != left


async def test_where_stark_lsp_was_installed_as_a_package_nothing_is_installed(
    sdks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sdk, "LOCK", tmp_path / "nowhere" / "sdks.txt")
    await sdk.provide(NAME, no)
    assert sdk.missing(NAME)
