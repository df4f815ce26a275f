"""What no candidate and no compiler may reach, tried from inside, in every layer."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_cases import KINDS, LAYERS, need, policy_of, python

from stark_lsp.judge.sandbox import Layer
from stark_lsp.judge.sandbox.policy import Policy

SECRET = "sk-ant-canary-4711"
REFUSALS = {"ERRNO EACCES", "ERRNO EPERM", "ERRNO ENOENT", "ERRNO EROFS", "ERRNO ESRCH"}

pytestmark = [
    pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.value),
    pytest.mark.parametrize("kind", KINDS),
]


@pytest.fixture
def policy(layer: Layer, kind: str, tmp_path: Path) -> Policy:
    need(layer)
    return policy_of(kind, tmp_path / "child")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder like a home, with a key in it, beside what the sandbox shows."""
    with tempfile.TemporaryDirectory(prefix="stark-home-", dir=Path.home()) as folder:
        Path(folder, ".env").write_text(f"ANTHROPIC_API_KEY={SECRET}\n")
        yield Path(folder)


def test_a_file_in_the_home_cannot_be_read(layer: Layer, policy: Policy, home: Path) -> None:
    assert python(layer, policy, "answer = open(VALUES[0]).read()", f"{home}/.env") in REFUSALS


def test_a_file_in_the_home_cannot_be_changed(layer: Layer, policy: Policy, home: Path) -> None:
    code = """
path = VALUES[0]
answer = []
for attempt in (
    lambda: os.open(path, os.O_WRONLY | os.O_APPEND), lambda: os.truncate(path, 0), lambda: os.chmod(path, 0o777),
    lambda: os.utime(path, (0, 0)), lambda: os.setxattr(path, 'user.x', b'x'), lambda: os.chown(path, 1, 1),
    lambda: os.rename(path, 'mine'), lambda: os.link(path, 'mine'), lambda: os.unlink(path),
):
    try:
        answer.append(attempt())
    except OSError as error:
        answer.append('ERRNO ' + errno.errorcode[error.errno])
"""
    before = os.stat(home / ".env")
    answers = python(layer, policy, code, f"{home}/.env")
    # EXDEV is how Landlock refuses to take a file to another folder.
    assert set(answers) <= REFUSALS | {"ERRNO EXDEV"}
    after = os.stat(home / ".env")
    assert (after.st_mode, after.st_uid, after.st_nlink, after.st_mtime_ns) == (
        before.st_mode,
        before.st_uid,
        before.st_nlink,
        before.st_mtime_ns,
    )
    assert Path(home, ".env").read_text() == f"ANTHROPIC_API_KEY={SECRET}\n"


def test_the_home_cannot_be_listed(layer: Layer, policy: Policy, home: Path) -> None:
    found = python(layer, policy, "answer = os.listdir(VALUES[0])", str(home))
    assert found in REFUSALS


def test_another_childs_folder_cannot_be_read(layer: Layer, policy: Policy, kind: str, tmp_path: Path) -> None:
    other = policy_of(kind, tmp_path / "other")
    Path(other.out, "output").write_text(SECRET)
    assert python(layer, policy, "answer = open(VALUES[0]).read()", f"{other.out}/output") in REFUSALS


def test_no_environment_of_another_process_can_be_read(
    layer: Layer, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STARK_CANARY_KEY", SECRET)
    code = """
seen = {}
try:
    names = [name for name in os.listdir('/proc') if name.isdigit()]
except OSError:
    names = []
for name in {*names, *map(str, VALUES)}:
    if int(name) != os.getpid():
        try:
            with open(f'/proc/{name}/environ', 'rb') as file:
                seen[name] = file.read().decode('utf-8', 'replace')
        except OSError:
            pass
answer = seen
"""
    seen = python(layer, policy, code, 1, os.getpid(), os.getppid())
    assert seen == {}


def test_no_command_line_of_another_process_can_be_read(layer: Layer, policy: Policy) -> None:
    code = "answer = open(f'/proc/{VALUES[0]}/cmdline').read()"
    assert python(layer, policy, code, os.getpid()) in REFUSALS
    assert python(layer, policy, code, 1) in REFUSALS


def test_interfaces_of_the_machine_are_out_of_sight_in_bubblewrap_and_as_promised_nowhere_else(
    layer: Layer, policy: Policy
) -> None:
    code = "answer = [line.split(':')[0].strip() for line in open('/proc/self/net/dev').readlines()[2:]]"
    found = python(layer, policy, code)
    assert set(found) <= {"lo"} if layer is Layer.BUBBLEWRAP else "lo" in found


def test_the_network_cannot_be_reached(layer: Layer, policy: Policy) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        code = "answer = socket.create_connection(('127.0.0.1', VALUES[0]), timeout=5) and 'connected'"
        assert python(layer, policy, code, server.getsockname()[1]) == "ERRNO EPERM"
        with pytest.raises(BlockingIOError):
            server.accept()


def test_no_socket_of_any_family_can_be_made(layer: Layer, policy: Policy) -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
answer = sorted({(libc.socket(family, kind, 0), ctypes.get_errno()) for family in range(48) for kind in range(1, 7)})
"""
    assert python(layer, policy, code) == [[-1, 1]]


@pytest.mark.parametrize("abstract", [False, True], ids=["by path", "abstract"])
def test_a_unix_socket_cannot_be_reached(layer: Layer, policy: Policy, abstract: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        address = f"\0stark-test-{os.getpid()}" if abstract else f"{folder}/socket"
        server.bind(address)
        server.setblocking(False)
        code = """
client, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    client.sendto(b'x', VALUES[0])
except OSError:
    pass
libc = ctypes.CDLL(None, use_errno=True)
pair = (ctypes.c_int * 2)()
answer = [libc.socketpair(1, 2, 0, pair), libc.connect(client.fileno(), b'', 2), ctypes.get_errno()]
"""
        assert python(layer, policy, code, address) == [-1, -1, 1]
        with pytest.raises(BlockingIOError):
            server.recv(1)


def test_another_process_cannot_be_signalled(layer: Layer, policy: Policy) -> None:
    assert python(layer, policy, "answer = os.kill(VALUES[0], 0)", os.getpid()) in REFUSALS
    code = "answer = ctypes.CDLL(None, use_errno=True).prlimit(VALUES[0], 0, None, None)"
    assert python(layer, policy, code, os.getpid()) == -1


def test_a_signal_to_everybody_reaches_nobody_outside(layer: Layer, policy: Policy) -> None:
    received: list[int] = []
    # Ignored by whoever does not ask for it.
    before = signal.signal(signal.SIGURG, lambda number, frame: received.append(number))
    try:
        python(layer, policy, "os.kill(-1, signal.SIGURG)")
        python(layer, policy, "os.killpg(VALUES[0], signal.SIGURG)", os.getpgid(0))
    finally:
        signal.signal(signal.SIGURG, before)
    assert received == []


def test_another_process_cannot_be_slowed_down(layer: Layer, policy: Policy) -> None:
    assert python(layer, policy, "answer = os.sched_setaffinity(VALUES[0], {0})", os.getpid()) in REFUSALS
    assert python(layer, policy, "answer = os.setpriority(os.PRIO_PROCESS, VALUES[0], 19)", os.getpid()) in REFUSALS


def test_the_memory_of_another_process_cannot_be_read(layer: Layer, policy: Policy) -> None:
    assert python(layer, policy, "answer = open(f'/proc/{VALUES[0]}/mem')", os.getpid()) in REFUSALS
    code = """
libc = ctypes.CDLL(None, use_errno=True)
buffer = (ctypes.c_uint64 * 4)()
answer = []
attach, pid = 16, VALUES[0]
for call in (lambda: libc.ptrace(attach, pid, 0, 0), lambda: libc.process_vm_readv(pid, buffer, 1, buffer, 1, 0)):
    ctypes.set_errno(0)
    answer.append([call(), ctypes.get_errno()])
"""
    assert python(layer, policy, code, os.getpid()) == [[-1, 1], [-1, 1]]


def test_the_interpreter_and_its_packages_cannot_be_changed(layer: Layer, policy: Policy) -> None:
    for folder in (sys.prefix, sys.base_prefix, f"{sys.prefix}/lib", "/usr/lib"):
        place = os.path.join(folder, f"stark-canary-{os.getpid()}")
        code = "os.close(os.open(VALUES[0], os.O_CREAT | os.O_WRONLY)); answer = 'written'"
        # Below /tmp the folders around an environment are the sandbox's own; what is written there nobody else sees.
        own = layer is Layer.BUBBLEWRAP and place.startswith("/tmp/")
        assert python(layer, policy, code, place) in REFUSALS or own
        assert not os.path.exists(place)


def test_what_is_handed_in_can_be_read_and_not_changed(layer: Layer, policy: Policy) -> None:
    Path(policy.inside, "weights").write_text("handed in")
    assert python(layer, policy, "answer = open(VALUES[0]).read()", f"{policy.inside}/weights") == "handed in"
    for code in ("os.unlink(VALUES[0])", "os.truncate(VALUES[0], 0)", "open(VALUES[0] + '2', 'w')"):
        assert python(layer, policy, f"answer = {code}", f"{policy.inside}/weights") in REFUSALS
    assert os.listdir(policy.inside) == ["weights"]
    assert Path(policy.inside, "weights").read_text() == "handed in"


def test_its_own_folder_can_be_written(layer: Layer, policy: Policy) -> None:
    code = """
import tempfile
with open('result', 'w') as file:
    file.write('done')
with tempfile.NamedTemporaryFile() as file:
    answer = [os.getcwd(), os.path.expanduser('~'), os.path.dirname(file.name)]
"""
    assert python(layer, policy, code) == [policy.out, policy.out, policy.temporary]
    assert Path(policy.out, "result").read_text() == "done"


def test_a_file_handed_in_later_is_seen(layer: Layer, policy: Policy, tmp_path: Path) -> None:
    """The judge hands files over while the child runs, by hard link where it can."""
    source = tmp_path / "library.so"
    source.write_text("built")
    os.link(source, os.path.join(policy.inside, "first"))
    assert python(layer, policy, "answer = open(VALUES[0]).read()", f"{policy.inside}/first") == "built"


def test_no_way_back_into_privileges(layer: Layer, policy: Policy) -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
tried = {
    'unshare': libc.unshare(0x10000000), 'setns': libc.setns(0, 0), 'chroot': libc.chroot(b'/'),
    'mount': libc.mount(b'none', VALUES[0].encode(), b'tmpfs', 0, None),
    'io_uring': libc.syscall(425, 1, None), 'bpf': libc.syscall(VALUES[1], 0, None, 0),
    'clone': libc.syscall(VALUES[2], 0x10000000 | 17, 0, 0, 0, 0), 'keyctl': libc.syscall(VALUES[3], 0, -3, 0),
}
names = ('CapEff', 'CapPrm', 'NoNewPrivs', 'Seccomp')
answer = [sorted(set(tried.values())), {name: status[name].strip() for name in names}]
"""
    x86 = os.uname().machine == "x86_64"
    numbers = (321, 56, 250) if x86 else (280, 220, 219)
    results, status = python(layer, policy, code, policy.out, *numbers)
    assert results == [-1]
    assert status == {"CapEff": "0" * 16, "CapPrm": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}


def test_memory_files_and_threads_work(layer: Layer, policy: Policy) -> None:
    """What CUDA and torch need of the kernel is not in the filter's way."""
    code = """
import threading
number = os.memfd_create('cuda', 0)
os.ftruncate(number, 4096)
seen = []
threads = [threading.Thread(target=seen.append, args=(index,)) for index in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
done = subprocess.run([sys.executable, '-I', '-S', '-c', 'print(42)'], capture_output=True, text=True)
answer = [len(seen), done.stdout]
"""
    assert python(layer, policy, code) == [8, "42\n"]
