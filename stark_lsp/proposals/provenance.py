"""The comment that says where a class comes from and how fast it was measured to be."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from stark_lsp.core.phrases import caveat
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import Mode, VerdictStatus
from stark_lsp.core.verdict import Environment, Interval, Verdict

FIRST_WORDS = "# Optimized by STARK"
"""How the comment begins; an earlier proposal is recognised by it."""
WIDTH = 120
UNKNOWN = "0" * 12
"""A digest that is not known yet."""

_MARK = re.compile(r"# For ([\w.]+), as accepted: ([0-9a-f]{12})\.")
_KERNELS = re.compile(r"# Kernels of ([\w.]+), written by STARK\.")


@dataclass(frozen=True)
class Mark:
    """The last line of the comment in a document: which class is stood in for, and what was accepted."""

    qualname: str
    digest: str
    """Of class and kernels, see `accepted.digest_of`."""

    def __str__(self) -> str:
        return f"# For {self.qualname}, as accepted: {self.digest}."


def read_mark(line: str) -> Mark | None:
    """Return the mark a line of a document is, or None."""
    found = _MARK.fullmatch(line.strip())
    return Mark(found[1], found[2]) if found else None


def kernels_comment(name: str) -> str:
    """Return the comment above the kernels of an accepted class with that qualified name."""
    return f"# Kernels of {name}, written by STARK."


def kernels_of(line: str) -> str | None:
    """Return the class whose kernels a line of a document opens, or None."""
    found = _KERNELS.fullmatch(line.strip())
    return found[1] if found else None


def is_ours(line: str) -> bool:
    """Say whether a comment line is the first or last one above a class that a proposal brought, or its kernels'."""
    return line.strip().startswith(FIRST_WORDS) or read_mark(line) is not None or kernels_of(line) is not None


def provenance_comment(run: Run, node: Node) -> str:
    """Return the comment above an accepted class: lines that begin with `#`, at most 120 columns, no line end.

    It says the measured speed-up against eager and against torch.compile with their 95 % intervals, and plainly
    if torch.compile alone is faster; where that was measured; and which run it was.
    """
    verdict = node.verdict or Verdict(VerdictStatus.OK)
    environment = verdict.environment or (run.reference.environment if run.reference else None)
    sentences = [_eager(verdict), _compile(run, verdict.speedup_vs_compile)]
    if environment is not None:
        sentences.append(_where(run, environment))
    if not verdict.weights_loaded:
        sentences.append(f"Weights saved from {run.problem.class_name} cannot be loaded into it.")
    date = (run.finished or run.created)[:10]
    sentences.append(f"Run {run.id}, node {node.id}{', ' + date if date else ''}.")
    lines: list[str] = []
    for index, sentence in enumerate(sentences):
        start = FIRST_WORDS if index == 0 else "#"
        text = " ".join(_plain(sentence).split())
        wrapped = textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"{start}: " if index == 0 else "# ",
            subsequent_indent="#   ",
            break_on_hyphens=False,
        )
        lines.extend(wrapped or [start])
    return "\n".join(lines)


def _eager(verdict: Verdict) -> str:
    speedup, only = verdict.speedup_vs_eager, caveat(verdict)
    if speedup is None:
        return "speed-up not measured."
    return f"{_factor(speedup)} the speed of eager PyTorch ({_interval(speedup)}){f', {only}' if only else ''}."


def _compile(run: Run, speedup: Interval | None) -> str:
    if speedup is None:
        why = run.reference.baselines.compile_message if run.reference else ""
        return f"Not compared with torch.compile{': ' + why.rstrip('.') if why else ''}."
    figures = f"{_factor(speedup)} the speed of torch.compile ({_interval(speedup)})"
    if speedup.high < 1:
        return f"torch.compile alone is faster: this has {figures}."
    if speedup.low <= 1:
        return f"No clear difference to torch.compile: {figures}."
    return f"{figures[0].upper()}{figures[1:]}."


def _factor(speedup: Interval) -> str:
    return f"{speedup.value:.2f}x"


def _interval(speedup: Interval) -> str:
    return f"95 % interval {speedup.low:.2f} to {speedup.high:.2f}"


def _where(run: Run, environment: Environment) -> str:
    parts = [f"{environment.device} ({environment.device_type})"]
    if environment.dtypes:
        parts.append(" and ".join(environment.dtypes))
    if environment.weights_dtype:
        parts.append(f"converted to {environment.weights_dtype}")
    if environment.autocast:
        parts.append(f"under autocast to {environment.autocast}")
    if environment.shapes:
        parts.append(f"inputs {' '.join(environment.shapes)}")
    parts.append(f"torch {environment.torch}")
    if environment.cuda and environment.device_type == "cuda":
        parts.append(f"CUDA {environment.cuda}")
    mode = {Mode.EVAL: "in eval mode", Mode.TRAINING: "in training mode"}.get(run.problem.mode, "as constructed")
    mode += ", gradients recorded," if environment.gradients else ""
    return f"Measured {mode} with empty caches on {', '.join(parts)}."


def _plain(text: str) -> str:
    """Return text that is safe in a comment of any file: printable ASCII in one line."""
    text = text.encode("ascii", "replace").decode()
    return "".join(character if character.isprintable() else " " for character in text)
