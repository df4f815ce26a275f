"""A document is loaded once, as the module it is in its package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import stark_lsp

LOAD = """
import importlib.util, sys
folder = sys.argv[1]
from importlib.util import spec_from_file_location as spec_from
spec = spec_from("stark_worker", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["stark_worker"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from stark_worker.loading import load_document
module = load_document(sys.argv[2], open(sys.argv[2]).read() + "\\nUNSAVED = 1\\n")
print(module.__name__, module.UNSAVED, module.__file__ == sys.argv[2], sys.modules[module.__name__] is module)
"""


def test_a_package_that_registers_its_modules_bears_that_one_is_a_document(tmp_path: Path) -> None:
    package = tmp_path / "zoo"
    package.mkdir()
    (package / "__init__.py").write_text("from . import registry, net\n")
    (package / "registry.py").write_text(
        "KNOWN = {}\ndef register(name):\n  assert name not in KNOWN, 'registered twice'\n  KNOWN[name] = 1\n"
    )
    (package / "net.py").write_text("from .registry import register\nregister('net')\n")
    worker = Path(stark_lsp.__file__).parent / "worker"
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(worker), str(package / "net.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "zoo.net 1 True True\n", done.stderr
