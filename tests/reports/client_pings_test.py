#!/usr/bin/env python3
"""Clients that ask now and then whether the server is there are not disconnected for it.

Source: llm-d/llm-d-kv-cache#359 and grpc/grpc#33661: "Too many pings", and every call of the
connection is lost. Right here: an interval that is stated (--limits.ping-interval-ms), and a line in
the log where a client that asks more often is disconnected.
"""

import pathlib
import socket
import struct
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from testing.processes import Server

SETTINGS, PING, GOAWAY = 4, 6, 7


def frame(kind, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, 0]) + bytes(4) + payload


class Connection:
    """HTTP/2 by hand."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS))

    def ping(self):
        """The kinds of frames that come until the ping is answered, or the connection ends."""
        self.socket.sendall(frame(PING, b"01234567"))
        kinds = []
        while head := self.file.read(9):
            payload = self.file.read(int.from_bytes(head[:3], "big"))
            kinds.append(head[3])
            if head[3] == GOAWAY or (head[3] == PING and payload == b"01234567"):
                break
        return kinds


class ClientPings(unittest.TestCase):
    def test_an_interval_that_is_kept_costs_nothing(self):
        with Server("--limits.ping-interval-ms=20") as server:
            connection = Connection(server.address)
            for _ in range(6):
                assert connection.ping()[-1] == PING
                time.sleep(0.1)

    def test_any_number_may_be_allowed(self):
        with Server("--limits.ping-interval-ms=0") as server:
            connection = Connection(server.address)
            for _ in range(20):
                assert connection.ping()[-1] == PING

    def test_the_log_says_who_was_disconnected_and_why(self):
        with Server() as server:
            connection = Connection(server.address)
            kinds = []
            while GOAWAY not in kinds and len(kinds) < 100:
                kinds += connection.ping()
            assert GOAWAY in kinds
            line = server.wait_for("transport_ended")
            assert line["why"] == "too_many_pings"
            port = connection.socket.getsockname()[1]
            assert f"ipv4:127.0.0.1:{port}" == line["peer"]


if __name__ == "__main__":
    unittest.main()
