"""A candidate must follow weights that are loaded into it after it was called."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from verify_cases import assert_refused, finding, make_reference

from stark_lsp.judge.reference import modules
from stark_lsp.judge.reference.reference import Reference

WEIGHT = "self.weight = torch.nn.Parameter(torch.randn(24, 24))\n"
PACKED = WEIGHT + "self.packed = None\nself.version = -1\n"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return make_reference(
        tmp_path_factory.mktemp("r"), "return torch.relu(x @ self.weight)", "torch.randn(8, 24)", init=WEIGHT
    )


def test_weights_that_are_packed_once_are_found_out(reference: Reference, tmp_path: Path) -> None:
    body = """
    if self.packed is None:
        self.packed = self.weight.detach().t().contiguous()
    return torch.relu(x @ self.packed.t())
    """
    assert_refused(reference, tmp_path, body, "does not follow weights that are changed in place", init=PACKED)


def test_weights_that_are_packed_again_when_they_change_are_honest(reference: Reference, tmp_path: Path) -> None:
    body = """
    if self.version != self.weight._version:
        self.version = self.weight._version
        self.packed = self.weight.detach().t().contiguous()
    return torch.relu(x @ self.packed.t())
    """
    assert finding(reference, tmp_path, body, init=PACKED) == ("OK", "")


def test_what_is_wrong_with_any_weights_is_told_as_that(reference: Reference, tmp_path: Path) -> None:
    status, message = finding(reference, tmp_path, "return x @ self.weight", init=WEIGHT)
    assert status == "WRONG_RESULT"
    assert "loaded" not in message


HOOKED = """
self.weight = torch.nn.Parameter(torch.randn(24, 24))
self.packed = self.weight.detach().clone()
def refresh(module, missing):
    module.packed = module.weight.detach().clone()
self.register_load_state_dict_post_hook(refresh)
"""


def test_an_original_that_follows_loaded_weights_alone_is_not_asked_for_more(tmp_path: Path) -> None:
    body = "return torch.relu(x @ self.packed)"
    own = make_reference(tmp_path / "r", body, "torch.randn(8, 24)", init=HOOKED)
    assert finding(own, tmp_path, body, init=HOOKED) == ("OK", "")


def test_weights_that_are_packed_by_hooks_alone_are_found_out(reference: Reference, tmp_path: Path) -> None:
    body = "return torch.relu(x @ self.packed)"
    assert_refused(reference, tmp_path, body, "changed in place, as an optimizer does", init=HOOKED)


def test_a_weight_that_is_kept_transposed_is_loaded(reference: Reference, tmp_path: Path) -> None:
    init = """
self.weight = torch.nn.Parameter(torch.randn(24, 24))
def turned(module, state, *others):
    state["weight"] = state["weight"].t().contiguous()
self._register_load_state_dict_pre_hook(lambda state, *others: turned(self, state))
self.register_state_dict_post_hook(turned)
"""
    assert finding(reference, tmp_path, "return torch.relu(x @ self.weight.t())", init=init) == ("OK", "")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3fn"])
def test_weights_of_all_types_have_a_size(dtype: str) -> None:
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.full((8, 8), 0.5).to(getattr(torch, dtype)), requires_grad=False)
    module.few = torch.nn.Parameter(torch.ones(3))
    assert modules.sizes_of_weights(module) == {"weight": pytest.approx(0.5)}
