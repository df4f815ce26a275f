"""Rules for tensors with a wrong number of dimensions or of a wrong kind, and for those that go with others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from stark_lsp.discovery.drafting.drafts import Argument, Draft, Plain, Several, Tensor, Value
from stark_lsp.discovery.drafting.guesses import BATCH, HEADS, IMAGE, LENGTH, WIDTH
from stark_lsp.discovery.mending.failures import Failure
from stark_lsp.discovery.mending.mend_sizes import lengths, suspects


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return replace(tensor, shape=shape)


def _below(tensor: Tensor, high: int) -> Tensor:
    return replace(tensor, high=high) if tensor.kind == "randint" else tensor


def _as(tensor: Tensor, kind: str, high: int, form: str = "same") -> Tensor:
    """Return a tensor of another kind: of the same shape, or of one that whole numbers usually have."""
    if tensor.kind == kind:
        return tensor
    sizes = tensor.shape
    shapes = {"same": sizes, "tokens": sizes[:2], "rows": sizes[:1], "sequence": (BATCH, LENGTH)}
    return replace(tensor, kind=kind, high=high, shape=shapes[form])


def ranks(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Another number of dimensions: one that the message tells, else any."""
    told = _told_ranks(failure)
    yield from any_rank(draft, failure, told) if told else any_rank(draft, failure)


def any_rank(draft: Draft, failure: Failure, wanted: Iterable[int] = (3, 4, 2, 5, 1)) -> Iterator[Draft]:
    for name in suspects(draft, failure):
        for rank in wanted:
            for form in range(3):
                yield draft.each(partial(reshaped, rank=rank, form=form), name)


def reshaped(tensor: Tensor, rank: int, form: int = 0) -> Tensor:
    """Return a tensor with another number of dimensions.

    Parameters
    ----------
    form
        Which of the usual ones: width last or channels second; as heads.
    """
    sizes = tensor.shape
    if len(sizes) == rank and form == 0:
        return tensor
    width = WIDTH if len(sizes) < 2 else sizes[1] if len(sizes) == 4 and sizes[2] == sizes[3] else sizes[-1]
    if tensor.kind in ("randint", "mask", "binary") and len(sizes) <= 2:
        width = LENGTH
    forms: dict[int, list[tuple[int, ...]]] = {
        1: [(BATCH,), (width,), (LENGTH,)],
        2: [(BATCH, width), (BATCH, LENGTH), (LENGTH, width)],
        3: [(BATCH, LENGTH, width), (BATCH, width, LENGTH), (BATCH, LENGTH, LENGTH)],
        4: [(BATCH, width, IMAGE, IMAGE), (BATCH, IMAGE, IMAGE, width), (BATCH, HEADS, LENGTH, 64)],
        5: [(2, width, 8, 16, 16), (2, 8, 16, 16, width), (2, 4, width, IMAGE, IMAGE)],
    }
    return replace(tensor, shape=forms[rank][form])


def _told_ranks(failure: Failure) -> list[int]:
    text = failure.message
    found: list[int] = []
    for pattern in (
        r"expected (\d)D", r"Expected (\d)D", r"or (\d)D", r"expected (\d) dim", r"must be (\d)-?D",
        r"(\d)-D(?:imensional)?", r"len\(dims\) = (\d)", r"(\d) ?dimension",
    ):  # fmt: skip
        found += [int(rank) for rank in re.findall(pattern, text)]
    unpack = re.search(r"not enough values to unpack \(expected (?:at least )?(\d), got (\d)\)", text)
    many = re.search(r"too many values to unpack \(expected (\d)", text)
    if unpack:
        found.append(int(unpack[1]))
    if many:
        found.append(int(many[1]))
    batched = re.search(r"\(unbatched\) or (\d)D", text)
    if batched:
        found.insert(0, int(batched[1]))
    found += [int(number) + 1 for number in re.findall(r"but got (\d)\)", text) if "Dimension out of range" in text]
    einops = re.search(r"expected (\d) dims", text, re.IGNORECASE)
    if einops:
        found.insert(0, int(einops[1]))
    for fact in failure.facts:
        if re.search(r"dim\(\)|ndim|len\(", str(fact.get("left", ""))):
            found += [value for value in fact.get("values") or () if type(value) is int]
            found += [v for value in fact.get("values") or () if isinstance(value, list) for v in value]
    return [rank for rank in dict.fromkeys(found) if 1 <= rank <= 5]


def tuples(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A tuple or a list of tensors in place of one."""
    text = failure.message
    if not re.search(r"unpack|iterat|tuple of Tensors|sequence|subscript|index|has no attribute|NoneType|list", text):
        return
    count = re.search(r"expected (?:at least )?(\d)", text)
    for argument in draft.call:
        if argument.name in failure.named() or "tuple of Tensors" in text:
            value = argument.value if isinstance(argument.value, Tensor) else Tensor((BATCH, LENGTH, WIDTH))
            if isinstance(argument.value, Several):
                inner = argument.value.items[0]
                yield draft.set_call(argument.name, inner)
                for size in (3, 4, 1):
                    yield draft.set_call(argument.name, replace(argument.value, items=(inner,) * size))
                continue
            for size in dict.fromkeys([int(count[1]) if count else 2, 2, 3, 4]):
                if size < 7:
                    yield draft.set_call(argument.name, Several((value,) * size))
                    yield draft.set_call(argument.name, Several((value,) * size, "[]"))


def kinds(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Whole numbers where others were given, and the other way round."""
    text = failure.message
    whole = re.search(r"Long|[Ii]nt(eger)?\b|indices|integral|one_hot|bincount|index", text)
    real = re.search(r"[Ff]loat|Half|not implemented for 'Long'|same dtype|floating|[Cc]omplex|Bool", text)
    if not whole and not real:
        return
    sizes = failure.module.get("sizes") or {}
    high = next((sizes[name] for name in ("num_embeddings", "num_classes") if type(sizes.get(name)) is int), 10)
    for name in suspects(draft, failure):
        for kind in ("randint", "randn", "mask", "binary", "phase", "rand", "ones"):
            for form in ("same", "tokens", "rows", "sequence") if kind == "randint" else ("same",):
                yield draft.each(partial(_as, kind=kind, high=high, form=form), name)


def out_of_range(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Indices that are out of range."""
    if not re.search(r"out of range|out of bounds|smaller than num_classes|invalid index|CUDA error", failure.message):
        return
    sizes = failure.module.get("sizes") or {}
    highs = [size for size in sizes.values() if type(size) is int and size > 0]
    highs += [shape[0] for shape in failure.module.get("weights") or () if shape]
    for high in dict.fromkeys([*highs, *failure.numbers, 10, 2, 1]):
        if high > 0:
            for name in suspects(draft, failure):
                yield draft.each(partial(_below, high=high), name)
    yield from lengths(draft, failure)


def any_kind(draft: Draft, failure: Failure) -> Iterator[Draft]:
    for name in suspects(draft, failure):
        for kind in ("randint", "randn", "mask", "ones"):
            yield draft.each(partial(_as, kind=kind, high=10), name)


def alike(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """All arguments of the shape of one of them; attention's three alike; masks and rotations to fit."""
    shapes = {argument.name: argument.value.shape for argument in draft.call if isinstance(argument.value, Tensor)}
    for shape in list(shapes.values())[:3]:
        yield draft.each(partial(_shaped, shape=shape))
    for name in shapes:
        for model, shape in shapes.items():
            for form in _related(shape) if model != name else ():
                yield draft.each(partial(_shaped, shape=form), name)


def _related(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield shapes that go with one: without its last sizes, of masks, of rotations."""
    yield shape
    if len(shape) >= 3:
        batch, length = shape[0], shape[-2]
        yield shape[:-1]
        yield shape[:2]
        yield (length, length)
        yield (batch, 1, length, length)
        yield (batch, 1, 1, length)
        yield (batch, length, 64)
        yield (length, 64)
        yield (length, shape[-1])
    if len(shape) == 4:
        yield (shape[0], 1, *shape[2:])
    yield (shape[0], shape[-1])
    yield (shape[0], shape[1] if len(shape) > 1 else 1)
    yield (shape[0],)


_MASKS = re.compile(r"mask|bias$", re.IGNORECASE)


_ROTATIONS = re.compile(r"(^|_)(cos|sin|rope|rotary|freqs?|position_embeddings?|pos_emb|pe)(_|$)|freqs", re.IGNORECASE)


def companions(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Masks and rotations, which come in a few shapes."""
    tensors = [
        t for a in draft.call if not _MASKS.search(a.name) and not _ROTATIONS.search(a.name) for t in _inside(a.value)
    ]
    main = next((tensor for tensor in tensors if len(tensor.shape) >= 2 and tensor.kind == "randn"), None)
    if main is None:
        return
    for argument in draft.call:
        if argument.name == draft.call[0].name:
            continue
        if _MASKS.search(argument.name):
            batch, length = main.shape[0], main.shape[-2]
            for shape in (
                (batch, 1, length, length),
                (batch, length),
                (length, length),
                (batch, 1, 1, length),
                (batch, length, length),
            ):
                for kind in ("ones", "mask"):
                    yield draft.set_call(argument.name, Tensor(shape, kind))
            yield draft.set_call(argument.name, Plain("None"))
        elif _ROTATIONS.search(argument.name) and not isinstance(argument.value, Plain):
            yield from (draft.set_call(argument.name, value) for value in _rotations(main, failure))


def _inside(value: Value) -> list[Tensor]:
    return Draft(call=(Argument("", value),)).tensors()


def _rotations(main: Tensor, failure: Failure) -> Iterator[Value]:
    own = failure.own
    heads = next((n for name, n in own.items() if re.search(r"num_(attention_)?heads|n_heads?$|^heads$", name)), HEADS)
    dims = [n for name, n in own.items() if re.search(r"head_dim|dim_head|(rotary|rot|rope)_n?dim", name)]
    width = main.shape[-1] if len(main.shape) < 4 else main.shape[-1] * heads
    dims = dims or [width // heads or 1]
    dims = [*(n for n in failure.numbers if 4 < n <= max(dims) and n not in (*dims, LENGTH)), *dims]
    length, batch = main.shape[-2], main.shape[0]
    for dim in dict.fromkeys(size for one in dims for size in (one, one // 2)):
        if dim < 1:
            continue
        if len(main.shape) == 2:
            yield Several((Tensor((batch, dim)),) * 2)
        yield Several((Tensor((batch, length, dim)),) * 2)
        yield Several((Tensor((length, dim)),) * 2)
        yield Several((Tensor((1, length, dim)),) * 2)
        yield Tensor((batch, length, dim))
        yield Tensor((length, dim))
        yield Tensor((length, dim), "phase")
        yield Several((Tensor((batch, 1, length, dim)),) * 2)
