"""The Python function that stands in front of a kernel: checks, allocates, calls.

For a small tensor this function is most of what is measured, so it is one condition, one allocation for each output
and one call. Outside its envelope it hands over to the fallback, which is the user's own PyTorch code. The envelope:
the example's dtypes, ranks and broadcast pattern (any sizes but zero), one device of the right type, contiguous
operands. Beyond that a kernel without broadcasting takes any dense layout that all operands share, such as
channels_last, and operands marked `strided` may be slices (rows evenly apart) or anything else, which is copied first.
Where gradients are recorded, the kernel runs as well, and the fallback, computed anew, gives the gradients.
"""

from __future__ import annotations

from stark_lsp.playbook.kernels.cuda_split import scratch_bytes
from stark_lsp.playbook.kernels.places import Places
from stark_lsp.playbook.kernels.program import Group, Layout, Program
from stark_lsp.playbook.kernels.types import COMPUTE, is_floating
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.names import as_tuple
from stark_lsp.playbook.spec import Operand, Output

WIDTH = 120
"""Longest line that several things share."""

ROWS_OF = '''\
def _stark_rows(x, dims):
    """Return x and the distance of its rows, each of the last `dims` dims; a copy where they are not evenly apart."""
    if not x.is_contiguous():
        expected = 1
        for at in reversed(range(x.dim())):
            if at == x.dim() - dims - 1:
                expected = x.stride(at)
            if x.shape[at] != 1 and x.stride(at) != expected:
                x = x.contiguous()
                break
            expected *= x.shape[at]
    return x, x.stride(-dims - 1)
'''


class Launcher:
    """Writes the launcher of one kernel."""

    def __init__(self, program: Program, variant: Variant, fallback: str, device_type: str) -> None:
        self.program = program
        self.variant = variant
        self.fallback = fallback
        self.device_type = device_type
        self.places = Places(program)
        self.spec = program.spec
        self.leader = next((o.name for o in self.spec.operands if self._full(o)), None)

    def _full(self, operand: Operand) -> bool:
        return len(operand.shape) == len(self.spec.space) and all(self.program.pattern[operand.name])

    def prototype(self) -> list[str]:
        """The type of the C function, by its name, as an item of a dictionary."""
        pointers = len(self.spec.operands) + len(self.spec.outputs) + self.scratch
        sizes = len(self.places.parameters) + len(self.places.strided())
        kinds = (("ctypes.c_void_p", pointers), ("ctypes.c_int64", sizes))
        parameters = [kind if n == 1 else f"*[{kind}] * {n}" for kind, n in kinds if n]
        parameters += ["ctypes.c_int"] if self.device_type == "cpu" else ["ctypes.c_int", "ctypes.c_void_p"]
        result = "None" if self.device_type == "cpu" else "ctypes.c_int"
        lines = _call(f'    "_stark_{self.spec.name}": ctypes.CFUNCTYPE', [result, *parameters])
        return [*lines[:-1], f"{lines[-1]},"]

    @property
    def scratch(self) -> int:
        """How many work buffers the kernel takes."""
        return int(self.device_type == "cuda" and self.variant.split and bool(self.spec.reduce_dims))

    # ------------------------------------------------------------ conditions

    def _expected_shape(self, operand: Operand) -> str:
        lead = len(self.spec.space) - len(operand.shape)
        moves = self.program.pattern[operand.name][lead:]
        if all(moves):
            return "shape" if not lead else f"shape[{lead}:]" if moves else "()"
        dims = [f"shape[{lead + at}]" if move else "1" for at, move in enumerate(moves)]
        return as_tuple(dims)

    def _shape(self) -> str:
        if self.leader:
            return f"{self.leader}.shape"
        parts = []
        for dim in range(len(self.spec.space)):
            for operand in self.spec.operands:
                own = dim - (len(self.spec.space) - len(operand.shape))
                if own >= 0 and self.program.pattern[operand.name][dim]:
                    parts.append(f"{operand.name}.shape[{own}]")
                    break
        return as_tuple(parts)

    def _tensors(self) -> list[str]:
        """Conditions before the shape is asked: it may be what only stands for a tensor, or none."""
        operands, found = self.spec.operands, []
        for some in (operands[at : at + 3] for at in range(0, len(operands), 3)):
            found.append(f"{{{', '.join(f'type({o.name})' for o in some)}}} <= {{torch.Tensor, torch.nn.Parameter}}")
        return found + [f"{o.name}.dim() == {len(o.shape)}" for o in operands if o.shape and not self.leader]

    def _conditions(self) -> list[str]:
        operands = self.spec.operands
        first = operands[0].name
        found = [*([f"len(shape) == {len(self.spec.space)}"] if self.leader else []), "0 not in shape"]
        found += [f"{o.name}.dtype is torch.{o.dtype}" for o in operands]
        cpu = self.device_type == "cpu"
        found.append(f"{first}.{'is_cpu' if cpu else 'is_cuda'}")
        found += [f"{o.name}.is_cpu" if cpu else f"{o.name}.device == {first}.device" for o in operands[1:]]
        found.append(f'not torch.is_autocast_enabled("{self.device_type}")')
        found += [f"{o.name}.shape == {self._expected_shape(o)}" for o in operands if o.name != self.leader]
        return found + self._contiguity([o.name for o in operands if o.shape and not o.strided])

    def _differentiable(self) -> list[str]:
        """Lines that hand over to `_StarkDifferentiable` where gradients are recorded."""
        grads = [f"{o.name}.requires_grad" for o in self.spec.operands if is_floating(COMPUTE[o.dtype])]
        floating = [o for o in self.spec.outputs if is_floating(COMPUTE[o.dtype])]
        if not grads or not any(o.leads for o in floating):
            return []
        ends = [o in floating and not o.leads for o in self.spec.outputs]
        names = [o.name for o in self.spec.operands]
        floats = ", ".join(one.partition(".")[0] for one in grads)
        any_grad = " or ".join(grads) if len(grads) < 3 else f"any(x.requires_grad for x in ({floats}))"
        parts = ", ".join(f"out[{k}]{'.detach()' if end else ''}" for k, end in enumerate(ends))
        to = "return" if not any(ends) else "out ="
        kept = [f"        if any(map(torch.is_inference, ({', '.join(names)}))):  # cannot be kept"]
        kept += _call(f"            return {self.fallback}", names)
        return [
            f"    if torch.is_grad_enabled() and {f'({any_grad})' if len(grads) == 2 else any_grad}:",
            *(kept if len(names) > 1 else []),
            "        with torch.no_grad():",
            *_call(f"            out = {self.spec.name}", names),
            *_call(f"        {to} _StarkDifferentiable.apply", ["lambda: out", self.fallback, *names]),
            *([f"        return ({parts})"] if any(ends) else []),
        ]

    def _contiguity(self, names: list[str]) -> list[str]:
        plain = [f"{name}.is_contiguous()" for name in names]
        alike = self.program.layout is Layout.FLAT and len(self.spec.space) > 1 and self.leader
        full = [o.name for o in self.spec.operands if self._full(o)]
        if not alike or len(full) != len(names):
            return plain
        # Alike in memory and without gaps, as in channels_last.
        strides = " == ".join([*(f"{name}.stride()" for name in full), f"torch.empty_like({full[0]}).stride()"])
        return [f"({' and '.join(plain)} or {strides})"]

    # ------------------------------------------------------------ sizes

    def _extent(self, group: Group) -> str:
        if not group.dims:
            return "1"
        if self.leader and len(self.program.groups) == 1:
            return f"{self.leader}.numel()"
        return " * ".join(f"shape[{d}]" for d in group.dims)

    def _output_shape(self, output: Output) -> str:
        if not output.reduced:
            return "shape"
        dims = [
            "1" if d in self.spec.reduce_dims else f"shape[{d}]"
            for d in range(len(self.spec.space))
            if output.keepdim or d not in self.spec.reduce_dims
        ]
        return as_tuple(dims)

    def _allocate(self, number: int) -> str:
        output = self.spec.outputs[number]
        first = self.spec.operands[0].name
        alike = self.leader and self.program.operands[self.leader].dtype == output.dtype
        if not output.reduced and self.leader and (alike or self.program.layout is Layout.FLAT):
            return f"torch.empty_like({self.leader}{'' if alike else f', dtype=torch.{output.dtype}'})"
        return f"torch.empty({self._output_shape(output)}, dtype=torch.{output.dtype}, device={first}.device)"

    # ------------------------------------------------------------ text

    def text(self, library: str) -> str:
        """The launcher as Python source; `library` are the arguments of `_stark_library` for its kernel."""
        spec, places = self.spec, self.places
        names = [o.name for o in spec.operands]
        call = ", ".join(names)
        lines = [f"    kernels = fits and _stark_library({library})"]
        lines += ["    if not kernels:", f"        return {self.fallback}({call})"]
        lines += self._differentiable()
        for operand in spec.operands:
            if operand.name in places.strided():
                dims = len(self.program.groups[-1].dims)
                lines.append(f"    {operand.name}, {operand.name}_stride = _stark_rows({operand.name}, {dims})")
            elif operand.strided:
                lines.append(f"    {operand.name} = {operand.name}.contiguous()")
        outs = ["out" if len(spec.outputs) == 1 else f"out{k}" for k in range(len(spec.outputs))]
        outs = [f"_{out}" if out in names else out for out in outs]
        lines += [f"    {out} = {self._allocate(k)}" for k, out in enumerate(outs)]
        arguments = [f"{name}.data_ptr()" for name in [*names, *outs]]
        if self.scratch:
            lines += self._scratch_lines()
            arguments.append("scratch.data_ptr()")
        arguments += [self._extent(group) for _, group in places.parameters]
        arguments += [f"{o}_stride" for o in places.strided()]
        lines += self._call(arguments)
        lines.append(f"    return {outs[0] if len(outs) == 1 else '(' + ', '.join(outs) + ')'}")
        asked, fits = self._tensors(), self._conditions()
        if self.leader and not any("shape" in line for line in (*fits[2:], *lines)):
            asked += [f"{self.leader}.dim() == {len(spec.space)}", f"{self.leader}.numel() > 0", *fits[2:]]
            asked = _filled(asked)
        else:
            asked = [*_filled(asked), f"    shape = {self._shape()} if fits else ()", *_filled(["fits", *fits])]
        doc = f'    """{_docstring(spec.doc) or "One fused kernel."}"""'
        return "\n".join([f"def {spec.name}({call}):", doc, *asked, *lines]) + "\n"

    def _scratch_lines(self) -> list[str]:
        size = scratch_bytes(self.program, self.variant)
        results = " * ".join(f"shape[{d}]" for d in range(len(self.spec.space)) if d not in self.spec.reduce_dims)
        total = f"{results} * {size}" if results else str(size)
        return [f"    scratch = torch.empty({total}, dtype=torch.uint8, device={self.spec.operands[0].name}.device)"]

    def _call(self, arguments: list[str]) -> list[str]:
        first, name = self.spec.operands[0].name, self.spec.name
        function = f'kernels["_stark_{name}"]'
        if self.device_type == "cpu":
            arguments.append("1" if self.variant.threads == 1 else "torch.get_num_threads()")
            return _call(f"    {function}", arguments)
        arguments += [f"{first}.device.index", f"torch.cuda.current_stream({first}.device).cuda_stream"]
        return [
            *_call(f"    status = {function}", arguments),
            "    if status:",
            '        error = kernels["_stark_error"](status).decode()',
            f'        raise RuntimeError(f"The kernel {name} could not be launched: {{error}}.")',
        ]


def _call(function: str, arguments: list[str]) -> list[str]:
    """Return a call, `function` with the indentation before it, on as few lines as it takes."""
    inner, indent = ", ".join(arguments), function[: len(function) - len(function.lstrip())]
    if len(f"{function}({inner})") <= WIDTH:
        return [f"{function}({inner})"]
    rows = [inner] if len(inner) + len(indent) + 4 <= WIDTH else [f"{one}," for one in arguments]
    return [f"{function}(", *(f"{indent}    {row}" for row in rows), f"{indent})"]


def _filled(conditions: list[str]) -> list[str]:
    """Return statements that set `fits` to whether all conditions hold, each with as many as fit on a line."""
    lines = [f"    fits = {conditions[0]}"]
    for text in conditions[1:]:
        if len(lines[-1]) + len(text) + 5 > WIDTH:
            lines.append(f"    fits = fits and {text}")
        else:
            lines[-1] += f" and {text}"
    return lines


def _docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''").strip()
