"""`stark-lsp optimize`: one search on one class, watched from a terminal.

1. `options` turns the arguments into settings; `documents` reads the file; `discovery` finds the class.
2. `watcher` shows what happens while `driver` runs the session and minds Ctrl-C.
3. `outcome` shows the tree, the numbers and the proposal; `proposal` writes it where asked to.
4. `results` writes the same as JSON.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from rich.console import Console

from stark_lsp.cli import options
from stark_lsp.cli.output import outcome, proposal, results
from stark_lsp.cli.output.results import Report
from stark_lsp.cli.output.watcher import Watcher
from stark_lsp.cli.page import run_page
from stark_lsp.cli.runs import run_words
from stark_lsp.cli.runs.lookup import open_store
from stark_lsp.cli.terminal import console, diffs, documents, driver, failures
from stark_lsp.cli.terminal.documents import Document
from stark_lsp.cli.terminal.failures import Log
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.run import Run
from stark_lsp.core.status import Decision, DeviceChoice, Limit, Mode, WriteMode
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

DESCRIPTION = """\
Search for a faster implementation of an nn.Module class.

Every candidate is compiled, checked against the original class on several inputs, and timed. What is
offered at the end was verified and is faster than eager PyTorch beyond the noise of the measurement.

The file needs example inputs: a function get_inputs() that returns the arguments of forward() and,
if the constructor takes any, get_init_inputs(). Several classes in one file can each have their own,
get_inputs_for_<Class>().
"""

EPILOG = """\
examples:
  stark-lsp optimize model.py                           search, then show the proposal
  stark-lsp optimize model.py::Attention --budget 10    choose the class, make 10 attempts
  stark-lsp optimize model.py --write beside            write the new class after the old one
  stark-lsp optimize model.py --diff -q > model.patch   keep the proposal as a patch
  stark-lsp optimize model.py --json - --quiet          the result for a script
  stark-lsp optimize model.py --resume                  go on after Ctrl-C

exit codes:
  0  a faster, verified implementation was found      2  the file, class or an option cannot be used
  3  nothing faster was found                         1  something else broke
  130  stopped by Ctrl-C; --resume goes on
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stark-lsp optimize`."""
    parser.usage = "stark-lsp optimize FILE[::Class] [options]"
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    for out in (args.json, args.report):
        if out and out != "-":
            documents.check_writable(Path(out))
    result = results.Report(args.json)
    return result.of(lambda: _optimize(args, result, Log()))


def _optimize(args: argparse.Namespace, result: Report, log: Log) -> int:
    if args.json == "-" and args.diff and args.quiet:
        raise BadInput("Both --json - and --diff --quiet write to standard output.", cure="Give --json a file name.")
    run_options = options.run_options(args)
    out = console.make(to_stderr=args.json == "-", quiet=args.quiet, unread=True)
    file, qualname = documents.target(args.target)
    document, problem = documents.problem(file, qualname, mode=Mode(args.mode), device=DeviceChoice(args.device))
    if args.write:
        documents.check_writable(document.path.resolve())
    store = open_store()

    watcher = Watcher(out, problem, attempts=run_options.budget.attempts, brief=args.brief)
    session = RunSession(problem, run_options, store=store, emit=watcher, log=log)
    if args.resume:
        watcher.on_prepared = lambda: _say_what_is_resumed(out, session)
    with watcher:
        stopped = driver.until_stopped(session.execute()).signal
    ended, nodes = session.run, session.nodes
    if stopped is not None:
        outcome.show_stopped(out, ended, nodes, again=_again(args))
        result.write(results.of_run(ended, nodes, store))
        console.line(out, _report(args, store, ended), "dim")
        return 128 + stopped
    best = outcome.proposed(ended, nodes)
    outcome.show(out, ended, nodes, seconds=watcher.seconds, brief=args.brief)
    if spent := run_words.spend(watcher.spend):
        console.line(out, f"{spent}.", "dim")
    if ended.ended_by in _LARGER and len(nodes) - 1 < ended.budget.attempts:
        more = _LARGER[ended.ended_by]
        console.line(out, f"To go on from here: the same command with --resume{more}.", "dim")
    # The results go first: a proposal that cannot be written to the file is not lost with it.
    result.write(results.of_run(ended, nodes, store))
    report = _report(args, store, ended)
    if best is not None:
        _offer(args, out, document, session, store)
    console.line(out, report, "dim")
    return failures.NOTHING_FASTER if best is None else failures.OK


_LARGER = {Limit.SECONDS: "", Limit.TOKENS: " and a larger --tokens", Limit.DOLLARS: " and a larger --dollars"}
"""What goes on with a run that this part of its budget ended. All attempts made is an end like any other."""


def _say_what_is_resumed(out: Console, session: RunSession) -> None:
    if session.resumed:
        out.print(f"Going on with run {session.id}.", style="dim")
    else:
        out.print("There is no unfinished run on this class as it is now; this is a new one.", style="dim")


def _offer(args: argparse.Namespace, out: Console, document: Document, session: RunSession, store: RunStore) -> None:
    """Show the proposal and write it if that was asked for."""
    assert session.best is not None
    mode = WriteMode(args.write or "beside")
    try:
        offer = proposal.make(session.run, session.best, document, mode)
        if args.diff and args.quiet:
            diffs.write_patch(offer.patch)
        else:
            diffs.show(out, offer.patch if args.diff else proposal.folded(session.run, offer), whole=args.diff)
        for note in offer.edit.notes:
            console.line(out, note)
        if not args.write:
            out.print(f"Nothing was written. To put it into the file: stark-lsp runs apply {session.id}", style="dim")
            return
        # What was changed elsewhere in the file meanwhile stays.
        now = documents.read(document.path)
        proposal.write(out, session.run, proposal.make(session.run, session.best, now, mode))
        store.decide(session.id, Decision.ACCEPTED)
    except (BadInput, Fault):
        console.line(out, f"It is not lost: stark-lsp runs apply {session.id} writes it later.", "dim")
        raise


def _report(args: argparse.Namespace, store: RunStore, run: Run) -> str:
    """Write the run as a page if that was asked for, and return what to say of it."""
    if not args.report:
        return f"To look at it in a browser: stark-lsp report {run.id}"

    return f"Report: {console.short_path(run_page.write(store, run.id, Path(args.report).absolute()))}"


def _again(args: argparse.Namespace) -> str:
    """Return the command that goes on from here."""
    words = [word for word in args.arguments if word != "--resume"]
    return shlex.join(["stark-lsp", *words, "--resume"])
