"""What a C++ or CUDA source uses, as far as its words tell: which headers it wants, and which helpers of the facade."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-z_]\w*")
_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
_TORCH = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:torch|ATen|c10)/", re.M)
_INDUCTOR = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]torch/csrc/inductor/", re.M)

# Words that torch's headers make known by including these.
_STANDARD = {
    "algorithm": "sort stable_sort max_element min_element copy fill transform max min clamp swap reverse find all_of",
    "array": "array",
    "cassert": "assert",
    "chrono": "chrono",
    "complex": "complex",
    "cstdio": "printf fprintf snprintf stderr stdout",
    "cstdlib": "malloc free abort exit getenv abs",
    "functional": "function hash plus bind",
    "iostream": "cout cerr endl",
    "map": "map",
    "memory": "unique_ptr shared_ptr make_unique make_shared",
    "mutex": "mutex lock_guard unique_lock once_flag call_once",
    "numeric": "accumulate iota",
    "set": "set",
    "sstream": "stringstream ostringstream",
    "thread": "thread",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
}
_HALF = re.compile(r"\b(?:Half|half|half2|__half\w*|__float2half\w*|AT_DISPATCH_\w*HALF)\b|\bk(?:Half|Float16)\b")
_BFLOAT16 = re.compile(r"\b(?:BFloat16|kBFloat16|nv_bfloat16\w*|__nv_bfloat16\w*|__float2bfloat16\w*)\b")
_ACCESSOR = re.compile(r"\b(?:packed_accessor\w*|accessor|\w*TensorAccessor\w*|\w*PtrTraits)\b")
_PYTHON = re.compile(r"\b(?:PYBIND11_MODULE|pybind11|py)\b")


def plain(text: str) -> str:
    """Return a source without comments and without what stands in strings."""
    return _NOISE.sub(lambda match: '""' if match.group().startswith('"') else " ", text)


def uses_torch(text: str) -> bool:
    """Whether a source includes a header of torch."""
    return bool(_TORCH.search(text))


def may_be_quick(text: str) -> bool:
    """Whether headers of our own may stand for torch's in a source; never for what Inductor's kernels include."""
    return uses_torch(text) and not _INDUCTOR.search(text)


def standard_headers(text: str) -> list[str]:
    """Return the standard headers that a source may rely on torch's headers to include."""
    words = set(_WORD.findall(plain(text)))
    return [header for header, names in _STANDARD.items() if words & set(names.split())]


def facade_needs(text: str, cuda: bool) -> list[str]:
    """Return the lines of `stark_needs.h`: which of torch's own light headers the facade is to include."""
    code = plain(text)
    lines = []
    if _HALF.search(code):
        lines += ["#define STARK_NEEDS_HALF", "#include <c10/util/Half.h>"]
    if _BFLOAT16.search(code):
        lines += ["#define STARK_NEEDS_BFLOAT16", "#include <c10/util/BFloat16.h>"]
    if _ACCESSOR.search(code):
        lines += ["#define STARK_NEEDS_ACCESSOR", "#include <torch/headeronly/core/TensorAccessor.h>"]
    if cuda and _PYTHON.search(code):
        lines += ["#define STARK_NEEDS_PYTHON"]
    return lines
