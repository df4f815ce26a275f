"""A class whose part was accepted before: both keep their kernels, and each helper that they are written with."""

from __future__ import annotations

import ast
import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from stark_lsp.core.editing import apply_edits
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.judge.analysis import analyze, inductor
from stark_lsp.playbook.inductor.proposal import AsCompiled
from stark_lsp.playbook.source import beside
from stark_lsp.proposals.call_sites import accepted_class, own_sites
from stark_lsp.proposals.edit import build_edit

from .conftest import close, load

pytestmark = [pytest.mark.usefixtures("several_threads"), pytest.mark.slow, pytest.mark.ci]

TEXT = """import torch
import torch.nn as nn


class Norm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.before, self.after = Norm(width), Norm(width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return self.after(x + torch.tanh(self.mix(self.before(x)))) * 2


def get_init_inputs_for_Norm():
    return [96]


def get_inputs_for_Norm():
    return [torch.randn(4, 33, 96)]


def get_init_inputs_for_Block():
    return [96]


def get_inputs_for_Block():
    return [torch.randn(4, 33, 96)]
"""


def accepted(folder: Path, text: str, name: str, mode: WriteMode, recipe: dict[str, Any] | None) -> tuple[str, str]:
    """Return a file with kernels for a class of it, and what the class with kernels is called."""
    path = folder / "user_file.py"
    path.write_text(text)
    problem, module = make_problem(str(path), text, name), load(path, f"user_{folder.name}_{name}")
    torch.manual_seed(0)
    model, inputs = getattr(module, name)(96).eval(), module.get_inputs_for_Block()
    made = json.loads(json.dumps(inductor.program(copy.deepcopy(model), tuple(inputs), {}, str(path), recipe)))
    edit = build_edit(problem, text, AsCompiled(problem, made).candidate, "# Optimized by STARK: test", mode)
    after = folder / "after.py"
    after.write_text(edit.preview)
    kind = getattr(load(after, f"after_{folder.name}_{name}_{mode.value}"), edit.qualname)
    new = kind(96).eval()
    new.load_state_dict(model.state_dict())
    ran: list[int] = []
    kernels = vars(kind)["_compiled"]
    kind._compiled = staticmethod(lambda *given: ran.append(1) or kernels.__func__(*given))
    close(model(*inputs), new(*inputs))
    assert ran, f"the kernels of {name} do not run"
    return edit.preview, edit.qualname


@pytest.mark.parametrize("mode", [WriteMode.BESIDE, WriteMode.REPLACE])
@pytest.mark.parametrize("recipes", [(None, None), ({"batch": True}, None), ({"backward": True}, None)])
def test_kernels_of_a_class_run_whose_part_has_kernels(
    tmp_path: Path, mode: WriteMode, recipes: tuple[dict[str, Any] | None, dict[str, Any] | None]
) -> None:
    text, name = accepted(tmp_path, TEXT, "Norm", mode, recipes[0])
    if mode is WriteMode.BESIDE:
        text = apply_edits(text, own_sites(text, accepted_class(text, name)))
    text, _ = accepted(tmp_path, text, "Block", mode, recipes[1])
    defined = [one.name for one in ast.parse(text).body if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
    assert len(defined) == len(set(defined))
    assert [one for one in defined if one.startswith("Norm")] == (
        ["Norm", "NormNew"] if "NormNew" in text else ["Norm"]
    )


def test_a_class_is_recorded_whose_part_has_kernels(tmp_path: Path) -> None:
    text, _ = accepted(tmp_path, TEXT, "Norm", WriteMode.REPLACE, None)
    path = tmp_path / "with_kernels.py"
    path.write_text(text)
    module = load(path, f"with_kernels_{tmp_path.name}")
    model = module.Block(96).eval()
    assert {node["op"] for node in analyze(model, tuple(module.get_inputs_for_Block()), {})["nodes"]} >= {"call"}
    assert type(model.after).forward is not type(model.after)._forward_pytorch


ON_GPU = """import importlib.util

triton = None
if importlib.util.find_spec("triton"):  # only a GPU needs it
    import triton

if triton is not None:
    @made
    def fused_0(x):
        return x + 1


def run_one(x):
    return fused_0(x)
"""


def test_kernels_for_a_gpu_have_names_of_their_own() -> None:
    """They stand in an `if`, which was not looked into: of two of one name both classes launched the later."""
    other = ON_GPU.replace("x + 1", "x + 2").replace("run_one", "run_other")
    text, renamed = beside(ast.parse(ON_GPU), other)
    there = {"triton": object(), "made": lambda kernel: kernel}
    exec(f"{ON_GPU}{text}".replace('find_spec("triton")', 'find_spec("no such")').replace("= None", "= 1"), there)
    assert (there["run_one"](1), there["run_other"](1)) == (2, 3)
    assert renamed("fused_0[(8,)](x)") != "fused_0[(8,)](x)"
    assert "import triton" not in text
    text, renamed = beside(ast.parse(ON_GPU), ON_GPU)
    assert not text.strip()
    assert renamed("fused_0[(8,)](x)") == "fused_0[(8,)](x)"
