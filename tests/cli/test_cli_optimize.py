"""`stark-lsp optimize` from file to proposal, with real searches on small modules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_cases import CHAIN, LINEAR, QUICK, WHOLE, begin, stark, write
from cli_pages import Page, check

from stark_lsp.agents.prompts import built_in_dir
from stark_lsp.cli.page import run_page
from stark_lsp.cli.terminal import figures
from stark_lsp.store import RunStore

CHECK = """
import importlib.util, sys, torch
for path, name in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    spec = importlib.util.spec_from_file_location("edited", path)
    edited = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(edited)
    new = getattr(edited, name)(0.79788456).eval()
    x = torch.randn(64, 1024)
    with torch.no_grad():
        expected = 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))
        torch.testing.assert_close(new(x), expected, rtol=1e-4, atol=1e-5)
    assert any("_stark" in name for name in vars(edited)), "no kernel in the file"
"""


@dataclass(frozen=True)
class Searched:
    """One finished search, shared by the tests that look at it."""

    done: subprocess.CompletedProcess[str]
    report: dict[str, Any]
    path: Path
    state: Path


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    folder = tmp_path_factory.mktemp("searched")
    path, state, out = write(folder, "gate.py", CHAIN), folder / "state", folder / "out.json"
    for template in (built_in_dir() / "advice").glob("[!_]*.md"):
        words = folder / "words" / "advice" / template.name
        words.parent.mkdir(parents=True, exist_ok=True)
        words.write_text(f"Words of our own. {template.read_text()}")
    options = ("--budget", "2", "--prompts", "words", *WHOLE)
    done = stark("optimize", "gate.py", *QUICK, *options, "--json", out, state=state, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return Searched(done, json.loads(out.read_text()), path, state)


def works(*files: Path | str) -> None:
    """Check that in each file the class named after it is there, runs its kernel and computes the same."""
    subprocess.run([sys.executable, "-c", CHECK, *files], check=True, timeout=120)


@pytest.mark.timing
def test_a_search_tells_reference_plans_tree_numbers_and_proposal(searched: Searched) -> None:
    text = searched.done.stdout
    for fragment in (
        "Model in gate.py",
        "256x1024 float32",
        "lines 15 to 16",
        "Model as it is",
        "└── ",
        "against eager",
        "as fast as eager",
        "-class Model(nn.Module):\n+class ModelNew(nn.Module):",
        "more lines: what the class calls, and imports; --diff shows them",
        "Nothing was written.",
        "To look at it in a browser: stark-lsp report ",
        "Words of our own.",
    ):
        assert fragment in text
    assert re.search(r"^ +1 \S.*$", text, re.MULTILINE), "the first plan has a line"
    assert re.search(r"─ \d+ [\d.]+ (µs|ms)  [\d.]+x  proposal", text), "the tree marks the proposal"
    assert "Traceback" not in text + searched.done.stderr
    assert "\x1b" not in text


@pytest.mark.timing
def test_the_page_of_a_search_has_its_attempts_with_times_plans_and_sources(searched: Searched) -> None:
    store, best = RunStore(searched.state / "runs.sqlite3"), searched.report["best"]
    page = Page(run_page.make(store, store.load(searched.report["run"]["id"])))
    check(page)
    assert len(page.all("article")) == len(searched.report["attempts"]) + 1
    shown = page.texts[f"n{best['node']}"]
    for part in ("Words of our own.", "class ModelNew", "against eager", "largest difference", "Launched in one call"):
        assert part in shown, part
    assert figures.milliseconds(best["eager_ms"]) in page.texts["device"]
    assert "lines 15 to 16" in page.texts["plans"]


@pytest.mark.timing
def test_without_write_the_file_is_left_alone(searched: Searched) -> None:
    assert searched.path.read_text() == CHAIN
    assert sorted(entry.name for entry in searched.path.parent.iterdir()) == ["gate.py", "out.json", "state", "words"]


@pytest.mark.timing
def test_the_report_has_the_documented_form(searched: Searched) -> None:
    report = searched.report
    assert set(report) == {
        "problem",
        "device",
        "environment",
        "baselines",
        "attempts",
        "best",
        "run",
        "spend",
        "steering",
    }
    assert report["problem"] == {"path": str(searched.path), "class": "Model", "mode": "eval"}
    assert report["device"] == "cpu"
    assert report["environment"]["shapes"] == ["256x1024"]
    assert report["environment"]["interpreter"]
    assert report["baselines"]["eager_ms"] > 0
    assert report["baselines"]["compile_ms"] is None
    assert [attempt["node"] for attempt in report["attempts"]] == list(range(1, len(report["attempts"]) + 1))
    for attempt in report["attempts"]:
        measured = {"runtime_ms", "speedup_vs_eager", "interval"}
        assert set(attempt) == {
            "node",
            "parent",
            "agent",
            "plan",
            "status",
            "message",
            "notes",
            "corrections",
            "model",
            "second_parent",
            *measured,
        }
        assert attempt["parent"] < attempt["node"]
        assert attempt["agent"] in {"code", "debug"}
        assert all((attempt[name] is not None) == (attempt["status"] == "OK") for name in measured)
    best = report["best"]
    assert best["eager_ms"] > best["runtime_ms"]
    assert best["compile_ms"] is None
    figures = {
        "runtime_ms",
        "eager_ms",
        "compile_ms",
        "speedup_vs_eager",
        "speedup_vs_compile",
        "speedup_vs_max_autotune",
        "interval",
        "profile",
        "isolation",
        "notes",
    }
    assert set(best) == {"node", "source", *figures}
    assert best["profile"] is not None
    low, high = best["interval"]
    assert 1 < low <= best["speedup_vs_eager"] <= high
    assert best["speedup_vs_compile"] is None
    assert "class ModelNew" in best["source"]
    compile(best["source"], "candidate.py", "exec")
    assert report["run"]["state"] == "finished"


@pytest.mark.timing
def test_the_run_is_kept_and_shown(searched: Searched) -> None:
    run_id = searched.report["run"]["id"]
    assert run_id in stark("runs", state=searched.state).stdout
    shown = stark("runs", "show", run_id[:4], "--json", state=searched.state)
    assert json.loads(shown.stdout) == searched.report


@pytest.mark.timing
def test_the_proposal_works_where_it_was_applied(searched: Searched, tmp_path: Path) -> None:
    run_id = searched.report["run"]["id"]

    def applied(mode: str) -> Path:
        done = stark("runs", "apply", run_id, "--write", mode, state=searched.state)
        assert done.returncode == 0, done.stderr
        written = Path(done.stdout.splitlines()[0].removeprefix("Written: "))
        assert f"Run {run_id}" in written.read_text()
        return written

    try:
        replaced = Path(shutil.copy(applied("replace"), tmp_path / "replaced.py"))
        assert "class ModelNew" not in replaced.read_text()
    finally:
        searched.path.write_text(CHAIN)
    beside = applied("module")
    assert searched.path.read_text() == CHAIN
    works(replaced, "Model", beside, "ModelNew")
    beside.unlink()


@pytest.mark.slow
@pytest.mark.timing
def test_write_puts_the_proposal_into_the_file_and_quiet_prints_the_patch_alone(tmp_path: Path) -> None:
    path = tmp_path / "gate.py"
    path.write_bytes(CHAIN.replace("\n", "\r\n").encode())
    path.chmod(0o640)
    done = stark(
        "optimize",
        "gate.py::Model",
        *QUICK,
        *("--budget", "1", "--write", "beside", "--diff", "--quiet"),
        state=tmp_path / "state",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("--- a/gate.py\n+++ b/gate.py\n@@ ")
    assert path.stat().st_mode & 0o777 == 0o640
    raw = path.read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n"), "line ends are kept"
    original = write(tmp_path, "original.py", CHAIN)
    patch = write(tmp_path, "gate.patch", done.stdout)
    subprocess.run(["patch", "-s", original, patch], check=True, stdin=subprocess.DEVNULL)
    assert original.read_bytes() == raw.replace(b"\r\n", b"\n"), "the patch is the edit"
    works(path, "ModelNew")


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("elsewhere", [True, False])
def test_what_changes_during_the_search_stays(elsewhere: bool, tmp_path: Path) -> None:
    path, out = write(tmp_path, "gate.py", CHAIN), tmp_path / "out.json"
    mine = (
        CHAIN + "\n# a line of mine\n"
        if elsewhere
        else CHAIN.replace("def forward(", "def before(self):\n        pass\n\n    def forward(")
    )
    assert mine != CHAIN
    options = (*QUICK, "--budget", "1", "--write", "replace", "--json", out)
    process = begin("optimize", path, *options, state=tmp_path / "state")
    assert process.stdout is not None
    for text in process.stdout:
        if text.lstrip().startswith("1 "):
            break
    path.write_text(mine)
    rest, errors = process.communicate(timeout=240)
    assert "what the class calls, and imports" in rest, "the proposal is shown in any case"
    assert path.read_text().endswith("# a line of mine\n") is elsewhere
    assert (process.returncode, path.read_text() == mine) == ((0, False) if elsewhere else (2, True)), rest + errors
    assert json.loads(out.read_text())["best"] is not None, "and its report is kept"


@pytest.mark.slow
@pytest.mark.ci
def test_where_nothing_can_be_proposed_it_says_so_with_exit_code_3(tmp_path: Path) -> None:
    path, page = write(tmp_path, "linear.py", LINEAR), tmp_path / "run.html"
    done = stark("optimize", path, *QUICK, "--json", "-", "--brief", "--report", page, state=tmp_path / "state")
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    assert report["best"] is None
    assert report["attempts"] == []
    assert report["baselines"]["eager_ms"] > 0
    assert "nothing to propose" in done.stderr, "with --json - the words go to standard error"
    assert f"Report: {page}" in done.stderr
    assert report["run"]["id"] in page.read_text(encoding="utf-8")
