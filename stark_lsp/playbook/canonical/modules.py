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
class Call:
    """An operation as the call of a function."""

    target: str
    args: tuple[Any, ...]
    """Of a module, what follows its own inputs."""
    kwargs: dict[str, Any]


_PLAIN: dict[str, tuple[str, ...]] = {
    "ReLU": ("F.relu",), "ReLU6": ("F.relu6",), "SiLU": ("F.silu",), "Mish": ("F.mish",),
    "Sigmoid": ("torch.sigmoid",), "Tanh": ("torch.tanh",), "LogSigmoid": ("F.logsigmoid",),
    "Softsign": ("F.softsign",), "Tanhshrink": ("F.tanhshrink",), "Hardsigmoid": ("F.hardsigmoid",),
    "Hardswish": ("F.hardswish",), "SELU": ("F.selu",), "Identity": ("Tensor.clone",),
    "GELU": ("F.gelu", "approximate"), "LeakyReLU": ("F.leaky_relu", "negative_slope"),
    "ELU": ("F.elu", "alpha"), "CELU": ("F.celu", "alpha"), "Softplus": ("F.softplus", "beta", "threshold"),
    "Hardtanh": ("F.hardtanh", "min_val", "max_val"), "Hardshrink": ("F.hardshrink", "lambd"),
    "Softshrink": ("F.softshrink", "lambd"), "Threshold": ("F.threshold", "threshold", "value"),
    "Softmax": ("F.softmax", "dim"), "LogSoftmax": ("F.log_softmax", "dim"), "Softmin": ("F.softmin", "dim"),
    "CosineSimilarity": ("F.cosine_similarity", "dim", "eps"), "MSELoss": ("F.mse_loss", "reduction"),
    "L1Loss": ("F.l1_loss", "reduction"), "SmoothL1Loss": ("F.smooth_l1_loss", "reduction", "beta"),
    "HuberLoss": ("F.huber_loss", "reduction", "delta"), "KLDivLoss": ("F.kl_div", "reduction", "log_target"),
    "SoftMarginLoss": ("F.soft_margin_loss", "reduction"),
}  # fmt: skip
"""By class: its function, and the module's attributes that are arguments of it by the same name."""


def attributes_used(info: ModuleInfo) -> tuple[str, ...]:
    """Return the module's attributes its function form is made from."""
    if info.cls in _PLAIN:
        return _PLAIN[info.cls][1:]
    if info.cls in ("LayerNorm", "RMSNorm"):
        return ("normalized_shape", "eps")
    if info.cls.startswith(("BatchNorm", "InstanceNorm")):
        return ("eps", "track_running_stats")
    if "Dropout" in info.cls and info.attributes["training"]:
        return ("p",)
    return ("reduction",) if info.cls.startswith("BCE") else ()


def function_call(info: ModuleInfo) -> Call | None:
    """Return the call a module amounts to, None for a module that has no such form here."""
    if info.hooks:
        return None
    attributes = info.attributes

    def tensor(name: str) -> ModuleTensor | None:
        return ModuleTensor(name) if info.tensors.get(name) is not None else None

    plain = _PLAIN.get(info.cls)
    if plain is not None:
        target, *names = plain
        return Call(target, (), {name: attributes.get(name) for name in names})
    if "Dropout" in info.cls:
        return None if attributes["training"] and attributes.get("p") else Call("Tensor.clone", (), {})
    if info.cls == "PReLU" and info.tensors["weight"] is not None and info.tensors["weight"].numel == 1:
        return Call("F.prelu", (ModuleTensor("weight"),), {})
    if info.cls == "LayerNorm":
        return Call(
            "F.layer_norm", (attributes["normalized_shape"], tensor("weight"), tensor("bias"), attributes["eps"]), {}
        )
    if info.cls == "RMSNorm":
        return Call("F.rms_norm", (attributes["normalized_shape"], tensor("weight"), attributes["eps"]), {})
    if info.cls in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d") and not attributes["training"]:
        statistics = (tensor("running_mean"), tensor("running_var"))
        if None in statistics:
            return None
        return Call("F.batch_norm", (*statistics, tensor("weight"), tensor("bias")), {"eps": attributes["eps"]})
    if info.cls in ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d") and not attributes.get("track_running_stats"):
        return Call(
            "F.instance_norm", (), {"weight": tensor("weight"), "bias": tensor("bias"), "eps": attributes["eps"]}
        )
    if info.cls in ("BCEWithLogitsLoss", "BCELoss"):
        target = "F.binary_cross_entropy_with_logits" if info.cls == "BCEWithLogitsLoss" else "F.binary_cross_entropy"
        extra = {"pos_weight": tensor("pos_weight")} if info.cls == "BCEWithLogitsLoss" else {}
        return Call(target, (), {"weight": tensor("weight"), "reduction": attributes["reduction"], **extra})
    return None
