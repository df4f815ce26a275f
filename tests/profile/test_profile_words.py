"""How a profile reads in a hover and on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from stark_lsp.cli.output import profiles
from stark_lsp.core import profile_phrases as phrases
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor, Plan
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import AgentRole, InputSource, IsolationLayer, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Launch, Metric, Profile, Reference, Timing, Verdict
from stark_lsp.server.features.hover import hover_at
from stark_lsp.server.runs.views import RunView
from stark_lsp.server.text.markup import unmarked

GPU = Environment("Some GPU", "cuda", "3.11", "/usr/bin/python3", "2.11.0", isolation="bubblewrap")
EAGER = Profile((Launch("pow", 8, 200.0),), device_us=200.0)
PROFILE = Profile(
    launched=(
        Launch("gelu_kernel<float, 4>", 1, 22.14, registers=40, spill_bytes=0, occupancy=1.0),
        Launch("[evil](command:x)\x1b[2J", 2, 3.1, registers=168, spill_bytes=64, occupancy=0.37),
        *(Launch(f"k{number}", 1, 0.4) for number in range(6)),
    ),
    device_us=27.64,
    bytes=64 << 20,
    flops=0,
    floor_us=20.9,
    bandwidth_share=0.78,
    bound="memory",
    metrics=(Metric("memory throughput", 78.12, "%"),),
    notes=("Kernels are not all listed.",),
)
VERDICT = Verdict(
    VerdictStatus.OK,
    runtime=Timing(0.028, 0.027, 0.029, 9),
    environment=GPU,
    profile=PROFILE,
    notes=("Others use this GPU.",),
)
REFERENCE = Reference(GPU, Baselines(Timing(0.2, 0.2, 0.2, 9)), profile=EAGER)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1536, "1.5 KiB"),
        (64 << 20, "64 MiB"),
        (3 << 29, "1.5 GiB"),
        (1023 << 20, "1023 MiB"),
    ],
)
def test_bytes_have_the_unit_that_suits(number: int, text: str) -> None:
    assert phrases.amount(number) == text


@pytest.mark.parametrize(("us", "text"), [(0.4, "0.40 µs"), (38.49, "38.5 µs"), (1420, "1.42 ms"), (2.1e6, "2.10 s")])
def test_times_have_the_unit_that_suits(us: float, text: str) -> None:
    assert phrases.duration(us) == text


def test_a_profile_is_one_line() -> None:
    assert (
        phrases.summary(PROFILE, GPU) == "has 64 MiB to move, 78 % of this GPU's bandwidth, limited by memory traffic"
    )
    assert phrases.summary(Profile(), GPU) == ""
    product = replace(PROFILE, flops=1 << 40, compute_share=0.034, bound="compute")
    assert phrases.summary(product, GPU).endswith("3.4 % of this GPU's arithmetic rate, limited by arithmetic")
    # Sums before products, or tensor cores: 1102 % of a rate says nothing.
    outdone = phrases.summary(replace(product, compute_share=11.02), GPU)
    assert outdone.endswith("bandwidth, faster than the original's products at this GPU's arithmetic rate")


def test_what_the_device_needs_for_all_of_it_is_no_bound() -> None:
    """An honest masked softmax that never loads masked scores was faster than its inputs can be read."""
    assert phrases.least(Profile()) == ""
    assert phrases.least(PROFILE) == "moving that once takes 20.9 µs at this device's measured rates"
    product = replace(PROFILE, flops=1 << 40)
    assert (
        phrases.least(product)
        == "moving that once, with the original's products, takes 20.9 µs at this device's measured rates"
    )
    beaten = phrases.least(replace(PROFILE, bandwidth_share=1.19))
    assert beaten == "moving that once takes 20.9 µs at this device's measured rates; this one needs less"
    assert "this one" not in phrases.least(replace(PROFILE, bandwidth_share=1.01)), "that is noise"


def test_a_cpu_is_called_one() -> None:
    cpu = replace(GPU, device_type="cpu")
    text = phrases.summary(replace(PROFILE, bound="overhead"), cpu)
    assert text == "has 64 MiB to move, 78 % of this CPU's bandwidth, limited by the cost of calling operators"


def test_every_layer_has_its_words() -> None:
    assert set(phrases.APART) == {layer.value for layer in IsolationLayer}
    assert phrases.isolation(replace(GPU, isolation="process")) == "not kept apart"


def test_only_what_is_notable_is_said_of_a_launch() -> None:
    quiet, loud = PROFILE.launched[:2]
    assert phrases.remarks(quiet) == ""
    assert phrases.remarks(loud) == "spills 64 B a thread, 168 registers, 37 % of the warps fit"


def hover(verdict: Verdict) -> str:
    text = "class Model(nn.Module):\n    def forward(self, x):\n        return x\n"
    problem = Problem(
        "/tmp/m.py", "Model", text, SourceSlice(text, (0, 1, 2)), Span(0, 2), InputSpec(InputSource.FUNCTIONS, "f")
    )
    plan = Plan("Fuse", "Read once.", (Anchor(Span(2, 2), "        return x"),))
    run = Run("abcd1234", problem, 0, "playbook", Budget(), reference=REFERENCE)
    view = RunView(run.id, "file:///tmp/m.py", problem, run)
    view.nodes = {1: Node(1, 0, AgentRole.CODE, Candidate("# 1"), plan, verdict)}
    view.add_plan(1, plan, text)
    found = hover_at([view], 2)
    assert found is not None
    return found[0]


def test_a_hover_tells_launches_limit_isolation_and_notes() -> None:
    shown = hover(VERDICT)
    words = unmarked(shown)
    for fragment in (
        "- gelu_kernel<float, 4> 22.1 µs\n",
        "3.10 µs · spills 64 B a thread, 168 registers, 37 % of the warps fit\n",
        "- and 3 more, 1.20 µs together\n",
        "Profile has 64 MiB to move, 78 % of this GPU's bandwidth, limited by memory traffic\n",
        "Counters memory throughput 78.1 %\n",
        "Isolation kept apart by bubblewrap\n",
        "Others use this GPU.\n",
        "Kernels are not all listed.\n",
    ):
        assert fragment in words
    assert "`[evil](command:x)[2J`" in shown, "a name stays within its code span"


def test_a_hover_without_a_profile_says_nothing_of_one() -> None:
    shown = hover(replace(VERDICT, profile=None, environment=None, notes=()))
    for word in ("Launched", "Profile", "Counters", "Isolation"):
        assert word not in shown


def terminal(verdict: Verdict, reference: Reference | None = REFERENCE) -> str:
    file = io.StringIO()
    console = Console(file=file, width=80, highlight=False, markup=False, emoji=False)
    profiles.show(console, 3, verdict, reference)
    return file.getvalue()


def test_a_terminal_tells_the_same_in_eighty_columns() -> None:
    text = terminal(VERDICT)
    assert text.startswith("Attempt 3 runs 9 kernels, 27.6 µs; eager 8 kernels, 200 µs\n")
    assert "\nIt has 64 MiB to move, 78 % of this GPU's bandwidth, limited by memory traffic.\n" in text
    assert "\nIt was kept apart by bubblewrap.\n" in text
    assert "  3.10 µs  2x  " in text
    assert "and 3 more, 1.20 µs together" in text
    assert text.count("Others use this GPU.") == 1
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_verdict_without_a_profile_still_tells_its_isolation() -> None:
    bare = replace(VERDICT, profile=None, notes=(), environment=replace(GPU, isolation="landlock"))
    assert terminal(bare, None) == "Attempt 3 was kept apart by Landlock.\n"
    assert terminal(replace(bare, environment=None), None) == ""
