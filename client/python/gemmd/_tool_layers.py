"""Linear layers of GPTQ, AWQ, torchao and bitsandbytes as factors of products, by their attributes alone.

No tool is imported. Layouts are as these versions make them: auto-gptq 0.7.1, gptqmodel 7.7.0, autoawq 0.2.9,
torchao 0.18.0, bitsandbytes 0.50.2; tests/python/against_torch_layers.py compares with them. A layer whose values
have no form here, or whose memory a kernel has packed for itself, is refused with what to do.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gemmd._inputs import codes_of, to_numpy
from gemmd._layout import Array
from gemmd._small_float import table
from gemmd.quantized import Quantized

_BLOCKS = (128, 64, 32, 16)  # of K, that integers have
_SCALES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
_FLOATS = {"float8_e4m3fn": "fp8-e4m3", "float8_e5m2": "fp8-e5m2"}
# The layers that keep qweight as files have it, by QUANT_TYPE, or by class where there is none.
_GPTQ = ("cuda-old", "cuda", "triton", "tritonv2", "torch")
_AWQ_GEMM = ("awq_torch", "awq_gemm", "awq_gemm_triton", "WQLinear_GEMM")
_AWQ_GEMV = ("awq_gemv", "WQLinear_GEMV")
_AWQ_COLUMNS = (0, 4, 1, 5, 2, 6, 3, 7)  # the nibble that column 0, 1, ... of eight has
_V1_ONES = {2: 0x55555555, 4: 0x11111111, 8: 0x01010101}


class Weights(NamedTuple):
    """A layer multiplies by `factor`: x[:, order] @ factor.

    factor: K x N: Quantized, or an array of float32 where no format has such values.
    order: K columns of x, or None where they are in order. rounded_to: the type to which the tool rounds the
    values of such an array before it multiplies.
    """

    factor: Quantized | Array
    order: Array | None = None
    rounded_to: str | None = None


def is_packed(module: Any) -> bool:
    """Whether it is a linear layer of GPTQ's or AWQ's kind; gptqmodel has embeddings of the same attributes."""
    has_all = all(hasattr(module, name) for name in ("qweight", "qzeros", "scales"))
    return has_all and "Embedding" not in type(module).__name__


def is_bitsandbytes(module: Any) -> bool:
    """Whether it is a Linear4bit or Linear8bitLt."""
    weight = getattr(module, "weight", None)
    return hasattr(weight, "quant_state") or (hasattr(weight, "SCB") and hasattr(weight, "has_fp16_weights"))


def read(module: Any) -> Weights:
    """The weights of a layer of GPTQ, AWQ or bitsandbytes. ValueError: they have no form here, and why."""
    if is_packed(module):
        return _packed(module)
    if hasattr(module.weight, "quant_state"):
        return _four_bits(module.weight)
    return Weights(_eight_bits(module))


def read_tensor(weight: Any) -> Quantized:
    """The K x N factor of a weight N x K that is one of torchao's tensors. ValueError: it has no form here."""
    kind = type(weight).__name__
    if getattr(weight, "act_pre_scale", None) is not None:
        raise ValueError(f"weight is a {kind} with act_pre_scale, which multiplies x first: such have no form here")
    if kind == "Int8Tensor":
        return _signed(weight, 8)
    if kind == "IntxUnpackedToInt8Tensor":
        return _signed(weight, int(str(weight.target_dtype).rpartition("int")[2]))
    if kind == "Float8Tensor":
        return _float8(weight)
    if kind in ("NVFP4Tensor", "MXTensor"):
        return _micro_scaled(weight)
    raise ValueError(
        f"weight is a {kind}, which has no form here: of torchao Int8Tensor, IntxUnpackedToInt8Tensor, "
        "Float8Tensor, NVFP4Tensor and MXTensor have; weight.dequantize() makes a plain one"
    )


def _packed(module: Any) -> Weights:
    kind = getattr(module, "QUANT_TYPE", None) or type(module).__name__
    if kind not in (*_GPTQ, *_AWQ_GEMM, *_AWQ_GEMV):
        raise ValueError(
            f"{type(module).__name__} ({kind}) may hold its weights as its kernel wants them; load the model for "
            f"one that keeps them as files have them: {', '.join((*_GPTQ, *_AWQ_GEMM, *_AWQ_GEMV))}"
        )
    for name in ("adapter", "online_full_had", "online_partial_had"):
        if getattr(module, name, None):
            raise ValueError(f"{name} of {type(module).__name__} is set, which changes its product: merge it first")
    if kind in _GPTQ:
        return _gptq(module)
    return Weights(_awq_gemm(module) if kind in _AWQ_GEMM else _awq_gemv(module))


def _gptq(module: Any) -> Weights:
    """From qweight [K bits / 32, N] and qzeros [groups, N bits / 32] of int32, lowest bits first, and scales."""
    bits = _bits_of(module, (2, 4, 8))
    k, n = sizes_of(module)
    group = _group_of(module, k)
    groups = -(-k // group)
    words = _words(module, "qweight", (k * bits // 32, n))
    zero_words = _words(module, "qzeros", (groups, n * bits // 32))
    zeros = _fields(zero_words, bits, 1)
    if _is_v1(module):
        if (zeros == 2**bits - 1).any():
            raise ValueError(
                f"qzeros has {2**bits - 1}, a zero point less 1 that readers of GPTQ's first format take for "
                f"{2**bits} or for 0; save the model in format gptq_v2"
            )
        zeros = zeros + 1
    codes = _fields(words, bits, 0)
    order = _order_of(module, k, group)
    if order is not None:
        codes = codes[order]
    return Weights(_unsigned(codes, module.scales, zeros, group, 4 if bits < 8 else 8), order)


def _is_v1(module: Any) -> bool:
    """Whether the layer takes qzeros for zero points less 1, as auto-gptq's do.

    gptqmodel's say by REQUIRES_FORMAT_V2 what their product takes; qzero_format() says it only after loading.
    """
    return not getattr(module, "REQUIRES_FORMAT_V2", False)


def _order_of(module: Any, k: int, group: int) -> Array | None:
    """Act-order: the columns of x such that groups are runs of K; None where they are already."""
    if getattr(module, "g_idx", None) is None:
        return None
    of_groups = np.arange(k) // group
    g_idx = _array(module.g_idx, "g_idx").reshape(-1)
    if g_idx.size == 0 or np.array_equal(g_idx, of_groups):
        return None
    order: Array = np.argsort(g_idx, kind="stable")
    if g_idx.size != k or not np.array_equal(g_idx[order], of_groups):
        raise ValueError(
            f"g_idx has groups of other sizes than group_size, {group}: such weights have no form here"
        )
    return order


def _awq_gemm(module: Any) -> Quantized:
    """From qweight [K, N / 8], qzeros [groups, N / 8], nibbles in AWQ's order; scales [groups, N]."""
    _bits_of(module, (4,))
    k, n = sizes_of(module)
    group = _group_of(module, k)
    codes = _in_awq_order(_fields(_words(module, "qweight", (k, n // 8)), 4, 1))
    zeros = _in_awq_order(_fields(_words(module, "qzeros", (-(-k // group), n // 8)), 4, 1))
    return _unsigned(codes, module.scales, zeros, group, 4)


def _awq_gemv(module: Any) -> Quantized:
    """From qweight [N, K / 8], qzeros [N, words], scales [N, 8 words], of which the first are in use; in order."""
    _bits_of(module, (4,))
    k, n = sizes_of(module)
    group = _group_of(module, k)
    groups = -(-k // group)
    codes = _fields(_words(module, "qweight", (n, k // 8)), 4, 1)
    zeros = _fields(_array(module.qzeros, "qzeros").view(np.uint32), 4, 1)[:, :groups]
    scales, name = _floats(module.scales, "scales")
    return _unsigned(codes.T, scales[:, :groups].T, zeros.T, group, 4, name)


def _in_awq_order(nibbles: Array) -> Array:
    rows, columns = nibbles.shape
    found: Array = nibbles.reshape(rows, columns // 8, 8)[:, :, _AWQ_COLUMNS].reshape(rows, columns)
    return found


def _unsigned(codes: Array, scales: Any, zeros: Array, group: int, bits: int, scale: str = "") -> Quantized:
    """K x N codes from 0 on, with scales and zero points of groups x N."""
    k, n = codes.shape
    factors, name = (scales, scale) if scale else _floats(scales, "scales")
    if factors.shape != zeros.shape or factors.shape != (-(-k // group), n):
        raise ValueError(
            f"scales have shape {factors.shape} and zero points {zeros.shape}; of {k} x {n} weights in groups of "
            f"{group} both have {-(-k // group)} x {n}"
        )
    if bits == 8:
        factors = _as_float32(factors, name)
        if group >= k:
            return Quantized(codes, factors, "uint8-row-zp", zero_points=zeros, axis=1)
    block = _block_of(group, k)
    form = f"int4-g{block}-{name}-zp" if bits == 4 else f"uint8-g{block}-zp"
    return Quantized(
        codes,
        _of_blocks(factors, group, block, k),
        form,
        zero_points=_of_blocks(zeros, group, block, k),
        axis=1,
    )


def _signed(weight: Any, bits: int) -> Quantized:
    """Integers of torchao: qdata [N, K] of int8, scale and zero_point [N, groups], block_size (1, group)."""
    codes = _array(weight.qdata, "weight.qdata").T
    k, n = codes.shape
    lines, group = (int(each) for each in weight.block_size)
    if lines != 1 and (lines, group) != (n, k):
        raise ValueError(f"weight.block_size is {(lines, group)}; blocks of integers are of one line")
    scales, name = _floats(weight.scale, "weight.scale")
    scales = scales.reshape(n if lines == 1 else 1, -1).T
    zeros = None if weight.zero_point is None else _array(weight.zero_point, "weight.zero_point")
    zeros = None if zeros is None or not zeros.any() else zeros.reshape(scales.T.shape).T
    suffix = "" if zeros is None else "-zp"
    if bits > 4 and group >= k:
        factors = _as_float32(scales, name)
        form = f"int8-{'row' if lines == 1 else 'tensor'}{suffix}"
        return Quantized(codes, factors, form, zero_points=zeros, axis=1 if lines == 1 else None)
    if lines != 1:
        raise ValueError(f"weight.block_size is {(lines, group)}; one scale for all is of int8 alone")
    block = _block_of(group, k)
    factors = _of_blocks(scales, group, block, k)
    points = None if zeros is None else _of_blocks(zeros, group, block, k)
    if bits > 4:
        form, factors = f"int8-g{block}{suffix}", _as_float32(factors, name)
    else:
        form = f"int4-g{block}-{name}{suffix}"
        if points is not None:  # such are of unsigned codes
            codes, points = (codes + 8).astype(np.uint8), points + 8
    return Quantized(codes, factors, form, zero_points=points, axis=1)


def _float8(weight: Any) -> Quantized:
    """Float8Tensor: qdata [N, K], and a scale for each block of block_size."""
    codes, dtype = codes_of(_on_host(weight.qdata), "weight.qdata")
    if dtype not in _FLOATS:
        raise ValueError(f"weight.qdata is {dtype}; fp8 is {' or '.join(_FLOATS)}")
    n, k = codes.shape
    block = tuple(int(each) for each in weight.block_size)
    suffixes = {(n, k): "tensor", (1, k): "row", (128, 128): "128x128", (1, 128): "1x128"}
    if block not in suffixes:
        raise ValueError(f"weight.block_size is {block}; it must be one of {', '.join(map(str, suffixes))}")
    suffix = suffixes[block]
    scales = _as_float32(*_floats(weight.scale, "weight.scale"))
    axis = None if suffix == "tensor" else 0
    return Quantized(
        codes, scales.reshape(1, 1) if axis is None else scales, f"{_FLOATS[dtype]}-{suffix}", axis=axis
    ).T


def _micro_scaled(weight: Any) -> Quantized:
    """NVFP4Tensor and MXTensor: qdata [N, K], two of 4 bits a byte; scales plain, or in tcgen05's tiles."""
    is_nvfp4 = type(weight).__name__ == "NVFP4Tensor"
    codes, _ = codes_of(_on_host(weight.qdata), "weight.qdata")
    dtype = "float4_e2m1fn_x2" if is_nvfp4 else str(weight.elem_dtype).rpartition(".")[2]
    if (is_nvfp4, int(weight.block_size)) not in ((True, 16), (False, 32)):
        raise ValueError(f"weight.block_size is {weight.block_size}; it must be 16 of NVFP4Tensor, 32 of MXTensor")
    if dtype not in (*_FLOATS, "float4_e2m1fn_x2"):
        raise ValueError(f"weight.elem_dtype is {dtype}, which has no form here")
    form = "nvfp4" if is_nvfp4 else f"mx{_FLOATS.get(dtype, 'fp4')}"
    whole = getattr(weight, "per_tensor_scale", None)
    tensor_scale = None if not is_nvfp4 else 1.0 if whole is None else _array(whole, "weight.per_tensor_scale")
    scales, _ = codes_of(_on_host(weight.scale), "weight.scale")
    return Quantized(
        codes,
        scales if weight.is_swizzled_scales else scales.reshape(codes.shape[0], -1),
        form,
        tensor_scale=tensor_scale,
        scale_layout="blocked-128x4" if weight.is_swizzled_scales else "plain",
        axis=0,
        shape=(codes.shape[0], 2 * codes.shape[1]) if form.endswith("fp4") else None,
    ).T


def _eight_bits(module: Any) -> Quantized:
    """Linear8bitLt: codes [N, K] of int8, each line's largest magnitude in SCB; a scale is SCB * f32(1 / 127)."""
    weight = module.weight
    if weight.has_fp16_weights:
        raise ValueError(
            "weight.has_fp16_weights is True: the layer quantizes anew whenever it is called; make it with "
            "has_fp16_weights=False"
        )
    largest = weight.SCB if weight.SCB is not None else getattr(getattr(module, "state", None), "SCB", None)
    codes = _array(weight, "weight")
    if codes.dtype != np.int8 or largest is None:
        raise ValueError(f"weight is {codes.dtype}, not yet int8: bitsandbytes quantizes when to() moves the layer")
    scales = _array(largest, "weight.SCB").astype(np.float32).reshape(-1, 1) * np.float32(1 / 127)
    return Quantized(codes, scales, "int8-row", axis=0).T


def _four_bits(weight: Any) -> Weights:
    """Linear4bit: codes [N K / 2], the first in the high bits, of a table, times the magnitude of their block."""
    state = weight.quant_state
    if state is None:
        raise ValueError("weight.quant_state is None: bitsandbytes quantizes when to() moves the layer")
    n, k = (int(each) for each in state.shape)
    packed = _array(weight, "weight").reshape(-1).view(np.uint8)
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: n * k]
    known = _array(state.code, "quant_state.code").astype(np.float32)
    element = next((name for name in ("nf4", "bnb_fp4") if np.array_equal(known, table(name, 4))), None)
    magnitudes, run = _magnitudes(state), int(state.blocksize)
    # A run goes on from a line into the next where lines are no multiple of it: blocks are of both.
    length = run if n == 1 or k % run == 0 else math.gcd(k, run)
    block = next((each for each in _BLOCKS if length % each == 0), None)
    if element is None or block is None:
        values: Array = (known[codes] * np.repeat(magnitudes, run)[: n * k]).reshape(n, k).T
        return Weights(values, rounded_to=str(state.dtype).rpartition(".")[2])
    first = np.arange(n)[:, None] * k + np.arange(0, k, block)
    form = f"{element.replace('_', '-')}-g{block}-f32"
    return Weights(Quantized(codes.reshape(n, k), magnitudes[first // run], form, axis=0).T)


def _magnitudes(state: Any) -> Array:
    """Each block's, which may be quantized in turn: a table's entries, scaled in blocks, and an offset."""
    stored = _array(state.absmax, "quant_state.absmax").reshape(-1)
    if not state.nested:
        return stored.astype(np.float32)
    inner = state.state2
    table = _array(inner.code, "quant_state.state2.code").astype(np.float32)
    scales = _array(inner.absmax, "quant_state.state2.absmax").astype(np.float32).reshape(-1)
    spread = np.repeat(scales, int(inner.blocksize))[: stored.size]
    found: Array = table[stored] * spread + np.float32(_array(state.offset, "quant_state.offset"))
    return found


def _bits_of(module: Any, known: tuple[int, ...]) -> int:
    bits = int(getattr(module, "bits", None) or module.w_bit)
    if bits not in known:
        raise ValueError(f"bits is {bits}; it must be {' or '.join(map(str, known))}")
    return bits


def sizes_of(module: Any) -> tuple[int, int]:
    """K and N; auto-gptq calls them otherwise."""
    names = ("in_features", "out_features") if hasattr(module, "in_features") else ("infeatures", "outfeatures")
    k, n = (int(getattr(module, name)) for name in names)
    return k, n


def _group_of(module: Any, k: int) -> int:
    group = int(module.group_size)
    return k if group == -1 else group


def _words(module: Any, name: str, shape: tuple[int, int]) -> Array:
    words = _array(getattr(module, name), name)
    if words.shape != shape or words.dtype != np.int32:
        raise ValueError(
            f"{name} is {words.dtype} of shape {words.shape}; it must be int32 of {shape[0]} x {shape[1]}; a "
            "kernel may have packed it for itself"
        )
    return words.view(np.uint32)


def _fields(words: Array, bits: int, axis: int) -> Array:
    """Codes of so many bits, the lowest first, along rows (0) or columns (1) of a matrix of 32-bit words."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    rows, columns = words.shape
    mask = np.uint32(2**bits - 1)
    spread = words[:, :, None] >> shifts if axis == 1 else words[:, None, :] >> shifts[:, None]
    fields: Array = (spread & mask).astype(np.uint8)
    return fields.reshape((rows, -1) if axis == 1 else (-1, columns))


def _block_of(group: int, k: int) -> int:
    """The largest block of a format of which groups are made: their scales are repeated where it is smaller."""
    for block in _BLOCKS:
        if group % block == 0 or group >= k:
            return block
    raise ValueError(f"group_size is {group}; it must be a multiple of {_BLOCKS[-1]}, or all of K, {k}")


def _of_blocks(plane: Array, group: int, block: int, k: int) -> Array:
    """A plane of groups x N with a row for each block."""
    found: Array = np.repeat(plane, -(-min(group, k) // block), axis=0)[: -(-k // block)]
    return found


def _floats(x: Any, name: str) -> tuple[Array, str]:
    """Scales, of bf16 as codes, which need no NumPy type; and the name of their type."""
    codes, dtype = codes_of(_on_host(x), name)
    if dtype not in _SCALES:
        raise ValueError(f"{name} is {dtype}; it must be {' or '.join(_SCALES)}")
    return (codes if dtype == "bfloat16" else codes.view(dtype)), _SCALES[dtype]


def _as_float32(scales: Array, name: str) -> Array:
    if name != "bf16":
        return scales.astype(np.float32)
    found: Array = (scales.astype(np.uint32) << 16).view(np.float32)
    return found


def _array(x: Any, name: str) -> Array:
    return to_numpy(_on_host(x), name)


def _on_host(x: Any) -> Any:
    """Tensors of torch on a CPU, without their history."""
    return x.detach().cpu() if hasattr(x, "detach") else x
