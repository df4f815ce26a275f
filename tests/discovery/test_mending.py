"""From messages of PyTorch to drafts that may run."""

from __future__ import annotations

from typing import Any

import pytest

from stark_lsp.discovery.drafts import Argument, Draft, Plain, Record, Tensor
from stark_lsp.discovery.failures import Failure, Parameter
from stark_lsp.discovery.mending import mend

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
