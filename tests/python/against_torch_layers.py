#!/usr/bin/env python3
"""Compares gemmd.torch's layers with those of GPTQ, AWQ, torchao and bitsandbytes, and whole models with theirs.

    bazel build --config=opt --config=cpu //server:gemmd
    tests/python/against_torch_layers.py

Installs torch and the tools in a temporary folder of some 8 GiB, so CI does not run it. Layers are packed by the
tools themselves. First each layer's values are to be those that the tool decodes, in f32 or the type to which it
rounds, and copies of layers are to be the same layers. Then a transformer that is trained here on bytes, and a
Llama of transformers with drawn weights, run with every linear layer quantized by each tool. Logits are compared
with those of a model in f64 of the tool's decoded weights: their error is to be at most 1.25 times the tool's own,
or that of torch's own layers in the model's type.
"""

import copy
import io
import os
import pathlib
import pickle
import subprocess
import sys
import sysconfig
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "client/weights"))
import against_tools
import against_torch_tools

PACKAGES = [*against_torch_tools.PACKAGES, "torchao==0.18.0", "bitsandbytes==0.50.2", "ml_dtypes==0.6.0", "grpcio"]
GPTQ = [(bits, group, symmetric) for bits in (2, 4, 8) for group in (16, 32, 64, 128, -1) for symmetric in (0, 1)]
WIDTH, CONTEXT = 128, 64


class Tools:
    """What makes a layer of each tool of a torch.nn.Linear, with the values that the tool decodes (N x K)."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def load(self):
        """Imports them; those that import GPU code on the way in parts."""
        against_torch_tools.without_its_init(
            self.folder / "autoawq-0.2.9", "awq", "awq.utils", "awq.modules", "awq.modules.linear"
        )
        against_torch_tools.without_its_init(
            self.folder / "auto_gptq-0.7.1", "auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear"
        )
        sys.path.insert(0, str(self.folder / "gptqmodel-7.7.0"))
        return self

    @staticmethod
    def parameters(weight, group, is_symmetric, lowest, bits):
        """Scales (exact in f16) and zero points, N x groups, by the largest and least of each group."""
        import torch

        highest = 2**bits - 1
        groups = weight.detach().float().reshape(weight.shape[0], -1, group)
        if is_symmetric:
            scales = (groups.abs().amax(2) / (highest / 2)).half().float()
            return scales, torch.full_like(scales, 2 ** (bits - 1))
        low, high = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
        scales = ((high - low) / highest).half().float()
        return scales, torch.round(-low / scales).clamp(lowest, highest)

    def auto_gptq(self, linear, bits=4, group=32, symmetric=0):
        import torch
        from auto_gptq.nn_modules.qlinear.qlinear_cuda_old import QuantLinear

        n, k = linear.weight.shape
        layer = QuantLinear(bits, group, k, n, linear.bias is not None, weight_dtype=torch.float32)
        layer.pack(linear, *self.parameters(linear.weight, k if group == -1 else group, symmetric, 1, bits), None)
        values = layer(torch.eye(k)) - (0 if linear.bias is None else layer.bias)
        return layer, values.T

    def gptqmodel(self, linear, bits=4, group=32, symmetric=0, act_order=False):
        import torch
        from gptqmodel.nn_modules.qlinear.torch import TorchLinear

        n, k = linear.weight.shape
        size = k if group == -1 else group
        layer = TorchLinear(bits=bits, group_size=group, sym=bool(symmetric), desc_act=act_order, in_features=k,
                            out_features=n, bias=linear.bias is not None)  # fmt: skip
        g_idx = None
        weight = linear.weight
        if act_order:
            order = torch.randperm(k)
            g_idx = torch.empty(k, dtype=torch.int32)
            g_idx[order] = torch.arange(k, dtype=torch.int32) // size
            weight = weight[:, order]
        scales, zeros = self.parameters(weight, size, symmetric, 0, bits)
        layer.pack_original(linear, scales, zeros, g_idx)
        layer.optimized = True  # else it compiles its decoding
        layer.post_init()
        plain = copy.deepcopy(layer)
        plain.scales, plain.dequant_dtype = plain.scales.float(), torch.int32
        return layer, plain.dequantize_weight().T

    def gptqmodel_act_order(self, linear, group=32):
        return self.gptqmodel(linear, group=group, act_order=True)

    def autoawq(self, linear, group=32):
        from awq.modules.linear.gemm import WQLinear_GEMM
        from awq.utils.packing_utils import dequantize_gemm

        scales, zeros = self.parameters(linear.weight, group, False, 0, 4)
        layer = WQLinear_GEMM.from_linear(linear, 4, group, False, scales.T.contiguous(), zeros.T.contiguous())
        return layer, dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4, group).T

    def autoawq_gemv(self, linear, group=32):
        """It decodes on a GPU alone: these are the values that its packer was given."""
        import torch
        from awq.modules.linear.gemv import WQLinear_GEMV

        n, k = linear.weight.shape
        scales = (torch.rand(n, k // group) + 0.5).half().float()
        codes, zeros = torch.randint(0, 16, (n, k)).float(), torch.randint(0, 16, (n, k // group)).float()
        values = (codes - zeros.repeat_interleave(group, 1)) * scales.repeat_interleave(group, 1)
        drawn = torch.nn.Linear(k, n, bias=False)
        drawn.weight.data = values.clone()
        return WQLinear_GEMV.from_linear(drawn, 4, group, False, scales, zeros), values

    def gptqmodel_awq(self, linear, group=32):
        from awq.utils.packing_utils import dequantize_gemm
        from gptqmodel.nn_modules.qlinear.torch_awq import AwqTorchLinear

        n, k = linear.weight.shape
        layer = AwqTorchLinear(bits=4, group_size=group, sym=False, desc_act=False, in_features=k, out_features=n,
                               bias=linear.bias is not None)  # fmt: skip
        layer.pack(linear, *self.parameters(linear.weight, group, False, 0, 4))
        layer.post_init()
        return layer, dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4, group).T

    def torchao(self, linear, config):
        import torch
        from torchao.quantization import quantize_

        model = torch.nn.Sequential(copy.deepcopy(linear))
        quantize_(model, config)
        return model[0], model[0].weight.dequantize()

    def bitsandbytes_4(self, linear, kind="nf4", nested=True):
        import bitsandbytes

        n, k = linear.weight.shape
        layer = bitsandbytes.nn.Linear4bit(k, n, linear.bias is not None, linear.weight.dtype, nested, kind)
        layer.load_state_dict(linear.state_dict())
        layer = layer.to(linear.weight.dtype).to("cpu")
        return layer, bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)

    def bitsandbytes_8(self, linear):
        import bitsandbytes

        n, k = linear.weight.shape
        layer = bitsandbytes.nn.Linear8bitLt(k, n, linear.bias is not None, has_fp16_weights=False)
        layer.load_state_dict(linear.state_dict())
        layer = layer.to("cpu")
        return layer, bitsandbytes.functional.int8_vectorwise_dequant(layer.weight.CB, layer.weight.SCB)

    def torchao_configs(self):
        import torch
        import torchao.quantization as ao
        from torchao.prototype import mx_formats
        from torchao.quantization.quant_primitives import MappingType

        yield "int8", ao.Int8WeightOnlyConfig(version=2)
        yield "int8 dynamic", ao.Int8DynamicActivationInt8WeightConfig()
        yield "float8", ao.Float8WeightOnlyConfig()
        yield "nvfp4", mx_formats.NVFP4WeightOnlyConfig()
        for bits in (2, 3, 4, 8):
            dtype = getattr(torch, f"int{bits}")
            yield f"int{bits} rows", ao.IntxWeightOnlyConfig(weight_dtype=dtype)
            for kind in (MappingType.SYMMETRIC, MappingType.ASYMMETRIC):
                yield (f"int{bits} groups {kind.name.lower()}", ao.IntxWeightOnlyConfig(
                    weight_dtype=dtype, granularity=ao.PerGroup(32), mapping_type=kind))  # fmt: skip

    def of_layers(self):
        """(name, what makes a layer, the type of its model, whether the tool's decoding rounds to that type)."""
        import torch

        for bits, group, symmetric in GPTQ:
            for each in (self.auto_gptq, self.gptqmodel):
                name = f"{each.__name__} {bits} bits, group {group}, {'symmetric' if symmetric else 'asymmetric'}"
                yield name, lambda x, a=(bits, group, symmetric), f=each: f(x, *a), torch.float32, False
        for group in (32, 64, 128):
            for each in (self.gptqmodel_act_order, self.autoawq, self.autoawq_gemv, self.gptqmodel_awq):
                yield f"{each.__name__} group {group}", lambda x, g=group, f=each: f(x, g), torch.float32, False
        for dtype in (torch.float32, torch.bfloat16):
            for name, config in self.torchao_configs():
                yield f"torchao {name} {dtype}", lambda x, c=config: self.torchao(x, c), dtype, True
            for kind in ("nf4", "fp4"):
                for nested in (False, True):
                    name = f"bitsandbytes {kind}{' nested' * nested} {dtype}"
                    yield name, lambda x, a=(kind, nested): self.bitsandbytes_4(x, *a), dtype, True
        yield "bitsandbytes int8", self.bitsandbytes_8, torch.float32, True

    def of_models(self):
        """(name, what makes a layer, the model's type, and whether the tool's layers run on a CPU)."""
        import torch

        yield "auto-gptq", self.auto_gptq, torch.float32, True
        yield "gptqmodel", self.gptqmodel, torch.bfloat16, True
        yield "gptqmodel act-order", self.gptqmodel_act_order, torch.bfloat16, True
        yield "gptqmodel awq", self.gptqmodel_awq, torch.bfloat16, True
        yield "autoawq", self.autoawq, torch.bfloat16, False
        for dtype in (torch.float32, torch.bfloat16):
            for name, config in self.torchao_configs():
                if name in ("int8", "int8 dynamic", "float8", "nvfp4", "int4 groups asymmetric"):
                    yield f"torchao {name}", lambda x, c=config: self.torchao(x, c), dtype, True
            yield "bitsandbytes nf4", self.bitsandbytes_4, dtype, True
            yield "bitsandbytes int8", self.bitsandbytes_8, dtype, True


def compare_layers(tools, client):
    """Values of each layer: a product of the unit matrix by it, in f32, has no sum to be rounded."""
    import torch

    from gemmd import torch as served

    compared = 0
    for name, make, dtype, is_rounded in tools.of_layers():
        for k, n in ((256, 64), (512, 160)):
            linear = torch.nn.Linear(k, n, bias=False, dtype=dtype)
            layer, values = make(linear)
            is_tensor = type(layer) is torch.nn.Linear
            if is_tensor and dtype != torch.float32:  # then x is of that type: compare what is sent
                got = torch.from_numpy(served._tool_layers.read_tensor(layer.weight).dequantize("float32")).T
            else:
                kind = served.Linear if is_tensor else served.QuantizedLinear
                got = kind.of(layer, client)(torch.eye(k)).T
            wanted = values.float()
            # The tool rounds to its type where it decodes in that; NVFP4 and zero points are rounded twice in f32.
            within = 2.0**-6 if is_rounded and dtype == torch.bfloat16 else 2.0**-22 if is_rounded else 0.0
            off = ((got - wanted).abs() / wanted.abs().clamp(min=float(wanted.abs().max()) * 2**-8)).max()
            assert off <= within, f"{name}, {n} x {k}: off by {off}"
            compared += 1
    print(f"{compared} layers have the values that the tools decode")


def compare_copies(tools, client):
    """Copies, pickles and state_dict() of each tool's layer have its values, and x its gradient."""
    import torch

    import gemmd.torch

    made = 0
    for name, make, dtype, _ in tools.of_models():
        here = make(torch.nn.Linear(128, 64, bias=False, dtype=dtype))[0]
        wanted_keys = list(here.state_dict())
        twin = torch.nn.Sequential(copy.deepcopy(here))
        model = torch.nn.Sequential(here)
        gemmd.torch.replace(model, client)
        x = torch.randn(3, 128, dtype=dtype)
        y = model(x)
        assert [key.removeprefix("0.") for key in model.state_dict()] == wanted_keys, name
        copies = [model, copy.deepcopy(model), saved(model)]
        for what, does in (
            ("load_state_dict", lambda layer: layer.load_state_dict(layer.state_dict()) and layer),
            ("pickle", lambda layer: pickle.loads(pickle.dumps(layer))),
        ):
            if works(does, twin):
                copies.append(does(model))
            else:
                print(f"{name} {str(dtype)[6:]}: the tool's own layer has no {what}")
        for copied in copies:
            assert torch.equal(copied(x), y), name
        assert torch.equal(torch.compile(model, backend="eager")(x), y), name
        values = model[0](torch.eye(128, dtype=dtype)).double()
        with torch.enable_grad():
            given = x.clone().requires_grad_()
            model(given).sum().backward()
        assert relative(given.grad, values.sum(1).expand(3, 128)) < (1e-6 if dtype == torch.float32 else 1e-2), name
        made += 1
    print(f"{made} layers are themselves in copies, pickles and state_dict(), and give x its gradient")


def saved(model):
    """By torch.save(), which torchao's own layers do not bear."""
    import torch

    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def works(does, layer):
    try:
        does(layer)
    except (AttributeError, RuntimeError):
        return False
    return True


def writer():
    """A transformer that predicts the next byte."""
    import torch
    from torch import nn

    class Writer(nn.Module):
        """Predicts the next byte: two blocks of attention and perceptron, and linear layers alone."""

        def __init__(self):
            super().__init__()
            self.byte, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList(
                nn.ModuleDict(
                    {
                        "norm1": nn.LayerNorm(WIDTH),
                        "norm2": nn.LayerNorm(WIDTH),
                        "qkv": nn.Linear(WIDTH, 3 * WIDTH),
                        "out": nn.Linear(WIDTH, WIDTH),
                        "up": nn.Linear(WIDTH, 4 * WIDTH),
                        "down": nn.Linear(4 * WIDTH, WIDTH),
                    }
                )
                for _ in range(2)
            )
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)

        def forward(self, text):
            x = self.byte(text) + self.place(torch.arange(text.shape[1]))
            for block in self.blocks:
                batch, length, width = x.shape
                parts = block["qkv"](block["norm1"](x)).chunk(3, dim=-1)
                q, k, v = (each.reshape(batch, length, 4, -1).transpose(1, 2) for each in parts)
                seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + block["out"](seen.transpose(1, 2).reshape(batch, length, width))
                x = x + block["down"](nn.functional.gelu(block["up"](block["norm2"](x))))
            return self.head(self.norm(x))

    return Writer()


def trained():
    """A model trained on Python's own sources, its logits, and texts for it."""
    import torch

    torch.manual_seed(1)
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    text = torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py"))[:60])),
                            dtype=torch.uint8).long()  # fmt: skip
    model = writer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(150):
        starts = torch.randint(len(text) - CONTEXT - 1, (16, 1))
        window = text[starts + torch.arange(CONTEXT + 1)]
        loss = torch.nn.functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"trained to {loss.item():.2f} nats a byte")
    return model.eval(), lambda each: each, text[torch.arange(8)[:, None] * 3000 + torch.arange(CONTEXT)]


def llama():
    """A Llama of transformers with drawn weights, its logits, and tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(2)
    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        initializer_range=0.1,
    )
    return LlamaForCausalLM(config).eval(), lambda each: each.logits, torch.randint(0, 256, (4, 48))


def quantized(model, make, dtype):
    """The model with every linear layer of a tool, and one in f64 of the values that the tool decodes."""
    import torch

    here, exact = copy.deepcopy(model).to(dtype), copy.deepcopy(model).to(dtype).double()
    for name, module in list(here.named_modules()):
        if type(module) is torch.nn.Linear:
            layer, values = make(module)
            parent, _, child = name.rpartition(".")
            setattr(here.get_submodule(parent), child, layer)
            exact.get_submodule(name).weight.data = values.double()
    return here, exact


def relative(got, exact):
    return float((got.double() - exact).norm() / exact.norm())


def compare_models(tools, client, title, model, logits, text):
    """Plain, quantized by the server, and by each tool."""
    import torch

    own = {}
    for dtype in (torch.float32, torch.bfloat16):
        exact = logits(copy.deepcopy(model).to(dtype).double()(text))
        here = copy.deepcopy(model).to(dtype)
        lossy = relative(stored(here, client, logits, text), exact)
        own[dtype] = report(f"{title}, plain", dtype, logits, text, here, exact, client, True, 0)
        print(f"{title + ', store_as=mxfp8-e4m3':38} {str(dtype)[6:]:9} error: {lossy:.2e}")
    for name, make, dtype, runs in tools.of_models():
        here, exact = quantized(model, make, dtype)
        report(f"{title}, {name}", dtype, logits, text, here, logits(exact(text)), client, runs, own[dtype])


def stored(model, client, logits, text):
    import gemmd.torch

    served = copy.deepcopy(model)
    gemmd.torch.replace(served, client, store_as="mxfp8-e4m3")
    return logits(served(text))


def report(name, dtype, logits, text, here, exact, client, runs, rounding):
    """The error of the tool's own logits; AssertionError: gemmd's is larger. rounding: what any may have."""
    import gemmd.torch

    theirs = logits(here(text)) if runs else None
    layers = gemmd.torch.replace(here, client)
    ours = logits(here(text))
    own = relative(theirs, exact) if runs else float("nan")
    got = relative(ours, exact)
    same = float((ours.argmax(-1) == exact.argmax(-1)).double().mean())
    print(f"{name:38} {str(dtype)[6:]:9} {len(layers)} layers; error: tool {own:.2e}, gemmd {got:.2e}; "
          f"the likeliest is the same in {same:.4f}")  # fmt: skip
    assert got <= 1.25 * max(own if runs else 0, rounding), f"{name}: {got} of {own}"
    return own


def compare_all(server, folder):
    import torch

    import gemmd

    warnings.simplefilter("ignore")
    torch.manual_seed(3)
    tools = Tools(f"{folder}/tools").load()
    trained_one = trained()
    with gemmd.Client(server.address) as client, torch.no_grad():
        compare_layers(tools, client)
        compare_copies(tools, client)
        for title, parts in (("writer", trained_one), ("llama", llama())):
            compare_models(tools, client, title, *parts)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        against_tools.serve(compare_all, sys.argv[1])
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        interpreter = against_tools.install(temporary, PACKAGES)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        pathlib.Path(__file__).parents[2] / "client/python"], check=True)  # fmt: skip
        against_torch_tools.unpack_tools(interpreter, f"{temporary}/tools")
        sys.exit(subprocess.run([interpreter, __file__, temporary]).returncode)
