"""Recipes: what may be asked of Inductor beyond what `torch.compile` asks, a switch each.

A design of the strategy `as-compiled` names the switches that are on. From a verified design the next ones turn on one
more, so that the search's tree finds which of them pay together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from stark_lsp.playbook.design import Design

STRATEGY = "as-compiled"
"""Of designs that Inductor writes; also the name of the advice for the one without a switch."""
ALGEBRA, WINDOWS, CONVOLUTIONS, ATTENTION = "algebra", "windows", "convolutions", "attention"
TRANSPOSED, PRODUCTS, TUNING, LAYOUT, LAUNCH = "transposed", "products", "tuning", "layout", "launch"
LENGTHS, BATCH = "lengths", "batch"
HALVES, SHORT_HALVES = "halves", "short-halves"
"""Of `PRODUCTS`: in parts of float16; and in shorter sums of these."""
STREAMED, EXACT = "streamed", "exact"
"""Of `ATTENTION`: values in three parts of bfloat16, or in six."""
LAUNCH_MS = 0.012
"""What launching one kernel takes the processor, on an H100's host."""
COPIED_PER_MS = 2e9
"""Bytes that an H100 reads or writes in a millisecond: a CUDA graph has copies of its inputs and results."""
WORTH = 0.1
"""Share of a call that a CUDA graph must be able to save to be tried."""
MUCH = 0.15
"""Share of a call for which the GPU was seen to wait for launches, from which a CUDA graph is tried first."""
_JOINING = ((ATTENTION, STREAMED), (PRODUCTS, HALVES), (WINDOWS, "shifted"), (CONVOLUTIONS, "rounded"))
"""Switches that take a part of the time each, see `Switch.joins`."""


@dataclass(frozen=True)
class Facts:
    """What a class does, as far as a switch cares."""

    device: str
    """`cpu` or `cuda`."""
    products: bool
    """Whether PyTorch's own matrix products of float32 are called, and are more than the end of convolutions."""
    convolutions: bool
    kernels: int
    """That Inductor wrote."""
    steps: int
    """Kernels and calls that launch some."""
    calls: int = 0
    """Kernels that the original launches."""
    rewrites: frozenset[str] = frozenset()
    """Families of `judge/analysis/rewrites` of which a rule fits."""
    copied: int = 0
    """Bytes of inputs, without weights, and of results that are the program's own."""
    training: bool = False
    """Whether a call has backward behind it."""
    draws: bool = False
    """Whether it draws random numbers, of which capturing a graph takes some."""
    lengths: bool = False
    """Whether its inputs may come in other lengths, and its program serves that of the example alone."""
    rows: bool = False
    """Whether its program serves other batches."""

    def saved_by_graph(self, launches: int, call_ms: float, waiting: float = 0.0) -> bool:
        """Whether replaying so many launches of such a call, or the share seen waiting, is worth the copies."""
        saved = max(LAUNCH_MS * launches, waiting * call_ms)
        return launches > 1 and saved - 2 * self.copied / COPIED_PER_MS > WORTH * call_ms


@dataclass(frozen=True)
class Switch:
    """One thing that can be done otherwise."""

    name: str
    label: str
    """Which way."""
    title: str
    """Of the plan that turns it on."""
    advice: str
    """Name of the template in `prompts/advice`."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Settings of `torch._inductor.config`."""
    replayed: bool = False
    """Whether the program becomes a CUDA graph."""
    plain: bool = False
    """Whether it is the original's own forward."""
    rewrites: str = ""
    """Family of rules that are applied first."""
    repair: bool = False
    """Whether it is there for what gave wrong results alone."""
    source: str = ""
    """Of a user's own: its file, and"""
    text: str = ""
    """its advice, in the place of a template."""

    @property
    def products(self) -> str:
        """`input_precision` of `tl.dot`."""
        return self.label if self.advice == PRODUCTS else ""

    @property
    def forward_alone(self) -> bool:
        """Whether it is for forward alone, which backward would compute anew; convolutions are replaced in both."""
        return self.rewrites not in ("", CONVOLUTIONS) or bool(self.products) or self.plain

    @property
    def strong(self) -> bool:
        """Whether it may change the time by a multiple, so that it is tried on the original as well."""
        return bool(self.rewrites) or self.replayed or self.products == "bf16x3"

    @property
    def joins(self) -> bool:
        """Whether kernels take a part of their time with it, so that it is tried together with others like it."""
        return (self.name, self.label) in _JOINING

    @property
    def ahead(self) -> bool:
        """Whether it comes before kernels of the playbook's own."""
        return self.name in (ALGEBRA, BATCH) or self.joins

    def serves(self, facts: Facts, call_ms: float, waiting: float = 0.0) -> bool:
        """Whether it can make a difference to a program that takes so long; `waiting` as in `Switches.following`."""
        if facts.training and self.forward_alone and not self.source:
            return False
        if self.name == LENGTHS:
            return facts.lengths
        if self.name == BATCH:
            return facts.rows
        if self.rewrites:
            # On a CPU PyTorch's own windows are as fast.
            here = facts.device == "cuda" or self.name == ALGEBRA or bool(self.source)
            return here and self.rewrites in facts.rewrites
        if facts.device != "cuda" or (self.replayed and facts.draws):
            return False
        if self.name == PRODUCTS:
            return facts.products
        if self.name == LAYOUT:
            return facts.convolutions
        if self.replayed:
            # The GPU was seen waiting with the program, not with the original's own kernels.
            return facts.saved_by_graph(*((facts.calls, call_ms) if self.plain else (facts.steps, call_ms, waiting)))
        return facts.kernels > 0


_TRITON = MappingProxyType({"max_autotune_gemm": True, "max_autotune_gemm_backends": "ATEN,TRITON"})
# Padded strides may be read where they were not written, by torch 2.11: as in pytorch/pytorch#194281.
_FUSE = MappingProxyType({"benchmark_epilogue_fusion": False, "comprehensive_padding": False})
_SEARCHED = MappingProxyType({"max_autotune_pointwise": True, "coordinate_descent_tuning": True})
_AS_GIVEN = MappingProxyType({"layout_optimization": False, "comprehensive_padding": False})
SWITCHES = (
    Switch(ALGEBRA, "sums", "Compute less by algebra: sums before products", "algebra", rewrites="sums"),
    Switch(WINDOWS, "shifted", "Read images once for all places of a window", "windows", rewrites="windows"),
    Switch(
        CONVOLUTIONS, "rounded", "Take convolutions on float16 tensor cores", CONVOLUTIONS, _FUSE, rewrites=CONVOLUTIONS
    ),
    Switch(TRANSPOSED, "gathered", "Compute transposed convolutions as ordinary ones", TRANSPOSED, rewrites=TRANSPOSED),
    Switch(
        ATTENTION, STREAMED, "Take attention a tile of scores at a time, on tensor cores", ATTENTION, rewrites=ATTENTION
    ),
    Switch(
        ATTENTION,
        EXACT,
        "Take attention a tile of scores at a time, all in six bfloat16 parts",
        ATTENTION,
        rewrites=ATTENTION,
        repair=True,
    ),
    Switch(PRODUCTS, HALVES, "Take products of float32 on tensor cores, in halves", HALVES, rewrites=HALVES),
    Switch(
        PRODUCTS,
        SHORT_HALVES,
        "Take products of float32 on tensor cores, in halves and short sums",
        HALVES,
        rewrites=SHORT_HALVES,
        repair=True,
    ),
    Switch(PRODUCTS, "bf16x3", "Take products of float32 on tensor cores, in three bfloat16 parts", PRODUCTS, _TRITON),
    Switch(TUNING, "search", "Search for the best blocks of each kernel", "tuning", _SEARCHED),
    Switch(LAYOUT, "as-given", "Leave images in the layout they come in", "layout", _AS_GIVEN),
    Switch(LAUNCH, "replayed", "Launch all kernels as one CUDA graph", "launch", replayed=True),
    Switch(LAUNCH, "captured", "Launch PyTorch's own kernels as one CUDA graph", "captured", replayed=True, plain=True),
    Switch(PRODUCTS, "bf16x6", "Take products of float32 on tensor cores, in six bfloat16 parts", PRODUCTS, _TRITON),
    Switch(LENGTHS, "any", "Serve inputs of other sizes as well", LENGTHS),
    Switch(BATCH, "fixed", "Keep to batches of the example's size", BATCH),
)


class Switches:
    """All that there are for one run.

    Parameters
    ----------
    own
        The user's, which come first.
    any_length
        Whether kernels are to serve other lengths than the example's as well.
    """

    def __init__(self, own: tuple[Switch, ...] = (), *, any_length: bool = False) -> None:
        self._all = (*own, *SWITCHES)
        self._any_length = any_length
        self._own = {one.name: one.source for one in own}

    def on(self, design: Design) -> list[Switch]:
        """Return the switches that are on in a design."""
        return [one for one in self._all if design.label(one.name) == one.label]

    def recipe(self, design: Design) -> dict[str, Any]:
        """Return what the judge is asked for, see `judge/analysis/inductor.program`."""
        on = self.on(design)
        if any(one.plain for one in on):
            return {"plain": True}
        options = {name: value for one in on for name, value in one.options.items()}
        products = next((one.products for one in on if one.products), "")
        first = [one.rewrites for one in on if one.rewrites]
        made = {"options": options, "products": products, "rewrites": first, "own": self._own}
        # Patterns know sizes.
        any_length = self._any_length or any(one.name == LENGTHS for one in on)
        fixed = bool(self._own) or any(one.name == BATCH for one in on)
        return {**made, "batch": not fixed, "length": any_length and not fixed}

    def replayed(self, design: Design) -> bool:
        """Whether a design is a CUDA graph."""
        return any(one.replayed for one in self.on(design))

    def fit(self, design: Design, facts: Facts, call_ms: float) -> bool:
        """Whether a design that won elsewhere can be asked for here: all its switches are known and serve."""
        on = self.on(design)
        known = len(on) == len(design.kernels) and all(one.serves(facts, call_ms) for one in on)
        known = known and not (self._any_length and design.label(BATCH))
        return known and bool(on) and (len(on) == 1 or not any(one.plain for one in on))

    def following(self, design: Design, facts: Facts, call_ms: float, waiting: float = 0.0) -> Iterator[Design]:
        """Yield the designs with one more switch on, the most promising first.

        Only switches behind the last one that is on are turned on, so that no design is reached in two ways. But first
        come all that join: a model has attention, products and many launches, and one attempt shows what that is worth.
        And behind the layout come all: what torch.compile writes is repaired by it where it is wrong.

        Parameters
        ----------
        call_ms
            How long a call takes with this design.
        waiting
            Share of it in which the GPU was seen to have nothing to do.
        """
        on = self.on(design)
        order = [one.name for one in self._all]
        last = max((order.index(one.name) for one in on if one.name != LAYOUT), default=-1)
        behind = tuple(one for one in self._all if order.index(one.name) > last and not one.repair)
        if self._any_length or design.label(LENGTHS) is not None:
            behind = tuple(one for one in behind if one.name != BATCH)
        if waiting > MUCH:
            behind = tuple(sorted(behind, key=lambda one: not one.replayed))
        serving = [one for one in behind if design.label(one.name) is None and one.serves(facts, call_ms, waiting)]
        # Work that need not be done is not made quicker first; launches for what is left are saved with it.
        graph = [one for one in serving if one.replayed and not one.plain and waiting > MUCH]
        groups = [[one, *graph] for one in serving if one.name == ALGEBRA]
        # A graph is written in seconds, a model's convolutions in a minute, and small ones are no faster.
        groups += [[one] for one in graph if any(each.name == CONVOLUTIONS for each in serving)]
        # Where kernels take a part of their time, launches soon take the rest.
        together = [one for one in self._all if one in serving and (one.joins or (one.replayed and not one.plain))]
        groups += [together] if len(together) > 1 else []
        # Sums and running sums take several times as long in blocks that do not suit them.
        groups += [[one] for one in serving if one.name == TUNING and facts.steps == facts.kernels]
        # What serves more is tried once nothing large is left to gain.
        groups += [[one] for one in serving if one.name == LENGTHS and len(together) < 2]
        # The original's own kernels are nothing that other switches change.
        groups += [[one] for one in serving if not (one.plain and on)]
        for number, group in enumerate(groups):
            if group not in groups[:number]:
                yield Design(STRATEGY, (*design.kernels, *((one.name, one.label) for one in group)))


def safer(design: Design) -> Design | None:
    """Return the design to try where one gave wrong results: shorter sums, more parts; None if there is none."""
    # In another layout cuDNN may take TF32 where the original's has none; and see what is padded.
    made = design if design.kernels else Design(STRATEGY, ((LAYOUT, "as-given"),))
    products = {HALVES: SHORT_HALVES, SHORT_HALVES: "bf16x6", "bf16x3": "bf16x6"}.get(design.label(PRODUCTS) or "")
    if products is not None:
        made = made.with_label(PRODUCTS, products)
    if design.label(ATTENTION) == STREAMED:
        made = made.with_label(ATTENTION, EXACT)
    return made if made != design else None
