"""From what matmul() is given to products of two matrices that can be sent.

Shapes follow numpy.matmul: of arrays with more than two dimensions the last two are the matrices, and the others
are broadcast. Where the right factor is one matrix, all of the left one's rows are one product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmd import _checks, _formats, _layout, _planes, types
from gemmd._digest import Source
from gemmd._durations import lease_of
from gemmd._encoded import Encoded, PlaneBytes
from gemmd._header import (
    ACTIVATIONS,
    DETERMINISM,
    OPERANDS,
    PRIORITIES,
    SCALES,
    TENSOR_SCALE,
    ZERO_POINTS,
    OperandSpec,
    Options,
    Place,
)
from gemmd._inputs import to_numpy
from gemmd._layout import Array, Blocks, Plane
from gemmd._overlap import check_apart, may_be_written
from gemmd._regions import Region, Regions
from gemmd._scale_layout import LAYOUTS, PLAIN
from gemmd._trace import trace_headers
from gemmd.quantized import Quantized
from gemmd.resident import Resident
from gemmd.types import ElementType

Matrix = Array | Quantized | Resident


@dataclass(frozen=True)
class Asked:
    """What matmul() was asked with, besides its factors; client.py has the meanings."""

    alpha: float = 1.0
    beta: float | None = None
    c: Any = None
    bias: Any = None
    activation: str = "none"
    out: Array | None = None
    dtype: Any = None
    accumulate: str | None = None
    kernel: str = ""
    determinism: str = "batch_invariant"
    priority: str = "normal"
    verify: int = 0
    keep: bool = False
    lease: float | None = None
    traceparent: str | None = None
    tracestate: str | None = None


@dataclass(frozen=True)
class Prepared:
    """Products to be sent, and where their results are.

    encoded: none where there is nothing to compute.
    d: what they are written into, of the shape that they need; None where they stay on the server.
    shape: what the caller sees.
    out: where they have to be in the end, if that is not d.
    """

    encoded: Sequence[Encoded]
    d: Array | None
    shape: tuple[int, ...]
    out: Array | None
    element: ElementType


def prepare(regions: Regions, a: Any, b: Any, asked: Asked) -> Prepared:
    """ValueError and TypeError where shapes or types do not go together; the server checks the rest."""
    left, right = _matrix(a, "a"), _matrix(b, "b")
    left, right, shape, is_vector = _shaped(left, right)
    element = _result_type(left, right, asked)
    m, n = left.shape[-2], right.shape[-1]
    batch = shape[: len(shape) - 2]
    visible = batch + ((m,) if not is_vector[0] else ()) + ((n,) if not is_vector[1] else ())
    options = _options(asked, element)
    out = _checked_out(asked.out, visible, element)
    c = _addend(asked.c, (*batch, m, n), element, is_vector)
    if asked.keep and (batch or out is not None):
        raise ValueError("keep=True keeps one matrix: it goes with neither batches nor out=")
    k = left.shape[-1]
    if 0 in (*shape, k):
        return _nothing(visible, k, c, asked, out, element)
    bias = _bias(asked.bias, n, element)
    if asked.keep:
        one = _Maker(regions, options, element, None).encode(left, right, c, bias, None)
        return Prepared([one], None, (m, n), None, element)
    full = (*batch, m, n)
    in_place = out if out is not None and may_be_written(out, left, right, c, bias) else None
    work, region, is_in_place = _target(regions, in_place, full, element)
    maker = _Maker(regions, options, element, region)
    encoded = _products(maker, left, right, c, bias, work)
    return Prepared(encoded, work, visible, None if is_in_place else out, element)


def _matrix(x: Any, name: str) -> Matrix:
    if isinstance(x, Quantized | Resident):
        return x
    array = to_numpy(x, name)
    if array.ndim == 0:
        raise ValueError(f"{name} is a scalar; matmul multiplies vectors and matrices")
    element = types.of_dtype(array.dtype)
    if element.needs_scales or element.name == "e8m0":
        raise TypeError(f"{name} is {array.dtype}, which means nothing without scales: give gemmd.Quantized")
    return array


def _shaped(left: Matrix, right: Matrix) -> tuple[Matrix, Matrix, tuple[int, ...], tuple[bool, bool]]:
    """Vectors as matrices; the shape of the product, batch first; which of them were vectors."""
    vectors = (left.ndim == 1 if isinstance(left, np.ndarray) else False,
               right.ndim == 1 if isinstance(right, np.ndarray) else False)  # fmt: skip
    if vectors[0] and isinstance(left, np.ndarray):
        left = left.reshape(1, -1)
    if vectors[1] and isinstance(right, np.ndarray):
        right = right.reshape(-1, 1)
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"a has shape {left.shape} and b {right.shape}: a's last dimension is {left.shape[-1]}, "
            f"and b's last but one is {right.shape[-2]}; they must be equal"
        )
    batch: tuple[int, ...] = ()
    if len(left.shape) > 2 or len(right.shape) > 2:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return left, right, (*batch, left.shape[-2], right.shape[-1]), vectors


def _element(x: Matrix) -> ElementType:
    return types.of_dtype(x.dtype) if isinstance(x, np.ndarray) else x.element


def _has_scales(x: Matrix) -> bool:
    if isinstance(x, Quantized):
        return x.scales is not None
    return isinstance(x, Resident) and x.has_scales


def _result_type(left: Matrix, right: Matrix, asked: Asked) -> ElementType:
    a, b = _element(left), _element(right)
    types.check_factors(a, b)
    if asked.dtype is not None:
        return types.parse(asked.dtype)
    if asked.out is not None:
        return types.of_dtype(asked.out.dtype)
    return types.result_of(a, b, _has_scales(left) or _has_scales(right))


def _number(table: dict[str, int], field: str, value: str) -> int:
    found = table.get(value.lower().replace("-", "_"))
    if found is None:
        raise ValueError(f"{field} is {value!r}; it must be one of {', '.join(table)}")
    return found


def _options(asked: Asked, element: ElementType) -> Options:
    lease = lease_of(asked.lease)
    beta = asked.beta if asked.beta is not None else (0.0 if asked.c is None else 1.0)
    return Options(
        alpha=float(asked.alpha),
        beta=float(beta),
        activation=_number(ACTIVATIONS, "activation", asked.activation or "none"),
        output_type=element.number,
        accumulate_type=types.by_name(asked.accumulate).number if asked.accumulate else 0,
        determinism=_number(DETERMINISM, "determinism", asked.determinism),
        kernel=asked.kernel or "",
        priority=_number(PRIORITIES, "priority", asked.priority),
        verify=3 if asked.verify is True else int(asked.verify or 0),
        keep=None if not asked.keep else -1.0 if lease is None else lease,
        trace=trace_headers(asked.traceparent, asked.tracestate),
    )


def _checked_out(out: Any, shape: tuple[int, ...], element: ElementType) -> Array | None:
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; it must be a numpy.ndarray")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}; the product has {shape}")
    if types.of_dtype(out.dtype) != element:
        raise TypeError(f"out is {out.dtype}, and the product {element.name}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    check_apart(out)
    return np.asarray(out)


def _addend(c: Any, full: tuple[int, ...], element: ElementType, vectors: tuple[bool, bool]) -> Any:
    if c is None or isinstance(c, Resident):
        return c
    array = to_numpy(c, "c")
    if types.of_dtype(array.dtype) != element:
        raise TypeError(f"c is {array.dtype}, and the product {element.name}; they must be one type")
    if vectors[1] and array.ndim >= 1:
        array = array[..., None]
    if vectors[0]:
        array = array[..., None, :] if array.ndim >= 1 else array
    try:
        return np.broadcast_to(array, full)
    except ValueError:
        raise ValueError(f"c has shape {array.shape}, which does not broadcast to {full}") from None


def _bias(bias: Any, n: int, element: ElementType) -> Any:
    if bias is None or isinstance(bias, Resident):
        return bias
    array = to_numpy(bias, "bias")
    if types.of_dtype(array.dtype) != element:
        raise TypeError(f"bias is {array.dtype}, and the product {element.name}; they must be one type")
    if array.shape not in ((n,), (1, n)):
        raise ValueError(f"bias has shape {array.shape}; it must have {n} elements, one for each column")
    return np.ascontiguousarray(array).reshape(1, n)


def _nothing(
    visible: tuple[int, ...], k: int, c: Any, asked: Asked, out: Array | None, element: ElementType
) -> Prepared:
    """The server multiplies no empty matrices: what NumPy makes of them is made here."""
    if k == 0 and 0 not in visible and (c is not None or asked.bias is not None or asked.keep):
        raise ValueError("the factors have no element (K is 0): there is nothing to add to")
    d = np.zeros(visible, element.dtype)
    return Prepared([], d, visible, out, element)


def _target(
    regions: Regions, out: Array | None, full: tuple[int, ...], element: ElementType
) -> tuple[Array, Region | None, bool]:
    """What the products write into, of the full shape, the region that it lies in, and whether it is out.

    out: None where there is none, or where it must not be written before all of them have ended.
    """
    if out is not None:
        work = out.reshape(full) if out.flags.c_contiguous else out
        if work.shape == full:
            first = work[(0,) * (len(full) - 2)]
            if _layout.writable_bytes(first) is not None:
                is_one = len(full) == 2 or work.flags.c_contiguous
                region = regions.find(_layout.address_of(first), work.nbytes) if is_one else None
                return work, region, True
    return np.empty(full, element.dtype), None, False


def _products(maker: _Maker, left: Matrix, right: Matrix, c: Any, bias: Any, work: Array) -> Sequence[Encoded]:
    batch = work.shape[:-2]
    if not batch:
        return [maker.encode(left, right, c, bias, work)]
    if isinstance(c, Resident):
        raise ValueError("a resident c goes with one product, not with a batch")
    m, k = left.shape[-2:]
    if math.prod(right.shape[:-2]) == 1 and isinstance(left, np.ndarray) and work.flags.c_contiguous:
        rows = math.prod(batch) * m
        one = right.reshape(right.shape[-2:]) if isinstance(right, np.ndarray) else right
        many = np.broadcast_to(left, (*batch, m, k)).reshape(rows, k)
        addend = None if c is None else c.reshape(rows, work.shape[-1])
        return [maker.encode(many, one, addend, bias, work.reshape(rows, work.shape[-1]))]
    many_left = np.broadcast_to(left, (*batch, *left.shape[-2:])) if isinstance(left, np.ndarray) else None
    many_right = np.broadcast_to(right, (*batch, *right.shape[-2:])) if isinstance(right, np.ndarray) else None
    return [
        maker.encode(
            left if many_left is None else many_left[at],
            right if many_right is None else many_right[at],
            None if c is None else c[at],
            bias,
            work[at],
        )
        for at in np.ndindex(*batch)
    ]


class _Maker:
    """Makes one product of two matrices at a time, all with the same options."""

    def __init__(self, regions: Regions, options: Options, element: ElementType, region: Region | None) -> None:
        self._regions = regions
        self._options = options
        self._element = element
        self._region = region

    def encode(self, a: Matrix, b: Matrix, c: Any, bias: Any, d: Array | None) -> Encoded:
        planes: list[PlaneBytes] = []
        keeps: list[Any] = []
        parts = [
            self._operand(x, name, planes, keeps) for x, name in ((a, "A"), (b, "B"), (c, "C"), (bias, "BIAS"))
        ]
        order = _layout.ROW_MAJOR
        target: memoryview | None = None
        address = 0
        if d is not None:
            found = _layout.writable_bytes(d)
            if found is None:
                raise AssertionError("a result's matrix is packed")
            order, target = found
            address = _layout.address_of(d) if self._region is not None else 0
        expected = Plane(self._element.number, a.shape[-2], b.shape[-1], order)
        options = self._options if order == _layout.ROW_MAJOR else self._options._replace(output_order=order)
        region = self._region
        is_shared = region is not None
        if region is not None:
            keeps.append(region)

        def specs() -> tuple[tuple[OperandSpec | None, ...], Place | None]:
            operands = tuple(None if each is None else each() for each in parts)
            return operands, region.place(address) if region is not None else None

        inner = None if is_shared else target
        return Encoded(specs, options, planes, expected, None if is_shared else d, inner, tuple(keeps))

    def _operand(self, x: Any, name: str, planes: list[PlaneBytes], keeps: list[Any]) -> Any:
        """What makes the operand's spec; inline planes are added to `planes`."""
        if x is None:
            return None
        if isinstance(x, Resident):
            spec = x.spec._replace(place=x.place)
            keeps.append(x)
            return lambda: spec
        if isinstance(x, Quantized):
            made = _planes.of_quantized(x, name == "A", is_packed=False)
        else:
            made = _planes.of_array(x, is_packed=False)
        keeps.append(made)
        spec = made.spec()
        found = made.region() if self._regions.is_any else None
        region = None if found is None else self._regions.find(*found)
        if found is not None and region is not None:
            keeps.append(region)
            return lambda: spec._replace(place=region.place(found[0]))
        planes += [PlaneBytes(OPERANDS[name], plane, laid.data) for plane, laid in made.planes]
        return lambda: spec


def source_of(x: Any, store_as: str | None = None, axis: int = 1) -> Source:
    """A matrix to be uploaded: tightly packed, which costs a copy where it is not."""
    if isinstance(x, Quantized):
        if store_as is not None:
            raise ValueError(f"store_as is {store_as!r}, and x is quantized already")
        made = _planes.of_quantized(x, None, is_packed=True)
        return Source(made.planes, made.blocks)
    array = to_numpy(x, "x")
    if array.ndim != 2:
        raise ValueError(f"x has shape {array.shape}; what stays on the server is a matrix")
    if 0 in array.shape:
        raise ValueError(f"x has shape {array.shape}; it has no element")
    made = _planes.of_array(array, is_packed=True)
    return Source(made.planes, None, None if store_as is None else _stored_form(made.spec().data, store_as, axis))


def _stored_form(data: Plane, store_as: str, axis: int) -> OperandSpec:
    """The planes that Quantized.of(x, store_as, axis) has."""
    _checks.choice("axis", axis, (0, 1))
    form = _formats.by_name(store_as, axis)
    rows, columns = _checks.plane_shape(form, PLAIN, (data.rows, data.columns), axis)
    scaling = [(SCALES, Plane(form.scale.number, rows, columns))]
    if form.has_zero_points:
        scaling.append((ZERO_POINTS, Plane(form.zero_point.number, rows, columns)))
    if form.has_tensor_scale:
        scaling.append((TENSOR_SCALE, Plane(types.by_name("f32").number, 1, 1)))
    blocks = Blocks(form.block_k, form.block_lines, LAYOUTS[PLAIN]) if form.has_blocks else None
    return OperandSpec(data._replace(type=form.element.number), tuple(scaling), blocks)
