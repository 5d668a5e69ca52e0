#!/usr/bin/env python3
"""A collector of traces that takes a connection and then reads nothing does not delay the exit.

Source: open-telemetry/opentelemetry-python#3309, where the shutdown waits for an exporter that cannot
send.
Right here: what a drain waits for are answers to clients; a collector has a second.
"""

import pathlib
import socket
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from testing.processes import Server, gemm


class StalledCollector(unittest.TestCase):
    def test_nobody_waits_for_it(self):
        with socket.socket() as listener:
            # Less than a request's spans, so that they stay in the server's socket.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            with Server(
                f"--observe.otlp-endpoint=http://127.0.0.1:{listener.getsockname()[1]}",
                "--observe.otlp-sampled-per-million=1000000",
                "--lifecycle.send-timeout-ms=1000",
            ) as server:
                bench = [
                    "bench",
                    "-c",
                    "4",
                    "-s",
                    "8x8x8",
                    "--warm-up",
                    "10ms",
                    "--duration",
                    "200ms",
                    "--window",
                    "50ms",
                ]
                assert gemm("--server", server.address, *bench).returncode == 0
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1)
                    assert server.stop() == 0
                events = [line["event"] for line in server.events()]
                assert "drained" in events
                assert "answers_not_delivered" not in events


if __name__ == "__main__":
    unittest.main()
