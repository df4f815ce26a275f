"""Run by path: `<python> -I .../sandbox/__main__.py exec|trial|report …`.

`exec INSTRUCTIONS PROGRAM ARGUMENT…` confines itself and becomes the program, a compiler or a tool.
`trial INSTRUCTIONS WORK` tries what must work and what must not, for `probe`. `report` prints what is there.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys


def _load_package() -> str:
    """Make this folder importable as `stark_sandbox`, and take it off `sys.path`."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != folder]
    spec = importlib.util.spec_from_file_location(
        "stark_sandbox", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot load {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["stark_sandbox"] = package
    spec.loader.exec_module(package)
    return "stark_sandbox"


def main() -> None:
    """Do what the first argument says."""
    package = _load_package()
    role, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("report", [])
    if role == "exec":
        policy = importlib.import_module(package + ".confine").confine(arguments[0])
        importlib.import_module(package + ".rlimits").limit_address_space(policy.address_bytes)
        os.execvp(arguments[1], arguments[1:])
    elif role == "trial":
        importlib.import_module(package + ".trial").main(*arguments)
    else:
        importlib.import_module(package + ".report").main()


if __name__ == "__main__":
    main()
