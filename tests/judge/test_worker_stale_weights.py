"""A candidate must follow weights that are loaded into it after it was called."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from verify_cases import finding, make_reference

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
    status, message = finding(reference, tmp_path, body, init=PACKED)
    assert status == "WRONG_RESULT"
    assert "does not follow weights that are changed in place" in message


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
