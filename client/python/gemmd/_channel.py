"""A client's connections to its server, and the calls over them."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from gemmd import _fork, errors
from gemmd._status import error_of
from gemmd.retry import NO_PUSHBACK, Pushback

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # gRPC waits a second before it dials again, longer than all our own attempts take.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Each channel has a connection of its own: one carries far less than most networks.
    ("grpc.use_local_subchannel_pool", 1),
)

Pem = bytes | str | pathlib.Path  # PEM text as bytes, or the path of a file


@dataclass(frozen=True)
class Tls:
    """How the server is checked, and who this client is; PEM texts as bytes, or paths of files.

    Without root certificates the system's are used. Certificate and key go together.
    server_name: the name to check the server's certificate for, where it is not the address's.
    """

    root_certificates: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    server_name: str | None = None


def _read(pem: Pem | None) -> bytes | None:
    return pem if pem is None or isinstance(pem, bytes) else pathlib.Path(pem).read_bytes()


class Link:
    """One server's channels, made when they are wanted. Thread-safe.

    ForkedError from every method but close() in a child of the process that made it.
    """

    def __init__(self, address: str, tls: Tls | None, token: str | None, tenant: str | None) -> None:
        _fork.use_grpc()
        metadata = []
        if tenant:
            metadata.append(("gemmd-tenant", tenant))
        if token:
            metadata.append(("authorization", f"Bearer {token}"))
        for key, value in metadata:
            if any(not " " <= each <= "~" for each in value):
                raise ValueError(f"{'tenant' if key == 'gemmd-tenant' else 'token'} has characters that no "
                                 "header can carry")  # fmt: skip
        self.address = address
        self.metadata = tuple(metadata)
        self._options: tuple[tuple[str, Any], ...] = _OPTIONS
        self._credentials: Any = None
        if tls is not None:
            self._credentials = grpc.ssl_channel_credentials(
                _read(tls.root_certificates), _read(tls.key), _read(tls.certificate)
            )
            if tls.server_name:
                self._options += (("grpc.ssl_target_name_override", tls.server_name),)
        self._lock = threading.Lock()
        self._channels: list[Any] = []
        self._calls: dict[tuple[str, str], Any] = {}
        self._closed = False

    def channel(self, index: int = 0) -> Any:
        """The channel of that number. ClosedError after close()."""
        _fork.guard()
        with self._lock:
            if self._closed:
                raise errors.ClosedError("the client is closed")
            while len(self._channels) <= index:
                self._channels.append(
                    grpc.insecure_channel(self.address, options=self._options)
                    if self._credentials is None
                    else grpc.secure_channel(self.address, self._credentials, options=self._options)
                )
            return self._channels[index]

    def method(self, kind: str, name: str) -> Any:
        """A callable for a method of gemmd.v1 over the first channel: bytes in, bytes out."""
        channel = self.channel()
        found = self._calls.get((kind, name))
        if found is None:
            found = self._calls[kind, name] = getattr(channel, kind)(f"/gemmd.v1.{name}")
        return found

    def unary(
        self,
        name: str,
        request: bytes,
        timeout: float | None = None,
        track: Callable[[Any], None] = lambda _: None,
    ) -> tuple[bytes, None, Pushback] | tuple[None, errors.Error, Pushback]:
        """One call: the answer, or the error and the server's pushback. track() is given gRPC's call."""
        call = self.method("unary_unary", name).future(request, timeout=timeout, metadata=self.metadata)
        track(call)
        try:
            return call.result(), None, NO_PUSHBACK
        except grpc.RpcError as failed:
            return None, *error_of(failed)
        except grpc.FutureCancelledError:
            raise errors.Cancelled("the call was given up, or the client closed") from None

    def exchange(self, name: str, messages: Iterator[bytes], timeout: float | None, channel: int) -> Any:
        """A call that streams requests and gives one answer: gRPC's call."""
        method = self.channel(channel).stream_unary(f"/gemmd.v1.{name}")
        return method.future(messages, timeout=timeout, metadata=self.metadata)

    def close(self) -> None:
        """Ends every call and connection."""
        if _fork.is_forked():
            return
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, []
        for channel in channels:
            channel.close()
