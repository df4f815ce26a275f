"""Entry point by path: `<python> -u .../worker/__main__.py [runner | builder | probe] [confinement [device]]`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys


def _load_package() -> str:
    """Make this folder importable as `stark_worker`, and take it off `sys.path`.

    Python puts a script's folder first on `sys.path`; left there, our file names would hide modules of
    the user's project.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != folder]
    spec = importlib.util.spec_from_file_location(
        "stark_worker", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot load {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["stark_worker"] = package
    spec.loader.exec_module(package)
    return "stark_worker"


def main() -> None:
    """Start the process that the arguments name."""
    package = _load_package()
    role = sys.argv[1] if len(sys.argv) > 1 else "worker"
    confinement = sys.argv[2] if len(sys.argv) > 2 else ""
    # `cuda`, and file descriptor and size of GPU memory that is shared with the judge: `cuda:7:2097152`.
    device, *memory = sys.argv[3].split(":") if len(sys.argv) > 3 else [""]
    # User code must not see our arguments, nor take our entry point for its own main module.
    sys.argv[:] = [""]
    if confinement:
        # Before anything else is imported: what comes after is in the sandbox already.
        importlib.import_module(package + ".sandbox").confine(confinement, keep=[int(fd) for fd in memory[:1]])
    if role == "runner":
        importlib.import_module(package + ".runner").main(
            device, *(int(number) for number in memory), spare=bool(confinement)
        )
    elif role == "builder":
        importlib.import_module(package + ".building.builder").main()
    elif role == "probe":
        importlib.import_module(package + ".sandbox.report").main(quick=device == "cpu")
    else:
        importlib.import_module(package + ".guard").run(lambda: importlib.import_module(package + ".serve").main())


if __name__ == "__main__":
    main()
