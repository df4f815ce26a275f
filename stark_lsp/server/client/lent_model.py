"""The editor's own model, asked through requests to the client.

    stark/model/describe   {named} -> {models: [{id, name?}], consent?: given | refused | unasked}
    stark/model/complete   what `agents/models/editor.py` says

The first is answered at once and asks nobody, the second may ask the user for consent. A call that is not
needed any more is withdrawn with `$/cancelRequest`, and nothing waits for its answer.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcException

from stark_lsp.core.errors import BadInput, Fault
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


async def obstacle(server: StarkServer, named: bool) -> BadInput | None:
    """Ask the client what it has; return why its model cannot be asked, None if it can.

    Parameters
    ----------
    named
        The user chose the editor's model by its name, so a client may forget that it was once refused.
    """
    try:
        answer = await server.ask_own(DESCRIBE, {"named": named}, DESCRIBE_S)
    except JsonRpcException as error:
        return BadInput(f"The editor does not say which models it has: {plain(str(error), 200)}")
    except asyncio.TimeoutError:
        return BadInput("The editor did not say in time which models it has.", cure="Try again in a moment.")
    return obstacle_in(answer)


def obstacle_in(answer: Any) -> BadInput | None:
    """Return why a model cannot be asked by the answer to `stark/model/describe`, None if it can."""
    models = answer.get("models") if isinstance(answer, dict) else None
    if not isinstance(models, list) or not any(isinstance(model, dict) for model in models):
        cure = "Enable one there, or choose another in stark.model."
        return BadInput("The editor has no language model.", cure=cure)
    if answer.get("consent") == "refused":
        cure = "Allow it in the editor's settings of language models, or choose another in stark.model."
        return BadInput("STARK may not use the editor's language model.", cure=cure)
    return None
