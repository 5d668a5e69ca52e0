#!/usr/bin/env python3
"""Compares gemm's reading of quanto, HQQ, MLX, SDNQ, ComfyUI, gptq_p and FNUZ with the tools that write them.

    bazel build --config=opt --config=cpu //client/cli:gemm //server:gemmd
    tests/client/weights/against_more_tools.py

Installs torch and the tools in a temporary folder of some 8 GiB, so CI does not run it. Codes, scales
and their order are the tools' own, unpacked by the tools where they can. Tools round each step to
their type, so that values are computed here from those in f64; D has them to the bit.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import against_tools

PACKAGES = ["torch==2.15.0", "optimum-quanto==0.2.7", "hqq==0.2.8.post1", "mlx==0.32.4", "mlx-cpu==0.32.4",
            "sdnq==0.2.8", "comfy-kitchen==0.2.40", "transformers==5.24.0", "termcolor", "numpy==2.4.6",
            "safetensors==0.8.0"]
PLANAR = "gptqmodel-7.7.0/gptqmodel/utils/planar_packing.py"


def matrices(n, k):
    """Real ones: plain, with outliers, with rows of zeros, tiny."""
    import torch

    normal = torch.randn(n, k)
    outlier, zeros = normal.clone(), normal.clone()
    outlier[:, 5] *= 50
    zeros[::5] = 0
    return {"normal": normal, "outlier": outlier, "zeros": zeros, "tiny": normal * 1e-3}


def linear(real, dtype, bias=False):
    import torch

    layer = torch.nn.Linear(real.shape[1], real.shape[0], bias=bias)
    layer.weight.data = real.clone()
    return layer.to(dtype)


def quanto(_):
    import torch
    from optimum.quanto import freeze, qint2, qint4, quantize

    for kind in (qint4, qint2):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for n, k in ((64, 256), (48, 96)):
                for name, real in matrices(n, k).items():
                    model = torch.nn.Sequential(linear(real, dtype, bias=True))
                    quantize(model, weights=kind)
                    freeze(model)
                    weight = model[0].weight
                    plain = weight if type(weight).__name__ == "WeightQBitsTensor" else weight.weight_qbits_tensor()
                    values = plain._data.unpack().double() * plain._scale.double() - plain._shift.double()
                    yield f"{kind.name}.{dtype}.{n}.{name}", {}, model.state_dict(), "0.weight", values.reshape(n, k)


def hqq(_):
    import torch
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer

    for bits in (8, 4, 2, 1):
        for dtype in (torch.float16, torch.bfloat16):
            for name, real in matrices(64, 256).items():
                config = BaseQuantizeConfig(nbits=bits, group_size=64, axis=1)
                layer = HQQLinear(linear(real, torch.float32), config, compute_dtype=dtype, device="cpu")
                codes = Quantizer.unpack[layer.meta["packing"]](layer.W_q).double()
                values = (codes - layer.meta["zero"].double()) * layer.meta["scale"].double()
                tensors = {f"l.{key}": each for key, each in layer.state_dict().items() if isinstance(each, torch.Tensor)}
                yield f"hqq.{bits}.{dtype}.{name}", {}, tensors, "l.weight", values.reshape(64, 256)


def mlx(_):
    import mlx.core as mx
    import numpy
    import torch

    def to_torch(array):
        if array.dtype == mx.bfloat16:
            return torch.from_numpy(numpy.array(array.view(mx.uint16))).view(torch.bfloat16)
        return torch.from_numpy(numpy.array(array))

    for group in (32, 64, 128):
        for bits in (2, 3, 4, 5, 6, 8):
            for dtype in (mx.float32, mx.float16, mx.bfloat16):
                for name, real in matrices(64, 256).items():
                    planes = mx.quantize(mx.array(real.numpy()).astype(dtype), group_size=group, bits=bits)
                    words = numpy.array(planes[0]).view(numpy.uint8)
                    ones = numpy.unpackbits(words, bitorder="little", axis=1).reshape(64, 256, bits)
                    codes = torch.from_numpy((ones.astype(numpy.int64) << numpy.arange(bits)).sum(2))
                    scale, bias = (to_torch(each).double().repeat_interleave(group, 1) for each in planes[1:])
                    tensors = dict(zip(("l.weight", "l.scales", "l.biases"), map(to_torch, planes)))
                    yield (f"mlx.affine.{group}.{bits}.{dtype}.{name}", {"quantization": {"group_size": group, "bits": bits}},
                           tensors, "l.weight", codes * scale + bias)
    for mode, group, bits in (("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)):
        for name, real in matrices(64, 256).items():
            planes = mx.quantize(mx.array(real.numpy()), group_size=group, bits=bits, mode=mode)
            values = to_torch(mx.dequantize(*planes, group_size=group, bits=bits, mode=mode))
            yield f"mlx.{mode}.{name}", {}, dict(zip(("l.weight", "l.scales"), map(to_torch, planes))), "l.weight", values


def sdnq(_):
    import torch
    from sdnq import sdnq_post_load_quant

    for kind in ("int8", "uint8", "float8_e4m3fn"):
        for name, real in matrices(96, 256).items():
            model = sdnq_post_load_quant(torch.nn.Sequential(linear(real, torch.bfloat16)), weights_dtype=kind,
                                         group_size=-1, add_skip_keys=False, quantization_device="cpu",
                                         return_device="cpu")
            tensors = (model[0] if isinstance(model, tuple) else model).state_dict()
            values = tensors["0.weight"].double() * tensors["0.scale"].double()
            if "0.zero_point" in tensors:
                values += tensors["0.zero_point"].double()
            config = {"quantization_config": {"quant_method": "sdnq", "weights_dtype": kind, "use_hadamard": False}}
            yield f"sdnq.{kind}.{name}", config, tensors, "0.weight", values


def comfy(_):
    import torch
    from comfy_kitchen.float_utils import from_blocked
    from comfy_kitchen.tensor import QuantizedTensor

    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    table = torch.cat([table, -table])
    layouts = {"nvfp4": "TensorCoreNVFP4Layout", "mxfp8": "TensorCoreMXFP8Layout",
               "float8_e4m3fn": "TensorCoreFP8Layout", "int8_tensorwise": "TensorWiseINT8Layout"}
    for kind, layout in layouts.items():
        for n, k in ((128, 256), (160, 96)):
            for name, real in matrices(n, k).items():
                tensor = QuantizedTensor.from_float(real, layout)
                tensors = tensor.state_dict("l.weight")
                values = tensor.dequantize()
                if kind == "nvfp4":  # two scales, multiplied in f64 and rounded once
                    both = tensors["l.weight"]
                    codes = torch.stack([both >> 4, both & 15], 2).reshape(n, k).long()
                    scales = from_blocked(tensors["l.weight_scale"], num_rows=n, num_cols=k // 16).double()
                    exact = table[codes] * scales.repeat_interleave(16, 1) * tensors["l.weight_scale_2"].double()
                    assert ((values - exact).abs() <= exact.abs() * 2**-22).all()
                    values = exact
                said = json.dumps({"format": kind}).encode()
                tensors["l.comfy_quant"] = torch.tensor(list(said), dtype=torch.uint8)
                yield f"comfy.{kind}.{n}.{name}", {}, tensors, "l.weight", values


def gptq_p(folder):
    import torch

    spec = importlib.util.spec_from_file_location("planar", folder / PLANAR)
    planar = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(planar)
    n, k = 64, 512
    for bits in (3, 5, 6, 7):
        for group in (32, 64, 128, k):
            for is_ordered in (True, False):
                codes = torch.randint(0, 2**bits, (k, n))
                zeros = torch.randint(0, 2**bits, (k // group, n))
                scales = (torch.randn(k // group, n) * 0.1).half()
                of = torch.arange(k) // group
                of = of if is_ordered else of[torch.randperm(k)]
                tensors = {"l.qweight": planar.planar_pack_rows(codes, bits), "l.qzeros": planar.planar_pack_cols(zeros, bits),
                           "l.scales": scales, "l.g_idx": of.to(torch.int32)}
                config = {"quant_method": "gptq", "bits": bits, "group_size": group, "checkpoint_format": "gptq_p"}
                values = (planar.planar_unpack_rows(tensors["l.qweight"], bits) - zeros[of]).double() * scales[of].double()
                yield f"gptq_p.{bits}.{group}.{is_ordered}", {"quantization_config": config}, tensors, "l.weight", values.T


def fnuz(_):
    import torch

    for kind in (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        for name, real in matrices(160, 288).items():
            # Three quarters of the range: no code is too large for the other type, as none of a
            # file is that was converted from it.
            scale = real.abs().amax().reshape(1) / (torch.finfo(kind).max * 0.75)
            codes = (real / scale).to(kind)
            yield f"fnuz.{kind}.{name}", {}, {"w": codes, "w_scale": scale}, "w", codes.double() * scale.double()


def compare_all(server, folder):
    import numpy
    import safetensors.torch
    import torch

    torch.manual_seed(3)
    folder = pathlib.Path(folder)
    compared = {}
    unit, out = folder / "unit.npy", folder / "d.npy"
    for source in (quanto, hqq, mlx, sdnq, comfy, gptq_p, fnuz):
        for name, config, tensors, tensor, values in source(folder):
            path = folder / name / "model.safetensors"
            path.parent.mkdir()
            (path.parent / "config.json").write_text(json.dumps({"model_type": "x", **config}))
            safetensors.torch.save_file({each: plane.detach().contiguous().clone() for each, plane in tensors.items()}, path)
            numpy.save(unit, numpy.eye(values.shape[1], dtype=numpy.float32))
            code, _, error = server.gemm("matmul", unit, f"{path}:{tensor}", "--transpose-b", "-o", out)
            assert code == 0, f"{name}: {error}"
            got, expected = numpy.load(out).T, values.detach().double().numpy().astype(numpy.float32)
            differ = numpy.argwhere(got != expected)
            assert len(differ) == 0, f"{name}: {len(differ)} differ, first at {differ[0]}"
            compared[source.__name__] = compared.get(source.__name__, 0) + 1
    print(", ".join(f"{name} {count}" for name, count in compared.items()))
    print(f"{sum(compared.values())} matrices have the values of the tools' codes")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        against_tools.serve(compare_all, sys.argv[1])
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        interpreter = against_tools.install(temporary, PACKAGES)
        subprocess.run([interpreter, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d",
                        temporary, "gptqmodel==7.7.0"], check=True)
        [archive] = pathlib.Path(temporary).glob("gptqmodel-*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extract(PLANAR, temporary, filter="data")
        sys.exit(subprocess.run([interpreter, __file__, temporary]).returncode)
