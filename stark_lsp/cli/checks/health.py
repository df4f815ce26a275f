"""What a check of `stark-lsp doctor` says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from stark_lsp.evaluation.interpreters import first_line


class Health(str, Enum):
    """The outcome of one check."""

    GOOD = "good"
    """There, and it works."""
    ABSENT = "absent"
    """Not there; optimizing on the CPU works without it."""
    BROKEN = "broken"
    """Optimizing on the CPU does not work without it."""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report."""

    name: str
    health: Health
    detail: str
    """What was found, one line."""
    cure: str = ""
    """What to do about it; empty if nothing needs to be done."""


def output(command: Sequence[str], *, timeout: float = 20.0, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a command and return its exit status with its output; status 127 if it cannot be run or hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            env=dict(env) if env is not None else None,
            check=False,
        )
    except OSError as error:
        return 127, str(error.strerror or error)
    except subprocess.TimeoutExpired:
        return 127, f"no answer within {timeout:g} s"
    return done.returncode, done.stdout.decode(errors="replace").strip()


def version(text: str) -> str:
    """Return the first thing in a text that looks like a version, or its first line."""
    found = re.search(r"\d+\.\d+[\w.+-]*", text)
    return found.group() if found else first_line(text)
