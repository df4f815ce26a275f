"""The allow-list: what a Python with torch, and its compilers, need on this machine, and the nodes of its GPUs.

Never the home folder as such, never the user's project. An interpreter in the home is let in by its own
prefix only.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
)
"""World-readable by their nature: programs and libraries."""
SETTINGS = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/os-release",
)
"""What the dynamic linker, compilers and time zones look up. No users, no hosts, no keys."""
TOOLKITS = (
    "/usr/local/cuda",
    "/opt/cuda",
    "/opt/nvidia",
    "/usr/local/nvidia",
    "/usr/lib/wsl",
    "/run/opengl-driver/lib",
)
"""Where CUDA, its tools and the driver's libraries may lie."""
TOOLS = ("c++", "g++", "gcc", "cc", "clang++", "clang", "nvcc", "ninja", "ld", "as", "ptxas")
TOOLCHAIN = ("lib/gcc", "lib64/gcc", "libexec/gcc", "lib/clang", "nvvm", "conda-meta")
"""Folders by which a toolchain's prefix is known; let in alone where the prefix is too much to show."""
PREFIX = ("bin", "include", "lib", "lib64", "libexec", "share", "openssl", "pyvenv.cfg")
"""Parts of an interpreter's prefix. Not all of it: some people make a project's folder its virtual environment."""
PRIVATE = (".condarc", "condarc", "pip.conf", ".pypirc", ".netrc", ".env", ".git")
"""Files that may hold tokens of package indexes, never let in with a conda environment."""
SEARCHED = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables that name folders of libraries and headers."""
PACKAGES = ("torch", "triton", "numpy", "nvidia", "setuptools", "ninja")
"""Found wherever they are installed, also as an editable checkout."""
PLAIN = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Nodes that programs expect and that lead nowhere."""
NVIDIA = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
"""The driver's control nodes."""
WSL = "/dev/dxg"
"""The GPU under WSL2."""
MAX_LINKS = 40
"""Links followed for one path before it counts as a loop; the kernel's own bound."""


class Places(NamedTuple):
    """Paths taken apart for a file system that is built from nothing."""

    real: tuple[str, ...]
    """Existing files and folders without links in their paths, none inside another, sorted."""
    links: tuple[tuple[str, str], ...]
    """`(path, target)` of symbolic links outside `real` that lead there, sorted."""


def read_paths(more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return everything that a child under this interpreter may read, `more` included.

    Returns
    -------
    tuple[str, ...]
        Existing absolute paths; links are not resolved, see `resolve`.
    """
    found = [*_own(), *(os.path.abspath(path) for path in more)]
    return tuple(dict.fromkeys(path for path in found if os.path.lexists(path)))


@lru_cache(maxsize=1)
def _own() -> tuple[str, ...]:
    """Return what does not depend on the child."""
    judge = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    contract = os.path.join(os.path.dirname(judge), "contract")
    candidates = [
        *SYSTEM,
        *SETTINGS,
        *TOOLKITS,
        judge,
        contract,
        *_interpreter(),
        *packages(),
        *_libraries(),
        *_tools(),
    ]
    too_much = _too_much()
    return tuple(
        path for path in dict.fromkeys(candidates) if os.path.lexists(path) and os.path.realpath(path) not in too_much
    )


def _too_much() -> frozenset[str]:
    """Return folders that are never let in as a whole: the root, the homes, and all that is above them."""
    homes = {"/root", "/home", "/run", "/tmp", "/var", "/etc", "/mnt", "/media", "/srv", "/dev", "/proc", "/sys"}
    for home in _homes():
        homes.update(os.path.join(home, part) for part in ("", ".local/share", ".config", ".cache"))
    found = set()
    for home in homes:
        path = os.path.realpath(home)
        while path not in found:
            found.add(path)
            path = os.path.dirname(path)
    return frozenset(found)


def _homes() -> set[str]:
    """Return the user's home folders: the environment's, and the one on record."""
    homes = {os.path.expanduser("~")}
    # A system or a container may keep no record of this user.
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    return homes


def _interpreter() -> Iterator[str]:
    """Yield the interpreter, its prefixes and its library."""
    yield sys.executable
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for name in ("prefix", "base_prefix", "exec_prefix", "base_exec_prefix"):
        yield from _prefix(getattr(sys, name), version)
    yield from (path for name, path in sysconfig.get_paths().items() if name not in ("data", "scripts"))


def _prefix(prefix: str, version: str) -> Iterator[str]:
    """Yield the parts of an installation that make it work."""
    if os.path.realpath(prefix) in _too_much():
        # A prefix such as ~/.local is no reason to show all of it.
        yield from (os.path.join(prefix, folder, version) for folder in ("lib", "lib64", "include"))
    elif os.path.isdir(os.path.join(prefix, "conda-meta")):
        # Compilers and CUDA lie in folders named after the machine.
        yield from (os.path.join(prefix, name) for name in sorted(os.listdir(prefix)) if name not in PRIVATE)
    else:
        yield from (os.path.join(prefix, name) for name in PREFIX)


def packages() -> Iterator[str]:
    """Yield the folders of installed packages."""
    known = set(getattr(site, "getsitepackages", list)())
    if site.ENABLE_USER_SITE:
        known.add(site.getusersitepackages())
    for entry in sys.path:
        if entry in known or os.path.basename(entry) in ("site-packages", "dist-packages"):
            yield os.path.abspath(entry)
    for name in PACKAGES:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            continue
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield os.path.abspath(place)


def _libraries() -> Iterator[str]:
    """Yield where the dynamic linker looks besides the system's folders."""
    for name in SEARCHED:
        yield from (entry for entry in os.environ.get(name, "").split(os.pathsep) if os.path.isabs(entry))
    for conf in ("/etc/ld.so.conf", *sorted(glob.glob("/etc/ld.so.conf.d/*.conf"))):
        try:
            with open(conf, encoding="utf-8", errors="replace") as file:
                lines = [line.split("#")[0].strip() for line in file]
        except OSError:
            continue
        yield from (line for line in lines if line.startswith("/"))


def _tools() -> Iterator[str]:
    """Yield compilers and what belongs to them: `X/bin/g++` needs `X/lib`."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    yield from (home for home in homes if os.path.isabs(home))
    conda = os.environ.get("CONDA_PREFIX", "")
    if os.path.isdir(os.path.join(conda, "conda-meta")):
        yield from _prefix(conda, "")
    named = [word for name in ("CC", "CXX", "CUDAHOSTCXX") for word in os.environ.get(name, "").split()]
    for name in (*TOOLS, *named):
        found = shutil.which(name)
        if found is None:
            continue
        for path in (os.path.abspath(found), os.path.realpath(found)):
            yield path
            folder = os.path.dirname(path)
            if os.path.basename(folder) == "bin":
                prefix = os.path.dirname(folder)
                # A script of the user's own may be called g++ as well; what lies beside it is no toolchain.
                if any(os.path.isdir(os.path.join(prefix, part)) for part in TOOLCHAIN):
                    yield from (os.path.join(prefix, part) for part in TOOLCHAIN)
                    if os.path.realpath(prefix) not in _too_much():
                        beside = (name for name in sorted(os.listdir(prefix)) if name not in PRIVATE)
                        yield from (os.path.join(prefix, name) for name in beside)


def resolve(paths: Iterable[str]) -> Places:
    """Return the real places behind some paths, and the links on the way to them.

    A file system that binds the places and makes the links holds every path in `paths`. What does not exist
    is left out.
    """
    real: set[str] = set()
    links: dict[str, str] = {}
    for path in paths:
        end = _follow(os.path.abspath(path), links)
        if end is not None:
            real.add(end)
    tops = [path for path in sorted(real) if not any(inside(path, other) for other in real if other != path)]
    outside = [(path, links[path]) for path in sorted(links) if not any(inside(path, top) for top in tops)]
    return Places(tuple(tops), tuple(outside))


def inside(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it; both absolute and without links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _follow(path: str, links: dict[str, str]) -> str | None:
    """Return where `path` leads, noting each link on the way; None if nowhere."""
    done = "/"
    todo = [part for part in path.split("/") if part]
    hops = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            done = os.path.dirname(done)
            continue
        here = os.path.join(done, part)
        if not os.path.islink(here):
            done = here
            continue
        hops += 1
        if hops > MAX_LINKS:
            return None
        target = os.readlink(here)
        links[here] = target
        if target.startswith("/"):
            done = "/"
        todo = [piece for piece in target.split("/") if piece not in ("", ".")] + todo
    return done if os.path.exists(done) else None


def gpu_nodes() -> tuple[str, ...]:
    """Return the nodes (and the folder nvidia-caps) through which CUDA reaches the GPUs of this machine."""
    cards = sorted(glob.glob("/dev/nvidia[0-9]*"))
    nodes = [*NVIDIA, *cards, "/dev/nvidia-caps", WSL]
    return tuple(node for node in nodes if os.path.exists(node))


def gpu_present() -> bool:
    """Return whether the machine has an NVIDIA driver at all."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists(WSL)
