"""The runner's side of timing: hold inputs on the device, warm up, time rounds of calls."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from . import clock, modules

WARMUP_S = 1.0
"""After this time no further warm-up call is begun, once two are made."""
_now = time.monotonic


class Timed:
    """What is held for timing."""

    def __init__(self) -> None:
        self._clock: clock.Clock | None = None
        self._calls: list[Callable[[], Any]] = []
        self._count = 0

    def hold(
        self, call: Callable[[Any], Any], sets: list[Any], device: str, *, warmup: int, round_ms: float
    ) -> dict[str, Any]:
        """Warm up and fix the calls of a round.

        Parameters
        ----------
        call
            Runs the module on one of `sets`, each the arguments of one call on the device.
        warmup
            Untimed calls.
        round_ms
            Aimed length of a round in milliseconds.
        """
        self._calls = [functools.partial(call, item) for item in sets]
        self._clock = self._clock or clock.Clock(device)
        begin = _now()
        for index in range(max(1, warmup)):
            self._calls[index % len(self._calls)]()
            modules.synchronize(device)
            if index and _now() - begin > WARMUP_S:
                break
        cost = min(self._clock.cost_ms(self._calls[0]) for _ in range(2))
        self._count = int(max(1, min(200, round_ms / max(cost, 1e-3))))
        return {"calls": self._count}

    def time(self) -> dict[str, Any]:
        """Time one round; one short call goes before it untimed, since the device was idle."""
        if self._clock is None:
            raise LookupError("no inputs are held")
        if self._count > 1:
            self._calls[0]()
        return {"ms": self._clock.measure(self._calls, self._count)}
