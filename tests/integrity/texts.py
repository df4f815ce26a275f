"""Candidates around a few lines."""

from __future__ import annotations

HEAD = "import torch\nimport torch.nn as nn\n"
KERNEL = (
    "import ctypes\nfrom torch.utils.cpp_extension import load_inline\n"
    "CODE = 'extern \"C\" void k(float* x) { x[0] = 1; }'\n"
    "def lib():\n    return ctypes.CDLL(load_inline('made', CODE, is_python_module=False))\n"
)


def candidate(before: str = "", body: str = "return x", init: str = "") -> str:
    """Return a candidate with statements before its class, in its forward and in its constructor."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    made = "".join(f"        {line}\n" for line in init.splitlines())
    start = f"    def __init__(self):\n        super().__init__()\n{made}" if init else ""
    return f"{HEAD}{before}\n\n\nclass ModelNew(nn.Module):\n{start}    def forward(self, x):\n{lines}"


def native(code: str) -> str:
    """Return a candidate that builds a C++ text."""
    built = f'CODE = r"""\n{code}\n"""\nMODULE = load_inline("made", CODE, functions=["f"])'
    return candidate(f"from torch.utils.cpp_extension import load_inline\n{built}", "return MODULE.run(x)")
