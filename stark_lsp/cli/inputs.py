"""`stark-lsp inputs`: write inputs that run for a class into its file."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from stark_lsp.cli.terminal import documents
from stark_lsp.contract.errors import ended
from stark_lsp.core.editing import Replacement
from stark_lsp.core.errors import BadInput
from stark_lsp.core.parsing import PYTHON
from stark_lsp.core.status import DeviceChoice, InputSource, Mode
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.drafting.stubs import make_stub
from stark_lsp.discovery.problems import class_named
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.evaluation.trial import find_inputs

DESCRIPTION = """\
Read a class, try inputs for it in your interpreter until it runs with some, and add them
to its file as get_inputs() and get_init_inputs().
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("target", metavar="FILE[::CLASS]", help="the file, and the class if it has several")
    parser.add_argument("--python", metavar="PATH", help="the interpreter that has your project's torch")
    parser.add_argument("--device", choices=[d.value for d in DeviceChoice], default=DeviceChoice.AUTO.value)
    parser.add_argument("--mode", choices=[m.value for m in Mode], default=Mode.EVAL.value)
    parser.add_argument("--print", action="store_true", help="print the functions and write nothing")


def run(args: argparse.Namespace) -> int:
    """Run the command; 1 if the class runs with none that were tried."""
    name, _, qualname = args.target.partition("::")
    document = documents.read(Path(name))
    try:
        classes = find_modules(document.text, os.path.abspath(name))
    except SyntaxError as error:
        raise BadInput(f"the file is not valid {PYTHON}: {error.msg}.", path=name, line=error.lineno) from error
    known = list(dict.fromkeys(found.qualname for found in classes))
    if not qualname and len(known) != 1:
        raise BadInput(
            f"The file has {len(known)} module classes.",
            path=name,
            cure=f"Say which: {', '.join(known)}."
            if known
            else "Name a file with a class that derives from torch.nn.Module.",
        )
    chosen = class_named(name, document.text, qualname or known[0])
    if chosen.inputs.source is not InputSource.NONE and not args.print:
        raise BadInput(
            f"{chosen.qualname} has inputs already.", path=name, cure="--print only shows what would be added."
        )
    stub = make_stub(document.text, chosen.qualname, os.path.abspath(name))
    outcome = asyncio.run(
        find_inputs(
            stub,
            os.path.abspath(name),
            interpreter=find_interpreter(args.python, name, (os.getcwd(),)).path,
            device=DeviceChoice(args.device),
            mode=Mode(args.mode),
            log=lambda line: print(line, file=sys.stderr),
        )
    )
    if outcome.failure is not None:
        print(stub.text(outcome.draft).strip())
        raise BadInput(
            f"No inputs were found that {chosen.qualname} runs with. The best ones are above. "
            f"{ended(outcome.failure.said)}",
            path=name,
            cure=f"Mend them, or: stark-lsp capture SCRIPT --class {name}::{chosen.qualname}",
        )
    text = stub.text(outcome.draft.checked())
    if args.print:
        print(text.strip())
        return 0
    documents.replace(document, document.edited([Replacement(stub.line, 0, stub.line, 0, text)]))
    print(f"{chosen.qualname} has inputs now, and runs with them ({outcome.tries} tried).")
    return 0
