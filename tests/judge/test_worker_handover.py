"""What goes by shared GPU memory, what by files; and what a folder hands over stays the judge's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.processes import copies
from stark_lsp.judge.processes.confinement import Confinement
from stark_lsp.judge.processes.failures import RunnerError
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.processes.runners import RunnerProcess
from stark_lsp.judge.sandbox import Layer
from stark_lsp.judge.sandbox.probe import attempt
from stark_lsp.judge.transport import handover
from stark_lsp.judge.transport.exchange import Unavailable

GIB = 1 << 30
MIB = 1 << 20


def size(asked: int, answered: int, *, children: int = 8, resident: int = 0, total: int = 80 * GIB) -> int:
    return handover.exchange_bytes([asked], [answered], children=children, resident=resident, total=total)


def test_small_tensors_go_by_files() -> None:
    assert size(MIB, MIB) == 0
    assert handover.exchange_bytes([], [], children=1, resident=0, total=GIB) == 0


def test_memory_holds_the_largest_request_or_answer() -> None:
    assert size(700 * MIB, 600 * MIB) >= 700 * MIB
    assert size(100 * MIB, 600 * MIB) >= 600 * MIB


@pytest.mark.parametrize(
    ("children", "resident", "total"), [(8, 0, 24 * GIB), (40, 0, 80 * GIB), (8, 9 * GIB, 80 * GIB)]
)
def test_where_memory_is_short_tensors_go_by_files(children: int, resident: int, total: int) -> None:
    assert size(700 * MIB, 0, children=8) > 0
    assert size(700 * MIB, 0, children=children, resident=resident, total=total) == 0


def test_a_place_in_a_folder_is_empty_so_that_the_judges_own_file_is_never_written_to(tmp_path: Path) -> None:
    own = tmp_path / "case0.raw"
    own.write_text("the judge's")
    folder = Folder(str(tmp_path))
    given = folder.give(str(own), link=True)
    assert os.path.samefile(given, own)
    place = folder.place(str(own))
    assert place == given
    Path(place).write_text("something else")
    assert own.read_text() == "the judge's"


def test_a_folder_is_removed_however_deep_it_is(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    line = "import os\nfor _ in range(1500):\n    os.mkdir('a')\n    os.chdir('a')"
    subprocess.run([sys.executable, "-c", line], cwd=folder.out, check=True)
    try:
        folder.remove()
        assert not os.path.exists(folder.path)
    finally:
        # Whoever clears the folders of the tests cannot do it either.
        subprocess.run(["rm", "-rf", folder.path], check=True)


def test_a_tree_is_copied_beside_files_that_are_mapped_not_into_them(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder, text in ((source, "new"), (target, "old")):
        folder.mkdir()
        (folder / "library.so").write_text(text)
    with open(target / "library.so") as mapped:
        assert copies.copy_tree(str(source), str(target), 100) == 3
        assert mapped.read() == "old"
    assert (target / "library.so").read_text() == "new"


def test_a_descriptor_reaches_another_socket_and_a_missing_one_is_told() -> None:
    ours, its = socket.socketpair()
    with ours, its, tempfile.TemporaryFile() as file:
        with pytest.raises(Unavailable):
            handover.received(its.fileno())
        file.write(b"given")
        file.flush()
        socket.send_fds(ours, [b"\0"], [file.fileno()])
        found = handover.received(its.fileno())
        assert found != file.fileno()
        assert os.pread(found, 9, 0) == b"given"
        os.close(found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there the tests of the GPU share memory")
@pytest.mark.parametrize("layer", list(Layer))
def test_memory_is_handed_to_a_runner_once_it_is_confined(tmp_path: Path, layer: Layer) -> None:
    if layer is not Layer.PROCESS and (problem := attempt(layer, gpu=False)[0]):
        pytest.skip(problem)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `warm_up`
    ended: list[str] = []
    exchange = SimpleNamespace(
        fd=file.fileno(),
        nbytes=4096,
        close_descriptor=file.close,
        forget=lambda: None,
        close=lambda: ended.append("closed"),
    )
    gpu: Any = SimpleNamespace(exchange=lambda: exchange)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    runner = RunnerProcess(
        environment, Folder(str(tmp_path)), 10_000, confinement=Confinement(layer, gpu=True), on_gpu=True
    )
    try:
        # It got so far as to map it; PyTorch built for CUDA then finds no driver, which is a reason to go on by files.
        if torch.version.cuda is None:
            with pytest.raises(RunnerError, match=r"CUDA|NVIDIA"):
                runner.warm_up(gpu)
            assert "Tensors travel by files" not in runner.log()
        else:
            runner.warm_up(gpu)
            assert "Tensors travel by files: Found no NVIDIA driver" in runner.log()
        assert file.closed
    finally:
        runner.kill()
    assert ended == ["closed"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there the tests of the GPU share memory")
def test_no_way_to_the_judge_is_left_before_a_candidate_is_loaded(tmp_path: Path) -> None:
    gpu: Any = SimpleNamespace(exchange=lambda: None)
    alone = Confinement(Layer.PROCESS, gpu=True)
    runner = RunnerProcess(dict(os.environ), Folder(str(tmp_path)), 10_000, confinement=alone, on_gpu=True)

    def sockets() -> list[str]:
        opened = Path(f"/proc/{runner.pid}/fd").iterdir()
        return [found for found in map(os.readlink, opened) if found.startswith("socket:")]

    try:
        runner.wait_ready()
        assert len(sockets()) == 1
        runner.warm_up(gpu)
        assert sockets() == []
        assert runner.exchange is None
        assert runner.ask("record", gradients=False, run_s=60.0) == {}
    finally:
        runner.kill()
