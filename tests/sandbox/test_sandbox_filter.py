"""The system call filter as a program: evaluated for both processors, call by call."""

from __future__ import annotations

import struct

import pytest

from stark_lsp.judge.sandbox import seccomp

ALLOWED = seccomp.ALLOW
EPERM = seccomp.ERRNO | 1
ENOSYS = seccomp.ERRNO | 38
PID = 4242

X86, ARM = "x86_64", "aarch64"
BOTH = pytest.mark.parametrize("machine", [X86, ARM])


def answer(machine: str, number: int, *arguments: int, arch: int | None = None, **options: object) -> int:
    """Evaluate the filter for one call, as the kernel's interpreter does."""
    chosen = {"shared": False, "hold_signals": False, "pin_threads": False, **options}
    code = seccomp.program(machine, PID, **chosen)  # type: ignore[arg-type]
    given = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    architecture = seccomp.AUDIT_ARCH[machine] if arch is None else arch
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(value & (1 << 64) - 1 for value in given))
    accumulator = position = 0
    while True:
        operation, if_true, if_false, constant = code[position]
        position += 1
        if operation == seccomp.RETURN:
            return constant
        if operation == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif operation == seccomp.MASK:
            accumulator &= constant
        else:
            holds = {
                seccomp.EQUAL: accumulator == constant,
                seccomp.AT_LEAST: accumulator >= constant,
                seccomp.ANY_BIT: bool(accumulator & constant),
            }[operation]
            position += if_true if holds else if_false


@BOTH
def test_every_denied_call_is_denied_and_nothing_else(machine: str) -> None:
    which = 0 if machine == X86 else 1
    denied = {numbers[which] for numbers in [*seccomp.DENIED.values(), *seccomp.NETWORK.values()]}
    special = {numbers[which] for numbers in (seccomp.CLONE, seccomp.CLONE3, seccomp.SOCKETPAIR)}
    for number in range(480):
        if number in special:
            continue
        assert (answer(machine, number) == EPERM) == (number in denied), number


@BOTH
def test_calls_under_another_architecture_end_the_process(machine: str) -> None:
    i386 = 0x40000003
    assert answer(machine, 1, arch=i386) == seccomp.KILL_PROCESS


def test_the_x32_numbers_are_refused() -> None:
    assert answer(X86, seccomp.X32 | 41) == EPERM
    assert answer(X86, seccomp.X32 | 1) == EPERM


@BOTH
def test_new_processes_and_threads_are_allowed_and_new_namespaces_are_not(machine: str) -> None:
    number = seccomp.CLONE[0 if machine == X86 else 1]
    thread = 0x003D0F00
    assert answer(machine, number, 17) == ALLOWED
    assert answer(machine, number, thread) == ALLOWED
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, number, flag | 17) == EPERM
    # Its flags lie in memory, out of a filter's sight; the C library then falls back on clone.
    assert answer(machine, 435) == ENOSYS


@BOTH
def test_connected_pairs_of_sockets_only(machine: str) -> None:
    number = seccomp.SOCKETPAIR[0 if machine == X86 else 1]
    cloexec = 0o2000000
    assert answer(machine, number, 1, 1) == ALLOWED
    assert answer(machine, number, 1, 1 | cloexec) == ALLOWED
    assert answer(machine, number, 1, 5) == ALLOWED
    assert answer(machine, number, 1, 2) == EPERM
    assert answer(machine, number, 2, 1) == EPERM


@BOTH
def test_local_sockets_reach_nobody_where_cuda_needs_them(machine: str) -> None:
    which = 0 if machine == X86 else 1
    socket, bind, connect = (seccomp.NETWORK[name][which] or 0 for name in ("socket", "bind", "connect"))
    local, connected = {"sockets": seccomp.Sockets.LOCAL}, {"sockets": seccomp.Sockets.CONNECTED}
    for family in (2, 10, 16, 40):
        assert answer(machine, socket, family, 1, **local) == EPERM
        assert answer(machine, socket, family, 1, **connected) == EPERM
    assert answer(machine, socket, 1, 1, **local) == ALLOWED
    assert answer(machine, bind, 3, **local) == ALLOWED
    assert answer(machine, connect, 3, **local) == EPERM
    assert answer(machine, connect, 3, **connected) == ALLOWED
    number = seccomp.SENDTO[which]
    assert answer(machine, number, 3, 4096, 8, 0, 0, 0, **local) == ALLOWED
    for address in (4096, 1 << 32, 1 << 40):
        assert answer(machine, number, 3, 4096, 8, 0, address, 16, **local) == EPERM
    for numbers in seccomp.SENDING.values():
        assert answer(machine, numbers[which] or 0, 3, **local) == EPERM


@BOTH
def test_words_are_not_put_into_a_terminal(machine: str) -> None:
    number = seccomp.IOCTL[0 if machine == X86 else 1]
    assert answer(machine, number, 0, 0x5412) == EPERM
    assert answer(machine, number, 0, 0x5412 | 1 << 40) == EPERM
    assert answer(machine, number, 0, 0x5401) == ALLOWED
    assert answer(machine, number, 3, 0xC0104629) == ALLOWED


@BOTH
def test_limits_and_scheduling_of_others_are_left_alone(machine: str) -> None:
    which = 0 if machine == X86 else 1
    assert answer(machine, seccomp.PRLIMIT[which], 0) == ALLOWED
    assert answer(machine, seccomp.PRLIMIT[which], PID) == ALLOWED
    assert answer(machine, seccomp.PRLIMIT[which], 1) == EPERM
    affinity = seccomp.SCHEDULING["sched_setaffinity"][which] or 0
    assert answer(machine, affinity, 77, shared=True) == EPERM
    assert answer(machine, affinity, 0, shared=True) == ALLOWED
    assert answer(machine, affinity, 77, shared=True, pin_threads=True) == ALLOWED
    assert answer(machine, seccomp.SETPRIORITY[which], 0, 77, shared=True) == EPERM
    assert answer(machine, seccomp.SETPRIORITY[which], 0, 0, shared=True) == ALLOWED


@BOTH
def test_what_a_child_starts_stays_below_it(machine: str) -> None:
    number = seccomp.PRCTL[0 if machine == X86 else 1]
    assert answer(machine, number, 36, 0, shared=True) == EPERM
    assert answer(machine, number, 15, 1, shared=True) == ALLOWED


@BOTH
def test_signals_stay_inside_where_landlock_cannot_see_to_it(machine: str) -> None:
    which = 0 if machine == X86 else 1
    kill = seccomp.SIGNALS["kill"][which] or 0
    assert answer(machine, kill, PID, 9, hold_signals=True) == ALLOWED
    for receiver in (-1, 0, 1, PID + 1, -PID):
        assert answer(machine, kill, receiver, 9, hold_signals=True) == EPERM
    assert answer(machine, kill, 77, 9) == ALLOWED
    for command, verdict in ((8, EPERM), (15, EPERM), (4, ALLOWED)):
        assert answer(machine, seccomp.FCNTL[which], 3, command, hold_signals=True) == verdict
    for request, verdict in ((0x8901, EPERM), (0x8902, EPERM), (0x5401, ALLOWED)):
        assert answer(machine, seccomp.IOCTL[which], 3, request, hold_signals=True) == verdict
    assert answer(machine, seccomp.FCNTL[which], 3, 8) == ALLOWED
    for numbers in seccomp.BY_DESCRIPTOR.values():
        assert answer(machine, numbers[which] or 0, 77, hold_signals=True) == EPERM


def test_the_tables_name_no_call_twice() -> None:
    for which in (0, 1):
        seen: set[int] = set()
        for table in (
            seccomp.NETWORK,
            seccomp.SENDING,
            seccomp.DENIED,
            seccomp.SHARED,
            seccomp.SCHEDULING,
            seccomp.SIGNALS,
            seccomp.BY_DESCRIPTOR,
        ):
            for name, numbers in table.items():
                number = numbers[which]
                if number is not None:
                    assert number not in seen, name
                    seen.add(number)
