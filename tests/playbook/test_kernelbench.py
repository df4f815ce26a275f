"""What is written for a GPU has none of the words that KernelBench's scripts refuse a file for, wherever they stand.

They look for an exception that is caught, for a statement that does nothing, for threads, for timers or their events
set anew, and for a kind of tensor of one's own (`kernel_static_checker.py` there, STRICT_CHECKS).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stark_lsp.agents.prompts import built_in_dir
from stark_lsp.discovery.problems import make_problem
from stark_lsp.playbook.inductor import graphs
from stark_lsp.playbook.inductor.proposal import AsCompiled
from stark_lsp.playbook.kernels import library

from .conftest import Bench

SAMPLES = Path(__file__).parents[2] / "samples"
RECORDED = [
    path
    for path in sorted((Path(__file__).parent.parent / "data" / "inductor").glob("*.json"))
    if path.stem != "matmul_only"  # it has no kernel
]
REFUSED = re.compile(
    r"\btry\s*:|\bexcept\b|\bpass\b|\bthreading\b|concurrent\.futures|multiprocessing|PoolExecutor"
    r"|_make_subclass|class \w+.*\((?:torch\.)?Tensor\)|Tensor\.__new__"
    r"|(?:record|elapsed_time|synchronize|perf_counter|Event)\s*=(?!=)"
)


def said(text: str) -> list[str]:
    """Return what stands there outside of comments."""
    return REFUSED.findall("\n".join(re.split("#|//", line)[0] for line in text.splitlines()))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_programs_of_torch_compile(path: Path) -> None:
    kept = json.loads(path.read_text())
    candidate = AsCompiled(make_problem("model.py", kept["text"], "Model"), kept["made"]).candidate
    assert set(said(candidate.source)) <= set(said(kept["text"]))


@pytest.mark.parametrize("text", [graphs.text(back=True), library.loader("cuda")], ids=["a graph", "a library"])
def test_what_is_around_them(text: str) -> None:
    assert not said(text)


@pytest.mark.parametrize("path", sorted((built_in_dir() / "kernels").glob("*.py")), ids=lambda path: path.stem)
def test_what_is_written_by_hand(path: Path) -> None:
    assert not said(path.read_text())


@pytest.mark.parametrize("sample", ["focal_loss", "layernorm_residual", "new_gelu", "rms_norm", "swiglu_gate"])
def test_kernels_of_the_playbooks_own(sample: str, bench: Callable[..., Bench]) -> None:
    text = (SAMPLES / f"{sample}.py").read_text()
    for size in ("1024", "2048", "4096"):
        text = text.replace(size, "16")
    assert not said(bench(text).attempt().candidate.source)


def test_they_are_found() -> None:
    assert said("try:\n    x = 1\nexcept ValueError:\n    pass  # pass\nimport threading") == [
        "try:",
        "except",
        "pass",
        "threading",
    ]
