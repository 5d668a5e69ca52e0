"""Products of torch tensors by a weight on a server, with their gradients."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from gemmd import types
from gemmd.client import Client
from gemmd.resident import Resident

# Names, and what computes them where a gradient is wanted: it is one of what came before them.
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.nn.functional.relu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


class _Factor:
    """A weight on the server, K x N, as long as the tensors of which it was made are as they were.

    order: which of x's columns its rows multiply; None: each its own.
    """

    def __init__(self, tensors: list[Any], marks: list[Any], linear: Any, order: Any) -> None:
        self.tensors = tensors
        self.marks = marks
        self.linear = linear
        self.order = order
        self.turned: Any = None  # N x K, of gradients

    def is_of(self, tensors: list[Any], marks: list[Any]) -> bool:
        same = len(tensors) == len(self.tensors) and all(a is b for a, b in zip(tensors, self.tensors, strict=True))
        return same and marks == self.marks

    def release(self) -> None:
        self.linear.release()
        if isinstance(self.turned, Resident):
            self.turned.release()


class Served:
    """What a layer has on a server: its weight, sent when a product needs it and it is not there as it is here.

    Copies and pickles of it hold the client and what was asked but for a name, which is the first one's, and send
    anew.
    """

    def __init__(self, client: Client, asked: Mapping[str, Any]) -> None:
        self.client = client
        self.asked = dict(asked)
        self._lock = threading.Lock()
        self._factors: dict[Any, _Factor] = {}
        self._is_first = True

    def factor(self, layer: Any, dtype: Any) -> _Factor:
        """The weight in that type, None: as it is; sent again where the layer's tensors have changed."""
        tensors = layer._tensors()
        marks = [_mark(each) for each in tensors]
        with self._lock:
            found = self._factors.get(dtype)
            if found is not None and found.is_of(tensors, marks):
                return found
            if found is not None:
                self._forget()
            factor, order = layer._read(dtype)
            # A name that was given goes from the weight that is out of date to that which takes its place.
            moves = {"replace": True} if "name" in self.asked and not self._is_first else {}
            linear = self.client.linear(factor, **{**self.asked, **moves})
            made = self._factors[dtype] = _Factor(tensors, marks, linear, order)
            return made

    def turned(self, factor: _Factor) -> Any:
        """N x K: the factor's transpose, or a matrix of its dequantized values in f32, sent here."""
        with self._lock:
            if factor.turned is None:
                w = factor.linear.w
                if w.has_scales:
                    values = w.quantized().dequantize("float32")
                    factor.turned = self.client.put(values.T, lease=self.asked.get("lease"))
                else:
                    factor.turned = w.T
            return factor.turned

    def release(self) -> None:
        """The server forgets it."""
        with self._lock:
            for each in self._factors.values():
                each.release()
            self._factors.clear()

    def _forget(self) -> None:
        """What is out of date. The first may be another copy's too, which has not changed: its lease ends it."""
        if not self._is_first:
            for each in self._factors.values():
                each.release()
        self._is_first = False
        self._factors.clear()

    def __deepcopy__(self, memo: Any) -> Served:
        return Served(self.client, self._unnamed())

    def __reduce__(self) -> Any:
        return Served, (self.client, self._unnamed())

    def _unnamed(self) -> dict[str, Any]:
        return {key: value for key, value in self.asked.items() if key not in ("name", "replace")}

    def __repr__(self) -> str:
        return ", ".join(repr(each.linear.w) for each in self._factors.values()) or "nothing on the server yet"


@torch.compiler.disable  # type: ignore[untyped-decorator]
def run(layer: Any, x: Any) -> Any:
    """A layer's output for x, (..., K)."""
    _check_concrete(x)
    if x.is_nested:
        rows = x.unbind()
        whole = run(layer, torch.cat(rows))
        return torch.nested.as_nested_tensor(list(whole.split([each.shape[0] for each in rows])))
    is_autocast = torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64
    if is_autocast:
        x = x.to(layer._type_of(x))
    with torch.autocast(x.device.type, enabled=False):
        y = _run_rows(layer, x)
    return y.to(torch.get_autocast_dtype(x.device.type)) if is_autocast else y


def _run_rows(layer: Any, x: Any) -> Any:
    dtype = layer._type_of(x)
    if x.dtype != dtype:
        raise TypeError(f"x is {x.dtype}, and the weight {dtype}")
    if x.ndim == 0 or x.shape[-1] != layer.in_features:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; its last dimension must be in_features, {layer.in_features}"
        )
    factor = layer._served.factor(layer, layer._form(dtype))
    rows = x.reshape(-1, x.shape[-1])
    if factor.order is not None:
        rows = rows.index_select(1, factor.order.to(rows.device))
    weight, bias = layer._learned(), layer.bias
    learns = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in (rows, weight, bias)
    )
    if learns:
        y = ACTIVATIONS[layer.activation](_Product.apply(rows, weight, bias, layer, factor))
    else:
        y = _product(factor, rows, bias, layer.activation)
    return y.reshape(*x.shape[:-1], layer.out_features)


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """x @ weight.T + bias, of rows, whose gradients are products on the server too."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, layer: Any, factor: _Factor) -> Any:
        ctx.served, ctx.factor = layer._served, factor
        # The weight too, so that torch refuses a backward pass after it was changed in place.
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return _product(factor, x, bias, "none")

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        rows, _ = ctx.saved_tensors
        client: Client = ctx.served.client
        of_x = of_weight = of_bias = None
        if needs_weight and ctx.factor.linear.w.has_scales:
            raise RuntimeError(
                f"weight.requires_grad is True, and the server keeps it as {ctx.factor.linear.w.element.name} with "
                "scales, which has no gradient: weight.requires_grad_(False), or no store_as="
            )
        if needs_x:
            of_x = _gradient_of_x(client, ctx.served.turned(ctx.factor), gradient)
        if needs_weight:
            of_weight = _multiplied(client, gradient, rows, transpose_a=True)
        if needs_bias:
            of_bias = gradient.sum(0)
        return of_x, of_weight, of_bias, None, None


def _gradient_of_x(client: Client, turned: Any, gradient: Any) -> Any:
    """By turned, which is N x K, of the gradient's type or of f32."""
    is_wide = turned.element.name == "f32"
    made = torch.float32 if is_wide else gradient.dtype
    out = torch.empty((gradient.shape[0], turned.shape[1]), dtype=made)
    if out.numel():
        client.matmul(_host(gradient.to(made)), turned, out=_view(out))
    return out.to(device=gradient.device, dtype=gradient.dtype)


def _multiplied(client: Client, a: Any, b: Any, **asked: Any) -> Any:
    """The product of two tensors, a transposed: neither is on the server."""
    out = torch.zeros((a.shape[1], b.shape[1]), dtype=a.dtype)
    if a.shape[0]:
        client.matmul(_host(a), _host(b), out=_view(out), **asked)
    return out.to(a.device)


def _product(factor: _Factor, rows: Any, bias: Any, activation: str) -> Any:
    """activation(rows @ factor + bias), of rows' type, on their device."""
    linear = factor.linear
    y = torch.empty((rows.shape[0], linear.w.shape[1]), dtype=rows.dtype)
    if y.numel():
        added = None if bias is None else _host(bias.to(rows.dtype))
        linear(_host(rows), bias=added, activation=activation, out=_view(y))
    return y.to(rows.device)


def _host(x: Any) -> Any:
    return x.detach().cpu()


def _view(y: Any) -> Any:
    """A NumPy array of a tensor's memory, of its type; bf16 needs ml_dtypes."""
    if y.dtype == torch.bfloat16:
        return y.view(torch.int16).numpy().view(types.by_name("bf16").dtype)
    found: np.ndarray[Any, Any] = y.numpy()
    return found


def _check_concrete(x: Any) -> None:
    """TypeError, RuntimeError: x has no values in memory, or a graph would keep those of this call."""
    if not x.is_nested and x.layout != torch.strided:
        raise TypeError(f"x is a tensor of layout {x.layout}; gemmd multiplies dense ones: give x.to_dense()")
    is_traced = torch.jit.is_tracing() or type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    if is_traced or x.device.type == "meta" or not _has_memory(x):
        raise RuntimeError(
            f"x is a {type(x).__name__} of a tracer, of torch.func or of device meta, and products on a server are "
            "no operators of torch's graphs: torch.compile() goes around them without fullgraph=True, but not "
            "torch.jit.trace, torch.export and torch.func"
        )


def _has_memory(x: Any) -> bool:
    try:
        x.data_ptr()
    except RuntimeError:  # wrapped by torch.func
        return False
    return True


def _mark(tensor: Any) -> tuple[Any, ...]:
    """What changes with a tensor's values, its memory or its type.

    torch counts changes in place, but none through `data`, NumPy's views, or of inference tensors: so a sample too,
    of at most some 32 x 32 elements.
    """
    version = None if tensor.is_inference() else tensor._version
    steps = tuple(slice(None, None, max(1, size // 16)) for size in tensor.shape)
    sample = tensor.detach()[steps].cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return tensor.data_ptr(), version, tensor.dtype, tuple(tensor.shape), sample
