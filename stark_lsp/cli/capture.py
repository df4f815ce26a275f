"""`stark-lsp capture`: run a script, and keep what it calls a class with as the class's inputs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from stark_lsp.cli.terminal import documents
from stark_lsp.cli.terminal.driver import until_stopped
from stark_lsp.core.errors import BadInput
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.evaluation.recording import CALLS
from stark_lsp.runs.capture import capture, keep, overruled

DESCRIPTION = """\
Run a script of yours under your interpreter, note what a class is constructed and
called with, and keep that as its inputs: an input table in stark.toml or pyproject.toml.
The script is stopped after a few calls of the class.
"""
EPILOG = """\
examples:
  stark-lsp capture train.py --class model:Attention
  stark-lsp capture train.py --class pkg/model.py::Attention -- --epochs 1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "stark-lsp capture SCRIPT --class MODULE:CLASS [options] [-- ARGUMENT ...]"
    parser.add_argument("script", metavar="SCRIPT", help="the script to run")
    parser.add_argument(
        "--class",
        dest="wanted",
        metavar="MODULE:CLASS",
        required=True,
        help="the class, as the script imports it, or FILE.py::CLASS",
    )
    parser.add_argument("--python", metavar="PATH", help="the interpreter that has your project's torch")
    parser.add_argument(
        "--calls",
        type=int,
        default=CALLS,
        metavar="N",
        help="stop the script after so many calls of the class; 0 lets it run to its end (default: %(default)s)",
    )
    parser.add_argument("--print", action="store_true", help="print the table and write nothing")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if ":" not in args.wanted or args.calls < 0:
        raise BadInput(
            f"{args.wanted} names no class of a module." if args.calls >= 0 else "--calls is a number from 0.",
            cure="Write --class package.module:Class, or --class file.py::Class.",
        )
    found = find_interpreter(args.python, args.script, (os.getcwd(),))
    outcome = until_stopped(capture(args.script, args.passed_on, args.wanted, interpreter=found.path, calls=args.calls))
    made = outcome.value
    if made is None:
        print("Stopped. Nothing was recorded.", file=sys.stderr)
        return 128 + (outcome.signal or 0)
    if not made.toml:
        print(f"{made.said}. A table cannot say this: {made.why}. Put this into {made.path} and check it:\n")
        print(made.code)
        if made.beside:
            print(f"\nAnd this into {made.beside_in}, which says how the class is used:\n\n{made.beside}")
        return 0
    if args.print:
        print(made.table, end="")
        return 0
    keep(made)
    why_not = overruled(made.path, documents.read(Path(made.path)).text, made.qualname)
    table = os.path.relpath(made.toml)
    where = f"A table is in {table}, but {why_not}" if why_not else f"Its inputs are in {table}."
    print(f"{made.said}. {where}")
    return 0
