"""What cannot be used is said in one line with its place and cure, with exit code 2 and no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_cases import LINEAR, QUICK, here, stark, write

from stark_lsp.core.status import Mode

STANDALONE = "import torch\nimport torch.nn as nn\n\n\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def refuse(done: subprocess.CompletedProcess[str], *fragments: str) -> None:
    """Check that a run ended as bad input whose text holds `fragments`."""
    assert done.returncode == 2, done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    for fragment in fragments:
        assert fragment in done.stderr


def test_a_file_that_is_not_there_is_named_with_its_neighbour(tmp_path: Path, state: Path) -> None:
    write(tmp_path, "model.py", LINEAR)
    refuse(
        stark("optimize", "modle.py", state=state, cwd=tmp_path),
        "modle.py",
        "no such file",
        "Did you mean",
        "model.py?",
    )


def test_a_folder_is_not_a_file(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refuse(here(capsys, "optimize", tmp_path, state=state), "This is a folder")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(b"x = '\xff\xfe'\n")
    refuse(here(capsys, "optimize", path, state=state), "model.py", "encoding", "UTF-8")


def test_a_file_without_modules_is_refused(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "model.py", "class Model:\n    pass\n")
    refuse(here(capsys, "optimize", path, state=state), "model.py")


def test_a_class_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "model.py", LINEAR)
    refuse(here(capsys, "optimize", f"{path}::Modell", state=state), "Modell", "Model")


def test_several_classes_without_a_choice_are_listed(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = LINEAR.replace("class Model(", "class First(") + "\n\nclass Second(nn.Module):\n    pass\n"
    refuse(here(capsys, "optimize", write(tmp_path, "model.py", text), state=state), "First", "Second")


def test_a_syntax_error_is_given_with_its_line(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "model.py", "import torch\n\ndef broken(:\n    pass\n")
    refuse(here(capsys, "optimize", path, state=state), f"{path}:3:")


def test_a_class_without_inputs_gets_the_cure(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = LINEAR[: LINEAR.index("\n\ndef get_inputs")]
    refuse(here(capsys, "optimize", write(tmp_path, "model.py", text), state=state), "get_inputs")


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        pytest.param(
            LINEAR.replace("return [torch.randn(4, 16)]", "raise ValueError('no data here')"),
            ("no data here", ":15:"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            LINEAR.replace("self.layer = ", "raise RuntimeError('no weights'); self.layer = "),
            ("no weights", ":8:"),
            marks=pytest.mark.slow,
        ),
        (LINEAR.replace("torch.randn(4, 16)", "torch.randn(4, 15)"), ("forward", ":11:")),
        pytest.param(
            LINEAR.replace("import torch\n", "import torch\nimport no_such_module_at_all\n"),
            ("no_such_module_at_all",),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["inputs that raise", "a class that does not construct", "a forward that raises", "an import that fails"],
)
def test_the_users_own_errors_are_given_with_file_and_line(
    tmp_path: Path, state: Path, text: str, fragments: tuple[str, ...]
) -> None:
    path = write(tmp_path, "model.py", text)
    refuse(stark("optimize", path, *QUICK, state=state), str(path), *fragments)


# In every run of the tests the judge refuses it, see tests/evaluation/test_judge_bad_input.py.
@pytest.mark.slow
def test_cuda_without_a_gpu_is_refused(tmp_path: Path, state: Path) -> None:
    path = write(tmp_path, "model.py", LINEAR)
    done = stark(
        "optimize",
        path,
        "--device",
        "cuda",
        "--python",
        sys.executable,
        state=state,
        env={"CUDA_VISIBLE_DEVICES": ""},
    )
    refuse(done, "cuda", "GPU", "cpu")


@pytest.fixture(scope="module")
def torchless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real interpreter that has no torch."""
    folder = tmp_path_factory.mktemp("torchless") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def test_an_interpreter_without_torch_is_named(tmp_path: Path, state: Path, torchless: Path) -> None:
    path = write(tmp_path, "model.py", LINEAR)
    refuse(stark("optimize", path, "--python", torchless, state=state), "torch", str(torchless), "pip install torch")


def test_the_doctor_names_an_interpreter_without_torch(state: Path, torchless: Path) -> None:
    done = stark("doctor", "--python", torchless, state=state)
    assert done.returncode == 1
    assert f"{torchless} -m pip install torch" in done.stdout
    assert "Not ready" in done.stdout


def test_an_interpreter_that_is_not_there_is_refused(tmp_path: Path, state: Path) -> None:
    path = write(tmp_path, "model.py", LINEAR)
    refuse(stark("optimize", path, "--python", tmp_path / "python9", state=state), "python9")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--epsilon", "2"), "epsilon"),
        (("--root-children", "0"), "root_children"),
        (("--budget", "0"), "--budget"),
        (("--time-limit", "0"), "--time-limit"),
        (("--policy", "luck"), "epsilon-greedy"),
        (("--model", "oracle"), "playbook"),
        (("--prompts", "nowhere"), "--prompts nowhere is not a folder"),
        (("--set", "run_timeout=5"), "--set run_timeout is not known. Did you mean run_timeout_s"),
        (("--set", "isolation=off"), "--isolation"),
        (("--json", "no/such/folder/out.json"), "no such folder"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    tmp_path: Path, state: Path, options: tuple[str, ...], fragment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "model.py", LINEAR)
    refuse(here(capsys, "optimize", path, *options, state=state, cwd=tmp_path), fragment)


def test_an_error_is_written_as_json_too(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "model.py", "import torch\n\ndef broken(:\n    pass\n")
    out = tmp_path / "out.json"
    refuse(here(capsys, "optimize", path, "--json", out, state=state), ":3:")
    error = json.loads(out.read_text())["error"]
    assert error["path"] == str(path)
    assert error["line"] == 3
    assert error["message"]
    assert set(error) == {"message", "path", "line", "cure"}


def test_an_error_as_json_on_standard_output_is_nothing_but_json(tmp_path: Path, state: Path) -> None:
    done = stark("optimize", tmp_path / "none.py", "--json", "-", state=state)
    refuse(done, "no such file")
    assert json.loads(done.stdout)["error"]["line"] is None


@pytest.mark.parametrize("mode", [mode.value for mode in Mode])
def test_every_mode_can_be_asked_for(
    state: Path, tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(here(capsys, "optimize", "gone.py", "--mode", mode, state=state, cwd=tmp_path), "There is no such file.")
