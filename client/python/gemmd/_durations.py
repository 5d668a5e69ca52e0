"""Seconds that callers give."""

from __future__ import annotations

import math
from typing import Any

from gemmd import errors

# A deadline that is further away is none: clocks count nanoseconds in 63 bits, which is 292 years from 1970.
_MOST_DEADLINE = 100 * 365 * 86400.0
MOST_LEASE = 315_576_000_000  # google.protobuf.Duration's limit


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except OverflowError:  # an int
        number = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; it must be a number of seconds, or None") from None
    if math.isnan(number):
        raise ValueError(f"{name} is {value!r}; it must be a number of seconds, or None")
    return number


def deadline_of(value: Any) -> float | None:
    """Seconds until a deadline; None: never. DeadlineExceeded: it has passed."""
    if value is None:
        return None
    seconds = _number("deadline", value)
    if seconds <= 0:
        raise errors.DeadlineExceeded(f"deadline is {value} seconds: it has passed")
    return None if seconds > _MOST_DEADLINE else seconds


def lease_of(value: Any) -> float | None:
    """Seconds of a lease; None: the server's default."""
    if value is None:
        return None
    seconds = _number("lease", value)
    if not 0 <= seconds <= MOST_LEASE:
        raise ValueError(f"lease is {value!r}; it must be 0 to {MOST_LEASE} seconds, or None")
    return seconds
