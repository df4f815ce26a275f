"""A run as one HTML file that loads nothing and runs nothing: titles, sources and logs in it are what models wrote.

1. Jinja escapes whatever the template shows, and takes control characters out of it.
2. Advice is Markdown: HTML in it is shown as text, and nothing in it becomes a link or an image.
3. There is no script. The page's Content Security Policy allows its own style sheet, by its digest, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stark_lsp.cli.output import evidence, outcome
from stark_lsp.cli.page import attempts_plot, device_plots
from stark_lsp.cli.runs import run_words
from stark_lsp.cli.runs.lookup import local_time
from stark_lsp.cli.terminal import console, documents, figures, words
from stark_lsp.core import phrases
from stark_lsp.core.editing import split_lines
from stark_lsp.core.errors import Fault
from stark_lsp.core.run import Node, Run
from stark_lsp.proposals.diff import unified
from stark_lsp.store.paths import make_private_dir, state_dir

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore

    from stark_lsp.store import RunStore, StoredRun

FOLDER = Path(__file__).parent


def kept_at(run_id: str) -> Path:
    """Return where the page of a run is kept if nobody says otherwise."""
    return state_dir() / "reports" / f"{run_id}.html"


def write(store: RunStore, run_id: str, path: Path | None = None) -> Path:
    """Write the page of a run, by default into the state directory, and return its path.

    Raises
    ------
    Fault
        The run cannot be read, or the file cannot be written.
    """
    text = make(store, store.load(run_id))
    if path is None:
        path = kept_at(run_id)
        try:
            make_private_dir(path.parent)
        except OSError as error:
            raise Fault(f"The folder cannot be made: {error.strerror}.", path=str(path.parent)) from error
    documents.write(path, text.encode(errors="replace"))
    return path


def make(store: RunStore, stored: StoredRun) -> str:
    """Return the page of a run.

    Raises
    ------
    Fault
        What the run cost, or what it was told, cannot be read.
    """
    from markupsafe import Markup

    run, nodes = stored.run, dict(stored.nodes)
    style = (FOLDER / "run_page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    calls, device = device_plots.calls(run, nodes), device_plots.device(run)
    return (
        _templates()
        .get_template("run_page.html")
        .render(
            run=run,
            nodes=nodes,
            best=outcome.proposed(run, nodes),
            attempts=[nodes[number] for number in sorted(nodes) if number],
            tree=list(outcome.preorder(nodes)),
            style=Markup(style),
            digest=digest,
            where=f"{console.short_path(run.problem.path)}::{run.problem.qualname}",
            seconds=_seconds(run),
            spend=run_words.spend(store.exchanges.spend(run.id)),
            steerings=[said for _, said in store.steerings.since(run.id)],
            attempts_plot=attempts_plot.plot(run, nodes),
            calls_plot=device_plots.calls_plot(calls, device),
            roofline_plot=device_plots.roofline_plot(calls, device),
        )
    )


def _seconds(run: Run) -> str:
    """Return how long it took from begin to end, pauses and interruptions included; empty if it has not ended."""
    try:
        taken = datetime.fromisoformat(run.finished) - datetime.fromisoformat(run.created)
    except (ValueError, TypeError):
        return ""
    return figures.duration(taken.total_seconds())


def _difference(node: Node, nodes: Mapping[int, Node]) -> list[tuple[str, str]]:
    """Return the lines of the difference to a node's parent, each with its kind."""
    parent = nodes.get(node.parent) if node.parent is not None else None
    if parent is None:
        return []
    kinds = {"+": "added", "-": "removed", "@": "place"}
    # The two lines of file names tell nothing here.
    lines = split_lines(unified(parent.candidate.source, node.candidate.source, "candidate.py"))[2:]
    return [(kinds.get(line[:1], ""), line) for line in lines]


def _notes(node: Node) -> list[str]:
    """Return what is to be known of a node's figures, each once."""
    if node.verdict is None:
        return []
    profile = node.verdict.profile
    return list(dict.fromkeys([*node.verdict.notes, *(profile.notes if profile is not None else ())]))


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    def unstyled(state: StateCore) -> None:
        """Take the alignment out of tables: style attributes are not allowed on the page."""
        for token in state.tokens:
            token.attrs.pop("style", None)

    found = MarkdownIt("commonmark", {"html": False}).enable("table")
    found.core.ruler.push("unstyled", unstyled)
    return found.disable(["link", "image", "autolink", "reference"])


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def cleaned(value: Any) -> Any:
        return value if isinstance(value, Markup) or not isinstance(value, str) else console.clean(value)

    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=cleaned,
    )
    templates.filters["markdown"] = lambda text: Markup(_markdown().render(console.clean(text)))
    templates.filters["local_time"] = local_time
    templates.globals |= {
        **{module.__name__.rpartition(".")[2]: module for module in (evidence, figures, outcome, run_words, words)},
        "bars": device_plots,
        "points": attempts_plot,
        "status": phrases.STATUS,
        "caveat": phrases.caveat,
        "difference": _difference,
        "notes": _notes,
    }
    return templates
