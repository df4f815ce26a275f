"""Programs that Inductor of this torch writes for an H100 that is not there, as `record_programs.py` records them.

    python -m tests.playbook.pretended FOLDER NAME …

So what a new torch writes is seen before anybody has it on a GPU. Tensors are fake ones, nothing is compiled or timed:
blocks are chosen here, small ones. In a process of its own, since torch and Triton are told of a GPU.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._inductor.codegen.triton
import triton
from torch._dynamo.device_interface import CudaInterface
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._triton import has_triton
from triton.backends.compiler import GPUTarget

from stark_lsp.judge.analysis import convolution, inductor, inductor_gpu, rewrites, slim_template
from stark_lsp.judge.analysis.rewrites import convolutions, direct

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

from record_programs import MODULE, MODULES

from .conftest import load

H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65536,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    total_memory=80 << 30,
    L2_cache_size=50 << 20,
    is_integrated=0,
    gcnArchName="",
)
KERNEL = re.compile(r"^(triton_\w+) = async_compile\.triton\('\w+', '''(.*?)^''', device_str", re.DOTALL | re.MULTILINE)
SETTINGS = re.compile(r"(triton_meta|inductor_meta)=\{.*\},?\n")


class Driver:
    """What Triton asks of a GPU's driver before it compiles anything."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_current_device(self) -> int:
        return 0


@contextlib.contextmanager
def pretending() -> Iterator[None]:
    """Have torch and Triton take it that there is an H100."""
    triton.runtime.driver.set_active(Driver())
    with contextlib.ExitStack() as stack:
        for name, value in (
            ("torch.cuda.is_available", True),
            ("torch.cuda.device_count", 1),
            ("torch.cuda.current_device", 0),
            ("torch.cuda.get_device_properties", H100),
            ("torch.cuda.get_device_capability", (9, 0)),
        ):
            stack.enter_context(mock.patch(name, lambda *given, value=value: value))
        for place, name, value in (
            (CudaInterface, "is_available", True),
            (CudaInterface, "current_device", 0),
            (CudaInterface, "get_compute_capability", 90),
            (CudaInterface, "get_device_properties", H100),
            (CudaInterface.Worker, "get_device_properties", H100),
        ):
            stack.enter_context(mock.patch.object(place, name, return_value=value))
        # A convolution lies in memory as its input does, as by cuDNN.
        stack.enter_context(
            mock.patch(
                "torch._C._conv_determine_backend_memory_format",
                lambda x, *given: torch.channels_last if x.stride(1) == 1 else torch.contiguous_format,
            )
        )
        # Whether there is Triton is remembered.
        assert has_triton()
        yield


def written(form: Any, tensors: list[torch.Tensor], families: Sequence[str] = ()) -> str:
    """Return what Inductor writes for a function of such tensors, by rules of these families."""
    with pretending(), FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        given = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda") for x in tensors]
        graph = make_fx(form, decomposition_table=select_decomp_table())(*given)
        assert not families or rewrites.apply(graph.graph, families)
        # As `torch.compile` has it, which looks whether inputs are aligned.
        known = "inputs_to_check" in signature(GraphLowering).parameters
        more: dict[str, Any] = {"inputs_to_check": range(len(given))} if known else {}
        lowering = GraphLowering(graph, example_inputs=given, shape_env=mode.shape_env, **more)
        with (
            V.set_graph_handler(lowering),
            V.set_extern_kernel_nodes([]),
            V.set_debug_handler(DebugContext()),
            V.set_fake_mode(mode),
        ):
            lowering.run(*given)
            code = lowering.codegen()[0]
    return SETTINGS.sub(r"\1={},\n", str(getattr(code, "value", code)))


def launches(code: str) -> list[dict[str, Any]]:
    """Return a launch of each kernel, in order, by small blocks."""
    kernels = dict(KERNEL.findall(code))
    found = []
    for name, given in re.findall(r"^\s+(triton_\w+)\.run\((.*), stream=", code, re.MULTILINE):
        (function,) = re.findall(rf"def {name}\((.*?)\):", kernels[name], re.DOTALL)
        sizes = {axis: int(size) for axis, size in re.findall(r"^    (\w+)numel = (\d+)$", kernels[name], re.MULTILINE)}
        blocks = {}
        for axis, size in sizes.items():
            if f"{axis.upper()}BLOCK" in re.findall(r"(\w+)\s*:\s*tl\.constexpr", function):
                most = 64 if axis.startswith("r") or len(sizes) == 1 else 8
                blocks[axis] = min(1 << max(0, size - 1).bit_length(), most)
        if fixed := name.startswith("triton_tem"):
            grid = [int(size) for size in given.split(", ")[-3:]]
        else:
            grid = [-(-sizes[axis] // blocks[axis]) if axis in blocks else 1 for axis in "xyz"]
        config = {f"{axis.upper()}BLOCK": block for axis, block in blocks.items()}
        found.append({"kernel": name, "grid": grid, "fixed": fixed, "config": config, "num_warps": 4, "num_stages": 1})
    return found


def record(name: str, folder: Path) -> dict[str, Any]:
    """Return the record of one of the modules that `record_programs.py` knows."""
    init, arguments, forward, inputs, recipe = MODULES[name]
    text = MODULE.format(init=init, arguments=arguments, forward=forward, inputs=inputs)
    path = folder / f"{name}_module.py"
    path.write_text(text)
    module = load(path, path.stem)
    model, given = module.Model().eval(), module.get_inputs()
    # What is told of the module and its arguments is the same on a CPU.
    made = inductor.program(model, tuple(given), {}, str(path))
    state = dict(model.state_dict())

    def form(*tensors: torch.Tensor) -> Any:
        return torch.func.functional_call(
            model, dict(zip(state, tensors[len(given) :], strict=True)), tensors[: len(given)]
        )

    code = written(form, [*given, *state.values()], recipe.get("rewrites", ()))
    known = {one["expression"]: one for one in made["arguments"]}
    made["arguments"] = [known[one] for one in (*arguments.split(", "), *(f"self.{one}" for one in state))]
    helpers = inductor_gpu._helpers(inductor_gpu.HELPER.findall(code))
    made.update(code=code, device="cuda", capability=[9, 0], helpers=helpers, launches=launches(code))
    return {"text": text, "recipe": None, "made": made}


def main() -> int:
    """Record modules by name."""
    folder, *names = sys.argv[1:]
    with pretending():
        pass
    convolution.register()
    slim_template.register()
    # One block, which need not be timed, and small convolutions.
    convolution.BLOCKS = ((32, 32, 32, 2, 4), (32, 32, 64, 2, 4))
    convolution.DIRECT_BLOCKS = ((32, 32, 16, 2, 4),)
    convolutions.LEAST, direct.LEAST = 1, 1
    for name in names:
        rounded = None if name.startswith("convolution_direct") else False
        convolutions.rounds_up = lambda *given, rounded=rounded: rounded
        (Path(folder) / f"{name}.json").write_text(json.dumps(record(name, Path(folder)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
