"""What torch.compile makes of a module, to be taken apart: Inductor's program, and what its arguments and results are.

Inductor is asked as `torch.compile` asks it, without gradients, or as a recipe says. On a CPU its C++ is written, but
not compiled; on a GPU its Triton runs, so that it is tuned (`inductor_gpu`). The private parts of torch that this
touches are in these two files, and whatever they lack in a version of torch is told.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from ...contract.errors import first_line
from ..correctness import forward, state
from ..reference import modules
from . import inductor_gpu, inductor_step, rewrites
from .frames import NotTraceable
from .inductor_step import argument, key
from .rewrites.own import Own

MODES = ("Dropout", "BatchNorm", "InstanceNorm", "RNN", "LSTM", "GRU", "MultiheadAttention", "RReLU")
"""Words in the names of torch's classes that do something else in training."""
LOGS = ("critical", "debug", "error", "exception", "fatal", "info", "log", "warn")
"""How the names of a logger's methods begin that return nothing."""
EMPTY = "_empty_strided_cpu"
"""What programs make their results with on a CPU."""
SETTINGS = "_get_dynamo_config_for_logging"
"""What tells Dynamo's settings as text."""
RANDOM = re.compile(r"inductor_seeds|\btl\.rand|philox|normalized_rand")
"""Signs of random numbers in a program that are not PyTorch's own."""


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
        with `backward`, what is compiled records gradients, and `inductor_step` tells of the program for backward.
        `own` has the user's rewrites, the text of a file by the name that stands among `rewrites`.

    Returns
    -------
    dict
        `code`; `device`, `cpu` or `cuda`; `arguments`, for each an expression such as `x` or `self.weight`, or a
        number; `result`, an expression of `out`, the tuple that the program returns; `lines` that operations come from;
        `ends`, which of that tuple no gradient leads back from; `tied`, parameters of two parts that are one;
        `mode_matters`, whether it does something else in training; `changes`, buffers that a call changes; `module`, a
        digest of its parts and settings; `parts`, path, class and settings of each; `values`, arguments that are no
        tensors; `rewrites`, the families of which a rule fits; `errors`, what is wrong with the user's by name;
        `draws`, whether it takes numbers from the global generators; on a CPU `capability`, the vector instructions it
        is written for; on a GPU what `inductor_gpu.found` says; `backward`, if that was asked for, what
        `inductor_step.found` says.

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
    call = _Call(module, args, kwargs)
    devices = {tensor.device for _, tensor in call.named}
    if len(devices) != 1:
        raise NotTraceable("its tensors are on several devices")
    device = devices.pop().type
    if recipe and recipe.get("plain"):
        return _plain(call, args, kwargs)
    seen = _Seen(compile_fx.compile_fx_inner, path, recipe or {})

    def backend(graph: Any, inputs: list[Any]) -> Any:
        seen.graph(graph)
        return compile_fx.compile_fx(graph, inputs, inner_compile=seen.compile)

    more: dict[str, Any] = {"capability": _capability()} if device == "cpu" else {}
    step = inductor_step.Step(call.named) if recipe and recipe.get("backward") else None
    torch.compiler.reset()
    try:
        how = _written_only() if device == "cpu" else inductor_gpu.by(recipe or {})
        with torch.set_grad_enabled(step is not None), _anew(), how:
            compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=False)
            _, codes = run_and_get_code(step.both(compiled) if step else compiled, *args, **kwargs)
            noting = inductor_gpu.noting if device == "cuda" else contextlib.nullcontext
            with noting() as launches:
                states = forward.random_states()
                result = compiled(*args, **kwargs)
                draws = not all(map(torch.equal, states, forward.random_states()))
            with noting() as behind:
                gradients = step.back(result) if step else {}
            if launches is not None:
                more |= inductor_gpu.found(launches, str(codes[0]) if codes else "")
    except NotTraceable:
        raise
    except Exception as error:
        if seen.nothing:
            raise NotTraceable("no rule fits it") from error
        raise NotTraceable(f"torch.compile does not take it as a whole: {first_line(error, 300)}") from error
    finally:
        torch.compiler.reset()
    if seen.nothing:
        raise NotTraceable("no rule fits it")
    runs = 2 if step else 1
    if len(codes) != runs or len(seen.calls) != 2 * runs:
        raise NotTraceable(f"torch.compile makes {len(codes)} programs of it")
    code = str(codes[0])
    if any(RANDOM.search(str(one)) for one in codes) or (draws and not module.training):
        raise call.random()
    changed = call.changed()
    if not call.same_settings():
        raise NotTraceable("it changes its settings")
    arguments, outputs = seen.calls[-runs]
    if step:
        told = inductor_gpu.found(behind, str(codes[1])) if behind is not None else {}
        more["backward"] = told | step.found(str(codes[1]), *seen.calls[-1], outputs, gradients)
    return {
        "code": code,
        "device": device,
        "lines": sorted(seen.lines),
        "rewrites": seen.fitting,
        "errors": seen.own.errors,
        "draws": draws,
        **call.told(arguments, outputs, result, changed),
        **more,
    }


class _Call:
    """A call of a module: what goes in, and what is told of it whatever takes its place."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        self.module, self._given = module, (args, kwargs)
        self.named = [(name, value) for name, value in bound.arguments.items() if isinstance(value, torch.Tensor)]
        """Inputs, parameters and buffers, each with the expression it has in `forward`."""
        for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
            self.named.append((_expression(path), tensor))
        bound.apply_defaults()
        self._values = {name: one for name, one in bound.arguments.items() if not isinstance(one, torch.Tensor)}
        """Arguments that are no tensors, which the program holds as constants."""
        for name, value in self._values.items():
            if not (value is None or isinstance(value, (bool, int, float, str))):
                raise NotTraceable(f"its input {name} is a {type(value).__name__}")
            if isinstance(value, float) and not math.isfinite(value):
                raise NotTraceable(f"its input {name} is {value}")
        self._before = [tensor._version for _, tensor in self.named]
        self._mode_matters = any(_minds_mode(type(child)) for child in module.modules())
        self._digest = _digest(module, self._mode_matters)

    def buffers(self) -> dict[str, torch.Tensor]:
        """Return what the module holds and does not learn."""
        held = [(text, one) for text, one in self.named if text.startswith("self.")]
        return {text: one for text, one in held if not isinstance(one, torch.nn.Parameter)}

    def changed(self) -> list[str]:
        """Return the expressions of the buffers that calls have changed."""
        changed = {text for (text, tensor), version in zip(self.named, self._before) if tensor._version != version}
        if not changed <= self.buffers().keys():
            raise NotTraceable("it changes its inputs in place")
        return sorted(changed)

    def same_settings(self) -> bool:
        """Whether calls have left the module's settings as they were."""
        return _digest(self.module, self._mode_matters) == self._digest

    def random(self) -> NotTraceable:
        """Return what to raise where calls draw numbers."""
        return NotTraceable("it is random" + (" in training mode" if self.module.training else ""))

    def _tied(self) -> list[tuple[str, str]]:
        """Return the parameters of several parts that are one, which somebody may untie."""
        found: dict[int, tuple[str, Any]] = {}
        pairs = []
        for path, part in self.module.named_modules():
            for name, one in part._parameters.items():
                expression = _expression(f"{path}.{name}" if path else name)
                first, owner = found.setdefault(id(one), (expression, part))
                if one is not None and owner is not part:
                    pairs.append((expression, first))
        return pairs

    def _ends(self, result: Any, outputs: list[Any]) -> list[int]:
        """Return which outputs, of several, no gradient leads back from; none where it does not run with gradients."""
        found = modules.tensors_of(result)
        if len(found) < 2:
            return []
        try:
            with torch.enable_grad(), state.kept(self.module):
                args, kwargs = modules.map_tensors(self._given, _leaf)
                again = modules.tensors_of(self.module(*args, **kwargs))
        except Exception:  # noqa: BLE001 - it changes its inputs in place, say, or takes too much memory
            return []
        ends = {key(one) for one, other in zip(found, again) if _learns(one) and not other.requires_grad}
        return [place for place, one in enumerate(outputs) if isinstance(one, torch.Tensor) and key(one) in ends]

    def told(self, arguments: list[Any], outputs: list[Any], result: Any, changed: list[str]) -> dict[str, Any]:
        """Return the part of what `program` returns that is about the module, and how the program is called for it."""
        names = {key(tensor): expression for expression, tensor in reversed(self.named)}
        return {
            "arguments": [argument(value, names) for value in arguments],
            "result": _result(result, outputs, getattr(inspect.unwrap(type(self.module).forward), "__globals__", {})),
            "ends": self._ends(result, outputs),
            "tied": self._tied(),
            "mode_matters": self._mode_matters,
            "changes": changed,
            "module": self._digest,
            "parts": _parts(self.module, self._mode_matters),
            "values": self._values,
        }


def _expression(path: str) -> str:
    return "self." + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path)


def _learns(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_() if _learns(tensor) else tensor


def _plain(call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the module's own forward in the place of a program, if calls change nothing but buffers, in place."""
    module, random = call.module, forward.random_states()
    buffers = dict(module.named_buffers())
    # Batch norm's statistics change under the same version.
    own = call.buffers()
    values = {text: tensor.clone() for text, tensor in own.items()}
    with torch.no_grad():
        result = module(*args, **kwargs)
    if not all(map(torch.equal, random, forward.random_states())):
        raise call.random()
    changed = {*call.changed(), *(text for text in own if not torch.equal(own[text], values[text]))}
    after = dict(module.named_buffers())
    moved = after.keys() != buffers.keys() or any(after[name] is not one for name, one in buffers.items())
    if moved or not call.same_settings():
        raise NotTraceable("a call changes what the next one gives")
    outputs: list[Any] = []
    torch.utils._pytree.tree_map(lambda leaf: outputs.append(leaf) if isinstance(leaf, torch.Tensor) else None, result)
    return {
        "code": "",
        "device": outputs[0].device.type if outputs else "cpu",
        "lines": [],
        **call.told([tensor for _, tensor in call.named], outputs, result, sorted(changed)),
        "capability": list(torch.cuda.get_device_capability()) if torch.cuda.is_available() else [0, 0],
    }


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


class _Seen:
    """What goes into the compiler and into its program, and comes out."""

    def __init__(self, inner: Callable[..., Any], path: str, recipe: Mapping[str, Any]) -> None:
        self._inner = inner
        self._path = path
        self._recipe = recipe
        self.own = Own(recipe.get("own") or {})
        self.fitting: list[str] = []
        """Families of which a rule fits."""
        self.used = 0
        """How many times a rule was used."""
        self.nothing = False
        """Whether rewriting was asked for and fits nowhere."""
        self.calls: list[tuple[list[Any], list[Any]]] = []
        self.lines: set[int] = set()

    def graph(self, graph: Any) -> None:
        """Note where the operations of a graph come from: the innermost line in the user's file."""
        for node in graph.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
            lines = [int(line) for file, line in places if file == self._path]
            if lines:
                self.lines.add(lines[-1])

    def compile(self, graph: Any, inputs: Any, **how: Any) -> Any:
        """Compile a graph and watch what its program is called with."""
        fitting = rewrites.fitting(graph.graph, self.own)
        self.fitting += [family for family in fitting if family not in self.fitting]
        families = self._recipe.get("rewrites") or ()
        self.used += rewrites.apply(graph.graph, families, self.own)
        self.nothing = bool(families) and not self.used
        # Where backward is compiled behind it, a rule may fit there.
        if self.nothing and not self._recipe.get("backward"):
            raise ValueError("nothing is rewritten")
        if self._recipe.get("products"):
            rewrites.apply(graph.graph, ["split"])
        graph.recompile()
        made = self._inner(graph, inputs, **how)

        def run(given: list[Any]) -> Any:
            arguments = list(given)
            outputs = made(given)
            self.calls.append((arguments, list(outputs)))
            return outputs

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


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
        told = getattr(torch._dynamo.utils, SETTINGS, None)
        if told is not None:
            setattr(torch._dynamo.utils, SETTINGS, lambda: None)
            stack.callback(setattr, torch._dynamo.utils, SETTINGS, told)
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

    with torch._inductor.config.patch({"cpp.dynamic_threads": True, "compile_threads": 1}):
        from torch._inductor.async_compile import AsyncCompile

        compiled, AsyncCompile.cpp_pybinding = AsyncCompile.cpp_pybinding, nothing
        empty = getattr(guards, EMPTY)
        setattr(guards, EMPTY, lambda *given: empty(*given).zero_())
        try:
            yield
        finally:
            AsyncCompile.cpp_pybinding = compiled
            setattr(guards, EMPTY, empty)


def _result(result: Any, outputs: list[Any], known: Mapping[str, Any]) -> str:
    """Return how a result is made of what the program returns; `known` are the globals of the module's forward."""
    if isinstance(result, torch.Tensor):
        for place, output in enumerate(outputs):
            if isinstance(output, torch.Tensor) and (output is result or key(output) == key(result)):
                return f"out[{place}]"
        raise NotTraceable("it returns a view of an input, or another tensor that its program does not make")
    if type(result) in (tuple, list):
        inner = ", ".join(_result(item, outputs, known) for item in result)
        return f"[{inner}]" if type(result) is list else f"({inner}{',' if len(result) == 1 else ''})"
    if type(result) is dict and all(isinstance(key, str) for key in result):
        return "{" + ", ".join(f"{key!r}: {_result(item, outputs, known)}" for key, item in result.items()) + "}"
    if result is None or isinstance(result, (bool, int, float, str)):
        return repr(result)
    kind, fields = type(result), _fields(result)
    if fields and known.get(kind.__name__) is kind:
        return f"{kind.__name__}({', '.join(f'{k}={_result(v, outputs, known)}' for k, v in fields.items())})"
    raise NotTraceable(f"it returns a {kind.__name__}")


def _fields(result: Any) -> dict[str, Any]:
    """Return what a named tuple or a dataclass, as those of transformers are, is made of; nothing if it is neither."""
    named = getattr(result, "_fields", ()) if isinstance(result, tuple) else ()
    if dataclasses.is_dataclass(result):
        named = [field.name for field in dataclasses.fields(result) if field.init]
    fields = {name: getattr(result, name) for name in named}
    try:
        again = type(result)(**fields) if fields else None
    except (TypeError, ValueError):
        return {}
    # Its class may make something else of what it is given.
    return fields if all(getattr(again, name, None) is value for name, value in fields.items()) else {}


def _parts(module: torch.nn.Module, mode_matters: bool) -> list[tuple[str, str, dict[str, str]]]:
    """Return path, class and plain settings of each part, the module itself first; settings as they are written.

    Those of the user's classes themselves are among them, since a module may hide them by its own. None are told
    where a part has two paths, at one of which another may come to stand.
    """
    found: list[tuple[str, str, dict[str, str]]] = []
    if len(list(module.named_modules(remove_duplicate=False))) > len(list(module.modules())):
        return found
    for path, part in module.named_modules():
        held: dict[str, Any] = {}
        for kind in reversed(type(part).__mro__):
            if kind.__module__.partition(".")[0] not in ("torch", "builtins"):
                held |= vars(kind)
        held |= vars(part)
        found.append((path, _kind(part), {k: repr(v) for k, v in _settings(held, mode_matters).items()}))
    return found


def _settings(held: Mapping[str, Any], mode_matters: bool) -> dict[str, Any]:
    names = [name for name in sorted(held) if name[0] != "_" and (mode_matters or name != "training")]
    return {name: held[name] for name in names if _is_plain(held[name])}


def _digest(module: torch.nn.Module, mode_matters: bool) -> str:
    """Return a digest of a module's parts and plain settings; none may have a hook.

    It is what `_stark_weights` in `playbook/inductor/guards.py` compares with, there for the user's module.
    """
    told: list[tuple[Any, ...]] = []
    for path, part in module.named_modules():
        if part is not module and (part._forward_hooks or part._forward_pre_hooks):
            raise NotTraceable(f"{path} has hooks")
        children = [(child, _kind(one)) for child, one in part._modules.items()]
        told.append((path, children, _settings(vars(part), mode_matters)))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _kind(part: Any) -> str:
    """Return a part's class as candidates have it, which tell torch.nn's own from others of that name."""
    name = type(part).__name__
    return f"nn.{name}" if getattr(torch.nn, name, None) is type(part) else name


def _minds_mode(kind: type) -> bool:
    """Whether modules of a class may do something else in training, by torch's names or by what its source says."""
    for one in kind.__mro__:
        if one.__module__.partition(".")[0] == "torch":
            if any(word in one.__name__ for word in MODES):
                return True
        elif one is not object:
            try:
                source = inspect.getsource(one)
            except (OSError, TypeError):
                return True
            if "training" in source or "dropout" in source:
                return True
    return False


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
