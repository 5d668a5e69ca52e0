"""http_proxy is set, as on many machines, and the client has a token: a proxy reads whatever is not encrypted.

Sources: grpc/grpc#9989, grpc/grpc#29718. Right: nothing for this host goes through a proxy; other hosts are reached
through one with TLS alone; and a token goes to another host in plain text only where its owner says so.
"""

import socket
import threading

import numpy as np
import pytest

import gemmd
import gemmd.aio

TOKEN = "not-for-proxies"
ONCE = gemmd.RetryPolicy(max_attempts=1)


class Listener:
    """A proxy that notes what reaches it, and says no."""

    def __init__(self):
        self.heard = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.heard.append(connection.recv(1 << 16))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")


@pytest.fixture(params=["http_proxy", "https_proxy", "grpc_proxy", "all"])
def proxy(request, monkeypatch):
    listener = Listener()
    names = ["http_proxy", "https_proxy", "grpc_proxy"] if request.param == "all" else [request.param]
    for name in ("no_proxy", "no_grpc_proxy", "http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in names:
        monkeypatch.setenv(name, listener.url)
    yield listener
    listener.socket.close()


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "localhost:{}", "ipv4:127.0.0.1:{}", "dns:///localhost:{}"])
def test_a_server_of_this_host_is_reached_without_one(server, proxy, form):
    port = server.address.rpartition(":")[2]
    for transport in ("unary", "stream"):
        with gemmd.Client(form.format(port), transport=transport, retry=ONCE) as client:
            assert client.matmul(np.ones((2, 2)), np.ones((2, 2)))[0, 0] == 2
        with gemmd.Client(form.format(port), token=TOKEN, transport=transport, retry=ONCE) as client:
            with pytest.raises(gemmd.Unauthenticated):  # this server knows no tokens
                client.matmul(np.ones((2, 2)), np.ones((2, 2)))
    assert proxy.heard == []


def test_nor_through_a_proxy_of_addresses(server, monkeypatch):
    """gRPC has one of its own, by the address that a name has, from version 1.58 on."""
    listener = Listener()
    monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY", listener.url.removeprefix("http://"))
    monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES", "0.0.0.0/0")
    with gemmd.Client(server.address, token=TOKEN, retry=ONCE) as client:
        with pytest.raises(gemmd.Unauthenticated):
            client.info()
    listener.socket.close()
    assert listener.heard == []


def test_with_tls_the_proxy_sees_a_name_alone(proxy):
    with gemmd.Client("gemmd.invalid:50051", tls=True, token=TOKEN, retry=ONCE) as client:
        with pytest.raises(gemmd.Unavailable, match="403"):
            client.info()
    assert proxy.heard[0].startswith(b"CONNECT gemmd.invalid:50051 ")
    assert TOKEN.encode() not in b"".join(proxy.heard)


@pytest.mark.parametrize("kind", [gemmd.Client, gemmd.aio.Client])
@pytest.mark.parametrize("address", ["gemmd.invalid:1", "192.0.2.1:1", "ipv4:127.0.0.1:1,192.0.2.1:1"])
def test_a_token_does_not_leave_the_host_in_plain_text(kind, address):
    with pytest.raises(ValueError, match=r"token would be sent to .* in plain text: give tls="):
        kind(address, token=TOKEN)
    kind(address, token=TOKEN, plaintext_token=True)
    kind(address, token=TOKEN, tls=True)
    kind(address)


def test_plain_text_goes_through_no_proxy():
    for address, tls, is_proxied in (
        ("192.0.2.1:1", None, False),
        ("192.0.2.1:1", True, True),
        ("localhost:1", True, False),
        ("unix:/run/gemmd", None, False),
    ):
        with gemmd.Client(address, tls=tls) as client:
            assert (("grpc.enable_http_proxy", 0) in client._engine.servers.only.link._options) != is_proxied
