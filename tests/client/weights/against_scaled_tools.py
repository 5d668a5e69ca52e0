#!/usr/bin/env python3
"""Compares gemm's reading of codes with scales beside them with the tools that write them.

    bazel build --config=opt --config=cpu //client/cli:gemm //server:gemmd
    tests/client/weights/against_scaled_tools.py

Installs torch and the tools in a temporary folder of some 6 GiB, so CI does not run it. Codes and
scales are made by the tools. Values are the tools' own, decoded in f32, where each product of code
and scale is rounded once, as in D; NVFP4 has two scales, so that its values are multiplied in f64
and rounded once, and the tools' own are compared within 2^-22.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import against_tools

PACKAGES = ["torch==2.15.0", "compressed-tensors==0.20.0", "nvidia-modelopt==0.47.0", "torchao==0.18.0",
            "transformers==5.24.0", "numpy==2.4.6", "safetensors==0.8.0", "requests", "pillow==13.0.0",
            "hqq==0.2.8.post1"]
N = 160


def matrices(k):
    """Real ones: plain, with outliers, with zero blocks, tiny."""
    import torch

    normal = torch.randn(N, k)
    outlier, zeros = normal.clone(), normal.clone()
    outlier[:, 5] *= 50
    zeros[::3] = 0
    zeros[1, 32:64] = 0
    return {"normal": normal, "outlier": outlier, "zeros": zeros, "tiny": normal * 1e-6}


def times_scales(codes, scales, block, overall):
    """Values of E2M1 codes in f64, rounded once to f32."""
    import torch

    return (codes.double() * scales.double().repeat_interleave(block, 1) * overall.double()).float().to(torch.float32)


def compressed_tensors():
    import torch
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    def reduced(real, args):
        """The least and greatest values that share a scale, in the shape of the scales."""
        if args.strategy == "tensor":
            return real.amin().reshape(1), real.amax().reshape(1)
        if args.strategy == "channel":
            return real.amin(1, keepdim=True), real.amax(1, keepdim=True)
        if args.strategy == "block":
            rows, columns = args.block_structure
            parts = [[part for part in line.split(columns, 1)] for line in real.split(rows, 0)]
            return tuple(torch.stack([torch.stack([f(part) for part in line]) for line in parts])
                         for f in (torch.amin, torch.amax))
        groups = real.reshape(N, -1, args.group_size)
        return groups.amin(2), groups.amax(2)

    def cases():
        for bits in (4, 8):
            for symmetric in (True, False):
                for group in (32, 64, 128, 256):
                    yield "pack-quantized", 256, dict(num_bits=bits, symmetric=symmetric, strategy="group",
                                                      group_size=group), torch.bfloat16
                for k in (256, 77):
                    yield "pack-quantized", k, dict(num_bits=bits, symmetric=symmetric, strategy="channel"), torch.float16
        for symmetric in (True, False):
            yield "int-quantized", 256, dict(num_bits=8, symmetric=symmetric, strategy="channel"), torch.bfloat16
            yield "int-quantized", 256, dict(num_bits=8, symmetric=symmetric, strategy="group", group_size=64), torch.float32
        for more in (dict(strategy="tensor"), dict(strategy="channel"),
                     dict(strategy="block", block_structure=[128, 128]), dict(strategy="group", group_size=128)):
            for dtype in (torch.float32, torch.bfloat16):
                yield "float-quantized", 256, dict(num_bits=8, type="float", **more), dtype
        yield "nvfp4-pack-quantized", 256, dict(num_bits=4, type="float", strategy="tensor_group", group_size=16,
                                                scale_dtype=torch.float8_e4m3fn), torch.float32
        mx = dict(type="float", strategy="group", group_size=32, scale_dtype=torch.uint8)
        yield "mxfp4-pack-quantized", 256, dict(num_bits=4, **mx), torch.float32
        yield "mxfp8-quantized", 256, dict(num_bits=8, **mx), torch.float32

    for i, (kind, k, fields, dtype) in enumerate(cases()):
        args = QuantizationArgs(**fields)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor = BaseCompressor.get_value_from_registry(kind)
        for name, real in matrices(k).items():
            low, high = reduced(real, args)
            overall = None
            if kind.startswith("nvfp4"):
                overall = (448 * 6 / real.abs().amax()).reshape(1)
            scale, zero = calculate_qparams(low, high, args, global_scale=overall)
            scale = scale.to(dtype)
            state = {"weight": real.to(dtype), "weight_scale": scale, "weight_zero_point": zero.to(torch.int8)}
            if overall is not None:
                state["weight_global_scale"] = overall
            if args.symmetric:
                del state["weight_zero_point"]
            tensors = compressor.compress(state, scheme)
            tensors = {each: tensor.contiguous() for each, tensor in tensors.items()}
            if kind.startswith("nvfp4"):
                codes = unpack_fp4_from_uint8(tensors["weight_packed"], N, k, dtype=torch.float32)
                values = times_scales(codes, tensors["weight_scale"].float(), 16, 1 / overall)
                own = compressor.decompress(dict(tensors), scheme)["weight"].float()
                assert ((own - values).abs() <= values.abs() * 2**-6).all(), f"{kind}.{name}"
            else:
                in_f32 = dict(tensors)
                if in_f32["weight_scale"].dtype != torch.uint8:
                    in_f32["weight_scale"] = in_f32["weight_scale"].float()
                values = compressor.decompress(in_f32, scheme)["weight"].float()
            config = {"quant_method": "compressed-tensors", "format": kind,
                      "config_groups": {"group_0": {"weights": json.loads(args.model_dump_json())}}}
            yield f"{kind}.{i}.{name}", {"quantization_config": config}, tensors, values


def modelopt():
    import torch
    from modelopt.torch.export import quant_utils
    from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor

    def config(algorithm, size):
        return {"quantization_config": {"quant_method": "modelopt", "quant_algo": algorithm, "config_groups": {
            "group_0": {"weights": {"group_size": size}, "input_activations": {"group_size": 7}}}}}

    for name, real in matrices(256).items():
        scale = (real.abs().amax() / 448).reshape(())
        codes = quant_utils.to_quantized_weight(real, scale, "fp8")
        yield f"modelopt.fp8.{name}", config("FP8", None), {"weight": codes, "weight_scale": scale}, codes.float() * scale
        scale = (real.abs().amax(1) / 448).clamp(min=1e-9)
        codes = quant_utils.to_quantized_weight(real, scale, "fp8_pc_pt")
        yield (f"modelopt.fp8_rows.{name}", config("FP8", None), {"weight": codes, "weight_scale": scale},
               codes.float() * scale[:, None])
        scale = (real.abs().amax(1) / 127).clamp(min=1e-9)
        codes = quant_utils.to_quantized_weight(real, scale, "int8_sq")
        yield (f"modelopt.int8.{name}", config("W8A8", None), {"weight": codes, "weight_scale": scale},
               codes.float() * scale[:, None])
        for size in (32, 64, 128):
            scale = (real.reshape(N, -1, size).abs().amax(2) / 7).clamp(min=1e-9)
            codes = quant_utils.to_quantized_weight(real, scale, "int4_awq", block_size=size)
            # The tool has no decoder of this: its own words are that val0 is row 2n, low.
            rows = torch.stack([codes & 15, codes >> 4], 1).reshape(N, 256).to(torch.int32)
            rows = torch.where(rows > 7, rows - 16, rows)
            expected = torch.round(real / scale.repeat_interleave(size, 1)).clamp(-8, 7)
            assert (rows == expected).all()
            yield (f"modelopt.int4_{size}.{name}", config("W4A16_AWQ", size), {"weight": codes, "weight_scale": scale},
                   rows.float() * scale.repeat_interleave(size, 1))
        packed, scale, overall = NVFP4QTensor.quantize(real, 16)
        if not scale.float().isnan().any():
            codes = NVFP4QTensor.get_e2m1_values("cpu")[
                torch.stack([packed._quantized_data & 15, packed._quantized_data >> 4], 2).reshape(N, 256).long()]
            values = times_scales(codes, scale.float(), 16, overall)
            own = packed.dequantize(torch.float32, scale=scale, double_scale=overall, block_sizes={-1: 16})
            assert ((own - values).abs() <= values.abs() * 2**-22).all()
            yield (f"modelopt.nvfp4.{name}", config("NVFP4", 16),
                   {"weight": packed._quantized_data, "weight_scale": scale, "weight_scale_2": overall.reshape(())}, values)
        packed, scale = MXFP4QTensor.quantize(real, 32)
        values = packed.dequantize(torch.float32, scale=scale, block_sizes={-1: 32})
        yield (f"modelopt.mxfp4.{name}", config("W4A8_MXFP4_FP8", 32),
               {"weight": packed._quantized_data, "weight_scale": scale.reshape(N, -1)}, values.reshape(N, 256))
        packed, scale = MXFP8QTensor.quantize(real)
        yield (f"modelopt.mxfp8.{name}", config("MXFP8", 32), {"weight": packed._quantized_data, "weight_scale": scale},
               packed.dequantize(torch.float32, scale=scale))


def transformers_own():
    import torch
    from transformers.integrations import finegrained_fp8, mxfp4

    for name, real in matrices(288).items():
        padded = torch.nn.functional.pad(real, (0, 96, 0, 96)).reshape(2, 128, 3, 128)
        scale = (padded.abs().amax((1, 3)) / 448).clamp(min=1e-9)
        each = scale.repeat_interleave(128, 0)[:N].repeat_interleave(128, 1)[:, :288]
        codes = (real / each).to(torch.float8_e4m3fn)
        values = finegrained_fp8._dequantize_fp8_weight(codes, scale, [128, 128], torch.float32)
        config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
        yield f"deepseek.{name}", config, {"weight": codes, "weight_scale_inv": scale}, values
    blocks = torch.randint(0, 256, (3, N, 8, 16), dtype=torch.uint8)
    scales = torch.randint(110, 140, (3, N, 8), dtype=torch.uint8)
    values = mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
    yield "gpt_oss.stack", {}, {"weight_blocks": blocks, "weight_scales": scales}, values


def torchao_own():
    import torch
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, PerRow, PerTensor, quantize_

    for name, real in matrices(256).items():
        for kind, config in (("fp8", Float8WeightOnlyConfig()), ("int8", Int8WeightOnlyConfig(version=2)),
                             ("int8_tensor", Int8WeightOnlyConfig(granularity=PerTensor(), version=2))):
            linear = torch.nn.Linear(256, N, bias=False)
            linear.weight.data = real.clone()
            model = torch.nn.Sequential(linear)
            quantize_(model, config)
            yield (f"torchao.{kind}.{name}", {}, *flatten_tensor_state_dict(model.state_dict()),
                   model[0].weight.dequantize().float())


def torchao_blocks():
    import torch
    from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig, NVFP4WeightOnlyConfig
    from torchao.prototype.mx_formats.kernels import f4_unpacked_to_f32, unpack_uint4
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import quantize_

    def nvfp4_values(tensor):
        codes = f4_unpacked_to_f32(unpack_uint4(tensor.qdata))
        one = torch.tensor(1.0)
        overall = one if tensor.per_tensor_scale is None else tensor.per_tensor_scale
        plain = NVFP4Tensor(tensor.qdata, tensor.scale, 16, tensor.orig_dtype,
                            is_swizzled_scales=tensor.is_swizzled_scales)
        scales = plain.get_hp_scales().repeat_interleave(16, -1)
        values = (codes.double() * scales.double() * overall.double()).float()
        assert ((tensor.dequantize(torch.float32) - values).abs() <= values.abs() * 2**-22).all()
        return values

    for name, real in [*((f"{k}.{name}", real) for k in (256, 288) for name, real in matrices(k).items()),
                       ("stack", torch.randn(3, 128, 288))]:
        for is_swizzled in (False, True):
            order = "tiles" if is_swizzled else "lines"
            for kind, scale in (("no", None), ("one", real.abs().amax() / (448 * 6)),
                                ("each", (real.abs().amax((1, 2), keepdim=True) / (448 * 6)) if real.dim() == 3 else None)):
                if kind == "each" and scale is None:
                    continue
                tensor = NVFP4Tensor.to_nvfp4(real, per_tensor_scale=scale, is_swizzled_scales=is_swizzled)
                yield (f"torchao_blocks.nvfp4.{name}.{order}.{kind}", {},
                       *flatten_tensor_state_dict({"0.weight": tensor}), nvfp4_values(tensor))
            for elements in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2):
                if real.dim() == 3 and is_swizzled:
                    continue  # to_mx() has tiles of matrices alone
                tensor = MXTensor.to_mx(real, elements, is_swizzled_scales=is_swizzled)
                yield (f"torchao_blocks.{str(elements).split('.')[1]}.{name}.{order}", {},
                       *flatten_tensor_state_dict({"0.weight": tensor}), tensor.dequantize(torch.float32))
        if real.dim() == 3:
            continue
        for config in (NVFP4WeightOnlyConfig(), MXDynamicActivationMXWeightConfig()):
            model = torch.nn.Sequential(torch.nn.Linear(real.shape[1], N, bias=False)).bfloat16()
            model[0].weight.data = real.bfloat16()
            quantize_(model, config)
            weight = model[0].weight
            values = nvfp4_values(weight) if isinstance(weight, NVFP4Tensor) else weight.dequantize(torch.float32)
            yield (f"torchao_blocks.{type(config).__name__}.{name}", {},
                   *flatten_tensor_state_dict(model.state_dict()), values)


def torchao_int4():
    """mslk quantizes Int4Tensor, on a GPU alone: planes are of its formula, FBGEMM's int4_row_quantize_zp(), and so are
    values. The class and its file are torchao's."""
    import torch
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Int4Tensor

    for name, real in matrices(256).items():
        for group in (32, 64, 128, 256):
            for dtype in (torch.bfloat16, torch.float16):
                groups = real.to(dtype).float().reshape(-1, group)
                low, high = groups.amin(1, keepdim=True), groups.amax(1, keepdim=True)
                scale = (high - low).clamp(min=1e-6) / 15
                zero = low + scale * 8
                codes = ((groups - low) / scale).round().clamp(0, 15).to(torch.int8).reshape(N, 256) - 8
                packed = codes[:, ::2] & 15 | codes[:, 1::2] << 4
                scale, zero = (plane.reshape(N, -1).T.contiguous().to(dtype) for plane in (scale, zero))
                tensor = Int4Tensor(packed, scale, zero, [1, group], torch.Size([N, 256]))
                scale, zero = (plane.T.double().repeat_interleave(group, 1) for plane in (scale, zero))
                yield (f"torchao_int4.{name}.{group}.{str(dtype).split('.')[1]}", {},
                       *flatten_tensor_state_dict({"0.weight": tensor}), (codes.double() * scale + zero).float())


def hqq():
    import torch
    from hqq.core.bitpack import BitPack
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    for k in (256, 320):
        for name, real in matrices(k).items():
            for group in (16, 32, 64) + ((128, 256) if k == 256 else ()):
                for dtype in (torch.bfloat16, torch.float16):
                    linear = torch.nn.Linear(k, N, bias=False)
                    linear.weight.data = real.clone()
                    layer = HQQLinear(linear, BaseQuantizeConfig(nbits=4, group_size=group, axis=1), compute_dtype=dtype,
                                      device="cpu")
                    scale, zero = (layer.meta[plane].double() for plane in ("scale", "zero"))
                    codes = BitPack.unpack_4bit_u8(layer.W_q).double()
                    values = ((codes - zero) * scale).reshape(N, k).float()
                    own = layer.dequantize().float()
                    limit = ((zero.abs() + 15) * scale.abs() * 2**-7).expand(-1, group).reshape(N, k)
                    assert ((own - values).abs() <= limit).all(), f"{name}.{group}"
                    yield f"hqq.{k}.{name}.{group}.{str(dtype).split('.')[1]}", {}, layer.state_dict(), values


def compare_all(server, folder):
    import numpy
    import safetensors.torch
    import torch

    torch.manual_seed(3)
    folder = pathlib.Path(folder)
    compared = {}
    unit, out = folder / "unit.npy", folder / "d.npy"

    def compare(name, path, values):
        numpy.save(unit, numpy.eye(values.shape[1], dtype=numpy.float32))
        code, _, error = server.gemm("matmul", unit, path, "--transpose-b", "-o", out)
        assert code == 0, f"{name}: {error}"
        got, expected = numpy.load(out).T, values.detach().numpy()
        differ = numpy.argwhere((got != expected) & ~(numpy.isnan(got) & numpy.isnan(expected)))
        assert len(differ) == 0, (f"{name}: {len(differ)} differ, first at {differ[0]}: {got[tuple(differ[0])]!r}, not "
                                  f"{expected[tuple(differ[0])]!r}")
        compared[name.split(".")[0]] = compared.get(name.split(".")[0], 0) + 1

    for source in (compressed_tensors, modelopt, transformers_own, torchao_own, torchao_blocks, torchao_int4,
                   hqq):
        for name, config, tensors, *metadata, values in source():
            path = folder / name / "model.safetensors"
            path.parent.mkdir()
            (path.parent / "config.json").write_text(json.dumps({"model_type": "x", **config}))
            is_named = any("." in each for each in tensors)
            safetensors.torch.save_file({each if is_named else f"l.{each}": each_tensor.contiguous().clone()
                                         for each, each_tensor in tensors.items()}, path, *metadata)
            code, output, error = server.gemm("weights", path, "--json", "--check")
            assert code == 0, f"{name}: {error}"
            [listed] = json.loads(output)["tensors"]
            assert listed["shape"] == list(values.shape), f"{name}: {listed}"
            assert "form" in listed, f"{name}: {listed['refused']}"
            if values.dim() == 2:
                compare(name, path, values)
                continue
            for i, each in enumerate(values):
                compare(name, f"{path}:{listed['name']}[{i}]", each.contiguous())
    print(", ".join(f"{name} {count}" for name, count in compared.items()))
    print(f"{sum(compared.values())} matrices have the values that the tools read")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        against_tools.serve(compare_all, sys.argv[1])
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        interpreter = against_tools.install(temporary, PACKAGES)
        sys.exit(subprocess.run([interpreter, __file__, temporary]).returncode)
