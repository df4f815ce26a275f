"""The candidate: the user's class with a forward that runs Inductor's program, written out.

The forward runs the program where it was made for: inputs and weights of the same shapes, strides, types and device, a
module with the same parts and settings and no hooks, autocast as it was, and not while somebody compiles or exports it.
Elsewhere the user's own forward runs. Where gradients are recorded, the program computes the result, and the user's
forward, computed anew, the gradients.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import Problem
from stark_lsp.playbook import handwritten
from stark_lsp.playbook.emit import assemble
from stark_lsp.playbook.inductor import cpp, graphs, guards, naming, triton
from stark_lsp.playbook.inductor.backward import FIRST, Backward
from stark_lsp.playbook.inductor.reader import SIZES, CannotEmit, Program, open_part, program_of
from stark_lsp.playbook.kernels import library
from stark_lsp.playbook.names import as_tuple
from stark_lsp.playbook.source import OLD_FORWARD, Forward, beside, find_user_class, renamed_class

MOST = 1_000_000
"""So many characters a program may have that anybody is to keep in a file."""
_OURS = ("kernels", "torch", "device", "tl", "triton", "libdevice", FIRST)
"""Names that a program uses otherwise."""
_ROUNDS = re.compile(r"\btorch\.ops\.stark\.rounded\.")
"""What a program has that rounds to TF32."""
_MADE_UP = re.compile(r"(buf|arg|primals_|gradient|saved|backward|numbers)\d\w*")
"""Names that are given here, or by Inductor."""
_STATISTICS = re.compile(r"\.(?:running_mean|running_var|num_batches_tracked)$")


def emit(
    problem: Problem, made: Mapping[str, Any], comment: str = "", *, replayed: bool = False, exact: bool = False
) -> Candidate:
    """Return the candidate.

    Parameters
    ----------
    made
        What `judge/analysis/inductor.program` returned.
    comment
        A line that goes above the class.
    replayed
        Whether the program is captured as a CUDA graph and replayed.
    exact
        Whether attention takes all its products in as many parts as float32 needs.

    Raises
    ------
    CannotEmit, CannotEdit
    """
    program = program_of(made)
    if len(program.arguments) != len(made["arguments"]):
        raise CannotEmit("its program takes other arguments than it was called with")
    on_gpu = made["device"] == "cuda"
    code = made["code"] + made.get("backward", {}).get("code", "")
    if len(code) > MOST:  # as C++ for a pyramid's anchors is
        raise CannotEmit(f"its program has {len(code) / 1e6:.1f} million characters")
    called = [one for one in handwritten.NAMES if f"torch.ops.stark.{one}." in code]
    if not program.kernels and not called and not replayed:
        raise CannotEmit("torch.compile writes no kernel of its own for it")
    user = find_user_class(problem.slice.text, problem.qualname)
    names = {name: naming.short(name) for name in program.kernels}
    kernels = {names[name]: kernel for name, kernel in program.kernels.items()}
    if len(kernels) < len(names):
        raise CannotEmit("two of its kernels have one name")
    arguments = _Arguments(program, made, names)
    back = None
    if "backward" in made:
        back = Backward(made, program, arguments.spelled, len(_places(ast.parse(made["result"], mode="eval").body)))
        back.returning(arguments.expressions)
        changed = {
            n for n, one in zip(arguments.parameters, arguments.expressions, strict=True) if one in made["changes"]
        }
        if changed & {*back.parameters}:  # torch 2.11 to 2.13 reads it as it is after the call
            raise CannotEmit("its program for backward reads a buffer that the call changes")
        kernels |= {back.names[name]: kernel for name, kernel in back.program.kernels.items()}
    passed = {"backward": "backward"} if back else {}
    passed |= {"captured": "captured", "plain": "compiled"} if back and replayed else {}
    # On running statistics nothing depends in training.
    minded = [] if back and all(map(_STATISTICS.search, made["changes"])) else made["changes"]
    places = [list(arguments.weights).index(_path(one)) for one in minded]
    named = guards.conditions(made.get("parts"), set(user.forward.parameters))
    looked_at = guards.text(
        made["device"],
        parts=None if named is None else any("_stark_part(" in one for one in named),
        trained=back.text(arguments.expressions, replayed=replayed) if back else "",
        passed=list(passed),
        autocast=made.get("autocast", ""),
        written=bool(made["code"]),
        changes=places if made["changes"] else None,
        draws=made.get("draws", False),
        led=bool(made.get("weightless")),
        weights=bool(arguments.weights),
        sizes=open_part(made),
    )
    names_of = naming.given(program, arguments.spelled)
    names_of |= naming.given(back.program, back.spelled) if back else {}
    modules = ["enum", "functools", "hashlib", "operator", "types"]
    imports = [name for name in modules if f"{name}." in looked_at]
    if on_gpu:
        own = [handwritten.text(name, made["capability"], exact=exact) for name in called]
        own += [handwritten.written("tf32").strip()] if _ROUNDS.search(code) else []
        helpers = {**made.get("helpers", {}), **(back.made["helpers"] if back else {})}
        rows = triton.rows(kernels, helpers, names_of, own) if kernels or own else []
        tag = hashlib.sha256("\n".join([*rows, made["code"]]).encode()).hexdigest()[:6]
        ready = []
        shared = [graphs.text(back=back is not None, sized=back is not None and bool(back.sized))] if replayed else []
        imports += ["functools", *(["importlib.util"] if rows else []), *(graphs.IMPORTS if replayed else [])]
    else:
        text = cpp.source(kernels, made["capability"], names_of)
        types = [f'    "{name}": {cpp.prototype(one)},' for name, one in kernels.items()]
        tag, rows, library_of = library.constants(text, types)
        imports += library.IMPORTS
        ready = [f"    kernels = _stark_library({library_of})", "    if not kernels:", "        return None"]
        shared = [library.loader("cpu")]
    held, makers = _held(program, arguments, tag)
    behind, more = _held(back.program, back, tag) if back else ([], [])
    imports += ["functools"] if held or behind or "sizes" in made else []
    steps = [one.statement for each in (program, back and back.program) if each for one in each.steps]
    used = {item.id for step in steps for item in ast.walk(step) if isinstance(item, ast.Name)}
    imports += ["math"] if "math" in used else []
    whole = [
        *(f"import {name}" for name in [*sorted({*imports}), "torch"]),
        "",
        *rows,
        "",
        *arguments.made_for(tag, apart=named is None),
        *([guards.CUDA] if on_gpu else []),
        "",
        "",
        *(line for text in (*makers, *more, *shared, looked_at) for line in (*text.splitlines(), "", "")),
    ]
    form = _form(user.forward, made, arguments)
    # In the place of a program there may be the original's own forward, with all that it changes.
    own = _form(user.forward, {**made, "changes": []}, arguments)
    own[0] = own[0].replace("_form", "_compiled").replace("):", ", *weights):")
    written = _method("_compiled", program, names, made, arguments, [*ready, *held]) if made["code"] else own
    if back:
        written += ["", *_method("_backward", back.program, back.names, back.made, back, [*back.ready(ready), *behind])]
    extra = [
        *written,
        "",
        *(graphs.methods(arguments.inputs, back, made) if replayed else []),
        *([] if _is_plain(user.forward, made, arguments) else [*form, ""]),
    ]
    run = ", ".join(f"self._{name}" for name in ("replayed" if replayed else "compiled", *passed.values()))
    new_forward = _forward(user.forward, made, arguments, tag, named, run)
    text, renamed = beside(user.tree, "\n".join(whole))
    new_class = renamed_class(user, [*map(renamed, new_forward)], [*map(renamed, extra)], keep_old=True)
    return Candidate(assemble(user, [], text, [], [comment, *new_class] if comment else new_class))


class _Arguments:
    """What a program takes: the inputs first, then the weights, each once.

    Attributes
    ----------
    inputs, weights
        As `judge/analysis/inductor.program` describes them; weights by their path in the module.
    spelled
        The name of each in `_compiled`, by the name that Inductor gave it.
    """

    def __init__(self, program: Program, made: Mapping[str, Any], names: Mapping[str, str]) -> None:
        by_expression = {one["expression"]: one for one in made["arguments"] if "shape" in one}
        own = {text: one for text, one in by_expression.items() if text.startswith("self.")}
        listed = {text: own.pop(text) for one in made["lists"] for text in one["tensors"] if text in own}
        self.inputs = [one for text, one in by_expression.items() if not text.startswith("self.")]
        self.weights = {_path(text): one for text, one in own.items()}
        if not self.inputs:
            raise CannotEmit("its program takes no input")
        self.inputs += [*made["unread"], *listed.values()]  # lists of tensors are not where parts have weights
        sizes = made.get("sizes", {"inputs": {}, "dims": {}, "asks": ""})
        self._sized, self._dims, self._asks = sizes["inputs"], sizes["dims"], sizes["asks"]
        """Inputs with sizes that may be any, where the first of them has each, and what is asked of them."""
        self.inputs.sort(key=lambda one: one["expression"] not in [*self._sized][:1])
        if self._sized and self.inputs[0]["expression"] not in self._sized:
            raise CannotEmit("it is not told which sizes it is given")
        odd = [path for path in self.weights if not re.fullmatch(r"[^\W\d]\w*(\.[\w -]+)*", path)]
        if odd:
            raise CannotEmit(f"a tensor that it holds is called {odd[0]}")
        self.spelled = {name: f"numbers{place}" for place, name in enumerate(program.numbers)}
        every = list(zip(program.arguments, made["arguments"], strict=True))
        self.spelled |= {given: one["expression"] for given, one in every if "shape" not in one}
        called: dict[str, str] = {}
        taken = {*_OURS, *names.values(), *self.spelled.values(), *(SIZES if self._asks else ())}
        more = [(f"unread{place}", one) for place, one in enumerate(made["unread"])]
        for given, one in [*((given, one) for given, one in every if "shape" in one), *more]:
            expression = one["expression"]
            if expression not in called:
                plain = re.sub(r"\W+", "_", expression.removeprefix("self.")).strip("_")
                usable = plain.isidentifier() and plain not in taken and not _MADE_UP.fullmatch(plain)
                called[expression] = plain if usable else given
                taken.add(called[expression])
            self.spelled[given] = called[expression]
        self.expressions = [one["expression"] for one in (*self.inputs, *self.weights.values())]
        self.parameters = [called[expression] for expression in self.expressions]
        """Names of all, in the order in which they are passed, as are expressions."""
        self.sized = [f"    {size} = {self.parameters[0]}.shape[{dim}]" for size, dim in self._dims.items()]
        """Lines that read the sizes that may be any."""

    def made_for(self, tag: str, *, apart: bool) -> list[str]:
        """Return constants that say what tensors the program was made for; `apart`, weights have one of their own.

        Where some sizes may be any, the first one is a function of those.
        """
        inputs = {one["expression"]: one for one in self.inputs}
        weights = {f"self.{path}": one for path, one in self.weights.items()}
        named = {"MADE_FOR": inputs, "WEIGHTS": weights} if apart else {"MADE_FOR": inputs | weights}
        found = []
        for name, given in named.items():
            rows = [f'"{key}": ({self._layout(key, one)}, torch.{one["dtype"]})' for key, one in given.items()]
            short, several = f"{{{', '.join(rows)}}}", ["{", *(f"    {row}," for row in rows), "}"]
            if self._asks and name == "MADE_FOR":
                asks = self._asks.split(" and ")
                asks[1:] = [f"and {one}" for one in asks[1:]]
                names = ", ".join(f"{name}=0" for name in self._dims)
                short = f"functools.cache(lambda {names}: {self._asks} and {short})"
                inside = [f"    {line}" for line in (*asks, f"and {several[0]}", *several[1:])]
                several = [
                    "functools.cache(",
                    f"    lambda {names}: (",
                    *(f"    {line}" for line in inside),
                    "    )",
                    ")",
                ]
            begin = f"_{name}_{tag} = "
            fits = len(rows) < 2 and len(begin + short) <= triton.WIDTH
            found += [begin + short] if fits else [begin + several[0], *several[1:]]
        return found

    def _layout(self, expression: str, one: Mapping[str, Any]) -> str:
        """Return shape and strides of a tensor as text."""
        known = self._sized.get(expression, one)
        return ", ".join(as_tuple(list(map(str, known[of]))) for of in ("shape", "stride"))


def _held(program: Program, arguments: _Arguments | Backward, tag: str) -> tuple[list[str], list[str]]:
    """Return the lines that give a program the tensors it holds, and the functions that make them."""
    lines, made = [], []
    for name, text in program.numbers.items():
        spelled = arguments.spelled[name]
        lines.append(f"    {spelled} = _stark_{spelled}_{tag}({arguments.parameters[0]}.device)")
        made.append(handwritten.numbers(f"_stark_{spelled}_{tag}", text))
    return lines, made


def _path(expression: str) -> str:
    """Return the path of `self.layers[0].weight`: `layers.0.weight`."""
    return re.sub(r"\[(\d+)\]", r".\1", expression.removeprefix("self."))


def _form(forward: Forward, made: Mapping[str, Any], arguments: _Arguments) -> list[str]:
    """Return the method that computes the same in PyTorch, from the same tensors and as the same row of results."""
    inputs = [one["expression"] for one in arguments.inputs]
    names = {text: text if text.isidentifier() else f"_stark_input{place}" for place, text in enumerate(inputs)}
    given, others = list(names.values()), made["others"]
    missing = [name for name in forward.parameters if name not in {*inputs, *others}]
    if missing:
        raise CannotEmit(f"the input {missing[0]} is not a tensor that the program reads")
    texts = {name: one["text"].format(*map(names.get, one["tensors"])) for name, one in others.items()}
    places = _places(ast.parse(made["result"], mode="eval").body)
    if sorted(places) != list(range(len(places))):
        raise CannotEmit("its program returns more than the module")
    out = f"self.{OLD_FORWARD}({forward.call})"
    if made["changes"]:
        given, out = ["_began", *given], f"_stark_from(_began, {as_tuple(made['changes'])}, lambda: {out})"
    return [
        f"def _form(self, {', '.join(given)}):",
        *(line for name, text in texts.items() for line in triton.wrapped(f"    {name} = {text}")),
        *triton.wrapped(f"    out = {out}"),
        f"    return {as_tuple([f'out{places[place]}' for place in range(len(places))])}",
    ]


def _places(node: ast.expr, path: str = "") -> dict[int, str]:
    """Return where in a result each of the program's results is."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "out" and isinstance(node.slice, ast.Constant):
        return {int(str(node.slice.value)): path}
    inside: list[tuple[str, ast.expr]] = []
    if isinstance(node, (ast.Tuple, ast.List)):
        inside = [(f"[{place}]", item) for place, item in enumerate(node.elts)]
    elif isinstance(node, ast.Dict):
        inside = [(f"[{ast.unparse(key)}]", item) for key, item in zip(node.keys, node.values, strict=True) if key]
    elif isinstance(node, ast.Call):
        inside = [(f".{one.arg}", one.value) for one in node.keywords]
    return {number: at for part, item in inside for number, at in _places(item, path + part).items()}


def _method(
    name: str,
    program: Program,
    names: Mapping[str, str],
    made: Mapping[str, Any],
    arguments: _Arguments | Backward,
    ready: Sequence[str],
) -> list[str]:
    """Return the method that runs the program; `ready` are lines before."""
    on_gpu = made["device"] == "cuda"
    launches = triton.by_step(program, made["launches"]) if on_gpu else [None] * len(program.steps)
    lines = []
    for step, how in zip(program.steps, launches, strict=True):
        for item in ast.walk(step.statement):
            if isinstance(item, ast.Name):
                item.id = arguments.spelled.get(item.id, item.id)
        if how is not None:
            kernel = program.kernels[step.kernel]
            lines.append(triton.launch(kernel, step, names[step.kernel], how, any_size=bool(arguments.sized)))
        elif step.kernel:
            lines += cpp.call(step, names[step.kernel], program.kernels[step.kernel])
        else:
            text = ast.unparse(step.statement)
            lines.append(text if on_gpu else text.replace("device=device", 'device="cpu"'))
    head = ["@staticmethod", *triton.wrapped(f"def {name}({', '.join(arguments.parameters)}):")]
    head += [*arguments.sized, *ready]
    if on_gpu:
        first = f"    device = {arguments.parameters[0]}.device"
        return [*head, first, *(part[4:] for line in lines for part in triton.wrapped(" " * 8 + line))]
    return [*head, *(f"    {line}" for line in lines)]


def _is_plain(forward: Forward, made: Mapping[str, Any], arguments: _Arguments) -> bool:
    """Whether the old forward, as it is called, is the form: it takes the inputs alone, and returns one tensor."""
    inputs = ", ".join(one["expression"] for one in arguments.inputs)
    return made["result"] == "out[0]" and not made["changes"] and not made["others"] and forward.call == inputs


def _forward(
    forward: Forward, made: Mapping[str, Any], arguments: _Arguments, tag: str, named: Sequence[str] | None, run: str
) -> list[str]:
    """Return the new forward, which has `run` run.

    Parameters
    ----------
    named
        Conditions on the module, None where its digest is compared.
    """
    old = f"self.{OLD_FORWARD}({forward.call})"
    code = made["code"] + made.get("backward", {}).get("code", "")
    # Nobody compiles, traces or is told of operators.
    wanted = ["not (torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack())"]
    wanted += ["triton is not None"] if made.get("launches") or "torch.ops.stark." in code else []
    floating = all("float" in str(one["dtype"]) for one in arguments.inputs)
    if "default" in made and (not floating or made.get("makes") or "= torch.tensor(" in code):
        wanted.append(f"torch.get_default_dtype() is {made['default']}")
    wanted += ["_stark_tf32()"] if _ROUNDS.search(code) else []  # it rounds as cuDNN does where that may
    wanted += named or ()
    first = arguments.inputs[0]["expression"]
    others = made["others"].values()
    wanted += [ask for one in others if one["tensors"] for ask in one["asks"]]
    if others or named is None:  # which compare what only stands for a tensor, or for a value
        wanted.append(f"type({first}) in (torch.Tensor, torch.nn.Parameter)")
    wanted += [ask for one in others if not one["tensors"] for ask in one["asks"]]
    places = [path.rpartition(".") for path in arguments.weights]
    weights = as_tuple([f'{guards.held(part)}("{name}")' if part else f"self.{name}" for part, _, name in places])
    if named is None:
        weights = "weights" if "weights" not in forward.parameters else "_weights"
        unasked = "".join(f', "{name}"' for name in made.get("unasked", ()))
        look = f'_stark_weights(self, {first}, _WEIGHTS_{tag}, "{made["module"]}", {made["mode_matters"]}'
        look += f", ({unasked[2:]},))" if unasked else ")"
        wanted.append(f"({weights} := {look}) is not None")
    # Behind what says that these parts are there.
    wanted += [ask for one in made["lists"] for ask in one["asks"]]
    wanted += [f"{one} is {other}" for one, other in made.get("tied", ())]
    reads = [one for one in made.get("reads", ()) if named is not None or one[0][:8] != "hasattr("]
    wanted = [*dict.fromkeys([*wanted, *(guards.holds(*one) for one in reads)])]
    head = f"if {' and '.join(wanted)}:"
    if len(head) > triton.WIDTH - 8:
        rows = [part[8:] for one in wanted for part in triton.wrapped(" " * 12 + f"and {one}")]
        head = "\n".join(["if (", rows[0].replace("and ", "", 1), *rows[1:], "):"])
    inputs = as_tuple([one["expression"] for one in arguments.inputs])
    form = f"self.{OLD_FORWARD if _is_plain(forward, made, arguments) else '_form'}"
    capability = made["capability"] if isinstance(made["capability"], str) else tuple(made["capability"])
    out = "out" if "out" not in forward.parameters else "_stark_out"
    more = f", _WEIGHTS_{tag}" if named is None else ""
    call = f"{out} = _stark_run({run}, {form}, {inputs}, {weights}, _MADE_FOR_{tag}, {capability!r}{more})"
    # What no weight reaches requires gradients where an input does.
    ends = dict.fromkeys(made.get("weightless", ()), f"_stark_led(?, {inputs})")
    ends |= dict.fromkeys(made.get("ends", ()), "?.detach()")
    result = re.sub(r"\bout\[(\d+)\]", lambda at: ends.get(int(at[1]), "?").replace("?", at[0]), made["result"])
    lines = [
        f"{out} = None",
        *head.splitlines(),
        *(part[8:] for part in triton.wrapped(" " * 12 + call.replace("'", '"'))),
        f"return {old} if {out} is None else " + re.sub(r"\bout\[", f"{out}[", result),
    ]
    return [forward.header, *(f"    {line}" for line in lines)]
