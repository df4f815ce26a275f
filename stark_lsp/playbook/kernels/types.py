"""dtypes as C types: how a value is stored in a tensor, and how it is computed with."""

from __future__ import annotations

COMPUTE = {
    "float32": "float",
    "float64": "double",
    "float16": "float",
    "bfloat16": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
"""The C type a dtype is computed in; half types are computed in float."""

STORAGE = {
    "cpu": {**COMPUTE, "float16": "uint16_t", "bfloat16": "uint16_t"},
    "cuda": {**COMPUTE, "float16": "__half", "bfloat16": "__nv_bfloat16"},
}
"""The C type of an element in memory, for each device type."""

HALVES = frozenset({"float16", "bfloat16"})
"""dtypes that need a conversion when they are read or written."""

RANK = ("bool", "uint8_t", "int32_t", "int64_t", "float", "double")
"""Compute types from narrow to wide, as torch promotes them."""


def is_floating(c_type: str) -> bool:
    """Whether a compute type is a floating-point type."""
    return c_type in ("float", "double")


def wider(left: str, right: str) -> str:
    """The compute type that torch's promotion picks for two operands."""
    return RANK[max(RANK.index(left), RANK.index(right))]
