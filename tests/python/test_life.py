"""What goes on while servers die, processes fork, threads crowd and users lose patience."""

import asyncio
import concurrent.futures
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gemmd
import gemmd.aio
from gemmd._planes import of_array

PATIENT = gemmd.RetryPolicy(max_attempts=100, initial_backoff=0.02, max_backoff=0.2)


def run(script, *arguments, timeout=120):
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_killed_servers_that_come_back_are_no_error(own_server, random):
    a, b = random.standard_normal((64, 64)), random.standard_normal((64, 64))
    big = random.standard_normal((1200, 700)).astype("f4")
    wanted, wanted_big = a @ b, None
    done = threading.Event()
    failures = []
    counts = [0, 0, 0]

    with gemmd.Client(own_server.address, retry=PATIENT) as client:
        w = client.put(b)
        wanted_big = np.array(client.matmul(big, big.T))

        def work(which):
            try:
                while not done.is_set():
                    if which == 0:
                        np.testing.assert_allclose(client.matmul(a, b), wanted, rtol=1e-11)
                    elif which == 1:
                        np.testing.assert_allclose(client.matmul(a, w), wanted, rtol=1e-11)
                    else:
                        assert np.array_equal(client.matmul(big, big.T), wanted_big)
                    counts[which] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(each,)) for each in range(3)]
        for each in threads:
            each.start()
        for _ in range(4):
            before = list(counts)
            while not failures and any(new < old + 1 for new, old in zip(counts, before, strict=True)):
                time.sleep(0.001)
            own_server.kill()
            own_server.start()
        done.set()
        for each in threads:
            each.join(60)
    assert failures == []


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_what_is_in_flight_when_the_server_drains_arrives(own_server, channels):
    a = np.ones((2000, 2000), "f4")
    once = gemmd.RetryPolicy(max_attempts=1)
    with gemmd.Client(own_server.address, transport="stream", channels=channels, retry=once) as client:
        pending = [client.submit(a, a) for _ in range(3)]
        while client.stats().in_flight_requests < 3 and not any(each.done() for each in pending):
            time.sleep(0.001)
        own_server.process.terminate()
        for each in pending:
            assert each.result(60)[0, 0] == 2000
            assert each.result().receipt.sent.channels == channels
        assert own_server.process.wait(60) == 0
        own_server.start()
        assert client.matmul(a[:2], a).shape == (2, 2000)


def test_a_receipt_says_over_how_many_connections_it_went(server):
    a = np.ones((100, 100), "f4")
    with gemmd.Client(server.address, transport="stream", channels=4, library=False) as client:
        assert client.matmul(a, a).receipt.sent.channels == 4
        client._engine.servers.only.sessions._is_single = True  # as after a refusal
        assert client.matmul(a, a).receipt.sent.channels == 1


def test_an_upload_that_another_server_takes_is_sent_whole(client, random, monkeypatch):
    from gemmd import _transfer

    asked = []

    def missing(engine, server, source, end):
        asked.append(source)
        return []  # another server has it

    monkeypatch.setattr(_transfer, "_missing", missing)
    x = random.standard_normal((50, 40))
    with client.put(x) as resident:
        assert np.array_equal(resident.numpy(), x)
    assert len(asked) == 1


def test_64_threads(client, random):
    a = random.standard_normal((64, 48, 32))
    b = random.standard_normal((64, 32, 40))
    wanted = a @ b

    def work(index):
        for _ in range(20):
            np.testing.assert_allclose(client.matmul(a[index], b[index]), wanted[index], rtol=1e-11)
        return index

    with ThreadPoolExecutor(64) as threads:
        assert sorted(threads.map(work, range(64))) == list(range(64))


def test_statistics_count_launches_by_form(client):
    a = np.ones((16, 16), "f4")
    before = client.stats().queues
    for _ in range(3):
        client.matmul(a, a)
    (queue,), (old,) = client.stats().queues, before
    assert queue.device == "cpu"
    forms = ("alone", "rows", "group", "slices")
    served = [(getattr(queue, form).requests - getattr(old, form).requests) for form in forms]
    assert served == [3, 0, 0, 0]
    assert queue.alone.launches - old.alone.launches == 3


def test_a_future_waits_no_longer_than_it_is_told(client):
    a = np.ones((2700, 2700), "f4")
    pending = client.submit(a, a)
    with pytest.raises(concurrent.futures.TimeoutError):
        pending.result(timeout=0)
    assert pending.result()[0, 0] == 2700
    assert pending.exception() is None
    assert concurrent.futures.wait([client.submit(a[:2], a) for _ in range(3)], 60).not_done == set()
    for each in concurrent.futures.as_completed([client.submit(a[:2], a) for _ in range(3)], 60):
        assert each.result(60).shape == (2, 2700)


def test_futures_and_large_products_mixed(client, random):
    small = random.standard_normal((40, 30))
    large = random.standard_normal((900, 800))
    pending = [client.submit(*((large, large.T) if i % 8 == 0 else (small, small.T))) for i in range(64)]
    for i, each in enumerate(pending):
        x = large if i % 8 == 0 else small
        np.testing.assert_allclose(each.result(60), x @ x.T, atol=1e-9)


def test_resident_memory_is_flat(client):
    a, b = np.ones((16, 64), "f4"), np.ones((64, 16), "f4")
    page = resource.getpagesize()

    def rss():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * page

    def products(count):
        for _ in range(count // 100):
            client.matmul(a, b)
            for each in [client.submit(a, b) for _ in range(99)]:
                each.result()

    products(2000)
    before = rss()
    products(10000)
    assert rss() - before < 8 << 20


def child_multiplies(client, queue):
    try:
        client.matmul(np.ones((2, 2)), np.ones((2, 2)))
        queue.put("multiplied")
    except BaseException as error:
        queue.put(type(error).__name__)
    client.close()


def test_a_forked_child_is_told(client):
    a = np.ones((1000, 1000))
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        pending = [client.submit(a, a) for _ in range(3)] + [client.submit(a[:3], a) for _ in range(5)]
        queue = context.SimpleQueue()
        child = context.Process(target=child_multiplies, args=(client, queue))
        child.start()
        child.join(30)
        assert (child.exitcode, queue.empty()) == (0, False)
        assert queue.get() == "ForkedError"
        for each in pending:
            assert each.result(60)[0, 0] == 1000


FORKED = """
import os, sys
import numpy as np
import gemmd

a = np.ones((3, 3))
client = gemmd.Client(sys.argv[1])
client.matmul(a, a)
child = os.fork()
if child == 0:
    try:
        gemmd.Client(sys.argv[1])
    except gemmd.ForkedError:
        sys.exit(7)  # an ordinary exit, with all that Python runs then
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), client.matmul(a, a)[0, 0])
"""


def test_a_forked_child_ends_in_an_orderly_way(server):
    done = run(FORKED, server.address)
    assert done.stdout == "7 3.0\n", done.stderr


FRESH = """
import os, sys
import numpy as np
import gemmd
a = np.ones((3, 3))
if os.fork() == 0:
    with gemmd.Client(sys.argv[1]) as client:
        client.matmul(a, a)
    os._exit(0)
_, status = os.wait()
with gemmd.Client(sys.argv[1]) as client:
    print(status, client.matmul(a, a)[0, 0])
"""


def test_a_child_forked_before_the_first_client_has_its_own(server):
    done = run(FRESH, server.address)
    assert done.stdout == "0 3.0\n", done.stderr


INTERRUPTED = """
import signal, sys
import numpy as np
import gemmd
a = np.ones((2700, 2700), "f4")
with gemmd.Client(sys.argv[1], transport=sys.argv[2]) as client:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    client.matmul(a[:2], a[:, :2])
    print("begun", flush=True)
    while True:
        try:
            while True:
                client.matmul(a, a)
        except KeyboardInterrupt:
            print("interrupted", client.matmul(a[:2], a[:, :2])[0, 0], flush=True)
            if sys.stdin.readline() == "end\\n":
                break
"""


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_ctrl_c_cancels_here_and_on_the_server(own_server, transport):
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, own_server.address, transport],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "begun\n"
    give_up = time.monotonic() + 60
    with gemmd.Client(own_server.address) as client:
        cancelled = 0
        while not cancelled:  # a product that ended first is no failure: the child tries another
            assert time.monotonic() < give_up
            while client.stats().in_flight_requests < 1:
                assert child.poll() is None
                time.sleep(0.001)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted 2700.0\n"
            while (stats := client.stats()).in_flight_requests > 0:
                time.sleep(0.001)
            cancelled = stats.finished_requests.get("CANCELLED", 0)
            child.stdin.write("end\n" if cancelled else "again\n")
            child.stdin.flush()
    assert child.wait(60) == 0


def ends(work):
    """Whether it does, though whoever it waits for may never wake it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_signal_raises_leaves_no_lock_taken(server, number, monkeypatch):
    def raises(number, frame):
        raise KeyboardInterrupt

    taken, take = [], threading.Condition.__enter__

    def signalled(condition):  # where a KeyboardInterrupt would leave the condition taken
        found = take(condition)
        if threading.get_ident() == threading.main_thread().ident:  # current_thread() may take a condition
            taken.append(condition)
            signal.raise_signal(number)
        return found

    a = np.ones((8, 8))
    before = signal.signal(number, raises)
    try:
        client = gemmd.Client(server.address, library=False)
        client.matmul(a, a)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Condition, "__enter__", signalled)
            with pytest.raises(KeyboardInterrupt):
                client.matmul(a, a)
        assert taken
        assert ends(lambda: client.matmul(a, a))
        assert ends(client.close)
    finally:
        signal.signal(number, before)


def test_a_signal_that_raises_nothing_ends_no_product(client):
    came = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        a = np.ones((1500, 1500))
        timer = threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGTERM))
        timer.start()
        assert client.matmul(a, a)[0, 0] == 1500
        timer.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == [signal.SIGTERM]


def test_a_small_product_starts_no_thread(client, random, monkeypatch):
    a = random.standard_normal((8, 8))
    client.matmul(a, a)
    started, start = [], threading.Thread.start

    def counted(thread):
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    for _ in range(5):
        client.matmul(a, a)
    assert started == []


def test_close_ends_the_one_call_of_another_thread(own_server):
    a = np.ones((1500, 1500))
    with gemmd.Client(own_server.address) as watching:
        for _ in range(20):  # until it is closed before the product is here
            client = gemmd.Client(own_server.address, transport="unary")
            with ThreadPoolExecutor(1) as pool:
                product = pool.submit(client.matmul, a, a)
                while watching.stats().in_flight_requests < 1 and not product.done():
                    time.sleep(0.001)
                client.close()
                error = product.exception(60)
            if error is not None:
                break
    assert isinstance(error, gemmd.errors.Cancelled)
    assert "the client was closed" in str(error)


LEFT_OPEN = """
import sys
import numpy as np
import gemmd
a = np.ones((600, 600))
client = gemmd.Client(sys.argv[1])
shared = client.shared((600, 600), "f8")
gemmd.matmul(a, a)
w = client.put(a)
pending = [client.submit(a, w) for _ in range(20)]
print(client.matmul(shared, a).shape)
"""


def test_a_program_that_closes_nothing_ends(server):
    os.environ["GEMMD_SERVER"] = server.address
    try:
        done = run(LEFT_OPEN, server.address)
    finally:
        del os.environ["GEMMD_SERVER"]
    assert (done.returncode, done.stdout, done.stderr) == (0, "(600, 600)\n", "")


def test_aio_many_under_way(server, random):
    x, w = random.standard_normal((300, 1, 64)), random.standard_normal((64, 32))

    async def main():
        async with gemmd.aio.Client(server.address) as client:
            resident = await client.put(w)
            found = await asyncio.gather(*(client.matmul(each, resident) for each in x))
            np.testing.assert_allclose(np.stack(found), x @ w, rtol=1e-11)
            layer = await client.linear(w, activation="relu")
            np.testing.assert_allclose(await layer(x[0]), np.maximum(x[0] @ w, 0), atol=1e-12)
            assert np.array_equal(await client.numpy(resident), w)
            tasks = [client.submit(each, resident) for each in x[:3]]
            for each, task in zip(x, tasks, strict=False):
                np.testing.assert_allclose(await task, each @ w, rtol=1e-11)
            assert resident.handle in [each.handle for each in await client.residents()]
            again = await client.resident(resident.digest.hex())
            assert np.array_equal(await client.numpy(again), w)
            large = random.standard_normal((900, 800))
            np.testing.assert_allclose(await client.matmul(large, large.T), large @ large.T, atol=1e-9)
            with pytest.raises(gemmd.FailedPrecondition):
                await client.matmul(x[0], w, kernel="no/such")
            assert (await client.info()).version
            assert (await client.estimate(large, large.T)).total_us > 0
            await client.release(resident)

    asyncio.run(main())


def test_aio_cancellation_reaches_the_server(own_server):
    a = np.ones((2700, 2700), "f4")

    async def main():
        async with gemmd.aio.Client(own_server.address, transport="stream") as client:
            give_up = time.monotonic() + 60
            # A quick server may be done first; then another is cancelled.
            while not (await client.stats()).finished_requests.get("CANCELLED"):
                assert time.monotonic() < give_up
                task = asyncio.create_task(client.matmul(a, a))
                while (await client.stats()).in_flight_requests < 1 and not task.done():
                    await asyncio.sleep(0.001)
                if task.cancel():
                    with pytest.raises(asyncio.CancelledError):
                        await task
                while (await client.stats()).in_flight_requests > 0:
                    await asyncio.sleep(0.001)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.matmul(a, a), 0.001)
            assert (await client.matmul(a[:2], a[:, :2])).shape == (2, 2)

    asyncio.run(main())


def test_the_receipt_is_read_by_people(client, random):
    a = random.standard_normal((30, 20))
    receipt = client.matmul(a, a.T, verify=3).receipt
    text = str(receipt)
    for word in ("kernel", "numerics", "compute", "network and wire", "unattributed", "GFLOP/s", "residual"):
        assert word in text
    assert receipt.result == "30 x 30 f64 row-major"
    assert receipt.verification_residual < 1
    total = sum(each.exposed_us for each in receipt.stages) + receipt.unattributed_us
    assert total == pytest.approx(receipt.total_us)
    page = receipt._repr_html_()
    assert page.count("<tr>") == page.count("</tr>") > 10
    assert "width:" in page


def test_info_estimate_and_statistics(client):
    info = client.info()
    assert info.devices[0].name == "cpu"
    assert info.limits.message_bytes > 0
    estimate = client.estimate(np.ones((100, 100)), np.ones((100, 100)), caller_gflops=0.001)
    assert estimate.offload_is_faster
    assert estimate.flops == 2e6
    before = client.stats()
    client.matmul(np.ones((2, 2)), np.ones((2, 2)))
    after = client.stats()
    assert after.finished_requests["OK"] == before.finished_requests.get("OK", 0) + 1
    assert after.flops - before.flops == 16
    with pytest.raises(gemmd.errors.Error):
        client.matmul(np.ones((2, 2)), np.ones((2, 2)), kernel="none")
    refused = client.stats().refused_requests
    assert refused["no_kernel"] == after.refused_requests.get("no_kernel", 0) + 1


def failing_calls(client, other):
    """Calls that end in an error, by the way that they take."""
    small, big = np.ones((4, 4)), np.ones((1500, 1500))
    gone = gemmd.Resident(client._engine, of_array(small, is_packed=True).spec(), "", b"k" * 32)
    server = client.servers()[0].address
    return {
        "get": lambda: client.resident("absent"),
        "unary": lambda: client.matmul(small, small, kernel="imagined"),
        "stream": lambda: client.matmul(big, big, kernel="imagined"),
        "refill": lambda: client.matmul(small, gone),
        "download": gone.numpy,
        "name": lambda: gone.set_name("x"),
        "submit": lambda: client.submit(small, small, kernel="imagined").result(),
        "estimate": lambda: client.estimate(small, small, kernel="imagined", server=server),
        "deadline": lambda: client.matmul(big, big, deadline=1e-3),
        "upload's deadline": lambda: client.put(big, deadline=5e-3),
        "unreachable": lambda: other.matmul(small, small),
        "unreachable upload": lambda: other.put(small),
    }


class Canary:
    """What a caller has beside the call."""


def canary_of(call):
    """A weak reference to what lived in the frame of a caller whose call failed."""
    canary = Canary()
    found = weakref.ref(canary)
    with pytest.raises(gemmd.Error):
        call()
    return found


def is_freed(reference):
    """Whether it goes without a garbage collection; threads may still use it for a moment."""
    give_up = time.monotonic() + 10
    while reference() is not None and time.monotonic() < give_up:
        time.sleep(0.01)
    return reference() is None


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_an_error_keeps_nothing_of_its_caller(server, count, library):
    addresses = [server.address, "127.0.0.1:1"][:count]
    quick = gemmd.RetryPolicy(max_attempts=2)
    with gemmd.Client(addresses, library=library, retry=quick) as client:
        with gemmd.Client("127.0.0.1:1", library=library, retry=quick) as other:
            calls = failing_calls(client, other)
            gc.collect()
            gc.disable()
            try:
                assert [name for name, call in calls.items() if not is_freed(canary_of(call))] == []
            finally:
                gc.enable()


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_a_product_that_ended_keeps_no_array(server, transport):
    with gemmd.Client(server.address, transport=transport) as client:
        gc.collect()
        gc.disable()
        try:
            for multiply in (client.matmul, lambda x, y: client.submit(x, y).result()):
                a = np.ones((700, 700))
                found = weakref.ref(a)
                multiply(a, a)
                del a
                assert is_freed(found)
        finally:
            gc.enable()
