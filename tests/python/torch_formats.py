#!/usr/bin/env python3
"""Compares the formats of base/numbers/quant with torch's float8 and torchao's MX and NVFP4, once by hand.

    GEMMD_CODEC=bazel-bin/tests/base/numbers/quant/codec tests/python/torch_formats.py [BLOCKS]

It needs torch and torchao, and prints a line a format: how many codes and scales differ of how many.
Exit code 1: more than one in a million differs of another format than NVFP4. A few differ where torchao
rounds amax / Q to binary32 before it rounds it up. Many of NVFP4 do on these data, whose blocks are
far apart: torchao keeps a block's scale at 2^-6 or more, and multiplies by rounded reciprocals where
the specification here divides (base/numbers/quant/README.md).
"""

import os
import subprocess
import sys

import numpy as np
import torch
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.mx_tensor import to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

LINE = 4096


def codec(*words, data):
    return subprocess.run([os.environ["GEMMD_CODEC"], *words], input=data, capture_output=True, check=True).stdout


def unpack(packed, bits, count):
    if bits == 8:
        return np.frombuffer(packed, np.uint8, count)
    stream = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: count * bits]
    return (stream.reshape(count, bits) << np.arange(bits, dtype=np.uint8)).sum(axis=1).astype(np.uint8)


def report(name, codes, scales, of_codes, of_scales):
    print(f"{name:34} {codes} of {of_codes} codes differ, {scales} of {of_scales} scales")


def elements(name, dtype, blocks):
    """Every code's value, and random floats rounded; torch's casts to float8 do not saturate everywhere."""
    codes = np.arange(256, dtype=np.uint8)
    theirs = torch.from_numpy(codes.copy()).view(dtype).float().numpy()
    ours = np.frombuffer(codec("decode", name, data=codes.tobytes()), np.float32)
    wrong = int((~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))).sum())
    largest = torch.finfo(dtype).max
    generator = np.random.default_rng(1)
    count = 32 * blocks
    x = generator.standard_normal(count) * 2.0 ** generator.integers(-24, 16, count)
    x = np.clip(x, -largest, largest).astype(np.float32)
    rounded = torch.from_numpy(x).to(dtype).view(torch.uint8).numpy()
    ours = np.frombuffer(codec("encode", name, data=x.tobytes()), np.uint8)
    differ = int((ours != rounded).sum())
    report(name, wrong + differ, 0, 256 + count, 0)
    return wrong + differ == 0


def values(blocks, block, seed):
    generator = np.random.default_rng(seed)
    lines = blocks * block // LINE
    x = generator.standard_t(3, (lines, LINE)) * 2.0 ** generator.integers(-20, 20, (lines, 1))
    return x.astype(np.float32)


def mx(name, dtype, bits, rule, mode, blocks):
    x = values(blocks, 32, 2)
    scales, codes = to_mx(torch.from_numpy(x), dtype, 32, mode)
    codes = codes.contiguous().view(torch.uint8).numpy().reshape(-1)
    if bits == 4:  # two in a byte, the first one low
        codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)
    ours = codec("quantize", name, str(x.shape[0]), str(LINE), rule, data=x.tobytes())
    size = x.size * bits // 8
    mine = unpack(ours[:size], bits, x.size)
    my_scales = np.frombuffer(ours[size : size + x.size // 32], np.uint8)
    scales = scales.view(torch.uint8).numpy().reshape(-1)
    differ = int((mine != codes).sum()), int((my_scales != scales).sum())
    report(f"{name}, {rule} rule", *differ, x.size, scales.size)
    return differ[0] <= x.size // 1_000_000 and differ[1] <= max(1, scales.size // 1_000_000)


def nvfp4(blocks):
    x = values(blocks, 16, 3)
    x = np.clip(x, -1e4, 1e4)
    tensor_scale = torch.tensor(np.float32(np.abs(x).max().astype(np.float64) / (448 * 6)))
    scales, codes = nvfp4_quantize(torch.from_numpy(x), 16, tensor_scale)[-2:]
    if codes.dtype != torch.uint8 or codes.numel() != x.size // 2:
        scales, codes = codes, scales
    codes = codes.contiguous().view(torch.uint8).numpy().reshape(-1)
    codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)
    ours = codec("quantize", "nvfp4", str(x.shape[0]), str(LINE), "floor", data=x.tobytes())
    mine = unpack(ours[: x.size // 2], 4, x.size)
    my_scales = np.frombuffer(ours[x.size // 2 : x.size // 2 + x.size // 16], np.uint8)
    scales = scales.view(torch.uint8).numpy().reshape(-1)
    report("nvfp4", int((mine != codes).sum()), int((my_scales != scales).sum()), x.size, scales.size)


def main():
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 20
    good = [
        elements("fp8_e4m3", torch.float8_e4m3fn, blocks),
        elements("fp8_e5m2", torch.float8_e5m2, blocks),
    ]
    for name, dtype, bits in (
        ("mxfp8-e4m3", torch.float8_e4m3fn, 8),
        ("mxfp8-e5m2", torch.float8_e5m2, 8),
        ("mxfp6-e3m2", "fp6_e3m2", 6),
        ("mxfp6-e2m3", "fp6_e2m3", 6),
        ("mxfp4", torch.float4_e2m1fn_x2, 4),
    ):
        for rule, mode in (("floor", ScaleCalculationMode.FLOOR), ("up", ScaleCalculationMode.RCEIL)):
            try:
                good.append(mx(name, dtype, bits, rule, mode, blocks))
            except (AssertionError, RuntimeError, NotImplementedError) as why:
                print(f"{name}, {rule} rule: torchao does not: {str(why).splitlines()[0]}")
    nvfp4(blocks)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
