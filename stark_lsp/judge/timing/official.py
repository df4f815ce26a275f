"""How long a finalist is timed on a GPU: at least as many calls of each side as an official evaluator makes.

A round on a GPU has `clock.FRESH` calls at most, and fewer where they are long. So more rounds are made than usual,
each as short as it can be, so that the sides still take turns.
"""

from __future__ import annotations

from typing import Any

SHARE = 2
"""Of the final rounds, one half is made in any case, see `session.FINAL_SHARE`."""
SLOWER = 2
"""So many times slower than eager a candidate may be and still have its number of calls."""
LONGEST_S = 60.0
"""For so long a finalist is timed at most for the sake of that number; a call may take seconds."""
OVERHEAD_S = 0.05
"""Of a round of one side: making inputs, looking at outputs."""
MORE_ROUNDS = 16
"""Most rounds of a finalist in each further process that it is timed in."""
FEWER = (
    "Only {made} calls of a side were timed, since calls are long here: KernelBench's own settings have {calls}, which "
    "would take too long."
)


def at_least(calls: int, settings: dict[str, Any], *, in_a_round: int, call_ms: float, sides: int) -> dict[str, Any]:
    """Return settings for timing a finalist that make at least so many calls of each side, as far as time allows.

    Parameters
    ----------
    calls
        How many; 0 leaves the settings as they are.
    settings
        `core.EvaluationSettings` in wire form.
    in_a_round
        Calls of eager in one round.
    call_ms
        What a call of eager takes.
    sides
        How many take turns, the candidate among them.
    """
    rounds, seconds = int(settings["final_rounds"]), float(settings["final_timing_s"])
    needed = -(-calls // max(1, in_a_round // SLOWER))
    if needed <= rounds // SHARE or int(settings.get("timed_calls", 0)) > 0:
        return settings
    estimate_s = needed * sides * (SLOWER * in_a_round * call_ms / 1e3 + OVERHEAD_S)
    return {
        **settings,
        "final_rounds": SHARE * needed,
        "final_timing_s": max(seconds, min(LONGEST_S, estimate_s)),
    }


def once_more(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings for timing a finalist in a further process."""
    return {**settings, "final_rounds": min(MORE_ROUNDS, int(settings["final_rounds"]))}
