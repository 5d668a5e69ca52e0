"""Products on their way: attempts, waits between them, refills, deadlines, cancellation.

A Call lives on callbacks alone, so that one thread can have thousands under way; Engine is what the calls of a
client share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from gemmd import _encoded, _fork, _framing, _messages, _route, errors
from gemmd._carrier import Carried, Carrier
from gemmd._encoded import Assembly, Encoded
from gemmd._header import seconds_of
from gemmd._names import Given
from gemmd._route import Route, RouteOptions
from gemmd._server import Server
from gemmd._servers import ANY, Plan, Servers, plan_of
from gemmd._session import Request
from gemmd._split import Part
from gemmd._status import error_of
from gemmd._stream import StreamSession
from gemmd._timer import Alarm, Timer
from gemmd.receipt import ClientTimes
from gemmd.retry import NO_PUSHBACK, Pushback, RetryPolicy, late, retry_delay

__all__ = ["Call", "Engine", "Outcome", "seconds_of"]

_MOST_REFILLS = 8
_METHOD = "Gemm/Matmul"
# Where a session ends as soon as it begins, another is tried at once, but not time and again.
_MOST_SESSIONS = 3

# Brings back what that server lacks, or learns what has a name there now, and may block: true where it did, so that
# asking again may help.
Refill = Callable[[Server, errors.Error, float | None], bool]


class Outcome:
    """What a product brought: the server's Receipt, its handle where it stays there, and what this side saw.

    server: the address of the one of several that made it; else empty. part: of a product that was split.
    """

    __slots__ = ("handle", "part", "plane", "receipt", "route", "server", "times")

    def __init__(
        self, receipt: Any, handle: str, plane: Any, times: ClientTimes, route: Route, server: str
    ) -> None:
        self.receipt = receipt
        self.handle = handle
        self.plane = plane
        self.times = times
        self.route = route
        self.server = server
        self.part: Part | None = None


Done = Callable[[Outcome | None, BaseException | None], None]


class Engine:
    """What the calls of a client share: its servers, a timer, and names that it gave. Thread-safe."""

    def __init__(self, servers: Servers, retry: RetryPolicy, route: RouteOptions) -> None:
        self.servers = servers
        self.retry = retry
        self.route = route
        self.timer = Timer()
        self.given = Given()
        # Few: they wait for the server most of the time. For uploads that a refill takes.
        self.helpers = ThreadPoolExecutor(4, thread_name_prefix="gemmd-helper")
        self.can_batch = True  # each of the servers
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._closed = False
        # The Client that has it, for what products make.
        self.owner: Callable[[], Any] = lambda: None
        _fork.hold_in_child(self)

    def begin(self, call: Call) -> None:
        """A product is under way. ClosedError after close()."""
        with self._lock:
            if self._closed:
                raise errors.ClosedError("the client is closed")
            self._calls.add(call)

    def end(self, call: Call) -> None:
        """It no longer is."""
        with self._lock:
            self._calls.discard(call)

    def delay_after(
        self,
        server: Server | None,
        error: errors.Error,
        pushback: Pushback,
        attempts: int,
        left: float | None,
        failing: float,
        elsewhere: bool = False,
    ) -> float | None:
        """What retry_delay() says; the log has where the server cannot be reached.

        server: that the attempt was made at; None: there was none. elsewhere: the next one goes to another.
        """
        delay = retry_delay(self.retry, attempts, error.code, pushback, left, failing, elsewhere=elsewhere)
        # A certificate that is not trusted may be one server's alone.
        if delay is None or not (error.may_retry or elsewhere):
            return None
        if server is not None:
            seconds = self.retry.patience if left is None else min(self.retry.patience, left)
            again = f"trying again for up to {seconds:.3g} s"
            server.link.tell_unreachable(error, "asking another server" if elsewhere else again)
        return delay

    def close(self) -> None:
        """Ends what is under way. Safe to call in a forked child, where it does nothing."""
        if _fork.is_forked():
            return
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for call in calls:
            call.stop(errors.Cancelled("the client was closed"))
        self.timer.close()
        self.helpers.shutdown(wait=False)
        self.servers.close()


class Call:
    """One product; `done` is called once, on any thread, with its outcome or with what went wrong."""

    def __init__(
        self,
        engine: Engine,
        encoded: Encoded,
        seconds: float | None,
        done: Done,
        refill: Refill | None = None,
        options: RouteOptions | None = None,
        begun: float | None = None,
        first: str = "",
        avoided: tuple[str, ...] = (),
    ) -> None:
        _fork.guard()
        self._engine = engine
        self._encoded = encoded
        self._refill = refill
        self._options = options or engine.route
        plan = plan_of_product(encoded) if engine.servers.want_plans else ANY
        self._tour = engine.servers.tour(plan._replace(first=first, avoided=avoided) if first or avoided else plan)
        self._server: Server | None = None  # of the present attempt, or of the last one
        self._done: Done | None = done
        self._begun = begun or time.perf_counter()
        self._encode = time.perf_counter() - self._begun
        self._since = time.monotonic()
        self._deadline = None if seconds is None else self._since + seconds
        self._lock = threading.Lock()
        self._cancelled: errors.Error | None = None
        self._rpc: Any = None
        self._session: StreamSession | None = None
        self._request: Request | None = None
        self._alarms: list[Alarm] = []
        self._attempts = 0
        self._failures = 0  # but for those that missed operands
        self._refills = 0
        self._first: errors.Error | None = None  # that an attempt ended with
        self._failed = 0.0  # when it did
        self._waited = 0.0
        self._started = 0.0
        self._route = Route()
        self._alone = False
        self._is_left = False  # the first attempt, to run()
        engine.begin(self)
        if seconds is not None:
            self._alarms.append(engine.timer.after(seconds, self._expire))

    def start(self, here: bool = False) -> bool:
        """Begins the first attempt, or leaves it to run() and returns True where `here` and one call carries it.

        What cannot be sent ends at once.
        """
        self._is_left = here
        try:
            self._attempt()
        except BaseException as error:
            self._end(None, error)
        return self._is_left and self._done is not None

    def run(self) -> None:
        """Makes the attempt that start() left; cancel(), in another thread, ends it.

        A call by future() takes a thread of its own in gRPC, and a blocking one cannot be cancelled. One that
        streams a single answer is the same to a server.
        """
        self._is_left = False
        server = self._there()
        try:
            rpc = self._method("unary_stream")(_encoded.unary_message(self._encoded), **self._of_call())
            self._track(rpc)
            answer = next(rpc, b"")
            received = time.perf_counter()
            next(rpc, None)  # its status
        except grpc.RpcError as failed:
            self._track(None)
            self._on_error(failed)
        except Exception as error:
            self._end(None, error)
        else:
            self._track(None)
            server.link.hear()
            self._take(answer, received)

    def cancel(self) -> None:
        """Ends it with Cancelled, here at once and at the server soon. Nothing if it has ended."""
        self.stop(errors.Cancelled("cancelled by its caller"))

    def _expire(self) -> None:
        self.stop(errors.DeadlineExceeded("the deadline passed before the product was here"))

    def stop(self, why: errors.Error) -> None:
        """Ends it with that error, as cancel() does."""
        with self._lock:
            if self._done is None or self._cancelled is not None:
                return
            self._cancelled = why
            rpc, session, request = self._rpc, self._session, self._request
        if rpc is not None:
            rpc.cancel()
        elif session is not None and request is not None:
            session.cancel(request, why)
        self._end(None, why)

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def _timeout_us(self) -> int:
        left = self._seconds_left()
        return 0 if left is None else max(1, int(left * 1e6))

    def _attempt(self) -> None:
        """At a server that is chosen for it."""
        if self._done is None:
            return
        try:
            server = self._tour.begin()
        except errors.Error as error:  # there is none
            self._attempts += 1
            self._is_left = False
            self._move(None)
            self._go_on(error, NO_PUSHBACK)
            return
        self._move(server)
        if self._done is None:  # stop() may have come before there was a server to leave
            self._leave(server)
            return
        self._attempt_there()

    def _move(self, server: Server | None) -> None:
        if server is self._server:
            return
        if self._server is not None:
            self._server.calls.discard(self)
        self._server = server
        if server is not None:
            server.calls.add(self)

    def _attempt_there(self) -> None:
        if self._done is None:
            return
        server = self._there()
        self._attempts += 1
        self._started = time.perf_counter()
        self._alone = server.in_flight == 1
        options = self._options
        # A proxy can spread calls, not what a stream brings.
        if server.link.affinity_header and self._tour.plan.digest and options.transport == "auto":
            options = options._replace(transport="unary")
        if server.carrier is not None and options.may_carry:
            self._is_left = False
            self._attempt_carried(server.carrier, options)
            return
        self._route = server.choose(self._encoded, options)
        if self._route.transport != "unary":
            self._is_left = False
            self._attempt_stream(server)
        elif not self._is_left:
            self._attempt_unary()

    def _there(self) -> Server:
        """REQUIRES: an attempt has begun."""
        assert self._server is not None
        return self._server

    def _leave(self, server: Server) -> None:
        server.calls.discard(self)
        self._tour.leave()

    def _method(self, kind: str) -> Any:
        return self._there().link.method(kind, _METHOD)

    def _of_call(self) -> dict[str, Any]:
        metadata = (
            *self._there().link.metadata(self._tour.plan.digest),
            *self._encoded.options.trace.metadata(),
        )
        return {"timeout": self._seconds_left(), "metadata": metadata}

    def _attempt_unary(self) -> None:
        rpc = self._method("unary_unary").future(_encoded.unary_message(self._encoded), **self._of_call())
        self._track(rpc)
        rpc.add_done_callback(self._on_unary)

    def _track(self, rpc: Any) -> None:
        """What stop() cancels from now on, or None; at once where it has been called."""
        with self._lock:
            self._rpc = rpc
            stopped = self._cancelled is not None
        if stopped and rpc is not None:
            rpc.cancel()

    def _on_unary(self, rpc: Any) -> None:
        received = time.perf_counter()
        self._track(None)
        try:
            answer = rpc.result()
        except grpc.FutureCancelledError:
            self._end(None, self._cancelled or errors.Cancelled("the client was closed"))
            return
        except grpc.RpcError as failed:
            self._on_error(failed)
            return
        self._there().link.hear()
        self._take(answer, received)

    def _on_error(self, failed: grpc.RpcError) -> None:
        error, pushback = error_of(failed)
        self._there().link.hear(error)
        self._fail(error, pushback)

    def _take(self, answer: bytes, received: float) -> None:
        """The answer of the one call."""
        encoded = self._encoded
        try:
            rest, chunks = _framing.split(answer)
            response = _messages.MatmulResponse.FromString(rest)
        except Exception:  # as in Session.received()
            self._end(None, _encoded.bad_response("it is no MatmulResponse"))
            return
        with self._lock:
            if self._cancelled is not None:
                return  # its caller may use `out` for something else by now
            wrong = _placed(encoded, response, chunks)
        if wrong is not None:
            self._end(None, wrong)
        else:
            self._succeed(response, received)

    def _attempt_carried(self, carrier: Carrier, options: RouteOptions) -> None:
        carried = carrier.prepare(self._encoded, options, self._timeout_us(), self._on_carried)
        self._track(carried)
        carrier.begin(carried)
        if self._cancelled is not None:  # perhaps before there was anything to cancel
            carried.cancel()

    def _on_carried(
        self, carried: Carried, answer: bytes, route: Route, failed: tuple[errors.Error, Pushback] | None
    ) -> None:
        received = time.perf_counter()
        self._track(None)
        self._route = route
        if self._cancelled is not None:  # which is why it failed, perhaps
            self._end(None, self._cancelled)
            return
        self._there().link.hear(None if failed is None else failed[0])
        if failed is not None:
            self._fail(*failed)
            return
        response = _messages.MatmulResponse.FromString(answer)
        with self._lock:
            if self._cancelled is not None:
                return  # as in _take()
            carried.place()
        self._encoded.moved_bytes = self._encoded.payload_bytes + self._encoded.result_bytes
        self._succeed(response, received)

    def _attempt_stream(self, server: Server) -> None:
        self._encoded.header()  # what cannot be a header is told here, and not on the writing thread
        for _ in range(_MOST_SESSIONS):
            session = server.sessions.get(self._route.channels)
            self._route = self._route._replace(channels=session.channels)
            request = Request(
                self._encoded,
                self._route.chunk_bytes,
                _route.UNASKED_BYTES,
                self._timeout_us,
                self._on_stream,
            )
            with self._lock:
                if self._cancelled is not None:
                    return
                self._session, self._request = session, request
            if session.start(request):
                if self._cancelled is not None:
                    session.cancel(request, self._cancelled)
                return
        self._on_stream(None, *session.end)

    def _on_stream(self, finished: Any, error: errors.Error | None, pushback: Pushback) -> None:
        received = time.perf_counter()
        server = self._there()
        with self._lock:
            self._session = self._request = None
        if error is None:
            self._succeed(finished, received)
        elif (
            error.code == "UNIMPLEMENTED"
            and self._options.transport == "auto"
            and "method" in error.message.lower()
        ):
            server.can_stream = False  # an older one; nothing of this was received, nor of others in the session
            self._try(self._attempt_there)
        else:
            self._fail(error, pushback)

    def _succeed(self, answer: Any, received: float) -> None:
        now = time.perf_counter()
        round_trip = received - self._started
        receipt = answer.receipt
        server = self._there()
        times = ClientTimes(
            attempts=self._attempts,
            refills=self._refills,
            encode=self._encode,
            waited=self._waited,
            round_trip=round_trip,
            decode=now - received,
            total=now - self._begun,
            wire=max(0.0, round_trip - receipt.total_us * 1e-6),
        )
        if self._alone and not self._route.by_library and server.in_flight == 1:
            count = self._encoded.payload_bytes + self._encoded.result_bytes
            server.measure(receipt, count, round_trip, self._route.channels)
        self._tour.end(None)
        self._tour.learn(answer.handle)
        name = server.name if self._tour.is_one_of_several else ""
        self._end(Outcome(receipt, answer.handle, answer.d, times, self._route, name), None)

    def _fail(self, error: errors.Error, pushback: Pushback) -> None:
        if self._done is None:
            return
        error = _encoded.refusal_of(self._encoded, error)
        if self._may_refill(error):
            self._help(self._fill, error, pushback)
        else:
            self._go_on(error, pushback)

    def _may_refill(self, error: errors.Error) -> bool:
        if self._refill is None or self._refills >= _MOST_REFILLS:
            return False
        if self._tour.is_one_of_several and (error.missing_handles or error.missing_names):
            return False  # another server may have what is missing besides
        return error.code in ("NOT_FOUND", "INVALID_ARGUMENT")

    def _go_on(self, error: errors.Error, pushback: Pushback) -> None:
        """Another attempt, or the end."""
        self._tour.end(error)
        if self._tour.may_search(error):
            self._help(self._again)
            return
        self._failures += 1
        now = time.monotonic()
        if self._first is None:
            self._first, self._failed = error, now
        left, failing = self._seconds_left(), now - self._failed
        delay = self._engine.delay_after(
            self._server, error, pushback, self._failures, left, failing, self._tour.has_other
        )
        if delay is None:
            self._end(None, error)
            return
        self._waited += delay
        # Not on the timer's thread: an attempt may wait for a lock, or join much payload.
        self._alarms.append(self._engine.timer.after(delay, lambda: self._help(self._again)))

    def _fill(self, error: errors.Error, pushback: Pushback) -> None:
        try:
            filled = self._refill is not None and self._refill(self._there(), error, self._seconds_left())
        except BaseException as failed:
            failed.__cause__ = failed.__cause__ or error
            if self._tour.is_one_of_several and isinstance(failed, errors.Error):
                self._try(self._go_on, failed, NO_PUSHBACK)
            else:  # it was tried again, and there is no other server
                self._end(None, failed)
            return
        if filled:
            self._refills += 1
            self._try(self._attempt_there)
        else:
            self._try(self._go_on, error, pushback)

    def _again(self) -> None:
        self._try(self._attempt)

    def _try(self, step: Callable[..., None], *arguments: Any) -> None:
        try:
            step(*arguments)
        except BaseException as error:
            self._end(None, error)

    def _help(self, step: Callable[..., None], *arguments: Any) -> None:
        try:
            self._engine.helpers.submit(step, *arguments)
        except RuntimeError:
            self._end(None, errors.Cancelled("the client was closed"))

    def _end(self, outcome: Outcome | None, error: BaseException | None) -> None:
        with self._lock:
            done, self._done = self._done, None
            alarms, self._alarms = self._alarms, []
        if done is None:
            return
        for alarm in alarms:
            alarm.cancel()
        server = self._server
        if server is not None:
            self._leave(server)
        self._engine.end(self)
        if isinstance(error, errors.DeadlineExceeded):
            if server is not None:
                server.met_deadline(self._since)
            error = late(error, self._first)
            if server is not None and self._tour.is_one_of_several:
                error.server = server.name
        self._first = None  # whose traceback may refer to this
        done(outcome, error)


def plan_of_product(encoded: Encoded) -> Plan:
    """The server that a product wants. B comes first: weights that many products share are right factors."""
    a, b, c, bias = encoded.specs()[0]
    return plan_of(*(each.place for each in (b, a, c, bias) if each is not None), server=encoded.server)


def _placed(encoded: Encoded, response: Any, chunks: list[_framing.Chunk]) -> errors.Error | None:
    """Copies the one call's result to where it belongs; what is wrong with it, if anything."""
    assembly = Assembly(encoded)
    wrong = assembly.check(response.receipt, response.d)
    for chunk in chunks:
        wrong = wrong or assembly.place(chunk.operand, chunk.plane, chunk.offset, chunk.data)
    if wrong is None and not assembly.is_whole:
        wrong = _encoded.bad_response("some of D is missing")
    return wrong
