"""One thread that runs what is due: deadlines, waits between attempts, renewals of leases."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Alarm:
    """What will be run; cancel() forgets it."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None]) -> None:
        self.run: Callable[[], None] | None = run

    def cancel(self) -> None:
        """It is not run, unless that is happening already."""
        self.run = None


class Timer:
    """Thread-safe. Its thread begins with the first alarm. What it runs must be short."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, Alarm]] = []
        self._number = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, seconds: float, run: Callable[[], None]) -> Alarm:
        """Runs it once, so many seconds from now; never after close()."""
        alarm = Alarm(run)
        with self._condition:
            if self._closed:
                return alarm
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._number), alarm))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gemmd-timer", daemon=True)
                self._thread.start()
            if self._due[0][2] is alarm:
                self._condition.notify()
        return alarm

    def close(self) -> None:
        """Ends the thread. Safe to call from it."""
        with self._condition:
            self._closed = True
            self._due.clear()
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while self._due and self._due[0][2].run is None:
                    heapq.heappop(self._due)
                if self._closed:
                    return
                if not self._due:
                    self._condition.wait()
                    continue
                wait = self._due[0][0] - time.monotonic()
                if wait > 0:
                    self._condition.wait(min(wait, threading.TIMEOUT_MAX))
                    continue
                run = heapq.heappop(self._due)[2].run
            if run is not None:
                run()
            del run  # not held, with what it refers to, until the next one is due
