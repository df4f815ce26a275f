"""What Inductor writes on this GPU, as a candidate: launched one by one, and replayed as a CUDA graph."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from stark_lsp.judge.analysis import inductor
from stark_lsp.judge.analysis.frames import NotTraceable
from stark_lsp.judge.reference import modules
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor import recipes
from stark_lsp.playbook.inductor.proposal import AsCompiled
from stark_lsp.playbook.inductor.recipes import STRATEGY
from stark_lsp.playbook.source import OLD_FORWARD

from .conftest import Bench, close
from .test_candidates_on_cuda import moved
from .test_inductor_autocast import all_near, near
from .test_inductor_changed import NUMBERS
from .test_inductor_items import PYRAMID, ROTARY, STATE, stepped
from .written import SCALED, STEP, gradients

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
LAYERS = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(256, 512)
        self.norm = nn.LayerNorm(512)
        self.down = nn.Linear(512, 256)

    def forward(self, x):
        return x + self.down(F.gelu(self.norm(self.up(x))))


def get_inputs():
    return [torch.randn(128, 256)]
"""
IMAGES = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)


def get_inputs():
    return [torch.randn(4, 8, 32, 32)]
"""
WIDE = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(512, 1536), nn.Linear(512, 512)
        self.register_buffer("mask", torch.tril(torch.ones(256, 256)))

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (y.view(n, t, 8, d // 8).transpose(1, 2) for y in self.qkv(x).split(d, 2))
        scores = (q @ k.transpose(-2, -1) / 8).masked_fill(self.mask == 0, -torch.inf)
        y = torch.softmax(scores, -1) @ v + F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(n, t, d))


def get_inputs():
    return [torch.randn(4, 256, 512)]
"""
DESIGNS = {
    "as compiled": (),
    "graph": ((recipes.LAUNCH, "replayed"),),
    "captured": ((recipes.LAUNCH, "captured"),),
    "halves": ((recipes.PRODUCTS, recipes.HALVES),),
    "short halves": ((recipes.PRODUCTS, recipes.SHORT_HALVES),),
    "attention": ((recipes.ATTENTION, recipes.STREAMED),),
    "attention, exact": ((recipes.ATTENTION, recipes.EXACT), (recipes.LAUNCH, "replayed")),
    "attention, halves": ((recipes.ATTENTION, recipes.STREAMED), (recipes.PRODUCTS, recipes.HALVES)),
    "three parts": ((recipes.PRODUCTS, "bf16x3"),),
    "six parts": ((recipes.PRODUCTS, "bf16x6"), (recipes.TUNING, "search")),
    "as given": ((recipes.LAYOUT, "as-given"), (recipes.LAUNCH, "replayed")),
}


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions without TF32, whose rounding depends on the layout."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def written(one: Bench, design: Design, *, autocast: str = "", recipe: dict[str, Any] | None = None) -> torch.nn.Module:
    """Return the candidate of a module on the GPU."""
    model = modules.used(copy.deepcopy(one.model), "", autocast, "cuda")
    asked = recipes.Switches().recipe(design) | (recipe or {})
    made = inductor.program(model, tuple(one.inputs), {}, str(one.path), asked) | {"autocast": autocast}
    return one.build(AsCompiled(one.problem, made, design).candidate).cuda()


@contextmanager
def by_kernels(new: torch.nn.Module, wanted: bool = True) -> Iterator[None]:
    """Assert that the program ran in the block, or that it did not."""
    calls: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_compiled", "_replayed"):
            run = getattr(new, name, None)
            if run is not None:
                patch.setattr(new, name, lambda *given, run=run: calls.append(1) or run(*given))
        yield
    assert bool(calls) is wanted


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("text", [LAYERS, IMAGES, SCALED, WIDE], ids=["layers", "images", "scaled", "wide"])
def test_it_computes_what_the_module_computes(text: str, name: str, bench: Callable[..., Bench]) -> None:
    one = bench(text, place=moved)
    design = Design(STRATEGY, DESIGNS[name])
    try:
        new = written(one, design)
    except inductor.NotTraceable as error:
        pytest.skip(str(error))
    with torch.no_grad():
        expected = one.model(*one.inputs)
        for _ in range(2):
            with by_kernels(new):
                torch.testing.assert_close(new(*one.inputs), expected, rtol=1e-4, atol=1e-4)
    for found, other in zip(gradients(new, one.inputs), gradients(one.model, one.inputs), strict=True):
        torch.testing.assert_close(found, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["as compiled", "graph", "captured"])
@pytest.mark.parametrize("text", [ROTARY, PYRAMID, STATE], ids=["tuple", "list", "dict"])
def test_each_tensor_within_an_input_is_one_of_the_programs(text: str, name: str, bench: Callable[..., Bench]) -> None:
    one = bench(text, place=lambda inputs: modules.to_device(inputs, "cuda"))
    new = written(one, Design(STRATEGY, DESIGNS[name]))
    for _ in range(2):
        expected, slopes = stepped(one.model, one.inputs)
        for weight in (*one.model.parameters(), *new.parameters()):
            weight.grad = None
        with by_kernels(new):
            found, others = stepped(new, one.inputs)
        close(found, expected)
        for slope, other in zip(slopes, others, strict=True):
            torch.testing.assert_close(other, slope, rtol=1e-4, atol=1e-5)
        one.inputs = modules.map_tensors(one.inputs, lambda x: x * 0.9)


@pytest.mark.parametrize("name", ["as compiled", "graph", "captured", "attention", "backward"])
@pytest.mark.parametrize("text", [LAYERS, IMAGES, WIDE], ids=["layers", "images", "wide"])
def test_under_autocast_weights_are_cast_at_each_call(text: str, name: str, bench: Callable[..., Bench]) -> None:
    one = bench(text, place=moved)
    backward = name == "backward"
    design = Design(STRATEGY, DESIGNS.get(name, ()))
    if backward:
        one.model.train()
    try:
        new = written(one, design, autocast="bfloat16", recipe=STEP if backward else None)
    except inductor.NotTraceable as error:
        pytest.skip(str(error))
    new.train(one.model.training)
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            with torch.set_grad_enabled(backward):
                expected = one.model(*one.inputs)
                for _ in range(2):
                    with by_kernels(new):
                        near(expected, new(*one.inputs))
            steps = [gradients(model, one.inputs) for model in (new, one.model)]
        all_near(steps[1], steps[0])
        with torch.no_grad():
            for weight in (*one.model.parameters(), *new.parameters()):
                weight.mul_(1.1)


@pytest.mark.parametrize("autocast", ["", "bfloat16"])
@pytest.mark.parametrize("text", [LAYERS, IMAGES], ids=["layers", "images"])
def test_in_training_forward_and_backward_are_graphs(text: str, autocast: str, bench: Callable[..., Bench]) -> None:
    one = bench(text, place=moved)
    one.model.train()
    new = written(one, Design(STRATEGY, DESIGNS["graph"]), autocast=autocast, recipe=STEP).train()
    forms = []
    with pytest.MonkeyPatch.context() as patch:
        form = getattr(type(new), OLD_FORWARD)
        patch.setattr(type(new), OLD_FORWARD, lambda *given: forms.append(1) or form(*given))
        for number in range(6):
            found = []
            for model in (new, one.model):
                inputs = [x.clone().requires_grad_() for x in one.inputs]
                with torch.autocast("cuda", torch.bfloat16, enabled=bool(autocast)):
                    # Every third time there is another call before backward of the first one.
                    results = [
                        model(*(x * scale for x in inputs)) for scale in ([1.0, 0.5] if number % 3 == 2 else [1.0])
                    ]
                total = sum((result.float() ** 2).mean() for result in results)
                asked = [*inputs, *model.parameters()]
                found.append([x.float() for x in torch.autograd.grad(total, asked, retain_graph=number % 2 == 1)])
                if number % 2 == 1:
                    again = torch.autograd.grad(total, asked)
                    for a, b in zip(found[-1], again, strict=True):
                        torch.testing.assert_close(a, b.float(), rtol=1e-3, atol=1e-5)
            all_near(found[1], found[0])
            # By the same step, so that what bfloat16 rounds does not add up from round to round.
            with torch.no_grad():
                for model in (new, one.model):
                    for weight, gradient in zip(model.parameters(), found[1][len(inputs) :], strict=True):
                        weight -= 0.1 * gradient
            for a, b in zip(one.model.buffers(), new.buffers(), strict=True):
                torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)
            # The form is computed for the first of two calls alone, each time that its gradients are asked for.
            assert len(forms) == (number >= 2) + 2 * (number >= 5)


@pytest.mark.parametrize(
    ("name", "recipe"), [("as compiled", None), ("graph", None), ("as compiled", STEP), ("graph", STEP)]
)
def test_gradients_are_as_before_under_checkpoints_and_hooks(
    name: str, recipe: dict[str, Any] | None, bench: Callable[..., Bench]
) -> None:
    one = bench(LAYERS, place=moved)
    one.model.train(recipe is not None)
    models = (one.model, written(one, Design(STRATEGY, DESIGNS[name]), recipe=recipe).train(recipe is not None))

    def alike(run: Callable[[torch.nn.Module], Any]) -> None:
        for model in models:
            model.zero_grad()
            run(model).square().sum().backward()
        for old, new in zip(*(model.parameters() for model in models), strict=True):
            torch.testing.assert_close(new.grad, old.grad, rtol=1e-3, atol=1e-4)

    for _ in range(2):
        with by_kernels(models[1]) if recipe is None else nullcontext():
            alike(lambda model: checkpoint(model, *one.inputs, use_reentrant=False))
        with torch.autograd.graph.save_on_cpu():
            alike(lambda model: model(*one.inputs))
    for model in models:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: 2.0 * gradient)
    alike(lambda model: model(*one.inputs))


SEPARABLE = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(24, 24, 7, padding=3, groups=24)
        self.odd = nn.Conv2d(24, 24, (5, 7), padding=(2, 1), groups=24, bias=False)
        self.mix = nn.Conv2d(24, 32, 1)
        self.small = nn.Conv2d(32, 64, 3, stride=2, groups=32)

    def forward(self, x):
        y = self.odd(F.gelu(self.wide(x)))
        return self.small(F.relu(self.mix(y)))


def get_inputs():
    return [torch.randn(9, 24, 61, 65)]
"""


CONVOLVED = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = CONV, nn.BatchNormRANKd(192)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(SIZES)]
"""
)
CONVOLUTIONS = {
    "an image": (2, "nn.Conv2d(96, 192, 3, padding=1)", "16, 96, 56, 56"),
    "strided, no bias": (2, "nn.Conv2d(100, 192, (5, 3), stride=2, padding=(2, 1), bias=False)", "16, 100, 96, 96"),
    "dilated": (2, "nn.Conv2d(96, 192, 3, padding=2, dilation=2)", "16, 96, 56, 56"),
    "channels last": (
        2,
        "nn.Conv2d(96, 192, 3, padding=1)",
        "16, 96, 56, 56).to(memory_format=torch.channels_last",
    ),
    "a line": (1, "nn.Conv1d(128, 192, 5)", "64, 128, 512"),
    "a volume": (3, "nn.Conv3d(64, 192, 3, padding=1)", "4, 64, 16, 16, 16"),
    "in groups": (2, "nn.Conv2d(128, 192, 3, padding=1, groups=4)", "16, 128, 56, 56"),
    "transposed": (2, "nn.ConvTranspose2d(96, 192, 3, stride=2, padding=1, output_padding=1)", "16, 96, 28, 28"),
    "transposed, not spread": (2, "nn.ConvTranspose2d(96, 192, 3)", "16, 96, 56, 56"),
    "transposed, dilated": (
        2,
        "nn.ConvTranspose2d(96, 192, (3, 5), stride=(2, 3), padding=(1, 2), dilation=(2, 1))",
        "16, 96, 28, 28",
    ),
    "transposed, in groups": (
        2,
        "nn.ConvTranspose2d(128, 192, 3, stride=2, padding=1, output_padding=1, dilation=2, groups=4)",
        "16, 128, 56, 56",
    ),
    "a transposed volume": (3, "nn.ConvTranspose3d(64, 192, (3, 4, 5), stride=2, bias=False)", "4, 64, 8, 16, 16"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_on_tensor_cores_are_those_of_tf32(
    name: str, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    rank, conv, sizes = CONVOLUTIONS[name]
    one = bench(CONVOLVED.replace("CONV", conv).replace("RANK", str(rank)).replace("SIZES", sizes), place=moved)
    new = written(one, Design(STRATEGY, ((recipes.CONVOLUTIONS, "rounded"),)))
    (x,) = one.inputs
    with torch.no_grad():
        # What fits at once, what is rounded again, and what has no end.
        for scale in (1.0, 1e6, 1e-9):
            expected = one.model(x * scale)
            with by_kernels(new):
                off = (new(x * scale) - expected).abs().max() / expected.abs().max()
            assert float(off) < 2e-5, scale
        x[1, 2, 3] = float("inf")
        assert torch.equal(new(x).isfinite(), one.model(x).isfinite())
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
        with by_kernels(new, False):
            x.nan_to_num_(posinf=0.0)
            close(new(x), one.model(x))


@pytest.mark.parametrize(
    ("name", "launched"),
    [
        ("an image", ()),
        ("an image", ((recipes.LAUNCH, "replayed"),)),
        ("strided, no bias", ()),
        ("channels last", ()),
        ("transposed", ()),
        ("a volume", ()),
    ],
    ids=["image", "graph", "strided", "last", "transposed", "volume"],
)
def test_in_training_gradients_of_images_are_convolutions_too(
    name: str, launched: Any, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    _, conv, sizes = CONVOLUTIONS[name]
    # Smooth, and no norm: near ReLU's zero the order of sums decides of some, and of a bias in front of a norm of all.
    text = CONVOLVED.replace("F.relu(self.norm(self.conv(x)))", "F.silu(self.conv(x))")
    text = text.replace("self.conv, self.norm = CONV, nn.BatchNormRANKd(192)", f"self.conv = {conv}")
    one = bench(text.replace("SIZES", sizes), place=moved)
    one.model.train()
    new = written(one, Design(STRATEGY, ((recipes.CONVOLUTIONS, "rounded"), *launched)), recipe=STEP).train()
    # Of others it depends on which kernel cuDNN takes.
    assert "_stark_rounded(" in inspect.getsource(type(new)._backward) or name not in ("an image", "a volume")
    for scale in (1.0, 1e-6):
        inputs = [x * scale for x in one.inputs]
        expected = gradients(one.model, inputs)
        # A graph of a step is launched, not called, once it is captured.
        with by_kernels(new) if scale == 1.0 or not launched else nullcontext():
            found = gradients(new, inputs)
        for a, b in zip(found, expected, strict=True):
            assert float((a - b).norm()) < 1e-4 * float(b.norm())


PARTS = {
    "few channels": (2, "nn.Conv2d(3, 192, 3, padding=1)", "16, 3, 224, 224"),
    "few channels, strided": (2, "nn.Conv2d(8, 192, 7, stride=3, padding=2)", "16, 8, 128, 128"),
    "a volume of few": (3, "nn.Conv3d(3, 192, 3)", "4, 3, 16, 32, 64"),
    "a volume in groups": (3, "nn.Conv3d(32, 192, (3, 5, 3), dilation=(1, 1, 2), groups=4)", "4, 32, 16, 32, 64"),
    "a line of few": (1, "nn.Conv1d(3, 192, 5, dilation=2)", "16, 3, 65536"),
}


@pytest.mark.parametrize("name", PARTS)
def test_convolutions_without_tf32_are_taken_in_parts(
    name: str, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    rank, conv, sizes = PARTS[name]
    one = bench(CONVOLVED.replace("CONV", conv).replace("RANK", str(rank)).replace("SIZES", sizes), place=moved)
    new = written(one, Design(STRATEGY, ((recipes.CONVOLUTIONS, "rounded"),)))
    (x,) = one.inputs
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    with torch.no_grad(), by_kernels(new):
        for scale in (1.0, 1e20, 1e-20):
            expected = one.model(x * scale)
            off = (new(x * scale) - expected).abs().max() / expected.abs().max()
            assert float(off) < 5e-6, scale
        x[1, 2, 3] = float("inf")
        assert torch.equal(new(x).isfinite(), one.model(x).isfinite())


@pytest.mark.parametrize("launched", [(), ((recipes.LAUNCH, "replayed"),)], ids=["", "graph"])
def test_large_and_small_filters_of_single_channels(launched: Any, bench: Callable[..., Bench]) -> None:
    one = bench(SEPARABLE, place=moved)
    new = written(one, Design(STRATEGY, ((recipes.WINDOWS, "shifted"), *launched)))
    with torch.no_grad(), by_kernels(new):
        torch.testing.assert_close(new(*one.inputs), one.model(*one.inputs), rtol=1e-4, atol=1e-5)
    for found, other in zip(gradients(new, one.inputs), gradients(one.model, one.inputs), strict=True):
        torch.testing.assert_close(found, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["as compiled", "graph", "captured"])
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_another_gpu_than_the_current_one_is_used(name: str, bench: Callable[..., Bench]) -> None:
    one = bench(LAYERS, place=moved)
    new = written(one, Design(STRATEGY, DESIGNS[name])).to("cuda:1")
    model, x = one.model.to("cuda:1"), one.inputs[0].to("cuda:1")
    for _ in range(2):
        with by_kernels(new):
            close_to((model, new), x)
    assert torch.cuda.current_device() == 0
    assert new(x).device.index == 1


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_what_has_no_weights_follows_its_inputs_from_gpu_to_gpu(bench: Callable[..., Bench]) -> None:
    text = f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n        return torch.tanh(x).cumsum(-1) * 2.0\n"
    one = bench(f"{text}\n\ndef get_inputs():\n    return [torch.randn(64, 96)]\n", place=moved)
    new = written(one, Design(STRATEGY, DESIGNS["graph"]))
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        with by_kernels(new):
            close_to((one.model, new), one.inputs[0].to(device))


ODD = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1021, 509))

    def forward(self, x, y):
        return F.linear(x, self.weight), x.t() @ y, y.t() @ x.t().contiguous().t()


def get_inputs():
    return [torch.randn(1287, 509), torch.randn(1287, 1003)]
"""


@pytest.mark.parametrize("name", ["halves", "short halves"])
def test_products_of_odd_sizes_are_taken_in_halves(name: str, bench: Callable[..., Bench]) -> None:
    one = bench(ODD, place=moved)
    new = written(one, Design(STRATEGY, DESIGNS[name]))
    with torch.no_grad(), by_kernels(new):
        found = new(*one.inputs)
    exact = one.model.double()(*(each.double() for each in one.inputs))
    for ours, right in zip(found, exact, strict=True):
        assert ((ours - right).abs().max() / right.abs().max()).item() < 5e-6


SLIM = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3001, 2000)
        self.down = nn.Linear(2000, 1003, bias=False)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


def get_inputs():
    return [torch.randn(17, 3001)]
"""


def lying(rows: int) -> str:
    """Return the same for so many rows, with weights that lie the other way and no bias."""
    weights = SLIM.replace("nn.Linear(3001, 2000)", "nn.Parameter(torch.randn(3001, 2000) / 50)")
    weights = weights.replace("nn.Linear(2000, 1003, bias=False)", "nn.Parameter(torch.randn(2000, 1003) / 50)")
    weights = weights.replace("self.down(F.relu(self.up(x)))", "F.relu(x @ self.up) @ self.down")
    return weights.replace("torch.randn(17,", f"torch.randn({rows},")


@pytest.mark.parametrize("name", ["halves", "short halves"])
@pytest.mark.parametrize("text", [SLIM, lying(17), lying(40), lying(100)], ids=["linear", "17", "40", "100"])
def test_products_with_few_rows_read_weights_once(text: str, name: str, bench: Callable[..., Bench]) -> None:
    one = bench(text, place=moved)
    new = written(one, Design(STRATEGY, DESIGNS[name]))
    (x,) = one.inputs
    x[3, 5], x[4, 7], x[5] = float("inf"), float("nan"), 1e-42
    with torch.no_grad(), by_kernels(new):
        found = new(x)
    plain, exact = one.model(x), one.model.double()(x.double())
    finite = exact.isfinite()
    assert torch.equal(finite, found.isfinite())
    torch.testing.assert_close(found[~finite], plain[~finite], equal_nan=True)
    scale = exact[finite].abs().max()
    ours, cublas = ((one.double()[finite] - exact[finite]).abs().max() / scale for one in (found, plain))
    assert ours.item() < max(2 * cublas.item(), 1e-6)


@pytest.mark.parametrize("name", ["as compiled", "graph", "captured"])
def test_running_statistics_go_on_as_the_modules_do(name: str, bench: Callable[..., Bench]) -> None:
    one = bench(IMAGES, place=moved)
    one.model.train()
    new = written(one, Design(STRATEGY, DESIGNS[name])).train()
    for _ in range(3):
        with torch.no_grad(), by_kernels(new):
            torch.testing.assert_close(new(*one.inputs), one.model(*one.inputs), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(dict(new.state_dict()), dict(one.model.state_dict()))
    slopes = gradients(new, one.inputs), gradients(one.model, one.inputs)
    for found, other in zip(*slopes, strict=True):
        torch.testing.assert_close(found, other, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(dict(new.state_dict()), dict(one.model.state_dict()))


@pytest.mark.parametrize("name", ["as compiled", "graph"])
def test_weights_that_change_or_move_are_seen(name: str, bench: Callable[..., Bench]) -> None:
    one = bench(LAYERS, place=moved)
    new = written(one, Design(STRATEGY, DESIGNS[name]))
    both = (one.model, new)
    x = one.inputs[0]
    first = new(x).detach()
    with torch.no_grad():
        for model in both:
            model.up.weight.mul_(1.5)
    close_to(both, x)
    assert not torch.equal(first, new(x))
    for model in both:
        model.down.weight.data = model.down.weight.data.clone()
    close_to(both, x)
    state = {key: value + 0.1 for key, value in one.model.state_dict().items()}
    for model in both:
        model.load_state_dict(state)
    close_to(both, x)
    for model in both:
        model.double()
    with by_kernels(new, False):
        close_to(both, x.double())


@pytest.mark.parametrize("name", ["as compiled", "graph", "captured"])
def test_a_first_call_in_inference_mode_spoils_no_later_one(name: str, bench: Callable[..., Bench]) -> None:
    one = bench(LAYERS, place=moved)
    new = written(one, Design(STRATEGY, DESIGNS[name]))
    with torch.inference_mode(), by_kernels(new):
        torch.testing.assert_close(new(*one.inputs), one.model(*one.inputs), rtol=1e-4, atol=1e-4)
    close_to((one.model, new), one.inputs[0])
    for found, other in zip(gradients(new, one.inputs), gradients(one.model, one.inputs), strict=True):
        torch.testing.assert_close(found, other, rtol=1e-3, atol=1e-4)
    with torch.inference_mode():
        close_to((one.model, new), one.inputs[0].clone())


def close_to(both: tuple[torch.nn.Module, torch.nn.Module], x: torch.Tensor) -> None:
    torch.testing.assert_close(both[0](x), both[1](x), rtol=1e-4, atol=1e-4)


def test_results_of_a_graph_are_the_callers_own_on_any_stream(bench: Callable[..., Bench]) -> None:
    one = bench(LAYERS, place=moved)
    new = written(one, Design(STRATEGY, DESIGNS["graph"]))
    inputs = [torch.randn_like(one.inputs[0]) for _ in range(8)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found: list[Any] = []
    with torch.no_grad():
        for place, x in enumerate(inputs):
            with torch.cuda.stream(streams[place % 2]):
                found.append(new(x))
        torch.cuda.synchronize()
        close([one.model(x) for x in inputs], found)
        # Within a capture of the caller's own.
        graph = torch.cuda.CUDAGraph()
        static = inputs[0].clone()
        with torch.cuda.graph(graph):
            out = new(static)
        static.copy_(inputs[1])
        graph.replay()
        torch.testing.assert_close(out, one.model(inputs[1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("design", ["as compiled", "graph"])
def test_tensors_made_of_numbers_are_on_the_inputs_device(design: str, bench: Callable[..., Bench]) -> None:
    copied = NUMBERS.replace("device=x.device) for", "dtype=torch.int32).to(x.device, torch.int64) for")
    for one in (bench(NUMBERS, place=moved), bench(copied, place=moved)):
        new = written(one, Design(STRATEGY, DESIGNS[design]))
        for _ in range(3):
            x = torch.randn_like(one.inputs[0])
            with torch.no_grad(), by_kernels(new):
                close(one.model(x), new(x))


@pytest.mark.parametrize(
    ("divisor", "reason"), [("2.0", ""), ("torch.tensor([2.0]).to(x.device)", "waits for the GPU")]
)
def test_what_copies_from_the_cpus_memory_is_no_graph(divisor: str, reason: str, bench: Callable[..., Bench]) -> None:
    one = bench(LAYERS.replace("self.norm(self.up(x))", f"self.norm(self.up(x)) / {divisor}"), place=moved)
    model = modules.used(copy.deepcopy(one.model), "", "", "cuda")
    model(*one.inputs)
    with pytest.raises(NotTraceable, match=reason) if reason else nullcontext():
        assert inductor.program(model, tuple(one.inputs), {}, str(one.path), {"plain": True})["code"] == ""
    assert torch.cuda.get_sync_debug_mode() == 0
