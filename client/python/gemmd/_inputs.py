"""What callers give as matrices, as NumPy arrays that share their memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmd import types
from gemmd._layout import Array


def to_numpy(x: Any, name: str) -> Array:
    """An array of the same memory where x is an array of NumPy, torch, JAX or anything with DLPack on a CPU.

    Lists and numbers become arrays as numpy.asarray makes them. TypeError: it lies on another device.
    """
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, name)
    return np.asarray(x)


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
    if hasattr(x, "view") and type(x).__module__.partition(".")[0] == "torch":
        import torch

        element = types.parse(dtype)
        codes = x.view({2: torch.int16, 1: torch.uint8}[element.dtype.itemsize])
        return np.from_dlpack(codes).view(element.dtype)
    return np.asarray(x)
