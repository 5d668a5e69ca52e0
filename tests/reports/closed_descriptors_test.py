#!/usr/bin/env python3
"""Programs whose standard files are closed or full work as others do, or say that they do not.

Source: rsyslog/rsyslog#1526 and php/php-src#7769, where a socket or a file got the number of a closed
descriptor, and messages went into it. Right here: gemmd serves in each of the 8 ways of closing 0, 1
and 2, a refused call and a reload included; gemm ends with an error where its results are lost.
"""

import itertools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from testing.processes import gemm, gemm_binary, gemmd_binary


def closing(descriptors):
    """What Popen's child does before it begins."""

    def close():
        for each in descriptors:
            os.close(each)

    return close


class ClosedDescriptors(unittest.TestCase):
    def start(self, folder, closed, level="warning"):
        path = f"{folder}/socket"
        process = subprocess.Popen(
            [gemmd_binary(), "--device=cpu", "--cpu.threads=1", f"--listen=unix:{path}", f"--log.level={level}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=closing(closed),
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, path

    def await_answer(self, process, path):
        while process.poll() is None:
            with socket.socket(socket.AF_UNIX) as one:
                if one.connect_ex(path) == 0:
                    return gemm("--server", f"unix:{path}", "info")
        self.fail(f"gemmd ended with code {process.returncode}")
        return None

    def test_gemmd_serves_whatever_is_closed(self):
        for mask, level in itertools.product(range(8), ["info", "warning"]):  # "info" has lines at the start
            closed = [each for each in range(3) if mask & 1 << each]
            with self.subTest(closed=closed, level=level), tempfile.TemporaryDirectory() as folder:
                process, path = self.start(folder, closed, level)
                assert self.await_answer(process, path).returncode == 0
                # It is logged, where there is a log.
                refused = gemm("--server", f"unix:{path}", "rm", "@12345678-1")
                assert refused.returncode != 0
                process.send_signal(signal.SIGHUP)
                assert self.await_answer(process, path).returncode == 0
                process.terminate()
                assert process.wait(30) == 0

    def test_gemm_says_that_its_output_is_lost(self):
        for arguments in ["--help"], ["--version"], ["completion", "bash"]:
            with open("/dev/full", "w") as full:
                result = gemm(*arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE)
            assert result.returncode != 0, arguments
            assert "standard output" in result.stderr
            closed = subprocess.run(
                [gemm_binary(), *arguments], stderr=subprocess.PIPE, text=True, preexec_fn=closing([1]), timeout=60
            )
            assert closed.returncode != 0, arguments
            assert "standard output" in closed.stderr

    def test_gemmd_says_that_its_output_is_lost(self):
        for argument in "--help", "--version", "--print-config":
            with open("/dev/full", "w") as full:
                result = subprocess.run([gemmd_binary(), argument], stdout=full, stderr=subprocess.PIPE, text=True)
            assert result.returncode == 1
            assert "standard output cannot be written" in result.stderr

    def test_bench_measures_whatever_is_closed(self):
        with tempfile.TemporaryDirectory() as folder:
            process, path = self.start(folder, [])
            self.await_answer(process, path)
            result = subprocess.run(
                [
                    gemm_binary(),
                    "--server",
                    f"unix:{path}",
                    "bench",
                    "-s",
                    "8x8x8",
                    "--warm-up",
                    "10ms",
                    "--duration",
                    "100ms",
                    "--window",
                    "50ms",
                ],
                preexec_fn=closing([0, 2]),
                stdout=subprocess.PIPE,
                text=True,
                timeout=60,
            )
            assert result.returncode == 0, result.stdout


if __name__ == "__main__":
    unittest.main()
