"""Prepared products under way: one request, or a batch's one by one, of which some are in flight at a time."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemmd import _fork, errors
from gemmd._encoded import Encoded
from gemmd._engine import Call, Engine, Outcome
from gemmd._header import OperandSpec
from gemmd._prepare import Prepared
from gemmd._progress import Meter, Progress
from gemmd._regions import Region, Regions
from gemmd._route import RouteOptions
from gemmd._server import Server
from gemmd._transfer import Deadline, put_again
from gemmd.resident import Named, Resident
from gemmd.result import receipt_from, result_of

# Products of a batch in flight: enough to fill the server's launches, and few enough to begin without a wait.
_WINDOW = 64

# Is in the refusal of a product that describes a matrix otherwise than it is on the server.
_IS_OTHER = "the resident operand"

Told = Callable[[Any, BaseException | None], None]  # a Result, a Resident, or what went wrong


class Running:
    """`told` is called once, on any thread. cancel() ends it there and on the server."""

    def __init__(
        self,
        engine: Engine,
        regions: Regions,
        prepared: Prepared,
        seconds: float | None,
        told: Told,
        route: RouteOptions | None,
        begun: float,
    ) -> None:
        _fork.guard()
        self._engine = engine
        self._regions = regions
        self._end = Deadline(seconds)
        self._told: Told | None = told
        self._route = route
        self._begun = begun
        self._lock = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._put(prepared)

    def _put(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._outcomes: list[Any] = [None] * len(prepared.encoded)
        self._next = 0
        self._left = len(prepared.encoded)

    def start(self, here: bool = False) -> Call | None:
        """Begins. Where `here`, returns the only call if its first attempt is left to this thread, by run()."""
        if not self._prepared.encoded:
            self._finish(None)
            return None
        if not self._engine.can_batch and self._prepared.alone is not None:
            self._put(replace(self._prepared, encoded=self._prepared.alone(), alone=None))
        here = here and len(self._prepared.encoded) == 1
        left = None
        for _ in range(min(_WINDOW, len(self._prepared.encoded))):
            left = self._start_next(here)
        return left

    def meter(self, progress: Progress) -> Meter:
        """Tells of its bytes."""

        def total() -> int:
            return sum(each.payload_bytes + each.result_bytes for each in self._prepared.encoded)

        return Meter(progress, "product", lambda: sum(each.moved_bytes for each in self._prepared.encoded), total)

    def cancel(self) -> None:
        """Ends it with Cancelled, unless it has ended. Nothing is written into the result any more."""
        told = self._abandon()
        if told is not None:
            told(None, errors.Cancelled("cancelled by its caller"))

    def abandon(self) -> None:
        """As cancel(), and nobody is told."""
        self._abandon()

    def _abandon(self) -> Told | None:
        with self._lock:
            told, self._told = self._told, None
            calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call.cancel()
        return told

    def _start_next(self, here: bool = False) -> Call | None:
        with self._lock:
            index = self._next
            if self._told is None or index == len(self._prepared.encoded):
                return None
            self._next += 1
            encoded = self._prepared.encoded[index]
            keeps = encoded.keeps
            has_refill = any(isinstance(each, Resident | Region) for each in keeps)
            call = Call(
                self._engine,
                encoded,
                self._end.left,
                lambda outcome, error: self._on_end(index, outcome, error),
                functools.partial(self._refill, keeps) if has_refill else None,
                self._route,
                self._begun if index == 0 else time.perf_counter(),
            )
            self._calls[index] = call
        return call if call.start(here) else None

    def _on_end(self, index: int, outcome: Outcome | None, error: BaseException | None) -> None:
        if isinstance(error, errors.Unimplemented) and self._prepared.alone is not None:
            if error.field == "batch.count":  # the server is older; else it lacks what goes with this batch
                self._engine.can_batch = False
            self._go_alone(self._prepared.alone)
            return
        with self._lock:
            self._calls.pop(index, None)
            self._outcomes[index] = outcome
            self._left -= 1
            is_over = self._left == 0
        if error is not None or is_over:
            self._finish(error)
        elif self._next < len(self._prepared.encoded):
            self._start_next()

    def _go_alone(self, alone: Callable[[], Sequence[Encoded]]) -> None:
        """Asks for the products of a batch one by one, where the server does not take it."""
        try:
            every = alone()
        except BaseException as error:
            self._finish(error)
            return
        with self._lock:
            self._calls.clear()
            self._put(replace(self._prepared, encoded=every, alone=None))
        for _ in range(min(_WINDOW, len(every))):
            self._start_next()

    def _refill(self, keeps: tuple[Any, ...], server: Server, error: errors.Error, seconds: float | None) -> bool:
        """Uploads and registers what that server lacks and this process has, and asks what has a name there now."""
        done = False
        if error.code == "INVALID_ARGUMENT":
            named = [each for each in keeps if isinstance(each, Named)]
            changed = [each._follow(server, Deadline(seconds)) for each in named]
            # Unchanged: the name went, and came back.
            return any(changed) or (bool(named) and _IS_OTHER in error.message)
        if error.missing_digests or error.missing_handles or error.missing_names:
            for each in keeps:
                if isinstance(each, Resident) and each.source is not None and each.digest in error.missing_digests:
                    end = Deadline(seconds)
                    each._learn(put_again(self._engine, server, each.source, each.digest, end))
                    done = True
            return done
        for each in keeps:
            if isinstance(each, Region):
                self._regions.register_again(each)
                done = True
        return done

    def _finish(self, error: BaseException | None) -> None:
        if error is not None:
            told = self._abandon()
            if told is not None:
                told(None, error)
            return
        made: Any = None
        with self._lock:  # which cancel() takes: it returns when nothing is written any more
            told, self._told = self._told, None
            if told is None:
                return
            try:
                made = self._make()
            except BaseException as wrong:
                error = wrong
        told(made, error)

    def _make(self) -> Any:
        prepared = self._prepared
        if prepared.d is None:
            encoded, outcome = prepared.encoded[0], self._outcomes[0]
            return Resident(
                self._engine,
                OperandSpec(encoded.expected),
                outcome.handle,
                b"",
                receipt=receipt_from(outcome),
            )
        d = prepared.d.reshape(prepared.shape)
        if prepared.out is not None:
            np.copyto(prepared.out, d)
            d = prepared.out
        return result_of(d, self._outcomes)
