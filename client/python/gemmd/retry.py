"""When a failed call is tried again, and after how long: values, no clocks, no gRPC.

The rules are those of the C++ library's client/retry.h.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from gemmd import errors

_MOST = 1e9  # seconds, or times: beyond it is a slip of the hand


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently a client tries; all times in seconds.

    The backoff after attempt n is initial_backoff * multiplier**(n-1), at most max_backoff, times a factor
    drawn from 1 - jitter to 1 + jitter. A server's pushback is kept exactly; one longer than max_pushback
    ends the call. Without one no attempt begins later than `patience` after the first that failed.

    Eight attempts wait 0.05, 0.1, 0.2, 0.4, 0.8, 1.6 and 2 seconds, and never beyond the call's deadline: a server
    that is back within 4 seconds is no error, and one that is not there is told after some 5. The logger "gemmd"
    has a warning as soon as no connection could be made.
    """

    max_attempts: int = 8  # the first included; 1 never retries
    initial_backoff: float = 0.05
    multiplier: float = 2.0
    max_backoff: float = 2.0
    jitter: float = 0.2
    max_pushback: float = 60.0
    patience: float = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ValueError(f"max_attempts is {self.max_attempts!r}; it must be a whole number from 1 on")
        for name in ("initial_backoff", "multiplier", "max_backoff"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= _MOST:
                raise ValueError(f"{name} is {value!r}; it must be 0 to {_MOST:g}")
        for name in ("max_pushback", "patience"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not (0 <= value <= _MOST or value == math.inf):
                raise ValueError(f"{name} is {value!r}; it must be 0 to {_MOST:g}, or infinite")
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is {self.jitter!r}; it must be 0 to 1")


@dataclass(frozen=True)
class Pushback:
    """What the server said about trying again: after `seconds`, or not at all (`forbidden`)."""

    seconds: float | None = None
    forbidden: bool = False


NO_PUSHBACK = Pushback()
PUSHBACK_KEY = "grpc-retry-pushback-ms"


def parse_pushback(value: str | None) -> Pushback:
    """The trailing metadata's value: decimal milliseconds up to 2**31 - 1; anything else forbids."""
    if value is None:
        return NO_PUSHBACK
    if not (value.isascii() and value.isdigit()) or int(value) >= 2**31:
        return Pushback(forbidden=True)
    return Pushback(seconds=int(value) / 1000)


def late(error: errors.DeadlineExceeded, first: errors.Error | None) -> errors.DeadlineExceeded:
    """The error with what failed before, which is why the time did not suffice."""
    if first is None or first is error:
        return error
    told = errors.DeadlineExceeded(f"{error.message}; the first attempt ended with {first}")
    told.__cause__ = first
    return told


def _backoff(policy: RetryPolicy, attempts: int) -> float:
    try:
        return min(policy.initial_backoff * policy.multiplier ** (attempts - 1), policy.max_backoff)
    except OverflowError:  # after some thousand attempts
        return policy.max_backoff if policy.initial_backoff > 0 else 0.0


def retry_delay(
    policy: RetryPolicy,
    attempts: int,
    code: str,
    pushback: Pushback,
    seconds_left: float | None,
    seconds_failing: float = 0.0,
    draw: random.Random | None = None,
    elsewhere: bool = False,
) -> float | None:
    """Seconds to wait before the next attempt; None where there must be none.

    attempts: made so far, the failed one included.
    seconds_left: until the call's deadline; None for a call without one.
    seconds_failing: since the first attempt failed.
    elsewhere: the next attempt goes to another server, and so waits for nothing after UNAVAILABLE.

    None where the code is neither UNAVAILABLE nor RESOURCE_EXHAUSTED, where RESOURCE_EXHAUSTED came without a
    pushback (it will not pass), where the server forbade it or asked for more than max_pushback, where the
    attempts are used up, or where the wait would reach the deadline.
    """
    if code not in ("UNAVAILABLE", "RESOURCE_EXHAUSTED") or attempts >= policy.max_attempts:
        return None
    if pushback.forbidden:
        return None
    waits = code == "RESOURCE_EXHAUSTED" or not elsewhere
    delay = 0.0
    if pushback.seconds is not None:
        if waits:
            delay = pushback.seconds
        if delay > policy.max_pushback:
            return None
    elif code == "RESOURCE_EXHAUSTED":
        return None
    else:
        if waits:
            delay = _backoff(policy, attempts) * (draw or random).uniform(1 - policy.jitter, 1 + policy.jitter)
        if seconds_failing + delay > policy.patience:
            return None
    if seconds_left is not None and delay >= seconds_left:
        return None
    return delay
