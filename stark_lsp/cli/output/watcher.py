"""Shows a run while it goes on: lines for plans and verdicts, and on a terminal a status line below them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from stark_lsp.cli.terminal import figures, words
from stark_lsp.cli.terminal.console import clean, line, short_path
from stark_lsp.core.conversation import Spend
from stark_lsp.core.events import Ended, Event, Judged, Notice, Planned, Prepared, Progress, Spent
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole
from stark_lsp.core.verdict import Reference

INDENT = 4

SLOW_S = 1.0
"""Seconds after which a step is worth a line of its own where there is no status line."""


class Watcher:
    """Called with each event of a run; use it as a context manager around the run.

    With `brief` it shows the status line alone.
    """

    def __init__(self, console: Console, problem: Problem, *, attempts: int, brief: bool = False) -> None:
        self._heading = console
        self._console = Console(quiet=True) if brief else console
        self._problem = problem
        self._attempts = attempts
        self._attempt = 0
        self._doing = "Starting"
        self._best: Node | None = None
        self.spend = Spend()
        """What the run's calls of models cost so far."""
        self._started = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")
        self._told: set[str] = set()
        self._plans: dict[int, Plan] = {}
        self._slow: asyncio.TimerHandle | None = None
        self._last_block: int | None = None
        self._open: set[int] = set()
        self.on_prepared: Callable[[], None] = lambda: None
        """Called before the reference is shown."""
        self._live = Live(get_renderable=self._status, console=console, refresh_per_second=8, transient=True)
        self._is_live = console.is_terminal and not console.quiet

    def __enter__(self) -> Watcher:
        where = short_path(self._problem.path)
        what = f"STARK: optimizing {clean(self._problem.qualname)} in {clean(where)}"
        budget = f", up to {figures.count(self._attempts, 'attempt')}"
        line(self._heading, Text.assemble((what, "bold"), (budget, "dim")))
        if self._is_live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_waiting()
        if self._is_live:
            try:
                self._live.stop()
            except OSError:
                # The terminal is gone: nothing more is printed, and what ended the run goes on.
                self._heading.on_broken_pipe()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._started

    def __call__(self, event: Event) -> None:
        """Show one event."""
        self._stop_waiting()
        if isinstance(event, Progress):
            self._attempt = max(self._attempt, event.attempt)
            self._attempts = event.attempts or self._attempts
            # Without a status line, what goes on within an attempt or again is not worth a line of its own.
            if not self._is_live and not self._open and event.text not in self._told:
                self._tell_if_slow(event.text)
            self._doing = event.text
        elif isinstance(event, Notice):
            self._indented(clean(event.text), "dim", 2)
        elif isinstance(event, Spent):
            self.spend = event.spend
        elif isinstance(event, Prepared):
            self.on_prepared()
            self._show_reference(event.reference)
        elif isinstance(event, Planned):
            self._attempt = max(self._attempt, event.node)
            self._doing = f"Writing and judging attempt {event.node}"
            self._open.add(event.node)
            self._show_plan(event.node, event.plan, event.parent)
        elif isinstance(event, Judged):
            self._open.discard(event.node.id)
            self._show_verdict(event.node, leader=event.leader)
        elif isinstance(event, Ended):
            self._doing = "Ending"

    def _tell_if_slow(self, text: str) -> None:
        def tell() -> None:
            self._told.add(text)
            line(self._console, f"{text} …", "dim")

        try:
            self._slow = asyncio.get_running_loop().call_later(SLOW_S, tell)
        except RuntimeError:  # a run that is replayed outside of an event loop takes no time
            self._slow = None

    def _stop_waiting(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _show_reference(self, reference: Reference) -> None:
        environment, baselines = reference.environment, reference.baselines
        rows = [
            ("on", f"{words.device(environment)}, torch {environment.torch}"),
            ("inputs", words.inputs(environment)),
            ("eager", figures.timing(baselines.eager)),
        ]
        if baselines.compile is not None:
            rows.append(("torch.compile", figures.timing(baselines.compile)))
        elif baselines.compile_message:
            first = baselines.compile_message.strip().splitlines()[0]
            rows.append(("torch.compile", first))
        for name, value in rows:
            if value:
                line(self._console, Text.assemble((f"  {name:<14}", "dim"), clean(value)))
        for note in reference.notes:
            self._indented(clean(note), "yellow", 2)
        self._console.print()

    def _show_plan(self, number: int, plan: Plan, parent: int | None) -> None:
        before = self._plans.get(parent) if parent is not None else None
        self._plans[number] = plan
        where = words.lines(plan.anchors)
        self._head(number, clean(plan.title), where)
        # Variants of one idea share the advice's first words: the idea is explained once.
        advice = words.advice(plan)
        if advice not in self._told:
            self._told.add(advice)
            self._indented(advice, "dim")
        variant = words.variant(plan, before)
        if variant:
            self._indented(variant, "cyan")
        self._indented(clean(plan.remark), "yellow")

    def _show_verdict(self, node: Node, *, leader: bool) -> None:
        if self._last_block != node.id:
            # A repair has no plan of its own; an attempt of an earlier session was planned then.
            if node.plan is not None and node.role is AgentRole.CODE and node.id not in self._plans:
                self._show_plan(node.id, node.plan, node.parent)
            else:
                self._head(node.id, words.title(node), f"after {node.parent}")
        if node.plan is not None:
            self._plans.setdefault(node.id, node.plan)
        self._indented(clean(node.candidate.remark), "yellow")
        text = words.result(node)
        if node.failed:
            self._indented(text, "red")
        elif leader:
            self._best = node
            self._indented(f"{text}, best so far", "bold green")
        else:
            self._indented(text, "green")

    def _head(self, number: int, title: str, rest: str) -> None:
        self._last_block = number
        line(
            self._console,
            Text.assemble(
                (f"{number:>{INDENT - 1}} ", "bold cyan"), (title, "bold"), (f"  {rest}" if rest else "", "dim")
            ),
        )

    def _indented(self, text: str, style: str, by: int = INDENT) -> None:
        if text and self._console.is_terminal:
            self._console.print(Padding(Text(text, style=style), (0, 0, 0, by)))
        elif text:
            line(self._console, " " * by + text)

    def _status(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        elapsed = Text(figures.duration(self.seconds), style="dim")
        text = Text(clean(self._doing), no_wrap=True, overflow="ellipsis")
        if not self._attempt:
            row.add_row(self._spinner, text, elapsed)
            return row
        bar = ProgressBar(total=self._attempts, completed=self._attempt, width=16, complete_style="cyan")
        gain = self._best.verdict.speedup_vs_eager if self._best is not None and self._best.verdict else None
        spent = Text(figures.spend(self.spend), style="dim")
        best = Text(f"best {figures.times(gain.value)}" if gain is not None else "", style="green")
        row.add_row(self._spinner, bar, Text(f"{self._attempt}/{self._attempts}"), best, text, spent, elapsed)
        return row
