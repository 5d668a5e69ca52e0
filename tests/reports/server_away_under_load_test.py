#!/usr/bin/env python3
"""A load on a server that is away: few tries, told as such, and no success.

Idea: grpc/grpc#18554 (a client that asks a server again that is gone, without a pause) and locustio/locust#152 (a
run that failed ends with 0).
Right: each request in flight of a closed loop tries some fifteen times in the first second and ten times a second
then, the pauses are counted and shown, and a run fails where a server was away for much of its time, though few
requests failed.
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/testing")
import processes

FAILED = 9
IN_FLIGHT = 2


class ServerAwayUnderLoadTest(unittest.TestCase):
    def test_the_generator_pauses_between_its_tries(self):
        with processes.Server() as server, tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder) / "run.json"
            bench = subprocess.Popen(
                [
                    processes.gemm_binary(), "--server", server.address, "bench", "-c", str(IN_FLIGHT),
                    "-s", "8x8x8", "--warm-up", "1ms", "--duration", "60s", "--save", saved,
                ],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.assertIn("/s  p50", bench.stderr.readline())  # a line a second
            server.kill()
            for _ in range(3):
                bench.stderr.readline()
            bench.send_signal(signal.SIGINT)  # the report has what there is
            output, errors = bench.communicate(timeout=60)
            point = json.loads(saved.read_text())["points"][0]
        tries = point["errors"]["UNAVAILABLE"]
        self.assertGreater(point["ok"], 0)
        self.assertGreater(tries, IN_FLIGHT)
        self.assertLessEqual(tries, IN_FLIGHT * (5 + 10 * point["seconds"]))
        self.assertGreater(point["pauses"]["share"], 0.1)
        self.assertIn("nobody answered (UNAVAILABLE)", output)
        self.assertEqual(FAILED, bench.returncode, errors)


if __name__ == "__main__":
    unittest.main()
