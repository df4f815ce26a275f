"""Level 1: single operators. Those bound by memory move 0.5 to 8 GiB."""

from __future__ import annotations

from playbook_suite.problem import Problem

ROWS = "torch.randn(N, D)"
IMAGES = "torch.randn(N, C, H, H)"
WIDE = ("N = 1024; D = 400000", "N = 64; D = 40000")
LONG = ("N = 8192; D = 65536", "N = 512; D = 8192")
PLANES = ("N = 64; C = 64; H = 256", "N = 8; C = 32; H = 128")
MIDDLE = ("N = 64; M = 4096; D = 2047", "N = 16; M = 512; D = 511")
PAIR = "torch.rand(()) * torch.randn(N, D), torch.randn(N, D)"


def rows(name: str, forward: str, sizes: tuple[str, str] = LONG, inputs: str = ROWS, cpu: bool = False) -> Problem:
    """A function of rows."""
    return Problem(name, *sizes, forward, inputs, cpu=cpu)


def middle(name: str, forward: str, cpu: bool = False) -> Problem:
    """A function of one tensor of three dimensions."""
    return Problem(name, *MIDDLE, forward, "torch.randn(N, M, D)", cpu=cpu)


def planes(name: str, layer: str, sizes: tuple[str, str] = PLANES, inputs: str = IMAGES, cpu: bool = False) -> Problem:
    """A layer that knows the number of channels."""
    return Problem(name, *sizes, "self.layer(x)", inputs, f"self.layer = {layer}", "C", cpu=cpu)


def loss(name: str, forward: str, inputs: str = PAIR, cpu: bool = False) -> Problem:
    """A loss of predictions and targets; their scale is drawn, since the mean of so many numbers hardly varies."""
    arguments = "anchor, positive, negative" if inputs.count("randn(") == 3 else "predictions, targets"
    return Problem(name, *LONG, forward, inputs, arguments=arguments, cpu=cpu)


def product(name: str, sizes: str, small: str, forward: str, inputs: str, cpu: bool = False) -> Problem:
    """A product of two tensors."""
    return Problem(name, sizes, small, forward, inputs, arguments="a, b", cpu=cpu)


def conv(name: str, sizes: str, small: str, layer: str, inputs: str = IMAGES, cpu: bool = False) -> Problem:
    """A convolution from C to K channels."""
    return Problem(name, sizes, small, "self.conv(x)", inputs, f"self.conv = {layer}", "C, K", cpu=cpu)


# fmt: off
PROBLEMS = (
    # Activations.
    rows("relu", "torch.relu(x)", ("N = 4096; D = 196608", "N = 512; D = 8192")),
    rows("gelu_by_hand", "0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))", cpu=True),
    rows("swish", "x * torch.sigmoid(x)"),
    rows("mish", "x * torch.tanh(F.softplus(x))"),
    rows("hardtanh", "F.hardtanh(x, min_val=-0.5, max_val=1.5)", ("N = 4096; D = 32768", "N = 512; D = 8192")),
    # Softmax.
    rows("softmax_rows", "torch.softmax(x, dim=-1)", WIDE, cpu=True),
    rows("log_softmax_rows", "F.log_softmax(x, dim=1)", WIDE),
    middle("softmax_middle", "torch.softmax(x, dim=1)"),
    # Norms.
    Problem(
        "layer_norm", "N = 32; C = 64; H = 256", "N = 8; C = 32; H = 128",
        "self.norm(x)", IMAGES, "self.norm = nn.LayerNorm((c, h, h))", "C, H", cpu=True,
    ),
    Problem(
        "rms_norm_channels", "N = 32; C = 64; H = 512; EPS = 1e-5", "N = 2; C = 32; H = 64",
        "rms = torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + self.eps)\nreturn x / rms",
        IMAGES, "self.eps = eps", "EPS",
    ),
    planes("batch_norm", "nn.BatchNorm2d(c)", cpu=True),
    planes("group_norm", "nn.GroupNorm(8, c)"),
    planes("instance_norm", "nn.InstanceNorm2d(c)", ("N = 96; C = 64; H = 256", PLANES[1])),
    rows("l1_norm", "x / x.abs().sum(dim=1, keepdim=True)"),
    rows("l2_norm", "x / torch.norm(x, p=2, dim=1, keepdim=True)"),
    Problem("frobenius_norm", *PLANES, "x / torch.norm(x, p='fro')", IMAGES),
    # Scans.
    rows("cumsum", "torch.cumsum(x, dim=1)", ("N = 16384; D = 32768", "N = 512; D = 8192"), cpu=True),
    rows("cumprod", "torch.cumprod(x, dim=1)", ("N = 8192; D = 32768", "N = 512; D = 8192"),
         "torch.rand(N, D) * 0.02 + 0.99"),
    Problem("masked_cumsum", *LONG, "torch.cumsum(x * mask, dim=1)", f"{ROWS}, torch.rand(N, D) > 0.5",
            arguments="x, mask"),
    rows("reverse_cumsum", "torch.cumsum(x.flip(1), dim=1).flip(1)"),
    rows("exclusive_cumsum", "torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x, dim=1)[:, :-1]), dim=1)"),
    # Reductions.
    middle("sum_middle", "torch.sum(x, dim=1, keepdim=True)", cpu=True),
    middle("mean_inner", "torch.mean(x, dim=-1)"),
    middle("max_middle", "torch.max(x, dim=1)[0]"),
    middle("argmax_middle", "torch.argmax(x, dim=1)"),
    middle("argmin_inner", "torch.argmin(x, dim=2)"),
    # Pooling and upsampling.
    planes("max_pool1d", "nn.MaxPool1d(8, stride=2, padding=3)", ("N = 64; C = 192; D = 65536",
           "N = 2; C = 16; D = 4096"), "torch.randn(N, C, D)"),
    planes("max_pool2d", "nn.MaxPool2d(4, stride=2, padding=1)", ("N = 32; C = 64; H = 512", PLANES[1]),
           cpu=True),
    planes("max_pool3d", "nn.MaxPool3d(3, stride=2, padding=1)", ("N = 8; C = 32; H = 128", "N = 1; C = 8; H = 32"),
           "torch.randn(N, C, H, H, H)"),
    planes("avg_pool1d", "nn.AvgPool1d(8, stride=1, padding=4)", ("N = 64; C = 128; D = 65536",
           "N = 2; C = 16; D = 4096"), "torch.randn(N, C, D)"),
    planes("avg_pool2d", "nn.AvgPool2d(7)", ("N = 16; C = 64; H = 1024", PLANES[1])),
    planes("avg_pool3d", "nn.AvgPool3d(3, stride=2, padding=1)", ("N = 8; C = 32; H = 128", "N = 1; C = 8; H = 32"),
           "torch.randn(N, C, H, H, H)"),
    Problem("upsample_nearest", *PLANES, "F.interpolate(x, scale_factor=2, mode='nearest')", IMAGES),
    Problem("upsample_bilinear", *PLANES, "F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)",
            IMAGES),
    # Losses.
    loss("mse_loss", "torch.mean((predictions - targets) ** 2)", cpu=True),
    loss("huber_loss", "F.smooth_l1_loss(predictions, targets)"),
    Problem("cross_entropy", "N = 65536; D = 4096", "N = 1024; D = 512", "F.cross_entropy(predictions, targets)",
            "torch.rand(()) * 4 * torch.randn(N, D), torch.randint(0, D, (N,))", arguments="predictions, targets"),
    loss("kl_divergence", "F.kl_div(torch.log(predictions), targets, reduction='batchmean')",
         "torch.softmax(torch.rand(()) * 3 * torch.randn(N, D), dim=-1), torch.softmax(torch.rand(N, D), dim=-1)"),
    loss("hinge_loss", "torch.mean(torch.clamp(1 - predictions * targets, min=0))",
         "torch.rand(()) * 4 * torch.randn(N, D), torch.randint(0, 2, (N, 1)).float() * 2 - 1"),
    loss("triplet_loss", "F.triplet_margin_loss(anchor, positive, negative, margin=1.0)",
         "torch.randn(N, D), (0.5 + torch.rand(())) * torch.randn(N, D), 0.5 * torch.rand(()) * torch.randn(N, D)"),
    loss("cosine_loss", "torch.mean(1 - F.cosine_similarity(predictions, targets, dim=1))",
         "torch.randn(N, D) + torch.rand(()), torch.randn(N, D) + torch.rand(())"),
    # Matrix products.
    product("matmul_square", "N = 4096", "N = 512", "torch.matmul(a, b)", "torch.randn(N, N), torch.randn(N, N)",
            cpu=True),
    product("matmul_tall_skinny", "M = 262144; K = 512; N = 256", "M = 8192; K = 128; N = 32", "a @ b",
            "torch.randn(M, K), torch.randn(K, N)"),
    product("matmul_batched", "B = 64; M = 512; K = 1024; N = 1024", "B = 8; M = 64; K = 128; N = 128",
            "torch.bmm(a, b)", "torch.randn(B, M, K), torch.randn(B, K, N)"),
    product("matmul_transposed_a", "M = 2048; K = 8192; N = 4096", "M = 128; K = 512; N = 256", "torch.matmul(a.T, b)",
            "torch.randn(K, M), torch.randn(K, N)"),
    product("matmul_transposed_both", "M = 4096; K = 4096; N = 2048", "M = 256; K = 256; N = 128",
            "torch.matmul(a.T, b.T)", "torch.randn(K, M), torch.randn(N, K)"),
    product("matmul_lower_triangular", "N = 4096", "N = 512", "torch.tril(torch.matmul(a, b))",
            "torch.tril(torch.randn(N, N)), torch.tril(torch.randn(N, N))"),
    product("matmul_diagonal", "N = 4096; M = 16384", "N = 512; M = 2048", "torch.diag(a) @ b",
            "torch.randn(N), torch.randn(N, M)", cpu=True),
    Problem("matmul_symmetric", "N = 4096", "N = 512", "torch.matmul(a + a.T, b + b.T)",
            "torch.randn(N, N), torch.randn(N, N)", arguments="a, b"),
    product("matrix_vector", "M = 16384; K = 65536", "M = 512; K = 4096", "torch.matmul(a, b)",
            "torch.randn(M, K), torch.randn(K, 1)"),
    product("matmul_small_k", "M = 32768; K = 64; N = 32768", "M = 1024; K = 16; N = 1024", "torch.matmul(a, b)",
            "torch.randn(M, K), torch.randn(K, N)"),
    product("matmul_large_k", "M = 256; K = 524288; N = 256", "M = 32; K = 16384; N = 32", "torch.matmul(a, b)",
            "torch.randn(M, K), torch.randn(K, N)"),
    product("einsum_last_dim", "B = 16; I = 256; J = 512; L = 256; K = 384", "B = 2; I = 16; J = 32; L = 64; K = 96",
            "torch.einsum('bijl,lk->bijk', a, b)", "torch.randn(B, I, J, L), torch.randn(L, K)"),
    # Convolutions.
    conv("conv2d_3x3", "N = 16; C = 64; K = 128; H = 256", "N = 4; C = 16; K = 32; H = 64",
         "nn.Conv2d(c, k, 3, padding=1)", cpu=True),
    conv("conv2d_11x11_strided", "N = 256; C = 3; K = 96; H = 224", "N = 4; K = 16; H = 64",
         "nn.Conv2d(c, k, 11, stride=4, padding=2)"),
    conv("conv2d_pointwise", "N = 16; C = 64; K = 128; H = 512", "N = 1; C = 16; K = 32; H = 64", "nn.Conv2d(c, k, 1)"),
    conv("conv2d_depthwise", "N = 32; C = 64; K = 64; H = 512", "N = 1; C = 16; K = 16; H = 64",
         "nn.Conv2d(c, k, 3, groups=c, bias=False)"),
    Problem(
        "conv2d_depthwise_separable", "N = 16; C = 64; K = 128; H = 384", "N = 1; C = 8; K = 16; H = 64",
        "self.pointwise(self.depthwise(x))", IMAGES,
        "self.depthwise = nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False)\n"
        "self.pointwise = nn.Conv2d(c, k, 1, bias=False)", "C, K",
    ),
    conv("conv2d_dilated", "N = 8; C = 32; K = 64; H = 512", "N = 1; C = 8; K = 16; H = 64",
         "nn.Conv2d(c, k, (3, 5), padding=(2, 6), dilation=(2, 3))"),
    conv("conv2d_asymmetric", "N = 8; C = 64; K = 96; H = 256; W = 512", "N = 1; C = 8; K = 16; H = 32; W = 64",
         "nn.Conv2d(c, k, (5, 9), padding=(2, 4), bias=False)", "torch.randn(N, C, H, W)"),
    conv("conv1d_strided", "N = 64; C = 64; K = 128; D = 131072", "N = 2; C = 8; K = 16; D = 4096",
         "nn.Conv1d(c, k, 3, stride=3, dilation=4)", "torch.randn(N, C, D)"),
    conv("conv3d", "N = 8; C = 16; K = 32; H = 96", "N = 1; C = 4; K = 8; H = 24", "nn.Conv3d(c, k, 3, padding=1)",
         "torch.randn(N, C, H, H, H)"),
    conv("conv_transpose1d", "N = 32; C = 64; K = 64; D = 65536", "N = 2; C = 8; K = 16; D = 2048",
         "nn.ConvTranspose1d(c, k, 5, stride=2, padding=2)", "torch.randn(N, C, D)"),
    conv("conv_transpose2d", "N = 16; C = 64; K = 64; H = 256", "N = 1; C = 8; K = 8; H = 32",
         "nn.ConvTranspose2d(c, k, 3, stride=2, padding=1, output_padding=1)"),
    conv("conv_transpose3d", "N = 8; C = 32; K = 16; H = 48", "N = 1; C = 4; K = 4; H = 12",
         "nn.ConvTranspose3d(c, k, 4, stride=2, padding=1)", "torch.randn(N, C, H, H, H)"),
    # Look-ups.
    Problem("embedding", "V = 500000; D = 256; N = 4096; M = 512", "V = 5000; D = 64; N = 16; M = 64",
            "self.table(indices)", "torch.randint(0, V, (N, M))", "self.table = nn.Embedding(v, d)", "V, D",
            arguments="indices"),
    Problem("gather", "N = 4096; D = 131072; M = 32768", "N = 64; D = 4096; M = 1024", "torch.gather(x, 1, indices)",
            f"{ROWS}, torch.randint(0, D, (N, M))", arguments="x, indices"),
)

REPRESENTATIVE = (
    "gelu_by_hand", "mish", "softmax_rows", "log_softmax_rows", "softmax_middle",
    "layer_norm", "rms_norm_channels", "batch_norm", "group_norm", "l2_norm", "frobenius_norm",
    "cumsum", "masked_cumsum", "reverse_cumsum", "sum_middle", "mean_inner", "argmax_middle",
    "max_pool2d", "avg_pool3d", "huber_loss", "cross_entropy", "cosine_loss",
    "matmul_square", "matmul_tall_skinny", "matmul_lower_triangular", "matmul_diagonal", "matrix_vector",
    "conv2d_3x3", "conv2d_depthwise", "conv_transpose2d",
)
"""Thirty of every kind."""
