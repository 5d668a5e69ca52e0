#!/usr/bin/env python3
r"""Products by gRPC's Python, by libgemmd and from C++, on one server, in turns of shuffled order.

    GEMMD_LIBRARY=bazel-bin/client/c/libgemmd.so.0 by_library.py --gemm bazel-bin/client/cli/gemm \
        --server 127.0.0.1:50051 [--rounds 5]

Each row is a load of one request at a time: medians of the rounds' median latencies, and the median of their
ratios. Nothing here passes or fails: machines differ.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics

import numpy as np
from against_cpp import gemm_bench, median_ms

import gemmd

LOADS = {  # M, N, K of f32
    "64 MiB up": (4096, 1, 4096),
    "64 MiB down": (4096, 4096, 1),
    "64 MiB up and 32 MiB down": (4096, 2048, 2048),
    "256 cubed": (256, 256, 256),
    "8 cubed": (8, 8, 8),
}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gemm", required=True)
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    order = random.Random(1)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print(f"{'ms':<28} {'gRPC':>8} {'libgemmd':>8} {'C++':>8} {'libgemmd / C++':>15}")
    with (
        gemmd.Client(options.server, library=False) as plain,
        gemmd.Client(options.server, library=True) as carried,
    ):
        for name, (m, n, k) in LOADS.items():
            a, b = np.ones((m, k), "f4"), np.ones((k, n), "f4")
            ways = {
                "gRPC": lambda a=a, b=b: median_ms(lambda: plain.matmul(a, b), 1),
                "libgemmd": lambda a=a, b=b: median_ms(lambda: carried.matmul(a, b), 1),
                "C++": lambda shape=f"{m}x{n}x{k}": gemm_bench(options, "-s", shape, "--call", "auto"),
            }
            took: dict[str, list[float]] = {each: [] for each in ways}
            for _ in range(options.rounds):
                for each in order.sample(list(ways), len(ways)):
                    took[each].append(ways[each]())
            medians = [statistics.median(took[each]) for each in ways]
            ratio = statistics.median(x / y for x, y in zip(took["libgemmd"], took["C++"], strict=True))
            print(f"{name:<28} " + " ".join(f"{each:>8.2f}" for each in medians) + f" {ratio:>15.2f}", flush=True)


if __name__ == "__main__":
    main()
