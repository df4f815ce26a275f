"""Evolutionary: tournaments in a population of the best and the newest.

The population are the `ELITE` best verified nodes with distinct sources and the `NEWCOMERS` newest nodes, failed ones
included, all of which may be expanded. `TOURNAMENT` members are drawn without replacement and the best-scored one is
expanded, virtual losses taken into account. So good nodes are expanded often, and each newcomer has a chance to be
improved or repaired while it is new: age, not failure, takes it out.

Tournament selection: Goldberg and Deb, A Comparative Analysis of Selection Schemes Used in Genetic Algorithms (1991),
https://doi.org/10.1016/B978-0-08-050684-5.50008-2
"""

from __future__ import annotations

from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility, Standing

ELITE = 6
NEWCOMERS = 4
TOURNAMENT = 3


class Evolutionary:
    """The winner of a tournament among the best and the newest nodes."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the best of a few members of the population, drawn at random."""
        members = population(standing, self._settings)
        if not members:
            return None
        drawn = rng.sample(members, min(TOURNAMENT, len(members)))
        return min(drawn, key=standing.comparable)


def population(standing: Standing, settings: SearchSettings) -> list[int]:
    """Return the ids of the population, in order of creation."""
    tree, rules = standing.tree, Eligibility(standing, settings)
    elite: list[int] = []
    seen: set[str] = set()
    found = False
    for node_id in rules.ranked():
        found = True
        node = tree.nodes[node_id]
        if len(elite) == ELITE or node.failed:  # failed ones come last
            break
        if node.candidate.source not in seen:
            seen.add(node.candidate.source)
            elite.append(node_id)
    newcomers: list[int] = []
    if not found:
        return newcomers
    for node in tree.newest_first():
        if len(newcomers) == NEWCOMERS:
            break
        if rules.may_expand(node.id):
            newcomers.append(node.id)
    return sorted({*elite, *newcomers})
