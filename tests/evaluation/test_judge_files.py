"""Classes that read files of their project: beside the file, and below the folder that the project is run in."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_cases import make_problem, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus as Status

READS = """import json
from pathlib import Path

import torch
import torch.nn as nn

SCALE = json.loads(Path(__file__).with_name("scale.json").read_text())["scale"]


class Model(nn.Module):
    def __init__(self, path="assets/table.txt"):
        super().__init__()
        with open(path) as file:
            self.shift = float(file.read())

    def forward(self, x):
        return torch.tanh(x * SCALE) + self.shift


def get_inputs():
    return [torch.randn(64, 128)]
"""


@pytest.mark.slow
@pytest.mark.ci
async def test_a_class_that_reads_files_of_its_project_is_judged_with_candidates_that_do(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name, text in {"pyproject.toml": "", "assets/table.txt": "1.5", "net/scale.json": '{"scale": 2.0}'}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    new = READS.replace("class Model", "class ModelNew")
    async with preparing(make_problem(project / "net" / "model.py", READS), tmp_path) as (judge, _):
        verdict = await judge.evaluate(Candidate(new))
        assert verdict.status is Status.OK, verdict
        other = await judge.evaluate(Candidate(new.replace("scale.json", "other.json")))
        assert other.status in (Status.LOAD_ERROR, Status.REFUSED), other
