"""The runner's side of timing: hold inputs on the device, warm up, time rounds of calls, show what they gave."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ..correctness import nearby
from ..reference import modules
from ..transport import tensorfile
from ..transport.exchange import Exchange
from . import clock, fresh, kept, placement

WARMUP_S = 1.0
"""After this time no further warm-up call is begun, once two are made."""
FEW = 3
"""Calls of a round at least, unless each takes longer than two rounds are meant to."""
LITTLE = 16 << 20
"""Bytes of inputs and outputs of a call that one thread copies soon enough."""
WARMUP_SEED = "warm-up"
_now = time.monotonic
_Random = random.Random
_manual_seed = torch.manual_seed
_set_grad_enabled = torch.set_grad_enabled
_get_threads = torch.get_num_threads
_set_threads = torch.set_num_threads


class Timed:
    """What is held for timing."""

    def __init__(self) -> None:
        self._clock: clock.Clock | None = None
        self._mixer: fresh.Mixer | None = None
        self._kept: kept.Kept | None = None
        self._call: Callable[[Any], Any] = lambda arguments: None
        self._begin: Callable[[], None] = lambda: None
        self._gradients: Callable[[], bool] = bool
        self._draws: Callable[[], bool] = bool
        self._weights: Callable[[], Iterable[torch.Tensor]] = tuple
        self._device = "cpu"
        self._little = False
        self.exchange: Exchange | None = None
        """Memory that outputs are handed over by."""

    def commands(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """Return what the judge may ask for, by name."""
        return {"time": self.time, "kept": self.kept, "alone": self.alone, "trim": self.trim, "let_go": self.let_go}

    def hold(
        self,
        call: Callable[[Any], Any],
        sets: list[Any],
        device: str,
        *,
        warmup: int,
        round_ms: float,
        begin: Callable[[], None] = lambda: None,
        gradients: Callable[[], bool] = bool,
        draws: Callable[[], bool] = bool,
        weights: Callable[[], Iterable[torch.Tensor]] = tuple,
        lookup: Callable[[str], Any] | None = None,
        picking: bool = True,
    ) -> dict[str, Any]:
        """Warm up and find out how many calls make a round.

        Parameters
        ----------
        sets
            Such arguments on the device, that timed calls get mixtures of.
        begin
            Run before each call, untimed.
        gradients
            Tells whether calls are made where gradients are recorded; they are not, by default.
        draws
            Tells whether calls may draw from the global generators, which then have a seed of their own for each.
        weights
            Tells what inputs close by move where the arguments cannot be moved, see `nearby.drawn`.
        picking
            See `fresh.Mixer`.
        """
        self.let_go()
        self._call, self._device, self._gradients = call, device, gradients
        self._begin, self._draws, self._weights = begin, draws, weights
        self._mixer = fresh.Mixer(sets, lookup, picking=picking)
        if device == "cuda":
            # To see what kind of numbers gigabytes are takes as much again.
            torch.cuda.empty_cache()
        # What stays comes before calls leave free blocks that it would be a part of.
        self._clock = clock.Clock(device)
        began = _now()
        result = None
        for index in range(max(1, warmup)):
            # One that is still held would have the next be made beside it.
            result = None
            result = self._alike(WARMUP_SEED, index)
            modules.synchronize(device)
            if index and _now() - began > WARMUP_S:
                break
        self._kept = kept.Kept(result, device)
        self._kept.begin(1)
        self._little = device == "cpu" and self._mixer.nbytes + self._kept.nbytes <= LITTLE
        self._kept.take(result)
        result = None
        costs = []
        for index in range(2):
            self._kept.begin(1)
            with torch.no_grad():
                costs.append(self._clock.cost_ms(call, index, self._before(WARMUP_SEED), self._take))
        cost = min(costs)
        count = round_ms / max(cost, 1e-3)
        if cost < 2 * round_ms:
            count = max(count, FEW)
        # A round of full length brings all memory that rounds need into the allocator's hands.
        most = min(self._kept.calls, clock.FRESH) if device == "cuda" else self._kept.calls
        calls = int(max(1, min(most, count)))
        self.time(WARMUP_SEED, calls if calls * cost < 4 * round_ms else 1)
        return {"calls": calls}

    def let_go(self) -> dict[str, Any]:
        """Hold nothing any more."""
        self._call = lambda arguments: None
        self._begin, self._weights = lambda: None, tuple
        self._clock = self._mixer = self._kept = None
        return {}

    def _inputs(self, seed: str, number: int) -> Any:
        if self._mixer is None:
            raise LookupError("no inputs are held")
        arguments = self._mixer.inputs(seed, number)
        self._begin()
        if self._draws():
            _manual_seed(_Random(f"{seed}/{number}/drawn").getrandbits(63))
        return arguments

    def _before(self, seed: str) -> clock.Before:
        def before(number: int) -> Any:
            with self._alone():
                arguments = self._inputs(seed, number)
            # Not within the call: entering a context takes as long as launching a kernel.
            _set_grad_enabled(self._gradients())
            return arguments

        return before

    def _alike(self, seed: str, number: int, moved: int = 0, autocast: str = "") -> Any:
        """Make a call as timed ones are made."""
        arguments = self._inputs(seed, number)
        with contextlib.ExitStack() as stack:
            if moved:
                arguments = stack.enter_context(nearby.drawn(arguments, self._weights(), moved, autocast))
            stack.enter_context(torch.set_grad_enabled(self._gradients()))
            return modules.detached(self._call(arguments))

    def _take(self, result: Any) -> None:
        assert self._kept is not None
        with self._alone():
            self._kept.take(modules.detached(result))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Use one thread for what goes with a call, where it is little.

        Waking others costs more, and how much differs between processes, which the judge's own clock would see. The
        threads that wait for their next region are not touched.
        """
        if not self._little:
            yield
            return
        threads = _get_threads()
        _set_threads(1)
        try:
            yield
        finally:
            _set_threads(threads)

    def time(self, seed: str, calls: int, flush: bool = True, pledge: bool = True) -> dict[str, Any]:
        """Time one round; a call goes before it untimed, since the process was idle.

        Parameters
        ----------
        seed
            What the inputs of these calls are made from.
        flush
            Empty the caches before each call.
        """
        if self._clock is None or self._kept is None:
            raise LookupError("no inputs are held")
        # What the round before gave goes first.
        self._kept.begin(calls)
        with placement.spread(seed):
            self._alike(f"{seed}/first", 0)
        with torch.no_grad():
            times = self._clock.measure(self._call, list(range(calls)), self._before(seed), self._take, flush=flush)
        with self._alone():
            return {"ms": times, "pledge": self._kept.pledge() if pledge else []}

    def kept(self, index: int, outputs: str) -> dict[str, Any]:
        """Write what call `index` of the last round returned."""
        if self._kept is None:
            raise LookupError("nothing is kept")
        tensorfile.write(outputs, *self._kept.output(index), self.exchange)
        self._drop()
        return {}

    def alone(self, seed: str, index: int, outputs: str, moved: int = 0, autocast: str = "") -> dict[str, Any]:
        """Run one call of a round once more, untimed, and write what it returned; `moved` as `Timer.alone` has it."""
        self._drop()
        result = self._alike(seed, index, moved, autocast)
        modules.synchronize(self._device)
        tensorfile.save(outputs, result, self.exchange)
        result = None
        self._drop()
        return {}

    def trim(self) -> dict[str, Any]:
        """Give memory back that is held for the next call; that one takes it again, before it is timed."""
        if self._kept is not None and not self._kept.copying:
            # Nobody asks for them again.
            self._kept.begin(0)
        if self._device == "cuda":
            torch.cuda.empty_cache()
        return {}

    def _drop(self) -> None:
        """Give back what is so large that there is no room for others beside it."""
        if self._kept is not None and not self._kept.copying:
            self.trim()
