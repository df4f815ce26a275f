"""What the driver tells of a GPU is what torch and Triton say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.agents.machine import machine_lines
from stark_lsp.core.device import Device
from stark_lsp.core.wire import from_wire
from stark_lsp.judge.device import capabilities
from stark_lsp.judge.profile import roofline

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]


def test_a_gpu_is_described_as_torch_describes_it(tmp_path: Path) -> None:
    properties = torch.cuda.get_device_properties(0)
    device = from_wire(capabilities.describe("cuda", roofline.calibration(str(tmp_path), "cuda")), Device)
    assert device.capability == f"{properties.major}.{properties.minor}"
    assert device.processors == properties.multi_processor_count
    assert device.threads == properties.max_threads_per_multi_processor
    assert device.caches == (("L2", properties.L2_cache_size),)
    for ours, theirs in (
        (device.registers, "regs_per_multiprocessor"),
        (device.shared_bytes, "shared_memory_per_multiprocessor"),
        (device.block_shared_bytes, "shared_memory_per_block"),
        (device.block_shared_bytes_asked, "shared_memory_per_block_optin"),
    ):
        assert ours
        assert ours == getattr(properties, theirs, ours)
    assert device.block_registers
    assert device.block_registers <= device.registers
    assert device.bandwidth
    assert {"float32", "tf32", "bfloat16"} <= dict(device.rates).keys()
    lines = machine_lines(device)
    assert len(lines) >= 3
    print("\n".join(lines))


def test_what_tritons_dot_takes_is_what_its_options_say() -> None:
    compiler = pytest.importorskip("triton.backends.nvidia.compiler")
    assert tuple(capabilities.dot_precisions()) == tuple(compiler.CUDAOptions().allowed_dot_input_precisions)
    assert capabilities.triton_version()
