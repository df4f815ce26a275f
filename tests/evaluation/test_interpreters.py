"""Which interpreter a file is judged under, and what it is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.evaluation.interpreters import InterpreterInfo, find_interpreter, probe


def make_environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    return python


@pytest.fixture(autouse=True)
def _no_active_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def test_an_explicit_interpreter_wins(tmp_path: Path) -> None:
    make_environment(tmp_path / ".venv")
    assert find_interpreter(sys.executable, str(tmp_path / "model.py")) == sys.executable


def test_an_explicit_environment_folder_stands_for_its_interpreter(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    assert find_interpreter(str(tmp_path / "env"), str(tmp_path / "model.py")) == str(python)


def test_the_nearest_environment_up_the_tree_is_found(tmp_path: Path) -> None:
    python = make_environment(tmp_path / ".venv")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find_interpreter(None, str(tmp_path / "a" / "b" / "model.py")) == str(python)
    nearer = make_environment(tmp_path / "a" / "venv")
    assert find_interpreter(None, str(tmp_path / "a" / "b" / "model.py")) == str(nearer)


def test_the_active_environment_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_environment(tmp_path / "active")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    (tmp_path / "project").mkdir()
    assert find_interpreter(None, str(tmp_path / "project" / "model.py")) == str(python)


def test_without_any_it_is_the_one_this_program_runs_under(tmp_path: Path) -> None:
    assert find_interpreter(None, str(tmp_path / "model.py")) == sys.executable


def test_an_explicit_interpreter_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no Python interpreter"):
        find_interpreter(str(tmp_path / "none"), str(tmp_path / "model.py"))


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
