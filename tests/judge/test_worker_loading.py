"""A document is loaded once, as the module it is in its package."""

from __future__ import annotations

import inspect
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stark_lsp
from stark_lsp.judge.reference import loading

LOAD = """
import sys, types
sys.modules["stark_worker"] = package = types.ModuleType("stark_worker")
package.__path__ = [sys.argv[1]]
from stark_worker.judge.reference.loading import load_document
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
    ours = Path(stark_lsp.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(ours), str(package / "net.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    assert done.stdout == "zoo.net 1 True True\n", done.stderr
    assert not list(tmp_path.rglob("__pycache__")), "nothing is left beside the user's files"


REGISTRY = """
KNOWN = {"block", "Part"}

def register(name=None):
    def keep(cls):
        assert (name or cls.__name__) not in KNOWN, "registered twice"
        KNOWN.add(name or cls.__name__)
        return cls
    return keep

class Base:
    def __init_subclass__(cls, key="", **others):
        assert key not in KNOWN, "registered twice"
        super().__init_subclass__(**others)
"""


@pytest.mark.parametrize(
    "head",
    ["@register('block')\nclass New:", "@register(name='block')\nclass New:", "class New(Base, key='block'):"],
)
def test_a_candidate_is_not_registered_under_a_name_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    (tmp_path / "strict_zoo.py").write_text(REGISTRY)
    monkeypatch.syspath_prepend(str(tmp_path))
    part = "from strict_zoo import Base, register\n@register()\nclass Part:\n    pass\n"
    try:
        module = loading.execute_candidate("candidate.py", f"{part}{head}\n    def at(self): 1 / 0\n", "", "block.py")
        with pytest.raises(ZeroDivisionError) as raised:
            module.New().at()
        assert raised.traceback[-1].lineno + 1 == head.count("\n") + 6
        with pytest.raises(NameError, match="nothing"):
            loading.execute_candidate("candidate.py", f"{part}nothing\n", "", "block.py")
        with pytest.raises(ZeroDivisionError):
            loading.execute_candidate("candidate.py", "1 / 0", "", "block.py")
    finally:
        for name in ("stark_candidate", "strict_zoo"):
            sys.modules.pop(name, None)
        for name in ("candidate.py", "block.py"):
            linecache.cache.pop(name, None)


def test_inspect_gives_the_lines_that_python_counts(tmp_path: Path) -> None:
    text = 'NOTE = "a\u2028b"\r\n\x0c\r\ndef first():\r\n    return 1\r\n\x0c\r\ndef second():\r\n    return 2\r\n'
    path = str(tmp_path / "paged.py")
    module = loading.execute("paged", path, text, "")
    try:
        assert inspect.getsource(module.second) == "def second():\n    return 2\n"
    finally:
        del sys.modules["paged"], linecache.cache[path]
