"""torch.nn.Linear, and linear layers of quantization tools, with their products on a gemmd server.

    model.fc1 = gemmd.torch.Linear.of(model.fc1)
    gemmd.torch.replace(model)                       # every linear layer of a model
    gemmd.torch.replace(model, store_as="nvfp4")     # whose weights the server quantizes

Needs torch 2.4 or later; nothing else here imports it. client/python/README.md says which layers are taken, and
what of torch works with them.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from gemmd import _tool_layers
from gemmd.client import Client, default_client

try:
    import torch
except ImportError as error:  # pragma: no cover
    raise ImportError("gemmd.torch needs torch") from error

from gemmd._torch_product import ACTIVATIONS, Served, run

_PLAIN = (torch.nn.Parameter, torch.Tensor)


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """y = activation(x @ weight.T + bias): x of (..., in_features), y of (..., out_features), on x's device.

    weight: out_features x in_features, of f64, f32, f16 or bf16, or one of torchao's tensors; bias: out_features or
    None. Both are parameters, as torch.nn.Linear's are, and stay where they are: what lies on the CPU is no copy,
    because it is what a server that lost the weight gets again. The weight goes to the server here. It goes again
    before a product if it was assigned or changed in place since, as optimizers and load_state_dict() do. torch
    does not count changes through weight.data and NumPy's views, of which some elements are looked at: call
    release() where only others change so.

    x must be of the weight's type, and so are results; under torch.autocast x becomes the weight's type and
    results have autocast's. Gradients of x, weight and bias are computed on the server. With a quantized weight
    those of x are of its dequantized values, which the server then keeps too, in f32; the weight has none
    (RuntimeError).

    state_dict() and load_state_dict() are torch.nn.Linear's. Copies and pickles send the weight again with their
    first product, of which the server needs no bytes that it has. torch.compile() breaks its graph at the layer,
    and so refuses it with fullgraph=True; torch.jit.trace, torch.export and torch.func's transforms are refused.
    """

    def __init__(
        self,
        weight: Any,
        bias: Any = None,
        activation: str = "none",
        client: Client | None = None,
        **asked: Any,
    ) -> None:
        torch.nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = _parameter(weight)
        self.bias = None if bias is None else _parameter(bias)
        self._serve(activation, client, asked)

    @classmethod
    def of(cls, layer: Any, client: Client | None = None, activation: str = "none", **asked: Any) -> Linear:
        """A layer of a torch.nn.Linear, whose parameters and hooks it shares. `asked`: Client.linear()'s.

        name= goes to each weight that takes this one's place; copies of the layer have none.

        TypeError, ValueError: it computes otherwise than torch.nn.Linear, and how.
        """
        _check_plain(layer)
        made = cls.__new__(cls)
        # Dicts of parameters and hooks are its own, what they hold is shared. torchao sets an extra_repr that no
        # pickle takes, and that does not know the server.
        for key, value in layer.__dict__.items():
            if key != "extra_repr":
                made.__dict__[key] = copy.copy(value) if isinstance(value, dict) else value
        made._serve(activation, client, asked)
        return made

    def _serve(self, activation: str, client: Client | None, asked: dict[str, Any]) -> None:
        _check_weight(self.weight)
        self.activation = _checked_activation(activation)
        self._served = Served(client or default_client(), asked)
        self._served.factor(self, None)

    def forward(self, x: Any) -> Any:
        """The layer's output. TypeError: x is not of the weight's type."""
        return run(self, x)

    def _tensors(self) -> list[Any]:
        weight = self.weight
        if type(weight) in _PLAIN:
            return [weight]
        return [
            each
            for name in ("qdata", "scale", "zero_point", "per_tensor_scale")
            if (each := getattr(weight, name, None)) is not None
        ]

    def _read(self, _: Any) -> tuple[Any, Any]:
        weight = self.weight
        _check_weight(weight)
        if type(weight) in _PLAIN:
            # The transposed matrix lies in Fortran order, so nothing is copied.
            return weight.detach().cpu().T, None
        return _tool_layers.read_tensor(weight), None

    def _type_of(self, _: Any) -> Any:
        return self.weight.dtype

    def _form(self, _: Any) -> None:
        return None

    def _learned(self) -> Any:
        """The weight, if it may have a gradient."""
        weight = self.weight
        if type(weight) in _PLAIN:
            return weight
        if weight.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"weight is a {type(weight).__name__} and requires_grad is True; such a weight has no gradient "
                "here: weight.requires_grad_(False)"
            )
        return None

    def extra_repr(self) -> str:
        """What print(model) shows of it."""
        return f"{super().extra_repr()}, activation={self.activation}, {self._served}"

    def release(self) -> None:
        """The server forgets the weight; the next product sends it again."""
        self._served.release()


class QuantizedLinear(torch.nn.Module):  # type: ignore[misc]
    """A layer of GPTQ, AWQ or bitsandbytes with its product on a server: x of (..., K), y of (..., N), of x's type.

    x is f32, f16 or bf16. Parameters, buffers, state_dict() and all attributes are those of the tool's layer, which
    it holds and shares; `weight` of GPTQ and AWQ, which have none, is N x K of what they dequantize to, made when
    it is read. Weights are the tool's own, exactly but for the rounding that client/python/README.md names. What
    the tool does to activations, such as rounding them to int8, is not done. With act-order x's columns are put in
    the weights' order. Gradients are those of x alone, of the dequantized weights. Copies, pickles, changes, and
    torch.compile() are as with Linear.
    """

    def __init__(self, layer: Any, client: Client | None = None, activation: str = "none", **asked: Any) -> None:
        super().__init__()
        _check_own_forward(layer)
        self.__dict__["_tool"] = layer  # not a child: the names of state_dict() stay
        self._share()
        self.in_features, self.out_features = _tool_layers.sizes_of(layer)
        self.activation = _checked_activation(activation)
        self._served = Served(client or default_client(), asked)
        self._served.factor(self, self._form(None))

    @classmethod
    def of(
        cls, layer: Any, client: Client | None = None, activation: str = "none", **asked: Any
    ) -> QuantizedLinear:
        """A layer of a tool's. ValueError: its values have no form here, and why. `asked`: Client.linear()'s."""
        return cls(layer, client, activation, **asked)

    def forward(self, x: Any) -> Any:
        """The layer's output. TypeError: x is not of f32, f16 or bf16."""
        return run(self, x)

    def _share(self) -> None:
        self._parameters, self._buffers = self._tool._parameters, self._tool._buffers

    def _tensors(self) -> list[Any]:
        return [each for each in (*self._parameters.values(), *self._buffers.values()) if each is not None]

    def _read(self, dtype: Any) -> tuple[Any, Any]:
        found = _tool_layers.read(self._tool)
        order = None if found.order is None else torch.from_numpy(found.order)
        if found.rounded_to is None:
            return found.factor, order
        return torch.from_numpy(found.factor.T).to(getattr(torch, found.rounded_to)).to(dtype).T, order

    def _type_of(self, x: Any) -> Any:
        return x.dtype if x.dtype in (torch.float32, torch.float16, torch.bfloat16) else torch.float32

    def _form(self, dtype: Any) -> Any:
        """The type in which the weight is sent; None: as it is, for x of every type."""
        state = getattr(self._parameters.get("weight"), "quant_state", None)
        return None if state is None else dtype or state.dtype

    def _learned(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_tool":  # of a copy that is not whole yet
                raise
        if name == "weight":
            return self._values()
        return getattr(self._tool, name)

    def _values(self) -> Any:
        factor = _tool_layers.read(self._tool)
        real = torch.from_numpy(factor.factor.dequantize()).T  # type: ignore[union-attr]
        if factor.order is not None:
            real = real[:, torch.from_numpy(factor.order).argsort()]
        return real.to(self._tool.scales.dtype).contiguous()

    def _save_to_state_dict(self, *arguments: Any, **named: Any) -> None:
        self._tool._save_to_state_dict(*arguments, **named)

    def _load_from_state_dict(self, *arguments: Any, **named: Any) -> None:
        self._tool._load_from_state_dict(*arguments, **named)
        self._share()

    def _apply(self, *arguments: Any, **named: Any) -> Any:
        self._tool._apply(*arguments, **named)
        self._share()
        return self

    def train(self, mode: bool = True) -> Any:
        """As of every module."""
        self._tool.train(mode)
        return super().train(mode)

    def extra_repr(self) -> str:
        """What print(model) shows of it."""
        return f"{self._tool}, activation={self.activation}, {self._served}"

    def release(self) -> None:
        """The server forgets the weights; the next product sends them again."""
        self._served.release()


def replace(model: Any, client: Client | None = None, *, skip: Collection[str] = (), **asked: Any) -> list[str]:
    """Replaces the linear layers within a model by Linear and QuantizedLinear, in place.

    Returns the names of those that it replaced, in the order of model.named_modules(): of every torch.nn.Linear,
    with torchao's tensors too, and every layer of GPTQ, AWQ and bitsandbytes. A module that has two names has both
    replaced. Layers that are replaced already stay, and so does out_proj of torch.nn.MultiheadAttention, which
    multiplies by its weight itself. A torch.nn.TransformerEncoderLayer no longer takes the fast path that would
    multiply by its layers' weights on this machine.

    skip: names of modules that stay as they are, with all that they hold. Further arguments are Client.linear()'s:
    with store_as="mxfp8-e4m3" the server quantizes the weights that it keeps.

    ValueError: layers compute otherwise than their kind, or have weights of no form here: which, and why; or a name
    in skip is no module's. Then nothing is replaced, and what was sent stays until its lease ends.
    """
    if "name" in asked:
        raise ValueError(f"name is {asked['name']!r}, which each layer would have: give it to Linear.of()")
    modules = list(model.named_modules(remove_duplicate=False))
    for name in skip:
        if name not in (known for known, _ in modules):
            raise ValueError(f"skip has {name!r}, and the model has no module of that name")
    wanted = [
        (name, module)
        for name, module in modules
        if _is_linear(module) and not any(name == each or name.startswith(f"{each}.") for each in skip)
    ]
    if any(name == "" for name, _ in wanted):
        raise ValueError("the model is itself a linear layer: use Linear.of() or QuantizedLinear.of()")
    made: dict[Any, Any] = {}
    reasons = []
    for name, module in wanted:
        if module in made:
            continue
        try:
            made[module] = (QuantizedLinear if _is_tools(module) else Linear).of(module, client, **asked)
        except (TypeError, ValueError) as error:
            reasons.append(f"{name}: {error}")
    if reasons:
        shown = "; ".join(reasons[:4]) + (f"; and {len(reasons) - 4} more" if len(reasons) > 4 else "")
        raise ValueError(f"{len(reasons)} layers cannot be replaced, and skip= would leave them: {shown}")
    for name, module in wanted:
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, made[module])
    _leave_fast_paths(model)
    return [name for name, _ in wanted]


def _is_tools(module: Any) -> bool:
    return _tool_layers.is_packed(module) or _tool_layers.is_bitsandbytes(module)


def _is_linear(module: Any) -> bool:
    if isinstance(module, Linear | QuantizedLinear | torch.nn.modules.linear.NonDynamicallyQuantizableLinear):
        return False
    return isinstance(module, torch.nn.Linear) or _is_tools(module)


def _check_own_forward(layer: Any) -> None:
    if "forward" in layer.__dict__:
        raise ValueError(
            f"forward of this {type(layer).__name__} was replaced, as accelerate's hooks do; take them off"
        )


def _check_plain(layer: Any) -> None:
    """TypeError, ValueError: it is no torch.nn.Linear, or computes otherwise."""
    kind = type(layer)
    if not isinstance(layer, torch.nn.Linear):
        raise TypeError(f"layer is a {kind.__name__}; Linear.of() takes a torch.nn.Linear")
    if _is_tools(layer):
        raise TypeError(f"layer is a {kind.__name__}, which QuantizedLinear.of() takes")
    if kind.forward is not torch.nn.Linear.forward and kind is not Linear:
        raise TypeError(f"layer is a {kind.__name__}, whose forward() is not torch.nn.Linear's")
    _check_own_forward(layer)
    if layer._parameters.get("weight") is None:
        raise ValueError(
            "weight is no parameter but computed for each product, as weight_norm and parametrizations do: "
            "remove them first, which leaves the weight"
        )
    _check_weight(layer.weight)


def _check_weight(weight: Any) -> None:
    if isinstance(weight, torch.nn.parameter.UninitializedParameter):
        raise ValueError("weight is not initialized: a lazy layer has one after its first product")
    if weight.device.type == "meta":
        raise ValueError("weight is on device meta, without values: load them first")
    if weight.ndim != 2:
        raise ValueError(f"weight has shape {tuple(weight.shape)}; it must be out_features x in_features")
    if type(weight) not in _PLAIN:
        _tool_layers.read_tensor(weight)
    elif weight.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"weight is {weight.dtype}; it must be float64, float32, float16 or bfloat16")


def _checked_activation(activation: str) -> str:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it must be one of {', '.join(ACTIVATIONS)}")
    return activation


def _parameter(tensor: Any) -> Any:
    is_one = isinstance(tensor, torch.nn.Parameter)
    return tensor if is_one else torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)


def _leave_fast_paths(model: Any) -> None:
    """Encoder layers then call linear1 and linear2, and encoders pass them no nested tensors."""
    for encoder in model.modules():
        if not isinstance(encoder, torch.nn.TransformerEncoderLayer | torch.nn.TransformerEncoder):
            continue
        if any(isinstance(each, Linear | QuantizedLinear) for each in encoder.modules()):
            if isinstance(encoder, torch.nn.TransformerEncoder):
                encoder.use_nested_tensor = False
            else:
                encoder.activation_relu_or_gelu = 0  # what forward() asks before it takes that path
