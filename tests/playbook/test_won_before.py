"""What won in earlier runs on similar classes is tried first, behind what torch.compile writes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from stark_lsp.core.device import Device
from stark_lsp.core.roles import NothingToPropose
from stark_lsp.core.run import Note, Rejection
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Interval, Reference
from stark_lsp.judge.analysis import inductor
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.design import Design, read_design
from stark_lsp.playbook.inductor import recipes
from stark_lsp.playbook.inductor.proposal import PLAIN, Recipes
from stark_lsp.playbook.inductor.recipes import STRATEGY

from .conftest import REFERENCE, Bench
from .playbook_cases import HEAD
from .test_inductor_gpu import recorded
from .test_playbook_agents import TWO_GROUPS


def won(strategy: str, *kernels: tuple[str, str], gain: float = 2.0) -> Note:
    """What an earlier run left of a design."""
    gained = Interval(gain, gain - 0.1, gain + 0.1)
    design = (("strategy", strategy), *kernels)
    return Note("r1", 1, "Model", ("tanh",), "", "", "", "A title", VerdictStatus.OK, gained, design=design)


def order(
    one: Bench, count: int, notes: Sequence[Note], ask: Any = None, reference: Reference = REFERENCE
) -> list[Design | None]:
    """Return the designs of the first candidates for the reference, as a search with a model begins with."""
    agents = PlaybookAgents(one.analysis, one.problem, reference, ask=ask, notes=notes)
    return [read_design(seed.candidate.source) for seed in asyncio.run(agents.seeds(count))]


def test_a_strategy_that_won_goes_first_and_the_rest_keeps_its_order(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    usual = order(one, 9, ())
    assert [design.strategy for design in usual if design is not None][:2] == ["fuse-all", "fuse-best"]
    notes = [won("fuse-best")]
    found = order(one, 9, notes)
    assert found == [usual[1], usual[0], *usual[2:]]
    assert order(one, 9, notes) == found
    lost = [won("fuse-best", gain=0.9), won("no-such-strategy"), won("no-such-strategy", *usual[1].kernels)]  # type: ignore[union-attr]
    assert order(one, 9, lost) == usual


def test_a_design_that_won_on_the_same_class_is_taken_with_its_variants(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    first = one.attempt()
    tuned = one.plan(first)
    assert tuned.strategy == "tune"
    *kernels, (name, label) = tuned.parameters[1:]
    best = Design("fuse-all", (*kernels, (name, label)))
    note = won("fuse-all", *best.kernels)
    assert order(one, 1, [note]) == [best]
    # A variant that there is not is the strategy's own.
    assert order(one, 1, [won("fuse-all", *kernels, (name, "no such label"))]) == order(one, 1, ())
    agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, notes=[note])
    plan = asyncio.run(agents.plan(one.context(one.nodes[0]), random.Random(0)))
    assert plan.anchors
    assert plan.advice


def test_a_strategy_that_was_turned_down_is_not_pulled_forward(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, notes=[won("fuse-best")])
    assert one.plan().strategy == "fuse-best"
    assert one.plan(rejections=[Rejection("r1", 1, "no", strategy="fuse-best")]).strategy == "fuse-all"


@pytest.fixture
def conv(bench: Callable[..., Bench]) -> tuple[Bench, Any]:
    """A class with a program recorded on a GPU, and a judge that gives it for every recipe."""
    kept = recorded("conv")
    one = bench(kept["text"])

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        # Another text, as another recipe gives.
        launches = [{**one, "num_warps": 2 + len(recipe["options"])} for one in kept["made"]["launches"]]
        return {**kept["made"], "launches": launches}

    return one, ask


def test_what_torch_compile_writes_stays_first_and_a_recipe_that_won_is_next(conv: tuple[Bench, Any]) -> None:
    one, ask = conv
    label = next(switch.label for switch in recipes.SWITCHES if switch.name == recipes.LAYOUT)
    layout = (recipes.LAYOUT, label)
    usual = order(one, 4, (), ask)
    assert usual[0] == PLAIN
    found = order(one, 4, [won(STRATEGY, layout), won(STRATEGY)], ask)
    assert found[:2] == [PLAIN, Design(STRATEGY, (layout,))]
    foreign = [won(STRATEGY, (recipes.ALGEBRA, "sums")), won(STRATEGY, ("no such", "switch")), won(STRATEGY, layout)]
    assert order(one, 4, foreign, ask) == found, "a switch that does not serve here, or is not known, is passed over"


def on_a_gpu(bench: Callable[..., Bench], name: str, *fitting: str) -> list[list[Design | None]]:
    """Return the first designs for a recorded program which families of rules fit, on a GPU and on a CPU."""
    kept = recorded(name)
    one = bench(kept["text"])

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        launches = [
            {**one, "num_warps": 2 + len(recipe["options"]) + sum(map(len, recipe["rewrites"]))}
            for one in kept["made"]["launches"]
        ]
        return {**kept["made"], "launches": launches, "rewrites": list(fitting)}

    gpu = replace(REFERENCE, environment=replace(REFERENCE.environment, device_type="cuda"))
    return [order(one, 3, (), ask, where) for where in (gpu, REFERENCE)]


def test_on_a_gpu_kernels_of_our_own_are_tried_right_behind_what_torch_compile_writes(
    bench: Callable[..., Bench],
) -> None:
    there, here = on_a_gpu(bench, "layer_norm")
    assert there[0] == here[0] == PLAIN
    assert [design.strategy for design in there[1:] if design is not None] == ["fuse-all", STRATEGY]
    assert [design.strategy for design in here[1:] if design is not None] == [STRATEGY, "fuse-all"]


def test_products_in_halves_go_before_kernels_of_our_own(bench: Callable[..., Bench]) -> None:
    halves = Design(STRATEGY, ((recipes.PRODUCTS, recipes.HALVES),))
    there, _ = on_a_gpu(bench, "linear", recipes.HALVES, "transposed")
    assert there[:2] == [PLAIN, halves]
    assert there[2] is not None
    assert there[2].strategy == "fuse-all"


def test_windows_and_halves_which_have_a_part_of_the_time_each_are_tried_together(bench: Callable[..., Bench]) -> None:
    there, _ = on_a_gpu(bench, "linear", recipes.HALVES, "windows")
    assert there[1] == Design(STRATEGY, ((recipes.WINDOWS, "shifted"), (recipes.PRODUCTS, recipes.HALVES)))


def test_less_work_is_tried_before_the_same_work_in_halves(bench: Callable[..., Bench]) -> None:
    there, _ = on_a_gpu(bench, "linear", "sums", recipes.HALVES)
    assert there == [
        PLAIN,
        Design(STRATEGY, ((recipes.ALGEBRA, "sums"),)),
        Design(STRATEGY, ((recipes.PRODUCTS, recipes.HALVES),)),
    ]


def test_halves_that_gave_wrong_results_are_tried_in_short_sums_next(bench: Callable[..., Bench]) -> None:
    kept = recorded("linear")
    one = bench(kept["text"])

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        launches = [{**each, "num_warps": 2 + sum(map(len, recipe["rewrites"]))} for each in kept["made"]["launches"]]
        return {**kept["made"], "launches": launches, "rewrites": [recipes.HALVES, recipes.SHORT_HALVES]}

    gpu = replace(REFERENCE, environment=replace(REFERENCE.environment, device_type="cuda"))
    one.agents = PlaybookAgents(one.analysis, one.problem, gpu, ask=ask)
    one.attempt()
    wrong = one.attempt(status=VerdictStatus.WRONG_RESULT)
    design = Design(STRATEGY, ((recipes.PRODUCTS, recipes.HALVES),))
    assert read_design(wrong.candidate.source) == design
    mended = one.attempt()
    assert read_design(mended.candidate.source) == design.with_label(recipes.PRODUCTS, recipes.SHORT_HALVES)
    with pytest.raises(NothingToPropose):
        one.repair(wrong)


def test_switches_that_won_together_are_turned_on_together(conv: tuple[Bench, Any]) -> None:
    one, ask = conv
    labels = {switch.name: switch.label for switch in recipes.SWITCHES}
    both = Design(STRATEGY, tuple((name, labels[name]) for name in (recipes.TUNING, recipes.LAYOUT)))
    notes = [won(STRATEGY, *both.kernels)]
    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=ask, notes=notes)
    first = one.attempt()
    assert read_design(first.candidate.source) == PLAIN
    plan = one.plan(first)
    assert plan.parameters[1:] == both.kernels
    titles = {switch.name: switch.title for switch in recipes.SWITCHES}
    assert plan.title == f"{titles[recipes.TUNING]}; {titles[recipes.LAYOUT]}"
    assert plan.advice.count("**What to do.**") == 2
    # A resumed run, whose agents are new, goes on alike.
    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=ask, notes=notes)
    second = one.attempt(first)
    assert second.plan == plan
    assert read_design(second.candidate.source) == both
    # Then the rest comes in its order, and nothing twice.
    assert one.plan(first).parameters[1:] == both.kernels[:1]
    assert one.plan(first).parameters[1:] == both.kernels[1:]


def test_a_graph_of_a_program_that_is_there_is_not_compiled_again(conv: tuple[Bench, Any]) -> None:
    one, ask = conv
    asked: list[dict[str, Any]] = []

    async def counted(recipe: dict[str, Any]) -> dict[str, Any]:
        asked.append(recipe)
        return dict(await ask(recipe))

    made = Recipes(one.problem, counted, "cuda", 0, recipes.Switches())
    for design in (PLAIN, Design(STRATEGY, ((recipes.LAUNCH, "replayed"),))):
        assert read_design(asyncio.run(made.get(design)).candidate.source) == design
    assert len(asked) == 1


def test_rows_that_blocks_hold_together_go_before_other_blocks_for_inductors_kernels(
    bench: Callable[..., Bench],
) -> None:
    text = "class Model(nn.Module):\n    def forward(self, x):\n        return x / (x * x).mean(1, keepdim=True)\n"
    one = bench(f"{HEAD}{text}\n\ndef get_inputs():\n    return [torch.randn(130, 65535)]\n")

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return inductor.program(one.model, tuple(one.inputs), {}, str(one.path), recipe)

    def second(capability: str) -> str:
        del one.nodes[1:]
        there = replace(REFERENCE.environment, device_type="cuda")
        one.reference = replace(REFERENCE, environment=there, device=Device(capability=capability))
        analysis = json.loads(json.dumps(one.analysis).replace('"cpu"', '"cuda"'))
        one.agents = PlaybookAgents(analysis, one.problem, one.reference, ask=ask)
        plain = one.attempt()
        assert read_design(plain.candidate.source) == PLAIN
        return one.plan(plain).strategy

    assert second("9.0") == "fuse-all"
    assert second("8.0") == STRATEGY
