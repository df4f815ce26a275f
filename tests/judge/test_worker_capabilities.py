"""What the worker tells of its device: the driver's, the system's and the toolkit's own words."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.core.device import Device
from stark_lsp.core.wire import from_wire
from stark_lsp.judge.device import capabilities, toolkit
from stark_lsp.judge.transport import tensorfile

CALIBRATION = {"bandwidth": 4e10, "rates": {"float32": 2e11, "bfloat16": 9e11, "float16": 3e9}, "notes": []}
COMPILER = """
@dataclass(frozen=True)
class CUDAOptions:
    num_warps: int = 4
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: Tuple[str] = ("tf32", "tf32x3", "ieee")
"""


def test_a_cpu_is_described_with_what_was_measured() -> None:
    device = from_wire(capabilities.describe("cpu", CALIBRATION), Device)
    assert device.rates == (("float16", 3e9), ("float32", 2e11), ("bfloat16", 9e11)), "the slowest first"
    assert device.bandwidth == 4e10
    assert device.capability == device.triton == ""
    assert from_wire(capabilities.describe("cpu", None), Device).rates == ()


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs Linux")
def test_instructions_cores_and_caches_are_the_systems() -> None:
    device = from_wire(capabilities.describe("cpu", None), Device)
    flags = Path("/proc/cpuinfo").read_text().split()
    assert set(device.instructions) == set(capabilities.INSTRUCTIONS) & set(flags)
    assert device.processors is None or 1 <= device.processors <= (os.cpu_count() or 1)
    sizes = [size for _, size in device.caches]
    assert sizes == sorted(sizes)
    assert not any(name == "L1i" for name, _ in device.caches)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (COMPILER, ["tf32", "tf32x3", "ieee"]),
        (COMPILER.replace('("tf32", "tf32x3", "ieee")', "names()"), []),
        ("allowed_dot_input_precisions: object\n", []),
        ("class (", []),
    ],
)
def test_what_dot_takes_is_read_from_tritons_source_which_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: list[str]
) -> None:
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    package = tmp_path / "triton"
    (package / "backends" / "nvidia").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "backends" / "nvidia" / "compiler.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert capabilities.dot_precisions() == found
    (package / "backends" / "nvidia" / "compiler.py").unlink()
    assert capabilities.dot_precisions() == []


def test_headers_are_looked_for_in_the_toolkit_and_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setattr(capabilities, "FOLDERS", (str(tmp_path / "usr"),))
    for path in ("cuda/include/cublasLt.h", "usr/cute/tensor.hpp", "usr/cublasLt.h"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    found = dict(capabilities.headers())
    assert found["cuBLASLt"] == str(tmp_path / "cuda" / "include")
    assert found["CuTe"] == str(tmp_path / "usr")


def test_the_release_of_nvcc_is_what_it_prints(tmp_path: Path) -> None:
    program = tmp_path / "nvcc"
    program.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.48'\n")
    program.chmod(0o755)
    assert toolkit.release(str(program)) == "13.0"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert toolkit.release(str(program)) == ""


def test_strides_are_told_where_they_are_not_those_of_a_contiguous_tensor() -> None:
    square = torch.zeros(8, 4)
    assert tensorfile.layout_of(square) == "float32[8x4]"
    assert tensorfile.layout_of(square.t()) == "float32[4x8] (strides 1, 4)"
    assert tensorfile.layout_of(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)).endswith(
        "(strides 60, 1, 15, 3)"
    )
    assert tensorfile.layout_of(square.to_sparse()) == "float32[8x4]"
