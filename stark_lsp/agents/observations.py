"""What agents are shown of past attempts: source, compiler observation, execution result (paper, Figure 4).

Everything here is data for templates, cleaned and capped: sources and logs come from models and their candidates.
The sentences are the templates' own (`prompts/_parts.md`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff

from stark_lsp.agents.diagnosis import adds_up
from stark_lsp.agents.grounding.edits import comparable, report
from stark_lsp.agents.texts import capped, clean, encodable, one_line
from stark_lsp.core.phrases import STATUS
from stark_lsp.core.profile_phrases import TOP, duration, remarks, rest
from stark_lsp.core.run import Node, Note
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import NOT_BUILT, CompilerMessage, Interval, Profile, Reference, Timing, Verdict
from stark_lsp.discovery.syntax import parse

SELECTED_SOURCE = 120_000
"""Characters of the reference's and the selected node's source."""
PAST_SOURCE = 24_000
"""Characters of each other attempt's source."""
ADVICE = 6_000
"""Characters of each other attempt's advice."""
SUMMARY = 1_000
"""Characters of what its author says of each attempt."""
LOG = 4_000
"""Characters of what a candidate printed."""
MESSAGES = 20
"""Messages of a compiler."""
MESSAGE = 600
"""Characters of each of them, and of a verdict's message times four."""
TRIED = 5
"""Values of constants that are told, of those that were timed."""
FIRST_LINES = 3
"""Lines of a message that is told in brief."""
NOTES = 6
"""Notes of the judge on its figures."""
NOTE = 400
"""Characters of a note of an earlier run."""
OPERATORS = 8
"""Operators of its class that are told."""
WAITS = 0.8
"""Share of a call: where kernels take no more of it, that is told of an attempt that is listed."""
NAME = 120
"""Characters of a kernel's name, a title or a note."""
ALIKE = 0.5
"""Share of a source that its changes to another one may take, to be shown in its place."""
ELSEWHERE = "Timed on another device than the run goes on with: its speed-up compares, its time does not"
"""Of an attempt of before it went on."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(rf"[\"'‘`]({_WORD.pattern})")


@dataclass(frozen=True)
class Result:
    """A verdict, for a template."""

    status: str
    """In a few words, for instance `did not compile`."""
    ok: bool
    judged: bool
    """False if there was nothing to judge."""
    compiled: bool
    """False if a compiler rejected it, or it never came to one."""
    message: str
    line: int | None
    code: str
    """What stands in that line; empty if there is none."""
    compiler: tuple[str, ...]
    """Messages of the compiler, each `line 12, column 3: text`."""
    compiler_more: int
    """Messages left out."""
    log: str
    time: str
    """Time of a call with its interval, empty unless it was timed."""
    vs_eager: str
    eager: str
    """Time of the reference in the same rounds; what it took elsewhere is of another moment."""
    vs_compile: str
    difference: str
    """Largest difference over the largest magnitude of the reference's output; empty if not measured."""
    tolerance: str
    profile: tuple[str, ...]
    """What it launches; empty if not asked for."""
    weights_loaded: bool
    notes: tuple[str, ...]
    tuned: str
    """What its constants were given values by, in a sentence; empty if it left none open."""


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed, in brief, for a template."""

    id: int
    status: str
    message: str
    """The first lines."""


@dataclass(frozen=True)
class Attempt:
    """A node, for a template."""

    id: int
    parent: int | None
    combines: int | None
    """The other attempt whose code it took along, if any."""
    is_reference: bool
    repaired: bool
    """Made by the debug agent."""
    built_in: bool
    """Written by the playbook."""
    title: str
    """Of its plan; empty if it has none."""
    advice: str
    summary: str
    """What its author says it does, or of a repair what had been wrong."""
    source: str
    like: int | None
    """The attempt whose source, shown before, its own is but for `changes`; None where `source` has it."""
    changes: str
    left_out: bool
    """Whether there is a source that is not worth showing."""
    remark: str
    """What its author did against the instructions, such as being cut off; empty if nothing."""
    outside: str
    """Lines that its code changed and its plan did not mark, quoted; empty if none."""
    result: Result


def attempt(node: Node, parent: Node | None, *, profile: bool, limit: int = PAST_SOURCE, device: str = "") -> Attempt:
    """Return a node as a template reads it.

    Parameters
    ----------
    parent
        Its parent, if it is at hand: what was edited outside the anchors is only known then.
    profile
        Whether to show its profile.
    limit
        Characters of its source.
    device
        What the run goes on with: an attempt that was timed on another one says so.
    """
    plan = node.plan
    planned = plan if node.role is AgentRole.CODE else None
    shown = result(node.verdict, profile=profile, source=node.candidate.source)
    where = node.verdict.environment if node.verdict is not None else None
    if device and shown.ok and where is not None and where.device != device:
        shown = replace(shown, notes=(f"{ELSEWHERE} ({one_line(where.device, NAME)}).", *shown.notes))
    return Attempt(
        id=node.id,
        parent=node.parent,
        combines=node.second_parent,
        is_reference=node.parent is None,
        repaired=node.role is AgentRole.DEBUG,
        built_in=plan is not None and bool(plan.strategy) and node.role is not AgentRole.DEBUG,
        title=one_line(plan.title, NAME) if plan else "",
        advice=capped(clean(plan.advice), ADVICE) if plan else "",
        summary=capped(clean(node.candidate.summary), SUMMARY),
        source=source_text(node.candidate.source, limit),
        like=None,
        changes="",
        left_out=False,
        remark=one_line(node.candidate.remark, MESSAGE),
        outside=report(parent.candidate, planned, node.candidate) if planned and parent is not None else "",
        result=shown,
    )


def result(verdict: Verdict | None, *, profile: bool, source: str = "") -> Result:
    """Return a verdict as a template reads it; None reads as nothing judged. Lines of `source` are quoted."""
    if verdict is None:
        verdict = Verdict(VerdictStatus.NO_CANDIDATE, "It is still being judged.")
    native = _native(source) if verdict.compiler else []
    messages = [_message(m, _line_of(native, m)) for m in verdict.compiler[:MESSAGES]]
    errors = verdict.errors
    uncompiled = (VerdictStatus.COMPILE_ERROR, VerdictStatus.REFUSED, VerdictStatus.NO_CANDIDATE)
    return Result(
        status=STATUS[verdict.status],
        ok=verdict.ok,
        judged=verdict.status is not VerdictStatus.NO_CANDIDATE,
        compiled=verdict.status not in uncompiled and verdict.failed_in not in NOT_BUILT,
        message=capped(clean(verdict.message), 4 * MESSAGE),
        line=verdict.line,
        code=_line(source.split("\n"), verdict.line or 0),
        compiler=tuple(messages),
        compiler_more=max(0, len(verdict.compiler) - MESSAGES),
        log="" if verdict.ok else capped(clean(verdict.log), LOG).strip(),
        time=timing(verdict.runtime),
        vs_eager=ratio(verdict.speedup_vs_eager),
        eager=timing(verdict.eager),
        vs_compile=ratio(verdict.speedup_vs_compile),
        difference=f"{errors.max_rel:.2g}" if errors else "",
        tolerance=f"{errors.tolerance:.2g}" if errors else "",
        profile=profile_lines(verdict.profile, verdict.runtime) if profile else (),
        weights_loaded=verdict.weights_loaded,
        notes=tuple(one_line(note, 4 * NAME) for note in verdict.notes[:NOTES]) if verdict.ok else (),
        tuned=tuned(verdict),
    )


def tuned(verdict: Verdict) -> str:
    """Return what came of the constants that a candidate left open, in a sentence."""
    if len(verdict.swept) < 2:
        return ""
    timed = sorted((-one.speedup_vs_eager.value, one.values) for one in verdict.swept if one.speedup_vs_eager)
    shown = [f"{values} ({three(-gain)}x)" for gain, values in (*timed[:TRIED], *timed[TRIED:][-1:])]
    failed = len(verdict.swept) - len(timed)
    more = f"; {failed} did not work" if failed else ""
    kept = f"{verdict.tuned} was kept; another than what it came with only if no slower when judged in full"
    best = f"Its constants were left open and {len(verdict.swept)} choices timed: {kept}"
    return one_line(f"{best}. Fastest first, the last the slowest: {'; '.join(shown)}{more}.", 8 * NAME)


def profile_lines(profile: Profile | None, runtime: Timing | None) -> tuple[str, ...]:
    """Return what a forward pass launches, longest first, a line each; times that do not add up as shares."""
    if profile is None:
        return ()
    lines = []
    total = sum(launch.time_us for launch in profile.launched)
    apart = not adds_up(profile, runtime)
    for launch in profile.launched[:TOP]:
        times = f"{launch.count} × " if launch.count != 1 else ""
        took = f"{three(100 * launch.time_us / total)} % of all" if apart else duration(launch.time_us)
        shape = f", {launch.grid} blocks of {launch.block} threads" if launch.grid and launch.block else ""
        more = remarks(launch)
        lines.append(
            f"{times}{one_line(launch.name, NAME)}: {took}{one_line(shape, NAME)}{', ' + more if more else ''}"
        )
    if apart:
        if len(profile.launched) > TOP:
            lines.append(f"and {len(profile.launched) - TOP} more")
        return (*lines, "the machine was busy when these were taken, one by one: only their shares mean something")
    return (*lines, more) if (more := rest(profile)) else tuple(lines)


def timing(value: Timing | None) -> str:
    """Return a time with its interval, for instance `1.42 ms (1.40 ms to 1.47 ms)`; empty if there is none."""
    if value is None:
        return ""
    low, high = duration(value.low_ms * 1e3), duration(value.high_ms * 1e3)
    return f"{duration(value.median_ms * 1e3)} ({low} to {high})"


def ratio(value: Interval | None) -> str:
    """Return a speed-up with its interval, for instance `1.42x (1.40 to 1.47)`; empty if there is none."""
    return "" if value is None else f"{three(value.value)}x ({three(value.low)} to {three(value.high)})"


def bandwidth_gbs(reference: Reference) -> float | None:
    """Return the measured memory bandwidth that the profile of the reference was held against; None if not known."""
    profile, milliseconds = reference.profile, reference.baselines.eager.median_ms
    if profile is None or not profile.bytes or not profile.bandwidth_share or milliseconds <= 0:
        return None
    return profile.bytes / (profile.bandwidth_share * milliseconds * 1e6)


def three(value: float) -> str:
    """Return a number with three digits that count, never as a power of ten below a million: `0.5`, `4170`."""
    return f"{float(f'{value:.3g}'):g}"


def source_text(source: str, limit: int) -> str:
    """Return a source that can be sent, in full if it has at most `limit` characters."""
    return capped(encodable(source.replace("\x1e", "")), limit).rstrip() + "\n"


def difference(before: Node, after: Node) -> str:
    """Return what changed between two candidates; empty where that cannot be told."""
    old, new = (source_text(node.candidate.source, PAST_SOURCE) for node in (before, after))
    return capped(_changes(old, new) or "", PAST_SOURCE)


def as_changes(selected: Attempt, others: Sequence[Attempt], whole: int | None = None) -> list[Attempt]:
    """Return attempts, those that are much like another that is shown with their changes to it for a source.

    Parameters
    ----------
    selected
        The attempt to start from, which is shown first, and whole.
    others
        The rest of the window, in the order in which they are shown, with their whole sources.
    whole
        One of them that is shown whole in any case: the one to take code from.
    """
    bases = [] if selected.is_reference else [selected]
    shown = []
    for one in others:
        told = [(changes, base.id) for base in bases if (changes := _changes(base.source, one.source)) is not None]
        changes, like = min(told, key=lambda each: len(each[0]), default=("", None))
        short = len(changes) <= min(ALIKE * len(one.source), PAST_SOURCE)
        if one.source.strip() and like is not None and short and one.id != whole:
            shown.append(replace(one, source="", like=like, changes=changes))
            continue
        shown.append(replace(one, source=source_text(one.source, PAST_SOURCE)) if one.source else one)
        if shown[-1].source == one.source:
            bases.append(one)
    return shown


def _changes(before: str, after: str) -> str | None:
    """Return a unified diff without its header, None for texts that take too long to compare."""
    old, new = before.splitlines(), after.splitlines()
    if not comparable(old, new):
        return None
    return "\n".join([*unified_diff(old, new, n=2, lineterm="")][2:])


def titles(nodes: Sequence[Node], *, profiled: bool) -> tuple[tuple[int, str, str], ...]:
    """Return id, title and outcome of attempts, in their order, where they have a plan; `profiled`, with waiting."""
    found = []
    for node in nodes:
        if node.plan is not None and node.plan.title:
            outcome = _outcome(node.verdict) + (_waiting(node.verdict) if profiled else "")
            found.append((node.id, one_line(node.plan.title, NAME), outcome))
    return tuple(found)


def failure(node: Node) -> Failure:
    """Return in brief why a node failed."""
    verdict = node.verdict or Verdict(VerdictStatus.NO_CANDIDATE)
    said = clean(verdict.message[: 4 * MESSAGE]).strip().split("\n")[:FIRST_LINES]
    return Failure(node.id, STATUS[verdict.status], capped("\n".join(said), MESSAGE))


def noted(note: Note) -> str:
    """Return what an earlier run left, in one line."""
    if note.text:
        return one_line(note.text, NOTE)
    more = ", …" if len(note.operators) > OPERATORS else ""
    limited = f"limited by {note.bound}" if note.bound else ""
    about = [", ".join(note.operators[:OPERATORS]) + more, note.inputs, limited]
    came = f"{ratio(note.gain)} as fast as eager" if note.gain is not None else STATUS[note.status]
    why = f" ({note.cause})" if note.cause else ""
    title = f"{note.title}, with {note.tuned}" if note.tuned else note.title
    return one_line(f"{note.class_name} [{'; '.join(filter(None, about))}]: {title}: {came}{why}", NOTE)


def _outcome(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not judged yet"
    if verdict.ok and verdict.speedup_vs_eager is not None:
        return f"{ratio(verdict.speedup_vs_eager)} against eager"
    return timing(verdict.runtime) or STATUS[verdict.status]


def _waiting(verdict: Verdict | None) -> str:
    """Say how much of a call its kernels take on a GPU, where that is not most of it: the idea may be a good one."""
    if verdict is None or verdict.runtime is None or verdict.profile is None or not verdict.profile.device_us:
        return ""
    call_us, kernels_us = verdict.runtime.median_ms * 1e3, verdict.profile.device_us
    known = verdict.environment is not None and verdict.environment.device_type != "cpu"
    if not known or kernels_us > WAITS * call_us:
        return ""
    return f", of {duration(call_us)} its kernels take {duration(kernels_us)}"


def _message(said: CompilerMessage, code: str) -> str:
    column = f", column {said.column}" if said.column else ""
    place = f"line {said.line}{column}: " if said.line else ""
    return place + capped(clean(said.text), MESSAGE) + (f"\n    {code}" if code else "")


def _line(lines: Sequence[str], number: int) -> str:
    """Return what stands in a line, counted from 1; sources are shown without numbers."""
    return one_line(lines[number - 1], 2 * NAME) if 0 < number <= len(lines) else ""


def _line_of(native: Sequence[Sequence[str]], said: CompilerMessage) -> str:
    """Return the line a message is about; of several sources that of the only one whose line has what it quotes."""
    lines = [_line(lines, said.line) for lines in native]
    if len(lines) > 1:
        quoted = set(_QUOTED.findall(said.text))
        lines = [line for line in lines if not quoted.isdisjoint(_WORD.findall(line))]
    return lines[0] if len(lines) == 1 else ""


def _native(source: str) -> list[list[str]]:
    """Return the lines of each source that a compiler may have been given."""
    try:
        tree = parse(source)
    except SyntaxError:
        return []
    return [
        node.value.split("\n")
        for statement in tree.body
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value
    ]
