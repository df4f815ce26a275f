"""Rules for what a class is constructed with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from stark_lsp.discovery.drafting.annotations import inside, parsed
from stark_lsp.discovery.drafting.drafts import Draft, Plain, Record, Several, Tensor, Value, swapped
from stark_lsp.discovery.drafting.guesses import constructor_guess, namespace_guess
from stark_lsp.discovery.mending.failures import Failure


def choices(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A text that is looked up or compared: take one that is there."""
    for fact in failure.facts:
        options = fact.get("keys") or []
        if not options and fact["op"] in ("In", "NotIn") and isinstance(fact["values"][1], list):
            options = fact["values"][1]
        if not options and fact["op"] in ("Eq", "NotEq"):
            options = [value for value in fact["values"][1:] if isinstance(value, str)]
        last = re.findall(r"\w+", str(fact["left"]))
        for option in options[:6]:
            text = f'"{option}"' if isinstance(option, str) else str(option)
            yield from _settings(draft, last[-1] if last else "", Plain(text))


def _settings(draft: Draft, name: str, value: Value) -> Iterator[Draft]:
    """Set what is called so: an argument of the constructor or a field of a configuration."""
    for argument in draft.init:
        if argument.name == name:
            yield draft.set_init(name, value)
        elif isinstance(argument.value, Record):
            yield (
                draft.set_init(argument.name, argument.value.given(name, value))
                if (argument.value.open or any(field == name for field, _ in argument.value.fields))
                else draft
            )


def numbers_of_init(draft: Draft) -> list[tuple[str, str, int]]:
    """Return the whole numbers of the constructor's arguments: argument, field of it, number.

    A list that holds one number alone counts as that.
    """
    found: list[tuple[str, str, int]] = []
    for argument in draft.init:
        if isinstance(argument.value, Plain) and argument.value.text.isdigit():
            found.append((argument.name, "", int(argument.value.text)))
        elif isinstance(argument.value, Record):
            found += [
                (argument.name, name, int(value.text))
                for name, value in argument.value.fields
                if isinstance(value, Plain) and value.text.isdigit()
            ]
        elif isinstance(argument.value, Several):
            texts = {item.text for item in argument.value.items}
            found += [(argument.name, _ALL, int(text)) for text in texts if len(texts) == 1 and text.isdigit()]
    return found


_ALL = "*"
"""In place of a field: all items of a list."""


def set_number(draft: Draft, argument: str, field: str, number: int) -> Draft:
    if not field:
        return draft.set_init(argument, Plain(str(number)))
    record = next(a.value for a in draft.init if a.name == argument)
    if isinstance(record, Several):
        return draft.set_init(argument, replace(record, items=(Plain(str(number)),) * len(record.items)))
    return draft.set_init(argument, record.given(field, Plain(str(number)))) if isinstance(record, Record) else draft


def relations(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Numbers of the constructor that must divide or equal each other."""
    known = numbers_of_init(draft)
    for fact in failure.facts:
        values = fact.get("values") or []
        if len(values) != 2 or not all(type(value) is int and value > 0 for value in values):
            continue
        left, right = values
        words = [re.findall(r"\w+", str(fact[side]))[-1:] for side in ("left", "right")]
        for argument, field, number in known:
            name = field or argument
            if fact["op"] in ("Mod", "FloorDiv"):
                if [name] == words[0] or number == left:
                    yield set_number(draft, argument, field, right * max(1, left // right))
                if [name] == words[1] or number == right:
                    yield set_number(draft, argument, field, math.gcd(left, right))
            else:
                if [name] == words[0] or number == left:
                    yield set_number(draft, argument, field, right)
                if [name] == words[1] or number == right:
                    yield set_number(draft, argument, field, left)
    if "divisible" in failure.message or "multiple" in failure.message:
        for argument, field, number in known:
            for size in (8, 64, 512, 16, 4, 2, 1):
                if size != number:
                    yield set_number(draft, argument, field, size)


def agreeing(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Two sizes that must be one come of two arguments of the constructor, or one of them is another's multiple."""
    found = re.search(r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", failure.message)
    if not found or found[1] == found[2]:
        return
    known = numbers_of_init(draft)
    for given, wanted in ((int(found[2]), int(found[1])), (int(found[1]), int(found[2]))):
        for argument, field, number in known:
            if number == given:
                changed = set_number(draft, argument, field, wanted)
                yield changed.each(partial(swapped, given=given, wanted=wanted))
                yield changed


def axes(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Numbers of the constructor that are dimensions: the last one, the one before it."""
    found = re.search(r"Dimension out of range .*but got (-?\d+)", failure.message)
    wrong = [number for number in numbers_of_init(draft) if found and number[2] == int(found[1])]
    for place, (argument, field, _) in enumerate(wrong):
        draft = set_number(draft, argument, field, -1 - place)
    yield draft


def unset(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """None was left in the failing statement where a value is needed."""
    if failure.unset:
        for argument in draft.init:
            if isinstance(argument.value, Record):
                record = argument.value
                for name in failure.unset:
                    yield draft.set_init(argument.name, argument.value.given(name, namespace_guess(name)))
                    record = record.given(name, namespace_guess(name))
                yield draft.set_init(argument.name, record)
        for parameter in failure.init:
            given = any(argument.name == parameter.name for argument in draft.init)
            if not given and re.fullmatch(r"\w+(Config|Cfg|Args|Options|Settings)", parameter.annotation):
                fields = tuple((name, namespace_guess(name)) for name in failure.unset)
                yield draft.set_init(parameter.name, Record(parameter.annotation, fields))
    if "None" not in failure.message:
        return
    yield from optional(draft, replace(failure, stage="forward", message=""))
    texts = [str(statement.get("text", "")) for statement in failure.statements]
    for fact in failure.facts:
        sides = zip((fact["left"], fact.get("right")), fact.get("values") or (), strict=False)
        texts += [str(side) for side, value in sides if value is None]
    text = " ".join(texts)
    for argument in draft.init:
        if isinstance(argument.value, Record):
            for name in dict.fromkeys(re.findall(r"(?<!self)\.(\w+)", text)):
                yield draft.set_init(argument.name, argument.value.given(name, namespace_guess(name)))


def optional(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Give a parameter that has a default a value after all: those in the failing statement, then the others."""
    words = failure.named() | set(re.findall(r"\w+", failure.message))
    free = [p for p in failure.init if not p.required and not p.kind.startswith("VAR_")]
    near = [parameter for parameter in free if parameter.name in words]
    others = [parameter for parameter in free if parameter.name not in words]
    for parameter in (*near, *(others if failure.stage == "construct" else [])):
        if any(argument.name == parameter.name for argument in draft.init):
            continue
        note = inside(parsed(parameter.annotation))
        flat = any(len(tensor.shape) == 3 for tensor in draft.tensors())
        for planes in (not flat, flat):
            value = constructor_guess(parameter.name, note, {}, planes=planes)
            if value.text != "None":
                yield draft.set_init(parameter.name, value)


SIZEABLE = ("TooLarge", "OutOfMemoryError", "MemoryError", "TooSlow")
"""Failures of what is too large, or too slow, to be tried."""
_WIDE = 128
_SMALL: dict[str, Value] = {
    name: Plain(text)
    for name, text in {
        "hidden_size": "256", "intermediate_size": "512", "num_hidden_layers": "2", "num_attention_heads": "8",
        "num_key_value_heads": "8", "vocab_size": "1000",
    }.items()
}  # fmt: skip


def smaller(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Too large, or too slow, to be tried."""
    if failure.kind not in SIZEABLE and "can't allocate memory" not in failure.message:
        return
    for argument in draft.init:
        record = argument.value
        if isinstance(record, Record) and not record.block:
            for name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
                if name == "num_hidden_layers" or any(field == name for field, _ in record.fields):
                    record = record.given(name, Plain("2"))
            yield draft.set_init(argument.name, record)
    yield narrow(draft)
    yield replace(draft, call=draft.each(_quarter).call)
    for holder, field, number in numbers_of_init(draft):
        if number > 32:
            yield set_number(draft, holder, field, number // 4)


def narrow(draft: Draft) -> Draft:
    """Return the draft with a quarter of all that is wide, in the constructor and in the call."""

    def less(found: re.Match[str]) -> str:
        return str(_less(int(found[0])))

    for argument in draft.init:
        value = argument.value
        if isinstance(value, Plain) and re.fullmatch(r"[\d(\[, \])]+", value.text):
            value = replace(value, text=re.sub(r"\d+", less, value.text))
        elif isinstance(value, Several):
            value = Plain(re.sub(r"\b\d{3,}\b", less, value.text))
        elif isinstance(value, Record) and not value.open and not value.block:
            value = replace(value, fields=tuple({**dict(value.fields), **_SMALL}.items()))
        elif isinstance(value, Record):
            fields = (
                (n, Plain(re.sub(r"^\d+$", less, v.text)) if isinstance(v, Plain) else v) for n, v in value.fields
            )
            value = replace(value, fields=tuple(fields))
        draft = draft.set_init(argument.name, value)
    return draft.each(_quarter)


def _less(size: int) -> int:
    return size // 4 if size >= _WIDE and size % 4 == 0 else size


def _quarter(tensor: Tensor) -> Tensor:
    return replace(tensor, shape=tuple(map(_less, tensor.shape)))


_OTHERWISE = ("64", "None", "nn.Identity", "True", "1.0", '"relu"', "nn.Identity()", "(64, 64)", "[64, 64]", "1", "()")


def others(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Vary the arguments of the constructor that nothing is known of, those in the failing statement first."""
    words = failure.named() | set(re.findall(r"\w+", failure.message))
    layers = ("nn.Identity()", "nn.LayerNorm", "nn.BatchNorm2d", "nn.GELU", "nn.ReLU", "nn.Identity", "nn.Conv2d",
              "nn.Linear", "nn.Linear(512, 512)", "nn.Conv2d(64, 64, 3, padding=1)")  # fmt: skip
    for near in (True, False):
        for argument in draft.init:
            value = argument.value
            if (argument.name in words) is not near or (value.sure and not near):
                continue
            if isinstance(value, Record):
                if value.block:
                    yield draft.set_init(argument.name, Plain("nn.Identity()", sure=False))
                continue
            if value.text.startswith("nn."):
                options = [*layers, *_OTHERWISE]
            elif isinstance(value, Plain) and value.text.isdigit():
                options = [f"({value.text}, {value.text})", f"[{value.text}]", f"[{value.text}, {value.text}]",
                           f"{value.text}.0", "8", "4", "2", "1", "3", "nn.Identity", "None", "True"]  # fmt: skip
            elif isinstance(value, Several):
                inner = value.items[0].text if value.items else "1"
                options = [inner, *(f"[{', '.join([inner] * count)}]" for count in (2, 3, 4, 1))]
                options += [f"({', '.join([inner] * count)},)" for count in (2, 3, 4, 1)]
            else:
                options = list(_OTHERWISE)
            for option in options:
                yield draft.set_init(argument.name, Plain(option, sure=False))


def other_makers(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Another configuration that the file imports."""
    for argument in draft.init:
        if isinstance(argument.value, Record):
            for maker in argument.value.others:
                rest = tuple(name for name in (argument.value.maker, *argument.value.others) if name != maker)
                other = replace(argument.value, maker=maker, others=rest, open=maker == "SimpleNamespace", fields=())
                yield draft.set_init(argument.name, other)


def counts(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """`len(sizes) != 3`: a tuple or a list of another length, all that are compared at once, and each."""
    if "index out of range" in failure.message:
        yield from _fewer(draft, failure)
        for length in dict.fromkeys(number for _, _, number in numbers_of_init(draft) if 1 < number <= 64):
            for argument in draft.init:
                if isinstance(argument.value, Several) and argument.value.items:
                    longer = replace(argument.value, items=argument.value.items[:1] * length)
                    yield draft.set_init(argument.name, longer)
    if re.search(r"list of \d values|match the convolution dimensions", failure.message):
        for length in (3, 2, 1):
            yield replace(draft, init=tuple(replace(a, value=_listed(a.value, length)) for a in draft.init))
    together = draft
    for fact in failure.facts:
        found = re.fullmatch(r"len\((?:\w+\.)?(\w+)\)", str(fact["left"]))
        wanted = (fact.get("values") or [None])[-1]
        if not found or type(wanted) is not int or not 0 < wanted <= 8:
            continue
        for argument in draft.init:
            items = re.findall(r"[\w.\"]+", argument.value.text)
            if argument.name == found[1] and items and not isinstance(argument.value, Record):
                text = ", ".join([*items, *items[-1:] * wanted][:wanted])
                together = together.set_init(argument.name, Plain(f"[{text}]"))
                yield draft.set_init(argument.name, Plain(f"[{text}]"))
                yield draft.set_init(argument.name, Plain(f"({text},)"))
    yield together


def _fewer(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Yield drafts with less of what the failing statements name and the constructor counts by."""
    free = {parameter.name for parameter in failure.init}
    for less in (4, 2, 1):
        for statement in failure.statements:
            for name, value in (statement.get("names") or {}).items():
                count = value.get("value")
                if type(count) is int and less < count <= 64 and name in free:
                    yield draft.set_init(name, Plain(str(less)))


def _listed(value: Value, length: int) -> Value:
    """Return a value whose lists of numbers have another length, those of a configuration too."""
    if isinstance(value, Record):
        return replace(value, fields=tuple((name, _listed(inner, length)) for name, inner in value.fields))
    return replace(value, items=value.items[:1] * length) if isinstance(value, Several) else value


def elsewhere(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """What the file gives arguments of the same name."""
    for argument in draft.init:
        for text in draft.usual.get(argument.name, ()):
            yield draft.set_init(argument.name, Plain(text))


def refused(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A layer that does not take what it is made with, or a class where a layer is wanted."""
    keyword = re.search(r"(\w+)\.__init__\(\) (?:got an unexpected keyword|takes|got multiple)", failure.message)
    wanted = re.search(r"\.(\w+) is not a Module subclass", failure.message)
    for argument in draft.init:
        text = argument.value.text
        if wanted and text == f"nn.{wanted[1]}":
            yield draft.set_init(argument.name, Plain("nn.Identity()", sure=False))
        if keyword and text == f"nn.{keyword[1]}":
            for other in ("nn.ReLU", "nn.Identity", "nn.Conv2d", "nn.BatchNorm2d"):
                yield draft.set_init(argument.name, Plain(other, sure=False))


def layers(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Layers of the constructor that do not go with what they are called with: another norm, or none at all."""
    if failure.kind not in ("ValueError", "TypeError", "RuntimeError"):
        return
    for argument in draft.init:
        text = argument.value.text
        if not argument.value.sure and text.startswith("nn."):
            rank = re.search(r"got (\d)D input", failure.message)
            fitting = [f"nn.BatchNorm{int(rank[1]) - 2}d"] if rank and int(rank[1]) in (4, 5) else []
            for option in (*fitting, "nn.LayerNorm", "nn.BatchNorm2d") if "Norm" in text else ("None",):
                yield draft.set_init(argument.name, Plain(option, sure=False))


def subscripted(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """`ratio[index]`, where a number stands."""
    if not re.search(r"not subscriptable|no len\(\)|not iterable", failure.message):
        return
    for statement in failure.statements[-1:]:
        names = statement.get("names") or {}
        for argument in draft.init:
            fields = dict(argument.value.fields) if isinstance(argument.value, Record) else {}
            for name in re.findall(r"\.(\w+)", str(statement.get("text", ""))):
                if isinstance(argument.value, Record) and isinstance(fields.get(name), Plain):
                    listed = Several((fields[name],) * 4, "[]")
                    yield draft.set_init(argument.name, argument.value.given(name, listed))
        words = re.findall(r"(\w+)\[|in (\w+)|len\((\w+)|\*(\w+)", str(statement.get("text", "")))
        for name in dict.fromkeys(word for found in words for word in found if word):
            value = (names.get(name) or {}).get("value", "")
            if isinstance(value, (int, float)) and any(p.name == name for p in failure.init):
                for count in (4, 2, 3, 1):
                    yield draft.set_init(name, Several((Plain(repr(value)),) * count, "[]"))
