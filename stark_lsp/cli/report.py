"""`stark-lsp report`: a run as one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path

from stark_lsp.cli.page import run_page
from stark_lsp.cli.runs.lookup import find, open_store
from stark_lsp.cli.terminal import console, documents

DESCRIPTION = """\
Write a run as one HTML page: what came of it, every attempt with its plan, verdict, profile and source, and what
the device can do. The page is one file that loads nothing from elsewhere and runs no script.
"""

EPILOG = """\
examples:
  stark-lsp report 1f3a                   write it into the state directory, and say where
  stark-lsp report 1f3a -o report.html    ... or into a file of your own, for instance to hand it on
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stark-lsp report`."""
    parser.add_argument("id", metavar="RUN", help="the first characters of its id; stark-lsp runs lists them")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it here (default: into the state directory)")


def run(args: argparse.Namespace) -> int:
    """Write the page and return the exit code."""
    store = open_store()
    found = find(store, args.id)
    path = Path(args.output).absolute() if args.output else None
    if path is not None:
        documents.check_writable(path)
    written = run_page.write(store, found.id, path)
    console.line(console.make(), f"Report: {console.short_path(written)}")
    return 0
