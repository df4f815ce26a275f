"""People do not run as root: the layers under an ordinary account and the system's own Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_cases import CONFINED, LAYERS, MAIN, SOURCES

from stark_lsp.judge.sandbox import Layer

NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"

DRIVER = """
import importlib, json, os, subprocess, sys, tempfile, types
folder, layer, code, changes, confined = *sys.argv[1:4], json.loads(sys.argv[4]), sys.argv[5]
sys.modules["stark_worker"] = package = types.ModuleType("stark_worker")
package.__path__ = [folder]
box = importlib.import_module("stark_worker.judge.sandbox")
with tempfile.TemporaryDirectory() as place:
    policy = box.run_policy(place, gpu=False)._replace(**changes)
    layer = box.Layer(layer)
    inner = [sys.executable, "-I", "-S", "-c", confined, folder, box.instructions(layer, policy)]
    done = subprocess.run(
        box.wrap(layer, policy, [*inner, sys.executable, "-I", "-S", "-c", code]),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
print(json.dumps([done.returncode, done.stdout.decode(), done.stderr.decode()]))
"""

FORK_BOMB = """
import os, signal, time
children = []
try:
    while len(children) < 2000:
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
except OSError:
    pass
for pid in children:
    os.kill(pid, signal.SIGKILL)
print(len(children))
"""


@pytest.fixture
def copied() -> Iterator[str]:
    """Ours where an ordinary user may read it; a checkout in root's home is not such a place."""
    with tempfile.TemporaryDirectory(prefix="stark-users-") as folder:
        for name in ("judge", "contract"):
            shutil.copytree(SOURCES / name, f"{folder}/{name}", ignore=shutil.ignore_patterns("__pycache__"))
        for where, _, names in os.walk(folder):
            os.chmod(where, 0o755)
            for name in names:
                os.chmod(os.path.join(where, name), 0o644)
        yield folder


def as_ordinary_user(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run something without root's rights."""
    who: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
        cwd="/",
        timeout=120,
        check=False,
        **who,
    )


def report_of(python: str, folder: str) -> dict[str, Any]:
    done = as_ordinary_user([python, "-I", f"{folder}/judge/__main__.py", "probe"])
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def run_as_ordinary_user(folder: str, layer: Layer, code: str, **changes: Any) -> tuple[int, str, str]:
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        pytest.skip("there is no system Python")
    works = report_of(SYSTEM_PYTHON, folder)["layers"][layer.value]
    if not works["works"]:
        pytest.skip(f"{layer.value} does not work for an ordinary user here: {works['problem']}")
    done = as_ordinary_user(
        [SYSTEM_PYTHON, "-I", "-c", DRIVER, folder, layer.value, code, json.dumps(changes), CONFINED]
    )
    assert done.returncode == 0, done.stderr
    code_, out, err = json.loads(done.stdout)
    return code_, out, err


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.value)
def test_an_ordinary_user_is_confined_and_a_fork_bomb_bounded(copied: str, layer: Layer) -> None:
    status, out, err = run_as_ordinary_user(copied, layer, FORK_BOMB, processes=24)
    assert status == 0, err
    # Without a name space of its own the user's other processes count too, so the bound is a wide one.
    assert int(out) < (24 if layer is Layer.BUBBLEWRAP else 500)


def test_the_trial_passes_or_says_why_not(copied: str) -> None:
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        pytest.skip("there is no system Python")
    report = report_of(SYSTEM_PYTHON, copied)
    for layer in report["layers"].values():
        assert layer["works"] or (layer["problem"] and layer["cure"])
    assert report["auto"]["layer"] or report["auto"]["cure"]


def starts(python: str) -> bool:
    """Return whether an interpreter runs; a version manager's shim may not."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def test_it_runs_on_the_oldest_python_that_torch_supports(copied: str) -> None:
    places = [shutil.which("python3.9"), *Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9")]
    found = next((str(place) for place in places if place and starts(str(place))), None)
    if found is None:
        pytest.skip("there is no Python 3.9")
    done = subprocess.run(
        [found, "-I", f"{copied}/judge/__main__.py", "probe"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    mine = subprocess.run([sys.executable, "-I", MAIN, "probe"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["auto"] == json.loads(mine.stdout)["auto"]
