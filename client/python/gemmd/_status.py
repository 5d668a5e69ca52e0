"""The one conversion from gRPC's errors to this library's."""

from __future__ import annotations

import re
from typing import Any

import grpc

from gemmd import _messages, errors
from gemmd._tracebacks import let_go
from gemmd.retry import NO_PUSHBACK, PUSHBACK_KEY, Pushback, parse_pushback

_MISSING = "type.googleapis.com/gemmd.v1.MissingOperands"
_DRAINING = "type.googleapis.com/gemmd.v1.Draining"
# Marks of libgemmd's own.
_LASTING = "gemmd/client/lasting"
_UNREACHABLE = "gemmd/client/unreachable"
_PUSHBACK = "gemmd/client/retry_after_ms"
_SIZES = re.compile(r"\((\d+) vs\. (\d+)\)")
# gRPC's words where no connection could be made.
_NO_CONNECTION = re.compile("failed to connect to all addresses|^DNS resolution failed|^empty address list")
# gRPC's words for a connection that could not be made, of several versions, and their most likely cause. Trying
# again does not help where it is True.
_CAUSES = (
    (re.compile("certificate.verify.failed", re.I), True,
     "the server's certificate is of no authority that is trusted here, or is out of its time"),
    (re.compile("is not in peer certificate|Hostname Verification Check failed"), True,
     "the server's certificate has another name than the one it was called by; Tls(server_name=) expects that one "
     "if it is right"),
    (re.compile("wrong.version.number", re.I), True,
     "the server answers in plaintext, and was called with TLS"),
    (re.compile("Socket closed"), False,
     "the server ended the connection while it was made: it wants TLS, or a client certificate, or takes this one "
     "for expired, revoked or of an authority it does not know; its log says"),
    (re.compile("empty address list"), False,
     "the root certificates, or the client's certificate and key, are no PEM or do not belong together"),
)  # fmt: skip


def error_of(failed: Any) -> tuple[errors.Error, Pushback]:
    """The error that an RPC ended with, and what the server said about trying again.

    It has the RPC's code and message, with two exceptions. CANCELLED becomes UNAVAILABLE: this library tells its
    own cancellations apart, and a gRPC server says so to what reaches it while it shuts down. And gRPC's own
    refusal of a message over the limit becomes INVALID_ARGUMENT, because trying again cannot help.
    """
    let_go(failed)
    failed.__traceback__ = None  # gRPC raises the call itself, to which the frames refer that made it
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
    is_unreachable = number == 14 and _NO_CONNECTION.search(text) is not None
    text, may_retry = _explained(text) if is_unreachable else (text, True)
    error, _ = _made(number, text, details)
    error.retry_after = pause.seconds
    error.was_cancelled = code is grpc.StatusCode.CANCELLED
    error.may_retry = may_retry
    error.is_unreachable = is_unreachable
    return error, pause


def error_of_library(number: int, text: str, details: bytes) -> tuple[errors.Error, Pushback]:
    """The error that libgemmd ended an attempt with; `details` as gemmd_error_details() has them."""
    error, found = _made(number, text, details)
    pause = parse_pushback(found[_PUSHBACK].decode("ascii", "replace") if _PUSHBACK in found else None)
    error.retry_after = pause.seconds
    error.may_retry = _LASTING not in found
    error.is_unreachable = _UNREACHABLE in found
    return error, pause


def _made(number: int, text: str, details: bytes) -> tuple[errors.Error, dict[str, bytes]]:
    """An error, and its details by their types."""
    found = {each.type_url: each.value for each in _parsed(_messages.StatusDetails, details).details}
    lack = _parsed(_messages.MissingOperands, found.get(_MISSING, b""))
    error = errors.class_of(number)(
        text,
        missing_digests=list(lack.digests),
        missing_handles=list(lack.handles),
        missing_names=list(lack.names),
    )
    error.is_draining = _DRAINING in found
    return error, found


def _explained(text: str) -> tuple[str, bool]:
    """GRPC's words about a connection with their cause, and whether another attempt may help."""
    for words, is_final, cause in _CAUSES:
        if words.search(text):
            return f"{text}: {cause}", not is_final
    return text, True


def _over_the_limit(text: str) -> str:
    sizes = _SIZES.search(text)
    what = (
        f"the request is a message of {sizes[1]} bytes, but the server accepts at most {sizes[2]}"
        if sizes
        else f"the request is a message above the server's limit ({text})"
    )
    return f"{what}: inline operands are bounded by limits.message_bytes; stream it, or split the product"


def _parsed(kind: Any, data: bytes) -> Any:
    """The message; an empty one where the bytes are none."""
    try:
        return kind.FromString(data)
    except Exception as error:  # DecodeError, which is a ValueError in some versions of protobuf
        if isinstance(error, ValueError) or type(error).__name__ == "DecodeError":
            return kind()
        raise


def finished_error(finished: Any) -> tuple[errors.Error, Pushback]:
    """The error of one product over a stream, of its Finished."""
    seconds = finished.retry_after_ms / 1000 if finished.retry_after_ms else None
    error = errors.class_of(finished.code)(
        finished.message,
        retry_after=seconds,
        missing_digests=list(finished.missing.digests),
        missing_handles=list(finished.missing.handles),
        missing_names=list(finished.missing.names),
    )
    return error, Pushback(seconds=seconds) if seconds is not None else NO_PUSHBACK
