"""A verdict with all that speaks for it, as a page on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stark_lsp.cli.terminal import figures, words
from stark_lsp.cli.terminal.console import clean, line
from stark_lsp.core import profile_phrases as phrases
from stark_lsp.core.phrases import STATUS, caveat
from stark_lsp.core.status import IsolationLayer
from stark_lsp.core.verdict import CompilerMessage, Environment, Launch, Metric, Profile, Reference, Verdict

LAUNCHES = 12
"""Kernels that are listed; the rest is summed up."""
LOG_LINES = 15
"""Last lines of the candidate's output that are shown when it failed."""
NAME_WIDTH = 60
BEFORE = ", before the candidate came"
"""Told of times that are not of the candidate's own rounds: the machine may have changed since."""


def show(console: Console, reference: Reference | None, verdict: Verdict) -> None:
    """Show a verdict with its evidence; there is no reference where nothing had to be prepared."""
    _conclusion(console, verdict)
    if reference is None:
        return
    _section(console, "Time", list(times(reference, verdict)))
    sentence = compared(verdict)
    if sentence:
        line(console, f"  {sentence}", "bold" if verdict.ok else "")
    _section(console, "Correctness", list(errors(verdict)))
    if verdict.profile is not None:
        show_profile(console, verdict.profile, verdict.environment or reference.environment)
    _section(console, "Where", list(where(verdict.environment or reference.environment)))
    _section(console, "Stages", [("", stages(verdict))])
    told = verdict.profile.notes if verdict.profile is not None else ()
    _notes(console, tuple(note for note in (*reference.notes, *verdict.notes) if note not in told))


def stages(verdict: Verdict) -> str:
    """Return how long each stage of judging took; empty if that is not known."""
    return ", ".join(f"{clean(name)} {seconds:.2f} s" for name, seconds in verdict.stages_s)


def compared(verdict: Verdict) -> str:
    """Return one plain sentence on what the times mean; empty if the candidate has none."""
    gain, versus = verdict.speedup_vs_eager, verdict.speedup_vs_compile
    if not verdict.ok or gain is None:
        return ""
    if versus is not None and versus.high < 1:
        return f"torch.compile alone is faster: {figures.times(1 / versus.value)} as fast as this, with no new code."
    if gain.high < 1:
        return f"It is slower than eager PyTorch, which is {figures.times(1 / gain.value)} as fast."
    if gain.low <= 1:
        return "It is not faster than eager PyTorch beyond the noise of the measurement."
    text = f"It is {figures.times(gain.value)} as fast as eager PyTorch"
    if versus is None:
        return f"{text}; torch.compile was not compared."
    if versus.low > 1:
        return f"{text} and {figures.times(versus.value)} as fast as torch.compile."
    return f"{text}, about as fast as torch.compile."


def compiler_line(message: CompilerMessage) -> str:
    """Return what a compiler said, with its place."""
    place = f"{message.line}:{message.column}  " if message.line else ""
    return f"{place}{clean(message.text)}"


def _conclusion(console: Console, verdict: Verdict) -> None:
    style = "bold green" if verdict.ok else "bold red"
    word = STATUS[verdict.status]
    at = f", line {verdict.line}" if verdict.line is not None else ""
    line(console, Text.assemble((word[:1].upper() + word[1:] + at, style), (f"  {verdict.status.value}", "dim")))
    if only := caveat(verdict):
        _indented(console, f"It is {only}.", "bold")
    message = clean(verdict.message).strip()
    if message:
        _indented(console, message)
    for one in verdict.compiler:
        _indented(console, compiler_line(one), "red")
    log = clean(verdict.log).rstrip().splitlines()
    if log and not verdict.ok and not verdict.compiler:
        _indented(
            console, "Its output:" if len(log) <= LOG_LINES else f"The last {LOG_LINES} lines of its output:", "dim"
        )
        for text in log[-LOG_LINES:]:
            _indented(console, text, "dim", by=4)


def times(reference: Reference, verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield what was timed, each with what it is called."""
    if verdict.runtime is not None:
        yield "one call", f"{figures.timing(verdict.runtime)}, n = {verdict.runtime.n}"
        yield from _device_time(reference, verdict, 1e3 * verdict.runtime.median_ms)
    for name, gain in (
        ("against eager", verdict.speedup_vs_eager),
        ("the same, no_grad", verdict.speedup_without_gradients),
        ("with backward", verdict.speedup_with_backward),
        ("against torch.compile", verdict.speedup_vs_compile),
        ("against max-autotune", verdict.speedup_vs_max_autotune),
    ):
        if gain is not None:
            yield name, figures.times_interval(gain)
    before, baselines = reference.baselines, verdict.baselines(reference.baselines)
    for name, timing, own, message in (
        ("eager", baselines.eager, verdict.eager, ""),
        ("torch.compile", baselines.compile, verdict.compiled, before.compile_message),
        ("max-autotune", baselines.max_autotune, verdict.max_autotuned, before.max_autotune_message),
    ):
        if timing is not None:
            yield name, f"{figures.timing(timing)}{'' if own else BEFORE}"
        elif why := reason(message):
            yield name, f"no time: {why}"


def _device_time(reference: Reference, verdict: Verdict, runtime_us: float) -> Iterator[tuple[str, str]]:
    """Say what of a call on a GPU its kernels take, what is left, and what the reference's take."""
    known = verdict.environment is not None and verdict.environment.device_type == "cuda"
    if known and verdict.profile is not None and verdict.profile.device_us is not None:
        device_us = verdict.profile.device_us
        left = phrases.duration(max(0.0, runtime_us - device_us))
        theirs = reference.profile.device_us if reference.profile is not None else None
        eager = f"; eager's kernels take {phrases.duration(theirs)}" if theirs else ""
        yield "device time", f"{phrases.duration(device_us)}, launch overhead {left}{eager}"


def reason(message: str) -> str:
    """Return the first line of why there is no time, empty if nobody asked for one."""
    lines = clean(message).strip().splitlines()
    return lines[0] if lines and lines[0] != "Switched off." else ""


def errors(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield how far the outputs are from the reference's."""
    found = verdict.errors
    if found is not None:
        yield "largest difference", f"{found.max_abs:.3g}, {found.max_rel:.3g} of the largest output"
        yield "allowed", f"{found.tolerance:.3g} of the largest output"
        if found.float64_max_rel is not None:
            yield "against float64", f"{found.float64_max_rel:.3g} of the largest output"
    if not verdict.weights_loaded:
        yield "weights", "the reference's do not load into it; it was only compared when built anew"


def show_profile(console: Console, profile: Profile, environment: Environment) -> None:
    """Show what one call launches, and how that compares with what the device can do."""
    if profile.launched:
        console.print()
        line(console, "Launched in one call", "bold")
        console.print(Padding(launched(profile.launched), (0, 0, 0, 2)))
    roofline = roofline_of(profile, environment)
    rows = [("roofline", roofline)] if roofline else []
    rows += [(clean(metric.name), metric_text(metric)) for metric in profile.metrics]
    _section(console, "Against what the device can do", rows)
    _notes(console, profile.notes)


def metric_text(metric: Metric) -> str:
    """Return a counter with its unit."""
    return f"{metric.value:.4g} {clean(metric.unit)}".rstrip()


def launch_columns(launches: Sequence[Launch]) -> list[tuple[str, list[str]]]:
    """Return the columns of a table of kernels, a cell for each launch; those that say nothing are left out."""
    columns: list[tuple[str, list[str]]] = [
        ("kernel", [_cut(clean(launch.name)) for launch in launches]),
        ("times", [str(launch.count) for launch in launches]),
        ("time", [phrases.duration(launch.time_us) for launch in launches]),
        ("grid", [launch.grid for launch in launches]),
        ("block", [launch.block for launch in launches]),
        ("registers", [_number(launch.registers) for launch in launches]),
        ("shared", [_number(launch.shared_bytes, " B") for launch in launches]),
        ("spills", [_number(launch.spill_bytes, " B") for launch in launches]),
        ("occupancy", ["" if launch.occupancy is None else f"{launch.occupancy:.0%}" for launch in launches]),
    ]
    # On a CPU most columns say nothing.
    return [(name, cells) for name, cells in columns if any(cells)]


def launched(launches: tuple[Launch, ...]) -> Table:
    """Return the table of kernels that one call launches."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = launch_columns(launches[:LAUNCHES])
    for name, _ in columns:
        table.add_column(name, justify="left" if name in ("kernel", "grid", "block") else "right", no_wrap=True)
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row)
    others = other_launches(launches)
    if others:
        table.add_row(others, style="dim")
    return table


def other_launches(launches: Sequence[Launch]) -> str:
    """Return what the launches that are not listed come to; empty if there are none."""
    rest = launches[LAUNCHES:]
    if not rest:
        return ""
    total = figures.milliseconds(sum(launch.time_us for launch in rest) / 1000)
    return f"and {figures.count(len(rest), 'other')}, {total} together"


def roofline_of(profile: Profile, environment: Environment) -> str:
    """Return how close it comes to what this device can do; empty if that is not known."""
    return "; ".join(text for text in (phrases.summary(profile, environment), phrases.least(profile)) if text)


def where(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield where figures were taken, and how the class was called."""
    yield "device", clean(words.device(environment))
    versions = [f"torch {environment.torch}", f"Python {environment.python}"]
    for name, value in (("CUDA", environment.cuda), ("driver", environment.driver)):
        if value:
            versions.append(f"{name} {value}")
    if environment.compiler:
        versions.append(environment.compiler)
    yield "with", clean(", ".join(versions))
    yield "inputs", clean(words.inputs(environment))
    yield "called", "where gradients are recorded" if environment.gradients else "under torch.no_grad()"
    plain = environment.isolation == IsolationLayer.PROCESS.value
    apart = clean(phrases.isolation(environment))
    yield "isolation", f"{apart}: a plain process under your account" if plain else apart


def _section(console: Console, title: str, rows: list[tuple[str, str]]) -> None:
    rows = [(name, value) for name, value in rows if value]
    if not rows:
        return
    console.print()
    line(console, title, "bold")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        line(console, Text.assemble((f"  {name:<{width}}  " if width else "  ", "dim"), value))


def _notes(console: Console, notes: tuple[str, ...]) -> None:
    if notes:
        console.print()
    for note in dict.fromkeys(notes):
        _indented(console, clean(note), "yellow")


def _indented(console: Console, text: str, style: str = "", *, by: int = 2) -> None:
    if console.is_terminal:
        console.print(Padding(Text(text, style=style), (0, 0, 0, by)))
    else:
        line(console, " " * by + text.replace("\n", "\n" + " " * by), style)


def _number(value: int | None, unit: str = "") -> str:
    return "" if value is None else f"{value}{unit}"


def _cut(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"
