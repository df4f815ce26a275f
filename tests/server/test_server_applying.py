"""Edits that the editor does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lsprotocol import types
from server_views import view

from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.proposals.offering import Proposals
from stark_lsp.server.runs.desk import Desk


async def never(*arguments: Any) -> None:
    await asyncio.Event().wait()


async def test_an_editor_that_never_answers_an_edit_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = StarkServer()
    monkeypatch.setattr(server, "ask", never)
    assert await server.apply(types.WorkspaceEdit(), "an edit", 0.01) == "it does not answer"


async def test_a_proposal_that_is_being_accepted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    server, said = StarkServer(), []
    monkeypatch.setattr(server, "say", lambda text, **kind: said.append(text))
    proposals = Proposals(server, Desk(server))
    monkeypatch.setattr(proposals, "_accept", never)
    first = asyncio.ensure_future(proposals.accept(view()))
    await asyncio.sleep(0)
    await proposals.accept(view())
    assert said == ["STARK: the proposal for Model is being accepted."]
    first.cancel()
