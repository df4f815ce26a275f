"""What the client lends a run: an API key from its secret storage, its own model, its user's word."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from stark_lsp.core.errors import BadInput
from stark_lsp.server.client.abilities import LENT_KEY, LENT_MODEL
from stark_lsp.server.client.lent_model import LentModel, obstacle

if TYPE_CHECKING:
    from stark_lsp.agents.models.secret import Secret
    from stark_lsp.runs.providers import Providers
    from stark_lsp.server.client.keys import KeyHolder
    from stark_lsp.server.language_server import StarkServer


INSTALL, SIZE = "Install", "some 10 MB"


async def lend(server: StarkServer, keys: KeyHolder, model: str) -> Providers:
    """Return what the client lends a run.

    Parameters
    ----------
    model
        The setting `stark.model`: a client is asked only for what the run could use.

    Raises
    ------
    BadInput
        The editor's model is wanted, and cannot be asked.
    """
    from stark_lsp.agents.models.secret import ANTHROPIC_KEY, ANTHROPIC_TOKEN
    from stark_lsp.runs.providers import Providers

    kind = model.strip().partition(":")[0].lower()
    editor = None
    if kind in ("auto", "editor") and LENT_MODEL in server.provides:
        why = await obstacle(server, named=kind == "editor")
        if why is None:
            editor = LentModel(server)
        elif kind == "editor":
            raise why
        else:
            server.log(f"the editor's model is left out: {why.message}")
    agree = partial(_agree, server) if server.facts.message_actions else None
    if kind not in ("auto", "anthropic") or LENT_KEY not in server.provides:
        return Providers(editor=editor, agree=agree)
    # The user is asked to type a key only where the service is what they want, and nothing else will do.
    named = (ANTHROPIC_KEY, ANTHROPIC_TOKEN)
    ask = kind == "anthropic" and not any(os.environ.get(name, "").strip() for name in named)
    found: list[Secret | None] = []

    async def key() -> Secret | None:
        # Once for each run: a user who closed the question is not asked again and again.
        if not found:
            found.append(await keys.get(ask))
        return found[0]

    return Providers(key=key, editor=editor, agree=agree)


async def _agree(server: StarkServer, package: str, command: str) -> None:
    """Ask the user whether an SDK may be installed.

    Raises
    ------
    BadInput
        It may not.
    """
    text = (
        f"To ask the model, STARK needs the package {package} and what that needs ({SIZE}), installed once for all "
        "projects, in versions that were checked. Nothing of your project's environment changes."
    )
    server.log(f"{package} is installed by: {command}")
    if await server.choose(text, [INSTALL], f"STARK: to install {package}, run in a terminal: {command}") is None:
        raise BadInput(
            f"The package {package}, by which the model is asked, was not installed.",
            cure=f"Optimize again to install it, run in a terminal: {command}, or choose the playbook in stark.model, "
            "which needs no network.",
        )
