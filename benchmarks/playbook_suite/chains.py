"""Level 2: a layer with what follows it, three to six operators; some of them algebra can shorten."""

from __future__ import annotations

from playbook_suite.problem import Problem

CONV = ("N = 64; C = 32; K = 64; H = 128", "N = 4; C = 16; K = 32; H = 64")
UP = ("N = 32; C = 64; K = 32; H = 128", "N = 4; C = 16; K = 16; H = 32")
VOLUME = ("N = 16; C = 8; K = 32; T = 24; H = 64", "N = 2; C = 8; K = 16; T = 12; H = 32")
LINEAR = ("N = 2048; C = 8192; K = 8192", "N = 256; C = 1024; K = 1024")
SLIM = ("N = 512; C = 2048; K = 1024", "N = 64; C = 512; K = 256")
THIN = ("N = 1024; C = 8192; K = 4096", "N = 64; C = 512; K = 256")

# Averages of planes hardly vary unless the samples' scales do.
SCALED = "torch.rand(N, 1, 1, 1) * 4 * torch.rand(N, C, H, H)"
SCALED3D = "torch.rand(N, 1, 1, 1, 1) * 4 * torch.rand(N, C, T, H, H)"

CONV2D = "self.conv = nn.Conv2d(c, k, 3)"
UP2D = "self.conv = nn.ConvTranspose2d(c, k, 4, stride=2, padding=1)"
CONV3D = "self.conv = nn.Conv3d(c, k, 3)"
UP3D = "self.conv = nn.ConvTranspose3d(c, k, 3, stride=2, padding=1, output_padding=1)"


def chain(
    name: str, sizes: tuple[str, str], layer: str, forward: str, more: str = "", inputs: str = "", cpu: bool = False
) -> Problem:
    """A layer from C to K channels or features, and other parts of the constructor."""
    shape = "N, C" if sizes in (LINEAR, THIN, SLIM) else "N, C, T, H, H" if sizes == VOLUME else "N, C, H, H"
    init = f"{layer}\n{more}".strip()
    return Problem(name, *sizes, forward, inputs or f"torch.randn({shape})", init, "C, K", cpu=cpu)


def linear(name: str, forward: str, more: str = "", sizes: tuple[str, str] = LINEAR, cpu: bool = False) -> Problem:
    """A linear layer and what follows it."""
    return chain(name, sizes, "self.linear = nn.Linear(c, k)", forward, more, cpu=cpu)


# fmt: off
PROBLEMS = (
    # Convolutions.
    chain("conv2d_relu_bias", CONV, CONV2D, "torch.relu(self.conv(x)) + self.bias",
          "self.bias = nn.Parameter(torch.randn(k, 1, 1))", cpu=True),
    chain("conv2d_hardswish_relu_pool", CONV, CONV2D, "F.max_pool2d(torch.relu(F.hardswish(self.conv(x))), 2)"),
    chain("conv2d_group_norm_tanh_residual", CONV, CONV2D,
          "x = self.conv(x)\ny = torch.tanh(self.norm(x))\nreturn torch.logsumexp(x + F.hardswish(y), dim=1, "
          "keepdim=True)", "self.norm = nn.GroupNorm(8, k)"),
    chain("conv2d_batch_norm_scale", CONV, CONV2D, "self.norm(self.conv(x)) * 2.0", "self.norm = nn.BatchNorm2d(k)",
          cpu=True),
    chain("conv2d_min_tanh_tanh", CONV, CONV2D,
          "x = torch.min(self.conv(x), dim=1, keepdim=True)[0]\nreturn torch.tanh(torch.tanh(x))"),
    chain("conv2d_subtract_mish", CONV, CONV2D, "F.mish(self.conv(x) - 0.5 - 0.2)"),
    chain("conv2d_divide_leaky_relu", CONV, CONV2D, "F.leaky_relu(self.conv(x) / 2.0, negative_slope=0.01)"),
    chain("conv2d_gelu_global_pool", CONV, CONV2D,
          "x = F.adaptive_avg_pool2d(F.gelu(self.conv(x)), 1)\nreturn x.squeeze(-1).squeeze(-1)", inputs=SCALED),
    chain("conv2d_average_of_linear_parts", CONV, CONV2D, "(self.conv(x) * self.scale + 1.0).mean(dim=(2, 3))",
          "self.scale = nn.Parameter(torch.rand(k, 1, 1))", inputs=SCALED),
    chain("conv2d_pool_sigmoid_sum", CONV, CONV2D,
          "x = torch.sigmoid(F.avg_pool2d(self.conv(x), 2))\nreturn torch.sum(x, dim=(1, 2, 3))",
          inputs=SCALED),
    # Transposed convolutions.
    chain("conv_transpose2d_bias_clamps", UP, UP2D,
          "x = torch.clamp(self.conv(x) + self.bias, 0.0, 1.0)\nx = torch.clamp(x * 2.0, 0.0, 1.0)\nreturn x / 2.0",
          "self.bias = nn.Parameter(torch.randn(k, 1, 1) * 0.1)"),
    chain("conv_transpose2d_softmax_bias_sigmoid", UP, UP2D,
          "x = torch.softmax(self.conv(x), dim=1)\nreturn torch.sigmoid((x + self.bias) * 2.0)",
          "self.bias = nn.Parameter(torch.randn(k, 1, 1))"),
    chain("conv_transpose2d_global_pool_logsumexp", UP, UP2D,
          "x = torch.mean(self.conv(x), dim=(2, 3), keepdim=True) + self.bias\n"
          "x = torch.logsumexp(x, dim=1, keepdim=True)\nreturn torch.sum(x, dim=(2, 3)) * 10.0",
          "self.bias = nn.Parameter(torch.randn(k, 1, 1))", inputs=SCALED),
    chain("conv_transpose2d_add_min_gelu", UP, UP2D,
          "x = torch.min(self.conv(x) + 0.5, torch.tensor(0.0, device=x.device))\nreturn F.gelu(x) * 2.0"),
    chain("conv_transpose3d_layer_norm_gelu", VOLUME, UP3D, "F.gelu(self.norm(self.conv(x) + self.shift))",
          "self.shift = nn.Parameter(torch.tensor(1.0))\nself.norm = nn.LayerNorm((2 * H,))"),
    chain("conv_transpose3d_batch_norm_pools", VOLUME, UP3D,
          "F.avg_pool3d(F.avg_pool3d(self.norm(self.conv(x)), 2), 2)", "self.norm = nn.BatchNorm3d(k)"),
    # Convolutions of volumes.
    chain("conv3d_softmax_pools", VOLUME, CONV3D,
          "F.max_pool3d(F.max_pool3d(torch.softmax(self.conv(x), dim=1), 2), 2)"),
    chain("conv3d_hardswish_group_norm_mean", VOLUME, CONV3D,
          "torch.mean(self.norm(F.hardswish(self.conv(x))), dim=(2, 3, 4))", "self.norm = nn.GroupNorm(4, k)",
          inputs=SCALED3D),
    chain("conv3d_leaky_relu_sum_clamp_gelu", VOLUME, CONV3D,
          "x = F.leaky_relu(self.conv(x), 0.2) + self.sum\nreturn F.gelu(torch.clamp(x, -1.0, 1.0))",
          "self.sum = nn.Parameter(torch.randn(k, 1, 1, 1))", cpu=True),
    chain("conv3d_divide_pool_bias_sum", VOLUME, CONV3D,
          "x = F.adaptive_avg_pool3d(F.max_pool3d(self.conv(x) / 2.0, 2), 1)\nreturn torch.sum(x + self.bias, dim=1)",
          "self.bias = nn.Parameter(torch.randn(k, 1, 1, 1))", inputs=SCALED3D),
    # Linear layers.
    linear("linear_sum_of_features", "torch.sum(self.linear(x) / 2.0, dim=1, keepdim=True) * 1.5", cpu=True),
    linear("linear_reductions_of_one_column",
           "x = torch.sum(self.linear(x), dim=1, keepdim=True)\nx = torch.max(x, dim=1, keepdim=True)[0]\n"
           "x = torch.mean(x, dim=1, keepdim=True)\nreturn torch.logsumexp(x, dim=1, keepdim=True)"),
    linear("linear_mean_gelu_residual",
           "y = torch.mean(self.linear(x) - self.shift, dim=1, keepdim=True)\nreturn x + F.gelu(y)",
           "self.shift = nn.Parameter(torch.randn(k))"),
    linear("linear_logsumexp_leaky_gelu",
           "x = torch.logsumexp(self.linear(x), dim=1, keepdim=True)\nx = F.leaky_relu(F.leaky_relu(x, 0.01), 0.01)\n"
           "return F.gelu(F.gelu(x))", sizes=THIN),
    linear("linear_scale_max_pool_sum",
           "x = F.max_pool1d((self.linear(x) * 0.5).unsqueeze(1), 2).squeeze(1)\nreturn torch.sum(x, dim=1)"),
    linear("linear_swish_scale", "x = self.linear(x)\nreturn x * torch.sigmoid(x) * 2.0", cpu=True),
    linear("linear_scale_residual_clamp_mish",
           "x = self.linear(x) * 2.0\nx = torch.clamp(x + x, -10.0, 10.0)\nx = torch.logsumexp(x, dim=1, keepdim=True)"
           "\nreturn x * F.mish(x)", sizes=THIN),
    linear("linear_group_norm_hardtanh", "F.hardtanh(self.norm(self.linear(x)), -2.0, 2.0)",
           "self.norm = nn.GroupNorm(16, k)", sizes=SLIM),
    linear("linear_batch_norm_divide_swish", "x = (self.norm(self.linear(x)) + self.bias) / 1.5\n"
           "return x * torch.sigmoid(x)", "self.norm = nn.BatchNorm1d(k)\nself.bias = nn.Parameter(torch.randn(1))",
           sizes=SLIM),
    Problem("bmm_instance_norm_add_multiply", "B = 16; N = 1024; C = 1024; K = 1024", "B = 2; N = 64; C = 128; K = 128",
            "y = self.norm(torch.bmm(x, self.weight.expand(x.shape[0], -1, -1)))\nreturn (y + x) * x",
            "torch.randn(B, N, C)",
            "self.weight = nn.Parameter(torch.randn(c, k) / 32)\nself.norm = nn.InstanceNorm1d(N)", "C, K"),
)
