"""`stark-lsp runs export` and `runs import`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_cases import CHAIN, here, stark, write
from cli_stored import stored_run

from stark_lsp.core.run import Run
from stark_lsp.core.status import Decision
from stark_lsp.core.verdict import Reference
from stark_lsp.store import RunStore, transcripts

Place = tuple[Path, Path]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A file and a state directory with a run on it."""
    path = write(tmp_path, "model.py", CHAIN)
    stored_run(tmp_path / "state", path).close()
    return path, tmp_path / "state"


def test_a_run_goes_to_another_machine_and_is_applied_there(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = place
    done = here(capsys, "runs", "export", "1f3a", "-o", "run.json", state=state, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Written: run.json, 4 attempts, 4 exchanges with a model" in done.stdout
    other = tmp_path / "other"
    taken = here(capsys, "runs", "import", tmp_path / "run.json", state=other)
    assert taken.returncode == 0, taken.stderr
    assert "Taken in as run 1f3a77c0." in taken.stdout
    ours, theirs = RunStore(state / "runs.sqlite3"), RunStore(other / "runs.sqlite3")
    whole = transcripts.collect(ours, "1f3a77c0")
    # It may come from anyone, so no editor offers it by itself, and nothing beside its interpreter is run.
    imported = replace(whole, run=replace(whole.run, decision=Decision.KEPT, reference=nowhere(whole.run)))
    assert transcripts.collect(theirs, "1f3a77c0") == imported
    shown = here(capsys, "runs", "show", "1f3a", state=other, cwd=path.parent)
    assert "2.00x" in shown.stdout
    assert here(capsys, "runs", "apply", "1f3a", state=other).returncode == 0
    assert "class ModelNew(nn.Module):" in path.read_text()


def nowhere(run: Run) -> Reference | None:
    """Return the reference of a run without the place of its interpreter."""
    if run.reference is None:
        return None
    environment = run.reference.environment
    return replace(run.reference, environment=replace(environment, interpreter=Path(environment.interpreter).name))


def test_a_second_import_gets_an_id_of_its_own(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    text = here(capsys, "runs", "export", "1f3a", state=state).stdout
    write(path.parent, "run.json", text)
    done = here(capsys, "runs", "import", path.parent / "run.json", state=state)
    assert done.returncode == 0, done.stderr
    assert "a new id" in done.stdout
    second, first = RunStore(state / "runs.sqlite3").list()
    assert second.id != first.id
    assert second.id in done.stdout
    assert replace(second, id=first.id, decision=first.decision) == replace(first, reference=nowhere(first))


def test_without_a_file_it_goes_to_standard_output(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    _, state = place
    for option in ((), ("-o", "-"), ("--anonymous",)):
        done = here(capsys, "runs", "export", "1f3a", *option, state=state)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["stark_transcript"] == 2
        assert (str(place[0].parent) in done.stdout) == ("--anonymous" not in option)


def test_no_key_is_exported(place: Place) -> None:
    path, state = place
    key = "sk-ant-of-the-environment"
    write(path.parent, "other.py", CHAIN + f"# {key}\n")
    stored_run(state, path.parent / "other.py", "2b").close()
    done = stark("runs", "export", "2b", state=state, env={"ANTHROPIC_API_KEY": key})
    assert done.returncode == 0, done.stderr
    assert key not in done.stdout
    assert "[key removed]" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("export", "99"), "no run '99'"),
        (("export", "1f", "-o", "missing/run.json"), "no such folder"),
        (("export", "1f", "-o", "."), "This is a folder"),
        (("import", "missing.json"), "missing.json: The transcript cannot be read: No such file or directory."),
        (("import", "model.py"), "model.py: This is not a transcript that can be used."),
    ],
)
def test_what_cannot_be_done_is_said_with_the_cure(
    place: Place, arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = place
    done = here(capsys, "runs", *arguments, state=state, cwd=path.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert len(RunStore(state / "runs.sqlite3").list()) == 1
