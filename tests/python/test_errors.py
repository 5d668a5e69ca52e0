"""What the server refuses, and what is refused before it is sent."""

import random as stdlib_random
import threading
import time

import numpy as np
import pytest

import gemmd
from gemmd.retry import NO_PUSHBACK, Pushback, parse_pushback, retry_delay


def test_shapes_and_types_that_do_not_go_together(client):
    a = np.ones((2, 3))
    with pytest.raises(ValueError, match="last dimension is 3"):
        client.matmul(a, a)
    with pytest.raises(TypeError, match="int32 is the type of exact products"):
        client.matmul(a.astype("i4"), np.ones((3, 2), "i4"))
    with pytest.raises(TypeError, match="int64"):
        client.matmul(np.ones((2, 2), np.int64), np.ones((2, 2), np.int64))
    with pytest.raises(TypeError, match="complex128, which are no real numbers"):
        client.matmul(a + 1j, a.T)
    with pytest.raises(TypeError, match="byte order"):
        client.matmul(np.ones((2, 2), ">f8"), np.ones((2, 2), ">f8"))
    with pytest.raises(ValueError, match="scalar"):
        client.matmul(1.0, a)
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        client.matmul(np.ones((2, 2, 3)), np.ones((3, 3, 2)))
    with pytest.raises(ValueError, match="out has shape"):
        client.matmul(a, a.T, out=np.ones((3, 3)))
    with pytest.raises(TypeError, match="out is float32"):
        client.matmul(a, a.T, out=np.ones((2, 2), np.float32), dtype="f64")
    with pytest.raises(ValueError, match="activation"):
        client.matmul(a, a.T, activation="tanh")
    with pytest.raises(ValueError, match="bias has shape"):
        client.matmul(a, a.T, bias=np.ones(3))
    with pytest.raises(TypeError, match="c is float64, and the product f32, which does not hold"):
        client.matmul(a.astype("f4"), a.T.astype("f4"), c=np.ones((2, 2)))
    with pytest.raises(ValueError, match="does not broadcast"):
        client.matmul(a, a.T, c=np.ones((3, 3)))
    with pytest.raises(ValueError, match="keep"):
        client.matmul(np.ones((2, 2, 3)), a.T, keep=True)
    with pytest.raises(ValueError, match="header"):
        gemmd.Client("one:1", tenant="a\nb")


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_a_refusal_is_of_its_class_and_names_the_field(server, transport):
    a = np.ones((2, 2))
    with gemmd.Client(server.address, transport=transport) as client:
        with pytest.raises(gemmd.FailedPrecondition) as refused:
            client.matmul(a, a, kernel="no/such")
        assert refused.value.code == "FAILED_PRECONDITION"
        assert refused.value.field == "kernel"
        with pytest.raises(gemmd.InvalidArgument) as refused:
            client.matmul(a, a, verify=65)
        assert refused.value.field == "verification.vectors"
        assert isinstance(refused.value, ValueError)
        with pytest.raises(gemmd.InvalidArgument):
            client.matmul(a, a, alpha=float("nan"))
        with pytest.raises(gemmd.InvalidArgument):
            client.matmul(a.astype("i1"), a.astype("i1"), alpha=2)
        with pytest.raises(TypeError):
            client.matmul(a, a, kernel=5)
        assert client.matmul(a, a).tolist() == [[2, 2], [2, 2]]  # and it goes on


def test_a_limit_is_told(client):
    with pytest.raises(gemmd.InvalidArgument) as refused:
        client.matmul(np.broadcast_to(np.int8(0), (1, 131072)), np.broadcast_to(np.int8(0), (131072, 1)))
    assert refused.value.limit == 131071


def test_a_message_over_the_limit_is_an_invalid_argument(server):
    with gemmd.Client(server.address, transport="unary") as client:
        with pytest.raises(gemmd.InvalidArgument, match="stream it"):
            client.matmul(np.zeros((4200, 4200), "f4"), np.zeros((4200, 1), "f4"))


def test_what_is_not_there_is_not_found(client):
    with pytest.raises(gemmd.NotFound) as missing:
        client.resident("0123456789abcdef")
    assert isinstance(missing.value, LookupError)
    with pytest.raises(gemmd.NotFound):
        client.resident("00" * 32)
    w = client.put(np.ones((3, 3)))
    named = client.resident(w.handle)
    w.release()
    with pytest.raises(gemmd.NotFound) as missing:
        client.matmul(np.ones((3, 3)), named)
    assert missing.value.missing_digests == (w.digest,)
    kept = client.matmul(np.ones((3, 3)), np.ones((3, 3)), keep=True)
    client.resident(kept.handle).release()
    with pytest.raises(gemmd.NotFound) as missing:
        client.matmul(np.ones((3, 3)), kept)
    assert missing.value.missing_handles == (kept.handle,)
    with pytest.raises(ValueError, match="released"):
        client.matmul(np.ones((3, 3)), w)


def test_deadlines(server):
    a = np.ones((1500, 1500))
    for transport in ("unary", "stream"):
        with gemmd.Client(server.address, transport=transport) as client:
            client.matmul(a[:4], a)
            with pytest.raises(gemmd.DeadlineExceeded) as late:
                client.matmul(a, a, deadline=0.01)
            assert isinstance(late.value, TimeoutError)
            with pytest.raises(gemmd.DeadlineExceeded):
                client.matmul(a, a, deadline=0)
            assert client.matmul(a[:4], a, deadline=60).shape == (4, 1500)


def test_an_absent_server_is_unavailable_after_its_attempts():
    with gemmd.Client("127.0.0.1:1", retry=gemmd.RetryPolicy(max_attempts=2)) as client:
        with pytest.raises(gemmd.Unavailable) as failed:
            client.matmul(np.ones((2, 2)), np.ones((2, 2)))
        assert isinstance(failed.value, ConnectionError)
        with pytest.raises(gemmd.Unavailable):
            client.info()


def test_a_closed_client_says_so(server):
    client = gemmd.Client(server.address)
    client.close()
    client.close()
    with pytest.raises(gemmd.ClosedError):
        client.matmul(np.ones((2, 2)), np.ones((2, 2)))


def test_closing_ends_what_is_under_way(server):
    a = np.ones((1500, 1500))
    for transport in ("unary", "stream"):
        client = gemmd.Client(server.address, transport=transport)
        pending = [client.submit(a, a) for _ in range(4)]
        client.close()
        for each in pending:
            # Products that were done by then have their results; nobody waits for ever.
            assert each.exception(60) is None or isinstance(each.exception(), gemmd.Error)


def test_a_wrong_protocol_is_an_error_not_a_hang():
    import socket

    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = listener.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()

    threading.Thread(target=answer, daemon=True).start()
    with gemmd.Client(f"127.0.0.1:{listener.getsockname()[1]}") as client:
        with pytest.raises(gemmd.Error):
            client.matmul(np.ones((2, 2)), np.ones((2, 2)), deadline=10)
    listener.close()


def test_pushbacks_are_digits():
    assert parse_pushback(None) == NO_PUSHBACK
    assert parse_pushback("250") == Pushback(seconds=0.25)
    for wrong in ("-1", "", "+5", " 5", "5.0", "2147483648", "x"):
        assert parse_pushback(wrong).forbidden


def test_the_retry_rules_are_those_of_the_cpp_library():
    policy = gemmd.RetryPolicy(jitter=0)
    assert retry_delay(policy, 1, "UNAVAILABLE", NO_PUSHBACK, None) == 0.05
    assert retry_delay(policy, 3, "UNAVAILABLE", NO_PUSHBACK, None) == 0.2
    assert retry_delay(policy, 7, "UNAVAILABLE", NO_PUSHBACK, None) == 2.0
    assert retry_delay(policy, 8, "UNAVAILABLE", NO_PUSHBACK, None) is None
    assert retry_delay(policy, 2, "UNAVAILABLE", NO_PUSHBACK, None, 9.9) == 0.1
    assert retry_delay(policy, 2, "UNAVAILABLE", NO_PUSHBACK, None, 9.95) is None
    assert retry_delay(policy, 2, "UNAVAILABLE", Pushback(seconds=50), None, 100) == 50
    assert retry_delay(policy, 1, "INVALID_ARGUMENT", NO_PUSHBACK, None) is None
    assert retry_delay(policy, 1, "RESOURCE_EXHAUSTED", NO_PUSHBACK, None) is None
    assert retry_delay(policy, 1, "RESOURCE_EXHAUSTED", Pushback(seconds=1.5), None) == 1.5
    assert retry_delay(policy, 1, "RESOURCE_EXHAUSTED", Pushback(seconds=61), None) is None
    assert retry_delay(policy, 1, "UNAVAILABLE", Pushback(forbidden=True), None) is None
    assert retry_delay(policy, 1, "UNAVAILABLE", NO_PUSHBACK, 0.05) is None
    assert retry_delay(policy, 1, "UNAVAILABLE", NO_PUSHBACK, 0.06) == 0.05
    # Another server is asked without a wait after UNAVAILABLE, and as often.
    assert retry_delay(policy, 7, "UNAVAILABLE", NO_PUSHBACK, None, elsewhere=True) == 0
    assert retry_delay(policy, 8, "UNAVAILABLE", NO_PUSHBACK, None, elsewhere=True) is None
    assert retry_delay(policy, 2, "UNAVAILABLE", NO_PUSHBACK, None, 10.1, elsewhere=True) is None
    assert retry_delay(policy, 1, "UNAVAILABLE", Pushback(seconds=61), None, elsewhere=True) == 0
    assert retry_delay(policy, 1, "UNAVAILABLE", Pushback(forbidden=True), None, elsewhere=True) is None
    assert retry_delay(policy, 1, "UNAVAILABLE", NO_PUSHBACK, 0, elsewhere=True) is None
    assert retry_delay(policy, 1, "RESOURCE_EXHAUSTED", Pushback(seconds=1.5), None, elsewhere=True) == 1.5
    patient = gemmd.RetryPolicy(max_attempts=100)
    drawn = [
        retry_delay(patient, 1, "UNAVAILABLE", NO_PUSHBACK, None, 0, stdlib_random.Random(seed))
        for seed in range(100)
    ]
    assert 0.04 <= min(drawn) < max(drawn) <= 0.06
    assert retry_delay(gemmd.RetryPolicy(99, jitter=0), 50, "UNAVAILABLE", NO_PUSHBACK, None) == 2.0


def test_a_policy_is_checked():
    for wrong in (
        {"max_attempts": 0},
        {"max_attempts": 1.5},
        {"initial_backoff": 10**400},
        {"initial_backoff": -1},
        {"initial_backoff": "1"},
        {"max_backoff": float("inf")},
        {"multiplier": float("nan")},
        {"patience": float("nan")},
        {"jitter": 1.5},
    ):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"^{name} is "):
            gemmd.RetryPolicy(**wrong)


def test_a_patient_policy_survives_any_number_of_attempts():
    policy = gemmd.RetryPolicy(10**9, jitter=0, patience=float("inf"), max_pushback=float("inf"))
    for attempts in (1024, 1025, 5000, 10**6):
        assert retry_delay(policy, attempts, "UNAVAILABLE", NO_PUSHBACK, None) == 2.0
    at_once = gemmd.RetryPolicy(10**9, initial_backoff=0, jitter=0)
    assert retry_delay(at_once, 5000, "UNAVAILABLE", NO_PUSHBACK, None) == 0


def logged(caplog):
    """The lines of the library since the last question."""
    lines = [f"{each.levelname}: {each.getMessage()}" for each in caplog.records if each.name == "gemmd"]
    caplog.clear()
    return lines


@pytest.mark.parametrize("call", [lambda client: client.matmul(np.eye(2), np.eye(2)), gemmd.Client.info])
def test_a_server_that_does_not_answer_is_logged_once(call, caplog):
    def fail_twice(client):
        for _ in range(2):
            with pytest.raises(gemmd.Unavailable):
                call(client)

    with gemmd.Client("127.0.0.1:1", retry=gemmd.RetryPolicy(max_attempts=3, initial_backoff=0.001)) as client:
        fail_twice(client)
        (line,) = logged(caplog)
        assert line.startswith("WARNING: 127.0.0.1:1 does not answer (")
        assert "Connection refused" in line
        assert line.endswith("); trying again for up to 10 s")
        fail_twice(client)
        assert logged(caplog) == []
        client._engine.servers.only.link.hear()  # it is back, and then gone again
        fail_twice(client)
        assert len(logged(caplog)) == 1


def test_cancelling_a_future_reaches_the_server(server):
    a = np.ones((2700, 2700), "f4")
    for transport in ("unary", "stream"):
        with gemmd.Client(server.address, transport=transport) as client:
            before = client.stats().finished_requests.get("CANCELLED", 0)
            give_up = time.monotonic() + 60
            # A quick server may be done first; then others are cancelled.
            while client.stats().finished_requests.get("CANCELLED", 0) == before:
                assert time.monotonic() < give_up
                pending = [client.submit(a, a) for _ in range(3)]
                while client.stats().in_flight_requests < 1 and not all(each.done() for each in pending):
                    time.sleep(0.001)
                for each in pending:
                    assert each.cancel() == each.cancelled()
                    assert each.done()
                while client.stats().in_flight_requests > 0:
                    time.sleep(0.001)
            assert client.matmul(a[:2], a[:, :2]).shape == (2, 2)
