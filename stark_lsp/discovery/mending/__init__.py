"""From a draft that failed, and what it failed with, to drafts that may do better, the likeliest first.

Each rule reads one family of messages; the last ones do not read but vary. A wrong proposal costs some milliseconds,
so rules are generous.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from stark_lsp.discovery.drafting.drafts import Draft
from stark_lsp.discovery.mending.failures import Failure
from stark_lsp.discovery.mending.mend_arguments import absent, attribute, missing, nothing_passed, passed, plainer
from stark_lsp.discovery.mending.mend_constructors import (
    SIZEABLE,
    agreeing,
    axes,
    choices,
    counts,
    elsewhere,
    layers,
    narrow,
    optional,
    other_makers,
    others,
    refused,
    relations,
    smaller,
    subscripted,
    unset,
)
from stark_lsp.discovery.mending.mend_forms import (
    alike,
    any_kind,
    any_rank,
    companions,
    kinds,
    out_of_range,
    ranks,
    tuples,
)
from stark_lsp.discovery.mending.mend_sizes import (
    fitting,
    grids,
    joined,
    lengths,
    own_sizes,
    planes,
    scaled,
    viewed,
    wrong_sizes,
)

MOST = 120
"""Proposals for one failure at most."""
TURN = 3
"""Proposals of one rule before the next one has its turn."""
LARGEST = 1 << 27
"""Numbers in one tensor of the call at most."""
Rule = Callable[[Draft, Failure], Iterator[Draft]]


_CONSTRUCTING: tuple[Rule, ...] = (
    missing, refused, attribute, smaller, unset, counts, subscripted, choices, relations,
    other_makers, elsewhere, optional, others,
)  # fmt: skip
_CALLING: tuple[Rule, ...] = (
    missing, attribute, smaller, nothing_passed, unset, absent, agreeing, axes,
    out_of_range, companions, joined, fitting, wrong_sizes, scaled, viewed, grids, ranks, kinds, tuples,
    relations, counts, choices, layers, alike, planes, passed, optional, plainer, lengths, any_rank, any_kind,
    own_sizes,
)  # fmt: skip


def mend(draft: Draft, failure: Failure) -> list[Draft]:
    """Return drafts to try next."""
    rules = _CONSTRUCTING if failure.stage in ("init", "construct") else _CALLING
    if failure.kind in SIZEABLE:
        rules = (smaller,)
    found: dict[Draft, None] = {}
    for proposal in _in_turn([_changed(rule(draft, failure), draft) for rule in rules]):
        if any(math.prod(tensor.shape) > LARGEST for tensor in proposal.tensors()):
            found.setdefault(narrow(draft))
        else:
            found.setdefault(proposal)
        if len(found) >= MOST:
            break
    return list(found)


def _changed(proposals: Iterator[Draft], draft: Draft) -> Iterator[Draft]:
    return (proposal for proposal in proposals if proposal != draft)


def _in_turn(rules: list[Iterator[Draft]]) -> Iterator[Draft]:
    """Yield some proposals of each rule, then the next ones: a rule that has many does not hide another."""
    while rules:
        for rule in list(rules):
            some = list(itertools.islice(rule, TURN))
            yield from some
            if len(some) < TURN:
                rules.remove(rule)
