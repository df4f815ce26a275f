"""The end of a run on a terminal: the tree, the numbers, what the proposal launches, and what it all means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from stark_lsp.cli.output import profiles
from stark_lsp.cli.output.evidence import reason
from stark_lsp.cli.terminal import figures, words
from stark_lsp.cli.terminal.console import clean, line
from stark_lsp.core.phrases import STATUS
from stark_lsp.core.plan import Plan
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import RunState
from stark_lsp.core.verdict import Baselines

MAX_DEPTH = 8
"""Levels of the tree that are indented; deeper attempts stand below each other and name their parent."""

VARIANT_WIDTH = 60
"""Characters of a variant in the tree."""
MOMENTS = 0.25
"""By so much eager's time differs between attempts until it is said that only ratios compare."""


def show(
    console: Console, run: Run, nodes: Mapping[int, Node], *, seconds: float | None = None, brief: bool = False
) -> None:
    """Show tree, numbers and conclusion of a run.

    Parameters
    ----------
    seconds
        How long it took, None if that is not known.
    brief
        Leave out the tree, and what the proposal launches.
    """
    console.print()
    if len(nodes) > 1 and not brief:
        console.print(tree(run, nodes))
        if _moments_differ(run, nodes):
            remark = "Times of attempts are of different moments on a busy machine: compare the ratios."
            line(console, remark, "dim")
        console.print()
    if run.reference is not None:
        console.print(numbers(run, nodes, run.problem.qualname))
        for why in reasons(run, nodes):
            line(console, why, "dim")
        if _times_disagree(run, nodes):
            remark = (
                "Each ratio was measured side by side; the times were taken at different moments on a busy machine."
            )
            line(console, remark, "dim")
        elif how := _how(run, nodes):
            line(console, how, "dim")
        console.print()
    best = proposed(run, nodes)
    if best is not None and best.verdict is not None and not brief:
        profiles.show(console, best.id, best.verdict, run.reference)
        console.print()
    style = "bold green" if run.best is not None else "bold" if run.state is RunState.FINISHED else "yellow"
    line(console, run.message or f"The run is {words.STATE[run.state]}.", style)
    remark = compile_remark(run)
    if remark:
        line(console, remark, "yellow")
    tried = figures.count(sum(1 for node in nodes.values() if node.verdict is not None and node.id), "attempt")
    took = f" in {figures.duration(seconds)}" if seconds is not None else ""
    line(console, f"{tried}{took}, run {run.id}", "dim")
    console.print()


def show_stopped(console: Console, run: Run, nodes: Mapping[int, Node], *, again: str) -> None:
    """Say that a run was stopped, and how to go on with it."""
    done = sum(1 for node in nodes.values() if node.id and node.verdict is not None)
    kept = (
        f"{figures.count(done, 'attempt')} {'is' if done == 1 else 'are'} kept" if done else "No attempt was finished"
    )
    line(console, f"Stopped. {kept}.", "bold")
    line(console, f"To go on: {again}")


def preorder(nodes: Mapping[int, Node]) -> Iterator[tuple[Node, int]]:
    """Yield every attempt with its level, from 1: a node, then all below it, then the next one."""
    children: dict[int, list[Node]] = {}
    for number in sorted(nodes, reverse=True):
        parent = nodes[number].parent
        if parent is not None:
            children.setdefault(parent, []).append(nodes[number])
    waiting = [(node, 1) for node in children.get(0, ())]
    while waiting:
        node, level = waiting.pop()
        yield node, level
        waiting += [(child, level + 1) for child in children.get(node.id, ())]


def tree(run: Run, nodes: Mapping[int, Node]) -> Tree:
    """Return the tree of attempts: number, what came of it, speed-up, plan and variant."""
    top = Tree(_root_label(run, nodes), guide_style="dim")
    branches = {0: top}
    several = len({node.candidate.model for node in nodes.values()} - {""}) > 1
    for node, level in preorder(nodes):
        assert node.parent is not None
        branch = branches[node.parent]
        label = _label(node, nodes[node.parent].plan, proposal=node.id == run.best, with_model=several)
        if level <= MAX_DEPTH:
            branches[node.id] = branch.add(label)
        else:
            branch.add(label.append(f"  after {node.parent}", "dim"))
            branches[node.id] = branch
    return top


COLUMNS = ("one call", "against eager", "against compile")
"""Of the table of times."""


def rows(run: Run, nodes: Mapping[int, Node]) -> list[tuple[str, ...]]:
    """Return the rows of the table of times: eager, torch.compile and the proposal, with 95 % intervals.

    All are of the same rounds where the proposal's verdict has them; without a proposal they are those of the start.
    """
    best, baselines = proposed(run, nodes), baselines_of(run, nodes)
    found: list[tuple[str, ...]] = [("eager", figures.timing(baselines.eager), "", "")]
    for name, timing, message in (
        ("torch.compile", baselines.compile, baselines.compile_message),
        ("max-autotune", baselines.max_autotune, baselines.max_autotune_message),
    ):
        if timing is not None:
            ratio = baselines.eager.median_ms / timing.median_ms
            found.append((name, figures.timing(timing), figures.times(ratio), ""))
        elif reason(message):
            found.append((name, "no time", "", ""))
    if best is not None and best.verdict is not None and best.verdict.runtime is not None:
        gains = (best.verdict.speedup_vs_eager, best.verdict.speedup_vs_compile)
        told = (figures.times_interval(gain) if gain is not None else "" for gain in gains)
        found.append((f"attempt {best.id}", figures.timing(best.verdict.runtime), *told))
    return found


def reasons(run: Run, nodes: Mapping[int, Node]) -> list[str]:
    """Return why what was to be timed has no time."""
    baselines = baselines_of(run, nodes)
    pairs = (
        (baselines.compile, baselines.compile_message),
        (baselines.max_autotune, baselines.max_autotune_message),
    )
    return [why for timing, message in pairs if timing is None and (why := reason(message))]


def numbers(run: Run, nodes: Mapping[int, Node], name: str = "") -> Table:
    """Return the table of times under the `name` of what was timed."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in (clean(name), *COLUMNS):
        table.add_column(column, no_wrap=True)
    for row in rows(run, nodes):
        table.add_row(*row, style="bold green" if row[0].startswith("attempt") else "")
    return table


def compile_remark(run: Run) -> str:
    """Return what to say about torch.compile that the run's message does not: empty if nothing."""
    if run.reference is None or run.best is not None or run.state is not RunState.FINISHED:
        return ""
    eager, compiled = run.reference.baselines.eager, run.reference.baselines.compile
    if compiled is not None and compiled.high_ms < eager.low_ms:
        ratio = figures.times(eager.median_ms / compiled.median_ms)
        return f"torch.compile alone is {ratio} as fast as eager here; it needs no new code."
    return ""


def _how(run: Run, nodes: Mapping[int, Node]) -> str:
    """Return how the proposal's times were taken, which differs from how a loop over one input finds them."""
    best = proposed(run, nodes)
    if best is None or best.verdict is None:
        return ""
    others = (
        ("under no_grad", best.verdict.speedup_without_gradients),
        ("with backward", best.verdict.speedup_with_backward),
    )
    told = [f"{name} {figures.times_interval(gain)}" for name, gain in others if gain is not None]
    against = f"; {', '.join(told)} vs eager" if told else ""
    tuned = best.verdict.speedup_vs_max_autotune
    against += f"; {figures.times_interval(tuned)} vs max-autotune" if tuned is not None else ""
    return f"Taken at the end, side by side, each call with empty caches{against}."


def _moments_differ(run: Run, nodes: Mapping[int, Node]) -> bool:
    """Whether eager beside one of the attempts took much longer or shorter than it does by the tree."""
    if run.reference is None:
        return False
    shown = baselines_of(run, nodes).eager.median_ms
    beside = [
        node.verdict.eager for node in nodes.values() if node.verdict is not None and node.verdict.eager is not None
    ]
    return any(abs(eager.median_ms / shown - 1) > MOMENTS for eager in beside)


def _times_disagree(run: Run, nodes: Mapping[int, Node]) -> bool:
    """Whether the proposal's ratio is far from that of the two times above it, which would puzzle a reader."""
    best = proposed(run, nodes)
    if run.reference is None or best is None or best.verdict is None or best.verdict.eager is not None:
        return False
    gain, runtime = best.verdict.speedup_vs_eager, best.verdict.runtime_ms
    if gain is None or not runtime:
        return False
    return abs(run.reference.baselines.eager.median_ms / runtime / gain.value - 1) > 0.1


def proposed(run: Run, nodes: Mapping[int, Node]) -> Node | None:
    """Return the attempt that a run proposes, None if there is none."""
    return nodes.get(run.best) if run.best is not None else None


def baselines_of(run: Run, nodes: Mapping[int, Node]) -> Baselines:
    """Return the times of the reference, which is prepared, that stand next to the proposal's."""
    assert run.reference is not None
    best, prepared = proposed(run, nodes), run.reference.baselines
    return prepared if best is None or best.verdict is None else best.verdict.baselines(prepared)


def _root_label(run: Run, nodes: Mapping[int, Node]) -> Text:
    label = Text.assemble((clean(run.problem.qualname), "bold"), (" as it is", "dim"))
    if run.reference is not None:
        label.append(f"  {figures.milliseconds(baselines_of(run, nodes).eager.median_ms)}")
    return label


def came_of(node: Node) -> str:
    """Return what came of a node in the fewest words: `1.42 ms  2.26x`, or its status."""
    verdict = node.verdict
    if verdict is None:
        return "not judged"
    if verdict.runtime_ms is None:
        return STATUS[verdict.status]
    gain = verdict.speedup_vs_eager
    ratio = f"  {figures.times(gain.value)}" if gain is not None else ""
    return f"{figures.milliseconds(verdict.runtime_ms)}{ratio}"


def _label(node: Node, before: Plan | None, *, proposal: bool, with_model: bool) -> Text:
    verdict = node.verdict
    label = Text.assemble((f"{node.id} ", "bold cyan"))
    gain = verdict.speedup_vs_eager if verdict is not None else None
    style = "dim" if verdict is None else "red" if verdict.status.failed else ""
    if gain is not None and gain.low > 1:
        style = "bold green" if proposal else "green"
    label.append(came_of(node), style)
    if proposal:
        label.append("  proposal", "bold green")
    label.append(f"  {words.title(node)}")
    variant = words.variant(node.plan, before, VARIANT_WIDTH)
    if variant:
        label.append(f"  {variant}", "dim")
    if node.second_parent is not None:
        label.append(f"  with attempt {node.second_parent}", "dim")
    if node.corrections:
        label.append(f"  {words.corrected(node)}", "dim")
    if with_model and node.candidate.model:
        label.append(f"  by {clean(node.candidate.model)}", "dim")
    return label
