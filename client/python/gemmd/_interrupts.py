"""Ctrl-C, kept away from gRPC's locks.

Python raises KeyboardInterrupt in the main thread between any two instructions, and so too where a Condition of
gRPC's or of the standard library's has just been taken: it stays taken, and whoever needs it next waits for ever.
Hence the main thread does nothing but wait on a bare lock, which is safe; what it has to do with gRPC it does
while the interrupt is put off, or in another thread.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Puts Ctrl-C off until the end of the block, which must be short. Nothing in other threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # nothing is raised
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, came[0])


class Slot:
    """A result that another thread puts here, once, and one thread waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def put(self, result: Any, error: BaseException | None) -> None:
        """The result, or what went wrong."""
        self._result, self._error = result, error
        self._lock.release()

    def take(self, poll: Callable[[], None] | None = None) -> Any:
        """Waits for it and calls poll() now and then; Ctrl-C interrupts that."""
        if poll is None:
            self._lock.acquire()
        else:
            while not self._lock.acquire(timeout=_POLL_SECONDS):
                poll()
        if self._error is None:
            return self._result
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error  # which refers to this frame


def interruptibly(work: Callable[[], T], give_up: Callable[[], None], poll: Callable[[], None] | None = None) -> T:
    """work(), in another thread where this is the main one; Ctrl-C then calls give_up() and is raised.

    poll() is called in this thread meanwhile; what it raises gives up too.
    """
    if poll is None and threading.current_thread() is not threading.main_thread():
        return work()
    slot = Slot()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:
            slot.put(None, error)
        else:
            slot.put(found, None)

    try:
        with deferred():
            try:
                threading.Thread(target=run, name="gemmd-call", daemon=True).start()
            except RuntimeError:  # the interpreter ends, and begins no threads
                return work()
        result: T = slot.take(poll)
        return result
    except BaseException:  # Ctrl-C, what poll() raised, or what ended the work
        with deferred():
            give_up()
        raise
