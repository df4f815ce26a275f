"""Modules that no kernel needs."""

from __future__ import annotations

from collections.abc import Iterator

from ..candidate import Candidate
from ..uses import IMPORT
from ..words import Flag, Refusal, listed

_WHY = {
    "starts processes or threads, which no kernel needs": (
        "subprocess multiprocessing concurrent _thread pty sched asyncio posix _posixsubprocess nt joblib ray "
        "torch.multiprocessing torch.distributed dask signal greenlet gevent queue _posixshmem"
    ),
    "reaches the network": (
        "socket _socket ssl http urllib urllib3 ftplib smtplib poplib imaplib telnetlib xmlrpc socketserver select "
        "selectors webbrowser requests httpx aiohttp grpc zmq torch.hub"
    ),
    "loads or makes code behind the judge's back": (
        "imp pkgutil runpy zipimport code codeop pickle cPickle _pickle marshal shelve dill cloudpickle copyreg pip "
        "setuptools distutils ensurepip venv site sitecustomize usercustomize builtins __main__ _frozen_importlib"
    ),
    "looks into or changes the running interpreter": (
        "atexit faulthandler resource trace bdb pdb cProfile profile tracemalloc unittest mock pytest dis "
        "symtable rlcompleter _ctypes _testcapi forbiddenfruit wrapt torch._C torch.testing._internal"
    ),
    "reads or writes files": (
        "shutil fileinput mmap sqlite3 zipfile tarfile dbm fcntl linecache netrc configparser h5py "
        "safetensors joblib torch.serialization"
    ),
    "hides text from the reader": "base64 binascii zlib bz2 lzma gzip codecs quopri uu encodings rot13",
    "overrides how torch dispatches its operators": (
        "torch.utils._python_dispatch torch.overrides torch.fx.experimental"
    ),
}
REFUSED = {name: why for why, names in _WHY.items() for name in names.split()}
"""Modules by name, and what they do."""
_FINE = listed(
    "torch triton math typing typing_extensions functools itertools collections dataclasses os sys time ctypes "
    "threading inspect warnings platform abc enum contextlib hashlib string textwrap re random operator numbers "
    "__future__ numpy types weakref copy glob pathlib tempfile logging importlib gc traceback cutlass cute "
    "cuda io json decimal fractions statistics bisect heapq array struct uuid sysconfig pprint"
)


def why_refused(path: str) -> str:
    """Return what is wrong with importing a module, empty if nothing."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in REFUSED and (count == len(parts) or name not in ("torch.fx.experimental",)):
            return REFUSED[name]
    return ""


def refused_imports(candidate: Candidate) -> Iterator[Refusal]:
    """Modules for processes, the network, files, code from elsewhere, hidden text."""
    ours = _imports(candidate.reference)
    for use in candidate.uses:
        # Whatever is reached through another module counts as imported as well.
        path = use.path.split("(")[0].split("[")[0]
        why = why_refused(path)
        if not why or path in ours or path.startswith("builtins."):
            continue
        if use.kind != IMPORT and not path.startswith(tuple(f"{name}." for name in REFUSED)) and path not in REFUSED:
            continue
        name = next(".".join(path.split(".")[:n]) for n in range(9, 0, -1) if ".".join(path.split(".")[:n]) in REFUSED)
        yield Refusal(f"The module {name} {why}.", use.line)
    for use in candidate.uses:
        if use.kind == IMPORT and use.path.split(".")[0].lower().startswith(
            ("stark_lsp", "stark_candidate", "kernelbench")
        ):
            yield Refusal("It imports parts of the judge.", use.line)


def foreign_imports(candidate: Candidate) -> Iterator[Flag]:
    """A candidate should need torch alone."""
    ours = {path.split(".")[0] for path in _imports(candidate.reference)}
    seen: set[str] = set()
    for use in candidate.uses:
        if use.kind != IMPORT or use.path.startswith("."):
            continue
        name = use.path.split(".")[0]
        if name and name not in _FINE and name not in ours and name not in seen and name not in REFUSED:
            seen.add(name)
            yield Flag(f"It needs the package {name}, which the original does not.", use.line)


def _imports(reference: Candidate | None) -> set[str]:
    if reference is None:
        return set()
    found: set[str] = set()
    for use in reference.uses:
        if use.kind == IMPORT:
            parts = use.path.split(".")
            found |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    return found
