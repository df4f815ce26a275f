"""What a child does to itself before it does anything else."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from typing import NoReturn

from ...contract.prctl import adopt_orphans, prctl
from . import canaries, kernel, landlock, rlimits, seccomp
from .layers import ConfinementFailed, Layer
from .policy import Policy

EXIT_UNCONFINED = 97
"""Exit code of a child that is not confined as it should be."""


def instructions(layer: Layer, policy: Policy) -> str:
    """Return the argument by which a child is told how to confine itself."""
    return json.dumps({"layer": layer.value, "policy": policy._asdict()})


def read_instructions(text: str) -> tuple[Layer, Policy]:
    """Read what `instructions` wrote.

    Raises
    ------
    ValueError
        It is something else.
    """
    fields = json.loads(text)
    try:
        policy = fields["policy"]
        return Layer(fields["layer"]), Policy(**{**policy, "read": tuple(policy["read"])})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a confinement: {error}") from error


def confine(text: str, *, keep: Iterable[int] = ()) -> Policy:
    """Confine this process for good, and check that it holds; ends the process with 97 if it does not.

    Call it first, while there is one thread and nothing foreign is loaded. `address_bytes` is set on programs
    that this process starts through `subprocess`, not on itself, as torch needs more.

    Parameters
    ----------
    keep
        Open descriptors to keep besides the standard streams; all others are closed.

    Returns
    -------
    Policy
        Under which it runs from now on.
    """
    try:
        layer, policy = read_instructions(text)
        enter(layer, policy, keep=keep)
        rlimits.limit_started_programs(policy.address_bytes)
    except (ConfinementFailed, OSError, ValueError) as error:
        _give_up(str(error))
    return policy


def enter(layer: Layer, policy: Policy, *, keep: Iterable[int] = ()) -> None:
    """Do what `confine` does, and raise where it would end the process.

    Raises
    ------
    ConfinementFailed, OSError, ValueError
    """
    _settle(policy)
    rlimits.apply(policy, layer)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        # When memory runs out, this process is to go before the editor does.
        file.write("1000")
    if layer is not Layer.BUBBLEWRAP:
        # What it starts stays below it, and counts as its own, also when those in between have ended.
        adopt_orphans()
    if layer is Layer.PROCESS:
        return
    _close_all(set(keep))
    refused = prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if refused < 0:
        raise OSError(-refused, f"no-new-privileges: {os.strerror(-refused)}")
    kernel.drop_capabilities()
    version = landlock.restrict(policy) if layer is Layer.LANDLOCK else 0
    seccomp.install(
        sockets=_sockets(layer, policy),
        shared=layer is Layer.LANDLOCK,
        hold_signals=layer is Layer.LANDLOCK and version < landlock.SCOPES_ABI,
    )
    canaries.check(layer, policy)


def _sockets(layer: Layer, policy: Policy) -> seccomp.Sockets:
    """Return which sockets a policy needs."""
    if policy.watched and layer is Layer.BUBBLEWRAP:
        return seccomp.Sockets.CONNECTED
    return seccomp.Sockets.LOCAL if policy.gpu else seccomp.Sockets.NONE


def _settle(policy: Policy) -> None:
    """Move into `F/out`."""
    os.chdir(policy.out)
    os.environ.update(HOME=policy.out, TMPDIR=policy.temporary, PWD=policy.out)
    # There is no list of users to look a name up in.
    os.environ.setdefault("USER", "stark")
    os.environ.setdefault("LOGNAME", "stark")
    for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        if not os.environ.get(name, "").startswith(policy.out):
            os.environ.pop(name, None)


def _close_all(keep: set[int]) -> None:
    """Close what this process inherited besides its standard streams."""
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in keep:
            with contextlib.suppress(OSError):
                os.close(number)


def _give_up(why: str) -> NoReturn:
    sys.stderr.write(f"stark: this process is not confined as it should be, so it ends: {why}\n")
    sys.stderr.flush()
    os._exit(EXIT_UNCONFINED)
