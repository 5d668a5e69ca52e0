#!/usr/bin/env python3
"""Compares gemm's reading of GPTQ and AWQ layers with the tools that write them, to the bit.

    bazel build --config=opt --config=cpu //client/cli:gemm //server:gemmd
    tests/client/weights/against_torch_tools.py

Installs torch and unpacks the tools, whose own installation compiles for a GPU, in a temporary
folder of some 8 GiB, so CI does not run it. Layers are packed and decoded by the tools themselves,
decoded in f32, where their products are exact: in f16, as they run, they would be rounded.
"""
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import zipfile

import against_tools

PACKAGES = ["torch==2.15.0", "transformers==5.24.0", "accelerate==1.15.0", "threadpoolctl==3.8.0", "pypcre==0.6.4",
            "logbar==0.4.15", "device-smi==0.5.7", "tokenicer==0.0.14", "random_word==1.0.13", "defuser==0.0.28",
            "datasets==5.2.0", "pillow==13.0.0", "numpy==2.4.6", "safetensors==0.8.0", "protobuf"]
TOOLS = ["auto-gptq==0.7.1", "autoawq==0.2.9", "gptqmodel==7.7.0"]
N, K = 64, 512


def unpack_tools(python, folder):
    subprocess.run([python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d", folder,
                    *TOOLS], check=True)
    for wheel in glob.glob(f"{folder}/*.whl"):
        zipfile.ZipFile(wheel).extractall(f"{folder}/auto_gptq-0.7.1")
    for source in glob.glob(f"{folder}/*.tar.gz"):
        shutil.unpack_archive(source, folder)


def without_its_init(root, *names):
    """Makes packages of which parts are imported without what their __init__ imports."""
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [str(root / name.replace(".", "/"))]
        sys.modules[name] = module


def layers(tools):
    """(name, config, tensors, values [N, K] in f32 or None where gemm is to refuse)."""
    import torch

    without_its_init(tools / "autoawq-0.2.9", "awq", "awq.utils", "awq.modules", "awq.modules.linear")
    without_its_init(tools / "auto_gptq-0.7.1", "auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear")
    sys.path.insert(0, str(tools / "gptqmodel-7.7.0"))
    from auto_gptq.nn_modules.qlinear.qlinear_cuda_old import QuantLinear
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.modules.linear.gemv import WQLinear_GEMV
    from awq.modules.linear.gemv_fast import WQLinear_GEMVFast
    from awq.utils.packing_utils import dequantize_gemm
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

    torch.manual_seed(3)

    def parameters(weight, group, is_symmetric, lowest, bits=4):
        highest = 2**bits - 1
        groups = weight.reshape(N, -1, group)
        if is_symmetric:
            scales = (groups.abs().amax(2) / (highest / 2)).half().float()
            return scales, torch.full_like(scales, 2**(bits - 1))
        low, high = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
        scales = ((high - low) / highest).half().float()
        return scales, torch.round(-low / scales).clamp(lowest, highest)

    def numbers(words, bits):
        """Those packed in int32, the first lowest; of 3 bits some lie in two words."""
        whole = sum((word & 0xffffffff) << (32 * i) for i, word in enumerate(words))
        return [whole >> at & (2**bits - 1) for at in range(0, 32 * len(words), bits)]

    def plain(module):
        return {name: getattr(module, name).detach().clone().contiguous()
                for name in ("qweight", "qzeros", "scales", "g_idx") if getattr(module, name, None) is not None}

    def gptq_layers(name, weight, linear, group, is_symmetric, bits):
        size = K if group == -1 else group
        config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": False}
        scales, zeros = parameters(weight, size, is_symmetric, 1, bits)
        old = QuantLinear(bits, group, K, N, False, weight_dtype=torch.float32)
        old.pack(linear, scales.clone(), zeros.clone(), None)
        values = old(torch.eye(K)).T
        tensors = plain(old)
        tensors["scales"] = tensors["scales"].half()
        yield f"auto-gptq.{name}", config, tensors, values

        scales, zeros = parameters(weight, size, is_symmetric, 0, bits)

        def pack(g_idx):
            layer = TorchLinear(bits=bits, group_size=group, sym=is_symmetric, desc_act=g_idx is not None,
                                in_features=K, out_features=N, bias=False)
            layer.pack_original(linear, scales.clone(), zeros.clone(), g_idx)
            layer.post_init()
            tensors = plain(layer)
            layer.scales = layer.scales.float()
            layer.dequant_dtype = torch.int32
            return layer, tensors, layer.dequantize_weight().T

        if group != -1:
            g_idx = torch.empty(K, dtype=torch.int32)
            g_idx[torch.randperm(K)] = torch.arange(K, dtype=torch.int32) // group
            _, tensors, values = pack(g_idx)
            assert tensors["g_idx"].tolist() == g_idx.tolist()
            yield f"gptqmodel.act.{name}", {**config, "desc_act": True, "format": "gptq_v2"}, tensors, values
        new, tensors, values = pack(None)
        yield f"gptqmodel.v2.{name}", {**config, "checkpoint_format": "gptq_v2"}, tensors, values
        convert_gptq_v2_to_v1_format_module(new, types.SimpleNamespace(bits=bits, pack_dtype=torch.int32))
        tensors = {**tensors, "qzeros": new.qzeros.detach().clone()}
        has_highest = any(zero == 2**bits - 1 for line in tensors["qzeros"].tolist() for zero in numbers(line, bits))
        yield f"gptqmodel.v1.{name}", {**config, "format": "gptq"}, tensors, None if has_highest else values

    def gemv_layer(name, group):
        """AutoAWQ decodes "gemv" on a GPU alone: these are the values that its packer was given."""
        scales = (torch.rand(N, K // group) + 0.5).half().float()
        zeros = torch.randint(0, 16, (N, K // group)).float()
        codes = torch.randint(0, 16, (N, K)).float()
        values = (codes - zeros.repeat_interleave(group, 1)) * scales.repeat_interleave(group, 1)
        linear = torch.nn.Linear(K, N, bias=False)
        linear.weight.data = values.clone()
        gemv = WQLinear_GEMV.from_linear(linear, 4, group, False, scales, zeros)
        config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemv", "zero_point": True}
        return f"autoawq.gemv.{name}", config, plain(gemv), values

    def gemv_fast_layer(name, group):
        """Its packer rounds zero point times scale to f16: the values are of that, from the tensors."""
        scales = (torch.rand(N, K // group) + 0.5).half().float()
        zeros = torch.randint(0, 16, (N, K // group)).float()
        codes = torch.randint(0, 16, (N, K)).float()
        linear = torch.nn.Linear(K, N, bias=False)
        linear.weight.data = (codes - zeros.repeat_interleave(group, 1)) * scales.repeat_interleave(group, 1)
        fast = WQLinear_GEMVFast.from_linear(linear, 4, group, False, scales, zeros)
        scale, offset = (plane[:K // group].T.double().repeat_interleave(group, 1) for plane in (fast.scales, fast.qzeros))
        config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemv_fast", "zero_point": True}
        return f"autoawq.gemv_fast.{name}", config, plain(fast), (codes.double() * scale + offset).float()

    for group in (32, 64, 128, 256, -1):
        size = K if group == -1 else group
        if group in (32, 64, 128):
            for i in range(4):
                yield gemv_layer(f"{group}.{i}", group)
                yield gemv_fast_layer(f"{group}.{i}", group)
        for is_symmetric in (True, False):
            for kind in ("normal", "outlier"):
                weight = torch.randn(N, K)
                if kind == "outlier":
                    weight[:, 5] *= 50
                linear = torch.nn.Linear(K, N, bias=False)
                linear.weight.data = weight.clone()
                name = f"{group}.{'sym' if is_symmetric else 'asym'}.{kind}"
                for bits in (2, 3, 4, 8):
                    yield from gptq_layers(f"{bits}.{name}", weight, linear, group, is_symmetric, bits)
                if group == -1:
                    continue
                scales, zeros = parameters(weight, size, is_symmetric, 0)
                awq = WQLinear_GEMM.from_linear(linear, 4, group, False, scales.T.contiguous(), zeros.T.contiguous())
                tensors = plain(awq)
                values = dequantize_gemm(awq.qweight, awq.qzeros, awq.scales.float(), 4, group).T
                config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
                yield f"autoawq.{name}", config, tensors, values
        # Words of any bits, and scales of either sign.
        if group == -1:
            continue
        tensors = {"qweight": torch.randint(-2**31, 2**31, (K, N // 8), dtype=torch.int32),
                   "qzeros": torch.randint(-2**31, 2**31, (K // group, N // 8), dtype=torch.int32),
                   "scales": torch.randn(K // group, N).half()}
        values = dequantize_gemm(tensors["qweight"], tensors["qzeros"], tensors["scales"].float(), 4, group).T
        yield f"autoawq.{group}.bits", {"quant_method": "awq", "bits": 4, "group_size": group}, tensors, values


def compare_all(server, folder):
    import numpy
    import safetensors.torch

    folder = pathlib.Path(folder)
    compared = refused = 0
    unit, out = folder / "unit.npy", folder / "d.npy"
    numpy.save(unit, numpy.eye(K, dtype=numpy.float32))
    for name, config, tensors, values in layers(folder / "tools"):
        path = folder / name / "model.safetensors"
        path.parent.mkdir()
        (path.parent / "config.json").write_text(json.dumps({"model_type": "x", "quantization_config": config}))
        safetensors.torch.save_file({f"layer.{plane}": tensor for plane, tensor in tensors.items()}, path)
        code, output, error = server.gemm("weights", path, "--json")
        assert code == 0, f"{name}: {error}"
        [listed] = json.loads(output)["tensors"]
        assert listed["name"] == "layer.weight" and listed["shape"] == [N, K], listed
        code, _, error = server.gemm("matmul", unit, f"{path}:layer.weight", "--transpose-b", "-o", out)
        if values is None:
            assert code == 3 and "its zero point less 1 is " in error, f"{name}: {code} {error}"
            refused += 1
            continue
        assert code == 0, f"{name}: {error}"
        differ = numpy.argwhere(numpy.load(out).T != values.detach().numpy())
        assert len(differ) == 0, f"{name}: {len(differ)} differ, first at {differ[0]}"
        compared += 1
    print(f"{compared} layers have the values that the tools read; {refused} are refused by name")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        against_tools.serve(compare_all, sys.argv[1])
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        interpreter = against_tools.install(temporary, PACKAGES)
        unpack_tools(interpreter, f"{temporary}/tools")
        sys.exit(subprocess.run([interpreter, __file__, temporary]).returncode)
