"""Launches that do not ask Triton anew how a kernel was compiled hand over what Triton itself would."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stark_lsp.playbook.inductor import triton as emitted

from .conftest import load

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, out_ptr, count, XBLOCK: tl.constexpr, WIDE: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + count, at < count)


"""
BLOCKS = {"XBLOCK": 32, "WIDE": True, "num_warps": 4, "num_stages": 1}


class _Driver:
    """Stands for a GPU that is not there."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 7

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """Return the module and what each launch was given: the kernel's number, the grid, the stream, the arguments."""
    triton = pytest.importorskip("triton")
    from triton.compiler.compiler import CompiledKernel

    monkeypatch.setattr(triton.runtime.driver, "_active", _Driver(), raising=False)
    (tmp_path / "add.py").write_text(KERNEL + emitted.DIRECT)
    module = load(tmp_path / "add.py", "direct_add")
    given: list[tuple[Any, ...]] = []

    class Compiled(CompiledKernel):
        """As `JITFunction` compiles one, but for what would need a GPU."""

        def __init__(self, number: int) -> None:
            self.number, self.module, self.function, self.packed_metadata = number, object(), None, None
            self._module_pid = 0

        def launch_metadata(self, *_: Any) -> None:
            return None

        @property
        def run(self) -> Any:
            return lambda *words: given.append((self.number, words[:3], words[3], words[-5:]))

    made: list[Compiled] = []

    def compile_it(key: Any, *_: Any, **__: Any) -> Compiled:
        made.append(Compiled(len(made)))
        module.add.device_caches[0][0][key] = made[-1]
        return made[-1]

    monkeypatch.setattr(module.add, "_do_compile", compile_it)
    return module, given


def test_a_later_launch_is_given_what_triton_gave_the_first(launches: Any) -> None:
    module, given = launches
    x, out = torch.empty(64), torch.empty(64)
    for _ in range(2):
        module._stark_launch(module.add, (2, 1, 1), x, out, 64, **BLOCKS)
    module.add[(2, 1, 1)](x, out, 64, **BLOCKS)
    first, later, usual = given
    assert first[:3] == later[:3] == usual[:3] == (0, (2, 1, 1), 7)
    for words in (first, later, usual):
        assert words[3][0] is x
        assert words[3][1] is out
        assert words[3][2:] == (64, 32, True)


def test_before_triton_3_3_every_launch_is_usual(launches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, given = launches
    monkeypatch.setattr(module.triton, "__version__", "3.2.0+git")
    for _ in range(2):
        module._stark_launch(module.add, (2, 1, 1), *(torch.empty(64), torch.empty(64), 64), **BLOCKS)
    assert [words[0] for words in given] == [0, 0]
    assert not module._stark_ready


def test_what_lies_elsewhere_is_compiled_for_that(launches: Any) -> None:
    module, given = launches
    x, out = torch.empty(66), torch.empty(64)
    for tensor, count in ((x[:64], 64), (x[1:65], 64), (x[:64], 33), (x[1:65], 64), (x[:64], 64)):
        module._stark_launch(module.add, (2, 1, 1), tensor, out, count, **BLOCKS)
    assert [words[0] for words in given] == [0, 1, 2, 1, 0]
