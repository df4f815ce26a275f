"""The kernels that could be written for one module, by name.

Every strategy chooses from the same kernels: a region has one name, whatever strategy it came from. All of it follows
from the analysis alone, so that a resumed run finds the same kernels under the same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from stark_lsp.core.problem import Problem
from stark_lsp.playbook.fusible import Fusible, Prepared, Role
from stark_lsp.playbook.kernels import Variant, plain, supports, variants
from stark_lsp.playbook.lines import UserLines
from stark_lsp.playbook.lowering import LoweredKernel, lower
from stark_lsp.playbook.names import unused
from stark_lsp.playbook.regions import Region, find_regions
from stark_lsp.playbook.source import find_user_class, module_names

_WORDS_IN_NAME = 3
_KNOWN = {"rms_norm": {"pow", "mean", "rsqrt", "mul"}, "gelu": {"pow", "tanh", "add", "mul"}}
"""Compounds that people write out in operators, by the operations that give them away."""


@dataclass(frozen=True)
class KernelChoice:
    """One kernel that could be written."""

    name: str
    region: Region
    lowered: LoweredKernel
    variants: tuple[Variant, ...]
    """Best guess first."""
    words: tuple[str, ...]
    """The operations it computes, in order."""
    device: str

    @property
    def plain(self) -> Variant:
        """The variant that a repair retreats to."""
        return plain(self.lowered.spec, self.device)

    def variant(self, label: str) -> Variant | None:
        """Return the variant with this label."""
        return next((one for one in (*self.variants, self.plain) if one.label == label), None)


class Catalogue:
    """The kernels of one module; strategies ask it for those that fit them.

    Parameters
    ----------
    clusters
        As in `variants`.
    """

    def __init__(self, problem: Problem, prepared: Prepared, *, clusters: bool = False) -> None:
        self.problem = problem
        self._clusters = clusters
        self.prepared = prepared
        self.user_lines = UserLines(problem)
        self._by_nodes: dict[tuple[int, ...], KernelChoice | None] = {}
        self._names = module_names(find_user_class(problem.slice.text, problem.qualname).tree)

    @property
    def device(self) -> str:
        """`cpu` or `cuda`."""
        return self.prepared.graph.device

    def kernels(self, allowed: Callable[[Fusible], bool] = lambda node: True) -> tuple[KernelChoice, ...]:
        """Return the kernels made of allowed operations, best expected saving first."""
        found = [self._choice(region) for region in find_regions(self.prepared, allowed)]
        return tuple(choice for choice in found if choice is not None)

    def named(self, name: str) -> KernelChoice | None:
        """Return the kernel of this name, once a strategy has asked for it."""
        return next((c for c in self._by_nodes.values() if c is not None and c.name == name), None)

    def _choice(self, region: Region) -> KernelChoice | None:
        if region.nodes not in self._by_nodes:
            self._by_nodes[region.nodes] = self._make(region)
        return self._by_nodes[region.nodes]

    def _make(self, region: Region) -> KernelChoice | None:
        nodes = [self.prepared.fusible[node] for node in region.nodes]
        words = tuple(f.word for f in nodes if f.role in (Role.POINTWISE, Role.ROW) and f.word != "identity")
        spans = self.user_lines.spans([f.node for f in nodes])
        lines = self.user_lines.quote(spans)
        name = "fused"
        lowered = lower(self.prepared, region, name, describe(words, region), lines)
        if supports(lowered.spec, self.device) is not None:
            return None
        name = unused(kernel_name(self.prepared, region, words), self._names)
        spec = lowered.spec
        if name in {o.name for o in spec.operands} | {s.name for s in spec.steps}:
            name = f"{name}_kernel"
        lowered = replace(lowered, spec=replace(spec, name=name))
        self._names.add(name)
        return KernelChoice(
            name, region, lowered, variants(lowered.spec, self.device, clusters=self._clusters), words, self.device
        )


def kernel_name(prepared: Prepared, region: Region, words: tuple[str, ...]) -> str:
    """Return a name that says what a kernel computes: `fused_layer_norm`, `fused_add_silu_mul`, `fused_new_gelu`."""
    graph = prepared.graph
    places = {graph.nodes[node].module_path for node in region.nodes}
    if len(places) == 1:
        (place,) = places
        last = re.sub(r"\W+", "", place.removeprefix("self").rpartition(".")[2])
        if place != "self" and last and not last.isdigit() and len(words) > _WORDS_IN_NAME:
            return f"fused_{last.lower()}"
    known = next((word for word, parts in _KNOWN.items() if parts <= set(words)), None)
    if known is not None:
        rest = [w for w in dict.fromkeys(words) if w in ("softmax", "log_softmax", "layer_norm", "silu")]
        return "_".join(["fused", known, *rest[:1]])
    rows = [prepared.fusible[n].word for n in region.nodes if prepared.fusible[n].role is Role.ROW]
    distinct = tuple(dict.fromkeys(words))
    if len(distinct) <= _WORDS_IN_NAME:
        chosen = distinct
    elif rows:
        chosen = tuple(dict.fromkeys([w for w in distinct if w not in rows][:1] + rows))[:_WORDS_IN_NAME]
    else:
        plain = ("add", "sub", "mul", "div", "pow", "neg")
        telling = [w for w in distinct if w not in plain]
        chosen = tuple([*telling, *(w for w in distinct if w in plain)][:_WORDS_IN_NAME])
    return "fused_" + "_".join(chosen)


def describe(words: tuple[str, ...], region: Region) -> str:
    """Return one line that says what a kernel computes."""
    text = ", ".join(dict.fromkeys(words))
    over = ""
    if region.layout.dims:
        dims = ", ".join(str(dim) for dim in region.layout.dims)
        over = f" over dim{'s' if len(region.layout.dims) > 1 else ''} {dims}"
    return f"{text}{over} in one sweep over memory" if len(words) > 1 else f"{text}{over}"
