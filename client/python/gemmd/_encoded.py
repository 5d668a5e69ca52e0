"""A product that can be sent, in one message or in many, and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gemmd import _framing
from gemmd._header import OPERANDS, OperandSpec, Options, Place, TraceHeaders, header_bytes
from gemmd._layout import Array, Plane
from gemmd.errors import Error, Internal, Unimplemented

_D = OPERANDS["D"]
_HEADER = 1  # MatmulRequest.header
_BEGIN, _CANCEL, _OPEN, _JOIN, _BATCH = 1, 2, 3, 4, 5  # MatmulStreamRequest


class PlaneBytes(NamedTuple):
    """The bytes of one plane of one inline operand, where the caller's array has them."""

    operand: int
    plane: int
    data: memoryview


class Encoded:
    """One product of two matrices, or a batch of them.

    specs: makes the operands' specs and the output's place; called for each attempt, because a region that was
        lost has another id, and a name may have gone to a matrix that is stored otherwise.
    expected: D's plane, or that of each result of a batch.
    d: the result's matrix, or those of a batch; `target` its bytes. None where it stays on the server or is in a
        region.
    keeps: whatever must live as long as this: arrays, regions, sources.
    is_callers: `d` is the caller's own array. shared_at: the address of D that the server writes.
    server: the one of several that shares memory of it; empty: none does.
    """

    __slots__ = ("d", "expected", "is_callers", "keeps", "moved_bytes", "options", "payload_bytes", "planes",
                 "server", "shared_at", "specs", "target")  # fmt: skip

    def __init__(
        self,
        specs: Callable[[], tuple[tuple[OperandSpec | None, ...], Place | None]],
        options: Options,
        planes: list[PlaneBytes],
        expected: Plane,
        d: Array | None,
        target: memoryview | None,
        keeps: tuple[Any, ...],
        is_callers: bool = False,
        shared_at: int = 0,
        server: str = "",
    ) -> None:
        self.specs = specs
        self.options = options
        self.planes = planes
        self.moved_bytes = 0  # of the payload and the result, in the attempt under way
        self.payload_bytes = sum(len(each.data) for each in planes)
        self.expected = expected
        self.d = d
        self.target = target
        self.keeps = keeps
        self.is_callers = is_callers
        self.shared_at = shared_at
        self.server = server

    def header(self) -> bytes:
        """MatmulHeader's bytes."""
        operands, output = self.specs()
        return header_bytes(operands, self.options, output)

    @property
    def products(self) -> int:
        """How many there are."""
        return 1 if self.options.batch is None else self.options.batch.products

    @property
    def result_bytes(self) -> int:
        """The bytes of D, if it comes back."""
        return 0 if self.target is None else len(self.target)


def unary_message(encoded: Encoded) -> bytes:
    """MatmulRequest."""
    header = encoded.header()
    pieces: list[_framing.Bytes] = [_framing.field_prefix(_HEADER, len(header)), header]
    for operand, plane, data in encoded.planes:
        pieces.append(_framing.chunk_prefix(_framing.PAYLOAD_FIELD, 0, operand, plane, 0, len(data)))
        pieces.append(data)
    return b"".join(pieces)


def begin_content(
    encoded: Encoded, request_id: int, timeout_us: int, awaits: bool
) -> tuple[int, list[_framing.Bytes]]:
    """MatmulStreamRequest.Begin: its length and its bytes in pieces; the payload too unless it awaits."""
    header = encoded.header() + _framing.uint_field(17, timeout_us)
    pieces: list[_framing.Bytes] = [
        _framing.uint_field(1, request_id) + _framing.field_prefix(2, len(header)),
        header,
        (b"\x18\x01" if awaits else b"") + b"\x20\x01",  # await_accepted, accepts_batches
        *_text_fields(encoded.options.trace),
    ]
    if not awaits:
        for operand, plane, data in encoded.planes:
            pieces.append(_framing.chunk_prefix(_framing.PAYLOAD_FIELD, request_id, operand, plane, 0, len(data)))
            pieces.append(data)
    return sum(map(len, pieces)), pieces


def _text_fields(trace: TraceHeaders) -> list[_framing.Bytes]:
    """What a Begin says of its trace."""
    pieces: list[_framing.Bytes] = []
    for field, text in zip((5, 6), trace, strict=True):
        if text:
            pieces += [_framing.field_prefix(field, len(text)), text.encode("ascii")]
    return pieces


def begin_message(begins: list[tuple[int, list[_framing.Bytes]]]) -> list[_framing.Bytes]:
    """MatmulStreamRequest of one Begin, or of a Batch of several."""
    if len(begins) == 1:
        length, pieces = begins[0]
        return [_framing.field_prefix(_BEGIN, length), *pieces]
    content: list[_framing.Bytes] = []
    for length, pieces in begins:
        content.append(_framing.field_prefix(1, length))
        content += pieces
    return [_framing.field_prefix(_BATCH, sum(map(len, content))), *content]


def cancel_message(request_id: int) -> list[_framing.Bytes]:
    """MatmulStreamRequest.Cancel."""
    content = _framing.uint_field(1, request_id)
    return [_framing.field_prefix(_CANCEL, len(content)) + content]


def open_message() -> list[_framing.Bytes]:
    """MatmulStreamRequest.Open."""
    return [_framing.field_prefix(_OPEN, 0)]


def join_message(session: bytes) -> list[_framing.Bytes]:
    """MatmulStreamRequest.Join."""
    content = _framing.field_prefix(1, len(session)) + session
    return [_framing.field_prefix(_JOIN, len(content)) + content]


def chunk_message(request_id: int, plane: PlaneBytes, begin: int, end: int) -> list[_framing.Bytes]:
    """MatmulStreamRequest.chunk with bytes [begin, end) of a plane."""
    prefix = _framing.chunk_prefix(
        _framing.PAYLOAD_FIELD, request_id, plane.operand, plane.plane, begin, end - begin
    )
    return [prefix, plane.data[begin:end]]


class Assembly:
    """D while it arrives: chunks of any order, each byte once. INTERNAL where the answer contradicts that."""

    __slots__ = ("_begins", "_encoded", "_expected", "_left", "_target")

    def __init__(self, encoded: Encoded) -> None:
        self._encoded = encoded
        encoded.moved_bytes = 0
        self._expected = encoded.expected
        self._target = encoded.target
        self._left = encoded.result_bytes
        self._begins: set[int] = set()

    @property
    def is_whole(self) -> bool:
        """Every byte has come."""
        return self._left == 0

    def check(self, receipt: Any, d: Any) -> Error | None:
        """What is wrong with how many products the server made, or with the Plane that it says D is.

        Unimplemented: it is older than batches, and computed the first product alone.
        """
        encoded = self._encoded
        if encoded.options.batch is not None and receipt.products != encoded.products:
            return _older(encoded, f"it computed {max(1, receipt.products)}")
        if self._encoded.options.keep is not None:
            return None
        e = self._expected
        if (d.type, d.rows, d.columns, d.order) == (e.type, e.rows, e.columns, e.order) and (
            d.leading_dimension in (0, e.columns if e.order == 0 else e.rows)
        ):
            return None
        return bad_response(
            f"D is {d.rows} x {d.columns} of type {d.type} and order {d.order}, "
            f"but {e.rows} x {e.columns} of type {e.type} and order {e.order} was asked for"
        )

    def place(self, operand: int, plane: int, offset: int, data: _framing.Bytes) -> Internal | None:
        """Copies a chunk to where it belongs."""
        size = len(data)
        if operand != _D or plane != 0 or self._target is None:
            return bad_response("a chunk belongs to something else than the data of D")
        if offset + size > len(self._target) or size > self._left or (size and offset in self._begins):
            return bad_response(f"a chunk of {size} bytes at byte {offset} does not fit what D lacks")
        self._begins.add(offset)
        self._target[offset : offset + size] = data
        self._left -= size
        self._encoded.moved_bytes += size
        return None


def refusal_of(encoded: Encoded, error: Error) -> Error:
    """The error that a server answered with; Unimplemented where it is of one that is older than batches.

    Such a server counts the bytes of one matrix where those of a stack come, which were counted on this side.
    """
    is_of_bytes = error.code == "INVALID_ARGUMENT" and error.message.startswith("payload of ")
    return _older(encoded, error.message) if is_of_bytes and encoded.options.batch is not None else error


def _older(encoded: Encoded, why: str) -> Unimplemented:
    return Unimplemented(
        f"batch.count is {encoded.products}, and the server is older than batches of products: {why}"
    )


def bad_response(why: str) -> Internal:
    """The error for an answer that contradicts itself or the request."""
    return Internal(f"the server's response is malformed: {why}")
