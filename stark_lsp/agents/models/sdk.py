"""The SDKs by which services are asked, where the server came without them.

Parts of them are compiled for each Python and platform, and are four fifths of what an editor's extension would have to
bring along. So it brings `sdks.txt` instead, beside its libraries: their versions and hashes, by which pip installs
them once, under the server's own Python and into a folder of the user's, after the user agreed. pip knows the user's
index, proxy and certificates.

Where stark-lsp was installed as a package there is no such file: the SDKs are dependencies, or an extra, of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import shlex
import signal
import sys
import sysconfig
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_data_path

import stark_lsp
from stark_lsp.agents.models.secret import VARIABLES
from stark_lsp.contract.scratch import make_scratch, remove_scratch
from stark_lsp.core.errors import BadInput

LOCK = Path(stark_lsp.__file__).resolve().parents[2] / "sdks.txt"
LIMIT_S = 600.0

Agree = Callable[[str, str], Awaitable[None]]
"""Asks the user whether a package may be installed, given its name and the command; raises BadInput where it may not.

It returns, or is cancelled, before anything is done.
"""

_PIP = """
import importlib.util, pathlib, runpy, sys
if importlib.util.find_spec("pip") is None:
    import ensurepip
    sys.path.insert(0, str(next(pathlib.Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""Runs pip, from Python's own installer of it where the environment has none."""


def missing(package: str) -> bool:
    """Whether a package cannot be imported; one that was installed earlier is found from now on."""
    if installable():
        folder = str(_folder())
        if folder not in sys.path and os.path.isdir(folder):
            sys.path.append(folder)
            importlib.invalidate_caches()
    return find_spec(package) is None


def installable() -> bool:
    """Whether the SDKs are among what is installed when it is first needed."""
    return LOCK.is_file()


async def provide(package: str, agree: Agree | None, say: Callable[[str], None] | None = None) -> None:
    """See to it that a package can be imported.

    Parameters
    ----------
    package
        Its name; there may be a further reason why it cannot be imported, which is left to whoever does.
    agree
        Asks the user; None where nobody can be asked.
    say
        Told what goes on.

    Raises
    ------
    BadInput
        It has to be installed, and the user did not agree or pip failed.
    """
    if not installable() or not missing(package):
        return
    arguments = _arguments(_folder())
    command = shlex.join([sys.executable, "-m", "pip", *arguments])
    if agree is None:
        raise BadInput(
            f"The package {package}, by which the model is asked, is not installed.", cure=f"Install it: {command}"
        )
    await agree(package, command)
    if say is not None:
        say(f"Installing {package}")
    await _install(package, command)
    if missing(package):
        raise BadInput(f"pip installed {package}, which cannot be found.", cure=f"Install it yourself: {command}")


async def _install(package: str, command: str) -> None:
    """Install into a folder beside the one that is meant, which appears when it is whole."""
    folder = _folder()
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = make_scratch(str(folder.parent))
    try:
        code, output = await _run([sys.executable, "-I", "-c", _PIP, *_arguments(Path(scratch))])
        if code != 0:
            lines = [line for line in output.splitlines() if line.strip()]
            why = next((line for line in reversed(lines) if "ERROR" in line), lines[-1] if lines else f"exit {code}")
            raise BadInput(
                f"The package {package} could not be installed: {why.strip()[:300]}",
                cure=f"Mend that and try again, or install it yourself: {command}",
                details=output,
            )
        if not folder.is_dir():  # another window may have been faster
            os.rename(scratch, folder)
    finally:
        remove_scratch(scratch)


async def _run(command: list[str]) -> tuple[int, str]:
    """Return exit code and output; whoever is cancelled leaves nothing behind."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**environment, "PIP_USER": "0"},
        start_new_session=True,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    except asyncio.TimeoutError:
        return -1, f"ERROR: pip did not come to an end within {LIMIT_S:.0f} s"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace")


def _arguments(target: Path) -> list[str]:
    exact = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    return ["install", *quiet, *exact, "--target", str(target), "-r", str(LOCK)]


def _folder() -> Path:
    """Return where they belong: one folder for each Python and each set of versions."""
    versions = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    name = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}-{versions}"
    return user_data_path("stark-lsp", appauthor=False) / "sdks" / name
