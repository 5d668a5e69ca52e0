"""Sessions over gRPC: _session.py with threads and sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from gemmd import _framing, errors
from gemmd._channel import Link
from gemmd._session import End, Request, Session
from gemmd._status import error_of
from gemmd.retry import NO_PUSHBACK, Pushback

_METHOD = "/gemmd.v1.Gemm/MatmulStream"
# The end of a stream with one of these codes holds for each of its requests; any other end is a broken connection.
_TELLING = (
    "INVALID_ARGUMENT",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
)


class StreamSession:
    """Thread-safe. Requests' ends are told on its reading threads, or on the thread that caused them.

    Each stream has a thread of gRPC's that writes, by pulling messages from here, and one that reads.
    """

    def __init__(self, link: Link, channels: int) -> None:
        self.channels = channels
        self._link = link
        self._lock = threading.Lock()
        self._state = Session(channels)
        self._wake = [threading.Condition(self._lock) for _ in range(channels)]
        self._calls: list[Any] = []
        for index in range(channels):
            method = link.channel(index).stream_stream(_METHOD)
            self._calls.append(method(self._outgoing(index), metadata=link.metadata()))
        for index, call in enumerate(self._calls):
            threading.Thread(target=self._read, args=(index, call), name="gemmd-stream", daemon=True).start()

    @property
    def is_accepting(self) -> bool:
        """Whether start() would take a request at this moment."""
        return self._state.is_accepting

    @property
    def end(self) -> tuple[errors.Error, Pushback]:
        """Why it takes no requests."""
        with self._lock:
            drained = errors.Unavailable("the server is draining")
            return self._state.reason or drained, self._state.pushback

    @property
    def refused_streams(self) -> bool:
        """The server takes sessions of one stream alone."""
        return self._state.refused_streams

    def start(self, request: Request) -> bool:
        """False, and nothing happened, where the session has ended."""
        with self._lock:
            if not self._state.is_accepting:
                return False
            self._state.start(request)
            self._wake[0].notify()
        return True

    def cancel(self, request: Request, why: errors.Error) -> None:
        """Ends the request with that error, and tells the server. Nothing if it has ended."""
        with self._lock:
            ends = self._state.cancel(request, why)
            self._wake[0].notify()
        _tell(ends)

    def retire(self) -> None:
        """Lets what is in it end, and itself then."""
        with self._lock:
            self._state.retire(errors.Unavailable("the session was left for another one"))
            self._wake_all()

    def close(self, why: errors.Error) -> None:
        """Ends everything in it. Its streams end soon."""
        with self._lock:
            ends = self._state.broken(why)
            self._wake_all()
        for call in self._calls:
            call.cancel()
        _tell(ends)

    def _wake_all(self) -> None:
        for each in self._wake:
            each.notify()

    def _outgoing(self, stream: int) -> Iterator[bytes]:
        wake = self._wake[stream]
        while True:
            with self._lock:
                while (pieces := self._state.next(stream)) is None:
                    if self._state.reason is not None:
                        return
                    wake.wait()
            yield _joined(pieces)
            del pieces  # not held while this waits

    def _read(self, stream: int, call: Any) -> None:
        error: errors.Error
        pushback = NO_PUSHBACK
        try:
            for message in call:
                self._link.hear()
                with self._lock:
                    try:
                        ends = self._state.received(stream, message)
                    except Exception as bug:  # nobody is to wait for a thread that is gone
                        ends = self._state.broken(errors.Internal(f"the client failed: {bug!r}"))
                    if self._state.reason is not None:
                        self._wake_all()
                    else:
                        for index, wake in enumerate(self._wake):
                            if self._state.wants(index):
                                wake.notify()
                _tell(ends)
                del message, ends  # not held, with the products' arrays, until the next one comes
            error = errors.Unavailable("the server ended the stream")
        except grpc.RpcError as failed:
            error, pushback = error_of(failed)
            if error.code not in (*_TELLING, *(["NOT_FOUND"] if stream else [])):
                error = errors.Unavailable(f"the stream broke: {error}")
        with self._lock:
            ends = self._state.ended(stream, error, pushback)
            is_over = self._state.reason is not None
            self._wake_all()
        for each in self._calls if is_over else []:
            if each is not call:
                each.cancel()
        _tell(ends)


def _joined(pieces: list[_framing.Bytes]) -> bytes:
    return b"".join(pieces)


def _tell(ends: list[End]) -> None:
    for end in ends:
        end.tell()


class SessionPool:
    """A client's sessions: opened when they are wanted, replaced when they have ended. Thread-safe."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._sessions: dict[int, StreamSession] = {}
        self._is_single = False
        self._closed = False

    def get(self, channels: int) -> StreamSession:
        """A session that accepted requests a moment ago, over so many connections or, if refused, one."""
        self._link.channel()
        with self._lock:
            if self._closed:
                raise errors.ClosedError("the client is closed")
            if self._is_single:
                channels = 1
            session = self._sessions.get(channels)
            if session is not None and session.refused_streams:
                self._is_single = True
                channels = 1
                session = self._sessions.get(1)
            if session is None or not session.is_accepting:
                session = self._sessions[channels] = StreamSession(self._link, channels)
            return session

    def leave(self) -> None:
        """Later requests get other sessions."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.retire()

    def close(self) -> None:
        """Ends them all."""
        with self._lock:
            self._closed = True
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close(errors.Cancelled("the client was closed"))
