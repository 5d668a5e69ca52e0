"""W3C's Trace Context (https://www.w3.org/TR/trace-context/), checked as strictly as the server reads it."""

from __future__ import annotations

import re

from gemmd._header import NO_TRACE, TraceHeaders

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]*)?")
_MEMBER = re.compile(r"([a-z0-9][a-z0-9_\-*/@]{0,255})=([ -+\--<>-~]{0,255}[!-+\--<>-~])")
_MOST_CHARACTERS, _MOST_MEMBERS = 512, 32


def trace_headers(traceparent: str | None, tracestate: str | None) -> TraceHeaders:
    """ValueError names the argument, its value and what is wrong."""
    if not traceparent:
        if tracestate:
            raise ValueError("tracestate goes with traceparent, which is not given")
        return NO_TRACE
    found = _TRACEPARENT.fullmatch(traceparent)
    if (
        found is None
        or found[1] == "ff"
        or (found[1] == "00" and found[4] is not None)
        or not found[2].strip("0")
        or not found[3].strip("0")
    ):
        raise ValueError(
            f"traceparent is {traceparent!r}; it must be VERSION-TRACE-PARENT-FLAGS of 2, 32, 16 and 2 hex digits "
            "in lower case, neither trace nor parent zero, and ff is no version"
        )
    if tracestate:
        _check_state(tracestate)
    return TraceHeaders(traceparent, tracestate or "")


def _check_state(tracestate: str) -> None:
    members = [each.strip(" ") for each in tracestate.split(",") if each.strip(" ")]
    found = [_MEMBER.fullmatch(each) for each in members]
    keys = [each[1] for each in found if each is not None and each[1].count("@") < 2]
    if (
        len(tracestate) > _MOST_CHARACTERS
        or len(members) > _MOST_MEMBERS
        or len(keys) != len(members)
        or len(set(keys)) != len(keys)
    ):
        raise ValueError(
            f"tracestate is {tracestate[:80]!r}; it must be KEY=VALUE,... of {_MOST_CHARACTERS} characters and "
            f"{_MOST_MEMBERS} members at most, no key twice"
        )
