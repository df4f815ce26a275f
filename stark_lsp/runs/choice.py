"""Who answers a run: what the user wrote, and what `auto` comes to.

`auto` takes the first of these that is there: a key for the Messages API, a model that the editor lends, the playbook.
Whatever is chosen is told at the start, stands in the run's record, and is shown wherever the run is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from stark_lsp.agents.models.secret import ANTHROPIC_TOKEN
from stark_lsp.core.errors import BadInput
from stark_lsp.runs.providers import Providers

AUTO = "auto"
PLAYBOOK = "playbook"
ANTHROPIC = "anthropic"
OPENAI = "openai"
EDITOR = "editor"
REPLAY = "replay"
_HOST = r"localhost\b|\[|\d+(?:\.\d+){3}\b|[\w.-]+:\d+(?:/|$)|(?:[\w-]+\.)+[a-z]{2,}(?:/|$)"
_ADDRESS = re.compile(rf"@(?=[\w+.-]+://|$|{_HOST})", re.IGNORECASE)
"""Where an address begins, also one without `http://`, which is refused: the question went to OpenAI otherwise."""


@dataclass(frozen=True)
class ModelChoice:
    """Who answers."""

    kind: str
    """`playbook`, `anthropic`, `openai`, `editor` or `replay`."""
    argument: str = ""
    """The model's name, or the transcript's file; empty for the default."""
    address: str = ""
    """Where the service is, if that was said with the name."""
    why: str = ""
    """Why `auto` came to it, for a person; empty if the user named it."""

    @property
    def label(self) -> str:
        """What the run's record says: `anthropic:claude-sonnet-5`, `openai:qwen3@http://localhost:11434/v1`."""
        if self.kind == REPLAY:
            return f"{REPLAY}:{os.path.basename(self.argument)}"
        where = f"@{self.address}" if self.address else ""
        return f"{self.kind}:{self.argument}{where}" if self.argument else self.kind

    @property
    def learned(self) -> bool:
        """Whether a language model answers, now or when the transcript was made."""
        return self.kind != PLAYBOOK


def is_told_nothing(model: str) -> bool:
    """Whether whoever answers a run, by its record, reads no questions, so that a hint would be in none."""
    return model.partition(":")[0] in (PLAYBOOK, REPLAY)


def parse(text: str) -> ModelChoice | None:
    """Read what a user wrote; None is `auto`.

    Raises
    ------
    BadInput
        There is no such model, or a transcript is not named.
    """
    kind, _, argument = text.strip().partition(":")
    kind, argument = kind.lower(), argument.strip()
    if kind == AUTO and not argument:
        return None
    if kind in (PLAYBOOK, EDITOR) and not argument:
        return ModelChoice(kind)
    if kind == ANTHROPIC:
        return ModelChoice(kind, argument)
    if kind == OPENAI:
        return _at_an_address(argument)
    if kind == REPLAY:
        if not argument:
            raise BadInput("replay names no transcript.", cure="Write replay:FILE, a file that `runs export` wrote.")
        return ModelChoice(kind, os.path.abspath(os.path.expanduser(argument)))
    raise BadInput(
        f"There is no model {text[:80]!r}.",
        cure="Choose auto, playbook, anthropic, anthropic:NAME, openai:NAME, editor or replay:FILE.",
    )


def _at_an_address(argument: str) -> ModelChoice:
    """Read `NAME` or `NAME@http://…`; names have an `@` of their own at times."""
    found = _ADDRESS.search(argument)
    name = argument[: found.start()] if found else argument
    address = argument[found.start() + 1 :].rstrip("/") if found else ""
    if not name:
        raise BadInput(
            "openai names no model.",
            cure="Write openai:NAME, or openai:NAME@ADDRESS, with the name and address of the server.",
        )
    try:
        parts = urlsplit(address)
        plain = not found or (parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0)
    except ValueError:
        plain = False
    if not plain or "@" in address or "?" in address or "#" in address or not address.isprintable() or " " in address:
        # The address is left out: it may hold a password.
        raise BadInput(
            f"The address behind {name[:80]!r} is not one of a server.",
            cure="Write it as in openai:NAME@http://localhost:11434/v1; a key is set as OPENAI_API_KEY.",
        )
    return ModelChoice(OPENAI, name, address)


async def choose(text: str, providers: Providers, say: Callable[[str], None]) -> ModelChoice:
    """Decide who answers.

    Parameters
    ----------
    text
        What the user wrote.
    providers
        What the front end lends.
    say
        Told who was chosen, and why.

    Raises
    ------
    BadInput
        There is no such model, or what it needs is not there.
    """
    wanted = parse(text)
    chosen = wanted if wanted is not None else await _auto(providers)
    if chosen.kind == EDITOR and providers.editor is None:
        raise BadInput("This editor lends no model.", cure="Choose another one in stark.model, for instance playbook.")
    if chosen.kind == ANTHROPIC and not await _may_ask(providers):
        raise BadInput(
            "There is no API key for the model.",
            cure="Set ANTHROPIC_API_KEY, or run `STARK: Set API Key` in VS Code; or choose the model playbook.",
        )
    if chosen.kind == ANTHROPIC:
        from stark_lsp.agents.models import anthropic

        anthropic.check()
    if chosen.kind == OPENAI:
        from stark_lsp.agents.models import openai

        openai.check(chosen.address)
    why = f" ({chosen.why})" if chosen.why else ""
    say(f"Plans and kernels come from {spoken(chosen)}{why}")
    return chosen


def spoken(choice: ModelChoice) -> str:
    """Return what a person calls who answers."""
    if choice.kind == PLAYBOOK:
        return "the built-in playbook"
    if choice.kind == EDITOR:
        return "the editor's model"
    if choice.kind == REPLAY:
        return f"the transcript {os.path.basename(choice.argument)}"
    if choice.address:
        return f"{choice.argument} at {urlsplit(choice.address).netloc}"
    return choice.argument or "Claude"


async def _auto(providers: Providers) -> ModelChoice:
    if await _may_ask(providers):
        return ModelChoice(ANTHROPIC, why="a key is set")
    if providers.editor is not None:
        return ModelChoice(EDITOR, why="no key is set, and the editor lends its model")
    return ModelChoice(PLAYBOOK, why="no key is set; it needs no network")


async def _may_ask(providers: Providers) -> bool:
    if os.environ.get(ANTHROPIC_TOKEN, "").strip():
        return True
    return await providers.find_key() is not None
