"""The result is written where an operand is read: a stack's other products and a second attempt read it again.

Sources: numpy/numpy#8440, cupy/cupy#6214, pytorch/pytorch#114350. Right: what numpy.matmul gives, which copies,
over every transport, also where the connection breaks within the answer.

GEMMD_OVERLAPS is the number of random products (300).
"""

import asyncio
import os
import random as stdlib_random

import numpy as np
import pytest
from testing.proxy import Proxy

import gemmd
import gemmd.aio

COUNT = int(os.environ.get("GEMMD_OVERLAPS", "300"))
QUICK = gemmd.RetryPolicy(max_attempts=20, initial_backoff=0.001, max_backoff=0.05)
POOL = 6000


@pytest.mark.parametrize(
    ("operand", "transport"),
    [("a", "stream"), ("b", "stream"), ("c", "stream"), ("bias", "stream"), ("c", "unary")],
)
def test_an_answer_that_breaks_off_was_written_nowhere(server, operand, transport):
    size = 600  # two messages
    draw = np.random.default_rng(1)
    whole = {name: draw.integers(-3, 4, (size, size)).astype("f4") for name in ("a", "b", "c")}
    d = whole[operand] if operand != "bias" else np.zeros((size, size), "f4")
    bias = d[size // 2] if operand == "bias" else np.ones(size, "f4")
    wanted = whole["a"] @ whole["b"] + whole["c"] + bias
    with Proxy(server.address) as proxy:
        with gemmd.Client(proxy.address, transport=transport, channels=1, chunk_bytes=4096, retry=QUICK) as client:
            client.info()
            proxy.cut(size * size * 4 - 50000)
            client.matmul(whole["a"], whole["b"], c=whole["c"], bias=bias, out=d)
            assert proxy.cuts == 1
    assert np.array_equal(d, wanted)


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_stacks_that_read_what_they_write(server, transport):
    with gemmd.Client(server.address, transport=transport) as client:
        for products in (
            lambda a: (a[0], a, a),
            lambda a: (a, a[::-1], a),
            lambda a: (a[:-1], a[:-1], a[1:]),
            lambda a: (a[1:], a[:1], a[:-1]),
            lambda a: (a[::2], a[::2], a[1::2]),
        ):
            stack = np.random.default_rng(2).integers(-3, 4, (100, 8, 8)).astype("f4")
            a, b, d = products(stack)
            wanted = a @ b
            client.matmul(a, b, out=d)
            assert np.array_equal(d, wanted)


@pytest.mark.parametrize("strides", [(0, 4), (4, 4), (4, 0), (8, 4)])
def test_a_result_whose_elements_share_memory_is_refused(client, strides):
    out = np.lib.stride_tricks.as_strided(np.zeros(100, "f4"), (3, 3), strides)
    with pytest.raises(ValueError, match=r"out has shape \(3, 3\) and strides .*: its elements share memory"):
        client.matmul(np.ones((3, 3), "f4"), np.ones((3, 3), "f4"), out=out)


def test_a_result_whose_elements_interleave_is_written(client):
    out = np.lib.stride_tricks.as_strided(np.zeros(100, "f4"), (2, 3), (12, 8))  # 0 8 16, 12 20 28
    client.matmul(np.ones((2, 2), "f4"), np.ones((2, 3), "f4"), out=out)
    assert np.array_equal(out, np.full((2, 3), 2, "f4"))


def test_nothing_is_copied_where_nothing_overlaps(client):
    memory = np.ones((3, 64, 64), "f4")
    shared = client.shared((3, 64, 64))
    for pool in (memory, shared):
        pool[:] = 1
        result = client.matmul(pool[0], pool[1], out=pool[2])
        assert np.shares_memory(result, pool[2])
    assert result.receipt.shared_bytes_out == shared[2].nbytes


class Draw:
    """Random arrays in one pool of memory: each is a function of the pool, so that a copy of it has them too."""

    def __init__(self, seed):
        self.random = stdlib_random.Random(seed)

    def view(self, shape, is_read=False):
        """A function that gives an array of that shape; one that is read may repeat its elements."""
        kinds = ["plain", "apart", "turned", "back", "rows"] + ["repeated"] * is_read
        kind = self.random.choice(kinds)
        if kind == "turned" and len(shape) > 1:
            inner = self.view((*shape[:-2], shape[-1], shape[-2]), is_read)
            return lambda pool: inner(pool).swapaxes(-1, -2)
        if kind == "back":
            inner, axis = self.view(shape, is_read), self.random.randrange(len(shape))
            return lambda pool: np.flip(inner(pool), axis)
        if kind == "rows" and len(shape) == 2:
            width = shape[1] + self.random.randrange(1, 5)
            left, at = self.random.randrange(width - shape[1] + 1), self.random.randrange(100)
            return lambda pool: pool[at : at + shape[0] * width].reshape(shape[0], width)[:, left : left + shape[1]]
        if kind == "repeated" and len(shape) > 1:
            inner = self.view(shape[1:], is_read)
            return lambda pool: np.broadcast_to(inner(pool), shape)
        step = self.random.randrange(2, 4) if kind == "apart" else 1
        count = int(np.prod(shape))
        at = self.random.randrange(200)
        return lambda pool: pool[at : at + count * step : step].reshape(shape)

    def product(self):
        """Functions of the pool for a, b, c, bias and out."""
        one = self.random.choice([1, 2, 5, 8])
        m, n, k = (self.random.randrange(1, 2 + one) for _ in range(3))
        batch = self.random.choice([(), (), (1,), (4,), (2, 3)])
        whole = self.random.choice(["a", "b", "ab"])  # the others are one matrix, for all of the stack
        a = self.view((*(batch if "a" in whole else ()), m, k), True)
        b = self.view((*(batch if "b" in whole else ()), k, n), True)
        out = self.view((*batch, m, n))
        c = self.view((*batch, m, n), True) if self.random.random() < 0.4 else None
        bias = self.view((n,), True) if self.random.random() < 0.4 else None
        if self.random.random() < 0.2 and c is not None:
            c = out
        return a, b, c, bias, out

    def quantized(self):
        """A product of int8 matrices whose elements and scales lie in the pool."""
        m, n, k = (self.random.randrange(1, 7) for _ in range(3))
        places = [self.random.randrange(100) for _ in range(2)]
        scales = self.view((m, 1), True), self.view((1, n), True)

        def factor(index, shape):
            def make(pool):
                data = pool.view("i1")[places[index] :][: shape[0] * shape[1]].reshape(shape)
                return gemmd.Quantized(data, scales[index](pool))

            return make

        return factor(0, (m, k)), factor(1, (k, n)), None, None, self.view((m, n))


def values_of(x):
    return np.array(x, "f8") if isinstance(x, np.ndarray) else x.dequantize()


def wanted_of(product, before):
    """The pool as it is to be after the product, by NumPy."""
    after = before.copy()
    a, b, c, bias, out = (None if each is None else each(before) for each in product)
    d = values_of(a) @ values_of(b)
    for more in (c, bias):
        d = d if more is None else d + more
    product[4](after)[...] = np.broadcast_to(d, out.shape)
    return after


class Ways:
    """The clients that products go by, each behind a proxy of its own."""

    def __init__(self, address):
        self.loop = asyncio.new_event_loop()
        self.all = []
        for options in (
            {"transport": "unary"},
            {"transport": "stream", "channels": 1, "chunk_bytes": 4096},
            {"transport": "stream", "channels": 3, "chunk_bytes": 4096},
            {},
        ):
            proxy = Proxy(address)
            client = gemmd.aio.Client(proxy.address, retry=QUICK, **options)
            pools = [np.zeros(POOL, "f4"), client.sync.shared(POOL)]
            self.all.append((proxy, client, pools))

    def run(self, draw, client, a, b, **asked):
        kind = draw.random.choice(["matmul", "submit", "aio"])
        if kind == "matmul":
            client.sync.matmul(a, b, **asked)
        elif kind == "submit":
            client.sync.submit(a, b, **asked).result(60)
        else:
            self.loop.run_until_complete(client.matmul(a, b, **asked))

    def close(self):
        for proxy, client, pools in self.all:
            pools.clear()
            client.sync.close()
            proxy.close()
        self.loop.close()


def random_product(ways, seed):
    draw = Draw(seed)
    proxy, client, pools = draw.random.choice(ways.all)
    pool = draw.random.choice(pools)
    pool[:] = np.random.default_rng(seed).integers(0, 4, POOL)
    is_quantized = draw.random.random() < 0.2
    product = draw.quantized() if is_quantized else draw.product()
    a, b, c, bias, out = (None if each is None else each(pool) for each in product)
    assert np.shares_memory(out, pool)
    wanted = wanted_of(product, pool.copy())
    resident = None
    if draw.random.random() < 0.2 and (is_quantized or b.ndim == 2):
        resident = b = client.sync.put(b)
        if draw.random.random() < 0.5:
            client.sync.resident(resident.handle).release()  # as an eviction: it is uploaded again
    if draw.random.random() < 0.15:
        proxy.cut(draw.random.randrange(1, 300 + out.size * 4))
    try:
        ways.run(draw, client, a, b, c=c, bias=bias, out=out)
    except (ValueError, gemmd.Error) as refused:
        raise AssertionError(f"product {seed}: {refused!r}") from refused
    finally:
        if resident is not None:
            resident.release()
    assert np.array_equal(pool, wanted), f"product {seed}"


def test_random_products_are_as_in_numpy(server):
    ways = Ways(server.address)
    try:
        for seed in range(COUNT):
            random_product(ways, seed)
        assert sum(proxy.cuts for proxy, _, _ in ways.all) >= COUNT // 50
    finally:
        ways.close()
