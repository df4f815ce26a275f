"""Where things stand, for a place of the editor that always shows it: the request `stark/status`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from stark_lsp.cli.terminal import figures
from stark_lsp.core.errors import BadInput
from stark_lsp.server.client.configuration import Configuration
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.runs.desk import Desk
from stark_lsp.server.runs.views import Phase, RunView
from stark_lsp.server.text import spending, wording
from stark_lsp.server.text.folders import configuration_of, open_folders, settings_folder
from stark_lsp.server.text.markup import plain
from stark_lsp.server.text.positions import path_of

STATUS = "stark/status"


def short(view: RunView) -> str:
    """Return how far a run is in the fewest words: `2/4, best 3.10x`."""
    if view.phase is Phase.QUEUED:
        return "waits for its turn"
    if not view.attempts:
        return "preparing"
    best = wording.best_of(node for node in view.nodes.values() if node.parent is not None)
    gain = wording.gain(best.verdict) if best is not None else None
    told = f"{view.attempts}/{max(view.budget.attempts, 1)}"
    return told if gain is None else f"{told}, best {figures.times(gain.value)}"


def register(server: StarkServer, desk: Desk) -> None:
    """Answer the request."""

    @server.feature(STATUS)
    async def status(params: Any) -> dict[str, Any]:
        uri = params.get("uri") if isinstance(params, dict) else None
        active = desk.active()
        view = next((one for one in active if one.phase is Phase.RUNNING), active[0] if active else None)
        path = view.path if view is not None else path_of(uri) if isinstance(uri, str) else None
        folders = open_folders(server)
        configuration = configuration_of(server, path) if path is not None else server.configuration
        folder = settings_folder(server, path) if path is not None else None
        interpreter = await asyncio.to_thread(_interpreter, configuration, path, folder, folders) if path else ""
        facts = {
            "model": _model(view, configuration),
            "device": _device(view, configuration),
            "interpreter": interpreter,
            "cost": spending.spent(view.spend, view.budget) if view is not None else "",
        }
        offers = [one for one in desk.views if one.phase is Phase.OFFERED]
        answer: dict[str, Any] = {"state": "ready", "text": "ready", "run": None, **facts}
        if view is not None:
            state = "paused" if view.paused else view.phase.value
            answer |= {"state": state, "text": f"{state} {short(view)}", "run": view.id}
            if state == Phase.QUEUED.value:
                answer["text"] = short(view)
        elif offers:
            proposals = figures.count(len(offers), "proposal")
            answer |= {"state": Phase.OFFERED.value, "text": f"{proposals} to review", "run": offers[0].id}
        return answer


def _model(view: RunView | None, configuration: Configuration) -> str:
    model = view.run.model if view is not None else str(configuration["model"])
    return "auto" if model == spending.UNSETTLED else spending.who(model, view.asked if view is not None else {})


def _device(view: RunView | None, configuration: Configuration) -> str:
    reference = view.reference if view is not None else None
    return plain(reference.environment.device, 120) if reference is not None else configuration.device.value


def _interpreter(configuration: Configuration, path: str, folder: str | None, folders: Sequence[str]) -> str:
    """Return the Python that a file is judged under; where what is set cannot be used, why."""
    from stark_lsp.evaluation.lookup import find_interpreter

    try:
        return find_interpreter(configuration.interpreter(folder), path, folders).path
    except BadInput as error:
        return wording.sentence(error)
