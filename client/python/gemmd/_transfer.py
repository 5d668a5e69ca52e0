"""Calls that are not products: one request and one answer, uploads, downloads. All of them wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc
import numpy as np

from gemmd import _framing, _messages, errors, types
from gemmd._digest import Source
from gemmd._encoded import bad_response
from gemmd._engine import Engine
from gemmd._header import PLANES, OperandSpec, Place, seconds_into, set_operand, spec_of
from gemmd._interrupts import interruptibly
from gemmd._layout import Array
from gemmd._progress import Meter
from gemmd._status import error_of
from gemmd.retry import NO_PUSHBACK, Pushback, late

T = TypeVar("T")

_log = logging.getLogger("gemmd")

_CHUNK = 1 << 20
# Ends the uploads of a matrix that is lost as soon as it is there.
_MOST_UPLOADS = 8
# Uploads go over several connections where each has so much to carry.
_BYTES_PER_CHANNEL = 8 << 20

Progress = Callable[[int], None]  # told of bytes as they leave or come
Range = tuple[int, int, int]  # PlaneName, begin, end


class Deadline:
    """When a call must be over; None: never. And whether its caller has given it up."""

    def __init__(self, seconds: float | None) -> None:
        self.since = time.monotonic()
        self.first: errors.Error | None = None  # that an attempt ended with
        self._failed = 0.0  # when it did
        self._at = None if seconds is None else self.since + seconds
        self._lock = threading.Lock()
        self._calls: list[Any] = []
        self._is_over = False

    def track(self, call: Any) -> None:
        """A call of gRPC's that give_up() is to cancel."""
        with self._lock:
            self._calls.append(call)
            is_over = self._is_over
        if is_over:
            call.cancel()

    def give_up(self) -> None:
        """Cancels what is under way; nothing is begun any more."""
        with self._lock:
            self._is_over = True
            calls = list(self._calls)
        for each in calls:
            each.cancel()

    def run(self, work: Callable[[], T], meter: Meter | None = None) -> T:
        """work(), such that Ctrl-C gives up. The meter tells of it meanwhile."""
        if meter is None:
            return interruptibly(work, self.give_up)
        try:
            found = interruptibly(work, self.give_up, meter.poll)
            meter.end()
            return found
        finally:
            meter.close()

    def check(self) -> None:
        """Cancelled after give_up()."""
        if self._is_over:
            raise errors.Cancelled("cancelled by its caller")

    def failed(self, error: errors.Error) -> float:
        """An attempt has; seconds since the first that did."""
        if self.first is None:
            self.first, self._failed = error, time.monotonic()
        return time.monotonic() - self._failed

    @property
    def left(self) -> float | None:
        """Seconds; below 0 where it has passed."""
        return None if self._at is None else self._at - time.monotonic()


def wait_after(engine: Engine, error: errors.Error, pushback: Pushback, attempts: int, end: Deadline) -> None:
    """Waits before the next attempt; raises the error where there is to be none."""
    if isinstance(error, errors.DeadlineExceeded):
        engine.met_deadline(end.since)
        raise late(error, end.first)
    delay = engine.delay_after(error, pushback, attempts, end.left, end.failed(error))
    if delay is None:
        raise error
    time.sleep(delay)
    end.check()


def call(engine: Engine, name: str, request: Any, answer: Any, end: Deadline) -> Any:
    """One request and one answer of that class, tried again where that helps."""
    data = request.SerializeToString()
    attempts = 0
    while True:
        attempts += 1
        found, error, pushback = engine.link.unary(name, data, end.left, end.track)
        if error is None:
            return answer.FromString(found)
        wait_after(engine, error, pushback, attempts, end)


def about(place: Place, request: Any) -> Any:
    """The request, which has `oneof { handle, digest, name }`, of the matrix there."""
    setattr(request, place.kind, place.name)
    return request


def get(engine: Engine, place: Place, end: Deadline) -> Any:
    """ResidentOperand of the matrix there. Unimplemented: the server is older than names."""
    request = about(place, _messages.GetRequest())
    try:
        return call(engine, "Operands/Get", request, _messages.GetResponse, end).resident
    except errors.InvalidArgument as error:
        if place.kind != "name":
            raise
        # The name was checked on this side, so it is the field that the server does not know.
        raise errors.Unimplemented(f"the server knows no names of matrices: {error.message}") from error


def release(engine: Engine, place: Place, end: Deadline) -> None:
    """Has the server forget the matrix there, or the name if it has others. This client gives none of it again."""
    request = about(place, _messages.ReleaseRequest())
    if place.kind == "name":
        engine.given.forget(str(place.name))
    elif place.kind == "digest":
        engine.given.forget_all(bytes(place.name))  # type: ignore[arg-type]
    call(engine, "Operands/Release", request, _messages.ReleaseResponse, end)


def set_name(
    engine: Engine, place: Place, name: str, replace: bool, end: Deadline, source: Source | None = None
) -> Any:
    """Gives the matrix there one more name: its ResidentOperand. AlreadyExists: see Resident.set_name().

    source: what the matrix is made of, which is uploaded where the server has lost it.
    """
    request = about(place, _messages.SetNameRequest(new_name=name, replace=replace))
    uploads = 0
    while True:
        try:
            found = call(engine, "Operands/SetName", request, _messages.SetNameResponse, end).resident
        except errors.AlreadyExists as taken:
            raise errors.AlreadyExists(f"{taken.message} (replace=True)") from None
        except errors.NotFound:
            if source is None or place.kind != "digest" or uploads == _MOST_UPLOADS:
                raise
            uploads += 1
            put_again(engine, source, request.digest, end)
        else:
            engine.given.give(name, found.digest)
            return found


def check_is_free(engine: Engine, source: Source, name: str, end: Deadline) -> None:
    """AlreadyExists where another matrix has the name, before the source is uploaded in vain."""
    if source.stored_form is not None:
        return  # what is kept has another digest, which is not known yet
    try:
        found = get(engine, Place("name", name), end)
    except errors.NotFound:
        return
    if found.digest != source.digest:
        raise errors.AlreadyExists(
            f'new_name is "{name}", which is the name of operand {found.handle}; with replace it becomes this '
            "one's (replace=True)"
        )


def put(
    engine: Engine, source: Source, lease: float | None, end: Deadline, progress: Progress | None = None
) -> Any:
    """Uploads what the server does not have of it; a broken upload goes on where it ended. UploadResponse."""
    attempts = 0
    must_send_all = source.stored_form is not None  # what the digest names, if anything, is kept in another form
    sends_all = must_send_all
    while True:
        attempts += 1
        ranges = _whole(source) if sends_all else _missing(engine, source, end)
        answer, error, pushback = _upload(engine, source, ranges, lease, end, progress)
        if error is None:
            engine.link.hear()
            _check_kept(source, answer.resident.operand)
            return answer
        # HAProxy's mode http cancels an upload that the server ends early, as a refusal or because it has every
        # byte. Two servers that are asked in turn each get all; every third attempt asks again what is missing.
        sends_all = must_send_all or (error.was_cancelled and attempts % 3 != 0)
        # Behind a balancer another server may have taken the upload than the one that said what it lacks.
        if error.code == "INVALID_ARGUMENT" and ranges != _whole(source):
            error, sends_all = errors.Unavailable(f"what was missing has changed: {error.message}"), True
        wait_after(engine, error, pushback, attempts, end)


def put_again(engine: Engine, source: Source, digest: bytes, end: Deadline) -> Any:
    """Uploads what the server has lost, and gives it the names that this client gave it: ResidentOperand.

    digest: of what the server keeps. InvalidArgument: the caller has changed the array.
    """
    try:
        found = put(engine, source, None, end).resident
    except errors.InvalidArgument as error:
        if error.field != "begin.digest":
            raise
        raise errors.InvalidArgument(
            "the array that put() was given has changed since, and its digest with it: the server, which has lost "
            "the matrix, cannot get it again"
        ) from error
    for name in engine.given.of(digest):
        try:
            found = set_name(engine, Place("digest", digest), name, False, end)
        except errors.Error as error:  # products need no name
            if isinstance(error, errors.AlreadyExists):
                engine.given.forget(name)
            _log.warning("%s: a matrix did not get its name %r again: %s", engine.link.address, name, error)
    return found


def _check_kept(source: Source, operand: Any) -> None:
    """Unimplemented: the server kept the matrix as it came, because it is older than what was asked for."""
    wanted = source.stored_form
    if wanted is not None and spec_of(operand) != spec_of(_operand_of(wanted)):
        kept = types.by_number(operand.data.type).name
        raise errors.Unimplemented(
            f"the server keeps the matrix as {kept}, not as {types.by_number(wanted.data.type).name}: "
            "it does not know Begin.stored_form"
        )


def _operand_of(spec: OperandSpec) -> Any:
    """Operand without a source."""
    operand = _messages.Operand()
    set_operand(spec, operand)
    operand.ClearField("inline")
    return operand


def _whole(source: Source) -> list[Range]:
    return [(name, 0, len(data)) for name, _, data in source.planes]


def _missing(engine: Engine, source: Source, end: Deadline) -> list[Range]:
    request = _messages.FindMissingRequest(digests=[source.digest])
    found = call(engine, "Operands/FindMissing", request, _messages.FindMissingResponse, end)
    if not found.missing:
        return []
    for partial in found.partial:
        return [(each.plane, each.begin_bytes, each.end_bytes) for each in partial.missing]
    return _whole(source)


def _pieces(ranges: list[Range]) -> list[Range]:
    return [
        (plane, at, min(at + _CHUNK, stop)) for plane, begin, stop in ranges for at in range(begin, stop, _CHUNK)
    ]


def _upload(
    engine: Engine,
    source: Source,
    ranges: list[Range],
    lease: float | None,
    end: Deadline,
    progress: Progress | None,
) -> tuple[Any, errors.Error | None, Pushback]:
    begin = _messages.UploadRequest()
    begin.begin.digest = source.digest
    begin.begin.operand.CopyFrom(_operand_of(source.spec()))
    begin.begin.operand.k_order = source.k_order
    if source.stored_form is not None:
        begin.begin.stored_form.CopyFrom(_operand_of(source.stored_form))
    if lease is not None:
        seconds_into(lease, begin.begin.lease)
    first = begin.SerializeToString()
    pieces = iter(_pieces(ranges))
    planes = {name: data for name, _, data in source.planes}
    over = threading.Event()
    lock = threading.Lock()
    count = sum(stop - at for _, at, stop in ranges)
    # Where the server quantizes, a stream that begins after the others have ended would begin an upload anew.
    most = 1 if source.stored_form is not None else engine.max_channels
    channels = max(1, min(most, count // _BYTES_PER_CHANNEL))

    # Several calls share the pieces. Each stays open until one has the answer: an upload whose stream ends
    # before every byte came is refused.
    def messages() -> Iterator[bytes]:
        yield first
        while not over.is_set():
            with lock:
                piece = next(pieces, None)
            if piece is None:
                break
            plane, at, stop = piece
            prefix = _framing.chunk_prefix(_framing.PAYLOAD_FIELD, 0, 0, plane, at, stop - at)
            yield b"".join((prefix, planes[plane][at:stop]))
            if progress is not None:
                progress(stop - at)
        if channels > 1:
            over.wait()

    calls: list[Any] = []
    try:
        for index in range(channels):
            calls.append(engine.link.exchange("Operands/Upload", messages(), end.left, index))
            end.track(calls[-1])
            calls[-1].add_done_callback(lambda _: over.set())
        return _first_answer(calls)
    finally:
        over.set()
        for each in calls:
            each.cancel()


def _first_answer(calls: list[Any]) -> tuple[Any, errors.Error | None, Pushback]:
    failure: tuple[errors.Error, Pushback] | None = None
    for each in calls:
        try:
            return _messages.UploadResponse.FromString(each.result()), None, NO_PUSHBACK
        except grpc.FutureCancelledError:
            failure = failure or (errors.Cancelled("the call was given up, or the client closed"), NO_PUSHBACK)
        except grpc.RpcError as failed:
            failure = failure or error_of(failed)
    assert failure is not None
    return None, *failure


def download(
    engine: Engine, request: Any, end: Deadline, progress: Callable[[int], Progress] | None = None
) -> tuple[Any, dict[int, Array]]:
    """An operand's description, and its planes' bytes by PlaneName. progress(size) makes what is told of bytes."""
    attempts = 0
    while True:
        attempts += 1
        call = None
        try:
            method = engine.link.channel().unary_stream("/gemmd.v1.Operands/Download")
            call = method(request.SerializeToString(), timeout=end.left, metadata=engine.link.metadata)
            end.track(call)
            return _planes_of(call, progress, engine.link.hear)
        except grpc.RpcError as failed:
            wait_after(engine, *error_of(failed), attempts, end)
        finally:
            if call is not None:
                call.cancel()  # nothing where it has ended


def _planes_of(
    call: Any, progress: Callable[[int], Progress] | None, hear: Callable[[], None]
) -> tuple[Any, dict[int, Array]]:
    operand: Any = None
    planes: dict[int, Array] = {}
    left: dict[int, int] = {}
    tell: Progress | None = None
    for message in call:
        hear()
        rest, chunks = _framing.split(message)
        if rest and operand is None:
            operand = _messages.DownloadResponse.FromString(rest).operand
            described = {name: getattr(operand, field) for name, field in PLANES.items() if operand.HasField(field)}
            planes = {name: np.empty(_plane_bytes(plane), np.uint8) for name, plane in described.items()}
            left = {name: each.size for name, each in planes.items()}
            tell = progress(sum(left.values())) if progress is not None else None
        for chunk in chunks:
            if chunk.plane not in planes or chunk.offset + len(chunk.data) > planes[chunk.plane].size:
                raise bad_response("a chunk is of no plane of the operand")
            planes[chunk.plane][chunk.offset : chunk.offset + len(chunk.data)] = chunk.data
            left[chunk.plane] -= len(chunk.data)
            if tell is not None:
                tell(len(chunk.data))
    if operand is None or not operand.HasField("data") or any(left.values()):
        raise bad_response("some of the operand is missing")
    return operand, planes


def _plane_bytes(plane: Any) -> int:
    return types.by_number(plane.type).plane_bytes(plane.rows * plane.columns)
