"""One session of MatmulStream as this side sees it: requests, their chunks, and what goes over which stream.

A state machine without lock, thread, clock or socket: every event is a call, and what a call returns is who is
to be told of their end. The rules are those of the C++ library's client/stream/session_state.h:

  - A session has one or more streams. The first carries Begin and Cancel; chunks go over whichever stream asks
    first, so that a slow connection takes less.
  - What is small goes with its header. Few larger ones are begun before their payload is sent, and their
    payload waits until the server has memory for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from gemmd import _encoded, _framing, _messages, _status, errors
from gemmd._encoded import Assembly, Encoded
from gemmd.retry import NO_PUSHBACK, Pushback

# Large requests begun whose payload is still to go: the server keeps memory for them.
_MOST_UPLOADING = 4
# Limits of one message.
_MOST_BEGINS = 64
_MOST_BATCH_BYTES = 1 << 20

Done = Callable[[Any, errors.Error | None, Pushback], None]  # Finished or an error


class End(NamedTuple):
    """A request that has ended: `done` is to be called with the rest, outside any lock."""

    done: Done
    finished: Any
    error: errors.Error | None
    pushback: Pushback

    def tell(self) -> None:
        """Calls it."""
        self.done(self.finished, self.error, self.pushback)


class Request:
    """One product in a session. `timeout_us` is called when its Begin is written: 0 for no deadline."""

    __slots__ = ("accepted", "assembly", "awaits", "begun", "chunk_bytes", "done", "encoded", "finished",
                 "id", "offset", "plane", "timeout_us")  # fmt: skip

    def __init__(
        self, encoded: Encoded, chunk_bytes: int, unasked_bytes: int, timeout_us: Callable[[], int], done: Done
    ) -> None:
        self.encoded = encoded
        self.chunk_bytes = chunk_bytes
        self.timeout_us = timeout_us
        self.done = done
        self.awaits = encoded.payload_bytes > max(chunk_bytes, unasked_bytes)
        self.assembly = Assembly(encoded)
        self.id = 0
        self.begun = self.accepted = False
        self.finished: Any = None
        self.plane = self.offset = 0  # the next chunk begins there


class Session:
    """REQUIRES: calls one at a time."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._ready = [False] * streams  # chunks may go
        self._joined = [False] * streams
        self._ended = [False] * streams
        self._session = b""
        self._opened = streams == 1
        self._next_id = 1
        self._requests: dict[int, Request] = {}
        self._cancels: deque[int] = deque()
        self._small: deque[Request] = deque()
        self._large: deque[Request] = deque()
        self._sending: deque[Request] = deque()
        self._uploading = 0
        self._sends_batches = False
        self.is_refusing = False  # the last large request: others ask first
        self.reason: errors.Error | None = None  # why it has ended
        self.pushback = NO_PUSHBACK
        # Why nothing new begins, while what has begun goes on: the server drains.
        self._retired: tuple[errors.Error, Pushback] | None = None
        # The server refused a further stream, as behind a balancer: another session should have one.
        self.refused_streams = False
        self._ready[0] = True

    @property
    def is_accepting(self) -> bool:
        """Whether requests may start."""
        return self.reason is None and self._retired is None

    @property
    def in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._requests)

    def start(self, request: Request) -> None:
        """REQUIRES: is_accepting."""
        request.id = self._next_id
        self._next_id += 1
        if self._streams == 1 and not self.is_refusing:
            pass  # up to unasked_bytes go with the header, as its constructor found
        elif request.encoded.payload_bytes > request.chunk_bytes:
            request.awaits = True
        self._requests[request.id] = request
        (self._large if request.awaits else self._small).append(request)

    def cancel(self, request: Request, why: errors.Error) -> list[End]:
        """Ends it here at once, and tells the server."""
        ends = self._fail(request, why) if self._requests.get(request.id) is request else []
        return ends + self._end_if_drained()

    def wants(self, stream: int) -> bool:
        """Whether next() of that stream may have something."""
        return bool(self._sending or (stream == 0 and (self._small or self._large or self._cancels))) or not (
            self._joined[stream] if stream else self._opened
        )

    def next(self, stream: int) -> list[_framing.Bytes] | None:
        """The pieces of the next message over that stream; None where there is none now."""
        if self.reason is not None:
            return None
        if stream == 0:
            if not self._opened:
                self._opened = True
                return _encoded.open_message()
            if self._cancels:
                return _encoded.cancel_message(self._cancels.popleft())
            if self._small:
                return self._begin_small()
            if self._large and self._uploading < _MOST_UPLOADING:
                request = self._large.popleft()
                request.begun = True
                self._uploading += 1
                return _encoded.begin_message([self._begin(request)])
        elif self._session and not self._joined[stream]:
            self._joined[stream] = True
            return _encoded.join_message(self._session)
        return self._chunk() if self._ready[stream] and self._sending else None

    def received(self, stream: int, message: bytes) -> list[End]:
        """A message of the server's. What is none of the contract ends the session."""
        if self.reason is not None:
            return []
        try:
            rest, chunks = _framing.split(message)
            answer = _messages.MatmulStreamResponse.FromString(rest) if rest else None
        except Exception:  # BadMessage, or protobuf's DecodeError, whose place differs by version
            return self.broken(_encoded.bad_response("it is no MatmulStreamResponse"))
        ends: list[End] = []
        for chunk in chunks:
            ends += self._on_chunk(chunk)
        if answer is not None:
            ends += self._on_event(stream, answer)
        return ends + self._end_if_drained()

    def ended(self, stream: int, error: errors.Error, pushback: Pushback, was_cancelled: bool = False) -> list[End]:
        """The stream has ended, with that error. The session ends with it, and all its requests.

        But a server that drains ends all streams once it has sent what it had: what came over another one may
        still be on its way.
        """
        self._ended[stream] = True
        if self.reason is not None:
            return []
        if error.is_draining and self._others_end_too():
            self._retired = self._retired or (error, pushback)
            return self._end_if_drained()
        if self._retired is not None:
            return self.broken(*self._retired)
        # Proxies make CANCELLED of what the server ends early (HAProxy's mode http).
        is_refusal = error.was_cancelled or error.code in ("NOT_FOUND", "RESOURCE_EXHAUSTED")
        if stream > 0 and not self._ready[stream] and is_refusal:
            self.refused_streams = True
            error = errors.Unavailable(f"the server refused a session's further stream: {error.message}")
            pushback = NO_PUSHBACK
        return self.broken(error, pushback)

    def _others_end_too(self) -> bool:
        # One that is joining may come to a session that has ended.
        each_is_in = all(ready or ended for ready, ended in zip(self._ready, self._ended, strict=True))
        return each_is_in and not all(self._ended)

    def _end_if_drained(self) -> list[End]:
        return self.broken(*self._retired) if self._retired is not None and not self._requests else []

    def retire(self, why: errors.Error) -> list[End]:
        """Nothing new begins; what has begun goes on."""
        self._retired = self._retired or (why, NO_PUSHBACK)
        return self._end_if_drained()

    def broken(self, reason: errors.Error, pushback: Pushback = NO_PUSHBACK) -> list[End]:
        """Ends the session and everything in it, once."""
        if self.reason is not None:
            return []
        self.reason, self.pushback = reason, pushback
        ends = [End(each.done, None, reason, pushback) for each in self._requests.values()]
        self._requests.clear()
        for waiting in (self._small, self._large, self._sending):
            waiting.clear()
        self._cancels.clear()
        return ends

    def _begin(self, request: Request) -> tuple[int, list[_framing.Bytes]]:
        return _encoded.begin_content(request.encoded, request.id, request.timeout_us(), request.awaits)

    def _begin_small(self) -> list[_framing.Bytes]:
        begins: list[tuple[int, list[_framing.Bytes]]] = []
        count = 0
        most = _MOST_BEGINS if self._sends_batches else 1
        while self._small and len(begins) < most:
            size = self._small[0].encoded.payload_bytes
            if begins and count + size > _MOST_BATCH_BYTES:
                break
            request = self._small.popleft()
            request.begun = True
            begins.append(self._begin(request))
            count += size
        return _encoded.begin_message(begins)

    def _chunk(self) -> list[_framing.Bytes]:
        request = self._sending[0]
        plane = request.encoded.planes[request.plane]
        begin = request.offset
        end = min(begin + request.chunk_bytes, len(plane.data))
        request.offset = end
        request.encoded.moved_bytes += end - begin
        if end == len(plane.data):
            request.plane += 1
            request.offset = 0
            if request.plane == len(request.encoded.planes):
                self._sending.popleft()
                self._uploading -= 1
        return _encoded.chunk_message(request.id, plane, begin, end)

    def _on_event(self, stream: int, answer: Any) -> list[End]:
        event = answer.WhichOneof("event")
        if event == "batch":
            self._sends_batches = True
            ends: list[End] = []
            for finished in answer.batch.finished:
                ends += self._on_finished(finished)
            return ends
        if event == "finished":
            return self._on_finished(answer.finished)
        if event == "accepted":
            request = self._requests.get(answer.accepted.request_id)
            if request is not None and request.awaits and not request.accepted:
                request.accepted = True
                self.is_refusing = False
                self._sending.append(request)
            return []
        if event == "opened":
            self._session = answer.opened.session
            return []
        if event == "joined":
            self._ready[stream] = True
            return []
        return []  # an event of a later version

    def _on_chunk(self, chunk: _framing.Chunk) -> list[End]:
        request = self._requests.get(chunk.request_id)
        if request is None:
            return []  # of a request that was cancelled
        wrong = request.assembly.place(chunk.operand, chunk.plane, chunk.offset, chunk.data)
        if wrong is not None:
            return self._fail(request, wrong)
        return self._end_if_whole(request)

    def _on_finished(self, finished: Any) -> list[End]:
        request = self._requests.get(finished.request_id)
        if request is None:
            return []
        if finished.code != 0:
            self._remove(request)
            if finished.code == 8 and request.encoded.payload_bytes > request.chunk_bytes:
                self.is_refusing = True
            error, pushback = _status.finished_error(finished)
            return [End(request.done, None, error, pushback)]
        request.finished = finished
        wrong = request.assembly.check(finished.receipt, finished.d)
        for chunk in finished.payload:
            wrong = wrong or request.assembly.place(chunk.operand, chunk.plane, chunk.offset_bytes, chunk.data)
        return self._fail(request, wrong) if wrong else self._end_if_whole(request)

    def _end_if_whole(self, request: Request) -> list[End]:
        if request.finished is None or not request.assembly.is_whole:
            return []
        self._remove(request)
        return [End(request.done, request.finished, None, NO_PUSHBACK)]

    def _fail(self, request: Request, why: errors.Error) -> list[End]:
        if request.begun and request.finished is None:
            self._cancels.append(request.id)
        self._remove(request)
        return [End(request.done, None, why, NO_PUSHBACK)]

    def _remove(self, request: Request) -> None:
        del self._requests[request.id]
        if not request.begun:
            (self._large if request.awaits else self._small).remove(request)
        elif request.awaits and request.plane < len(request.encoded.planes):
            self._uploading -= 1
            if request.accepted and request in self._sending:
                self._sending.remove(request)
