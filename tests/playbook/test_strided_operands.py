"""Operands that are not contiguous are read by the kernel, and not by the PyTorch it falls back to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from stark_lsp.playbook.design import read_design

from .conftest import Bench, close
from .playbook_cases import forward, text_of
from .test_candidates import only_kernels

SLICES = {
    "halves of rows": ("a, b = x.chunk(2, -1)", "F.silu(a) * b", "torch.randn(64, 1024)"),
    "halves of longer rows": ("a, b = x.chunk(2, -1)", "F.silu(a) * b", "torch.randn(4, 16, 512)"),
    "halves of channels": ("a, b = x.chunk(2, 1)", "F.silu(a) * b", "torch.randn(4, 32, 16, 16)"),
    "a slice": ("y = x[:, 3:50]", "F.silu(y) * 2 + 1", "torch.randn(32, 64)"),
    "every other column": ("y = x[:, ::2]", "F.silu(y) * 2 + 1", "torch.randn(32, 64)"),
    "transposed": ("y = x.transpose(1, 2)", "F.silu(y) * 2 + 1", "torch.randn(4, 32, 64)"),
    "transposed rows": ("y = x.transpose(1, 2)", "torch.softmax(y * 2, -1)", "torch.randn(4, 32, 64)"),
    "channels last": ("y = x", "F.silu(y) * 2 + y", "torch.randn(4, 8, 6, 5).to(memory_format=torch.channels_last)"),
    "expanded": ("y = x[:, :1].expand(-1, 64)", "F.silu(y) * x + 1", "torch.randn(32, 64)"),
    "a row for all": ("y = x[0].expand(32, 64)", "F.silu(y) * x + 1", "torch.randn(32, 64)"),
}


def bench_of(bench: Callable[..., Bench], name: str) -> Bench:
    first, last, inputs = SLICES[name]
    return bench(text_of(forward("strided", f"{first}\nreturn {last}", f"[{inputs}]")))


@pytest.mark.parametrize("name", SLICES)
def test_the_kernel_itself_reads_what_is_not_contiguous(name: str, bench: Callable[..., Bench]) -> None:
    one = bench_of(bench, name)
    node = one.attempt()
    design = read_design(node.candidate.source)
    assert design is not None
    new = one.build(node.candidate)
    forward = node.candidate.source[node.candidate.source.index("class ModelNew") :]
    statements = [line for line in forward.partition("_forward_pytorch")[0].splitlines() if "#" not in line]
    assert not any("F.silu(" in line for line in statements)
    with torch.no_grad(), only_kernels(new, design.names):
        expected, found = one.model(*one.inputs), new(*one.inputs)
    close(expected, found)


@pytest.mark.parametrize("name", ["transposed", "channels last"])
def test_results_lie_in_memory_as_pytorch_lays_them(name: str, bench: Callable[..., Bench]) -> None:
    one = bench_of(bench, name)
    new = one.build(one.attempt().candidate)
    with torch.no_grad():
        assert new(*one.inputs).stride() == one.model(*one.inputs).stride()
