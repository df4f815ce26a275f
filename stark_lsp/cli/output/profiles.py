"""What a verdict's profile says, in a few lines on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stark_lsp.cli.terminal import figures
from stark_lsp.cli.terminal.console import clean, line
from stark_lsp.core import profile_phrases as phrases
from stark_lsp.core.verdict import Profile, Reference, Verdict

NAME_WIDTH = 50
"""Characters of a kernel's name that are shown."""


def show(console: Console, number: int, verdict: Verdict, reference: Reference | None) -> None:
    """Show what an attempt launches, how close it comes to the device, and what kept it apart."""
    environment = verdict.environment or (reference.environment if reference is not None else None)
    profile, subject = verdict.profile, f"Attempt {number}"
    if profile is not None and profile.launched:
        what = "operator" if environment is not None and environment.device_type == "cpu" else "kernel"
        before = reference.profile if reference is not None else None
        line(console, f"{subject} runs {_total(profile, what)}{_eager(before, what)}", "bold")
        console.print(launched(profile))
        subject = "It"
    if profile is not None:
        text = phrases.summary(profile, environment)
        if text:
            line(console, f"{subject} {text}." if profile.bytes else f"{subject} is {text}.")
            subject = "It"
    if verdict.environment is not None:
        line(console, f"{subject} was {clean(phrases.isolation(verdict.environment))}.", "dim")
    for loop in profile.scalar_loops if profile is not None else ():
        line(console, f"  not vectorized: {clean(loop)}", "dim")
    for metric in profile.metrics if profile is not None else ():
        line(console, f"  {clean(metric.name)} {metric.value:.3g} {clean(metric.unit)}".rstrip(), "dim")
    notes = (*verdict.notes, *(profile.notes if profile is not None else ()))
    for note in dict.fromkeys(notes):
        line(console, clean(note), "dim")


def launched(profile: Profile) -> Table:
    """Return the longest launches: time, how often, name, and what is notable."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for launch in profile.launched[: phrases.TOP]:
        name = clean(launch.name)
        label = Text(name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…")
        told = phrases.remarks(launch)
        if told:
            label.append(f"  {told}", "yellow")
        times = f"{launch.count}x" if launch.count > 1 else ""
        table.add_row(f"  {phrases.duration(launch.time_us)}", times, label)
    others = phrases.rest(profile)
    if others:
        table.add_row("", "", others, style="dim")
    return table


def _total(profile: Profile, what: str) -> str:
    count = figures.count(sum(launch.count for launch in profile.launched), what)
    return f"{count}, {phrases.duration(profile.device_us)}" if profile.device_us is not None else count


def _eager(profile: Profile | None, what: str) -> str:
    """Return what eager runs in its place, empty if that is not known."""
    return f"; eager {_total(profile, what)}" if profile is not None and profile.launched else ""
