"""MatmulHeader of values, as bytes. Equal products have equal headers, which are made once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from gemmd import _messages
from gemmd._layout import Blocks, Plane

OPERANDS = _messages.enum_numbers("OperandName")
ACTIVATIONS = {name.lower(): number for name, number in _messages.enum_numbers("Activation").items()}
DETERMINISM = {name.lower(): number for name, number in _messages.enum_numbers("Determinism").items()}
PRIORITIES = {
    name.removeprefix("PRIORITY_").lower(): number for name, number in _messages.enum_numbers("Priority").items()
}
DATA, SCALES, ZERO_POINTS, TENSOR_SCALE, OFFSETS = 0, 1, 2, 3, 4  # PlaneName
PLANES = {number: name.lower() for name, number in _messages.enum_numbers("PlaneName").items()}  # Operand's fields


class Place(NamedTuple):
    """Where an operand's bytes are: kind is "inline", "handle", "digest", "name" or "shared"."""

    kind: str = "inline"
    name: str | bytes = ""  # handle, digest, name or region
    offset: int = 0  # bytes, in the region


INLINE = Place()


class OperandSpec(NamedTuple):
    """Operand in matrix.proto. scaling: its planes but for the data, as there are; matrix: of a stack there."""

    data: Plane
    scaling: tuple[tuple[int, Plane], ...] = ()  # by PlaneName
    blocks: Blocks | None = None
    place: Place = INLINE
    matrix: int | None = None


class TraceHeaders(NamedTuple):
    """What a call gives on of its caller's trace: the values of W3C's two headers; empty: none."""

    traceparent: str = ""
    tracestate: str = ""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """As a call's metadata."""
        return tuple((name, value) for name, value in zip(self._fields, self, strict=True) if value)


NO_TRACE = TraceHeaders()


class Batch(NamedTuple):
    """StridedBatch in gemm.proto; the results follow each other. row_ends: of groups of rows; else empty."""

    products: int
    row_ends: tuple[int, ...] = ()
    a_stride: int = 0  # elements; 0: all products take one matrix
    b_stride: int = 0
    c_stride: int = 0
    bias_stride: int = 0


class Options(NamedTuple):
    """What a product is asked with, besides its operands. `keep` is a lease in seconds, -1 for the default."""

    alpha: float = 1.0
    beta: float = 0.0
    activation: int = 0
    output_type: int = 0
    output_order: int = 0
    accumulate_type: int = 0
    determinism: int = 0
    kernel: str = ""
    priority: int = 0
    verify: int = 0
    keep: float | None = None
    trace: TraceHeaders = NO_TRACE
    transpose_a: bool = False
    transpose_b: bool = False
    batch: Batch | None = None


def seconds_into(seconds: float, duration: Any) -> None:
    """Sets a google.protobuf.Duration."""
    nanoseconds = round(seconds * 1e9)
    duration.seconds, duration.nanos = divmod(nanoseconds, 10**9)
    duration.SetInParent()


def seconds_of(duration: Any) -> float:
    """A google.protobuf.Duration in seconds."""
    return float(duration.seconds) + float(duration.nanos) * 1e-9


def set_plane(plane: Plane, message: Any) -> None:
    """Fills a Plane."""
    message.type, message.rows, message.columns = plane.type, plane.rows, plane.columns
    message.order, message.leading_dimension = plane.order, plane.leading_dimension


def _set_place(place: Place, message: Any) -> None:
    if place.kind == "inline":
        message.inline.SetInParent()
    elif place.kind == "handle":
        message.handle = place.name
    elif place.kind == "digest":
        message.digest = place.name
    elif place.kind == "name":
        message.name = place.name
    else:
        message.shared.region, message.shared.offset_bytes = place.name, place.offset


def set_operand(spec: OperandSpec, message: Any) -> None:
    """Fills an Operand."""
    set_plane(spec.data, message.data)
    for name, plane in spec.scaling:
        set_plane(plane, getattr(message, PLANES[name]))
    if spec.blocks is not None:
        quantization = message.quantization
        quantization.block_k, quantization.block_lines = spec.blocks.block_k, spec.blocks.block_lines
        quantization.scale_layout = spec.blocks.scale_layout
    _set_place(spec.place, message)
    if spec.matrix is not None:
        message.matrix = spec.matrix


def spec_of(message: Any) -> OperandSpec:
    """What an Operand says of its planes."""
    scaling = tuple(
        (name, plane_of(getattr(message, field)))
        for name, field in PLANES.items()
        if name and message.HasField(field)
    )
    found = message.quantization
    blocks = None
    if message.HasField("quantization"):
        blocks = Blocks(found.block_k, found.block_lines or 1, found.scale_layout)
    return OperandSpec(plane_of(message.data), scaling, blocks)


def plane_of(message: Any) -> Plane:
    """A Plane, tightly packed."""
    return Plane(message.type, message.rows, message.columns, message.order)


def header_message(operands: tuple[OperandSpec | None, ...], options: Options, output: Place | None = None) -> Any:
    """A MatmulHeader. operands: A, B, C and bias; output: a region for D."""
    header = _messages.MatmulHeader()
    for name, spec in zip(("a", "b", "c", "bias"), operands, strict=True):
        if spec is not None:
            set_operand(spec, getattr(header, name))
    header.alpha, header.beta, header.activation = options.alpha, options.beta, options.activation
    header.output_type, header.output_order = options.output_type, options.output_order
    header.accumulate_type, header.determinism = options.accumulate_type, options.determinism
    header.kernel, header.priority = options.kernel, options.priority
    header.transpose_a, header.transpose_b = options.transpose_a, options.transpose_b
    if options.verify:
        header.verification.vectors = options.verify
    if options.keep is not None:
        header.keep_result.SetInParent()
        if options.keep >= 0:
            seconds_into(options.keep, header.keep_result.lease)
    if options.batch is not None:
        batch = header.batch
        batch.count, row_ends, *strides = options.batch
        batch.a_stride, batch.b_stride, batch.c_stride, batch.bias_stride = strides
        batch.row_ends.extend(row_ends)
    if output is not None:
        header.output.region, header.output.offset_bytes = output.name, output.offset
    return header


@lru_cache(maxsize=1024)
def header_bytes(operands: tuple[OperandSpec | None, ...], options: Options, output: Place | None = None) -> bytes:
    """header_message(), serialized."""
    data: bytes = header_message(operands, options, output).SerializeToString()
    return data
