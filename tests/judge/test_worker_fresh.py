"""Inputs of timed calls: never twice the same, and still such as the user's own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.timing import fresh, kept
from stark_lsp.judge.timing.fresh import RING, Mixer
from stark_lsp.judge.timing.kinds import kind_of
from stark_lsp.judge.transport import tensorfile

BLOCK = 8 * max(kept.STEPS) * kept.LANES
"""Bytes of the longest block."""


def sets(count: int, make) -> list:  # type: ignore[no-untyped-def]
    """Return argument trees made from different seeds."""
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        found.append(((make(),), {}))
    return found


def tensor_of(mixer: Mixer, seed: str, number: int) -> torch.Tensor:
    return mixer.inputs(seed, number)[0][0]


def test_no_two_calls_get_the_same_content_and_neighbours_share_no_memory() -> None:
    mixer = Mixer(sets(3, lambda: torch.randn(16, 8)))
    seen: list[torch.Tensor] = []
    for number in range(20):
        found = tensor_of(mixer, "seed", number)
        assert all(not torch.equal(found, other) for other in seen)
        seen.append(found.clone())
    live = [tensor_of(mixer, "seed", number) for number in range(RING)]
    assert len({tensor.untyped_storage().data_ptr() for tensor in live}) == RING


def test_the_same_seed_gives_the_same_inputs_in_another_process_and_another_seed_does_not() -> None:
    one, other = (Mixer(sets(3, lambda: torch.randn(16, 8))) for _ in range(2))
    tensor_of(other, "before", 5)
    assert torch.equal(tensor_of(one, "seed", 7), tensor_of(other, "seed", 7))
    assert not torch.equal(tensor_of(one, "seed", 8), tensor_of(other, "other", 8))


def test_buffers_keep_the_alignment_of_torch() -> None:
    mixer = Mixer(sets(2, lambda: torch.randn(33)))
    places = {tensor_of(mixer, "seed", number).data_ptr() for number in range(40)}
    assert all(place % 64 == 0 for place in places)
    assert len(places) == RING


@pytest.mark.parametrize(
    ("make", "holds"),
    [
        (lambda: torch.rand(8, 5).softmax(-1), lambda x: torch.allclose(x.sum(-1), torch.ones(8), atol=1e-5)),
        (lambda: torch.rand(64), lambda x: bool(((x >= 0) & (x <= 1)).all())),
        (lambda: torch.rand(64).sort().values, lambda x: torch.equal(x, x.sort().values)),
        (lambda: (lambda a: a @ a.T)(torch.randn(6, 6)), lambda x: bool((torch.linalg.eigvalsh(x) > -1e-4).all())),
        (lambda: torch.randint(0, 9, (64,)), lambda x: x.dtype == torch.int64 and int(x.max()) < 9),
        (lambda: torch.rand(64) > 0.5, lambda x: x.dtype == torch.bool),
        (lambda: (torch.rand(64) > 0.5).float(), lambda x: set(x.tolist()) <= {0.0, 1.0}),
        (
            lambda: torch.zeros(8, 8).masked_fill(torch.rand(8, 8) > 0.5, float("-inf")),
            lambda x: set(x.flatten().tolist()) <= {0.0, float("-inf")},
        ),
        (lambda: torch.randn(4, 3, dtype=torch.complex64), lambda x: x.dtype == torch.complex64),
        (lambda: torch.randn(64).bfloat16(), lambda x: x.dtype == torch.bfloat16 and bool(x.isfinite().all())),
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_mixture_keeps_what_the_inputs_are(make, holds, count: int) -> None:  # type: ignore[no-untyped-def]
    mixer = Mixer(sets(count, make))
    if count == 1 and not holds(tensor_of(mixer, "seed", 0)):
        # Scaled down by a fifth at most, where there is only one set and its samples cannot be told apart.
        pytest.fail("one set must keep it as well")
    for number in range(5):
        assert holds(tensor_of(mixer, "seed", number))


def test_one_set_of_a_batch_is_mixed_with_itself() -> None:
    mixer = Mixer(sets(1, lambda: torch.randn(16, 8)))
    first, second = tensor_of(mixer, "seed", 0).clone(), tensor_of(mixer, "seed", 1)
    original = sets(1, lambda: torch.randn(16, 8))[0][0][0]
    assert not torch.equal(first, second)
    ratio = first / original
    assert float(ratio.max() - ratio.min()) > 0.1


def test_one_set_that_may_be_no_batch_is_only_scaled() -> None:
    mixer = Mixer(sets(1, lambda: torch.randn(8, 8)))
    ratio = tensor_of(mixer, "seed", 0) / sets(1, lambda: torch.randn(8, 8))[0][0][0]
    assert float(ratio.max() - ratio.min()) > 0.1
    assert bool(((ratio >= 0.8) & (ratio <= 1.0)).all())
    ordered = sets(1, lambda: torch.rand(8, 8).sort().values)
    ratio = tensor_of(Mixer(ordered), "seed", 0) / ordered[0][0][0]
    assert torch.allclose(ratio, ratio[0, 0].expand(8, 8))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64])
def test_what_is_linear_cannot_be_put_together_from_outputs_that_are_known(count: int, dtype: torch.dtype) -> None:
    made = sets(count, lambda: torch.randn(40, 30).to(dtype))
    mixer = Mixer(made)
    known = [tree[0][0] for tree in made] + [tensor_of(mixer, "seed", number).clone() for number in range(20)]
    wide = torch.complex128 if dtype.is_complex else torch.float64
    for number in range(20, 23):
        new = tensor_of(mixer, "seed", number).to(wide)
        span = torch.stack([tensor.reshape(-1).to(wide) for tensor in known], 1)
        solved = torch.linalg.lstsq(span, new.reshape(-1, 1)).solution
        rest = new.reshape(-1, 1) - span @ solved
        # By far more than a candidate may be off, also of a product over few elements.
        assert float(rest.abs().pow(2).mean().sqrt() / new.abs().pow(2).mean().sqrt()) > 0.05
        known.append(new.to(dtype))


def test_weights_go_on_beyond_their_period_and_keep_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "PERIOD", 64)
    for count in (1, 3):
        mixer = Mixer(sets(count, lambda: 1.0 + torch.rand(100, 7)))
        found = [tensor_of(mixer, "seed", number).clone() for number in range(5)]
        assert all(bool(((one >= 0.8) & (one <= 2.0)).all()) for one in found)
        assert len({float(one.mean()) for one in found}) == 5
    assert float(found[0].mean()) != pytest.approx(float(found[1].mean()), rel=1e-4), "sums change as well"


def boxes() -> torch.Tensor:
    corners = torch.rand(50, 2)
    return torch.cat([corners, corners + torch.rand(50, 2)], 1)


@pytest.mark.parametrize(
    ("make", "holds"),
    [
        (boxes, lambda x: bool((x[:, 2:] >= x[:, :2]).all())),
        (lambda: torch.rand(4, 30).sort(1).values, lambda x: torch.equal(x, x.sort(1).values)),
        (lambda: torch.rand(30, 4).softmax(0), lambda x: torch.allclose(x.sum(0), torch.ones(4), atol=1e-5)),
        (lambda: torch.randn(9, 9).tril(), lambda x: torch.equal(x, x.tril())),
        (lambda: torch.eye(9)[torch.randint(0, 9, (40,))], lambda x: bool((x.sum(1) == 1).all() and (x.max() == 1))),
        (lambda: torch.arange(12) < torch.randint(1, 12, (40, 1)), lambda x: torch.equal(x, x.sort(1, True).values)),
        (lambda: (torch.rand(40, 20) > 0.9) | (torch.arange(20) == 3), lambda x: bool(x.any(1).all())),
        (
            lambda: torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf")),
            lambda x: torch.equal(x.isinf(), torch.ones(6, 6).triu(1).bool()),
        ),
        (
            lambda: torch.stack([torch.randperm(60) for _ in range(20)]),
            lambda x: bool((x.sort(1).values.diff() == 1).all()),
        ),
        (lambda: torch.arange(200).expand(20, 200).contiguous(), lambda x: bool((x.diff() == 1).all())),
    ],
)
def test_what_hangs_together_stays_so(make, holds) -> None:  # type: ignore[no-untyped-def]
    mixer = Mixer(sets(3, make))
    for number in range(5):
        assert holds(tensor_of(mixer, "seed", number))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.rand(30, 40) > 0.5,
        lambda: torch.randint(0, 5, (30, 40)),
        lambda: torch.randint(0, 3000, (30, 40)),
        lambda: torch.rand(30, 40).softmax(-1),
    ],
)
def test_rows_are_new_ones_and_no_values_are(make) -> None:  # type: ignore[no-untyped-def]
    made = sets(3, make)
    known = {tuple(row) for tree in made for row in tree[0][0].tolist()}
    values = {value for row in known for value in row}
    mixer = Mixer(made)
    for number in range(5):
        rows = {tuple(row) for row in tensor_of(mixer, "seed", number).tolist()}
        assert len(rows & known) < 3
        assert make().is_floating_point() or {value for row in rows for value in row} <= values


def test_what_is_the_same_for_every_seed_takes_the_values_that_were_found_fair() -> None:
    ones, other = torch.ones(8, 16), (torch.rand(8, 16) > 0.5).float()
    scale, third = torch.full((16,), 3.0), torch.rand(16)
    trees = [((torch.randn(8, 16), ones, scale, 2.0), {}) for _ in range(3)]
    mixer = Mixer([*trees, ((trees[0][0][0], other, third, 1.5), {})])
    seen = [mixer.inputs("seed", number)[0] for number in range(20)]
    assert len({x.sum().item() for x, *_ in (mixer.inputs("seed", number)[0] for number in range(20))}) == 20
    assert {value for *_, value in seen} == {2.0, 1.5}
    masks, scales = set(), set()
    for number in range(20):
        _, mask, factor, _ = mixer.inputs("seed", number)[0]
        assert set(mask.reshape(-1).tolist()) <= {0.0, 1.0}
        assert bool(((factor == third) | (factor == 3.0)).all())
        masks.add(tuple(mask.reshape(-1).tolist()))
        scales.add(tuple(factor.tolist()))
    assert len(masks) == 20
    assert len(scales) > 10


def marks(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what a tensor tells of where it lies."""
    storage = tensor.untyped_storage()
    place = tensor.storage_offset(), tensor.stride(), tensor.data_ptr() == storage.data_ptr()
    return storage.nbytes(), storage.resizable(), place, tensor._version, tensor._base is None, tensor.requires_grad


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_timed_inputs_lie_in_memory_as_checked_ones_do(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorfile, "MARGIN_LIMIT", limit)
    tree = ((torch.randn(3, 5).t(), torch.arange(7), torch.randn(4, requires_grad=True), torch.zeros(0, 3)), {})
    tensorfile.save(str(tmp_path / "f"), tree)
    loaded = tensorfile.load(str(tmp_path / "f"))
    places: list[set[int]] = [set(), set()]
    mixer = Mixer([loaded.tree(), loaded.tree()])
    for number in range(60):
        checked = loaded.tree("cpu", None, tensorfile.margin_of(loaded.nbytes))[0]
        timed = mixer.inputs("seed", number)[0]
        for one, other in zip(checked, timed, strict=True):
            assert marks(one) == marks(other)
            assert one.untyped_storage().nbytes() == one.numel() * one.element_size()
        for place, found in zip(places, (checked, timed), strict=True):
            place.add(found[0].data_ptr() % 64)
    assert places[0] == places[1]


def test_layouts_gradients_and_other_arguments_are_kept() -> None:
    def arguments(seed: int):  # type: ignore[no-untyped-def]
        torch.manual_seed(seed)
        image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
        return (image, 3), {"weight": torch.randn(4).requires_grad_(), "wide": torch.randn(4, 1).expand(4, 6)}

    args, kwargs = Mixer([arguments(0), arguments(1)]).inputs("seed", 0)
    assert args[0].stride() == arguments(0)[0][0].stride()
    assert args[1] == 3
    assert kwargs["weight"].requires_grad
    assert kwargs["weight"].is_leaf
    assert kwargs["wide"].stride() == (1, 0)


def test_sets_of_other_shapes_are_left_out() -> None:
    mixer = Mixer([((torch.randn(4),), {}), ((torch.randn(5),), {}), ((torch.randn(4),), {})])
    assert len(mixer._skeletons) == 2


@dataclasses.dataclass
class Pair:
    """Two tensors."""

    a: torch.Tensor
    b: torch.Tensor


def test_the_users_own_classes_come_back() -> None:
    trees = [((Pair(torch.randn(3), torch.randn(3)),), {}) for _ in range(2)]
    found = Mixer(trees, {"Pair": Pair}.get).inputs("seed", 0)[0][0]
    assert type(found) is Pair


def test_few_different_numbers_are_categories() -> None:
    levels = torch.tensor([0.25, 0.5, 0.75])
    assert not kind_of([levels[torch.randint(0, 3, (200,))]]).mixed
    assert kind_of([torch.randn(200)]).mixed


def results(seed: int):  # type: ignore[no-untyped-def]
    torch.manual_seed(seed)
    return {"y": torch.randn(5, 7), "n": 3, "index": torch.randint(0, 9, (11,)), "flag": torch.rand(3) > 0.5}


def digest_of(*trees: object, device: str = "cpu") -> int:
    """Return what the judge finds of a file in which the tree was handed over."""
    (tree,) = trees
    loaded = tensorfile.capture(tree, "cpu")
    return kept.digest_of(json.loads(json.dumps(loaded.skeleton)), loaded.tensors, device)


def test_kept_outputs_are_copies_with_the_digests_that_were_pledged(tmp_path: Path) -> None:
    found = kept.Kept(results(0), "cpu")
    found.begin(3)
    outputs = [results(seed) for seed in range(3)]
    for output in outputs:
        found.take(output)
    expected = [output["y"].clone() for output in outputs]
    for output in outputs:
        output["y"].zero_()
    pledge = found.pledge()
    assert len(set(pledge)) == 3
    for index in range(3):
        tensorfile.write(str(tmp_path / "f"), *found.output(index))
        loaded = tensorfile.load(str(tmp_path / "f"))
        tree = loaded.tree()
        assert torch.equal(tree["y"], expected[index])
        assert tree["n"] == 3
        assert kept.digest_of(loaded.skeleton, loaded.tensors, "cpu") == pledge[index]


def test_a_digest_changes_with_one_bit_with_the_order_and_with_plain_values() -> None:
    values = torch.randn(1000)
    changed = values.clone()
    changed[500] = torch.nextafter(changed[500], torch.tensor(2.0))
    different = [values, changed, values.flip(0), values.view(10, 100), values.view(torch.int32), [values], [values, 3]]
    assert len({digest_of(tree) for tree in different}) == len(different)
    assert digest_of(values) == digest_of(values.clone())


@pytest.mark.parametrize("huge", [BLOCK, kept.HUGE])
def test_what_a_gpu_makes_of_large_outputs_changes_with_each_bit_and_place(
    huge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "HUGE", huge)
    monkeypatch.setattr(kept, "LARGE", BLOCK)
    values = torch.randn(3 * BLOCK // 4 + 5)
    whole = digest_of(values, device="cuda")
    assert whole == digest_of(values.clone(), device="cuda")
    for place in (0, 1, 63, BLOCK // 4 - 1, BLOCK // 4, values.numel() - 1):
        other = values.clone()
        other.view(torch.int32)[place] ^= 1
        assert digest_of(other, device="cuda") != whole
    swapped = values.clone()
    swapped[: BLOCK // 4], swapped[BLOCK // 4 : BLOCK // 2] = (
        values[BLOCK // 4 : BLOCK // 2].clone(),
        values[: BLOCK // 4].clone(),
    )
    assert digest_of(swapped, device="cuda") != whole


def test_what_a_gpu_makes_of_outputs_is_the_same_for_some_together_as_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LARGE", BLOCK)
    monkeypatch.setattr(kept, "TOGETHER", 3 * BLOCK)
    sizes = [BLOCK // 4, 5, BLOCK // 4 + 3, 0, BLOCK // 4, BLOCK // 4, BLOCK // 4]
    outputs = [({"k": "tensor", "v": 0}, [torch.randn(size), torch.randn(size)]) for size in sizes]
    # Alone, or at equal distances in one memory, as calls of a round are kept.
    row = torch.cat([tensor for _, tensors in outputs for tensor in (*tensors, torch.zeros(-tensors[1].numel() % 8))])
    near, begin = [], 0
    for skeleton, tensors in outputs:
        some = [row[begin + tensors[0].numel() * number :][: tensors[0].numel()] for number in range(2)]
        near.append((skeleton, some))
        begin += 2 * tensors[0].numel() + -tensors[1].numel() % 8
    together = kept.digests(outputs, "cuda")
    assert together == kept.digests(near, "cuda") == [kept.digest_of(*output, "cuda") for output in outputs]
    assert len(set(kept.digests(outputs, "cuda"))) == len(outputs)


def test_no_sum_of_what_a_gpu_makes_of_large_outputs_stays_where_words_change_by_turns() -> None:
    # What is linear has countless other values with the same digest: one word more, another one less.
    words = torch.zeros(kept.STEPS[0] * kept.LANES, dtype=torch.int64)
    marks = set()
    for number in range(words.numel()):
        changed = words.clone()
        changed[number], changed[number - 1] = 1, -1
        marks.add(bytes(kept.chained(changed.view(1, -1).view(torch.uint8))[0].tolist()))
    assert len(marks) == words.numel()
    flipped = words.clone()
    flipped[0] = 1
    bits = torch.bitwise_xor(*kept.chained(torch.stack([words, flipped]).view(torch.uint8)))
    assert 90 < sum(int(byte).bit_count() for byte in bits) < 166, "half of 256 bits, as a good hash has it"


def test_values_that_are_made_up_by_moving_words_do_not_have_the_same_digest() -> None:
    # Sums of words, as digests once were, stay when words change places at the right distance.
    words = torch.arange(3 * 4096, dtype=torch.float64)
    assert digest_of(words) != digest_of(words.roll(4096))


def test_the_digest_of_a_large_output_is_made_by_several_threads_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = [({"k": "tensor", "v": 0}, [torch.randn(3 << 20)]) for _ in range(2)]
    monkeypatch.setattr(kept, "_get_threads", lambda: 4)
    together = kept.digests(outputs, "cpu")
    monkeypatch.setattr(kept, "_get_threads", lambda: 1)
    assert together == [kept.digest_of(*output, "cpu") for output in outputs]


def test_outputs_whose_size_depends_on_the_inputs_are_kept_too() -> None:
    found = kept.Kept((torch.randn(4),), "cpu")
    found.begin(3)
    outputs = [torch.randn(n) for n in (4, 9, 2)]
    for output in outputs:
        found.take((output,))
    pledge = found.pledge()
    for index, output in enumerate(outputs):
        assert torch.equal(found.output(index)[1][0], output)
        assert digest_of((output,)) == pledge[index]


LATE: list[str] = []


class LateDict(dict):  # type: ignore[type-arg]
    """Computes its values when it is asked for them."""

    def __getattribute__(self, name: str) -> object:
        LATE.append(name)
        return super().__getattribute__(name)

    def items(self):  # type: ignore[no-untyped-def]
        return {"y": torch.ones(4)}.items()


class LatePair(NamedTuple("LatePair", [("y", object), ("z", object)])):
    """The same for a named tuple."""

    def __new__(cls, *items: object) -> LatePair:
        LATE.append("new")
        return super().__new__(cls, *items)

    y = property(lambda self: torch.ones(4))


@dataclasses.dataclass
class LateRecord:
    """The same for a dataclass."""

    y: object

    def __getattribute__(self, name: str) -> object:
        LATE.append(name)
        return torch.ones(4) if name == "y" else super().__getattribute__(name)


class LateList(list):  # type: ignore[type-arg]
    """The same for a list."""

    __class__ = property(lambda self: LATE.append("class") or list)  # type: ignore[assignment,func-returns-value]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter([torch.ones(4)])


def late_tensor() -> torch.Tensor:
    late = torch.zeros(4)
    for name in ("detach", "contiguous", "stride", "numel"):
        setattr(late, name, lambda *_: LATE.append("method") or torch.ones(4))  # type: ignore[func-returns-value]
    return late


@pytest.mark.parametrize(
    "make",
    [
        lambda: LateDict(y=torch.zeros(4)),
        lambda: LatePair(torch.zeros(4), 1),
        lambda: LateRecord(torch.zeros(4)),
        lambda: LateList([torch.zeros(4)]),
        late_tensor,
    ],
)
def test_what_is_kept_is_what_is_stored_and_no_code_of_its_class_runs(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = make()
    LATE.clear()
    found = kept.Kept(result, "cpu")
    found.begin(1)
    found.take(result)
    found.pledge()
    tensorfile.write(str(tmp_path / "f"), *found.output(0))
    assert not LATE
    assert torch.equal(tensorfile.load(str(tmp_path / "f")).tensors[0], torch.zeros(4))


@pytest.mark.parametrize(
    "late",
    [
        torch.randn(3, 4, dtype=torch.complex64).t().conj(),
        torch.randn(3, 4, dtype=torch.complex64).conj().imag,
        torch.randn(4, 1, dtype=torch.complex64).expand(4, 3).conj(),
    ],
)
def test_lazy_negation_and_conjugation_are_carried_out_when_an_output_is_taken(late, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    found = kept.Kept(late, "cpu")
    found.begin(1)
    found.take(late)
    (taken,) = found.output(0)[1]
    assert not taken.is_conj()
    assert not taken.is_neg()
    assert torch.equal(taken, late)
    tensorfile.save(str(tmp_path / "f"), late)
    assert torch.equal(tensorfile.load(str(tmp_path / "f")).tensors[0], late)
    assert torch.equal(tensorfile.capture(late, "cpu").tensors[0], late)


def test_a_tensor_that_could_compute_its_values_later_is_not_taken() -> None:
    class Lazy(torch.Tensor):
        pass

    found = kept.Kept(torch.randn(4), "cpu")
    with pytest.raises(TypeError, match="Lazy"):
        found.take(torch.randn(4).as_subclass(Lazy))
    with pytest.raises(TypeError, match="Lazy"):
        kept.Kept(torch.randn(4).as_subclass(Lazy), "cpu")


def test_a_round_has_as_many_calls_as_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept.limits, "memory_limit", lambda share: int(share * (16 << 30)))
    # A share of the memory: 512 MiB of 16 GiB.
    assert kept.fitting("cpu", 40 << 20) == 12
    assert kept.fitting("cpu", 4 << 30) == 1
    assert kept.fitting("cpu", 16) == kept.MOST
    assert kept.Kept(torch.zeros(10 << 20), "cpu").calls == 12
    monkeypatch.setattr(kept.limits, "memory_limit", lambda share: 0)
    assert kept.fitting("cpu", 4 << 20) == 8


def test_every_call_of_a_round_is_kept_however_many_the_judge_asks_for() -> None:
    found = kept.Kept(torch.zeros(5), "cpu")
    for calls in (2, 7, 3):
        found.begin(calls)
        for number in range(calls):
            found.take(torch.full((5,), float(number)))
        assert found.pledge() == [digest_of(torch.full((5,), float(number))) for number in range(calls)]


def tokens(number: int) -> object:
    torch.manual_seed(number)
    lengths = torch.randint(3, 12, (32,))
    mask = torch.arange(12) < lengths[:, None]
    ids = torch.randint(1, 1000, (32, 12)) * mask
    return ((ids, mask, torch.tensor([0, 4, 9, 12 + number]), torch.ones(12, 12, dtype=torch.bool).tril()), {})


def test_samples_of_indices_are_picked_from_all_sets_and_keep_their_masks() -> None:
    trees = [tokens(number) for number in range(3)]
    mixer = Mixer(trees)
    values = {value for tree in trees for row in tree[0][0].tolist() for value in row}
    seen = set()
    for index in range(40):
        (ids, mask, offsets, causal), _ = mixer.inputs("seed", index)
        assert {value for row in ids.tolist() for value in row} <= values
        assert torch.equal(ids != 0, mask)
        # What is sorted, or the same in all sets, is that of one set.
        assert any(torch.equal(offsets, tree[0][2]) for tree in trees)
        assert torch.equal(causal, trees[0][0][3])
        seen.add(tuple(ids.reshape(-1).tolist()))
    assert len(seen) == 40, "no content comes twice"
    again = Mixer([tokens(number) for number in range(3)]).inputs("seed", 39)[0][0]
    assert torch.equal(again, ids)
    whole = Mixer(trees, picking=False)
    assert len({tuple(whole.inputs("seed", index)[0][0].reshape(-1).tolist()) for index in range(40)}) == 3


def test_a_permutation_stays_one_and_a_single_set_changes_its_order() -> None:
    mixer = Mixer([((torch.randperm(50),), {}) for _ in range(3)])
    orders = {tuple(mixer.inputs("seed", index)[0][0].tolist()) for index in range(10)}
    assert len(orders) == 10
    assert all(sorted(order) == list(range(50)) for order in orders)
    ids = torch.randint(0, 9, (20, 3))
    alone = Mixer([((ids,), {})])
    found = [alone.inputs("seed", index)[0][0].clone() for index in range(5)]
    assert len({tuple(one.reshape(-1).tolist()) for one in found}) == 5
    assert all(sorted(map(sorted, one.tolist())) == sorted(map(sorted, ids.tolist())) for one in found)


def test_few_samples_are_picked_along_the_longest_dimension() -> None:
    mixer = Mixer([((torch.randint(0, 99, (2, 500)),), {}) for _ in range(2)])
    assert len({tuple(mixer.inputs("s", index)[0][0].reshape(-1).tolist()) for index in range(50)}) == 50


def test_large_outputs_of_a_call_that_is_alone_in_its_round_are_taken_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "SINGLE", 4 << 20)
    monkeypatch.setattr(kept, "room", lambda device: 6 << 20)
    for elements, copied in ((1 << 20, False), (1 << 19, True)):
        result = torch.randn(elements)
        found = kept.Kept(result, "cpu")
        found.begin(1)
        found.take(result)
        assert (found.output(0)[1][0].data_ptr() != result.data_ptr()) is copied
        pledged = found.pledge()
        assert pledged == [digest_of(result)]
        # Whoever changes it afterwards is found out.
        result.add_(1.0)
        assert (found.pledge() == pledged) is copied
    # However many the judge asks for, all are pledged.
    found = kept.Kept(torch.zeros(1 << 20), "cpu")
    found.begin(2)
    for number in range(2):
        found.take(torch.full((1 << 20,), float(number)))
    assert len(found.pledge()) == 2


@pytest.mark.parametrize(
    "dtype",
    [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32],
    ids=str,
)
def test_types_with_few_operators_are_picked_like_others(dtype: torch.dtype) -> None:
    trees = [((torch.randint(0, 100, (20, 6)).to(dtype),), {}) for _ in range(3)]
    for sets in (trees, trees[:1]):
        mixer = Mixer(sets)
        found = [mixer.inputs("seed", index)[0][0].to(torch.complex128).tolist() for index in range(10)]
        assert len({str(rows) for rows in found}) == 10
        values = {value for (tensor,), _ in sets for value in tensor.to(torch.complex128).reshape(-1).tolist()}
        assert {value for rows in found for row in rows for value in row} <= values
