"""The review of a proposal as a file: a diff with its evidence above it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stark_lsp.cli.terminal import figures
from stark_lsp.server.text import wording
from stark_lsp.server.text.documents import read_file
from stark_lsp.server.text.markup import plain

if TYPE_CHECKING:
    from stark_lsp.core.run import Node
    from stark_lsp.server.proposals.applying import Prepared
    from stark_lsp.server.runs.views import RunView


def write(view: RunView, best: Node, prepared: Prepared) -> Path:
    """Write the review into the state directory and return its path.

    Raises
    ------
    OSError
        It cannot be written.
    """
    from stark_lsp.proposals.diff import unified
    from stark_lsp.store.paths import make_private_dir, state_dir

    if prepared.edit.new_file is not None:
        target = prepared.edit.new_file.path
        diff = unified(read_file(target) or "", prepared.edit.new_file.text, target)
    else:
        diff = unified(prepared.before, prepared.edit.preview, view.path)
    if (shared := prepared.edit.shared) is not None:
        diff += unified(shared.before or "", shared.text, shared.path)
    folder = state_dir() / "reviews"
    make_private_dir(state_dir())
    make_private_dir(folder)
    path = folder / f"{view.problem.class_name}-{view.id}.diff"
    # Lines before the first file header are a comment to every diff tool.
    head = "".join(f"# {line}".rstrip() + "\n" for line in [*evidence(view, best), *prepared.edit.notes])
    path.write_text(f"{head}\n{diff}", encoding="utf-8")
    return path


def evidence(view: RunView, best: Node) -> list[str]:
    """Return what speaks for the proposal, line by line."""
    lines = [f"STARK proposal for {view.problem.qualname} in {view.path}", view.run.message, ""]
    if best.plan is not None:
        lines += [f"Plan: {plain(best.plan.title, 200)}"]
        lines += [f"      {line}" for line in best.plan.advice.strip().splitlines()] + [""]
    lines.append(f"Node {wording.lineage(best.id, view.nodes)}")
    lines.append(f"Measured: {wording.outcome(best)}")
    if best.verdict is not None and best.verdict.errors is not None:
        errors = best.verdict.errors
        lines.append(f"Largest relative error {errors.max_rel:.2g}, allowed {errors.tolerance:.2g}")
    if view.reference is not None:
        prepared = view.reference.baselines
        baselines = best.verdict.baselines(prepared) if best.verdict is not None else prepared
        compiled = figures.milliseconds(baselines.compile.median_ms) if baselines.compile is not None else "not timed"
        lines.append(f"Baselines: eager {figures.milliseconds(baselines.eager.median_ms)}, torch.compile {compiled}")
        lines.append(f"On: {plain(wording.device(view.reference.environment))}")
    lines += ["", "Accept or reject it with the lens or the code actions on the class."]
    return [plain(line, 300) if line.strip() and not line.startswith(" ") else line.rstrip() for line in lines]
