"""The same modules on a GPU: recorded there, rewritten with CUDA kernels, compared there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stark_lsp.playbook.design import read_design

from .conftest import Bench, close
from .playbook_cases import CASES, Case, text_of
from .test_candidates import only_kernels

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]


def moved(value: Any) -> Any:
    """Return nested inputs on the GPU."""
    if isinstance(value, torch.Tensor):
        return value.cuda()
    return [moved(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_first_candidate_agrees_with_the_module_on_a_gpu(case: Case, bench: Callable[..., Bench]) -> None:
    one = bench(text_of(case), place=moved)
    assert asyncio.run(one.agents.reason()) == ""
    node = one.attempt()
    design = read_design(node.candidate.source)
    assert design is not None
    new = one.build(node.candidate).cuda()
    with torch.no_grad():
        with only_kernels(new, design.names):
            close(one.model(*one.inputs), new(*one.inputs))
        other = moved(one.module.get_other_inputs())
        close(one.model(*other), new(*other))
