"""Level 3: whole models, written as their papers have them."""

from __future__ import annotations

from playbook_suite.problem import Problem

PICTURES = "torch.randn(N, 3, H, H)"
SEQUENCES = "torch.randn(N, T, D)"

# As papers have it; torch's own initial weights let little through layers without norms.
SPREAD = """
for weight in self.parameters():
    if weight.dim() > 1:
        nn.init.kaiming_normal_(weight)"""

VGG = """layers, channels = [], 3
for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
    for _ in range(count):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
        channels = width
    layers.append(nn.MaxPool2d(2))
self.features = nn.Sequential(*layers)
side = H // 32
self.classifier = nn.Sequential(
    nn.Linear(512 * side * side, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, classes)
)"""

SEPARABLE = """
def separable(channels, width, stride):
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
        nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
        nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
    )

"""
MOBILE = """layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True)]
channels = 32
for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2)):
    layers.append(separable(channels, width, stride))
    channels = width
self.features = nn.Sequential(*layers)
self.head = nn.Linear(1024, classes)"""

RESIDUAL = """
class Residual(nn.Module):
    def __init__(self, channels, width, stride=1):
        super().__init__()
        self.one = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.two = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.short = None
        if stride != 1 or channels != width:
            self.short = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        short = x if self.short is None else self.short(x)
        y = torch.relu(self.norm1(self.one(x)))
        return torch.relu(self.norm2(self.two(y)) + short)

"""
RESNET = """self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
self.norm = nn.BatchNorm2d(64)
blocks = []
for channels, width, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
    blocks += [Residual(channels, width, stride), Residual(width, width)]
self.blocks = nn.Sequential(*blocks)
self.head = nn.Linear(512, classes)"""

DENSE = """
class Dense(nn.Module):
    def __init__(self, channels, growth, count):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + i * growth), nn.ReLU(inplace=True),
                nn.Conv2d(channels + i * growth, growth, 3, padding=1, bias=False),
            )
            for i in range(count)
        )

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x

"""
DENSENET = """self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
layers, channels = [nn.MaxPool2d(3, 2, 1)], 64
for count in (6, 6, 6):
    layers.append(Dense(channels, 32, count))
    channels += 32 * count
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1), nn.AvgPool2d(2)]
    channels //= 2
self.features = nn.Sequential(*layers)
self.head = nn.Linear(channels, classes)"""

MBCONV = """self.expand = nn.Sequential(nn.Conv2d(c, 6 * c, 1, bias=False), nn.BatchNorm2d(6 * c), nn.SiLU())
self.depthwise = nn.Conv2d(6 * c, 6 * c, 5, 1, 2, groups=6 * c, bias=False)
self.norm = nn.BatchNorm2d(6 * c)
self.squeeze = nn.Sequential(
    nn.AdaptiveAvgPool2d(1), nn.Conv2d(6 * c, c // 4, 1), nn.SiLU(), nn.Conv2d(c // 4, 6 * c, 1), nn.Sigmoid()
)
self.project = nn.Sequential(nn.Conv2d(6 * c, c, 1, bias=False), nn.BatchNorm2d(c))"""

UNET = """
def double(channels, width):
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
    )

"""
UNET_INIT = """self.down = nn.ModuleList([double(3, c), double(c, 2 * c), double(2 * c, 4 * c)])
self.middle = double(4 * c, 8 * c)
self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, stride=2) for n in (4 * c, 2 * c, c))
self.join = nn.ModuleList(double(2 * n, n) for n in (4 * c, 2 * c, c))
self.head = nn.Conv2d(c, 8, 1)"""
UNET_FORWARD = """kept = []
for down in self.down:
    x = down(x)
    kept.append(x)
    x = F.max_pool2d(x, 2)
x = self.middle(x)
for up, join in zip(self.up, self.join):
    x = join(torch.cat([up(x), kept.pop()], dim=1))
return self.head(x)"""

HEADS = """n, t, d = x.shape
q, k, v = self.qkv(x).split(d, dim=2)
q, k, v = (y.view(n, t, self.heads, d // self.heads).transpose(1, 2) for y in (q, k, v))
scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
scores = scores.masked_fill(self.mask[:t, :t] == 0, {fill})
y = {act} @ v
return self.proj(y.transpose(1, 2).reshape(n, t, d))"""
HEADS_INIT = """self.heads = heads
self.qkv = nn.Linear(d, 3 * d)
self.proj = nn.Linear(d, d)
self.register_buffer("mask", torch.tril(torch.ones(t, t)))"""

ENCODER = """
class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        n, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, d))
        return x + self.mlp(self.norm2(x))

"""

MAMBA_INIT = """self.heads, self.state, self.chunk = heads, state, chunk
self.inner = nn.Linear(d, 2 * d + 2 * state + heads)
self.conv = nn.Conv1d(d + 2 * state, d + 2 * state, 4, padding=3, groups=d + 2 * state)
self.rate = nn.Parameter(torch.zeros(heads))
self.skip = nn.Parameter(torch.ones(heads))
self.out = nn.Linear(d, d)"""
MAMBA_FORWARD = """n, t, d = x.shape
gate, mixed, step = self.inner(x).split([d, d + 2 * self.state, self.heads], dim=2)
mixed = F.silu(self.conv(mixed.transpose(1, 2))[..., :t].transpose(1, 2))
x, b, c = mixed.split([d, self.state, self.state], dim=2)
step = F.softplus(step)
chunks = t // self.chunk
x = x.view(n, chunks, self.chunk, self.heads, d // self.heads)
b, c = b.view(n, chunks, self.chunk, self.state), c.view(n, chunks, self.chunk, self.state)
step = step.view(n, chunks, self.chunk, self.heads)
decay = torch.cumsum(-torch.exp(self.rate) * step, dim=2)
apart = decay[:, :, :, None] - decay[:, :, None]
later = torch.ones(self.chunk, self.chunk, device=x.device).triu(1).bool()
within = torch.exp(apart.masked_fill(later[:, :, None], float("-inf")))
moved = x * step[..., None]
y = torch.einsum("zlqk,zlqkh,zlkhp->zlqhp", torch.einsum("zlqs,zlks->zlqk", c, b), within, moved)
left = torch.einsum("zlks,zlkh,zlkhp->zlhps", b, torch.exp(decay[:, :, -1:] - decay), moved)
states, carried = [], torch.zeros_like(left[:, 0])
for i in range(chunks):
    states.append(carried)
    carried = carried * torch.exp(decay[:, i, -1])[:, :, None, None] + left[:, i]
y = y + torch.einsum("zlqs,zlhps,zlqh->zlqhp", c, torch.stack(states, 1), torch.exp(decay))
y = (y + x * self.skip[:, None]).reshape(n, t, d)
return self.out(y * F.silu(gate))"""

# fmt: off
PROBLEMS = (
    # Convolutional networks.
    Problem("vgg", "N = 16; H = 224; CLASSES = 1000", "N = 1; H = 64; CLASSES = 10",
            "self.classifier(torch.flatten(self.features(x), 1))", PICTURES, VGG + SPREAD, "CLASSES"),
    Problem("mobilenet", "N = 64; H = 224; CLASSES = 1000", "N = 2; H = 64; CLASSES = 10",
            "self.head(self.features(x).mean((2, 3)))", PICTURES, MOBILE, "CLASSES", before=SEPARABLE),
    Problem("resnet_basic", "N = 32; H = 224; CLASSES = 1000", "N = 2; H = 64; CLASSES = 10",
            "x = F.max_pool2d(torch.relu(self.norm(self.stem(x))), 3, 2, 1)\n"
            "return self.head(torch.flatten(F.adaptive_avg_pool2d(self.blocks(x), 1), 1))",
            PICTURES, RESNET, "CLASSES", before=RESIDUAL),
    Problem("resnet_block", "N = 32; C = 128; K = 256; H = 112", "N = 2; C = 16; K = 32; H = 64", "self.block(x)",
            "torch.randn(N, C, H, H)", "self.block = Residual(c, k, 2)", "C, K", before=RESIDUAL, cpu=True),
    Problem("efficientnet_block", "N = 32; C = 80; H = 56", "N = 2; C = 32; H = 32",
            "y = F.silu(self.norm(self.depthwise(self.expand(x))))\nreturn self.project(y * self.squeeze(y)) + x",
            "torch.randn(N, C, H, H)", MBCONV, "C", cpu=True),
    Problem("densenet", "N = 32; H = 224; CLASSES = 1000", "N = 1; H = 64; CLASSES = 10",
            "self.head(self.features(self.stem(x)).mean((2, 3)))", PICTURES, DENSENET, "CLASSES", before=DENSE),
    Problem("unet", "N = 8; C = 64; H = 256", "N = 1; C = 8; H = 32", UNET_FORWARD, PICTURES, UNET_INIT, "C",
            before=UNET),
    # Networks of linear layers.
    Problem("mlp_deep_narrow", "N = 1024; D = 1024; DEPTH = 16", "N = 64; D = 128; DEPTH = 8", "self.layers(x)",
            "torch.randn(N, D)", "layers = []\nfor _ in range(depth):\n    layers += [nn.Linear(d, d), nn.ReLU()]\n"
            "self.layers = nn.Sequential(*layers, nn.Linear(d, d))" + SPREAD, "D, DEPTH"),
    Problem("mlp_shallow_wide", "N = 128; D = 16384", "N = 32; D = 512", "self.layers(x)", "torch.randn(N, D)",
            "self.layers = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1024))",
            "D", cpu=True),
    # Recurrent networks.
    Problem("lstm", "N = 16; T = 512; D = 128; K = 256", "N = 2; T = 16; D = 16; K = 32",
            "y, _ = self.lstm(x)\nreturn self.head(y[:, -1])", SEQUENCES,
            "self.lstm = nn.LSTM(d, k, num_layers=4, batch_first=True)\nself.head = nn.Linear(k, 10)", "D, K"),
    Problem("gru", "N = 16; T = 512; D = 128; K = 256", "N = 2; T = 16; D = 16; K = 32", "self.gru(x, h)[0]",
            "torch.randn(T, N, D), torch.randn(4, N, K)", "self.gru = nn.GRU(d, k, num_layers=4)", "D, K",
            arguments="x, h"),
    Problem("gru_bidirectional", "N = 16; T = 256; D = 128; K = 256", "N = 2; T = 16; D = 16; K = 32", "self.gru(x)[1]",
            "torch.randn(T, N, D)", "self.gru = nn.GRU(d, k, num_layers=3, bidirectional=True)", "D, K"),
    Problem("rnn_unrolled", "N = 64; T = 128; D = 512; K = 1024", "N = 2; T = 8; D = 32; K = 64",
            "out = []\nfor t in range(x.shape[0]):\n    h = torch.tanh(self.step(torch.cat((x[t], h), dim=1)))\n"
            "    out.append(self.head(h))\nreturn torch.stack(out, dim=0)", "torch.randn(T, N, D), torch.rand(N, K)",
            "self.step = nn.Linear(d + k, k)\nself.head = nn.Linear(k, d)", "D, K", arguments="x, h"),
    # Attention and state spaces.
    Problem("transformer_encoder", "N = 1; T = 512; D = 768; HEADS = 12; DEPTH = 6",
            "N = 1; T = 32; D = 64; HEADS = 4; DEPTH = 2", "self.blocks(x)", SEQUENCES,
            "self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(depth)))", "D, HEADS, DEPTH", before=ENCODER),
    Problem("causal_attention", "N = 16; T = 1024; D = 768; HEADS = 12", "N = 4; T = 128; D = 128; HEADS = 4",
            HEADS.format(fill='float("-inf")', act="torch.softmax(scores, dim=-1)"), SEQUENCES, HEADS_INIT,
            "D, HEADS, T", before="import math\n", cpu=True),
    Problem("relu_attention", "N = 16; T = 1024; D = 768; HEADS = 12", "N = 4; T = 128; D = 128; HEADS = 4",
            HEADS.format(fill='float("-inf")', act="torch.relu(scores)"), SEQUENCES, HEADS_INIT, "D, HEADS, T",
            before="import math\n"),
    Problem("vit", "N = 16; H = 224; D = 512; HEADS = 8; DEPTH = 6; CLASSES = 1000",
            "N = 1; H = 64; D = 64; HEADS = 4; DEPTH = 2; CLASSES = 10",
            "x = self.patch(x).flatten(2).transpose(1, 2)\n"
            "x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.place\n"
            "return self.head(self.norm(self.blocks(x))[:, 0])", PICTURES,
            "self.patch = nn.Conv2d(3, d, 16, stride=16)\nself.token = nn.Parameter(torch.randn(1, 1, d))\n"
            "self.place = nn.Parameter(torch.randn(1, (H // 16) ** 2 + 1, d))\n"
            "self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(depth)))\n"
            "self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)", "D, HEADS, DEPTH, CLASSES",
            before=ENCODER),
    Problem("mamba", "N = 4; T = 2048; D = 1024; HEADS = 16; STATE = 64; CHUNK = 64",
            "N = 1; T = 64; D = 64; HEADS = 4; STATE = 8; CHUNK = 16", MAMBA_FORWARD, SEQUENCES, MAMBA_INIT,
            "D, HEADS, STATE, CHUNK"),
)
