"""Advice: what happens now, why that is slow, what to do, and what to expect, with the measured figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.core import profile_phrases
from stark_lsp.playbook.catalogue import Catalogue, KernelChoice


def write_advice(
    library: PromptLibrary, template: str, catalogue: Catalogue, choices: Sequence[KernelChoice], **extra: Any
) -> str:
    """Return an advice in Markdown.

    Parameters
    ----------
    template
        Name below `advice/`.
    choices
        The kernels it is about.
    extra
        Further values for the template.
    """
    graph = catalogue.prepared.graph
    kept = [node for node in graph.nodes if node.op in ("call", "module") and node.flops > 8 * max(node.bytes, 1)]
    return library.render(
        f"advice/{template}",
        duration=duration,
        memory=memory,
        kernels=[figures(catalogue, choice) for choice in choices],
        device="GPU" if graph.device == "cuda" else "CPU",
        total_ms=graph.total_ms,
        time_ms=sum(choice.region.time_ms for choice in choices),
        expected_ms=sum(choice.region.expected_ms for choice in choices),
        saving_ms=expected_saving(choices),
        operations=sum(choice.region.kernels_now for choice in choices),
        kept_ms=sum(node.time_ms for node in kept),
        kept=sorted({node.module.cls if node.module else node.target.rpartition(".")[2] for node in kept}),
        **extra,
    )


def duration(milliseconds: float) -> str:
    """Return a time as all of STARK says it: `1.23 ms`."""
    return profile_phrases.duration(milliseconds * 1000)


def memory(mib: float) -> str:
    """Return an amount of memory: `576 MiB`, `1.5 GiB`."""
    return profile_phrases.amount(round(mib * 2**20))


def figures(catalogue: Catalogue, choice: KernelChoice) -> dict[str, Any]:
    """Return what a template may say about one kernel."""
    region = choice.region
    spans = catalogue.user_lines.spans([catalogue.prepared.graph.nodes[node] for node in region.nodes])
    return {
        "name": choice.name,
        "words": list(choice.words),
        "lines": [(span.start + 1, span.end + 1) for span in spans],
        "operations": region.kernels_now,
        "time_ms": region.time_ms,
        "expected_ms": region.expected_ms if region.saving_ms > 0 else None,
        "mib_now": region.bytes_now / 2**20,
        "mib_fused": region.bytes_fused / 2**20,
        "reduces": region.reduces,
        "space": "×".join(map(str, region.layout.space)) or "one value",
    }


def expected_saving(choices: Sequence[KernelChoice]) -> float | None:
    """Return the milliseconds that kernels are expected to save, together; None if the estimate says nothing.

    What a call costs beyond its traffic is measured once for the device, and can exceed what short operations take.
    """
    saving = sum(choice.region.saving_ms for choice in choices)
    return saving if saving > 0 else None
