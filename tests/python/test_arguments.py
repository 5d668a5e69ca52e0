"""Addresses, deadlines and leases that callers give."""

import math
import sys
import threading

import numpy as np
import pytest

import gemmd
from gemmd._address import Address


@pytest.mark.parametrize(
    ("text", "target", "stays_here"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.9.9.9", "127.9.9.9:50051", True),
        ("localhost", "localhost:50051", True),
        ("LOCALHOST:65535", "LOCALHOST:65535", True),
        ("[::1]:7", "[::1]:7", True),
        ("::1", "[::1]:50051", True),
        ("[::ffff:127.0.0.1]:7", "[::ffff:127.0.0.1]:7", True),
        ("unix:/run/gemmd", "unix:/run/gemmd", True),
        ("unix:///run/gemmd", "unix:///run/gemmd", True),
        ("unix-abstract:gemmd", "unix-abstract:gemmd", True),
        ("dns:localhost", "dns:localhost:50051", True),
        ("dns:///localhost:5", "dns:///localhost:5", True),
        ("dns://192.0.2.1/localhost:5", "dns://192.0.2.1/localhost:5", False),
        ("localhost.:5", "localhost.:5", False),
        ("ipv4:127.0.0.1:1,127.0.0.2", "ipv4:127.0.0.1:1,127.0.0.2:50051", True),
        ("ipv6:[::1]", "ipv6:[::1]:50051", True),
        ("host", "host:50051", False),
        ("gpu-1.example.com:443", "gpu-1.example.com:443", False),
        ("10.0.0.1", "10.0.0.1:50051", False),
        ("[2001:db8::1]", "[2001:db8::1]:50051", False),
        ("2001:db8::1", "[2001:db8::1]:50051", False),
        ("dns:///host", "dns:///host:50051", False),
        ("dns://8.8.8.8/host:7", "dns://8.8.8.8/host:7", False),
        ("ipv4:127.0.0.1:1,10.0.0.1:1", "ipv4:127.0.0.1:1,10.0.0.1:1", False),
        ("localhost.example.com:1", "localhost.example.com:1", False),
        ("127.0.0.1.example.com:1", "127.0.0.1.example.com:1", False),
        ("xds:///gemmd", "xds:///gemmd", False),
    ],
)
def test_addresses(text, target, stays_here):
    found = Address(text)
    assert (found.target, found.stays_here) == (target, stays_here)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no server"),
        (":50051", "no host"),
        ("host:99999", "port is '99999'; it must be 1 to 65535"),
        ("host:0", "port is '0'"),
        ("host:", "port is ''"),
        ("host:-1", "port is '-1'"),
        ("host:50051/", "port is '50051/'"),
        ("host:https", "port is 'https'"),
        ("host:\u0665\u0660", "port is"),
        ("http://host:1", "without http://"),
        ("https://host", "without https://"),
        ("grpc://host:1", "without grpc://"),
        (" host:1", "contains ' '"),
        ("host:1\n", "which contains"),
        ("ho st:1", "contains ' '"),
        ("'host:1'", 'contains "\'"'),
        ('"host:1"', "contains '\"'"),
        ("user@host:1", "no host"),
        ("h\u00f6st:1", "no host"),
        ("[host]:1", "no IPv6 address"),
        ("[::1:1", "no host"),
        ("unix:", "names no socket"),
        ("dns:///host:99999", "port is '99999'"),
        ("ipv4:10.0.0.1:99999", "port is '99999'"),
    ],
)
def test_what_is_no_address(text, why, monkeypatch):
    with pytest.raises(ValueError, match=r"^address is ") as wrong:
        gemmd.Client(text)
    assert repr(text) in str(wrong.value)
    assert why in str(wrong.value)
    assert "must be" in str(wrong.value)
    if text:
        monkeypatch.setenv("GEMMD_SERVER", text)
        with pytest.raises(ValueError, match=r"^GEMMD_SERVER is "):
            gemmd.Client()


def test_a_client_says_where_its_server_is():
    with gemmd.Client("host") as client:
        assert client.address == "host:50051"
    with pytest.raises(TypeError, match="address is 5"):
        gemmd.Client([5])


A = np.ones((3, 3))
LONG = [1e7, 7e9, 9.3e9, 1e18, 1e300, math.inf, sys.maxsize, 10**400, np.float32(1e30), None]


@pytest.mark.parametrize("seconds", LONG)
@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_a_deadline_may_be_far_away(server, seconds, transport):
    with gemmd.Client(server.address, transport=transport) as client:
        assert client.matmul(A, A, deadline=seconds)[0, 0] == 3
        assert client.submit(A, A, deadline=seconds).result(seconds)[0, 0] == 3
        assert client.info(seconds).version
        with client.put(A, deadline=seconds) as resident:
            assert resident.numpy(seconds)[0, 0] == 1
            resident.renew(deadline=seconds)
        assert client.matmul(A, A, deadline=1000)[0, 0] == 3  # the timer goes on


def calls(client, resident):
    """What takes a deadline."""
    return (
        lambda d: client.matmul(A, A, deadline=d),
        lambda d: client.submit(A, A, deadline=d),
        lambda d: client.put(A, deadline=d),
        lambda d: client.estimate(A, A, deadline=d),
        lambda d: client.resident(resident.handle, d),
        client.residents,
        client.info,
        client.stats,
        resident.numpy,
        resident.quantized,
        lambda d: resident.renew(deadline=d),
        resident.release,
    )


def test_a_deadline_that_is_none_or_has_passed(client):
    with client.put(A) as resident:
        for call in calls(client, resident):
            for wrong in (math.nan, np.float64("nan")):
                with pytest.raises(
                    ValueError, match=r"deadline is .*nan.*; it must be a number of seconds, or None"
                ):
                    call(wrong)
            with pytest.raises(TypeError, match="deadline is 'soon'; it must be a number of seconds"):
                call("soon")
            for passed in (0, -1, -math.inf):
                with pytest.raises(gemmd.DeadlineExceeded, match=f"deadline is {passed} seconds: it has passed"):
                    call(passed)


def test_a_lease_is_a_number_of_seconds(client):
    with client.put(A) as resident:
        for call in (
            lambda lease: client.put(A, lease=lease),
            lambda lease: resident.renew(lease),
            lambda lease: client.matmul(A, A, keep=True, lease=lease),
            lambda lease: client.linear(A, lease=lease),
        ):
            for wrong in (math.inf, -math.inf, -1, math.nan, 1e30, 10**400):
                with pytest.raises(ValueError, match=r"lease is .*; it must be "):
                    call(wrong)
            with pytest.raises(TypeError, match="lease is 'x'"):
                call("x")
            with pytest.raises(gemmd.InvalidArgument, match="lease"):
                call(315_576_000_000)  # the server's limit


def test_a_wait_may_be_long(client):
    for timeout in (threading.TIMEOUT_MAX, 1e300, math.inf, sys.maxsize):
        assert client.submit(A, A).result(timeout)[0, 0] == 3
        assert client.submit(A, A).exception(timeout) is None
