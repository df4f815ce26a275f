"""Records each PyTorch operation of one call as a node."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..profile.cost import needed_bytes, place_of
from ..reference.modules import tensors_of
from ..reference.operators import observe
from . import cost
from .encode import encode, meta
from .frames import NotTraceable, user_frames
from .names import name_of
from .values import Expr, TracedDict, TracedFloat, TracedInt, TracedSize, plain, track

READS_DATA = (
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__", "numpy", "__array__",
    "equal", "allclose", "is_nonzero", "__contains__", "__nonzero__", "data_ptr",
)  # fmt: skip
"""Functions whose Python result depends on what a tensor holds."""
METADATA = (
    "is_floating_point", "is_complex", "is_signed", "is_contiguous", "stride", "storage_offset", "element_size",
    "get_device", "is_inference", "is_conj", "is_neg", "is_same_size", "is_pinned", "is_shared", "has_names",
)  # fmt: skip
"""Functions whose numbers and truth values tell about a tensor, not about what it holds."""
MAX_NODES = 20_000
"""A longer recording is given up: nobody could read the rewritten `forward`."""


class Recorder(TorchFunctionMode):
    """The record of one call; see `tracing.analyze` for how it is used."""

    def __init__(self, device: torch.device, root_frame: FrameType) -> None:
        super().__init__()
        self.device = device
        self.root_frame = root_frame
        """The frame that calls the module; frames outside it are not the user's."""
        self.nodes: list[dict[str, Any]] = []
        self.guards: list[dict[str, Any]] = []
        self.read_dtype = False
        self.dtypes: dict[str, str] = {}
        """Dtypes of the module's own tensors that the code reads, by expression."""
        self.module_stack: list[str] = []
        """Expressions of the user's modules being run, outermost first."""
        self._tensors: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = {}
        self._constants: dict[int, tuple[torch.Tensor, str]] = {}
        self._sizes: dict[tuple[int, int, Any], int] = {}
        self._devices: list[tuple[torch.device, list[int]]] = []
        self.quiet = False
        """Whether calls go through unrecorded."""
        self._modes = _modes()
        self._leading: set[int] = set()
        """Nodes whose results lead back to an input or a parameter, as gradients go."""

    # ---- what there is before the first operation --------------------------------------------------

    def add_input(self, tensor: torch.Tensor, expression: str) -> None:
        """Note a tensor that the caller passes."""
        node = self._add({"op": "input", "target": expression, "outputs": [meta(tensor)]})
        self._leading.add(node)
        self._own(tensor, node, 0)

    def know(self, tensor: torch.Tensor, expression: str) -> None:
        """Note a tensor that exists outside the call: a parameter, a buffer, a constant of the file."""
        self._constants.setdefault(id(tensor), (tensor, expression))

    # ---- numbers ----------------------------------------------------------------------------------

    def note(self, expr: Expr, relation: str, value: Any) -> None:
        """Note that `expr relation value` held at this point of the record."""
        if self.quiet or not mentions_call(expr):
            return
        if not any((g["expr"], g["relation"], g["value"]) == (expr, relation, value) for g in self.guards):
            self.guards.append({"expr": expr, "relation": relation, "value": value, "after": len(self.nodes)})

    def _number(self, ref: list[int], what: Any, value: int) -> Any:
        """Return a tracked size of a tensor, as a node of its own."""
        key = (ref[0], ref[1], what)
        node = self._sizes.get(key)
        if node is None:
            node = self._add({"op": "size", "target": what, "args": [{"ref": ref}], "value": value, **self._place()})
            self._sizes[key] = node
        return track(value, ["node", node], self.note)

    # ---- operations -------------------------------------------------------------------------------

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.quiet:
            return func(*args, **kwargs)
        leaf = getattr(func, "stark_leaf", None)
        name = name_of(func) if leaf is None else "module"
        last = name.rpartition(".")[2]
        if leaf is None:
            if name.startswith("?_") or last in ("__repr__", "__str__", "__format__", "__dir__", "__hash__"):
                return func(*args, **kwargs)
            special = self._metadata(name, args, kwargs)
            if special is not None:
                return special[0]
            if last in READS_DATA:
                raise self._refuse(
                    f"the code reads what a tensor holds ({last.strip('_')}), which decides what it does"
                )
        if _modes() != self._modes:
            raise self._refuse("the code switches autocast on or off while it runs")
        return self._record(func, name, args, kwargs, leaf)

    def _metadata(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """Answer questions about a tensor's shape, dtype and place; None if `name` is not one."""
        if not args or not isinstance(args[0], torch.Tensor) or not name.startswith(("Tensor.", "torch.")):
            return None
        tensor = args[0]
        with torch._C.DisableTorchFunction():
            if name in ("Tensor.shape.get", "Tensor.size"):
                ref, shape = self._ref(tensor), tuple(tensor.shape)
                dim = args[1] if len(args) > 1 else kwargs.get("dim")
                if dim is None:
                    return (TracedSize(self._number(ref, axis, int(size)) for axis, size in enumerate(shape)),)
                axis = plain(dim) % len(shape)
                return (self._number(ref, axis, int(shape[axis])),)
            if name in ("Tensor.dim", "Tensor.ndim.get", "Tensor.ndimension"):
                return (self._number(self._ref(tensor), "dim", tensor.dim()),)
            if name in ("Tensor.numel", "torch.numel", "Tensor.nelement"):
                return (self._number(self._ref(tensor), "numel", tensor.numel()),)
            if name == "Tensor.__len__":
                size = self._number(self._ref(tensor), 0, int(tensor.shape[0]))
                return (size.fact(),)
            if name == "Tensor.device.get":
                device = torch.device(str(tensor.device))
                self._devices.append((device, self._ref(tensor)))
                return (device,)
            if name in ("Tensor.dtype.get", "torch.is_floating_point", "Tensor.is_floating_point", "torch.result_type"):
                self.read_dtype = True
                if (known := self._constants.get(id(tensor))) is not None and known[1].startswith("self."):
                    self.dtypes[f"str({known[1]}.dtype)"] = str(tensor.dtype)
            if name.endswith(".get") and not isinstance(getattr(tensor, name.split(".")[1], None), torch.Tensor):
                return (getattr(tensor, name.split(".")[1]),)
        return None

    def _record(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], leaf: Any
    ) -> Any:
        inputs = tensors_of((args, kwargs))
        watched = [*inputs, *(leaf.tensors() if leaf is not None else ())]
        leads = any(map(self._leads, watched)) and name.rpartition(".")[2] not in ("detach", "detach_", "data.get")
        if leads and not torch.is_grad_enabled():
            raise self._refuse(
                "the code computes with inputs or weights where it leaves gradients out (torch.no_grad(), or a "
                "custom autograd function)"
            )
        node: dict[str, Any] = {"op": "module" if leaf is not None else "call", "target": name, "leads": leads}
        if leaf is not None:
            node["module"] = leaf.describe()
        self._encode_arguments(node, args, kwargs)
        versions = [tensor._version for tensor in watched]
        plain_args, plain_kwargs = unwrap(args), unwrap(kwargs)
        self.quiet = True
        try:
            out = func(*plain_args, **plain_kwargs)
            mutated = [i for i, tensor in enumerate(watched) if tensor._version != versions[i]]
            results = tensors_of(out)
            if not mutated and results and len(self.nodes) < MAX_NODES:
                with torch._C.DisableTorchFunction():
                    node["time_ms"] = cost.measure_ms(lambda: func(*plain_args, **plain_kwargs), self.device)
                    node["flops"] = observe(lambda: func(*plain_args, **plain_kwargs))[1].flops
        finally:
            self.quiet = False
        if not results and not mutated:
            if isinstance(out, (bool, int, float)) and name.rpartition(".")[2] not in METADATA:
                raise self._refuse(f"{name} turns a tensor into a Python number, which the code then relies on")
            return out
        self._names()
        with torch._C.DisableTorchFunction():
            number = self._describe_results(node, out, inputs, watched, mutated)
        self._leading |= {number} if leads else set()
        return out

    def _encode_arguments(self, node: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            node["args"] = [encode(value, self._ref, self._device) for value in args]
            node["kwargs"] = [[key, encode(value, self._ref, self._device)] for key, value in kwargs.items()]
        except NotTraceable as error:
            raise (error if error.path is not None else self._refuse(error.message)) from error

    def _describe_results(
        self,
        node: dict[str, Any],
        out: Any,
        inputs: list[torch.Tensor],
        watched: list[torch.Tensor],
        mutated: list[int],
    ) -> int:
        name, results = node["target"], tensors_of(out)
        node.update(self._place())
        node["structure"] = "tensor" if isinstance(out, torch.Tensor) else "sequence"
        if isinstance(out, (tuple, list)):
            node["structure"] = "sequence" if all(isinstance(item, torch.Tensor) for item in out) else "nested"
            node["paths"] = list(paths_in(out))
        elif not isinstance(out, torch.Tensor) and out is not None:
            raise self._refuse(f"{name} returns a {type(out).__name__}, which cannot be followed")
        node["mutates"] = bool(mutated)
        node["outputs"] = [meta(tensor) for tensor in results]
        places = {place_of(tensor) for tensor in inputs} - {None}
        node["view"] = not mutated and bool(results) and all(place_of(tensor) in places for tensor in results)
        node["safe_in_place"] = self._safe(out, inputs, watched, mutated)
        node["bytes"] = 0 if node["view"] else sum(map(needed_bytes, [*watched, *results]))
        # Where nothing is multiplied, one for each element.
        elements = [tensor.numel() for tensor in [*inputs, *results]]
        node["flops"] = 0 if node["view"] else max([node.get("flops", 0), *elements])
        number = self._add(node)
        # The very object that came in (dropout in eval mode) is one value under two node numbers.
        for index, tensor in enumerate(results):
            self._own(tensor, number, index)
        return number

    def _leads(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor leads back to an input or a parameter."""
        place = self._find(tensor)
        leads = isinstance(tensor, torch.nn.Parameter) if place is None else place[0] in self._leading
        return leads and (tensor.is_floating_point() or tensor.is_complex())

    def _safe(self, out: Any, inputs: list[torch.Tensor], watched: list[torch.Tensor], mutated: list[int]) -> bool:
        """Whether an in-place operation can be read as an ordinary one: nobody else sees the memory it changes."""
        if len(mutated) != 1 or not isinstance(out, torch.Tensor) or not inputs:
            return False
        target = watched[mutated[0]]
        if out is not target or target is not inputs[0] or self._is_outside(target):
            return False
        place = place_of(target)
        known = [
            *(reference() for reference, _, _ in self._tensors.values()),
            *(t for t, _ in self._constants.values()),
        ]
        return not any(place_of(other) == place for other in known if other is not None and other is not target)

    # ---- where and under what names ---------------------------------------------------------------

    def _place(self) -> dict[str, Any]:
        lines = [
            {"path": frame.f_code.co_filename, "line": frame.f_lineno, "function": frame.f_code.co_name}
            for frame in user_frames(self.root_frame)
        ]
        return {"frames": lines, "module_path": self.module_stack[-1] if self.module_stack else "self"}

    def _names(self) -> None:
        """Note the names under which the user's function holds tensors now."""
        for frame in user_frames(self.root_frame)[:1]:
            for name, value in list(frame.f_locals.items()):
                if isinstance(value, torch.Tensor):
                    place = self._find(value)
                    if place is not None and name.isidentifier():
                        self.nodes[place[0]].setdefault("names", {}).setdefault(str(place[1]), name)
                elif isinstance(value, TracedInt) and value.expr[0] == "node" and not name.startswith("_"):
                    self.nodes[value.expr[1]].setdefault("names", {}).setdefault("0", name)

    def here(self) -> tuple[str | None, int | None]:
        """Return the file and line of the innermost user frame."""
        found = user_frames(self.root_frame)
        return (found[0].f_code.co_filename, found[0].f_lineno) if found else (None, None)

    def _refuse(self, message: str) -> NotTraceable:
        return NotTraceable(message, *self.here())

    # ---- which tensor is which --------------------------------------------------------------------

    def result(self, value: Any) -> Any:
        """Return the call's result as JSON."""
        self._names()
        return encode(value, self._ref, self._device)

    def _add(self, node: dict[str, Any]) -> int:
        if len(self.nodes) >= MAX_NODES:
            raise self._refuse(f"the call takes more than {MAX_NODES} operations")
        self.nodes.append({"id": len(self.nodes), **node})
        return len(self.nodes) - 1

    def _own(self, tensor: torch.Tensor, node: int, index: int) -> None:
        self._tensors[id(tensor)] = (weakref.ref(tensor), node, index)

    def _find(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        entry = self._tensors.get(id(tensor))
        return (entry[1], entry[2]) if entry is not None and entry[0]() is tensor else None

    def _ref(self, tensor: torch.Tensor) -> list[int]:
        place = self._find(tensor)
        if place is None:
            constant = self._constants.get(id(tensor))
            if constant is None:
                raise self._refuse(
                    "a tensor is used here that was made where the recording cannot see it "
                    "(a compiled function, a custom autograd function, or an object outside the module)"
                )
            with torch._C.DisableTorchFunction():
                node = self._add({"op": "attribute", "target": constant[1], "outputs": [meta(tensor)]})
            self._own(tensor, node, 0)
            place = (node, 0)
        return [place[0], place[1]]

    def _is_outside(self, tensor: torch.Tensor) -> bool:
        place = self._find(tensor)
        return id(tensor) in self._constants or (place is not None and self.nodes[place[0]]["op"] == "input")

    def _device(self, device: torch.device) -> Any:
        for known, ref in self._devices:
            if known is device:
                return {"device_of": ref}
        return {"device": str(device)}


def _modes() -> tuple[bool, bool]:
    return torch.is_autocast_enabled(), torch.is_autocast_enabled("cpu")


def mentions_call(expr: Expr) -> bool:
    """Whether an expression depends on what the call was given (not only on how the module is configured)."""
    if expr[0] in ("node", "input"):
        return True
    if expr[0] in ("self", "const"):
        return False
    return any(isinstance(part, list) and mentions_call(part) for part in expr[1:])


def paths_in(value: Any, path: str = "") -> Any:
    """Yield how to reach each tensor of a nested result, for instance `[1][0]` of an LSTM."""
    if isinstance(value, torch.Tensor):
        yield path
    elif isinstance(value, (tuple, list)):
        for index, member in enumerate(value):
            yield from paths_in(member, f"{path}[{index}]")


def unwrap(value: Any) -> Any:
    """Return `value` with tracked numbers replaced by plain ones."""
    if isinstance(value, (TracedInt, TracedFloat)):
        return plain(value)
    if isinstance(value, TracedSize):
        return torch.Size([plain(size) for size in value])
    if isinstance(value, tuple):
        members = [unwrap(member) for member in value]
        return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
    if isinstance(value, list):
        return [unwrap(member) for member in value]
    if type(value) in (dict, TracedDict):
        return {key: unwrap(member) for key, member in value.items()}
    if isinstance(value, slice):
        return slice(unwrap(value.start), unwrap(value.stop), unwrap(value.step))
    return value
