"""The tools that the code agent of `stark-tools` may call before it hands its candidate in.

| tool | takes | tells |
|---|---|---|
| `build` | source, edits or neither | whether it builds, loads and runs once |
| `check` | the same | whether it is right on all inputs |
| `time` | the same | how fast it is beside the reference |
| `profile` | the same | also what it launches, and what limits it |
| `read_attempt` | a number | source, plan and outcome of an attempt of this run |
| `search_notes` | which ones | what earlier runs on similar classes of the project left |

Edits are to the agent's own source as the last call left it, at first the selected node's; neither takes it as it is.
What a model calls a tool with is hostile: it is read as an answer is, and names no file and no command. What a tool
says has a bound, is no verdict, and never enters the tree.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stark_lsp.agents.answers import tool_of
from stark_lsp.agents.observations import SELECTED_SOURCE, attempt, noted, result
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.agents.texts import capped, clean, encodable, fenced, quoted
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Tool, Turn
from stark_lsp.core.run import Node, Note
from stark_lsp.core.status import ModelRole
from stark_lsp.core.verdict import Stage, Verdict
from stark_lsp.search.sweep import misdeclared

RESULT = 32_000
"""Characters of what a tool says."""
SAID = 4_000
"""Characters of what the model writes beside a call."""
CALL = 200_000
"""Characters of a call as JSON, beyond which it is shortened when it is sent again."""
CONVERSATION = 240_000
"""Characters of calls and results after which no more is called; the last one may go beyond."""
TEMPLATE = "tool"

STAGES: dict[str, Stage | None] = {
    "build": Stage.BUILD,
    "check": Stage.VERIFY,
    "time": Stage.TIME,
    "profile": None,
}
"""How far each tool that takes a candidate goes."""


class Trial(Protocol):
    """The judge, as far as tools ask it."""

    async def try_out(self, candidate: Candidate, until: Stage | None = None) -> Verdict:
        """Build, check, time or profile a candidate, as far as `until`; what comes of it is no verdict on an attempt.

        Raises
        ------
        Fault
            The judge itself could not do its work.
        """
        ...

    async def counted(self, candidate: Candidate, verdict: Verdict) -> Verdict:
        """Return the verdict with hardware counters in its profile, where they can be read.

        Raises
        ------
        Fault
            The judge itself could not do its work.
        """
        ...


@dataclass(frozen=True)
class Sources:
    """Where tools find what they tell."""

    trial: Trial
    find: Callable[[int], Node | None]
    """Returns an attempt of the run by its number."""
    notes: tuple[Note, ...]
    """What the run took along from earlier ones."""
    say: Callable[[str], None] = lambda text: None
    """Told, for a person, what goes on."""


_WHAT = {
    "build": "Build your source, load it and call it once. Tells the compiler's messages and what was raised.",
    "check": "Do that, and compare it with the original on all inputs that the judge has, gradients included.",
    "time": "Do that, and time it in turns with the original.",
    "profile": "Do that, and look at what one call launches, how long each kernel takes, and what limits it.",
}
_READ = "Read an attempt of this run: its plan, its whole source, and what came of it."
_SEARCH = "Read what earlier runs of this project left on similar classes: what helped, and what failed."


def forms(settings: AgentSettings) -> tuple[Tool, ...]:
    """Return the tools that the settings allow."""
    own = {**tool_of(ModelRole.CODE, edits=settings.edits).schema["properties"]}
    del own["summary"]
    found = [_form(name, what, own) for name, what in _WHAT.items() if settings.profile or name != "profile"]
    number = {"type": "integer", "description": "Number of the attempt."}
    found.append(_form("read_attempt", _READ, {"number": number}, required=["number"]))
    if settings.notes:
        which = {"type": "string", "enum": ["helped", "failed", "all"], "description": "Which of them."}
        found.append(_form("search_notes", _SEARCH, {"which": which}, required=["which"]))
    return tuple(found)


def _form(name: str, what: str, properties: dict[str, Any], required: Sequence[str] = ()) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return Tool(name, what, schema)


class Toolbox:
    """Carries calls out.

    Parameters
    ----------
    sources
        Where tools find what they tell.
    prompts
        The templates.
    diagnose
        Returns the sentences on what limits a node.
    tuned
        Whether constants that a candidate leaves open are tuned, so that a declaration that cannot be used is refused.
    """

    def __init__(
        self,
        sources: Sources,
        prompts: PromptLibrary,
        diagnose: Callable[[Verdict], tuple[str, ...]],
        *,
        tuned: bool,
    ) -> None:
        self.sources = sources
        self._prompts = prompts
        self._diagnose = diagnose
        self._tuned = tuned

    async def use(self, tool: str, candidate: Candidate | None, given: dict[str, Any], left: int) -> str:
        """Carry a call out and return what is said of it.

        Parameters
        ----------
        candidate
            What the call is about, for tools that take one.
        given
            What it was called with.
        left
            How many calls may follow.
        """
        found = self._read(tool, given) if candidate is None else await self._tried(tool, candidate)
        return await asyncio.to_thread(self.told, **found, left=left)

    async def _tried(self, tool: str, candidate: Candidate) -> dict[str, Any]:
        wrong = await misdeclared(candidate) if self._tuned else None
        verdict = wrong or await self.sources.trial.try_out(candidate, STAGES[tool])
        profiled = tool == "profile"
        if profiled:
            verdict = await self.sources.trial.counted(candidate, verdict)
        return {
            "tool": tool,
            "result": result(verdict, profile=profiled, source=candidate.source),
            "diagnosis": self._diagnose(verdict) if profiled and verdict.ok else (),
        }

    def _read(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        if tool == "search_notes":
            which = given.get("which")
            wanted = {"helped": (True,), "failed": (False,)}.get(which if isinstance(which, str) else "", (True, False))
            return {"tool": tool, "notes": [noted(note) for note in self.sources.notes if note.helped in wanted]}
        number = given.get("number")
        node = self.sources.find(number) if isinstance(number, int) and not isinstance(number, bool) else None
        if node is None:
            return {"trouble": "There is no attempt of that number."}
        if node.parent is None:
            return {"trouble": "That is the reference, which is shown above."}
        return {"tool": tool, "attempt": attempt(node, None, profile=False)}

    def told(self, *, trouble: str = "", left: int = 0, **values: Any) -> str:
        """Return what a tool says, in at most `RESULT` characters and a line; `trouble` is why it was not used."""
        blank = {"tool": "", "result": None, "diagnosis": (), "attempt": None, "notes": ()}
        why = capped(clean(trouble), SAID)
        said = self._prompts.render(
            TEMPLATE, **{**blank, **values}, trouble=why, left=left, fenced=fenced, quoted=quoted
        )
        return capped(said, RESULT)


def turn(answer: Answer, tool: str) -> Turn:
    """Return a call of a tool as the next question shows it, without its result."""
    return Turn(tool, _kept(answer.tool_input or {}), "", capped(clean(answer.text), SAID).strip())


def _kept(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is sent again of a call: what the tools know, of a call that is too long the ends of its source."""
    kept: dict[str, Any] = {}
    for name, most in (("source", SELECTED_SOURCE), ("which", 20), ("summary", SAID)):
        if isinstance(given.get(name), str):
            kept[name] = capped(encodable(given[name]), most)
    number = given.get("number")
    if isinstance(number, int) and abs(number) < 2**53:
        kept["number"] = number
    edits = given.get("edits")
    if isinstance(edits, list):
        pairs = [one for one in edits if isinstance(one, dict)]
        kept["edits"] = [{name: str(one.get(name, "")) for name in ("search", "replace")} for one in pairs]
    if len(json.dumps(kept)) <= CALL:
        return kept
    return {"source": capped(kept["source"], SELECTED_SOURCE // 10)} if "source" in kept else {}
