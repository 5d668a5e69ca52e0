"""The way to the server goes silent, and no FIN or RST tells it: a firewall forgot the connection, for example.

Sources: grpc/grpc#15889, grpc/grpc#32095. Right: whoever waits gets an answer over another connection within a
minute, and a call after one that met its deadline is not sent into the same silence.
"""

import asyncio

import numpy as np
import pytest
from testing.proxy import Proxy

import gemmd
import gemmd.aio
from gemmd import _channel

A = np.ones((4, 4), "f4")
TRANSPORTS = pytest.mark.parametrize("transport", ["unary", "stream"])


@pytest.fixture
def proxy(server):
    with Proxy(server.address) as one:
        yield one


@TRANSPORTS
@pytest.mark.parametrize("deadline", [1.1, 0.3])
@pytest.mark.parametrize("library", [False, True])
def test_deadlines_are_met_for_a_second_and_no_longer(proxy, transport, deadline, library):
    with gemmd.Client(proxy.address, transport=transport, library=library) as client:
        client.matmul(A, A)
        proxy.freeze()
        failures = 0
        while True:
            try:
                client.matmul(A, A, deadline=deadline)
                break
            except gemmd.DeadlineExceeded:
                failures += 1
        assert failures * deadline < 2
        assert proxy.connections == 2


def test_other_calls_do_not_stay_there_either(proxy):
    with gemmd.Client(proxy.address) as client:
        client.info()
        proxy.freeze()
        with pytest.raises(gemmd.DeadlineExceeded):
            client.put(np.ones((4, 5)), deadline=1.1)
        assert client.info(10).version


@pytest.mark.parametrize("library", [False, True])
def test_a_slow_product_costs_no_connection(proxy, library):
    with gemmd.Client(proxy.address, channels=1, library=library) as client:
        large = np.ones((1200, 1200))
        for _ in range(3):
            pending = client.submit(large, large)
            with pytest.raises(gemmd.DeadlineExceeded):
                client.matmul(large, large, deadline=0.02)
            pending.result()
        assert proxy.connections == 1


@pytest.fixture
def impatient(monkeypatch):
    """As the client is, but in tenths of a second."""
    times = ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")
    given = dict(_channel._OPTIONS)
    assert sum(given[each] for each in times[:2]) <= 60000
    assert sum(given[each] for each in times[::2]) <= 60000
    assert given["grpc.http2.max_pings_without_data"] == 0
    quick = tuple((key, 300 if key in times else value) for key, value in _channel._OPTIONS)
    monkeypatch.setattr(_channel, "_OPTIONS", quick)


@TRANSPORTS
def test_without_a_deadline_the_answer_comes_over_another_connection(proxy, impatient, transport):
    with gemmd.Client(proxy.address, transport=transport, library=False) as client:
        client.matmul(A, A)
        proxy.freeze()
        assert client.matmul(A, A)[0, 0] == 4
        with client.put(np.ones((4, 4))) as resident:
            proxy.freeze()
            assert resident.numpy()[0, 0] == 1


def test_aio_without_a_deadline(proxy, impatient):
    async def main():
        async with gemmd.aio.Client(proxy.address, library=False) as client:
            await client.matmul(A, A)
            proxy.freeze()
            for d in await asyncio.gather(*(client.matmul(A, A) for _ in range(8))):
                assert d[0, 0] == 4

    asyncio.run(main())
