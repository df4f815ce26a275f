"""Whether an environment that was found, and not named by the user, may be run: who else could have put it there.

What counts is who owns the environment's files and who else may write them. The program that its `python` links to may
belong to anybody, as long as not everybody may write it: whoever made the link chose it, and on a cluster it belongs to
whoever looks after the software there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

FOREIGN_MODES = frozenset({"9p", "drvfs", "vfat", "exfat", "msdos", "ntfs", "ntfs3", "fuseblk", "vboxsf", "prl_fs"})
"""File systems that keep no modes: what they show of every file comes from how they were mounted."""


def objection(folder: str, python: str) -> str:
    """Return why an environment is not to be run, empty if it may be."""
    if os.name != "posix":
        return ""
    try:
        for path in _inside(folder, python):
            if trouble := _trouble(path, os.lstat(path)):
                return trouble
        program = os.stat(python)
    except OSError as error:
        return f"{error.filename or folder} cannot be looked at ({error.strerror})"
    if _for_everybody(os.path.realpath(python), program):
        return f"everybody may write {os.path.realpath(python)}"
    return ""


def writable_by_others(folder: str) -> bool:
    """Whether somebody else may put things into a folder."""
    if os.name != "posix":
        return False
    try:
        return bool(_trouble(folder, os.stat(folder)))
    except OSError:
        return True


def _inside(folder: str, python: str) -> Iterator[str]:
    """Yield what decides which program is run and what it imports; links are yielded as well as what they lead to."""
    yield folder
    real = os.path.realpath(folder)
    if real != folder:
        yield real
    programs = os.path.join(real, os.path.relpath(os.path.dirname(python), folder))
    yield programs
    yield os.path.join(programs, os.path.basename(python))
    for name in ("pyvenv.cfg", "lib", "Lib"):
        if os.path.lexists(os.path.join(real, name)):
            yield os.path.join(real, name)
    for library in ("lib", "Lib"):
        place = os.path.join(real, library)
        versions = sorted(os.listdir(place)) if os.path.isdir(place) else []
        for version in (name for name in versions if name.startswith("python")):
            yield os.path.join(place, version)
            if os.path.isdir(packages := os.path.join(place, version, "site-packages")):
                yield packages


def _trouble(path: str, found: os.stat_result) -> str:
    if found.st_uid not in _own_users():
        return f"{path} belongs to {_user(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):
        return ""  # a link's mode means nothing
    if _for_everybody(path, found):
        return f"everybody may write {path}"
    if found.st_mode & stat.S_IWGRP and not _private(found.st_gid):
        return f"the group {_group(found.st_gid)} may write {path}"
    return ""


def _for_everybody(path: str, found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWOTH) and _filesystem(path) not in FOREIGN_MODES


def _own_users() -> frozenset[int]:
    users = {0, os.geteuid()}
    if os.geteuid() == 0 and (behind := os.environ.get("SUDO_UID", "")).isdigit():
        users.add(int(behind))
    return frozenset(users)


def _private(gid: int) -> bool:
    """Whether a group has no members but the user and root: many systems give each user one, and umask 002."""
    import grp
    import pwd

    own = _own_users()
    if gid == 0:
        return True
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return gid in own  # numbers without names, as in a container
    names = {_user(uid) for uid in own}
    if set(group.gr_mem) - names:
        return False
    if group.gr_name in names:
        return True
    primary = {user.pw_name for user in pwd.getpwall() if user.pw_gid == gid}
    # Where nobody is listed at all, users come from a directory that does not tell who else there is.
    return bool(primary or group.gr_mem) and primary <= names


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _filesystem(path: str) -> str:
    """Return the type of the file system that holds a path, empty if it is not known."""
    real, best, kind = os.path.realpath(path), "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ") for line in file]
    except OSError:
        return ""
    for mount in mounts:
        place = mount[1].replace("\\040", " ")
        inside = real == place or real.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, mount[2]
    return kind
