"""The paper's tables as Markdown, and what has to be told beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stark_lsp.bench import statistics
from stark_lsp.bench.arms import Arm, labels, same_machine, unlikeness
from stark_lsp.bench.rows import Baseline, Outcome, Row
from stark_lsp.bench.statistics import Estimate, Share

ABSENT = "–"
ORDER = ("sampling", "reflexion", "search-agent", "ma-only", "stark")
"""Systems as the paper's tables list them; others stand before `stark`."""
ABLATION = ("sampling", "search-agent", "ma-only", "stark")
"""Systems of Table 3."""
OURS = "stark"
HEADINGS = {Baseline.EAGER: "Torch eager", Baseline.COMPILE: "Default", Baseline.MAX_AUTOTUNE: "Max-autotune"}
"""What the paper calls the baselines."""
OUTCOMES = {
    Outcome.DEGENERATE: "refused by the judge",
    Outcome.UNUSABLE: "cannot be used",
    Outcome.FAULT: "the machine failed",
}

ArmRows = Mapping[Arm, Sequence[Row]]


def ordered(arms: Iterable[Arm]) -> list[Arm]:
    """Return arms as the paper's tables list their systems."""

    def place(arm: Arm) -> tuple[int, Arm]:
        return (ORDER.index(arm.system) if arm.system in ORDER else len(ORDER) - 2, arm)

    return sorted(arms, key=place)


def table1(arms: ArmRows, level: int) -> str:
    """Return success, Fast1 and speed of each arm on one level (paper, Table 1)."""
    baselines = _timed(arms, level)
    names = labels(list(arms))
    head = [f"Level {level}", "Success", *(f"{HEADINGS[b]}: {what}" for b in baselines for what in ("Fast₁", "Speed"))]
    lines = []
    for arm in ordered(arms):
        rows = _of_level(arms[arm], level)
        if rows:
            lines.append([names[arm], _percent(statistics.success(rows)), *_fast_and_speed(rows, baselines)])
    return _table(head, lines)


def table2(arms: ArmRows, levels: Sequence[int]) -> str:
    """Return compile and correct rates of each arm over all attempts (paper, Table 2)."""
    names = labels(list(arms))
    head = ["", *(f"{what} {level}" for what in ("Compile rate, level", "Correct rate, level") for level in levels)]
    lines = []
    for arm in ordered(arms):
        rates = [
            _rate(rate(_of_level(arms[arm], level)))
            for rate in (statistics.compile_rate, statistics.correct_rate)
            for level in levels
        ]
        lines.append([names[arm], *rates])
    return _table(head, lines)


def corrected(arms: ArmRows) -> str:
    """Return a line for each arm on the corrections that its attempts in Table 2 had."""
    names = labels(list(arms))
    lines = []
    for arm in ordered(arms):
        most, found = arms[arm][0].search.corrections, statistics.corrected(arms[arm])
        had = f"; {found.hits} of {found.n} attempts had any" if most and found.n else ""
        up_to = f"up to {most} correction{'' if most == 1 else 's'} each{had}" if most else "no corrections"
        lines.append(f"{names[arm]}: an attempt counts with {up_to}.\n")
    return "\n".join(lines)


def table3(arms: ArmRows, level: int) -> str:
    """Return Fast1 and speed of the systems of the ablation (paper, Table 3); empty with fewer than two of them."""
    chosen = {arm: rows for arm, rows in arms.items() if arm.system in ABLATION and _of_level(rows, level)}
    if len({arm.system for arm in chosen}) < 2:
        return ""
    baselines = _timed(chosen, level)
    names = labels(list(arms))
    head = [f"Level {level}", *(f"{HEADINGS[b]}: {what}" for b in baselines for what in ("Fast₁", "Speed"))]
    return _table(
        head, [[names[arm], *_fast_and_speed(_of_level(chosen[arm], level), baselines)] for arm in ordered(chosen)]
    )


def speeds(arms: ArmRows, level: int) -> str:
    """Return mean, geometric mean and median of the speed with their intervals, the strict Fast1 and fast_p."""
    names = labels(list(arms))
    lines = []
    for arm in ordered(arms):
        for rival, baselines in statistics.RIVALS.items():
            if not set(baselines) <= set(_timed(arms, level)):
                continue
            found = statistics.against(_of_level(arms[arm], level), *baselines)
            if found is None:
                continue
            three = [found.speeds.mean, found.speeds.geomean, found.speeds.median] if found.speeds else [None] * 3
            solved = found.speeds.mean.n if found.speeds else 0
            lines.append(
                [names[arm], rival, *map(_with_interval, three), f"{solved} of {found.fast.n}",
                 _rate(found.fast), _rate(found.strictly), *map(_percent, found.fast_p)]
            )  # fmt: skip
    head = [f"Level {level}", "Against", "Mean", "Geometric mean", "Median", "Solved", "Fast₁", "Fast₁ beyond doubt"]
    head += [f"fast_{p:g}" for p in statistics.FAST_P]
    return _table(head, lines)


def figure1(arms: ArmRows) -> str:
    """Return how much longer the other arms' best candidates take than ours, by level; empty with one arm only."""
    found, held = ratios(arms), ours(arms)
    if not found:
        return ""
    names = labels(list(arms))
    against = {names[arm]: names[own] for arm, own in held.items()}
    several = len(set(against.values())) > 1
    lines = [
        [label, *([against[label]] if several else []), str(level), _with_interval(three.mean),
         _with_interval(three.geomean), str(three.mean.n)]
        for (label, level), three in found.items()
    ]  # fmt: skip
    head = ["Runtime over ours", *(["Ours"] if several else []), "Level", "Mean", "Geometric mean"]
    return _table([*head, "Problems both solved"], lines)


def ours(arms: Iterable[Arm]) -> dict[Arm, Arm]:
    """Return for each other arm which one it is held against, on a machine like its own.

    That is the arm of the system `stark` that is most like it; for others of that system the first one; where there is
    none, the last arm of the tables.
    """
    everyone = list(arms)
    found = {}
    for arm in everyone:
        beside = [one for one in everyone if same_machine(one, arm)]
        own = [one for one in beside if one.system == OURS] or ordered(beside)[-1:]
        chosen = own[0] if arm in own else min(own, key=lambda one: unlikeness(one, arm))
        if chosen != arm:
            found[arm] = chosen
    return found


def ratios(arms: ArmRows) -> dict[tuple[str, int], statistics.Speeds]:
    """Return by arm and level what Figure 1 shows: the runtime of each arm over that of `ours`."""
    names, held = labels(list(arms)), ours(arms)
    found = {}
    for arm in ordered(held):
        for level in statistics.levels(arms[held[arm]]):
            pairs = statistics.runtime_ratios(_of_level(arms[held[arm]], level), _of_level(arms[arm], level))
            three = statistics.speeds(pairs)
            if three is not None:
                found[names[arm], level] = three
    return found


def early(arms: ArmRows, level: int) -> str:
    """Return a line for each arm and reason for which its search ended before its budget in some cells."""
    names = labels(list(arms))
    lines = []
    for arm in ordered(arms):
        rows = _of_level(arms[arm], level)
        for found, what, why in (
            (statistics.ended_early(rows), "ended early", "nothing more to propose"),
            (statistics.gave_out(rows), "gave out", "no candidates any more, or a question too long for the model"),
            (statistics.limited(rows), "was stopped", "a limit of time, tokens or money"),
        ):
            made = sorted(len(row.attempts) for row in found)
            if made:
                after = f"{made[0]}" if made[0] == made[-1] else f"{made[0]} to {made[-1]}"
                lines.append(
                    f"{names[arm]} {what} in {len(made)} of {len(rows)} cells, after {after} of {arm.attempts} "
                    f"attempts: {why}.\n"
                )
    return "\n".join(lines)


def verdicts(arms: ArmRows) -> str:
    """Return how many attempts of each arm ended with which verdict."""
    names = labels(list(arms))
    lines = []
    for arm in ordered(arms):
        counts = statistics.statuses(arms[arm])
        shown = ", ".join(f"{status.value} {count}" for status, count in counts.items())
        lines.append([names[arm], str(sum(counts.values())), shown or ABSENT])
    return _table(["", "Attempts", "Verdicts"], lines)


def costs(arms: ArmRows, left_out: Sequence[Row]) -> str:
    """Return what each arm took: time, calls of models, tokens and money; and what the cells took that do not count."""
    names = labels(list(arms))
    lines = [[names[arm], *_cost(arms[arm])] for arm in ordered(arms)]
    if left_out:
        lines.append(["left out", *_cost(left_out)])
    return _table(["", "Cells", "Time", "Calls", "Tokens", "Cost"], lines)


def _cost(rows: Sequence[Row]) -> list[str]:
    calls = sum(row.spend.calls for row in rows)
    tokens = sum(row.spend.usage.total for row in rows)
    unpriced = sum(row.spend.unpriced for row in rows)
    dollars = f"${sum(row.spend.dollars for row in rows):.2f}"
    if unpriced:
        dollars += f" and {unpriced} calls of unknown price"
    hours = sum(row.seconds for row in rows) / 3600
    return [str(len(rows)), f"{hours:.2f} h", str(calls), f"{tokens:,}", dollars]


def problems(arms: ArmRows) -> str:
    """Return one line for each measured cell."""
    names = labels(list(arms))
    lines = []
    for arm in ordered(arms):
        for row in sorted(arms[arm], key=_place):
            gains = [statistics.gain(row, baseline) for baseline in Baseline]
            best = f"{row.best.runtime.median_ms:.4g}" if row.best is not None else ABSENT
            eager = _eager(row)
            right = sum(attempt.status.value == "OK" for attempt in row.attempts)
            shown = [
                ABSENT if one is None else f"{one.value:.2f}×" if one.low is not None else f"{one.value:.2f}×*"
                for one in gains
            ]
            lines.append(
                [_text(row.problem), _text(row.file), names[arm], str(row.search.seed), eager, best, *shown,
                 f"{right} of {len(row.attempts)}"]
            )  # fmt: skip
    head = ["Problem", "File", "Arm", "Seed", "Eager, ms", "Best, ms", "vs eager", "vs compile", "vs max-autotune"]
    return _table([*head, "Verified"], lines)


def apart(rows: Iterable[Row]) -> str:
    """Return the cells that do not count, one line for each problem and reason; empty if there are none."""
    seen: dict[tuple[str, str, str, str], int] = {}
    for row in sorted(statistics.left_out(rows), key=_place):
        place = (row.problem, row.file, OUTCOMES[row.outcome], row.reason)
        seen[place] = seen.get(place, 0) + 1
    lines = [[*map(_text, place), str(count)] for place, count in seen.items()]
    return _table(["Problem", "File", "", "Why", "Cells"], lines) if lines else ""


def _of_level(rows: Sequence[Row], level: int) -> tuple[Row, ...]:
    return tuple(row for row in rows if row.level == level)


def _timed(arms: ArmRows, level: int) -> list[Baseline]:
    """Return the baselines that were timed in any cell of a level."""
    rows = [row for own in arms.values() for row in _of_level(own, level)]
    return [baseline for baseline in Baseline if any(statistics.timed(row, baseline) for row in rows)]


def _eager(row: Row) -> str:
    """Return the time of eager in the rounds of the best candidate, else as it was taken before."""
    timing = row.best.times.get(Baseline.EAGER.value) if row.best is not None else None
    if timing is None and row.baselines is not None:
        timing = row.baselines.eager
    return ABSENT if timing is None else f"{timing.median_ms:.4g}"


def _fast_and_speed(rows: Sequence[Row], baselines: Sequence[Baseline]) -> list[str]:
    cells = []
    for baseline in baselines:
        found = statistics.against(rows, baseline)
        cells.append(_percent(found.fast) if found else ABSENT)
        cells.append(f"{found.speeds.mean.value:.2f}×" if found and found.speeds else ABSENT)
    return cells


def _percent(share: Share) -> str:
    return ABSENT if share.value is None else f"{100 * share.value:.1f}%"


def _rate(share: Share) -> str:
    return ABSENT if share.value is None else f"{100 * share.value:.1f}% ({share.hits} of {share.n})"


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return ABSENT
    if estimate.low is None:
        return f"{estimate.value:.2f}×"
    return f"{estimate.value:.2f}× ({estimate.low:.2f} to {estimate.high:.2f})"


def _place(row: Row) -> tuple[int, int, str, int]:
    return row.level, int(row.id) if row.id.isdecimal() else 1 << 31, row.id, row.search.seed


def _text(text: str) -> str:
    """Return text of a file or an error as the content of a table's cell."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    for special in "\\|`*_[]<>":
        plain = plain.replace(special, "\\" + special)
    return " ".join(plain.split())[:400]


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(out) + "\n"
