"""`stark-lsp report`: a run as a page that shows what the terminal shows, loads nothing and runs nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from cli_cases import CHAIN, here, write
from cli_pages import Page, check
from cli_runs import ENVIRONMENT, finished_run, node, plan, reference
from cli_stored import stored_run
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.cli.page import device_plots, run_page
from stark_lsp.cli.page.scales import Scale, log_scale, spread
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Span
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import RunState, VerdictStatus
from stark_lsp.core.verdict import CompilerMessage, Interval, Launch, Profile, Verdict
from stark_lsp.store import RunStore

EVIL = "</script></style></pre>]]><img src=x onerror=alert(1)><svg onload=alert(2)>&amp;\x1b]0;t\x07\u202e"
TABLE = "| a | b |\n|:-:|--:|\n| 1 | 2 |"
LINKS = (
    "[go](javascript:alert(1)) ![see](https://evil.example/x.png) <https://evil.example>\n\n[r]: https://evil.example"
)


def shown(tmp_path: Path, run: Run, nodes: dict[int, Node]) -> Page:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(run, nodes.values())
    return Page(run_page.make(store, store.load(run.id)))


def test_a_page_says_what_came_of_a_run_what_it_cost_and_how_sure_it_is(tmp_path: Path) -> None:
    store = stored_run(tmp_path, write(tmp_path, "model.py", CHAIN))
    page = Page(run_page.make(store, store.load("1f3a77c0")))
    check(page)
    text = " ".join(page.texts[""].split())
    for part in (
        "run 1f3a77c0, 2026-01-02",
        "model.py::Model",
        "2.00x as fast as eager.",
        "30.0 ms (29.8–30.4)",
        "20.0 ms (19.8–20.2)",
        "2.00x (1.96–2.04)1.50x (1.47–1.53)",
        "1 min 00 s from begin to end",
        "4 calls of a model: 36,800 tokens read (32,000 from the cache), 1,200 written, $0.13",
        "1 call whose price is unknown",
        "Example CPU, 2 threads",
        "512x2048 float32",
        "not kept apart",
        "original and candidate took turns, 40 calls",
    ):
        assert part in text, part


def test_every_attempt_has_its_plan_verdict_source_and_difference(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    assert nodes[2].verdict is not None
    failed = replace(nodes[2].verdict, log="g++ said so", compiler=(CompilerMessage(3, 1, "expected ';'"),), line=7)
    nodes[2] = replace(nodes[2], verdict=failed)
    nodes[3] = replace(nodes[3], candidate=replace(nodes[3].candidate, source=nodes[2].candidate.source + "\nx = 1\n"))
    nodes[4] = node(4, 3, None)
    page = shown(tmp_path, run, nodes)
    check(page)
    for part in ("Fuse the gate", "Six passes over memory become one.", "lines 16 to 17", "threads 2, width 8"):
        assert part in page.texts["n1"]
    for part in ("against eager", "2.00x (1.96–2.04)", "class ModelNew", "Difference to the class as it is"):
        assert part in page.texts["n1"]
    for part in ("did not compile, line 7", "kernel.cpp:3: error: expected ';'", "3:1  expected ';'", "g++ said so"):
        assert part in page.texts["n2"]
    assert "+x = 1" in page.texts["n3"]
    assert "Repair: Fuse the gate" in page.texts["n3"]
    assert "not judged yet" in page.texts["n4"]
    assert page.all("strong"), "advice is Markdown"
    tree = [attributes for attributes in page.all("a") if attributes.get("class") == "leader"]
    assert [attributes["href"] for attributes in tree] == ["#n1"]
    assert [one["id"] for one in page.all("article") if one.get("class") == "first"] == ["n1"], "shown without a click"
    assert "lines 16 to 17" in page.texts["plans"]


def test_what_models_compilers_and_candidates_wrote_does_nothing(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    made = replace(
        plan(EVIL, width=EVIL),
        advice=f"{EVIL}\n\n{LINKS}\n\n{TABLE}\n\n```html\n{EVIL}\n```\n<script>alert(3)</script>",
        anchors=(Anchor(Span(1, 2), EVIL, EVIL),),
        lens=EVIL,
        remark=EVIL,
    )
    profile = Profile((Launch(EVIL, grid=EVIL),), 5.0, notes=(EVIL,))
    verdict = Verdict(
        VerdictStatus.CRASHED,
        EVIL,
        compiler=(CompilerMessage(1, 1, EVIL),),
        log=EVIL,
        environment=replace(ENVIRONMENT, device=EVIL, torch=EVIL, isolation=EVIL, shapes=(EVIL,)),
        stages_s=((EVIL, 1.0),),
        profile=profile,
        notes=(EVIL,),
    )
    evil = node(2, 0, verdict, made)
    nodes[2] = replace(evil, candidate=replace(evil.candidate, source=EVIL, summary=f"{EVIL} {LINKS}", remark=EVIL))
    run = replace(
        run, message=EVIL, model=EVIL, settings={"system": EVIL}, reference=replace(reference(), notes=(EVIL,))
    )
    page = shown(tmp_path, run, nodes)
    check(page)
    assert "img" not in {tag for tag, _ in page.tags}
    assert len(page.all("table")) == 4, "times, plans, launches, and the one of the advice"
    assert page.texts["n2"].count("<img src=x onerror=alert(1)>") > 10
    assert "<script>alert(3)</script>" in page.texts["n2"]
    assert "[go](javascript:alert(1))" in page.texts["n2"]


def test_the_policy_is_that_of_the_style_sheet_byte_for_byte(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    assert shown(tmp_path, run, nodes).style == (run_page.FOLDER / "run_page.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("state", [RunState.PREPARING, RunState.FAILED])
def test_a_run_without_attempts_or_reference_has_a_page_too(tmp_path: Path, state: RunState) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN), best=None)
    bare = replace(run, state=state, message="", finished="", reference=None)
    page = shown(tmp_path, bare, {})
    check(page)
    assert "The run is" in page.texts[""]
    other = shown(tmp_path, replace(run, id="22", created="once", finished="later"), {0: nodes[0]})
    check(other)
    assert "Nothing verified is faster" in other.texts[""]


def test_a_tree_as_deep_as_it_is_long_is_indented_so_far_only(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    statuses = [status for status in VerdictStatus if status.failed]
    for number in range(4, 201):
        nodes[number] = node(
            number, number - 1, Verdict(statuses[number % len(statuses)], "no"), plan(f"Idea {number}")
        )
    page = shown(tmp_path, run, nodes)
    check(page)
    assert len(page.all("article")) == 201
    assert "after 199" in page.texts["attempts"]
    kinds = {attributes.get("href") for attributes in page.all("use")}
    assert {"#verified", "#proposal", "#unbuilt", "#broken", "#wrong"} <= kinds


def gpu_run(tmp_path: Path) -> tuple[Run, dict[int, Node]]:
    """Return a run on a GPU whose device was measured; moving takes 100 us, computing 400."""
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    environment = replace(ENVIRONMENT, device="NVIDIA H200", device_type="cuda")

    def profile(ms: float) -> Profile:
        launch = (Launch("kernel", time_us=900 * ms),)
        return Profile(launch, 900 * ms, 100_000_000, 4_000_000_000, 400.0, 0.1 / ms, 0.4 / ms, "compute")

    run = replace(run, reference=replace(reference(), environment=environment, profile=profile(30.0)))
    assert nodes[1].verdict is not None
    nodes[1] = replace(nodes[1], verdict=replace(nodes[1].verdict, environment=environment, profile=profile(15.0)))
    return run, nodes


def test_the_roofline_has_the_devices_roofs_and_the_launch_overhead(tmp_path: Path) -> None:
    run, nodes = gpu_run(tmp_path)
    what = device_plots.device(run)
    assert what is not None
    assert (round(what.memory_us), what.compute_us) == (100, pytest.approx(400))
    calls = device_plots.calls(run, nodes)
    assert [call.name for call in calls] == ["eager", "torch.compile", "attempt 1", "attempt 3"]
    assert calls[2].spent == "15.0 ms: 13.5 ms on the device, 1.50 ms launch overhead"
    drawn = device_plots.roofline_plot(calls, what)
    assert drawn is not None
    assert drawn.ridge == "1,000 GB/s of memory, 10,000 GFLOP/s of arithmetic"
    heights = [dot.y for dot in drawn.dots]
    assert heights[0] > heights[1] > heights[3] > heights[2], "who is faster stands higher"
    page = shown(tmp_path, run, nodes)
    check(page)
    for part in (
        "15.0 ms: 13.5 ms on the device",
        "moving 95.4 MiB once: 100 µs",
        "GFLOP/s",
        "launch overhead 1.50 ms",
    ):
        assert part in page.texts[""], part


def test_without_products_there_are_bars_and_no_roofline_and_without_a_profile_neither(tmp_path: Path) -> None:
    run, nodes = gpu_run(tmp_path)
    assert run.reference is not None
    assert run.reference.profile is not None
    moved = replace(run.reference.profile, flops=None, compute_share=None, floor_us=100.0)
    page = shown(tmp_path, replace(run, reference=replace(run.reference, profile=moved)), nodes)
    assert "moving 95.4 MiB once" in page.texts["device"]
    assert "Roofline" not in page.texts["device"]
    bare = shown(tmp_path, replace(run, id="22", reference=replace(run.reference, profile=None)), nodes)
    assert "device" not in bare.ids()


def test_figures_that_nobody_can_have_measured_are_left_out_of_the_plots(tmp_path: Path) -> None:
    run, nodes = gpu_run(tmp_path)
    for number, value in ((1, 0.0), (3, float("inf"))):
        verdict = nodes[number].verdict
        assert verdict is not None
        nodes[number] = replace(nodes[number], verdict=replace(verdict, speedup_vs_eager=Interval(value, value, value)))
    assert run.reference is not None
    assert run.reference.profile is not None
    for number, odd in enumerate(({"floor_us": float("nan")}, {"bytes": -1}, {"flops": -1}, {"flops": 10**400})):
        profile = replace(run.reference.profile, **odd)  # type: ignore[arg-type]
        other = replace(run, id=f"2{number}", reference=replace(run.reference, profile=profile))
        check(shown(tmp_path, other, nodes))


FIGURES = st.floats(1e-9, 1e9)


@given(st.lists(FIGURES, min_size=1, max_size=9), st.integers(1, 12))
def test_a_scale_holds_its_figures_and_marks_few_of_them(values: list[float], most: int) -> None:
    scale = log_scale(values, 100.0, 10.0)
    assert all(10.0 <= scale(value) <= 100.0 for value in values)
    ordered = [scale(value) for value in sorted(values)]
    assert ordered == sorted(ordered, reverse=True)
    assert len(scale.ticks(most)) <= most
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks(most))
    straight = Scale(0.5, max(values[0], 2) + 0.5, 0.0, 50.0).ticks(most)
    assert len(straight) <= most + 1
    assert all(tick == int(tick) for tick in straight)


@given(st.lists(FIGURES, max_size=9))
def test_labels_keep_their_distance(values: list[float]) -> None:
    placed = sorted(spread(values, 15.0))
    assert all(there - one > 14.9 for one, there in itertools.pairwise(placed))


def test_the_command_writes_the_page_where_it_is_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    state.mkdir()
    stored_run(state, write(tmp_path, "model.py", CHAIN))
    done = here(capsys, "report", "1f3a", "-o", "run.html", state=state, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Report: run.html\n")
    check(Page((tmp_path / "run.html").read_text(encoding="utf-8")))
    kept = state / "reports" / "1f3a77c0.html"
    done = here(capsys, "report", "1f3a", state=state, cwd=tmp_path)
    assert done.stdout == "Report: state/reports/1f3a77c0.html\n"
    assert kept.stat().st_size > 10_000
    assert here(capsys, "report", "zz", state=state).returncode == 2
    done = here(capsys, "report", "1f3a", "-o", tmp_path / "no" / "run.html", state=state)
    assert (done.returncode, "There is no such folder" in done.stderr) == (2, True)
    assert here(capsys, "runs", "delete", "1f3a", state=state).returncode == 0
    assert not kept.exists()
