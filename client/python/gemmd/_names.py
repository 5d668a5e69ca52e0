"""Names that a tenant gives its matrices: which texts are names, and which of them this client gave."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any

from gemmd._header import Place

_MOST_BYTES = 255
_HANDLE = re.compile(r"[0-9a-fA-F]{8}-[0-9]+")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # ASCII's, as the server has it


def check_name(field: str, name: Any) -> None:
    """TypeError and ValueError, which name the field, where the server would refuse the name."""
    if not isinstance(name, str):
        raise TypeError(f"{field} is {name!r}; a name is a str")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{field} is {name!r}, which UTF-8 does not hold") from None
    if not 1 <= size <= _MOST_BYTES:
        raise ValueError(f"{field} has {size} bytes; a name has 1 to {_MOST_BYTES}")
    if _CONTROL.search(name):
        raise ValueError(f"{field} is {name!r}; a name has no control characters")
    if _HANDLE.fullmatch(name):
        raise ValueError(f"{field} is {name!r}; a name has not the form of a handle")
    if _DIGEST.fullmatch(name):
        raise ValueError(f"{field} is {name!r}; a name has not the form of a digest")


def check_naming(name: Any, replace: bool) -> None:
    """As check_name(), of what is uploaded: None is no name."""
    if name is not None:
        check_name("name", name)
    elif replace:
        raise ValueError("replace is set, and name is missing: what it takes is a name")


def place_of(text: Any) -> Place:
    """What a text calls a matrix by: "a1b2c3d4-7" is a handle, 64 hexadecimal digits a digest, all else a name."""
    if isinstance(text, str) and _HANDLE.fullmatch(text):
        return Place("handle", text)
    if isinstance(text, str) and _DIGEST.fullmatch(text):
        return Place("digest", bytes.fromhex(text))
    check_name("name", text)
    return Place("name", text)


def matches(pattern: str, name: str) -> bool:
    """Whether a name is like the pattern: "*" stands for any characters, "?" for one, brackets for themselves.

    In time of the two lengths' product, whatever the pattern is.
    """
    star, taken = -1, 0  # the last "*" that was met, and the end of what it stands for
    at = here = 0
    while here < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, taken = at, here
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[here]):
            at += 1
            here += 1
        elif star >= 0:
            taken += 1
            at, here = star + 1, taken
        else:
            return False
    return not pattern[at:].strip("*")


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Those that are like the pattern."""
    return [each for each in names if matches(pattern, each)]


class Given:
    """The names that a client gave, by the digest of the matrix: with it they come back. Thread-safe.

    What other clients do with a name since is not known here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._digests: dict[str, bytes] = {}

    def give(self, name: str, digest: bytes) -> None:
        """The matrix has the name, and no other one. A result, whose digest is empty, does not come back."""
        with self._lock:
            self._digests[name] = digest

    def forget(self, name: str) -> None:
        """No matrix is to get it back."""
        with self._lock:
            self._digests.pop(name, None)

    def forget_all(self, digest: bytes) -> None:
        """That matrix is to get back none."""
        with self._lock:
            self._digests = {name: each for name, each in self._digests.items() if each != digest}

    def of(self, digest: bytes) -> list[str]:
        """The names of a matrix."""
        with self._lock:
            return [name for name, each in self._digests.items() if each == digest]
