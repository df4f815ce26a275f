"""GPU memory that two processes see: what one puts there the other takes, and nothing is taken from outside of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.reference.reference import Reference
from stark_lsp.judge.transport import tensorfile
from stark_lsp.judge.transport.exchange import Exchange

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

CHILD = """
import sys
import torch
from stark_lsp.judge.transport import tensorfile
from stark_lsp.judge.transport.exchange import Exchange

memory = Exchange.attach(int(sys.argv[1]), int(sys.argv[2]))
given = tensorfile.load(sys.argv[3], device="cuda", exchange=memory)
tensorfile.save(sys.argv[4], [tensor * 2 for tensor in given.tensors], memory)
"""


def test_a_child_reads_and_answers_through_shared_memory(tmp_path: Path) -> None:
    free = 0
    for count in range(4):
        if count == 1:
            # The first time round also loaded the kernels that are used here.
            torch.cuda.empty_cache()
            free = torch.cuda.mem_get_info()[0]
        memory = Exchange.create(64 << 20)
        given, answer = str(tmp_path / "given"), str(tmp_path / "answer")
        tensors = [torch.randn(1 << 20, device="cuda"), torch.randn(300, 7, device="cuda").t()]
        tensorfile.save(str(tmp_path / "file"), tensors)
        loaded = tensorfile.load(str(tmp_path / "file"), device="cuda")
        tensorfile.write(given, loaded.skeleton, loaded.tensors, memory, loaded.heads)
        assert os.path.getsize(given) < 4096
        subprocess.run(
            [sys.executable, "-c", CHILD, str(memory.fd), str(memory.nbytes), given, answer],
            pass_fds=(memory.fd,),
            check=True,
        )
        assert os.path.getsize(answer) < 4096
        found = tensorfile.load(answer, device="cuda", exchange=memory)
        for one, other in zip(found.tensors, tensors, strict=True):
            assert one.stride() == other.stride()
            assert torch.equal(one, other * 2)
        with pytest.raises(ValueError, match="outside"):
            memory.take(memory.nbytes - 4, 8)
        memory.close()
        assert memory.fd == -1
    del loaded, found, tensors, one, other
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] > free - (64 << 20)


def test_what_is_larger_than_the_memory_is_poured_through_it(tmp_path: Path) -> None:
    judge = Exchange.create(4 << 20)
    child = Exchange.attach(os.dup(judge.fd), judge.nbytes)
    judge.most = 256 << 20
    child.tell = lambda piece: judge.pour(**piece)
    tensors = [
        torch.arange(100, device="cuda"),
        torch.randn(5 << 20, device="cuda"),
        torch.randn(9 << 20).cuda().half(),
    ]
    path = str(tmp_path / "answer")
    tensorfile.save(path, tensors, child)
    assert os.path.getsize(path) < 4096
    found = tensorfile.load(path, 256 << 20, "cuda", judge)
    assert all(torch.equal(one, other) for one, other in zip(found.tensors, tensors, strict=True))
    judge.forget()
    child.close()
    judge.close()


def test_a_large_reference_is_made_on_the_gpu(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        return torch.softmax(x, 1)\n"
        "\n\ndef get_inputs():\n    return [torch.rand(1024, 1 << 18)]\n"
    )
    problem = {
        "path": str(tmp_path / "module.py"),
        "text": text,
        "qualname": "Model",
        "mode": "eval",
        "class_span": {"start": 3, "end": 0},
        "device": "cuda",
        "inputs": {"source": "functions", "inputs_function": "get_inputs", "init_function": None},
    }
    begin = time.monotonic()
    torch.cuda.reset_peak_memory_stats()
    reference = Reference(problem, 5, str(tmp_path), lambda text: None)
    print(f"{time.monotonic() - begin:.1f} s", reference.plan, *reference.notes, sep="\n")
    assert reference.plan.large
    assert reference.cases[0].own_errors is not None
    assert {"seeded", "batch", "strided"} <= {case.kind.value for case in reference.cases + reference.special}
    assert tensorfile.load(reference.cases[0].inputs_path).heads[0]["device"] == "cuda"
    assert torch.cuda.memory_allocated() <= 0.06 * torch.cuda.mem_get_info()[1]
