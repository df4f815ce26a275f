"""Which node becomes the proposal: the leaders are timed once more before anything is offered.

The search ranks by runtimes taken at different moments, and the best of many noisy figures is
optimistic. So the best verified nodes are judged again in fresh processes, with more rounds,
interleaved with eager and torch.compile; a node is proposed only if the whole 95 % interval of its
speed-up over eager lies above 1, and if it works inside the user's file (`edited_file`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from stark_lsp.core.phrases import caveat
from stark_lsp.core.run import Node
from stark_lsp.core.verdict import Interval, Verdict
from stark_lsp.evaluation.pool import RunJudge

FINALISTS = 3
"""How many nodes are confirmed at most."""
NEAR = 0.03
"""A runner-up whose search runtime is within this fraction of the leader's is confirmed as well.

So is one that the search found faster than the leader is confirmed to be: the best of noisy figures is often too good.
"""

_SIZES = re.compile(r"^_MADE_FOR_\w+ = (?:functools\.cache\(\s*lambda (?P<names>[^:]*):(?P<asks>[^{]*))?", re.MULTILINE)
"""Begins the table of sizes in what the playbook takes over from torch.compile, also in what agents make of that as
long as it goes by them; with the names of those that may be any, and what is asked of them."""
ANY_LENGTH = " With `stark.anyLength` (`--any-length`) sizes that vary have kernels too, where that can be."
_WORDS = {"rows": "batch sizes", "length": "lengths"}
_TEXT = re.compile(r'"\w+": \(\(\w+, \d+(, \d+)?\), \([^)]*\), torch\.(?(1)|int)')
"""An input in that table that may be a text, or a row of vectors, of one length."""


@dataclass(frozen=True)
class Confirmed:
    """The outcome."""

    node: Node | None
    message: str
    """One or two sentences for a person."""


def faster_than_eager(verdict: Verdict | None) -> bool:
    """Whether a verdict proves a gain: `OK`, and the interval of the speed-up above 1."""
    return (
        verdict is not None and verdict.ok and verdict.speedup_vs_eager is not None and verdict.speedup_vs_eager.low > 1
    )


def beats(new: Verdict, standing: Verdict) -> bool:
    """Whether a verdict proves more than an earlier one of another run: more than the intervals of both leave open.

    Both speed-ups are paired ratios to eager, so they compare although they were taken at different times. A candidate
    that takes trained weights beats one that does not.
    """
    if new.weights_loaded != standing.weights_loaded:
        return new.weights_loaded
    now, then = new.speedup_vs_eager, standing.speedup_vs_eager
    if now is None or then is None:
        return now is not None
    return now.value - then.value > math.hypot(now.value - now.low, then.high - then.value)


def pick(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes worth confirming, best first and each source once.

    Weights that load rank before those that do not, then what is faster than eager and gives the same by any measure
    before what is only as far off as the original itself: one would have to explain the difference. What serves other
    lengths too may be a little slower.
    """
    verified = [node for node in nodes if node.verdict is not None and node.verdict.ok]
    verified.sort(key=lambda node: (not _loads(node), not _same(node), node.score / _worth(node), node.id))
    distinct: dict[str, Node] = {}
    for node in verified:
        distinct.setdefault(node.candidate.source, node)
    return list(distinct.values())


async def confirm_best(
    judge: RunJudge,
    nodes: Iterable[Node],
    *,
    keep: Callable[[Node], Awaitable[None]],
    progress: Callable[[str], None],
    trouble: Callable[[Node], Awaitable[str]] | None = None,
) -> Confirmed:
    """Confirm the leaders and return the best that holds, with a message.

    Parameters
    ----------
    judge
        Who times them.
    nodes
        All attempts of the run, without the root.
    keep
        Stores a node with its confirmed verdict.
    progress
        Told what goes on.
    trouble
        Returns why a node does not work inside the user's file, empty if it does; None where no edit is wanted.
    """
    attempts = list(nodes)
    order = pick(attempts)
    if not order:
        return Confirmed(None, "No candidate passed verification." if attempts else "")
    proven: list[Node] = []
    examined: set[int] = set()
    unfit = ""

    async def confirm(node: Node, tools: bool) -> None:
        verdict = await judge.confirm(node.candidate, tools=tools)
        assert node.verdict is not None  # or it were no finalist
        confirmed = replace(node, verdict=replace(verdict, tuned=node.verdict.tuned, swept=node.verdict.swept))
        await keep(confirmed)
        if tools:
            examined.add(node.id)
        if faster_than_eager(verdict):
            proven.append(confirmed)

    for place, node in enumerate(order[:FINALISTS]):
        if proven and not _may_win(node, order[0], _best(proven)):
            break
        progress(f"Timing finalist {place + 1} again, next to eager and torch.compile")
        # Memory checkers take their time; one who only may turn out to be better is timed without them first.
        await confirm(node, tools=not proven or not _on_gpu(node))
    while proven:
        best = _best(proven)
        if best.id in examined:
            if trouble is None or not (unfit := await trouble(best)):
                return Confirmed(best, gain_message(best) + _further(order, best))
            proven.remove(best)
            continue
        proven.remove(best)
        progress("Examining the best of the finalists")
        await confirm(best, tools=True)
    if unfit:
        return Confirmed(None, f"What is faster cannot be written into the file: {unfit}")
    return Confirmed(None, "Nothing verified is faster than eager PyTorch beyond doubt.")


def _may_win(node: Node, leader: Node, best: Node) -> bool:
    """Whether a runner-up was as fast as the leader in the search, or faster than the best is now confirmed to be."""
    if (_loads(node), _same(node)) == (_loads(leader), _same(leader)) and node.score <= leader.score * (1 + NEAR):
        return True
    searched = _searched(node)
    return searched is not None and (_loads(node), _same(node), searched * _worth(node)) > _standing(best)


def _best(proven: Iterable[Node]) -> Node:
    return max(proven, key=_standing)


def _standing(node: Node) -> tuple[bool, bool, float]:
    return _loads(node), _same(node), _gain(node).value * _worth(node)


def _worth(node: Node) -> float:
    """Return what a time is divided by to be compared: who serves other lengths as well may take `NEAR` longer.

    Half as much who serves other batches alone.
    """
    sizes = _SIZES.search(node.candidate.source)
    names = sizes["names"] or "" if sizes else ""
    return 1 + NEAR * (1.0 if "length" in names else 0.5 if names else 0.0)


def _same(node: Node) -> bool:
    """Whether it is faster than eager, and its results are the original's by any measure."""
    errors = None if node.verdict is None else node.verdict.errors
    return (_searched(node) or 0.0) > 1 and (errors is None or not errors.widened)


def _searched(node: Node) -> float | None:
    gain = None if node.verdict is None else node.verdict.speedup_vs_eager
    return None if gain is None else gain.value


def _on_gpu(node: Node) -> bool:
    environment = node.verdict.environment if node.verdict is not None else None
    return environment is not None and environment.device_type == "cuda"


def _loads(node: Node) -> bool:
    return node.verdict is not None and node.verdict.weights_loaded


def _gain(node: Node) -> Interval:
    assert node.verdict is not None
    assert node.verdict.speedup_vs_eager is not None
    return node.verdict.speedup_vs_eager


def _further(nodes: Iterable[Node], best: Node) -> str:
    """Return a sentence on what is faster and was left, as its results are not the same by any measure."""
    if not _same(best):
        return ""
    slower = _gain(best).value
    left = [node for node in nodes if _loads(node) and not _same(node) and (_searched(node) or 0.0) > slower]
    if not left:
        return ""
    node = max(left, key=lambda node: _searched(node) or 0.0)
    return (
        f" Attempt {node.id} is {_searched(node):.2f}x as fast as eager, but its results differ by more than rounding, "
        "as the original's do from float64: choose it if that is no matter."
    )


def gain_message(node: Node) -> str:
    """Return what a node that is faster than eager gains, and where it does not, for a person."""
    told = _compared(node)
    if only := caveat(node.verdict) if node.verdict is not None else "":
        told += f" It is {only}."
    trained = node.verdict.speedup_with_backward if node.verdict is not None else None
    if trained is not None and trained.high < 1:
        told += " Mode `training` searches for the whole step."
    if sizes := _SIZES.search(node.candidate.source):
        others = [_others(one, sizes["asks"]) for one in re.findall(r"\w+(?==0)", sizes["names"] or "")]
        told += f" Other {' and '.join(others)} run these kernels as well." if others else ""
        told += f" Inputs {'that differ more' if others else 'of other sizes'} run your own forward."
        text = _TEXT.search(node.candidate.source, sizes.end())
        told += ANY_LENGTH if text and "length" not in (sizes["names"] or "") else ""
    return told


def _others(name: str, asks: str) -> str:
    """Return which other sizes of a name kernels serve, by what they ask of it."""
    first = re.search(rf"{name} >= (\d+)|(\d+) <= {name}\b", asks)
    least = "1" if first is None else first[1] or first[2]
    return _WORDS[name] + f", from {least} on," * (least != "1")


def _compared(node: Node) -> str:
    gain = _gain(node)
    text = f"{gain.value:.2f}x as fast as eager ({gain.low:.2f} to {gain.high:.2f})"
    compared = node.verdict.speedup_vs_compile if node.verdict is not None else None
    if compared is None:
        return f"{text}; torch.compile was not compared."
    if compared.high < 1:
        return f"{text}, but torch.compile alone is {1 / compared.value:.2f}x as fast as that."
    if compared.low > 1:
        return f"{text} and {compared.value:.2f}x as fast as torch.compile."
    return f"{text}, about as fast as torch.compile ({compared.low:.2f} to {compared.high:.2f})."
