"""Modules of torch.nn as calls of functions, so that each operation has one definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stark_lsp.playbook.graph import ModuleInfo


@dataclass(frozen=True)
class ModuleTensor:
    """A parameter or buffer of the module."""

    name: str


@dataclass(frozen=True)
class FunctionCall:
    """The function that a module's call amounts to."""

    target: str
    args: tuple[Any, ...]
    """What follows the module's own inputs."""
    kwargs: dict[str, Any]


_PLAIN: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "ReLU": ("F.relu", ()), "ReLU6": ("F.relu6", ()), "SiLU": ("F.silu", ()), "Mish": ("F.mish", ()),
    "Sigmoid": ("torch.sigmoid", ()), "Tanh": ("torch.tanh", ()), "LogSigmoid": ("F.logsigmoid", ()),
    "Softsign": ("F.softsign", ()), "Tanhshrink": ("F.tanhshrink", ()), "Hardsigmoid": ("F.hardsigmoid", ()),
    "Hardswish": ("F.hardswish", ()), "SELU": ("F.selu", ()), "Identity": ("Tensor.clone", ()),
    "GELU": ("F.gelu", (("approximate", "approximate"),)),
    "LeakyReLU": ("F.leaky_relu", (("negative_slope", "negative_slope"),)),
    "ELU": ("F.elu", (("alpha", "alpha"),)), "CELU": ("F.celu", (("alpha", "alpha"),)),
    "Softplus": ("F.softplus", (("beta", "beta"), ("threshold", "threshold"))),
    "Hardtanh": ("F.hardtanh", (("min_val", "min_val"), ("max_val", "max_val"))),
    "Hardshrink": ("F.hardshrink", (("lambd", "lambd"),)), "Softshrink": ("F.softshrink", (("lambd", "lambd"),)),
    "Threshold": ("F.threshold", (("threshold", "threshold"), ("value", "value"))),
    "Softmax": ("F.softmax", (("dim", "dim"),)), "LogSoftmax": ("F.log_softmax", (("dim", "dim"),)),
    "Softmin": ("F.softmin", (("dim", "dim"),)),
    "CosineSimilarity": ("F.cosine_similarity", (("dim", "dim"), ("eps", "eps"))),
    "MSELoss": ("F.mse_loss", (("reduction", "reduction"),)), "L1Loss": ("F.l1_loss", (("reduction", "reduction"),)),
    "SmoothL1Loss": ("F.smooth_l1_loss", (("reduction", "reduction"), ("beta", "beta"))),
    "HuberLoss": ("F.huber_loss", (("reduction", "reduction"), ("delta", "delta"))),
    "KLDivLoss": ("F.kl_div", (("reduction", "reduction"), ("log_target", "log_target"))),
    "SoftMarginLoss": ("F.soft_margin_loss", (("reduction", "reduction"),)),
}  # fmt: skip


def attributes_used(info: ModuleInfo) -> tuple[str, ...]:
    """Return the module's attributes its function form is made from."""
    if info.cls in _PLAIN:
        return tuple(attribute for _, attribute in _PLAIN[info.cls][1])
    if info.cls in ("LayerNorm", "RMSNorm"):
        return ("normalized_shape", "eps")
    if info.cls.startswith(("BatchNorm", "InstanceNorm")):
        return ("eps", "track_running_stats")
    return ()


def function_call(info: ModuleInfo) -> FunctionCall | None:
    """Return the call a module amounts to, None for a module that has no such form here."""
    if info.hooks:
        return None
    attributes = info.attributes

    def tensor(name: str) -> ModuleTensor | None:
        return ModuleTensor(name) if info.tensors.get(name) is not None else None

    plain = _PLAIN.get(info.cls)
    if plain is not None:
        target, pairs = plain
        return FunctionCall(target, (), {parameter: attributes.get(attribute) for parameter, attribute in pairs})
    if info.cls in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"):
        return None if attributes["training"] and attributes.get("p") else FunctionCall("Tensor.clone", (), {})
    if info.cls == "PReLU" and info.tensors["weight"] is not None and info.tensors["weight"].numel == 1:
        return FunctionCall("F.prelu", (ModuleTensor("weight"),), {})
    if info.cls == "LayerNorm":
        return FunctionCall(
            "F.layer_norm", (attributes["normalized_shape"], tensor("weight"), tensor("bias"), attributes["eps"]), {}
        )
    if info.cls == "RMSNorm":
        return FunctionCall("F.rms_norm", (attributes["normalized_shape"], tensor("weight"), attributes["eps"]), {})
    if info.cls in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d") and not attributes["training"]:
        statistics = (tensor("running_mean"), tensor("running_var"))
        if None in statistics:
            return None
        return FunctionCall("F.batch_norm", (*statistics, tensor("weight"), tensor("bias")), {"eps": attributes["eps"]})
    if info.cls in ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d") and not attributes.get("track_running_stats"):
        return FunctionCall(
            "F.instance_norm", (), {"weight": tensor("weight"), "bias": tensor("bias"), "eps": attributes["eps"]}
        )
    if info.cls in ("BCEWithLogitsLoss", "BCELoss"):
        target = "F.binary_cross_entropy_with_logits" if info.cls == "BCEWithLogitsLoss" else "F.binary_cross_entropy"
        extra = {"pos_weight": tensor("pos_weight")} if info.cls == "BCEWithLogitsLoss" else {}
        return FunctionCall(target, (), {"weight": tensor("weight"), "reduction": attributes["reduction"], **extra})
    return None
