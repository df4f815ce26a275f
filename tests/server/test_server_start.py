"""What starting the server imports: it starts with every editor window."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "torch",
    "anthropic",
    "openai",
    "httpx",
    "jinja2",
    "distributed",
    "matplotlib",
    "sqlite3",
    "stark_lsp.core.conversation",
    "stark_lsp.core.wire",
    "stark_lsp.runs",
    "stark_lsp.agents.models",
    "stark_lsp.search.engine",
)
"""Needed by runs alone."""


def test_starting_imports_nothing_that_only_a_run_needs() -> None:
    code = "import sys; from stark_lsp.server.app import make_server; make_server()"
    code += "; print([name for name in sys.modules if name in sys.argv[1:]])"
    done = subprocess.run([sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
