"""Fields of `EvaluationSettings` that a user may set by name: `--set NAME=VALUE`, and `stark.evaluation` in an editor.

`isolation` is not among them. It has an option of its own, so that nobody gives protection up in passing.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from stark_lsp.core.setting import Setting, shown
from stark_lsp.core.settings import EvaluationSettings

DAY_S = 86400

_DEFAULTS = EvaluationSettings()
_WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
_KINDS = {bool: "boolean", int: "integer", float: "number"}


def _setting(name: str, description: str, low: float | None = None, high: float | None = None) -> Setting:
    default = getattr(_DEFAULTS, name)
    if isinstance(default, Enum):
        return Setting(name, "string", default.value, description, choices=tuple(one.value for one in type(default)))
    return Setting(name, _KINDS[type(default)], default, description, low=low, high=high)


ADJUSTABLE: tuple[Setting, ...] = (
    _setting("load_timeout_s", "Seconds for loading the file and preparing the reference's outputs.", 1, DAY_S),
    _setting("build_timeout_s", "Seconds for building and loading one candidate.", 1, DAY_S),
    _setting("run_timeout_s", "Seconds for one forward pass, and for one round of timing.", 1, DAY_S),
    _setting("compile_timeout_s", "Seconds for the first call of torch.compile.", 1, DAY_S),
    _setting("seeds", "Different inputs that a candidate must match on.", 1, 100),
    _setting("objective", "What the search ranks by: the latency of a call, or its kernels' device time."),
    _setting("gradients", "Call forward where gradients are recorded; off: under torch.no_grad()."),
    _setting("special_inputs", "Check other batch sizes, strided, large and non-finite inputs as well."),
    _setting("warmup", "Untimed calls before timing.", 0, 1000),
    _setting("rounds", "Most rounds of timing behind a verdict.", 3, 1000),
    _setting("final_rounds", "The same for a finalist; at least half of them are made.", 3, 1000),
    _setting("timing_s", "After so many seconds no further round is begun, once six are made.", 0.1, 3600),
    _setting("final_timing_s", "The same for a finalist.", 0.1, 3600),
    _setting("round_ms", "Aimed length of a round in milliseconds.", 0.1, 10000),
    _setting("timed_calls", "Exactly so many timed calls of each side; 0 for rounds.", 0, 100000),
    _setting("target_error", "Timing ends once the speed-up is known within this fraction; 0 never.", 0, 1),
    _setting("compile_baseline", "Time torch.compile as well."),
    _setting("max_autotune", "Time torch.compile with mode max-autotune too (slow to compile)."),
    _setting("profile", "Profile verified candidates."),
    _setting("counters", "Read hardware counters of finalists, where permitted."),
    _setting("sanitizer", "Run finalists on a GPU under compute-sanitizer, where it is installed."),
    _setting("parallel", "Candidates judged at the same time; 0 chooses by the machine.", 0, 64),
    _setting("memory_share", "Share of the machine's memory that a candidate may take.", 0.05, 0.95),
    _setting("log_limit", "Characters of a candidate's output that are kept.", 1000, 500000),
)
"""Every field but `isolation`, with its sensible range."""

_BY_NAME = {setting.name: setting for setting in ADJUSTABLE}


def problem(name: str, value: Any) -> str:
    """Return what is wrong with a name and its value, as the rest of a sentence; empty if nothing.

    Parameters
    ----------
    name
        Of a field.
    value
        A JSON value.
    """
    if name == "isolation":
        return "cannot be set here: isolation is a setting of its own."
    setting = _BY_NAME.get(name)
    if setting is not None:
        return "" if setting.accepts(value) else f"must be {setting.allowed}, not {shown(value)}."
    # Half of the names are alike: where one is very near, those that are less so are no help.
    for cutoff in (0.8, 0.6):
        near = difflib.get_close_matches(name[:80], _BY_NAME, n=3, cutoff=cutoff)
        if near:
            return f"is not known. Did you mean {' or '.join(near)}?"
    return f"is not known. There are {', '.join(_BY_NAME)}."


def parsed(name: str, text: str) -> Any:
    """Return the JSON value that a text on a command line stands for; the text itself if it stands for none."""
    setting = _BY_NAME.get(name)
    if setting is not None and setting.kind == "boolean":
        return _WORDS.get(text.lower(), text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def adjusted(settings: EvaluationSettings, values: Mapping[str, Any]) -> EvaluationSettings:
    """Return `settings` with these fields instead.

    Parameters
    ----------
    values
        JSON values by name, each without a `problem`.
    """
    return replace(settings, **{name: type(getattr(_DEFAULTS, name))(value) for name, value in values.items()})


def how_to_set(name: str, value: object) -> str:
    """Return how a user sets a field, for the cure of an error."""
    return f"--set {name}={value}, or stark.evaluation in an editor"
