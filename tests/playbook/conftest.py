"""Fixtures: a module file, analysed in this process, with the playbook's agents on it."""

from __future__ import annotations

import ast
import asyncio
import functools
import hashlib
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from filelock import FileLock
from torch.utils import cpp_extension

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Node, Rejection
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Interval, Reference, Timing, Verdict
from stark_lsp.discovery.problems import make_problem
from stark_lsp.judge.analysis import NotTraceable, analyze, cost
from stark_lsp.playbook import handwritten
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.inductor import guards

REFERENCE = Reference(
    Environment("test", "cpu", "3", sys.executable, torch.__version__), Baselines(Timing(1e4, 9e3, 1.1e4, 5))
)


ROOT = Path(__file__).resolve().parents[2]
PREFIX = "torch/csrc/inductor/cpp_prefix.h"


def load(path: Path, name: str) -> ModuleType:
    """Import a file as a module of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Bench:
    """One module file with its analysis and agents."""

    path: Path
    problem: Problem
    module: ModuleType
    model: torch.nn.Module
    inputs: list[Any]
    analysis: dict[str, Any]
    agents: PlaybookAgents
    nodes: list[Node] = field(default_factory=list)
    reference: Reference = REFERENCE

    def __post_init__(self) -> None:
        self.nodes.append(Node(0, None, AgentRole.ROOT, Candidate(self.problem.slice.text)))

    def context(self, selected: Node, rejections: Sequence[Rejection] = ()) -> Context:
        """What the engine would give for one attempt."""
        around = tuple(n for n in self.nodes if n.parent == selected.id)
        return Context(self.problem, self.reference, selected, self.nodes[0], (), around, tuple(rejections))

    def plan(self, selected: Node | None = None, rejections: Sequence[Rejection] = ()) -> Plan:
        """The next plan on a node."""
        node = selected or self.nodes[0]
        return asyncio.run(self.agents.plan(self.context(node, rejections), random.Random(0)))

    def attempt(self, selected: Node | None = None, status: VerdictStatus | None = VerdictStatus.OK) -> Node:
        """Plan and code on a node, and add the child with a verdict."""
        node = selected or self.nodes[0]
        plan = self.plan(node)
        candidate = asyncio.run(self.agents.code(self.context(node), plan, random.Random(0)))
        return self.add(node, candidate, AgentRole.CODE, plan, status)

    def repair(self, selected: Node, status: VerdictStatus = VerdictStatus.OK) -> Node:
        """Debug a failed node, and add the child with a verdict."""
        candidate = asyncio.run(self.agents.debug(self.context(selected), random.Random(0)))
        return self.add(selected, candidate, AgentRole.DEBUG, selected.plan, status)

    def add(
        self, parent: Node, candidate: Candidate, role: AgentRole, plan: Plan | None, status: VerdictStatus | None
    ) -> Node:
        """Add a node."""
        runtime = Timing(1.0, 0.9, 1.1, 5) if status is VerdictStatus.OK else None
        gain = Interval(2.0, 1.9, 2.1) if runtime is not None else None
        verdict = Verdict(status, runtime=runtime, speedup_vs_eager=gain) if status is not None else None
        self.nodes.append(Node(len(self.nodes), parent.id, role, candidate, plan, verdict))
        return self.nodes[-1]

    def build(self, candidate: Candidate) -> torch.nn.Module:
        """Load a candidate the way a user would, with the reference's weights."""
        path = self.path.with_name(f"candidate_{candidate.digest[:12]}.py")
        path.write_text(candidate.source)
        module = load(path, path.stem)
        init = self.module.get_init_inputs() if hasattr(self.module, "get_init_inputs") else []
        new: torch.nn.Module = module.ModelNew(*init)
        new.load_state_dict(self.model.state_dict())
        return new.train(self.model.training)


def close(expected: Any, found: Any) -> None:
    """Assert that two results agree in structure, dtype, shape and value."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(found, torch.Tensor)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        loose = {torch.float64: 1e-10, torch.float16: 1e-2, torch.bfloat16: 2e-2}.get(expected.dtype, 2e-5)
        torch.testing.assert_close(found, expected, rtol=loose * 10, atol=loose)
    elif isinstance(expected, dict):
        assert expected.keys() == found.keys()
        for key in expected:
            close(expected[key], found[key])
    elif isinstance(expected, (tuple, list)):
        assert type(expected) is type(found)
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            close(a, b)
    else:
        assert expected == found


def formatted(source: str) -> str:
    """Return what a formatter would change in a candidate."""
    command = [sys.executable, "-m", "ruff", "format", "--line-length=120", "--diff", "--isolated", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return done.stdout or ("" if done.returncode == 0 else done.stderr)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this session share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "playbook"


@pytest.fixture(scope="session")
def judge_cache(shared: Path) -> Path:
    """The folder that judges keep between runs; what torch.compile keeps of its own is there too."""
    return shared / "builds"


def compiled_ahead() -> Path:
    """Return a folder of headers where Inductor's, which each of its kernels for a CPU includes, is compiled ahead.

    A compiler for which this was made with other flags reads torch's own.
    """
    (listed,) = re.findall(r"flags = (\[.*\])", handwritten.written("library"))
    capability = torch.backends.cpu.get_cpu_capability()
    flags = [*ast.literal_eval(listed), *(["-mprefer-vector-width=512"] if capability == "AVX512" else [])]
    if capability in ("AVX2", "AVX512"):
        flags += [f"-DCPU_CAPABILITY={capability}", f"-DCPU_CAPABILITY_{capability}="]
    flags += [word for path in cpp_extension.include_paths() for word in ("-isystem", path)]
    command = ["c++", "-DTORCH_API_INCLUDE_EXTENSION_H", "-fPIC", "-std=c++20", *flags, "-x", "c++-header"]
    version = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(f"{torch.__version__} {version} {command}".encode()).hexdigest()
    place = ROOT / ".cache" / "compiled" / digest[:16]
    made = place / f"{PREFIX}.gch"
    made.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place / "lock"):
        if not made.exists():
            header = Path(torch.__file__).parent / "include" / PREFIX
            if subprocess.run([*command, str(header), "-o", f"{made}.part"], check=False).returncode == 0:
                os.replace(f"{made}.part", made)
    return place


@pytest.fixture(scope="session", autouse=True)
def _made_once(shared: Path, judge_cache: Path) -> Iterator[None]:
    """One build folder for the session: equal kernels are built once, torch keeps a lock of it. One look at memory."""
    patch = pytest.MonkeyPatch()
    if shutil.which("c++"):
        patch.setenv("CPATH", str(compiled_ahead()), prepend=os.pathsep)
    patch.setenv("TORCH_EXTENSIONS_DIR", str(shared / "extensions"))
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(judge_cache / "inductor"))
    # What a copy of 64 MiB takes is asked by every analysis, and nobody here asks what it was, see `generous`.
    patch.setattr(cost, "probe", functools.cache(cost.probe))
    yield
    patch.undo()


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    """Make a bench from the text of a module file."""

    def make(
        text: str, qualname: str = "Model", *, train: bool = False, place: Callable[[Any], Any] | None = None
    ) -> Bench:
        torch.manual_seed(0)
        path = tmp_path / "user_file.py"
        path.write_text(text)
        problem = make_problem(str(path), text, qualname)
        module = load(path, f"user_file_{abs(hash(tmp_path))}")
        model = getattr(module, qualname)(*(module.get_init_inputs() if hasattr(module, "get_init_inputs") else []))
        model.train(train)
        inputs = module.get_inputs()
        if place is not None:
            model, inputs = model.cuda(), place(inputs)
        try:
            analysis = analyze(model, tuple(inputs), {})
        except NotTraceable as error:
            analysis = {"untraceable": {"message": error.message, "path": error.path, "line": error.line}}
        analysis = json.loads(json.dumps(analysis, allow_nan=False))
        return Bench(
            path, problem, module, model, inputs, generous(analysis), PlaybookAgents(analysis, problem, REFERENCE)
        )

    return make


def generous(analysis: dict[str, Any]) -> dict[str, Any]:
    """Make every fusion worthwhile, so that tests do not depend on what this machine measures."""
    if "nodes" in analysis:
        analysis["total_ms"] = 1e4
        analysis["overhead_ms"] = 0.0
        analysis["bandwidth_gbs"] = 1e3
        for node in analysis["nodes"]:
            if node["op"] in ("call", "module"):
                node["time_ms"] = 1.0 + node["id"] / 1000
    return analysis


@pytest.fixture(params=["by name", "by digest"])
def _said(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the parts of a module said by name, as in a small one, and by a digest, as in a large one."""
    if request.param == "by digest":
        monkeypatch.setattr(guards, "FEW", 0)
