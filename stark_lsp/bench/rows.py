"""Rows: what is kept of a cell, one line of `rows.jsonl` each, and how a run becomes one."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from stark_lsp.bench import prompts
from stark_lsp.bench.cells import Cell
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.conversation import Spend
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import AgentRole, Limit, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Interval, Stage, Timing, Verdict

SCHEMA = 4
"""Version of a row's form; a reader refuses rows of a later one."""
MESSAGE_LIMIT = 300
"""Characters kept of an attempt's message; the whole is in the cell's store."""


class Baseline(str, Enum):
    """What a candidate's speed is held against."""

    EAGER = "eager"
    """The class as it is."""
    COMPILE = "compile"
    """`torch.compile` with its defaults."""
    MAX_AUTOTUNE = "max-autotune"
    """`torch.compile` with mode max-autotune."""


class Outcome(str, Enum):
    """How a cell ended."""

    MEASURED = "measured"
    """Its run came to its end, or its agents gave out; only these count in rates."""
    DEGENERATE = "degenerate"
    """The judge refused the problem: what it computes would prove nothing."""
    UNUSABLE = "unusable"
    """The problem cannot be loaded or run, so that nobody could solve it."""
    FAULT = "fault"
    """The machine failed, not the problem and not the agents; tried again by `--resume`."""


@dataclass(frozen=True)
class Gain:
    """Time of a baseline over that of the best candidate; above 1 is faster than the baseline."""

    value: float
    low: float | None = None
    """Lower end of the 95 % interval; None where the two were not timed in turns."""
    high: float | None = None


@dataclass(frozen=True)
class Attempt:
    """One attempt."""

    node: int
    parent: int | None
    role: AgentRole
    status: VerdictStatus
    runtime_ms: float | None = None
    message: str = ""
    failed_in: Stage | None = None
    """As in its verdict."""
    corrections: int | None = None
    """How often its author was asked to correct it; None in rows of forms 1 to 3, which did not keep it."""


@dataclass(frozen=True)
class Best:
    """The best verified candidate, which need not be faster than anything."""

    node: int
    runtime: Timing
    gains: dict[str, Gain] = field(default_factory=dict)
    """By `Baseline` value; those that were timed."""
    times: dict[str, Timing] = field(default_factory=dict)
    """Of the baselines in the candidate's own rounds, so that times and gains tell the same."""
    confirmed: bool = False
    """Whether it was timed as a finalist: longer, and next to all baselines."""
    weights_loaded: bool = True


@dataclass(frozen=True)
class Row:
    """What is kept of a cell."""

    key: str
    """`Cell.key`; of several rows with one key the last counts."""
    outcome: Outcome
    level: int
    id: str
    file: str
    model: str
    """Who was asked for."""
    search: SearchSettings
    budget: Budget
    """What held in the end, so also a limit that comes by itself."""
    evaluation: EvaluationSettings
    settings: str
    agents: AgentSettings = field(default_factory=AgentSettings)
    answered_by: str = ""
    """Who answered, as the run's record says it."""
    reason: str = ""
    """Why it was not measured; of a measured cell, why its agents gave out, if they did."""
    environment: Environment | None = None
    baselines: Baselines | None = None
    """Times of the reference itself."""
    best: Best | None = None
    attempts: tuple[Attempt, ...] = ()
    message: str = ""
    """How the run ended, for a person."""
    ended_by: Limit | None = None
    """What ended its search, if there is a word for it; None too in rows of forms 1 and 2, which did not keep it."""
    spend: Spend = field(default_factory=Spend)
    seconds: float = 0.0
    """That the run took, without those of sittings before it was resumed."""
    resumed: bool = False
    """Whether the run went on from where it had been stopped."""
    run_id: str = ""
    host: str = ""
    finished: str = ""
    """ISO 8601, UTC."""
    notes: tuple[str, ...] = ()
    """What a reader should know of these figures, such as a machine that others loaded."""
    version: str = ""
    """The stark-lsp that ran it."""
    digest: str = ""
    """Of the problem's text; empty in rows of form 1."""
    drawn: str = ""
    """Of what its problem was drawn, where the suite does not say which are representative; else empty."""
    prompts: str = ""
    """Digest of a user's own templates; empty for the built-in ones alone."""
    schema: int = SCHEMA

    @property
    def problem(self) -> str:
        """What the problem is called: `1/19`."""
        return f"{self.level}/{self.id}"


def of_run(
    cell: Cell,
    run: Run,
    nodes: Mapping[int, Node],
    spend: Spend,
    *,
    seconds: float = 0.0,
    resumed: bool = False,
    reason: str = "",
) -> Row:
    """Return the row of a run that came to its end.

    Parameters
    ----------
    nodes
        All nodes with their latest verdicts, the root included.
    reason
        Why the agents gave out; empty if they did not.
    """
    prepared = run.reference.baselines if run.reference is not None else None
    chosen = best_of(run, nodes)
    verdict = chosen.verdict if chosen is not None else None
    notes = [*(run.reference.notes if run.reference is not None else ()), *(verdict.notes if verdict else ())]
    return _row(
        cell,
        Outcome.MEASURED,
        budget=run.budget,
        reason=reason,
        answered_by=run.model,
        environment=run.reference.environment if run.reference is not None else None,
        baselines=prepared,
        best=None if chosen is None or prepared is None else _best(chosen, prepared),
        attempts=_attempts(nodes),
        message=run.message,
        ended_by=run.ended_by,
        spend=spend,
        seconds=seconds,
        resumed=resumed,
        run_id=run.id,
        finished=run.finished,
        notes=tuple(dict.fromkeys(notes)),
    )


def of_failure(
    cell: Cell,
    outcome: Outcome,
    reason: str,
    *,
    seconds: float = 0.0,
    run: Run | None = None,
    nodes: Mapping[int, Node] | None = None,
    spend: Spend | None = None,
) -> Row:
    """Return the row of a cell that was not measured.

    Parameters
    ----------
    run, nodes, spend
        What there was of its run by then, and what that had cost.
    """
    return _row(
        cell,
        outcome,
        reason=reason,
        seconds=seconds,
        answered_by=run.model if run is not None else "",
        run_id=run.id if run is not None else "",
        attempts=_attempts(nodes or {}),
        spend=spend or Spend(),
    )


def best_of(run: Run, nodes: Mapping[int, Node]) -> Node | None:
    """Return the best verified node: the proposal, else the fastest that was confirmed, else the fastest.

    A run proposes only what is faster than eager beyond doubt. A benchmark also wants to know how far the best verified
    candidate is from that.
    """
    if run.best is not None and run.best in nodes:
        return nodes[run.best]
    verified = [node for node in nodes.values() if node.parent is not None and node.verdict and node.verdict.ok]
    prepared = run.reference.baselines if run.reference is not None else None

    def rank(node: Node) -> tuple[bool, bool, float, int]:
        verdict = node.verdict
        assert verdict is not None
        gain = verdict.speedup_vs_eager.value if verdict.speedup_vs_eager else 0.0
        return not verdict.weights_loaded, not (prepared and confirmed(verdict, prepared)), -gain, node.id

    return min(verified, key=rank, default=None)


def confirmed(verdict: Verdict, prepared: Baselines) -> bool:
    """Whether a verdict holds the times of every baseline there is in the same rounds."""
    wanted = ((prepared.compile, verdict.compiled), (prepared.max_autotune, verdict.max_autotuned))
    return all(same_rounds is not None for before, same_rounds in wanted if before is not None)


def _best(node: Node, prepared: Baselines) -> Best | None:
    verdict = node.verdict
    if verdict is None or verdict.runtime is None:
        return None
    found = (
        (Baseline.EAGER, verdict.speedup_vs_eager, prepared.eager, verdict.eager),
        (Baseline.COMPILE, verdict.speedup_vs_compile, prepared.compile, verdict.compiled),
        (Baseline.MAX_AUTOTUNE, verdict.speedup_vs_max_autotune, prepared.max_autotune, verdict.max_autotuned),
    )
    gains = {name.value: _gain(paired, before, verdict.runtime) for name, paired, before, _ in found}
    return Best(
        node.id,
        verdict.runtime,
        {name: gain for name, gain in gains.items() if gain is not None},
        {name.value: timing for name, _, _, timing in found if timing is not None},
        confirmed=confirmed(verdict, prepared),
        weights_loaded=verdict.weights_loaded,
    )


def _gain(paired: Interval | None, before: Timing | None, runtime: Timing) -> Gain | None:
    """Return the paired ratio; where there is none, that of times taken at different moments, with no interval."""
    if paired is not None:
        return Gain(paired.value, paired.low, paired.high)
    if before is None or not runtime.median_ms > 0:
        return None
    return Gain(before.median_ms / runtime.median_ms)


def _attempts(nodes: Mapping[int, Node]) -> tuple[Attempt, ...]:
    made = [node for _, node in sorted(nodes.items()) if node.parent is not None]
    return tuple(_attempt(node, node.verdict) for node in made if node.verdict is not None)


def _attempt(node: Node, verdict: Verdict) -> Attempt:
    message = " ".join(verdict.message.split())[:MESSAGE_LIMIT]
    return Attempt(
        node.id,
        node.parent,
        node.role,
        verdict.status,
        verdict.runtime_ms,
        message,
        verdict.failed_in,
        node.corrections,
    )


def _row(cell: Cell, outcome: Outcome, budget: Budget | None = None, **found: object) -> Row:
    return Row(
        key=cell.key,
        outcome=outcome,
        level=cell.level,
        id=cell.id,
        file=cell.file,
        model=cell.model,
        search=cell.search,
        budget=budget or cell.budget,
        evaluation=cell.evaluation,
        settings=cell.settings,
        agents=cell.agents,
        host=platform.node(),
        version=cell.version,
        digest=hashlib.sha256(cell.text.encode("utf-8", "backslashreplace")).hexdigest()[:12],
        drawn=cell.drawn,
        prompts=prompts.digest(cell.prompts),
        **found,  # type: ignore[arg-type]
    )
