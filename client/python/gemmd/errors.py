"""What can go wrong: one class for each status of the server's, and two of this library's own.

    try:
        d = client.matmul(a, b)
    except gemmd.ResourceExhausted as error:
        time.sleep(error.retry_after or 1)

Every class has the server's code and message; `field` and `limit` are read out of the message, for a program
that wants to say more than the message does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FIELD = re.compile(r"^([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*) (?:is|has|are|in) ")
_LIMIT = re.compile(r"(?:at most|must be \d+ to|limit (?:is|of)|accepts at most) (\d+)")


class Error(Exception):
    """A call that failed for good; retries, where they help, have been made.

    code: the status's name, "NOT_FOUND".
    message: the server's own words.
    field: the field of the request that the message is about ("a.data.rows"), None where it names none.
    limit: the limit that was exceeded, in the field's unit; None where the message names none.
    retry_after: seconds after which the server would be asked again; None where it did not say.
    missing_digests, missing_handles, missing_names: resident operands that the server does not have.
    server: the address of the server that it is of, where the client has several; else empty.
    """

    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        missing_digests: Sequence[bytes] = (),
        missing_handles: Sequence[str] = (),
        missing_names: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        self.missing_digests = tuple(missing_digests)
        self.missing_handles = tuple(missing_handles)
        self.missing_names = tuple(missing_names)
        field, limit = _FIELD.match(message), _LIMIT.search(message)
        self.field = field[1] if field else None
        self.limit = int(limit[1]) if limit else None
        # The server ends; what it has begun, it finishes.
        self.is_draining = False
        # Something between here and the server said CANCELLED.
        self.was_cancelled = False
        # True: it may be tried again although the server said nothing about it (retry.py).
        self.may_retry = True
        # The call reached no server: no connection could be made.
        self.is_unreachable = False
        self.server = ""

    def __str__(self) -> str:
        # A traceback says the class.
        return f"{self.server}: {self.message}" if self.server else self.message


class Cancelled(Error):
    """The caller cancelled it."""

    code = "CANCELLED"


class Unknown(Error):
    """Something between here and the server answered in a way that the contract does not know."""


class InvalidArgument(Error, ValueError):
    """The request is malformed, or over a fixed limit."""

    code = "INVALID_ARGUMENT"


class DeadlineExceeded(Error, TimeoutError):
    """The deadline passed, or the server knows that it cannot be met."""

    code = "DEADLINE_EXCEEDED"


class NotFound(Error, LookupError):
    """No such resident operand or region; another tenant's are not found either."""

    code = "NOT_FOUND"


class AlreadyExists(Error):
    """What was to be made is there. Where another matrix has the name, replace=True takes it from that one."""

    code = "ALREADY_EXISTS"


class PermissionDenied(Error):
    """The caller may not do that."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(Error):
    """The server is full now; `retry_after` says when to come back."""

    code = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    """No kernel takes the problem, or a feature is switched off; the message has the reasons."""

    code = "FAILED_PRECONDITION"


class Aborted(Error):
    """The server gave the call up."""

    code = "ABORTED"


class OutOfRange(Error):
    """A position lies beyond the end."""

    code = "OUT_OF_RANGE"


class Unimplemented(Error):
    """The server has not built that."""

    code = "UNIMPLEMENTED"


class Internal(Error):
    """A bug, the server's or this library's; also an answer that contradicts the request."""

    code = "INTERNAL"


class Unavailable(Error, ConnectionError):
    """The server cannot be reached, drains, or lost its device."""

    code = "UNAVAILABLE"


class DataLoss(Error):
    """The product failed the verification that was asked for."""

    code = "DATA_LOSS"


class Unauthenticated(Error):
    """The server does not know who this caller is."""

    code = "UNAUTHENTICATED"


class ClosedError(RuntimeError):
    """The client was closed."""


class ForkedError(RuntimeError):
    """The client, or gRPC, was used by the parent of this process before it forked.

    gRPC's threads are not there after fork(), and whoever waits for them waits for ever. Start processes with
    multiprocessing's "spawn" or "forkserver", or make the first client after the fork.
    """


# By number, as google.rpc.Code counts them.
_BY_NUMBER: tuple[type[Error], ...] = (
    Unknown,  # OK, which is no error
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
)


def class_of(number: int) -> type[Error]:
    """The class of a google.rpc.Code; Unknown for numbers that there are not."""
    return _BY_NUMBER[number] if 0 <= number < len(_BY_NUMBER) else Unknown
