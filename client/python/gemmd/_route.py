"""Which way a product takes: one call, or a stream, and over how many connections.

A pure function of sizes and of what was measured, as the C++ library's client/route.h.
"""

from __future__ import annotations

import math
from typing import NamedTuple

UNARY_BYTES = 4 << 20
# Streamed over one connection, up to so much goes with its header, without asking first.
UNASKED_BYTES = UNARY_BYTES
STREAM_FROM_IN_FLIGHT = 4
SECONDS_PER_CHANNEL = 2e-3
UNKNOWN_BYTES_PER_S = 1e9
MIN_CHUNK_BYTES = 256 << 10
MAX_CHUNK_BYTES = 1 << 20


class Route(NamedTuple):
    """transport is "unary" or "stream"."""

    transport: str = "unary"
    channels: int = 1
    chunk_bytes: int = 0
    by_library: bool = False  # carried by libgemmd


class RouteOptions(NamedTuple):
    """What the caller insists on: transport "auto", "unary" or "stream"; 0 leaves a number to the rule.

    may_carry: libgemmd may have it, which does not tell of the bytes that have gone.
    """

    transport: str = "auto"
    channels: int = 0
    chunk_bytes: int = 0
    may_carry: bool = True


class RouteInput(NamedTuple):
    """What is known when a product is to be sent; sizes in bytes."""

    bytes_in: int
    bytes_out: int
    in_flight: int  # other products of this client
    bytes_per_s: float  # measured of one connection; 0: unknown
    max_channels: int
    can_stream: bool = True


def choose(options: RouteOptions, known: RouteInput) -> Route:
    """One call where neither direction is large and few others are under way; else a stream.

    Over as many connections as have SECONDS_PER_CHANNEL of work each, in chunks of a quarter of one's share.
    """
    larger = max(known.bytes_in, known.bytes_out)
    transport = options.transport
    if transport == "auto":
        is_small = larger <= UNARY_BYTES and options.channels <= 1
        is_quiet = known.in_flight < STREAM_FROM_IN_FLIGHT
        transport = "unary" if not known.can_stream or (is_small and is_quiet) else "stream"
    if transport == "unary":
        return Route()
    channels = options.channels
    if channels == 0:
        worth = larger / (known.bytes_per_s or UNKNOWN_BYTES_PER_S) / SECONDS_PER_CHANNEL
        channels = max(1, math.floor(min(worth, known.max_channels)))
    chunk = options.chunk_bytes or min(max(larger // channels // 4, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES)
    return Route("stream", channels, chunk)


def update_rate(bytes_per_s: float, count: int, seconds: float, channels: int) -> float:
    """The rate of one connection after `count` bytes took so long over so many; a moving average."""
    if count < 1 << 20 or seconds <= 0:
        return bytes_per_s
    measured = count / seconds / channels
    return bytes_per_s + 0.25 * (measured - bytes_per_s) if bytes_per_s else measured
