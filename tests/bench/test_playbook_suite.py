"""The playbook's benchmark: its problems are what they are said to be, told on torch's meta device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from playbook_suite import LEVELS, missing, write
from playbook_suite.operators import REPRESENTATIVE
from playbook_suite.problem import Problem

from stark_lsp.bench.suite import discover, select

BANDWIDTH, FLOPS = 3e12, 5e13
"""Of an H100, in float32."""
LAUNCH_MS = 0.02
GIB = 1 << 30
LOOPS = ("lstm", "gru", "gru_bidirectional")
"""Made of thousands of steps on the meta device."""
ALL = [
    pytest.param(one, id=f"{level}-{one.name}", marks=[pytest.mark.slow] if one.name in LOOPS else [])
    for level, problems in LEVELS.items()
    for one in problems
]


def size(found: Any) -> int:
    return sum(one.numel() * one.element_size() for one in tree_leaves(found) if isinstance(one, torch.Tensor))


def called(problem: Problem, small: bool, device: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return module, inputs of a seed, and outputs."""
    found: dict[str, Any] = {}
    exec(compile(problem.source(small), problem.name, "exec"), found)
    with torch.device(device), torch.no_grad():
        torch.manual_seed(0)
        module = found["Model"](*found["get_init_inputs"]())
        torch.manual_seed(seed)
        inputs = found["get_inputs"]()
        return module, inputs, module(*inputs)


@pytest.mark.parametrize("problem", ALL)
def test_a_call_is_of_a_size_for_one_large_gpu(problem: Problem) -> None:
    if problem.package:
        pytest.importorskip(problem.package)
    with FlopCounterMode(display=False) as counter:
        module, inputs, outputs = called(problem, False, "meta")
    moved, flops = size((inputs, outputs)), counter.get_total_flops()
    shortest = 1e3 * max((moved + size(list(module.parameters()))) / BANDWIDTH, flops / FLOPS)
    assert LAUNCH_MS < shortest < 30
    if problem in LEVELS[1] and not flops:
        assert 0.5 * GIB <= moved <= 8 * GIB


@pytest.mark.parametrize("problem", [one for one in ALL if one.values[0].cpu])
def test_the_small_ones_are_finite_repeat_and_depend_on_their_inputs(problem: Problem) -> None:
    results = [called(problem, True, "cpu", seed)[2] for seed in (1, 1, 2)]
    assert torch.isfinite(results[0]).all()
    assert torch.equal(results[0], results[1])
    apart = (results[0] - results[2]).abs().max() / results[0].abs().max()
    assert apart > 1e-3


def test_the_suite_is_one_that_bench_takes(tmp_path: Path) -> None:
    write(tmp_path / "large")
    entries = discover(tmp_path / "large")
    lacking = missing()
    assert [one.error for one in entries if one.error] == []
    assert len(entries) == sum(one.package not in lacking for problems in LEVELS.values() for one in problems)
    chosen = select(entries, tmp_path / "large", subset="representative")
    assert [one.level for one in chosen].count(1) == len(REPRESENTATIVE) == 30
    write(tmp_path / "small", small=True)
    few = discover(tmp_path / "small")
    assert len(few) == 20
    assert {(one.name, Path(one.path).name) for one in few} <= {(one.name, Path(one.path).name) for one in entries}
    assert len({one.name for problems in LEVELS.values() for one in problems}) == len(ALL)
