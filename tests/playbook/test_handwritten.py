"""The kernels written by hand at their edges: sizes no multiple of a tile, masks of each kind, small images."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stark_lsp.playbook import handwritten
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor import recipes

from .conftest import load

ROOT = Path(__file__).parent.parent.parent
MEMORY = {(8, 0): 166_912, (8, 9): 101_376, (9, 0): 232_448}
"""That blocks may share, in bytes, by compute capability."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "cases"),
    [
        ("attention_tiles", 48),
        pytest.param("depthwise_columns", 5, marks=pytest.mark.ci),
        pytest.param("rounded_numbers", 16, marks=pytest.mark.ci),
    ],
)
def test_they_compute_what_their_operators_are_defined_as(module: str, cases: int) -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", f"tests.playbook.{module}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == cases
    assert max(found.values()) < 1e-5, found


@pytest.mark.parametrize(
    ("capability", "head", "mask"),
    [
        ((8, 0), 128, False),
        ((8, 0), 128, True),
        ((8, 9), 80, False),
        ((8, 9), 64, True),
        ((9, 0), 128, True),
        ((9, 0), 64, True),
        ((9, 0), 64, False),
    ],
)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_triton_compiles_it_into_the_memory_of_each_gpu(
    capability: tuple[int, int], head: int, mask: bool, dtype: str, tmp_path: Path
) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    text = handwritten.text("attention", capability, exact=mask)
    (tmp_path / "tiles.py").write_text(f"import torch\nimport triton\nimport triton.language as tl\n\n{text}")
    kernel = load(tmp_path / "tiles.py", "tiles")._stark_attention_kernel
    half = dtype == "bf16"
    known = {"MASK": mask, "PUT": mask, "FLAT": False, "LOOK": mask, "HALF": half, "SAFE": mask}
    known |= {"HEAD": head, "WIDTH": triton.next_power_of_2(head)}
    tiles = re.search(r"block, tile, stages = (.*)", text)
    assert tiles is not None
    known["ROWS"], known["COLUMNS"], stages = eval(tiles[1], {"masked": mask, "width": head, "half": half})
    options = {"num_warps": known["ROWS"] // 16, "num_stages": stages}
    types = {**dict.fromkeys(("q", "k", "v", "mask", "out"), f"*{dtype}"), "scale": "fp32"}
    signature = {name: "constexpr" if name in known else types.get(name, "i32") for name in kernel.arg_names}
    target = GPUTarget("cuda", 10 * capability[0] + capability[1], 32)
    made = triton.compile(ASTSource(kernel, signature, known), target=target, options=options)
    assert made.metadata.shared <= MEMORY[capability]


def test_what_is_wrong_is_taken_in_more_parts() -> None:
    design = Design(recipes.STRATEGY, ((recipes.ATTENTION, recipes.STREAMED), (recipes.PRODUCTS, recipes.HALVES)))
    other = recipes.safer(design)
    assert other is not None
    assert other.kernels == ((recipes.ATTENTION, recipes.EXACT), (recipes.PRODUCTS, recipes.SHORT_HALVES))
    assert recipes.Switches().recipe(other)["rewrites"] == [recipes.ATTENTION, recipes.SHORT_HALVES]
    plain = recipes.safer(Design(recipes.STRATEGY, ()))
    assert plain is not None
    assert plain.kernels == ((recipes.LAYOUT, "as-given"),)
    assert recipes.safer(plain) is None
    last = recipes.safer(other)
    assert last is not None
    assert last.kernels == ((recipes.ATTENTION, recipes.EXACT), (recipes.PRODUCTS, "bf16x6"))
    assert recipes.safer(last) is None
