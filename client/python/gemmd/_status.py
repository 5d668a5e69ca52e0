"""The one conversion from gRPC's errors to this library's."""

from __future__ import annotations

import re
from typing import Any

import grpc

from gemmd import _messages, errors
from gemmd.retry import NO_PUSHBACK, PUSHBACK_KEY, Pushback, parse_pushback

_TYPE = "type.googleapis.com/gemmd.v1.MissingOperands"
_SIZES = re.compile(r"\((\d+) vs\. (\d+)\)")


def error_of(failed: Any) -> tuple[errors.Error, Pushback]:
    """The error that an RPC ended with, and what the server said about trying again.

    The same code and message, with two exceptions. CANCELLED becomes UNAVAILABLE: this library tells its own
    cancellations apart, and a gRPC server says so to what reaches it while it shuts down. And gRPC's own
    refusal of a message over the limit becomes INVALID_ARGUMENT, because trying again cannot help.
    """
    code: Any = failed.code() or grpc.StatusCode.UNKNOWN
    text = failed.details() or ""
    pushback: str | None = None
    details = b""
    for key, value in failed.trailing_metadata() or ():
        if key == PUSHBACK_KEY:
            pushback = value.decode("ascii", "replace") if isinstance(value, bytes) else value
        elif key == "grpc-status-details-bin":
            details = value
    pause = parse_pushback(pushback)
    number = code.value[0]
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "message larger than max" in text:
        number, text = 3, _over_the_limit(text)
    elif code is grpc.StatusCode.CANCELLED:
        number, text = 14, f"the server ended before it took the request: {text}"
    digests, handles = _missing_of(details)
    error = errors.class_of(number)(
        text, retry_after=pause.seconds, missing_digests=digests, missing_handles=handles
    )
    return error, pause


def _over_the_limit(text: str) -> str:
    sizes = _SIZES.search(text)
    what = (
        f"the request is a message of {sizes[1]} bytes, but the server accepts at most {sizes[2]}"
        if sizes
        else f"the request is a message above the server's limit ({text})"
    )
    return f"{what}: inline operands are bounded by limits.message_bytes; stream it, or split the product"


def _missing_of(details: bytes) -> tuple[list[bytes], list[str]]:
    if details:
        try:
            status = _messages.StatusDetails.FromString(details)
            for each in status.details:
                if each.type_url == _TYPE:
                    missing = _messages.MissingOperands.FromString(each.value)
                    return list(missing.digests), list(missing.handles)
        except ValueError:  # what protobuf's DecodeError is not on every version: both are caught below
            pass
        except Exception as error:
            if type(error).__name__ != "DecodeError":
                raise
    return [], []


def finished_error(finished: Any) -> tuple[errors.Error, Pushback]:
    """The error of one product over a stream, of its Finished."""
    seconds = finished.retry_after_ms / 1000 if finished.retry_after_ms else None
    error = errors.class_of(finished.code)(
        finished.message,
        retry_after=seconds,
        missing_digests=list(finished.missing.digests),
        missing_handles=list(finished.missing.handles),
    )
    return error, Pushback(seconds=seconds) if seconds is not None else NO_PUSHBACK
