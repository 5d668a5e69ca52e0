#!/usr/bin/env python3
"""Limits of a process (ulimit) are errors that say so, and end no server.

Source: nodejs/node#27798, ceph/ceph#55381 and apache/trafficserver#6902, servers that SIGXFSZ ended.
Right here: a log that may not grow is not written; gemm says that a file is too large; too few files
that may be open are refused at the start by name.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from testing.processes import Server, gemm, gemmd_binary


def limited(what, amount):
    return lambda: resource.setrlimit(what, (amount, amount))


class ResourceLimits(unittest.TestCase):
    def test_a_log_that_is_full_ends_no_server(self):
        with Server() as server:
            size = len(server.log())
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 40, size + 40))
            for _ in range(3):
                assert gemm("--server", server.address, "rm", "@12345678-1").returncode != 0
                server.process.send_signal(1)
            assert gemm("--server", server.address, "info").returncode == 0
            assert server.stop() == 0

    def test_gemm_says_that_a_file_is_too_large(self):
        with tempfile.TemporaryDirectory() as folder:
            header = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 64), }".ljust(117) + "\n"
            whole = b"\x93NUMPY\x01\x00v\x00" + header.encode() + bytes(4 * 64 * 64)
            pathlib.Path(f"{folder}/a.npy").write_bytes(whole)
            with Server() as server:
                result = gemm(
                    *[
                        "--server",
                        server.address,
                        "matmul",
                        f"{folder}/a.npy",
                        f"{folder}/a.npy",
                        "-o",
                        f"{folder}/d",
                    ],
                    preexec_fn=limited(resource.RLIMIT_FSIZE, 1000),
                )
            assert "File too large" in result.stderr
            assert result.returncode == 3
            assert not pathlib.Path(f"{folder}/d").exists()

    def test_too_few_files_are_refused_by_name(self):
        for few in 4, 8, 30:
            result = subprocess.run(
                [gemmd_binary(), "--device=cpu", "--listen=127.0.0.1:0"],
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=limited(resource.RLIMIT_NOFILE, few),
                timeout=30,
            )
            assert result.returncode == 1, result.stderr
            assert f"RLIMIT_NOFILE is {few}" in result.stderr

    def test_as_few_files_as_it_asks_for_are_enough(self):
        with Server("--cpu.threads=1", preexec_fn=limited(resource.RLIMIT_NOFILE, 72)) as server:
            assert gemm("--server", server.address, "info").returncode == 0


if __name__ == "__main__":
    unittest.main()
