"""Reports of compute-sanitizer: whose kernel, which error, which line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stark_lsp.judge.profile import names
from stark_lsp.judge.tools import sanitize

OUTSIDE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at fused(const float *, float *, long)+0x1b0 in /tmp/build/main.cu:9
=========     by thread (31,0,0) in block (7,0,0)
=========     Address 0x7f5c0a800400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f5c0a800000 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame:  [0x2f1b44] in libcuda.so.1
=========         Host Frame: cudaLaunchKernel [0x69ddb] in libcudart.so.12
=========
========= Invalid __global__ read of size 4 bytes
=========     at fused(const float *, float *, long)+0x1b0 in /tmp/build/main.cu:9
=========     by thread (30,0,0) in block (7,0,0)
=========     Address 0x7f5c0a800404 is out of bounds
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call.
=========     Saved host backtrace up to driver entry point at error
========= ERROR SUMMARY: 2 errors
"""

OLDER = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 16 bytes
=========     at 0x90 in /home/user/kernel.cu:40:void scale<float, (int)4>(T1 *, T1)
=========     by thread (0,0,0) in block (1,0,0)
=========     Address 0x7fb7ad4002c0 is misaligned
========= ERROR SUMMARY: 1 error
"""

NO_LINES = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at sum_rows+0x70
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f1d4e600000
=========
========= ERROR SUMMARY: 1 error
"""

LIBRARY = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, std::array<char *, (unsigned long)1>>(int, T2, T3)+0x70
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Invalid __global__ read of size 16 bytes
=========     at sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3+0x910
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""  # noqa: E501

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_a_read_outside_names_kernel_line_and_distance() -> None:
    found = sanitize.read(OUTSIDE)
    assert found == (
        "Invalid __global__ read of size 4 bytes",
        "fused",
        9,
        "1 bytes after the nearest allocation",
    )
    assert found is not None
    assert "fused" in found.message
    assert "line 9" in found.message
    assert "outside its memory" in found.message
    assert len(sanitize.findings(OUTSIDE)) == 2


def test_older_reports_and_templates_are_read() -> None:
    found = sanitize.read(OLDER)
    assert found is not None
    assert (found.kernel, found.line) == ("scale", 40)
    assert found.kind == "Invalid __global__ write of size 16 bytes"


def test_without_line_information_the_kernel_is_still_named() -> None:
    found = sanitize.read(NO_LINES)
    assert found is not None
    assert (found.kernel, found.line) == ("sum_rows", 0)


def test_kernels_of_libraries_are_not_the_candidates_fault() -> None:
    assert len(sanitize.findings(LIBRARY)) == 2
    assert sanitize.read(LIBRARY) is None
    mixed = LIBRARY.replace("========= ERROR SUMMARY: 2 errors\n", "") + NO_LINES
    found = sanitize.read(mixed)
    assert found is not None
    assert found.kernel == "sum_rows"


def report_of(kernel: str) -> str:
    return NO_LINES.replace("sum_rows", kernel)


@pytest.mark.parametrize(
    "name",
    [
        "gemv_f32",
        "flash_attention_fwd",
        "fmha_forward",
        "vectorized_elementwise_kernel",
        "sm90_gemm",
        "cutlass_like",
        "cublas_free_softmax",
    ],
)
def test_a_kernel_of_the_candidates_own_counts_whatever_it_is_called(name: str) -> None:
    assert sanitize.read(report_of(name)) is None, "by its name alone it is taken for one of a library"
    for reported in (
        name,
        f"{name}(const float *, long)",
        f"void {name}<float, (int)4>(T1 *)",
        f"void mine::{name}<4>(int)",
    ):
        found = sanitize.read(report_of(reported), [name])
        assert found is not None
        assert found.kernel.endswith(name)


def test_a_kernel_of_torch_is_not_the_candidates_because_it_has_one_of_that_name() -> None:
    theirs = report_of("void at::native::vectorized_elementwise_kernel<(int)4>(int, T2)")
    own = ["vectorized_elementwise_kernel"]
    assert sanitize.read(theirs, own) is None
    assert sanitize.read(theirs, own, ["_Z29vectorized_elementwise_kernelPf", "_ZN4mine3addEv"]) is None
    # Unless it was built with the candidate, in a namespace that it calls so.
    built = ["_ZN2at6native29vectorized_elementwise_kernelILi4EEEvPf"]
    assert sanitize.read(theirs, own, built) is not None


def test_kernels_of_header_libraries_that_are_built_into_it_are_not_its_own() -> None:
    theirs = report_of("void cub::DeviceReduceKernel<cub::Policy>(T1, T2)")
    assert sanitize.read(theirs, ["mine"], ["_ZN3cub18DeviceReduceKernelINS_6PolicyEEEvv", "_Z4minePf"]) is None


def test_a_kernel_that_only_the_compiler_knows_counts_as_well() -> None:
    """Such as one whose name is put together by a library's macro."""
    assert sanitize.read(report_of("gemv_rows(float *)")) is None
    assert sanitize.read(report_of("gemv_rows(float *)"), [], ["_Z9gemv_rowsPf"]) is not None
    anonymous = report_of("void (anonymous namespace)::gemv_rows<(int)4>(float *)")
    built = ["_ZN55_GLOBAL__N__0123abcd_4_main_cu_0123456789abcdef_0123459gemv_rowsILi4EEEvPf"]
    assert sanitize.read(anonymous, [], built) is not None


def test_a_kernel_that_nobody_knows_counts_unless_it_is_called_as_in_a_library() -> None:
    assert sanitize.read(OUTSIDE, ["other"]) is not None
    assert sanitize.read(LIBRARY, ["other"]) is None


@pytest.mark.parametrize("log", [CLEAN, "", "no report at all\nInvalid __global__ read of size 4 bytes\n"])
def test_a_clean_report_has_no_finding(log: str) -> None:
    assert sanitize.read(log) is None


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("fused(const float *, long)", "fused"),
        ("void scale<float, (int)4>(T1 *)", "scale"),
        ("void (anonymous namespace)::scale<(bool)1>(T1 *)", "{anonymous}::scale"),
        ("triton_poi_fused_relu_0", "triton_poi_fused_relu_0"),
    ],
)
def test_names_are_short(kernel: str, name: str) -> None:
    assert names.qualified(kernel) == name


def test_the_program_is_found_on_the_path_or_beside_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sanitize.available() in (None, "/usr/local/cuda/bin/compute-sanitizer")
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    program = tmp_path / "cuda" / "bin" / "compute-sanitizer"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert sanitize.available() == str(program)
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setenv("PATH", str(program.parent))
    assert sanitize.available() in (str(program), "/usr/local/cuda/bin/compute-sanitizer")


def test_whether_it_ran_to_its_end_is_read() -> None:
    assert not sanitize.complete("========= COMPUTE-SANITIZER\n")
    assert sanitize.complete("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")


def test_the_command_ends_with_the_program_and_tells_by_its_exit_code() -> None:
    command = sanitize.command("sanitizer", [], ["python", "-c", "pass"], "/tmp/log")
    assert command[-3:] == ["python", "-c", "pass"]
    assert command[command.index("--tool") + 1] == "memcheck"
    assert command[command.index("--error-exitcode") + 1] == str(sanitize.EXIT_CODE)
    assert command[command.index("--log-file") + 1] == "/tmp/log"


@pytest.mark.parametrize(
    "name",
    [
        "_ZN7cutlass6KernelI60cutlass_80_simt_sgemm_128x64_8x5_nn_align1EEvNT_6ParamsE",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        "ampere_sgemm_128x64_nn",
        "_Z16gemmk1_kernelIifLi256ELi5ELb0ELb0ELb0ELb0E",
    ],
)
def test_kernels_of_libraries_run_unwatched(name: str) -> None:
    command = sanitize.command("sanitizer", ["fused_softmax_0"], ["python"], "/tmp/log")
    pattern = command[command.index("--kernel-name-exclude") + 1]
    assert re.search(pattern.removeprefix("regex="), name)


def test_all_kernels_are_watched_where_one_of_its_own_is_called_like_those_of_libraries() -> None:
    assert "--kernel-name-exclude" not in sanitize.command("sanitizer", ["my_gemm"], ["python"], "/tmp/log")
    assert "--kernel-name-exclude" in sanitize.command("sanitizer", ["my_norm"], ["python"], "/tmp/log")
