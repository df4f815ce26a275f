"""What the machine lacks, found out quickly and without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stark_lsp.core.status import DeviceChoice, Isolation
from stark_lsp.evaluation.compilers import compiler_variables, find_compiler
from stark_lsp.evaluation.preflight import Facts, Need, Wishes, examine, install_command, lacking

GOOD = Facts(
    "/project/.venv/bin/python",
    torch=True,
    cuda=False,
    triton=False,
    ninja=True,
    compiler="/usr/bin/c++",
    c_compiler="/usr/bin/gcc",
    sandbox={"auto": {"layer": "bubblewrap"}, "strict": {"layer": "bubblewrap"}},
)
ON_GPU = replace(GOOD, cuda=True, gpu=True, triton=True, nvcc="/usr/local/cuda/bin/nvcc")
NO_SANDBOX = {"auto": {"layer": None, "reason": "No sandbox works here.", "cure": "Install bubblewrap."}}


def needs(facts: Facts, wishes: Wishes | None = None) -> list[Need]:
    return [lack.need for lack in lacking(facts, wishes or Wishes())]


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment whose path holds nothing but what a test puts there."""
    (tmp_path / "tools").mkdir()
    return {"PATH": str(tmp_path / "tools"), "HOME": str(tmp_path)}


def tool(bare: dict[str, str], name: str) -> str:
    file = Path(bare["PATH"], name)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return str(file)


# --- this machine --------------------------------------------------------------------------------------


def test_the_interpreter_of_the_tests_lacks_nothing_on_the_cpu() -> None:
    facts = examine(sys.executable, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert (facts.torch, facts.problem, facts.gpu) == (True, "", False)
    assert facts.cuda is not None, "torch's version.py says what it was built for"
    assert facts.sandbox is None or set(facts.sandbox) == {"auto", "strict"}
    assert Need.TORCH not in needs(facts)


def test_torch_is_not_imported_to_find_it(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "torch" / "version.py").write_text("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n")
    facts = examine(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)}, sandbox=False)
    assert (facts.torch, facts.cuda) == (True, True)


def test_a_fresh_environment_has_no_torch_and_no_pip(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env" / "bin" / "python")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    facts = examine(python, environ, sandbox=False)
    assert (facts.torch, facts.pip) == (False, False)
    assert install_command(facts, "torch", str(tmp_path)) == f"uv pip install --python {python} torch"


def test_what_is_no_python_is_told(tmp_path: Path) -> None:
    file = tmp_path / "python"
    file.write_text("#!/bin/sh\necho hello\n")
    file.chmod(0o755)
    assert needs(examine(str(file), os.environ, sandbox=False)) == [Need.INTERPRETER]
    assert needs(examine(str(tmp_path / "none"), os.environ, sandbox=False)) == [Need.INTERPRETER]


def test_one_that_is_too_slow_to_say_stands_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stark_lsp.evaluation.preflight.LIMIT_S", 0.2)
    file = tmp_path / "python"
    file.write_text("#!/bin/sh\nsleep 60\n")
    file.chmod(0o755)
    facts = examine(str(file), os.environ, sandbox=False)
    assert (facts.problem, facts.torch, facts.ninja) == ("", None, None)
    assert Need.TORCH not in needs(facts)


# --- compilers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["c++", "g++", "clang++"])
def test_any_compiler_will_do_and_the_worker_is_told_of_it(name: str, bare: dict[str, str]) -> None:
    assert find_compiler(bare, "") is None
    found = tool(bare, name)
    assert find_compiler(bare, "") == found
    assert compiler_variables(bare, "") == ({} if name == "c++" else {"CXX": found})


def test_a_cxx_that_is_set_is_what_counts(bare: dict[str, str]) -> None:
    tool(bare, "g++")
    ccache = tool(bare, "ccache")
    assert find_compiler({**bare, "CXX": "ccache g++"}, "") == ccache
    assert find_compiler({**bare, "CXX": "g++-99"}, "") is None
    assert compiler_variables({**bare, "CXX": "ccache g++"}, "") == {}
    facts = replace(GOOD, compiler=None, cxx="g++-99")
    assert "g++-99" in lacking(facts, Wishes())[0].cause


def test_condas_compiler_is_found_beside_an_interpreter_that_is_not_activated(
    bare: dict[str, str], tmp_path: Path
) -> None:
    conda = tmp_path / "conda" / "bin" / "x86_64-conda-linux-gnu-c++"
    conda.parent.mkdir(parents=True)
    conda.write_text("")
    conda.chmod(0o755)
    assert compiler_variables(bare, str(conda.parent / "python")) == {"CXX": str(conda)}


def test_a_compiler_under_another_name_builds(bare: dict[str, str], tmp_path: Path) -> None:
    """What the worker is told is what torch calls: seen with torch's own function."""
    real = shutil.which("c++")
    if real is None:
        pytest.skip("no compiler here")
    Path(bare["PATH"], "clang++").symlink_to(real)
    told = {**bare, **compiler_variables(bare, "")}
    ask = "from torch.utils.cpp_extension import get_cxx_compiler; print(get_cxx_compiler())"
    done = subprocess.run([sys.executable, "-c", ask], env=told, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(Path(bare["PATH"], "clang++"))


# --- what the facts mean -------------------------------------------------------------------------------


def test_what_is_there_and_what_is_not_known_is_not_lacking() -> None:
    assert needs(GOOD) == needs(ON_GPU) == []
    assert needs(Facts("/python", compiler="/usr/bin/c++")) == []


@pytest.mark.parametrize(
    ("facts", "wishes", "expected"),
    [
        (replace(GOOD, torch=False, ninja=False), Wishes(), [Need.TORCH, Need.NINJA]),
        (replace(GOOD, compiler=None), Wishes(), [Need.COMPILER]),
        (GOOD, Wishes(DeviceChoice.CUDA), [Need.GPU]),
        (replace(GOOD, gpu=True), Wishes(DeviceChoice.CUDA), [Need.GPU]),
        (replace(ON_GPU, nvcc=None), Wishes(), [Need.NVCC]),
        (replace(ON_GPU, nvcc=None), Wishes(DeviceChoice.CPU), []),
        (replace(ON_GPU, nvcc=None), Wishes(triton=True), []),
        (replace(ON_GPU, compiler=None), Wishes(triton=True), []),
        (replace(ON_GPU, compiler=None, c_compiler=None), Wishes(triton=True), [Need.COMPILER]),
        (replace(GOOD, sandbox=NO_SANDBOX), Wishes(), [Need.SANDBOX]),
        (replace(GOOD, sandbox=NO_SANDBOX), Wishes(isolation=Isolation.OFF), []),
    ],
)
def test_what_is_lacking(facts: Facts, wishes: Wishes, expected: list[Need]) -> None:
    assert needs(facts, wishes) == expected
    for lack in lacking(facts, wishes):
        assert lack.cause
        assert lack.cure.endswith(".")


def test_the_command_that_installs_suits_what_manages_the_project(tmp_path: Path) -> None:
    python = str(tmp_path / ".venv" / "bin" / "python")
    facts = Facts(python)
    assert install_command(facts, "torch", str(tmp_path)) == f"{python} -m pip install torch"
    managed = replace(facts, interpreter="/usr/bin/python3", managed=True)
    assert install_command(managed, "torch", str(tmp_path)) == (
        f"/usr/bin/python3 -m venv {tmp_path / '.venv'} && {python} -m pip install torch ninja"
    )
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "src").mkdir()
    (tmp_path / "uv.lock").write_text("")
    assert install_command(facts, "torch", str(tmp_path / "src")) == f"uv add --project {tmp_path} torch"
    (tmp_path / "uv.lock").rename(tmp_path / "poetry.lock")
    assert install_command(facts, "torch", str(tmp_path)) == f"poetry add --directory {tmp_path} torch"
