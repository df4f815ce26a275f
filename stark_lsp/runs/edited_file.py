"""Whether a proposal works where it will stand: the edited file is loaded and compared before it is offered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stark_lsp.core.errors import StarkError
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import WriteMode
from stark_lsp.evaluation.pool import RunJudge
from stark_lsp.proposals.edit import ProposalEdit, StaleProposal, build_edit
from stark_lsp.proposals.provenance import provenance_comment


async def trouble(
    judge: RunJudge, run: Run, node: Node, mode: WriteMode, text: str | None, tell: Callable[[str], None]
) -> str:
    """Return why a node cannot be offered as an edit of the run's document, empty if it can.

    Parameters
    ----------
    mode
        Where the class would be written.
    text
        The document as it is now; None if that is not known, or gone.
    tell
        Told where the file could not be tried.
    """
    problem = run.problem
    comment = provenance_comment(run, node)

    def build(document: str) -> ProposalEdit:
        return build_edit(problem, document, node.candidate, comment, mode)

    try:
        try:
            edit = await asyncio.to_thread(build, problem.text if text is None else text)
        except StaleProposal:  # the front end says so; the class may become again what it was
            edit = await asyncio.to_thread(build, problem.text)
    except StarkError as error:
        return str(error)
    if edit.new_file is not None:
        check = await judge.check_edit(edit.new_file.path, edit.new_file.text, edit.qualname)
    else:
        check = await judge.check_edit(problem.path, edit.preview, edit.qualname)
    if check.works and check.message:
        tell(check.message)
    return "" if check.works else check.message
