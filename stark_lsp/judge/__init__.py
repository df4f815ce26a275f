"""The user's side of judging: load, build, verify, time. Standard library and torch only.

This folder is run by path under the interpreter of the user's project, where `stark_lsp` is not
installed: `__main__.py` loads it as `stark_worker.judge`, with `contract` beside it. Nothing else of ours may be
imported.

Three kinds of process run from it: the *guard* (keeps every other process in reach, runs no foreign
code), the *worker* (holds the reference's outputs and decides), and *runners* (run one candidate, or
the reference, and are told nothing they need not know).
"""
