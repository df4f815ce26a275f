"""When the machine fails: a driver that hangs, a disk that is full, a GPU that is lost."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from fault_cases import DISK_FILLED, RAW, kernel, problem_at, settings
from fault_watch import MARK, marked

from stark_lsp.contract import errors
from stark_lsp.contract.frames import Channel, ChannelClosed
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.evaluation.judge import WorkerJudge, open_judge
from stark_lsp.judge.service import serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
]

HERE = Path(__file__).resolve().parent
DISK_MIB = 96


def test_a_process_that_cannot_be_ended_stops_all_judging_until_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = secrets.token_hex(8)
    monkeypatch.setenv(MARK, mark)
    done = subprocess.run(
        [sys.executable, str(HERE / "hung_driver.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["hung"] == {"status": "TIMED_OUT"}, "the candidate has its verdict"
    [stuck] = told["stuck"]
    assert told["meanwhile"]["broken"].startswith(f"Process {stuck} cannot be ended: it hangs in the system")
    assert "restart the machine" in told["meanwhile"]["cure"]
    assert told["afterwards"] == {"status": "OK"}
    assert not marked(mark), "something is left running"


# --- a disk that is full -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A small disk of its own that temporary files go to."""
    folder = Path(tempfile.mkdtemp())
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "stark-test", str(folder)]
    mounted = shutil.which("mount") and subprocess.run(command, capture_output=True, check=False).returncode == 0
    if not mounted:
        folder.rmdir()
        pytest.skip("a small file system may not be mounted here")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(folder))
            patch.setenv("TMPDIR", str(folder))
            yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(disk: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerJudge]:
    folder = tmp_path_factory.mktemp("machine")
    opened = await open_judge(
        problem_at(folder),
        interpreter=sys.executable,
        settings=settings(),
        cache_dir=folder / "cache",
        log=lambda line: None,
    )
    try:
        await opened.prepare(lambda text: None)
        yield opened
    finally:
        await opened.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_candidate_that_fills_the_disk_is_stopped_and_its_files_are_gone(
    judge: WorkerJudge, disk: Path
) -> None:
    before = shutil.disk_usage(disk).free
    verdict = await judge.evaluate(Candidate(DISK_FILLED))
    assert verdict.status in {Status.TIMED_OUT, Status.RUNTIME_ERROR}, verdict
    following = await judge.evaluate(Candidate(RAW))
    assert following.status is Status.OK, following
    assert shutil.disk_usage(disk).free > before - (8 << 20)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_disk_that_somebody_else_filled_is_named_and_no_candidate_is_blamed(
    judge: WorkerJudge, disk: Path
) -> None:
    guard = judge.pid
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(1 << 12))
            except OSError:
                break
    with pytest.raises(Fault, match=r"The disk is full \(.*\)\. Free some space") as raised:
        await judge.evaluate(Candidate(kernel("")))
    assert str(disk) in raised.value.message
    ballast.unlink()
    verdict = await judge.evaluate(Candidate(RAW))
    assert verdict.status is Status.OK, verdict
    assert judge.pid == guard


# --- a worker that is of no use any more -----------------------------------------------------------------


def test_what_the_system_lacks_is_named_with_its_cure() -> None:
    for number, (what, cure) in errors.MACHINE.items():
        told = errors.broken(OSError(number, os.strerror(number), "/tmp/x/file"))
        assert (told.message, told.cure) == (f"{what} (/tmp/x).", cure)
    assert errors.broken(OSError(errno.ENOSPC, "full"), "/tmp/y").message == "The disk is full (/tmp/y)."
    thread = errors.broken(RuntimeError("can't start new thread"), "/tmp/y")
    assert (thread.message, "ulimit -u or -v" in thread.cure) == ("No more process can be started.", True)
    there = errors.broken(FileExistsError(errno.EEXIST, "File exists", "/state/builds"))
    assert "'/state/builds'" in there.message
    assert "STARK_STATE_DIR" in there.cure
    assert errors.broken(ValueError("odd")).message == "The worker failed: ValueError: odd."


@pytest.mark.parametrize(
    ("error", "ends"),
    [(RuntimeError("CUDA error: an illegal memory access was encountered"), True), (SystemExit(3), False)],
)
async def test_a_worker_whose_gpu_is_lost_tells_so_and_makes_room_for_another(
    error: BaseException, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, back = os.pipe(), os.pipe()
    server = Channel(back[0], there[1])
    worker = serve.Worker(Channel(there[0], back[1]))

    def fail(request: object) -> None:
        raise error

    class Ended(Exception):
        pass

    def end() -> None:
        raise Ended

    monkeypatch.setattr(worker, "_handle", fail)
    monkeypatch.setattr(worker, "_end", end)
    if ends:
        with pytest.raises(Ended):
            worker._answer({"id": 7, "method": "evaluate"})
    else:
        worker._answer({"id": 7, "method": "evaluate"})
    answer = await asyncio.to_thread(server.receive)
    assert answer["id"] == 7
    assert answer["error"]["kind"] == "fault"
    assert str(error) in answer["error"]["message"]
    server.close()
    with pytest.raises(ChannelClosed):
        server.send({})
