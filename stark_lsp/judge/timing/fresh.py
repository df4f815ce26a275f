"""Inputs that no call has seen before: each timed call gets a new mixture of the sets that were made ahead.

A candidate that remembers results by the pointer, the identity or the content of its inputs gains nothing
then, nor does one that adds up results it has: each element is mixed by a weight of its own, so that no earlier
inputs span the new ones. What inputs depend on is the judge's seed and the number of the call alone, so that another
process can make the same inputs and say what they should have given. In storage, strides, offset and alignment they
are like those of checked calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..correctness.difference import equal
from ..reference import modules
from ..transport import tensorfile, values
from .kinds import kind_of, names_of

RING = 3
"""Buffers that calls take turns with; a call finds those of the calls before it untouched."""
RING_LIMITS = (1 << 30, 2 << 30)
"""Bytes of inputs from which two buffers must do, and from which one must."""
PERIOD = 1 << 22
"""Weights of elements, after which they come again."""
SLACK = 1 << 18
"""Places among them at which those of a call begin."""
WEIGHTS_SEED = 29
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""A type that has all operators, by its bytes."""

_mul = torch.mul
_lerp = torch.lerp
_add = torch.add
_Random = random.Random
_Generator = torch.Generator
_randperm = torch.randperm
_randint = torch.randint
_searchsorted = torch.searchsorted


def buffers(nbytes: int) -> int:
    """Return how many buffers calls take turns with whose inputs take so many bytes."""
    return RING - sum(nbytes > limit for limit in RING_LIMITS)


class _Input:
    """One tensor of the inputs: what each set has for it, and the buffers it is mixed in."""

    def __init__(self, tensors: list[torch.Tensor], ring: int, margin: int, weights: Weights, loose: bool) -> None:
        first = tensors[0]
        kind = kind_of(tensors)
        self._kind = kind if loose else kind._replace(picked=-1, free=False, shuffled=False, renamed=False)
        self._shape, self._stride = first.shape, first.stride()
        self._grad = first.requires_grad
        self._dtype = first.dtype
        length = tensorfile.span(self._shape, self._stride)
        self._spans = [tensor.detach().as_strided((length,), (1,)) for tensor in tensors]
        self._different = [self._spans[0]]
        """Of the sets that are not the same."""
        self._ranks = []
        for span in self._spans:
            same = [number for number, other in enumerate(self._different) if equal(span, other)]
            self._ranks.append(same[0] if same else len(self._different))
            self._different += [] if same else [span]
        self._names = names_of(tensors) if self._kind.renamed else None
        self._nbytes = length * first.element_size()
        self._margin = margin
        self._weights = weights
        self._buffers = [tensorfile.surrounded(self._nbytes, first.device, margin) for _ in range(ring)]

    def mix(self, place: int, draw: Draw, pick: Pick) -> torch.Tensor:
        """Return a mixture in the buffer `place`."""
        flat = self._buffers[place][self._margin : self._margin + self._nbytes]
        out = flat.view(self._dtype)
        view = out.as_strided(self._shape, self._stride)
        if not self._kind.mixed:
            out.copy_(self._spans[draw.sets[0]])
            if self._kind.picked >= 0:
                self._pick(view, draw.sets[0], pick)
        elif len(self._spans) > 1:
            count = len(self._different)
            one, other, third = (self._ranks[number] for number in draw.sets)
            other = other if other != one else (one + 1) % count
            self._blend(out, self._different[one], self._different[other], draw)
            self._settle(out, self._different[third], draw)
        elif self._kind.rolled:
            # Between 1 and all but one of the samples.
            by = self._stride[0] * (1 + int(draw.roll * (self._shape[0] - 1)) % (self._shape[0] - 1))
            source, rest = self._spans[0], self._spans[0].numel() - by
            self._blend(out[:rest], source[:rest], source[by:], draw)
            self._blend(out[rest:], source[rest:], source[:by], draw)
            self._settle(out, source, draw)
        elif self._kind.free:
            _mul(self._spans[0], 0.8, out=out)
            self._blend(out, self._spans[0], out, draw)
        else:
            _mul(self._spans[0], 0.8 + 0.2 * draw.roll, out=out)
        if self._kind.shuffled:
            view.copy_(view.index_select(-1, pick.order(self._shape[-1])))
        if self._names is not None:
            found, loose = self._names
            names = found.clone()
            names[loose] = found[loose[pick.order(loose.numel())]]
            view.copy_(names[_searchsorted(found, view.long().contiguous())])
        fresh = tensorfile.alone(flat, self._dtype, self._shape, self._stride)
        return fresh.requires_grad_(True) if self._grad else fresh

    def _blend(self, out: torch.Tensor, one: torch.Tensor, other: torch.Tensor, draw: Draw) -> None:
        """Mix two sources, each element by a weight of its own where that may be."""
        if not self._kind.free:
            _mul(one, draw.weight, out=out)
            _add(out, other, alpha=1.0 - draw.weight, out=out)
            return
        for begin, end, weights in self._weights.of(out, draw.begin):
            _lerp(other[begin:end], one[begin:end], weights, out=out[begin:end])

    def _settle(self, out: torch.Tensor, source: torch.Tensor, draw: Draw) -> None:
        """Move all of a mixture towards a source, since the weights of many elements have always the same mean."""
        if self._kind.free:
            _lerp(source, out, draw.weight, out=out)

    def _pick(self, out: torch.Tensor, one: int, pick: Pick) -> None:
        """Take samples from other sets, or have those of set `one` change places."""
        dim = self._kind.picked
        # Some types have no operators but for those that copy.
        whole = WHOLE[self._dtype.itemsize]
        out = out.view(whole)
        views = [span.view(whole).as_strided(self._shape, self._stride) for span in self._spans]
        if self._kind.permuted:
            out.copy_(views[one].index_select(dim, pick.order(self._shape[dim])))
            return
        for number, view in enumerate(views):
            chosen = pick.of(number, self._shape[dim])
            if number != one and chosen.numel():
                out.index_copy_(dim, chosen, view.index_select(dim, chosen))


class Draw(NamedTuple):
    """What is drawn for all inputs of a call."""

    sets: tuple[int, int, int]
    weight: float
    roll: float
    begin: int
    """Place of the first element's weight."""


@dataclass(eq=False)
class Weights:
    """Random weights between 0 and 1, the same in all processes."""

    period: int
    """After so many elements they come again."""
    device: torch.device
    """Where the inputs are."""

    def __post_init__(self) -> None:
        self._made: dict[torch.dtype, torch.Tensor] = {}

    def of(self, out: torch.Tensor, begin: int) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Return pieces of a flat tensor: begin, end, weights."""
        if out.dtype not in self._made:
            generator = _Generator().manual_seed(WEIGHTS_SEED)
            drawn = torch.rand(self.period + SLACK, generator=generator)
            self._made[out.dtype] = drawn.to(self.device, out.dtype)
        weights = self._made[out.dtype]
        for place in range(0, out.numel(), self.period):
            size = min(self.period, out.numel() - place)
            yield place, place + size, weights[begin : begin + size]


@dataclass(eq=False)
class Pick:
    """Which sample of which set a call gets; the same for all inputs with as many samples."""

    seed: int
    """Of this call."""
    sets: int
    """How many sets there are."""
    device: torch.device
    """Where the inputs are."""

    def __post_init__(self) -> None:
        self._made: dict[tuple[str, int], torch.Tensor] = {}

    def order(self, count: int) -> torch.Tensor:
        """Return a permutation of so many samples."""
        return self._make("order", count).to(self.device)

    def of(self, number: int, count: int) -> torch.Tensor:
        """Return which samples come from set `number`."""
        return (self._make("sets", count) == number).nonzero()[:, 0].to(self.device)

    def _make(self, what: str, count: int) -> torch.Tensor:
        if (what, count) not in self._made:
            # On the CPU, where generators give the same numbers to all processes.
            generator = _Generator().manual_seed(self.seed)
            self._made[what, count] = (
                _randperm(count, generator=generator)
                if what == "order"
                else _randint(self.sets, (count,), generator=generator)
            )
        return self._made[what, count]


class Mixer:
    """Makes the inputs of any number of calls from a few sets.

    Parameters
    ----------
    sets
        Argument trees of one call each, on the device, of equal structure; later ones that differ in it from
        the first are left out.
    picking
        Mix elements and pick samples, columns and integers each for itself; without it, what can be mixed is mixed as a
        whole, and other inputs are those of one set.
    """

    def __init__(self, sets: list[Any], lookup: Callable[[str], Any] | None = None, *, picking: bool = True) -> None:
        held: list[list[torch.Tensor]] = [[] for _ in sets]
        skeletons = [values.encode(tree, tensors) for tree, tensors in zip(sets, held)]
        forms = [list(map(_form, tensors)) for tensors in held]
        alike = [number for number, form in enumerate(forms) if form == forms[0]]
        self._skeletons = [skeletons[number] for number in alike]
        columns = [list(column) for column in zip(*(held[number] for number in alike))]
        self._lookup = lookup
        self.nbytes = modules.nbytes_of([column[0] for column in columns])
        """Bytes of the inputs of one call."""
        self._ring = buffers(self.nbytes)
        self._device = columns[0][0].device if columns else torch.device("cpu")
        longest = max((tensorfile.span(column[0].shape, column[0].stride()) for column in columns), default=0)
        weights = Weights(min(longest, PERIOD), self._device)
        margin = tensorfile.margin_of(self.nbytes)
        self._inputs = [_Input(column, self._ring, margin, weights, picking) for column in columns]

    def inputs(self, seed: str, index: int) -> Any:
        """Return the arguments of call `index` by the judge's seed; they stay valid until a few calls later."""
        rng = _Random(f"{seed}/{index}")
        count = len(self._skeletons)
        one = rng.randrange(count)
        other = (one + rng.randrange(1, count)) % count if count > 1 else one
        draw = Draw((one, other, rng.randrange(count)), rng.uniform(0.2, 0.8), rng.random(), rng.randrange(SLACK))
        pick = Pick(rng.getrandbits(63), count, self._device)
        with torch.no_grad():
            tensors = [item.mix(index % self._ring, draw, pick) for item in self._inputs]
        return values.decode(self._skeletons[one], tensors, self._lookup)


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device.type
