"""The command that shows a run in a browser, in any editor."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_editor import MODULE, published, session
from pytest_lsp import client_capabilities
from stored_runs import leave

pytestmark = [pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")]


async def test_the_report_of_a_run_is_opened_outside_of_the_editor(tmp_path: Path) -> None:
    file, state = tmp_path / "model.py", tmp_path / "state"
    file.write_text(MODULE)
    async with session(published(), state) as editor:
        none = await editor.execute("stark.openReport")
        assert (none["status"], "no run yet" in none["message"]) == ("error", True)
        leave(state, file, "r1")
        leave(state, file, "r2", created="2026-01-02T00:00:00+00:00")
        newest = await editor.execute("stark.openReport")
        named = await editor.execute("stark.openReport", {"run": "r1"})
        assert [one["status"] for one in (newest, named)] == ["showing", "showing"]
        assert [Path(one["path"]) for one in (newest, named)] == [
            state / "reports" / "r2.html",
            state / "reports" / "r1.html",
        ]
        assert "run r2" in Path(newest["path"]).read_text(encoding="utf-8")
        await editor.until(lambda: len(editor.client.shown_documents) == 2, "the reports")
        assert {params.uri for params in editor.client.shown_documents} == {
            (state / "reports" / f"{run}.html").as_uri() for run in ("r1", "r2")
        }
        assert all(params.external for params in editor.client.shown_documents)
        wrong = await editor.execute("stark.openReport", {"run": "zz"})
        assert (wrong["status"], "'zz'" in wrong["message"]) == ("error", True)


async def test_a_client_that_opens_nothing_is_told_where_the_report_is(tmp_path: Path) -> None:
    file, state = tmp_path / "model.py", tmp_path / "state"
    file.write_text(MODULE)
    leave(state, file, "r1")
    async with session(client_capabilities("emacs"), state) as editor:
        answer = await editor.execute("stark.openReport")
        assert answer["status"] == "written"
        assert answer["path"] in await editor.until_message("is the report")
        assert editor.client.shown_documents == []
