"""What the device can do, in a few lines for those who write kernels for it. Pure functions."""

from __future__ import annotations

from stark_lsp.agents.observations import three
from stark_lsp.agents.texts import listed, one_line
from stark_lsp.core.device import Device
from stark_lsp.core.profile_phrases import amount

LINE = 300
"""Characters of a line."""
_LIBRARIES = ("CUTLASS", "CuTe", "cuBLASLt")


def machine_lines(device: Device | None) -> tuple[str, ...]:
    """Return facts of a device, a line each; nothing of what is not known."""
    if device is None:
        return ()
    lines = _gpu(device) if device.capability else _cpu(device)
    if device.rates:
        unit, size = ("TFLOP/s", 1e12) if device.rates[-1][1] >= 1e12 else ("GFLOP/s", 1e9)
        rates = ", ".join(f"{name} {three(rate / size)}" for name, rate in device.rates)
        lines.append(f"large matrix products reach, as measured here, in {unit}: {rates}")
    return tuple(one_line(line, LINE) for line in lines if line)


def _gpu(device: Device) -> list[str]:
    holds = listed(
        f"{device.threads} threads" if device.threads else "",
        f"{device.registers} registers" if device.registers else "",
        f"{amount(device.shared_bytes)} of shared memory" if device.shared_bytes else "",
    )
    most = f", with cudaFuncSetAttribute {amount(asked)}" if (asked := device.block_shared_bytes_asked) else ""
    block = listed(
        f"{device.block_registers} registers" if device.block_registers else "",
        f"{amount(device.block_shared_bytes)} of shared memory{most}" if device.block_shared_bytes else "",
    )
    chip = f"compute capability {device.capability}"
    chip += f", {device.processors} multiprocessors" if device.processors else ""
    chip += f"; each holds {holds}" if holds else ""
    chip += f"; a block has at most {block}" if block else ""
    return [chip, _caches(device), _triton(device), _toolkit(device)]


def _cpu(device: Device) -> list[str]:
    cores = f"{device.processors} cores" if device.processors else ""
    sets = f"vector instructions: {', '.join(device.instructions)}" if device.instructions else ""
    return ["; ".join(filter(None, (cores, sets))), _caches(device)]


def _caches(device: Device) -> str:
    held = ", ".join(f"{name} {amount(size)}" for name, size in device.caches)
    return f"caches: {held}" if held else ""


def _triton(device: Device) -> str:
    if not device.triton:
        return "Triton is not installed"
    precisions = ", ".join(device.dot_precisions)
    return f"Triton {device.triton}" + (f"; `input_precision` of its `dot`: {precisions}" if precisions else "")


def _toolkit(device: Device) -> str:
    if not device.nvcc:
        return ""  # a note of the reference says so
    there = [f"{name} in {folder}" for name, folder in device.libraries]
    absent = [name for name in _LIBRARIES if name not in dict(device.libraries)]
    found = f"; headers of {', '.join(there)}" if there else ""
    return f"nvcc {device.nvcc}{found}" + (f"; not installed: {', '.join(absent)}" if absent else "")
