"""Changing what belongs to others: torch, timers, the standard library."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..uses import CALL, LOAD, STORE
from ..words import Flag, Refusal, listed

_SETTINGS = (
    "torch.backends.",
    "torch._dynamo.config.",
    "torch._inductor.config.",
    "torch.jit._",
    "triton.knobs.",
    "numpy.random.",
    "warnings.",
    "logging.",
)
"""Stores that set an option, rather than replace a function. Precision has a check of its own."""
_TIMERS = listed(
    "Event elapsed_time synchronize perf_counter perf_counter_ns monotonic monotonic_ns time_ns process_time "
    "current_stream allclose assert_close load_state_dict manual_seed randn randn_like empty_cache __call__"
)
"""Names that only a judge's own objects have: setting them on anything is tampering."""
_GLOBAL_HOOKS = (
    "torch.nn.modules.module.register_module_forward_hook",
    "torch.nn.modules.module.register_module_forward_pre_hook",
    "torch.nn.modules.module.register_module_full_backward_hook",
    "torch.nn.modules.module.register_module_buffer_registration_hook",
    "torch.nn.modules.module.register_module_module_registration_hook",
    "torch.nn.modules.module.register_module_parameter_registration_hook",
    "torch.autograd.graph.saved_tensors_hooks",
    "torch.utils.rename_privateuse1_backend",
    "torch.utils.swap_tensors",
    "torch.set_default_device",
    "torch.set_default_dtype",
    "torch.set_default_tensor_type",
    "torch.cuda.set_device",
    "torch.cuda.set_stream",
    "torch.random.fork_rng",
    "torch.set_rng_state",
    "torch.cuda.set_rng_state",
    "torch.cuda.memory.change_current_allocator",
    "torch.cuda.memory.CUDAPluggableAllocator",
    "torch.cuda.CUDAPluggableAllocator",
    "torch.cuda.set_per_process_memory_fraction",
    "torch.cuda.cudart",
    "torch.cuda.memory._set_allocator_settings",
    "torch.cuda.caching_allocator_alloc",
    "torch.cuda.caching_allocator_delete",
    "torch.cuda.memory.caching_allocator_alloc",
    "torch.cuda.memory.caching_allocator_delete",
    "torch.UntypedStorage._new_shared_cuda",
    "torch.cuda.profiler",
    "torch.autograd.profiler",
    "torch.profiler",
    "torch.use_deterministic_algorithms",
)
_DISPATCH = (
    "torch.Tensor._make_subclass",
    "torch.Tensor._make_wrapper_subclass",
    "torch.utils._python_dispatch",
    "torch.overrides",
    "torch.utils._pytree.register_pytree_node",
    "torch._C.DispatchKey",
    "torch.library.impl",
    "torch.library.Library",
    "torch._dynamo.register_backend",
    "torch.Tensor.register_hook",
    "torch.fx.wrap",
)
_C_FINE = ("torch._C._cuda_getCurrentRawStream", "torch._C._cuda_getDeviceCount", "torch._C.FileCheck")
_FLAGS = {
    "torch.set_num_threads": "It changes how many threads torch uses.",
    "torch.set_flush_denormal": "It changes how the CPU treats tiny numbers.",
    "torch.cuda.CUDAGraph": "It replays a recorded CUDA graph, whose buffers are fixed.",
    "torch.cuda.graph": "It replays a recorded CUDA graph, whose buffers are fixed.",
    "torch.cuda.make_graphed_callables": "It replays a recorded CUDA graph, whose buffers are fixed.",
    "torch.cuda.Event": "It uses CUDA events.",
    "time.perf_counter": "It looks at the clock.",
    "time.time": "It looks at the clock.",
    "time.monotonic": "It looks at the clock.",
    "time.sleep": "It waits.",
    "torch.manual_seed": "It changes the random state.",
}


def patches(candidate: Candidate) -> Iterator[Refusal]:
    """Assigning to attributes of modules and classes that are not the file's."""
    ours = {use.path for use in candidate.reference.uses if use.kind == STORE} if candidate.reference else set()
    for use in candidate.uses:
        if use.kind != STORE or use.path in ours:
            continue
        path = use.path
        if path.startswith("@globals"):
            yield Refusal("It sets its own globals by text, so that what it does cannot be read.", use.line)
        elif path.startswith("builtins."):
            yield Refusal(f"It replaces {path.replace('builtins.', '')} for everybody.", use.line)
        elif "()" not in path and "[]" not in path and not path.startswith(_SETTINGS) and "." in path:
            yield Refusal(f"It assigns to {path.replace('?', '…')}, which belongs to others.", use.line)
        elif path.startswith(("sys.", "gc.")):
            yield Refusal(f"It changes {path.replace('[]', '')}.", use.line)
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and node.attr in _TIMERS:
            base = node.value
            if not (isinstance(base, ast.Name) and base.id in ("self", "cls", "ctx")):
                yield Refusal(f"It replaces {node.attr} of something.", node.lineno)
    for use in candidate.uses:
        if use.path.endswith(".__dict__") and "()" not in use.path and use.path != "@globals.__dict__":
            yield Refusal(f"It reaches into the names of {use.path[: -len('.__dict__')]}.", use.line)


def rebinding_parameters(candidate: Candidate) -> Iterator[Refusal]:
    """Global hooks, defaults and allocators of torch."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    for use in candidate.uses:
        if use.kind not in (CALL, LOAD):
            continue
        if use.path.startswith(_GLOBAL_HOOKS) and use.path not in ours:
            yield Refusal(f"It changes torch for everybody ({use.path.split('()')[0]}).", use.line)


def dispatch(candidate: Candidate) -> Iterator[Refusal]:
    """Tensor subclasses, dispatch modes, new meanings for torch's own operators."""
    for cls in candidate.classes.values():
        for base in cls.bases:
            for path in candidate.names.of(base):
                if path in (
                    "torch.Tensor",
                    "torch.nn.Parameter",
                    "torch.nn.parameter.Parameter",
                    "torch._tensor.Tensor",
                ):
                    yield Refusal("It makes a tensor class of its own; results must be plain tensors.", cls.lineno)
                elif path.endswith(("TorchFunctionMode", "TorchDispatchMode")):
                    yield Refusal("It intercepts torch's operators.", cls.lineno)
    for use in candidate.uses:
        path = use.path
        if path.startswith("torch.library.") and use.kind == CALL and isinstance(use.node, ast.Call):
            if path.endswith(("Library", "impl", "register_kernel", "define", "custom_op")) and _of_torch(
                candidate, use.node
            ):
                yield Refusal("It gives torch's own operators another meaning.", use.line)
        elif path.startswith(_DISPATCH) and not path.startswith("torch.library"):
            yield Refusal(f"It intercepts torch's operators ({path.split('()')[0]}).", use.line)
        elif path.startswith("torch._C.") and not path.startswith(_C_FINE):
            yield Refusal(f"It uses torch's internals ({path.split('()')[0]}).", use.line)


def _of_torch(candidate: Candidate, call: ast.Call) -> bool:
    """Whether a registration is for one of torch's own namespaces, or for one that cannot be told."""
    if not call.args:
        return True
    said = candidate.folder.fold(call.args[0])
    if said is None:
        return not candidate.names.functions(call.args[0]) and not isinstance(call.args[0], ast.Name)
    return said.value.split("::")[0] in ("aten", "prims", "_", "torch", "prim", "quantized", "c10d", "profiler")


def unusual(candidate: Candidate) -> Iterator[Flag]:
    """What is honest at times, and worth a note."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    seen: set[str] = set()
    for use in candidate.uses:
        words = _FLAGS.get(use.path)
        if words and use.path not in ours and words not in seen and use.kind in (CALL, LOAD):
            seen.add(words)
            yield Flag(words, use.line)
        if use.kind == STORE and use.path.endswith(".?") and "()" in use.path:
            yield Flag("It sets an attribute whose name is only known at run time.", use.line)
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Call) and len(node.args) >= 3 and "builtins.setattr" in candidate.names.of(node.func):
            target = node.args[0]
            known = isinstance(target, ast.Name) and target.id in ("self", "cls", "ctx", "module")
            said = candidate.folder.fold(node.args[1])
            if not known and said is None and not candidate.names.of(target):
                yield Flag("It sets an attribute whose name is only known at run time.", node.lineno)
