"""What torch.compile makes of a module, to be taken apart: Inductor's program, and what its arguments and results are.

Inductor is asked as `torch.compile` asks it, without gradients, or as a recipe says. On a CPU its C++ is written, but
not compiled; on a GPU its Triton runs, so that it is tuned (`inductor_gpu`). The private parts of torch that this
touches are in these two files, and whatever they lack in a version of torch is told.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch

from ...contract.errors import first_line
from ..correctness import stepping
from . import inductor_gpu, inductor_step, parts, rewrites
from .call import Call, begin
from .conditions import LENGTH, ROWS
from .frames import NotTraceable
from .inductor_step import is_tensor, key
from .rewrites import slim
from .rewrites.own import Own
from .sizes import Sizes, restrided, ways, wider

LOGS = ("critical", "debug", "error", "exception", "fatal", "info", "log", "warn")
"""How the names of a logger's methods begin that return nothing."""
EMPTY = "_empty_strided_cpu"
"""What programs make their results with on a CPU."""
SETTINGS = "_get_dynamo_config_for_logging"
"""What tells Dynamo's settings as text."""
RANDOM = re.compile(r"inductor_seeds|\btl\.rand|philox|normalized_rand")
"""Signs of random numbers in a program that are not PyTorch's own."""
NUMBERS = 1024
"""How many numbers a tensor may have that a program holds."""


def warm_up(device: str) -> None:
    """Compile something small on a device, so that the compiler is imported and has come up.

    What fails here is told when a program is asked for.
    """
    with contextlib.suppress(Exception), torch.no_grad():
        torch.compile(torch.sin, fullgraph=True, dynamic=False)(torch.ones(8, device=device))


def program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    path: str = "",
    recipe: Mapping[str, Any] | None = None,
    way: int = 0,
    ones: bool = True,
) -> dict[str, Any]:
    """Return Inductor's program for one call of a module as JSON values.

    Parameters
    ----------
    module
        The user's module, on its device and in the mode it is timed in.
    args, kwargs
        Example inputs on the same device.
    path
        The user's file, for the lines of operations.
    recipe
        What is done otherwise than by `torch.compile`: `rewrites`, families of rules to apply first; on a GPU also
        `options`, settings of `torch._inductor.config`, and `products`, the `input_precision` of `tl.dot` in products
        of float32; or `plain`, to compile nothing: the program is then the module's own forward, and `code` is empty;
        with `backward`, what is compiled records gradients, and `inductor_step` tells of the program for backward;
        with `batch`, it is one for other sizes of the inputs' first dimension as well, if that can be, and with
        `length` for those of one more, such as a text's.
        `own` has the user's rewrites, the text of a file by the name that stands among `rewrites`.
    way
        Which of `sizes.ways` is the first to be tried, and
    ones
        whether for sizes of one first.

    Returns
    -------
    dict
        `code`; `device`, `cpu` or `cuda`; `arguments`, for each an expression such as `x` or `self.weight`, or a
        number; `unread`, the inputs that are not among them; `others`, the arguments that are no tensors, and `lists`,
        those of tensors that parts hold, with what `Items` tells; `result`, an expression of `out`, the tuple that the
        program returns; `lines` that operations come from; `ends`, which of that tuple no gradient leads back from;
        `weightless`, from which one leads to inputs alone; `tied`, tensors that it holds by two names; `mode_matters`,
        whether it does something else in training; `changes`, buffers that a call changes; `module`, a digest of its
        parts and settings; `unasked`, names of settings that are not among these; `parts`, path, class and settings of
        each; `reads`, what else forward may read that is no
        tensor, each with its value as it is written; `rewrites`, the families of which a rule fits; `errors`, what is
        wrong with the user's by name; `draws`, whether it takes numbers from the global generators; `sizes`, if some
        are left open, what `Sizes.told` says; `lengths`, whether more might be with `length`; on a CPU
        `capability`, the vector instructions it is written for; on a GPU what `inductor_gpu.found` says; `backward`, if
        that was asked for, what `inductor_step.found` says.

    Raises
    ------
    NotTraceable
        The module cannot be compiled as a whole, or what the program does besides cannot be told from outside.
    """
    try:
        from torch._inductor import compile_fx
        from torch._inductor.utils import run_and_get_code
    except (ImportError, AttributeError) as error:
        # A folder of the user's that is called as a package of torch's can be in the way as well.
        raise NotTraceable(f"torch {torch.__version__} has no Inductor as it is known here: {error}") from error
    again = functools.partial(program, module, args, kwargs, path, recipe)
    begin(module, args, kwargs)
    call = Call(module, args, kwargs)
    devices = {tensor.device for _, tensor in call.named}
    if len(devices) != 1:
        raise NotTraceable("its tensors are on several devices")
    device = devices.pop().type
    if recipe and recipe.get("plain"):
        return _plain(call, args, kwargs)
    recipe = recipe or {}
    sizes = ways(call.inputs, recipe)[way]
    if sizes.known.get(ROWS) == 1:
        # Inductor compares sizes by those of the example: a batch of one would be none.
        try:
            args, kwargs = sizes.repeated(args, kwargs)
        except RuntimeError:  # there is no memory
            return again(way + 1)
        call = Call(module, args, kwargs)
        sizes = sizes.of(call.inputs)
    seen = _Seen(compile_fx.compile_fx_inner, path, recipe, sizes)

    def backend(graph: Any, inputs: list[Any]) -> Any:
        seen.graph(graph)
        sizes.look(graph.graph)
        if sizes and device == "cuda" and seen.convolves:
            raise ValueError("Inductor chooses the layout of images where it knows all sizes")
        return compile_fx.compile_fx(graph, inputs, inner_compile=seen.compile)

    more: dict[str, Any] = {"capability": _capability()} if device == "cpu" else {}
    step = inductor_step.Step(call.named) if recipe.get("backward") else None
    torch.compiler.reset()
    try:
        how = _written_only() if device == "cpu" else inductor_gpu.by(recipe)
        with torch.set_grad_enabled(step is not None), _anew(), how, sizes.marked(ones=ones):
            compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=sizes.dynamic)
            _, codes = run_and_get_code(step.both(compiled) if step else compiled, *args, **kwargs)
            noting = inductor_gpu.noting if device == "cuda" else contextlib.nullcontext
            with noting() as launches:
                states = stepping.random_states()
                result = compiled(*args, **kwargs)
                draws = not all(map(torch.equal, states, stepping.random_states()))
            with noting() as behind:
                gradients = step.back(result) if step else {}
            if launches is not None:
                more |= inductor_gpu.found(launches, str(codes[0]) if codes else "")
    except NotTraceable:
        raise
    except Exception as error:
        if seen.nothing:
            raise NotTraceable("no rule fits it") from error
        # What Dynamo does not know it knows for no batch.
        if LENGTH in sizes.known or (sizes and not isinstance(error, torch._dynamo.exc.Unsupported)):
            here = ones and seen.whole
            return again(way + (not here), not here)
        raise NotTraceable(f"torch.compile does not take it as a whole: {first_line(error, 300)}") from error
    finally:
        torch.compiler.reset()
    if seen.nothing:
        raise NotTraceable("no rule fits it")
    runs = 2 if step else 1
    if len(codes) != runs or len(seen.calls) != 2 * runs:
        raise NotTraceable(f"torch.compile makes {len(codes)} programs of it")
    held = [{} if parts.unasked(module) else one for one in seen.held[-runs:]]
    code, *behind_it = (_with_numbers(str(one), numbers) for one, numbers in zip(codes, held))
    if any(RANDOM.search(str(one)) for one in codes) or (draws and not module.training):
        raise call.random()
    changed = call.changed()
    call.keep_settings()
    arguments, outputs = seen.calls[-runs]
    if sizes:
        launched = [[] if one is None else one for one in (launches, behind)[:runs]]
        told = sizes.told(arguments, [code, *behind_it], launched)
        if told is None or _apart(outputs, seen.layouts[-runs]):
            return again(way + 1)
        more["sizes"] = told
    more["lengths"] = wider(call.inputs, recipe) and not (device == "cuda" and seen.convolves)
    if step:
        behind_gpu = inductor_gpu.found(behind, str(codes[1])) if behind is not None else {}
        more["backward"] = behind_gpu | step.found(behind_it[0], *seen.calls[-1], outputs, gradients, sizes.names)
    return {
        "code": code,
        "device": device,
        "lines": sorted(seen.lines),
        "rewrites": seen.fitting,
        "errors": seen.own.errors,
        "draws": draws,
        "default": str(torch.get_default_dtype()),
        "makes": seen.makes,
        **call.told(arguments, outputs, result, changed, sizes.names),
        **more,
    }


def _plain(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the module's own forward in the place of a program, if calls change nothing but buffers, in place."""
    module, random = call.module, stepping.random_states()
    buffers = dict(module.named_buffers())
    # Batch norm's statistics change under the same version.
    own = call.buffers()
    values = {text: tensor.clone() for text, tensor in own.items()}
    on_gpu = any(tensor.is_cuda for _, tensor in call.named)
    with torch.no_grad(), inductor_gpu.never_waiting() if on_gpu else contextlib.nullcontext():
        result = module(*args, **kwargs)
    if not all(map(torch.equal, random, stepping.random_states())):
        raise call.random()
    changed = {*call.changed(), *(text for text in own if not torch.equal(own[text], values[text]))}
    after = dict(module.named_buffers())
    moved = after.keys() != buffers.keys() or any(after[name] is not one for name, one in buffers.items())
    if moved:
        raise NotTraceable("a call changes what the next one gives")
    call.keep_settings()
    outputs: list[Any] = []
    torch.utils._pytree.tree_map(lambda leaf: outputs.append(leaf) if isinstance(leaf, torch.Tensor) else None, result)
    return {
        "code": "",
        "device": outputs[0].device.type if outputs else "cpu",
        "lines": [],
        **call.told([tensor for _, tensor in call.named], outputs, result, sorted(changed), {}),
        "capability": list(torch.cuda.get_device_capability()) if torch.cuda.is_available() else [0, 0],
    }


def _with_numbers(code: str, held: Mapping[str, Any]) -> str:
    """Return a program with the small tensors that it holds, which forward makes of numbers, as `torch.tensor`."""
    for name, one in held.items():
        if isinstance(one, torch.Tensor) and one.numel() <= NUMBERS and one.is_contiguous() and not one.is_complex():
            numbers = re.sub(r"\b(inf|nan)\b", r'float("\1")', repr(one.tolist()))
            code += f"\n{name} = torch.tensor({numbers}, dtype={one.dtype})\n"
    return code


def _capability() -> str:
    """Return the vector instructions that Inductor writes for; they must be those of PyTorch's own kernels."""
    try:
        from torch._inductor.cpu_vec_isa import pick_vec_isa
    except ImportError as error:
        raise NotTraceable(f"torch {torch.__version__} has no Inductor as it is known here: {error}") from error
    vectors = [name for name in pick_vec_isa().build_macro() if name]
    capability = torch.backends.cpu.get_cpu_capability()
    if vectors and f"CPU_CAPABILITY_{capability}" not in vectors:
        raise NotTraceable(f"it writes for {', '.join(vectors)}, where PyTorch's own kernels are for {capability}")
    return str(capability)


def _layout(node: Any) -> str:
    """Return shape, strides and beginning of a tensor of a graph, by the sizes."""
    one = getattr(node, "meta", {}).get("val")
    return f"{tuple(one.shape)} {one.stride()} {one.storage_offset()}" if isinstance(one, torch.Tensor) else ""


def _apart(outputs: Sequence[Any], layouts: Sequence[str]) -> bool:
    """Whether two results that are one at the example's sizes, as `y` and `y[:, :12]`, are not at others."""
    found: dict[Any, str] = {}
    return any(found.setdefault(key(one), text) != text for one, text in zip(outputs, layouts) if is_tensor(one))


MAKERS = ("arange", "zeros", "ones", "full", "linspace", "eye", "tensor", "scalar_tensor", "rand", "randn", "empty")
"""Functions that make numbers, of the default dtype where none is named."""


class _Seen:
    """What goes into the compiler and into its program, and comes out."""

    def __init__(self, inner: Callable[..., Any], path: str, recipe: Mapping[str, Any], sizes: Sizes) -> None:
        self._inner = inner
        self._sizes = sizes
        self._path = path
        self._recipe = recipe
        self.own = Own(recipe.get("own") or {})
        self.fitting: list[str] = []
        """Families of which a rule fits."""
        self.used = 0
        """How many times a rule was used."""
        self.nothing = False
        """Whether rewriting was asked for and fits nowhere."""
        self.convolves = False
        """Whether there are convolutions."""
        self.makes = False
        """Whether numbers are made, perhaps of the default dtype."""
        self.whole = False
        """Whether a whole graph came."""
        self.calls: list[tuple[list[Any], list[Any]]] = []
        self.layouts: list[list[str]] = []
        """How what each program gives lies in memory, by the sizes; in the order of its calls."""
        self._strides: dict[str, tuple[str, ...] | None] = {}
        """Of what the program for forward gives, as expressions, by the names of its graph."""
        self.held: list[dict[str, Any]] = []
        """The tensors that each program holds, by name; in the order of its calls."""
        self.lines: set[int] = set()

    def graph(self, graph: Any) -> None:
        """Note where the operations of a graph come from, the innermost line in the user's file, and what matters."""
        for node in graph.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            self.convolves |= "conv" in str(node.target)
            self.makes |= getattr(node.target, "__name__", "") in MAKERS and "dtype" not in node.kwargs
            places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
            lines = [int(line) for file, line in places if file == self._path]
            if lines:
                self.lines.add(lines[-1])

    def compile(self, graph: Any, inputs: Any, **how: Any) -> Any:
        """Compile a graph and watch what its program is called with."""
        self.whole = True
        with self._sizes.asking(graph.graph):
            fitting = rewrites.fitting(graph.graph, self.own)
            families, any_size = self._recipe.get("rewrites") or (), bool(self._sizes)
            self.used += rewrites.apply(graph.graph, families, self.own, any_size=any_size)
            if self._recipe.get("products"):
                rewrites.apply(graph.graph, ["split"], any_size=any_size)
        slim.bound(graph.graph, asked=bool(self._recipe.get("length")))
        self.fitting += [family for family in fitting if family not in self.fitting]
        self.nothing = bool(families) and not self.used
        # Where backward is compiled behind it, a rule may fit there.
        if self.nothing and not self._recipe.get("backward"):
            raise ValueError("nothing is rewritten")
        graph.recompile()
        (output,) = (node for node in graph.graph.nodes if node.op == "output")
        names = [getattr(one, "name", "") for one in output.args[0]]
        made = self._inner(graph, self._by_sizes(graph, inputs) if how.get("is_backward") else inputs, **how)
        self._strides = dict(zip(names, getattr(made, "output_strides", None) or ()))
        layouts = [_layout(one) for one in output.args[0]]

        def run(given: list[Any]) -> Any:
            arguments = list(given)
            outputs = made(given)
            self.calls.append((arguments, list(outputs)))
            self.layouts.append(layouts)
            self.held.append(getattr(made, "constants", None) or {})
            return outputs

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _by_sizes(self, graph: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return inputs of the graph for backward with the strides that forward's program says.

        AOT autograd knows them as the example's numbers, and fixes the sizes by these.
        """
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        return [
            restrided(one, node.meta.get("val"), self._strides.get(node.name) or ()) for node, one in zip(nodes, inputs)
        ]


@contextlib.contextmanager
def _anew() -> Iterator[None]:
    """Have programs be written anew, not found among those that were made before, and whole where forward logs."""
    import torch._dynamo.config
    import torch._dynamo.utils
    import torch._functorch.config
    import torch._inductor.config

    # What logs or warns breaks a graph otherwise: transformers adds methods such as `warning_once`.
    logs = [getattr(logging.Logger, name) for name in dir(logging.Logger) if name.startswith(LOGS)] + [warnings.warn]
    changed: dict[Any, dict[str, Any]] = {
        # PyTorch's own dropout draws as the original does, from the same seed.
        torch._inductor.config: {"fx_graph_cache": False, "fallback_random": True},
        # Who differentiates twice finds what was kept for backward as it was.
        torch._functorch.config: {"enable_autograd_cache": False, "donated_buffer": False},
        torch._dynamo.config: {"ignore_logger_methods": set(logs)},
    }
    with contextlib.ExitStack() as stack:
        # Of that torch 2.11 makes no text for its own statistics, and logs an error.
        if hasattr(torch._dynamo.utils, SETTINGS):
            stack.enter_context(mock.patch.object(torch._dynamo.utils, SETTINGS, return_value=None))
        for config, values in changed.items():
            known = {name: value for name, value in values.items() if hasattr(config, name)}
            stack.enter_context(config.patch(known))
        yield


@contextlib.contextmanager
def _written_only() -> Iterator[None]:
    """Have programs be written for any number of threads; what they call is not compiled and does nothing.

    Its results are zeros, since PyTorch may take them for indices.
    """
    import torch._inductor.config
    from torch._C._dynamo import guards

    def nothing(*given: Any, **more: Any) -> Callable[..., None]:
        return lambda *given, **more: None

    empty = getattr(guards, EMPTY)
    with torch._inductor.config.patch({"cpp.dynamic_threads": True, "compile_threads": 1}):
        from torch._inductor.async_compile import AsyncCompile

        zeros = mock.patch.object(guards, EMPTY, lambda *given: empty(*given).zero_())
        with zeros, mock.patch.object(AsyncCompile, "cpp_pybinding", nothing):
            yield
