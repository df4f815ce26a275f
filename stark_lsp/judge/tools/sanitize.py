"""Run a forward pass under NVIDIA compute-sanitizer, and read what it found.

Options and the forms of its output: Compute Sanitizer, docs.nvidia.com/compute-sanitizer. Of its tools memcheck is used
(accesses outside an allocation, misaligned ones). Its initcheck is not: it does not see what cuDNN writes by bulk
stores, and took kernels that torch.compile writes behind a convolution for readers of memory that nobody has written.
What a kernel reads before anybody wrote it is NaN here, see `correctness.forward`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..device import toolkit
from ..profile import names

EXIT_CODE = 86
"""With which the program ends if something was found."""
ENVIRONMENT = ("/usr/bin/env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", "PYTORCH_NVML_BASED_CUDA_CHECK=0")
"""Gives each tensor an allocation of its own, with nothing around it. Otherwise a read outside a tensor would meet
another one in the same piece of torch's cache."""
PADDING = 512
"""Bytes behind each allocation that are nobody's: CUDA puts allocations of round sizes side by side."""
MOST = 100
"""Errors that are written down; each can be that of many threads."""
LAUNCH_S = 60
"""Within this time the program must have started."""
MISSING = "Memory errors were not looked for: compute-sanitizer was not found. It comes with the CUDA toolkit."
INCOMPLETE = "compute-sanitizer did not run to its end here: accesses outside of memory were not ruled out."

OTHERS = re.compile(
    r"\b(at::|at_cuda_detail|c10::|cub::|thrust::|cutlass|cudnn|cublas|cublasLt|cufft|cusparse|cusolver|magma|nccl)"
    r"|^(void )?(sm\d+_|ampere_|volta_|turing_|hopper_|nvjet|gemmk1|gemv|splitKreduce|fmha_|flash_|pytorch_flash|xmma_)"
    r"|vectorized_elementwise_kernel|unrolled_elementwise_kernel|elementwise_kernel_with_index|implicit_convolve"
)
"""Names of kernels that come with torch and CUDA's libraries; what they do is not the candidate's fault."""
OTHERS_BEFORE = re.compile(
    r"^_ZN(2at|3c10|3cub|6thrust|7cutlass|4cute|5cudnn|6cublas|8cublasLt)|gemm"
    r"|^(sm[0-9]+_|ampere_|volta_|turing_|hopper_|nvjet|splitK|fmha_|flash_|pytorch_flash|xmma_|cudnn)"
)
"""Such names as the tool meets them, mangled: left out, a pass with cuBLAS's products takes seconds, not minutes."""
_LIBRARY = re.compile(r"^(at|c10|cub|thrust|cutlass|cute|cudnn|cublas|cublasLt|cufft|cusparse|cusolver|magma|nccl)::")
"""Namespaces of theirs. What is built into a candidate from their headers is not its own work either."""

_ERROR = re.compile(
    r"^(?P<kind>Invalid __\w+__ (?:read|write|atomic)\b.*"
    r"|Misaligned (?:shared or local|__\w+__) .*|Invalid (?:local|shared) \w+ .*|Device-side assert.*"
    r"|(?:Warp )?(?:Illegal|Lane|Device|Invalid|Stack) [A-Z_a-z ]*(?:Exception|exception|Overflow|Instruction).*)$"
)
_SUMMARY = re.compile(r"^========= ERROR SUMMARY: \d+ error", re.MULTILINE)
_NEW_PLACE = re.compile(r"^at (?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<file>.+?):(?P<line>\d+))?$")
_OLD_PLACE = re.compile(r"^at 0x[0-9a-f]+ in (?:(?P<file>[^:]+):(?P<line>\d+):)?(?P<kernel>.+)$")
_NEAR = re.compile(r"^(?:and )?is (?P<bytes>[\d,]+) bytes (?P<side>after|before) the nearest allocation")


class Finding(NamedTuple):
    """One error of one kernel."""

    kind: str
    """In the words of the tool, such as `Invalid __global__ read of size 4 bytes`."""
    kernel: str
    """The kernel's name without its parameters; empty if unknown."""
    line: int
    """1-based line in the kernel's source, 0 unless it was built with line information."""
    near: str
    """How far outside of an allocation it was, such as `1 bytes after the nearest allocation`; empty if unknown."""

    @property
    def message(self) -> str:
        """What a person needs to know."""
        name = f"The kernel {self.kernel}" if self.kernel else "A kernel"
        where = f" in line {self.line} of its source" if self.line else ""
        if self.near:
            return f"{name} goes outside its memory{where}: {self.near} (compute-sanitizer: {self.kind})."
        return f"{name} uses memory wrongly{where} (compute-sanitizer: {self.kind})."


def available() -> str | None:
    """Return the path of `compute-sanitizer`, None if it is not installed."""
    return toolkit.find("compute-sanitizer", "compute-sanitizer")


def command(program: str, own: Iterable[str], argv: list[str], log: str) -> list[str]:
    """Return the command that runs `argv` under memcheck; what `read` reads is written to the file `log`.

    Errors of CUDA's interface that torch itself tries and handles are not reported; neither are leaks. Kernels of
    libraries run unwatched, unless one of the candidate's own is called like them.

    Parameters
    ----------
    own
        As for `read`.
    """
    alike = any(OTHERS_BEFORE.search(name) for name in own)
    watched = [] if alike else ["--kernel-name-exclude", f"regex={OTHERS_BEFORE.pattern}"]
    what = f"--target-processes all --report-api-errors no --padding {PADDING}"
    bounds = f"--launch-timeout {LAUNCH_S} --print-limit {MOST} --error-exitcode {EXIT_CODE}"
    options = ["--tool", "memcheck", *what.split(), *bounds.split(), *watched, "--log-file", log]
    return [*ENVIRONMENT, program, *options, *argv]


def read(log: str, own: Iterable[str] = (), built: Iterable[str] = ()) -> Finding | None:
    """Return the first error of the candidate's own kernels, None if there is none.

    Parameters
    ----------
    own
        Names of the kernels that its source defines: these count whatever they are called. Others count unless they
        are called like those that come with torch or CUDA's libraries.
    built
        Mangled names of the kernels in the extensions that were built for it.
    """
    paths = {path for path in map(_path, built) if path}
    sources = tuple(own)
    for finding in findings(log):
        if not OTHERS.search(finding.kernel) or _is_own(finding.kernel, sources, paths):
            return finding
    return None


def _is_own(kernel: str, sources: Iterable[str], paths: set[str]) -> bool:
    """Whether a kernel, as `names.qualified` names it, is of the candidate's source, or of its extensions."""
    in_source = any(names.same(name, kernel) for name in sources)
    # In a library's namespace, only what both its source and its extensions have.
    return (in_source and kernel in paths) if _LIBRARY.match(kernel) else (in_source or kernel in paths)


def _path(mangled: str) -> str:
    """Return a mangled name with its namespaces, as `names.qualified` does."""
    if not mangled.startswith("_ZN"):
        return names.base(mangled) if mangled.startswith("_Z") else mangled
    parts = names.mangled_parts(mangled)
    return "::".join(names.ANONYMOUS if part.startswith("_GLOBAL__N") else part for part in parts)


def complete(log: str) -> bool:
    """Return whether it ran to its end: it says then how many errors it met."""
    return _SUMMARY.search(log) is not None


def findings(log: str) -> list[Finding]:
    """Return all errors of kernels in a report, in order, whoever's kernels they are."""
    found: list[Finding] = []
    kind, kernel, line, near = "", "", 0, ""
    for raw in [*log.splitlines(), "========="]:
        if not raw.startswith("========="):
            continue
        text = raw[len("=========") :].strip()
        start = _ERROR.match(text)
        if start or not text:
            if kind:
                found.append(Finding(kind, kernel, line, near))
            kind, kernel, line, near = (start.group("kind").rstrip(".") if start else ""), "", 0, ""
            continue
        place = _NEW_PLACE.match(text) or _OLD_PLACE.match(text)
        if kind and place and not kernel:
            kernel, line = names.qualified(place.group("kernel")), int(place.group("line") or 0)
        beside = _NEAR.match(text)
        if kind and beside:
            near = f"{beside.group('bytes')} bytes {beside.group('side')} the nearest allocation"
    return found
