"""The server is killed, and back a second later: clients saw errors, or did not reach it for another ten seconds.

Sources: grpc/grpc#18554, locustio/locust#152. Right: calls in those seconds take longer, and none fails.
"""

import threading

import numpy as np
import pytest

import gemmd

A = np.ones((8, 8), "f4")


@pytest.mark.parametrize("options", [{"transport": "unary"}, {"transport": "stream", "channels": 2}])
def test_nobody_notices(own_server, options):
    failures = []

    with gemmd.Client(own_server.address, **options) as client:
        resident = client.put(A)

        def work(call):
            try:
                while not is_back.is_set():
                    call()
                call()
            except gemmd.Error as error:
                failures.append(error)

        is_back = threading.Event()
        calls = (
            lambda: client.matmul(A, A),
            lambda: client.matmul(A, resident),
            lambda: client.submit(A, A).result(),
            client.info,
            lambda: client.put(A),
            lambda: client.put(A, name="a"),
            lambda: resident.set_name("b"),
        )
        threads = [threading.Thread(target=work, args=(each,)) for each in calls]
        for each in threads:
            each.start()
        own_server.kill()
        threading.Event().wait(0.5)
        own_server.start()
        is_back.set()
        for each in threads:
            each.join(60)
        assert client.resident("a").names == ("a", "b")
    assert failures == []
