"""Linear: a drop-in replacement of torch.nn.Linear for inference, with its weights on a gemmd server.

    model.fc1 = gemmd.torch.Linear.of(model.fc1)
    gemmd.torch.replace(model)                       # every nn.Linear of a model
    gemmd.torch.replace(model, store_as="nvfp4")     # whose weights the server quantizes

Needs torch; nothing else here imports it. Gradients do not pass through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmd.client import Client, default_client

try:
    import torch
except ImportError as error:  # pragma: no cover
    raise ImportError("gemmd.torch needs torch") from error

_ACTIVATIONS = ("none", "relu", "gelu_tanh", "silu")


class Linear(torch.nn.Module):  # type: ignore[misc]
    """y = activation(x @ weight.T + bias): x of (..., in_features), y of (..., out_features), on x's device.

    weight: out_features x in_features, bias: out_features or None, as torch.nn.Linear has them. The weight goes to
    the server once; it comes back where the server has lost it. Results are of the weight's type.
    """

    def __init__(
        self,
        weight: Any,
        bias: Any = None,
        activation: str = "none",
        client: Client | None = None,
        **asked: Any,
    ) -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation is {activation!r}; it must be one of {', '.join(_ACTIVATIONS)}")
        self.out_features, self.in_features = weight.shape
        self._dtype = weight.dtype
        host = weight.detach().cpu()
        self._bias = None if bias is None else bias.detach().cpu().contiguous()
        # x @ weight.T: the transposed matrix lies in Fortran order, so nothing is copied.
        self._layer = (client or default_client()).linear(host.T, self._bias, activation, **asked)

    @classmethod
    def of(cls, layer: Any, client: Client | None = None, activation: str = "none", **asked: Any) -> Linear:
        """Of a torch.nn.Linear."""
        return cls(layer.weight, layer.bias, activation, client, **asked)

    def forward(self, x: Any) -> Any:
        """The layer's output. TypeError: x is not of the weight's type."""
        if x.dtype != self._dtype:
            raise TypeError(f"x is {x.dtype}, and the weight {self._dtype}")
        host = x.detach().cpu()
        y = torch.empty((*host.shape[:-1], self.out_features), dtype=self._dtype)
        if y.numel() == 0:
            return y.to(x.device)
        self._layer(host.reshape(-1, self.in_features), out=_view(y.reshape(-1, self.out_features)))
        return y.to(x.device)

    def extra_repr(self) -> str:
        """What print(model) shows of it."""
        return f"{self.in_features}, {self.out_features}, {self._layer.activation}, {self._layer.w!r}"

    def release(self) -> None:
        """The server forgets the weight."""
        self._layer.release()


def _view(y: Any) -> Any:
    """A NumPy array of a tensor's memory, of its type; bf16 needs ml_dtypes."""
    if y.dtype == torch.bfloat16:
        from gemmd import types

        return y.view(torch.int16).numpy().view(types.by_name("bf16").dtype)
    found: np.ndarray[Any, Any] = y.numpy()
    return found


def replace(model: Any, client: Client | None = None, **asked: Any) -> list[str]:
    """Replaces every torch.nn.Linear within a model; the names of those that it replaced.

    Further arguments are Client.linear()'s: with store_as="mxfp8-e4m3" the server quantizes the
    weights that it keeps.
    """
    names = []
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear):
            parent, _, child = name.rpartition(".")
            if not child:
                raise ValueError("the model is itself a Linear: use Linear.of()")
            setattr(model.get_submodule(parent), child, Linear.of(module, client, **asked))
            names.append(name)
    return names
