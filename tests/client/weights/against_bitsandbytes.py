#!/usr/bin/env python3
"""Compares gemm's reading of bitsandbytes' 4 and 8 bits with bitsandbytes, to the bit.

    bazel build --config=opt --config=cpu //client/cli:gemm //server:gemmd
    tests/client/weights/against_bitsandbytes.py

Installs torch, bitsandbytes and transformers in a temporary folder of some 6 GiB, so CI does not run it. Models are
quantized and saved by transformers, layers by bitsandbytes, both on the CPU. 4 bits are decoded by bitsandbytes in f32,
each matrix as one row: with AVX-512 it takes scales of other blocks where rows end within one. 8 bits have two decoders
there that differ in the last bit: values are those by which a layer in training multiplies, each code times SCB *
f32(1 / 127) rounded to f32, and int8_vectorwise_dequant()'s are compared within 2^-22. Where no groups of 16 elements
of K or more have a scale each, gemm may refuse the matrix.
"""
import copy
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import against_tools

PACKAGES = ["torch==2.15.0", "bitsandbytes==0.50.2", "transformers==5.24.0", "accelerate==1.15.0", "safetensors==0.8.0",
            "numpy==2.4.6"]
BLOCKS = (32, 64, 128, 256, 512, 1024, 2048, 4096)


def is_held(k, block):
    """Whether each group of 16 elements of K, or of more, lies in one block of the flattened matrix, in any row."""
    return math.gcd(k, block) >= 16


def matrices(n, k):
    """Real ones: plain, with outliers, zero blocks, one element, tiny and large ones, rows of all magnitudes."""
    import torch

    normal = torch.randn(n, k)
    outlier, zeros, single = normal.clone(), normal.clone(), torch.zeros(n, k)
    outlier[:, 5] *= 1000
    zeros[::3] = 0
    zeros[1, : k // 2] = -0.0
    single[n // 2, k // 3] = -3
    mixed = normal * torch.logspace(-6, 3, n)[torch.randperm(n)][:, None]
    small = normal * 1e-6  # nested scales of its rows but one are negative
    small[n // 2] *= 1e9
    return {"normal": normal, "outlier": outlier, "zeros": zeros, "single": single, "none": torch.zeros(n, k),
            "equal": torch.full((n, k), 0.5), "positive": normal.abs(), "mixed": mixed, "small": small,
            "tiny": normal * 1e-7, "least": normal * 2**-100, "large": normal * 1e30}


def decoded(weight, state):
    """Values of 4 bits in f32, which must be those of the state's type but for its rounding."""
    import torch
    from bitsandbytes import functional

    state, shape, dtype = copy.copy(state), state.shape, state.dtype
    state.shape = torch.Size((1, shape.numel()))
    state.dtype = torch.float32
    values = functional.dequantize_4bit(weight.reshape(-1, 1), state).reshape(shape)
    state.dtype = dtype
    assert torch.equal(functional.dequantize_4bit(weight.reshape(-1, 1), state).reshape(shape), values.to(dtype))
    return values


def decoded_8(codes, scb):
    """Values of 8 bits: a layer's product, in training, of the unit matrix."""
    import bitsandbytes
    import torch
    from bitsandbytes import functional

    n, k = codes.shape
    layer = bitsandbytes.nn.Linear8bitLt(k, n, bias=False, has_fp16_weights=False)
    layer.load_state_dict({"weight": torch.zeros(n, k)})
    layer = layer.to("cpu").train()
    layer.weight.data, layer.weight.CB, layer.weight.SCB = codes, codes, scb
    values = layer(torch.eye(k)).detach().T
    other = functional.int8_vectorwise_dequant(codes, scb)
    assert ((values - other).abs() <= other.abs() * 2**-22).all()
    return values


def four_bits(real, quant_type, nested, block=64, storage=None, bias=False):
    """The tensors that a Linear4bit saves, and its values: None where scales are not finite."""
    import bitsandbytes
    import torch

    n, k = real.shape
    layer = bitsandbytes.nn.Linear4bit(k, n, bias=bias, compress_statistics=nested, quant_type=quant_type,
                                       quant_storage=storage or torch.uint8)
    layer.weight.data = real.clone()
    layer.weight.blocksize = block
    layer = layer.to("cpu")
    state = layer.weight.quant_state
    is_finite = state.offset is None or state.offset.isfinite()
    return layer.state_dict(prefix="layer."), decoded(layer.weight.data, state) if is_finite else None


def eight_bits(real):
    """The tensors that a Linear8bitLt saves, and its values: None where scales are not finite."""
    import bitsandbytes

    n, k = real.shape
    layer = bitsandbytes.nn.Linear8bitLt(k, n, bias=False, has_fp16_weights=False)
    layer.load_state_dict({"weight": real})
    tensors = layer.to("cpu").state_dict(prefix="layer.")
    scb = tensors["layer.SCB"]
    return tensors, decoded_8(tensors["layer.weight"], scb) if scb.isfinite().all() else None


def layers():
    """(name, tensors, values or None where gemm is to refuse, whether it may)."""
    import torch
    from bitsandbytes.nn.parametrize import replace_parameter_4bit

    kinds = [(quant_type, nested) for quant_type in ("nf4", "fp4") for nested in (False, True)]
    for quant_type, nested in kinds:
        kind = f"{quant_type}{'-nested' * nested}"
        for block in BLOCKS:
            for n, k in ((5, 256), (33, 384), (7, 96), (3, 80), (12, 64), (160, 128), (7, 33), (9, 100), (1, 100)):
                made = four_bits(torch.randn(n, k) * torch.logspace(-1, 1, n)[:, None], quant_type, nested, block)
                yield f"{kind}.{block}.{n}x{k}", *made, not is_held(k, block)
        for n, k in ((2, 2048), (3, 1), (1, 1), (5, 20), (2, 15)):
            yield f"{kind}.64.{n}x{k}", *four_bits(torch.randn(n, k), quant_type, nested), not is_held(k, 64)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for name, real in matrices(40, 128).items():
                if dtype == torch.float16 and name == "large":  # infinite
                    continue
                made = four_bits(real.to(dtype), quant_type, nested, bias=True)
                yield f"{kind}.{name}.{str(dtype).removeprefix('torch.')}", *made, False
        for storage in (torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.float64):
            for block, n, k in ((64, 6, 128), (128, 8, 96)):
                name = f"{kind}.{block}.in_{str(storage).removeprefix('torch.')}"
                yield name, *four_bits(torch.randn(n, k), quant_type, nested, block, storage), False
        stack = torch.nn.Module()
        stack.weight = torch.nn.Parameter(torch.randn(3, 6, 64))
        replace_parameter_4bit(stack, "weight", nested, quant_type)
        state = stack.parametrizations["weight"][0].quant_state
        tensors = stack.state_dict(prefix="layer.")
        yield f"{kind}.stack", tensors, decoded(tensors["layer.weight"], state), True
    # The mean of the scales is infinite, and its JSON has the word Infinity.
    yield "nf4-nested.infinite", *four_bits(torch.randn(8, 64) * 9e37, "nf4", True), True

    for n, k in ((160, 256), (7, 33), (1, 16), (5, 1), (3, 100)):
        yield f"int8.{n}x{k}", *eight_bits(torch.randn(n, k)), False
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for name, real in matrices(40, 128).items():
            made = eight_bits(real.to(dtype))
            yield f"int8.{name}.{str(dtype).removeprefix('torch.')}", *made, made[1] is None


def models(folder):
    """(name, file, {tensor: values}, {each matrix: its shape}) of models that transformers quantizes and saves."""
    import bitsandbytes
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    four = [{"load_in_4bit": True, "bnb_4bit_quant_type": quant_type, "bnb_4bit_use_double_quant": nested}
            for quant_type in ("nf4", "fp4") for nested in (False, True)]
    cases = [(dtype, each) for dtype in ("float32", "float16", "bfloat16") for each in (*four, {"load_in_8bit": True})]
    for storage in ("bfloat16", "float32"):
        cases += [("bfloat16", {**each, "bnb_4bit_quant_storage": storage}) for each in four]
    cases.append(("bfloat16", {**four[1], "shards": "2KB"}))  # a layer in up to three
    cases.append(("float16", {**four[0], "llm_int8_skip_modules": ["q_proj"]}))
    for i, (dtype, fields) in enumerate(cases):
        config = transformers.LlamaConfig(vocab_size=32, hidden_size=96, intermediate_size=160, num_hidden_layers=1,
                                          num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False)
        real = transformers.LlamaForCausalLM(config).to(getattr(torch, dtype))
        shapes = {name: list(each.shape) for name, each in real.named_parameters() if each.dim() == 2}
        real.save_pretrained(folder / f"real{i}")
        shards = {"max_shard_size": fields.pop("shards")} if "shards" in fields else {}
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder / f"real{i}", dtype=dtype, device_map="cpu",
            quantization_config=transformers.BitsAndBytesConfig(**fields))
        model.save_pretrained(folder / f"model{i}", **shards)
        values = {}
        for name, module in model.named_modules():
            if isinstance(module, bitsandbytes.nn.Linear4bit):
                values[f"{name}.weight"] = decoded(module.weight.data, module.weight.quant_state)
            elif isinstance(module, bitsandbytes.nn.Linear8bitLt):
                values[f"{name}.weight"] = decoded_8(module.weight.CB, module.weight.SCB)
        assert len(values) == 7
        file = "model.safetensors.index.json" if shards else "model.safetensors"
        yield f"model.{dtype}.{'.'.join(map(str, fields.values()))}", folder / f"model{i}" / file, values, shapes


def compare_all(server, folder):
    import numpy
    import safetensors.torch
    import torch

    torch.manual_seed(3)
    folder = pathlib.Path(folder)
    compared, refused, wrong = {}, {}, []
    unit, out = folder / "unit.npy", folder / "d.npy"

    def matrices_of(name, path):
        """What gemm lists, without vectors, by name."""
        code, output, error = server.gemm("weights", path, "--json", "--check")
        if code != 0:
            wrong.append(f"{name}: weights ended with {code}: {error.strip()}")
            return {}
        return {each["name"]: each for each in json.loads(output)["tensors"] if len(each["shape"]) > 1}

    def difference(operand, values):
        """What differs, or nothing."""
        numpy.save(unit, numpy.eye(values.shape[1], dtype=numpy.float32))
        code, _, error = server.gemm("matmul", unit, operand, "--transpose-b", "-o", out)
        if code != 0:
            return f"matmul ended with {code}: {error.strip()}"
        got, expected = numpy.load(out).T, values.numpy()
        if got.shape != expected.shape:
            return f"it is {got.shape}, not {expected.shape}"
        differ = numpy.argwhere(got != expected)
        if len(differ) == 0:
            return None
        first = tuple(map(int, differ[0]))
        return f"{len(differ)} of {got.size} differ, first at {first}: {got[first]!r}, not {expected[first]!r}"

    def compare(name, path, listed, values, may_refuse):
        kind = name.split(".")[0]
        if "form" not in listed:
            if may_refuse:
                refused[kind] = refused.get(kind, 0) + 1
            else:
                wrong.append(f"{name}: {listed['name']} is refused: {listed['refused']}")
            return
        if values is None:
            wrong.append(f"{name}: {listed['name']} has the form {listed['form']}, though it is not finite")
            return
        if listed["shape"] != list(values.shape):
            wrong.append(f"{name}: {listed['name']} is {listed['shape']}, not {list(values.shape)}")
            return
        parts = {f"[{i}]": each for i, each in enumerate(values)} if values.dim() == 3 else {"": values}
        for index, each in parts.items():
            if found := difference(f"{path}:{listed['name']}{index}", each.detach().contiguous()):
                wrong.append(f"{name}: {listed['name']}{index} as {listed['form']}: {found}")
            compared[kind] = compared.get(kind, 0) + 1

    def compare_names(name, listed, expected):
        """Nothing beside the matrices may be listed as one."""
        if set(listed) != set(expected):
            wrong.append(f"{name}: listed are {sorted(listed)}, not {sorted(expected)}")

    for name, tensors, values, may_refuse in layers():
        path = folder / f"{name}.safetensors"
        safetensors.torch.save_file({each: tensor.detach().clone() for each, tensor in tensors.items()}, path)
        listed = matrices_of(name, path)
        compare_names(name, listed, ["layer.weight"])
        if "layer.weight" in listed:
            compare(name, path, listed["layer.weight"], values, may_refuse)
        path.unlink()
    for name, path, values, shapes in models(folder):
        listed = matrices_of(name, path)
        compare_names(name, listed, shapes)
        for each in listed.keys() & shapes.keys():
            if listed[each]["shape"] != shapes[each]:
                wrong.append(f"{name}: {each} is {listed[each]['shape']}, not {shapes[each]}")
        for each in values.keys() & listed.keys():
            compare(name, path, listed[each], values[each], False)
    for each in wrong:
        print(each)
    for name, counts in (("compared", compared), ("refused by name", refused)):
        print(f"{name}: {', '.join(f'{kind} {count}' for kind, count in counts.items())}")
    if wrong:
        sys.exit(f"{len(wrong)} are wrong")
    print(f"{sum(compared.values())} matrices have the values that bitsandbytes reads; {sum(refused.values())} are "
          "refused by name")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        against_tools.serve(compare_all, sys.argv[1])
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # else bitsandbytes compiles a decoder of its own, for each shape anew
    with tempfile.TemporaryDirectory() as temporary:
        interpreter = against_tools.install(temporary, PACKAGES)
        sys.exit(subprocess.run([interpreter, __file__, temporary]).returncode)
