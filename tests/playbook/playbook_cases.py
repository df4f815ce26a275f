# ruff: noqa: E501
"""Modules as people write them: (name, class body and more, inputs, init arguments, other inputs)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One module file."""

    name: str
    code: str
    inputs: str
    """Expression of the list of inputs."""
    init: str = "[]"
    other: str = ""
    """Inputs of another size; empty if the same size will do."""
    kernels: int = 1
    """How many kernels the first plan should have at least."""


def forward(name: str, body: str, inputs: str, other: str = "", arguments: str = "x", kernels: int = 1) -> Case:
    """A module that is nothing but its forward."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    code = f"class Model(nn.Module):\n    def forward(self, {arguments}):\n{lines}\n"
    return Case(name, code, inputs, "[]", other, kernels)


X = "[torch.randn(64, 1024)]"
X2 = "[torch.randn(7, 1024)]"

CASES = [
    forward("tanh_gelu", "return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))", X, X2),
    forward("scaled_gelu", "y = F.gelu(x) * 1.5\nreturn y + x", X, X2),
    forward("silu_gate", "a, b = x.chunk(2, dim=-1)\nreturn F.silu(a) * b", X, X2),
    forward("mish_and_softplus", "return F.mish(x) + F.softplus(x) - F.softsign(x)", X, X2),
    forward("hard_activations", "return F.hardswish(x) + F.hardsigmoid(x) * F.hardtanh(x, -2.0, 2.0) + F.relu6(x)", X, X2),
    forward("exponential_units", "return F.elu(x, 0.7) + F.selu(x) + F.celu(x, 1.3) + F.leaky_relu(x, 0.1)", X, X2),
    forward("shrinks", "return F.softshrink(x) + F.hardshrink(x) + F.tanhshrink(x) + F.threshold(x, 0.1, 20.0)", X, X2),
    forward("where_and_clamp", "y = torch.where(x > 0, x, x * 0.1)\nreturn y.clamp(min=-1.0, max=2.0) + 1", X, X2),
    forward("in_place", "y = x * 2\ny += 1\ny.relu_()\ny = F.relu(y - 3, inplace=True)\nreturn y", X, X2),
    forward("lerp_and_addc", "return torch.lerp(x, y, 0.3).addcmul(x, y, value=0.5).addcdiv(x, y.abs() + 1, value=2.0)",
            "[torch.randn(64, 512), torch.randn(64, 512)]", "[torch.randn(3, 512), torch.randn(3, 512)]", "x, y"),
    forward("reflected", "return (2 - x) / (1.5 + x.abs()) + 3 / (x * x + 1) + 2.0 ** (-x.abs())", X, X2),
    forward("whole_numbers", "return (i * 2 + 1).clamp(0, 50).float() * x + (i > 3)",
            "[torch.randn(64, 512), torch.randint(0, 40, (64, 512))]", "[torch.randn(2, 512), torch.randint(0, 40, (2, 512))]", "x, i"),
    forward("masked_softmax", "y = (x * 0.125).masked_fill(m, float('-inf'))\nreturn torch.softmax(y, dim=-1)",
            "[torch.randn(4, 64, 128), torch.rand(64, 128) > 0.8]", "[torch.randn(2, 64, 128), torch.rand(64, 128) > 0.8]", "x, m"),
    forward("log_softmax_temperature", "return F.log_softmax(x / 0.7, dim=1)", X, X2),
    forward("softmax_over_channels", "return F.softmax(x * 2.0, dim=1)", "[torch.randn(4, 32, 16, 16)]", "[torch.randn(2, 32, 16, 16)]"),
    forward("one_name_of_two_ranks", """def repeated(t):
    b, k, s, d = t.shape
    return t[:, :, None].expand(b, k, 2, s, d).reshape(b, k * 2, s, d)
h = (x @ w).view(x.shape[0], x.shape[1], -1, 16).transpose(1, 2)
q = repeated(h * y + torch.tanh(h)).cumsum(-1)
return (q.sum(1) * 2 * y).cumsum(-1) * 3""",
            "[torch.randn(2, 8, 48), torch.randn(8, 16), torch.randn(48, 48)]", "[torch.randn(3, 8, 48), torch.randn(8, 16), torch.randn(48, 48)]", "x, y, w"),
    forward("between_knots", "b = ((x >= -0.5) & (x < 0.5)).to(x.dtype)\nreturn b @ x.t()", "[torch.randn(64, 128)]", "[torch.randn(7, 128)]"),
    forward("rms_by_hand", "v = x.pow(2).mean(-1, keepdim=True)\nreturn x * torch.rsqrt(v + 1e-6)", X, X2),
    forward("l2_normalize", "return F.normalize(x * 3 + 1, dim=-1)", X, X2),
    forward("standardize", "m = x.mean(dim=-1, keepdim=True)\ns = x.std(dim=-1, keepdim=True)\nreturn (x - m) / (s + 1e-5)", X, X2),
    forward("logsumexp_dropped", "return torch.logsumexp(x * 0.5, dim=-1) * 2 - 1", X, X2),
    forward("dropped_with_row_values", "y = (x * x).sum(-1)\nreturn torch.sqrt(y + b) * 0.5",
            "[torch.randn(64, 1024), torch.rand(64)]", "[torch.randn(5, 1024), torch.rand(5)]", "x, b"),
    forward("sum_then_unsqueeze", "s = x.abs().sum(dim=1)\nreturn x / (s.unsqueeze(1) + 1e-6)", X, X2),
    forward("norm_expanded", "n = x.norm(dim=1, keepdim=True).expand_as(x)\nreturn x / (n + 1.0)", X, X2),
    forward("two_results", "y = torch.exp(-x.abs())\nreturn y * 2, y.sum(-1, keepdim=True)", X, X2),
    forward("amax_values", "v = (x * 2).max(dim=-1).values\nreturn v + 1", X, X2),
    forward("full_mean_loss", "d = (x - y).abs()\nreturn torch.where(d < 1, 0.5 * d * d, d - 0.5).mean()",
            "[torch.randn(256, 512), torch.randn(256, 512)]", "[torch.randn(64, 512), torch.randn(64, 512)]", "x, y"),
    forward("library_losses", "return F.mse_loss(x, y) + F.smooth_l1_loss(x, y, reduction='sum') * 0.1",
            "[torch.randn(256, 512), torch.randn(256, 512)]", "[torch.randn(64, 512), torch.randn(64, 512)]", "x, y"),
    forward("bce_with_logits", "return F.binary_cross_entropy_with_logits(x * 2, t)",
            "[torch.randn(256, 512), torch.rand(256, 512)]", "[torch.randn(64, 512), torch.rand(64, 512)]", "x, t"),
    forward("row_loss_then_mean", "p = F.log_softmax(x, -1)\nper = -(p * t).sum(-1)\nreturn per.mean()",
            "[torch.randn(256, 512), torch.rand(256, 512)]", "[torch.randn(64, 512), torch.rand(64, 512)]", "x, t"),
    forward("broadcast_shapes", "return torch.sigmoid(x + r + c) * (x - r)",
            "[torch.randn(8, 64, 128), torch.randn(64, 1), torch.randn(128)]",
            "[torch.randn(3, 64, 128), torch.randn(64, 1), torch.randn(128)]", "x, r, c"),
    forward("keyword_and_default", "y = x * scale\nif mask is not None:\n    y = y + mask\nreturn torch.tanh(y) + x", X, X2,
            "x, mask=None, scale: float = 0.5"),
    forward("dictionary_result", "y = torch.tanh(x) * 2 + 1\nreturn {'y': y, 'n': x.size(0), 'pair': (y, None)}", X, X2),
    forward("doubles", "return torch.exp(-x * x) * 0.5 + x", "[torch.randn(64, 512, dtype=torch.float64)]",
            "[torch.randn(3, 512, dtype=torch.float64)]"),
    Case("layer_norm_residual", """
class Model(nn.Module):
    def __init__(self, features):
        super(Model, self).__init__()
        self.norm = nn.LayerNorm(features)
        self.gain = nn.Parameter(torch.full((features,), 0.5))

    def forward(self, x, y):
        summed = x + self.gain * y
        return self.norm(summed)
""", "[torch.randn(64, 512), torch.randn(64, 512)]", "[512]", "[torch.randn(5, 512), torch.randn(5, 512)]"),
    Case("conv_batch_norm", """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layers(x)) * 2
""", "[torch.randn(8, 3, 32, 32)]", "[]", "[torch.randn(2, 3, 20, 20)]"),
    Case("instance_norm", """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm2d(8, affine=True)

    def forward(self, x):
        return torch.relu(self.norm(x) + 0.1)
""", "[torch.randn(4, 8, 24, 24)]", "[]", "[torch.randn(2, 8, 12, 12)]"),
    Case("linear_scale_sum", """
class Model(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.linear = nn.Linear(n, 2 * n)
        self.scale = scale

    def forward(self, x):
        y = self.linear(x)
        y = torch.clamp(y * self.scale, -2.0, 2.0)
        return (y + torch.sigmoid(y)).sum(dim=1, keepdim=True)
""", "[torch.randn(64, 128)]", "[128, 1.5]", "[torch.randn(3, 128)]"),
    Case("repeated_blocks", """
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)

    def forward(self, x):
        h = self.fc(x)
        return x + h * torch.sigmoid(1.702 * h)


class Model(nn.Module):
    def __init__(self, n, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(n) for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
""", "[torch.randn(32, 256)]", "[256, 3]", "[torch.randn(5, 256)]", 3),
    Case("transformer_block", """
class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Attention(nn.Module):
    def __init__(self, n, heads, longest):
        super().__init__()
        self.c_attn = nn.Linear(n, 3 * n)
        self.c_proj = nn.Linear(n, n)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))
        self.heads = heads
        self.n = n

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n, dim=2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.drop(self.c_proj(y))


class Model(nn.Module):
    def __init__(self, n, heads, longest):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n)
        self.attn = Attention(n, heads, longest)
        self.ln_2 = nn.LayerNorm(n)
        self.mlp = nn.ModuleDict(dict(fc=nn.Linear(n, 4 * n), proj=nn.Linear(4 * n, n), act=NewGELU()))
        m = self.mlp
        self.mlpf = lambda x: m.proj(m.act(m.fc(x)))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlpf(self.ln_2(x))
""", "[torch.randn(4, 32, 64)]", "[64, 4, 64]", "[torch.randn(2, 20, 64)]", 2),
    Case("shape_control_flow", """
class Model(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        if x.size(0) > self.limit:
            return torch.tanh(x) * 2 + 1
        return torch.sigmoid(x) - 1 + x
""", "[torch.randn(64, 512)]", "[16]", "[torch.randn(4, 512)]"),
    Case("loop_over_a_size", """
class Model(nn.Module):
    def forward(self, x):
        total = torch.zeros_like(x[:, 0])
        for i in range(x.shape[1]):
            total = total + torch.tanh(x[:, i]) * 0.5
        return total
""", "[torch.randn(64, 3, 512)]", "[]", "[torch.randn(64, 5, 512)]"),
    Case("inherited_forward", """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 3.0

    def forward(self, x):
        return torch.exp(-x.abs()) * self.k + x


class Model(Base):
    note = "as its base"
""", X, "[]", X2),
    Case("list_of_inputs", """
class Model(nn.Module):
    def forward(self, parts, weight):
        return torch.relu(parts[0] * weight + parts[1]) - parts[0]
""", "[[torch.randn(64, 512), torch.randn(64, 512)], torch.tensor(0.5)]", "[]",
         "[[torch.randn(3, 512), torch.randn(3, 512)], torch.tensor(0.5)]"),
    Case("nested_results", """
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.attention = nn.MultiheadAttention(n, 4, batch_first=True)
        self.lstm = nn.LSTM(n, n, batch_first=True)

    def forward(self, x):
        y, _ = self.attention(x, x, x, need_weights=False)
        out, (h, c) = self.lstm(torch.tanh(y) * 2 + x)
        return torch.sigmoid(out) * h[-1].unsqueeze(1) + c[-1].unsqueeze(1)
""", "[torch.randn(4, 32, 64)]", "[64]", "[torch.randn(2, 20, 64)]"),
]  # fmt: skip
BY_NAME = {case.name: case for case in CASES}
HEAD = "import math\n\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


def text_of(case: Case) -> str:
    """Return the module file of a case."""
    return (
        f"{HEAD}{case.code.strip()}\n\n\ndef get_inputs():\n    return {case.inputs}\n\n\n"
        f"def get_init_inputs():\n    return {case.init}\n\n\ndef get_other_inputs():\n    return {case.other or case.inputs}\n"
    )
