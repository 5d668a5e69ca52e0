"""From what matmul() is given to products that can be sent.

Shapes follow numpy.matmul: of arrays with more than two dimensions the last two are the matrices, and the others
are broadcast. Where the right factor is one matrix, all of the left one's rows are one product; else the products
are a batch, which is one request too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gemmd import _layout, _planes, types
from gemmd._durations import lease_of
from gemmd._encoded import Encoded, PlaneBytes
from gemmd._factors import Matrix, element_of, has_scales, in_one_order, matrix, of_one_type, shaped, transposed
from gemmd._header import (
    ACTIVATIONS,
    DETERMINISM,
    OPERANDS,
    PRIORITIES,
    Batch,
    OperandSpec,
    Options,
    Place,
)
from gemmd._inputs import to_numpy
from gemmd._layout import Array, Plane
from gemmd._overlap import check_apart, may_be_written
from gemmd._regions import Region, Regions
from gemmd._split import POLICY, Rows, cut_rows
from gemmd._trace import trace_headers
from gemmd.errors import Unimplemented
from gemmd.quantized import Quantized
from gemmd.resident import Named, Resident, Transposed
from gemmd.stacked import Stacked
from gemmd.types import ElementType


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
    transpose_a: bool = False
    transpose_b: bool = False
    row_ends: Any = None
    split: bool = False


@dataclass(frozen=True)
class Prepared:
    """Products to be sent, and where their results are.

    encoded: none where there is nothing to compute.
    d: what they are written into, of the shape that they need; None where they stay on the server.
    shape: what the caller sees.
    out: where they have to be in the end, if that is not d.
    alone: makes the products of a batch one by one, for a server that does not take it.
    rows: of a product that is split, each request's; else none. apart: makes the request of some of these rows into
    memory of its own.
    """

    encoded: Sequence[Encoded]
    d: Array | None
    shape: tuple[int, ...]
    out: Array | None
    element: ElementType
    alone: Callable[[], Sequence[Encoded]] | None = None
    rows: Sequence[Rows] = ()
    apart: Callable[[Rows], Encoded] | None = None


def prepare(regions: Regions, a: Any, b: Any, asked: Asked, servers: int = 1) -> Prepared:
    """ValueError and TypeError where shapes or types do not go together; the server checks the rest.

    servers: that a product may be split over.
    """
    if asked.split:
        _check_split(asked)
    left, right = matrix(a, "a"), matrix(b, "b")
    left = transposed(left, "a") if asked.transpose_a else left
    right = transposed(right, "b") if asked.transpose_b else right
    left, right = of_one_type(left, right)
    if asked.row_ends is not None:
        return _in_groups(regions, left, right, asked)
    left, right, shape, is_vector = shaped(left, right)
    left, right = in_one_order(left, right)
    element = _result_type(left, right, asked)
    m, n = left.shape[-2], right.shape[-1]
    batch = shape[: len(shape) - 2]
    visible = batch + ((m,) if not is_vector[0] else ()) + ((n,) if not is_vector[1] else ())
    options = _options(asked, element)
    out = _checked_out(asked.out, visible, element)
    c = _addend(asked.c, (*batch, m, n), element, is_vector)
    if asked.keep and (batch or out is not None):
        raise ValueError("keep=True keeps one matrix: it goes with neither batches nor out=")
    bias = _bias(asked.bias, n, element)
    if 0 in shape:
        return _nothing(visible, asked, out, element)
    if asked.keep:
        one = _Maker(regions, options, element, None, False).encode(left, right, c, bias, None)
        return Prepared([one], None, (m, n), None, element)
    full = (*batch, m, n)
    if asked.split:
        return _in_parts(_Split(regions, options, element, left, right, c, bias), visible, out, servers)
    in_place = out if out is not None and may_be_written(out, left, right, c, bias) else None
    work, region, is_in_place = _target(regions, in_place, full, element)
    maker = _Maker(regions, options, element, region, is_in_place)
    made = _Products(maker, left, right, c, bias, work)
    is_batch, encoded = made.in_one()
    alone = made.alone if is_batch else None
    return Prepared([encoded], work, visible, None if is_in_place else out, element, alone)


def _in_groups(regions: Regions, left: Matrix, right: Matrix, asked: Asked) -> Prepared:
    """Rows of the left factor by matrices of the right one: each group by its own."""
    if len(left.shape) != 2 or len(right.shape) != 3:
        raise ValueError(
            f"a has shape {left.shape} and b {right.shape}; groups are rows of one, and b has a matrix for each"
        )
    (m, k), (count, inner, n) = left.shape, right.shape
    if k != inner:
        raise ValueError(f"a has shape {left.shape} and b {right.shape}: K is {k} and {inner}; they must be equal")
    ends = _row_ends(asked.row_ends, m, count)
    left, right = in_one_order(left, right)
    element = _result_type(left, right, asked)
    out = _checked_out(asked.out, (m, n), element)
    if asked.keep and out is not None:
        raise ValueError("keep=True leaves the result on the server: it does not go with out=")
    if 0 in (m, n):
        return _nothing((m, n), asked, out, element)
    c = _addend(asked.c, (m, n), element, (False, False))
    bias = _bias_of_groups(asked.bias, count, n, element)
    if asked.keep:
        kept = _Maker(regions, _options(asked, element), element, None, False)
        return Prepared([kept.encode(left, right, c, bias, None, ends)], None, (m, n), None, element)
    is_theirs = out is not None and out.flags.c_contiguous and may_be_written(out, left, right, c, bias)
    work, region, is_in_place = _target(regions, out if is_theirs else None, (m, n), element)
    maker = _Maker(regions, _options(asked, element), element, region, is_in_place)
    made = _Groups(maker, left, right, c, bias, work, ends)
    return Prepared([made.in_one()], work, (m, n), None if is_in_place else out, element, made.alone)


def _row_ends(given: Any, rows: int, count: int) -> tuple[int, ...]:
    array = to_numpy(given, "offsets")
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size != count:
        raise ValueError(
            f"offsets is {array.dtype} of shape {array.shape}; it must be {count} integers, one a matrix of b"
        )
    ends = tuple(array.tolist())
    for before, end in zip((0, *ends), ends, strict=False):
        if end < before:
            raise ValueError(f"offsets has {end} behind {before}; none may be less than the one before")
    if not ends or ends[-1] != rows:
        last = ends[-1] if ends else "missing"
        raise ValueError(f"the last of offsets is {last}; it must be {rows}, the rows of a")
    return ends


def _bias_of_groups(bias: Any, count: int, n: int, element: ElementType) -> Any:
    """(N,) for all of them, or count x N, as a stack of lines."""
    array = None if bias is None or isinstance(bias, Resident) else _added(bias, "bias", element)
    if array is None or array.shape != (count, n):
        return _bias(bias, n, element)
    return np.ascontiguousarray(array).reshape(count, 1, n)


def _result_type(left: Matrix, right: Matrix, asked: Asked) -> ElementType:
    a, b = element_of(left), element_of(right)
    types.check_factors(a, b)
    if asked.dtype is not None:
        return types.parse(asked.dtype)
    if asked.out is not None:
        return types.of_dtype(asked.out.dtype)
    return types.result_of(a, b, has_scales(left) or has_scales(right))


def _number(table: dict[str, int], field: str, value: str) -> int:
    found = table.get(value.lower().replace("-", "_"))
    if found is None:
        raise ValueError(f"{field} is {value!r}; it must be one of {', '.join(table)}")
    return found


def _real(name: str, value: Any) -> float:
    """The server says which of them it takes."""
    try:
        return float(value)
    except OverflowError:  # an int
        raise ValueError(f"{name} is {value!r}; it must be finite as float64") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; it must be a number") from None


def _vectors(verify: Any) -> int:
    if verify is True:
        return 3
    if not isinstance(verify, int | np.integer | None) or not 0 <= (verify or 0) < 1 << 32:
        raise ValueError(f"verify is {verify!r}; it must be the number of random vectors, 0 for none")
    return int(verify or 0)


def _options(asked: Asked, element: ElementType) -> Options:
    lease = lease_of(asked.lease)
    beta = asked.beta if asked.beta is not None else (0.0 if asked.c is None else 1.0)
    return Options(
        alpha=_real("alpha", asked.alpha),
        beta=_real("beta", beta),
        activation=_number(ACTIVATIONS, "activation", asked.activation or "none"),
        output_type=element.number,
        accumulate_type=types.by_name(asked.accumulate).number if asked.accumulate else 0,
        determinism=_number(DETERMINISM, "determinism", asked.determinism),
        kernel=asked.kernel or "",
        priority=_number(PRIORITIES, "priority", asked.priority),
        verify=_vectors(asked.verify),
        keep=None if not asked.keep else -1.0 if lease is None else lease,
        trace=trace_headers(asked.traceparent, asked.tracestate),
    )


def _checked_out(out: Any, shape: tuple[int, ...], element: ElementType) -> Array | None:
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; it must be a numpy.ndarray")
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError("out is a masked array, whose mask would hide results: give out=out.data")
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
    array = _added(c, "c", element)
    if vectors[1] and array.ndim >= 1:
        array = array[..., None]
    if vectors[0]:
        array = array[..., None, :] if array.ndim >= 1 else array
    try:
        return np.broadcast_to(array, full)
    except ValueError:
        raise ValueError(f"c has shape {array.shape}, which does not broadcast to {full}") from None


def _added(x: Any, name: str, element: ElementType) -> Array:
    """What is added to a product: of its type, or of one whose values it holds. Python's numbers take its type."""
    if isinstance(x, Transposed):
        raise TypeError(f"{name} is a transposed matrix on the server; only factors can be transposed there")
    if isinstance(x, int | float) and not isinstance(x, bool):
        try:
            return np.asarray(x, element.dtype)
        except (OverflowError, ValueError) as error:
            raise ValueError(f"{name} is {x!r}, which {element.name}, the product's type, does not hold") from error
    array = to_numpy(x, name)
    if array.dtype != element.dtype and not np.can_cast(array.dtype, element.dtype, "safe"):
        raise TypeError(
            f"{name} is {array.dtype}, and the product {element.name}, which does not hold every value of that: "
            f"make it {element.name}, or ask for another product by dtype="
        )
    return array.astype(element.dtype, copy=False)


def _bias(bias: Any, n: int, element: ElementType) -> Any:
    if bias is None or isinstance(bias, Resident):
        return bias
    array = _added(bias, "bias", element)
    if array.shape not in ((n,), (1, n)):
        raise ValueError(f"bias has shape {array.shape}; it must have {n} elements, one for each column")
    return np.ascontiguousarray(array).reshape(1, n)


def _nothing(visible: tuple[int, ...], asked: Asked, out: Array | None, element: ElementType) -> Prepared:
    """A product without elements, for which nothing is sent."""
    if asked.keep:
        raise ValueError(f"the product has shape {visible}: keep=True goes with products that have elements")
    return Prepared([], np.empty(visible, element.dtype), visible, out, element)


def _target(
    regions: Regions, out: Array | None, full: tuple[int, ...], element: ElementType
) -> tuple[Array, Region | None, bool]:
    """What the products write into, of the full shape, the region that it lies in, and whether it is out.

    out: None where there is none, or where it must not be written before all of them have ended.
    """
    if out is not None:
        work = out.reshape(full) if out.flags.c_contiguous else out
        if work.shape == full and _layout.writable_bytes(work) is not None:
            return work, regions.find(_layout.address_of(work), work.nbytes), True
    return np.empty(full, element.dtype), None, False


def _check_split(asked: Asked) -> None:
    if asked.row_ends is not None:
        raise ValueError("split=True goes with one product, not with groups of rows")
    if asked.keep:
        raise ValueError("split=True goes without keep=: each server would keep some of the rows")
    if _number(DETERMINISM, "determinism", asked.determinism) != DETERMINISM["batch_invariant"]:
        raise ValueError(f"determinism is {asked.determinism!r}; with split=True it must be 'batch_invariant'")


class _Split(NamedTuple):
    """A product whose rows are split: all rows of `left` by one right factor."""

    regions: Regions
    options: Options
    element: ElementType
    left: Matrix
    right: Matrix
    c: Any
    bias: Any

    def checked(self) -> _Split:
        """With matrices of two dimensions. ValueError names what has no rows to be cut, or what one server has."""
        if not isinstance(self.left, np.ndarray):
            raise ValueError(
                "a is quantized or on a server; with split=True it must be an array, whose rows are cut"
            )
        if isinstance(self.c, Resident):
            raise ValueError("c is on a server; with split=True it must be an array, whose rows are cut")
        if len(self.right.shape) > 2 and math.prod(self.right.shape[:-2]) > 1:
            raise ValueError(f"b has shape {self.right.shape}; with split=True it must be one matrix")
        for x, name in ((self.right, "b"), (self.bias, "bias")):
            held = x.T if isinstance(x, Transposed) else x.matrix if isinstance(x, Stacked) else x
            if isinstance(held, Resident) and held.place.kind != "digest":
                raise ValueError(
                    f"{name} is {held.place.name!r}, which one server has; with split=True it must be an array, or "
                    "what put() or resident() of a digest returned"
                )
        m, k, n = math.prod(self.left.shape[:-1]), self.left.shape[-1], self.right.shape[-1]
        right = _of_batch(self.right, self.right.shape[:-2])
        c = None if self.c is None else self.c.reshape(m, n)
        return self._replace(left=self.left.reshape(m, k), right=right, c=c)

    def part(self, rows: Rows, d: Array, is_callers: bool) -> Encoded:
        """The request of some rows."""
        some = slice(*rows)
        assert isinstance(self.left, np.ndarray)  # checked
        maker = _Maker(self.regions, self.options, self.element, None, is_callers)
        c = None if self.c is None else self.c[some]
        made = maker.encode(self.left[some], self.right, c, self.bias, d)
        if made.server:
            raise ValueError(f"an array is in memory that {made.server} shares; with split=True it must not be")
        return made


def _in_parts(split: _Split, visible: tuple[int, ...], out: Array | None, servers: int) -> Prepared:
    """Requests of some rows each, whose results lie in one D."""
    split = split.checked()
    m, n = split.left.shape[0], split.right.shape[-1]
    is_theirs = (
        out is not None
        and out.flags.c_contiguous
        and may_be_written(out, split.left, split.right, split.c, split.bias)
    )
    work = out.reshape(m, n) if out is not None and is_theirs else np.empty((m, n), split.element.dtype)
    rows = cut_rows(m, 2.0 * split.left.shape[1] * n, servers, POLICY)
    encoded = [split.part(each, work[slice(*each)], is_theirs) for each in rows]

    def apart(some: Rows) -> Encoded:
        return split.part(some, np.empty((some.end - some.begin, n), split.element.dtype), False)

    left_over = None if is_theirs else out
    return Prepared(encoded, work, visible, left_over, split.element, None, rows, apart)


class _Products(NamedTuple):
    """What is to be computed into `work`, of the full shape: (..., M, N)."""

    maker: _Maker
    left: Matrix
    right: Matrix
    c: Any
    bias: Any
    work: Array

    def in_one(self) -> tuple[bool, Encoded]:
        """All in one request, and whether that is a batch."""
        batch, (m, n) = self.work.shape[:-2], self.work.shape[-2:]
        count = math.prod(batch)
        if count > 1 and isinstance(self.left, np.ndarray) and self._is_one_of_many_rows():
            rows, k = count * m, self.left.shape[-1]
            many = np.broadcast_to(self.left, (*batch, m, k)).reshape(rows, k)
            c = None if self.c is None else self.c.reshape(rows, n)
            work = self.work.reshape(rows, n)
            return False, self.maker.encode(many, _of_batch(self.right, batch), c, self.bias, work)
        left, right, c = (_of_batch(each, batch) for each in (self.left, self.right, self.c))
        work = self.work.reshape(*([count] if count > 1 else []), m, n)
        return count > 1, self.maker.encode(left, right, c, self.bias, work)

    def _is_one_of_many_rows(self) -> bool:
        """One right factor, and a row's bits depend on no others: determinism="fast" does not say that."""
        return (
            math.prod(self.right.shape[:-2]) == 1
            and not isinstance(self.c, Resident)
            and self.work.flags.c_contiguous
            and self.maker.is_batch_invariant
        )

    def alone(self) -> Sequence[Encoded]:
        """Each product in a request of its own."""
        batch = self.work.shape[:-2]
        left, right, c = (
            np.broadcast_to(each, (*batch, *each.shape[-2:])) if isinstance(each, np.ndarray) else each
            for each in (self.left, self.right, self.c)
        )
        return [
            self.maker.encode(_at(left, at), _at(right, at), _at(c, at), self.bias, self.work[at])
            for at in np.ndindex(*batch)
        ]


class _Groups(NamedTuple):
    """Groups of rows of one matrix, whose products are the rows of `work`."""

    maker: _Maker
    left: Matrix
    right: Matrix
    c: Any
    bias: Any
    work: Array
    ends: tuple[int, ...]

    def in_one(self) -> Encoded:
        """All in one request."""
        return self.maker.encode(self.left, self.right, self.c, self.bias, self.work, self.ends)

    def alone(self) -> Sequence[Encoded]:
        """Each group that has rows in a request of its own."""
        if not isinstance(self.left, np.ndarray):
            raise Unimplemented("the server takes no groups, and a is quantized, of which no rows are cut here")
        made = []
        for i, (begin, end) in enumerate(zip((0, *self.ends), self.ends, strict=False)):
            if begin == end:
                continue
            rows = slice(begin, end)
            c = self.c[rows] if isinstance(self.c, np.ndarray) else self.c
            bias = self.bias[i] if isinstance(self.bias, np.ndarray) and self.bias.ndim == 3 else self.bias
            made.append(self.maker.encode(self.left[rows], _at(self.right, (i,)), c, bias, self.work[rows]))
        return made


def _is_turned(x: Matrix) -> bool:
    return isinstance(x, Transposed) or (isinstance(x, Stacked) and x.is_turned)


def _server_of(keeps: Sequence[Any]) -> str:
    """The one of several servers that shares the memory of all regions among them; empty: there is no region."""
    servers = {each.server for each in keeps if isinstance(each, Region)}
    if len(servers) > 1:
        raise ValueError(
            f"arrays are in memory that {' and '.join(sorted(servers))} share: a product is made on one server, "
            "which must share all of it"
        )
    return servers.pop() if servers else ""


def _at(x: Any, at: tuple[int, ...]) -> Any:
    if isinstance(x, Stacked) and x.ndim > 2:
        return x[at[-1] if len(x) > 1 else 0]
    return x[at] if isinstance(x, np.ndarray) else x


def _of_batch(x: Any, batch: tuple[int, ...]) -> Any:
    """An array's matrices, count x rows x columns, or the one that all products take; anything else as it is."""
    if not isinstance(x, np.ndarray):
        return x
    shape = x.shape[-2:]
    if all(size == 1 or stride == 0 for size, stride in zip(x.shape[:-2], x.strides[:-2], strict=True)):
        return x[(0,) * (x.ndim - 2)]
    # A view where one stride walks the batch, else a copy.
    return np.broadcast_to(x, (*batch, *shape)).reshape(math.prod(batch), *shape)


class _Maker:
    """Makes requests of products, all with the same options."""

    def __init__(
        self, regions: Regions, options: Options, element: ElementType, region: Region | None, is_callers: bool
    ) -> None:
        self._regions = regions
        self._options = options
        self._element = element
        self._region = region
        self._is_callers = is_callers  # D is their own array

    @property
    def is_batch_invariant(self) -> bool:
        return self._options.determinism == DETERMINISM["batch_invariant"]

    def encode(
        self, a: Matrix, b: Matrix, c: Any, bias: Any, d: Array | None, row_ends: tuple[int, ...] = ()
    ) -> Encoded:
        """One product, or as many as d has matrices, or as there are groups of rows.

        Arrays of three dimensions have a matrix for each.
        """
        planes: list[PlaneBytes] = []
        keeps: list[Any] = []
        strides: list[int] = []
        parts = [
            self._operand(x, name, planes, keeps, strides)
            for x, name in ((a, "A"), (b, "B"), (c, "C"), (bias, "BIAS"))
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
        transposes = _is_turned(a), _is_turned(b)
        options = self._options
        if order != _layout.ROW_MAJOR or any(transposes):
            options = options._replace(output_order=order, transpose_a=transposes[0], transpose_b=transposes[1])
        if row_ends:
            options = options._replace(batch=Batch(len(row_ends), row_ends, *strides))
        elif d is not None and d.ndim > 2:
            options = options._replace(batch=Batch(d.shape[0], (), *strides))
        region = self._region
        is_shared = region is not None
        if region is not None:
            keeps.append(region)

        def specs() -> tuple[tuple[OperandSpec | None, ...], Place | None]:
            operands = tuple(None if each is None else each() for each in parts)
            return operands, region.place(address) if region is not None else None

        inner = None if is_shared else target
        written = None if is_shared else d
        server = _server_of(keeps)
        callers = self._is_callers
        return Encoded(specs, options, planes, expected, written, inner, tuple(keeps), callers, address, server)

    def _operand(self, x: Any, name: str, planes: list[PlaneBytes], keeps: list[Any], strides: list[int]) -> Any:
        """What makes the operand's spec; inline planes are added to `planes`, and its stride to `strides`."""
        stride = 0
        if isinstance(x, np.ndarray) and x.ndim > 2:
            made, stride = _planes.of_stack(x)
        if isinstance(x, Stacked):
            stride = x.stride
        strides.append(stride)
        if x is None:
            return None
        if isinstance(x, Stacked):
            stack, there = x, x.matrix.place
            keeps.append(x.matrix)
            return lambda: stack.spec(there)
        if isinstance(x, Resident | Transposed):
            matrix = x.T if isinstance(x, Transposed) else x
            place = matrix.place
            keeps.append(matrix)
            if isinstance(matrix, Named):
                return lambda: matrix.spec._replace(place=place)
            spec = matrix.spec._replace(place=place)
            return lambda: spec
        if isinstance(x, Quantized):
            made = _planes.of_quantized(x, name == "A", is_packed=False)
        elif x.ndim == 2:
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
