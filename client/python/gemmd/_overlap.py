"""When a result may be written where the caller wants it, while its product is under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gemmd._layout import Array
from gemmd.quantized import Quantized
from gemmd.resident import Resident, Transposed
from gemmd.stacked import Stacked

# An exact answer takes exponential time in the worst case. After so much work they do.
_WORK: Any = 1000  # numpy's stub knows 0 and -1 alone


def may_be_written(out: Array, *inputs: Any) -> bool:
    """Whether a product's result may be written into `out` as it arrives.

    Not where an input shares memory with it: inputs are read until the product has ended, by the next attempt
    after a failed one, by the upload of what the server has lost, by the rest of a stack, and by the rest of an
    upload whose answer has begun. inputs: what matmul() takes as an operand, and None.
    """
    return not any(
        np.may_share_memory(out, each, max_work=_WORK) for operand in inputs for each in _arrays_of(operand)
    )


def _arrays_of(operand: Any) -> Iterator[Array]:
    """The memory that an operand is sent from."""
    operand = operand.T if isinstance(operand, Transposed) else operand
    operand = operand.matrix if isinstance(operand, Stacked) else operand
    if isinstance(operand, np.ndarray):
        yield operand
    elif isinstance(operand, Quantized):
        yield from operand.stored.planes
    elif isinstance(operand, Resident) and operand.source is not None:
        yield from (laid.first for _, laid in operand.source.keeps)


def check_apart(out: Array) -> None:
    """ValueError: elements of `out` share memory with each other, so it cannot hold a result."""
    steps = sorted((abs(stride), size) for stride, size in zip(out.strides, out.shape, strict=True) if size > 1)
    if out.size == 0:
        return
    reach = out.itemsize
    for stride, size in steps:
        if stride < reach:
            break
        reach += stride * (size - 1)
    else:
        return
    if _has_overlap(steps, out.itemsize):
        raise ValueError(f"out has shape {out.shape} and strides {out.strides}: its elements share memory")


def _has_overlap(steps: list[tuple[int, int]], itemsize: int) -> bool:
    """Overlap by every element's place, which takes memory: for the rare layouts whose strides do not say."""
    places = np.zeros(1, np.int64)
    for stride, size in steps:
        if stride == 0:
            return True
        places = np.add.outer(places, stride * np.arange(size)).reshape(-1)
    places.sort()
    return bool((np.diff(places) < itemsize).any())
