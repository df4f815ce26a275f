"""Arms: runs that were asked for in another way are never added up, and a label tells what differs, no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from bench_cases import ENVIRONMENT, cell, row
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.bench import report, tables
from stark_lsp.bench.arms import by_arm, explained, labels
from stark_lsp.bench.report import Source
from stark_lsp.bench.rows import Outcome, Row, of_failure
from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import PRESETS, EvaluationSettings, SearchSettings
from stark_lsp.core.status import Grounding, Isolation

ONE = row("1/1", gains={"eager": (2.0, 1.9, 2.1)})
DEFAULT = AgentSettings()


def effort(text: str) -> AgentSettings:
    return AgentSettings(
        **{
            name: replace(getattr(DEFAULT, name), effort=text)
            for name in ("plan", "code", "debug", "sampling", "reflexion")
        }
    )


def names(*rows: Row) -> list[str]:
    arms = by_arm(rows)
    found = labels(list(arms))
    return [found[arm] for arm in arms]


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"agents": effort("high")}, "stark (effort=high)"),
        ({"agents": replace(DEFAULT, plan=replace(DEFAULT.plan, effort="low"))}, "stark (plan.effort=low)"),
        ({"agents": replace(DEFAULT, code=replace(DEFAULT.code, model="claude-x"))}, "stark (code.model=claude-x)"),
        ({"agents": replace(DEFAULT, debug=RoleSettings())}, "stark (debug.temperature=null)"),
        ({"agents": replace(DEFAULT, plan=RoleSettings(temperature=0.8, max_tokens=9))}, "stark (plan.max_tokens=9)"),
        ({"agents": replace(DEFAULT, grounding=Grounding.REFUSE)}, "stark (grounding=refuse)"),
        ({"agents": replace(DEFAULT, profile=False)}, "stark (agents: profile=false)"),
        ({"budget": Budget(2, dollars=5.0)}, "stark (at most $5)"),
        ({"budget": Budget(2, tokens=100_000)}, "stark (at most 100,000 tokens)"),
        ({"budget": Budget(2, seconds=600.0)}, "stark (at most 600 s)"),
        ({"evaluation": EvaluationSettings(seeds=3)}, "stark (seeds=3)"),
        ({"evaluation": EvaluationSettings(profile=False)}, "stark (profile=false)"),
        ({"evaluation": EvaluationSettings(max_autotune=True)}, "stark (max_autotune=true)"),
        ({"evaluation": EvaluationSettings(isolation=Isolation.OFF)}, "stark (isolation=off)"),
        ({"search": replace(ONE.search, epsilon=0.5)}, "stark (epsilon=0.5)"),
    ],
)  # fmt: skip
def test_what_was_asked_for_in_another_way_has_a_line_of_its_own(change: dict[str, Any], label: str) -> None:
    assert names(ONE, replace(ONE, **change)) == ["stark", label]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"agents": replace(DEFAULT, dialect="triton")}, ["stark (dialect auto)", "stark (dialect triton)"]),
        ({"search": replace(ONE.search, in_flight=4)}, ["stark (1 at a time)", "stark (4 at a time)"]),
        ({"environment": replace(ENVIRONMENT, torch="3.0")}, ["stark (torch 2.9)", "stark (torch 3.0)"]),
        ({"version": "9"}, [f"stark (stark-lsp {ONE.version})", "stark (stark-lsp 9)"]),
    ],
)
def test_where_there_is_no_usual_value_both_are_named(change: dict[str, Any], expected: list[str]) -> None:
    assert names(ONE, replace(ONE, **change)) == expected


def test_what_is_the_same_in_all_is_not_named() -> None:
    both = {"evaluation": EvaluationSettings(seeds=3, rounds=9), "budget": Budget(2, dollars=1.0)}
    one = replace(ONE, **both)
    assert names(one) == ["stark"]
    assert names(one, replace(one, agents=effort("low"))) == ["stark", "stark (effort=low)"]


def test_a_preset_is_named_instead_of_all_that_it_sets() -> None:
    preset = replace(ONE, settings="kernelbench", evaluation=PRESETS["kernelbench"])
    changed = replace(preset, evaluation=replace(PRESETS["kernelbench"], seeds=2))
    assert names(ONE, preset, changed) == ["stark (default)", "stark (kernelbench)", "stark (seeds=2, kernelbench)"]


def test_seeds_and_problems_do_not_make_an_arm() -> None:
    assert len(by_arm([ONE, row("1/2"), row("3/1", seed=4)])) == 1


def test_roles_that_a_system_does_not_ask_do_not_make_an_arm() -> None:
    other = replace(DEFAULT, sampling=replace(DEFAULT.sampling, temperature=0.2))
    assert len(by_arm([ONE, replace(ONE, agents=other)])) == 1
    sampling = row("1/1", "sampling")
    assert names(sampling, replace(sampling, agents=other)) == ["sampling", "sampling (temperature=0.2)"]


def test_threads_make_a_machine_where_the_processor_does_the_work() -> None:
    more = replace(ENVIRONMENT, threads=8)
    assert len(by_arm([ONE, replace(ONE, environment=more)])) == 1, "a GPU is the same next to more cores"
    few, many = (replace(ONE, environment=replace(one, device_type="cpu")) for one in (ENVIRONMENT, more))
    assert names(few, many) == ["stark (threads=1)", "stark (threads=8)"]


def test_a_label_stays_short_and_a_legend_says_the_rest() -> None:
    odd = EvaluationSettings(seeds=1, warmup=1, rounds=3, final_rounds=3, round_ms=1.0, special_inputs=False)
    rows = [ONE, replace(ONE, evaluation=odd), replace(row("1/1", "sampling"), evaluation=odd)]
    assert names(*rows) == ["stark", "stark (setup A)", "sampling (setup A)"]
    told = "seeds=1, special_inputs=false, warmup=1, rounds=3, final_rounds=3, round_ms=1.0"
    assert explained(list(by_arm(rows))) == {"setup A": told}
    page = report.page(rows, 0, ())
    assert f"- setup A: {told}" in page
    assert report.summary(rows, 0)["arms"][0]["changed"] == tuple(told.split(", "))


def test_two_folders_that_were_run_with_other_settings_are_compared_and_not_averaged(tmp_path: Any) -> None:
    low = [
        replace(row(f"1/{n}", gains={"eager": (2.0, 1.9, 2.1)}), agents=effort("low"), key=f"a{n}") for n in (1, 2, 3)
    ]
    high = [
        replace(row(f"1/{n}", gains={"eager": (6.0, 5.9, 6.1)}), agents=effort("high"), key=f"b{n}") for n in (1, 2, 3)
    ]
    sources = [Source(tmp_path / "a", tuple(low)), Source(tmp_path / "b", tuple(high))]
    text = report.page(report.merged(sources), 0, ())
    assert "| stark (effort=low) | 100.0% | 100.0% | 2.00× |" in text
    assert "| stark (effort=high) | 100.0% | 100.0% | 6.00× |" in text
    assert "4.00×" not in text


def test_the_same_run_on_another_torch_is_not_taken_for_the_same_row() -> None:
    again = replace(ONE, environment=replace(ENVIRONMENT, torch="3.0"))
    sources = [Source(report.Path("a"), (ONE,)), Source(report.Path("b"), (again, ONE))]
    assert report.merged(sources) == (ONE, again)


def test_each_arm_is_held_against_the_one_of_ours_that_is_most_like_it() -> None:
    ours = [row("1/1", gains={"eager": 4.0}), replace(row("1/1", gains={"eager": 8.0}), agents=effort("high"))]
    theirs = [replace(row("1/1", "ma-only", gains={"eager": 2.0}), agents=one.agents) for one in ours]
    arms = by_arm([*ours, *theirs])
    found = {label: three.mean.value for (label, _), three in tables.ratios(arms).items()}
    assert found == {"ma-only": 2.0, "ma-only (effort=high)": 4.0, "stark (effort=high)": 0.5}
    assert "| ma-only (effort=high) | stark (effort=high) | 1 |" in tables.figure1(arms)
    assert "Ours" not in tables.figure1(by_arm([ours[0], theirs[0]])), "where there is one of ours, it needs no name"


def test_problems_of_one_name_and_another_text_are_not_the_same_problem() -> None:
    cells = [cell("1/7", text="one"), cell("1/7", text="other")]
    one, other = (replace(of_failure(each, Outcome.MEASURED, ""), best=ONE.best) for each in cells)
    assert "- Under one name there is more than one text of 1/7" in report.page([one, other], 0, ())
    assert "more than one text" not in report.page([one, one], 0, ())
    theirs = replace(other, search=replace(other.search, system="sampling"))
    assert tables.ratios(by_arm([one, theirs])) == {}


WAYS: list[Callable[[Row, Any], Row]] = [
    lambda one, value: replace(one, budget=replace(one.budget, seconds=value)),
    lambda one, value: replace(one, budget=replace(one.budget, tokens=value)),
    lambda one, value: replace(one, budget=replace(one.budget, dollars=value)),
    lambda one, value: replace(one, evaluation=replace(one.evaluation, seeds=value or 5)),
    lambda one, value: replace(one, evaluation=replace(one.evaluation, log_limit=value or 65536)),
    lambda one, value: replace(one, search=replace(one.search, repairs=value or 1)),
    lambda one, value: replace(
        one, agents=replace(one.agents, plan=replace(one.agents.plan, max_tokens=value or 32000))
    ),
    lambda one, value: replace(
        one, agents=replace(one.agents, code=replace(one.agents.code, max_tokens=value or 32000))
    ),
]
CHOICES = st.lists(st.tuples(*(st.sampled_from([None, 2, 3]) for _ in WAYS)), min_size=1, max_size=5)


@given(CHOICES)
def test_unlike_arms_never_share_a_label_and_like_runs_never_get_two(choices: list[tuple[int | None, ...]]) -> None:
    rows = []
    for values in choices:
        one = ONE
        for way, value in zip(WAYS, values, strict=True):
            one = way(one, value)
        rows.append(one)
    arms = by_arm(rows)
    assert len(arms) == len(set(choices))
    found = labels(list(arms))
    assert len(set(found.values())) == len(arms)
    assert all(len(label) < 60 for label in found.values())


def test_every_setting_makes_an_arm_unless_it_is_known_not_to() -> None:
    kinds = {"search": SearchSettings, "budget": Budget, "evaluation": EvaluationSettings, "agents": AgentSettings}
    same = set()
    for part, kind in kinds.items():
        for field in fields(kind):
            before = getattr(getattr(ONE, part), field.name)
            after = _another(before)
            changed = replace(ONE, **{part: replace(getattr(ONE, part), **{field.name: after})})
            if len(by_arm([ONE, changed])) == 1:
                same.add(f"{part}.{field.name}")
    assert same == {"search.seed", "search.attempts", "agents.sampling", "agents.reflexion"}


def _another(value: Any) -> Any:
    if isinstance(value, RoleSettings):
        return replace(value, effort="max")
    if isinstance(value, bool):
        return not value
    if isinstance(value, Grounding):
        return Grounding.OFF
    if isinstance(value, Isolation):
        return Isolation.STRICT
    if isinstance(value, str):
        return f"{value}-x"
    # Some are at the highest that they may be.
    return 0.5 if value == 0.3 else 7 if value is None else value - 1 if value > 1 else value + 1
