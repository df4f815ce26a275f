"""What keeps a candidate apart from the rest of the machine, asked of the worker under the project's interpreter.

The worker starts each sandbox with a small child that tries to get out, so what is reported is what will happen.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any

from stark_lsp.cli.checks.health import Check, Health, output
from stark_lsp.evaluation.environment import worker_environment
from stark_lsp.evaluation.interpreters import first_line, last_object
from stark_lsp.evaluation.preflight import WORKER

PROBE_S = 150.0
"""Two sandboxes are tried; each with a GPU may have to wait for a driver that just woke up."""
OPT_IN = "To do without, if you trust every candidate: --isolation off, or stark.isolation in your editor."

WORDS = {
    "bubblewrap": "Candidates run in a bubblewrap sandbox: no network, and no files of yours.",
    "landlock": "Candidates run confined by Landlock: no network, and no files of yours.",
}


@dataclass(frozen=True)
class Report:
    """What the worker found."""

    layer: str | None
    """What candidates run in by default; None if they are refused."""
    reason: str
    """Why."""
    cure: str
    """What leads to a better layer, empty if nothing has to be done."""
    checks: tuple[Check, ...] = ()
    gpu: bool = False
    """Whether a GPU was tried inside as well."""
    found: dict[str, Any] = field(default_factory=dict)
    """All of the worker's answer."""

    @property
    def words(self) -> str:
        """One sentence on what candidates run in."""
        return WORDS.get(self.layer or "", f"Candidates are not run: {self.reason}")

    def summary(self) -> dict[str, Any]:
        """Return what `doctor --json` says."""
        strict = self.found.get("strict", {}).get("layer") is not None
        return {"layer": self.layer, "reason": self.reason, "cure": self.cure, "gpu": self.gpu, "strict": strict}


def examine(interpreter: str | None) -> Report:
    """Try all layers under the project's interpreter; without one, under that of this program."""
    command = [interpreter or sys.executable, "-u", str(WORKER), "probe"]
    status, text = output(command, timeout=PROBE_S, env=worker_environment(os.environ))
    found = last_object(text.encode(), "auto") if status == 0 else None
    if found is None:
        reason = f"the sandbox could not be tried: {first_line(text) or f'exit status {status}'}"
        return Report(None, reason, OPT_IN, tuple(Check(name, Health.BROKEN, reason) for name in NAMES))
    auto = found["auto"]
    cure = auto["cure"] if auto["layer"] is not None else f"{auto['cure']} {OPT_IN}".strip()
    return Report(auto["layer"], auto["reason"], cure, checks(found), bool(found["gpu"]), found)


NAMES = ("bubblewrap", "user namespaces", "Landlock")


def checks(found: dict[str, Any]) -> tuple[Check, ...]:
    """Return one check for each thing that isolation rests on, by the worker's answer (`judge/sandbox/report.py`)."""
    bubblewrap, landlock = found["layers"]["bubblewrap"], found["layers"]["landlock"]
    # A layer that is missing is no harm while another one holds.
    bad = Health.ABSENT if found["auto"]["layer"] is not None else Health.BROKEN
    with_gpu = ", with the GPU" if found["gpu"] else ""
    if bubblewrap["works"]:
        first = Check(NAMES[0], Health.GOOD, f"works{with_gpu}: a program in it could not get out")
    else:
        cure = bubblewrap["cure"] if bad is Health.ABSENT else f"{bubblewrap['cure']} {OPT_IN}"
        first = Check(NAMES[0], bad, bubblewrap["problem"].rstrip("."), cure)
    if found["user_namespaces"]:
        second = Check(NAMES[1], Health.GOOD, "allowed")
    else:
        detail = "not allowed to every program" if bubblewrap["works"] else "not allowed here"
        second = Check(NAMES[1], Health.ABSENT, detail)
    if landlock["works"]:
        third = Check(
            NAMES[2], Health.GOOD, f"works{with_gpu}: a program under it could not get out (ABI {found['abi']})"
        )
    else:
        third = Check(NAMES[2], Health.ABSENT, landlock["problem"].rstrip("."), landlock["cure"])
    return first, second, third
