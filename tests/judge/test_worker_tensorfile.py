"""Raw tensor files: nothing is lost on the way, and damage is refused."""

from __future__ import annotations

import ctypes
import json
import os
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.transport import (
    tensorfile,
    values,
)

Point = namedtuple("Point", "x y")


@dataclass
class Pair:
    left: object
    right: object


def round_trip(path: Path, tree: object) -> object:
    tensorfile.save(str(path), tree)
    return tensorfile.load(str(path)).tree("cpu", {"Pair": Pair, "Point": Point}.get)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)
def test_every_dtype_keeps_its_bits(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = (torch.arange(24).reshape(2, 3, 4) % 3).to(dtype)
    found = round_trip(tmp_path / "f", tensor)
    assert found.dtype == dtype
    assert torch.equal(found, tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(10)[::2],
        torch.randn(1, 5).expand(3, 5),
        torch.randn(0, 4),
        torch.tensor(3.5),
        torch.randn(6)[2:],
        torch.tensor([float("nan"), float("inf"), -0.0]),
    ],
)
def test_layouts_survive(tmp_path: Path, tensor: torch.Tensor) -> None:
    found = round_trip(tmp_path / "f", tensor)
    assert found.shape == tensor.shape
    assert found.stride() == tensor.stride()
    assert torch.equal(found.nan_to_num(7), tensor.nan_to_num(7))


def test_trees_of_all_kinds_come_back_as_they_were(tmp_path: Path) -> None:
    tree = {
        "list": [1, 2.5, None, True, "text", float("inf")],
        3: (torch.float16, torch.device("cpu"), complex(1, 2)),
        "pair": Pair(torch.ones(2), {"deep": (torch.zeros(1),)}),
        "point": Point(1, 2),
        "function": torch.nn.functional.relu,
        "class": torch.nn.GELU,
    }
    found = round_trip(tmp_path / "f", tree)
    assert found["list"] == tree["list"]
    assert found[3] == tree[3]
    assert type(found["pair"]) is Pair
    assert torch.equal(found["pair"].left, torch.ones(2))
    assert found["point"] == Point(1, 2)
    assert found["class"] is torch.nn.GELU


def test_an_unknown_dataclass_gets_a_stand_in_with_the_same_fields(tmp_path: Path) -> None:
    tensorfile.save(str(tmp_path / "f"), Pair(1, 2))
    found = tensorfile.load(str(tmp_path / "f")).tree()
    assert (found.left, found.right, type(found).__name__) == (1, 2, "Pair")


def test_what_cannot_be_handed_over_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(values.NotPlain, match=r"\['a'\]\[1\] is a builtins.object"):
        tensorfile.save(str(tmp_path / "f"), {"a": [1, object()]})


def test_names_of_other_modules_are_not_imported() -> None:
    with pytest.raises(values.Malformed):
        values.decode({"k": "name", "module": "os", "v": "system"}, [])


def test_links_pipes_long_and_cut_files_are_refused(tmp_path: Path) -> None:
    good = tmp_path / "good"
    tensorfile.save(str(good), torch.randn(100))
    link, pipe, cut = tmp_path / "link", tmp_path / "pipe", tmp_path / "cut"
    link.symlink_to(good)
    os.mkfifo(pipe)
    cut.write_bytes(good.read_bytes()[:200])
    for path in (link, pipe, cut, tmp_path / "none", tmp_path):
        with pytest.raises(tensorfile.Damaged):
            tensorfile.load(str(path))
    with pytest.raises(tensorfile.Damaged, match="at most 100"):
        tensorfile.load(str(good), 100)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [1000]},
        {"stride": [-1]},
        {"shape": [-4]},
        {"place": -64},
        {"place": 1 << 40},
        {"dtype": "load"},
        {"dtype": "nothing"},
        {"stride": [1, 1]},
        {"nbytes": 1 << 50},
        {"shape": "x"},
    ],
)
def test_headers_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "f"
    tensorfile.save(str(path), torch.randn(8))
    data = path.read_bytes()
    (length,) = tensorfile.LENGTH.unpack(data[:8])
    header = json.loads(data[8 : 8 + length])
    header["tensors"][0].update(change)
    text = json.dumps(header).encode()
    path.write_bytes(tensorfile.LENGTH.pack(len(text)) + text + b"\0" * 256)
    with pytest.raises(tensorfile.Damaged):
        tensorfile.load(str(path))


def around(tensor: torch.Tensor, margin: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return what lies before and behind a tensor in memory."""
    end = tensor.data_ptr() + tensor.numel() * tensor.element_size()
    return [
        torch.frombuffer(bytearray(ctypes.string_at(place, margin)), dtype=dtype)
        for place in (tensor.data_ptr() - margin, end)
    ]


def test_a_margin_of_nan_lies_around_a_tensor_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    tensor = torch.randn(4, 6).t()
    tensorfile.save(str(tmp_path / "f"), tensor)
    found = tensorfile.load(str(tmp_path / "f")).tree("cpu", None, 512)
    assert torch.equal(found, tensor)
    assert found.stride() == tensor.stride()
    assert all(part.isnan().all() for part in around(found, 512, torch.float32))
    assert (found.untyped_storage().nbytes(), found.storage_offset()) == (96, 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_a_margin_is_nan_in_every_floating_type(dtype: torch.dtype, tmp_path: Path) -> None:
    tensorfile.save(str(tmp_path / "f"), torch.ones(8).to(dtype))
    found = tensorfile.load(str(tmp_path / "f")).tree("cpu", None, 512)
    assert all(part.float().isnan().all() for part in around(found, 512, dtype))


def test_a_capture_is_what_a_file_would_hold(tmp_path: Path) -> None:
    tree = {"a": torch.randn(3, 5).t(), "b": (torch.arange(4), "text")}
    tensorfile.save(str(tmp_path / "f"), tree)
    stored, captured = tensorfile.load(str(tmp_path / "f")), tensorfile.capture(tree, "cpu")
    assert stored.skeleton == captured.skeleton
    assert all(torch.equal(a, b) for a, b in zip(stored.tensors, captured.tensors, strict=True))
    assert [t.stride() for t in stored.tensors] == [t.stride() for t in captured.tensors]
    tree["a"].zero_()
    assert captured.tensors[0].abs().sum() > 0


def test_tensors_that_claim_the_same_bytes_many_times_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    tensorfile.save(str(path), torch.randn(1000))
    data = path.read_bytes()
    (length,) = tensorfile.LENGTH.unpack(data[:8])
    header = json.loads(data[8 : 8 + length])
    header["tensors"] *= 50
    text = json.dumps(header).encode()
    path.write_bytes(tensorfile.LENGTH.pack(len(text)) + text + b"\0" * 8000)
    with pytest.raises(tensorfile.Damaged, match="overlap"):
        tensorfile.load(str(path))


class Memory:
    """Shared memory as `exchange.Exchange` is, on the host."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._memory = torch.zeros(nbytes, dtype=torch.uint8)
        self._used = 0
        self.settled = False

    def put(self, flat: torch.Tensor) -> int | None:
        place, end = self._used, self._used + flat.numel()
        if end > self.nbytes:
            return None
        self._memory[place:end] = flat
        self._used = -(-end // 512) * 512
        self.settled = False
        return place

    def settle(self) -> None:
        self.settled = True

    def take(self, place: int, nbytes: int) -> torch.Tensor:
        return self._memory[place : place + nbytes].clone()


def test_tensors_travel_by_shared_memory_and_the_rest_by_the_file(tmp_path: Path) -> None:
    tree = {"a": torch.randn(4, 6).t(), "b": torch.randn(40, 40), "c": torch.arange(5), "n": 3}
    memory, path = Memory(2048), str(tmp_path / "f")
    tensorfile.save(path, tree, memory)
    assert memory.settled
    assert os.path.getsize(path) > 6400, "what has no room is in the file"
    found = tensorfile.load(path, exchange=memory).tree("cpu")
    assert found["a"].stride() == tree["a"].stride()
    assert all(torch.equal(found[name], tree[name]) for name in "abc")
    with pytest.raises(tensorfile.Damaged):
        tensorfile.load(path)


def test_what_was_loaded_is_handed_on_by_shared_memory_or_not_at_all(tmp_path: Path) -> None:
    tree = ((torch.randn(3, 8).t(), torch.zeros(0)), {"n": 2})
    tensorfile.save(str(tmp_path / "f"), tree)
    loaded, given = tensorfile.load(str(tmp_path / "f")), str(tmp_path / "g")
    # What has no room goes into the file.
    for memory in (Memory(64), Memory(4096)):
        tensorfile.write(given, loaded.skeleton, loaded.tensors, memory, loaded.heads)
        assert memory.settled
        (matrix, empty), rest = tensorfile.load(given, exchange=memory).tree("cpu")
        assert torch.equal(matrix, tree[0][0])
        assert matrix.stride() == (1, 8)
        assert empty.shape == (0,)
        assert rest == {"n": 2}


@pytest.mark.parametrize("change", [{"place": -8}, {"place": 4080}, {"nbytes": 1 << 40}, {"shape": [1 << 40]}])
def test_a_place_outside_of_shared_memory_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    memory, path = Memory(4096), tmp_path / "f"
    tensorfile.save(str(path), torch.randn(10), memory)
    data = path.read_bytes()
    (length,) = tensorfile.LENGTH.unpack(data[: tensorfile.LENGTH.size])
    header = json.loads(data[tensorfile.LENGTH.size : tensorfile.LENGTH.size + length])
    header["tensors"][0].update(change)
    text = json.dumps(header).encode()
    path.write_bytes(tensorfile.LENGTH.pack(len(text)) + text + b"\0" * 128)
    with pytest.raises(tensorfile.Damaged):
        tensorfile.load(str(path), exchange=memory)


def test_what_comes_by_shared_memory_counts_for_the_limit(tmp_path: Path) -> None:
    memory, path = Memory(8192), str(tmp_path / "f")
    tensorfile.save(path, torch.randn(1000), memory)
    assert os.path.getsize(path) < 1000
    with pytest.raises(tensorfile.Damaged):
        tensorfile.load(path, limit=1000, exchange=memory)


def test_large_tensors_are_read_in_pieces_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorfile, "SEVERAL", 1000)
    monkeypatch.setattr(tensorfile, "STAGE", 96)
    tensors = [torch.randn(700), torch.arange(3), torch.randn(30, 40).t()]
    path = tmp_path / "f"
    tensorfile.save(str(path), tensors)
    found = tensorfile.load(str(path)).tensors
    assert all(torch.equal(one, other) for one, other in zip(found, tensors, strict=True))
    assert found[2].stride() == tensors[2].stride()


@pytest.mark.parametrize("several", [1000, 2000])
def test_one_that_ends_while_it_is_read_is_refused(
    several: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorfile, "SEVERAL", several)
    path = tmp_path / "f"
    path.write_bytes(bytes(1000))
    with open(path, "rb") as file, pytest.raises(tensorfile.Damaged, match="ends early"):
        tensorfile._fill(torch.empty(1001, dtype=torch.uint8), file, 0)
