"""`stark-lsp runs export` and `runs import`: a run as one file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stark_lsp.cli.runs.lookup import Actions, find
from stark_lsp.cli.terminal import console, documents, figures
from stark_lsp.store import RunStore, transcripts

EXPORT = """\
Write all that was recorded of a run as one JSON file: the document as it was, every candidate with
its verdict, every prompt and answer with tokens and cost, and what the run was told. It never holds
a key. `stark-lsp runs import` takes it in, `stark-lsp optimize --model replay:FILE` searches again with
its answers.
"""

IMPORT = """\
Take a transcript in as a finished run, to show it or to apply its proposal. Its figures are those of
the machine it was made on: look at the proposal before you apply it, as at any code of others.
"""


def configure(actions: Actions) -> None:
    """Add the actions."""
    exporting = actions.add_parser("export", help="write all of a run into a file", description=EXPORT)
    exporting.add_argument("id", metavar="ID")
    exporting.add_argument("-o", "--out", metavar="FILE", default="-", help="the file; standard output by default")
    exporting.add_argument(
        "--anonymous",
        action="store_true",
        help="leave out the folders of the document and of the interpreters, and your home, wherever they stand",
    )
    exporting.set_defaults(handler=_export)

    importing = actions.add_parser("import", help="take in a file that export wrote", description=IMPORT)
    importing.add_argument("file", metavar="FILE")
    importing.set_defaults(handler=_import)


def _export(args: argparse.Namespace, store: RunStore) -> int:
    to_stdout = args.out == "-"
    path = Path(args.out).absolute()
    if not to_stdout:
        documents.check_writable(path)
    transcript = transcripts.collect(store, find(store, args.id).id)
    text = transcripts.dumps(transcript, anonymous=args.anonymous)
    if to_stdout:
        sys.stdout.write(text)
        return 0
    documents.write(path, text.encode())
    attempts = figures.count(sum(1 for node in transcript.nodes if node.id), "attempt")
    exchanges = figures.count(len(transcript.exchanges), "exchange with a model", "exchanges with a model")
    console.line(console.make(), f"Written: {console.short_path(path)}, {attempts}, {exchanges}", "bold green")
    return 0


def _import(args: argparse.Namespace, store: RunStore) -> int:
    transcript = transcripts.read(args.file)
    run = transcripts.keep(store, transcript)
    out = console.make()
    renamed = "" if run.id == transcript.run.id else ", a new id"
    console.line(out, f"Taken in as run {run.id}{renamed}.", "bold green")
    console.line(out, f"To see it: stark-lsp runs show {run.id}", "dim")
    return 0
