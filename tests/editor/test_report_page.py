"""The page of a run in a real browser: it runs nothing, loads nothing, and works by mouse, keyboard and screen reader.

What it needs is what `tests/editor/vscode/setup.sh` installs; where that is not there, it is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cli"))

from cli_cases import CHAIN, write
from cli_runs import finished_run, node, plan

from stark_lsp.cli.page import run_page
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.store import RunStore

HOME = Path(os.environ.get("STARK_VSCODE_HOME") or Path.home() / ".cache" / "stark-vscode-test")
CHROMIUM = os.environ.get("STARK_CHROMIUM", "/usr/bin/chromium")
EVIL = "</script></style><img src=x onerror=alert(1)><script>alert(2)</script>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.editor,
    pytest.mark.skipif(
        not (HOME / "node_modules" / "playwright-core").is_dir(), reason=f"no playwright-core in {HOME}"
    ),
    pytest.mark.skipif(not (HOME / "node_modules" / "axe-core").is_dir(), reason=f"no axe-core in {HOME}"),
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=f"no browser: {CHROMIUM}"),
]


def test_a_page_with_a_large_tree_and_hostile_texts_in_a_browser(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    statuses = [status for status in VerdictStatus if status.failed]
    for number in range(4, 201):
        verdict = Verdict(statuses[number % len(statuses)], EVIL, log=EVIL)
        made = node(number, number // 3, verdict, replace(plan(EVIL), advice=EVIL))
        nodes[number] = replace(made, candidate=replace(made.candidate, source=EVIL + "x = 1\n" * number))
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(run, nodes.values())
    page = run_page.write(store, run.id, tmp_path / "run.html")

    command = ["node", Path(__file__).parent / "report_page.mjs", HOME, page, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["errors"] == []
    assert set(told["requests"]) == {page.as_uri()}
    assert told["violations"] == {"light": [], "dark": []}
    # The proposal's at first; by a click; by the keyboard; back again; by the plot.
    below = next(number for number in sorted(nodes) if nodes[number].parent == 2)
    assert told["shown"] == [["n1"], ["n2"], [f"n{below}"], ["n2"], ["n1"], ["n1"]]
