"""Compilers under the policy for builds: they work, and take no secret and not the machine with them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_cases import LAYERS, SOURCES, inside, need, policy_of, python

from stark_lsp.judge.sandbox import Layer
from stark_lsp.judge.sandbox.policy import Policy

pytestmark = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.value)

SECRET = "ANTHROPIC_API_KEY=sk-ant-canary-4711"
ADD = 'extern "C" int add(int a, int b) { return a + b; }\n'


@pytest.fixture
def policy(layer: Layer, tmp_path: Path) -> Policy:
    need(layer)
    return policy_of("build", tmp_path / "child")


@pytest.fixture
def key_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stark-home-", dir=Path.home()) as folder:
        path = Path(folder, "env")
        path.write_text(SECRET + "\n")
        yield path


def compile_it(layer: Layer, policy: Policy, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Hand a C++ file in and make a library of it."""
    Path(policy.inside, "source.cpp").write_text(source)
    library = os.path.join(policy.out, "library.so")
    argv = ["g++", "-shared", "-fPIC", *options, os.path.join(policy.inside, "source.cpp"), "-o", library]
    return inside(layer, policy, argv)


def test_a_library_is_built(layer: Layer, policy: Policy) -> None:
    done = compile_it(layer, policy, "#include <vector>\n#include <omp.h>\n" + ADD, "-O2", "-fopenmp")
    assert done.returncode == 0, done.stderr
    assert ctypes.CDLL(os.path.join(policy.out, "library.so")).add(40, 2) == 42


def test_a_secret_file_cannot_be_included(layer: Layer, policy: Policy, key_file: Path) -> None:
    done = compile_it(layer, policy, f'#include "{key_file}"\n' + ADD)
    assert done.returncode != 0
    assert "sk-ant" not in done.stdout + done.stderr


def test_a_secret_file_cannot_be_assembled_in(layer: Layer, policy: Policy, key_file: Path) -> None:
    done = compile_it(layer, policy, f'asm(".incbin \\"{key_file}\\"");\n' + ADD)
    assert done.returncode != 0
    assert not os.path.exists(os.path.join(policy.out, "library.so"))


def test_a_secret_file_cannot_be_named_on_the_command_line(layer: Layer, policy: Policy, key_file: Path) -> None:
    for options in ([f"-include{key_file}"], [f"@{key_file}"], [f"-Wl,-T,{key_file}"], [f"-fplugin={key_file}"]):
        done = compile_it(layer, policy, ADD, *options)
        assert done.returncode != 0
        assert "sk-ant" not in done.stdout + done.stderr


def test_a_compile_bomb_fails_at_the_limit(layer: Layer, policy: Policy) -> None:
    small = policy._replace(address_bytes=512 << 20)
    done = compile_it(layer, small, '#include "/dev/zero"\n' + ADD)
    assert done.returncode != 0
    assert not os.path.exists(os.path.join(policy.out, "library.so"))


def test_nvcc_builds_a_kernel(layer: Layer, policy: Policy) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    kernel = "__global__ void add(float* x) { x[threadIdx.x] += 1; }\n"
    launcher = 'extern "C" int launch(float* x) { add<<<1, 32>>>(x); return cudaGetLastError(); }\n'
    Path(policy.inside, "source.cu").write_text("#include <cuda_runtime.h>\n" + kernel + launcher)
    library = os.path.join(policy.out, "library.so")
    source = os.path.join(policy.inside, "source.cu")
    done = inside(layer, policy, [nvcc, "-arch=sm_90", "-shared", "-Xcompiler", "-fPIC", source, "-o", library])
    assert done.returncode == 0, done.stderr
    assert os.path.getsize(library) > 0


def test_programs_started_by_a_builder_have_the_limit_and_it_has_not(layer: Layer, policy: Policy) -> None:
    """A builder loads torch, whose CUDA libraries take more address space than any compiler should."""
    code = """
import importlib, resource, types
sys.modules['stark_worker'] = package = types.ModuleType('stark_worker')
package.__path__ = [VALUES[0]]
importlib.import_module('stark_worker.judge.sandbox').confine(VALUES[1])
shown = "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0])"
done = subprocess.run([sys.executable, '-I', '-S', '-c', shown], capture_output=True, text=True)
answer = [resource.getrlimit(resource.RLIMIT_AS)[0], int(done.stdout)]
"""
    from stark_lsp.judge.sandbox import instructions, wrap

    limited = policy._replace(address_bytes=1 << 30)
    values = [str(SOURCES), instructions(layer, limited)]
    program = f"import json, subprocess, sys\nVALUES = {values!r}\n{code}\nprint(answer)"
    done = subprocess.run(
        wrap(layer, limited, [sys.executable, "-I", "-c", program]), capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == f"[-1, {1 << 30}]", done.stderr


# In every run of the tests torch builds there, and judges' candidates compute.
@pytest.mark.slow
def test_torch_computes(layer: Layer, policy: Policy) -> None:
    pytest.importorskip("torch")
    code = "import torch; answer = [(torch.ones(64, 64) @ torch.ones(64, 64)).sum().item(), torch.get_num_threads()]"
    total, threads = python(layer, policy._replace(address_bytes=0), code)
    assert total == 64.0**3
    assert threads >= 1


def test_torch_builds_an_extension(layer: Layer, policy: Policy) -> None:
    pytest.importorskip("torch")
    if not any(
        os.access(os.path.join(folder, "ninja"), os.X_OK) for folder in [os.path.dirname(sys.executable), "/usr/bin"]
    ):
        pytest.skip("ninja is not installed")
    code = """
os.environ['PATH'] = os.path.dirname(sys.executable) + os.pathsep + os.environ['PATH']
os.environ['MAX_JOBS'] = '1'
os.mkdir('build')
from torch.utils.cpp_extension import load_inline
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    path = load_inline('added', ['extern "C" int add(int a, int b) { return a + b; }'], build_directory='build',
                       no_implicit_headers=True, is_python_module=False)
answer = [os.path.exists('build/added.so'), ctypes.CDLL('build/added.so').add(40, 2)]
"""
    assert python(layer, policy, code, timeout=120) == [True, 42]
