"""The commands behind lenses, code actions and the editor's palette.

Each returns at once with a small JSON object; what takes longer goes on as a task. (pygls cannot
shut down cleanly while a command is in flight, and an editor may block until a command returns.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.server.features.lenses import ACCEPT, CANCEL, DISMISS, OPTIMIZE, REJECT, REVIEW, STATUS
from stark_lsp.server.features.preflight import Preflight
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.proposals import chosen
from stark_lsp.server.proposals.offering import Proposals
from stark_lsp.server.runs.desk import Desk
from stark_lsp.server.runs.kept import Kept
from stark_lsp.server.runs.views import Phase, RunView
from stark_lsp.server.text.markup import plain
from stark_lsp.server.text.positions import path_of
from stark_lsp.server.text.spending import who

Answer = dict[str, Any]


def named(arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the first argument of a command if that is an object, which names arguments; else an empty one."""
    return arguments[0] if arguments and isinstance(arguments[0], dict) else {}


def argument(arguments: Sequence[Any], index: int, *names: str) -> str:
    """Return a command's argument, by name or by position; empty if there is none."""
    given = named(arguments)
    value = next((given[name] for name in names if name in given), None)
    if value is None and index < len(arguments):
        value = arguments[index]
    return value if isinstance(value, str) else ""


def _node(arguments: Sequence[Any]) -> int | None:
    """Return the attempt that a first argument names, None if it names none.

    Raises
    ------
    BadInput
        It is no whole number; the run's own proposal must not take its place.
    """
    value = named(arguments).get("node")
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)  # as some clients write every number
    raise BadInput(f"{plain(str(value), 40)} is no attempt of a run.", cure="Give {run, node}, node as a whole number.")


def target(arguments: Sequence[Any]) -> tuple[str, str]:
    """Return the document and the class that a command is about.

    Raises
    ------
    BadInput
        It does not say.
    """
    uri, qualname = argument(arguments, 0, "uri"), argument(arguments, 1, "class", "qualname")
    if not uri or not qualname:
        raise BadInput("This command needs a document and a class.", cure="Use the lens on the class line.")
    return uri, qualname


def status_line(view: RunView) -> str:
    """Return where a run stands, one line."""
    answering = who(view.run.model, view.asked)
    state = f"paused, {view.status}" if view.paused else view.status
    return f"STARK: {view.problem.class_name}: {plain(state, 200)} ({answering}, run {view.id})"


def status_of(view: RunView) -> Answer:
    """Return where a run stands, as JSON."""
    from stark_lsp.core.wire import to_wire

    return {
        "run": view.id,
        "uri": view.uri,
        "class": view.problem.qualname,
        "phase": view.phase.value,
        "paused": view.paused,
        "model": view.run.model,
        "system": view.run.settings.get("system", ""),
        "text": view.status,
        "attempts": view.attempts,
        "budget": to_wire(view.budget),
        "spend": to_wire(view.spend) if view.spend is not None else None,
        "pinned": view.course.pinned,
        "pruned": sorted(view.course.pruned),
    }


def register(server: StarkServer, desk: Desk, proposals: Proposals, preflight: Preflight, kept: Kept) -> None:
    """Register the commands."""

    def view_of(arguments: Sequence[Any]) -> RunView:
        run, node = argument(arguments, 0, "run"), _node(arguments)
        if node is not None:
            return chosen.put_up(desk, run, node)
        if run:
            view = desk.find(run, offered=True) or desk.restore(run)
            if view is None:
                raise BadInput(
                    f"Run {run[:40]} has no open proposal.",
                    cure=f"Name one of its attempts, {{run, node}}, or use `stark-lsp runs apply {run[:40]}`.",
                )
            return view
        offered = [view for view in desk.views if view.phase is Phase.OFFERED]
        if len(offered) != 1:
            raise BadInput(
                f"There are {len(offered)} open proposals." if offered else "There is no open proposal.",
                cure="Use the lens on the class line.",
            )
        return offered[0]

    @server.command(OPTIMIZE)
    async def optimize(*arguments: Any) -> Answer:
        uri, qualname = argument(arguments, 0, "uri"), argument(arguments, 1, "class", "qualname")
        try:
            uri, qualname = await target_at(server, arguments)
            wish = named(arguments)
            if isinstance(run := wish.get("run"), str):
                view, new = await desk.optimize(uri, qualname, await asyncio.to_thread(desk.store().get, run))
            elif wish.get("again") is not True and (offer := await kept.standing(uri, qualname)) is not None:
                server.spawn(kept.ask_again(offer), "asking whether to search anew")
                return {"status": "asking", "run": offer.id}
            else:
                view, new = await desk.optimize(uri, qualname)
        except StarkError as error:
            preflight.refuse(uri, qualname, error)
            kept.look_soon(uri)  # what was offered may be gone
            return {"status": "error", "message": str(error)}
        preflight.passed(uri, qualname)
        status = "running" if not new else "queued" if len(desk.active()) > 1 else "started"
        return {"status": status, "run": view.id}

    @server.command(CANCEL)
    def cancel(*arguments: Any) -> Answer:
        run = argument(arguments, 0, "run")
        views = desk.active()
        if run:
            views = [view for view in views if view.id == run or run in view.aliases]
        stopped = [view.id for view in views if desk.cancel(view)]
        if not stopped:
            server.say(f"STARK: run {run[:40]} is not under way." if run else "STARK: no run is under way.")
        return {"status": "cancelling" if stopped else "idle", "runs": stopped}

    @server.own_command(REVIEW)
    async def review(*arguments: Any) -> Answer:
        view = view_of(arguments)
        if server.diff_view:
            return await proposals.compare(view)
        if not server.facts.show_document:
            # Its configuration may open the file.
            return {"status": "written", "run": view.id, "path": await proposals.review(view)}
        server.spawn(proposals.review(view), "the review")
        return {"status": "showing", "run": view.id}

    @server.own_command(ACCEPT)
    def accept(*arguments: Any) -> Answer:
        view = view_of(arguments)
        # Named by a lens or action of its document; from elsewhere the user may look at another file.
        caret = bool(argument(arguments, 0, "run"))
        made = named(arguments).get("made") is True
        server.spawn(proposals.accept(view, caret=caret, made=made), "accepting the proposal")
        return {"status": "applying", "run": view.id}

    @server.own_command(REJECT)
    def reject(*arguments: Any) -> Answer:
        view = view_of(arguments)
        server.spawn(proposals.reject(view, argument(arguments, 1, "reason")), "rejecting the proposal")
        return {"status": "rejecting", "run": view.id}

    @server.command(STATUS)
    async def status(*arguments: Any) -> Answer:
        interrupted = await kept.lines()
        views = desk.views
        model = server.configuration["model"]
        lines = [*(status_line(view) for view in views), *interrupted]
        server.say("\n".join(lines) or f"STARK: no run. stark.model is {plain(model, 80)}.")
        return {"status": "told", "model": model, "runs": [status_of(view) for view in views]}

    @server.own_command(DISMISS)
    def dismiss(*arguments: Any) -> Answer:
        run = argument(arguments, 0, "run")
        views = [view] if run and (view := desk.find(run)) else [] if run else list(desk.views)
        if run and not views:
            raise BadInput(f"There is no run {run[:40]!r} to dismiss.")
        for view in views:
            desk.dismiss(view)
        return {"status": "dismissed", "runs": [view.id for view in views]}


async def target_at(server: StarkServer, arguments: Sequence[Any]) -> tuple[str, str]:
    """Return what `target` does; where a line stands in place of the class, the class at that line.

    Raises
    ------
    BadInput
        It does not say, or there is no class.
    """
    uri, qualname = argument(arguments, 0, "uri"), argument(arguments, 1, "class", "qualname")
    line = named(arguments).get("line")
    place = server.notebooks.place(uri)
    if place is not None and place.last is not None:
        uri, line = place.document.uri, line + place.first if isinstance(line, int) else None
    path = path_of(uri)
    if not qualname and isinstance(line, int) and path is not None:
        from stark_lsp.discovery.problems import class_at

        qualname = await asyncio.to_thread(class_at, path, server.documents.require(uri), line)
    return target([uri, qualname])
