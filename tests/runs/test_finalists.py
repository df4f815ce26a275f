"""Which node becomes the proposal, and what is said about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Environment, ErrorFigures, Interval, Swept, Timing, Verdict
from stark_lsp.discovery.problems import make_problem
from stark_lsp.playbook.inductor.proposal import AsCompiled
from stark_lsp.runs.finalists import (
    ANY_LENGTH,
    FINALISTS,
    Confirmed,
    beats,
    confirm_best,
    faster_than_eager,
    gain_message,
    pick,
)

ONE = Interval(1.0, 0.9, 1.1)


def ok(ms: float, gain: Interval | None = None, compiled: Interval | None = None, loads: bool = True) -> Verdict:
    """Return a good verdict."""
    return Verdict(
        VerdictStatus.OK,
        runtime=Timing(ms, ms, ms, 12),
        speedup_vs_eager=gain or Interval(10 / ms, 9.9 / ms, 10.1 / ms),
        speedup_vs_compile=compiled,
        weights_loaded=loads,
    )


def node(number: int, verdict: Verdict) -> Node:
    """Return an attempt."""
    return Node(number, 0, AgentRole.CODE, Candidate(f"# {number}"), None, verdict)


class Judge:
    """Confirms with given verdicts and remembers the order."""

    def __init__(self, verdicts: dict[int, Verdict]) -> None:
        self._verdicts = {f"# {number}": verdict for number, verdict in verdicts.items()}
        self.asked: list[str] = []
        self.examined: list[str] = []
        self.faulty: list[str] = []
        """Those that memory checkers find fault with."""

    async def confirm(self, candidate: Candidate, *, tools: bool = True) -> Verdict:
        self.asked.append(candidate.source)
        if tools:
            self.examined.append(candidate.source)
        verdict = self._verdicts[candidate.source.splitlines()[0]]
        return Verdict(VerdictStatus.CRASHED) if tools and candidate.source in self.faulty else verdict


async def confirm(
    nodes: list[Node], verdicts: dict[int, Verdict], faulty: tuple[int, ...] = ()
) -> tuple[Confirmed, Judge, dict[int, Node]]:
    """Confirm and return the outcome, the judge, and what was kept."""
    judge, kept = Judge(verdicts), dict[int, Node]()
    judge.faulty = [f"# {number}" for number in faulty]

    async def keep(confirmed: Node) -> None:
        kept[confirmed.id] = confirmed

    return await confirm_best(judge, nodes, keep=keep, progress=lambda text: None), judge, kept


async def test_what_a_sweep_found_stays_with_a_finalist() -> None:
    swept = (Swept("BLOCK=128", VerdictStatus.OK),)
    first = replace(ok(2.0), tuned="BLOCK=128", swept=swept)
    outcome, _, kept = await confirm([node(1, first)], {1: ok(2.1)})
    assert outcome.node is not None
    for one in (outcome.node, kept[1]):
        assert (one.verdict.tuned, one.verdict.swept, one.verdict.runtime) == ("BLOCK=128", swept, ok(2.1).runtime)


async def test_the_leader_that_holds_is_proposed_with_its_confirmed_verdict() -> None:
    final = ok(2.1, Interval(4.8, 4.7, 4.9), Interval(1.2, 1.1, 1.3))
    outcome, judge, kept = await confirm([node(1, ok(2.0)), node(2, ok(5.0))], {1: final})
    assert outcome.node is not None
    assert outcome.node.id == 1
    assert outcome.node.verdict == final
    assert kept[1].verdict == final
    assert judge.asked == ["# 1"]
    assert outcome.message == "4.80x as fast as eager (4.70 to 4.90) and 1.20x as fast as torch.compile."


def test_kernels_for_these_sizes_alone_say_so_whoever_edited_them() -> None:
    kept = json.loads((Path(__file__).parents[1] / "data" / "inductor" / "relu_norm.json").read_text())
    candidate = AsCompiled(make_problem("model.py", kept["text"], "Model"), kept["made"]).candidate
    verified = node(1, ok(2.1, Interval(4.8, 4.7, 4.9), Interval(1.2, 1.1, 1.3)))
    for plan in (Plan("Run the kernels that torch.compile writes", "", strategy="as-compiled"), Plan("Fuse", "")):
        told = gain_message(replace(verified, plan=plan, candidate=candidate))
        assert told.endswith("1.20x as fast as torch.compile. Inputs of other sizes run your own forward.")
        assert "sizes" not in gain_message(replace(verified, plan=plan))


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ("1 <= rows <= 524287", "batch sizes"),
        ("rows >= 2 and rows % 4 == 0", "batch sizes, from 2 on,"),
        ("rows >= 1 and 2 <= length <= 512", "batch sizes and lengths, from 2 on,"),
    ],
)
def test_kernels_for_other_batch_sizes_say_so(asks: str, told: str) -> None:
    kept = json.loads((Path(__file__).parents[1] / "data" / "inductor" / "relu_norm.json").read_text())
    (x,) = (one["expression"] for one in kept["made"]["arguments"] if not one["expression"].startswith("self."))
    known = {"rows": 48} if "length" not in asks else {"rows": 48, "length": 96}
    made = {**kept["made"], "sizes": {"known": known, "dims": dict(zip(known, (0, 1), strict=False))}}
    made["sizes"] |= {"inputs": {x: {"shape": [*known], "stride": ["96", "1"]}}, "symbols": {}, "asks": asks}
    made["launches"] = [{**one, "lengths": ["1", "1", "1"]} for one in made["launches"]]
    candidate = AsCompiled(make_problem("model.py", kept["text"], "Model"), made).candidate
    verified = node(1, ok(2.1, Interval(4.8, 4.7, 4.9), Interval(1.2, 1.1, 1.3)))
    assert gain_message(replace(verified, candidate=candidate)).endswith(
        f"Other {told} run these kernels as well. Inputs that differ more run your own forward."
    )


def test_who_gives_texts_is_told_how_other_lengths_are_served() -> None:
    kept = json.loads((Path(__file__).parents[1] / "data" / "inductor" / "any_norm.json").read_text())
    candidate = AsCompiled(make_problem("model.py", kept["text"], "Model"), kept["made"]).candidate
    verified = node(1, ok(2.1, Interval(4.8, 4.7, 4.9), Interval(1.2, 1.1, 1.3)))
    assert gain_message(replace(verified, candidate=candidate)).endswith(f"run your own forward.{ANY_LENGTH}")
    ids = replace(candidate, source='_MADE_FOR_0 = {"ids": ((4, 30), (30, 1), torch.int64)}\n')
    assert gain_message(replace(verified, candidate=ids)).endswith(ANY_LENGTH)
    image = replace(candidate, source='_MADE_FOR_0 = {"x": ((4, 3, 8, 8), (192, 64, 8, 1), torch.float32)}\n')
    assert gain_message(replace(verified, candidate=image)).endswith("run your own forward.")


@pytest.mark.parametrize(
    ("names", "slower", "best"),
    [("rows=0, length=0", 3.95, 2), ("rows=0, length=0", 3.8, 1), ("rows=0", 3.95, 2), ("rows=0", 3.93, 1)],
)
async def test_who_serves_other_sizes_may_be_a_little_slower(names: str, slower: float, best: int) -> None:
    source = f"# 2\n_MADE_FOR_0 = functools.cache(lambda {names}: rows >= 1 and {{}})\n"
    nodes = [node(1, ok(2.0)), replace(node(2, ok(2.04)), candidate=Candidate(source))]
    verdicts = {1: ok(2.0, Interval(4.0, 3.9, 4.1)), 2: ok(2.04, Interval(slower, 3.7, 4.0))}
    outcome, _, _ = await confirm(nodes, verdicts)
    assert outcome.node is not None
    assert outcome.node.id == best


async def test_where_it_is_slower_is_said_with_what_it_gains() -> None:
    final = replace(ok(2.1, Interval(4.8, 4.7, 4.9)), speedup_with_backward=Interval(0.8, 0.7, 0.9))
    outcome, _, _ = await confirm([node(1, ok(2.0))], {1: final})
    assert outcome.message.endswith(
        "It is slower where it is trained (0.80x with backward). Mode `training` searches for the whole step."
    )


async def test_a_near_runner_up_is_confirmed_too_and_the_larger_gain_wins() -> None:
    nodes = [node(1, ok(2.0)), node(2, ok(2.03)), node(3, ok(2.5))]
    verdicts = {1: ok(2.0, Interval(4.0, 3.9, 4.1)), 2: ok(2.0, Interval(4.5, 4.4, 4.6))}
    outcome, judge, _ = await confirm(nodes, verdicts)
    assert judge.asked == ["# 1", "# 2"]
    assert outcome.node is not None
    assert outcome.node.id == 2


async def test_who_was_faster_than_the_leader_is_confirmed_to_be_is_confirmed_too() -> None:
    nodes = [node(1, ok(2.0)), node(2, ok(2.5)), node(3, ok(3.0))]
    verdicts = {1: ok(3.2, Interval(3.1, 3.0, 3.2)), 2: ok(2.5, Interval(3.9, 3.8, 4.0))}
    outcome, judge, _ = await confirm(nodes, verdicts)
    assert judge.asked == ["# 1", "# 2"], "the third was no faster than the second is"
    assert outcome.node is not None
    assert outcome.node.id == 2


async def test_who_cannot_be_preferred_is_not_confirmed() -> None:
    nodes = [node(1, ok(2.0)), node(2, ok(2.5, loads=False))]
    outcome, judge, _ = await confirm(nodes, {1: ok(3.2, Interval(3.1, 3.0, 3.2))})
    assert judge.asked == ["# 1"]
    assert outcome.node is not None
    assert outcome.node.id == 1


async def test_a_leader_that_does_not_hold_gives_way_to_the_next() -> None:
    nodes = [node(1, ok(2.0)), node(2, ok(4.0))]
    outcome, judge, _ = await confirm(nodes, {1: Verdict(VerdictStatus.WRONG_RESULT), 2: ok(4.0)})
    assert judge.asked == ["# 1", "# 2"]
    assert outcome.node is not None
    assert outcome.node.id == 2


async def test_nothing_is_proposed_when_the_interval_reaches_below_one() -> None:
    nodes = [node(number, ok(9.0)) for number in range(1, 6)]
    outcome, judge, _ = await confirm(nodes, dict.fromkeys(range(1, 6), ok(9.9, ONE)))
    assert outcome.node is None
    assert len(judge.asked) == FINALISTS
    assert "beyond doubt" in outcome.message


async def test_no_verified_candidate_is_said_and_no_attempt_at_all_is_not() -> None:
    outcome, _, _ = await confirm([node(1, Verdict(VerdictStatus.CRASHED))], {})
    assert (outcome.node, outcome.message) == (None, "No candidate passed verification.")
    outcome, _, _ = await confirm([], {})
    assert (outcome.node, outcome.message) == (None, "")


async def test_torch_compile_alone_being_faster_is_said_plainly() -> None:
    outcome, _, _ = await confirm([node(1, ok(2.0))], {1: ok(2.0, None, Interval(0.5, 0.45, 0.55))})
    assert "but torch.compile alone is 2.00x as fast as that" in outcome.message
    outcome, _, _ = await confirm([node(1, ok(2.0))], {1: ok(2.0, None, ONE)})
    assert "about as fast as torch.compile (0.90 to 1.10)" in outcome.message


def test_a_candidate_whose_weights_do_not_load_ranks_below_all_that_do() -> None:
    order = pick([node(1, ok(1.0, loads=False)), node(2, ok(3.0)), node(3, ok(2.0))])
    assert [n.id for n in order] == [3, 2, 1]


@pytest.mark.parametrize(
    ("verdict", "proven"),
    [
        (None, False),
        (Verdict(VerdictStatus.WRONG_RESULT), False),
        (ok(5.0, Interval(2.0, 1.01, 3.0)), True),
        (ok(5.0, Interval(2.0, 1.0, 3.0)), False),
    ],
)
def test_a_gain_is_proven_only_by_an_interval_above_one(verdict: Verdict | None, proven: bool) -> None:
    assert faster_than_eager(verdict) is proven


GPU = Environment("NVIDIA H100", "cuda", "3.12", "/usr/bin/python3", "2.11")


def gained(factor: float) -> Verdict:
    """Return a confirmed verdict from a GPU."""
    return replace(ok(2.0, Interval(factor, factor - 0.1, factor + 0.1)), environment=GPU)


def searched(ms: float) -> Verdict:
    """Return a verdict that a search had on a GPU."""
    return replace(ok(ms), environment=GPU)


async def test_on_a_gpu_only_what_is_proposed_goes_through_the_memory_checkers() -> None:
    nodes = [node(1, searched(2.00)), node(2, searched(2.01)), node(3, searched(2.02))]
    outcome, judge, _ = await confirm(nodes, {1: gained(5.0), 2: gained(4.9), 3: gained(4.8)})
    assert outcome.node is not None
    assert outcome.node.id == 1
    assert judge.asked == ["# 1", "# 2", "# 3"]
    assert judge.examined == ["# 1"]


async def test_a_runner_up_that_turns_out_better_is_examined_before_it_is_proposed() -> None:
    nodes = [node(1, searched(2.00)), node(2, searched(2.01))]
    outcome, judge, kept = await confirm(nodes, {1: gained(5.0), 2: gained(5.5)})
    assert outcome.node is not None
    assert outcome.node.id == 2
    assert judge.examined == ["# 1", "# 2"]
    assert kept[2].verdict == gained(5.5)


async def test_one_that_memory_checkers_find_fault_with_gives_way_to_the_next() -> None:
    nodes = [node(1, searched(2.00)), node(2, searched(2.01))]
    outcome, judge, kept = await confirm(nodes, {1: gained(5.0), 2: gained(5.5)}, faulty=(2,))
    assert outcome.node is not None
    assert outcome.node.id == 1
    assert judge.examined == ["# 1", "# 2"]
    assert kept[2].verdict == Verdict(VerdictStatus.CRASHED)


async def test_where_all_are_found_faulty_nothing_is_proposed() -> None:
    nodes = [node(1, searched(2.00)), node(2, searched(2.01))]
    outcome, _, _ = await confirm(nodes, {1: gained(5.0), 2: gained(5.5)}, faulty=(1, 2))
    assert outcome.node is None


async def test_what_does_not_work_inside_the_file_gives_way_to_the_next_and_is_told_if_there_is_none() -> None:
    nodes = [node(1, ok(2.0)), node(2, ok(2.03))]
    verdicts = {1: ok(2.0, Interval(4.0, 3.9, 4.1)), 2: ok(2.03, Interval(3.9, 3.8, 4.0))}

    async def keep(confirmed: Node) -> None:
        pass

    async def first_fails(node: Node) -> str:
        return "name 'os' is not defined." if node.id == 1 else ""

    async def all_fail(node: Node) -> str:
        return f"attempt {node.id} fails."

    outcome = await confirm_best(Judge(verdicts), nodes, keep=keep, progress=lambda text: None, trouble=first_fails)
    assert outcome.node is not None
    assert outcome.node.id == 2
    outcome = await confirm_best(Judge(verdicts), nodes, keep=keep, progress=lambda text: None, trouble=all_fail)
    assert outcome.node is None
    assert outcome.message == "What is faster cannot be written into the file: attempt 2 fails."


async def test_a_source_is_one_finalist_however_often_it_was_found() -> None:
    same = [replace(node(number, ok(2.0)), candidate=Candidate("# 1")) for number in (1, 2, 3)]
    outcome, judge, _ = await confirm([*same, node(4, ok(2.02))], {1: ok(2.0), 4: ok(2.02)})
    assert judge.asked == ["# 1", "# 4"]
    assert outcome.node is not None
    assert outcome.node.id == 1


@pytest.mark.parametrize(
    ("new", "standing", "better"),
    [
        (Interval(1.5, 1.4, 1.6), Interval(1.2, 1.1, 1.3), True),
        (Interval(1.38, 1.33, 1.43), Interval(1.30, 1.25, 1.35), True),
        (Interval(1.33, 1.25, 1.41), Interval(1.30, 1.22, 1.38), False),
        (Interval(1.2, 1.1, 1.3), Interval(1.5, 1.4, 1.6), False),
    ],
)
def test_a_new_proposal_beats_a_standing_one_by_more_than_both_intervals_leave_open(
    new: Interval, standing: Interval, better: bool
) -> None:
    assert beats(ok(5, new), ok(5, standing)) is better
    assert beats(ok(5, new), ok(5, standing, loads=False)), "trained weights keep working"
    assert not beats(ok(5, new, loads=False), ok(5, standing))
    assert not beats(replace(ok(5), speedup_vs_eager=None), ok(5, standing))


async def test_what_gives_the_same_goes_before_what_is_only_as_far_off_as_the_original() -> None:
    off = ErrorFigures(0.01, 0.01, 0.03, 0.009, widened=True)
    nodes = [
        node(1, replace(ok(2.0), errors=off)),
        node(2, replace(ok(5.0), errors=ErrorFigures(0.0, 0.0, 2e-5))),
        node(3, ok(20.0)),
    ]
    assert [found.id for found in pick(nodes)] == [2, 1, 3], "the last is slower than eager"
    outcome, judge, _ = await confirm(nodes, {2: ok(5.0)})
    assert judge.asked == ["# 2"]
    assert outcome.node is not None
    assert outcome.node.id == 2
    assert "Attempt 1 is 5.00x as fast as eager, but its results differ" in outcome.message
    outcome, judge, _ = await confirm(nodes, {2: ok(5.0, ONE), 1: replace(ok(2.0), errors=off)})
    assert judge.asked == ["# 2", "# 1"]
    assert outcome.node is not None
    assert outcome.node.id == 1
    assert "differ" not in outcome.message
