"""Entry point by path: `<python> -u .../judge/__main__.py [ROLE [confinement [device]]]`.

Roles: runner, compiler (a runner that imports Inductor too), builder, probe; none is the worker. With `trial` and
`record` follow the arguments of `sandbox.trial` and `inputs.record`.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any


def _load_package() -> None:
    """Make this folder and `contract` beside it importable below `stark_worker`, and take it off `sys.path`.

    Python puts a script's folder first on `sys.path`; left there, our file names would hide modules of
    the user's project. Of `stark_lsp`, which may be installed there as well, nothing else is taken.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != folder]
    package = types.ModuleType("stark_worker")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["stark_worker"] = package


def _ours(name: str) -> Any:
    """Import a module of this folder."""
    return importlib.import_module(f"stark_worker.judge.{name}")


def main() -> None:
    """Start the process that the arguments name."""
    _load_package()
    role = sys.argv[1] if len(sys.argv) > 1 else "worker"
    if role == "trial":
        _ours("sandbox.trial").main(*sys.argv[2:])
        return
    if role == "record":
        _ours("inputs.record").main(*sys.argv[2:])
        return
    confinement = sys.argv[2] if len(sys.argv) > 2 else ""
    # `cuda:7`: there GPU memory that is shared with the judge is handed over.
    device, *socket = sys.argv[3].split(":") if len(sys.argv) > 3 else [""]
    handed = list(map(int, socket))
    # User code must not see our arguments, nor take our entry point for its own main module.
    sys.argv[:] = [""]
    if confinement:
        # Before anything else is imported: what comes after is in the sandbox already.
        _ours("sandbox").confine(confinement, keep=handed)
    if role in ("runner", "compiler"):
        how = {"spare": bool(confinement), "compiles": role == "compiler"}
        _ours("processes.serving").serve(
            lambda channel: _ours("processes.runner").Runner(channel, device, *handed, **how).handle
        )
    elif role == "builder":
        _ours("building.builder").main()
    elif role == "probe":
        _ours("sandbox.report").main(quick=device == "cpu")
    else:
        _ours("service.guard").run(lambda: _ours("service.serve").main())


if __name__ == "__main__":
    main()
