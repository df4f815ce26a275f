"""One attempt of a run: its plan, its candidate, its verdict, and what was asked and answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from stark_lsp.cli.output import profiles
from stark_lsp.cli.runs import prompt_sizes, run_words
from stark_lsp.cli.runs.lookup import local_time, no_attempt, print_json
from stark_lsp.cli.terminal import console, figures, words
from stark_lsp.core.conversation import Exchange
from stark_lsp.core.phrases import STATUS
from stark_lsp.core.run import Node, Run
from stark_lsp.core.verdict import Verdict
from stark_lsp.core.wire import to_wire
from stark_lsp.store import RunStore, StoredRun

LOG_LINES = 40
"""Lines of captured output that are shown on a terminal; elsewhere, and in JSON, all are."""

NOBODY = "No model was asked."


def show(
    store: RunStore, stored: StoredRun, number: int | None, *, prompts: bool, sizes: bool = False, as_json: bool
) -> int:
    """Show an attempt, with `prompts` its exchanges and with `sizes` what they consisted of.

    Without a number these of the whole run.

    Raises
    ------
    BadInput
        There is no such attempt.
    """
    run = stored.run
    node = stored.nodes.get(number) if number is not None else None
    exchanges = store.exchanges.list(run.id, number) if prompts or sizes else ()
    spend = store.exchanges.spend(run.id, number)
    # An attempt under way has exchanges before it has a node.
    if number is not None and node is None and not spend.calls:
        raise no_attempt(run, number)
    if as_json:
        shown: dict[str, Any] = {"run": run.id}
        if number is not None:
            shown["node"] = to_wire(node)
        shown["spend"] = to_wire(spend)
        if prompts:
            shown["exchanges"] = [to_wire(exchange) for exchange in exchanges]
        if sizes:
            shown["sizes"] = prompt_sizes.as_json(exchanges)
        return print_json(shown)
    out = console.make()
    if number is not None:
        show_heading(out, run, number, node)
    if node is not None:
        show_plan(out, node)
        if node.candidate.source:
            _source(out, node.candidate.source)
            out.print()
        show_outcome(out, run, node)
    spent = run_words.spend(spend)
    if prompts:
        show_exchanges(out, exchanges, with_attempt=number is None, sizes=sizes)
    elif sizes and exchanges:
        prompt_sizes.show_all(out, exchanges)
    elif sizes:
        console.line(out, NOBODY, "dim")
    if spent:
        console.line(out, spent)
    if spent and not prompts and number is not None:
        console.line(out, f"To read them: stark-lsp runs show {run.id} --node {number} --prompts", "dim")
    return 0


def show_heading(out: Console, run: Run, number: int, node: Node | None) -> None:
    """Show which attempt it is, and of which run."""
    after = f", after attempt {node.parent}" if node is not None and node.parent else ""
    if node is not None and node.second_parent is not None:
        after += f"{' and' if after else ', with'} attempt {node.second_parent}"
    maker = f", {node.role.value} agent" if node is not None and node.parent is not None else ""
    console.line(out, f"Run {run.id}, attempt {number}{after}{maker}", "bold")
    console.line(out, f"{console.short_path(run.problem.path)}::{run.problem.qualname}")
    out.print()
    if node is None:
        console.line(out, "It has no candidate yet.", "dim")
        out.print()


def show_plan(out: Console, node: Node) -> None:
    """Show what an attempt was to do, if it had a plan."""
    if node.plan is None:
        return
    where = words.lines(node.plan.anchors)
    console.line(out, f"{words.title(node)}{f'  {where}' if where else ''}", "bold")
    _block(out, node.plan.advice)
    told = words.variant(node.plan)
    if told:
        console.line(out, told, "dim")
    if node.plan.lens:
        console.line(out, f"Looked for with an eye on: {node.plan.lens}", "dim")
    if node.plan.remark:
        console.line(out, node.plan.remark, "yellow")
    out.print()


def show_outcome(out: Console, run: Run, node: Node) -> None:
    """Show what came of an attempt: what its author says, its verdict, and its profile."""
    if node.candidate.summary:
        _block(out, node.candidate.summary)
    if node.candidate.remark:
        console.line(out, node.candidate.remark, "yellow")
    if node.candidate.model:
        console.line(out, f"Written by {node.candidate.model}.", "dim")
    if node.corrections:
        console.line(out, f"{words.corrected(node).capitalize()} by its author, within the attempt.", "dim")
    console.line(out, words.result(node), "bold" if node.verdict is not None and node.verdict.ok else "yellow")
    if node.verdict is not None:
        _show_verdict(out, run, node.id, node.verdict)
    out.print()


def show_exchanges(out: Console, exchanges: Sequence[Exchange], *, with_attempt: bool, sizes: bool = False) -> None:
    """Show what was asked and answered, with `sizes` also what it consisted of."""
    for place, exchange in enumerate(exchanges, 1):
        _heading_of(out, exchange, f"{place} of {len(exchanges)}", with_attempt=with_attempt)
        if sizes:
            prompt_sizes.show_one(out, exchange)
        _show_exchange(out, exchange)
    if not exchanges:
        console.line(out, NOBODY, "dim")
    elif sizes:
        prompt_sizes.show_all(out, exchanges)


def _show_verdict(out: Console, run: Run, number: int, verdict: Verdict) -> None:
    if not verdict.ok:
        lines = verdict.message.strip().splitlines()
        if len(lines) > 1:  # the first one was told with the result
            _block(out, verdict.message)
        if verdict.line is not None:
            console.line(out, f"{STATUS[verdict.status]} at line {verdict.line} of the candidate", "dim")
    for message in verdict.compiler:
        console.line(out, f"  {message.line}:{message.column}: {message.text}")
    log = verdict.log.strip().splitlines()
    shown = log[-LOG_LINES:] if out.is_terminal else log
    if len(shown) < len(log):
        console.line(out, f"… {len(log) - len(shown)} more lines before; --json has all of them", "dim")
    if shown:
        _block(out, "\n".join(shown), "dim")
    if verdict.speedup_vs_eager is not None:
        console.line(out, f"against eager {figures.times_interval(verdict.speedup_vs_eager)}")
    if verdict.speedup_vs_compile is not None:
        console.line(out, f"against torch.compile {figures.times_interval(verdict.speedup_vs_compile)}")
    if verdict.swept:
        tried = figures.count(len(verdict.swept), "choice was", "choices were")
        console.line(out, f"Tuned: {verdict.tuned}; {tried} tried for its constants")
    for one in verdict.swept:
        gain = one.speedup_vs_eager
        came = figures.times_interval(gain) if gain is not None else STATUS[one.status]
        won = "bold" if one.values == verdict.tuned else "dim"
        console.line(out, f"  {one.values}  {came}", won)
    profiles.show(out, number, verdict, run.reference)


def _heading_of(out: Console, exchange: Exchange, place: str, *, with_attempt: bool) -> None:
    attempt = f"attempt {exchange.question.attempt}, " if with_attempt else ""
    when = f", {local_time(exchange.when)}" if exchange.when else ""
    console.line(out, f"=== {place}: {attempt}{run_words.exchange(exchange)}{when}", "bold cyan")


def _show_exchange(out: Console, exchange: Exchange) -> None:
    """Show one question whole, with its answer."""
    question, answer = exchange.question, exchange.answer
    if question.turns:  # all before it was shown with the question before
        _titled(out, f"{question.turns[-1].tool} told", question.turns[-1].result)
    else:
        _titled(out, "system", question.system)
        _titled(out, "asked", _joined(question.shared, question.body))
    if question.tool is not None:
        console.line(out, f"--- to be handed in by {question.tool.name}", "cyan")
    _titled(out, "answered", answer.text)
    if answer.tool_input is not None:
        name = question.tool.name if question.tool is not None else "a tool"
        title = f"called {answer.called}" if answer.called else f"handed in by {name}"
        _titled(out, title, _handed_in(answer.tool_input) or "(with nothing)")
    if answer.message:
        console.line(out, answer.message, "yellow")
    for trouble in answer.troubles:
        console.line(out, f"Asked again after: {trouble}", "dim")
    out.print()


def _joined(shared: str, body: str) -> str:
    between = "" if not shared or not body or shared.endswith("\n") else "\n"
    return f"{shared}{between}{body}"


def _handed_in(values: dict[str, Any]) -> str:
    """Return a tool's input with its texts as they are, so that code in it reads as code."""
    parts = []
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        parts.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    return "\n".join(parts)


def _titled(out: Console, title: str, text: str) -> None:
    if text:
        console.line(out, f"--- {title}", "cyan")
        _block(out, text)


def _block(out: Console, text: str, style: str = "") -> None:
    """Print a text with its own lines, none of them broken, so that it can be copied."""
    out.print(Text(console.clean(text.rstrip("\n")), style=style), soft_wrap=True)


def _source(out: Console, source: str) -> None:
    text = console.clean(source.rstrip("\n"))
    if out.is_terminal:
        # The terminal's own colours, which can be read on a light and on a dark ground.
        out.print(Syntax("", "python", theme="ansi_dark").highlight(text), soft_wrap=True, end="")
    else:
        out.print(Text(text), soft_wrap=True)
