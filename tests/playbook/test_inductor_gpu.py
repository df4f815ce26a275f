"""What Inductor writes for a GPU, as a candidate: programs recorded on an H100, run by Triton's interpreter.

`tests/data/inductor` holds them as `judge/analysis/inductor.program` returned them (torch 2.11, Triton 3.6), each with
its module; `benchmarks/record_programs.py` records them anew. `mixed_orders` was written by Inductor of torch 2.13,
told of an H100 where none is: sums of rows and of columns in one kernel, as backward of a norm has them. So was
`depthwise`, which has none but a kernel written by hand, and by torch 2.14 `relu_norm`, which looks at several inputs
at once and copies one that is not aligned.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import enum
import functools
import hashlib
import json
import operator
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from stark_lsp.agents.dialects import detect
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.core.roles import NothingToPropose
from stark_lsp.core.status import Dialect, VerdictStatus, WriteMode
from stark_lsp.core.verdict import Baselines, Interval, Launch, Profile, Timing
from stark_lsp.integrity import read as check
from stark_lsp.judge.analysis import NotTraceable, inductor, inductor_gpu, parts
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.design import Design, read_design
from stark_lsp.playbook.inductor import guards, recipes, triton
from stark_lsp.playbook.inductor.proposal import PLAIN, AsCompiled, facts
from stark_lsp.playbook.inductor.reader import CannotEmit, Kernel
from stark_lsp.playbook.inductor.recipes import STRATEGY
from stark_lsp.proposals.edit import build_edit

from .conftest import REFERENCE, Bench, close, formatted

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "tests" / "data" / "inductor"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "matmul_only")
LONG = ("argmax", "softmax_long")
"""The interpreter reduces by functions of one's own element by element."""
SHORT = ("cumsum", "gelu", "linear", "max_pool")
"""Single operators, some with an epilogue, whose kernel is no longer than a person's would be; of the others the kernel
alone has 50 to 100 lines."""
GRAPH = Design(STRATEGY, ((recipes.LAUNCH, "replayed"),))


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded program with its module's text."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


def proposal(name: str, bench: Callable[..., Bench], design: Design | None = None) -> tuple[Bench, AsCompiled]:
    """Return a module with what Inductor wrote for it."""
    kept = recorded(name)
    one = bench(kept["text"])
    return one, AsCompiled(one.problem, kept["made"], *([design] if design else []))


def interpreted(*names: str) -> dict[str, str]:
    """Return for each program how its candidate differs from its module, see `interpreted.py`."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "tests.playbook.interpreted", *names]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.ci
def test_its_kernels_compute_what_the_module_computes() -> None:
    found = interpreted(*(name for name in NAMES if name not in LONG))
    assert set(found.values()) == {""}, "\n".join(found.values())


@pytest.mark.slow
def test_long_kernels_compute_what_the_module_computes() -> None:
    assert set(interpreted(*LONG).values()) == {""}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("design", [None, GRAPH], ids=["launched", "replayed"])
def test_it_reads_as_a_file_of_ones_own_and_is_refused_nowhere(
    name: str, design: Design | None, bench: Callable[..., Bench]
) -> None:
    one, made = proposal(name, bench, design)
    source = made.candidate.source
    assert "_inductor" not in source.replace("torch/_inductor/runtime/triton_helpers.py", "")
    assert formatted(source) == ""
    # Gradients of weights take 17 more.
    assert design or name not in SHORT or len(source.splitlines()) <= 120 + 18 * ("_stark_again(" in source)
    # Where launches add up, Triton does not look at each again.
    kernels = {one for one in re.findall(r"@triton\.jit\n\s+def (\w+)\(", source) if f" {one}[(" in source}
    several = len(kernels) > 1 or name in ("attention", "depthwise")
    assert source.count("@_StarkLaunched\n") == (len(kernels) if several else 0)
    assert detect(source) is Dialect.TRITON
    assert read_design(source) == (design or Design(STRATEGY, ()))
    reading = check(source, "ModelNew", one.problem.text, one.problem.qualname)
    assert reading.refusal is None
    assert len(reading.told.kernels) >= len(made.program.kernels)
    edit = build_edit(one.problem, one.problem.text, made.candidate, "# by hand", WriteMode.BESIDE)
    ast.parse(edit.preview)
    # Where there is no Triton, as on a laptop, the file is imported all the same, and PyTorch runs.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "triton", None)
        new = one.build(made.candidate)
        close(one.model(*one.inputs), new(*one.inputs))


@pytest.mark.parametrize(
    "line",
    [
        f"x = tl.load(p + (r + 2048 * x{'0' * 70}), m, eviction_policy='evict_first', other=0.0).to(tl.int1)",
        f"tl.store(p + (r + 2048 * x{'0' * 90}), y.to(tl.float32), m & n)",
        f"return f(a)(b{'0' * 120})",
    ],
)
def test_a_long_line_says_the_same_on_several(line: str) -> None:
    text = "\n".join(triton.wrapped(line))
    assert ast.unparse(ast.parse(text)) == ast.unparse(ast.parse(line))


def test_a_function_that_triton_runs_while_it_compiles_keeps_its_decorator() -> None:
    kernel = Kernel("k", (), "def k(n):\n    triton_helpers.log(n)")
    rows = triton.rows({"k": kernel}, {"log": "@constexpr_function\ndef log(n):\n    return n"})
    assert "    @triton.constexpr_function" in rows


def test_what_a_column_has_one_of_is_read_once(bench: Callable[..., Bench]) -> None:
    _, made = proposal("product", bench)
    source = made.candidate.source
    assert "_ptr + idx_n, idx_n < N," in source
    assert "idx_n, [BLOCK_M, BLOCK_N]), mask" not in source


def test_a_product_alone_begins_with_tensor_cores(bench: Callable[..., Bench]) -> None:
    plain, product = recorded("matmul_only"), recorded("product_six")
    with pytest.raises(CannotEmit, match="no kernel of its own"):
        proposal("matmul_only", bench)
    assert facts(plain["made"]) == recipes.Facts("cuda", True, False, 0, 1, copied=4 * (64 * 48 + 40 * 64 + 40 * 48))
    one = bench(plain["text"])
    asked: list[dict[str, Any]] = []

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        asked.append(recipe)
        return dict(product["made"] if recipe["products"] else plain["made"], arguments=plain["made"]["arguments"])

    one.agents = PlaybookAgents({"untraceable": {"message": "It cannot"}}, one.problem, REFERENCE, ask=ask)
    assert asyncio.run(one.agents.reason()) == ""
    first = one.attempt()
    assert read_design(first.candidate.source) == Design(STRATEGY, ((recipes.PRODUCTS, "bf16x3"),))
    assert [recipe["products"] for recipe in asked] == ["", "bf16x3"]
    assert first.plan is not None
    assert "three" in first.plan.advice
    with pytest.raises(NothingToPropose):
        # What the judge gave for six parts is the same text.
        one.attempt()


def test_wrong_products_are_repaired_by_more_parts(bench: Callable[..., Bench]) -> None:
    kept = recorded("product")
    one = bench(kept["text"])

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return dict(kept["made"])

    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=ask)
    design = Design(STRATEGY, ((recipes.PRODUCTS, "bf16x3"),))
    candidate = AsCompiled(one.problem, kept["made"], design).candidate
    failed = one.add(one.nodes[0], candidate, one.nodes[0].role, None, VerdictStatus.WRONG_RESULT)
    assert read_design(one.repair(failed).candidate.source) == design.with_label(recipes.PRODUCTS, "bf16x6")


def test_switches_are_turned_on_in_one_order_and_where_they_serve() -> None:
    of_images = recipes.Facts("cuda", False, True, kernels=3, steps=5)
    plain = Design(STRATEGY, ())

    def names(design: Design, one: recipes.Facts, call_ms: float) -> list[list[str]]:
        return [[name for name, _ in found.kernels] for found in recipes.Switches().following(design, one, call_ms)]

    assert names(plain, of_images, 0.2) == [["tuning"], ["layout"], ["launch"]]
    assert names(plain, of_images, 20.0) == [["tuning"], ["layout"]]
    idle = recipes.Switches().following(plain, of_images, 0.2, waiting=0.2)
    assert [[name for name, _ in found.kernels] for found in idle] == [["launch"], ["tuning"], ["layout"]]
    shifted = replace(of_images, rewrites=frozenset({"windows", "sums"}))
    assert names(plain, shifted, 20.0)[:2] == [["algebra"], ["windows"]]
    assert names(plain, replace(shifted, device="cpu"), 20.0) == [["algebra"]]
    rounded = replace(of_images, rewrites=frozenset({"convolutions"}))
    assert names(plain, rounded, 20.0)[0] == ["convolutions"]
    # In a model that waits for launches a graph comes first: it is written much sooner.
    waits = [one.kernels for one in recipes.Switches().following(plain, rounded, 0.2, waiting=0.4)]
    assert [[name for name, _ in one] for one in waits] == [
        ["launch"], ["convolutions", "launch"], ["convolutions"], ["tuning"], ["layout"]
    ]  # fmt: skip
    turned = replace(of_images, rewrites=frozenset({"transposed", "convolutions"}))
    assert names(plain, turned, 20.0)[:2] == [["convolutions"], ["transposed"]]
    # Convolutions are replaced in what is written for backward as well, other rewrites are for forward alone.
    assert names(plain, replace(turned, training=True), 20.0) == [["convolutions"], ["tuning"], ["layout"]]
    of_attention = replace(of_images, products=True, rewrites=frozenset({recipes.ATTENTION, recipes.HALVES}))
    both, attention, products = names(plain, of_attention, 20.0)[:3]
    assert (both, attention, products) == (["attention", "products"], ["attention"], ["products"])
    # In training a step has a backward of its own, which rewrites have not.
    assert names(plain, replace(of_attention, training=True), 20.0) == [["tuning"], ["layout"]]
    less = replace(of_attention, rewrites=of_attention.rewrites | {"sums"})
    assert names(plain, less, 20.0)[:2] == [["algebra"], ["attention", "products"]]
    # What is left of less work are launches.
    one_graph = recipes.Switches().following(plain, shifted, 0.2, waiting=0.2)
    assert [name for name, _ in next(one_graph).kernels] == ["algebra", "launch"]
    joined = next(recipes.Switches().following(plain, of_attention, 0.2))
    assert [name for name, _ in joined.kernels] == ["attention", "products", "launch"]
    # Sums may take several times as long in blocks that do not suit them, so that goes before other sizes.
    alone = replace(of_images, convolutions=False, steps=3, lengths=True, rows=True)
    assert names(plain, alone, 20.0) == [["tuning"], ["lengths"], ["batch"]]
    assert names(plain, replace(alone, steps=5), 20.0) == [["lengths"], ["tuning"], ["batch"]]
    assert names(Design(STRATEGY, (("lengths", "any"),)), alone, 20.0) == []
    fixed = Design(STRATEGY, (("batch", "fixed"),))
    for any_length in (True, False):
        switches = recipes.Switches(any_length=any_length)
        assert (fixed in switches.following(plain, alone, 20.0)) is switches.fit(fixed, alone, 20.0) is not any_length
    # A GPU that was seen to wait for a third of a long call would not by the usual time of a launch.
    waits_long = recipes.Switches().following(plain, replace(of_images, copied=40 << 20), 1.0, waiting=0.3)
    assert [name for name, _ in next(waits_long).kernels] == ["launch"]
    # Copying 100 MiB takes longer than launching five kernels.
    assert names(plain, replace(of_images, copied=100 << 20), 0.2) == [["tuning"], ["layout"]]
    layout = next(one for one in recipes.Switches().following(plain, of_images, 0.2) if one.label("layout"))
    assert names(layout, of_images, 0.2) == [["layout", "tuning"], ["layout", "launch"]]
    # Where what torch.compile writes is wrong, it is repaired by the layout, and has as much to gain as before.
    repaired = recipes.safer(plain)
    assert repaired is not None
    assert names(repaired, rounded, 20.0)[0] == ["layout", "convolutions"]
    six = Design(STRATEGY, ((recipes.PRODUCTS, "bf16x6"),))
    assert names(six, replace(of_images, products=True), 0.2)[-1] == ["products", "launch"]
    assert names(plain, recipes.Facts("cpu", True, True, 3, 5), 0.2) == []
    reached: list[Design] = []

    def walk(design: Design) -> None:
        for one in recipes.Switches().following(design, recipes.Facts("cuda", True, False, 3, 5), 0.1):
            reached.append(one)
            walk(one)

    walk(plain)
    assert len(reached) == len({tuple(sorted(one.kernels)) for one in reached})


LSTM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def get_inputs():
    return [torch.randn(3, 7, 12)]
"""


def test_what_torch_compile_does_not_take_is_captured_as_it_is(bench: Callable[..., Bench]) -> None:
    one = bench(LSTM)
    with pytest.raises(NotTraceable):
        inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    made = dict(inductor.program(one.model, tuple(one.inputs), {}, str(one.path), {"plain": True}), device="cuda")
    asked: list[dict[str, Any]] = []

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        asked.append(recipe)
        return made if recipe.get("plain") else {"none": "it has an LSTM"}

    profile = Profile(tuple(Launch(f"kernel{number}", 40) for number in range(3)))
    short = Baselines(Timing(2.0, 1.9, 2.1, 5))
    on_gpu = replace(
        REFERENCE, profile=profile, baselines=short, environment=replace(REFERENCE.environment, device_type="cuda")
    )
    told: list[str] = []
    one.agents = PlaybookAgents(
        {"untraceable": {"message": "It cannot"}}, one.problem, on_gpu, ask=ask, tell=told.append
    )
    first = one.attempt()
    assert told == ["What torch.compile writes cannot be taken over: it has an LSTM."]
    assert read_design(first.candidate.source) == Design(STRATEGY, ((recipes.LAUNCH, "captured"),))
    assert check(first.candidate.source, "ModelNew", one.problem.text, one.problem.qualname).refusal is None
    new = one.build(first.candidate)
    with torch.no_grad():
        (out,) = new._compiled(*one.inputs, *new.parameters())
        close(one.model(*one.inputs), out)
    with pytest.raises(NothingToPropose):
        one.attempt()


def test_a_mistake_of_ours_in_one_recipe_leaves_the_others(bench: Callable[..., Bench]) -> None:
    one = bench(LSTM)
    plain = dict(inductor.program(one.model, tuple(one.inputs), {}, str(one.path), {"plain": True}), device="cuda")

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return plain if recipe.get("plain") else dict(plain, code="def call(self, 3d):")

    profile = Profile(tuple(Launch(f"kernel{number}", 40) for number in range(3)))
    on_gpu = replace(
        REFERENCE,
        profile=profile,
        baselines=Baselines(Timing(2.0, 1.9, 2.1, 5)),
        environment=replace(REFERENCE.environment, device_type="cuda"),
    )
    told: list[str] = []
    one.agents = PlaybookAgents(
        {"untraceable": {"message": "It cannot"}}, one.problem, on_gpu, ask=ask, tell=told.append
    )
    assert read_design(one.attempt().candidate.source) == Design(STRATEGY, ((recipes.LAUNCH, "captured"),))
    assert "a mistake of ours (SyntaxError: invalid decimal literal" in told[0]
    assert told[0].endswith("please report it.")


def test_a_class_of_many_short_launches_is_captured_before_inductor_is_asked(bench: Callable[..., Bench]) -> None:
    kept = recorded("linear")
    one = bench(kept["text"])
    plain = dict(inductor.program(one.model, tuple(one.inputs), {}, str(one.path), {"plain": True}), device="cuda")
    asked: list[bool] = []

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        asked.append(bool(recipe.get("plain")))
        return plain if recipe.get("plain") else dict(kept["made"])

    environment = replace(REFERENCE.environment, device_type="cuda")
    profile = Profile(tuple(Launch(f"kernel{number}", 100) for number in range(2)), device_us=400.0)
    waits = replace(REFERENCE, profile=profile, baselines=Baselines(Timing(2.0, 1.9, 2.1, 5)), environment=environment)
    captured = Design(STRATEGY, ((recipes.LAUNCH, "captured"),))
    one.agents = PlaybookAgents(one.analysis, one.problem, waits, ask=ask)
    assert read_design(one.attempt().candidate.source) == captured
    assert asked == [True]
    assert read_design(one.attempt().candidate.source) == PLAIN
    assert asked == [True, False]
    # Where the GPU is busy, and where little is launched, there is nothing to hurry for.
    for other in (replace(profile, device_us=1900.0), replace(profile, launched=profile.launched[:1])):
        one = bench(kept["text"])
        one.agents = PlaybookAgents(one.analysis, one.problem, replace(waits, profile=other), ask=ask)
        assert read_design(one.attempt().candidate.source) == PLAIN
    # As a graph they would save what the GPU waits for them, if anything.
    busy = replace(waits, profile=replace(profile, device_us=1900.0))
    one = bench(kept["text"])
    one.agents = PlaybookAgents(one.analysis, one.problem, busy, ask=ask)
    designs: list[Design | None] = []
    with contextlib.suppress(NothingToPropose):
        while len(designs) < 5:
            designs.append(read_design(one.attempt().candidate.source))
    assert PLAIN in designs
    assert captured not in designs


COUNTING = LSTM.replace("self.head = nn", 'self.register_buffer("seen", torch.zeros(1))\n        self.head = nn')


def test_a_buffer_that_a_call_changes_is_put_back_after_the_first_run(bench: Callable[..., Bench]) -> None:
    one = bench(COUNTING.replace("        return self", "        self.seen += 1\n        return self"))
    made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path), {"plain": True})
    assert made["changes"] == ["self.seen"]
    design = Design(STRATEGY, ((recipes.LAUNCH, "captured"),))
    candidate = AsCompiled(one.problem, {**made, "device": "cuda"}, design).candidate
    assert "graph, changes=True)" in candidate.source
    new = one.build(candidate)
    before = float(new.seen)
    (out,) = new._compiled(*one.inputs, *new.parameters())
    close(one.model(*one.inputs), out)
    assert float(new.seen) == before + 1, "what is captured counts"
    new._form([], *one.inputs)
    assert float(new.seen) == before + 1, "what is differentiated does not"


def test_statistics_that_batch_norm_changes_are_seen(bench: Callable[..., Bench]) -> None:
    one = bench(LSTM.replace("nn.Linear(16, 5)", "nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 5))"))
    one.model.train()
    made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path), {"plain": True})
    assert made["changes"] == [
        f"self.head[0].{name}" for name in ("num_batches_tracked", "running_mean", "running_var")
    ]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("self.seen = self.seen + 1", "a call changes"),
        ("x = x + torch.rand_like(x)", "it is random"),
        ("x.add_(1)", "changes its inputs"),
    ],
)
def test_what_cannot_be_replayed_is_not_captured(step: str, reason: str, bench: Callable[..., Bench]) -> None:
    one = bench(COUNTING.replace("        return self", f"        {step}\n        return self"))
    with pytest.raises(NotTraceable, match=reason):
        inductor.program(one.model, tuple(one.inputs), {}, str(one.path), {"plain": True})


def test_where_launches_take_long_they_become_one_graph_first(bench: Callable[..., Bench]) -> None:
    kept = recorded("argmax")
    one = bench(kept["text"])

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return {"none": "not asked for here"} if recipe.get("options") or recipe.get("plain") else dict(kept["made"])

    short = replace(REFERENCE, baselines=Baselines(Timing(0.2, 0.19, 0.21, 5)))
    one.agents = PlaybookAgents({"untraceable": {"message": "It cannot"}}, one.problem, short, ask=ask)
    first = one.attempt()
    assert read_design(first.candidate.source) == Design(STRATEGY, ())
    assert first.verdict is not None
    slow = replace(
        first.verdict,
        runtime=Timing(0.3, 0.29, 0.31, 5),
        speedup_vs_eager=Interval(0.7, 0.6, 0.8),
        profile=Profile(device_us=100.0),
    )
    one.nodes[1] = replace(first, verdict=slow)
    assert read_design(one.attempt(one.nodes[0]).candidate.source) == GRAPH, "on the reference, which is faster"
    one.agents = PlaybookAgents({"untraceable": {"message": "It cannot"}}, one.problem, short, ask=ask)
    assert read_design(one.attempt(one.nodes[1]).candidate.source) == GRAPH, "and on what waits"


def test_where_no_graph_can_be_captured_kernels_are_launched_and_so_is_backward() -> None:
    space: dict[str, Any] = {"torch": torch, "types": SimpleNamespace, "functools": functools}
    passed = ["backward", "captured", "plain"]
    text = guards.text("cuda", parts=False, trained="_StarkTrained = Trained", passed=passed, weights=False)
    given: list[Any] = []
    space["Trained"] = SimpleNamespace(apply=lambda launched, backward, *others: given.extend((launched(), backward)))
    exec(text.replace('device.type != "cuda"', "False"), space)
    space["_stark_capability"] = lambda device: (9, 0)
    x = torch.zeros(2, requires_grad=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "current_device", lambda: None)
        made_for = {"x": (x.shape, x.stride(), x.dtype)}
        space["_stark_run"](None, "back", lambda tensors: None, lambda x: (x + 1,), None, (x,), (), made_for, (9, 0))
    (out, graph, turn), backward = given
    assert (out[0].tolist(), graph, turn, backward) == ([1.0, 1.0], None, 0, "back")


def test_a_module_in_another_mode_is_looked_at_once() -> None:
    counted: list[bytes] = []

    def sha256(text: bytes) -> Any:
        counted.append(text)
        return hashlib.sha256(text)

    space: dict[str, Any] = {"torch": torch, "operator": operator, "functools": functools, "enum": enum}
    space["hashlib"] = SimpleNamespace(sha256=sha256)
    exec(guards.text("cpu", parts=None), space)
    model = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)) for _ in range(4))
    )
    made = {f"self.{name}": (x.shape, x.stride(), x.dtype) for name, x in model.named_parameters()}
    digest, x = parts.digest(model, True), torch.zeros(1)

    def fits() -> bool:
        return space["_stark_weights"](model, x, made, digest, True) is not None

    assert fits()
    model.eval()
    assert [fits() for _ in range(3)] == [False] * 3
    assert len(counted) == 2
    model.train()
    assert fits()
    model[1].append(torch.nn.ReLU())
    assert not fits()
    del model[1][2]
    assert fits()


def test_few_of_inductors_blocks_are_tried_for_products() -> None:
    from torch._inductor.kernel import bmm, mm  # noqa: F401
    from torch._inductor.select_algorithm import TritonTemplate
    from torch._inductor.template_heuristics.registry import get_template_heuristic

    template = TritonTemplate.all_templates["mm"]
    before, text = get_template_heuristic(template.uid, "cuda", "mm").mm_configs, template.template
    with inductor_gpu.by({"products": "bf16x3"}):
        few = get_template_heuristic(template.uid, "cuda", "mm").mm_configs
        assert 3 < len(few) < len(before)
        assert template.template is not text
    assert get_template_heuristic(template.uid, "cuda", "mm").mm_configs is before
    assert template.template is text
    with pytest.raises(NotTraceable, match="has no such_option"), inductor_gpu.by({"options": {"such_option": 1}}):
        pass


def test_the_advice_of_each_switch_says_what_it_does(bench: Callable[..., Bench]) -> None:
    _, made = proposal("conv", bench)
    for one in recipes.SWITCHES:
        text = made.advice(PromptLibrary(), one)
        assert "What to expect" in text
