"""The plots of a report, by matplotlib, which comes with the extra `bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stark_lsp.bench import statistics, tables
from stark_lsp.bench.arms import labels
from stark_lsp.bench.files import writing
from stark_lsp.bench.rows import Baseline

FORMATS = ("png", "svg")
COLOURS = ("#4878a8", "#d08a3c", "#6a9a5b", "#8d6aa8", "#7a7a7a", "#b45a5a")
"""Of arms, in the order of the tables; told apart by most people who see colours differently."""


def draw(arms: tables.ArmRows, folder: Path) -> tuple[str, ...] | None:
    """Write the plots and return the names of their PNG files; None where matplotlib is not installed.

    Raises
    ------
    Fault
        A file cannot be written.
    """
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    # The same rows give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "stark"
    written = []
    with writing("The plots", folder, "Check the free space."):
        if _runtimes(arms, folder / "figure1"):
            written.append("figure1.png")
        for baseline in Baseline:
            if _speedups(arms, baseline, folder / f"speedups-{baseline.value}"):
                written.append(f"speedups-{baseline.value}.png")
    return tuple(written)


def _runtimes(arms: tables.ArmRows, path: Path) -> bool:
    """Draw the paper's Figure 1: bars of the other arms' runtimes over ours, by level."""
    found = tables.ratios(arms)
    if not found:
        return False
    names = list(dict.fromkeys(name for name, _ in found))
    levels = sorted({level for _, level in found})
    figure, axes = _axes()
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        for index, level in enumerate(levels):
            three = found.get((name, level))
            if three is None:
                continue
            x = index + (place - (len(names) - 1) / 2) * width
            low, high = three.mean.low, three.mean.high
            spread = None if low is None or high is None else [[three.mean.value - low], [high - three.mean.value]]
            axes.bar(
                x, three.mean.value, width * 0.92, yerr=spread, capsize=3, color=COLOURS[place % len(COLOURS)],
                label=name if index == min(i for i, one in enumerate(levels) if (name, one) in found) else None,
            )  # fmt: skip
            beside = (x - 0.04 * width, three.mean.value)
            axes.annotate(f"{three.mean.value:.1f}×", beside, ha="right", va="bottom", fontsize=8)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xlim(-0.6, len(levels) - 0.4)
    axes.set_xticks(range(len(levels)), [f"Level {level}" for level in levels])
    axes.set_ylabel("Runtime over ours (mean, 95 % interval)")
    axes.legend(frameon=False)
    _save(figure, path)
    return True


def _speedups(arms: tables.ArmRows, baseline: Baseline, path: Path) -> bool:
    """Draw the speed-up of every solved cell over one baseline, slowest first, on a logarithmic axis."""
    names = labels(list(arms))
    shown = [(arm, _gains(arms[arm], baseline)) for arm in tables.ordered(arms)]
    everything = [value for _, values in shown for value in values]
    if not everything:
        return False
    few = max(everything) < 30 * min(everything)  # more would write minor labels over each other
    figure, axes = _axes()
    for place, (arm, values) in enumerate(shown):
        if values:
            # From 0 to 1, so that arms with unlike numbers of solved cells can be compared.
            share = [(index + 0.5) / len(values) for index in range(len(values))]
            axes.plot(share, values, marker="o", markersize=4, color=COLOURS[place % len(COLOURS)], label=names[arm])
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}×" if few else "")
    axes.set_xlim(0, 1)
    axes.set_xlabel("Share of solved problems")
    axes.set_ylabel(f"Speed-up over {tables.HEADINGS[baseline].lower()}")
    axes.legend(frameon=False)
    _save(figure, path)
    return True


def _gains(rows: Sequence[Any], baseline: Baseline) -> list[float]:
    found = (statistics.gain(row, baseline) for row in rows)
    return sorted(one.value for one in found if one is not None)


def _axes() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    for kind in FORMATS:
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(path.with_suffix(f".{kind}"), dpi=160, metadata=metadata)
