"""Training mode: gradients of inputs and weights and running statistics count as results."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from verify_cases import assert_refused, finding, make_reference, module_text, verify

from stark_lsp.contract.errors import Bad
from stark_lsp.judge.correctness import stepping
from stark_lsp.judge.correctness.difference import difference
from stark_lsp.judge.correctness.nearby import drawn, farther
from stark_lsp.judge.correctness.stepping import NoGradient
from stark_lsp.judge.inputs.cases import CaseKind
from stark_lsp.judge.reference import modules
from stark_lsp.judge.reference.reference import Reference
from stark_lsp.judge.timing import timed

INIT = "self.linear = nn.Linear(12, 10)\nself.norm = nn.BatchNorm1d(10)\n"
BODY = "return torch.relu(self.norm(self.linear(x)))"

SQUARE = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        ctx.save_for_backward(y)
        return torch.relu(y)

    @staticmethod
    def backward(ctx, flow):
        (y,) = ctx.saved_tensors
        return flow * (y > 0) * FACTOR
"""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return make_reference(tmp_path_factory.mktemp("r"), BODY, "torch.randn(32, 12)", init=INIT, mode="training")


def test_results_gradients_and_statistics_are_expected(reference: Reference) -> None:
    case = reference.cases[0]
    names = reference.output_names(case.outputs)
    assert names[0] == "output"
    assert case.results == 1
    assert {"gradient of input 1", "gradient of linear.weight", "gradient of norm.bias"} < set(names)
    assert "buffer norm.running_mean after the step" in names
    assert case.own_errors is not None
    kinds = {case.kind for case in reference.special}
    assert kinds == {CaseKind.BATCH, CaseKind.STRIDED}


def test_a_step_leaves_the_module_as_it_was(reference: Reference) -> None:
    before = {name: value.clone() for name, value in reference.module.state_dict().items()}
    reference.call(reference.cases[0].inputs_path, reference.cases[0].cotangents_path)
    after = reference.module.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.grad is None for parameter in reference.module.parameters())


def test_the_same_module_passes_and_so_does_an_honest_function_with_a_backward(
    reference: Reference, tmp_path: Path
) -> None:
    verifier = verify(reference, tmp_path, BODY, init=INIT)
    assert verifier.figures.max_abs == 0.0
    body = "return Square.apply(self.norm(F.linear(x, self.linear.weight, self.linear.bias)))"
    assert finding(reference, tmp_path, body, init=INIT, before=SQUARE.replace("FACTOR", "1")) == ("OK", "")


def test_gradients_flow_into_the_same_keys_of_a_dict_in_another_order(tmp_path: Path) -> None:
    body = 'y = self.linear(x)\nreturn {"y": y, "a": torch.relu(y)}'
    other = 'y = self.linear(x)\nreturn {"a": torch.relu(y), "y": y}'
    init = "self.linear = nn.Linear(12, 12)\n"
    reference = make_reference(tmp_path / "r", body, "torch.randn(8, 12)", init=init, mode="training")
    assert finding(reference, tmp_path / "c", other, init=init) == ("OK", "")
    steps = []
    for text in (body, other):
        scope: dict[str, object] = {}
        exec(module_text(text, init=init), scope)
        torch.manual_seed(1)
        step = stepping.TimedStep()
        steps.append(step(scope["Model"](), ((torch.ones(3, 12),), {})))  # type: ignore[operator]
    assert torch.equal(*(found["gradient of input 1"] for found in steps))


def test_a_wrong_backward_is_found_out(reference: Reference, tmp_path: Path) -> None:
    body = "return Square.apply(self.norm(self.linear(x)))"
    assert_refused(reference, tmp_path, body, "gradient of", init=INIT, before=SQUARE.replace("FACTOR", "1.01"))


def test_a_gradient_of_what_flowed_in_before_is_found_out(reference: Reference, tmp_path: Path) -> None:
    # As of a graph that was captured with it, and never gets another.
    before = SQUARE.replace("* FACTOR", "").replace("return flow", "return KEPT.setdefault(flow.shape, flow.clone())")
    body = "return Square.apply(self.norm(self.linear(x)))"
    assert_refused(reference, tmp_path, body, "gradient of", init=INIT, before="KEPT = {}\n" + before)
    constant = "return (x * 0).sum() + self.linear.bias"
    with pytest.raises(Bad, match="any constant would pass"):
        make_reference(tmp_path / "r", constant, "torch.randn(8, 12)", init=INIT, mode="training", seeds=6)


def test_a_missing_gradient_of_a_weight_is_found_out(reference: Reference, tmp_path: Path) -> None:
    body = "return torch.relu(self.norm(F.linear(x, self.linear.weight.detach(), self.linear.bias)))"
    assert_refused(reference, tmp_path, body, "gradient of linear.weight", init=INIT)


def test_running_statistics_that_are_left_alone_are_found_out(reference: Reference, tmp_path: Path) -> None:
    body = "return torch.relu(F.batch_norm(self.linear(x), None, None, self.norm.weight, self.norm.bias, True))"
    status, message = finding(reference, tmp_path, body, init=INIT)
    assert status == "WRONG_RESULT"
    assert "buffer norm." in message
    assert "after the step" in message


def test_a_candidate_without_a_backward_is_told_so(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(NoGradient, match=r"torch\.autograd\.Function"):
        verify(reference, tmp_path, "with torch.no_grad():\n    " + BODY, init=INIT)


CODES = """self.linear = nn.Linear(12, 10)
self.register_buffer("codes", torch.randn(10))
"""


def test_timed_steps_begin_with_the_state_that_results_depend_on(reference: Reference, tmp_path: Path) -> None:
    assert reference.buffers is None, "running statistics"
    body = "y = self.linear(x) * self.codes.clone()\nwith torch.no_grad():\n    self.codes.mul_(0.9).add_(y.mean(0))"
    follows = make_reference(tmp_path / "r", f"{body}\nreturn y", "torch.randn(32, 12)", init=CODES, mode="training")
    assert follows.buffers is not None
    assert list(follows.buffers.state.values) == ["codes"]
    assert not follows.buffers.expected, "they are compared as what a step gives"
    assert finding(follows, tmp_path / "c", f"{body}\nreturn y", init=CODES) == ("OK", "")


NOISY = """
class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y * 1.0

    @staticmethod
    def backward(ctx, flow):
        return flow * (1 + {} * torch.rand(flow.shape, generator=DRAWN))

DRAWN = torch.Generator().manual_seed(7)
"""


def test_a_gradient_that_comes_out_a_little_otherwise_each_time_is_no_randomness(tmp_path: Path) -> None:
    # As where a GPU adds up in an order of its own.
    body, how = "return Noisy.apply(self.linear(x))", {"init": "self.linear = nn.Linear(12, 10)", "mode": "training"}
    make_reference(tmp_path / "a", body, "torch.randn(32, 12)", before=NOISY.format(1e-4), **how)
    body += " * (1 + torch.rand((), generator=DRAWN))"
    with pytest.raises(Bad, match="different results for equal inputs"):
        make_reference(tmp_path / "b", body, "torch.randn(32, 12)", before=NOISY.format(0), **how)


def test_gradients_that_are_nothing_but_rounding_may_differ(tmp_path: Path) -> None:
    # The bias in front of the normalization has no influence.
    body = "return self.norm(self.linear(x) * 3)"
    reference = make_reference(tmp_path / "r", body, "torch.randn(64, 12)", init=INIT, mode="training")
    other = """
    y = F.linear(x, self.linear.weight, self.linear.bias) * 3
    self.norm(y)
    m = y.mean(0)
    c = y - m
    return c * torch.rsqrt((c * c).mean(0) + 1e-5) * self.norm.weight + self.norm.bias
    """
    assert finding(reference, tmp_path / "c", other, init=INIT) == ("OK", "")


def test_a_reference_without_gradients_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Bad, match="nothing to train"):
        make_reference(tmp_path / "a", "return x.argmax(1)", "torch.randn(4, 4)", mode="training")


DROPS = "self.drop = nn.Dropout(0.3)\nself.linear = nn.Linear(64, 64)\n"


@pytest.fixture(scope="module")
def dropping(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    body = "return x + self.drop(torch.tanh(self.linear(self.drop(x))))"
    return make_reference(tmp_path_factory.mktemp("d"), body, "torch.randn(32, 64)", init=DROPS, mode="training")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return x + F.dropout(torch.tanh(F.linear(self.drop(x), *self.linear.parameters())), 0.3)", "OK"),
        ("return x + torch.native_dropout(torch.tanh(self.linear(self.drop(x))), 0.3, True)[0]", "OK"),
        ("return x + torch.tanh(self.linear(x))", "WRONG_RESULT"),
        ("return x + F.dropout(torch.tanh(self.linear(self.drop(x))), 0.2)", "WRONG_RESULT"),
        ("y = x + self.drop(torch.tanh(self.linear(self.drop(x)))); return y + (y - y.detach())", "WRONG_RESULT"),
        ("y = torch.rand(1); return x + self.drop(torch.tanh(self.linear(self.drop(x))))", "WRONG_RESULT"),
        ("torch.manual_seed(5); return x + self.drop(torch.tanh(self.linear(self.drop(x))))", "WRONG_RESULT"),
    ],
)
def test_what_drops_is_held_to_the_same_draws(body: str, found: str, dropping: Reference, tmp_path: Path) -> None:
    assert finding(dropping, tmp_path, body, init=DROPS)[0] == found
    assert dropping.cases[0].own_errors is None, "in float64 a GPU draws other masks"
    assert any("draws random numbers" in note for note in dropping.notes)


def test_each_timed_call_of_a_step_draws_anew_and_draws_the_same_when_made_again(tmp_path: Path) -> None:
    step, held = stepping.TimedStep(), timed.Timed()
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).train()
    seen: list[torch.Tensor] = []

    def call(arguments: Any) -> Any:
        result = step(module, arguments)
        seen.append(result["output"] == 0)
        return result

    how = {"gradients": lambda: True, "draws": lambda: True}
    held.hold(call, [((torch.randn(8, 64),), {}) for _ in range(2)], "cpu", warmup=1, round_ms=1.0, **how)
    seen.clear()
    held.time("seed", 4)
    _, *each = seen
    assert all(not torch.equal(one, other) for one, other in itertools.combinations(each, 2))
    for number, one in enumerate(each):
        held.alone("seed", number, str(tmp_path / "out"))
        assert torch.equal(seen[-1], one)


DEEP = """with torch.autocast("cpu", dtype=torch.bfloat16, enabled=ENABLED):
    h = START
    for layer in self.layers:
        h = torch.relu(layer(h))
    return self.last(h).float()
"""
LAYERS = """
self.embedding = nn.Embedding(50, 32)
self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(5))
self.last = nn.Linear(32, 6)
"""
FEWER_BITS = [
    ("x", "torch.randn(64, 32)", "", "True"),  # an autocast of its own
    ("self.embedding(x).mean(1)", "torch.randint(0, 50, (64, 4))", "", "True"),  # no input can be moved
    ("self.embedding(x).mean(1)", "torch.randint(0, 50, (64, 4))", "self.bfloat16()", "False"),
]


@pytest.mark.parametrize(("start", "inputs", "init", "enabled"), FEWER_BITS)
def test_where_few_bits_make_gradients_jump_exact_ones_are_right_and_wrong_ones_are_not(
    start: str, inputs: str, init: str, enabled: str, tmp_path: Path
) -> None:
    body, init = DEEP.replace("START", start), LAYERS + init
    plain = body.replace("ENABLED", enabled)
    reference = make_reference(tmp_path / "r", plain, inputs, init=init, mode="training", drawn=1)
    own = reference.cases[0].own_errors
    assert own is not None
    assert max(own) > 0.03
    exact = body.replace("ENABLED", "False").replace("layer(h)", "F.linear(h.float(), W(layer), B(layer))")
    exact = exact.replace("self.last(h)", "F.linear(h, W(self.last), B(self.last)).to(self.last.weight.dtype)")
    before = "W, B = lambda one: one.weight.float(), lambda one: one.bias.float()"
    assert finding(reference, tmp_path / "e", exact, init=init, before=before) == ("OK", "")
    halved = plain.replace("layer(h)", "F.linear(h, half(layer.weight), layer.bias)")
    half = "half = lambda one: (one + one.detach()) / 2"
    assert_refused(reference, tmp_path / "h", halved, "gradient of", init=init, before=half)


@pytest.mark.parametrize(
    ("other", "moves"), [(torch.arange(3), True), (torch.ones(3, dtype=torch.bool), False), (torch.ones(3), False)]
)
def test_weights_move_where_an_input_cannot_as_bags_of_embeddings_beside_numbers(
    other: torch.Tensor, moves: bool
) -> None:
    weight, x = torch.nn.Parameter(torch.randn(40)), torch.randn(5)
    before = weight.detach().clone()
    with drawn(((x, other), {}), [weight], 1, "") as ((given, _), _):
        assert not torch.equal(given, x)
        assert torch.equal(weight, before) is not moves
        torch.testing.assert_close(weight.detach(), before)
    assert torch.equal(weight, before)


@pytest.mark.parametrize(("share", "wrong"), [(0.5, True), (1.0, True), (-1.0, True), (0.05, False)])
def test_where_much_of_a_gradient_jumps_it_may_be_no_farther_than_that(share: float, wrong: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    exact = torch.randn(4000, generator=generator)

    def jumped(rate: float) -> torch.Tensor:
        others = torch.randn(exact.shape, generator=generator)
        return torch.where(torch.rand(exact.shape, generator=generator) < rate, others, exact)

    draws = [[jumped(0.03)] for _ in range(5)]
    assert farther({0: difference(exact, jumped(0.03))}, draws) == []
    assert farther({0: difference(exact, exact * (1.0 - share))}, draws) == [0] * wrong
    noise = [[torch.randn(exact.shape, generator=generator)] for _ in range(6)]
    assert farther({0: difference(exact, noise[5][0])}, noise[:5]) == []


def test_a_timed_step_gives_result_and_gradients_and_leaves_its_inputs_writable() -> None:
    module = modules.place(torch.nn.Linear(3, 2), "cpu", "training")
    x = torch.randn(5, 3)
    step = stepping.TimedStep()
    first = step(module, ((x,), {}))
    assert set(first) == {"output", "gradient of input 1", "gradient of weight", "gradient of bias"}
    x.mul_(2.0)
    second = step(module, ((x,), {}))
    assert torch.allclose(second["gradient of weight"], 2 * first["gradient of weight"], rtol=1e-5)
    assert not second["output"].requires_grad
