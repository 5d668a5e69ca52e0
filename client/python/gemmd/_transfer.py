"""Calls that are not products: one request and one answer, uploads, downloads. All of them wait."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
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
from gemmd._server import Server
from gemmd._servers import ANY, Plan, key_of_handle, key_of_name, plan_of
from gemmd._status import error_of
from gemmd._tracebacks import let_go
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
        try:
            if meter is None:
                return interruptibly(work, self.give_up)
            found = interruptibly(work, self.give_up, meter.poll)
            meter.end()
            return found
        except BaseException as error:
            let_go(error)
            raise
        finally:
            self.first = None  # whose traceback may refer to this
            if meter is not None:
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


def wait_after(
    engine: Engine, server: Server, error: errors.Error, pushback: Pushback, attempts: int, end: Deadline
) -> None:
    """Waits before the next attempt at that server; raises the error where there is to be none."""
    if isinstance(error, errors.DeadlineExceeded):
        server.met_deadline(end.since)
        raise late(error, end.first)
    if error.code == "UNAVAILABLE" and engine.servers.are_several:
        raise error  # ask() goes on elsewhere
    delay = engine.delay_after(server, error, pushback, attempts, end.left, end.failed(error))
    if delay is None:
        raise error
    time.sleep(delay)
    end.check()


def ask(engine: Engine, plan: Plan, end: Deadline, work: Callable[[Server], T]) -> T:
    """work() at the server that the plan wants; at one after another, where that helps."""
    tour = engine.servers.tour(plan)
    failures = 0
    while True:
        server = None
        try:
            server = tour.begin()
            found = work(server)
        except errors.Error as error:
            tour.end(error)
            if tour.may_search(error):
                continue
            if not tour.is_one_of_several:  # it was asked again already
                raise
            failures += 1
            failing = end.failed(error)
            delay = engine.delay_after(
                server, error, NO_PUSHBACK, failures, end.left, failing, elsewhere=tour.has_other
            )
            if delay is None:
                raise
            time.sleep(delay)
            end.check()
        except BaseException:
            tour.leave()
            raise
        else:
            tour.end(None)
            tour.learn()
            return found


def ask_each(engine: Engine, end: Deadline, work: Callable[[Server], T], server: str = "") -> dict[str, T]:
    """work() at every server, or at that one alone. Raises the first error, but for NotFound if one is not."""
    found: dict[str, T] = {}
    missing: errors.NotFound | None = None
    names = [server] if server else engine.servers.names
    if not names:
        ask(engine, ANY, end, lambda _: None)  # waits for one, or says why there is none
        names = engine.servers.names
    for name in names:
        try:
            found[name] = ask(engine, Plan(server=name), end, work)
        except errors.NotFound as error:
            missing = error
    if missing is not None and not found:
        raise missing
    return found


def call(
    engine: Engine,
    server: Server,
    name: str,
    request: Any,
    answer: Any,
    end: Deadline,
    digest: bytes = b"",
) -> Any:
    """One request and one answer of that class, tried again at that server where that helps.

    digest: of the matrix that it is about, if it has one.
    """
    data = request.SerializeToString()
    attempts = 0
    while True:
        attempts += 1
        found, error, pushback = server.link.unary(name, data, end.left, end.track, digest)
        if error is None:
            return answer.FromString(found)
        wait_after(engine, server, error, pushback, attempts, end)


def call_about(engine: Engine, place: Place, name: str, request: Any, answer: Any, end: Deadline) -> Any:
    """call() of the matrix there, at a server that has it."""
    plan = plan_of(place)
    about(place, request)
    return ask(engine, plan, end, lambda server: call(engine, server, name, request, answer, end, plan.digest))


def about(place: Place, request: Any) -> Any:
    """The request, which has `oneof { handle, digest, name }`, of the matrix there."""
    setattr(request, place.kind, place.name)
    return request


def get(engine: Engine, place: Place, end: Deadline) -> Any:
    """ResidentOperand of the matrix there. Unimplemented: the server is older than names."""
    return ask(engine, plan_of(place), end, lambda server: get_at(engine, server, place, end))


def get_at(engine: Engine, server: Server, place: Place, end: Deadline) -> Any:
    """As get(), at that server."""
    request = about(place, _messages.GetRequest())
    digest = plan_of(place).digest
    try:
        return call(engine, server, "Operands/Get", request, _messages.GetResponse, end, digest).resident
    except errors.InvalidArgument as error:
        if place.kind != "name":
            raise
        # The name was checked on this side, so it is the field that the server does not know.
        raise errors.Unimplemented(f"the server knows no names of matrices: {error.message}") from error


def release(engine: Engine, place: Place, end: Deadline) -> None:
    """Has every server forget the matrix there, or the name if it has others. This client gives none again."""
    if place.kind == "name":
        engine.given.forget(str(place.name))
    elif place.kind == "digest":
        engine.given.forget_all(bytes(place.name))  # type: ignore[arg-type]
    ask_each(engine, end, lambda server: _release_at(engine, server, place, end))


def _release_at(engine: Engine, server: Server, place: Place, end: Deadline) -> None:
    request = about(place, _messages.ReleaseRequest())
    digest = plan_of(place).digest
    call(engine, server, "Operands/Release", request, _messages.ReleaseResponse, end, digest)


def list_of(engine: Engine, method: str, end: Deadline, server: str = "") -> list[Any]:
    """ResidentOperands of every server, one after another, or of that one. An error where one of them is away."""

    def list_at(one: Server) -> list[Any]:
        request = _messages.ListRequest()
        found: list[Any] = []
        while True:
            page = call(engine, one, method, request, _messages.ListResponse, end)
            found += page.residents
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    every = ask_each(engine, end, list_at, server)
    for name, residents in every.items():
        engine.servers.learn(sorted({key_of_handle(each.handle) for each in residents}), name)
    return [each for residents in every.values() for each in residents]


def set_name(
    engine: Engine, place: Place, name: str, replace: bool, end: Deadline, source: Source | None = None
) -> Any:
    """Gives the matrix there one more name: its ResidentOperand. AlreadyExists: see Resident.set_name().

    source: what the matrix is made of, which is uploaded where the server has lost it.
    """
    plan = plan_of(place)
    uploads = 0
    while True:
        try:
            found = _name(engine, place, name, replace, end)
        except errors.AlreadyExists as taken:
            raise errors.AlreadyExists(f"{taken.message} (replace=True)") from None
        except errors.NotFound:
            if source is None or place.kind != "digest" or uploads == _MOST_UPLOADS:
                raise
            uploads += 1
            ask(engine, plan, end, lambda server: put_again(engine, server, source, plan.digest, end))
        else:
            engine.given.give(name, found.digest)
            return found


def _name(engine: Engine, place: Place, name: str, replace: bool, end: Deadline) -> Any:
    if not engine.servers.are_several:
        return ask(engine, plan_of(place), end, lambda server: _name_at(engine, server, place, name, replace, end))
    homes: list[str] = []

    def look(server: Server) -> Any:
        found = get_at(engine, server, place, end)
        homes.append(server.name)
        return found

    digest = ask(engine, plan_of(place), end, look).digest
    home = homes[-1]
    if not replace:
        _check_elsewhere(engine, digest, name, [home], end)
    plan = plan_of(place, server=home)
    found = ask(engine, plan, end, lambda server: _name_at(engine, server, place, name, replace, end))
    if replace:
        _take_elsewhere(engine, digest, name, home, end)
    engine.servers.learn([key_of_name(name)], home)
    return found


def _name_at(engine: Engine, server: Server, place: Place, name: str, replace: bool, end: Deadline) -> Any:
    request = about(place, _messages.SetNameRequest(new_name=name, replace=replace))
    digest = plan_of(place).digest
    return call(engine, server, "Operands/SetName", request, _messages.SetNameResponse, end, digest).resident


def _others_of(engine: Engine, digest: bytes, name: str, but: Collection[str], end: Deadline) -> dict[str, Any]:
    """Servers but those, where another matrix has the name: ResidentOperands. Copies of one may have one name."""
    place = Place("name", name)
    found = {}
    for server in engine.servers.names:
        if server in but:
            continue
        with contextlib.suppress(errors.NotFound):
            there = ask(engine, Plan(server=server), end, lambda one: get_at(engine, one, place, end))
            if not digest or there.digest != digest:
                found[server] = there
    return found


def _check_elsewhere(engine: Engine, digest: bytes, name: str, but: Collection[str], end: Deadline) -> None:
    for server, there in _others_of(engine, digest, name, but, end).items():
        raise errors.AlreadyExists(
            f'new_name is "{name}", which is the name of operand {there.handle} on {server}; with replace it '
            "becomes this one's"
        )


def _take_elsewhere(engine: Engine, digest: bytes, name: str, home: str, end: Deadline) -> None:
    place = Place("name", name)
    for server in _others_of(engine, digest, name, [home], end):
        with contextlib.suppress(errors.NotFound):
            ask(engine, Plan(server=server), end, lambda one: _release_at(engine, one, place, end))


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
    """Uploads it to the server that products with it go to, or to another where that is away: UploadResponse."""
    plan = Plan(digest=source.digest)
    return ask(engine, plan, end, lambda server: _put_at(engine, server, source, lease, end, progress))


def _put_at(
    engine: Engine,
    server: Server,
    source: Source,
    lease: float | None,
    end: Deadline,
    progress: Progress | None = None,
) -> Any:
    """Uploads what the server does not have of it; a broken upload goes on where it ended."""
    attempts = 0
    must_send_all = source.stored_form is not None  # what the digest names, if anything, is kept in another form
    sends_all = must_send_all
    while True:
        attempts += 1
        ranges = _whole(source) if sends_all else _missing(engine, server, source, end)
        answer, error, pushback = _upload(server, source, ranges, lease, end, progress)
        if error is None:
            server.link.hear()
            _check_kept(source, answer.resident.operand)
            engine.servers.learn([key_of_handle(answer.resident.handle)], server.name)
            return answer
        # HAProxy's mode http cancels an upload that the server ends early, as a refusal or because it has every
        # byte. Two servers that are asked in turn each get all; every third attempt asks again what is missing.
        sends_all = must_send_all or (error.was_cancelled and attempts % 3 != 0)
        # Behind a balancer another server may have taken the upload than the one that said what it lacks.
        if error.code == "INVALID_ARGUMENT" and ranges != _whole(source):
            error, sends_all = errors.Unavailable(f"what was missing has changed: {error.message}"), True
        wait_after(engine, server, error, pushback, attempts, end)


def put_again(engine: Engine, server: Server, source: Source, digest: bytes, end: Deadline) -> Any:
    """Uploads what that server lacks, and gives it the names that this client gave it: ResidentOperand.

    digest: of what the server keeps. InvalidArgument: the caller has changed the array.
    """
    try:
        found = _put_at(engine, server, source, None, end).resident
    except errors.InvalidArgument as error:
        if error.field != "begin.digest":
            raise
        raise errors.InvalidArgument(
            "the array that put() was given has changed since, and its digest with it: the server, which has lost "
            "the matrix, cannot get it again"
        ) from error
    for name in engine.given.of(digest):
        try:
            found = _name_again(engine, server, digest, name, end)
        except errors.Error as error:  # products need no name
            if isinstance(error, errors.AlreadyExists):
                engine.given.forget(name)
            _log.warning("%s: a matrix did not get its name %r again: %s", server.name, name, error)
    return found


def _name_again(engine: Engine, server: Server, digest: bytes, name: str, end: Deadline) -> Any:
    # Where the one server that is away had the name, nobody finds the matrix by it until this one has it.
    away = [each.address for each in engine.servers.states() if each.health == "not_serving" or each.is_left_out]
    _check_elsewhere(engine, digest, name, [server.name, *away], end)
    found = _name_at(engine, server, Place("digest", digest), name, False, end)
    engine.servers.learn([key_of_name(name)], server.name)
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


def _missing(engine: Engine, server: Server, source: Source, end: Deadline) -> list[Range]:
    digest = source.digest
    request = _messages.FindMissingRequest(digests=[digest])
    found = call(engine, server, "Operands/FindMissing", request, _messages.FindMissingResponse, end, digest)
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
    server: Server,
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
    most = 1 if source.stored_form is not None else server.max_channels
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
            calls.append(server.link.exchange("Operands/Upload", messages(), end.left, index, source.digest))
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
            found = error_of(failed)  # of each, so that none of gRPC's keeps this frame
            failure = failure or found
    assert failure is not None
    return None, *failure


def download(
    engine: Engine, place: Place, end: Deadline, progress: Callable[[int], Progress] | None = None
) -> tuple[Any, dict[int, Array]]:
    """An operand's description, and its planes' bytes by PlaneName. progress(size) makes what is told of bytes."""
    return ask(engine, plan_of(place), end, lambda server: _download_at(engine, server, place, end, progress))


def _download_at(
    engine: Engine, server: Server, place: Place, end: Deadline, progress: Callable[[int], Progress] | None
) -> tuple[Any, dict[int, Array]]:
    request = about(place, _messages.DownloadRequest()).SerializeToString()
    metadata = server.link.metadata(plan_of(place).digest)
    attempts = 0
    while True:
        attempts += 1
        call = None
        try:
            method = server.link.channel().unary_stream("/gemmd.v1.Operands/Download")
            call = method(request, timeout=end.left, metadata=metadata)
            end.track(call)
            return _planes_of(call, progress, server.link.hear)
        except grpc.RpcError as failed:
            wait_after(engine, server, *error_of(failed), attempts, end)
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
