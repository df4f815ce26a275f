"""Inputs that no call has seen before: each timed call gets a new mixture of the sets that were made ahead.

A candidate that remembers results by the pointer, the identity or the content of its inputs gains nothing
then. The mixture depends on the judge's seed and the number of the call alone, so that another process can
make the same inputs and say what they should have given.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ..transport import values

RING = 3
"""Buffers that calls take turns with; a call finds those of the calls before it untouched."""
RING_LIMITS = (1 << 30, 2 << 30)
"""Bytes of inputs from which two buffers must do, and from which one must."""
SHIFTS = 4
"""Different alignments of a buffer."""
STEP = {"cpu": 64, "cuda": 256}
"""Bytes between them: as much as torch's own allocator aligns to on a CPU, half of it on a GPU."""
SAMPLE = 4096
"""Elements that are looked at to see what kind of numbers a tensor holds."""
FEW = 16
"""A tensor with no more different numbers than this holds categories, not quantities."""

ROWS = 16
"""With fewer samples than this, too few different choices of them exist."""
UNIQUE_LIMIT = 1 << 20
"""Elements up to which they are compared with each other."""

_mul = torch.mul
_add = torch.add
_Random = random.Random
_Generator = torch.Generator
_randperm = torch.randperm
_randint = torch.randint


def buffers(nbytes: int) -> int:
    """Return how many buffers calls take turns with whose inputs take so many bytes."""
    return RING - sum(nbytes > limit for limit in RING_LIMITS)


class Mixable(NamedTuple):
    """How one tensor is mixed."""

    mixed: bool
    """Whether values may be mixed; otherwise each is taken from one of the sets as it is."""
    rolled: bool
    """With one set: whether it may be mixed with itself, moved along the first dimension."""
    picked: int = -1
    """Where values are not mixed: the dimension along which samples of all sets are picked; -1 for none."""
    permuted: bool = False
    """Whether samples of one set change places instead, since no two of them are equal."""


def kind_of(tensors: list[torch.Tensor]) -> Mixable:
    """Say how one input, given as each set has it, may be mixed.

    A convex combination of two sets keeps ranges, signs, symmetry, definiteness, sums of probabilities and
    order. It does not keep integers, categories, flags or infinities, so tensors of these are never mixed.
    With one set alone, samples of a batch are mixed with each other; where the first dimension may not be a
    batch (a vector, a square matrix), the values are scaled down a little instead.
    """
    kind = _arithmetic(tensors)
    return kind if kind.mixed else _picking(tensors)


def _picking(tensors: list[torch.Tensor]) -> Mixable:
    """Say how values that cannot be mixed (indices, categories, flags) become a new input nevertheless.

    Samples along the batch, or along the longest dimension if the batch is small, are picked from all sets; all such
    inputs of a size get the same choice, so that a sequence keeps its mask. What is sorted (offsets), or the same in
    all sets (a causal mask), means something as a whole and stays as it is.
    """
    first = tensors[0]
    none = Mixable(False, False)
    if first.dim() == 0 or first.numel() != _span(first):
        return none
    same = len(tensors) > 1 and all(torch.equal(first, tensor) for tensor in tensors[1:])
    dim = 0 if first.shape[0] >= ROWS else max(range(first.dim()), key=lambda number: first.shape[number])
    if same or first.shape[dim] < 2 or (len(tensors) == 1 and first.dtype == torch.bool):
        return none
    if first.dim() == 1 and all(_sorted(tensor) for tensor in tensors):
        return none
    unique = len(tensors) == 1 or (
        first.dim() == 1
        and first.numel() <= UNIQUE_LIMIT
        and all(torch.unique(tensor).numel() == tensor.numel() for tensor in tensors)
    )
    return Mixable(False, False, dim, unique)


def _sorted(tensor: torch.Tensor) -> bool:
    """Whether elements never fall, or never rise."""
    if tensor.dtype == torch.bool or tensor.dtype.is_complex:
        return False
    before, after = tensor[:-1], tensor[1:]
    return bool((before <= after).all()) or bool((before >= after).all())


def _arithmetic(tensors: list[torch.Tensor]) -> Mixable:
    """Say whether values may be mixed."""
    first = tensors[0]
    plain = first.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    if not (plain or first.dtype.is_complex) or first.numel() == 0:
        return Mixable(False, False)
    for tensor in tensors:
        if not bool(torch.isfinite(tensor).all()):
            return Mixable(False, False)
        if plain:
            flat = tensor.reshape(-1)
            sample = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].double().cpu()
            if bool((sample == sample.round()).all()) or (
                sample.numel() > 2 * FEW and torch.unique(sample).numel() <= FEW
            ):
                return Mixable(False, False)
    shape, stride = first.shape, first.stride()
    batched = first.dim() >= 2 and shape[0] > 1 and shape[0] != shape[1]
    dense = first.numel() == _span(first) and stride[0] == max(stride) if first.dim() else False
    return Mixable(True, batched and dense)


def _span(tensor: torch.Tensor) -> int:
    """Return how many elements of memory a tensor reaches over."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))  # noqa: B905 - Python 3.9


class _Input:
    """One tensor of the inputs: what each set has for it, and the buffers it is mixed in."""

    def __init__(self, tensors: list[torch.Tensor], ring: int) -> None:
        first = tensors[0]
        self._kind = kind_of(tensors)
        self._shape, self._stride = first.shape, first.stride()
        self._grad = first.requires_grad
        self._dtype = first.dtype
        self._spans = [tensor.detach().as_strided((_span(tensor),), (1,)) for tensor in tensors]
        self._nbytes = self._spans[0].numel() * first.element_size()
        self._step = STEP.get(first.device.type, 64)
        room = self._nbytes + SHIFTS * self._step
        self._buffers = [torch.zeros(room, dtype=torch.uint8, device=first.device) for _ in range(ring)]

    @property
    def buffer(self) -> torch.Tensor:
        """The bytes of one of the buffers."""
        return self._buffers[0]

    def mix(
        self, place: int, shift: int, one: int, other: int, weight: float, roll: float, pick: Pick | None
    ) -> torch.Tensor:
        """Return a mixture in the buffer `place`, moved by `shift` steps."""
        begin = shift * self._step
        out = self._buffers[place][begin : begin + self._nbytes].view(self._dtype)
        source = self._spans[one]
        if not self._kind.mixed:
            out.copy_(source)
            if pick is not None and self._kind.picked >= 0:
                self._pick(out.as_strided(self._shape, self._stride), one, pick)
        elif one != other:
            _mul(source, weight, out=out)
            _add(out, self._spans[other], alpha=1.0 - weight, out=out)
        elif self._kind.rolled:
            # Between 1 and all but one of the samples.
            by = self._stride[0] * (1 + int(roll * (self._shape[0] - 1)) % (self._shape[0] - 1))
            rest = source.numel() - by
            _mul(source, weight, out=out)
            _add(out[:rest], source[by:], alpha=1.0 - weight, out=out[:rest])
            _add(out[rest:], source[:by], alpha=1.0 - weight, out=out[rest:])
        else:
            _mul(source, 0.8 + 0.2 * roll, out=out)
        fresh = out.as_strided(self._shape, self._stride)
        return fresh.requires_grad_(True) if self._grad else fresh

    def _pick(self, out: torch.Tensor, one: int, pick: Pick) -> None:
        """Take samples from other sets, or have those of set `one` change places."""
        dim = self._kind.picked
        views = [span.as_strided(self._shape, self._stride) for span in self._spans]
        if self._kind.permuted:
            out.copy_(views[one].index_select(dim, pick.order(self._shape[dim])))
            return
        for number, view in enumerate(views):
            chosen = pick.of(number, self._shape[dim])
            if number != one and chosen.numel():
                out.index_copy_(dim, chosen, view.index_select(dim, chosen))


class Pick:
    """Which sample of which set a call gets; the same for all inputs with as many samples.

    Parameters
    ----------
    seed
        Of this call.
    sets
        How many sets there are.
    device
        Where the inputs are.
    """

    def __init__(self, seed: int, sets: int, device: torch.device) -> None:
        self._seed = seed
        self._sets = sets
        self._device = device
        self._made: dict[tuple[str, int], torch.Tensor] = {}

    def order(self, count: int) -> torch.Tensor:
        """Return a permutation of so many samples."""
        return self._make("order", count).to(self._device)

    def of(self, number: int, count: int) -> torch.Tensor:
        """Return which samples come from set `number`."""
        return (self._make("sets", count) == number).nonzero()[:, 0].to(self._device)

    def _make(self, what: str, count: int) -> torch.Tensor:
        if (what, count) not in self._made:
            # On the CPU, where generators give the same numbers to all processes.
            generator = _Generator().manual_seed(self._seed)
            self._made[what, count] = (
                _randperm(count, generator=generator)
                if what == "order"
                else _randint(self._sets, (count,), generator=generator)
            )
        return self._made[what, count]


class Mixer:
    """Makes the inputs of any number of calls from a few sets.

    Parameters
    ----------
    sets
        Argument trees of one call each, on the device, of equal structure; later ones that differ in it from
        the first are left out.
    lookup
        Finds the user's own classes by name.
    picking
        Pick samples of what cannot be mixed; without it, such inputs are those of one set.
    """

    def __init__(self, sets: list[Any], lookup: Callable[[str], Any] | None = None, *, picking: bool = True) -> None:
        skeletons: list[Any] = []
        columns: list[list[torch.Tensor]] = []
        for tree in sets:
            tensors: list[torch.Tensor] = []
            skeleton = values.encode(tree, tensors)
            if columns and [_form(tensor) for tensor in tensors] != [_form(column[0]) for column in columns]:
                continue
            skeletons.append(skeleton)
            if not columns:
                columns = [[] for _ in tensors]
            for column, tensor in zip(columns, tensors):  # noqa: B905 - Python 3.9
                column.append(tensor)
        self._skeletons = skeletons
        self._lookup = lookup
        self.nbytes = sum(column[0].numel() * column[0].element_size() for column in columns)
        """Bytes of the inputs of one call."""
        self._ring = buffers(self.nbytes)
        self._inputs = [_Input(column, self._ring) for column in columns]
        self._picking = picking and bool(columns)
        self._device = columns[0][0].device if columns else torch.device("cpu")

    @property
    def sets(self) -> int:
        """How many sets there are to mix."""
        return len(self._skeletons)

    def lend(self, nbytes: int) -> torch.Tensor | None:
        """Return so many bytes of the memory that inputs are mixed in, None if no input has as many."""
        return next((one.buffer[:nbytes] for one in self._inputs if one.buffer.numel() >= nbytes), None)

    def inputs(self, seed: str, index: int) -> Any:
        """Return the arguments of call `index`; they stay valid until a few calls later.

        Parameters
        ----------
        seed
            Drawn by the judge.
        index
            Number of the call.
        """
        rng = _Random(f"{seed}/{index}")
        count = len(self._skeletons)
        one = rng.randrange(count)
        other = (one + rng.randrange(1, count)) % count if count > 1 else one
        weight, roll = rng.uniform(0.2, 0.8), rng.random()
        place, shift = index % self._ring, rng.randrange(SHIFTS)
        pick = Pick(rng.getrandbits(63), count, self._device) if self._picking else None
        with torch.no_grad():
            tensors = [item.mix(place, shift, one, other, weight, roll, pick) for item in self._inputs]
        return values.decode(self._skeletons[one], tensors, self._lookup)


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device.type
