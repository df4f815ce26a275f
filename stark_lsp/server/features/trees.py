"""Runs and their trees for a view of the editor's: requests of our own, and a word when something changed.

1. `stark/runs`, `stark/runs/tree` and `stark/runs/text` are read from the store, so runs of terminals and of other
   windows are there as well; `docs/clients.md` describes them.
2. A client that provides `runs` is told `stark/runs/changed` once it has asked. The store's file is watched for that,
   by the system's own means: where nothing changes, nothing is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcInvalidParams

from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.core.setting import shown
from stark_lsp.server.client.abilities import RUNS_VIEW

if TYPE_CHECKING:
    from rich.console import Console

    from stark_lsp.core.run import Node, Run
    from stark_lsp.core.verdict import Verdict
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk
    from stark_lsp.server.runs.views import UnderWay
    from stark_lsp.server.runs.watching import Watching
    from stark_lsp.store import RunStore, StoredRun

RUNS, TREE, TEXT = "stark/runs", "stark/runs/tree", "stark/runs/text"
CHANGED = "stark/runs/changed"
"""Notification to the client: what it was answered may be another thing by now."""

LIMIT, MOST = 50, 1000
"""Runs that are listed where the client names no number, and where it names a large one."""


class Part(str, Enum):
    """What there is to read of an attempt."""

    SOURCE = "source"
    """Its candidate; of attempt 0 the original class."""
    PLAN = "plan"
    VERDICT = "verdict"
    """What came of it, with its figures, its profile and its log."""
    PROFILE = "profile"
    PROMPTS = "prompts"
    """What was asked and answered."""
    EVIDENCE = "evidence"
    """Plan and verdict."""


def register(server: StarkServer, desk: Desk, watching: Watching) -> None:
    """Answer the requests."""

    @server.feature(RUNS)
    async def runs(params: Any) -> dict[str, Any]:
        if RUNS_VIEW in server.provides:
            watching.watch_store(lambda: server.protocol.notify(CHANGED, {}))
        here = {view.id: view.paused for view in desk.active()}
        return await _answer(_runs, desk, _fields(params).get("limit"), here)

    @server.feature(TREE)
    async def tree(params: Any) -> dict[str, Any]:
        run = _run_of(params)
        view = desk.find(run)
        here = {view.id: view.paused for view in desk.active()}
        return await _answer(_tree, desk, run, here, view.under_way() if view is not None else {})

    @server.feature(TEXT)
    async def text(params: Any) -> dict[str, Any]:
        fields = _fields(params)
        return await _answer(_text, desk, _run_of(params), fields.get("node"), fields.get("part"))


async def _answer(make: Any, *arguments: Any) -> dict[str, Any]:
    """Return what `make` returns, from a thread; what a user can mend is told as the request's error."""
    try:
        answer: dict[str, Any] = await asyncio.to_thread(make, *arguments)
    except StarkError as error:
        raise JsonRpcInvalidParams(str(error)) from error
    return answer


def _fields(params: Any) -> dict[str, Any]:
    return params if isinstance(params, dict) else {}


def _run_of(params: Any) -> str:
    run = _fields(params).get("run")
    if not isinstance(run, str) or not run:
        raise JsonRpcInvalidParams("No run was named: give {run}.")
    return run


# --- in threads: everything that reads the store ------------------------------------------------------


def _runs(desk: Desk, limit: Any, here: Mapping[str, bool]) -> dict[str, Any]:
    from stark_lsp.store.paths import default_store_path

    if not default_store_path().exists():
        return {"runs": [], "more": False}
    store = desk.store()
    store.mark_interrupted()
    most = min(limit, MOST) if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else LIMIT
    found = store.list(limit=most + 1)
    return {
        "runs": [_run(store, run, _best(store, run), here) for run in found[:most]],
        "more": len(found) > most,
    }


def _best(store: RunStore, run: Run) -> Verdict | None:
    """Return the verdict of the leader; the tree is read only of runs under way, which are few."""
    from stark_lsp.server.features import tree_items

    if run.best is not None:
        return store.verdict(run.id, run.best)
    if run.state.over:
        return None
    nodes = store.load(run.id).nodes
    first = tree_items.leader(run, nodes)
    return nodes[first].verdict if first is not None else None


def _run(store: RunStore, run: Run, best: Verdict | None, here: Mapping[str, bool]) -> dict[str, Any]:
    from stark_lsp.core.steering import course
    from stark_lsp.server.features import tree_items

    paused = not run.state.over and course(said for _, said in store.steerings.since(run.id)).paused
    spend = store.exchanges.spend(run.id)
    return tree_items.of_run(run, best, spend, here=run.id in here, paused=here.get(run.id, paused))


def _tree(desk: Desk, run_id: str, here: Mapping[str, bool], under_way: Mapping[int, UnderWay]) -> dict[str, Any]:
    from stark_lsp.core.steering import course
    from stark_lsp.server.features import tree_items

    store = desk.store()
    stored = store.load(run_id)
    run, nodes = stored.run, stored.nodes
    first = tree_items.leader(run, nodes)
    now = course(said for _, said in store.steerings.since(run.id))
    return {
        "run": _run(store, run, nodes[first].verdict if first is not None else None, here),
        "nodes": tree_items.of_tree(run, nodes, now, under_way),
        "leader": first,
    }


def _text(desk: Desk, run_id: str, number: Any, part: Any) -> dict[str, Any]:
    from stark_lsp.cli.terminal import console

    try:
        wanted = Part(part)
    except ValueError as error:
        names = ", ".join(one.value for one in Part)
        raise BadInput(f"There is no part {shown(part)}.", cure=f"Give one of {names}.") from error
    store = desk.store()
    stored = store.load(run_id)
    node = stored.nodes.get(number) if isinstance(number, int) and not isinstance(number, bool) else None
    if node is None:
        raise BadInput(f"Run {run_id} has no attempt {shown(number)}.")
    title = f"{stored.run.problem.class_name} attempt {node.id}" if node.id else stored.run.problem.class_name
    if wanted is Part.SOURCE:
        return {"title": title, "language": "python", "text": node.candidate.source}
    page = console.page(lambda out: _show(out, store, stored, node, wanted))
    language = "markdown" if wanted in (Part.PLAN, Part.EVIDENCE) else "plaintext"  # an advice is Markdown
    return {"title": f"{title}: {wanted.value}", "language": language, "text": f"{page}\n"}


def _show(out: Console, store: RunStore, stored: StoredRun, node: Node, part: Part) -> None:
    """Show what was asked for, as `stark-lsp runs show --node` does."""
    from stark_lsp.cli.output import profiles
    from stark_lsp.cli.runs import attempt_page

    run = stored.run
    attempt_page.show_heading(out, run, node.id, node)
    if part in (Part.PLAN, Part.EVIDENCE):
        attempt_page.show_plan(out, node)
    if part in (Part.VERDICT, Part.EVIDENCE):
        attempt_page.show_outcome(out, run, node)
    if part is Part.PROFILE and node.verdict is not None:
        profiles.show(out, node.id, node.verdict, run.reference)
    if part is Part.PROMPTS:
        attempt_page.show_exchanges(out, store.exchanges.list(run.id, node.id), with_attempt=False)
