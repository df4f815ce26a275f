"""What torch.compile makes of the module, without torch.compile, and what can be made of it by other recipes."""

from __future__ import annotations

import ast
import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.contract.errors import mistake
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Problem, Span
from stark_lsp.core.status import Mode
from stark_lsp.core.verdict import Baselines, Timing
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor.emit import emit
from stark_lsp.playbook.inductor.naming import short
from stark_lsp.playbook.inductor.reader import CannotEmit, Program, Step, program_of, read
from stark_lsp.playbook.inductor.recipes import ATTENTION, EXACT, MUCH, STRATEGY, Facts, Switch, Switches
from stark_lsp.playbook.lines import UserLines
from stark_lsp.playbook.source import CannotEdit

TITLE = "Run the kernels that torch.compile writes"
PLAIN = Design(STRATEGY, ())
"""As torch.compile writes it."""
MANY = 150
"""Kernels that the original launches, from which Inductor takes long: it had not read 64 steps of a state-space model,
some two hundred, after five minutes."""
BEHIND = 1.05
"""Time over torch.compile's from which a candidate may as well keep to one batch."""
Ask = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Asks the judge for a program by a recipe; returns what `judge/analysis/inductor.program` does, or `none`, why not."""


class AsCompiled:
    """One program as a proposal.

    Parameters
    ----------
    made
        What `judge/analysis/inductor.program` returned.
    design
        Which recipe it was made by.
    switches
        Those that it may be made of.

    Raises
    ------
    CannotEmit, CannotEdit
        It cannot be written.
    """

    def __init__(
        self, problem: Problem, made: Mapping[str, Any], design: Design = PLAIN, switches: Switches | None = None
    ) -> None:
        switches = switches or Switches()
        self.on = switches.on(design)
        self.lines = UserLines(problem)
        self._rows = [line - 1 for line in made["lines"]]
        self._made = made
        self.program: Program = program_of(made)
        exact = design.label(ATTENTION) == EXACT
        replayed = switches.replayed(design)
        self.candidate: Candidate = emit(problem, made, design.comment(), replayed=replayed, exact=exact)

    def anchors(self) -> tuple[Anchor, ...]:
        """Return the lines that it is about."""
        count, word = len(self.program.kernels), "C++ function" if self._made["device"] == "cpu" else "Triton kernel"
        note = f"part of one {word}" if count == 1 else f"part of {count} {word}s"
        return self.lines.anchors([(Span(row, row), note) for row in self._rows])

    def advice(self, prompts: PromptLibrary, turned: Switch | None = None) -> str:
        """Return the advice in Markdown, on the switch that was turned on last."""
        if turned is not None and turned.text:
            return turned.text
        calls = " ".join(_calls(self.program))
        kept = set(re.findall(r"\btorch\.(?!empty_strided)[\w.]+(?=\()", calls))
        return prompts.render(
            f"advice/{STRATEGY if turned is None else turned.advice}",
            kernels=[f"`{short(name)}`" for name in self.program.kernels],
            kept=sorted(f"`{word}`" for word in kept),
            device=self._made["device"],
            backward="backward" in self._made,
            switches=[one.title for one in self.on],
        )


def facts(made: Mapping[str, Any], calls: int = 0) -> Facts:
    """Return what a program tells of its class, which launches so many kernels itself.

    Raises
    ------
    CannotEmit
        It has something that is not known here.
    """
    program, training = program_of(made), "backward" in made
    texts = _calls(program)
    behind = read(made["backward"]["code"]) if training else None
    steps = [len(_calls(one)) + sum(1 for step in one.steps if step.kernel) for one in (program, behind) if one]
    tensors = [one for one in made["arguments"] if "dtype" in one]
    dtypes = {one["dtype"] for one in tensors if "float" in one["dtype"]}
    products = sum(1 for one in texts if re.search(r"\btorch\.(?:mm|addmm|bmm|baddbmm)\(", one))
    convolutions = sum(1 for one in texts if "torch.convolution(" in one)
    given = [one for one in tensors if not one["expression"].startswith("self.")]
    return Facts(
        device=made["device"],
        products=dtypes == {"float32"} and not made.get("autocast") and products > convolutions,
        convolutions=convolutions > 0,
        kernels=len(program.kernels),
        steps=sum(steps),
        calls=calls,
        rewrites=frozenset(made.get("rewrites", ())),
        training=training,
        draws=made.get("draws", False),
        lengths=made.get("lengths", False),
        rows="sizes" in made,
        copied=sum(map(_nbytes, (*given, *_results(program)))),
    )


def is_behind(baselines: Baselines, runtime: Timing | None) -> bool:
    """Whether torch.compile was timed, and a candidate that takes so long is slower beyond the intervals of both."""
    compiled = baselines.compile
    return compiled is not None and runtime is not None and runtime.low_ms > BEHIND * compiled.high_ms


def _results(program: Program) -> Iterator[dict[str, Any]]:
    """Yield what a program returns of what it makes room for itself."""
    *steps, last = program.steps or [Step(ast.Pass())]
    returned = {item.id for item in ast.walk(last.statement) if isinstance(item, ast.Name)}
    for step in steps:
        made = re.match(r"(\w+) = torch\.empty_strided\((\([\d, ]*\)).*dtype=([\w.]+)", ast.unparse(step.statement))
        if made and made[1] in returned:
            yield {"shape": ast.literal_eval(made[2]), "dtype": made[3]}


def _nbytes(argument: Mapping[str, Any]) -> int:
    width = re.search(r"\d+$", argument["dtype"])
    return int(math.prod(argument["shape"])) * (int(width[0]) // 8 if width else 1)


def _calls(program: Program) -> list[str]:
    """Return the steps that call PyTorch for more than memory."""
    texts = [ast.unparse(step.statement) for step in program.steps if not step.kernel]
    return [text for text in texts if re.search(r"\btorch\.(?!empty_strided|float|int|bool)[\w.]+\(", text)]


class Recipes:
    """The programs of one class: asked for when they are wanted, once each.

    Parameters
    ----------
    ask
        Asks the judge; None if it cannot be asked.
    device
        `cpu` or `cuda`.
    calls
        Kernels that the original launches, 0 if that is not known.
    switches
        What can be done otherwise.
    """

    def __init__(self, problem: Problem, ask: Ask | None, device: str, calls: int, switches: Switches) -> None:
        self._problem = problem
        self._ask = ask
        self._device = device
        self._calls = calls
        self._switches = switches
        self._made: dict[Design, AsCompiled | str] = {}
        self._programs: dict[str, Mapping[str, Any]] = {}
        """What the judge gave, by the recipe: designs that differ in how they launch alone have the same."""
        self._facts: Facts | None = None
        self._errors: dict[str, str] = {}
        self._backward = ""
        self._asking = asyncio.Lock()

    @property
    def reason(self) -> str:
        """Why what torch.compile writes, or a user's strategy, is not taken over, as sentences behind others."""
        why = self._made.get(PLAIN)
        taken = f" What torch.compile writes cannot be taken over: {why}." if isinstance(why, str) and why else ""
        if self._backward:
            taken += f" What torch.compile writes for backward cannot be taken over: {self._backward}."
        return taken + "".join(f" The strategy {name} fails: {why}." for name, why in sorted(self._errors.items()))

    async def get(self, design: Design) -> AsCompiled:
        """Return the proposal of a design.

        Raises
        ------
        CannotEmit
            There is none, and why.
        """
        # Attempts side by side may want the same one.
        async with self._asking:
            if design not in self._made:
                self._made[design] = await self._make(design)
        made = self._made[design]
        if isinstance(made, str):
            raise CannotEmit(made)
        return made

    async def _make(self, design: Design) -> AsCompiled | str:
        recipe = self._switches.recipe(design)
        trained = not any(one.forward_alone for one in self._switches.on(design))
        if trained and self._problem.mode is Mode.TRAINING and (self._facts is None or self._facts.training):
            step = await self._written(design, {**recipe, "backward": True})
            if isinstance(step, AsCompiled) or recipe.get("rewrites"):
                return step
            self._backward = step
        return await self._written(design, recipe)

    async def _written(self, design: Design, recipe: dict[str, Any]) -> AsCompiled | str:
        key = json.dumps(recipe, sort_keys=True)
        if key not in self._programs:
            self._programs[key] = await self._ask(recipe) if self._ask is not None else {"none": ""}
        made = self._programs[key]
        if "none" in made:
            return str(made["none"])
        self._errors |= made.get("errors", {})
        try:
            if design == PLAIN:
                self._facts = facts(made, self._calls)
            # In a thread: of a whole model it takes a second to write.
            return await asyncio.to_thread(AsCompiled, self._problem, made, design, self._switches)
        except (CannotEmit, CannotEdit) as error:
            if "sizes" in made:
                fewer = {"length": False} if recipe.get("length") else {"batch": False}
                return await self._written(design, {**recipe, **fewer})
            return str(error)
        except Exception as error:  # noqa: BLE001 - other recipes, and kernels of our own, need nothing of this
            return f"{mistake(error)}; please report it"

    def without_inductor(self, call_ms: float, waiting: float) -> Iterator[Design]:
        """Yield what to try on the reference before Inductor is asked, which may take it minutes.

        Parameters
        ----------
        call_ms
            How long a call of the reference takes.
        waiting
            Share of it in which the GPU was seen to have nothing to do.
        """
        if self._calls >= MANY and waiting > MUCH:
            yield from self._switches.following(PLAIN, self._unread, call_ms)

    async def offered(self, design: Design | None, call_ms: float, waiting: float = 0.0) -> Sequence[Design]:
        """Return the designs to try on one that takes so long, or on the reference: what torch.compile writes first."""
        first = [PLAIN] if design is None else []
        try:
            await self.get(PLAIN)
        except CannotEmit:
            first = []
        return [*first, *self._switches.following(design or PLAIN, self._known, call_ms, waiting)]

    def fits(self, design: Design, call_ms: float) -> bool:
        """Whether a design that won elsewhere can be tried on the reference; known once any were `offered`."""
        return self._switches.fit(design, self._known, call_ms)

    @property
    def _known(self) -> Facts:
        """What is known of the class; of what torch.compile does not take, nothing but how much is launched."""
        return self._facts or self._unread

    @property
    def _unread(self) -> Facts:
        training = self._problem.mode is Mode.TRAINING
        return Facts(self._device, False, False, 0, 0, self._calls, training=training)


def differs(made: AsCompiled, others: Iterable[str]) -> bool:
    """Return whether a candidate is none of these sources, its comment aside."""
    return all(_bare(made.candidate.source) != _bare(source) for source in others)


def _bare(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if not line.startswith("#"))


__all__ = ["PLAIN", "STRATEGY", "AsCompiled", "CannotEdit", "CannotEmit", "Recipes", "differs"]
