"""From messages of PyTorch to drafts that may run."""

from __future__ import annotations

from typing import Any

import pytest

from stark_lsp.discovery.drafting.drafts import Argument, Draft, Plain, Record, Several, Tensor
from stark_lsp.discovery.mending import mend
from stark_lsp.discovery.mending.failures import Failure, Parameter

X = Draft(call=(Argument("x", Tensor((2, 40, 512))),))
IMAGE = Draft(call=(Argument("x", Tensor((2, 512, 32, 32))),))


def failed(message: str, stage: str = "forward", kind: str = "RuntimeError", **more: Any) -> Failure:
    return Failure(stage, 1, kind, message, f"{kind}: {message}", **more)


def shapes(draft: Draft, failure: Failure, name: str = "x") -> list[tuple[int, ...]]:
    return [
        argument.value.shape
        for proposal in mend(draft, failure)
        for argument in proposal.call
        if argument.name == name and isinstance(argument.value, Tensor)
    ]


@pytest.mark.parametrize(
    ("draft", "message", "expected"),
    [
        (X, "mat1 and mat2 shapes cannot be multiplied (80x512 and 768x64)", (2, 40, 768)),
        (IMAGE, "Given groups=1, weight of size [64, 3, 7, 7], expected input[2, 512, 32, 32] to have 3 channels, "
                "but got 512 channels instead", (2, 3, 32, 32)),
        (X, "Given normalized_shape=[64], expected input with shape [*, 64], but got input of size[2, 40, 512]",
         (2, 40, 64)),
        (IMAGE, "running_mean should contain 512 elements not 96", (2, 96, 32, 32)),
        (X, "not enough values to unpack (expected 4, got 3)", (2, 512, 32, 32)),
        (IMAGE, "too many values to unpack (expected 3)", (2, 40, 512)),
        (X, "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 40]",
         (2, 512, 32, 32)),
        (X, "The size of tensor a (40) must match the size of tensor b (197) at non-singleton dimension 1",
         (2, 197, 512)),
        (X, "shape '[2, 40, 8, 96]' is invalid for input of size 40960", (2, 40, 768)),
        (IMAGE, "mat1 and mat2 shapes cannot be multiplied (2x524288 and 25088x128)", (2, 512, 7, 7)),
    ],
)  # fmt: skip
def test_a_size_or_rank_is_read_off_the_message(draft: Draft, message: str, expected: tuple[int, ...]) -> None:
    assert expected in shapes(draft, failed(message))


def test_a_comparison_tells_the_size() -> None:
    fact = {"op": "NotEq", "left": "h", "right": "self.size", "values": [32, 224]}
    assert (2, 512, 224, 224) in shapes(IMAGE, failed("wrong size", kind="ValueError", facts=(fact,)))


def test_a_remainder_tells_the_next_multiple() -> None:
    fact = {"op": "Mod", "left": "n", "right": "self.window", "values": [40, 7]}
    assert (2, 42, 512) in shapes(X, failed("", kind="AssertionError", facts=(fact,)))


def test_whole_numbers_where_an_embedding_wants_them() -> None:
    module = {"kind": "Embedding", "sizes": {"num_embeddings": 77}, "shapes": [[2, 40, 512]], "weights": [[77, 8]]}
    failure = failed("Expected tensor for argument #1 'indices' to have scalar types: Long, Int", module=module)
    wanted = Tensor((2, 40), "randint", 77)
    assert wanted in [tensor for proposal in mend(X, failure) for tensor in proposal.tensors()]


def test_an_argument_that_is_missing_is_added() -> None:
    forward = (Parameter("x", True, "POSITIONAL_OR_KEYWORD", ""), Parameter("mask", True, "KEYWORD_ONLY", ""))
    message = "Block.forward() missing 1 required keyword-only argument: 'mask'"
    first = mend(X, failed(message, kind="TypeError", forward=forward))[0]
    assert [(argument.name, argument.named) for argument in first.call] == [("x", False), ("mask", True)]


def test_an_attribute_that_a_configuration_lacks_is_added() -> None:
    draft = Draft((Argument("config", Record("SimpleNamespace", open=True)),), X.call)
    failure = failed("'types.SimpleNamespace' object has no attribute 'n_head'", "construct", "AttributeError")
    assert mend(draft, failure)[0].init[0].value.text == "SimpleNamespace(n_head=8)"


def test_a_key_that_is_there_is_taken() -> None:
    draft = Draft((Argument("act", Plain('"x"')),), X.call)
    fact = {"op": "Keys", "left": "act", "keys": ["relu", "gelu"]}
    proposals = mend(draft, failed("'x'", "construct", "KeyError", facts=(fact,)))
    assert [proposal.init[0].value.text for proposal in proposals][:2] == ['"relu"', '"gelu"']


def test_numbers_that_must_divide() -> None:
    draft = Draft((Argument("dim", Plain("512")), Argument("heads", Plain("12"))), X.call)
    fact = {"op": "Mod", "left": "dim", "right": "heads", "values": [512, 12]}
    failure = failed("dim must be divisible by heads", "construct", "AssertionError", facts=(fact,))
    assert [a.value.text for a in mend(draft, failure)[0].init] == ["504", "12"]


def test_what_is_too_large_is_made_smaller() -> None:
    draft = Draft((Argument("config", Record("LlamaConfig")),), X.call)
    first = mend(draft, failed("the weights would take 28 GiB", "construct", "TooLarge"))[0]
    assert first.init[0].value.text == "LlamaConfig(num_hidden_layers=2)"


def inits(draft: Draft, failure: Failure) -> list[str]:
    return [", ".join(f"{a.name}={a.value.text}" for a in proposal.init) for proposal in mend(draft, failure)]


def constructed(**values: Plain | Record | Several) -> Draft:
    return Draft(tuple(Argument(name, value) for name, value in values.items()), IMAGE.call)


def test_a_layer_is_made_for_the_size_that_comes_to_it() -> None:
    head = Record("Head", (("in_channels", Plain("64")),), block=True)
    message = (
        "Given groups=1, weight of size [512, 64, 3, 3], expected input[2, 512, 32, 32] to have 64 channels, "
        "but got 512 channels instead"
    )
    assert "head=Head(in_channels=512)" in inits(constructed(head=head), failed(message))[:8]


def test_of_two_that_are_joined_one_is_narrower() -> None:
    draft = Draft(call=(*IMAGE.call, Argument("y", Tensor((2, 128, 32, 32)))))
    message = "expected input[2, 640, 32, 32] to have 512 channels, but got 640 channels instead"
    assert shapes(draft, failed(message))[:3].count((2, 384, 32, 32)) == 1


@pytest.mark.parametrize(
    ("message", "given", "expected"),
    [
        ("GELU.__init__() got an unexpected keyword argument 'inplace'", "nn.GELU", "nn.ReLU"),
        ("torch.nn.modules.normalization.LayerNorm is not a Module subclass", "nn.LayerNorm", "nn.Identity()"),
    ],
)
def test_a_layer_that_is_refused_becomes_another(message: str, given: str, expected: str) -> None:
    failure = failed(message, "construct", "TypeError")
    assert f"act={expected}" in inits(constructed(act=Plain(given, sure=False)), failure)[:3]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("shape '[2, 100, 8, 64]' is invalid for input of size 200704", "side=14"),
        ("shape '[2, 10, 10, 64]' is invalid for input of size 25088", "side=14"),
        ("shape '[2, 10, 64]' is invalid for input of size 1536", "side=12"),
    ],
)
def test_a_view_that_does_not_fit_tells_a_number_of_the_constructor(message: str, expected: str) -> None:
    assert expected in inits(constructed(side=Plain("10")), failed(message))


def test_a_list_of_one_number_changes_as_a_whole() -> None:
    grid = Several((Plain("8"), Plain("8")))
    message = "shape '[2, 8, 8, 64]' is invalid for input of size 6272"
    assert "grid=(7, 7)" in inits(constructed(grid=grid), failed(message))


def test_counts_go_down_where_an_index_is_out_of_range() -> None:
    names = {"heads": {"value": 8}, "width": {"value": 512}}
    own = tuple(Parameter(name, False, "POSITIONAL_OR_KEYWORD", "int") for name in names)
    failure = failed("list index out of range", "construct", "IndexError", statements=({"names": names},), init=own)
    assert inits(constructed(), failure)[:1] == ["heads=4"]


def test_a_configuration_that_has_a_default_is_given_what_it_lacks() -> None:
    own = (Parameter("cfg", False, "POSITIONAL_OR_KEYWORD", "BlockCfg"),)
    failure = failed("unsupported operand: 'NoneType'", "construct", "TypeError", unset=("window_size",), init=own)
    assert "cfg=BlockCfg(window_size=8)" in inits(constructed(), failure)


def test_what_stands_for_none_in_the_innermost_statement_is_passed_first() -> None:
    own = tuple(Parameter(name, False, "POSITIONAL_OR_KEYWORD", "") for name in ("mask", "cache", "memory"))
    statement = {"text": "self.inner(x, mask, cache, memory)"}
    failure = failed(
        "cannot unpack non-iterable NoneType object", kind="TypeError", statements=(statement,), forward=own,
        nothing=("memory",),
    )  # fmt: skip
    assert next(p.call[1].name for p in mend(X, failure) if len(p.call) == 2) == "memory"
