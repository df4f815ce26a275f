"""What an interpreter is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.evaluation.interpreters import InterpreterInfo, probe
from stark_lsp.evaluation.preflight import examine


def make_environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    return python


def test_probing_tells_python_and_torch() -> None:
    info = probe(sys.executable)
    assert info.python == ".".join(str(part) for part in sys.version_info[:3])
    assert info.torch or info.problem


def test_probing_what_is_no_python_is_bad_input(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    with pytest.raises(BadInput, match="does not answer"):
        probe(str(python))
    with pytest.raises(BadInput, match="cannot be run"):
        probe(str(tmp_path / "none"))


def package(folder: Path, name: str, source: str) -> str:
    """Write a package and return the folder that it is imported from."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(source)
    return str(folder)


TORCH = """
__version__ = "2.11.0"
class version: cuda = "13.0"
class cuda:
    is_available = staticmethod(lambda: {gpus} > 0)
    device_count = staticmethod(lambda: {gpus})
    get_device_name = staticmethod(lambda i: "a GPU")
"""


def probed(folder: Path, monkeypatch: pytest.MonkeyPatch, *, triton: str, gpus: int = 0) -> InterpreterInfo:
    """Return what is told of an interpreter with a torch and a Triton of our making."""
    package(folder, "torch", TORCH.format(gpus=gpus))
    monkeypatch.setenv("PYTHONPATH", package(folder, "triton", triton))
    return probe(sys.executable)


def test_a_triton_that_is_there_has_a_version_and_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = probed(tmp_path, monkeypatch, triton="__version__ = '3.6.0'")
    assert (info.triton, info.triton_problem) == ("3.6.0", "")


def test_a_triton_that_is_not_there_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Found by no finder: whether this interpreter has one must not matter.
    hidden = "import sys\nsys.modules['triton'] = None\n" + TORCH.format(gpus=0)
    monkeypatch.setenv("PYTHONPATH", package(tmp_path, "torch", hidden))
    info = probe(sys.executable)
    assert info.torch == "2.11.0"
    assert (info.triton, info.triton_problem) == (None, "")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("raise RuntimeError('the driver is too old:\\nsecond line')", "RuntimeError: the driver is too old:"),
        ("import triton._C.libtriton", "ModuleNotFoundError: No module named 'triton._C'"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("raise AssertionError", "AssertionError"),
        ("pass", "AttributeError: module 'triton' has no attribute '__version__'"),
        ("import os; os._exit(3)", "the interpreter ended with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "the interpreter ended by signal 9"),
        ("print('{noise}'); raise OSError('libcuda.so.1: cannot open')", "OSError: libcuda.so.1: cannot open"),
    ],
)  # fmt: skip
def test_why_triton_cannot_be_imported_is_told(
    source: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = probed(tmp_path, monkeypatch, triton=source)
    assert info.torch == "2.11.0", "what is known of torch is told all the same"
    assert info.triton is None
    assert info.triton_problem.startswith(problem)
    assert "\n" not in info.triton_problem


DRIVER = """
import sys, types
__version__ = "3.6.0"
runtime = sys.modules["triton.runtime"] = types.ModuleType("runtime")
class driver:
    class active:
        @staticmethod
        def get_current_target():
            {body}
runtime.driver = driver
"""


def test_a_triton_whose_driver_does_not_work_is_told_where_torch_sees_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = DRIVER.format(body="raise RuntimeError('0 active drivers ([]). There should only be one.')")
    info = probed(tmp_path, monkeypatch, triton=broken, gpus=1)
    assert info.gpus == ("a GPU",)
    assert info.triton == "3.6.0"
    assert info.triton_problem == "RuntimeError: 0 active drivers ([]). There should only be one."


def test_triton_is_not_asked_for_a_driver_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = DRIVER.format(body="raise RuntimeError('no driver')")
    assert probed(tmp_path, monkeypatch, triton=broken).triton_problem == ""
    works = DRIVER.format(body="return 'sm_90'")
    info = probed(tmp_path / "other", monkeypatch, triton=works, gpus=2)
    assert (info.triton, info.triton_problem) == ("3.6.0", "")


def test_a_triton_that_never_comes_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "torch", TORCH.format(gpus=0))
    monkeypatch.setenv("PYTHONPATH", package(tmp_path, "triton", "import os; os._exit(0)"))
    run = subprocess.run

    def hangs(*args: Any, timeout: float, **more: Any) -> subprocess.CompletedProcess[bytes]:
        # What was told until then is in the exception.
        raise subprocess.TimeoutExpired(args[0], timeout, run(*args, timeout=timeout, **more).stdout)

    monkeypatch.setattr(subprocess, "run", hangs)
    info = probe(sys.executable)
    assert info.torch == "2.11.0"
    assert info.triton_problem == "no answer within 60 s"


def test_a_torch_that_ends_the_interpreter_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", package(tmp_path, "torch", "import os; os._exit(7)"))
    info = probe(sys.executable)
    assert info.torch is None
    assert info.problem == "the interpreter ended with status 7"


def test_what_stands_in_the_current_folder_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Editors start the server in the project, which may have a `platform.py` or `types.py`."""
    for name in ("platform", "tempfile", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    assert probe(sys.executable).python == ".".join(str(part) for part in sys.version_info[:3])
    assert examine(sys.executable, dict(os.environ)).problem == ""
