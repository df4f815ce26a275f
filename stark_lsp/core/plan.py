"""Plan and anchor: one advice, and the lines it is about."""

from __future__ import annotations

from dataclasses import dataclass

from stark_lsp.core.problem import Span


@dataclass(frozen=True)
class Anchor:
    """A marked span that a plan is about (the paper's grounded instruction, section 4.3)."""

    span: Span
    """Lines of the *document* the problem was made from, 0-based, inclusive."""
    text: str
    """The document's text of those lines when the plan was made; used to find them again after edits."""
    note: str = ""
    """What the plan says about this span in particular; may be empty."""


@dataclass(frozen=True)
class Plan:
    """One advice of the plan agent."""

    title: str
    """A few words, shown as the diagnostic."""
    advice: str
    """What to do and why, in Markdown a person can learn from."""
    anchors: tuple[Anchor, ...] = ()
    annotated_source: str = ""
    """The selected node's source with `<<<IMPROVE BEGIN>>>` … `<<<IMPROVE END>>>` comments."""
    strategy: str = ""
    """Name of the playbook strategy, or empty for a model's own idea."""
    parameters: tuple[tuple[str, str], ...] = ()
    """What distinguishes this variant (for instance `("threads", "256")`), for display and for the coder."""
    lens: str = ""
    """The side a model was told to look from, to make plans differ; empty if it was not."""
    remark: str = ""
    """What was wrong with the plan's marks and how that was mended, in a sentence; empty if nothing."""
    combines: int | None = None
    """Another attempt whose code is to be taken along: the second parent of the node. None for most plans."""
    expected_saving_ms: float | None = None
    """Milliseconds the plan agent expects to save, or None if it does not say."""
