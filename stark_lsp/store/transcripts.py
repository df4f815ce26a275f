"""A run as one file to keep, hand on or replay.

It is a JSON object of `stark_transcript`, the version of its form, and of these parts, in the wire form of `core.wire`:
`run`, `nodes`, `exchanges`, `losses`, `steerings`, and `texts`, the table of the long texts that stand in several
places (`shared_texts`).

Such a file holds the user's document, every candidate, every prompt and
answer, and paths of the machine; `anonymous` says what can be left out. It holds no key. A file that is read may come
from anyone: it is limited in size, checked, and nothing in it is run or used as a path.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

from stark_lsp.contract.secrets import without_secrets
from stark_lsp.core.conversation import Exchange, Loss
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import Decision, RunState
from stark_lsp.core.steering import Steering
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.store.anonymous import anonymized, without_keys
from stark_lsp.store.nesting import DEEPEST, too_deep
from stark_lsp.store.runs import RunStore
from stark_lsp.store.shared_texts import TextError, expand, share

T = TypeVar("T")

VERSION = 2
"""Of the file's form; a file of a later one is refused."""

MOST_BYTES = 256 * 1024 * 1024
"""A larger file is not read."""

_KEY = "stark_transcript"
_TEXTS = "texts"
_PARTS = ("run", "nodes", "exchanges", "losses", "steerings")
_DEEPEST = DEEPEST + 8
"""Levels: what was handed in may have `DEEPEST`, some are around it, and two are in what stands for a text."""
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_MOST_ID = 2**53


@dataclass(frozen=True)
class Transcript:
    """A run with all that was recorded of it."""

    run: Run
    nodes: tuple[Node, ...]
    """In order of their ids."""
    exchanges: tuple[Exchange, ...] = ()
    """In the order in which the answers came."""
    losses: tuple[Loss, ...] = ()
    """What calls have cost that ended without an answer, in order."""
    steerings: tuple[Steering, ...] = ()
    """What the user told the run, in order."""


def collect(store: RunStore, run_id: str) -> Transcript:
    """Return what the store holds of a run.

    Raises
    ------
    BadInput
        There is no such run.
    Fault
        The store cannot be read.
    """
    stored = store.load(run_id)
    steerings = tuple(steering for _, steering in store.steerings.since(run_id))
    exchanges, losses = store.exchanges.list(run_id), store.losses.list(run_id)
    return Transcript(stored.run, tuple(stored.nodes.values()), exchanges, losses, steerings)


def dumps(transcript: Transcript, *, anonymous: bool = False) -> str:
    """Return the text of a transcript's file; ASCII, so that text which UTF-8 cannot encode comes back.

    Parameters
    ----------
    anonymous
        Leave out where files lie: see `store.anonymous`.
    """
    parts: dict[str, Any] = {part: to_wire(getattr(transcript, part)) for part in _PARTS}
    inputs = parts["run"]["problem"]["inputs"]
    inputs["table"] = without_secrets(inputs["table"])
    if anonymous:
        parts = anonymized(parts)
    parts, texts = share(without_keys(parts))
    return json.dumps({_KEY: VERSION, **parts, _TEXTS: texts}, indent=1) + "\n"


def read(path: str | Path) -> Transcript:
    """Read a transcript's file.

    Raises
    ------
    BadInput
        There is no such file, it is not a transcript, or what it holds does not fit together; names the file.
    """
    shown = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadInput(f"The transcript cannot be read: {why}.", path=shown, cure="Check the path.") from error
    if len(data) > MOST_BYTES:
        raise BadInput(
            f"The file is larger than a transcript may be ({MOST_BYTES // 2**20} MiB).",
            path=shown,
            cure="Name a file that `stark-lsp runs export` wrote.",
        )
    try:
        return loads(data)
    except BadInput as error:
        raise BadInput(error.message, cure=error.cure, path=shown, details=error.details) from error


def loads(data: bytes | str) -> Transcript:
    """Read the text of a transcript's file.

    Raises
    ------
    BadInput
        It is not a transcript, or what it holds does not fit together.
    """
    try:
        # Decoding is left to the parser, which knows UTF-8 with and without a mark, UTF-16 and UTF-32.
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _not_one(f"it is not JSON: {error}") from error
    if not isinstance(document, dict) or _KEY not in document:
        raise _not_one(f"there is no `{_KEY}`")
    version = document.pop(_KEY)
    if not isinstance(version, int) or isinstance(version, bool) or version < VERSION:
        raise _not_one(f"`{_KEY}` is no version")
    if version > VERSION:
        raise BadInput(
            f"The transcript was written by a newer stark-lsp (format {version}, this one knows {VERSION}).",
            cure="Update stark-lsp.",
        )
    if too_deep(document, _DEEPEST):
        raise _not_one("it is nested too deeply")
    if set(document) != {*_PARTS, _TEXTS}:
        raise _not_one(f"it should hold {', '.join((*_PARTS, _TEXTS))}")
    try:
        texts = document.pop(_TEXTS)
        document = expand(document, texts, MOST_BYTES)
        transcript = Transcript(
            from_wire(document["run"], Run),
            tuple(sorted(_words(document, "nodes", Node), key=lambda node: node.id)),
            _words(document, "exchanges", Exchange),
            _words(document, "losses", Loss),
            _words(document, "steerings", Steering),
        )
    except (TextError, WireError, RecursionError) as error:
        raise _not_one(str(error)) from error
    _check(transcript)
    return transcript


def keep(store: RunStore, transcript: Transcript) -> Run:
    """Store a transcript as a run of its own and return that run.

    It is a finished run: nobody goes on with it, since the state of its search is not part of a transcript. Its
    proposal is offered only to who names the run, since it may come from anyone. It keeps its id unless there is a run
    of that id.

    Raises
    ------
    Fault
        The store cannot be written; nothing was stored.
    """
    run = transcript.run
    if run.state is not RunState.FINISHED:
        message = f"Imported; it was {run.state.value} when it was exported. {run.message}".strip()
        run = replace(run, state=RunState.FINISHED, message=message)
    run = replace(run, ended_by=None, decision=Decision.KEPT if run.decision is Decision.OPEN else run.decision)
    if run.reference is not None:
        # Programs beside an interpreter are trusted, and a file may name any.
        here = replace(run.reference.environment, interpreter=PurePath(run.reference.environment.interpreter).name)
        run = replace(run, reference=replace(run.reference, environment=here))
    if not _ID.fullmatch(run.id):
        run = replace(run, id=secrets.token_hex(4))
    try:
        store.create(run, transcript.nodes, transcript.exchanges, transcript.steerings, transcript.losses)
    except ValueError:
        run = replace(run, id=secrets.token_hex(4))
        store.create(run, transcript.nodes, transcript.exchanges, transcript.steerings, transcript.losses)
    return run


def _words(document: dict[str, Any], part: str, kind: type[T]) -> tuple[T, ...]:
    found = document[part]
    if not isinstance(found, list):
        raise _not_one(f"`{part}` is no list")
    return tuple(from_wire(one, kind) for one in found)


def _check(transcript: Transcript) -> None:
    """Raise `BadInput` unless the class has a name, nodes make one tree, and each place of the run has one exchange."""
    if not all(part.isidentifier() for part in transcript.run.problem.qualname.split(".")):
        raise _not_one("the class has no name of Python's")
    seen: set[int] = set()
    for node in transcript.nodes:
        if node.id in seen or node.id > _MOST_ID:
            raise _not_one(f"attempt {node.id} is there twice, or its number is out of range")
        if (node.parent is None) != (node.id == 0) or (node.parent is not None and node.parent not in seen):
            raise _not_one(f"attempt {node.id} does not come from an earlier one")
        seen.add(node.id)
    best = transcript.run.best
    if best is not None and not any(
        node.id == best and node.verdict is not None and node.verdict.ok for node in transcript.nodes
    ):
        raise _not_one(f"the proposal, attempt {best}, is not among those verified")
    questions = [exchange.question for exchange in transcript.exchanges]
    numbers = [number for question in questions for number in (question.attempt, question.ordinal)]
    numbers += [number for loss in transcript.losses for number in (loss.attempt, loss.ordinal)]
    numbers += [steering.node for steering in transcript.steerings if steering.node is not None]
    if any(not 0 <= number <= _MOST_ID for number in numbers):
        raise _not_one("a number of an attempt is out of range")
    places = {(question.attempt, question.role, question.ordinal) for question in questions}
    if len(places) != len(questions):
        raise _not_one("two exchanges have the same place")


def _not_one(why: str) -> BadInput:
    why = "".join(sign if sign.isprintable() else " " for sign in why)  # it may quote the file
    return BadInput(
        "This is not a transcript that can be used.",
        cure=f"Name a file that `stark-lsp runs export` wrote ({why[:200]}).",
        details=why,
    )
