"""Outside what a candidate was made for, it does what the module did."""

from __future__ import annotations

import copy
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import torch.nn.utils.prune
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from stark_lsp.core.roles import NothingToPropose

from .conftest import Bench, close
from .playbook_cases import BY_NAME, Case, text_of


def first(bench: Callable[..., Bench], name: str) -> tuple[Bench, torch.nn.Module]:
    one = bench(text_of(BY_NAME[name]))
    return one, one.build(one.attempt().candidate)


def test_another_dtype_goes_back_to_pytorch(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "layer_norm_residual")
    inputs = [tensor.double() for tensor in one.inputs]
    with torch.no_grad():
        close(one.model.double()(*inputs), new.double()(*inputs))


@pytest.mark.parametrize("name", ["layer_norm_residual", "rms_by_hand", "broadcast_shapes", "between_knots"])
def test_gradients_flow_as_before(bench: Callable[..., Bench], name: str) -> None:
    one, new = first(bench, name)
    results = []
    for model in (one.model, new):
        x = one.inputs[0].clone().requires_grad_()
        model(x, *one.inputs[1:]).square().sum().backward()
        results.append([x.grad, *(parameter.grad for parameter in model.parameters())])
    close(results[0], results[1])


def test_the_kernel_is_what_runs_with_gradients(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "rms_by_hand")
    x = one.inputs[0].clone().requires_grad_()
    found = new(x)
    assert "StarkDifferentiable" in type(found.grad_fn).__name__
    close(one.model(x), found)


def test_a_setting_may_be_infinite(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.act = nn.Hardtanh(0.0, math.inf)\n\n"
        "    def forward(self, x):\n        return torch.exp(-self.act(x) + 1.0)\n"
    )
    one = bench(text_of(Case("half_open", code, "[torch.randn(64, 64)]")))
    found = one.build(one.attempt().candidate)(one.inputs[0].clone().requires_grad_())
    assert "StarkDifferentiable" in type(found.grad_fn).__name__
    close(one.model(one.inputs[0]), found.detach())


def test_gradients_of_gradients_flow_and_one_tensor_may_be_given_twice(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "layer_norm_residual")
    results = []
    for model in (one.model, new):
        x = one.inputs[0].clone().requires_grad_()
        slope = torch.autograd.grad(model(x, x).square().sum(), x, create_graph=True)[0]
        results.append([slope.detach(), *torch.autograd.grad(slope.square().sum(), x)])
    close(results[0], results[1])


def test_a_parameter_that_is_given_twice_gets_its_gradient_once(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Parameter(torch.linspace(0, 1, 64))\n        self.b = self.a\n\n"
        "    def forward(self, x):\n        return torch.tanh(x * self.a) * self.b\n"
    )
    one = bench(text_of(Case("tied", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    for model in (one.model, new):
        model(*one.inputs).square().sum().backward()
    close(one.model.a.grad, new.a.grad)


def test_under_autocast_pytorch_runs(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "rms_by_hand")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(one.model(*one.inputs), new(*one.inputs))


def test_gradients_flow_through_compilation(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "rms_by_hand")
    slopes = []
    for model in (one.model, torch.compile(new, backend="eager")):
        x = one.inputs[0].clone().requires_grad_()
        model(x).square().sum().backward()
        slopes.append(x.grad)
    close(slopes[0], slopes[1])


def test_another_rank_is_computed_right(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "tanh_gelu")
    with torch.no_grad():
        for shape in ((5,), (2, 3, 4), (1, 1), (0, 8)):
            x = torch.randn(shape)
            close(one.model(x), new(x))


def test_other_broadcasting_is_computed_right(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "broadcast_shapes")
    with torch.no_grad():
        for shapes in (((8, 64, 128), (1, 1), (128,)), ((8, 64, 128), (64, 1), (1,)), ((1, 64, 128), (64, 1), (128,))):
            inputs = [torch.randn(shape) for shape in shapes]
            close(one.model(*inputs), new(*inputs))


def test_rows_that_are_not_contiguous_are_computed_right(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "rms_by_hand")
    with torch.no_grad():
        for x in (torch.randn(1024, 64).t(), torch.randn(64, 2048)[:, ::2], torch.randn(64, 2048)[:, 1024:]):
            close(one.model(x), new(x))


def test_a_module_built_with_other_arguments_is_computed_right(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "linear_scale_sum")
    other_old, other_new = type(one.model)(64, 3.0), type(new)(64, 3.0)
    other_new.load_state_dict(other_old.state_dict())
    x = torch.randn(4, 64)
    with torch.no_grad():
        close(other_old(x), other_new(x))


def test_training_mode_goes_back_to_the_original_forward(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "conv_batch_norm")
    one.model.train()
    new.train()
    for _ in range(2):
        torch.manual_seed(1)
        expected = one.model(*one.inputs)
        torch.manual_seed(1)
        close(expected, new(*one.inputs))
    close(dict(one.model.state_dict()), dict(new.state_dict()))


def test_arguments_other_than_the_recorded_ones_are_honoured(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "keyword_and_default")
    x = one.inputs[0]
    with torch.no_grad():
        close(one.model(x, mask=torch.ones(1024)), new(x, mask=torch.ones(1024)))
        close(one.model(x, scale=2.0), new(x, scale=2.0))


def test_a_candidate_can_be_copied_and_saved(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "linear_scale_sum")
    twin = copy.deepcopy(new)
    with torch.no_grad():
        close(new(*one.inputs), twin(*one.inputs))


def test_a_counter_in_a_buffer_counts_on(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('calls', torch.zeros(()))\n\n    def forward(self, x):\n"
        "        y = torch.tanh(x) * 2\n        self.calls += 1\n        return torch.exp(-y.abs()) * self.calls\n"
    )
    one = bench(text_of(Case("counter", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    with torch.no_grad():
        for _ in range(3):
            close(one.model(*one.inputs), new(*one.inputs))
    assert new.calls == 3


HALF = Case(
    "half",
    "class Model(nn.Module):\n    def forward(self, x):\n        return F.gelu(x * 1.5) + x\n",
    "[torch.randn(64, 512).{}]",
)


@pytest.mark.parametrize("dtype", ["bfloat16()", "half()"])
def test_half_precision_is_as_accurate_as_pytorch(bench: Callable[..., Bench], dtype: str) -> None:
    one = bench(text_of(Case("half", HALF.code, HALF.inputs.format(dtype))))
    new = one.build(one.attempt().candidate)
    with torch.no_grad():
        close(one.model(*one.inputs), new(*one.inputs))


def test_what_follows_operations_gets_pytorchs_own(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "layer_norm_residual")
    given = [tensor.flip(0) for tensor in one.inputs]
    expected = one.model(*given)
    close(expected, torch.compile(new, backend="eager", fullgraph=True)(*given))
    traced = torch.jit.trace(new, tuple(one.inputs), check_trace=False)
    close(expected, traced(*given))
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        assert new(*map(fake.from_tensor, given)).shape == expected.shape


@pytest.mark.parametrize("name", ["layer_norm_residual", "rms_by_hand", "between_knots", "full_mean_loss"])
def test_whoever_is_told_of_operators_sees_pytorchs(name: str, bench: Callable[..., Bench]) -> None:
    one, new = first(bench, name)
    given = [tensor.flip(0) for tensor in one.inputs]
    expected = one.model(*given)
    close(expected, make_fx(new)(*one.inputs)(*given))
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert new(*given).shape == expected.shape
    with FlopCounterMode(display=False):
        assert new(given[0].requires_grad_(), *given[1:]).grad_fn.name() == one.model(*given).grad_fn.name()


def test_kernels_run_where_a_device_is_the_default(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "rms_by_hand")
    with torch.device("cpu"):
        assert "StarkDifferentiable" in type(new(one.inputs[0].requires_grad_()).grad_fn).__name__


@pytest.mark.parametrize("name", ["layer_norm_residual", "rms_by_hand", "between_knots", "full_mean_loss"])
def test_what_stands_for_a_tensor_goes_to_pytorch(name: str, bench: Callable[..., Bench]) -> None:
    one, new = first(bench, name)
    expected = one.model(*one.inputs)
    close(expected, torch.fx.symbolic_trace(new)(*one.inputs))
    for other in (None, [1.0], one.inputs[0].numpy()):
        with pytest.raises((TypeError, AttributeError)) as raised:
            new(other, *one.inputs[1:])
        assert not any(word in str(raised.value) for word in ("'shape'", "'dim'", "'dtype'", "'is_cpu'"))


def test_what_autograd_cannot_keep_is_not_kept(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.bias = nn.Parameter(torch.ones(64))\n\n"
        "    def forward(self, x, scale: float = 2.0):\n        return torch.tanh(x + self.bias) * scale\n"
    )
    one = bench(text_of(Case("frozen", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    with torch.inference_mode():
        features = torch.randn(8, 64)
    for model in (one.model, new):
        model(features).sum().backward()
    close(one.model.bias.grad, new.bias.grad)
    with torch.no_grad():
        close(one.model(features), new(features))
    close(one.model(features, 3.0), torch.fx.symbolic_trace(new)(features, 3.0))


def test_hooks_of_parameters_run_once(bench: Callable[..., Bench]) -> None:
    one, new = first(bench, "layer_norm_residual")
    for model in (one.model, new):
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: 2.0 * gradient)
        model(*one.inputs).square().sum().backward()
    for old, found in zip(one.model.parameters(), new.parameters(), strict=True):
        close(old.grad, found.grad)


def test_a_result_that_is_not_used_has_no_gradient(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b = nn.Parameter(torch.ones(64)), nn.Parameter(torch.ones(64))\n\n"
        "    def forward(self, x):\n        y = torch.tanh(x) * self.a + x\n"
        "        return y, (y * self.b).pow(2).mean(-1, keepdim=True).sqrt()\n"
    )
    one = bench(text_of(Case("two", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    x = one.inputs[0].clone()
    x[3] = 0.0  # there the other result has an infinite slope
    for model in (one.model, new):
        model(x)[0].square().sum().backward()
    close(one.model.a.grad, new.a.grad)
    assert new.b.grad is None


def test_another_number_of_dimensions_goes_back_to_pytorch(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def forward(self, x):\n"
        "        scale = torch.arange(x.shape[-2], dtype=torch.float32)[:, None]\n"
        "        return torch.tanh(x * scale) * 0.5 + x\n"
    )
    one = bench(text_of(Case("rank", code, "[torch.randn(2, 4, 16)]")))
    new = one.build(one.attempt().candidate)
    x = torch.randn(2, 3, 4, 16)
    close(one.model(x), new(x))


def test_a_fused_part_that_was_changed_is_seen(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.drop, self.norm = nn.Dropout(0.5), nn.LayerNorm(64)\n\n"
        "    def forward(self, x):\n        return self.norm(torch.tanh(self.drop(x)) + x)\n"
    )
    one = bench(text_of(Case("parts", code, "[torch.randn(8, 64)]")))
    new, (x,) = one.build(one.attempt().candidate), one.inputs
    plain = new(x)
    assert "StarkDifferentiable" in type(plain.grad_fn).__name__
    close(one.model(x), plain)
    new.drop.train()
    assert not torch.equal(plain, new(x)), "as with dropout at test time"
    new.drop.eval()
    hook = new.norm.register_forward_hook(lambda module, given, out: 2.0 * out)
    close(2.0 * plain, new(x))
    hook.remove()
    new.norm.eps = 0.5
    one.model.norm.eps = 0.5
    close(one.model(x), new(x))
    new.norm = one.model.norm = torch.nn.Identity()
    close(one.model(x), new(x))
    new.norm = torch.nn.LayerNorm(64)
    new.norm.forward = lambda x: x
    close(one.model(x), new(x))


OWN_PARTS = """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.eps = 1e-6
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 64))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Scaled()

    def forward(self, x):
        return torch.tanh(self.norm(x)) + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.last = Block(), nn.Sequential(Scaled())

    def forward(self, x):
        return self.last(self.block(x))
"""


class Shifted(torch.nn.Module):
    """Holds what a `Scaled` holds, and computes something else."""

    def __init__(self) -> None:
        super().__init__()
        self.eps, self.weight = 1e-6, torch.nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + 1.0


def prune_half(model: torch.nn.Module) -> None:
    torch.nn.utils.prune.l1_unstructured(model.block.norm, "weight", 0.5)
    with torch.no_grad():  # as a step of an optimizer does
        model.block.norm.weight_orig.mul_(3.0)


def add(part: torch.nn.Module) -> None:
    part.register_forward_hook(lambda module, given, out: out + 1.0)


CHANGED: dict[str, Callable[[torch.nn.Module], object]] = {
    "a hook": lambda model: add(model.block.norm),
    "a hook outside of it": lambda model: add(model.block),
    "a hook on a container": lambda model: add(model.last),
    "a hook on backward": lambda model: model.last[0].register_full_backward_hook(lambda *_: (torch.ones(8, 64),)),
    "another class": lambda model: setattr(model.block, "norm", Shifted()),
    "another class of its name": lambda model: setattr(model.block, "norm", type("Scaled", (Shifted,), {})()),
    "a class without its settings": lambda model: setattr(model.block, "norm", torch.nn.Identity()),
    "a class without its parts": lambda model: setattr(model, "block", torch.nn.Identity()),
    "another forward": lambda model: setattr(model.block.norm, "forward", torch.tanh),
    "pruned": prune_half,
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_part_of_the_users_own_class_is_seen(bench: Callable[..., Bench], name: str) -> None:
    one = bench(text_of(Case("own", OWN_PARTS, "[torch.randn(8, 64)]")))
    new, results = one.build(one.attempt().candidate), []
    new.register_forward_hook(lambda *_: None)  # runs outside of forward, so it changes nothing
    assert "StarkDifferentiable" in type(new(*one.inputs).grad_fn).__name__
    for model in (one.model, new):
        x = one.inputs[0].clone().requires_grad_()
        torch.manual_seed(0)
        CHANGED[name](model)
        out = model(x)
        out.square().sum().backward()
        results.append([out.detach(), x.grad])
    close(results[0], results[1])


def test_a_part_whose_class_the_file_does_not_name_is_known_by_name(bench: Callable[..., Bench]) -> None:
    hidden = textwrap.indent(OWN_PARTS.partition("\n\n\nclass Block")[0], "    ")
    code = f"def scaled():{hidden}\n\n    return Scaled()\n\n\nclass Block{OWN_PARTS.partition('class Block')[2]}"
    code = code.replace("= Scaled()", "= scaled()").replace("(Scaled())", "(scaled())")
    one = bench(text_of(Case("unnamed", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    assert "StarkDifferentiable" in type(new(*one.inputs).grad_fn).__name__
    new.block.norm = one.model.block.norm = Shifted()
    close(one.model(*one.inputs), new(*one.inputs))


def test_a_hook_is_seen_on_a_part_that_is_written_as_a_function(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.act, self.b = nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 64)\n\n"
        "    def forward(self, x):\n        return torch.tanh(self.b(self.act(self.a(x)))) * 2 + x\n"
    )
    one = bench(text_of(Case("written", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    assert "StarkDifferentiable" in type(new(*one.inputs).grad_fn).__name__
    for model in (one.model, new):
        add(model.act)
    close(one.model(*one.inputs), new(*one.inputs))


SETTINGS = """
EPS, SLOPE, SHIFT, UNREAD = 1e-3, 0.1, 0.25, 7


def shifted(x):
    return x + SHIFT


class Part(nn.Module):
    factor = 0.7

    def forward(self, x):
        return x * self.factor + (x * 0.5 if self.training else 0.0)


class Model(nn.Module):
    gain = 1.25

    def __init__(self):
        super().__init__()
        self.options, self.part, self._private = {"alpha": 0.5, "inner": {1: 2.0}, "unread": 3.0}, Part(), 0.5
        self.act, self.__twice = torch.tanh, 2.0

    @property
    def half(self):
        return self.gain / 2

    def leaky(self, x):
        return F.leaky_relu(x, SLOPE)

    def forward(self, x):
        y = self.act(x * self.gain + self.options["alpha"]) * self.__twice * self.options["inner"][1] + EPS
        return self.part(shifted(self.leaky(y))) * self.half * self._private + self.options.get("beta", 1.0)
"""
SET: dict[str, Callable[[Any], object]] = {
    "a class's attribute": lambda model: setattr(model, "gain", 0.1),
    "a class's attribute, on the class": lambda model: setattr(type(model), "gain", 0.1),
    "a part's class's attribute": lambda model: setattr(model.part, "factor", 0.1),
    "a name with an underscore": lambda model: setattr(model, "_private", 0.1),
    "a function": lambda model: setattr(model, "act", torch.sigmoid),
    "a part for a function": lambda model: setattr(model, "act", torch.nn.Sigmoid()),
    "an item": lambda model: model.options.update(alpha=3.0),
    "an item within": lambda model: model.options["inner"].update({1: 3.0}),
    "an item that was not there": lambda model: model.options.update(beta=3.0),
    "another dict": lambda model: setattr(model, "options", {"alpha": 3.0, "inner": {1: 2.0}}),
    "a part's mode": lambda model: model.part.train(),
    "a constant": lambda model: setattr(sys.modules[type(model).__module__], "EPS", 0.5),
    "a constant that a method reads": lambda model: setattr(sys.modules[type(model).__module__], "SLOPE", 0.5),
    "a constant that a function reads": lambda model: setattr(sys.modules[type(model).__module__], "SHIFT", 0.5),
}


@pytest.mark.parametrize("name", SET)
def test_a_setting_that_was_changed_is_seen(bench: Callable[..., Bench], name: str) -> None:
    one = bench(text_of(Case("settings", SETTINGS, "[torch.randn(8, 64)]")))
    candidate = one.attempt().candidate
    new, (x,) = one.build(candidate), one.inputs
    assert "StarkDifferentiable" in type(new(x.clone().requires_grad_()).grad_fn).__name__
    plain = new(x)
    close(one.model(x), plain)
    assert "unread" not in candidate.source.partition("class ModelNew")[2].partition("def forward")[2]
    for model in (one.model, new):
        SET[name](model)
    assert not torch.equal(plain, new(x))
    close(one.model(x), new(x))


def test_a_constant_that_a_parameter_hides_is_not_asked(bench: Callable[..., Bench]) -> None:
    code = (
        "SCALE = 2.0\n\n\ndef scaled(x):\n    return x * SCALE\n\n\n"
        "class Model(nn.Module):\n    def forward(self, SCALE):\n        return scaled(torch.tanh(SCALE)) + SCALE\n"
    )
    one = bench(text_of(Case("hidden", code, "[torch.randn(8, 64)]")))
    close(one.model(*one.inputs), one.build(one.attempt().candidate)(*one.inputs))


@pytest.mark.parametrize(
    "change", [lambda parts: parts.append(torch.nn.Tanh()), lambda parts: parts.pop(1)], ids=["added", "taken out"]
)
@pytest.mark.parametrize("kind", ["Sequential", "ModuleList"])
def test_parts_that_are_added_or_taken_out_are_seen(
    bench: Callable[..., Bench], kind: str, change: Callable[[Any], object]
) -> None:
    parts = "nn.LayerNorm(64), nn.LayerNorm(64)"
    called = "self.parts(x)" if kind == "Sequential" else "functools.reduce(lambda x, part: part(x), self.parts, x)"
    code = (
        "import functools\n\n\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.parts = nn.{kind}({parts if kind == 'Sequential' else f'[{parts}]'})\n\n"
        f"    def forward(self, x):\n        return torch.tanh({called}) + x\n"
    )
    one = bench(text_of(Case("parts", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    assert "StarkDifferentiable" in type(new(*one.inputs).grad_fn).__name__
    for model in (one.model, new):
        change(model.parts)
    close(one.model(*one.inputs), new(*one.inputs))


HELD = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([torch.randn(64), torch.randn(64)])
        self.shifts = nn.ParameterDict({"first": torch.randn(64), "a-b": torch.randn(64)})
        self.again = nn.ModuleList([nn.ParameterList([self.scales[0]])])

    def forward(self, x):
        for scale in self.scales:
            x = torch.tanh(x * scale)
        for shift in self.shifts.values():
            x = torch.sigmoid(x + shift)
        return x * self.again[0][0]
"""


SHARED = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 64)
        self.head.weight = self.body.weight

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)) * 2 + 1)
"""


def test_a_head_that_shares_a_weight_may_be_replaced(bench: Callable[..., Bench]) -> None:
    one = bench(text_of(Case("shared", SHARED, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    for model in (one.model, new):
        model.head = torch.nn.Identity()
    close(one.model(*one.inputs), new(*one.inputs))


def _set(name: str, value: Any) -> Callable[[Any], object]:
    return lambda model: setattr(model, name, value)


@pytest.mark.parametrize(
    ("value", "used", "other"),
    [
        ([n / 8 for n in range(20)], "sum(self.value)", [n / 4 for n in range(20)]),
        ([[1.0, 2.0], [3.0]], "self.value[0][1]", [[1.0, 4.0], [3.0]]),
        ([[1.0], [2.0]], "sum(a for a, in self.value)", [[1.0]]),
        (range(3), "sum(self.value)", range(4)),
        (float("inf"), "min(self.value, 2.0)", 1.0),
        (numpy.int64(3), "int(self.value)", 4),
    ],
    ids=["long", "nested", "shorter", "range", "infinite", "numpy's"],
)
def test_rows_of_numbers_are_asked_for(bench: Callable[..., Bench], value: Any, used: str, other: Any) -> None:
    text = repr(value).replace("inf", 'float("inf")').replace("np.", "__import__('numpy').")
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.value = {text}\n\n    def forward(self, x):\n        return torch.tanh(x * {used}) + x\n"
    )
    one = bench(text_of(Case("rows", code, "[torch.randn(8, 64)]")))
    new, (x,) = one.build(one.attempt().candidate), one.inputs
    new.value = value
    assert "StarkDifferentiable" in type(new(x.clone().requires_grad_()).grad_fn).__name__
    for model in (one.model, new):
        _set("value", other)(model)
    close(one.model(x), new(x))


@pytest.mark.parametrize(
    ("made", "used", "why"),
    [
        ("[n / 8 for n in range(500)]", "self.value[7]", "many numbers"),
        ("__import__('numpy').ones(3)", "float(self.value[1])", "numpy's"),
        ("nn.ParameterList([2.0, torch.randn(64)])", "self.value[1] * self.value[0]", "no parameter"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(bench: Callable[..., Bench], made: str, used: str, why: str) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.value = {made}\n\n    def forward(self, x):\n        return torch.tanh(x * {used}) + x\n"
    )
    one = bench(text_of(Case("refused", code, "[torch.randn(8, 64)]")))
    with pytest.raises(NothingToPropose, match=why):
        one.attempt()


@pytest.mark.parametrize("change", ["added", "another", "untied"])
def test_lists_and_dicts_of_parameters_are_named_as_the_user_would(bench: Callable[..., Bench], change: str) -> None:
    one = bench(text_of(Case("held", HELD, "[torch.randn(8, 64)]")))
    candidate = one.attempt().candidate
    assert "self.scales[1]" in candidate.source
    assert 'self.shifts["a-b"]' in candidate.source
    new, (x,) = one.build(candidate), one.inputs
    assert "StarkDifferentiable" in type(new(x).grad_fn).__name__
    close(one.model(x), new(x))
    for model in (one.model, new):
        if change == "added":
            model.scales.append(torch.full([64], 0.5))
        elif change == "untied":
            model.again[0][0] = torch.nn.Parameter(torch.full([64], 0.5))
        else:
            model.shifts["a-b"] = torch.nn.Parameter(torch.full([64], 0.5))
    close(one.model(x), new(x))
