"""Where gradients are recorded: who bears that, who has a gradient, and whether it is the original's."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify_cases import assert_refused, finding, make_reference, verify

from stark_lsp.judge.correctness.backward import DRAWS, Backward
from stark_lsp.judge.correctness.classify import Failed
from stark_lsp.judge.correctness.stepping import NoGradient
from stark_lsp.judge.correctness.verify import ONCE, Verifier
from stark_lsp.judge.reference import training

WEIGHT = "self.weight = torch.nn.Parameter(torch.ones(8))"
BODY = "return torch.relu(x * self.weight) + self.weight"
FUNCTION = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.relu(x * weight) + weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        passed = gradient * (x * weight > 0)
        return {slopes}
"""
RIGHT = "passed * weight, (passed * x + gradient).sum(0)"


def verified(folder: Path, body: str, *, before: str = "") -> Verifier:
    reference = make_reference(folder / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    assert reference.gradients
    assert reference.differentiable
    return verify(reference, folder / "candidate", body, init=WEIGHT, before=before)


def test_gradients_by_a_function_of_its_own_are_right(tmp_path: Path) -> None:
    verified(tmp_path, "return Twice.apply(x, self.weight)", before=FUNCTION.format(slopes=RIGHT))


@pytest.mark.parametrize(
    ("slopes", "words"),
    [
        ("gradient * weight, (passed * x + gradient).sum(0)", "gradient of input 1 is wrong: off by"),
        ("passed * weight, (passed * x).sum(0)", "gradient of weight is wrong: off by"),
        ("passed * weight, None", "gradient of weight is wrong: off by 100%"),
    ],
)
def test_a_wrong_formula_is_found(tmp_path: Path, slopes: str, words: str) -> None:
    reference = make_reference(tmp_path / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    before, body = FUNCTION.format(slopes=slopes), "return Twice.apply(x, self.weight)"
    assert_refused(reference, tmp_path / "candidate", body, words, init=WEIGHT, before=before)


def test_one_lost_row_of_a_thousand_is_found(tmp_path: Path) -> None:
    inputs, init = "torch.randn(1001, 256)", WEIGHT.replace("8", "256")
    reference = make_reference(tmp_path / "reference", BODY, inputs, init=init, gradients=True)
    slopes = "torch.cat([(passed * weight)[:1000], 0 * passed[1000:]]), (passed * x + gradient).sum(0)"
    before, body = FUNCTION.format(slopes=slopes), "return Twice.apply(x, self.weight)"
    assert_refused(
        reference, tmp_path / "candidate", body, "gradient of input 1 is wrong: off by 3%", init=init, before=before
    )


def test_gradients_that_rounding_moves_a_little_are_drawn_twice_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    step = Backward._step
    monkeypatch.setattr(Backward, "_step", lambda *given, **how: steps.append(1) or step(*given, **how))
    make_reference(tmp_path / "one", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    # With the constructor's weights, with others, and there for other uses: without gradients of inputs, with a call
    # between, led back to weights, and with these frozen.
    assert len(steps) == 3 * (1 + 2) + 1 + 1 + 2 + 1
    steps.clear()
    # A single weight's gradient, zero but for rounding or exactly zero, may stay as it was.
    init = f"{WEIGHT}\nself.shift = torch.nn.Parameter(torch.zeros(1))"
    still = "return x * self.weight + self.shift * 0.0"
    make_reference(tmp_path / "other", still, "torch.randn(16, 8)", init=init, gradients=True)
    assert len(steps) == 3 * (1 + DRAWS) + 1 + 1 + 2 + 2


LINEAR = "self.lin = torch.nn.Linear(8, 8)\nself.gamma = torch.nn.Parameter(torch.ones(8))"
SCALED = "return F.linear(x, self.lin.weight, self.lin.bias) * self.gamma"
SAVES = """
class Form(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, gamma, module):
        ctx.save_for_backward(x, weight, bias, gamma)
        ctx.module, module.kept = module, (x, weight, bias, gamma)
        return torch.nn.functional.linear(x, weight, bias) * gamma

    @staticmethod
    def backward(ctx, gradient):
        {before}
        with torch.enable_grad():
            given = [{cut} for one in {saved}]
            result = torch.nn.functional.linear(*given[:3]) * given[3]
        found = torch.autograd.grad(result, given, gradient{scale}{kept})
        return (*found, None)
"""
CUT = "one.view_as(one) if one.requires_grad else one.detach().requires_grad_()"
RIGHTLY = {
    "before": "pass",
    "saved": "ctx.saved_tensors",
    "scale": "",
    "cut": CUT,
    "kept": ", create_graph=torch.is_grad_enabled()",
}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, ""),
        ({"scale": " / ctx.saved_tensors[3].detach()"}, "is wrong: off by"),
        ({"saved": "ctx.module.kept"}, "gradient of "),
        ({"before": "if not ctx.needs_input_grad[0]: return None, None, None, None, None"}, "require no gradients"),
        ({"before": "if not any(ctx.needs_input_grad[1:]): return None, None, None, None, None"}, "are frozen"),
        (
            {"before": "if not any(ctx.needs_input_grad[:2]): return None, None, None, None, None"},
            "nothing else requires",
        ),
        ({"before": "gradient = gradient if gradient.is_contiguous() else 0 * gradient"}, "strides of 0"),
    ],
    ids=[
        "right",
        "a factor that is one at first",
        "of the latest call",
        "nothing for a first layer",
        "frozen",
        "a bias",
        "taken for contiguous",
    ],
)
def test_gradients_are_those_of_other_weights_and_other_uses_too(
    tmp_path: Path, how: dict[str, str], words: str
) -> None:
    reference = make_reference(tmp_path / "reference", SCALED, "torch.randn(16, 8)", init=LINEAR, gradients=True)
    body = "return Form.apply(x, self.lin.weight, self.lin.bias, self.gamma, self)"
    before = SAVES.format(**{**RIGHTLY, **how})
    status, message = finding(reference, tmp_path / "candidate", body, init=LINEAR, before=before)
    assert status == ("WRONG_RESULT" if words else "OK"), message
    assert words in message


NORMED = "self.lin = torch.nn.Linear(8, 8)\nself.bn = torch.nn.BatchNorm1d(8)\nself.drop = torch.nn.Dropout(0.5)"
AS_A_FUNCTION = "b = self.bn\nx = F.batch_norm(self.lin(x), b.running_mean, b.running_var, b.weight, b.bias, {})\n"
COUNTED = AS_A_FUNCTION.format(True) + "b.num_batches_tracked.add_(1)\n"
BY_WHOM = AS_A_FUNCTION + "b.num_batches_tracked.add_(int({}))\nreturn x"
OF_THE_PART, OF_THE_WHOLE = (BY_WHOM.format(whose, whose) for whose in ("b.training", "self.training"))


@pytest.mark.parametrize(
    ("mode", "original", "body", "words"),
    [
        ("eval", "return self.drop(self.bn(self.lin(x)))", "return self.drop(self.bn(self.lin(x)))", ""),
        ("eval", "return self.drop(self.lin(x))", "return self.lin(x)", "is the same after train()"),
        ("eval", "return self.drop(self.lin(x))", "return self.drop(self.lin(x).t()).t()", ""),
        ("eval", "return self.bn(self.lin(x))", AS_A_FUNCTION.format(False) + "return x", "after train()"),
        ("as-constructed", "return self.bn(self.lin(x))", COUNTED + "return x", "after eval()"),
        ("eval", "return self.bn(self.lin(x))", OF_THE_WHOLE, "in train() with bn in eval()"),
        ("as-constructed", "return self.bn(self.lin(x))", OF_THE_WHOLE, "in train() with bn in eval()"),
        ("eval", "return self.bn(self.lin(x))", OF_THE_PART, ""),
        ("as-constructed", "return self.bn(self.lin(x))", OF_THE_PART, ""),
    ],
    ids=[
        "right",
        "no dropout",
        "drawn in another order",
        "running statistics for good",
        "statistics of the batch for good",
        "the mode of the whole",
        "the mode of the whole in training",
        "the mode of the part",
        "the mode of the part in training",
    ],
)
def test_the_other_mode_is_followed(tmp_path: Path, mode: str, original: str, body: str, words: str) -> None:
    reference = make_reference(
        tmp_path / "reference", original, "torch.randn(16, 8)", init=NORMED, gradients=True, mode=mode
    )
    status, message = finding(reference, tmp_path / "candidate", body, init=NORMED)
    assert status == ("WRONG_RESULT" if words else "OK"), message
    assert words in message


def test_norms_that_a_candidate_calls_otherwise_are_not_asked_for(tmp_path: Path) -> None:
    reference = make_reference(
        tmp_path / "r", "return self.bn(x)", "torch.randn(16, 8)", init="self.bn = nn.BatchNorm1d(8)", gradients=True
    )
    init = "self.norm = nn.BatchNorm1d(8)\n"
    init += "self._register_load_state_dict_pre_hook(lambda state, *_: [state.update({k.replace('bn.', 'norm.'): "
    init += "state.pop(k)}) for k in list(state) if k.startswith('bn.')])"
    body = "b = self.norm\nreturn F.batch_norm(x, b.running_mean, b.running_var, b.weight, b.bias, self.training)"
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")


def test_results_of_another_shape_in_the_other_mode_are_the_originals(tmp_path: Path) -> None:
    """As of a detector, which gives boxes for use and maps for its loss."""
    init = "self.lin = torch.nn.Linear(8, 8)"
    body = "y = self.lin(x)\nreturn y.view(4, 4, 8).sum(1) if self.training else y"
    reference = make_reference(tmp_path / "reference", body, "torch.randn(16, 8)", init=init, gradients=True)
    verify(reference, tmp_path / "right", body, init=init)
    status, message = finding(reference, tmp_path / "candidate", "return self.lin(x)", init=init)
    assert status == "WRONG_RESULT"
    assert "of shape (16, 8)" in message
    assert "after train()" in message


def test_what_the_original_does_not_give_is_not_asked_for(tmp_path: Path) -> None:
    """As under a checkpoint that is reentrant, which gives no gradients where no input requires any."""
    init = "self.first = torch.nn.Linear(8, 8)\nself.last = torch.nn.Linear(8, 8)"
    body = "from torch.utils.checkpoint import checkpoint\n"
    body += "return self.last(checkpoint(self.first, x, use_reentrant=True))"
    reference = make_reference(tmp_path / "reference", body, "torch.randn(16, 8)", init=init, gradients=True)
    verify(reference, tmp_path / "candidate", body, init=init)


def test_buffers_that_no_call_changes_are_a_candidates_own_affair(tmp_path: Path) -> None:
    init = "self.drop = torch.nn.Dropout(0.5)\nself.lin = torch.nn.Linear(8, 8)\n"
    mask = "self.register_buffer('mask', torch.ones(16, 1), persistent=False)"
    body = "return self.drop(self.lin(x) * self.mask[: x.shape[0]])"
    reference = make_reference(tmp_path / "reference", body, "torch.randn(15, 8)", init=init + mask, gradients=True)
    verify(reference, tmp_path / "candidate", "return self.drop(self.lin(x))", init=init)


def test_backward_leaves_what_flows_in_to_others(tmp_path: Path) -> None:
    """As `x + m(x)` does, whose other branch reads the same tensor."""
    reference = make_reference(tmp_path / "reference", SCALED, "torch.randn(16, 8)", init=LINEAR, gradients=True)
    body = "return Form.apply(x, self.lin.weight, self.lin.bias, self.gamma, self)"
    doubled = "if gradient.is_contiguous(): gradient.detach().mul_(2); gradient = gradient / 2"
    with pytest.raises(NoGradient, match=r"as in x \+ m\(x\)"):
        verify(reference, tmp_path / "c", body, init=LINEAR, before=SAVES.format(**{**RIGHTLY, "before": doubled}))


BY_A_KERNEL = FUNCTION.format(slopes=RIGHT).replace("passed =", "{before}\n        passed =")
OF_THE_MODULE = """passed = gradient * (x * weight > 0)
        PLACES.setdefault("weight", torch.empty(8)).copy_((passed * x + gradient).sum(0))
        return passed * weight, PLACES["weight"]"""


@pytest.mark.parametrize("mode", ["eval", "training"])
@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("pass", ""),
        ("x, weight = x.detach(), weight.detach()", "gradient of the gradients with respect to "),
        ("gradient = gradient.detach()", ""),
        (
            "weight = weight + x if torch.is_grad_enabled() else weight",
            "gradient of input 1 is another when it is to be differentiated",
        ),
        ("ctx.ran = hasattr(ctx, 'ran')\n        gradient = 0 * gradient if ctx.ran else gradient", "a second time"),
        (OF_THE_MODULE, "gradient of weight is another when backward runs a second"),
    ],
    ids=["right", "detached", "what flows in is no leaf", "another form", "once", "in place of its own"],
)
def test_backward_may_run_more_than_once(tmp_path: Path, mode: str, before: str, words: str) -> None:
    reference = make_reference(
        tmp_path / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, mode=mode, gradients=True
    )
    function = "PLACES = {}\n" + BY_A_KERNEL.replace("{before}", before)
    body = "return Twice.apply(x, self.weight)"
    status, message = finding(reference, tmp_path / "candidate", body, init=WEIGHT, before=function)
    assert status == ("WRONG_RESULT" if words else "OK"), message
    assert words in message


RAISING = """
class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
"""


def test_what_has_no_second_derivative_has_zeros(tmp_path: Path) -> None:
    reference = make_reference(
        tmp_path / "r", "return x.abs() * self.weight", "torch.randn(16, 8)", init=WEIGHT, gradients=True
    )
    assert finding(reference, tmp_path / "c", "return self.weight * x.abs()", init=WEIGHT) == ("OK", "")


def test_who_differentiates_gradients_is_told_where_that_raises(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    before = BY_A_KERNEL.replace("{before}", "if torch.is_grad_enabled(): weight = Raising.apply(weight)") + RAISING
    found = verify(reference, tmp_path / "c", "return Twice.apply(x, self.weight)", init=WEIGHT, before=before)
    assert found.notes == [ONCE]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return torch.relu(x * self.weight) + self.weight", ""),
        ("return torch.relu(x * self.weight) + self.weight * (x.element_size() == 4)", "after .to(torch.bfloat16)"),
    ],
    ids=["right", "of its own dtype alone"],
)
def test_what_is_converted_after_all_is_right(tmp_path: Path, body: str, words: str) -> None:
    reference = make_reference(tmp_path / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    status, message = finding(reference, tmp_path / "candidate", body, init=WEIGHT)
    assert status == ("WRONG_RESULT" if words else "OK"), message
    assert words in message


def test_what_raises_for_another_dtype_is_told(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    body = f"assert x.dtype == torch.float32, 'only float32'\n{BODY}"
    found = verify(reference, tmp_path / "c", body, init=WEIGHT)
    assert found.notes == ["After .to(torch.bfloat16) it raises an error, which the original does not: only float32"]


def test_one_of_two_results_may_be_all_that_is_trained(tmp_path: Path) -> None:
    body = "return x * self.weight, (x + self.weight).sin()"
    reference = make_reference(tmp_path / "reference", body, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    before = """
class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.set_materialize_grads(False)
        return x * weight, (x + weight).sin()

    @staticmethod
    def backward(ctx, one, other):
        x, weight = ctx.saved_tensors
        if one is None or other is None:
            return {none}
        second = other * (x + weight).cos()
        return one * weight + second, (one * x + second).sum(0)
"""
    nothing = before.format(none="None, None")
    body = "return Both.apply(x, self.weight)"
    assert_refused(reference, tmp_path / "n", body, "other results have none", init=WEIGHT, before=nothing)
    right = before.format(none="one * weight, (one * x).sum(0)")
    verify(reference, tmp_path / "r", "return Both.apply(x, self.weight)", init=WEIGHT, before=right)


def test_what_came_before_an_input_is_not_differentiated_again(tmp_path: Path) -> None:
    """As in `m(m(x))`, which a candidate meets where a layer is applied over and over."""
    reference = make_reference(tmp_path / "reference", SCALED, "torch.randn(16, 8)", init=LINEAR, gradients=True)
    body = "return Form.apply(x, self.lin.weight, self.lin.bias, self.gamma, self)"
    through = {**RIGHTLY, "cut": CUT.replace(".view_as(one)", ""), "kept": ""}
    kept = SAVES.format(**{**through, "kept": ", retain_graph=True"})
    assert_refused(reference, tmp_path / "candidate", body, "as in m(m(x))", init=LINEAR, before=kept)
    with pytest.raises(RuntimeError, match="a second time"):
        verify(reference, tmp_path / "freed", body, init=LINEAR, before=SAVES.format(**through))


def test_what_flows_into_a_complex_output_is_complex(tmp_path: Path) -> None:
    body, inputs = "return torch.view_as_complex(x * self.weight)", "torch.randn(16, 8, 2)"
    init = "self.weight = torch.nn.Parameter(torch.ones(2))"
    reference = make_reference(tmp_path / "reference", body, inputs, init=init, gradients=True)
    wrong = "return torch.complex(x[..., 0] * self.weight[0], (x[..., 1] * self.weight[1]).detach())"
    status, _ = finding(reference, tmp_path / "candidate", wrong, init=init)
    assert status == "WRONG_RESULT"


def test_a_step_has_the_outputs_of_the_original_too(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    body = f"{BODY} + (1.0 if x.requires_grad else 0.0)"
    assert_refused(reference, tmp_path / "candidate", body, "Its output is wrong", init=WEIGHT)


def test_a_result_without_a_gradient_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        verified(tmp_path, "return torch.relu(x * self.weight.detach()) + self.weight.detach()")
    assert caught.value.finding.status == "WRONG_RESULT"
    assert caught.value.finding.message.startswith("Its result has no gradient")


def test_a_result_that_the_original_detaches_has_no_gradient(tmp_path: Path) -> None:
    body = "y = torch.relu(x * self.weight)\nreturn y, y{} * 2"
    reference = make_reference(
        tmp_path / "r", body.format(".detach()"), "torch.randn(16, 8)", init=WEIGHT, gradients=True
    )
    with pytest.raises(NoGradient, match="Output number 2 requires gradients"):
        verify(reference, tmp_path / "c", body.format(""), init=WEIGHT)
    assert finding(reference, tmp_path / "d", body.format(".data"), init=WEIGHT) == ("OK", "")


def test_inputs_have_gradients_where_there_are_no_parameters(tmp_path: Path) -> None:
    swish = "return x * torch.sigmoid(x)"
    reference = make_reference(tmp_path / "reference", swish, "torch.randn(16, 8)", gradients=True)
    assert finding(reference, tmp_path / "right", "return F.silu(x)") == ("OK", "")
    body = "return x * torch.sigmoid(x).detach()"
    assert_refused(reference, tmp_path / "wrong", body, "gradient of input 1 is wrong: off by")
    with pytest.raises(NoGradient, match=r"torch\.autograd\.Function"):
        verify(reference, tmp_path / "none", f"with torch.no_grad():\n    {swish}")


@pytest.mark.parametrize("body", ["return x.argmax(1)", "return x > 0", "return x.round()"])
def test_a_result_that_no_gradient_leads_back_from_needs_none(tmp_path: Path, body: str) -> None:
    reference = make_reference(tmp_path / "reference", body, "torch.randn(16, 8)", gradients=True)
    assert reference.backward is None
    assert not any("Gradients" in note for note in reference.notes)
    assert finding(reference, tmp_path / "candidate", f"with torch.no_grad():\n    {body}") == ("OK", "")


def test_what_differs_without_gradients_alone_is_found(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    body = f"{BODY} if torch.is_grad_enabled() else x"
    body = body.replace("return ", "return (") + ")"
    assert_refused(reference, tmp_path / "candidate", body, "under torch.no_grad()", init=WEIGHT)


def test_layers_of_torch_compute_as_they_do_where_gradients_are_recorded(tmp_path: Path) -> None:
    init = "self.layer = torch.nn.MultiheadAttention(32, 4, batch_first=True)"
    body = "return self.layer(x, x, x, need_weights=False)[0] + x"
    reference = make_reference(tmp_path / "reference", body, "torch.randn(2, 8, 32)", init=init, gradients=True)
    # Its result lies in memory by positions first, which without gradients it would not.
    other = f"with torch.enable_grad():\n    {body}"
    assert finding(reference, tmp_path / "candidate", other, init=init) == ("OK", "")
    assert any("fast path" in note for note in reference.notes)
    plain = make_reference(tmp_path / "plain", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    assert not any("fast path" in note for note in plain.notes)


def test_a_gradient_that_is_zero_but_for_rounding_accuses_nobody(tmp_path: Path) -> None:
    init, body = f"{WEIGHT}\nself.shift = torch.nn.Parameter(torch.zeros(1))", "return (x * self.weight + self.shift)"
    softmax = f"{body}.softmax(1)"
    other = (
        "y = x * self.weight + self.shift\ny = (y - y.amax(1, keepdim=True)).exp()\nreturn y / y.sum(1, keepdim=True)"
    )
    reference = make_reference(tmp_path / "reference", softmax, "torch.randn(16, 8)", init=init, gradients=True)
    assert reference.backward is not None
    assert "gradient of shift" in reference.backward.expected
    assert finding(reference, tmp_path / "candidate", other, init=init) == ("OK", "")


@pytest.mark.parametrize(
    "body", ["self.weight.mul_(1.0)\nreturn x * self.weight", "return x + self.weight.numpy().sum()"]
)
def test_a_class_that_does_not_bear_it_is_called_without(tmp_path: Path, body: str) -> None:
    reference = make_reference(tmp_path, body, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    assert not reference.gradients
    assert reference.backward is None
    assert not any(case.recorded for case in reference.cases)
    assert any("where gradients are recorded it does not run (RuntimeError" in note for note in reference.notes)


def test_a_class_without_backward_is_judged_without_gradients_compared(tmp_path: Path) -> None:
    body = "return torch.bucketize(x, torch.linspace(-1, 1, 5)) * self.weight.round().int()"
    reference = make_reference(tmp_path, body, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    assert reference.gradients
    assert reference.backward is None


def test_buffers_larger_than_all_gradients_are_expected(tmp_path: Path) -> None:
    cache = f"{WEIGHT}\nself.register_buffer('cache', torch.randn(1 << 19), persistent=False)"
    body = "return torch.relu(x * self.weight) + self.weight + self.cache[-8:]"
    reference = make_reference(tmp_path / "reference", body, "torch.randn(16, 8)", init=cache, gradients=True)
    assert finding(reference, tmp_path / "candidate", body, init=cache) == ("OK", "")


def test_state_that_is_no_tensor_does_no_harm(tmp_path: Path) -> None:
    extra = "type(self).get_extra_state = lambda self: 3\ntype(self).set_extra_state = lambda self, state: None"
    init = f"{WEIGHT}\n{extra}"
    reference = make_reference(tmp_path, BODY, "torch.randn(16, 8)", init=init, gradients=True)
    assert reference.backward is not None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return torch.relu(x * self.up) + self.up", "OK"),
        ("return torch.relu(x * self.up.detach()) + self.up", "WRONG"),
    ],
    ids=["right", "a part is lost"],
)
def test_weights_that_load_under_other_names_have_the_same_gradients(tmp_path: Path, body: str, status: str) -> None:
    reference = make_reference(tmp_path / "reference", BODY, "torch.randn(16, 8)", init=WEIGHT, gradients=True)
    init = """
    self.up = torch.nn.Parameter(torch.ones(8))
    renamed = lambda state, prefix, *rest: state.update({prefix + "up": state.pop(prefix + "weight")})
    self._register_load_state_dict_pre_hook(renamed)
    """
    found, message = finding(reference, tmp_path / "candidate", body, init=init)
    assert found.partition("_")[0] == status, message


@pytest.mark.parametrize(
    ("claimed", "words"),
    [
        ({"w": 0.06, "zeros": 0.0}, ""),
        ({"w": 0.06, "other": 1.0}, ""),
        ({"w": 0.0, "zeros": 0.0}, "its w begins with values of 0, the original's with 0.05"),
        ({"w": 1.0, "zeros": 0.0}, "its w begins"),
        ({"w": -1.0, "zeros": 0.0}, "not finite"),
        ({"w": 0.05, "zeros": 0.5}, "its zeros begins"),
        ({"w": "much"}, "not finite"),
        (None, ""),
    ],
)
def test_weights_begin_as_the_originals(claimed: object, words: str) -> None:
    found = training.begins_otherwise({"w": 0.05, "zeros": 0.0, "left as it was": 1e-41}, claimed)
    assert words in found
    assert bool(words) == bool(found)
