"""Layers of GPTQ, AWQ, torchao and bitsandbytes, read without torch or the tools: their layouts, written out here.

against_torch_layers.py compares with the tools themselves.
"""

import types

import numpy as np
import pytest

from gemmd import _tool_layers
from gemmd._small_float import table

ml_dtypes = pytest.importorskip("ml_dtypes")

K, N = 256, 48


def words(codes, bits, axis, order=None):
    """int32 words of codes along rows (0) or columns (1), the first in the lowest bits, or in the order of AWQ."""
    lines = codes if axis == 1 else codes.T
    per = 32 // bits
    packed = np.zeros((lines.shape[0], lines.shape[1] // per), np.uint64)
    for at in range(per):
        packed |= lines[:, (order[at] if order else at) :: per].astype(np.uint64) << np.uint64(bits * at)
    packed = packed.astype(np.uint32).view(np.int32)
    return np.ascontiguousarray(packed if axis == 1 else packed.T)


def drawn(random, bits, group, dtype="f2"):
    """Codes K x N, zero points and scales of groups x N, and the values."""
    groups = -(-K // group)
    codes = random.integers(0, 2**bits, (K, N))
    zeros = random.integers(1, 2**bits, (groups, N))
    scales = (random.standard_normal((groups, N)) * 0.1).astype(dtype)
    of = np.arange(K) // group
    return codes, zeros, scales, (codes - zeros[of]) * scales.astype("f8")[of]


def gptq(codes, zeros, scales, bits, group, **more):
    """As auto-gptq's QuantLinear has them: zero points less 1."""
    named = {"infeatures": K, "outfeatures": N, "QUANT_TYPE": "cuda-old", "g_idx": None, **more}
    less = 0 if named.get("REQUIRES_FORMAT_V2") else 1
    return types.SimpleNamespace(
        bits=bits,
        group_size=group,
        qweight=words(codes, bits, 0),
        qzeros=words(zeros - less, bits, 1),
        scales=scales,
        **named,
    )


def values_of(weights):
    """K x N in float64, in the order of x's columns."""
    values = weights.factor.dequantize()
    if weights.order is not None:
        values = values[np.argsort(weights.order)]
    return values


class TestGptq:
    @pytest.mark.parametrize("bits", [2, 4, 8])
    @pytest.mark.parametrize("group", [16, 32, 48, 64, 128, 256, -1])
    def test_values_are_exact(self, random, bits, group):
        for dtype in ("f2", "f4", ml_dtypes.bfloat16):
            codes, zeros, scales, values = drawn(random, bits, K if group == -1 else group, dtype)
            module = gptq(codes, zeros, scales, bits, group)
            assert _tool_layers.is_packed(module)
            found = _tool_layers.read(module)
            assert found.order is None
            assert np.array_equal(values_of(found), values)
            v2 = gptq(codes, zeros, scales, bits, group, REQUIRES_FORMAT_V2=True, QUANT_TYPE="torch")
            assert np.array_equal(values_of(_tool_layers.read(v2)), values)

    def test_forms(self, random):
        for bits, group, form in (
            (4, 128, "int4-g128-f16-zp"),
            (2, 32, "int4-g32-f16-zp"),
            (4, 48, "int4-g16-f16-zp"),
            (4, -1, "int4-g128-f16-zp"),
            (8, 64, "uint8-g64-zp"),
            (8, -1, "uint8-row-zp"),
        ):
            codes, zeros, scales, _ = drawn(random, bits, K if group == -1 else group)
            assert _tool_layers.read(gptq(codes, zeros, scales, bits, group)).factor.type == form

    def test_act_order(self, random):
        codes, zeros, scales, _ = drawn(random, 4, 32)
        g_idx = random.permutation(np.arange(K) // 32)
        values = (codes - zeros[g_idx]) * scales.astype("f8")[g_idx]
        found = _tool_layers.read(gptq(codes, zeros, scales, 4, 32, g_idx=g_idx.astype("i4")))
        assert np.array_equal(values_of(found), values)
        assert np.array_equal(g_idx[found.order], np.arange(K) // 32)
        sorted_one = _tool_layers.read(gptq(codes, zeros, scales, 4, 32, g_idx=np.arange(K, dtype="i4") // 32))
        assert sorted_one.order is None

    def test_what_is_refused(self, random):
        codes, zeros, scales, _ = drawn(random, 4, 32)
        uneven = np.arange(K) // 32
        uneven[0] = 1
        for change, why in (
            ({"bits": 3}, "bits is 3; it must be 2 or 4 or 8"),
            ({"group_size": 24}, "qzeros is int32 of shape"),
            ({"QUANT_TYPE": "marlin"}, r"SimpleNamespace \(marlin\) may hold its weights as its kernel wants them"),
            ({"adapter": object()}, "adapter of SimpleNamespace is set"),
            (
                {"qweight": np.zeros((16, 48), "i4")},
                r"qweight is int32 of shape \(16, 48\); it must be int32 of 32 x",
            ),
            ({"g_idx": uneven}, "g_idx has groups of other sizes than group_size, 32"),
            ({"qzeros": words(np.full_like(zeros, 15), 4, 1)}, "qzeros has 15, a zero point less 1 that readers"),
            ({"scales": scales[1:]}, r"scales have shape \(7, 48\) and zero points \(8, 48\)"),
            ({"scales": scales.astype("f8")}, "scales is float64; it must be float16 or bfloat16 or float32"),
        ):
            module = gptq(codes, zeros, scales, 4, 32)
            vars(module).update(change)
            with pytest.raises(ValueError, match=why):
                _tool_layers.read(module)
        codes, zeros, scales, _ = drawn(random, 4, 24)
        with pytest.raises(ValueError, match="group_size is 24; it must be a multiple of 16, or all of K, 256"):
            _tool_layers.read(gptq(codes, zeros, scales, 4, 24))

    def test_embeddings_are_no_linear_layers(self, random):
        class TorchQuantEmbeddings(types.SimpleNamespace):
            pass

        codes, zeros, scales, _ = drawn(random, 4, 32)
        assert not _tool_layers.is_packed(TorchQuantEmbeddings(**vars(gptq(codes, zeros, scales, 4, 32))))


class TestAwq:
    ORDER = (0, 2, 4, 6, 1, 3, 5, 7)

    @pytest.mark.parametrize("group", [32, 64, 128, -1])
    def test_values_are_exact(self, random, group):
        size = K if group == -1 else group
        codes, zeros, scales, values = drawn(random, 4, size)

        class WQLinear_GEMM(types.SimpleNamespace):  # noqa: N801
            pass

        class WQLinear_GEMV(types.SimpleNamespace):  # noqa: N801
            pass

        sizes = {"w_bit": 4, "group_size": group, "in_features": K, "out_features": N}
        gemm = WQLinear_GEMM(
            qweight=words(codes, 4, 1, self.ORDER), qzeros=words(zeros, 4, 1, self.ORDER), scales=scales, **sizes
        )
        padded = -(-len(zeros) // 8) * 8
        of_lines = [np.zeros((N, padded), each.dtype) for each in (zeros, scales)]
        of_lines[0][:, : len(zeros)], of_lines[1][:, : len(zeros)] = zeros.T, scales.T
        gemv = WQLinear_GEMV(
            qweight=words(codes.T, 4, 1), qzeros=words(of_lines[0], 4, 1), scales=of_lines[1], **sizes
        )
        for module in (gemm, gemv):
            assert np.array_equal(values_of(_tool_layers.read(module)), values)


def tensor(kind, **attributes):
    """An object of a class of that name, by which torchao's tensors are told apart."""
    return type(kind, (types.SimpleNamespace,), {})(**attributes)


class TestTorchao:
    @pytest.mark.parametrize("dtype", ["f4", ml_dtypes.bfloat16])
    @pytest.mark.parametrize("with_zeros", [False, True])
    def test_integers(self, random, dtype, with_zeros):
        for bits, group, form in (
            (8, K, "int8-row"),
            (8, 32, "int8-g32"),
            (5, 64, "int8-g64"),
            (4, 32, "int4-g32-{}"),
            (3, K, "int4-g128-{}"),
        ):
            low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
            codes = random.integers(low, high, (N, K), dtype="i1")
            scales = random.standard_normal((N, K // group)).astype(dtype)
            zeros = random.integers(low, high, (N, K // group), dtype="i1") * with_zeros
            of = np.arange(K) // group
            values = (codes.astype("f8") - zeros[:, of]) * scales.astype("f8")[:, of]
            weight = tensor("IntxUnpackedToInt8Tensor", qdata=codes, scale=scales, zero_point=zeros,
                            block_size=(1, group), target_dtype=f"torch.int{bits}")  # fmt: skip
            found = _tool_layers.read_tensor(weight)
            assert np.array_equal(found.dequantize(), values.T)
            assert found.type == form.format("f32" if dtype == "f4" else "bf16") + ("-zp" if with_zeros else "")
            if bits == 8:
                weight = tensor("Int8Tensor", **vars(weight))
                assert np.array_equal(_tool_layers.read_tensor(weight).dequantize(), values.T)

    def test_one_scale(self, random):
        codes = random.integers(-128, 128, (N, K), dtype="i1")
        weight = tensor("Int8Tensor", qdata=codes, scale=np.float32([[0.5]]), zero_point=None, block_size=[N, K])
        found = _tool_layers.read_tensor(weight)
        assert found.type == "int8-tensor"
        assert np.array_equal(found.dequantize(), codes.T * 0.5)

    @pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
    def test_float8(self, random, dtype):
        codes = random.standard_normal((N, K)).astype(dtype)
        for block, shape in (((N, K), (1, 1)), ((1, K), (N, 1)), ((1, 128), (N, 2)), ((128, 128), (1, 2))):
            scales = random.random(shape, dtype="f4")
            weight = tensor("Float8Tensor", qdata=codes, scale=scales, block_size=block)
            spread = np.repeat(np.repeat(scales, -(-N // shape[0]), 0)[:N], K // shape[1], 1).astype("f8")
            assert np.array_equal(_tool_layers.read_tensor(weight).dequantize(), (codes.astype("f8") * spread).T)

    @pytest.mark.parametrize("is_tiled", [False, True])
    def test_micro_scaled(self, random, is_tiled):
        """Tiles: scale (line, block) is byte 16 (line % 32) + 4 (line // 32 % 4) + block % 4 of tile (line // 128,
        block // 4)."""
        for kind, elements, scale, block in (
            ("NVFP4Tensor", ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, 16),
            ("MXTensor", ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, 32),
            ("MXTensor", ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, 32),
        ):
            codes = random.standard_normal((N, K)).astype(elements)
            scales = (2.0 ** random.integers(-6, 6, (N, K // block))).astype(scale)
            values = codes.astype("f8") * scales.astype("f8").repeat(block, 1)
            name = "float4_e2m1fn_x2" if elements is ml_dtypes.float4_e2m1fn else np.dtype(elements).name
            stored = codes.view("u1")
            weight = tensor(
                kind,
                qdata=stored[:, ::2] | stored[:, 1::2] << 4 if name.endswith("x2") else codes,
                scale=tiles(scales) if is_tiled else scales,
                block_size=block,
                elem_dtype=f"torch.{name}",
                is_swizzled_scales=is_tiled,
            )
            if kind == "NVFP4Tensor":
                weight.per_tensor_scale, values = np.float32(0.25), values * 0.25
            assert np.array_equal(_tool_layers.read_tensor(weight).dequantize(), values.T)

    def test_what_is_refused(self):
        plain = {"qdata": np.zeros((N, K), "i1"), "scale": np.ones((N, 1), "f4"), "zero_point": None}
        for weight, why in (
            (tensor("Int4Tensor", **plain), "weight is a Int4Tensor, which has no form here"),
            (
                tensor("Int8Tensor", **plain, block_size=[1, K], act_pre_scale=1),
                "act_pre_scale, which multiplies x",
            ),
            (
                tensor("Int8Tensor", **plain, block_size=[2, K]),
                r"block_size is \(2, 256\); blocks of integers are of",
            ),
            (tensor("Float8Tensor", **plain, block_size=[1, K]), "weight.qdata is int8; fp8 is float8_e4m3fn or"),
            (
                tensor("MXTensor", **plain, block_size=32, elem_dtype="fp6_e2m3"),
                "elem_dtype is fp6_e2m3, which has no",
            ),
            (
                tensor("MXTensor", **plain, block_size=16, elem_dtype="torch.float8_e5m2"),
                "block_size is 16; it must",
            ),
        ):
            with pytest.raises(ValueError, match=why):
                _tool_layers.read_tensor(weight)


def tiles(scales):
    """Scales in tiles of 128 lines x 4 blocks, by the formula, one at a time."""
    lines, blocks = scales.shape
    across = -(-blocks // 4)
    found = np.zeros(-(-lines // 128) * across * 512, scales.dtype)
    for line in range(lines):
        for block in range(blocks):
            tile = line // 128 * across + block // 4
            found[tile * 512 + line % 32 * 16 + line // 32 % 4 * 4 + block % 4] = scales[line, block]
    return found.reshape(-1, 4 * across)


class Weight(np.ndarray):
    """An array with attributes, as bitsandbytes' parameters are tensors with such."""


def weight_of(array, **attributes):
    made = array.view(Weight)
    for name, value in attributes.items():
        setattr(made, name, value)
    return types.SimpleNamespace(weight=made)


class TestBitsandbytes:
    @pytest.mark.parametrize("nested", [False, True])
    def test_four_bits(self, random, nested):
        """Flat blocks of 64, the first element in the high half of a byte; a line may end within a block."""
        n, k = 6, 40
        table = random.standard_normal(16).astype("f4")
        codes = random.integers(0, 16, n * k)
        magnitudes = random.random(4, dtype="f4")
        state = types.SimpleNamespace(shape=(n, k), code=table, blocksize=64, absmax=magnitudes, nested=nested,
                                      dtype="torch.bfloat16")  # fmt: skip
        if nested:
            inner, scales = random.standard_normal(256).astype("f4"), random.random(2, dtype="f4")
            state.absmax = random.integers(0, 256, 4, dtype="u1")
            state.offset = np.float32(0.5)
            state.state2 = types.SimpleNamespace(code=inner, absmax=scales, blocksize=2)
            magnitudes = inner[state.absmax] * scales.repeat(2) + np.float32(0.5)
        packed = (codes[::2] << 4 | codes[1::2]).astype("u1").reshape(-1, 1)
        module = weight_of(packed, quant_state=state)
        assert _tool_layers.is_bitsandbytes(module)
        found = _tool_layers.read(module)
        values = table[codes] * magnitudes.repeat(64)[: n * k]
        assert np.array_equal(found.factor, values.reshape(n, k).T)
        assert found.rounded_to == "bfloat16"

    @pytest.mark.parametrize("kind", ["nf4", "bnb_fp4"])
    @pytest.mark.parametrize(("n", "k", "run", "block"), [
        (6, 128, 64, 64), (4, 96, 64, 32), (3, 80, 64, 16), (2, 512, 4096, 128), (1, 77, 64, 64),
    ])  # fmt: skip
    def test_four_bits_of_a_known_table(self, random, kind, n, k, run, block):
        """They stay as they are, in blocks that are parts of runs and of lines."""
        known = table(kind, 4).astype("f4")
        codes = random.integers(0, 16, n * k + n * k % 2)
        magnitudes = random.random(-(-n * k // run), dtype="f4")
        state = types.SimpleNamespace(shape=(n, k), code=known, blocksize=run, absmax=magnitudes, nested=False,
                                      dtype="torch.bfloat16")  # fmt: skip
        packed = (codes[::2] << 4 | codes[1::2]).astype("u1").reshape(-1, 1)
        found = _tool_layers.read(weight_of(packed, quant_state=state))
        assert found.rounded_to is None
        assert found.factor.type == f"{kind.replace('_', '-')}-g{block}-f32"
        values = known[codes].astype("f8") * magnitudes.repeat(run)[: codes.size]
        assert np.array_equal(found.factor.dequantize("float64"), values[: n * k].reshape(n, k).T)

    def test_eight_bits(self, random):
        codes = random.integers(-127, 128, (N, K), dtype="i1")
        largest = random.random(N, dtype="f4")
        wanted = (codes * (largest * np.float32(1 / 127)).astype("f8")[:, None]).T
        for scb, state in ((largest, None), (None, types.SimpleNamespace(SCB=largest))):  # before, after a product
            module = weight_of(codes, SCB=scb, has_fp16_weights=False)
            module.state = state
            assert _tool_layers.is_bitsandbytes(module)
            found = _tool_layers.read(module).factor
            assert found.type == "int8-row"
            assert np.array_equal(found.dequantize(), wanted)

    def test_what_is_refused(self, random):
        real = np.zeros((N, K), "f4")
        for module, why in (
            (weight_of(real, quant_state=None), "weight.quant_state is None: bitsandbytes quantizes when to"),
            (
                weight_of(real, SCB=None, has_fp16_weights=True),
                "has_fp16_weights is True: the layer quantizes anew",
            ),
            (weight_of(real, SCB=None, has_fp16_weights=False), "weight is float32, not yet int8"),
        ):
            with pytest.raises(ValueError, match=why):
                _tool_layers.read(module)
