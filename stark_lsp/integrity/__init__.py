"""The static check: facts about a candidate's text, each with its line, its reason and its cure.

It gives early, readable messages, and keeps out what an accepted edit must never do with the user's rights. No
guarantee rests on it: those come from the run. It refuses facts, never suspicions; what is merely unusual is a note.
"""

from __future__ import annotations

from stark_lsp.integrity.check import read, told
from stark_lsp.integrity.facts import Note, Reading, Refusal, Rule, Told

__all__ = ["Note", "Reading", "Refusal", "Rule", "Told", "read", "told"]
