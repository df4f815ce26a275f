"""`stark-lsp mcp`: the judge and runs as tools of a coding agent, by the Model Context Protocol."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from stark_lsp.cli import options
from stark_lsp.core import adjust
from stark_lsp.core.errors import BadInput
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import Isolation
from stark_lsp.runs import choice

DESCRIPTION = """\
Start an MCP server on standard input and output, for a coding agent: Claude Code, VS Code's agent mode, Cursor …
It offers the tools judge, profile, optimize, runs, proposal and cancel, on files of one folder; docs/mcp.md says how
to set it up. What is decided here, the agent cannot change.
"""

EPILOG = """\
examples:
  claude mcp add stark -- stark-lsp mcp              set it up in Claude Code, for this project
  stark-lsp mcp --root ~/project --model anthropic --dollars 2
                                                    let runs ask Claude, for at most 2 dollars each
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stark-lsp mcp`."""
    parser.add_argument(
        "--root", metavar="DIR", default=".", help="the only folder whose files are used (default: the working folder)"
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        default="playbook",
        help="who plans and writes in a run: playbook, which costs nothing, anthropic, anthropic:NAME, openai:NAME, "
        "replay:FILE, auto (default: %(default)s)",
    )
    parser.add_argument(
        "--dollars", type=float, metavar="X", help="what one run may spend on a language model (default: 10)"
    )
    options.add_notes(parser)
    parser.add_argument("--python", metavar="INTERPRETER", help="the Python that has torch (default: the project's)")
    group = parser.add_argument_group("judging")
    options.add_isolation(group)
    options.add_set(group)


def run(args: argparse.Namespace) -> int:
    """Serve until the client is gone."""
    root = Path(args.root).expanduser().absolute()
    if not root.is_dir():
        raise BadInput("This is not a folder.", cure="Name one with --root.", path=str(root))
    if args.dollars is not None and not args.dollars > 0:
        raise BadInput(f"--dollars must be more than 0, not {args.dollars:g}.")
    choice.parse(args.model)
    evaluation = adjust.adjusted(
        EvaluationSettings(isolation=Isolation(args.isolation)), options.adjustments(args.adjusted)
    )
    os.chdir(root)  # where a run looks for the project's Python, and what short paths are relative to

    try:
        import mcp  # noqa: F401
    except ImportError as error:
        cure = f"Install stark-lsp[mcp], or: {sys.executable} -m pip install 'mcp>=2.3,<3'"
        raise BadInput(f"stark-lsp mcp needs the Python SDK of MCP: {error}.", cure=cure) from error
    from stark_lsp.mcp.app import serve
    from stark_lsp.mcp.tools import Setup

    serve(root, Setup(evaluation, args.python, args.model, args.dollars, notes=not args.no_notes))
    return 0
