"""Matrices that the server keeps: weights that many products use, and results that feed products."""

from __future__ import annotations

import math
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmd import _messages, _progress, types
from gemmd._digest import Source
from gemmd._header import Place, seconds_into, seconds_of
from gemmd._layout import Array, Plane
from gemmd._transfer import Deadline, call, download
from gemmd.quantized import Quantized
from gemmd.receipt import Receipt

if TYPE_CHECKING:
    from gemmd._engine import Engine


class Resident:
    """A matrix on the server, of `shape` (rows, columns) and `dtype`. Made by put(), matmul(keep=True), resident().

    One that put() made holds its bytes here too: where the server has lost it, by a restart or an eviction, it is
    uploaded again in the midst of the product that missed it. The array must not be changed meanwhile.
    As a context manager it is released at the end.
    """

    def __init__(
        self,
        engine: Engine,
        plane: Plane,
        scales: Plane | None,
        handle: str,
        digest: bytes,
        source: Source | None = None,
        receipt: Receipt | None = None,
    ) -> None:
        self._engine = engine
        self._released = False
        self.plane = plane
        self.scales_plane = scales
        self.handle = handle
        self.digest = digest
        self.source = source
        self.receipt = receipt

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.plane.rows, self.plane.columns

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def element(self) -> types.ElementType:
        """The type of its elements."""
        return types.by_number(self.plane.type)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of its elements; TypeError where that needs ml_dtypes, which is not installed."""
        return self.element.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of its data."""
        return math.prod(self.shape) * self.element.size

    @property
    def place(self) -> Place:
        """How products name it. ValueError: it was released."""
        if self._released:
            raise ValueError("this resident matrix was released")
        return Place("digest", self.digest) if self.digest else Place("handle", self.handle)

    def _named(self, request: Any) -> Any:
        if self.digest:
            request.digest = self.digest
        else:
            request.handle = self.handle
        return request

    def numpy(self, deadline: float | None = None) -> Array:
        """Its values, downloaded: rows x columns of its dtype; of one with scales the stored elements."""
        return self._download(deadline)[0]

    def quantized(self, deadline: float | None = None) -> Quantized:
        """Its stored elements and scales, downloaded."""
        data, scales = self._download(deadline)
        return Quantized(data, scales, self.element.name)

    def _download(self, deadline: float | None) -> tuple[Array, Array | None]:
        end = Deadline(deadline)
        request = self._named(_messages.DownloadRequest())
        operand, planes = end.run(lambda: download(self._engine, request, end, _progress.downloads()))
        arrays = []
        for plane, data in zip((operand.data, operand.scales), planes, strict=False):
            flat = data.view(types.by_number(plane.type).dtype)
            shape = (plane.rows, plane.columns)
            arrays.append(flat.reshape(shape) if plane.order == 0 else flat.reshape(shape[::-1]).T)
        return arrays[0], arrays[1] if len(arrays) > 1 else None

    def renew(self, lease: float | None = None, deadline: float | None = None) -> float:
        """Begins the lease anew, of so many seconds (None: as before); what remains of it, in seconds."""
        request = self._named(_messages.RenewRequest())
        if lease is not None:
            seconds_into(lease, request.lease)
        end = Deadline(deadline)
        answer = end.run(lambda: call(self._engine, "Operands/Renew", request, _messages.RenewResponse, end))
        return seconds_of(answer.lease_remaining)

    def release(self, deadline: float | None = None) -> None:
        """The server forgets it, for everybody who has its name; nothing if it has already."""
        if self._released:
            return
        from gemmd.errors import NotFound

        try:
            end = Deadline(deadline)
            request = self._named(_messages.ReleaseRequest())
            end.run(lambda: call(self._engine, "Operands/Release", request, _messages.ReleaseResponse, end))
        except NotFound:
            pass
        self._released = True
        self.source = None

    def __enter__(self) -> Resident:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        state = ", released" if self._released else ""
        return f"Resident({self.shape[0]} x {self.shape[1]} {self.element.name}, @{self.handle}{state})"


def resident_of(engine: Engine, message: Any, source: Source | None = None) -> Resident:
    """A Resident of ResidentOperand."""
    operand = message.operand
    scales = _plane_of(operand.scales) if operand.HasField("scales") else None
    return Resident(engine, _plane_of(operand.data), scales, message.handle, message.digest, source)


def _plane_of(plane: Any) -> Plane:
    return Plane(plane.type, plane.rows, plane.columns, plane.order)
