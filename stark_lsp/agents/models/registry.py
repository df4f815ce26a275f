"""Models by name: who can be asked, and how each is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from stark_lsp.agents.models.editor import EditorChannel
from stark_lsp.agents.models.patience import Patience
from stark_lsp.agents.models.sdk import Agree, provide
from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.agent_settings import SILENCE_S
from stark_lsp.core.conversation import Exchange, Model


async def _no_key() -> Secret | None:
    return None


@dataclass(frozen=True)
class Wanted:
    """What a builder is given."""

    argument: str = ""
    """What stands behind the colon, for instance the model's name in `anthropic:NAME`."""
    find_key: Callable[[], Awaitable[Secret | None]] = _no_key
    """Looks for the API key; called by builders that need one."""
    editor: EditorChannel | None = None
    """The way to the editor's model, None where the editor lends none."""
    exchanges: Iterable[Exchange] = ()
    """Of the transcript that is replayed."""
    lenses: bool = False
    """Whether its plans were asked for with lenses."""
    silence_s: float = SILENCE_S
    """Longest time in which nothing arrives of an answer."""
    on_wait: Callable[[str], None] | None = None
    """Told, for a person, when a service is waited for."""
    agree: Agree | None = None
    """Asks the user whether an SDK may be installed; None where nobody can be asked."""
    address: str = ""
    """Where the service is, from `openai:NAME@ADDRESS`; empty for what the environment names."""


ModelBuilder = Callable[[Wanted], Awaitable[Model]]
"""Builds a model; raises BadInput where what it needs is not there."""


async def _anthropic(wanted: Wanted) -> Model:
    from stark_lsp.agents.models.anthropic import AnthropicModel

    await provide("anthropic", wanted.agree, wanted.on_wait)
    patience = Patience(silence=wanted.silence_s)
    model = AnthropicModel(await wanted.find_key(), name=wanted.argument, patience=patience, on_wait=wanted.on_wait)
    await model.prepare()
    return model


async def _openai(wanted: Wanted) -> Model:
    from stark_lsp.agents.models.openai import OpenAIModel

    await provide("openai", wanted.agree, wanted.on_wait)
    patience = Patience(silence=wanted.silence_s)
    model = OpenAIModel(wanted.argument, wanted.address, patience=patience, on_wait=wanted.on_wait)
    await model.prepare()
    return model


async def _editor(wanted: Wanted) -> Model:
    from stark_lsp.agents.models.editor import EditorModel

    assert wanted.editor is not None  # `runs.choice` refuses it else
    return EditorModel(wanted.editor)


async def _replay(wanted: Wanted) -> Model:
    from stark_lsp.agents.models.replay import ReplayModel

    name = f"replay:{wanted.argument}" if wanted.argument else "replay"
    return ReplayModel(wanted.exchanges, name, lenses=wanted.lenses)


BUILDERS: dict[str, ModelBuilder] = {
    "anthropic": _anthropic,
    "editor": _editor,
    "openai": _openai,
    "replay": _replay,
}
"""By the word before the colon."""
