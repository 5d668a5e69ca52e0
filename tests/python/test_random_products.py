"""Random stacks and groups of rows against NumPy in binary64, within the bound that the CPU's kernels state.

GEMMD_RANDOM_CASES: so many stacks instead of 300, and 3 requests of groups for each 10 of them. `pytest -s` prints
the worst errors. A case is drawn from its seed alone.
"""

import contextlib
import math
import os

import ml_dtypes
import numpy as np
import pytest

import gemmd

CASES = int(os.environ.get("GEMMD_RANDOM_CASES", "300"))
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
# Types of two factors, and those that D may have; the first is the default.
TYPES = [
    ("f8", "f8", ["f8"]),
    ("f4", "f4", ["f4"]),
    ("f2", "f2", ["f2", "f4"]),
    (BF16, BF16, [BF16, "f4"]),
    ("i1", "i1", ["i4", "f4", "f2", BF16]),
    (E4M3, E4M3, [BF16, "f4", "f2"]),
    (E5M2, E4M3, [BF16, "f4", "f2"]),
    ("f4", "f8", ["f8"]),
    ("i1", "f8", ["f8"]),
    (BF16, "f4", ["f4"]),
    ("f2", BF16, ["f4"]),
]
HALF_UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "int32": 0}
LARGEST = {"float64": 2.0**1023, "float32": 2.0**128, "float16": 65520, "bfloat16": 2.0**128, "int32": 2**31}
LEAST = {"float64": 0, "float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134, "int32": 0}
FORMS = ["int8-g32", "int8-row", "int4-g32-f16", "int4-g16-f16-zp", "fp8-e4m3-row", "mxfp4", "mxfp8-e4m3", "nvfp4"]


def chance(random, p):
    return random.random() < p


def size_of(random, most=12):
    """Mostly small; 0 and 1 are there."""
    if chance(random, 0.03):
        return 0
    if chance(random, 0.15):
        return 1
    return int(random.integers(1, most + 1))


def depth_of(random):
    """A K: within and beyond the 256 and the 1024 at which the order of sums changes."""
    if chance(random, 0.02):
        return int(random.choice([256, 257, 1024, 1025, 1100]))
    return size_of(random, 40)


def drawn(random, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "i":
        return random.integers(-128, 128, shape).astype(dtype)
    x = random.standard_normal(shape)
    if dtype.itemsize > 1 and chance(random, 0.2):
        x = x * 2.0 ** random.integers(-6, 3, shape)
    return x.astype(dtype)


def with_special_values(random, x):
    """Now and then with infinities and NaN, where its type has them."""
    if x.size == 0 or np.dtype(x.dtype).kind == "i" or not chance(random, 0.05):
        return x
    x = x.copy()
    for _ in range(2):
        value = np.nan if x.dtype == E4M3 else random.choice([np.nan, np.inf, -np.inf])
        x[tuple(random.integers(0, size) for size in x.shape)] = value
    return x


def poison(dtype):
    return 77 if np.dtype(dtype).kind == "i" else np.nan


def room_for(random, shape, dtype):
    """An array of that shape in one of many ways, and the memory that it is cut from, which is full of poison."""
    dtype = np.dtype(dtype)
    way = random.choice(["C", "F", "cut", "odd"], p=[0.25, 0.1, 0.57, 0.08])
    if way == "odd":
        # A byte before all, and one between rows, matrices or more: no alignment, and no strides of whole elements.
        outer = int(random.integers(0, len(shape)))
        size = math.prod(shape[outer:]) * dtype.itemsize
        memory = np.zeros(math.prod(shape[:outer]) * (size + 1) + 1, "u1")
        base = memory[1:].reshape(*shape[:outer], size + 1)[..., :size].view(dtype).reshape(shape)
        base[...] = poison(dtype)
        return base, base
    if way in "CF":
        base = np.full(shape, poison(dtype), dtype, order=str(way))
        return base, base
    order = random.permutation(len(shape)) if chance(random, 0.5) else np.arange(len(shape))
    steps = np.where(random.random(len(shape)) < 0.2, random.choice([2, 3, -1, -2], len(shape)), 1)
    gaps = np.where(random.random((2, len(shape))) < 0.2, random.integers(1, 4, (2, len(shape))), 0)
    sizes = [shape[axis] for axis in order]
    base = np.full(
        [int(a + size * abs(step) + b) for a, size, step, b in zip(gaps[0], sizes, steps, gaps[1], strict=True)],
        poison(dtype),
        dtype,
    )
    cut = base
    for axis, (gap, size, step) in enumerate(zip(gaps[0], sizes, steps, strict=True)):
        cut = np.moveaxis(np.moveaxis(cut, axis, 0)[gap : gap + size * abs(step)][::step], 0, axis)
    return cut.transpose(np.argsort(order)), base


def laid(random, x):
    """x laid out somewhere else."""
    view, _ = room_for(random, x.shape, x.dtype)
    view[...] = x
    if chance(random, 0.1):
        view.flags.writeable = False
    return view


def windows(random, shape, dtype):
    """Matrices of which many share their elements."""
    steps = [int(random.integers(0, 4)) if chance(random, 0.7) else 5 for _ in shape]
    span = 1 + sum(step * (size - 1) for step, size in zip(steps, shape, strict=True))
    flat = drawn(random, span, dtype)
    strides = [step * flat.itemsize for step in steps]
    codes = flat.view(f"u{flat.itemsize}")  # as_strided() does not take E5M2
    return np.lib.stride_tricks.as_strided(codes, shape, strides, writeable=False).view(dtype)


def factor(random, batch, rows, columns, dtype):
    """A stack: whole, partly broadcast by NumPy's rules or by strides of 0, or windows."""
    shape = (*batch, rows, columns)
    if 0 not in shape and chance(random, 0.07):
        return windows(random, shape, dtype)
    if chance(random, 0.3):
        batch = batch[int(random.integers(0, len(batch) + 1)) :]
    own = [1 if chance(random, 0.15) else size for size in batch]
    x = laid(random, with_special_values(random, drawn(random, (*own, rows, columns), dtype)))
    if chance(random, 0.3):
        x = np.broadcast_to(x, (*batch, rows, columns))
    if 0 not in shape and chance(random, 0.05):
        x = np.broadcast_to(x[..., :1], x.shape)
    return x


def addend(random, shape, dtype, is_read):
    """A C that is broadcast to the shape; of NaN where it must not be read."""
    shape = shape[int(random.integers(0, len(shape) + 1)) :] if chance(random, 0.3) else shape
    own = [1 if chance(random, 0.1) else size for size in shape]
    if not own:
        return float(random.standard_normal())
    return laid(random, drawn(random, own, dtype) if is_read else np.full(own, np.nan, dtype))


def activated(name, x):
    if name == "relu":
        return np.where(x < 0, 0, x)
    if name == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-x)) if name == "silu" else x


def roundings(k, is_f64):
    """RowGemmRoundings() of kernels/cpu/row_gemm.h."""
    return k if is_f64 or k <= 256 else -(-min(k, 1024) // 16) + 16 * -(-k // 1024)


class Worst:
    """The largest error as a share of its bound, by D's type."""

    def __init__(self):
        self.shares = {}
        self.products = 0

    def __str__(self):
        return ", ".join(f"{name} {share:.3f}" for name, share in sorted(self.shares.items()))

    def check(self, d, x, y, k, sums, alpha=1.0, beta=0.0, c=None, bias=None, activation="none", decodes=0):
        """x, y: of the product's sum, in f64; sums: the exact sum's type. decodes: roundings of decoded values."""
        is_f64 = sums == "float64"
        with np.errstate(all="ignore"):
            wanted, magnitude = alpha * (x @ y), abs(alpha) * (np.abs(x) @ np.abs(y))
            if beta and c is not None:
                added = np.asarray(c, "f8") * beta
                wanted, magnitude = wanted + added, magnitude + np.abs(added)
            if bias is not None:
                wanted, magnitude = wanted + bias, magnitude + np.abs(bias)
            unit = 2.0**-53 if is_f64 else 2.0**-24
            # Twice in f64: NumPy rounds too.
            error = (roundings(k, is_f64) + 4 + decodes) * unit * magnitude * (2 if is_f64 else 1)
            if sums == "int32":
                error = 8 * 2.0**-53 * magnitude + (2.0**-24 * np.abs(wanted) if d.dtype != np.int32 else 0)
            if activation != "none":
                error = 1.13 * error + 8 * unit * np.abs(wanted)
            last = activated(activation, wanted)
            half = HALF_UNIT[d.dtype.name]
            bound = error + half * (np.abs(last) + error) + LEAST[d.dtype.name]
            found = np.asarray(d, "f8")
            assert found.shape == last.shape
            is_plain = np.isfinite(wanted) & np.isfinite(magnitude)
            np.testing.assert_array_equal(found[~is_plain], last[~is_plain])
            is_plain &= np.abs(last) + bound < LARGEST[d.dtype.name]
            beyond = np.isfinite(last) & (np.abs(last) - bound > LARGEST[d.dtype.name])
            np.testing.assert_array_equal(found[beyond], np.copysign(np.inf, last[beyond]))
            off = np.abs(found - last)[is_plain]
            assert np.isfinite(off).all(), "NaN or infinity where NumPy has none"
            over = off > bound[is_plain]
            assert not over.any(), (
                f"{int(over.sum())} of {over.size}, by {(off / bound[is_plain]).max()} of the bound"
            )
            share = off[off > 0] / bound[is_plain][off > 0]
        self.shares[d.dtype.name] = max(self.shares.get(d.dtype.name, 0.0), share.max(initial=0))
        self.products += 1


@contextlib.contextmanager
def told(seed):
    """Says the seed of a case that failed."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


@pytest.fixture
def clients(server):
    """A client for each way to send."""
    with gemmd.Client(server.address) as one:
        with gemmd.Client(server.address, transport="stream", channels=2, chunk_bytes=4096) as two:
            yield [one, one, two]


def epilogue(random, result, shape, n, has_vector):
    """What goes with the product, and its values for Worst.check()."""
    asked, values = {}, {}
    if result == np.int32:
        return asked, values
    if chance(random, 0.4):
        asked["alpha"] = values["alpha"] = float(random.choice([0, 1, -1, 0.5, -2.25, 3]))
    if chance(random, 0.4):
        beta = float(random.choice([0, 1, -1, 0.25, -3]))
        c = addend(random, shape, result, beta != 0)
        asked["c"], asked["beta"] = c, beta
        if beta == 1 and chance(random, 0.5):
            del asked["beta"]
        values["c"] = np.asarray(np.asarray(c).astype(result), "f8")
        values["beta"] = beta
    if chance(random, 0.3) and not has_vector:
        asked["bias"] = laid(random, drawn(random, (n,), result))
        values["bias"] = np.asarray(asked["bias"], "f8")
    asked["activation"] = values["activation"] = str(random.choice(["none", "none", "relu", "gelu_tanh", "silu"]))
    return asked, values


def out_for(random, shape, result, a):
    """A place for the result, the memory that it is cut from, and a, which may share it; None and None: nowhere."""
    kind = random.choice(["nowhere", "apart", "shared"], p=[0.6, 0.3, 0.1])
    if kind == "apart":
        return *room_for(random, shape, result), a
    if kind == "nowhere" or a.dtype != result or a.size == 0:
        return None, None, a
    # Over a, or over part of it.
    begin, size = int(random.integers(0, a.size)), math.prod(shape)
    pool = np.zeros(max(a.size, begin + size), result)
    place = pool[: a.size].reshape(a.shape)
    place[...] = a
    return pool[begin : begin + size].reshape(shape), None, place


def check_gaps(out, base):
    """Nothing but the result was written."""
    if base is not None:
        out[...] = poison(out.dtype)
        wanted = np.full_like(base, poison(out.dtype))
        assert np.array_equal(base, wanted, equal_nan=base.dtype.kind != "i"), "written beside out"


def one_stack(random, clients, worst):
    left, right, results = TYPES[random.integers(0, len(TYPES))]
    if chance(random, 0.5):
        left, right = right, left
    result = np.dtype(results[0] if chance(random, 0.6) else results[random.integers(0, len(results))])
    batch = tuple(int(x) for x in random.integers(1, 5, random.integers(1, 4)))
    if chance(random, 0.1):
        batch = (int(random.integers(1, 65)),)
    if chance(random, 0.02):
        batch = (0, *batch)
    m, n, k = size_of(random), size_of(random), depth_of(random)
    a, b = factor(random, batch, m, k, left), factor(random, batch, k, n, right)
    vectors = 0 not in batch and chance(random, 0.04), 0 not in batch and chance(random, 0.04)
    if vectors[0]:
        a, m = a[(0,) * (a.ndim - 2) + (slice(0, 1),)] if m else drawn(random, (1, k), left), 1
    if vectors[1]:
        b, n = b[(0,) * (b.ndim - 2) + (slice(None), slice(0, 1))] if n else drawn(random, (k, 1), right), 1
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = batch + (() if vectors[0] else (m,)) + (() if vectors[1] else (n,))
    asked, values = epilogue(random, result, shape, n, any(vectors))
    asked["determinism"] = str(random.choice(["batch_invariant", "fast"]))
    if result != np.dtype(results[0]) or chance(random, 0.1):
        asked["dtype"] = result
    x, y = np.asarray(a, "f8"), np.asarray(b, "f8")
    there = None
    client = clients[random.integers(0, len(clients))]
    out, base, a = out_for(random, shape, result, a)
    if vectors[0]:
        a, x = a[0], x[0]
    elif chance(random, 0.2):
        a, asked["transpose_a"] = a.swapaxes(-1, -2), True
    if vectors[1]:
        b, y = b[:, 0], y[:, 0]
    elif b.size and chance(random, 0.1) and b.shape[:-2] in ((), batch) and b.ndim < 4 and a.dtype == b.dtype:
        # On the server, where nothing is made another type.
        there = client.put(np.ascontiguousarray(b.reshape(-1, n)))
        b = there.stack(*batch) if b.ndim > 2 else there
    elif chance(random, 0.2):
        b, asked["transpose_b"] = b.swapaxes(-1, -2), True
    if out is not None:
        asked["out"] = out
    d = client.matmul(a, b, **asked)
    assert d.dtype == result
    assert len(d.receipts) == (1 if d.size else 0)
    int_sums = np.dtype(left) == np.dtype(right) == np.int8
    sums = "float64" if result == np.float64 else "int32" if int_sums else "float32"
    worst.check(np.asarray(d), x, y, k, sums, **values)
    if out is not None:
        assert np.shares_memory(d, out) or not out.size
    check_gaps(out, base)
    if there is not None:
        there.release()


def test_random_stacks(clients):
    worst = Worst()
    for seed in range(CASES):
        with told(seed):
            one_stack(np.random.default_rng(seed), clients, worst)
    print(f"\n{worst.products} stacks: the worst errors over their bounds are {worst}")


def experts_of(random, client, count, k, n, left, dtype):
    """A stack as grouped_matmul() takes it, its values, what to release, and the roundings of its decoding."""
    kind = random.choice(["array", "one", "stays", "turned", "cut", "quantized", "quantized turned"])
    if kind.startswith("quantized"):
        fits = k % 32 == 0 and left in ("f4", "f2", BF16)
    else:
        fits = left == dtype or kind in ("array", "one")
    if 0 in (k, n) or not fits:
        kind = "array"
    if kind == "array":
        w = laid(random, drawn(random, (count, k, n), dtype))
        return w, np.asarray(w, "f8"), None, 0
    if kind == "one":
        w = np.broadcast_to(laid(random, drawn(random, (k, n), dtype)), (count, k, n))
        return w, np.asarray(w, "f8"), None, 0
    if kind == "stays":
        w = drawn(random, (count, k, n), dtype)
        there = client.put(w.reshape(-1, n))
        return there.stack(count), np.asarray(w, "f8"), there, 0
    if kind == "turned":
        w = drawn(random, (count, n, k), dtype)
        there = client.put(w.reshape(-1, k))
        return there.stack(count).mT, np.asarray(w, "f8").swapaxes(1, 2), there, 0
    if kind == "cut":
        step, first = (int(each) for each in random.integers(1, 4, 2))
        w = drawn(random, (first + step * count, k, n), dtype)
        there = client.put(w.reshape(-1, n))
        cut = slice(first, first + step * count, step)
        return there.stack(len(w))[cut], np.asarray(w[cut], "f8"), there, 0
    form = str(random.choice(FORMS))
    if kind == "quantized turned":
        made = gemmd.Quantized.of(random.standard_normal((count * n, k)).astype("f4"), form, axis=0)
        there = client.put(made)
        return there.stack(count).mT, made.dequantize("float64").reshape(count, n, k).swapaxes(1, 2), there, 4
    made = gemmd.Quantized.of(random.standard_normal((count * k, n)).astype("f4"), form, axis=1)
    there = client.put(made)
    return there.stack(count), made.dequantize("float64").reshape(count, k, n), there, 4


def ends_for(random, rows, count):
    """`count` ends of groups of rows, in one of the types that hold them."""
    ends = np.sort(np.append(random.integers(0, rows + 1, count - 1), rows))
    if chance(random, 0.1):
        ends[:-1] = random.choice([0, rows])
    if chance(random, 0.2):
        return ends.tolist()
    return ends.astype(random.choice(["i4", "i8", "u2", "u8"]))


def one_set_of_groups(random, clients, worst):
    left, right, results = TYPES[random.integers(0, len(TYPES))]
    result = np.dtype(results[random.integers(0, len(results))])
    count = 200 if chance(random, 0.03) else int(random.integers(1, 17))
    rows, n = size_of(random, 60), size_of(random, 20)
    k = 32 * int(random.integers(1, 5)) if chance(random, 0.4) else depth_of(random)
    client = clients[random.integers(0, len(clients))]
    x = laid(random, with_special_values(random, drawn(random, (rows, k), left)))
    w, values, there, decodes = experts_of(random, client, count, k, n, left, right)
    if decodes:
        result = np.dtype(left)
    ends = ends_for(random, rows, count)
    asked, more = epilogue(random, result, (rows, n), n, False)
    if result != np.int32 and chance(random, 0.3):
        asked["bias"] = laid(random, drawn(random, (count, n), result))
    bias = np.asarray(asked["bias"], "f8") if "bias" in asked else None
    c = np.broadcast_to(more["c"], (rows, n)) if "c" in more else None
    out, base, x = out_for(random, (rows, n), result, x)
    given = np.array(x, "f8")  # not what out may share
    if out is not None:
        asked["out"] = out
    if result != np.dtype(results[0]) or chance(random, 0.1):
        asked["dtype"] = result
    d = client.grouped_matmul(x, w, ends, **asked)
    assert (d.shape, d.dtype) == ((rows, n), result)
    assert len(d.receipts) == (1 if d.size else 0)
    int_sums = np.dtype(left) == np.dtype(right) == np.int8
    sums = "float64" if result == np.float64 else "int32" if int_sums else "float32"
    for i, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        group = slice(int(begin), int(end))
        more["c"] = None if c is None else c[group]
        more["bias"] = None if bias is None else bias[i] if bias.ndim > 1 else bias
        worst.check(np.asarray(d)[group], given[group], values[i], k, sums, decodes=decodes, **more)
    check_gaps(out, base)
    if there is not None:
        there.release()


def test_random_groups(clients):
    worst = Worst()
    for seed in range(CASES * 3 // 10):
        with told(seed):
            one_set_of_groups(np.random.default_rng(seed), clients, worst)
    print(f"\n{worst.products} groups: the worst errors over their bounds are {worst}")


def test_results_that_overlap_are_refused(client, random):
    a, b = random.standard_normal((3, 4, 5)), random.standard_normal((3, 5, 2))
    memory = np.zeros(64)
    for strides in ((0, 2, 1), (7, 2, 1), (8, 1, 1), (8, 0, 1), (-1, 2, 1), (8, 2, 0)):
        first = memory[16:]
        out = np.lib.stride_tricks.as_strided(first, (3, 4, 2), [8 * each for each in strides])
        with pytest.raises(ValueError, match="its elements share memory"):
            client.matmul(a, b, out=out)
        with pytest.raises(ValueError, match="its elements share memory"):
            client.grouped_matmul(a[0], b[:1], [4], out=np.lib.stride_tricks.as_strided(first, (4, 2), (8, 8)))
    assert not memory.any()
