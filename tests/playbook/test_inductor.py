"""What torch.compile writes, as a candidate: its results, its gradients, and where it hands over."""

from __future__ import annotations

import ast
import asyncio
import copy
import functools
import logging
import pickle
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import Mode, VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.evaluation.judge import open_judge
from stark_lsp.integrity import read
from stark_lsp.judge.analysis import NotTraceable, inductor
from stark_lsp.playbook.design import read_design
from stark_lsp.playbook.inductor import emit, reader
from stark_lsp.playbook.inductor.proposal import PLAIN, AsCompiled, Recipes
from stark_lsp.playbook.inductor.reader import CannotEmit
from stark_lsp.playbook.inductor.recipes import STRATEGY, Switches

from .conftest import Bench, close
from .playbook_cases import BY_NAME, HEAD, text_of
from .written import SCALED, STEP, gradients, trained, write

pytestmark = pytest.mark.usefixtures("several_threads")

TRIED = ("transformer_block", "keyword_and_default")
"""Of those that `playbook_cases` has; each kind of step and result once. All of them were tried by hand."""
LONG = "conv_batch_norm"
"""As well, but it takes 20 s."""


def answering(made: dict[str, Any]) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    """Return what stands in for the judge: it gives one program, whatever the recipe."""

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return made

    return ask


@pytest.mark.parametrize(
    "name",
    [
        "dictionary_result",
        *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.ci]) for name in TRIED),
        pytest.param(LONG, marks=pytest.mark.slow),
    ],
)
def test_it_computes_what_the_module_computes(name: str, bench: Callable[..., Bench]) -> None:
    made = write(bench(text_of(BY_NAME[name])))
    with torch.no_grad(), made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    with made.by_kernels():
        found = gradients(made.new, made.one.inputs)
    for expected, other in zip(gradients(made.one.model, made.one.inputs), found, strict=True):
        torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("_said")
def test_it_hands_over_wherever_it_was_not_made_for(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,) = made.one.inputs
    new = made.new
    for other in (x[:7], x.double(), torch.randn(96, 32).t()):
        pair = [copy.deepcopy(model).to(other.dtype) for model in (made.one.model, new)]
        with made.by_kernels(False), torch.no_grad():
            close(pair[0](other), pair[1](other))
    with made.by_kernels(False), torch.autocast("cpu", torch.bfloat16):
        new(x)
    with made.by_kernels(False):
        torch.export.export(new, (x,))
    weights = {"norm.weight": torch.full((96,), 2.0, requires_grad=True)}
    with made.by_kernels(False):
        torch.func.functional_call(new, weights, (x,)).sum().backward()
    assert weights["norm.weight"].grad is not None


@pytest.mark.usefixtures("_said")
def test_whoever_watches_or_traces_sees_the_original(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,), new = made.one.inputs, made.new
    expected = made.one.model(x)
    with made.by_kernels(False):
        close(expected, torch.fx.symbolic_trace(new)(x))
        close(expected, make_fx(new)(x)(x))
        with FakeTensorMode(allow_non_fake_inputs=True):
            new(x)
        with FlopCounterMode(display=False):
            new(x)
        with pytest.raises(TypeError, match="'Parameter' and 'NoneType'"):
            new(None)
    with made.by_kernels(), torch.device("cpu"):
        new(x)


@pytest.mark.usefixtures("_said")
def test_a_module_that_was_changed_after_a_call_is_seen(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,) = made.one.inputs
    new = made.new
    with made.by_kernels():
        new(x)
    new.norm.eps = 0.5
    with made.by_kernels(False):
        changed = new(x)
    made.one.model.norm.eps = 0.5
    close(made.one.model(x), changed)
    new.norm.eps = 1e-3
    with made.by_kernels():
        new(x)
    new.double()
    with made.by_kernels(False):
        new(x.double())
    new.float()
    copied = copy.deepcopy(new)
    seen: list[int] = []
    hook = new.norm.register_forward_hook(lambda *given: seen.append(1))
    with made.by_kernels(False):
        new(x)
    assert seen
    hook.remove()
    with made.by_kernels():
        new(x)
        copied(x)
    copied.norm.eps = 0.5
    with made.by_kernels(False):
        close(made.one.model(x), copied(x))
    with made.by_kernels():
        pickle.loads(pickle.dumps(new))(x)
    inner = new.norm
    new.norm = torch.nn.Identity()
    new.norm.weight = inner.weight
    with made.by_kernels(False):
        close(torch.tanh(x).cumsum(0), new(x))
    # As an adapter is called after what it holds.
    new.norm = type("Scaled", (torch.nn.Identity,), {"eps": 1e-3, "weight": property(lambda self: inner.weight)})()
    with made.by_kernels(False):
        close(torch.tanh(x).cumsum(0), new(x))


@pytest.mark.usefixtures("_said")
def test_gradients_are_as_before_under_checkpoints_and_hooks(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,), models = made.one.inputs, (made.one.model, made.new)

    def gradients(run: Callable[[torch.nn.Module], torch.Tensor]) -> None:
        for model in models:
            model.zero_grad()
            run(model).square().sum().backward()
        for old, new in zip(*(model.parameters() for model in models), strict=True):
            assert new.grad is not None
            torch.testing.assert_close(old.grad, new.grad, rtol=1e-4, atol=1e-4)

    with made.by_kernels():
        gradients(lambda model: checkpoint(model, x, use_reentrant=False))
    with torch.autograd.graph.save_on_cpu(), made.by_kernels():
        gradients(lambda model: model(x))
    for model in models:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: 2.0 * gradient)
    gradients(lambda model: model(x))
    with made.by_kernels(False):
        traced = torch.jit.trace(made.new, (x,), check_trace=False)
    close(made.one.model(2.0 * x), traced(2.0 * x))


@pytest.mark.usefixtures("_said")
def test_where_the_mode_matters_it_runs_in_eval_mode_only(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("torch.tanh(self.norm(x))", "F.dropout(torch.tanh(self.norm(x)), 0.5, self.training)")
    made = write(bench(text))
    with made.by_kernels():
        made.new(*made.one.inputs)
    made.new.train()
    with made.by_kernels(False):
        assert (made.new(*made.one.inputs).diff(dim=0) == 0).any()


@pytest.mark.slow
@pytest.mark.ci
def test_batch_norm_learns_in_training_as_it_does_in_pytorch(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("self.norm = Scaled(eps)", "self.norm = nn.BatchNorm1d(96)")
    one = bench(text)
    one.model.train()
    made = write(one)
    (x,) = one.inputs
    with made.by_kernels():
        for _ in range(2):
            found = gradients(made.new, [x])
            expected = gradients(one.model, [x])
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert int(made.new.norm.num_batches_tracked) == 2
    close(dict(one.model.state_dict()), dict(made.new.state_dict()))
    made.new.eval()
    with made.by_kernels(False):
        made.new(x)


def test_weights_that_change_are_read_anew(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,) = made.one.inputs
    made.new(x)
    with torch.no_grad():
        for model in (made.one.model, made.new):
            model.norm.weight.mul_(3)
        with made.by_kernels():
            close(made.one.model(x), made.new(x))


def test_its_plan_names_the_functions_and_the_users_lines(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    texts = [anchor.text for anchor in made.proposal.anchors()]
    assert len(texts) == 2
    assert "rsqrt" in texts[0]
    assert "cumsum" in texts[1]
    advice = made.proposal.advice(PromptLibrary())
    assert "`fused_" in advice
    assert "cumsum" in advice
    assert read_design(made.proposal.candidate.source).strategy == STRATEGY  # type: ignore[union-attr]
    assert "_inductor" not in made.proposal.candidate.source


def test_it_is_the_first_proposal_on_the_class_and_made_once(bench: Callable[..., Bench]) -> None:
    from stark_lsp.playbook.agents import PlaybookAgents

    from .conftest import REFERENCE

    one = bench(text_of(BY_NAME["silu_gate"]))
    made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=answering(made))
    first = one.attempt()
    assert first.plan is not None
    assert first.plan.strategy == STRATEGY
    second = one.attempt()
    assert second.plan is not None
    assert second.plan.strategy != STRATEGY
    nothing = {"untraceable": {"message": "It is random"}}
    assert asyncio.run(PlaybookAgents(nothing, one.problem, REFERENCE, ask=answering(made)).reason()) == ""
    refused = PlaybookAgents(nothing, one.problem, REFERENCE, ask=answering({"none": "it calls numpy"}))
    assert "it calls numpy" in asyncio.run(refused.reason())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("x += 1\n        return torch.tanh(x)", "in place"),
        ("self.calls += 1\n        return torch.tanh(x)", r"its settings \(self\.calls\)"),
        ("return torch.tanh(x) * torch.rand_like(x)", "random"),
        ("print(x.sum().item())\n        return torch.tanh(x)", "as a whole"),
        ("return x", "programs"),
    ],
)
def test_what_it_cannot_take_over_is_told(body: str, why: str, bench: Callable[..., Bench]) -> None:
    text = (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.calls = 0\n"
        f'        self.register_buffer("seen", torch.zeros(1))\n\n    def forward(self, x):\n        {body}\n\n\n'
        "def get_inputs():\n    return [torch.randn(8, 8)]\n"
    )
    with pytest.raises(NotTraceable, match=why):
        inductor.program(*((one := bench(text)).model, tuple(one.inputs), {}))


def test_a_class_that_logs_is_taken_as_a_whole(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    # As transformers has it.
    once = functools.cache(lambda self, *said: self.warning(*said))
    monkeypatch.setattr(logging.Logger, "warning_once", once, raising=False)
    text = SCALED.replace(
        "return torch.tanh(", "logger.warning_once('old'); warnings.warn('old')\n        return torch.tanh("
    )
    made = write(bench(f"import logging\nimport warnings\n\nlogger = logging.getLogger('model')\n{text}"))
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


def test_an_infinite_argument_is_no_constant(bench: Callable[..., Bench]) -> None:
    old, new = (
        "x):\n        return torch.tanh(self.norm(x))",
        "x, most=math.inf):\n        return self.norm(x).clamp(max=most)",
    )
    one = bench(SCALED.replace(old, new))
    with pytest.raises(NotTraceable, match="most is inf"):
        inductor.program(one.model, tuple(one.inputs), {})


def test_vectors_that_pytorch_does_not_use_itself_are_not_written(bench: Callable[..., Bench]) -> None:
    one = bench(SCALED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "NO VEC")
        with pytest.raises(NotTraceable, match="where PyTorch's own kernels are for NO VEC"):
            inductor.program(one.model, tuple(one.inputs), {})


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["rfft(x)", "fft2(x)[..., :17]"])  # a copy in complex numbers comes before fft2
def test_what_is_made_on_a_device_is_made_where_the_inputs_are(transform: str, bench: Callable[..., Bench]) -> None:
    lines = (
        "class Model(nn.Module):\n    def forward(self, x):",
        f"f = torch.fft.{transform}",
        "out = torch.zeros_like(f)",
        "out[:, :4] = f[:, :4] * 2",
        "return torch.tanh(torch.fft.irfft(out)) + x",
    )
    made = write(bench(HEAD + "\n        ".join(lines) + "\n\n\ndef get_inputs():\n    return [torch.randn(8, 32)]\n"))
    with torch.no_grad(), made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


def test_a_device_is_read_as_it_is_printed() -> None:
    statement = ast.parse("buf0 = f(2, device=device(type='cuda', index=0), other=device(type='cpu'))").body[0]
    assert "device=device, other=torch.device('cpu')" in ast.unparse(reader._Renamed({}).visit(statement))


def test_a_program_that_nobody_would_keep_is_refused(bench: Callable[..., Bench]) -> None:
    one = bench(SCALED)
    made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    made["code"] += "\n" * emit.MOST
    with pytest.raises(CannotEmit, match=r"has 1\.0 million characters"):
        AsCompiled(one.problem, made)


def test_a_kernel_in_another_language_is_refused_by_name() -> None:
    with pytest.raises(reader.CannotEmit, match="kernel_0 is written in metal"):
        reader.read("kernel_0 = async_compile.metal('k', '')\ndef call(self, args):\n    return (args,)\n")


def test_it_gives_what_a_training_script_may_ask_for(bench: Callable[..., Bench]) -> None:
    made = trained(bench(SCALED))
    (x,), new, old = made.one.inputs, made.new, made.one.model
    (parameter,), (other,) = new.parameters(), old.parameters()
    with made.by_kernels(method="_backward"):
        # A gradient with other strides, and the same graph twice.
        total = new(x).sum()
        total.backward(retain_graph=True)
        total.backward()
        (2 * old(x).sum()).backward()
        torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)
    with torch.no_grad(), made.by_kernels():
        close(old(x), new(x))
    with made.by_kernels(False, "_backward"), FlopCounterMode(display=False):
        new(x).sum().backward()
    watched = new(x).sum()
    with made.by_kernels(False, "_backward"), FlopCounterMode(display=False):
        watched.backward()
    (2 * old(x).sum()).backward()
    torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)
    with made.by_kernels(False, "_backward"):
        # A gradient of a gradient.
        (first,) = torch.autograd.grad(new(x).square().sum(), parameter, create_graph=True)
    (second,) = torch.autograd.grad(old(x).square().sum(), other, create_graph=True)
    first.sum().backward()
    second.sum().backward()
    torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)
    for model in (old, new):
        model.zero_grad()
        checkpoint(model, x, use_reentrant=False).square().sum().backward()
    torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_it_is_asked_for_in_training_mode_and_where_it_fails_forward_alone(bench: Callable[..., Bench]) -> None:
    one = bench(SCALED)
    plain = inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    step = inductor.program(one.model, tuple(one.inputs), {}, str(one.path), STEP)
    asked: list[bool] = []

    def source(mode: Mode, given: dict[str, Any], told: str = "") -> str:
        async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
            asked.append("backward" in recipe)
            return await answering(given if asked[-1] else plain)(recipe)

        recipes = Recipes(replace(one.problem, mode=mode), ask, "cpu", 0, Switches())
        made = asyncio.run(recipes.get(PLAIN)).candidate.source
        assert recipes.reason.strip() == told
        return made

    why = "What torch.compile writes for backward cannot be taken over: it is random."
    assert "_StarkTrained" in source(Mode.TRAINING, step)
    assert "_StarkTrained" not in source(Mode.TRAINING, {"none": "it is random"}, why)
    assert "_StarkTrained" not in source(Mode.EVAL, step)
    assert asked == [True, True, False, False]


async def judged(one: Bench, cache: Path) -> Verdict:
    """Write the candidate from what a judge gives, and have it judged."""
    settings = EvaluationSettings(seeds=2, warmup=1, rounds=4, round_ms=2.0, profile=False)
    judge = await open_judge(
        one.problem, interpreter=sys.executable, settings=settings, cache_dir=cache, log=lambda line: None
    )
    try:
        await judge.prepare(lambda text: None)
        made = await judge.written({})
        candidate = AsCompiled(one.problem, made).candidate
        # Nothing in it minds the mode, so that it is fast in a module that nobody put into eval mode as well.
        assert made["mode_matters"] is False
        assert read(candidate.source, candidate.class_name, one.problem.text, one.problem.qualname).refusals == ()
        return await judge.evaluate(candidate)
    finally:
        await judge.close()


# What its headers need is compiled ahead, which takes a quarter of a minute.
@pytest.mark.slow
def test_the_judge_gives_the_program_and_takes_the_candidate(bench: Callable[..., Bench], judge_cache: Path) -> None:
    verdict = asyncio.run(judged(bench(SCALED), judge_cache))
    assert verdict.status is VerdictStatus.OK, f"{verdict.message}\n{verdict.log}"
