"""Containers: Quantized.save() and load() against the files of the real `gemm`, and files that are not sound."""

import contextlib
import json
import mmap
import os
import re
import stat
import tracemalloc

import exact_quantization as exact
import numpy as np
import pytest
from testing.processes import gemm
from weight_files import act_order, gguf

import gemmd
from gemmd import _formats

LINES, K = 40, 133  # K ends within a block and within a byte; LINES end within a tile
LAYOUTS = ("plain", "blocked-128x4")


def of_lines(random, name, k_axis):
    """Held values, of lines x K where k_axis is 1, else of K x lines."""
    x = np.float32(exact.held(name, random.standard_normal((LINES, K))))
    return np.ascontiguousarray(x if k_axis == 1 else x.T)


def has_tiles(name):
    return _formats.FORMATS[name].scale.bits == 8


def quantized_by_gemm(tmp_path, x, name, k_axis, *options):
    """The path of what `gemm quantize` makes of x."""
    np.save(tmp_path / "x.npy", x)
    path = tmp_path / "gemm.gq"
    made = gemm("quantize", tmp_path / "x.npy", "--as", name, "--k-axis", k_axis, *options, "-o", path)
    assert made.returncode == 0, made.stderr
    return path


def same(x, y):
    """Whether two matrices have the same planes, those of y being x's bytes."""
    pairs = ((x.scales, y.scales), (x.zero_points, y.zero_points), (x.offsets, y.offsets))
    return (
        (x.type, x.shape, x.axis, x.scale_layout) == (y.type, y.shape, y.axis, y.scale_layout)
        and np.array_equal(x.codes(), y.codes())
        and all((a is None) == (b is None) for a, b in pairs)
        and all(a is None or a.tobytes() == b.tobytes() for a, b in pairs)
        and (x.tensor_scale is None) == (y.tensor_scale is None)
        and np.array_equal(x.dequantize(), y.dequantize())
    )


@pytest.mark.parametrize("name", exact.NAMES)
def test_it_writes_the_bytes_of_gemm_quantize_and_reads_them(random, tmp_path, name):
    fits_both = _formats.FORMATS[name].block_lines == _formats.FORMATS[name].block_k
    for k_axis in (0, 1):
        x = of_lines(random, name, k_axis)
        for layout in LAYOUTS if has_tiles(name) else LAYOUTS[:1]:
            path = quantized_by_gemm(tmp_path, x, name, k_axis, "--scale-layout", layout)
            along_k = "C" if k_axis == 1 else "F"
            # The other order is written transposed; where blocks fit both axes nothing says that it should be.
            for order in along_k if fits_both else "CF":
                q = gemmd.Quantized.of(np.asarray(x, order=order), name, 1 - k_axis, scale_layout=layout)
                q.save(tmp_path / "python.gq")
                assert (tmp_path / "python.gq").read_bytes() == path.read_bytes()
            loaded = gemmd.Quantized.load(path)
            assert same(q, loaded)
            assert loaded.order == along_k
            loaded.save(tmp_path / "again.gq")
            assert (tmp_path / "again.gq").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", exact.NAMES)
def test_gemm_puts_the_file_as_the_matrix_that_was_saved(client, server, random, tmp_path, name):
    path = tmp_path / "w.gq"
    for k_axis in (0, 1):
        x = of_lines(random, name, k_axis)
        q = gemmd.Quantized.of(x if k_axis == 1 else np.asfortranarray(x), name, 1 - k_axis)
        q.save(path)
        put = gemm("--json", "--server", server.address, "put", path)
        assert put.returncode == 0, put.stderr
        with client.put(gemmd.Quantized.load(str(path))) as loaded:
            assert json.loads(put.stdout)["residents"][0]["digest"] == loaded.digest.hex()
            assert same(loaded.quantized(), gemmd.Quantized.load(path))
        if k_axis == 1 or not _formats.FORMATS[name].has_blocks:  # else scales that were made here lie by rows
            with client.put(q) as here:
                assert here.digest == loaded.digest


def of_halves(random, count, words):
    """Blocks of f16s and 32 nibbles, the first 16 low: their bytes, the f16s and the nibbles as float64."""
    halves = random.standard_normal((count, words)).astype(np.float16)
    bytes_ = random.integers(0, 256, (count, 16), np.uint8)
    content = np.concatenate([halves.view(np.uint8), bytes_], axis=1).tobytes()
    return content, halves.astype(np.float64), np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1)


def test_a_tensor_that_is_quantized_already_comes_in_its_own_form(client, server, random, tmp_path):
    """As ggml decodes Q8_0 (8), Q4_1 (3) and IQ4_NL (20), in blocks of 32 along K."""
    rows, k = 5, 96
    count = rows * k // 32
    scales, codes = random.standard_normal((count, 1)).astype(np.float16), random.integers(-128, 128, (count, 32))
    q8 = np.concatenate([scales.view(np.uint8), codes.astype(np.int8).view(np.uint8)], axis=1).tobytes()
    q4, halves, nibbles = of_halves(random, count, 2)
    iq4, unit, places = of_halves(random, count, 1)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf({"q8": (8, rows, k, q8), "q4": (3, rows, k, q4), "iq4": (20, rows, k, iq4)}))
    for name, form, values in (
        ("q8", "int8-g32", scales.astype(np.float64) * codes),
        ("q4", "int4-g32-f16-offset", halves[:, :1] * nibbles + halves[:, 1:]),
        ("iq4", "iq4-nl-g32-f16", unit * np.array(exact.TABLES["iq4-nl"], np.float64)[places]),
    ):
        out = tmp_path / f"{name}.gq"
        made = gemm("quantize", f"{path}:{name}", "-o", out)
        assert (made.returncode, made.stderr) == (0, "")
        assert made.stdout.endswith(", its own form: nothing is rounded\n")
        q = gemmd.Quantized.load(out)
        assert (q.type, q.shape, q.axis) == (form, (rows, k), 0)
        assert np.array_equal(q.dequantize(), values.reshape(rows, k))
        put = json.loads(gemm("--json", "--server", server.address, "put", f"{path}:{name}").stdout)
        with client.put(q) as here:
            assert here.digest.hex() == put["residents"][0]["digest"]


def test_an_order_of_k_goes_through_containers_and_the_server(client, server, random, tmp_path):
    tensor, values, order = act_order(random, tmp_path)
    path = tmp_path / "w.gq"
    assert gemm("quantize", tensor, "-o", path).returncode == 0
    q = gemmd.Quantized.load(path)
    assert (q.type, q.shape, q.axis) == ("int4-g32-f16-zp", values.shape, 0)
    assert np.array_equal(q.k_order, order)
    assert np.array_equal(q.dequantize(), values)
    assert np.array_equal(q.T.dequantize(), values.T)
    q.save(tmp_path / "python.gq")
    assert (tmp_path / "python.gq").read_bytes() == path.read_bytes()

    put = json.loads(gemm("--json", "--server", server.address, "put", tensor).stdout)["residents"][0]
    with client.put(q) as here:
        assert here.digest.hex() == put["digest"]
        back = here.quantized()
        assert same(back, q)
        assert np.array_equal(back.k_order, order)
        got = gemm("--server", server.address, "get", here.handle, "-o", tmp_path / "got.gq")
        assert (got.returncode, got.stderr) == (0, "")
        assert (tmp_path / "got.gq").read_bytes() == path.read_bytes()
        got = gemm("--server", server.address, "get", here.handle, "-o", tmp_path / "got.npy")
        assert got.returncode == 2
        assert "an order of K (act-order), which" in got.stderr


def test_the_other_factor_is_put_in_the_order_of_k(client, random, tmp_path):
    tensor, values, _ = act_order(random, tmp_path)
    gemm("quantize", tensor, "-o", tmp_path / "w.gq")
    q = gemmd.Quantized.load(tmp_path / "w.gq")
    x = random.standard_normal((5, values.shape[1])).astype(np.float32)
    turned = np.asfortranarray(x.T)
    with client.put(q.T) as right, client.put(q) as left:
        for ours, other in ((lambda w: client.matmul(x, w), right), (lambda w: client.matmul(w, turned), left)):
            wanted = values @ x.T
            bits = ours(other)
            inline = ours(q.T if other is right else q)
            assert inline.tobytes() == bits.tobytes()
            shared = (q.T if other is right else q).placed_in(client.shared(q.nbytes, "u1"))
            assert ours(shared).tobytes() == bits.tobytes()
            np.testing.assert_allclose(bits.T if other is right else bits, wanted, rtol=1e-4, atol=1e-4)
        assert client.matmul(x[0], q.T).tobytes() == client.matmul(x[:1], q.T).tobytes()
        batch = np.stack([x, 2 * x])
        assert client.matmul(batch, q.T)[1].tobytes() == client.matmul(2 * x, q.T).tobytes()
        rounded = gemmd.Quantized.of(x, "int8-row", 0)
        np.testing.assert_allclose(
            client.matmul(rounded, q.T, dtype="f32"), rounded.dequantize() @ values.T, rtol=1e-4, atol=1e-4
        )
        blocks, plain = gemmd.Quantized.of(x, "int8-g32", 0), random.standard_normal((4, 96)).astype(np.float32)
        with client.put(plain) as there:
            for a, why in (
                (blocks, "b has a k_order, which would part the blocks of a, int8-g32"),
                (there, "b has a k_order, and a is on the server, where it is not put in that order"),
                (
                    gemmd.Quantized.load(tmp_path / "w.gq"),
                    "a and b have a k_order each; one factor of a product may",
                ),
            ):
                with pytest.raises(ValueError, match=re.escape(why)):
                    client.matmul(a, q.T)


@pytest.mark.parametrize("name", ["int4-g32-f16-zp", "nvfp4", "fp8-e4m3-128x128", "int8-g64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_order_of_k_has_its_values(client, server, random, tmp_path, name, axis):
    """Blocks are as the tools make them: columns in an order of their own, of which each run shares a scale."""
    k_axis = 1 - axis
    order = random.permutation(K)
    x = of_lines(random, name, k_axis)
    q = gemmd.Quantized.of(np.asarray(np.take(x, order, axis=k_axis), order="F" if axis else "C"), name, axis)
    planes = {"zero_points": q.zero_points, "tensor_scale": q.tensor_scale, "offsets": q.offsets}
    packed = {"shape": q.shape, "order": q.order} if q.data.ndim == 1 else {}
    w = gemmd.Quantized(q.data, q.scales, name, **planes, **packed, axis=axis, k_order=order)
    assert np.array_equal(np.take(w.dequantize(), order, axis=k_axis), q.dequantize())
    w.save(tmp_path / "w.gq")
    loaded = gemmd.Quantized.load(tmp_path / "w.gq")
    assert np.array_equal(loaded.dequantize(), w.dequantize())
    assert np.array_equal(loaded.k_order, order)
    with client.put(loaded) as there:
        assert np.array_equal(there.quantized().dequantize(), w.dequantize())
        got = gemm("--server", server.address, "get", there.handle, "-o", tmp_path / "got.gq")
        assert got.returncode == 0, got.stderr
        assert (tmp_path / "got.gq").read_bytes() == (tmp_path / "w.gq").read_bytes()


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"k_order": [0] * 64}, ValueError, "k_order[1] is 0; it came before: each place of K comes once"),
        ({"k_order": range(1, 65)}, ValueError, "k_order[63] is 64; it must be less than K, 64"),
        ({"k_order": range(-1, 63)}, ValueError, "k_order[0] is -1; it must be less than K, 64"),
        ({"k_order": range(63)}, ValueError, "k_order has shape (63,); it must have K, 64, entries"),
        ({"k_order": np.arange(64.0)}, TypeError, "k_order is float64; it must be integers"),
        (
            {"k_order": range(64), "type": "int8", "scales": 1.0},
            ValueError,
            "k_order is set, and scales are of whole",
        ),
        (
            {"k_order": range(64), "type": "int8", "scales": None},
            ValueError,
            "k_order is set, and scales are missing",
        ),
        (
            {"k_order": range(64), "type": "fp8-e4m3-128x128", "scales": np.ones((1, 1), "f4")},
            ValueError,
            "axis is None; beside k_order it must be 0 (rows: a left factor) or 1 (columns: a right one)",
        ),
    ],
)
def test_orders_that_are_none_are_refused(change, error, why):
    kind = change.get("type", "int8-g32")
    data = np.ones((4, 64), np.uint8 if kind.startswith("fp8") else np.int8)
    given = {"type": kind, "scales": np.ones((4, 2), "f4")} | change
    with pytest.raises(error, match=f"^{re.escape(why)}"):
        gemmd.Quantized(data, **given)


def test_a_loaded_matrix_multiplies_inline_and_in_shared_memory(client, random, tmp_path):
    a = random.standard_normal((7, K)).astype(np.float32)
    for name, layout in (("int4-g32-f16-offset", "plain"), ("nvfp4", "blocked-128x4"), ("int8-row", "plain")):
        q = gemmd.Quantized.of(of_lines(random, name, 0), name, 1, scale_layout=layout)
        q.save(tmp_path / "w.gq")
        w = gemmd.Quantized.load(tmp_path / "w.gq")
        bits = client.matmul(a, q).tobytes()
        assert client.matmul(a, w).tobytes() == bits
        assert client.matmul(a, w.T.T).tobytes() == bits
        assert client.matmul(a, w.placed_in(client.shared(w.nbytes, "u1"))).tobytes() == bits


@pytest.mark.parametrize("name", ["int8-row", "fp8-e5m2-128x128", "mxfp4"])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_are_not_copied(tmp_path, name, axis):
    size = 2048
    codes, scales = np.zeros((size, size), np.uint8), np.ones((size, 1) if axis == 0 else (1, size), np.float32)
    if name == "mxfp4":
        q = gemmd.Quantized(codes, np.zeros((size, 64) if axis == 0 else (64, size), np.uint8), name, axis=axis)
    elif name == "int8-row":
        q = gemmd.Quantized(codes.view(np.int8), scales, name, axis=axis)
    else:
        q = gemmd.Quantized(codes, scales[:16, :16] * np.ones((16, 16), np.float32), name, axis=axis)
    q.save(tmp_path / "w.gq")
    tracemalloc.start()
    loaded = gemmd.Quantized.load(tmp_path / "w.gq")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.7 * q.data.nbytes  # checking scales makes f64 of them
    assert not loaded.data.flags.writeable
    owner = loaded.data
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner.obj if isinstance(owner, memoryview) else owner, mmap.mmap)


def test_a_loaded_matrix_may_be_saved_over_its_own_file(random, tmp_path):
    path = tmp_path / "w.gq"
    q = gemmd.Quantized.of(of_lines(random, "int8-g32", 1), "int8-g32", 0)
    q.save(path)
    loaded = gemmd.Quantized.load(path)
    loaded.T.save(path)
    assert same(q, loaded)
    assert same(q.T, gemmd.Quantized.load(path))


def test_what_was_given_in_another_order_or_with_gaps_is_written_too(tmp_path, random):
    codes = random.integers(-128, 128, (60, 80), np.int8)[::2, ::2]
    q = gemmd.Quantized(codes, 0.5, "int8-tensor")
    q.save(tmp_path / "w.gq")
    assert same(q, gemmd.Quantized.load(tmp_path / "w.gq"))
    for shape in ((3, 7), (4, 6)):  # packed, of columns, with the lines in rows
        count = shape[0] * shape[1]
        packed = random.integers(0, 256, (count * 6 + 7) // 8).astype(np.uint8)
        packed[-1] &= 0x3F if count % 4 else 0xFF
        scales = np.full((shape[0], 1), 127, np.uint8)
        q = gemmd.Quantized(packed, scales, "mxfp6-e2m3", shape=shape, order="F", axis=0)
        q.save(tmp_path / "w.gq")
        loaded = gemmd.Quantized.load(tmp_path / "w.gq")
        assert same(q, loaded)
        assert loaded.order == "C"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: gemmd.Quantized(np.zeros((2, 2), np.int8)), "scales are missing; every format of a container"),
        (lambda: gemmd.Quantized(np.zeros((2, 2), "f4"), type="tf32"), "scales are missing"),
        (
            lambda: gemmd.Quantized(np.zeros((2, 2), np.int8), [1, 1], "int8"),
            "axis is None; of int8-row it must be",
        ),
        (
            lambda: gemmd.Quantized(
                np.zeros((2, 16), np.int8), np.ones((2, 1), "f4"), "int8", block_k=16, offsets=np.ones((2, 1), "f4")
            ),
            "int8 in such blocks has no name in docs/quantization.md",
        ),
    ],
)
def test_what_has_no_container_is_refused(tmp_path, make, why):
    path = tmp_path / "w.gq"
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {why}')}"):
        make().save(path)
    assert os.listdir(tmp_path) == []


# mxfp8-e4m3 of 64 x 3 with K the rows: 192 bytes of data, 6 of scales.
GOOD = (
    '{"__metadata__":{"gemmd.format":"mxfp8-e4m3","gemmd.k_axis":"0",'
    '"gemmd.scale_layout":"plain","gemmd.shape":"64x3","gemmd.version":"1","by":"others"},'
    '"data":{"dtype":"F8_E4M3","shape":[3,64],"data_offsets":[0,192]},'
    '"scales":{"dtype":"U8","shape":[3,2],"data_offsets":[192,198]}}'
)
GOOD_BYTES = 198
DEEP = "[" * 20000
REFUSALS = [
    ('{"__', ' {"__', "the header does not begin with {"),
    ("]}}", "]}", "the header is no JSON from its byte"),
    ("]}}", "]}}x", "the header is no JSON from its byte"),
    ("]}}", "]}}\0x", "the header is no JSON from its byte"),
    ("others", b"\xff\xfe", "the header is no JSON from its byte"),
    ("others", "\x01", "the header is no JSON from its byte"),
    ("others", "\\ud800", "half of a character of UTF-16"),
    ('"others"', "7", 'the header\'s "__metadata__": "by" has the number 7'),
    ('"others"', "{}", 'the header\'s "__metadata__": "by" has an object'),
    ('"others"', DEEP, "the header has an array or an object 4 deep; 3 is the deepest"),
    ('"others"', '{"x":' * 9000, "the header has an array or an object 4 deep"),
    ("[3,64]", DEEP, "the header has an array or an object 4 deep"),
    ("[3,64]", "[3,-64]", 'the header\'s "data": "shape" has the number "-64"'),
    ("[3,64]", "[3,64.0]", 'has the number "64.0"'),
    ("[3,64]", "[3,NaN]", 'has the number "NaN"'),
    ("[3,64]", "[3,-Infinity]", 'has the number "-Infinity"'),
    ("[3,64]", "[3,18446744073709551616]", 'has the number "18446744073709551616"'),
    ("[3,64]", "[3," + "9" * 9000 + "]", 'has the number "9999'),
    ("[3,64]", "[3,64,1,1,1,1,1,1,1]", "has more than 8 numbers"),
    ("[3,64]", "[64,3]", "data has shape [64, 3]; it must be [3, 64]"),
    ("[3,64]", "[192]", "data has shape [192]; it must be [3, 64]"),
    ("[3,64]", '"3x64"', 'the header\'s "data": "shape" has a text'),
    ("[3,64]", "null", 'the header\'s "data": "shape" has null'),
    ("[3,64]", "[3,true]", 'the header\'s "data": "shape" has a truth value'),
    ('"F8_E4M3"', "true", 'the header\'s "data": "dtype" has a truth value'),
    ("F8_E4M3", "F8_E5M2", 'data has dtype "F8_E5M2"; it must be F8_E4M3'),
    ("F8_E4M3", "F" * 20000, "... (20000 characters); it must be F8_E4M3"),
    ('"dtype":"U8",', "", 'tensor "scales" has no dtype'),
    (',"data_offsets":[192,198]', "", 'tensor "scales" has no data_offsets'),
    ('"dtype":"U8"', '"dtype":"U8","strides":[1]', 'tensor "scales" has the field "strides"'),
    ('"dtype":"U8"', '"dtype":"U8","dtype":"U8"', 'the header has "dtype" twice'),
    ('"scales"', '"data"', 'the header has "data" twice'),
    ('"scales"', '"d\\u0061ta"', 'the header has "data" twice'),
    ('"by"', '"gemmd.version"', 'the header has "gemmd.version" twice'),
    ('"scales":{', '"__metadata__":{', 'the header has "__metadata__" twice'),
    ("[192,198]", "[198,192]", 'tensor "scales" has data_offsets 198 to 192'),
    ("[192,198]", "[-6,0]", 'the header\'s "scales": "data_offsets" has the number "-6"'),
    ("[192,198]", "[NaN,198]", 'the header\'s "scales": "data_offsets" has the number "NaN"'),
    ("[192,198]", "[192,1e400]", 'the header\'s "scales": "data_offsets" has the number "1e400"'),
    ("[192,198]", "[192,199]", "within the 198 bytes behind the header"),
    ("[192,198]", "[192,18446744073709551615]", "within the 198 bytes behind the header"),
    ("[192,198]", "[192]", '"data_offsets" has 1 numbers; it must have 2'),
    ("[192,198]", "[192,197]", "scales takes 6 bytes, but its data_offsets have 5"),
    ("[192,198]", "[186,192]", 'tensor "scales" begins at byte 186, within another one'),
    ("[192,198]", "[193,199]", "byte 192 of the 199 behind the header belongs to no tensor", 199),
    ("", "", "byte 198 of the 199 behind the header belongs to no tensor", 199),
    ("", "", "within the 197 bytes behind the header", 197),
    ('"scales"', '"scale"', "there is no tensor scales, which mxfp8-e4m3 has"),
    (
        "]}}",
        ']},"zero_points":{"dtype":"U8","shape":[0],"data_offsets":[198,198]}}',
        'a tensor "zero_points", which',
    ),
    ("]}}", ']},"more":7}', 'the header\'s "more" has the number 7'),
    ("mxfp8-e4m3", "mxfp9", 'gemmd.format is "mxfp9", which is no quantized format'),
    ("mxfp8-e4m3", "mxfp8_e4m3", 'gemmd.format is "mxfp8_e4m3", which is no quantized format'),
    ("mxfp8-e4m3", "nvfp4", "there is no tensor tensor_scale, which nvfp4 has"),
    ("mxfp8-e4m3", "mxfp4", 'data has dtype "F8_E4M3"; it must be U8'),
    ('"gemmd.format"', '"format"', "the metadata has no gemmd.format; gemm quantize and Quantized.save() write it"),
    ('"gemmd.version":"1"', '"gemmd.version":"2"', 'gemmd.version is "2"; it must be 1'),
    ('"by"', '"gemmd.seed"', 'the metadata has "gemmd.seed", which version 1 has not'),
    ('"__metadata__":{', '"__metadata__":[],"x":{', 'the header\'s "__metadata__" has an array'),
    ("64x3", "64x0", 'gemmd.shape is "64x0"; it must be ROWSxCOLUMNS, each of 1 to 2147483647'),
    ("64x3", "64x+3", 'gemmd.shape is "64x+3"'),
    ("64x3", "064x3", 'gemmd.shape is "064x3"'),
    ("64x3", "64x3\\n", r'gemmd.shape is "64x3\n"'),
    ("64x3", "64x\\u0663", r'gemmd.shape is "64x\u0663"'),
    ("64x3", "64x3x1", 'gemmd.shape is "64x3x1"'),
    ("64x3", "2147483648x3", "each of 1 to 2147483647"),
    ("64x3", "9" * 9000 + "x3", "each of 1 to 2147483647"),
    ("64x3", "2147483647x2147483647", "data has shape [3, 64]; it must be [2147483647, 2147483647]"),
    ('"gemmd.k_axis":"0"', '"gemmd.k_axis":"1"', "data has shape [3, 64]; it must be [64, 3]"),
    ('"gemmd.k_axis":"0"', '"gemmd.k_axis":"2"', 'gemmd.k_axis is "2"; it must be 0 or 1'),
    ("plain", "tiles", 'gemmd.scale_layout is "tiles"; it must be plain or blocked-128x4'),
    ("plain", "blocked-128x4", "scales has shape [3, 2]; it must be [128, 4]"),
]


def container(text, data):
    text = text if isinstance(text, bytes) else text.encode()
    return len(text).to_bytes(8, "little") + text + data


def changed(was, now, size=GOOD_BYTES):
    assert was in GOOD
    new = now if isinstance(now, bytes) else now.encode()
    text = GOOD.encode().replace(was.encode(), new, 1) if was else GOOD.encode()
    return container(text, b"\1" * size)


def refusal(path):
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: ") as caught:
        gemmd.Quantized.load(path)
    assert len(str(caught.value)) < 600
    return str(caught.value)


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case[2][:60])
def test_a_file_that_is_not_sound_is_refused_by_name_here_and_by_gemm(server, tmp_path, case):
    was, now, why, *size = case
    path = tmp_path / "x.gq"
    path.write_bytes(changed(was, now, *size))
    assert why in refusal(path)
    assert gemm("--server", server.address, "put", path).returncode == 3


ORDER = ',"k_order":{"dtype":"I32","shape":[64],"data_offsets":[198,454]}}'


@pytest.mark.parametrize(
    ("was", "now", "order", "why"),
    [
        ("[64],", "[63],", range(64), "k_order has shape [63]; it must be [64]"),
        ("I32", "I64", range(64), 'k_order has dtype "I64"; it must be I32'),
        ("", "", [*range(63), 64], "k_order[63] is 64; it must be less than K, 64"),
        ("", "", [*range(63), -1], "k_order[63] is "),
        ("", "", [*range(63), 5], "k_order[63] is 5"),
    ],
)
def test_a_file_whose_order_is_none_is_refused_here_and_by_gemm(server, tmp_path, was, now, order, why):
    path = tmp_path / "x.gq"
    text = GOOD[:-1] + ORDER.replace(was, now)
    path.write_bytes(container(text, b"\1" * GOOD_BYTES + np.array(order, "<i4").tobytes()))
    assert why in refusal(path)
    put = gemm("--server", server.address, "put", path)
    assert put.returncode == 3
    assert why in put.stderr


def test_what_others_may_change_is_taken(server, tmp_path):
    """Scales first, blanks, keys of others, and a length of the header by which no plane is aligned."""
    text = GOOD.replace("[0,192]", "[6, 198]").replace("[192,198]", "[0, 6]").replace("]}}", "] } }\n  ")
    path = tmp_path / "x.safetensors"
    path.write_bytes(container(text, b"\1" * GOOD_BYTES))
    assert gemmd.Quantized.load(path).shape == (64, 3)
    assert gemm("--server", server.address, "put", path).returncode == 0
    q = gemmd.Quantized.of(np.arange(80.0).reshape(2, 40), "int8-g16", 0)
    q.save(path)
    good = path.read_bytes()
    length = int.from_bytes(good[:8], "little")
    path.write_bytes(container(good[8 : 8 + length] + b" ", good[8 + length :]))
    loaded = gemmd.Quantized.load(path)
    assert same(q, loaded)
    assert loaded.scales.flags.aligned


def test_lengths_of_headers_are_bounded(tmp_path):
    path = tmp_path / "x.gq"
    for content, why in (
        (b"", "the file has 0 bytes; a safetensors file begins with 8"),
        (b"1234567", "the file has 7 bytes"),
        (b"\0" * 8, "header length 0: 1 to 65536 bytes are accepted"),
        (b"\xff" * 100, "header length 18446744073709551615: 1 to 65536"),
        ((2**63).to_bytes(8, "little") + b"{}", f"header length {2**63}: 1 to 65536"),
        ((65537).to_bytes(8, "little") + b"{" * 70000, "header length 65537: 1 to 65536"),
        ((9).to_bytes(8, "little") + b"{}", "header length 9 reaches beyond the file of 10 bytes"),
        (b"\x93NUMPY\x01\x00" + b"x" * 100, "header length"),
    ):
        path.write_bytes(content)
        assert why in refusal(path)
    text = GOOD + " " * (65536 - len(GOOD))
    path.write_bytes(container(text, b"\1" * GOOD_BYTES))
    assert gemmd.Quantized.load(path).type == "mxfp8-e4m3"
    for length in range(len(GOOD) + 8 + GOOD_BYTES):
        path.write_bytes(changed("", "")[:length])
        refusal(path)


def test_changed_bytes_raise_nothing_but_value_errors(random, tmp_path):
    path, good = tmp_path / "x.gq", changed("", "")
    for _ in range(2000):
        content = bytearray(good)
        for at in random.integers(0, 8 + len(GOOD), random.integers(1, 4)):
            content[at] = random.choice([random.integers(0, 256), *b'0179-{}[]",:xe. '])
        path.write_bytes(content)
        with contextlib.suppress(ValueError):
            assert gemmd.Quantized.load(path).nbytes == GOOD_BYTES


@pytest.mark.parametrize(
    ("name", "plane", "bits", "why"),
    [
        ("int8-g32", "scales", np.float32(np.nan), "scales[0, 0] is nan; it must be finite"),
        ("int4-g32-f16", "scales", np.float16(np.inf), "scales[0, 0] is inf; it must be finite"),
        ("int4-g32-bf16", "scales", np.uint16(0xFFC0), "scales[0, 0] is nan; it must be finite"),
        ("mxfp4", "scales", np.uint8(0xFF), "scales[0, 0] is nan; it must be finite"),
        ("nvfp4", "scales", np.uint8(0xB8), "scales[0, 0] is -1.0; of fp8_e4m3 it must be at least 0"),
        ("nvfp4", "tensor_scale", np.float32(np.nan), "tensor_scale is nan; it must be finite"),
        ("uint8-g16-offset", "offsets", np.float32(np.nan), "offsets[0, 0] is nan; it must be finite"),
        ("int4-g16-f16-offset", "offsets", np.float16(-np.inf), "offsets[0, 0] is -inf; it must be finite"),
        ("int4-g32-f32-zp", "zero_points", np.uint8(17), "zero_points[0, 0] is 17; of uint4 it must be 0 to 16"),
    ],
)
def test_values_that_no_product_takes_are_refused(server, tmp_path, name, plane, bits, why):
    path = tmp_path / "x.gq"
    gemmd.Quantized.of(np.arange(128.0).reshape(2, 64), name, 0).save(path)
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[:8], "little")
    begin = 8 + length + json.loads(content[8 : 8 + length])[plane]["data_offsets"][0]
    content[begin : begin + bits.nbytes] = bits.tobytes()
    path.write_bytes(content)
    assert why in refusal(path)
    put = gemm("--server", server.address, "put", path)
    assert put.returncode != 0
    assert "INVALID_ARGUMENT" in put.stderr


def test_a_file_of_other_weights_and_none_at_all(tmp_path):
    text = '{"w":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}'
    (tmp_path / "model.safetensors").write_bytes(container(text, bytes(4)))
    assert "the metadata has no gemmd.version" in refusal(tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match="missing"):
        gemmd.Quantized.load(tmp_path / "missing.gq")
    with pytest.raises(IsADirectoryError):
        gemmd.Quantized.load(tmp_path)
    with pytest.raises(ValueError, match=r"^/dev/zero: is no regular file"):
        gemmd.Quantized.load("/dev/zero")


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    q = gemmd.Quantized.of(np.ones((64, 64)), "int8-row", 0)
    path = tmp_path / "w.gq"
    path.write_bytes(b"old")
    write = os.write

    def full(descriptor, data):
        if len(data) < 4000:
            return write(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            q.save(path)
    assert os.listdir(tmp_path) == ["w.gq"]
    assert path.read_bytes() == b"old"
    with pytest.raises(FileNotFoundError):
        q.save(tmp_path / "missing" / "w.gq")
    with pytest.raises(ValueError, match="is no regular file"):
        q.save(tmp_path)
    assert os.listdir(tmp_path) == ["w.gq"]


def test_a_file_keeps_its_mode_and_links_stay(tmp_path):
    q = gemmd.Quantized.of(np.ones((3, 5)), "int8-row", 0)
    path, link = tmp_path / "w.gq", tmp_path / "link.gq"
    old = os.umask(0o027)
    try:
        q.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        link.symlink_to("w.gq")
        q.T.save(link)
    finally:
        os.umask(old)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert gemmd.Quantized.load(path).shape == (5, 3)
    q.save(tmp_path / ("n" * 255))  # the longest name that there is
