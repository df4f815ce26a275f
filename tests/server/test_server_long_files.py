"""What takes long on a long file goes on beside the event loop, so that typing never waits for it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from server_views import TEXT, node, plan, verified, view

from stark_lsp.core.errors import BadInput
from stark_lsp.discovery import problems
from stark_lsp.runs import formatting
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.proposals.offering import Proposals
from stark_lsp.server.runs.desk import Desk
from stark_lsp.server.runs.views import Phase
from stark_lsp.server.text.positions import uri_of


class Work:
    """Something slow, which ends only when the event loop gets to say so."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, *arguments: object, **options: object) -> NoReturn:
        self.begun.set()
        if not self.released.wait(10):
            raise AssertionError("the event loop had to wait for it")
        raise BadInput("Released by the event loop.")


async def release(work: Work) -> None:
    while not work.begun.is_set():
        await asyncio.sleep(0.005)
    work.released.set()


async def test_a_class_is_read_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, work = tmp_path / "model.py", Work()
    file.write_text(TEXT)
    monkeypatch.setattr(problems, "make_problem", work)
    # Settings are read for a folder of the workspace, which is known once a client has spoken.
    monkeypatch.setattr("stark_lsp.server.runs.desk.settings_folder", lambda server, path: None)
    server = StarkServer()
    server.configured.set()
    desk = Desk(server)
    with pytest.raises(BadInput, match="Released by the event loop"):
        await asyncio.gather(desk.optimize(uri_of(file), "Model"), release(work))


async def test_an_edit_is_made_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, server = Work(), StarkServer()
    monkeypatch.setattr(formatting, "build_edit", work)
    monkeypatch.setattr("stark_lsp.server.proposals.offering.os.path.exists", lambda path: True)
    monkeypatch.setattr("stark_lsp.server.text.documents.read_file", lambda path: TEXT)
    best = node(1, 0, plan("Fuse"), verified(2.0))
    shown = view(best)
    shown.phase, shown.best = Phase.OFFERED, best
    with pytest.raises(BadInput, match="Released by the event loop"):
        await asyncio.gather(Proposals(server, Desk(server)).prepare(shown), release(work))
