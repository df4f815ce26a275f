"""GPU memory that two processes see: what one puts there the other takes, and nothing is taken from outside of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.transport import tensorfile
from stark_lsp.judge.transport.exchange import Exchange

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

CHILD = """
import sys
import torch
from stark_lsp.judge import tensorfile
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
        assert tensorfile.save_shared(given, loaded, memory)
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
