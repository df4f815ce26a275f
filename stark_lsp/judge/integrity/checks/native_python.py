"""C++ that reaches the Python interpreter it runs in: Python's C functions, pybind11 under any name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..candidate import Candidate, Native
from ..tokens import IDENTIFIER, STRING, Token
from ..words import Refusal, listed

_WHY = "Its C++ code reaches the Python interpreter"
_FUNCTIONS = re.compile(
    r"_Py\w+|Py(Frame|Import|Run|Sys|Code|GC|Marshal|Unstable|TraceBack|Function|CFunction|Descr|Interpreter|Config"
    r"|InterpreterState|ThreadState|Eval|Method|Weakref|Contextvar|Ctx|Audit|Monitoring|Cell|Gen|Coro)_\w+"
    r"|PyObject_(Gen\w+|SetAttr\w*|GetAttr\w*|GetOptionalAttr\w*|Call\w*|Dir|GC_\w+|GetIter|Type|DelAttr\w*)"
    r"|PyModule_(Get\w+|AddObject\w*)|PyDict_SetItemString|PyType_(Get\w+|Modified|GenericNew)|PyCapsule_Import"
    r"|PyGILState_GetThisThreadState|PyObject_GetAttr|PyErr_(Get|Fetch|Set)HandledException|PyErr_GetExcInfo"
    r"|PyErr_GetRaisedException|PyErr_Fetch|PyException_GetTraceback|PyVectorcall_\w+"
    r"|Py_(CompileString\w*|AtExit|AddPendingCall|Initialize\w*|Finalize\w*|Main|BytesMain|NewInterpreter\w*|Exit)"
)
_FINE = listed(
    "PyEval_SaveThread PyEval_RestoreThread PyEval_InitThreads PyMethodDef PyModuleDef PyModuleDef_HEAD_INIT "
    "_PyCFunctionFast PyMethod_Check"
)
_MEMBERS = listed("exec eval eval_file globals module_ import exec_ scoped_interpreter initialize_interpreter")
_BARE = listed("exec eval eval_file globals")
_SPACES = frozenset({"py", "pybind11"})


def python_calls(candidate: Candidate) -> Iterator[Refusal]:
    """Python's functions in any source."""
    for native in candidate.natives:
        yield from python_calls_of(native)


def python_calls_of(native: Native) -> Iterator[Refusal]:
    """As `python_calls`, for one source."""
    tokens = native.unit.tokens
    spaces, opened = aliases(tokens, _SPACES)
    own = {function.name for function in native.unit.functions}
    for at, token in enumerate(tokens):
        if token.kind != IDENTIFIER:
            continue
        before = tokens[at - 1].text if at else ""
        owner = tokens[at - 2].text if before == "::" and at >= 2 else ""
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        bad = _FUNCTIONS.fullmatch(token.text) is not None and token.text not in _FINE and token.text not in own
        bad = bad or (owner in spaces and token.text in _MEMBERS)
        bad = bad or (
            opened
            and token.text in _BARE
            and after == "("
            and before not in (".", "->", "::")
            and token.text not in own
        )
        if bad:
            yield Refusal(f"{_WHY} ({token.text}).", native.line(token))
        elif token.text == "attr" and before in (".", "->") and after == "(" and _opaque(tokens, at + 2):
            yield Refusal(f"{_WHY} (attr).", native.line(token))


def aliases(tokens: list[Token], names: frozenset[str]) -> tuple[set[str], bool]:
    """Return the names of some namespaces, aliases included, and whether `using namespace` opens one of them."""
    spaces = set(names)
    opened = False
    for _ in range(3):
        for at, token in enumerate(tokens):
            if token.text != "namespace":
                continue
            statement = []
            for part in tokens[at + 1 : at + 12]:
                if part.text in (";", "{"):
                    break
                statement.append(part.text)
            if len(statement) >= 3 and statement[1] == "=" and statement[-1] in spaces:
                spaces.add(statement[0])
            elif statement and at and tokens[at - 1].text == "using" and statement[-1] in spaces:
                opened = True
    return spaces, opened


def _opaque(tokens: list[Token], at: int) -> bool:
    """Whether `.attr(...)` takes a name that begins with an underscore, leads to frames, or cannot be read."""
    if at >= len(tokens) or tokens[at].text == ")":
        return False
    text = ""
    while at < len(tokens) and tokens[at].kind == STRING:
        text += tokens[at].value
        at += 1
    if at >= len(tokens) or tokens[at].text != ")" or not text:
        return True
    return text.startswith(("_", "tb_", "f_", "gi_", "cr_", "ag_", "co_")) or text in ("mro", "modules", "system")
