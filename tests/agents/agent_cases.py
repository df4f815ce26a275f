"""A problem, past attempts and a scripted model, for tests of the agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Question
from stark_lsp.core.device import Device
from stark_lsp.core.plan import Anchor, Plan
from stark_lsp.core.problem import Problem, Span
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Node, Rejection
from stark_lsp.core.status import AgentRole, ModelRole, StopReason, VerdictStatus
from stark_lsp.core.steering import Hint
from stark_lsp.core.verdict import (
    Baselines,
    CompilerMessage,
    Environment,
    ErrorFigures,
    Interval,
    Launch,
    Profile,
    Reference,
    Timing,
    Verdict,
)
from stark_lsp.discovery.problems import make_problem
from stark_lsp.search.tree import make_root

DOCUMENT = '''\
"""A gate, as somebody wrote it."""

import torch
import torch.nn as nn

batch, features = 64, 512
unrelated = "not in any prompt"


class Gate(nn.Module):
    """Scale, shift, squash, and multiply with the input."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = x * self.scale + self.shift
        squashed = torch.sigmoid(moved)
        return x * squashed


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]
'''
PROBLEM = make_problem("/project/gate.py", DOCUMENT, "Gate")
GPU = Environment(
    "NVIDIA H100 80GB HBM3",
    "cuda",
    "3.11.7",
    "/usr/bin/python3",
    "2.13.0",
    "13.0",
    "580.1",
    "nvcc 13.0",
    dtypes=("float32",),
    shapes=("64x512",),
)
CPU = Environment("AMD EPYC", "cpu", "3.11.7", "/usr/bin/python3", "2.13.0", threads=2, shapes=("64x512",))
PROFILE = Profile(
    launched=(Launch("vectorized_elementwise_kernel", 3, 4.4, "32x1x1", "128x1x1", 32, 0), Launch("other", 1, 1.1)),
    device_us=5.5,
    bytes=266_240,
    floor_us=0.0918,
    bandwidth_share=0.00592,
    bound="overhead",
)


def reference(environment: Environment = GPU, profile: Profile | None = PROFILE) -> Reference:
    """Return what preparing the problem found out."""
    eager, compiled = Timing(0.0155, 0.0151, 0.0158, 200), Timing(0.0088, 0.0086, 0.0091, 200)
    device = EPYC if environment.device_type == "cpu" else H100
    return Reference(environment, Baselines(eager, compiled), ("float32[64x512]",), profile=profile, device=device)


def candidate(body: str = "return x * torch.sigmoid(x * self.scale + self.shift)", kernel: str = "") -> Candidate:
    """Return a candidate whose forward is `body`."""
    source = PROBLEM.slice.text.replace("class Gate(", "class ModelNew(").replace(
        "        moved = x * self.scale + self.shift\n"
        "        squashed = torch.sigmoid(moved)\n"
        "        return x * squashed\n",
        f"        {body}\n",
    )
    return Candidate(source.replace("\n\n\nclass", f"{kernel}\n\n\nclass"))


def verified(runtime_ms: float, speedup: float) -> Verdict:
    """Return the verdict of a candidate that works."""
    return Verdict(
        VerdictStatus.OK,
        errors=ErrorFigures(1.2e-7, 9e-8, 2e-5),
        runtime=Timing(runtime_ms, runtime_ms * 0.98, runtime_ms * 1.03, 100),
        speedup_vs_eager=Interval(speedup, speedup * 0.97, speedup * 1.02),
        eager=Timing(runtime_ms * speedup, runtime_ms * speedup * 0.99, runtime_ms * speedup * 1.01, 100),
        environment=GPU,
        profile=replace(
            PROFILE,
            launched=(replace(PROFILE.launched[0], time_us=2.6), PROFILE.launched[1]),
            device_us=3.7,
            bandwidth_share=0.0918e-3 / runtime_ms,
        ),
        notes=("Other programs used the GPU.",),
    )


def broken() -> Verdict:
    """Return the verdict of a candidate that does not compile."""
    return Verdict(
        VerdictStatus.COMPILE_ERROR,
        "The kernel did not compile: identifier is undefined.",
        line=12,
        compiler=(CompilerMessage(4, 9, 'identifier "sigm" is undefined'), CompilerMessage(0, 0, "1 error")),
        log="nvcc said \x1b[31merror\x1b[0m\n",
    )


H100 = Device(
    capability="9.0",
    processors=132,
    threads=2048,
    registers=65536,
    block_registers=65536,
    shared_bytes=233_472,
    block_shared_bytes=49_152,
    block_shared_bytes_asked=232_448,
    caches=(("L2", 52_428_800),),
    bandwidth=2.9e12,
    rates=(("float32", 5.1e13), ("float64", 5.9e13), ("tf32", 4.1e14), ("bfloat16", 7.2e14)),
    triton="3.7.1",
    dot_precisions=("tf32", "tf32x3", "ieee"),
    nvcc="13.0",
    libraries=(("cuBLASLt", "/usr/local/cuda/include"),),
)
EPYC = Device(
    processors=2,
    caches=(("L1d", 49_152), ("L2", 1_048_576), ("L3", 33_554_432)),
    instructions=("avx2", "fma", "avx512f", "avx512_bf16"),
    bandwidth=4.7e10,
    rates=(("float16", 2.7e9), ("float64", 1.09e11), ("float32", 2.25e11), ("bfloat16", 9.8e11)),
)
ROOT = make_root(PROBLEM, reference())
FIRST_PLAN = Plan(
    "Fuse scale, shift and sigmoid",
    "Read x once, compute everything in registers, write once.",
    anchors=(Anchor(Span(17, 19), "", "one kernel"),),
    annotated_source=PROBLEM.slice.text.replace(
        "        moved = x", "        # <<<IMPROVE BEGIN>>> one kernel\n        moved = x"
    ).replace("        return x * squashed\n", "        return x * squashed\n        # <<<IMPROVE END>>>\n"),
)
FIRST = Node(1, 0, AgentRole.CODE, candidate(), FIRST_PLAN, verified(0.0102, 1.52))
SECOND = Node(
    2,
    0,
    AgentRole.CODE,
    candidate("return _gate(x, self.scale, self.shift)", '\n\n_CUDA = r"""\n// sigm(x)\n"""'),
    Plan("Write one CUDA kernel", "One thread for each element."),
    broken(),
)


def context(
    selected: Node = ROOT,
    window: tuple[Node, ...] = (ROOT,),
    *,
    siblings: tuple[Node, ...] = (),
    attempt: int = 3,
    problem: Problem = PROBLEM,
    measured: Reference | None = None,
    rejections: tuple[Rejection, ...] = (),
    hints: tuple[Hint, ...] = (),
) -> Context:
    """Return what an agent is given for an attempt."""
    return Context(
        problem, measured or reference(), selected, ROOT, window, siblings, rejections, attempt=attempt, hints=hints
    )


def answered(text: str = "", stop: StopReason = StopReason.COMPLETE, message: str = "", **fields: Any) -> Answer:
    """Return an answer with text, or with what was handed in by the tool."""
    return Answer(stop, text, fields or None, message=message)


def asked(role: ModelRole = ModelRole.CODE) -> Question:
    """Return some question of a role."""
    return Question(3, role, "", "", "", None, max_tokens=4000)


class ScriptedModel:
    """Answers questions by a function, and keeps them."""

    name = "scripted"

    def __init__(self, answer: Callable[[Question], Answer]) -> None:
        self.questions: list[Question] = []
        self._answer = answer

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return self._answer(question)

    async def close(self) -> None:
        """Nothing is open."""
