"""The report of one or several campaigns: `report.md`, `summary.json` and plots, from the rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stark_lsp.bench import campaign, figures, ledger, statistics, tables
from stark_lsp.bench.arms import Arm, arm_of, by_arm, explained, labels
from stark_lsp.bench.files import put, writing
from stark_lsp.bench.rows import Baseline, Row
from stark_lsp.bench.suite import DRAW_SEED
from stark_lsp.core.wire import to_wire

REPORT = "report.md"
SUMMARY = "summary.json"
MOST_NOTES = 12


@dataclass(frozen=True)
class Source:
    """What one campaign has."""

    folder: Path
    rows: tuple[Row, ...]
    planned: frozenset[str] = frozenset()
    """Keys of the cells that were asked for; empty if nobody knows."""


def collect(folders: Sequence[Path]) -> tuple[Source, ...]:
    """Read campaigns.

    Raises
    ------
    BadInput
        One of the folders holds no results, or those of a later stark-lsp.
    Fault
        A row cannot be read.
    """
    return tuple(Source(folder, ledger.read(folder / ledger.NAME), campaign.planned(folder)) for folder in folders)


def write(sources: Sequence[Source], out: Path) -> Path:
    """Write the report and return the path of its page.

    Parameters
    ----------
    out
        Folder; made if it is not there.

    Raises
    ------
    Fault
        It cannot be written.
    """
    rows = merged(sources)
    arms = by_arm(rows)
    missing = sum(len(source.planned - {row.key for row in source.rows}) for source in sources)
    with writing("The report", out):
        out.mkdir(parents=True, exist_ok=True)
        plots = figures.draw(arms, out)
        put(out / SUMMARY, json.dumps(summary(rows, missing), indent=1) + "\n")
        put(out / REPORT, page(rows, missing, plots))
    return out / REPORT


def merged(sources: Iterable[Source]) -> tuple[Row, ...]:
    """Return the rows of all campaigns; of a cell that was run twice in the same way, the last."""
    found: dict[tuple[str, Arm], Row] = {(row.key, arm_of(row)): row for source in sources for row in source.rows}
    return tuple(found.values())


def page(rows: Sequence[Row], missing: int, plots: Sequence[str] | None) -> str:
    """Return `report.md`.

    Parameters
    ----------
    missing
        Cells that were asked for and have not ended.
    plots
        Names of the plots beside the page; None if matplotlib was not there.
    """
    arms = by_arm(rows)
    parts = ["# Benchmark", "", _counts(rows, missing), ""]
    setups = explained(list(arms))
    if setups:
        parts += ["Settings that not all share, those that are as usual left out:", ""]
        parts += [*(f"- {name}: {text}" for name, text in setups.items()), ""]
    if not arms:
        parts += ["Nothing was measured, so there is nothing to compare.", ""]
    levels = statistics.levels(statistics.measured(rows))
    for level in levels:
        parts += [f"## Table 1: level {level}", "", tables.table1(arms, level)]
        parts += filter(None, [tables.early(arms, level)])
        parts += ["Speed is the arithmetic mean over solved problems, as in the paper. With 95 % intervals:", ""]
        parts += [tables.speeds(arms, level)]
    if arms:
        parts += ["## Table 2: attempts that compile and that are right", ""]
        parts += [tables.table2(arms, levels), tables.corrected(arms), tables.verdicts(arms)]
        if ablation := [table for level in levels if (table := tables.table3(arms, level))]:
            parts += ["## Table 3: ablation", "", *ablation]
        parts += _figures(arms, plots)
        parts += ["## Every problem", "", tables.problems(arms)]
        parts += ["`*`: not timed in the same rounds, so there is no interval.", ""]
    left_out = tables.apart(rows)
    if left_out:
        parts += ["## Left out", "", "These are in no rate above.", "", left_out]
    if rows:
        parts += ["## What it took", "", tables.costs(arms, statistics.left_out(rows))]
    parts += ["## How to read this", "", *_reading(rows), ""]
    return "\n".join(parts)


def summary(rows: Sequence[Row], missing: int) -> dict[str, Any]:
    """Return `summary.json`: the figures of the page for a program, shares as numbers between 0 and 1."""
    arms = by_arm(rows)
    names = labels(list(arms))
    held = {names[arm]: names[own] for arm, own in tables.ours(arms).items()}
    return {
        "schema": 1,
        "cells": len(rows),
        "missing": missing,
        "left_out": [
            {"problem": row.problem, "file": row.file, "outcome": row.outcome.value, "reason": row.reason}
            for row in statistics.left_out(rows)
        ],
        "arms": [
            {
                "label": names[arm],
                **asdict(arm),
                "levels": {
                    str(level): _of_level([row for row in arms[arm] if row.level == level])
                    for level in statistics.levels(arms[arm])
                },
            }
            for arm in tables.ordered(arms)
        ],
        "runtime_over_ours": [
            {"label": label, "ours": held[label], "level": level, **asdict(three)}
            for (label, level), three in tables.ratios(arms).items()
        ],
        "environments": [to_wire(one) for one in _environments(rows)],
    }


def _of_level(rows: Sequence[Row]) -> dict[str, Any]:
    found = {name: statistics.against(rows, *baselines) for name, baselines in statistics.RIVALS.items()}
    return {
        "cells": len(rows),
        "success": _share(statistics.success(rows)),
        "ended_early": len(statistics.ended_early(rows)),
        "gave_out": len(statistics.gave_out(rows)),
        "stopped_by_a_limit": len(statistics.limited(rows)),
        "compile_rate": _share(statistics.compile_rate(rows)),
        "correct_rate": _share(statistics.correct_rate(rows)),
        "corrected": _share(statistics.corrected(rows)),
        "against": {
            name: None
            if one is None
            else {
                "fast1": _share(one.fast),
                "fast1_strict": _share(one.strictly),
                "fast_p": {f"{p:g}": _share(share) for p, share in zip(statistics.FAST_P, one.fast_p, strict=True)},
                "speed": None if one.speeds is None else asdict(one.speeds),
            }
            for name, one in found.items()
        },
        "verdicts": {status.value: count for status, count in statistics.statuses(rows).items()},
    }


def _share(share: statistics.Share) -> dict[str, Any]:
    return {"value": share.value, "interval": share.interval, "hits": share.hits, "n": share.n}


def _counts(rows: Sequence[Row], missing: int) -> str:
    counted, left_out = statistics.measured(rows), statistics.left_out(rows)
    solved = {row.problem for row in counted}
    text = f"{len(counted)} cells on {len(solved)} problems were measured"
    text += f", {len(left_out)} are left out" if left_out else ""
    text += f"; {missing} have not ended yet, so this is not the whole benchmark" if missing else ""
    return text + "."


def _figures(arms: tables.ArmRows, plots: Sequence[str] | None) -> list[str]:
    parts = []
    table = tables.figure1(arms)
    if table:
        parts += ["## Figure 1: runtime of the others over ours", "", table]
    if plots is None:
        return [*parts, "There are no plots, since matplotlib is not installed: `pip install matplotlib`.", ""]
    return [*parts, *(f"![{name.rpartition('.')[0]}]({name})\n" for name in plots)]


def _environments(rows: Sequence[Row]) -> list[Any]:
    found = [replace(row.environment, dtypes=(), shapes=()) for row in rows if row.environment is not None]
    return list(dict.fromkeys(found))


def _reading(rows: Sequence[Row]) -> list[str]:
    """Return the lines that a reader needs to judge the figures by."""
    lines = [
        "- Success, Fast₁ and rates are of measured cells; a cell without a verified candidate is neither a success "
        "nor fast. Speeds are over solved cells only, so read them next to Success.",
        "- Fast₁: at least as fast as the baseline by the median. Beyond doubt: the whole 95 % interval is.",
        "- Better compile: in each cell the faster of torch.compile's two modes, of those that were timed.",
        "- fast_p, as KernelBench has it: of the same cells, those verified and more than p times as fast.",
        "- A candidate counts as right within 2e-5 of the largest output for float32 and KernelBench's own tolerance, "
        "wider only as far as the original itself is off, which is then noted. What passes there may fail here.",
        "- A speed-up is the median of paired ratios from rounds in which baseline and candidate took turns.",
        f"- Intervals of speeds: bootstrap over problems, {statistics.RESAMPLES} samples, seed {statistics.SEED}.",
    ]
    drawn = dict.fromkeys(row.drawn for row in rows if row.drawn)
    if drawn:
        lines.append(
            f"- The suite does not say which of its problems are representative, so they were drawn (seed {DRAW_SEED}, "
            f"spread over each level's order): {', '.join(drawn)}. Another draw, or a list of the suite's authors, "
            "gives other figures."
        )
    for one in _environments(rows):
        what = [one.device, f"torch {one.torch}", f"Python {one.python}"]
        what += [f"CUDA {one.cuda}"] if one.cuda else []
        what += [f"driver {one.driver}"] if one.driver else []
        lines.append(f"- Measured on {', '.join(what)}; {one.threads} CPU threads; isolation {one.isolation}.")
    hosts = {row.host for row in rows if row.host}
    if len(hosts) > 1:
        lines.append(f"- Cells ran on {len(hosts)} machines.")
    wanted = ((Baseline.COMPILE, "compile_baseline"), (Baseline.MAX_AUTOTUNE, "max_autotune"))
    for baseline, setting in wanted:
        asked = [row for row in statistics.measured(rows) if getattr(row.evaluation, setting)]
        failed = {row.problem for row in asked if not statistics.timed(row, baseline)}
        if failed:
            lines.append(f"- There is no time of {baseline.value} on {_some(sorted(failed))}: it failed there.")
    untimed = [row.problem for row in rows if row.best is not None and not row.best.confirmed]
    if untimed:
        lines.append(
            f"- The best of {_some(sorted(set(untimed)))} was not timed next to all baselines; there the ratio is one "
            "of times taken at different moments."
        )
    texts: dict[str, set[str]] = {}
    for row in statistics.measured(rows):
        texts.setdefault(row.problem, set()).add(row.digest)
    several = [problem for problem, found in texts.items() if len(found - {""}) > 1]
    if several:
        lines.append(
            f"- Under one name there is more than one text of {_some(several)}: suites differ, or a problem was "
            "changed. Each text counts as a problem of its own."
        )
    notes: dict[str, int] = {}
    for row in rows:
        for note in row.notes:
            notes[note] = notes.get(note, 0) + 1
    often = sorted(notes.items(), key=lambda item: -item[1])
    lines += [
        f"- In {count} of {len(rows)} cells: {' '.join(note.split())[:300]}" for note, count in often[:MOST_NOTES]
    ]
    return lines


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
