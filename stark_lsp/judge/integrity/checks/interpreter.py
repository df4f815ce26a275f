"""Looking into the interpreter: frames, modules, other objects, code as data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..uses import CALL, IMPORT, LOAD, Use
from ..words import Refusal, listed

GADGETS = listed(
    "__subclasses__ __globals__ __builtins__ __code__ __closure__ __bases__ __base__ __mro__ __getattribute__ "
    "__reduce__ __reduce_ex__ __loader__ __spec__ __import__ __setattr__ __delattr__ __self__ __func__ "
    "__wrapped__ __init_subclass__ __set_name__ __prepare__ f_globals f_locals f_back f_builtins f_code "
    "gi_frame gi_code cr_frame ag_frame tb_frame tb_next co_code co_consts func_globals __kwdefaults__ "
    "__defaults__ mro __torch_function__ __torch_dispatch__ __del__ __doc__ __traceback__ with_traceback "
    "__context__ __cause__ cr_code ag_code cr_origin gi_yieldfrom cr_await tb_lasti f_lineno f_trace co_names "
    "co_varnames fget fset fdel exec_module load_module __objclass__ __subclasshook__"
)
"""Attributes that lead from a harmless object to everything else."""
_OWN = listed(
    "__del__ __setattr__ __delattr__ __getattribute__ __torch_function__ __torch_dispatch__ __init_subclass__ "
    "__reduce__ __reduce_ex__ __instancecheck__ __subclasscheck__ __subclasshook__"
)
"""Those that a class may not define either."""
_SUPER_FINE = listed("__setattr__ __delattr__ __init_subclass__")
_CALLS = {
    "builtins.exec": "runs text as code",
    "builtins.eval": "runs text as code",
    "builtins.compile": "makes code from text",
    "builtins.__import__": "imports a module by text",
    "builtins.breakpoint": "stops in a debugger",
    "builtins.input": "waits for input",
    "types.FunctionType": "makes functions from code objects",
    "types.LambdaType": "makes functions from code objects",
    "types.CodeType": "makes code objects",
    "types.MethodType": "binds functions to objects of others",
    "functools.update_wrapper": "",
    "gc.get_objects": "searches the objects of the process",
    "gc.get_referrers": "searches the objects of the process",
    "gc.get_referents": "searches the objects of the process",
    "gc.callbacks": "hooks into garbage collection",
    "gc.disable": "switches garbage collection off",
    "gc.freeze": "switches garbage collection off",
    "gc.set_threshold": "changes garbage collection",
    "gc.set_debug": "changes garbage collection",
    "importlib.metadata.EntryPoint": "imports modules by text",
    "importlib.metadata.entry_points": "imports modules by text",
    "weakref.finalize": "leaves work to be done later",
}
_SYS = listed(
    "modules _getframe _current_frames _getframemodulename settrace gettrace setprofile getprofile meta_path "
    "path_hooks path_importer_cache path addaudithook monitoring setswitchinterval call_tracing "
    "_debugmallocstats exc_info last_traceback last_exc displayhook excepthook unraisablehook breakpointhook "
    "stdin __stdout__ __stderr__ __stdin__ setdlopenflags _clear_type_cache set_asyncgen_hooks "
    "set_coroutine_origin_tracking_depth activate_stack_trampoline exit _current_exceptions intern_dict ps1 "
    "argv orig_argv"
)
_INSPECT = listed("signature cleandoc isfunction isclass ismethod Parameter Signature getfullargspec unwrap getdoc")
_IMPORTLIB = ("importlib.util.find_spec", "importlib.metadata", "importlib.util", "importlib")
_THREADING = listed("Lock RLock local get_ident current_thread")
_MODULE_STATE = ("globals", "locals")


def forbidden_attributes(candidate: Candidate) -> Iterator[Refusal]:
    """Gadgets such as `__subclasses__`, frames and code objects."""
    for node in ast.walk(candidate.tree):
        line = getattr(node, "lineno", None)
        if isinstance(node, ast.Attribute) and node.attr in GADGETS:
            over_super = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
            if not (over_super and node.attr in _SUPER_FINE):
                yield Refusal(f"It uses {node.attr}, which leads into the interpreter.", line)
        elif isinstance(node, ast.Name) and node.id in (
            "__builtins__",
            "__loader__",
            "__spec__",
            "__import__",
            "__doc__",
        ):
            yield Refusal(f"It uses {node.id}, which leads into the interpreter.", line)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in _OWN:
            yield Refusal(f"It defines {node.name}, which intercepts what others do.", line)
        elif isinstance(node, ast.FunctionDef) and node.name == "__getattr__" and _at_top(candidate, node):
            yield Refusal("It intercepts the names of its own module.", line)
        elif isinstance(node, ast.Attribute) and node.attr == "__class__" and not isinstance(node.ctx, ast.Load):
            yield Refusal("It changes the class of an object.", line)
        elif type(node).__name__ == "MatchClass":
            # No `ast.MatchClass`: Python 3.9 has none, nor a line of its own in older trees.
            for word in node.kwd_attrs:  # type: ignore[attr-defined]
                if word in GADGETS or word.startswith("__"):
                    yield Refusal(f"It uses {word}, which leads into the interpreter.", line)
        elif isinstance(node, ast.Call) and len(node.args) >= 2:
            called = candidate.names.of(node.func)
            if called & {"builtins.getattr", "builtins.setattr", "builtins.hasattr", "builtins.delattr"}:
                folded = candidate.folder.fold(node.args[1])
                for name in [*(candidate.names.spellings.of(node.args[1]) or []), *([folded.value] if folded else [])]:
                    if any(part in GADGETS for part in name.split(".")):
                        yield Refusal(f"It uses {name}, which leads into the interpreter.", line)
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            said = candidate.folder.fold(node)
            if (
                said
                and "{" in said.value
                and any(f".{word}" in said.value for word in GADGETS if word.startswith("__"))
            ):
                yield Refusal("A format text leads into the interpreter.", line)


def _at_top(candidate: Candidate, node: ast.AST) -> bool:
    return node in candidate.tree.body


def introspection(candidate: Candidate) -> Iterator[Refusal]:
    """`sys.modules`, frames, tracing, `gc`, `exec`, dynamic imports, threads."""
    for use in candidate.uses:
        reason = _why(use)
        if reason:
            yield Refusal(f"It {reason}.", use.line)


def _why(use: Use) -> str:
    path = use.path.split("()")[0].split("[")[0]
    if path in _CALLS:
        what = _CALLS[path]
        return f"{what} ({path.replace('builtins.', '')})" if what else ""
    root, _, rest = path.partition(".")
    first = rest.split(".")[0]
    if root == "sys" and (first in _SYS or first == "?"):
        return f"uses sys.{rest}, which leads to the judge's side of the process"
    if root == "inspect" and rest and first not in _INSPECT:
        return f"looks into the running program (inspect.{first})"
    if root == "importlib" and rest and not path.startswith(_IMPORTLIB[:2]) and path not in _IMPORTLIB:
        return f"imports modules behind the judge's back ({path})"
    if root == "threading" and rest and first not in _THREADING:
        return f"uses threads ({path}); work must be done when the call returns"
    if root == "traceback" and first in ("walk_stack", "walk_tb", "extract_stack", "StackSummary"):
        return "looks into the running program"
    if root == "builtins" and first in ("getattr", "setattr", "delattr") and use.kind == LOAD:
        return f"passes {first} on, so that what it reaches cannot be read"
    if root == "builtins" and first in ("getattr", "setattr", "delattr") and use.kind != CALL and use.kind != LOAD:
        return f"replaces {first}"
    if use.kind == IMPORT and root == "__main__":
        return "imports the program that runs it"
    if root in ("os", "sys", "ctypes", "gc", "builtins", "importlib", "inspect") and "?" in rest.split("."):
        return f"takes a name from {root} that is only known at run time"
    return ""
