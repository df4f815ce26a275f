"""All checks by name, in the order in which they are made: first what a reader should hear first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..candidate import Candidate
from ..words import Flag, Refusal
from . import (
    building,
    counters,
    fallback,
    imports,
    internals,
    interpreter,
    native_calls,
    native_dead,
    native_includes,
    native_python,
    native_state,
    native_symbols,
    native_system,
    patching,
    precision,
    recognised,
    reflection,
    replay,
    streams,
    structure,
    system,
    texts,
    wrapping,
)

Check = Callable[[Candidate], Iterator[Refusal]]
Look = Callable[[Candidate], Iterator[Flag]]

CHECKS: dict[str, Check] = {
    "class": structure.defines_class,
    "forward": structure.has_forward,
    "patching": patching.patches,
    "precision": precision.lowered_precision,
    "imports": imports.refused_imports,
    "attributes": interpreter.forbidden_attributes,
    "introspection": interpreter.introspection,
    "internals": internals.internals,
    "made names": reflection.made_names,
    "annotations": texts.code_in_annotations,
    "scripts": texts.late_scripts,
    "torch settings": patching.rebinding_parameters,
    "dispatch": patching.dispatch,
    "files": system.files,
    "processes": system.processes,
    "environment": system.environment,
    "memory": system.memory,
    "streams": streams.other_streams,
    "options": building.compiler_options,
    "sources": building.sources_from_files,
    "original imported": wrapping.imports_original,
    "original wrapped": wrapping.wraps_original,
    "hidden failures": fallback.hidden_failures,
    "unused kernels": fallback.unused_kernels,
    "recognised inputs": replay.kept_by_pointer,
    "recognised content": recognised.kept_by_content,
    "kept results": replay.kept_results,
    "memoised": replay.memoised,
    "call counters": counters.call_counters,
    "C++ includes": native_includes.includes,
    "C++ symbols": native_symbols.symbols,
    "C++ calls": native_calls.calls,
    "C++ Python": native_python.python_calls,
    "C++ system": native_system.system_ways,
    "C++ state": native_state.kept_tensors,
    "C++ dead": native_dead.dead_kernels,
}
"""What refuses."""
FLAGS: dict[str, Look] = {
    "imports": imports.foreign_imports,
    "unusual": patching.unusual,
    "folders": system.folders,
    "half precision": precision.half_precision,
    "original": wrapping.may_fall_back,
    "sources": building.hidden_sources,
    "C++": native_calls.noted,
    "C++ memory": native_state.kept_memory,
    "C++ threads": native_system.thread_counts,
    "C++ half precision": precision.half_in_cpp,
    "state": replay.kept_state,
}
"""What only notes."""
