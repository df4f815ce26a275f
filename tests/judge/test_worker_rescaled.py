"""What hardly depends on its inputs by its initialization only is judged with weights that let them through."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from verify_cases import finding, make_reference

from stark_lsp.contract.errors import Degenerate
from stark_lsp.judge.reference import training
from stark_lsp.judge.reference.reference import RESCALED

DEEP = """
layers, width = [], 3
for _ in range(16):
    layers += [nn.Conv2d(width, 8, 3, padding=1), nn.ReLU()]
    width = 8
self.features = nn.Sequential(*layers)
self.head = nn.Linear(8, 10)
"""
BODY = "return self.head(self.features(x).mean((2, 3)))"
INPUTS = "torch.rand(4, 3, 4, 4)"


def test_a_deep_network_as_it_is_initialized_is_judged_with_other_weights(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", BODY, INPUTS, init=DEEP, special_inputs=False)
    assert reference.notes.count(RESCALED) == 1
    one, other = (case.outputs.tensors[0] for case in reference.cases[:2])
    assert float((one - other).abs().max() / one.abs().max()) > 1e-3
    assert finding(reference, tmp_path / "c", BODY, init=DEEP) == ("OK", "")
    constant = f"return torch.tensor({one.tolist()})"
    assert finding(reference, tmp_path / "c", constant, init=DEEP)[0] == "WRONG_RESULT"
    # The same each time.
    again = make_reference(tmp_path / "again", BODY, INPUTS, init=DEEP, special_inputs=False).module.state_dict()
    assert all(torch.equal(value, again[name]) for name, value in reference.module.state_dict().items())


def test_a_network_that_hardly_lets_its_inputs_through_is_judged_with_other_weights_too(tmp_path: Path) -> None:
    init = DEEP.replace("range(16)", "range(6)")
    reference = make_reference(tmp_path / "r", BODY, INPUTS, init=init, special_inputs=False)
    assert reference.notes.count(RESCALED) == 1
    assert finding(reference, tmp_path / "c", BODY, init=init) == ("OK", "")
    scaled = BODY.replace("self.features(x)", "self.features(1.01 * x)")
    assert finding(reference, tmp_path / "c", scaled, init=init)[0] == "WRONG_RESULT"


@pytest.mark.parametrize(
    ("init", "body"),
    [
        ("self.linear = nn.Linear(8, 8)\n", "return self.linear(torch.zeros_like(x))"),
        ("self.linear = nn.Linear(8, 1)\n", "return torch.softmax(self.linear(x), -1)"),
        ("", "return x * 0.0 + 1.0"),
    ],
)
def test_what_stays_constant_is_refused(tmp_path: Path, init: str, body: str) -> None:
    with pytest.raises(Degenerate, match="the same result for different inputs"):
        make_reference(tmp_path / "r", body, "torch.randn(4, 8)", init=init)


def test_directions_stay_and_statistics_follow() -> None:
    torch.manual_seed(0)
    tied = torch.nn.Linear(64, 64)
    module = torch.nn.Sequential(
        tied, torch.nn.BatchNorm1d(64), tied, torch.nn.Unflatten(1, (4, 16)), torch.nn.ConvTranspose1d(4, 6, 3)
    ).eval()
    before = tied.weight.detach().clone()
    assert training.rescale(module, lambda: module(torch.randn(512, 64)))
    ratio = tied.weight / before
    assert torch.allclose(ratio, ratio[0, 0].expand_as(ratio), rtol=1e-4)
    assert float(tied.weight.detach().std()) == pytest.approx((2 / 64) ** 0.5, rel=1e-3)
    assert float(module[4].weight.detach().std()) == pytest.approx((2 / 12) ** 0.5, rel=1e-3)
    norm = module[1]
    assert float(norm.running_var.mean()) == pytest.approx(2.0, rel=0.2)
    assert (norm.training, norm.momentum, int(norm.num_batches_tracked)) == (False, 0.1, 0)
    # A second time there is nothing to do.
    assert not training.rescale(module, lambda: module(torch.randn(512, 64)))


def test_statistics_follow_where_a_call_does_not_bear_gradients() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).eval()
    assert training.rescale(module, lambda: module(torch.randn(64, 8)).numpy())
    assert not torch.equal(module[1].running_var, torch.ones(8))


def test_statistics_of_a_call_that_raises_are_left_alone() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).eval()
    assert training.rescale(module, lambda: module(torch.randn(1, 8)))
    assert torch.equal(module[1].running_var, torch.ones(8))
    assert not module[1].training
