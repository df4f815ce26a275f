"""What a tool answers: a page as the terminal has it, and the JSON that `--json` writes.

Some clients show a model the page, some the JSON alone, so each says all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from mcp_types import CallToolResult, TextContent
from rich.console import Console

from stark_lsp.cli.output import evidence, outcome, profiles, proposal, results
from stark_lsp.cli.runs import listing, showing
from stark_lsp.cli.terminal import console, figures
from stark_lsp.cli.terminal.console import clean, line
from stark_lsp.contract.errors import cut
from stark_lsp.core import profile_phrases as phrases
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import WriteMode
from stark_lsp.core.verdict import Environment, Profile, Reference, Timing, Verdict
from stark_lsp.core.wire import to_wire
from stark_lsp.store import RunStore, StoredRun

Answer = Annotated[CallToolResult, dict[str, Any]]
LOG_LIMIT = 4000
"""Characters of a candidate's output that a model is given to read."""


def answer(result: dict[str, Any], page: str) -> CallToolResult:
    """Return an answer in both forms."""
    return CallToolResult(content=[TextContent(type="text", text=page)], structured_content=result)


def of_verdict(reference: Reference | None, verdict: Verdict) -> CallToolResult:
    """Return a verdict with its evidence."""
    verdict = replace(verdict, log=cut(verdict.log, LOG_LIMIT))
    result = results.of_verdict(reference, verdict, conclusion=evidence.compared(verdict))
    return answer(result, console.page(lambda out: evidence.show(out, reference, verdict)))


def of_profile(what: str, runtime: Timing, profile: Profile, environment: Environment) -> CallToolResult:
    """Return what one call does; on a GPU with what is left of it besides its kernels, which is launch overhead."""
    overhead = None
    if environment.device_type == "cuda" and profile.device_us is not None:
        overhead = max(0.0, 1e3 * runtime.median_ms - profile.device_us)
    result = {
        "what": what,
        "runtime": to_wire(runtime),
        "launch_overhead_us": overhead,
        "roofline": evidence.roofline_of(profile, environment),
        "profile": to_wire(profile),
        "environment": to_wire(environment),
    }

    def show(out: Console) -> None:
        line(out, f"{what}: one call takes {figures.timing(runtime)}, n = {runtime.n}")
        if overhead is not None:
            line(out, f"Of that, {phrases.duration(overhead)} are launch overhead.")
        evidence.show_profile(out, profile, environment)

    return answer(result, console.page(show))


def of_runs(summaries: list[dict[str, Any]]) -> CallToolResult:
    """Return a list of runs."""
    return answer({"runs": summaries}, console.page(lambda out: listing.show(out, summaries)))


def of_run(stored: StoredRun, store: RunStore, said: str, **about: Any) -> CallToolResult:
    """Return a run with its tree and the best attempt so far.

    Parameters
    ----------
    said
        What stands above the page.
    about
        What else there is to say of it, by name.
    """
    run, nodes = stored.run, stored.nodes
    result = results.of_run(run, nodes, store) | about
    if result["best"] is not None:
        del result["best"]["source"]  # long, and the tool `proposal` has it
    leader = min(nodes.values(), key=lambda node: node.score)
    result["best_so_far"] = leader.id or None
    result["run"]["budget"] = to_wire(run.budget)

    def show(out: Console) -> None:
        if said:
            line(out, f"{said}\n")
        showing.show_run(out, run, nodes)
        if not run.state.over:
            line(out, f"Up to {figures.count(run.budget.attempts, 'attempt')}. {_leads(leader)}")

    return answer(result, console.page(show))


def _leads(leader: Node) -> str:
    gain = leader.verdict.speedup_vs_eager if leader.id and leader.verdict is not None else None
    if gain is None:
        return "Nothing verified is faster than eager so far."
    return f"Best so far: attempt {leader.id}, {figures.times_interval(gain)} as fast as eager."


def of_proposal(run: Run, nodes: Mapping[int, Node], best: Node, mode: WriteMode, store: RunStore) -> CallToolResult:
    """Return the edit that a run proposes, with its evidence."""
    offer, stale = proposal.standing(run, best, mode)
    notes = [*([stale] if stale else []), *offer.edit.notes]
    result = {
        "run": run.id,
        "path": run.problem.path,
        "class": run.problem.qualname,
        "message": run.message,
        "write": mode.value,
        "patch": offer.patch,
        "stale": stale,
        "notes": notes,
        "best": results.of_run(run, nodes, store)["best"],
    }

    def show(out: Console) -> None:
        line(out, run.message)
        for text in (outcome.compile_remark(run), *notes):
            if text:
                line(out, clean(text))
        out.print()
        if run.reference is not None:
            out.print(outcome.numbers(run, nodes))
            out.print()
        if best.verdict is not None:
            profiles.show(out, best.id, best.verdict, run.reference)

    # Neither goes through the console, which would cut blanks and tabs: an edit has to be applied as it is.
    texts = f"The edit:\n\n{clean(offer.patch)}\nThe candidate as a file:\n\n{clean(best.candidate.source)}"
    return answer(result, f"{console.page(show)}\n\n{texts}")
