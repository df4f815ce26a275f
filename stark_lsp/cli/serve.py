"""`stark-lsp serve`: the language server. Imports nothing but the server itself."""

from __future__ import annotations

import argparse

DESCRIPTION = """\
Start the language server. It speaks the Language Server Protocol on standard input and output, as
editors expect; with --tcp it waits on a port of this machine instead, for debugging.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stark-lsp serve`."""
    parser.add_argument("--tcp", type=_port, metavar="PORT", help="listen on 127.0.0.1:PORT instead of stdio")
    parser.add_argument("--log-file", metavar="FILE", help="append the server's log to FILE")


def run(args: argparse.Namespace) -> int:
    """Serve until the client is done."""
    from stark_lsp.server.app import serve

    return serve(tcp=args.tcp, log_file=args.log_file)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port")
    return port
