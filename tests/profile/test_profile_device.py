"""What a device can do (really measured, on the CPU) and what a problem needs."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.device import observe
from stark_lsp.judge.profile import (
    cost,
    roofline,
)

KNOWN: roofline.Calibration = {"bandwidth": 1e12, "rates": {"float32": 1e13, "tf32": 1e14}, "notes": []}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody else use the machine; what other tests do beside these is no part of them."""
    monkeypatch.setattr(observe, "cpu_notes", lambda *_: [])


def test_what_was_measured_on_a_busy_machine_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "cpu_notes", lambda *_: ["Other programs kept 1.6 of 2 CPUs busy."])
    monkeypatch.setattr(roofline, "calibrate", lambda device: {**KNOWN, "notes": []})
    taken = roofline.calibration(str(tmp_path), "cpu")
    assert taken["bandwidth"] == KNOWN["bandwidth"]
    assert taken["notes"] == ["The machine was busy while this device was measured; it is measured again next time."]
    assert roofline.load(str(tmp_path), "cpu") is None


def test_the_cpu_is_measured_and_the_result_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(roofline.BUDGET_S, "cpu", 3.0)
    monkeypatch.setattr(roofline, "CPU_COPY_LIMIT", 16 << 20)
    taken = roofline.calibration(str(tmp_path), "cpu")
    assert 1e8 < taken["bandwidth"] < 1e13, "between a hundred megabytes and ten terabytes a second"
    assert 1e7 < taken["rates"]["float32"] < 1e15
    assert "tf32" not in taken["rates"]
    assert all(math.isfinite(rate) and rate > 0 for rate in taken["rates"].values())
    assert roofline.load(str(tmp_path), "cpu") == taken
    (kept,) = (tmp_path / "roofline").iterdir()
    assert json.loads(kept.read_text()) == taken

    def measure(device: str) -> roofline.Calibration:
        raise AssertionError("it was kept")

    monkeypatch.setattr(roofline, "calibrate", measure)
    assert roofline.calibration(str(tmp_path), "cpu") == taken


def kept(tmp_path: Path, **changes: Any) -> Path:
    """Keep a calibration of this CPU, changed as told."""
    path = Path(roofline._path(str(tmp_path), "cpu"))
    data = {
        "key": roofline.key("cpu"),
        "taken": time.time(),
        "seconds": 1.0,
        **KNOWN,
    }
    roofline._save(str(path), {**data, **changes})
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "another machine"},
        {"bandwidth": 0},
        {"bandwidth": "fast"},
        {"bandwidth": True},
        {"rates": {"float32": -1.0}},
        {"rates": [1]},
        {"notes": "none"},
        {"taken": time.time() - 2 * roofline.KEPT_S},
        {"taken": time.time() + 1e6},
    ],
)
def test_a_calibration_that_does_not_hold_here_is_not_used(tmp_path: Path, changes: dict[str, Any]) -> None:
    kept(tmp_path)
    assert roofline.load(str(tmp_path), "cpu") is not None
    kept(tmp_path, **changes)
    assert roofline.load(str(tmp_path), "cpu") is None


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\0\0\0", '{"version": 1}'])
def test_a_damaged_file_is_measured_again(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(tmp_path)
    path.write_text(content)
    fresh = {**KNOWN, "key": roofline.key("cpu"), "taken": time.time()}
    monkeypatch.setattr(roofline, "calibrate", lambda device: dict(fresh))
    assert roofline.calibration(str(tmp_path), "cpu") == fresh
    assert roofline.load(str(tmp_path), "cpu") == fresh
    assert os.listdir(path.parent) == [path.name], "no half-written file is left"


def test_a_cache_folder_that_cannot_be_written_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roofline").write_text("in the way")
    monkeypatch.setattr(roofline, "calibrate", lambda device: {**KNOWN, "notes": []})
    (note,) = roofline.calibration(str(tmp_path), "cpu")["notes"]
    assert note.startswith("The calibration of this device could not be kept")


def test_the_floor_is_the_slower_of_moving_and_computing() -> None:
    assert roofline.floor(10**9, 10**6, "float32", KNOWN) == pytest.approx(1000.0)
    assert roofline.floor(10**6, 10**12, "float32", KNOWN) == pytest.approx(10_000.0), "at the rate of tf32"
    assert roofline.floor(10**6, 10**12, "int8", KNOWN) == pytest.approx(1.0), "an unknown rate says nothing"
    assert roofline.floor(None, None, "float32", KNOWN) is None
    assert roofline.floor(10**9, 10**6, "float32", None) is None


def run(module: Any, *args: Any) -> dict[str, Any]:
    with torch.no_grad():
        return cost.measure(module, lambda: module(*args), (args, {}))


def test_a_linear_layer_needs_its_inputs_weights_and_outputs_once() -> None:
    found = run(torch.nn.Linear(512, 256), torch.randn(64, 512))
    assert found["bytes"] == 4 * (64 * 512 + 512 * 256 + 256 + 64 * 256)
    assert found["flops"] == 2 * 64 * 512 * 256
    assert (found["dtype"], found["notes"]) == ("float32", [])


def test_under_autocast_products_are_of_its_dtype() -> None:
    layer, x = torch.nn.Linear(512, 256), torch.randn(64, 512)
    with torch.autocast("cpu", torch.bfloat16):
        assert run(layer, x)["dtype"] == "bfloat16"


def test_shared_and_repeated_memory_counts_once() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x, x.view(-1)[:10], x + y

    x = torch.randn(10, 10)
    found = run(Twice(), x, torch.randn(1, 10).expand(10, 10))
    assert found["bytes"] == 4 * (100 + 10 + 100)


def test_of_a_table_the_rows_that_are_read_count() -> None:
    found = run(torch.nn.Embedding(10_000, 8), torch.tensor([1, 2, 3, 2]))
    assert found["bytes"] == 4 * 8 + 3 * 8 * 4 + 4 * 8 * 4
    assert found["flops"] == 0
    found = run(torch.nn.EmbeddingBag(10_000, 8, mode="sum"), torch.tensor([[1, 2, 3], [3, 4, 1]]))
    assert found["bytes"] == 6 * 8 + 4 * 8 * 4 + 2 * 8 * 4


def test_a_table_that_a_product_reads_as_well_counts_once() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: Any) -> Any:
            return self.head(self.embedding(x))

    assert run(Tied(), torch.tensor([1, 2]))["bytes"] == 2 * 8 + 50 * 8 * 4 + 2 * 50 * 4


def test_convolution_and_attention_are_counted() -> None:
    assert run(torch.nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8))["flops"] == 2 * 27 * 4 * 36

    class Attention(torch.nn.Module):
        def forward(self, q: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    assert run(Attention(), torch.randn(1, 2, 8, 16))["flops"] == 2 * (2 * 2 * 8 * 8 * 16)


def test_a_class_that_does_not_run_under_a_counter_still_has_its_bytes() -> None:
    class Picky(torch.nn.Module):
        calls = 0

        def forward(self, x: Any) -> Any:
            Picky.calls += 1
            if Picky.calls == 1:
                raise RuntimeError("no modes")
            return x * 2

    found = run(Picky(), torch.randn(10))
    assert (found["bytes"], found["flops"]) == (80, None)
    assert found["notes"] == ["Operations were not counted: RuntimeError."]


def test_a_class_that_does_not_run_at_all_is_a_note() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise RuntimeError

    found = run(Broken(), torch.randn(10))
    assert (found["bytes"], found["flops"], len(found["notes"])) == (None, None, 2)
