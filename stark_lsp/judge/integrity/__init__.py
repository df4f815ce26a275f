"""Static integrity check: what can be refused, and what is worth a note, without running a candidate.

Python is read as a syntax tree with the aliases of its names, C++ and CUDA by tokens after the preprocessor's work. It
is the first of several defences and never the last one: what it cannot see must be caught while the candidate runs.
"""

from __future__ import annotations

from .check import alternatives, check, check_native, flags, kernels, to_be_judged
from .checks import CHECKS, FLAGS
from .replacing import Alternatives
from .words import Flag, Kernels, Refusal

__all__ = [
    "CHECKS",
    "FLAGS",
    "Alternatives",
    "Flag",
    "Kernels",
    "Refusal",
    "alternatives",
    "check",
    "check_native",
    "flags",
    "kernels",
    "to_be_judged",
]
