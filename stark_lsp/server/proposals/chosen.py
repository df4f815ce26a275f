"""A candidate that the user names: any verified attempt of any run that is over can be reviewed and accepted.

It is put up in the place of what is proposed on its class; from there on it is a proposal like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stark_lsp.core.errors import BadInput

if TYPE_CHECKING:
    from stark_lsp.core.run import Node
    from stark_lsp.server.runs.desk import Desk
    from stark_lsp.server.runs.views import RunView


def put_up(desk: Desk, run_id: str, number: int) -> RunView:
    """Propose an attempt.

    Raises
    ------
    BadInput
        There is no such run, the attempt was not verified, or a run on the class goes on.
    Fault
        The store cannot be read.
    """
    stored = desk.store().load(run_id)
    run, node = stored.run, stored.nodes.get(number)
    if number == 0 or node is None or node.verdict is None or not node.verdict.ok:
        raise BadInput(f"Run {run_id} has no verified attempt {number}.", cure="Only what was verified is proposed.")
    problem, known = run.problem, desk.find(run_id)
    path = known.path if known is not None else desk.path_now(run)  # the file may have been moved since
    view = desk.on(path, problem.qualname)
    if not run.state.over or (view is not None and view.active):
        raise BadInput(f"A run on {problem.class_name} goes on.", cure="Cancel it first; what it found is kept.")
    offer = view.offer if view is not None else None
    if offer is not None and offer.id == run_id and offer.best is not None and offer.best.id == number:
        return offer
    if offer is not None:
        desk.put_away(offer)
    if run.best != number:
        stored = replace(stored, run=replace(run, best=number, message=_message(node)))
    shown = desk.show(stored, path)
    assert shown is not None  # it has a best, and nothing is in its way
    shown.chosen = True
    return shown


def _message(node: Node) -> str:
    """Return what it gains; unlike the run's own proposal, it may never have been tried inside the file."""
    from stark_lsp.runs.finalists import gain_message

    gain = gain_message(node) if node.verdict is not None and node.verdict.speedup_vs_eager is not None else "Verified."
    return f"{gain} It is not the run's own proposal, so it was not tried inside the file."


def next_after(view: RunView) -> int | None:
    """Return the verified attempt that ranks after the proposed one, after the last the first; None if there is one."""
    from stark_lsp.runs.finalists import pick

    if view.best is None:
        return None
    order = pick(node for node in view.nodes.values() if node.id)
    # Of attempts with the same source only the first is ranked.
    sources = [node.candidate.source for node in order]
    following = order[(sources.index(view.best.candidate.source) + 1) % len(order)]
    return following.id if len(order) > 1 else None
