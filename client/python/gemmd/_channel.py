"""A client's connections to its server, and the calls over them."""

from __future__ import annotations

import logging
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from grpc.experimental import ChannelOptions

from gemmd import _fork, errors
from gemmd._address import Address
from gemmd._status import error_of
from gemmd.retry import NO_PUSHBACK, Pushback

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # gRPC waits a second and more before it dials again: a server that is back is found within these.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 10000),  # the time in which a connection must be made
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
    # A path that went silent is noticed while a call is open, however long nothing travels.
    ("grpc.keepalive_time_ms", 20000),
    ("grpc.keepalive_timeout_ms", 20000),
    ("grpc.http2.ping_timeout_ms", 20000),  # else gRPC 1.85 waits a minute
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # Each channel has a connection of its own: one carries far less than most networks.
    ("grpc.use_local_subchannel_pool", 1),
    # A call that streams answers is driven by whoever reads them, without a thread of its own.
    (ChannelOptions.SingleThreadedUnaryStream, 1),
)

# Says which operand a call is about, for proxies that spread calls by it: the digest in hexadecimal.
_AFFINITY_HEADER = "gemmd-affinity"

# Calls that met their deadlines while nothing came for so many seconds may have been on a dead path.
_SILENCE = 1.0

_log = logging.getLogger("gemmd")

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

    def read(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Root certificates, certificate and key, as PEM texts."""
        return _read(self.root_certificates), _read(self.certificate), _read(self.key)

    def loaded(self) -> Tls:
        """A Tls with the texts of its files, which may be gone when a later server is met."""
        return Tls(*self.read(), self.server_name)


def _read(pem: Pem | None) -> bytes | None:
    return pem if pem is None or isinstance(pem, bytes) else pathlib.Path(pem).read_bytes()


def check_token(address: Address, tls: Tls | None, token: str | None, plaintext_token: bool) -> None:
    """ValueError: the token would leave this host in plain text, which nobody asked for."""
    if token and tls is None and not address.stays_here and not plaintext_token:
        raise ValueError(
            f"token would be sent to {address.target} in plain text: give tls=, or plaintext_token=True"
        )


class Link:
    """One server's channels, made when they are wanted. Thread-safe.

    ForkedError from every method but close() in a child of the process that made it.
    """

    def __init__(
        self,
        address: Address,
        tls: Tls | None,
        token: str | None,
        tenant: str | None,
        plaintext_token: bool,
        affinity_header: bool = False,
    ) -> None:
        _fork.use_grpc()
        check_token(address, tls, token, plaintext_token)
        metadata = []
        if tenant:
            metadata.append(("gemmd-tenant", tenant))
        if token:
            metadata.append(("authorization", f"Bearer {token}"))
        for key, value in metadata:
            if any(not " " <= each <= "~" for each in value):
                raise ValueError(f"{'tenant' if key == 'gemmd-tenant' else 'token'} has characters that no "
                                 "header can carry")  # fmt: skip
        self.address = address.target
        self.tls, self.token, self.tenant = tls, token, tenant
        self.affinity_header = affinity_header
        self._metadata = tuple(metadata)
        self._options: tuple[tuple[str, Any], ...] = _OPTIONS
        if address.stays_here or tls is None:
            # A proxy would read what is not encrypted, and what stays here needs none. gRPC has a second kind,
            # which is for addresses.
            self._options += (("grpc.enable_http_proxy", 0), ("grpc.address_http_proxy_enabled_addresses", ""))
        self._credentials: Any = None
        if tls is not None:
            roots, certificate, private = tls.read()
            self._credentials = grpc.ssl_channel_credentials(roots, private, certificate)
            if tls.server_name:
                self._options += (("grpc.ssl_target_name_override", tls.server_name),)
        self._lock = threading.Lock()
        self._channels: list[Any] = []
        self._calls: dict[tuple[str, str], Any] = {}
        # Times: of the last answer, of the last leaving, and when the first call after both began that met its
        # deadline.
        self._heard = self._left = self._silent_since = 0.0
        self._told_unreachable = -1.0  # when the log was
        self._closed = False

    def metadata(self, digest: bytes = b"") -> tuple[tuple[str, str], ...]:
        """The metadata of a call; `digest` of the operand that it is about, if it has one."""
        if self.affinity_header and digest:
            return (*self._metadata, (_AFFINITY_HEADER, digest.hex()))
        return self._metadata

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

    def hear(self, error: errors.Error | None = None) -> None:
        """Something came from the server, unless the error is one that this side makes too."""
        if error is None or error.code not in ("DEADLINE_EXCEEDED", "UNAVAILABLE"):
            self._heard = time.monotonic()

    def tell_unreachable(self, error: errors.Error, goes_on: str) -> None:
        """Logs that no connection could be made, and how the call goes on; once until an answer comes."""
        with self._lock:
            if not error.is_unreachable or self._told_unreachable >= self._heard:
                return
            self._told_unreachable = time.monotonic()
        cause = error.message.rpartition(": ")[2]  # behind the layers that it came through
        _log.warning("%s does not answer (%s); %s", self.address, cause, goes_on)

    def leave_if_silent(self, since: float) -> bool:
        """For a call that began at `since` and met its deadline: whether later calls get other connections.

        They do where nothing has come for some time. The old ones end with the calls that they have.
        """
        with self._lock:
            if since <= max(self._heard, self._left):
                return False
            if self._silent_since <= max(self._heard, self._left):
                self._silent_since = since
            if time.monotonic() - self._silent_since < _SILENCE:
                return False
            self._left = time.monotonic()
            self._channels = []
            self._calls = {}
        return True

    def method(self, kind: str, name: str) -> Any:
        """A callable for a method of gemmd.v1 over the first channel: bytes in, bytes out."""
        channel = self.channel()
        found = self._calls.get((kind, name))
        if found is None:
            found = getattr(channel, kind)(f"/gemmd.v1.{name}")
            with self._lock:
                if self._channels and self._channels[0] is channel:
                    self._calls[kind, name] = found
        return found

    def unary(
        self,
        name: str,
        request: bytes,
        timeout: float | None = None,
        track: Callable[[Any], None] = lambda _: None,
        digest: bytes = b"",
    ) -> tuple[bytes, None, Pushback] | tuple[None, errors.Error, Pushback]:
        """One call: the answer, or the error and the server's pushback. track() is given gRPC's call."""
        metadata = self.metadata(digest)
        call = self.method("unary_unary", name).future(request, timeout=timeout, metadata=metadata)
        track(call)
        try:
            answer = call.result()
        except grpc.RpcError as failed:
            error, pushback = error_of(failed)
            self.hear(error)
            return None, error, pushback
        except grpc.FutureCancelledError:
            raise errors.Cancelled("the call was given up, or the client closed") from None
        self.hear()
        return answer, None, NO_PUSHBACK

    def exchange(
        self, name: str, messages: Iterator[bytes], timeout: float | None, channel: int, digest: bytes
    ) -> Any:
        """A call that streams requests and gives one answer: gRPC's call."""
        method = self.channel(channel).stream_unary(f"/gemmd.v1.{name}")
        return method.future(messages, timeout=timeout, metadata=self.metadata(digest))

    def watch(self) -> Any:
        """A call that tells the server's health whenever it changes: gRPC's call. It waits for a connection."""
        method = self.channel().unary_stream("/grpc.health.v1.Health/Watch")
        return method(b"", wait_for_ready=True, metadata=self.metadata())  # of the server as a whole

    def close(self) -> None:
        """Ends every call and connection."""
        if _fork.is_forked():
            return
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, []
        for channel in channels:
            channel.close()
