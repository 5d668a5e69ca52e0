"""Files of weights as other programs write them: safetensors, GGUF, .npz, ONNX, and layers of GPTQ, AWQ and others.

    with gemmd.weights.open("model.gguf") as weights:
        print(weights.about["blk.0.ffn_up.weight"].form)     # "int8-g32"
        w = client.put(weights["blk.0.ffn_up.weight"])       # N x K, as torch has weights
        y = client.matmul(x, w.T)

docs/quantization.md, "Weights that you have", lists what is read, and in which form. libgemmd.so.0, gemmd's C
library (docs/library.md), reads the files as `gemm` does: ImportError says where it is looked for.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from gemmd import _container, _formats, _library, errors, types
from gemmd._layout import Array
from gemmd._scale_layout import PLAIN
from gemmd.quantized import Quantized

_PLANES = ("data", "scales", "zero_points", "tensor_scale", "offsets", _container.ORDER)  # GEMMD_PLANE_*
_DATA = 0


class About(NamedTuple):
    """What a file says of a tensor, and what is made of it here.

    type: as the file's format names it: "BF16", "Q4_0", "GPTQ". shape: as torch has it.
    form: in which it is read and put: "bf16", "int8-g32"; None: not at all, for what `refusal` says.
    matrices: of a stack, each of which has a name of its own, "NAME[0]"; 0: it is no stack.
    nbytes: of the form, of all its matrices.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    form: str | None
    refusal: str | None
    matrices: int
    nbytes: int


class Weights(Mapping[str, "Array | Quantized"]):
    """The matrices of a file by their names; of a stack each is one, "NAME[3]". gemmd.weights.open() makes it.

    weights[name] reads that one, and nothing is read before: a Quantized of the file's own values where it is
    quantized, else an array, which is the file's own mapped bytes; of bf16 a Quantized of its codes where ml_dtypes
    is not installed. Arrays are read-only, and live on after close(). KeyError: the file has no such tensor.
    ValueError: it has no form, is a stack, or has a block without a form, such as one with a scale that is NaN.

    about: all tensors of the file by name, those without a form too. kind: "safetensors", "GGUF", "npz" and so on.
    """

    def __init__(self, path: str | os.PathLike[str], library: str | None = None) -> None:
        self._library = _library.load(library)
        self._handle: ctypes.c_void_p | None = None
        self.path = os.fspath(path)
        handle = ctypes.c_void_p()
        try:
            self._library.call("gemmd_weights_open", os.fsencode(self.path), ctypes.byref(handle))
        except errors.NotFound as error:
            raise FileNotFoundError(error.message) from None
        self._handle = handle
        self.kind: str = self._library.gemmd_weights_kind(handle).decode()
        self.about: dict[str, About] = {}
        self._names: dict[str, None] = {}  # of what can be read, in the file's order
        for index in range(self._library.gemmd_weights_count(handle)):
            each = self._about(index)
            self.about[each.name] = each
            if each.form is not None:
                stack = [f"{each.name}[{i}]" for i in range(each.matrices)]
                self._names.update(dict.fromkeys(stack if each.matrices else [each.name]))

    def _about(self, index: int) -> About:
        found = _library.TensorInfo(size=ctypes.sizeof(_library.TensorInfo))
        self._library.call("gemmd_weights_info", self._handle, index, ctypes.byref(found))
        return About(
            _text(found.name),
            _text(found.type),
            tuple(found.shape[: found.dimensions]),
            _text(found.form) or None,
            _text(found.refusal) or None,
            found.matrices,
            found.bytes,
        )

    def __getitem__(self, name: str) -> Array | Quantized:
        if self._handle is None:
            raise ValueError(f"{self.path} was closed")
        handle = ctypes.c_void_p()
        try:
            self._library.call("gemmd_weights_read", self._handle, _bytes(name), ctypes.byref(handle))
        except errors.NotFound as error:
            raise KeyError(error.message) from None
        return _Tensor(self._library, handle).matrix()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def close(self) -> None:
        """Lets go of the file, which stays mapped as long as an array of it is there."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.gemmd_weights_free(handle)

    def __enter__(self) -> Weights:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __repr__(self) -> str:
        left_out = sum(each.form is None for each in self.about.values())
        return f"Weights({self.path!r}, {self.kind}, {len(self)} matrices, {left_out} tensors without a form)"


def open(path: str | os.PathLike[str], *, library: str | None = None) -> Weights:  # noqa: A001
    """Opens a file of weights: reads its headers, and maps the rest.

    library: the path of libgemmd.so.0; None: what the variable GEMMD_LIBRARY says, or where the linker finds it.

    FileNotFoundError: there is no such file. ValueError: it is none of these, or is not sound; of what
    `gemm quantize` writes too, which Quantized.load() reads. ImportError: there is no libgemmd.so.0.

    While the file is in use others may replace it, but not write into it or cut it: touching what is gone ends the
    process (SIGBUS).
    """
    return Weights(path, library)


class _Tensor:
    """A tensor that was read, whose memory arrays are made over: each keeps it."""

    def __init__(self, library: _library.Library, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def __del__(self) -> None:
        self._library.gemmd_tensor_free(self._handle)

    def matrix(self) -> Array | Quantized:
        form = _formats.FORMATS.get(self._library.gemmd_tensor_form(self._handle).decode())
        if form is None:
            return self._plain()
        planes = {name: found for name in _PLANES if (found := self._plane(name)) is not None}
        data = self._described(_DATA)
        about = _container.About(form, (data.rows, data.columns), 0, PLAIN, _container.ORDER in planes)
        return Quantized._of(_container.stored_of(about, planes))

    def _plain(self) -> Array | Quantized:
        plane = self._described(_DATA)
        element = types.by_number(plane.dtype)
        lines = (plane.columns, plane.rows) if plane.column_major else (plane.rows, plane.columns)
        flat = self._array(plane).view(element.stored_dtype).reshape(lines)
        array = flat.T if plane.column_major else flat
        if array.dtype.name == element.numpy_name:
            return array
        return Quantized(array, type=element.name)

    def _plane(self, name: str) -> Array | None:
        try:
            plane = self._described(_PLANES.index(name))
        except errors.NotFound:
            return None
        element = types.by_number(plane.dtype)
        flat = self._array(plane)
        return flat if element.is_packed else flat.view(element.stored_dtype).reshape(plane.rows, plane.columns)

    def _described(self, number: int) -> _library.Plane:
        plane = _library.Plane(size=ctypes.sizeof(_library.Plane))
        self._library.call("gemmd_tensor_plane", self._handle, number, ctypes.byref(plane))
        return plane

    def _array(self, plane: _library.Plane) -> Array:
        """A plane's bytes where they are. Nobody can make it writable: a mapped file's pages are not."""
        memory: Any = (ctypes.c_uint8 * plane.bytes).from_address(plane.data)
        memory.tensor = self  # lives as long as the array's base
        return np.frombuffer(memoryview(memory).toreadonly(), np.uint8)


def _text(found: bytes) -> str:
    """Names of tensors may be any bytes."""
    return found.decode(errors="surrogateescape")


def _bytes(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


__all__ = ["About", "Weights", "open"]
