"""Follows what a server says of itself by grpc.health.v1."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc

from gemmd import _messages, errors
from gemmd._channel import Link
from gemmd._fleet import Health

# Between two watches of a server. The second one waits for the connection, not for this.
_PAUSE = 1.0
# After these another watch would say no more. INVALID_ARGUMENT is of a channel that no server was found for.
_FINAL = (
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
)


class HealthWatch:
    """Connects, and again after each failure, on a thread of its own.

    A server whose connection breaks is not serving until it says so again. One that has no health service, or does
    not let this client ask, is unknown. `told` is called by one thread; at most once more after close().
    """

    def __init__(self, link: Link, told: Callable[[Health], None]) -> None:
        self._link = link
        self._told = told
        self._lock = threading.Lock()
        self._call: Any = None
        self._was_left = False
        self._over = threading.Event()
        threading.Thread(target=self._run, name="gemmd-health", daemon=True).start()

    def leave(self) -> None:
        """The link has another connection now: what the old one says counts no more."""
        with self._lock:
            self._was_left = True
            call = self._call
        if call is not None:
            call.cancel()

    def close(self) -> None:
        """Ends it; the thread ends soon."""
        self._over.set()
        with self._lock:
            call = self._call
        if call is not None:
            call.cancel()

    def _run(self) -> None:
        while not self._over.is_set():
            code = self._watch()
            if self._over.is_set():
                return
            with self._lock:
                was_left, self._was_left = self._was_left, False
            if was_left:
                continue
            self._told(Health.NOT_SERVING if code is grpc.StatusCode.UNAVAILABLE else Health.UNKNOWN)
            if code in _FINAL or self._over.wait(_PAUSE):
                return

    def _watch(self) -> Any:
        """Follows until the call ends, and with which code it did."""
        try:
            call = self._link.watch()
        except (errors.ClosedError, errors.ForkedError):
            self._over.set()
            return None
        with self._lock:
            self._call = call
            is_over = self._over.is_set() or self._was_left
        if is_over:
            call.cancel()
        try:
            for message in call:
                self._link.hear()
                self._told(health_of(message))
        except grpc.RpcError as failed:
            return failed.code()
        finally:
            with self._lock:
                self._call = None
        return grpc.StatusCode.OK


def health_of(message: bytes) -> Health:
    """What a HealthCheckResponse says. One that is none does not say that the server serves."""
    try:
        response = _messages.HealthCheckResponse.FromString(message)
    except Exception:  # protobuf's DecodeError, whose place differs by version
        return Health.NOT_SERVING
    return Health.SERVING if response.status == response.SERVING else Health.NOT_SERVING
