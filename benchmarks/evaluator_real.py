"""Modules of 0.5 to 8 GiB as people have them, each with an honest candidate and a wrong one, for `evaluator.py`.

Bytes are those of one call's inputs and outputs. Honest candidates are written as one writes them by hand: a kernel or
two beside PyTorch's own operators, gradients by computing the PyTorch form anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluator_kernels import (
    AFFINE,
    CUMSUM,
    EPILOGUE,
    HEAD,
    LAYER_NORM,
    MAX_POOL,
    MEAN,
    POINTWISE,
    RMS,
    SOFTMAX,
    TRITON,
)


@dataclass(frozen=True)
class Real:
    """A module of ordinary size."""

    name: str
    reference: str
    honest: str
    right: str
    """Text of the honest candidate ..."""
    wrong: str
    """... and what stands there in the wrong one."""

    @property
    def cheat(self) -> str:
        """The wrong candidate."""
        if self.right not in self.honest:
            raise ValueError(f"{self.name}: {self.right!r} is not in its candidate")
        return self.honest.replace(self.right, self.wrong)


def _reference(init: str, forward: str, inputs: str, arguments: str = "x") -> str:
    return f"""{HEAD}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {arguments}):
        {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def _candidate(kernels: str, init: str, forward: str, arguments: str = "x") -> str:
    return f"""{TRITON}
{kernels}

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {arguments}):
        x = x.contiguous()
        {forward}
"""


VGG = """layers, channels = [], 3
        for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU({inplace})]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Linear(512 * 49, 4096), nn.ReLU({inplace}), nn.Linear(4096, 1000))"""

MOBILE = """layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6({inplace})]
        channels = 32
        for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (1024, 2)):
            layers += [
                nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
                nn.BatchNorm2d(channels), nn.ReLU6({inplace}),
                nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6({inplace}),
            ]
            channels = width
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(1024, 1000)"""

LSTM = "self.lstm = nn.LSTM(256, 512, num_layers=4, batch_first=True)\n        self.head = nn.Linear(512, 64)"

GELU = "x * 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))"
CLAMPS = "tl.clamp(tl.clamp(x + bias, 0.0, 1.0, PASS_NAN) * 2.0, 0.0, 1.0, PASS_NAN) * 0.5"
BATCH_NORM = "self.norm = nn.BatchNorm2d(64)"


def _with_epilogue(name: str, layer: str, plain: str, kernel: str, inputs: str, call: str) -> Real:
    """A convolution or product whose bias and activation are one kernel behind it."""
    init = f"self.layer = {layer}"
    return Real(
        name,
        _reference(init, f"x = self.layer(x)\n        return {plain}", inputs),
        _candidate(
            EPILOGUE.format(expression=kernel),
            init,
            f"""layer = self.layer

        def fast(x, weight, bias):
            return launch_epilogue({call.format(bias="None")}.contiguous(), bias)

        def whole(x, weight, bias):
            x = {call.format(bias="bias")}
            return {plain}

        return Recomputed.apply(fast, whole, x, layer.weight, layer.bias)""",
        ),
        "x + bias",
        "x - bias",
    )


REAL = [
    Real(
        "gelu",
        _reference("", "return F.gelu(x)", "torch.randn(4096, 196608)"),
        _candidate(POINTWISE.format(expression=GELU), "", "return launch_pointwise(x, torch.empty_like(x))"),
        "0.7071067811865476",
        "0.7101067811865476",
    ),
    Real(
        "softmax",
        _reference("", "return torch.softmax(x, dim=-1)", "torch.randn(2048, 393216)"),
        _candidate(
            SOFTMAX,
            "",
            "out = torch.empty_like(x)\n        softmax_rows[(x.shape[0],)](x, out, x.shape[1], BLOCK=8192)\n"
            "        return out",
        ),
        "tl.exp(x - most) / whole",
        "tl.exp(x - most) / whole * 1.001",
    ),
    Real(
        "rms_norm",
        _reference("", "return x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5)", "torch.randn(56, 64, 512, 512)"),
        _candidate(
            RMS,
            "",
            "out = torch.empty_like(x)\n        inner = x.shape[2] * x.shape[3]\n"
            "        rms_channels[(x.shape[0], triton.cdiv(inner, 512))](x, out, x.shape[1], inner, 1e-5, BLOCK=512)\n"
            "        return out",
        ),
        "total / channels",
        "total / (channels - 1)",
    ),
    Real(
        "layer_norm",
        _reference("self.norm = nn.LayerNorm((64, 256, 256))", "return self.norm(x)", "torch.randn(32, 64, 256, 256)"),
        _candidate(
            LAYER_NORM,
            "self.norm = nn.LayerNorm((64, 256, 256))",
            "plain = lambda x, w, b: F.layer_norm(x, w.shape, w, b)\n"
            "        return Recomputed.apply(fast_layer_norm, plain, x, self.norm.weight, self.norm.bias)",
        ),
        "* w + b",
        "* w + b + 0.001",
    ),
    Real(
        "batch_norm",
        _reference(BATCH_NORM, "return self.norm(x)", "torch.randn(32, 64, 512, 512)"),
        _candidate(
            AFFINE,
            BATCH_NORM,
            """norm = self.norm

        def fast(x, weight, bias, mean, variance):
            scale = weight * torch.rsqrt(variance + norm.eps)
            return launch_affine(x, scale, bias - mean * scale)

        def plain(x, weight, bias, mean, variance):
            return F.batch_norm(x, mean, variance, weight, bias, eps=norm.eps)

        if self.training:
            return norm(x)
        return Recomputed.apply(fast, plain, x, norm.weight, norm.bias, norm.running_mean, norm.running_var)""",
        ),
        "bias - mean * scale)",
        "bias - mean * scale + 0.001)",
    ),
    Real(
        "mean",
        _reference("", "return x.mean(1)", "torch.randn(64, 4096, 4095)"),
        _candidate(
            MEAN,
            "",
            "out = torch.empty(x.shape[0], x.shape[2], device=x.device)\n"
            "        mean_rows[(x.shape[0], triton.cdiv(x.shape[2], 128))](\n"
            "            x, out, x.shape[1], x.shape[2], BLOCK=128, PARTS=16)\n        return out",
        ),
        "/ rows",
        "/ (rows - 5)",
    ),
    Real(
        "cumsum",
        _reference("", "return torch.cumsum(x, dim=1)", "torch.rand(16384, 32768)"),
        _candidate(
            CUMSUM,
            "",
            "out = torch.empty_like(x)\n        scan_rows[(x.shape[0],)](x, out, x.shape[1], BLOCK=2048)\n"
            "        return out",
        ),
        "before + tl.cumsum(x, 0)",
        "before + tl.cumsum(x, 0) - x * 0.5",
    ),
    Real(
        "max_pool",
        _reference("self.pool = nn.MaxPool2d(2)", "return self.pool(x)", "torch.randn(64, 64, 512, 512)"),
        _candidate(
            MAX_POOL,
            "",
            "h, w = x.shape[2] // 2, x.shape[3] // 2\n"
            "        out = torch.empty(x.shape[0], x.shape[1], h, w, device=x.device)\n"
            "        max_pool[(triton.cdiv(out.numel(), 1024),)](x, out, out.numel(), h, w, BLOCK=1024)\n"
            "        return out",
        ),
        "tl.maximum(one, two, PASS_NAN), mask",
        "one, mask",
    ),
    _with_epilogue(
        "conv2d",
        "nn.Conv2d(64, 128, 3, padding=1)",
        "torch.relu(x)",
        "tl.maximum(x + bias, 0.0, PASS_NAN)",
        "torch.randn(32, 64, 256, 256)",
        "F.conv2d(x, weight, {bias}, padding=1)",
    ),
    _with_epilogue(
        "conv_transpose2d",
        "nn.ConvTranspose2d(64, 64, 4, stride=2, padding=1)",
        "torch.clamp(torch.clamp(x, 0.0, 1.0) * 2.0, 0.0, 1.0) / 2.0",
        CLAMPS,
        "torch.randn(64, 64, 128, 128)",
        "F.conv_transpose2d(x, weight, {bias}, stride=2, padding=1)",
    ),
    _with_epilogue(
        "conv3d",
        "nn.Conv3d(16, 64, 3, padding=1)",
        "x * torch.sigmoid(x)",
        "(x + bias) * tl.sigmoid(x + bias)",
        "torch.randn(16, 16, 32, 128, 128)",
        "F.conv3d(x, weight, {bias}, padding=1)",
    ),
    _with_epilogue(
        "gemm",
        "nn.Linear(8192, 8192)",
        "torch.relu(x)",
        "tl.maximum(x + bias, 0.0, PASS_NAN)",
        "torch.randn(8192, 8192)",
        "F.linear(x, weight, {bias})",
    ),
    Real(
        "vgg",
        _reference(
            VGG.format(inplace=""),
            "return self.classifier(self.features(x).flatten(1))",
            "torch.randn(64, 3, 224, 224)",
        ),
        _candidate("", VGG.format(inplace="inplace=True"), "return self.classifier(self.features(x).flatten(1))"),
        "self.features(x)",
        "self.features(1.01 * x)",
    ),
    Real(
        "mobilenet",
        _reference(
            MOBILE.format(inplace=""),
            "return self.head(self.features(x).mean((2, 3)))",
            "torch.randn(256, 3, 224, 224)",
        ),
        _candidate("", MOBILE.format(inplace="inplace=True"), "return self.head(self.features(x).mean((2, 3)))"),
        "self.features(x)",
        "self.features(1.01 * x)",
    ),
    Real(
        "lstm",
        _reference(LSTM, "return self.head(self.lstm(x)[0])", "torch.randn(512, 512, 256)"),
        _candidate("", LSTM, "return self.head(self.lstm(x.contiguous())[0])"),
        "self.head(self.lstm",
        "1.001 * self.head(self.lstm",
    ),
]
"""By rising trouble."""
