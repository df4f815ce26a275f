"""A seccomp filter: system calls that no kernel of a neural network needs, and that lead out of a sandbox.

The program is classic BPF over `struct seccomp_data` (linux/seccomp.h). What it denies fails with EPERM;
only a call under a foreign architecture's numbering ends the process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from enum import Enum

from ...contract.prctl import PR_SET_CHILD_SUBREAPER
from . import kernel

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
ERRNO = 0x00050000
EPERM = 1
ENOSYS = 38

LOAD = 0x20
"""BPF_LD | BPF_W | BPF_ABS."""
EQUAL = 0x15
"""BPF_JMP | BPF_JEQ | BPF_K."""
AT_LEAST = 0x35
"""BPF_JMP | BPF_JGE | BPF_K."""
ANY_BIT = 0x45
"""BPF_JMP | BPF_JSET | BPF_K."""
MASK = 0x54
"""BPF_ALU | BPF_AND | BPF_K."""
RETURN = 0x06
"""BPF_RET | BPF_K."""

NUMBER = 0
ARCHITECTURE = 4
"""Offsets into `struct seccomp_data`."""

SET_MODE_FILTER = 1
TSYNC = 1
"""Apply to all threads."""
SPEC_ALLOW = 4
"""Leave speculation as it is: before Linux 5.16 a filter without this slows the process, and so its timings."""

NEW_NAMESPACE = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
X32 = 0x40000000
"""Bit of the x32 ABI's numbers on x86-64."""
TIOCSTI = 0x5412
TIOCLINUX = 0x541C
"""Terminal requests that put words into a terminal's mouth."""
AF_UNIX = 1
SOCK_STREAM = 1
SOCK_SEQPACKET = 5

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Number on x86-64, number on arm64 (None where the call does not exist). linux/unistd.h of each.
Numbers = dict[str, tuple["int | None", "int | None"]]

DENIED: Numbers = {
    # A second system call interface that filters do not see.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Other processes' memory and files.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # The kernel's larger attack surfaces.
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Name spaces and mounts.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # The machine as a whole.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
}
"""Refused in every layer that has a filter."""

SHARED: Numbers = {
    # Shared memory, semaphores and queues of the user's other programs.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # Which files the user's other programs open.
    "inotify_add_watch": (254, 27),
    # Landlock does not cover modes, owners, times and attributes of files.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
}
"""Refused besides where the child sees the machine's own processes, files and queues (Landlock)."""

SCHEDULING: Numbers = {
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
"""The same for another process than the caller: it could slow the judge or the reference down."""

SIGNALS: Numbers = {
    "kill": (62, 129),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
"""Allowed to its own process only where Landlock cannot hold signals back (before ABI 6)."""

BY_DESCRIPTOR: Numbers = {"tkill": (200, 130), "pidfd_send_signal": (424, 424)}
"""Ways to send a signal whose receiver a filter cannot tell."""

FCNTL = (72, 25)
F_SETOWN, F_SETOWN_EX = 8, 15
FIOSETOWN, SIOCSPGRP = 0x8901, 0x8902
"""Ways to have the kernel signal another process when something can be read."""
NETWORK: Numbers = {"socket": (41, 198), "bind": (49, 200), "connect": (42, 203)}
"""The network, and every other way to another process through a socket. socketpair has a rule of its own."""
SENDING: Numbers = {"sendmsg": (46, 211), "sendmmsg": (307, 269)}
"""Ways to send to an address that a filter cannot read."""
SENDTO = (44, 206)
CLONE = (56, 220)
CLONE3 = (435, 435)
IOCTL = (16, 29)
SOCKETPAIR = (53, 199)
PRLIMIT = (302, 261)
PRCTL = (157, 167)
SETPRIORITY = (141, 140)
IOPRIO_SET = (251, 30)

Instruction = tuple[int, int, int, int]


def supported() -> bool:
    """Return whether there is a filter for this machine's processor."""
    return kernel.LINUX and platform.machine() in AUDIT_ARCH and struct.calcsize("P") == 8


class Sockets(Enum):
    """Which sockets a child may make. CUDA makes and binds a local one when it starts (seen with driver 580)."""

    NONE = "none"
    LOCAL = "local"
    """Local ones that reach nobody: neither connected nor sent to by address."""
    CONNECTED = "connected"
    """Local ones, connected too; only in a network namespace of its own, for tools that talk to what they watch."""


def program(
    machine: str,
    pid: int,
    *,
    shared: bool,
    hold_signals: bool,
    pin_threads: bool,
    sockets: Sockets = Sockets.NONE,
) -> list[Instruction]:
    """Return the filter as instructions (code, jump if true, jump if false, constant).

    Parameters
    ----------
    machine
        `x86_64` or `aarch64`.
    shared
        Whether it sees the machine's own processes and files.
    hold_signals
        Whether signals must be held back here.
    pin_threads
        Whether it may set the processors of its threads (a thread cannot be told from a foreign process).
    """
    which = 0 if machine == "x86_64" else 1
    deny, nosys = ERRNO | EPERM, ERRNO | ENOSYS
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        code += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, deny)]

    def refuse(table: Numbers, answer: int) -> None:
        for numbers in table.values():
            if numbers[which] is not None:
                code.extend([(EQUAL, 0, 1, numbers[which] or 0), (RETURN, 0, 0, answer)])

    def rule(numbers: tuple[int | None, int | None], body: list[Instruction]) -> None:
        """Append instructions for one call; each path through `body` must end in a return."""
        if numbers[which] is not None:
            code.extend([(EQUAL, 0, len(body), numbers[which] or 0), *body])

    rule(CLONE, [(LOAD, 0, 0, _low(0)), (ANY_BIT, 0, 1, NEW_NAMESPACE), _end(deny), _end(ALLOW)])
    rule(CLONE3, [_end(nosys)])
    requests = [TIOCSTI, TIOCLINUX, *([FIOSETOWN, SIOCSPGRP] if hold_signals else [])]
    rule(IOCTL, _none_of(1, requests, deny))
    # A datagram pair could be sent on to any other socket by its address, so only connected kinds.
    rule(
        SOCKETPAIR,
        [
            (LOAD, 0, 0, _low(0)),
            (EQUAL, 0, 4, AF_UNIX),
            (LOAD, 0, 0, _low(1)),
            (MASK, 0, 0, 0xF),
            (EQUAL, 2, 0, SOCK_STREAM),
            (EQUAL, 1, 0, SOCK_SEQPACKET),
            _end(deny),
            _end(ALLOW),
        ],
    )
    rule(PRLIMIT, _only(0, (0, pid), deny))
    if sockets is Sockets.NONE:
        refuse(NETWORK, deny)
    else:
        rule(NETWORK["socket"], _only(0, (AF_UNIX,), deny))
    if sockets is Sockets.LOCAL:
        refuse({"connect": NETWORK["connect"], **SENDING}, deny)
        # Both halves of the pointer to an address must be zero.
        rule(
            SENDTO,
            [
                (LOAD, 0, 0, _low(4)),
                (EQUAL, 0, 3, 0),
                (LOAD, 0, 0, _low(4) + 4),
                (EQUAL, 0, 1, 0),
                _end(ALLOW),
                _end(deny),
            ],
        )
    refuse(DENIED, deny)
    if shared:
        refuse(SHARED, deny)
        for name, numbers in SCHEDULING.items():
            if not (pin_threads and name == "sched_setaffinity"):
                rule(numbers, _only(0, (0, pid), deny))
        # Whoever is below it stays there.
        rule(PRCTL, _none_of(0, (PR_SET_CHILD_SUBREAPER,), deny))
        rule(SETPRIORITY, _only(1, (0, pid), deny))
        rule(IOPRIO_SET, _only(1, (0, pid), deny))
    if hold_signals:
        for numbers in SIGNALS.values():
            rule(numbers, _only(0, (pid,), deny))
        rule(FCNTL, _none_of(1, (F_SETOWN, F_SETOWN_EX), deny))
        refuse(BY_DESCRIPTOR, deny)
    code.append(_end(ALLOW))
    return code


def _low(argument: int) -> int:
    """Return the offset of an argument's low 32 bits (little-endian)."""
    return 16 + 8 * argument


def _end(answer: int) -> Instruction:
    return (RETURN, 0, 0, answer)


def _only(argument: int, values: Iterable[int], answer: int) -> list[Instruction]:
    """Return a body that allows a call if an argument is one of `values`."""
    values = list(values)
    tests = [(EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [(LOAD, 0, 0, _low(argument)), *tests, _end(answer), _end(ALLOW)]


def _none_of(argument: int, values: Iterable[int], answer: int) -> list[Instruction]:
    """Return a body that refuses a call if an argument is one of `values`."""
    return [*_only(argument, values, ALLOW)[:-1], _end(answer)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install(*, shared: bool, hold_signals: bool, sockets: Sockets = Sockets.NONE) -> None:
    """Put the filter on this process and all it will start, for good. Needs no-new-privileges.

    Raises
    ------
    OSError
        The kernel refuses, or there is no filter for this processor.
    """
    machine = platform.machine()
    if not supported():
        raise OSError(ENOSYS, f"no seccomp filter for {machine}")
    # libgomp and others pin each thread they make when the user asked for it, and stop if they cannot.
    pinned = any(name in os.environ for name in ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"))
    code = program(machine, os.getpid(), shared=shared, hold_signals=hold_signals, pin_threads=pinned, sockets=sockets)
    packed = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    filled = _Program(len(code), ctypes.cast(buffer, ctypes.c_void_p))
    number = 317 if machine == "x86_64" else 277
    result = kernel.syscall(number, SET_MODE_FILTER, TSYNC | SPEC_ALLOW, ctypes.byref(filled))
    if result != 0:
        raise OSError(abs(result), f"seccomp: {os.strerror(abs(result))}")
