"""What a confined child may take: memory, processes, disk, time; and that it ends with its sandbox."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sandbox_cases import LAYERS, command, need, policy_of, python

from stark_lsp.judge.processes import watch
from stark_lsp.judge.sandbox import Layer

EACH_LAYER = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.value)
MIB = 1 << 20


@EACH_LAYER
def test_a_large_file_is_refused(layer: Layer, tmp_path: Path) -> None:
    need(layer)
    policy = policy_of("run", tmp_path / "child", file_bytes=MIB)
    code = "open('large', 'wb', buffering=0).write(bytes(1 << 20)); open('large', 'ab', buffering=0).write(b'x')"
    assert python(layer, policy, code) == "ERRNO EFBIG"
    assert os.path.getsize(Path(policy.out, "large")) == MIB


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_the_private_temporary_folders_are_bounded(place: str, tmp_path: Path) -> None:
    need(Layer.BUBBLEWRAP)
    policy = policy_of("run", tmp_path / "child", tmp_bytes=MIB)
    code = "open(VALUES[0] + '/large', 'wb').write(bytes(4 << 20))"
    assert python(Layer.BUBBLEWRAP, policy, code, place) == "ERRNO ENOSPC"


@pytest.mark.parametrize("place", ["/", "/home", "/etc", "/run", "/var", "/opt"])
def test_the_root_is_not_a_place_to_write(place: str, tmp_path: Path) -> None:
    """A root that is built from nothing is a tmpfs without a bound unless it is made read-only."""
    need(Layer.BUBBLEWRAP)
    policy = policy_of("run", tmp_path / "child")
    code = "open(os.path.join(VALUES[0], 'stark-canary'), 'w')"
    assert python(Layer.BUBBLEWRAP, policy, code, place) in {"ERRNO EROFS", "ERRNO ENOENT"}


@EACH_LAYER
def test_shared_memory_of_the_machine_is_out_of_reach(layer: Layer, tmp_path: Path) -> None:
    need(layer)
    name = f"/dev/shm/stark-canary-{os.getpid()}"
    Path(name).write_text("ours")
    try:
        policy = policy_of("run", tmp_path / "child")
        assert python(layer, policy, "answer = open(VALUES[0]).read()", name) in {"ERRNO ENOENT", "ERRNO EACCES"}
    finally:
        os.unlink(name)


@EACH_LAYER
def test_cpu_time_beyond_the_limit_ends_the_process(layer: Layer, tmp_path: Path) -> None:
    need(layer)
    policy = policy_of("build", tmp_path / "child", cpu_s=1)
    argv = command(layer, policy, [sys.executable, "-I", "-S", "-c", "while True: pass"])
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    # bubblewrap reports a signal as 128 + its number.
    assert done.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGKILL)


def test_nothing_survives_its_bubblewrap(tmp_path: Path) -> None:
    need(Layer.BUBBLEWRAP)
    policy = policy_of("run", tmp_path / "child")
    mark = f"stark-survivor-{os.getpid()}"
    daemon = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('alive', 'w').close()
        while True:
            time.sleep(0.02)  # {mark}
    os._exit(0)
time.sleep(600)
"""
    argv = command(Layer.BUBBLEWRAP, policy, [sys.executable, "-I", "-S", "-c", daemon])
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: os.path.exists(os.path.join(policy.out, "alive")))
        assert len(processes_with(mark)) >= 2
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        wait_for(lambda: not processes_with(mark))
    finally:
        process.kill()
        process.wait(10)


def processes_with(mark: str) -> list[int]:
    """Return the live Python processes that run a program with a mark in it."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(name))
    return found


def wait_for(condition: object, seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


@pytest.mark.parametrize("layer", [*LAYERS, Layer.PROCESS])
def test_what_was_orphaned_on_purpose_still_counts_as_its_own(layer: Layer, tmp_path: Path) -> None:
    if layer is not Layer.PROCESS:
        need(layer)
    code = """
import os, sys, time
def leave():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            time.sleep(60)
        os._exit(0)
    os.wait()
leave()
import ctypes
ctypes.CDLL(None).prctl(36, ctypes.c_ulong(0), 0, 0, 0)
leave()
print("done", flush=True)
sys.stdin.read()
"""
    line = command(layer, policy_of("run", tmp_path / "f"), [sys.executable, "-I", "-c", code])
    child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert sum(child.stdout.readline().strip().isdigit() for _ in range(3)) == 2
        # Nobody keeps a plain process from letting go of what it starts next.
        own, left = (3, 2) if layer is Layer.BUBBLEWRAP else (1, 1 if layer is Layer.PROCESS else 2)
        assert len(watch.tree(child.pid)) == own + left
    finally:
        for pid in watch.tree(child.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.wait(10)
