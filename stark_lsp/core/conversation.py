"""Conversation: what is asked of a language model, and what it answers.

`agents` writes questions, `agents/models` sends them, `store` keeps every exchange. A question is sent as

1. the system message,
2. one user message of two parts, `shared` and `body`; what stands before the end of `shared` is alike in all questions
   of one role in one run, so that a server may cache it,
3. one tool by which the model hands its answer in; a model that writes text instead is read for code blocks,
4. in a conversation also further tools, and as `turns` the calls of these so far with what came of each.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from stark_lsp.core.status import ModelRole, StopReason


@dataclass(frozen=True)
class Tool:
    """The form in which an answer is handed in."""

    name: str
    """For instance `submit_plan`."""
    description: str
    schema: dict[str, Any]
    """JSON Schema of its input, an object."""


@dataclass(frozen=True)
class Turn:
    """One call of a further tool, with its result."""

    tool: str
    input: dict[str, Any]
    """What of it could be read."""
    result: str
    text: str = ""
    """What the model wrote beside it."""

    @property
    def characters(self) -> int:
        """How long it is."""
        return len(json.dumps(self.input)) + len(self.result) + len(self.text)


@dataclass(frozen=True)
class Question:
    """One call of a model."""

    attempt: int
    """Id of the node the call is for."""
    role: ModelRole
    system: str
    shared: str
    """First part of the user message: alike in all questions of a role in one run."""
    body: str
    """Second part of the user message."""
    tool: Tool | None
    model: str = ""
    """Name the service knows the model by; empty for its default."""
    temperature: float | None = None
    """None leaves it to the model; a service that has no such parameter is asked without it."""
    effort: str | None = None
    """`low`, `medium`, `high` …; None leaves it to the model."""
    max_tokens: int = 16000
    """Most tokens of the answer."""
    ordinal: int = 0
    """Counts the questions of one role in one attempt."""
    tools: tuple[Tool, ...] = ()
    """Further tools, which may be called before the answer is handed in."""
    turns: tuple[Turn, ...] = ()
    """Their calls so far."""

    @property
    def offered(self) -> tuple[Tool, ...]:
        """All tools, that for handing in first."""
        return () if self.tool is None else (self.tool, *self.tools)

    @property
    def digest(self) -> str:
        """SHA-256 over all that is sent, in hex."""
        tool = None if self.tool is None else [self.tool.name, self.tool.description, self.tool.schema]
        sent = [self.system, self.shared, self.body, tool, self.model, self.temperature, self.effort, self.max_tokens]
        if self.tools or self.turns:
            sent.append([vars(one) for one in (*self.tools, *self.turns)])
        return hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more calls; a call's input is the sum of the first three."""

    input_tokens: int = 0
    """Read at the full price."""
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """All tokens, read and written."""
        return self.input_tokens + self.cache_write_tokens + self.cache_read_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True)
class Answer:
    """What a model answered."""

    stop: StopReason
    text: str = ""
    tool_input: dict[str, Any] | None = None
    """What a tool was called with; None if the model wrote text alone or the JSON could not be read."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The model that answered, as the service names it."""
    latency_s: float = 0.0
    """Seconds from the question to the end of the answer, retries included."""
    request_id: str = ""
    message: str = ""
    """What went wrong, for a person: why it stopped, or why the tool's input could not be read."""
    troubles: tuple[str, ...] = ()
    """What went wrong in tries before this answer, in order: pauses that were asked for, broken streams."""
    called: str = ""
    """Name of the further tool that was called, which there may not be; empty if the answer was handed in."""


@dataclass(frozen=True)
class Exchange:
    """A question with its answer, as kept in the store."""

    question: Question
    answer: Answer
    dollars: float | None = None
    """What it cost; None where the price is unknown."""
    when: str = ""
    """ISO 8601, UTC: when the answer was in."""


@dataclass(frozen=True)
class Loss:
    """What a call has cost that ended without an answer, as kept in the store: cancelled, or broken for good."""

    attempt: int
    role: ModelRole
    ordinal: int
    """With the two before it, the place in the run; the question may be asked again there."""
    model: str
    """Who was asked."""
    usage: Usage
    """What had arrived, and what was read for it."""
    dollars: float | None = None
    """What it cost; None where the price is unknown."""
    when: str = ""
    """ISO 8601, UTC: when it ended."""
    why: str = ""
    """What ended it, for a person."""


@dataclass(frozen=True)
class Spend:
    """What the calls of a run cost so far, those that ended without an answer too."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    """Of the calls whose price is known."""
    unpriced: int = 0
    """Calls whose price is unknown."""


class Model(Protocol):
    """Who answers questions: a service, the editor's model, a transcript."""

    @property
    def name(self) -> str:
        """What a person calls it, for instance `claude-sonnet-5`."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Return the answer; a refusal or a cut-off answer is an `Answer` as well.

        Raises
        ------
        Fault
            It cannot be reached, or failed again and again.
        BadInput
            The user must change something: no key, no such model, no credit.
        BudgetSpent
            The question could cost more than is left; it was not sent.
        asyncio.CancelledError
            The run was stopped; nothing is sent or received any more.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A model that knows what was asked before."""

    async def question_at(self, attempt: int, role: ModelRole, ordinal: int) -> Question | None:
        """Return the question that was answered in this place of the run, None if there is none."""
        ...


class Journal(Protocol):
    """Where every exchange of a run is kept before anybody uses the answer."""

    async def find(self, attempt: int, role: ModelRole, ordinal: int) -> Answer | None:
        """Return the answer that arrived earlier for this place in the run, None if there is none.

        Raises
        ------
        Fault
            The store cannot be read.
        """
        ...

    async def question_at(self, attempt: int, role: ModelRole, ordinal: int) -> Question | None:
        """Return the question whose answer `find` returns, None if there is none.

        Raises
        ------
        Fault
            The store cannot be read.
        """
        ...

    async def keep(self, exchange: Exchange) -> None:
        """Keep an exchange for good.

        Raises
        ------
        Fault
            The store cannot be written.
        """
        ...

    async def lose(self, loss: Loss) -> None:
        """Keep for good what a call has cost that ended without an answer; it is never found as one.

        Raises
        ------
        Fault
            The store cannot be written.
        """
        ...
