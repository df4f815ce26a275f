"""Rules for arguments that are missing, or are not what is wanted at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from stark_lsp.discovery.drafting.annotations import inside, parsed
from stark_lsp.discovery.drafting.drafts import Argument, Draft, Plain, Record, Tensor, Value
from stark_lsp.discovery.drafting.guesses import (
    BATCH,
    IMAGE,
    LENGTH,
    WIDTH,
    call_guess,
    constructor_guess,
    namespace_guess,
    size_of,
)
from stark_lsp.discovery.drafting.wants import Facts
from stark_lsp.discovery.mending.failures import Failure

_MASK = re.compile("mask|cache|past|state")
"""What optional tensors are called that nothing needs."""


def missing(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """`__init__() missing 2 required positional arguments: 'a' and 'b'`."""
    found = re.search(r"(\w+)\.?(\w*)\(\) missing \d+ required .*?arguments?: (.*)", failure.message, re.DOTALL)
    if not found:
        return
    names = re.findall(r"'(\w+)'", found[3])
    calling = failure.stage == "forward"
    own = {parameter.name: parameter for parameter in (failure.forward if calling else failure.init)}
    if not calling and own.keys().isdisjoint(names) and any(p.kind == "VAR_KEYWORD" for p in own.values()):
        # What `**kwargs` hands on to a layer.
        for name in names:
            draft = draft.set_init(name, constructor_guess(name, None, {}))
        yield draft
        return
    if own.keys() >= {*names}:
        for name in names:
            named = own[name].kind == "KEYWORD_ONLY"
            if calling:
                draft = draft.set_call(name, call_value(draft, failure, name), named=named)
            else:
                value = constructor_guess(name, parsed(own[name].annotation), {})
                draft = draft.set_init(name, value, named=named)
        yield draft
    for argument in draft.init:
        if isinstance(argument.value, Record) and argument.value.maker == found[1]:
            record = argument.value
            for name in names:
                record = record.given(name, namespace_guess(name))
            yield draft.set_init(argument.name, record)


def call_value(draft: Draft, failure: Failure, name: str) -> Value:
    """Return a first value for an argument of the call that had none."""
    tensors = [tensor for tensor in draft.tensors() if len(tensor.shape) > 1]
    width = tensors[0].shape[-1] if tensors and tensors[0].kind == "randn" else WIDTH
    note = inside(parsed(next((p.annotation for p in failure.forward if p.name == name), "")))
    value = call_guess(name, note, Facts(), width)
    if isinstance(value, Plain) and value.text == "None":
        value = call_guess(name, None, Facts(), width)
    if isinstance(value, Tensor) and tensors and value.kind == "randn" and len(value.shape) == 2 and "emb" not in name:
        return replace(value, shape=tensors[0].shape)
    return value


def absent(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """An optional argument is needed after all: the statement, or the message, names it."""
    given = {argument.name: argument.value for argument in draft.call}
    words = re.findall(r"\w+", failure.message)
    mentioned = [p.name for p in failure.forward if p.name in words and len(p.name) > 1]
    statement = [p.name for p in failure.forward if p.name in failure.named()]
    if "None" not in failure.message and failure.kind not in (
        "ValueError",
        "AssertionError",
        "KeyError",
        "RuntimeError",
    ):
        statement = []
    nothing = [p.name for p in failure.forward if p.name in failure.nothing]
    together = draft
    for name in nothing:
        together = together.set_call(name, call_value(draft, failure, name))
    yield together
    spread = {p.name for p in failure.forward if p.kind.startswith("VAR_")}
    for name in dict.fromkeys([*nothing, *mentioned, *statement]):
        if name in spread:
            continue
        value = given.get(name)
        if value is None or (isinstance(value, Plain) and value.text == "None"):
            yield draft.set_call(name, call_value(draft, failure, name))


def attribute(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """`'types.SimpleNamespace' object has no attribute 'n_head'`."""
    found = re.search(r"'([\w.]+)' object has no attribute '(\w+)'", failure.message)
    if not found:
        return
    for argument in draft.init:
        record = argument.value
        if isinstance(record, Record) and (record.open or found[1].endswith(record.maker.rpartition(".")[2])):
            yield draft.set_init(argument.name, record.given(found[2], namespace_guess(found[2])))
    if found[1] in ("NoneType", "str", "int"):
        for argument in draft.init:
            if argument.name in failure.named() and isinstance(argument.value, Plain):
                fields = ((found[2], namespace_guess(found[2])),)
                yield draft.set_init(argument.name, Record("SimpleNamespace", fields, open=True))


def plainer(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A number, or nothing, in place of a tensor, and the other way round."""
    for argument in draft.call:
        if argument.name not in failure.named() and argument.name not in failure.message:
            continue
        if isinstance(argument.value, Tensor):
            for text in (
                str(size_of(argument.name.lower())) if argument.name != "x" else "1",
                "1",
                "None",
                f"({IMAGE}, {IMAGE})",
                "1.0",
                "0",
            ):
                yield draft.set_call(argument.name, Plain(text))
        elif isinstance(argument.value, Plain):
            yield draft.set_call(argument.name, call_value(draft, failure, argument.name))
            for text in ("1", "None", "0", "True", "1.0", f"({IMAGE}, {IMAGE})"):
                yield draft.set_call(argument.name, Plain(text))


def passed(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """A tensor that may be left out is passed after all: what fails may be what is done without it."""
    given = {argument.name for argument in draft.call}
    for parameter in failure.forward:
        if parameter.name not in given and "Tensor" in parameter.annotation and not _MASK.search(parameter.name):
            yield draft.set_call(parameter.name, call_value(draft, failure, parameter.name))


def nothing_passed(draft: Draft, failure: Failure) -> Iterator[Draft]:
    """Nothing is passed at all although something can be."""
    if draft.call:
        return
    for parameter in failure.forward:
        if parameter.kind == "VAR_POSITIONAL":
            value = Tensor((BATCH, LENGTH, WIDTH), sure=False)
            yield replace(draft, call=(Argument(parameter.name, value, spread=True),))
        elif not parameter.kind.startswith("VAR_"):
            yield draft.set_call(parameter.name, call_value(draft, failure, parameter.name))
