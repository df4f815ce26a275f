"""Random kernel specs, as hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from stark_lsp.playbook.spec import COUNT, KernelSpec, Operand, Output, Step

FLOAT_UNARY = [
    "neg",
    "abs",
    "square",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sin",
    "cos",
    "tan",
    "tanh",
    "atan",
    "sinh",
    "cosh",
    "erf",
    "sigmoid",
    "softplus",
    "log_sigmoid",
    "identity",
]
FLOAT_BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "floor_div", "remainder", "pow"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
SAFE_UNARY = ["neg", "abs", "square", "tanh", "erf", "sigmoid", "identity", "sin", "exp"]
DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "bool", "uint8")


def wider(left: str, right: str) -> str:
    """torch's promotion among the dtypes used here."""
    import torch

    return str(torch.promote_types(getattr(torch, left), getattr(torch, right))).split(".")[1]


@st.composite
def spaces(draw: st.DrawFn) -> tuple[int, ...]:
    rank = draw(st.integers(1, 4))
    return (*tuple(draw(st.integers(1, 6)) for _ in range(rank - 1)), draw(st.sampled_from((1, 3, 8, 17, 40))))


@st.composite
def operands(draw: st.DrawFn, space: tuple[int, ...], floating: bool) -> tuple[Operand, ...]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        shape = list(space)
        if number:
            shape = [1 if draw(st.booleans()) and draw(st.booleans()) else n for n in shape]
            lead = 0
            while lead < len(shape) and shape[lead] == 1 and draw(st.booleans()):
                lead += 1
            shape = shape[lead:]
        dtype = draw(st.sampled_from(DTYPES[:3] if floating else DTYPES))
        strided = len(shape) > 1 and draw(st.integers(0, 5)) == 0
        found.append(Operand(f"x{number}", dtype, tuple(shape), strided))
    return tuple(found)


@st.composite
def pointwise_specs(draw: st.DrawFn, name: str) -> KernelSpec:
    space = draw(spaces())
    inputs = draw(operands(space, floating=False))
    known = {o.name: o.dtype for o in inputs}
    steps = []
    for number in range(draw(st.integers(1, 6))):
        step = draw(_pointwise_step(f"v{number}", known))
        known[step.name] = step.dtype
        steps.append(step)
    # The last step is tied to the first operand, so that it fills the space.
    last = Step(
        "y", "where", (draw(_as_bool(inputs[0].name, known, steps)), steps[-1].name, steps[-1].name), steps[-1].dtype
    )
    outputs = (Output("y", _stored(draw, last.dtype)),)
    return KernelSpec(name, space, inputs, (*steps, last), outputs, doc="random")


@st.composite
def _as_bool(draw: st.DrawFn, name: str, known: dict[str, str], steps: list[Step]) -> str:
    steps.insert(len(steps) - 1, Step("flag", draw(st.sampled_from(COMPARISONS)), (name, 1), "bool"))
    return "flag"


def _stored(draw: st.DrawFn, dtype: str) -> str:
    return draw(st.sampled_from((dtype, dtype, "bfloat16", "float16"))) if dtype == "float32" else dtype


@st.composite
def _pointwise_step(draw: st.DrawFn, name: str, known: dict[str, str]) -> Step:
    kind = draw(st.sampled_from(("unary", "binary", "binary", "number", "compare", "where", "cast")))
    names = st.sampled_from(sorted(known))
    a, b = draw(names), draw(names)
    both = wider(known[a], known[b])
    if kind == "unary":
        op = draw(st.sampled_from(FLOAT_UNARY))
        return Step(name, op, (a,), _float(known[a]))
    if kind == "binary":
        op = draw(st.sampled_from(FLOAT_BINARY))
        return Step(name, op, (a, b), _float(both) if op in ("div", "pow", "floor_div", "remainder") else _number(both))
    if kind == "number":
        op = draw(st.sampled_from(("add", "mul", "sub", "pow")))
        value = draw(st.sampled_from((2.0, 0.5, -1.0, 3.0, 0.044715)))
        return Step(name, op, (a, value), _float(known[a]))
    if kind == "compare":
        return Step(name, draw(st.sampled_from(COMPARISONS)), (a, b), "bool")
    if kind == "where":
        return Step(name, "where", (draw(names), a, b), both)
    return Step(name, "cast", (a,), draw(st.sampled_from(("float32", "float64", "bool"))))


def _float(dtype: str) -> str:
    return dtype if dtype.startswith(("float", "bfloat")) else "float32"


def _number(dtype: str) -> str:
    return "int64" if dtype in ("bool", "uint8", "int32") else dtype


@st.composite
def reduction_specs(draw: st.DrawFn, name: str) -> KernelSpec:
    rank = draw(st.integers(1, 4))
    space = (*tuple(draw(st.integers(1, 5)) for _ in range(rank - 1)), draw(st.sampled_from((1, 5, 16, 70, 130))))
    first = draw(st.integers(0, rank - 1))
    dims = tuple(range(first, draw(st.integers(first, rank - 1)) + 1))
    inputs = draw(operands(space, floating=draw(st.integers(0, 3)) > 0))
    element = {o.name: o.dtype for o in inputs}
    steps: list[Step] = []
    current = inputs[0].name
    for number in range(draw(st.integers(1, 3))):
        pointwise = Step(f"e{number}", draw(st.sampled_from(SAFE_UNARY)), (current,), _float(element[current]))
        if pointwise.op == "exp":
            steps.append(Step(f"b{number}", "tanh", (current,), pointwise.dtype))
            pointwise = Step(pointwise.name, "exp", (f"b{number}",), pointwise.dtype)
        steps.append(pointwise)
        other = draw(st.sampled_from(sorted(element)))
        mixed = Step(f"p{number}", draw(st.sampled_from(("add", "mul", "sub"))), (pointwise.name, other), "")
        steps.append(Step(mixed.name, mixed.op, mixed.args, wider(pointwise.dtype, element[other])))
        element[steps[-1].name] = steps[-1].dtype
        current = steps[-1].name
        reduction = draw(st.sampled_from(("sum", "amax", "amin", "sum")))
        steps.append(Step(f"r{number}", reduction, (current,), element[current]))
        steps.append(Step(f"m{number}", "div", (f"r{number}", COUNT), element[current]))
        scaled = Step(f"c{number}", "sub", (current, f"m{number}"), element[current])
        steps.append(scaled)
        element[scaled.name] = scaled.dtype
        current = scaled.name
    last = f"m{number}"
    outputs = [Output(last, steps[-2].dtype, True, draw(st.booleans()))]
    if draw(st.booleans()):
        outputs.append(Output(current, element[current]))
    return KernelSpec(name, space, inputs, tuple(steps), tuple(outputs), dims, "random")
