"""A process that holds a key is closed to others before it starts a worker; what it starts is as usual."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stark_lsp.contract import prctl

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")

DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)"  # PR_GET_DUMPABLE

HIDING = f"""
import asyncio, subprocess, sys
from stark_lsp.evaluation.supervisor import Supervisor

async def main():
    {DUMPABLE}
    supervisor = Supervisor(sys.executable, ".", lambda line: None)
    await supervisor.start()
    {DUMPABLE}
    await supervisor.close()
    subprocess.run([sys.executable, "-c", {DUMPABLE!r}])

asyncio.run(main())
"""


def test_starting_a_worker_hides_this_process_but_not_what_it_starts() -> None:
    done = subprocess.run([sys.executable, "-c", HIDING], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["1", "0", "1"]


READER = """
import ctypes, os, signal, sys
sys.path.insert(0, sys.argv[1])
import prctl

def become_nobody():
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(prctl.PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after an ordinary start

for hide in (False, True):
    ready, tell = os.pipe()
    victim = os.fork()
    if not victim:
        become_nobody()
        if hide:
            assert prctl.hide_memory()
        os.write(tell, b"x")
        signal.pause()
    os.read(ready, 1)
    reader = os.fork()
    if not reader:
        become_nobody()
        try:
            print(b"KEY=k" in open(f"/proc/{victim}/environ", "rb").read(), flush=True)
        except PermissionError:
            print("closed", flush=True)
        os._exit(0)
    os.waitpid(reader, 0)
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_process_of_the_same_user_can_read_its_environment_no_more() -> None:
    folder = os.path.dirname(prctl.__file__)
    done = subprocess.run(
        [sys.executable, "-S", "-c", READER, folder],
        env={"KEY": "k"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["True", "closed"], done.stderr
