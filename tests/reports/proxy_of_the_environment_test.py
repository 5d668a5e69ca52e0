#!/usr/bin/env python3
"""A proxy that the environment names reads neither tokens nor matrices.

Idea: gRPC reads http_proxy, https_proxy and grpc_proxy, for plain text and for loopback too (grpc/grpc#9989,
grpc/grpc#29718). Right here: what stays on this host goes nowhere else, and plain text goes through no proxy.
"""

import os
import pathlib
import socket
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testing"))
from processes import Server, gemm

NAMES = [each for name in ("grpc", "https", "http", "all") for each in (f"{name}_proxy", f"{name.upper()}_PROXY")]


class Proxy:
    """Takes connections, and keeps what comes."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = 0
        self.received = b""
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            self.connections += 1
            self.received += connection.recv(4096)
            connection.close()


def reached_the_server(done):
    """The server has no tokens, so that it refuses each; nobody else does in these words."""
    return "the token is none that the server knows" in done.stderr


def main():
    proxy = Proxy()
    environment = os.environ | dict.fromkeys(NAMES, f"http://127.0.0.1:{proxy.port}")
    environment.pop("no_proxy", None)
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        token = pathlib.Path(folder) / "token"
        token.write_text("secret")
        port = server.address.rsplit(":", 1)[1]
        for host in ("127.0.0.1", "localhost", "LOCALHOST", "dns:///127.0.0.1", "dns:localhost", "ipv4:127.0.0.1"):
            options = ("--server", f"{host}:{port}", "--token-file", token)
            done = gemm(*options, "info", env=environment)
            assert reached_the_server(done), (host, done.stderr)
        # The first may be looked up as a name; the second is every address.
        for host in ("127.1", "0.0.0.0"):
            refused = gemm("--server", f"{host}:{port}", "--token-file", token, "info", env=environment)
            assert refused.returncode == 2, (host, refused)
            assert "in plain text" in refused.stderr, (host, refused)
        # Allowed in plain text, it still takes no other way than the one to the server.
        done = gemm(
            *("--server", f"0.0.0.0:{port}", "--token-file", token, "--plaintext-token", "info"), env=environment
        )
        assert reached_the_server(done), done.stderr
        assert proxy.connections == 0, proxy.received
        # With TLS a proxy tunnels, and reads no more than where to.
        gemm(
            *("--server", f"0.0.0.0:{port}", "--tls", "--token-file", token, "--timeout", "300ms", "info"),
            env=environment,
        )
        assert proxy.received.startswith(b"CONNECT 0.0.0.0:"), proxy.received
        assert b"secret" not in proxy.received


if __name__ == "__main__":
    main()
