"""Every system of the paper, with the paper's ways, shows the paper's windows and nothing beside."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Correcting, HashJudge, make_engine

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.roles import Context
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.systems import System, find_system
from stark_lsp.search.tree import Tree
from stark_lsp.search.windows import code_members, debug_members, plan_members

SYSTEMS = ("stark", "sampling", "reflexion", "search-agent", "ma-only")


@pytest.mark.parametrize("name", SYSTEMS)
@given(seed=st.integers(0, 10_000), failing=st.sampled_from([10, 40, 80]))
@settings(max_examples=20)
def test_windows_are_the_papers_and_help_beyond_them_is_off(name: str, seed: int, failing: int) -> None:
    system = find_system(name)
    beyond = SearchSettings(system=name, policy=system.policy, attempts=14, seed=seed, in_flight=3)
    search, _ = as_in_paper(beyond, AgentSettings())
    agents = Correcting(empty=20)
    asyncio.run(make_engine(settings=search, agents=agents, judge=HashJudge(failing)).run())

    roles = {role for role, _ in agents.contexts}
    assert roles == {"solo"} if system.solo else {"plan", "code"} <= roles <= {"plan", "code", "debug"}
    for role, context in agents.contexts:
        assert {node.id for node in context.window} <= (members := _members(system, search, role, context))
        assert len(context.window) == min(search.window_size, len(members))
        assert context.last_correct is None
        assert {attempt for attempt, _ in context.under_way} <= {context.attempt}


def _members(system: System, search: SearchSettings, role: str, context: Context) -> set[int]:
    """Return of what a window is to be drawn (section 4.4); who works alone has the debug agent's for a failed node."""
    selected, tree = context.selected, Tree.from_nodes(context.made)
    if not system.dynamic_windows:
        return {selected.id, 0}
    if role == "code":
        return code_members(tree, selected.id)
    if role == "debug" or (role == "solo" and selected.failed):
        return debug_members(tree, selected.id)
    return plan_members(tree, selected.id, search.leaderboard_size)
