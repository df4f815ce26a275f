"""The playbook as plan, code and debug agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from stark_lsp.agents.grounding.markers import strip
from stark_lsp.core.roles import NothingToPropose
from stark_lsp.core.run import Rejection
from stark_lsp.core.status import VerdictStatus
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.design import read_design

from .conftest import REFERENCE, Bench
from .playbook_cases import BY_NAME, text_of

TWO_GROUPS = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 256)

    def forward(self, x):
        y = torch.tanh(x)
        y = y * 2 + 1
        z = self.fc(y)
        z = F.softmax(
            z * 0.5,
            dim=-1,
        )
        return z


def get_inputs():
    return [torch.randn(32, 256)]
"""


def test_the_first_plan_fuses_everything_and_stands_at_the_real_lines(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    plan = one.plan()
    lines = TWO_GROUPS.splitlines()
    assert plan.strategy == "fuse-all"
    assert [(a.span.start, a.span.end) for a in plan.anchors] == [(12, 13), (15, 18)]
    for anchor in plan.anchors:
        assert anchor.text == "\n".join(lines[anchor.span.start : anchor.span.end + 1])
        assert "ms" in anchor.note
    assert strip(plan.annotated_source) == one.problem.slice.text
    assert plan.annotated_source.count("IMPROVE BEGIN") == 2
    assert plan.expected_saving_ms is not None
    assert plan.expected_saving_ms > 0


def test_an_advice_tells_what_happens_why_and_what_to_expect(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    advice = one.plan().advice
    for heading in ("What happens now", "Why that is slow", "What to do", "What to expect"):
        assert f"**{heading}.**" in advice
    assert "lines 13–14" in advice
    assert "KiB" in advice
    assert "{" not in advice


def test_every_move_has_an_advice_and_none_is_made_twice(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    seen = set()
    selected = one.nodes[0]
    for _ in range(40):
        try:
            node = one.attempt(selected)
        except NothingToPropose:
            if selected.id == 1:
                break
            selected = one.nodes[1]
            continue
        design = read_design(node.candidate.source)
        assert design is not None
        assert (selected.id, design.kernels) not in seen
        seen.add((selected.id, design.kernels))
        assert node.plan is not None
        assert node.plan.advice
        assert node.plan.title
    else:
        pytest.fail("the playbook never comes to an end")
    strategies = {node.plan.strategy for node in one.nodes if node.plan is not None}
    assert {"fuse-all", "fuse-best", "tune", "leave"} <= strategies


def test_reductions_can_be_left_to_pytorch(bench: Callable[..., Bench]) -> None:
    one = bench(text_of(BY_NAME["masked_softmax"]))
    one.attempt()
    plan = one.plan()
    assert plan.strategy == "fuse-pointwise"
    assert "leave sums, maxima and normalizations" in plan.advice


def test_a_resumed_run_goes_on_as_it_would_have(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    for _ in range(2):
        one.attempt()
    here = one.plan(one.nodes[1])
    again = PlaybookAgents(one.analysis, one.problem, REFERENCE)
    one.agents = again
    assert one.plan(one.nodes[1]) == here


def test_a_rejected_strategy_is_left_out_while_others_remain(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    rejected = [Rejection("run", 1, "too long", strategy="fuse-all")]
    assert one.plan(rejections=rejected).strategy == "fuse-best"
    every = [Rejection("run", 1, "no", strategy=name) for name in ("fuse-all", "fuse-best", "keep-library",
                                                                   "fuse-pointwise", "tune", "leave")]  # fmt: skip
    assert one.plan(rejections=every).strategy == "fuse-all"


def test_the_debug_agent_retreats_until_nothing_is_left(bench: Callable[..., Bench]) -> None:
    one = bench(TWO_GROUPS)
    node = one.attempt(status=VerdictStatus.CRASHED)
    designs = [read_design(node.candidate.source)]
    reason = ""
    while not reason:
        try:
            node = one.repair(node, VerdictStatus.CRASHED)
        except NothingToPropose as error:
            reason = str(error)
        else:
            designs.append(read_design(node.candidate.source))
            assert len(designs) < 40
    assert "no safer way" in reason
    assert len(designs) == len({d.kernels for d in designs if d is not None})
    assert len(designs) > 2
    last = designs[-1]
    assert last is not None
    assert len(last.kernels) == 1


def test_the_kernel_that_the_compiler_names_is_the_one_that_changes(bench: Callable[..., Bench]) -> None:
    from dataclasses import replace

    from stark_lsp.core.verdict import Verdict

    one = bench(TWO_GROUPS)
    node = one.attempt()
    design = read_design(node.candidate.source)
    assert design is not None
    blamed = design.names[1]
    failed = replace(node, verdict=Verdict(VerdictStatus.COMPILE_ERROR, f"error in _stark_{blamed}"))
    one.nodes[node.id] = failed
    repaired = read_design(one.repair(failed).candidate.source)
    assert repaired is not None
    assert repaired.label(design.names[0]) == design.label(design.names[0])
    assert repaired.label(blamed) != design.label(blamed)


DATA = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2 + 1
        return x


def get_inputs():
    return [torch.ones(4, 4)]
"""


def test_a_module_that_looks_into_its_data_gets_an_honest_answer(bench: Callable[..., Bench]) -> None:
    one = bench(DATA)
    with pytest.raises(NothingToPropose, match=r"reads what a tensor holds.*line 8"):
        one.plan()


def test_a_module_without_a_fusible_group_gets_an_honest_answer(bench: Callable[..., Bench]) -> None:
    text = DATA.replace("if x.sum() > 0:\n            return x * 2 + 1\n        return x", "return x @ x.t()")
    with pytest.raises(NothingToPropose, match="no group of operations"):
        bench(text).plan()


def test_a_mistake_of_its_own_is_told_and_leaves_the_rest(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, told = bench(text_of(BY_NAME["tanh_gelu"])), []
    monkeypatch.setattr(PlaybookAgents, "_emit", lambda *given: ()[1])
    agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, tell=told.append)
    (note,) = told
    assert "a mistake of ours (IndexError: tuple index out of range, test_playbook_agents.py, line" in note
    assert asyncio.run(agents.reason()) in note


def test_a_decorated_forward_gets_an_honest_answer(bench: Callable[..., Bench]) -> None:
    text = TWO_GROUPS.replace("    def forward", "    @torch.enable_grad()\n    def forward")
    with pytest.raises(NothingToPropose, match="decorator"):
        bench(text).plan()


def test_equal_layers_share_one_kernel(bench: Callable[..., Bench]) -> None:
    one = bench(text_of(BY_NAME["repeated_blocks"]))
    source = one.attempt().candidate.source
    assert source.count('extern "C" void') == 1
    forward = source[source.index("def forward(self, x):", source.index("class ModelNew")) :]
    assert forward.count("fused_") >= 3


def test_the_new_forward_reads_like_the_old_one(bench: Callable[..., Bench]) -> None:
    one = bench(text_of(BY_NAME["transformer_block"]))
    source = one.attempt().candidate.source
    new = source[source.index("class ModelNew") :]
    assert "B, T, C = " in new
    assert ".view(B, T, self.attn.heads, C // self.attn.heads).transpose(1, 2)" in new
    assert "self.attn.c_proj(" in new
    assert "def _forward_pytorch(self, x):\n        x = x + self.attn(self.ln_1(x))" in new


def test_no_saving_is_told_that_the_figures_do_not_bear_out(bench: Callable[..., Bench]) -> None:
    """It said "6.98 µs now, about 90.6 µs in one kernel" where a bare call was measured to cost more."""
    one = bench(TWO_GROUPS)
    one.agents = PlaybookAgents(one.analysis | {"overhead_ms": 1e3}, one.problem, REFERENCE)
    seen = set()
    for _ in range(2):
        node = one.attempt()
        assert node.plan is not None
        seen.add(node.plan.strategy)
        assert node.plan.expected_saving_ms is None
        for said in (node.plan.advice, *(anchor.note for anchor in node.plan.anchors)):
            assert "1 s" not in said
            assert "2 s" not in said
            assert "less than now" not in said
        assert "only a measurement tells" in node.plan.advice
    assert len(seen) == 2
