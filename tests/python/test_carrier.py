"""Products that libgemmd carries: the same bits, errors and ends as by gRPC's Python."""

import random as std_random
import subprocess
import sys
import threading
import time
from concurrent import futures

import grpc
import ml_dtypes
import numpy as np
import pytest

import gemmd
from gemmd import _carrier
from gemmd._address import Address
from gemmd._channel import Link


@pytest.fixture(scope="module")
def ways(server):
    """Clients of one server, by gRPC's Python and by the library."""
    with (
        gemmd.Client(server.address, library=False) as plain,
        gemmd.Client(server.address, library=True) as carried,
    ):
        yield plain, carried


def same(ways, *arguments, **asked):
    plain, carried = (each.matmul(*arguments, **asked) for each in ways)
    assert plain.receipt.numerics_id == carried.receipt.numerics_id
    assert (plain.receipt.sent.by_library, carried.receipt.sent.by_library) == (False, True)
    assert (plain.dtype, plain.shape) == (carried.dtype, carried.shape)
    assert plain.tobytes() == carried.tobytes()
    return carried


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ml_dtypes.bfloat16, "i1", ml_dtypes.float8_e4m3fn])
def test_bits_of_every_type(ways, random, dtype):
    a, b = ((9 * random.standard_normal(shape)).astype(dtype) for shape in ((37, 70), (70, 21)))
    same(ways, a, b)
    same(ways, a.T.copy().T, b)
    same(ways, a.T.copy(), b, transpose_a=True)


def test_bits_of_what_is_asked_with_them(ways, random):
    a, b = random.standard_normal((40, 30)), random.standard_normal((30, 20))
    c, bias = random.standard_normal((40, 20)), random.standard_normal(20)
    same(ways, a, b, alpha=2, beta=-1, c=c, bias=bias)
    same(ways, a, b, bias=bias, activation="gelu_tanh", verify=0, priority="high", determinism="fast")
    assert same(ways, a, b, verify=3).receipt.verification_residual <= 1
    same(ways, np.stack([a, 2 * a]), b)
    assert same(ways, np.stack([a, a]), np.stack([b, 3 * b])).receipt.products == 2
    same(ways, a.astype("f4"), gemmd.Quantized.of(b, "int4-g16-f16-offset", axis=1))
    same(ways, gemmd.Quantized.of(a, "nvfp4", axis=0), gemmd.Quantized.of(b, "mxfp8-e4m3", axis=1))
    traced = same(ways, a, b, traceparent=f"00-{1:032x}-{2:016x}-01", tracestate="a=b")
    assert traced.receipt.kernel


@pytest.mark.parametrize("transport", ["auto", "unary", "stream"])
@pytest.mark.parametrize("size", [5, 700, 1500])
def test_sizes_and_transports(server, random, transport, size):
    a = random.standard_normal((size, size))
    with gemmd.Client(server.address, library=True, transport=transport) as client:
        d = client.matmul(a, a)
        np.testing.assert_allclose(d, a @ a, rtol=1e-9, atol=1e-9)
        assert transport in ("auto", d.receipt.sent.transport)
        assert "by libgemmd" in str(d.receipt)


def test_many_connections(server, random):
    a = random.standard_normal((500, 700))
    with gemmd.Client(server.address, library=True, transport="stream", channels=3, chunk_bytes=5000) as client:
        sent = client.matmul(a, a.T).receipt.sent
    assert (sent.channels, sent.chunk_bytes, sent.by_library) == (3, 5000, True)


def test_out_in_either_order_and_of_an_operand(ways, random):
    a = random.standard_normal((30, 30))
    for order in "CF":
        out = np.empty((30, 30), order=order)
        assert ways[1].matmul(a, a, out=out).base is not None
        np.testing.assert_allclose(out, a @ a, rtol=1e-12, atol=1e-12)
    wanted = a @ a
    ways[1].matmul(a, a, out=a)
    np.testing.assert_allclose(a, wanted, rtol=1e-12, atol=1e-12)


def test_matrices_that_stay_and_shared_memory(server, random):
    a, b = random.standard_normal((30, 40)), random.standard_normal((40, 20))
    with gemmd.Client(server.address, library=True) as client:
        kept = client.matmul(a, client.put(b), keep=True)
        np.testing.assert_allclose(kept.numpy(), a @ b, rtol=1e-12)
        shared, d = client.shared(a.shape, "f8"), client.shared((30, 20), "f8")
        shared[:] = a
        assert client.matmul(shared, b, out=d).receipt.shared_bytes_out == d.nbytes
        np.testing.assert_allclose(d, a @ b, rtol=1e-12)


def test_errors_say_the_same(ways):
    a = np.ones((3, 4))

    def error_of(client, **asked):
        with pytest.raises(gemmd.Error) as caught:
            client.matmul(a, a.T, **asked)
        error = caught.value
        return type(error), str(error), error.field, error.limit, error.retry_after

    for asked in ({"kernel": "none"}, {"verify": 65}):
        plain, carried = (error_of(client, **asked) for client in ways)
        assert plain == carried
    with pytest.raises(gemmd.DeadlineExceeded):
        ways[1].matmul(np.ones((3000, 3000)), np.ones((3000, 3000)), deadline=0.001)


def test_a_server_that_lost_its_matrices_gets_them_again(own_server, random):
    a, b = random.standard_normal((3, 40)), random.standard_normal((40, 20))
    with gemmd.Client(own_server.address, library=True) as client:
        w = client.put(b)
        own_server.kill()
        own_server.start()
        np.testing.assert_allclose(client.matmul(a, w), a @ b, rtol=1e-12)


def test_no_server_is_told_and_tried_again(caplog):
    policy = gemmd.RetryPolicy(max_attempts=3, initial_backoff=0.001)
    with (
        gemmd.Client("127.0.0.1:1", library=True, retry=policy) as client,
        pytest.raises(gemmd.Unavailable) as told,
    ):
        client.matmul(np.ones((2, 2)), np.ones((2, 2)))
    assert told.value.is_unreachable
    assert "127.0.0.1:1 does not answer" in caplog.text


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize(("pushback", "attempts", "after"), [("-1", 1, None), ("1", 3, 0.001), (None, 3, None)])
def test_what_a_server_says_about_trying_again(library, pushback, attempts, after):
    asked = []

    def refuse(request, context):
        asked.append(len(request))
        if pushback is not None:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

    handlers = {"Matmul": grpc.unary_unary_rpc_method_handler(refuse)}
    refusing = grpc.server(futures.ThreadPoolExecutor(1))
    refusing.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("gemmd.v1.Gemm", handlers),))
    port = refusing.add_insecure_port("127.0.0.1:0")
    refusing.start()
    policy = gemmd.RetryPolicy(max_attempts=3, initial_backoff=0.001)
    try:
        with gemmd.Client(f"127.0.0.1:{port}", library=library, retry=policy) as client:
            with pytest.raises(gemmd.Unavailable) as told:
                client.matmul(np.ones((2, 2)), np.ones((2, 2)))
    finally:
        refusing.stop(0)
    assert (len(asked), told.value.retry_after, str(told.value)) == (attempts, after, "not now")


def test_cancelled_products_reach_the_server(own_server):
    a = np.ones((2500, 2500))
    with gemmd.Client(own_server.address, library=True) as client:
        while client.stats().finished_requests.get("CANCELLED", 0) == 0:
            pending = client.submit(a, a)
            while client.stats().in_flight_requests < 1 and not pending.done():
                time.sleep(0.001)
            pending.cancel()
            while client.stats().in_flight_requests > 0:
                time.sleep(0.001)


def test_closing_ends_what_is_under_way_and_a_callback_may_close(server):
    a = np.ones((2000, 2000))
    client = gemmd.Client(server.address, library=True)
    pending = [client.submit(a, a) for _ in range(5)]
    client.close()
    for each in pending:
        assert each.exception(60) is None or isinstance(each.exception(), gemmd.errors.Cancelled)
    with pytest.raises(gemmd.errors.ClosedError):
        client.matmul(a, a)

    client, closed = gemmd.Client(server.address, library=True), threading.Event()
    client.submit(a[:2], a).add_done_callback(lambda _: (client.close(), closed.set()))
    assert closed.wait(60)


class FakeLibrary:
    """Clients by number, and how many attempts each has; freeing one that has any would cancel them."""

    def __init__(self):
        self.clients = 0
        self.users = {}
        self.freed = []
        self.is_closing = False

    def gemmd_version(self):
        return b"1.2.3"

    def call(self, name, *arguments):
        if name == "gemmd_client_new":
            self.clients += 1
            arguments[1]._obj.value = self.clients
        else:
            assert name == "gemmd_client_free"
            assert self.is_closing or self.users.get(arguments[0].value, 0) == 0
            self.freed.append(arguments[0].value)


class FakeAttempt:
    """Ends when it is told to, perhaps while it begins."""

    def __init__(self, library, is_short):
        self.library, self.is_short, self.end = library, is_short, None

    def begin(self, handle, on_end):
        users = self.library.users
        assert handle.value not in self.library.freed
        users[handle.value] = users.get(handle.value, 0) + 1

        def end():
            users[handle.value] -= 1
            on_end()

        self.end = end
        if self.is_short == "fails":
            users[handle.value] -= 1
            raise gemmd.errors.InvalidArgument("no")
        if self.is_short == "ends":
            end()


def test_random_histories_free_each_client_once_and_none_in_use(monkeypatch):
    monkeypatch.setattr(_carrier._thread, "start_new_thread", lambda function, arguments: later.append(arguments))
    dice = std_random.Random(1)
    for _ in range(300):
        library, later, open_ones = FakeLibrary(), [], []
        carrier = _carrier.Carrier(library, Link(Address("127.0.0.1:1"), None, None, None, False))
        for _ in range(dice.randrange(60)):
            step = dice.choice(("begin", "begin", "begin", "end", "end", "leave", "free"))
            if step == "begin":
                attempt = FakeAttempt(library, dice.choice((None, None, "ends", "fails")))
                try:
                    carrier.begin(attempt)
                except gemmd.errors.InvalidArgument:
                    continue
                if attempt.is_short is None:
                    open_ones.append(attempt)
            elif step == "end" and open_ones:
                open_ones.pop(dice.randrange(len(open_ones))).end()
            elif step == "leave":
                carrier.leave()
            elif step == "free" and later:
                carrier._free(*later.pop(0))
        assert library.clients - len(library.freed) - len(later) == 1 + len(carrier._left)
        library.is_closing = True
        carrier.close()
        with pytest.raises(gemmd.errors.Cancelled):
            carrier.begin(FakeAttempt(library, None))
        carrier.leave()  # after its end too
        for each in open_ones:
            each.end()
        for each in later:
            carrier._free(*each)
        assert sorted(library.freed) == list(range(1, library.clients + 1))


BESIDE = """
import _ctypes, ctypes, os, sys
order = sys.argv[2]
if order == "library first":
    loaded = ctypes.CDLL(os.environ["GEMMD_LIBRARY"])
    assert "grpc" not in sys.modules
import numpy as np
import gemmd
if order == "grpc first":
    loaded = ctypes.CDLL(os.environ["GEMMD_LIBRARY"])
a = np.ones((300, 300))
plain, carried = (gemmd.Client(sys.argv[1], library=library) for library in (False, True))
for _ in range(5):
    assert plain.matmul(a, a).tobytes() == carried.matmul(a, a).tobytes()
for _ in range(3):  # more often than it was loaded
    _ctypes.dlclose(loaded._handle)
assert plain.matmul(a, a).tobytes() == carried.matmul(a, a).tobytes()
carried.close()
print("done")
"""


@pytest.mark.parametrize("order", ["library first", "grpc first"])
def test_beside_grpcs_own_python_and_closed_by_dlclose(server, order):
    done = subprocess.run(
        [sys.executable, "-c", BESIDE, server.address, order],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_child_that_is_forked_may_end_and_its_parent_goes_on(server):
    script = """
import os, sys
import numpy as np
import gemmd
a = np.ones((20, 20))
client = gemmd.Client(sys.argv[1], library=True)
client.matmul(a, a)
if (child := os.fork()) == 0:
    try:
        client.matmul(a, a)
    except gemmd.errors.ForkedError:
        sys.exit(7)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), client.matmul(a, a)[0, 0])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, server.address], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "7 20.0\n"), done.stderr


def test_what_cannot_be_loaded_is_an_import_error(server, monkeypatch):
    with pytest.raises(ImportError, match="no-such-library"):
        gemmd.Client(server.address, library="/no-such-library.so")
    with pytest.raises(ImportError, match=r"libm\.so\.6 has no gemmd_version"):
        gemmd.Client(server.address, library="libm.so.6")
    monkeypatch.setenv("GEMMD_DATA_PATH", "rust")
    with pytest.raises(ValueError, match="GEMMD_DATA_PATH is 'rust'"):
        gemmd.Client(server.address)
    a = np.ones((2, 2))
    for value, by_library in (("libgemmd", True), ("python", False), ("", False)):
        monkeypatch.setenv("GEMMD_DATA_PATH", value)
        with gemmd.Client(server.address) as client:
            assert client.matmul(a, a).receipt.sent.by_library == by_library
            assert bool(client.info().library) == by_library
