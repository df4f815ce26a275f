"""Rules for tensors of a wrong size."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from stark_lsp.discovery.drafting.drafts import Draft, Plain, Several, Tensor, swapped
from stark_lsp.discovery.drafting.guesses import BATCH, LENGTH
from stark_lsp.discovery.mending.failures import Failure
from stark_lsp.discovery.mending.mend_constructors import numbers_of_init, set_number


def suspects(draft: Draft, failure: Failure) -> list[str | None]:
    """Return the arguments with tensors, those of the failing statement first; None stands for all of them."""
    having = [argument.name for argument in draft.call if isinstance(argument.value, (Tensor, Several))]
    words = [re.findall(r"\w+", str(statement.get("text", ""))) for statement in failure.statements]
    near = [name for name in having if any(name in found for found in words)]
    others = [name for name in having if name not in near]
    return [*near, *([None] if len(having) > 1 else []), *others]


def wrong_sizes(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A size that is not the one that is wanted: the message, the module or a comparison tells both."""
    tensors = draft.tensors()
    has = {size for tensor in tensors for size in tensor.shape}
    for given, wanted in _pairs(failure):
        if given in has and wanted > 0 and given != wanted:
            # The wrong one is rarely the batch; widths stand last, channels second.
            for place in (-1, 1):
                for name in suspects(draft, failure):
                    yield draft.each(partial(_put, place=place, given=given, wanted=wanted), name)
            for name in suspects(draft, failure):
                yield draft.each(partial(swapped, given=given, wanted=wanted), name)
    for given, wanted in _pairs(failure)[:8]:
        for argument, field, number in numbers_of_init(draft):
            if number == given and wanted > 0:
                changed = set_number(draft, argument, field, wanted)
                yield changed.each(partial(swapped, given=given, wanted=wanted))
                yield changed


def fitting(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A layer is made for another size than comes to it: an argument of the constructor says which."""
    for given, wanted in _told_pairs(failure.message):
        for argument, field, number in numbers_of_init(draft):
            if number == wanted and given > 0:
                yield set_number(draft, argument, field, given)


def viewed(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A shape that does not go with as many numbers: one of its sizes, or both of a plane, come of the constructor."""
    found = re.search(r"shape '\[([\d, ]+)\]' is invalid for input of size (\d+)", failure.message)
    sizes = [int(size) for size in found[1].split(",")] if found else []
    ratio = int(found[2]) / math.prod(sizes) if found and math.prod(sizes) else 0.0
    for size in dict.fromkeys(sizes):
        root, other = math.isqrt(size), math.sqrt(ratio)
        pairs = [(size, size * ratio)]
        pairs += [(size, size * other)] if sizes.count(size) > 1 else [(root, root * other)] if root**2 == size else []
        for given, wanted in pairs:
            for argument, field, number in numbers_of_init(draft) if _whole(wanted) else ():
                if number == given > 1:
                    yield set_number(draft, argument, field, round(wanted))


def scaled(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Sizes that are refused were multiplied before: those of the inputs change by the same ratio."""
    for given, wanted in _pairs(failure):
        if given > 0 and wanted > 0 and given != wanted:
            for name in suspects(draft, failure):
                yield from _scaled(draft, name, wanted / given)


def joined(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Of several that are joined, one is too wide or too narrow by so much."""
    has = {size for tensor in draft.tensors() for size in tensor.shape}
    told = _told_pairs(failure.message) or _pairs(failure)[:3]
    for given, wanted in [pair for pair in told if pair[0] not in has]:
        for name in reversed(suspects(draft, failure)):
            for place in (1, -1):
                yield draft.each(partial(_add, place=place, more=wanted - given), name)


def _add(tensor: Tensor, place: int, more: int) -> Tensor:
    sizes = list(tensor.shape)
    if len(sizes) < 3 or sizes[place] + more < 1:
        return tensor
    sizes[place] += more
    return replace(tensor, shape=tuple(sizes))


def _put(tensor: Tensor, place: int, given: int, wanted: int) -> Tensor:
    index = place if place >= 0 else len(tensor.shape) + place
    if not 0 <= index < len(tensor.shape) or tensor.shape[index] != given:
        return tensor
    return replace(tensor, shape=(*tensor.shape[:index], wanted, *tensor.shape[index + 1 :]))


def _told_pairs(text: str) -> list[tuple[int, int]]:
    """Return what a layer that refuses its input says: the size it was given and the one it wants."""
    found: list[tuple[int, int]] = []
    product = re.search(r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", text)
    if product:
        found.append((int(product[2]), int(product[3])))
    channels = re.search(r"to have (\d+) channels, but got (\d+) channels", text)
    if channels:
        found.append((int(channels[2]), int(channels[1])))
    norm = re.search(r"expected input with shape \[\*?,? ?([\d, ]+)\].*?size ?\[([\d, ]+)\]", text)
    if norm:
        wanted, given = ([int(n) for n in group.split(",") if n.strip()] for group in (norm[1], norm[2]))
        found += list(zip(given[-len(wanted) :], wanted, strict=False))
    mean = re.search(r"running_mean should contain (\d+) elements not (\d+)", text)
    if mean:
        found.append((int(mean[1]), int(mean[2])))
    return found


def _pairs(failure: Failure) -> list[tuple[int, int]]:
    """Return pairs of a size that was given and one that is wanted, the surest first."""
    text = failure.message
    found = _told_pairs(text)
    view = re.search(r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)", text)
    if view:
        sizes = [int(size) for size in view[1].split(",")]
        total = abs(math.prod(sizes))
        if -1 not in sizes:
            found.append((int(view[2]), total))
        found += [(BATCH, int(view[2]) // total)] if total and int(view[2]) % total == 0 else []
    for fact in failure.facts:
        values = fact.get("values") or []
        flat = [v for v in values if type(v) is int]
        if len(flat) == 2:
            left, right = flat
            if fact["op"] == "Mod" and right > 0:
                found.append((left, right * max(1, round(left / right))))
            elif fact["op"] in ("Eq", "NotEq", "LtE", "Lt", "Gt", "GtE"):
                found += [(left, right), (right, left)]
        elif len(values) == 2 and all(isinstance(value, list) for value in values):
            found += [(a, b) for a, b in zip(*values, strict=False) if type(a) is int and type(b) is int]
    numbers = failure.numbers
    found += [(one, other) for one in numbers for other in numbers if one != other]
    wanted_sizes = [
        size
        for value in (failure.module.get("sizes") or {}).values()
        for size in (value if isinstance(value, list) else [value])
    ]
    wanted_sizes += [size for shape in failure.module.get("weights") or () for size in shape]
    given_sizes = [size for shape in failure.module.get("shapes") or () for size in shape]
    found += [(one, other) for one in dict.fromkeys(given_sizes) for other in dict.fromkeys(wanted_sizes) if other > 1]
    return list(dict.fromkeys(found))[:40]


def _scaled(draft: Draft, name: str | None, ratio: float) -> Iterator[Draft]:
    """Change one size, or both of a plane, by a ratio: for sizes that are flattened before they are refused."""
    root = math.sqrt(ratio)

    def plane(tensor: Tensor) -> Tensor:
        sizes = tensor.shape
        if len(sizes) == 4 and _whole(sizes[2] * root) and _whole(sizes[3] * root):
            return replace(tensor, shape=(*sizes[:2], round(sizes[2] * root), round(sizes[3] * root)))
        return tensor

    yield draft.each(plane, name)
    for place in (-1, 1):

        def one(tensor: Tensor, place: int = place) -> Tensor:
            sizes = list(tensor.shape)
            if len(sizes) > 1 and _whole(sizes[place] * ratio):
                sizes[place] = round(sizes[place] * ratio)
            return replace(tensor, shape=tuple(sizes))

        yield draft.each(one, name)


def _whole(value: float) -> bool:
    return value >= 1 and abs(value - round(value)) < 1e-6 and value < 1 << 20


def planes(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Images that are too small, or of another size than the class is made for."""
    if not any(len(tensor.shape) >= 4 for tensor in draft.tensors()):
        return
    for size in (64, 224, 56, 16, 14, 8, 7, 128, 256):
        yield draft.each(partial(_plane, size=size))
        yield draft.each(partial(_plane, size=size, last=True))


def _plane(tensor: Tensor, size: int, last: bool = False, width: int = 0) -> Tensor:
    if len(tensor.shape) != 4:
        return tensor
    one, two, _, four = tensor.shape
    return replace(tensor, shape=(one, size, width or size, four) if last else (one, two, size, width or size))


def lengths(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Sequences that are longer than the class is made for, or of a length that does not divide."""
    for size in (64, 256, 196, 49, 16, 1, 1024, 4):
        yield draft.each(partial(swapped, given=LENGTH, wanted=size))
    for size in (1, 2):
        yield draft.each(partial(_at, place=0, size=size))


def grids(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Numbers of the call that are the sizes of a grid, whose places a sequence has, or of a plane."""
    plain = {a.name: a.value.text for a in draft.call if isinstance(a.value, Plain)}
    sizes = [int(size) for text in plain.values() for size in re.findall(r"\b\d+\b", text)]
    if not sizes:
        return
    places = math.prod(sizes)
    for size in (places, places + 1, places * BATCH):
        yield draft.each(partial(swapped, given=LENGTH, wanted=size))
        for name in suspects(draft, failure):
            yield draft.each(partial(_at, place=-2, size=size), name)
    if len(sizes) == 2:
        yield draft.each(partial(_plane, size=sizes[0], width=sizes[1]))
    roots = [tensor.shape[-2] for tensor in draft.tensors() if len(tensor.shape) >= 3]
    for name, text in plain.items():
        for size in dict.fromkeys(number for length in roots for number in (length, math.isqrt(length))):
            yield draft.set_call(name, Plain(re.sub(r"\b\d+\b", str(size), text)))


def own_sizes(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Give an argument the sizes that the class holds, one place after the other, or two that stand together."""
    sizes = list(failure.own.values())[:24]
    for name in suspects(draft, failure):
        for place in (-1, 1, -2, 2):
            for size in dict.fromkeys(sizes):
                yield draft.each(partial(_at, place=place, size=size), name)
        for one, other in itertools.pairwise(sizes):
            yield draft.each(partial(_two, one=one, other=other), name)
            yield draft.each(partial(_two, one=other, other=one), name)


def _at(tensor: Tensor, place: int, size: int) -> Tensor:
    sizes = list(tensor.shape)
    if not -len(sizes) <= place < len(sizes) or (place and len(sizes) < 2):
        return tensor
    sizes[place] = size
    return replace(tensor, shape=tuple(sizes))


def _two(tensor: Tensor, one: int, other: int) -> Tensor:
    return _at(_at(tensor, -2, one), -1, other)
