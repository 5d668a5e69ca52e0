"""Tells the caller's function how far a big transfer is, or shows a bar where somebody looks.

Threads of gRPC's count bytes; the caller's own thread tells of them while it waits, so that what it calls may do
anything, and what that raises reaches the caller.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

_BAR_FROM_BYTES = 64 << 20

Progress = Callable[[int, int], None]  # bytes that went or came, and all that will


class Meter:
    """Tells of one transfer. count() and total() are what is known now, and may change on other threads."""

    def __init__(
        self, progress: Progress | None, what: str, count: Callable[[], int], total: Callable[[], int]
    ) -> None:
        self._progress = progress
        self._what = what
        self._count = count
        self._total = total
        self._told: int | None = None
        self._has_chosen = progress is not None
        self._close: Callable[[], None] = lambda: None

    def poll(self) -> None:
        """Tells how far it is, where that has changed. On the caller's thread."""
        total = self._total()
        if total:
            self._tell(min(self._count(), total), total)

    def end(self) -> None:
        """It is whole."""
        total = self._total()
        if total:
            self._tell(total, total)
        self.close()

    def close(self) -> None:
        """The bar goes."""
        self._close()

    def _tell(self, count: int, total: int) -> None:
        if not self._has_chosen:
            self._has_chosen = True
            self._progress, self._close = _bar(total, self._what)
        if self._progress is not None and count != self._told:
            self._told = count
            self._progress(count, total)


class Counter:
    """Bytes of a transfer by several threads, whose total the server may say."""

    def __init__(self, total: int = 0) -> None:
        self.count = 0
        self.total = total
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Counts that many more."""
        with self._lock:
            self.count += count

    def expect(self, total: int) -> Callable[[int], None]:
        """The total; what is to be told of bytes."""
        self.count, self.total = 0, total
        return self.add

    def meter(self, progress: Progress | None, what: str) -> Meter:
        """Tells of it."""
        return Meter(progress, what, lambda: self.count, lambda: self.total)


def _is_watched() -> bool:
    """Whether a bar would be seen: on a terminal, or in a notebook, whose standard error is none."""
    if sys.stderr and sys.stderr.isatty():
        return True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _bar(total: int, what: str) -> tuple[Progress | None, Callable[[], None]]:
    """A bar of tqdm's and what closes it; nothing for less than 64 MiB, and where nobody looks."""
    if total < _BAR_FROM_BYTES or not _is_watched():
        return None, lambda: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None, lambda: None
    shown: Any = tqdm(total=total, desc=what, unit="B", unit_scale=True, leave=False)
    return lambda count, _: shown.update(count - shown.n), shown.close
