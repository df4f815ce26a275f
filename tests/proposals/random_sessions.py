"""Random files, candidates and hand edits for sessions of accepts, see `test_sessions.py`.

Every class of a file computes `a * x + b` for whole numbers, each in its own way, so that classes cannot be mistaken
for each other and results are exact.
"""

from __future__ import annotations

import textwrap
import types
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

HEADS = [
    "import torch\nimport torch.nn as nn\n",
    "from torch import nn\nimport torch\n",
    "import torch; from torch import nn; z = (\n1)\n",
    "try:\n    import torch\n    import torch.nn as nn\nexcept ImportError:\n    raise\n",
    "if True:\n    import torch\n    from torch import nn\n",
    "import torch.nn as nn, torch\nimport torch.nn.functional\n",
    "from torch import *\nimport torch\nfrom torch import nn\n",
    "import os\nos.environ.setdefault('STARK_SESSION', '1')\nimport torch\n\nfrom torch import nn\nimport math\n",
]
TOPS = [
    "", "", '"""Doc."""\n', '"""Doc."""; x = 1\n', "from __future__ import annotations\n", "# A licence.\n\n",
    '"""Doc."""\nfrom __future__ import annotations; x = 1\n', "#!/usr/bin/env python\n", "'''A\nB'''\n\n", "\n\n",
]  # fmt: skip
ODD = [
    "if __name__ == '__main__':\n    import os\n    import math\n    import torch.nn.functional as F\n",
    "if __name__ == '__main__':\n    math = ctypes = F = None\n",
    "import typing\nif typing.TYPE_CHECKING:\n    import os.path, ctypes\n    import torch.nn.functional as F\n",
    "import os, math, ctypes\nimport torch.nn.functional as F\n",
    "import os\nimport math\ndel os, math\n",
    "import torch.nn.functional as F\nF = 3\n",
    "import ctypes as c, math as m, os.path as path\n",
    "try:\n    import no_such_module\nexcept ImportError as math:\n    ctypes = 3\n",
    "def lazy():\n    global math\n    import math\n",
    "import contextlib\nwith contextlib.suppress(ValueError):\n    raise ValueError\n    import ctypes\n",
    "class Holder:\n    import os\n    SOURCE = 3\n",
    "for os in 'ab':\n    pass\n",
    "SOURCE = 'mine'\n_state = 99\n",
    "def launch(x):\n    return 0 * x\n",
    "def load():\n    return 99\n",
    "def len(x):\n    return 1000\n",
    "LIMIT: int = 77\nmax = None\n",
    "with open('/dev/null') as launch:\n    pass\n",
    "[SOURCE := letter for letter in 'abc']\n",
    "# A remark with an umlaut: ü.\n",
    "s = '''\n  odd\n# Optimized by STARK, not\n'''\n",
    "\x0c\ny = 2\n",
    "class ModelNew:\n    mine = True\n",
    "BlockNew = 'mine'\n",
    "match 3:\n    case [F, *math]:\n        pass\n    case F:\n        pass\n",
]
LATE = [
    "del nn\n", "nn = None\n", "torch = None\n", "def change():\n    global nn, F\n    nn = F = None\nchange()\n",
    "if __name__ == '__main__':\n    nn = torch = None\n", "from builtins import *\n",
]  # fmt: skip
HELPERS = "SCALE = 1\n\n\ndef helper(x, scale=SCALE):\n    return x + scale\n"
EXPRESSIONS = [
    "x * {a} + {b}", "helper(x) * {a} - {a} + {b}", "torch_add(x * {a}, {b})", "(x + SCALE - 1) * {a} + {b}",
    "functional.relu(x) * {a} + {b}",
]  # fmt: skip
STARTS = [
    "", "'''Doc.'''\n\n", "def __init__(self):\n    super().__init__()\n\n",
    "def __init__(self):\n    super({name}, self).__init__()\n\n",
]  # fmt: skip
NEEDS = {
    "helper": HELPERS,
    "SCALE": HELPERS,
    "torch_add": "from torch import add as torch_add\n",
    "functional": "import torch.nn.functional as functional\n",
}


@dataclass(frozen=True)
class Target:
    """A class of a file."""

    qualname: str
    a: int
    b: int
    block: bool = False
    """Whether it stands in a class or another statement."""


@dataclass
class Session:
    """A file while it is worked on."""

    text: str
    encoding: str
    targets: list[Target]
    tokens: list[str] = field(default_factory=list)
    """What was written by hand."""
    ours: str = ""
    """What accepts wrote."""
    brought: dict[str, Target] = field(default_factory=dict)
    """Accepted classes of their own names."""


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """A random file: heads, odd imports, plain, nested, conditional and derived classes, encodings and line ends."""
    encoding, sign = draw(st.sampled_from([("utf-8", "ü→"), ("latin-1", "ü"), ("shift_jis", "カ"), ("utf-8", "")]))
    top = draw(st.sampled_from(TOPS))
    if encoding != "utf-8":
        cookie = f"# -*- coding: {encoding} -*-\n"
        top = top + cookie if top in ("", "#!/usr/bin/env python\n") else "\n" * draw(st.integers(0, 1)) + cookie + top
    count = draw(st.integers(1, 3))
    numbers = draw(st.permutations(range(2, 10)))
    used: set[str] = set()
    targets: list[Target] = []
    parts: list[str] = []
    for index in range(count):
        a, b = numbers[index], numbers[-index - 1]
        expression = draw(st.sampled_from(EXPRESSIONS))
        used |= {name for name in NEEDS if name in expression}
        text, target = _class(draw, index, a, b, expression.format(a=a, b=b), parts)
        parts.append(text)
        targets.append(target)
    needs = sorted({NEEDS[name] for name in used})
    odd = st.lists(st.sampled_from(ODD), max_size=2)
    pieces = [draw(st.sampled_from(HEADS)), *draw(odd)]
    below = [*draw(odd)]
    for need in needs:  # functions are looked up when they are called, so what they need may stand below
        (pieces if draw(st.booleans()) else below).append(need)
    for part in parts:
        pieces.append("\n\n" + part)
        pieces.extend(draw(st.lists(st.sampled_from(ODD), max_size=1)))
    pieces += ["\n\n", *below]
    for target in targets:
        pieces.append(f"\n\ndef get_inputs_for_{target.qualname.replace('.', '_')}():\n    return []\n")
    pieces.extend(draw(st.lists(st.sampled_from(LATE), max_size=1)))
    text = top + "".join(pieces)
    text = text.replace("ü", sign or "u")
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    if encoding == "utf-8" and draw(st.booleans()):
        text = "\ufeff" + text
    return Session(text, encoding, targets)


def _class(draw: st.DrawFn, index: int, a: int, b: int, expression: str, before: list[str]) -> tuple[str, Target]:
    kind = draw(
        st.sampled_from(["plain", "plain", "nested", "nested", "deep", "if", "try", "else", "with", "inner if"])
    )
    name = "Model" if index == 0 and draw(st.booleans()) else f"Net{index}"
    start = draw(st.sampled_from(STARTS))
    body = f"def forward(self, x):\n    return {expression}\n"
    if draw(st.booleans()):
        body += "    # done\n"

    def written(short: str, qualname: str) -> str:
        decorator = "@(lambda cls: cls)\n" if start.startswith("def") and "{name}" not in start and a % 2 else ""
        inside = textwrap.indent(start.replace("{name}", qualname) + body, "    ")
        return f"{decorator}class {short}(nn.Module):\n{inside}"

    if kind == "plain":
        remark = "# The user's own.\n" if draw(st.booleans()) else ""
        return remark + written(name, name), Target(name, a, b)
    if kind in ("nested", "deep", "inner if"):
        outer = f"Outer{index}"
        path = f"{outer}.Inner.Block" if kind == "deep" else f"{outer}.Block"
        text = written("Block", path)
        if kind == "inner if":
            text = "if True:\n" + textwrap.indent(text, "    ")
        if kind == "deep":
            text = "class Inner:\n" + textwrap.indent(text, "    ")
        own = draw(st.sampled_from(["", "size = 3\n\n", "launch = F = None\n\n", "nn = nn\n\n"]))
        tail = draw(st.sampled_from(["", "\ndef forward(self, x):\n    return self.Block()(x)\n"]))
        return f"class {outer}(nn.Module):\n" + textwrap.indent(own + text + tail, "    "), Target(path, a, b, True)
    indent = draw(st.sampled_from(["    ", "\t", "  "]))
    text = textwrap.indent(written(name, name), indent)
    head, tail = {
        "if": ("if True:\n", ""),
        "else": (f"if False:\n{indent}pass\nelse:\n", ""),
        "try": ("try:\n", f"except ImportError:\n{indent}raise\n"),
        "with": ("with open('/dev/null'):\n", ""),
    }[kind]
    own = draw(st.sampled_from(["", f"{indent}inside = 1\n\n"]))
    return head + own + text + tail, Target(name, a, b, True)


def candidate_source(draw: st.DrawFn, slice_text: str, target: Target, tag: int) -> str:
    """A candidate that computes what the class does; it leans on the document's slice, or stands alone."""
    derived = draw(st.booleans())
    imports = ["import ctypes", "import math", draw(st.sampled_from(["import os.path", "import os"]))]
    imports += draw(st.sampled_from([["import torch.nn.functional as F"], ["from torch.nn import functional as F"]]))
    future = draw(st.booleans()) and not derived
    kernels = KERNELS.replace("AAA", str(target.a)).replace("BBB", str(target.b)).replace("TAG", str(tag % 3))
    if draw(st.booleans()):
        kernels = kernels.replace("launch", "_launch")
    launch = "_launch" if "_launch" in kernels else "launch"
    base = target.qualname if derived else "nn.Module"
    if derived and target.block and draw(st.booleans()):
        base = "nn.Module"
    init = draw(st.sampled_from(["", "    def __init__(self):\n        super(ModelNew, self).__init__()\n\n"]))
    new = f"class ModelNew({base}):\n    times: int = LIMIT\n\n{init}"
    new += f"    def forward(self, x: torch.Tensor) -> 'torch.Tensor':\n        return {launch}(x)\n"
    if not derived:
        head = "from __future__ import annotations\n" if future else ""
        return head + "\n".join([*imports, "import torch", "from torch import nn"]) + f"\n\n{kernels}\n\n{new}"
    text = slice_text.removeprefix("\ufeff")
    return f"{text}\n" + "\n".join([*imports, "import torch", "import torch.nn as nn"]) + f"\n\n{kernels}\n\n{new}"


KERNELS = '''\
SOURCE = r"""
  kernel TAG
"""
_state = None
LIMIT = max(1, len("abc"))


def load():
    global _state
    if _state is None:
        _state = ctypes.c_int(AAA + 0 * len(SOURCE)).value
    return _state


# The launcher.
def launch(x, limit=LIMIT):
    return F.relu(x) * load() + BBB * math.sqrt(1) + 0 * len(os.path.sep) * limit
'''


def loaded(text: str, encoding: str, name: str = "edited") -> dict[str, Any]:
    """The file's names once it is imported (or run), from its bytes as they would stand on the disk."""
    source = text.encode("utf-8" if text.startswith("\ufeff") else encoding)
    module = types.ModuleType(name)
    exec(compile(source, "edited.py", "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def result(namespace: dict[str, Any], qualname: str) -> float:
    """What a class gives for 1.5."""
    first, *rest = qualname.split(".")
    found = namespace[first]
    for part in rest:
        found = getattr(found, part)
    return float(found()(torch.full((1,), 1.5)))
