"""The editor's own model, asked through requests to the client.

    stark/model/describe   {named} -> {models: [{id, name?}], consent?: given | refused | unasked}
    stark/model/complete   what `agents/models/editor.py` says

The first is answered at once and asks nobody, the second may ask the user for consent. A call that is not
needed any more is withdrawn with `$/cancelRequest`, and nothing waits for its answer.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcException

from stark_lsp.core.errors import Fault
from stark_lsp.server.text.markup import plain

if TYPE_CHECKING:
    from stark_lsp.server.language_server import StarkServer

DESCRIBE = "stark/model/describe"
COMPLETE = "stark/model/complete"
DESCRIBE_S = 10.0
"""Seconds for the client to say what it has; an editor may have to wake an extension."""
COMPLETE_S = 1800.0
"""Seconds after which a client is taken to have forgotten a question."""
LIMIT = 4_000_000
"""Characters of one answer."""


@dataclass(frozen=True)
class Offer:
    """What the client says of its model."""

    usable: bool
    problem: str = ""
    """Why it cannot be asked, one sentence; empty if it can."""
    cure: str = ""


class LentModel:
    """The `EditorChannel` of this client."""

    def __init__(self, server: StarkServer) -> None:
        self._server = server

    async def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the model and return its answer.

        Raises
        ------
        Fault
            The editor did not answer, or not with an answer.
        """
        cure = "Optimize the class again to go on; if it happens again, choose another model in stark.model."
        try:
            answer = await self._server.ask_own(COMPLETE, params, COMPLETE_S)
        except JsonRpcException as error:
            raise Fault(f"The editor could not ask its model ({plain(str(error), 300)}).", cure=cure) from error
        except asyncio.TimeoutError as error:
            raise Fault(f"The editor's model was silent for {COMPLETE_S / 60:g} minutes.", cure=cure) from error
        if not isinstance(answer, dict) or not _bearable(answer):
            raise Fault("The editor's model gave an answer that cannot be read.", cure=cure)
        return answer


def _bearable(answer: dict[str, Any]) -> bool:
    """Whether an answer is plain JSON of a size that can be worked with."""
    try:
        return len(json.dumps(answer)) <= LIMIT
    except (TypeError, ValueError, RecursionError):
        return False


async def look(server: StarkServer, named: bool) -> Offer:
    """Ask the client what it has.

    Parameters
    ----------
    named
        The user chose the editor's model by its name, so a client may forget that it was once refused.
    """
    try:
        answer = await server.ask_own(DESCRIBE, {"named": named}, DESCRIBE_S)
    except JsonRpcException as error:
        return Offer(False, f"The editor does not say which models it has: {plain(str(error), 200)}")
    except asyncio.TimeoutError:
        return Offer(False, "The editor did not say in time which models it has.", "Try again in a moment.")
    return read_offer(answer)


def read_offer(answer: Any) -> Offer:
    """Read the answer to `stark/model/describe`."""
    models = answer.get("models") if isinstance(answer, dict) else None
    if not isinstance(models, list) or not any(isinstance(model, dict) for model in models):
        return Offer(False, "The editor has no language model.", "Enable one there, or choose another in stark.model.")
    if answer.get("consent") == "refused":
        return Offer(
            False,
            "STARK may not use the editor's language model.",
            "Allow it in the editor's settings of language models, or choose another in stark.model.",
        )
    return Offer(True)
