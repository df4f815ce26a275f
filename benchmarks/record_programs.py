"""Record what Inductor writes for small modules on a GPU, for the tests that run it by Triton's interpreter.

    python benchmarks/record_programs.py --out tests/data/inductor

Each file holds a module's text, the recipe, and what `judge/analysis/inductor.program` returned, without what only
Inductor needs. Needs a GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stark_lsp.judge.analysis import NotTraceable, inductor
from stark_lsp.judge.analysis.rewrites import convolutions

MODULE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {arguments}):
        {forward}


def get_inputs():
    return [{inputs}]
"""
TRITON = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
SEARCHED = {"coordinate_descent_tuning": True, "max_autotune_pointwise": True}
MODULES: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {
    "any_attention": (
        'self.register_buffer("m", torch.tril(torch.ones(256, 256)))',
        "k, q, v",
        "return ((q @ k.transpose(1, 2) / 4.0).masked_fill(self.m == 0, -torch.inf).softmax(-1) @ v).sum(-1)",
        "*(torch.randn(2, 256, 16) for _ in range(3))",
        {"rewrites": ["attention"], "batch": True},
    ),
    "any_length": (
        "self.n, self.l = nn.LayerNorm(24), nn.Linear(24, 24)",
        "x, y",
        "return self.n(torch.relu(self.l(x)) * y).transpose(1, 2).softmax(-1) / x.shape[1]",
        "torch.randn(4, 10, 24), torch.randn(4, 10, 24)",
        {"batch": True, "length": True},
    ),
    "any_norm": (
        "self.n, self.l = nn.LayerNorm(24), nn.Linear(36, 24)",
        "x, y",
        "return (self.n(torch.relu(self.l(x)) * y) / x.shape[0]).mean(1)",
        "torch.randn(6, 10, 36), torch.randn(6, 10, 24)",
        {"batch": True},
    ),
    "any_turned": ("pass", "x", "return x.transpose(1, 2).contiguous()", "torch.randn(6, 40, 50)", {"batch": True}),
    "argmax": ("pass", "x", "return torch.argmax(x, 1), x.amax(1)", "torch.randn(4, 300, 20)", {}),
    "attention": (
        'self.register_buffer("m", torch.tril(torch.ones(256, 256)))',
        "k, q, v",
        "return ((q @ k.transpose(1, 2) / 4.0).masked_fill(self.m == 0, -torch.inf).softmax(-1) @ v).sum(-1)",
        "*(torch.randn(2, 256, 16) for _ in range(3))",
        {"rewrites": ["attention"]},
    ),
    "conv": (
        "self.c = nn.Conv2d(8, 16, 3, padding=1)",
        "x",
        "return F.relu(self.c(x)).mean((2, 3))",
        "torch.randn(2, 8, 12, 12)",
        {"options": {"layout_optimization": False}},
    ),
    "convolution": (
        "self.c = nn.Conv2d(12, 20, 3, padding=1).half().float()",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 12, 10, 9).half().float()",
        {"rewrites": ["convolutions"]},
    ),
    "convolution_last": (
        "self.c = nn.Conv2d(12, 20, 3, padding=1).half().float().to(memory_format=torch.channels_last)",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 12, 10, 9).half().float().to(memory_format=torch.channels_last)",
        {"rewrites": ["convolutions"]},
    ),
    "convolution_direct": (
        "self.c = nn.Conv3d(3, 40, (3, 2, 5), stride=(1, 2, 1), padding=(1, 0, 2), dilation=(1, 1, 2))",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 3, 4, 10, 11)",
        {"rewrites": ["convolutions"]},
    ),
    "convolution_direct_grouped": (
        "self.c = nn.Conv2d(12, 40, 3, padding=(1, 0), groups=2)",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 12, 10, 9)",
        {"rewrites": ["convolutions"]},
    ),
    "convolution_grouped": (
        "self.c = nn.Conv2d(32, 96, 3, padding=1, groups=2).half().float()",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 32, 10, 9).half().float()",
        {"rewrites": ["convolutions"]},
    ),
    "convolution_transposed": (
        "self.c = nn.ConvTranspose2d(12, 20, 3, stride=2, padding=1, output_padding=1).half().float()",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 12, 7, 5).half().float()",
        {"rewrites": ["convolutions"]},
    ),
    "convolution_transposed_volume": (
        "self.c = nn.ConvTranspose3d(9, 20, (3, 4, 1), stride=(2, 3, 2), padding=(0, 1, 0)).half().float()",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 9, 3, 4, 5).half().float()",
        {"rewrites": ["convolutions"]},
    ),
    "convolution_transposed_dilated": (
        "self.c = nn.ConvTranspose2d(32, 40, 3, (3, 2), (4, 1), (1, 0), 2, dilation=2).half().float()",
        "x",
        "return F.relu(self.c(x))",
        "torch.randn(2, 32, 7, 5).half().float()",
        {"rewrites": ["convolutions"]},
    ),
    "cross_entropy": (
        "pass",
        "x, t",
        "return F.cross_entropy(x, t)",
        "torch.randn(64, 100), torch.randint(0, 100, (64,))",
        {},
    ),
    "depthwise": (
        "self.c = nn.Conv2d(16, 16, 7, padding=3, groups=16)",
        "x",
        "return self.c(x)",
        "torch.randn(4, 16, 64, 64)",
        {"rewrites": ["windows"]},
    ),
    "cumsum": ("pass", "x", "return torch.cumsum(x, dim=1) * 2.0", "torch.rand(4, 3000)", {}),
    "gelu": ("self.w = nn.Parameter(torch.randn(96))", "x", "return F.gelu(x + self.w)", "torch.randn(40, 96)", {}),
    "layer_norm": (
        "self.norm = nn.LayerNorm((4, 40, 50))",
        "x",
        "return self.norm(x) * 2.0",
        "torch.randn(3, 4, 40, 50)",
        {"options": SEARCHED},
    ),
    "linear": (
        "self.l = nn.Linear(64, 48)",
        "x",
        "return torch.sigmoid(self.l(x)).sum(1, keepdim=True)",
        "torch.randn(40, 64)",
        {},
    ),
    "matmul_only": ("pass", "a, b", "return a @ b", "torch.randn(40, 64), torch.randn(64, 48)", {}),
    "max_pool": ("pass", "x", "return F.max_pool2d(F.relu(x), 2)", "torch.randn(2, 6, 20, 20)", {}),
    "prod": ("pass", "x", "return x.prod(-1), (x > 0).any(-1)", "torch.randn(5, 200)", {}),
    "product": (
        "self.l = nn.Linear(64, 48)",
        "x",
        "return F.gelu(self.l(x)) * 0.5",
        "torch.randn(40, 64)",
        {"options": TRITON, "products": "bf16x3"},
    ),
    "product_six": (
        "pass",
        "a, b",
        "return torch.bmm(a, b) + 1.0",
        "torch.randn(2, 40, 64), torch.randn(2, 64, 48)",
        {"options": TRITON, "products": "bf16x6"},
    ),
    "slim": (
        "self.l = nn.Linear(1000, 1100)",
        "x",
        "return F.relu(self.l(x))",
        "torch.randn(20, 1000)",
        {"rewrites": ["halves"]},
    ),
    "slim_gram": (
        "pass",
        "a, b",
        "return a.t() @ b + 1.0",
        "torch.rand(4507, 40), torch.rand(4507, 240) - 0.5",
        {"rewrites": ["halves"]},
    ),
    "softmax_long": ("pass", "x", "return torch.softmax(x, dim=-1)", "torch.randn(3, 70000)", {}),
}


def record(name: str) -> dict[str, Any]:
    """Return the record of one module."""
    init, arguments, forward, inputs, recipe = MODULES[name]
    text = MODULE.format(init=init, arguments=arguments, forward=forward, inputs=inputs)
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model = module.Model().cuda().eval()
    made = inductor.program(model, tuple(x.cuda() for x in module.get_inputs()), {}, str(path), recipe)
    code = made["code"].partition("\ndef get_args():")[0]
    code = re.sub(r"# kernel path: .*\n", "", code)
    made["code"] = re.sub(r"(triton_meta|inductor_meta)=\{.*\},?\n", r"\1={},\n", code)
    return {"text": text, "recipe": recipe, "made": made}


def main() -> int:
    """Record all modules; return 1 if one could not be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    parser.add_argument("--only", default=",".join(MODULES), help="names, separated by commas")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    convolutions.LEAST = 1
    for name in options.only.split(","):
        try:
            (options.out / f"{name}.json").write_text(json.dumps(record(name), indent=1))
        except NotTraceable as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
