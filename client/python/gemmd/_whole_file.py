"""Files written whole or not at all, as base/file/write_file.h has them."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable

_MOST_OF_NAME = 200  # of a temporary file's, which is no longer than a name may be


def write(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Writes the parts one after another into a file beside it, which then takes its place.

    The file keeps its mode; a symbolic link stays, and what it leads to is replaced. Whoever has the old file open
    or mapped keeps that one. After an error the old file is as it was, and no other is there.
    """
    target = os.path.realpath(path)
    old = os.stat(target) if os.path.exists(target) else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise ValueError(f"{path}: is no regular file, which another could replace")
    if old is not None and not os.access(target, os.W_OK):  # a rename would not ask
        raise PermissionError(f"{path}: may not be written")
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f"{name[:_MOST_OF_NAME]}.{secrets.token_hex(4)}")
    mode = 0o666 if old is None else old.st_mode & 0o700  # until it is made alike, its owner's alone
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            for part in parts:
                _write_all(file.fileno(), memoryview(part))
            if old is not None:
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
