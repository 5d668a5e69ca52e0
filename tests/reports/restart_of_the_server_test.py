#!/usr/bin/env python3
"""A server that is restarted is not noticed by the calls that meet it away.

Idea: connections that come back only after 10 to 20 s (grpc/grpc#18554). Right here: default retries outlast a
restart, for calls, streams and uploads alike.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testing"))
from processes import Server, gemm_binary


def write_npy(path, rows, columns):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    data = struct.pack("<f", 0.5) * (rows * columns)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    return path


def main():
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        a = write_npy(pathlib.Path(folder) / "a.npy", 64, 64)
        server.kill()
        calls = [
            subprocess.Popen(
                [gemm_binary(), "--server", server.address, *map(str, command)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for command in (
                ["info"],
                ["put", a],
                ["matmul", a, a, "--transport=unary", "-o", f"{folder}/unary.npy"],
                ["matmul", a, a, "--transport=stream", "-o", f"{folder}/stream.npy"],
            )
        ]
        server.start()
        for call in calls:
            output, _ = call.communicate(timeout=60)
            assert call.returncode == 0, (call.args, output)


if __name__ == "__main__":
    main()
