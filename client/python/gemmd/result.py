"""What products return: arrays with their receipts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemmd import types
from gemmd._engine import Outcome
from gemmd._layout import Array
from gemmd.receipt import Receipt, Sent, receipt_of


def receipt_from(outcome: Outcome) -> Receipt:
    """The receipt of one request."""
    d = outcome.plane
    order = "row-major" if d.order == 0 else "column-major"
    text = f"{d.rows} x {d.columns} {types.by_number(d.type).name} {order}"
    if outcome.receipt.products > 1:
        text = f"{outcome.receipt.products} matrices of {text}"
    route = outcome.route
    receipt = receipt_of(outcome.receipt, text, outcome.times, Sent(*route), outcome.server)
    part = outcome.part
    if part is None:
        return receipt
    return replace(receipt, rows=(part.rows.begin, part.rows.end), hedged=part.is_hedged, repeats=part.repeats)


class Result(np.ndarray[Any, Any]):
    """D: an ndarray that knows how it was made. What is computed from it is a plain ndarray.

    receipt: of the request, which has all products of a stack. receipts: of each request, where a server that
    does not take stacks was asked for the products one by one, or of each part of a product that was split. None
    and empty for views of it, and where there was nothing to multiply.
    """

    _outcomes: Sequence[Outcome] = ()

    @property
    def receipt(self) -> Receipt | None:
        """The first request's telemetry; str() of it is a table."""
        return receipt_from(self._outcomes[0]) if self._outcomes else None

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """One for each request, in the order of the stack, or of the rows."""
        return tuple(receipt_from(each) for each in self._outcomes)

    def torch(self) -> Any:
        """A torch tensor of the same memory, of bf16 and fp8 too, which NumPy's types are not for torch."""
        import torch

        plain = np.asarray(self)
        element = types.of_dtype(plain.dtype)
        if np.dtype(element.code).name == element.numpy_name:
            return torch.from_numpy(plain)
        codes = {16: np.int16, 8: np.uint8}[element.bits]
        return torch.from_numpy(plain.view(codes)).view(getattr(torch, element.numpy_name))

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Any:
        """NumPy's hook for results of its functions: they are no products."""
        return array[()] if return_scalar else np.asarray(array)

    def __reduce__(self) -> Any:
        """Pickled as the plain array."""
        return np.asarray(self).__reduce__()


def result_of(d: Array, outcomes: Sequence[Outcome]) -> Result:
    """A view of d with its receipts."""
    result = d.view(Result)
    result._outcomes = outcomes
    return result
