"""What this project does beyond the paper, switched off in one place."""

from __future__ import annotations

from dataclasses import replace

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import Dialect


def as_in_paper(search: SearchSettings, agents: AgentSettings) -> tuple[SearchSettings, AgentSettings]:
    """Return the settings with the paper's ways.

    Nothing of the playbook goes first, agents see no profiles, no facts of the machine and nothing of earlier runs,
    debug gets no help beyond its window, nobody corrects within an attempt and nothing is tuned there, no stronger
    model comes in, no plan combines attempts or is told of those outside its window, no agent has tools, whole files
    are handed in, one attempt is made after the other, and kernels are embedded by `load_inline` unless a dialect was
    chosen. Hyper-parameters stay: their defaults are the paper's.
    """
    dialect = Dialect.INLINE.value if agents.dialect == "auto" else agents.dialect
    system = "stark" if search.system == "stark-tools" else search.system
    return (
        replace(search, system=system, in_flight=1, repair_help=0, corrections=0, tune=0),
        replace(
            agents,
            playbook=False,
            profile=False,
            machine=False,
            notes=False,
            history=False,
            edits=False,
            merging=False,
            stagnation_model="",
            dialect=dialect,
        ),
    )
