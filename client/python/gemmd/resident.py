"""Matrices that the server keeps: weights that many products use, and results that feed products."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmd import _messages, _transfer, errors, types
from gemmd._digest import Source
from gemmd._durations import deadline_of, lease_of
from gemmd._encoded import bad_response
from gemmd._header import (
    DATA,
    OFFSETS,
    SCALES,
    TENSOR_SCALE,
    ZERO_POINTS,
    OperandSpec,
    Place,
    seconds_into,
    seconds_of,
    spec_of,
)
from gemmd._layout import COLUMN_MAJOR, Array, Plane
from gemmd._names import check_name
from gemmd._packing import unpack
from gemmd._progress import Counter
from gemmd._scale_layout import LAYOUTS
from gemmd._transfer import Deadline, call_about, download
from gemmd.quantized import Quantized
from gemmd.receipt import Receipt
from gemmd.stacked import Stacked, matrix_of

if TYPE_CHECKING:
    from gemmd._engine import Engine
    from gemmd._server import Server
    from gemmd.client import Client


_NO_ARRAY = "this matrix is on the server: numpy() downloads it; matmul() and @ multiply by it there"


class Resident:
    """A matrix on the server, of `shape` (rows, columns) and `dtype`. Made by put(), matmul(keep=True), resident().

    One that put() made holds its bytes here too: where the server has lost it, by a restart or an eviction, it is
    uploaded again in the midst of the product that missed it. The array must not be changed meanwhile.
    With this upload it gets the names again that this client gave it, unless another matrix has them by then.
    As a context manager it is released at the end. `saved_bytes` is what put(store_as=) saved on the server.
    x @ w, w @ x and w.T are matmul()'s products, on the client that made it.

    It is known by its `digest`, a result by its `handle`: where a name moves to another matrix, this stays the old
    one. client.named() follows the name. `names` is a tuple of those that it had when the server last told of it.

    It pickles as its name and its client's arguments, without the bytes: another process that reads it multiplies
    by the same matrix, and does not upload it again where the server lost it.
    """

    __array_ufunc__ = None  # so that NumPy leaves x @ w to __rmatmul__

    def __init__(
        self,
        engine: Engine,
        spec: OperandSpec,
        handle: str,
        digest: bytes,
        source: Source | None = None,
        receipt: Receipt | None = None,
        saved_bytes: int = 0,
        names: Sequence[str] = (),
    ) -> None:
        self._engine = engine
        self._client = engine.owner()  # which lives as long as what it made
        self._released = False
        self.spec = spec
        self.handle = handle
        self.digest = digest
        self.source = source
        self.receipt = receipt
        self.saved_bytes = saved_bytes
        self.names = tuple(names)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.spec.data.rows, self.spec.data.columns

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def T(self) -> Transposed:  # noqa: N802
        """The transposed matrix, for products alone: nothing is sent or stored."""
        return Transposed(self)

    def stack(self, count: int) -> Stacked:
        """Its rows as those of `count` matrices of one shape, one below the other: a factor of three dimensions.

        put(x.reshape(-1, x.shape[-1])).stack(len(x)) has the matrices of an array of three. A matrix that is stored
        in Fortran order is cut along its columns. Weights with blocks of scales are best N x K, with the experts'
        rows one below the other, and multiply as stack.mT: GPUs pack these.

        ValueError: count does not divide the rows.
        """
        matrix_of(self.spec.data, count)
        return Stacked(self, count, range(count))

    @property
    def element(self) -> types.ElementType:
        """The type of its elements."""
        return types.by_number(self.spec.data.type)

    @property
    def has_scales(self) -> bool:
        """Whether its elements are worth something else than what is stored."""
        return bool(self.spec.scaling)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of its elements; TypeError where that needs ml_dtypes, which is not installed."""
        return self.element.dtype

    @property
    def nbytes(self) -> int:
        """Bytes on the server, of its data with scales and what else it has."""
        planes = (self.spec.data, *(plane for _, plane in self.spec.scaling))
        return sum(types.by_number(each.type).plane_bytes(each.rows * each.columns) for each in planes)

    @property
    def place(self) -> Place:
        """How products name it. ValueError: it was released."""
        if self._released:
            raise ValueError("this resident matrix was released")
        return self._where

    @property
    def _where(self) -> Place:
        return Place("digest", self.digest) if self.digest else Place("handle", self.handle)

    def __matmul__(self, x: Any) -> Any:
        return self._client.matmul(self, x)

    def __rmatmul__(self, x: Any) -> Any:
        return self._client.matmul(x, self)

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            "this matrix is on the server: numpy() downloads it, and matmul() and @ multiply by it there"
        )

    def __reduce__(self) -> Any:
        return _again, (
            self._client,
            self.spec,
            self.handle,
            self.digest,
            self.saved_bytes,
            self._released,
            self.names,
        )

    def _learn(self, message: Any) -> None:
        """Takes over what a ResidentOperand says of it that may change."""
        self.handle, self.digest, self.names = message.handle, message.digest, tuple(message.names)

    def set_name(self, name: str, *, replace: bool = False, deadline: float | None = None) -> None:
        """Gives it one more name, by which client.named() and client.resident() find it.

        name: 1 to 255 bytes of UTF-8 without control characters, not in the form of a handle ("a1b2c3d4-7") or of a
        digest. It is this tenant's, and of one matrix. A matrix has up to 1024 names, and each counts as a matrix
        without bytes. replace: takes it from another matrix, in one step: a product gets either the one or the
        other. That one stays, for its lease at least: release() it where you have no more use for it.

        AlreadyExists: another matrix has it, and replace is False. ValueError: no such name, or it was released.
        """
        check_name("name", name)
        place, end = self.place, Deadline(deadline_of(deadline))
        found = end.run(lambda: _transfer.set_name(self._engine, place, name, replace, end, self.source))
        self._learn(found)

    def numpy(self, deadline: float | None = None, progress: Callable[[int, int], None] | None = None) -> Array:
        """Its values, downloaded: rows x columns of its dtype; of one with scales the stored elements.

        Elements of types that NumPy lacks without ml_dtypes come as their codes, a byte each. progress: as in
        Client.put().
        """
        spec, planes, _ = self._download(deadline, progress)
        return _matrix(spec.data, planes[DATA])

    def quantized(self, deadline: float | None = None) -> Quantized:
        """Its stored elements with all that scales them, and its order of K, downloaded."""
        spec, planes, order = self._download(deadline)
        found = {name: _matrix(plane, planes[name]) for name, plane in spec.scaling}
        packed: dict[str, Any] = {}
        data = planes[DATA]
        element = types.by_number(spec.data.type)
        if element.is_packed:
            shape = spec.data.rows, spec.data.columns
            packed = {"shape": shape, "order": "F" if spec.data.order == COLUMN_MAJOR else "C"}
        else:
            data = _matrix(spec.data, data)
        blocks: dict[str, Any] = {}
        if spec.blocks is not None:
            layouts = {number: name for name, number in LAYOUTS.items()}
            if spec.blocks.scale_layout not in layouts:
                raise bad_response(
                    f"scales lie in layout {spec.blocks.scale_layout}, which this version does not know"
                )
            blocks = {"block_k": spec.blocks.block_k, "block_lines": spec.blocks.block_lines}
            blocks["scale_layout"] = layouts[spec.blocks.scale_layout]
        if order:
            k_order = np.frombuffer(order, "<u4")
            blocks |= {"k_order": k_order, "axis": _axis_of(spec, k_order.size)}
        return Quantized(
            data,
            found.get(SCALES),
            element.name,
            zero_points=found.get(ZERO_POINTS),
            tensor_scale=found.get(TENSOR_SCALE),
            offsets=found.get(OFFSETS),
            **blocks,
            **packed,
        )

    def _download(
        self, deadline: float | None, progress: Callable[[int, int], None] | None = None
    ) -> tuple[OperandSpec, dict[int, Array], bytes]:
        end = Deadline(deadline_of(deadline))
        counter = Counter()
        operand, planes = end.run(
            lambda: download(self._engine, self._where, end, counter.expect), counter.meter(progress, "download")
        )
        return spec_of(operand), planes, operand.k_order

    def renew(self, lease: float | None = None, deadline: float | None = None) -> float:
        """Begins the lease anew, of so many seconds (None: as before); what remains of it, in seconds."""
        request = _messages.RenewRequest()
        seconds = lease_of(lease)
        if seconds is not None:
            seconds_into(seconds, request.lease)
        end = Deadline(deadline_of(deadline))
        place, kind = self._where, _messages.RenewResponse
        answer = end.run(lambda: call_about(self._engine, place, "Operands/Renew", request, kind, end))
        return seconds_of(answer.lease_remaining)

    def release(self, deadline: float | None = None) -> None:
        """Every server forgets it with its names, for everybody; nothing where it has already."""
        if self._released:
            return
        end = Deadline(deadline_of(deadline))
        with contextlib.suppress(errors.NotFound):
            end.run(lambda: _transfer.release(self._engine, self._where, end))
        self._released = True
        self.source = None

    def __enter__(self) -> Resident:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        names = f", {self.names[0]!r}{more}" if self.names else ""
        return f"Resident({self._form()}, @{self.handle}{names}{self._state()})"

    def _form(self) -> str:
        return f"{self.shape[0]} x {self.shape[1]} {self.element.name}"

    def _state(self) -> str:
        return ", released" if self._released else ""


class Named(Resident):
    """A name on the server: each product takes the matrix that has it then. Made by client.named().

    So a replacement takes effect with the next product, as a whole: a product gets either the old matrix or the new
    one. The new one may be stored otherwise, and be of another type where that goes with the other factor. Its
    shape must be the same: InvalidArgument says so, and client.named() makes another one. NotFound: no matrix has
    the name. Nothing brings it back here; what put() returned does, and a server that loads it at its start.

    `name` stays. `dtype`, `handle`, `digest` and `names` are of the matrix that had the name when the server last
    told. numpy(), renew() and set_name() are of the one that has it at the call. release(), and the end of a
    `with`, are for everybody who uses the name: of several names of a matrix it goes alone, the last one with its
    matrix.
    """

    def __init__(
        self, engine: Engine, name: str, spec: OperandSpec, handle: str, digest: bytes, names: Sequence[str]
    ) -> None:
        super().__init__(engine, spec, handle, digest, names=names)
        self.name = name

    @property
    def _where(self) -> Place:
        return Place("name", self.name)

    def __reduce__(self) -> Any:
        return _named_again, (
            self._client,
            self.name,
            self.spec,
            self.handle,
            self.digest,
            self._released,
            self.names,
        )

    def _follow(self, server: Server, deadline: Deadline) -> bool:
        """Asks which matrix has the name there now; whether it lies otherwise. InvalidArgument: another shape."""
        message = _transfer.get_at(self._engine, server, self._where, deadline)
        before, spec = self.spec, spec_of(message.operand)
        rows, columns = spec.data.rows, spec.data.columns
        # Products under way have room for a result of this shape.
        if (rows, columns) != self.shape:
            raise errors.InvalidArgument(
                f"the matrix named {self.name!r} is {rows} x {columns} now, and was {self.shape[0]} x "
                f"{self.shape[1]} when client.named() asked: call it again"
            )
        self.spec = spec
        self._learn(message)
        return spec != before

    def __repr__(self) -> str:
        return f"Named({self.name!r}, {self._form()}, @{self.handle}{self._state()})"


class Transposed:
    """A matrix on the server the other way round, as a factor of products: Resident.T makes it."""

    __array_ufunc__ = None

    def __init__(self, matrix: Resident) -> None:
        self.T = matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.T.shape
        return columns, rows

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def element(self) -> types.ElementType:
        """The type of its elements."""
        return self.T.element

    @property
    def has_scales(self) -> bool:
        """Whether its elements are worth something else than what is stored."""
        return self.T.has_scales

    @property
    def dtype(self) -> np.dtype[Any]:
        """As Resident.dtype."""
        return self.T.dtype

    def numpy(self, deadline: float | None = None) -> Array:
        """As Resident.numpy(), transposed."""
        matrix: Array = self.T.numpy(deadline).T
        return matrix

    def release(self, deadline: float | None = None) -> None:
        """As Resident.release()."""
        self.T.release(deadline)

    def __matmul__(self, x: Any) -> Any:
        return self.T._client.matmul(self, x)

    def __rmatmul__(self, x: Any) -> Any:
        return self.T._client.matmul(x, self)

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            "this matrix is on the server: numpy() downloads it, and matmul() and @ multiply by it there"
        )

    def __repr__(self) -> str:
        return f"{self.T!r}.T"


def _again(
    client: Client,
    spec: OperandSpec,
    handle: str,
    digest: bytes,
    saved_bytes: int,
    released: bool,
    names: Sequence[str] = (),
) -> Resident:
    """A Resident from its pickle, this version's or an older one's."""
    made = Resident(client._engine, spec, handle, digest, saved_bytes=saved_bytes, names=names)
    made._released = released
    return made


def _named_again(
    client: Client, name: str, spec: OperandSpec, handle: str, digest: bytes, released: bool, names: Sequence[str]
) -> Named:
    """A Named from its pickle."""
    made = Named(client._engine, name, spec, handle, digest, names)
    made._released = released
    return made


def resident_of(engine: Engine, message: Any, source: Source | None = None, saved_bytes: int = 0) -> Resident:
    """A Resident of ResidentOperand."""
    spec = spec_of(message.operand)
    return Resident(
        engine,
        spec,
        message.handle,
        message.digest,
        source,
        saved_bytes=saved_bytes,
        names=message.names,
    )


def _axis_of(spec: OperandSpec, k: int) -> int:
    """Where the lines are in a matrix whose order of K has so many places."""
    data, scales = spec.data, dict(spec.scaling)[SCALES]
    if data.rows != data.columns:
        return 0 if k == data.columns else 1
    if scales.rows != scales.columns:  # there are more lines than blocks along K
        return 0 if scales.rows > scales.columns else 1
    return 1 if data.order == COLUMN_MAJOR else 0


def _matrix(plane: Plane, data: Array) -> Array:
    """Rows x columns of a plane's tightly packed bytes."""
    element = types.by_number(plane.type)
    if element.is_packed:
        data = unpack(data, element.bits, plane.rows * plane.columns)
    flat: Array = data.view(element.stored_dtype)
    is_turned = plane.order == COLUMN_MAJOR
    lines: Array = flat.reshape((plane.columns, plane.rows) if is_turned else (plane.rows, plane.columns))
    return lines.T if is_turned else lines
