"""The playbook's agents: plan, code and debug without a model.

1. The worker's analysis becomes a graph; `catalogue` knows the kernels that could be written for it.
2. The plan agent picks the next move (`moves`) that was not tried on this node, and writes an advice with figures.
3. The code agent emits the design that the plan names (`emit`).
4. The debug agent retreats to plain variants, then to fewer kernels.

All state is in the nodes: a plan's parameters and a comment in each candidate name its design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from stark_lsp.agents.grounding.markers import annotate
from stark_lsp.agents.observations import bandwidth_gbs
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.contract.errors import mistake
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor, Plan
from stark_lsp.core.problem import Problem, Span
from stark_lsp.core.roles import Context, Draft, NothingToPropose
from stark_lsp.core.run import Node, Note, Rejection
from stark_lsp.core.status import AgentRole, Dialect, VerdictStatus
from stark_lsp.core.verdict import Profile, Reference
from stark_lsp.playbook.advice import duration, expected_saving, memory, write_advice
from stark_lsp.playbook.catalogue import Catalogue, KernelChoice
from stark_lsp.playbook.design import Design, read_design
from stark_lsp.playbook.emit import Part, emit
from stark_lsp.playbook.expressions import CannotWrite
from stark_lsp.playbook.fusible import prepare
from stark_lsp.playbook.graph import read_graph
from stark_lsp.playbook.inductor import proposal
from stark_lsp.playbook.inductor.own import own_switches
from stark_lsp.playbook.inductor.recipes import BATCH, LENGTHS, MUCH, WORTH, Switches, safer
from stark_lsp.playbook.moves import Move, MoveKind, Moves
from stark_lsp.playbook.source import CannotEdit

MISCOMPUTED = (VerdictStatus.WRONG_RESULT, VerdictStatus.NOT_FINITE)
STRATEGY = "strategy"
"""Name of the plan's parameter that holds the strategy of the design; the others are kernel = variant."""


class PlaybookAgents:
    """Answers as plan, code and debug agent for one problem.

    Parameters
    ----------
    analysis
        What `judge/analysis` returned, or `{"untraceable": {message, path, line}}`.
    problem, reference
        The problem and what preparing it found out.
    prompt_dirs
        Folders whose advice templates win over the built-in ones, and which may hold strategies of the user's.
    ask
        Asks the judge what torch.compile writes by a recipe; None if that cannot be asked.
    notes
        What earlier runs on similar classes left; what won there is tried on the reference before the rest, but for
        what torch.compile writes.
    tell
        Told why what torch.compile writes, or a strategy of the user's, is no proposal, once that is known.
    any_length
        Whether what torch.compile writes is to serve other lengths than the inputs' as well.
    """

    def __init__(
        self,
        analysis: dict[str, Any],
        problem: Problem,
        reference: Reference,
        prompt_dirs: Sequence[Path | str] = (),
        ask: proposal.Ask | None = None,
        notes: Sequence[Note] = (),
        tell: Callable[[str], None] = lambda text: None,
        *,
        any_length: bool = False,
    ) -> None:
        self._tell = tell
        self.problem = problem
        self.reference = reference
        self.prompts = PromptLibrary(prompt_dirs)
        self._reason = ""
        profile, waiting = reference.profile, _waiting(reference.profile, self._eager_ms)
        # As one graph the original's own kernels save no more than the GPU waits for them.
        busy = profile is not None and profile.device_us is not None and waiting <= WORTH
        calls = 0 if profile is None or busy else sum(one.count for one in profile.launched)
        self._switches = Switches(own_switches(prompt_dirs), any_length=any_length)
        self._recipes = proposal.Recipes(problem, ask, reference.environment.device_type, calls, self._switches)
        self._quick = list(self._recipes.without_inductor(self._eager_ms, waiting))
        """What is tried before Inductor is asked for anything."""
        self._planned: set[tuple[tuple[str, str], ...]] = set()
        """Recipes that were planned on any node: a window does not show all of the tree."""
        self._told: set[str] = set()
        self._won = [_design(note.design) for note in notes if note.helped and note.design]
        self._moves: Moves | None = None
        """None where there is a reason why nothing can be proposed."""
        untraceable = analysis.get("untraceable")
        if untraceable is not None:
            self._reason = _untraceable(untraceable)
            return
        # The profile's figure, where there is one: it is taken with more care than the analysis takes its own.
        analysis = {**analysis, "bandwidth_gbs": bandwidth_gbs(reference) or analysis["bandwidth_gbs"]}
        try:
            graph = prepare(read_graph(analysis, reference.baselines.eager.median_ms))
            # Of other GPUs not all have clusters.
            capability = "" if reference.device is None else reference.device.capability
            clusters = capability.partition(".")[0] in ("9", "10")
            moves = Moves(Catalogue(problem, graph, clusters=clusters))
            # Written once, so that what cannot be written is known before the search begins.
            for move in islice(moves.from_reference(), 1):
                self._emit(moves, move.design)
            self._moves = moves
        except CannotEdit as error:
            self._reason = f"The playbook has nothing to propose: {error}."
        except CannotWrite as error:
            self._reason = f"The playbook has nothing to propose: {error}, so forward cannot be written anew."
        except Exception as error:  # noqa: BLE001 - what torch.compile writes, and a model, need nothing of this
            self._reason = f"The playbook's own kernels are left out by {mistake(error)}."
            tell(f"{self._reason} Please report it.")

    @property
    def _eager_ms(self) -> float:
        return self.reference.baselines.eager.median_ms

    async def reason(self) -> str:
        """Return why there is nothing to propose at all; empty if there is something."""
        offered = self._quick or await self._recipes.offered(None, self._eager_ms)
        return "" if not self._reason or offered else self._reason + self._recipes.reason

    # ---- the roles --------------------------------------------------------------------------------

    async def plan(self, context: Context, rng: Random) -> Plan:
        """Return the next untried move on the selected node, as a plan.

        Raises
        ------
        NothingToPropose
            Every move was tried here, or the module cannot be recorded.
        """
        at_root = context.selected.id == context.root.id
        written = await self._written(context, at_root)
        if written is not None:
            return written
        moves = self._ready()
        design = self._design_of(context.selected)
        if at_root or design is None:
            offered = list(moves.from_reference())
            if not offered:
                raise NothingToPropose(
                    "The playbook has nothing to propose: it knows no group of operations here that would save "
                    f"a pass over memory.{self._recipes.reason}"
                )
        else:
            offered = list(moves.from_candidate(design))
        if any(not node.failed for node in context.siblings):
            # A candidate that works is the better place to vary a kernel from.
            offered = [move for move in offered if not at_root or move.kind is MoveKind.STRATEGY]
        tried = self._tried([*context.siblings, *context.window, context.root, context.selected])
        fresh = [move for move in offered if _key(move.design) not in tried]
        rejected = {rejection.strategy for rejection in context.rejections if rejection.strategy}
        wanted = [move for move in fresh if _name(move) not in rejected] or fresh
        if not wanted:
            raise NothingToPropose("The playbook has tried every variation it knows on this candidate.")
        return self._plan(wanted[0], design, context)

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        """Return the candidate that the plan's parameters name."""
        design = _design(plan.parameters, plan.strategy)
        if design.strategy != proposal.STRATEGY:
            return self._emit(self._ready(), design)
        return await self._as_compiled(design, "What torch.compile writes cannot be taken over")

    async def debug(self, context: Context, rng: Random) -> Candidate:
        """Return a safer candidate in the place of the selected, failed one.

        Raises
        ------
        NothingToPropose
            There is nothing safer left, or the failure is not one that another kernel would mend.
        """
        design = self._design_of(context.selected)
        if design is None:
            raise NothingToPropose("The failed candidate is not one of the playbook's.")
        tried = self._tried([*context.siblings, *context.window, context.selected])
        if design.strategy == proposal.STRATEGY:
            other = safer(design)
            if other is None or _key(other) in tried | self._planned:
                raise NothingToPropose("What torch.compile writes is not written in another way.")
            self._planned.add(_key(other))
            return await self._as_compiled(other, "A safer way was looked for, and there is none")
        moves = self._ready()
        for move in moves.repairs(design, context.selected.verdict):
            if _key(move.design) not in tried:
                return self._emit(moves, move.design)
        raise NothingToPropose("The playbook has no safer way to write this candidate.")

    async def seeds(self, limit: int, rejections: tuple[Rejection, ...] = ()) -> tuple[Draft, ...]:
        """Return up to `limit` candidates for the reference, the most promising first, for others to improve."""
        root = Node(0, None, AgentRole.ROOT, Candidate(self.problem.slice.text, Dialect.TORCH))
        made: list[Node] = []
        rng = Random(0)
        while len(made) < limit:
            window = (root, *made)
            context = Context(self.problem, self.reference, root, root, window, tuple(made), rejections)
            try:
                plan = await self.plan(context, rng)
            except NothingToPropose:
                break
            made.append(Node(len(made) + 1, 0, AgentRole.CODE, await self.code(context, plan, rng), plan))
        return tuple(Draft(node.candidate, node.plan) for node in made)

    # ---- plans ------------------------------------------------------------------------------------

    async def _written(self, context: Context, at_root: bool) -> Plan | None:
        """Return the next plan that Inductor carries out, or that won before; None if there is nothing new here."""
        design = self._design_of(context.selected)
        if not at_root and (design is None or design.strategy != proposal.STRATEGY):
            return None
        plain = [node for node in context.siblings if self._design_of(node) == proposal.PLAIN]
        on = None if at_root else design
        found = await self._new(self._quick if at_root else (), context, on, plain)
        return found or await self._new(await self._in_order(context, on, plain), context, on, plain)

    async def _new(
        self, designs: Iterable[Design], context: Context, design: Design | None, plain: Sequence[Node]
    ) -> Plan | None:
        """Return a plan of the first of these designs that was not tried yet and can be made; None if there is none.

        Parameters
        ----------
        design
            Which they are made of; None is the reference.
        plain
            Attempts at what torch.compile writes.
        """
        nodes = [*context.siblings, *context.window, context.root, context.selected]
        tried = self._tried(nodes) | self._planned
        for one in designs:
            if (_key(one) in tried and one != proposal.PLAIN) or (one == proposal.PLAIN and plain):
                continue
            if one.strategy != proposal.STRATEGY:
                return self._plan(Move(MoveKind.STRATEGY, one), None, context)
            try:
                made = await self._recipes.get(one)
            except proposal.CannotEmit:
                continue
            if _key(one) in self._planned and one != proposal.PLAIN:
                continue  # by an attempt beside this one, meanwhile
            if not proposal.differs(made, (node.candidate.source for node in nodes)):
                continue
            before = [] if design is None else self._switches.on(design)
            turned = [switch for switch in self._switches.on(one) if switch not in before]
            advices = [made.advice(self.prompts, switch) for switch in turned]
            anchors = made.anchors()
            if one != proposal.PLAIN:
                self._planned.add(_key(one))
            return Plan(
                title="; ".join(switch.title for switch in turned) or proposal.TITLE,
                advice="\n\n".join(advices or [made.advice(self.prompts)]),
                anchors=anchors,
                annotated_source=self._annotated(context, anchors),
                strategy=proposal.STRATEGY,
                parameters=((STRATEGY, proposal.STRATEGY), *one.kernels),
            )
        return None

    async def _in_order(self, context: Context, design: Design | None, plain: Sequence[Node]) -> list[Design]:
        """Return what may be made of a design (None: of the reference), the most promising first."""
        verdict = None if design is None else context.selected.verdict
        call_ms = self._eager_ms if verdict is None or verdict.runtime is None else verdict.runtime.median_ms
        waiting = max(map(_waiting_of, [context.selected, *(plain if design is None else [])]))
        gain = None if verdict is None else verdict.speedup_vs_eager
        faster = gain is not None and gain.value > 1
        behind = proposal.is_behind(context.reference.baselines, None if verdict is None else verdict.runtime)
        # What is no faster serves nobody at other lengths either; other batches are left out where they cost time.
        offered = [
            one
            for one in await self._recipes.offered(design, call_ms, waiting)
            if (faster or one.label(LENGTHS) is None) and (behind or one.label(BATCH) is None)
        ]
        if (reason := self._recipes.reason.strip()) and reason not in self._told:
            self._told.add(reason)
            self._tell(reason)
        gains = [node.verdict.speedup_vs_eager for node in plain if node.verdict is not None]
        if design is None and any(one is not None and one.value > 1 for one in gains):
            # Other switches are better turned on there than on the original.
            offered = [
                one for one in offered if one == proposal.PLAIN or any(each.strong for each in self._switches.on(one))
            ]
        first = [one for one in offered if one == proposal.PLAIN]
        won = self._won_here(design, call_ms, context)
        own = self._own_first(design) if self.reference.environment.device_type == "cuda" else []
        others = [one for one in offered if one not in first]
        # Better kernels do not help where the GPU waits for launches, and save less than products on tensor cores.
        ahead = [one for one in others if waiting > MUCH or any(each.ahead for each in self._switches.on(one))]
        # A strong idea that gave wrong results is worth its safer way before weaker ones.
        wrong = [node for node in context.siblings if node.verdict and node.verdict.status in MISCOMPUTED]
        mended = [safer(one) for one in map(self._design_of, wrong) if one and one.strategy == proposal.STRATEGY]
        repairs = [one for one in mended if one is not None]
        return [*first, *repairs, *won, *ahead, *own, *(one for one in others if one not in ahead)]

    def _own_first(self, design: Design | None) -> list[Design]:
        """Return the first design in kernels of the playbook's own, which are good where Inductor is not.

        Beside what torch.compile writes they come where blocks hold rows together, which Inductor's kernels do not.
        """
        if self._moves is None or design not in (None, proposal.PLAIN):
            return []
        first = [move.design for move in islice(self._moves.from_reference(), 1)]
        if design is None:
            return first
        kernels = [choice.variants[0] for one in first for choice in self._moves.choices(one)]
        return first if any(kernel.cluster > 1 for kernel in kernels) else []

    def _won_here(self, design: Design | None, call_ms: float, context: Context) -> list[Design]:
        """Return what won in earlier runs and can be made of a design (None: of the reference), best first."""
        rejected = {rejection.strategy for rejection in context.rejections}
        found = []
        for won in self._won:
            if won.strategy in rejected:
                continue
            if won.strategy == proposal.STRATEGY:
                before = set() if design is None else set(design.kernels)
                if set(won.kernels) > before and self._recipes.fits(won, call_ms):
                    found.append(won)
            elif design is None and self._moves is not None:
                fitting = self._moves.fitting(won)
                found += [fitting] if fitting is not None else []
        return found

    def _plan(self, move: Move, design: Design | None, context: Context) -> Plan:
        """Return the plan of a move, made on a candidate of `design` (None: on the reference)."""
        moves = self._ready()
        catalogue = moves.catalogue
        saving = None
        extra: dict[str, str] = {}
        if move.kind is MoveKind.STRATEGY:
            choices = moves.choices(move.design)
            title = _strategy_title(move.design.strategy, choices)
            saving = expected_saving(choices)
        else:
            choices = tuple(filter(None, [catalogue.named(move.kernel)]))
            title = f"Leave {_short(choices[0])} to PyTorch"
        if move.kind is MoveKind.TUNE:
            before = design or moves.base(move.design.strategy)
            extra = {"before": before.label(move.kernel) or "", "after": move.design.label(move.kernel) or ""}
            title = f"Write {move.kernel} with {extra['after']}"
        noted = [
            (span, _note(choice))
            for choice in choices
            for span in catalogue.user_lines.spans([catalogue.prepared.graph.nodes[n] for n in choice.region.nodes])
        ]
        anchors = catalogue.user_lines.anchors(noted)
        return Plan(
            title=title,
            advice=write_advice(self.prompts, _name(move), catalogue, choices, **extra),
            anchors=anchors,
            annotated_source=self._annotated(context, anchors),
            strategy=_name(move),
            parameters=((STRATEGY, move.design.strategy), *move.design.kernels),
            expected_saving_ms=saving,
        )

    def _annotated(self, context: Context, anchors: tuple[Anchor, ...]) -> str:
        """Return the selected node's source with the anchors marked, where it is the reference's slice."""
        source = context.selected.candidate.source
        if source != self.problem.slice.text:
            return source
        row_of = {row: index for index, row in enumerate(self.problem.slice.line_map) if row >= 0}
        spans, notes = [], []
        for anchor in anchors:
            if anchor.span.start in row_of and anchor.span.end in row_of:
                spans.append(Span(row_of[anchor.span.start], row_of[anchor.span.end]))
                notes.append(anchor.note)
        return annotate(source, spans, notes)

    # ---- designs ----------------------------------------------------------------------------------

    def _emit(self, moves: Moves, design: Design) -> Candidate:
        parts = []
        for choice in moves.choices(design):
            variant = choice.variant(design.label(choice.name) or "")
            parts.append(Part(choice.region, choice.lowered, variant or choice.variants[0]))
        return emit(self.problem, moves.catalogue.prepared, parts, design.comment())

    async def _as_compiled(self, design: Design, otherwise: str) -> Candidate:
        try:
            return (await self._recipes.get(design)).candidate
        except proposal.CannotEmit as error:
            raise NothingToPropose(f"{otherwise}: {error}.") from error

    def _design_of(self, node: Node) -> Design | None:
        return read_design(node.candidate.source)

    def _tried(self, nodes: Iterable[Node]) -> set[tuple[tuple[str, str], ...]]:
        found = (self._design_of(node) for node in nodes)
        return {_key(design) for design in found if design is not None}

    def _ready(self) -> Moves:
        if self._moves is None:
            raise NothingToPropose(self._reason + self._recipes.reason)
        return self._moves


def _waiting_of(node: Node) -> float:
    """Return the share of a candidate's call in which the GPU was seen to have nothing to do."""
    verdict = node.verdict
    if verdict is None or verdict.runtime is None:
        return 0.0
    return _waiting(verdict.profile, verdict.runtime.median_ms)


def _waiting(profile: Profile | None, call_ms: float) -> float:
    if profile is None or profile.device_us is None:
        return 0.0
    return 1.0 - profile.device_us / (1000.0 * call_ms)


def _design(parameters: Sequence[tuple[str, str]], strategy: str = "") -> Design:
    """Return the design that a plan's parameters name."""
    kernels = dict(parameters)
    return Design(kernels.pop(STRATEGY, strategy), tuple(kernels.items()))


def _key(design: Design) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(design.kernels))


def _name(move: Move) -> str:
    """Return the strategy of a move's plan, which is also the name of its advice."""
    return move.design.strategy if move.kind is MoveKind.STRATEGY else move.kind.value


def _untraceable(data: dict[str, Any]) -> str:
    where = f" ({data['path']}, line {data['line']})" if data.get("path") and data.get("line") else ""
    return f"The playbook has nothing to propose: {data['message']}{where}."


def _short(choice: KernelChoice) -> str:
    words = list(dict.fromkeys(choice.words))
    return ", ".join(words[:4]) + (", …" if len(words) > 4 else "")


def _strategy_title(strategy: str, choices: Sequence[KernelChoice]) -> str:
    count = sum(choice.region.kernels_now for choice in choices)
    if len(choices) == 1:
        (choice,) = choices
        if count < 2:
            return f"Compute {_short(choice)} in one pass over memory"
        return f"Fuse {count} operations into one kernel ({_short(choice)})"
    plain = {"keep-library": ", single operations stay", "fuse-pointwise": ", reductions stay"}.get(strategy, "")
    return f"Fuse {count} operations into {len(choices)} kernels{plain}"


def _note(choice: KernelChoice) -> str:
    region = choice.region
    now, then = [duration(region.time_ms)], []
    if region.saving_ms > 0:
        then.append(f"at best {duration(region.expected_ms)}")
    if region.bytes_fused < region.bytes_now:
        now.append(memory(region.bytes_now / 2**20))
        then.append(memory(region.bytes_fused / 2**20))
    after = f", {' and '.join(then)} in one kernel" if then else ""
    return f"{_short(choice)}: {' and '.join(now)} now{after}"
