"""A product under way whose rows several servers compute."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmd import errors
from gemmd._encoded import Encoded
from gemmd._engine import Call, Engine, Outcome
from gemmd._fleet import ServerState
from gemmd._layout import Array
from gemmd._prepare import Prepared
from gemmd._regions import Region, Regions
from gemmd._route import RouteOptions
from gemmd._running import Running, Told
from gemmd._split import POLICY, Actions, Answer, Begin, SplitRun
from gemmd._timer import Alarm
from gemmd.resident import Resident


def serving(states: Sequence[ServerState]) -> list[str]:
    """The servers that parts may go to: those that serve, or all where none is known to; one at least."""
    able = [each.address for each in states if each.health != "not_serving" and not each.is_left_out]
    # A call to no server says why there is none.
    return able or [each.address for each in states] or [""]


class Splitting(Running):
    """As Running, of which each request computes some rows. An attempt is a Call, with its own retries."""

    def __init__(
        self,
        engine: Engine,
        regions: Regions,
        prepared: Prepared,
        seconds: float | None,
        told: Told,
        route: RouteOptions | None,
        begun: float,
        servers: Sequence[str],
    ) -> None:
        super().__init__(engine, regions, prepared, seconds, told, route, begun)
        self._run = SplitRun(POLICY, prepared.rows, servers)
        self._apart: dict[int, Array] = {}  # by attempt, the memory of those that do not write into D
        self._alarm: Alarm | None = None

    def start(self, here: bool = False) -> Call | None:
        """Begins; nothing is left to this thread."""
        with self._lock:
            actions = self._run.start(self._now())
        self._do(actions)
        return None

    def _now(self) -> float:
        return time.perf_counter() - self._begun

    def _do(self, actions: Actions) -> None:
        for attempt in actions.cancels:
            with self._lock:
                call = self._calls.get(attempt)
            if call is not None:
                call.cancel()
        for begin in actions.begins:
            self._begin(begin)
        self._conclude()

    def _begin(self, begin: Begin) -> None:
        try:
            call = self._call(begin)
        except BaseException as error:
            self._on_attempt(begin, None, error)
            return
        with self._lock:
            is_wanted = self._told is not None and self._run.is_wanted(begin.attempt)
            self._calls[begin.attempt] = call
        if is_wanted:
            call.start()
        else:  # another thread has ended the part meanwhile
            call.cancel()

    def _call(self, begin: Begin) -> Call:
        encoded = self._encoded(begin)
        has_refill = any(isinstance(each, Resident | Region) for each in encoded.keeps)
        return Call(
            self._engine,
            encoded,
            self._end.left,
            functools.partial(self._on_attempt, begin),
            functools.partial(self._refill, encoded.keeps) if has_refill else None,
            self._route,
            self._begun if begin.attempt == 0 else time.perf_counter(),
            begin.first,
            begin.avoided,
        )

    def _encoded(self, begin: Begin) -> Encoded:
        """Its rows of D are received where they lie, unless another attempt may be writing there."""
        with self._lock:
            is_alone = len(self._run.open(begin.part)) == 1
        if is_alone or self._prepared.apart is None:
            return self._prepared.encoded[begin.part]
        made = self._prepared.apart(self._prepared.rows[begin.part])
        assert made.d is not None  # it does not stay on the server
        with self._lock:
            self._apart[begin.attempt] = made.d
        return made

    def _on_attempt(self, begin: Begin, outcome: Outcome | None, error: BaseException | None) -> None:
        with self._lock:
            self._calls.pop(begin.attempt, None)
            if outcome is None:
                actions = self._run.fail(begin.attempt, error or errors.Cancelled("cancelled by its caller"))
            else:
                if self._run.is_wanted(begin.attempt):
                    self._outcomes[begin.part] = outcome
                answer = Answer(outcome.server, outcome.receipt.numerics_id)
                actions = self._run.succeed(begin.attempt, answer, self._now())
        self._do(actions)

    def _conclude(self) -> None:
        """Ends it where all has ended; else wakes when something may be due."""
        with self._lock:
            is_over = self._run.is_over
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None
            wake = self._run.next_wake
            if not is_over and self._told is not None and wake < math.inf:
                self._alarm = self._engine.timer.after(max(0.0, wake - self._now()), self._wake)
        if is_over:
            self._finish(self._run.error)

    def _wake(self) -> None:
        # Not on the timer's thread: an attempt may wait for a lock, or join much payload.
        try:
            self._engine.helpers.submit(self._hedge)
        except RuntimeError:  # the client was closed, which ends the calls
            return

    def _hedge(self) -> None:
        with self._lock:
            if self._told is None:
                return
            actions = self._run.wake(self._now())
        self._do(actions)

    def _make(self) -> Any:
        d = self._prepared.d
        assert d is not None
        for part, outcome in zip(self._run.parts, self._outcomes, strict=True):
            outcome.part = part
            apart = self._apart.get(part.winner)
            if apart is not None:
                np.copyto(d[slice(*part.rows)], apart)
        return super()._make()
