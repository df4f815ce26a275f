"""How a kernel is built: compiler options, and where sources come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import BUILDERS, Candidate, source_arguments
from ..uses import CALL
from ..words import Flag, Refusal, listed

_OPTIONS = tuple(
    listed(
        "-fplugin -plugin -B -specs --specs -wrapper -include --include -imacros -pre-include "
        "--pre-include -ccbin --compiler-bindir --options-file -optf -fuse-ld -no-canonical-prefixes "
        "--sysroot -isysroot -idirafter -iquote -fdump -save-temps --save-temps --keep -keep -o -MF -MD "
        "-fprofile -load -Xclang -T --dlink -run --run -time --time -dumpdir -aux-info -fauto-profile -x "
        "--dependency-output -Wa, -Xassembler --import "
    )
)
_LINKER = (
    "--wrap",
    "-init",
    "-fini",
    "--defsym",
    "-T",
    "--script",
    "--dynamic-list",
    "-z,interpose",
    "--version-script",
    "-plugin",
    "--auxiliary",
    "--audit",
    "-dynamic-linker",
    "-Map",
    "-o,",
    "-e,",
    "--entry",
)
_NEEDED = (
    "gomp",
    "omp",
    "cuda",
    "cublas",
    "cudnn",
    "cusparse",
    "torch",
    "c10",
    "m",
    "stdc++",
    "iomp5",
    "curand",
    "cufft",
    "cusolver",
    "nvrtc",
)


def compiler_options(candidate: Candidate) -> Iterator[Refusal]:
    """Options that run programs, read other files, or replace functions."""
    for call in _builders(candidate):
        for word in call.keywords:
            if word.arg in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_sycl_cflags", "nvcc_options"):
                for text in _texts(candidate, word.value):
                    reason = why_option(text, linking=word.arg == "extra_ldflags")
                    if reason:
                        yield Refusal(reason, word.value.lineno)
            elif word.arg == "extra_include_paths":
                for text in _texts(candidate, word.value):
                    if text.startswith(("/proc", "/dev", "/home", "/root", "/etc", "~", "..")):
                        yield Refusal(f"It includes files from {text[:60]}.", word.value.lineno)
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            if "os.environ" in candidate.names.of(target.value):
                said = candidate.folder.fold(target.slice)
                if said and said.value in ("CFLAGS", "CXXFLAGS", "LDFLAGS", "NVCC_FLAGS", "CUDAFLAGS", "CPPFLAGS"):
                    for text in _texts(candidate, node.value):
                        for part in text.split():
                            reason = why_option(part, linking=True)
                            if reason:
                                yield Refusal(reason, node.lineno)


def why_option(text: str, *, linking: bool = False) -> str:
    """Return what is wrong with one option of a compiler, empty if nothing."""
    for part in text.replace(",", " ,").split():
        option = part.lstrip(",")
        if option.startswith("@"):
            return f"It reads compiler options from a file ({part[:60]})."
        if option.startswith(_OPTIONS) and not option.startswith(("-x86", "-time-trace")) and not _harmless(option):
            return f"The compiler option {option[:60]} does more than compile."
    if any(word in text for word in ("-fplugin", "--wrap", "-ccbin")):
        return f"The compiler option {text[:60]} does more than compile."
    if text.startswith(("-Wl,", "-Xlinker")) and any(f"{mark}" in text[4:] for mark in _LINKER):
        return f"The linker option {text[:60]} does more than link."
    if linking and text.startswith("-l") and text[2:] not in _NEEDED and text[2:].startswith(":"):
        return f"It links {text[2:60]}."
    return ""


def _harmless(option: str) -> bool:
    return option.startswith(("-openmp", "-Xcompiler"))


def _texts(candidate: Candidate, node: ast.AST) -> list[str]:
    """Return the texts in a list of options, as far as they can be told."""
    seen: set[ast.AST] = set()
    queue, found = [node], []
    while queue:
        part = queue.pop(0)
        if part in seen:
            continue
        seen.add(part)
        said = candidate.folder.fold(part)
        if said is not None:
            found.append(said.value)
        elif isinstance(part, (ast.List, ast.Tuple)):
            queue += part.elts
        elif isinstance(part, (ast.BinOp, ast.IfExp, ast.Starred, ast.BoolOp, ast.Call)):
            queue += [child for child in ast.iter_child_nodes(part) if isinstance(child, ast.expr)]
        elif isinstance(part, ast.Name):
            scope = candidate.scopes.of.get(part, candidate.scopes.top)
            queue += [bound.source for bound in scope.find(part.id) or [] if isinstance(bound.source, ast.expr)]
    return found


def _builders(candidate: Candidate) -> list[ast.Call]:
    return [
        use.node
        for use in candidate.uses
        if use.kind == CALL and use.path in BUILDERS and isinstance(use.node, ast.Call)
    ]


def hidden_sources(candidate: Candidate) -> Iterator[Flag]:
    """A source that is made at run time cannot be read before."""
    for call in _builders(candidate):
        for argument in source_arguments(call):
            parts = argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else [argument]
            for part in parts:
                said = candidate.folder.fold(part)
                if said is None and not (isinstance(part, ast.Constant) and part.value is None):
                    yield Flag("The source of its kernel is only known at run time.", call.lineno)


def sources_from_files(candidate: Candidate) -> Iterator[Refusal]:
    """`load(sources=[...])` builds files, and a candidate is one file."""
    for use in candidate.uses:
        if use.kind == CALL and use.path == "torch.utils.cpp_extension.load":
            yield Refusal("It builds files from elsewhere; a candidate is one file.", use.line)
