"""`stark-lsp runs`: what was tried so far, and a word with what goes on.

Each action has its own file with `configure(actions)`, which adds it to the command: listing, showing, changing,
steering, and transcripts.
"""

from __future__ import annotations

import argparse

DESCRIPTION = """\
List, show, apply or delete runs, hand them on as transcripts, or steer one while it goes on.
The first characters of an id are enough.
"""

EPILOG = """\
examples:
  stark-lsp runs                          list the newest runs
  stark-lsp runs show 1f3a                tree, numbers and proposal of one
  stark-lsp runs show 1f3a --node 4 --prompts
                                          one attempt with all that was asked and answered
  stark-lsp runs apply 1f3a --write replace
                                          write its proposal into the file
  stark-lsp runs delete 1f3a 77c0         delete two
  stark-lsp runs delete --all --yes       delete all of them
  stark-lsp runs export 1f3a -o run.json  write all of it into a file
  stark-lsp runs import run.json          ... and take such a file in

while a run goes on, from any terminal:
  stark-lsp runs pin 1f3a 4               go on from attempt 4
  stark-lsp runs prune 1f3a 2             give attempt 2 and all below it up
  stark-lsp runs hint 1f3a "x is always contiguous"
                                          tell the agents something
  stark-lsp runs budget 1f3a --attempts 50 --dollars 3
                                          let it spend more, or less
  stark-lsp runs pause 1f3a               begin no further attempt
  stark-lsp runs resume 1f3a              go on after a pause; a run that was stopped
                                          goes on with `stark-lsp optimize --resume`
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `stark-lsp runs`."""
    from stark_lsp.cli.runs import change, listing, lookup, showing, steer, transcripts

    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    lookup.add_list(parser, actions, "list the newest runs", listing.show_list)
    for module in (showing, change, transcripts, steer):
        module.configure(actions)


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit code."""
    from stark_lsp.cli.runs.lookup import open_store

    return int(args.handler(args, open_store()))
