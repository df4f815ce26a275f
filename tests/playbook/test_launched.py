"""Kernels are launched as they were compiled, and compiled anew for what Triton would compile anew for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from stark_lsp.playbook.handwritten import written

from .conftest import load

triton = pytest.importorskip("triton")


class Kernel:
    """What `triton.jit` makes, as far as launching goes."""

    arg_names = ("x", "count", "BLOCK", "FAST")

    def __init__(self) -> None:
        self.compiled, self.launched = 0, []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def first(*given: Any, **known: Any) -> Any:
            self.compiled += 1
            return self

        def again(*given: Any) -> None:
            self.launched.append((grid, given))

        return again if self.compiled and len(grid) == 3 else first


@pytest.fixture
def launched(tmp_path: Path) -> tuple[Kernel, Any]:
    path = tmp_path / "launched.py"
    path.write_text(f"import functools\n\nimport torch\nimport triton\n\n\n{written('launched')}")
    kernel = Kernel()
    return kernel, load(path, "launched")._StarkLaunched(kernel)


def test_the_second_launch_is_of_what_the_first_one_compiled(launched: tuple[Kernel, Any]) -> None:
    kernel, ours = launched
    x = torch.zeros(8)
    for _ in range(3):
        ours[(4, 2)](x, 8, FAST=True, BLOCK=16, num_warps=4, num_stages=1)
    assert kernel.compiled == 1
    # By place, constants too, as compiled kernels take them.
    assert kernel.launched == [((4, 2, 1), (x, 8, 16, True))] * 2


def test_what_triton_compiles_for_is_looked_at(launched: tuple[Kernel, Any]) -> None:
    kernel, ours = launched
    x = torch.zeros(9)
    how = {"BLOCK": 16, "FAST": True, "num_warps": 4, "num_stages": 1}
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x, 8), how),
        ((x[1:], 8), how),  # another alignment
        ((x.half(), 8), how),
        ((x, 9), how),
        ((x, 8), how | {"BLOCK": 32}),
        ((x, 8), how | {"num_warps": 8}),
    ]
    for count, (positional, named) in enumerate(given, start=1):
        ours[(4,)](*positional, **named)
        assert kernel.compiled == count
    for positional, named in given:
        ours[(4,)](*positional, **named)
    assert kernel.compiled == len(given)
    assert len(kernel.launched) == len(given)


def test_before_triton_has_compiled_ones_of_this_kind_it_launches_itself(
    launched: tuple[Kernel, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, ours = launched
    monkeypatch.delattr(triton, "knobs", raising=False)
    for _ in range(3):
        ours[(4,)](torch.zeros(8), 8, BLOCK=16, FAST=True, num_warps=4, num_stages=1)
    assert kernel.compiled == 3
    assert kernel.launched == []
