"""Products of dask arrays on real servers: what is sent, where it stays, and that nothing is left there."""

import contextlib
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from testing.processes import Server

import gemmd

da = pytest.importorskip("dask.array")
import dask  # noqa: E402

import gemmd.dask  # noqa: E402
from gemmd import _held, _pool, _tiles, _transfer  # noqa: E402


@pytest.fixture(scope="module")
def two():
    with Server() as one, Server() as other:
        yield [one, other]


@pytest.fixture
def own_two():
    with Server("--operands.memory-bytes=67108864") as one, Server("--operands.memory-bytes=67108864") as other:
        yield [one, other]


@pytest.fixture(autouse=True)
def all_is_held(monkeypatch):
    """Small blocks stay on servers too."""
    monkeypatch.setattr(_held, "_LEAST_BYTES", 1)


def addresses_of(servers):
    return [each.address for each in servers]


def totals_of(servers):
    """What each has done, added up: (residents, uploaded bytes, bytes that came with products)."""
    found = []
    for each in servers:
        with gemmd.Client(each.address) as client:
            stats = client.stats()
        found.append((stats.operands.residents, stats.operands.uploaded_bytes, stats.payload_bytes_in))
    return np.array(found)


def wait_until_empty(servers):
    """The servers' residents, 0 unless something is left there."""
    give_up = time.monotonic() + 30
    while (left := totals_of(servers)[:, 0]).any() and time.monotonic() < give_up:
        time.sleep(0.02)
    return left.tolist()


def blocks_of(array, *sizes):
    return da.from_array(array, sizes)


def test_each_block_goes_once_to_each_server_that_needs_it_and_goes_again(two, random):
    a, b = random.standard_normal((400, 300)), random.standard_normal((300, 500))
    before = totals_of(two)
    d = gemmd.dask.matmul(blocks_of(a, 100, 75), blocks_of(b, 150, 125), address=addresses_of(two))
    assert np.array_equal(d.compute(), d.compute())
    np.testing.assert_allclose(d.compute(), a @ b, rtol=1e-11)
    uploaded = (totals_of(two) - before)[:, 1]
    # The columns of the grid of tiles are dealt out: all of a to both, half of b to each.
    assert uploaded.tolist() == [3 * (a.nbytes + b.nbytes // 2)] * 2
    assert (totals_of(two) - before)[:, 2].tolist() == [0, 0]
    assert wait_until_empty(two) == [0, 0]


def test_each_block_is_computed_once(two, random):
    a = random.standard_normal((80, 60))
    count = itertools.count()

    def step(block):
        next(count)
        return block

    x = blocks_of(a, 20, 30).map_blocks(step, dtype=a.dtype, meta=np.empty((0, 0)))
    gemmd.dask.matmul(x, blocks_of(a.T, 30, 20), address=addresses_of(two)).compute()
    assert next(count) == 8


def test_each_tile_has_the_bits_of_one_product(two, random):
    a, b = random.standard_normal((70, 900), "f4"), random.standard_normal((900, 60), "f4")
    d = gemmd.dask.matmul(blocks_of(a, 20, 100), blocks_of(b, 70, 25), address=addresses_of(two)).compute()
    with gemmd.Client(two[0].address) as client:
        for i in range(0, 70, 20):
            for j in range(0, 60, 25):
                wanted = client.matmul(a[i : i + 20], b[:, j : j + 25])
                assert np.array_equal(d[i : i + 20, j : j + 25], wanted)


def test_what_one_product_needs_goes_along(two, random):
    a, b = random.standard_normal((64, 64)), random.standard_normal((64, 64))
    before = totals_of(two)
    d = gemmd.dask.matmul(blocks_of(a, 64, 64), blocks_of(b, 64, 64), address=addresses_of(two))
    np.testing.assert_allclose(d.compute(), a @ b, rtol=1e-11, atol=1e-11)
    uploaded, along = (totals_of(two) - before)[:, 1:].sum(axis=0)
    assert (uploaded, along) == (0, a.nbytes + b.nbytes)


def test_small_blocks_go_along(two, random, monkeypatch):
    monkeypatch.setattr(_held, "_LEAST_BYTES", 64 << 10)
    a = random.standard_normal((64, 64))
    before = totals_of(two)
    gemmd.dask.matmul(blocks_of(a, 16, 16), blocks_of(a, 16, 16), address=addresses_of(two)).compute()
    assert (totals_of(two) - before)[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i1"])
def test_sums_over_parts_of_k_stay_on_the_server(two, random, monkeypatch, dtype):
    monkeypatch.setattr(gemmd.dask, "_PANEL_BYTES", 100 * 8 * 32)
    a = random.integers(-9, 9, (64, 512)).astype(dtype)
    b = random.integers(-9, 9, (512, 64)).astype(dtype)
    d = gemmd.dask.matmul(blocks_of(a, 32, 64), blocks_of(b, 64, 32), address=addresses_of(two))
    wanted = a.astype("f8") @ b.astype("f8")
    assert np.array_equal(d.compute(), wanted)
    assert wait_until_empty(two) == [0, 0]


def test_a_chain_keeps_what_is_between_on_the_server(two, random):
    x = random.standard_normal((120, 80))
    w = [random.standard_normal(shape) for shape in ((80, 500), (500, 300), (300, 20))]
    before = totals_of(two)
    downloaded = payloads_out(two)
    d = gemmd.dask.chain(blocks_of(x, 30, 40), *(blocks_of(each, 50, 20) for each in w), address=addresses_of(two))
    assert d.chunks == ((30, 30, 30, 30), (20,))
    made = d.compute()
    np.testing.assert_allclose(made, x @ w[0] @ w[1] @ w[2], rtol=1e-9, atol=1e-9)
    after = totals_of(two) - before
    assert after[:, 1].tolist() == [sum(each.nbytes for each in w)] * 2
    assert after[:, 2].sum() == x.nbytes
    assert payloads_out(two) - downloaded == made.nbytes
    assert wait_until_empty(two) == [0, 0]
    with gemmd.Client(two[0].address) as client:
        h = client.matmul(client.matmul(x, w[0]), w[1])
        assert np.array_equal(client.matmul(h, w[2]), made)


def payloads_out(servers):
    total = 0
    for each in servers:
        with gemmd.Client(each.address) as client:
            total += client.stats().payload_bytes_out
    return total


def test_graphs_at_once_share_what_is_there(two, random):
    a, b = random.standard_normal((300, 200)), random.standard_normal((200, 300))
    first, second = (
        gemmd.dask.matmul(blocks_of(a, 50, 200), blocks_of(each, 200, 100), address=two[0].address)
        for each in (b, -b)
    )
    before = totals_of(two[:1])
    one, other = dask.compute(first, second, scheduler="threads", num_workers=8)
    np.testing.assert_array_equal(one, -other)
    # Unless the one graph had ended with a block before the other came to it.
    uploaded = (totals_of(two[:1]) - before)[0, 1]
    assert a.nbytes + 2 * b.nbytes <= uploaded <= 2 * (a.nbytes + b.nbytes)
    assert wait_until_empty(two) == [0, 0]


def test_equal_matrices_that_come_at_once_go_once(two, random, monkeypatch):
    a = random.standard_normal((600, 500))
    sent = []
    upload = _transfer._upload

    def counted(server, source, ranges, *more):
        sent.append(sum(end - begin for _, begin, end in ranges))
        return upload(server, source, ranges, *more)

    monkeypatch.setattr(_transfer, "_upload", counted)
    pool = _pool.pool_of(_pool.PoolKey((two[0].address,)))
    before = totals_of(two[:1])
    with ThreadPoolExecutor(8) as threads:
        held = [_held.Held(a.copy()) for _ in range(8)]
        list(threads.map(lambda each: each.factor(pool, two[0].address), held))
    assert (totals_of(two[:1]) - before)[0].tolist() == [1, a.nbytes, 0]
    assert sum(sent) == a.nbytes  # the server counts what it keeps
    while held:
        assert totals_of(two[:1])[0, 0] == 1  # the last one takes it along
        held.pop()
        pool.flush(10)
    assert wait_until_empty(two[:1]) == [0]


def test_somebody_elses_matrices_stay(two, random):
    a, b = random.standard_normal((64, 64)), random.standard_normal((64, 64))
    with gemmd.Client(two[0].address) as client:
        unnamed, named = client.put(a), client.put(b, name="weights")
        before = totals_of(two[:1])
        # A factor of several tiles is held: a of the first product, b of the second.
        d = gemmd.dask.matmul(blocks_of(a, 64, 64), blocks_of(b, 64, 32), address=two[0].address)
        np.testing.assert_allclose(d.compute(), a @ b, rtol=1e-10, atol=1e-10)
        d = gemmd.dask.matmul(blocks_of(a, 32, 64), blocks_of(b, 64, 64), address=two[0].address)
        np.testing.assert_allclose(d.compute(), a @ b, rtol=1e-10, atol=1e-10)
        assert (totals_of(two[:1]) - before)[0, 1] == 0
        give_up = time.monotonic() + 30
        while client.resident("weights").names != ("weights",) and time.monotonic() < give_up:
            time.sleep(0.01)
        assert client.resident("weights").names == ("weights",)
        assert client.resident(unnamed.digest.hex()).names == ()
        unnamed.release()
        named.release()
    assert wait_until_empty(two) == [0, 0]


def test_what_somebody_else_releases_goes_again(two, random):
    a = random.standard_normal((64, 64))
    key = _pool.PoolKey((two[0].address,))
    tile = _tiles.Tile(key, {})
    left, right = _held.Held(a), _held.Held(a.T.copy())
    with gemmd.Client(two[0].address) as client:
        put = client.put(a)
        for _ in range(2):
            product = tile([left], [right], 0, (True, True), [])
            np.testing.assert_allclose(product, a @ a.T, rtol=1e-10, atol=1e-10)
            put.release()  # it was ours alone
        names = [each.names for each in client.residents()]
    assert len(names) == 2
    assert all(len(each) == 1 and each[0].startswith("held/") for each in names)
    del left, right
    assert wait_until_empty(two[:1]) == [0]


def test_what_has_travelled_stays_a_moment(two, random, monkeypatch):
    pool = _pool.pool_of(_pool.PoolKey((two[0].address,)))
    held, other = _held.Held(random.standard_normal((64, 64))), _held.Held(random.standard_normal((64, 64)))
    for seconds, each in ((3600, held), (0.2, other)):
        monkeypatch.setattr(_held, "_LINGER_SECONDS", seconds)
        each.factor(pool, two[0].address)
        again = pickle.loads(pickle.dumps(each))
        assert np.array_equal(again.array, each.array)
        each.let_go()
    give_up = time.monotonic() + 30
    while totals_of(two[:1])[0, 0] == 2 and time.monotonic() < give_up:
        time.sleep(0.02)
    assert totals_of(two[:1])[0, 0] == 1
    pool.flush(30)
    assert totals_of(two[:1])[0, 0] == 0


class Failure(Exception):
    pass


class Failing:
    """A function of a block, which fails for some blocks."""

    def __init__(self, probability, seed):
        self.probability = probability
        self.seed = seed

    def __call__(self, block):
        if block.size:
            of_block = int(abs(float(block.flat[0])) * 1e9)
            if np.random.default_rng([self.seed, of_block]).random() < self.probability:
                raise Failure
        return block


def random_graph(random, servers, seed):
    """A product or a chain of random shapes and chunks, some of whose blocks may fail; and what it should be."""
    m, k, n, p = random.integers(1, 90, 4)
    a, b, c = (random.standard_normal(shape) for shape in ((m, k), (k, n), (n, p)))

    def blocks(array):
        return da.from_array(array, tuple(int(random.integers(1, size + 1)) for size in array.shape))

    x = blocks(a)
    probability = random.choice([0.0, 0.1])
    x = x.map_blocks(Failing(probability, seed), dtype=x.dtype)
    address = addresses_of(servers[: random.integers(1, 3)])
    if random.random() < 0.5:
        return gemmd.dask.matmul(x, blocks(b), address=address), a @ b
    return gemmd.dask.chain(x, blocks(b), blocks(c), address=address), a @ b @ c


def test_random_graphs_with_random_failures_leave_nothing(two, random, monkeypatch):
    monkeypatch.setattr(gemmd.dask, "_PANEL_BYTES", 8 << 10)
    right = failed = 0
    for seed in range(60):
        d, wanted = random_graph(random, two, seed)
        try:
            made = d.compute(scheduler=random.choice(["threads", "sync"]), num_workers=4)
        except Failure:
            failed += 1
        else:
            np.testing.assert_allclose(made, wanted, atol=1e-9)
            right += 1
    assert right >= 10
    assert failed >= 10
    gc.collect()  # dask's frames refer to the error, which refers to them
    assert wait_until_empty(two) == [0, 0]


def test_a_refusal_ends_the_graph_and_leaves_nothing(two, random):
    a = random.standard_normal((90, 90))
    d = gemmd.dask.matmul(blocks_of(a, 30, 30), blocks_of(a, 30, 30), address=addresses_of(two), kernel="imagined")
    with pytest.raises(gemmd.FailedPrecondition, match="imagined"):
        d.compute()
    gc.collect()
    assert wait_until_empty(two) == [0, 0]


def test_a_full_store_has_factors_go_along(own_two, random):
    a = random.standard_normal((600, 500))
    with gemmd.Client(own_two[0].address) as client:
        full = [
            client.put(random.standard_normal((1000, 1024)), lease=3600) for _ in range(6)
        ]  # 47 of the 51 MiB of a tenant
        d = gemmd.dask.matmul(blocks_of(a, 200, 250), blocks_of(a.T, 500, 200), address=own_two[0].address)
        big = gemmd.dask.matmul(
            blocks_of(np.tile(a, (8, 1)), 1600, 500), blocks_of(np.tile(a.T, (1, 8)), 500, 1600),
            address=own_two[0].address,
        )  # fmt: skip
        np.testing.assert_allclose(d.compute(), a @ a.T, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(big.compute(), np.tile(a @ a.T, (8, 8)), rtol=1e-10, atol=1e-10)
        assert client.stats().payload_bytes_in > 0
        for each in full:
            each.release()
    assert wait_until_empty(own_two) == [0, 0]


def test_a_server_that_is_killed_costs_no_product(own_two, random):
    a, b = random.standard_normal((400, 300)), random.standard_normal((300, 400))
    x = blocks_of(a, 25, 300)
    killed = threading.Event()

    def kill(block):
        if not killed.is_set():
            killed.set()
            own_two[1].kill()
        return block

    # The last rows are made after it is gone, those before may have used it.
    x = da.concatenate([x[:200], x[200:].map_blocks(kill, dtype=x.dtype)])
    d = gemmd.dask.matmul(x, blocks_of(b, 300, 50), address=addresses_of(own_two))
    np.testing.assert_allclose(d.compute(scheduler="threads", num_workers=2), a @ b, rtol=1e-10, atol=1e-10)
    assert killed.is_set()
    assert wait_until_empty(own_two[:1]) == [0]


def test_a_server_that_lost_all_gets_it_again(own_two, random):
    a, b = random.standard_normal((200, 300)), random.standard_normal((300, 400))
    restarted = threading.Event()

    def restart(block):
        if not restarted.is_set():
            restarted.set()
            own_two[0].kill()
            own_two[0].start()
        return block

    x = blocks_of(a, 25, 300)
    x = da.concatenate([x[:100], x[100:].map_blocks(restart, dtype=x.dtype)])
    d = gemmd.dask.matmul(x, blocks_of(b, 300, 50), address=own_two[0].address)
    np.testing.assert_allclose(d.compute(scheduler="sync"), a @ b, rtol=1e-10, atol=1e-10)
    assert restarted.is_set()
    assert wait_until_empty(own_two[:1]) == [0]


def test_a_server_that_failed_is_left_out(two):
    away = "127.0.0.1:1"
    pool = _pool.pool_of(_pool.PoolKey((two[0].address, away)))
    assert pool.order(1) == [away, two[0].address]
    with pytest.raises(gemmd.Unavailable):
        pool.attempt(away, pool.at(away).info)
    assert pool.order(1) == [two[0].address]
    assert pool.run(1, lambda server: server, lambda _: "inline") == two[0].address


def test_where_no_server_answers_the_error_says_so(random):
    a = da.ones((8, 8), chunks=4)
    with pytest.raises(gemmd.Unavailable):
        gemmd.dask.matmul(a, a, address="127.0.0.1:1").compute()


def test_empty_and_unknown_blocks(two, random):
    address = addresses_of(two)
    empty = gemmd.dask.matmul(da.ones((0, 5)), da.ones((5, 3)), address=address)
    assert empty.compute().shape == (0, 3)
    assert not gemmd.dask.matmul(da.ones((3, 0)), da.ones((0, 4)), address=address).compute().any()
    a, b = random.standard_normal((40, 30)), random.standard_normal((30, 40))
    rows = blocks_of(a, 10, 10)
    some = rows[rows[:, 0] > 0]  # dask does not know how many
    wanted = a[a[:, 0] > 0] @ b
    np.testing.assert_allclose(gemmd.dask.matmul(some, blocks_of(b, 10, 20), address=address).compute(), wanted)
    assert wait_until_empty(two) == [0, 0]


def test_grids_send_the_least():
    grid_of = _tiles.grid_of
    assert grid_of((4, 4), 2, (1, 1))[:2] == (1, 2)  # a to both, b dealt out
    assert grid_of((4, 4), 2, (9, 1))[:2] == (2, 1)  # the larger one is dealt out
    assert grid_of((4, 4), 4, (1, 1))[:2] == (2, 2)
    assert grid_of((1, 4), 4, (9, 1))[:2] == (1, 4)
    assert grid_of((1, 1), 3, (1, 1))[:2] == (1, 1)
    assert grid_of((8, 8), 6, (float("nan"), 1))[:2] in ((1, 6), (2, 3), (3, 2), (6, 1))
    for count in (1, 2, 3, 4, 6):
        grid = grid_of((8, 8), count, (1, 1), shift=5)
        homes = [grid.home(i, j) % count for i in range(8) for j in range(8)]
        assert set(homes) == set(range(count))
        assert max(map(homes.count, homes)) <= 64 // count + 8


def test_processes_are_right_and_leave_nothing(two, random):
    a, b = random.standard_normal((200, 300)), random.standard_normal((300, 200))
    d = gemmd.dask.matmul(blocks_of(a, 100, 100), blocks_of(b, 100, 100), address=addresses_of(two))
    np.testing.assert_allclose(d.compute(scheduler="processes", num_workers=2), a @ b, rtol=1e-10, atol=1e-10)
    assert wait_until_empty(two) == [0, 0]


def test_arrays_of_expressions_are_right(two):
    script = """
import sys
import dask
dask.config.set({"array.query-planning": True})
import numpy as np
import dask.array as da
import gemmd.dask
a = np.random.default_rng(1).standard_normal((60, 60))
x = da.from_array(a, 20)
np.testing.assert_allclose(gemmd.dask.matmul(x, x, address=sys.argv[1]).compute(), a @ a, atol=1e-10)
np.testing.assert_allclose(gemmd.dask.chain(x, x, x, address=sys.argv[1]).compute(), a @ a @ a, atol=1e-9)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, ",".join(addresses_of(two))],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_what_is_held_at_exit_is_released(two):
    script = """
import sys
import numpy as np
from gemmd._held import Held
from gemmd._pool import PoolKey, pool_of
pool = pool_of(PoolKey((sys.argv[1],)))
held = Held(np.ones((300, 300)))
print(held.factor(pool, sys.argv[1]).names[0], len(pool.every.residents()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, two[0].address], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    name, count = done.stdout.split()
    assert name.startswith("held/")
    assert int(count) == 1
    assert totals_of(two)[:, 0].tolist() == [0, 0]


@contextlib.contextmanager
def cluster(workers, threads):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, dashboard_address=None, processes=workers > 1
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


def test_distributed_sends_each_block_once_and_leaves_nothing(two, random):
    a, b = random.standard_normal((800, 600)), random.standard_normal((600, 800))
    with cluster(1, 2):
        before = totals_of(two)
        d = gemmd.dask.matmul(blocks_of(a, 200, 200), blocks_of(b, 200, 200), address=addresses_of(two))
        np.testing.assert_allclose(d.compute(), a @ b, rtol=1e-10, atol=1e-10)
        assert (totals_of(two) - before)[:, 1].tolist() == [a.nbytes + b.nbytes // 2] * 2
        assert wait_until_empty(two) == [0, 0]


def test_distributed_processes_fail_and_are_cancelled_and_leave_nothing(two, random):
    a, b = random.standard_normal((800, 600)), random.standard_normal((600, 800))
    with cluster(2, 2) as client:
        x, y = blocks_of(a, 200, 200), blocks_of(b, 200, 200)
        before = totals_of(two)
        d = gemmd.dask.matmul(x, y, address=addresses_of(two))
        np.testing.assert_allclose(d.compute(), a @ b, rtol=1e-10, atol=1e-10)
        uploaded = (totals_of(two) - before)[:, 1]
        once = a.nbytes + b.nbytes // 2
        assert uploaded.tolist() == [once, once]
        bad = x.map_blocks(Failing(0.2, 1), dtype=x.dtype)
        for _ in range(3):
            with contextlib.suppress(Failure):
                gemmd.dask.matmul(bad, y, address=addresses_of(two)).compute()
        future = client.compute(d)
        future.cancel()
        del future
        assert wait_until_empty(two) == [0, 0]


class Killing:
    """A function of a block, whose first call kills its process."""

    def __init__(self, flag):
        self.flag = flag

    def __call__(self, block):
        with contextlib.suppress(FileExistsError):
            self.flag.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return block


def test_a_worker_that_is_killed_costs_no_product(two, random, tmp_path):
    a, b = random.standard_normal((800, 600)), random.standard_normal((600, 800))
    x = blocks_of(a, 100, 600)
    # The last rows are made after it was killed, those before may be on the servers by then.
    x = da.concatenate([x[:400], x[400:].map_blocks(Killing(tmp_path / "killed"), dtype=x.dtype, meta=x._meta)])
    with cluster(2, 1):
        d = gemmd.dask.matmul(x, blocks_of(b, 600, 100), address=addresses_of(two))
        np.testing.assert_allclose(d.compute(), a @ b, rtol=1e-10, atol=1e-10)
    assert (tmp_path / "killed").exists()
    with gemmd.Client(addresses_of(two)) as client:
        client.release(pattern="held/*")  # of the one that was killed
    assert wait_until_empty(two) == [0, 0]
