#!/usr/bin/env python3
"""A line about a slow request does not say what it was: no shape, no types, no address, no trace.

Sources: triton-inference-server/server#776 (who asked, for what, how long it took), #7395 (all of it in one line).
Right: one line of JSON has M, N, K, types, the client's address and its traceparent, whichever way the product
came, and /console.json has the same.
"""

import json
import pathlib
import struct
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testing"))
import processes

M, N, K = 640, 704, 768
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e47{:02x}-00f067aa0ba902b7-01"


def write_zeros(path, rows, columns):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".ljust(117) + "\n"
    path.write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(rows * columns * 4)
    )


class SlowRequestsTest(unittest.TestCase):
    def test_a_line_says_what_was_asked_by_whom(self):
        with (
            tempfile.TemporaryDirectory() as name,
            processes.Server(
                # One thread takes longer than a millisecond for 0.7 GFLOP.
                "--cpu.threads=1",
                "--log.slow-ms=1",
                "--observe.listen=127.0.0.1:0",
            ) as server,
        ):
            a, b = pathlib.Path(name) / "A.npy", pathlib.Path(name) / "B.npy"
            write_zeros(a, M, K)
            write_zeros(b, K, N)
            for number, transport in enumerate(("unary", "stream")):
                done = processes.gemm(
                    "--server",
                    server.address,
                    "--tenant",
                    "alice",
                    "matmul",
                    a,
                    b,
                    "-o",
                    a.with_name("D.npy"),
                    "--transport",
                    transport,
                    "--traceparent",
                    PARENT.format(number),
                )
                self.assertEqual(0, done.returncode, done.stderr)
            observed = server.wait_for("observing")["address"]
            with urllib.request.urlopen(f"http://{observed}/console.json") as answer:
                shown = json.load(answer)["slow"]
            server.stop()
            lines = [line for line in server.events() if line["event"] == "slow_request"]
        self.assertEqual(2, len(lines))
        for number, (line, same) in enumerate(zip(lines, reversed(shown), strict=True)):
            for found in (line, same):
                self.assertEqual((M, N, K), (found["m"], found["n"], found["k"]))
                self.assertEqual(("f32", "alice"), (found["types"], found["tenant"]))
                self.assertEqual(PARENT.format(number), found["traceparent"])
                self.assertRegex(found["peer"], r"^127\.0\.0\.1:\d+$")
            self.assertEqual(line["request_id"], same["request_id"])


if __name__ == "__main__":
    unittest.main()
