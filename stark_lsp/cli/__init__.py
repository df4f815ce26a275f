"""The command line: `stark-lsp optimize | judge | runs | report | notes | inputs | capture | doctor | serve | mcp`.

`main` knows the names of the commands and one line on each; a command's own file is imported only when
that command is asked for. So an editor that starts `stark-lsp serve` waits for nothing it does not need.

To add a command, add a line to `COMMANDS` and a file with `DESCRIPTION`, `configure(parser)` and `run(args) -> int`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from stark_lsp import __version__

COMMANDS = {
    "optimize": "search for a faster implementation of an nn.Module class",
    "judge": "check and time a candidate file against the class it stands in for",
    "bench": "run the paper's experiments on a suite of problems",
    "runs": "list, show, apply, export or delete runs; steer one that goes on",
    "report": "write a run as one HTML page to look at in a browser",
    "notes": "list, show, edit or forget what later runs take along from earlier ones",
    "inputs": "write inputs that run for a class into its file",
    "capture": "run a script, and keep what it calls a class with as the class's inputs",
    "doctor": "say what is there, what is missing, and how to mend it",
    "serve": "start the language server (editors do this for you)",
    "mcp": "start the server for a coding agent (it does this for you)",
}
"""Every command with its line in `stark-lsp --help`; `stark_lsp.cli.<name>` is its file."""

EPILOG = """\
examples:
  stark-lsp doctor                                  check this machine
  stark-lsp optimize model.py                       optimize the class Model of model.py
  stark-lsp optimize model.py::Attention            ... another class of it
  stark-lsp optimize model.py --write beside        ... and write the result into the file
  stark-lsp judge model.py candidate.py             is this candidate right, and how fast is it
  stark-lsp runs                                    what was tried so far
  stark-lsp report 1f3a                             one of these runs, as a page for a browser

Each command has its own help: stark-lsp optimize --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv
        Arguments without the program's name; those of the process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="stark-lsp",
        description="Find a faster, verified implementation of a PyTorch module.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stark-lsp {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    asked = next((word for word in arguments if not word.startswith("-")), None)
    command: Any = None
    try:
        for name, line in COMMANDS.items():
            added = commands.add_parser(name, help=line, formatter_class=argparse.RawDescriptionHelpFormatter)
            if name == asked:
                command = importlib.import_module(f"stark_lsp.cli.{name}")
                added.description, added.epilog = command.DESCRIPTION, getattr(command, "EPILOG", None)
                command.configure(added)
        # What stands behind `--` is for the script that `capture` runs.
        end = arguments.index("--") if asked == "capture" and "--" in arguments else len(arguments)
        args = parser.parse_args(arguments[:end])
        args.passed_on = arguments[end + 1 :]
        args.arguments = arguments  # as they were typed, to say how to go on
        if command is None:
            parser.print_help()
            return 0
        return int(command.run(args))
    except Exception as error:  # noqa: BLE001 - the outermost frame: every error is told to the user and logged
        from stark_lsp.cli.terminal.failures import report

        return report(error)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
