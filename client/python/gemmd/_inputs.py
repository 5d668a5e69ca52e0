"""What callers give as matrices, as NumPy arrays that share their memory.

What means more than the numbers that its memory holds is refused: a mask, a unit, or the zeros of a sparse matrix
would be lost without a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmd import types
from gemmd._layout import Array


def to_numpy(x: Any, name: str) -> Array:
    """An array of the same memory where x is an array of NumPy, torch, JAX or anything with DLPack on a CPU.

    Lists, numbers and pandas' tables become arrays as numpy.asarray makes them. TypeError: it lies on another
    device, is sparse, masked, or an array with an arithmetic of its own.
    """
    if isinstance(x, np.ndarray):
        _check_plain(x, name)
        return np.asarray(x)
    _check_dense(x, name)
    _check_rows(x, name)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, name)
    return _checked(np.asarray(x), x, name)


def codes_of(x: Any, name: str) -> tuple[Array, str]:
    """The bits of an array's or a torch tensor's elements, as unsigned integers, and their type's name.

    So types that NumPy lacks need no ml_dtypes.
    """
    dtype = str(x.dtype).rpartition(".")[2]
    if _is_torch(x):
        import torch

        # torch has few operators for unsigned integers of more than 8 bits, and these only lend their memory.
        signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        x = x.detach().view(signed)
    array = to_numpy(x, name)
    return array.view(f"u{array.itemsize}"), dtype


def packed_pairs(x: Any) -> tuple[Array, tuple[int, int], str] | None:
    """Bytes, rows x columns, and the order of a matrix of torch's float4_e2m1fn_x2; None: x is something else.

    torch counts pairs of elements, of which the first is in the low bits. They lie along the dimension in which
    the tensor is contiguous: rows ("C"), or columns ("F") of one that was transposed.
    """
    if not _is_torch(x) or not str(x.dtype).endswith("float4_e2m1fn_x2"):
        return None
    if x.ndim != 2:
        raise ValueError(f"data has shape {tuple(x.shape)}; a quantized array is a matrix")
    codes, _ = codes_of(x, "data")
    rows, columns = codes.shape
    if codes.flags.c_contiguous:
        return codes.reshape(-1), (rows, 2 * columns), "C"
    if codes.flags.f_contiguous:
        return codes.T.reshape(-1), (2 * rows, columns), "F"
    raise ValueError(f"data has strides {x.stride()}; packed elements lie one after another: give contiguous()")


def _is_torch(x: Any) -> bool:
    return hasattr(x, "element_size") and type(x).__module__.partition(".")[0] == "torch"


def _check_plain(x: Array, name: str) -> None:
    if isinstance(x, np.ma.MaskedArray):
        masked = int(np.ma.getmaskarray(x).sum())
        if masked:
            raise TypeError(
                f"{name} is a masked array with {masked} masked elements, which a product would count as others: "
                f"give {name}.filled(0), or {name}.data to use what is under the mask"
            )
    elif type(x).__array_ufunc__ is not np.ndarray.__array_ufunc__:
        raise TypeError(
            f"{name} is a {_kind(x)}, which has an arithmetic of its own, and the product has plain numbers: give "
            f"numpy.asarray({name}) if that is meant"
        )
    _checked(x, x, name)


def _check_rows(x: Any, name: str) -> None:
    """Refuses lists with masked rows: numpy.asarray() drops their masks."""
    for at, each in enumerate(x if isinstance(x, list | tuple) else ()):
        if isinstance(each, np.ma.MaskedArray):
            _check_plain(each, f"{name}[{at}]")
        _check_rows(each, f"{name}[{at}]")


def _check_dense(x: Any, name: str) -> None:
    """Sparse matrices of scipy, of pydata/sparse and of torch."""
    if getattr(x, "is_sparse", False) or "sparse" in str(getattr(x, "layout", "")):
        raise TypeError(f"{name} is a sparse {_kind(x)}; gemmd multiplies dense matrices: give {name}.to_dense()")
    if hasattr(x, "nnz") and not hasattr(x, "__dlpack__"):
        way = "toarray" if hasattr(x, "toarray") else "todense"
        raise TypeError(f"{name} is a sparse {_kind(x)}; gemmd multiplies dense matrices: give {name}.{way}()")


def _checked(array: Array, x: Any, name: str) -> Array:
    if array.dtype.kind in "cOSUMm":
        raise TypeError(
            f"{name} is a {_kind(x)} of {array.dtype}, which are no real numbers: make such of them first, by "
            f"numpy.asarray({name}, 'float64') or a DataFrame's to_numpy('float64')"
        )
    return array


def _kind(x: Any) -> str:
    return f"{type(x).__module__.partition('.')[0]} {type(x).__name__}"


def _from_dlpack(x: Any, name: str) -> Array:
    device = x.__dlpack_device__()
    if int(device[0]) not in (1, 3):  # kDLCPU, kDLCUDAHost
        raise TypeError(f"{name} lies on device {device}; gemmd takes arrays in the host's memory: move it there")
    if getattr(x, "requires_grad", False):
        x = x.detach()
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass  # a type that NumPy's DLPack does not know: bf16, fp8
    dtype = str(getattr(x, "dtype", "")).rpartition(".")[2]
    if dtype == "float4_e2m1fn_x2":
        raise TypeError(
            f"{name} is a torch tensor of {dtype}, whose elements have scales: give "
            f'gemmd.Quantized({name}, scales, "mxfp4"), or "nvfp4"'
        )
    if hasattr(x, "view") and type(x).__module__.partition(".")[0] == "torch":
        import torch

        try:
            element = types.parse(dtype)
        except TypeError:
            raise TypeError(
                f"{name} is a torch tensor of {dtype}, which are no numbers of gemmd's: give float()"
            ) from None
        codes = x.view({2: torch.int16, 1: torch.uint8}[element.dtype.itemsize])
        return np.from_dlpack(codes).view(element.dtype)
    return _checked(np.asarray(x), x, name)
