"""`stark-lsp judge`: exit codes, the page for a person, the JSON for a script."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from cli_cases import FEW, WHOLE, bare_path, begin, here, stark, write

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(x * self.weight + 1.0)


class Other(nn.Module):
    def forward(self, x):
        return -x


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128]


def get_inputs_for_Other():
    return [torch.randn(16)]
"""

CANDIDATE = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.clamp_min(x * self.weight + 1.0, 0.0)


class Negated(nn.Module):
    def forward(self, x):
        return torch.neg(x)
"""

BROKEN = '''import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
extern "C" void f(const float* x) {
    flot y = x[0];
}
"""


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        path = load_inline("f", SOURCE, functions=None, no_implicit_headers=True, is_python_module=False)
        return ctypes.CDLL(path)
'''

FAST = ("--device", "cpu", "--python", sys.executable, *FEW)
EAGER = (*FAST, "--baselines", "eager")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("judge")
    write(place, "model.py", REFERENCE)
    write(place, "candidate.py", CANDIDATE)
    write(place, "wrong.py", CANDIDATE.replace("+ 1.0", "+ 1.5"))
    write(place, "broken.py", BROKEN)
    write(
        place,
        "endless.py",
        CANDIDATE.replace(
            "        return torch.clamp", "        while True:\n            pass\n        return torch.clamp"
        ),
    )
    return place


def test_a_right_candidate_is_ok_with_a_page_of_evidence_and_the_whole_verdict(folder: Path) -> None:
    out = folder / "ok.json"
    options = (*EAGER, *WHOLE, "--json", out)
    done = stark("judge", "model.py", "candidate.py", *options, state=folder / "state", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("Verified", "one call", "against eager", "n = ", "allowed", "torch 2", "64x128 float32", "isolation"):
        assert part in done.stdout, part
    verdict = json.loads(out.read_text())
    assert verdict["status"] == "OK"
    assert verdict["runtime_ms"] > 0
    low, high = verdict["interval"]
    assert low <= verdict["speedup_vs_eager"] <= high
    assert verdict["intervals"]["runtime_ms"][0] <= verdict["runtime_ms"]
    assert verdict["speedup_vs_compile"] is None
    assert verdict["errors"]["max_rel"] <= verdict["errors"]["tolerance"]
    assert verdict["environment"]["device_type"] == "cpu"
    assert verdict["isolation"] == verdict["environment"]["isolation"]
    assert verdict["isolation"] in ("bubblewrap", "landlock"), "plain processes are for those who ask for them"
    assert verdict["stages_s"]["time"] > 0
    assert verdict["samples"] >= 3
    assert verdict["same_rounds"]["eager"]["n"] == verdict["samples"], "timed in the same rounds"
    assert verdict["same_rounds"]["compile"] is None
    assert "before the candidate came" not in done.stdout
    assert isinstance(verdict["launched"], list)
    assert verdict["profile"] is not None
    assert verdict["candidate"]["class"] == "ModelNew"
    assert not (folder / "state" / "runs.sqlite3").exists(), "judging is no run"


@pytest.mark.slow
def test_with_torch_compile_the_page_says_which_is_faster(folder: Path) -> None:
    done = stark("judge", "model.py", "candidate.py", *FAST, "--json", "-", state=folder / "state", cwd=folder)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["baselines"]["compile"]["ms"] > 0, verdict["baselines"]
    assert verdict["speedup_vs_compile"] > 0
    assert verdict["same_rounds"]["compile"]["n"] == verdict["samples"]
    assert "against torch.compile" in done.stderr
    assert "Verified" in done.stderr, "the page is on standard error where the JSON is on standard output"


@pytest.mark.slow
@pytest.mark.ci
def test_a_wrong_candidate_ends_with_1_and_says_how_wrong_also_without_a_sandbox(folder: Path) -> None:
    out = folder / "wrong.json"
    options = (*FAST, "--isolation", "off", "--json", out)
    done = stark("judge", "model.py", "wrong.py", *options, state=folder / "state", cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "not kept apart: a plain process under your account" in done.stdout
    assert json.loads(out.read_text())["isolation"] == "process"
    assert "Wrong result" in done.stdout
    verdict = json.loads(out.read_text())
    assert verdict["status"] == "WRONG_RESULT"
    assert verdict["message"]
    assert verdict["runtime_ms"] is verdict["interval"] is verdict["speedup_vs_eager"] is None
    assert verdict["baselines"]["compile"] is None
    assert verdict["baselines"]["compile_message"].startswith("Not waited for"), "torch.compile takes long"


# In every run of the tests the page and the verdict each have a test of their own.
@pytest.mark.slow
def test_a_compiler_error_is_shown_with_its_line(folder: Path) -> None:
    done = stark("judge", "model.py", "broken.py", *EAGER, "--json", "-", state=folder / "state", cwd=folder)
    assert done.returncode == 1, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["status"] == "COMPILE_ERROR"
    assert verdict["compiler"]
    assert "Did not compile" in done.stderr
    assert f"{verdict['compiler'][0]['line']}:{verdict['compiler'][0]['column']}" in done.stderr


@pytest.mark.slow
def test_classes_can_be_named_in_the_path_or_by_option(folder: Path) -> None:
    for named in (["model.py::Other", "candidate.py::Negated"], None):
        arguments = named or ["model.py", "candidate.py", "--class", "Other", "--candidate-class", "Negated"]
        done = stark("judge", *arguments, *EAGER, state=folder / "state", cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "judging Negated in candidate.py against Other in model.py" in done.stdout


@pytest.mark.parametrize(
    ("text", "status", "line", "told"),
    [
        (CANDIDATE.replace("ModelNew", "Elsewhere"), "REFUSED", None, "defines no class ModelNew, but "),
        ("import subprocess\n" + CANDIDATE, "REFUSED", 1, "It imports subprocess."),
        ("import torch\nclass ModelNew(torch.nn.Module:\n", "LOAD_ERROR", 2, "does not parse: "),
    ],
    ids=["no-class", "refused", "no-python"],
)
def test_what_reading_finds_is_told_before_torch_is_imported(
    folder: Path, text: str, status: str, line: int | None, told: str
) -> None:
    write(folder, "unread.py", text)
    done = stark("judge", "model.py", "unread.py", *EAGER, "--json", "-", state=folder / "state", cwd=folder)
    assert done.returncode == 1, done.stderr
    assert told in done.stderr
    assert "Importing torch" not in done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["status"], verdict["line"]) == (status, line)
    assert verdict["environment"] is verdict["isolation"] is verdict["baselines"]["eager"] is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.py", "candidate.py"], "There is no such file"),
        (["model.py", "nothing.py"], "There is no such file"),
        (["model.py::Nobody", "candidate.py"], "there is no module class Nobody"),
        (
            ["model.py", "candidate.py::Missing"],
            "there is no class Missing to judge. Classes in this file: ModelNew, Neg",
        ),
        (["model.py", "candidate.py", "--candidate-class", "Missing"], "candidate.py: there is no class Missing"),
        (["model.py::Model", "candidate.py", "--class", "Other"], "names one class and --class Other another"),
        (["model.py", "candidate.py", "--settings", "olympic"], "invalid choice"),
        (["model.py", "candidate.py", "--isolation", "maybe"], "invalid choice"),
        (["model.py", "candidate.py", "--set", "load_timout_s=9"], "Did you mean load_timeout_s?"),
        (
            ["model.py", "candidate.py", "--set", "seeds=none"],
            "--set seeds must be a whole number from 1 to 100, not none",
        ),
        (["model.py", "candidate.py", "--set", "seeds"], "--set seeds has no value"),
        (["model.py", "candidate.py", "--set", "isolation=off"], "an option of its own: --isolation"),
        (["model.py", "candidate.py", "--python", "/nowhere/python"], "There is no Python interpreter"),
        (["model.py", "candidate.py", "--json", "/nowhere/v.json"], "There is no such folder"),
        (["model.py"], "CANDIDATE"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(
    folder: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = here(capsys, "judge", *arguments, state=folder / "state", cwd=folder)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_sandbox_that_was_asked_for_nothing_is_run_and_the_cure_is_named(folder: Path) -> None:
    env = {"PATH": bare_path(folder / "bare", "sh", "env", "c++", "ninja")}
    options = (*EAGER, "--isolation", "strict", "--json", "-")
    done = stark("judge", "model.py", "candidate.py", *options, state=folder / "state", cwd=folder, env=env)
    assert done.returncode == 2, done.stdout + done.stderr
    error = json.loads(done.stdout)["error"]
    assert "bubblewrap" in error["message"] + error["cure"]
    assert error["cure"]
    assert error["cure"] in done.stderr


def test_bad_input_is_in_the_json_as_well(folder: Path) -> None:
    write(folder, "raises.py", REFERENCE.replace("return [torch.randn(64, 128)]", "raise OSError('no data')"))
    done = stark("judge", "raises.py", "candidate.py", *EAGER, "--json", "-", state=folder / "state", cwd=folder)
    assert done.returncode == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    assert "no data" in error["message"]
    assert error["path"].endswith("raises.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "code", "status"),
    [("candidate.py", 0, "OK"), ("wrong.py", 1, "WRONG_RESULT")],
)
def test_a_reader_that_leaves_changes_neither_exit_code_nor_json(
    folder: Path, file: str, code: int, status: str
) -> None:
    out = folder / f"unread-{file}.json"
    process = begin("judge", "model.py", file, *EAGER, "--json", out, state=folder / "state", cwd=folder)
    assert process.stdout is not None
    # As `| head` does.
    process.stdout.close()
    _, errors = process.communicate(timeout=240)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert json.loads(out.read_text())["status"] == status


# In every run of the tests a search is stopped, see test_cli_stopping.py.
@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_leaves_nothing_running(folder: Path) -> None:
    out = folder / "stopped.json"
    process = begin("judge", "model.py", "endless.py", *EAGER, "--json", out, state=folder / "state", cwd=folder)
    assert process.stderr is not None
    # Processes come and go while the machine is looked at; from here on all are there.
    assert any("Verifying the candidate" in line for line in process.stderr)
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) >= 4, "guard, worker, the reference's process and the candidate's"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "Stopped." in errors
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    assert json.loads(out.read_text())["error"]["message"] == "Stopped."


@pytest.mark.slow
@pytest.mark.ci
def test_a_package_may_import_the_file_itself(tmp_path: Path) -> None:
    package = tmp_path / "src" / "mylib"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("")
    (package / "__init__.py").write_text("from .gate import Gate\n\nKNOWN = [Gate]\n")
    (package / "_util.py").write_text("import torch\n\n\ndef swish(x):\n    return x * torch.sigmoid(x)\n")
    forward = "    def forward(self, x):\n        return swish(x) + 1\n"
    head = "import torch\nfrom torch import nn\n\nfrom ._util import swish\n\n\n"
    inputs = "\n\ndef get_inputs():\n    return [torch.randn(64, 128)]\n"
    (package / "gate.py").write_text(f"{head}class Gate(nn.Module):\n{forward}{inputs}")
    write(tmp_path, "candidate.py", f"{head}class ModelNew(nn.Module):\n{forward}")
    done = stark(
        "judge", "src/mylib/gate.py", "candidate.py", *EAGER, "--json", "-", state=tmp_path / "state", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "OK"
