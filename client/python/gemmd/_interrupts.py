"""Ctrl-C, and what other signals raise, kept away from gRPC's locks.

Python runs a signal's handler in the main thread between any two instructions, and so too where a Condition of
gRPC's or of the standard library's has just been taken: if the handler raises, it stays taken, and whoever needs it
next waits for ever. Hence the main thread waits on a bare lock, which is safe; or in gRPC, while what handlers
raise is held back.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]
Came = tuple[Handler, int, FrameType | None]

_POLL_SECONDS = 0.1

# Those by which programs are interrupted, ended and timed.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGHUP)


def _is_main() -> bool:
    # current_thread() would make an object for each thread that is not Python's own.
    return threading.get_ident() == threading.main_thread().ident


@contextlib.contextmanager
def _taken(take: Callable[[Came], None]) -> Iterator[None]:
    """take() gets the signals that come in this block, instead of their handlers. Nothing in other threads."""
    handlers: dict[int, Handler] = {}
    if _is_main():
        found = ((each, signal.getsignal(each)) for each in _SIGNALS)
        handlers = {number: handler for number, handler in found if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: take((handlers[number], number, frame)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Runs signals' handlers at the end of the block, which must be short."""
    came: list[Came] = []
    try:
        with _taken(came.append):
            yield
    finally:
        for handler, number, frame in came:
            handler(number, frame)


@contextlib.contextmanager
def ended_by(give_up: Callable[[], None]) -> Iterator[None]:
    """Raises at the end of the block what a signal's handler raised in it; give_up() then ends what it waits for.

    give_up() is called in another thread, and takes whatever locks it wants.
    """
    raised: list[BaseException] = []

    def take(came: Came) -> None:
        handler, number, frame = came
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            with contextlib.suppress(RuntimeError):  # the interpreter ends, and begins no threads
                # Not threading's, which takes a lock that this thread may have.
                _thread.start_new_thread(give_up, ())

    try:
        with _taken(take):
            yield
    finally:
        if raised:
            raise raised.pop(0) from None


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
    if poll is None and not _is_main():
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
