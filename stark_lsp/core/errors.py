"""Errors that a user reads: what is wrong, where, and how to mend it."""

from __future__ import annotations

from stark_lsp.contract.errors import Reported


class StarkError(Reported):
    """Something the user can understand and mend."""

    def __str__(self) -> str:
        where = ""
        if self.path is not None:
            where = self.path if self.line is None else f"{self.path}:{self.line}"
            where += ": "
        cure = f" {self.cure}" if self.cure else ""
        return f"{where}{self.message}{cure}"


class BadInput(StarkError):
    """The user's file, class, inputs or options cannot be used as they are (exit code 2)."""


class NoInputs(BadInput):
    """The user's class has no inputs to run it with."""


class Degenerate(BadInput):
    """The user's class runs, and nothing that is compared with it would be known to be right."""


class TooLong(BadInput):
    """A question does not fit into what a model can read; another one may."""


class Fault(StarkError):
    """Something outside the user's code broke: a worker, a disk, a driver (exit code 1)."""


class NotNow(Fault):
    """A fault after which trying again at once is of no use, for instance as a service asked for a long pause."""


class Unusable(Fault):
    """The user's class left the GPU of no more use to its process when it was tried with special inputs."""


class OnlyEmpty(Fault):
    """Attempts in a row left nothing to judge: a failure of whoever answers, not of the machine."""
