"""A client of several servers, which are killed, drained and started again: real ones, on the CPU."""

import asyncio
import pickle
import subprocess
import threading
import time

import grpc
import numpy as np
import pytest
from fake_operands import FakeOperands
from fake_products import FakeProducts
from testing.processes import Server

import gemmd
import gemmd.aio
from gemmd import _resolve, _servers
from gemmd._fleet import in_order_of
from gemmd._sources import source_of

PATIENT = gemmd.RetryPolicy(max_attempts=100, initial_backoff=0.02, max_backoff=0.2)


class Three:
    """Three servers; a context manager."""

    def __init__(self, *options):
        self.servers = [Server(*options) for _ in range(3)]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for each in self.servers:
            each.kill()

    @property
    def addresses(self):
        return [each.address for each in self.servers]

    def at(self, address):
        return next(each for each in self.servers if each.address == address)


@pytest.fixture(scope="module")
def three():
    with Three() as servers:
        yield servers


@pytest.fixture
def own_three():
    with Three() as servers:
        yield servers


@pytest.fixture
def several(three):
    with gemmd.Client(three.addresses) as one:
        yield one
        for each in one.residents():
            each.release()


def wait_until(condition):
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.001)


def state_of(client, address):
    return next(each for each in client.servers() if each.address == address)


def home_of(resident, three):
    """The server that comes first for it."""
    return in_order_of(resident.digest, three.addresses)[0]


def matrices_of(three, random, count=1):
    """Matrices to put, of whose digests each server is the home of so many: a list for each."""
    found = {each: [] for each in three.addresses}
    with gemmd.Client(three.addresses) as client:
        while any(len(each) < count for each in found.values()):
            x = random.standard_normal((16, 24))
            with client.put(x) as put:
                some = found[home_of(put, three)]
            if len(some) < count:
                some.append(x)
    return list(found.values())


def test_products_go_to_all_of_them_in_turn_and_receipts_name_the_server(three, random):
    a, b = random.standard_normal((20, 30)), random.standard_normal((30, 10))
    with gemmd.Client(",".join(three.addresses)) as client:
        done = [client.matmul(a, b) for _ in range(6)]
        for each in done:
            np.testing.assert_allclose(each, a @ b, rtol=1e-12)
        assert [each.receipt.server for each in done] == 2 * three.addresses
        assert f"\nserver     {done[0].receipt.server}\n" in str(done[0].receipt)
        assert [each.attempts for each in client.servers()] == [2, 2, 2]
        wait_until(lambda: {each.health for each in client.servers()} == {"serving"})
        assert client.address == ",".join(three.addresses)


def test_one_server_is_no_list(server, random):
    a = random.standard_normal((4, 4))
    with gemmd.Client([server.address]) as client:
        receipt = client.matmul(a, a).receipt
        assert receipt.server == ""
        assert f"\nserver     {server.address}" not in str(receipt)
        (state,) = client.servers()
        assert (state.address, state.health, state.in_flight) == (server.address, "unknown", 0)
        assert client.info(server=server.address).version
        with pytest.raises(gemmd.InvalidArgument, match=f"server is 'other:50051'; it must be {server.address}"):
            client.info(server="other")
        with pytest.raises(gemmd.NotFound) as failed:
            client.resident("absent")
        assert failed.value.server == ""


def test_a_matrix_is_on_the_server_that_comes_first_for_it(three, several, random):
    a = random.standard_normal((8, 16))
    for xs in matrices_of(three, random, 3):
        for x in xs:
            w = several.put(x)
            done = [several.matmul(a, w) for _ in range(3)]
            assert {each.receipt.server for each in done} == {home_of(w, three)}
            assert {each.receipt.client.refills for each in done} == {0}
            np.testing.assert_allclose(done[0], a @ x, rtol=1e-11)
            assert {each.receipt.server for each in (several.matmul(x.T, w.T.T), several.matmul(w.T, a.T))} == {
                home_of(w, three)
            }
    # Each is there once, and another client with its list in another order has the same homes.
    with gemmd.Client(three.addresses[::-1]) as other:
        for address in three.addresses:
            there = other.residents(server=address)
            assert len(there) == 3
            assert {home_of(each, three) for each in there} == {address}
            for each in there:
                assert other.matmul(a, each).receipt.server == address
    assert len(several.residents()) == 9


def test_the_right_factor_goes_before_the_left_one(three, several, random):
    (one, *_), (two, *_), _ = matrices_of(three, random)
    left, right = several.put(one), several.put(two)
    product = several.matmul(left.T, right)
    np.testing.assert_allclose(product, one.T @ two, rtol=1e-11)
    assert product.receipt.server == home_of(right, three)
    # It lacked the left one, and got it.
    assert product.receipt.client.refills == 1
    assert several.matmul(left.T, right).receipt.client.refills == 0


def test_a_server_that_goes_moves_its_own_matrices_and_they_come_back(own_three, random):
    a = random.standard_normal((8, 16))
    with gemmd.Client(own_three.addresses, retry=PATIENT) as client:
        put = [client.put(x) for xs in matrices_of(own_three, random, 4) for x in xs]
        gone = own_three.addresses[1]
        own_three.at(gone).kill()
        wait_until(lambda: state_of(client, gone).health == "not_serving")
        for w in put:
            order = in_order_of(w.digest, own_three.addresses)
            receipt = client.matmul(a, w).receipt
            moved = order[0] == gone
            assert receipt.server == order[moved]  # 4 of 12
            assert receipt.client.refills == moved  # from the array that put() was given
        own_three.at(gone).start()
        wait_until(lambda: state_of(client, gone).health == "serving")
        for w in put:
            receipt = client.matmul(a, w).receipt
            assert receipt.server == home_of(w, own_three)
            assert receipt.client.refills == (receipt.server == gone)


@pytest.mark.parametrize("transport", ["auto", "stream"])
def test_killing_one_after_another_costs_no_error(own_three, random, transport):
    a, b = random.standard_normal((64, 64)), random.standard_normal((64, 64))
    big = random.standard_normal((1200, 700)).astype("f4")
    counts, failures, done = [0, 0, 0], [], threading.Event()
    servers = set()

    with gemmd.Client(own_three.addresses, retry=PATIENT, transport=transport) as client:
        w = client.put(b)
        wanted, wanted_big = a @ b, np.array(client.matmul(big, big.T))

        def work(which):
            try:
                while not done.is_set():
                    if which == 0:
                        np.testing.assert_allclose(client.matmul(a, b), wanted, rtol=1e-11)
                    elif which == 1:
                        product = client.matmul(a, w)
                        np.testing.assert_allclose(product, wanted, rtol=1e-11)
                        servers.add(product.receipt.server)
                    else:
                        assert np.array_equal(client.matmul(big, big.T), wanted_big)
                    counts[which] += 1
            except BaseException as error:
                failures.append((which, error))

        def go_on():
            before = list(counts)
            wait_until(lambda: failures or all(new >= old + 2 for new, old in zip(counts, before, strict=True)))

        threads = [threading.Thread(target=work, args=(each,)) for each in range(3)]
        for each in threads:
            each.start()
        first, second, _ = in_order_of(w.digest, own_three.addresses)
        for gone, instead in ((first, second), (second, first)):
            go_on()
            own_three.at(gone).kill()
            wait_until(lambda gone=gone: state_of(client, gone).health == "not_serving")
            servers.clear()
            wait_until(lambda instead=instead: failures or instead in servers)
            go_on()
            own_three.at(gone).start()
            wait_until(lambda gone=gone: state_of(client, gone).health == "serving")
        done.set()
        for each in threads:
            each.join(60)
        assert failures == []
        assert [each.in_flight for each in client.servers()] == [0, 0, 0]


def test_one_that_drains_ends_what_it_has_and_gets_nothing_new(own_three):
    a = np.ones((1500, 1500), "f4")
    with gemmd.Client(own_three.addresses) as client:
        pending = [client.submit(a, a) for _ in range(6)]
        own_three.servers[0].process.terminate()
        pending += [client.submit(a, a) for _ in range(6)]
        for each in pending:
            assert each.result(60)[0, 0] == 1500
        assert own_three.servers[0].process.wait(60) == 0
        later = {client.matmul(a[:2], a).receipt.server for _ in range(6)}
        assert later == set(own_three.addresses[1:])


def test_asyncio(own_three, random):
    a, b = random.standard_normal((16, 32)), random.standard_normal((32, 8))

    async def work():
        async with gemmd.aio.Client(own_three.addresses, retry=PATIENT) as client:
            w = await client.put(b)
            first = [client.submit(a, w) for _ in range(100)]
            await first[0]
            own_three.at(home_of(w, own_three)).kill()
            done = await asyncio.gather(*first, *(client.matmul(a, w) for _ in range(100)))
            assert len(client.servers()) == 3
            return done

    for each in asyncio.run(work()):
        np.testing.assert_allclose(each, a @ b, rtol=1e-12)


def test_where_all_are_away_the_error_names_one(random):
    with Three() as servers:
        addresses = servers.addresses
    a = random.standard_normal((4, 4))
    # Each is asked without a wait: three attempts are none that waits.
    policy = gemmd.RetryPolicy(max_attempts=3, initial_backoff=1e6, max_backoff=1e6)
    for call in (lambda one: one.matmul(a, a), lambda one: one.put(a), lambda one: one.resident("absent")):
        with gemmd.Client(addresses, retry=policy) as client:
            with pytest.raises(gemmd.Unavailable) as failed:
                call(client)
            assert failed.value.server in addresses
            assert str(failed.value).startswith(f"{failed.value.server}: ")
            assert not failed.value.message.startswith(failed.value.server)
            assert [each.attempts for each in client.servers()] == [1, 1, 1]


def test_a_refusal_is_an_answer_and_names_its_server(several, three, random):
    a = random.standard_normal((4, 4))
    with pytest.raises(gemmd.FailedPrecondition, match='kernel is "imagined"') as failed:
        several.matmul(a, a, kernel="imagined")
    assert failed.value.server in three.addresses
    assert failed.value.field == "kernel"
    assert sum(each.attempts for each in several.servers()) == 1


def test_results_that_were_kept_are_found_on_their_server(several, three, random):
    a, b = random.standard_normal((16, 16)), random.standard_normal((16, 16))
    kept = [several.matmul(a, b, keep=True) for _ in range(3)]
    assert {each.receipt.server for each in kept} == set(three.addresses)
    for each in kept[::-1]:  # in another order than that in which the servers are asked
        product = several.matmul(each, b)
        assert product.receipt.server == each.receipt.server
        assert product.receipt.client.attempts == 1  # it was made there, and so is known
        np.testing.assert_allclose(product, a @ b @ b, rtol=1e-10)
    with gemmd.Client(three.addresses) as other:
        for each in kept[::-1]:
            found = other.resident(each.handle)
            np.testing.assert_allclose(found.numpy(), a @ b, rtol=1e-12)
            receipt = other.matmul(found, b).receipt
            assert (receipt.server, receipt.client.attempts) == (each.receipt.server, 1)
            assert found.renew(60) > 0
    # A list tells it too.
    with gemmd.Client(three.addresses) as other:
        for each in other.residents():
            assert other.matmul(each, b).receipt.client.attempts == 1
    # Another client looks for them too, where nobody told it.
    again = pickle.loads(pickle.dumps(kept[2]))
    assert again._client is not several
    assert again._client.matmul(again, b).receipt.server == kept[2].receipt.server
    assert again._client.matmul(again, b).receipt.client.attempts == 1
    again._client.close()
    # No server can make a product of both.
    with pytest.raises(gemmd.NotFound) as failed:
        several.matmul(kept[0], kept[1])
    assert failed.value.missing_handles
    for each in kept:
        each.release()
        with pytest.raises(gemmd.NotFound):
            several.resident(each.handle)


def test_a_name_is_found_wherever_it_is_and_moves_from_server_to_server(several, three, random):
    a = random.standard_normal((8, 16))
    (one, *_), (two, *_), (more, *_) = matrices_of(three, random)
    first = several.put(one, name="w")
    with gemmd.Client(three.addresses) as other:
        named = other.named("w")
        assert other.matmul(a, named).receipt.server == home_of(first, three)
        with pytest.raises(gemmd.AlreadyExists, match=r"replace=True"):
            several.put(two, name="w")
        second = several.put(two, name="w", replace=True)
        assert home_of(second, three) != home_of(first, three)
        product = other.matmul(a, named)
        assert product.receipt.server == home_of(second, three)
        np.testing.assert_allclose(product, a @ two, rtol=1e-11)
        assert [each.names for each in other.residents() if each.names] == [("w",)]
        # One matrix's copies may have one name; another matrix that has it elsewhere keeps it.
        with pytest.raises(gemmd.AlreadyExists, match=f"on {home_of(second, three)}; with replace"):
            several.put(more).set_name("w")
        assert other.resident("w").digest == second.digest
        assert several.release(pattern="w*") == ["w"]
        with pytest.raises(gemmd.NotFound):
            other.matmul(a, named)
        with pytest.raises(gemmd.NotFound):
            several.release("w")


def test_a_name_comes_back_with_its_matrix_on_the_next_server(own_three, random):
    a, b = random.standard_normal((4, 8)), random.standard_normal((8, 4))
    with gemmd.Client(own_three.addresses, retry=PATIENT) as client, gemmd.Client(own_three.addresses) as other:
        w = client.put(b, name="w")
        named = other.named("w")
        first, second, _ = in_order_of(w.digest, own_three.addresses)
        own_three.at(first).kill()
        wait_until(lambda: state_of(client, first).health == "not_serving")
        assert client.matmul(a, w).receipt.server == second
        assert other.matmul(a, named).receipt.server == second


def test_an_upload_goes_elsewhere_at_once(three, random, caplog):
    nobody = "127.0.0.1:1"
    addresses = [nobody, *three.addresses]
    order = []
    while not order or order[0] != nobody:
        x = random.standard_normal((4, 4))
        order = in_order_of(source_of(x).digest, addresses)
    with gemmd.Client(addresses) as client:
        w = client.put(x)
        assert client.matmul(x, w).receipt.server == order[1]
        (line,) = (each.getMessage() for each in caplog.records if "does not answer" in each.getMessage())
        assert line.startswith(f"{nobody} does not answer (")
        assert line.endswith("; asking another server")
    with gemmd.Client(three.addresses) as client:
        client.release(w.digest.hex())


def test_lists_want_every_server(own_three, random):
    gone = own_three.addresses[2]
    with gemmd.Client(
        own_three.addresses, retry=gemmd.RetryPolicy(max_attempts=2, initial_backoff=0.001)
    ) as client:
        w = client.put(random.standard_normal((4, 4)))
        own_three.at(gone).kill()
        for call in (client.residents, client.all_residents, w.release):
            with pytest.raises(gemmd.Unavailable) as failed:
                call()
            assert failed.value.server == gone
        assert client.residents(server=own_three.addresses[0]) is not None


def test_a_session_of_several_connections_is_with_one_server(three, random):
    a = random.standard_normal((300, 400))
    with gemmd.Client(three.addresses, transport="stream", channels=3, chunk_bytes=4096) as client:
        for address in 2 * three.addresses:
            product = client.matmul(a, a.T)
            np.testing.assert_allclose(product, a @ a.T, rtol=1e-9)
            assert product.receipt.server == address
            assert product.receipt.sent.channels == 3


def test_an_upload_over_several_connections_is_with_one_server(several, three, random):
    x = random.standard_normal((2000, 1500))
    w = several.put(x)
    assert np.array_equal(w.numpy(), x)
    assert several.residents(server=home_of(w, three))[-1].digest == w.digest


def test_what_the_server_quantizes_is_brought_to_its_own_home(several, random):
    a, x = random.standard_normal((4, 64)).astype("f4"), random.standard_normal((64, 32)).astype("f4")
    w = several.put(x, store_as="mxfp8-e4m3")
    wanted = a @ gemmd.Quantized.of(x, "mxfp8-e4m3", axis=1).dequantize()
    for _ in range(3):
        np.testing.assert_allclose(several.matmul(a, w), wanted, rtol=1e-4, atol=1e-4)


def test_memory_is_shared_with_one_server(several, three, random):
    with pytest.raises(ValueError, match=r"^server is None, .*; it must be one of " + three.addresses[0]):
        several.shared((4, 4))
    with pytest.raises(gemmd.InvalidArgument, match=r"server is '10\.9\.9\.9:50051'; it must be one of"):
        several.shared((4, 4), server="10.9.9.9")
    x = several.shared((16, 16), "f8", server=three.addresses[1])
    x[:] = random.standard_normal((16, 16))
    for _ in range(4):
        product = several.matmul(x, np.eye(16))
        assert product.receipt.server == three.addresses[1]
        assert product.receipt.shared_bytes_in == x.nbytes
        np.testing.assert_array_equal(product, x)
    # A matrix whose home is elsewhere is brought there.
    for xs in matrices_of(three, random):
        w = several.put(xs[0])
        assert several.matmul(x, w).receipt.server == three.addresses[1]
    y = several.shared((16, 16), "f8", server=three.addresses[2])
    with pytest.raises(ValueError, match="a product is made on one server"):
        several.matmul(x, y)
    with pytest.raises(ValueError, match="a product is made on one server"):
        several.matmul(x, x, out=y)


def test_what_one_server_tells_of_itself_names_it(several, three):
    def calls(**server):
        yield several.info(**server)
        yield several.stats(**server)
        yield several.kernels(**server)
        yield several.explain(64, 64, 64, **server)
        yield several.traces(**server)
        yield several.estimate(np.eye(4), np.eye(4), **server)
        yield several.tune([(8, 8, 8)], repeats=1, **server)

    for address in three.addresses:
        assert len(list(calls(server=address))) == 7
    for name in ("info", "stats", "kernels", "traces"):
        with pytest.raises(ValueError, match="server is None"):
            getattr(several, name)()
    for call in (
        lambda: several.explain(8, 8, 8),
        lambda: several.estimate(np.eye(4), np.eye(4)),
        lambda: several.tune([(8, 8, 8)]),
    ):
        with pytest.raises(ValueError, match="server is None"):
            call()
    with pytest.raises(gemmd.InvalidArgument, match="it must be one of " + ", ".join(three.addresses)):
        several.info(server="127.0.0.1:1")


def test_what_is_cancelled_leaves_no_load(several):
    a = np.ones((1500, 1500))
    pending = [several.submit(a, a) for _ in range(12)]
    for each in pending:
        each.cancel()
    with pytest.raises(gemmd.DeadlineExceeded):
        several.matmul(a, a, deadline=0)
    assert [each.in_flight for each in several.servers()] == [0, 0, 0]
    assert [each.failures for each in several.servers()] == [0, 0, 0]
    assert several.matmul(a[:1], a).shape == (1, 1500)


def test_many_products_of_one_matrix_are_on_as_many_servers_as_their_load_needs(several, random):
    a, x = random.standard_normal((512, 512)), random.standard_normal((512, 512))
    w = several.put(x)
    pending = [several.submit(a, w) for _ in range(64)]
    done = [each.result() for each in pending]
    assert len({each.receipt.server for each in done}) == 3
    assert sum(each.receipt.client.refills for each in done) >= 2
    for each in done:
        np.testing.assert_allclose(each, a @ x, rtol=1e-9, atol=1e-9)


def test_lists_are_checked():
    for wrong, words in (
        ([], r"address is \[\], which names no server"),
        ("a:1,,b:2", "entry 2 of address is '', which names no server"),
        ("", "address is '', which names no server"),
        ("a:1,b:1,a:1", "entry 3 of address is 'a:1', which is the server of entry 1; each must be there once"),
        (["gpu", "gpu:50051"], "entry 2 of address is 'gpu:50051', which is the server of entry 1"),
        (["a:1", "b:99999"], "entry 2 of address is 'b:99999', whose port is '99999'; it must be 1 to 65535"),
        (["a:1,b:2", "c"], "entry 1 of address is 'a:1,b:2', whose port is '1,b:2'"),
        (["http://a", "b"], "entry 1 of address is 'http://a'"),
        ([f"gpu-{each}" for each in range(257)], "address has 257 entries; it must have at most 256"),
        ("dns:///gpu,dns:///gpu", "entry 2 of address is 'dns:///gpu', which is the server of entry 1"),
    ):
        with pytest.raises(ValueError, match=words):
            gemmd.Client(wrong)
    with pytest.raises(TypeError, match="entry 2 of address is 7; it must be a str"):
        gemmd.Client(["a:1", 7])
    with pytest.raises(ValueError, match="token would be sent to gpu-2:50051 in plain text"):
        gemmd.Client("127.0.0.1,gpu-2", token="secret")
    with pytest.raises(ValueError, match="token would be sent to dns:///gpu:50051 in plain text"):
        gemmd.Client("dns:///gpu", token="secret")
    gemmd.Client("ipv4:127.0.0.1:1,127.0.0.1:2").close()  # gRPC's commas: one server


def test_the_environment_names_several(three, random, monkeypatch):
    a = random.standard_normal((4, 4))
    monkeypatch.setenv("GEMMD_SERVER", ",".join(three.addresses[:2]))
    with gemmd.Client() as client:
        assert [each.address for each in client.servers()] == three.addresses[:2]
        again = pickle.loads(pickle.dumps(client))
        assert again.address == client.address
        again.close()
    assert {gemmd.matmul(a, a).receipt.server for _ in range(4)} == set(three.addresses[:2])
    monkeypatch.setenv("GEMMD_SERVER", three.addresses[2])
    assert gemmd.matmul(a, a).receipt.server == ""
    monkeypatch.setenv("GEMMD_SERVER", "a:1,a:1")
    with pytest.raises(ValueError, match="entry 2 of GEMMD_SERVER is 'a:1'"):
        gemmd.Client()


class Names:
    """What names stand for, by the name; an exception is raised. Looks follow each other at once."""

    def __init__(self, monkeypatch):
        self.addresses = {}
        self.looks = 0
        monkeypatch.setattr(_servers, "resolve_by_host", self._resolve)
        monkeypatch.setattr(_servers, "_LOOK_PAUSE", 0.0)

    def _resolve(self, name, port):
        self.looks += 1
        found = self.addresses[name, port]
        if isinstance(found, Exception):
            raise found
        return found


def test_the_servers_of_a_name_change(own_three, random, monkeypatch):
    a, b = random.standard_normal((4, 4)), random.standard_normal((4, 4))
    one, two, last = own_three.addresses
    names = Names(monkeypatch)
    names.addresses["gpu", 50051] = [one]
    # One is in the list too, and is one server.
    with gemmd.Client(["dns:///gpu", one], retry=PATIENT) as client:
        assert client.address == f"dns:///gpu:50051,{one}"
        assert [each.address for each in client.servers()] == [one]
        assert client.matmul(a, b).receipt.server == one
    with gemmd.Client("dns:///gpu", retry=PATIENT) as client:
        looks = names.looks
        leaves = client._engine.servers._servers[one]
        names.addresses["gpu", 50051] = [two, last]
        assert client.matmul(a, b).receipt.server == one  # nobody has failed
        assert names.looks == looks
        own_three.at(one).kill()
        assert client.matmul(a, b).receipt.server in (two, last)
        assert [each.address for each in client.servers()] == [two, last]
        wait_until(lambda: leaves.link._closed)
        assert client._engine.servers._gone == []
        # A resolver that fails says nothing of those that are known.
        looks = names.looks
        names.addresses["gpu", 50051] = gemmd.Unavailable("nobody says")
        own_three.at(two).kill()
        for _ in range(4):
            assert client.matmul(a, b).receipt.server == last
        wait_until(lambda: names.looks > looks)
        assert [each.address for each in client.servers()] == [two, last]


def test_a_name_without_addresses_is_unavailable_until_it_has_some(three, random, monkeypatch, caplog):
    a = random.standard_normal((4, 4))
    names = Names(monkeypatch)
    names.addresses["gpu", 7] = gemmd.Unavailable("DNS resolution failed for gpu: no such name")
    with gemmd.Client("dns:///gpu:7", retry=gemmd.RetryPolicy(max_attempts=2, initial_backoff=0.001)) as client:
        for call in (lambda: client.matmul(a, a), lambda: client.put(a), client.residents):
            with pytest.raises(gemmd.Unavailable, match="no such name"):
                call()
        names.addresses["gpu", 7] = []

        def has_none():
            with pytest.raises(gemmd.Unavailable) as failed:
                client.matmul(a, a)
            return failed.value.message == "servers have no address"

        wait_until(has_none)
    assert "dns:///gpu:7 has no address now: DNS resolution failed for gpu" in caplog.text
    with gemmd.Client("dns:///gpu:7", retry=PATIENT) as client:
        names.addresses["gpu", 7] = three.addresses
        assert client.matmul(a, a).receipt.server in three.addresses
        assert [each.address for each in client.servers()] == three.addresses


def test_a_name_of_this_host(server, random):
    a = random.standard_normal((4, 4))
    port = server.address.rpartition(":")[2]
    with gemmd.Client(f"dns:///localhost:{port}") as client:
        assert client.matmul(a, a).receipt.server == server.address
    with gemmd.Client(f"dns:///{server.address}") as client:  # an address, and so one server
        assert client.matmul(a, a).receipt.server == ""


def test_addresses_of_both_families_are_one_server_each(monkeypatch):
    import socket

    v4, v6 = (socket.AF_INET, 1, 6, ""), (socket.AF_INET6, 1, 6, "")
    found = [(*v6, ("::1", 0, 0, 0)), (*v4, ("10.0.0.2", 0)), (*v4, ("10.0.0.1", 0)), (*v4, ("10.0.0.2", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert _resolve.resolve_by_host("gpu", 7) == ["10.0.0.1:7", "10.0.0.2:7"]
    del found[1:]
    assert _resolve.resolve_by_host("gpu", 7) == ["[::1]:7"]
    monkeypatch.undo()
    for unknown in ("no.such.host.invalid", "x" * 70):
        with pytest.raises(gemmd.Unavailable, match=f"^DNS resolution failed for {unknown}: ") as failed:
            _resolve.resolve_by_host(unknown, 7)
        assert failed.value.is_unreachable


def make_certificate(folder, name):
    """NAME.pem and NAME.key, of that DNS name."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
               "-addext", f"subjectAltName=DNS:{name}", "-keyout", f"{folder}/{name}.key", "-out",
               f"{folder}/{name}.pem"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def tls_server(folder, name):
    """A server that has it."""
    return Server(f"--tls.certificate-file={folder}/{name}.pem", f"--tls.key-file={folder}/{name}.key")


def test_certificates_are_checked_for_the_name(tmp_path, random, monkeypatch, caplog):
    a = random.standard_normal((4, 4))
    names = Names(monkeypatch)
    for name in ("gpu.test", "other.test"):
        make_certificate(tmp_path, name)
    roots = tmp_path / "roots.pem"
    roots.write_bytes((tmp_path / "gpu.test.pem").read_bytes() + (tmp_path / "other.test.pem").read_bytes())
    with tls_server(tmp_path, "gpu.test") as right, tls_server(tmp_path, "other.test") as wrong:
        names.addresses["gpu.test", 50051] = [right.address]
        with gemmd.Client("dns:///gpu.test", tls=gemmd.Tls(roots)) as client:
            roots.unlink()  # it was read
            names.addresses["gpu.test", 50051] = [wrong.address, right.address]
            client._engine.servers._look()
            assert [each.address for each in client.servers()] == [wrong.address, right.address]
            # A certificate of another name is wrong at its server alone.
            for _ in range(4):
                assert client.matmul(a, a).receipt.server == right.address
        assert f"{wrong.address} does not answer" in caplog.text
        assert "another name than the one it was called by" in caplog.text
        assert caplog.text.count("; asking another server") == 1
        with gemmd.Client(
            [right.address, wrong.address], tls=gemmd.Tls(tmp_path / "gpu.test.pem", server_name="gpu.test")
        ) as client:
            assert client.matmul(a, a).receipt.server == right.address
        names.addresses["gpu.test", 50051] = [wrong.address]
        with gemmd.Client("dns:///gpu.test", tls=gemmd.Tls(tmp_path / "other.test.pem")) as client:
            with pytest.raises(gemmd.Unavailable, match="another name than the one it was called by"):
                client.matmul(a, a)


class Headers(grpc.ServerInterceptor):
    """The affinity header of each call to a server of this process, by its method; None: it had none."""

    def __init__(self):
        self.found = []

    def intercept_service(self, go_on, details):
        metadata = dict(details.invocation_metadata)
        self.found.append((details.method.rpartition("/")[2], metadata.get("gemmd-affinity")))
        return go_on(details)


@pytest.mark.parametrize("library", [False, True])
def test_with_the_affinity_header_products_of_a_digest_go_in_one_call(server, random, library):
    a = random.standard_normal((1500, 1500)).astype("f4")
    with gemmd.Client(server.address, affinity_header=True, library=library) as client:
        with client.put(a) as w:
            assert client.matmul(a, w).receipt.sent.transport == "unary"
        assert client.matmul(a, a).receipt.sent.transport == "stream"
    with gemmd.Client(server.address, affinity_header=True, library=library, transport="stream") as client:
        with client.put(a) as w:
            assert client.matmul(a, w).receipt.sent.transport == "stream"


@pytest.mark.parametrize("library", [False, True])
def test_the_affinity_header_is_in_calls_about_a_matrix(random, library):
    headers = Headers()
    with FakeProducts(True, interceptors=[headers]) as products:
        with gemmd.Client(products.address, affinity_header=True, library=library) as client:
            a = random.standard_normal((3, 3))
            digest = b"k" * 32
            w = gemmd.Resident(client._engine, client_spec(a), "kept-1", digest)
            for _ in range(8):
                client.matmul(a, a)
            assert set(headers.found) == {("Matmul", None)}
            headers.found.clear()
            # They go in one call each, many at a time too.
            pending = [client.submit(a, w) for _ in range(8)]
            for each in pending:
                each.exception(60)
            assert headers.found == 8 * [("Matmul", digest.hex())]
        headers.found.clear()
        with gemmd.Client(products.address, library=library) as client:
            w = gemmd.Resident(client._engine, client_spec(a), "kept-1", digest)
            client.submit(a, w).exception(60)
            assert headers.found == [("Matmul", None)]


def client_spec(a):
    """OperandSpec of an array."""
    from gemmd._planes import of_array

    return of_array(a, is_packed=True).spec()


def test_the_affinity_header_is_in_uploads_and_questions(random):
    headers = Headers()
    operands = FakeOperands(lambda begin: begin.operand, interceptors=[headers])
    with gemmd.Client(operands.address, affinity_header=True) as client:
        w = client.put(random.standard_normal((3, 3)))
        sent = operands.digests[0].hex()
        assert headers.found == [("FindMissing", sent), ("Upload", sent)]
        headers.found.clear()
        digest = w.digest.hex()  # as the fake says that it keeps it
        with pytest.raises(gemmd.InvalidArgument):
            client.resident(digest)
        for call in (w.numpy, w.renew, lambda: w.set_name("x"), w.release):
            with pytest.raises(gemmd.Unimplemented):
                call()
        with pytest.raises(gemmd.Unimplemented):
            client.info()
        methods = ("Get", "Download", "Renew", "SetName", "Release")
        assert headers.found == [*((method, digest) for method in methods), ("ServerInfo", None)]
    operands.close()
