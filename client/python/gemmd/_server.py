"""One server of a client: its connections, and what was measured there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gemmd import _route
from gemmd._carrier import Carrier
from gemmd._channel import Link
from gemmd._cpus import usable_cpus
from gemmd._encoded import Encoded
from gemmd._health import HealthWatch
from gemmd._library import Library
from gemmd._route import Route, RouteInput, RouteOptions
from gemmd._stream import SessionPool

if TYPE_CHECKING:
    from gemmd._engine import Call


class Server:
    """A link, its sessions, and products under way. Thread-safe.

    users: attempts of any kind, counted by whoever chooses among several servers. watch: None where this is the
    only one.
    """

    def __init__(self, link: Link, library: Library | None = None) -> None:
        self.link = link
        self.name = link.address
        self.sessions = SessionPool(link)
        self.carrier = None if library is None else Carrier(library, link)
        self.max_channels = min(8, usable_cpus())
        self.bytes_per_s = 0.0
        self.can_stream = True
        self.calls: set[Call] = set()
        self.users = 0
        self.watch: HealthWatch | None = None

    @property
    def in_flight(self) -> int:
        """Products under way."""
        return len(self.calls)

    def choose(self, encoded: Encoded, options: RouteOptions) -> Route:
        """The way of a product that is counted as under way."""
        if encoded.d is None and encoded.payload_bytes <= _route.UNARY_BYTES:
            return Route()  # little or nothing travels: a stream could do no better
        return _route.choose(
            options,
            RouteInput(
                encoded.payload_bytes,
                encoded.result_bytes,
                self.in_flight - 1,
                self.bytes_per_s,
                self.max_channels,
                self.can_stream,
            ),
        )

    def measure(self, receipt: Any, count: int, round_trip: float, channels: int) -> None:
        """Learns the rate of a connection of a product that travelled alone."""
        if count < 1 << 20:
            return
        elsewhere_us = sum(each.exposed_us for each in receipt.stages if each.name in (3, 5))
        seconds = round_trip - elsewhere_us * 1e-6
        self.bytes_per_s = _route.update_rate(self.bytes_per_s, count, seconds, channels)

    def met_deadline(self, since: float) -> None:
        """A call that began at `since` did: those that follow must not wait on the same dead connection."""
        if self.link.leave_if_silent(since):
            self.sessions.leave()
            if self.carrier is not None:
                self.carrier.leave()
            if self.watch is not None:
                self.watch.leave()

    def close(self) -> None:
        """Ends every connection, and what is under way over it."""
        if self.watch is not None:
            self.watch.close()
        self.sessions.close()
        if self.carrier is not None:
            self.carrier.close()
        self.link.close()
