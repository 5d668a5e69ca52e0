#!/usr/bin/env python3
"""The Python client against the C++ library, on one server, in turns, so that both meet the same noise.

    against_cpp.py --gemm bazel-bin/client/cli/gemm --server 127.0.0.1:50051 [--rounds 5] [--only NAME]

Each row is a load: the medians of its rounds' median latencies, and the ratio. Shared memory is measured where
the server shares it. Nothing here passes or fails: machines differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gemmd
import gemmd.aio


def gemm_bench(options: argparse.Namespace, *arguments: str) -> float:
    """Median ms of a closed loop of one request of `gemm bench`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.json"
        subprocess.run(
            [options.gemm, "bench", "--server", options.server, "-c", "1", "-q", "--duration", "2s",
             "--save", str(path), *arguments],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return float(json.loads(path.read_text())["points"][0]["latency_us"]["p50"]) / 1e3


def median_ms(work: Callable[[], Any], seconds: float = 2.0) -> float:
    """The median of calls in a row for `seconds`, after two that do not count."""
    work()
    work()
    took = []
    give_up = time.perf_counter() + seconds
    while time.perf_counter() < give_up or len(took) < 5:
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e3


def up(options: argparse.Namespace, channels: int) -> tuple[float, float]:
    """64 MiB of f32 to the server, 16 KiB back."""
    a, b = np.ones((4096, 4096), "f4"), np.ones((4096, 1), "f4")
    with gemmd.Client(options.server, transport="stream", channels=channels) as client:
        ours = median_ms(lambda: client.matmul(a, b))
    return ours, gemm_bench(options, "-s", "4096x1x4096", "--call", "stream", "--stripes", str(channels))


def down(options: argparse.Namespace, channels: int) -> tuple[float, float]:
    """64 MiB of f32 back, 16 KiB each to the server."""
    a, b = np.ones((4096, 1), "f4"), np.ones((1, 4096), "f4")
    with gemmd.Client(options.server, transport="stream", channels=channels) as client:
        ours = median_ms(lambda: client.matmul(a, b))
    return ours, gemm_bench(options, "-s", "4096x4096x1", "--call", "stream", "--stripes", str(channels))


def small(options: argparse.Namespace) -> tuple[float, float]:
    """64 cubed in one call."""
    a, b = np.ones((64, 64), "f4"), np.ones((64, 64), "f4")
    with gemmd.Client(options.server) as client:
        ours = median_ms(lambda: client.matmul(a, b))
    return ours, gemm_bench(options, "-s", "64x64x64", "--call", "unary")


def shared(options: argparse.Namespace) -> tuple[float, float]:
    """64 MiB in shared memory: milliseconds of this client, and of `gemm`."""
    with gemmd.Client(options.server) as client:
        if not client.info().shared_memory_prefix:
            return 0.0, 0.0
        a, b = client.shared((4096, 4096)), client.shared((4096, 1))
        d = client.shared((4096, 1))
        ours = median_ms(lambda: client.matmul(a, b, out=d))
    return ours, gemm_bench(options, "-s", "4096x1x4096", "--operands", "shared-memory")


def rows(options: argparse.Namespace, k: int = 8192, n: int = 16) -> str:
    """Rows by asyncio, 256 under way, over a resident factor."""

    async def main() -> str:
        async with gemmd.aio.Client(options.server) as client:
            w, x = await client.put(np.ones((k, n), "f4")), np.ones((1, k), "f4")

            async def some(count: int) -> None:
                for _ in range(count):
                    await client.matmul(x, w)

            await asyncio.gather(*(some(4) for _ in range(256)))
            begun, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(some(40) for _ in range(256)))
            took, cpu = time.perf_counter() - begun, time.process_time() - cpu
            return f"{256 * 40 / took:.0f}/s, {cpu / (256 * 40) * 1e6:.0f} us of this process's CPU each"

    return asyncio.run(main())


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gemm", required=True)
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    loads: list[tuple[str, Callable[[], tuple[float, float]]]] = [
        ("64 MiB up, 1 connection", lambda: up(options, 1)),
        ("64 MiB up, 8 connections", lambda: up(options, 8)),
        ("64 MiB down, 1 connection", lambda: down(options, 1)),
        ("64 MiB down, 8 connections", lambda: down(options, 8)),
        ("64 MiB in shared memory", lambda: shared(options)),
        ("64 cubed f32, one call", lambda: small(options)),
    ]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print(f"{'load':<28} {'Python ms':>10} {'C++ ms':>10} {'ratio':>6}")
    for name, load in loads:
        if options.only not in name:
            continue
        found = [load() for _ in range(options.rounds)]
        ours, theirs = (statistics.median(each[side] for each in found) for side in (0, 1))
        print(f"{name:<28} {ours:>10.2f} {theirs:>10.2f} {ours / theirs if theirs else 0:>6.2f}", flush=True)
    if options.only in "rows by asyncio":
        print(f"1x8192x16 f32 rows by asyncio: {rows(options)}")


if __name__ == "__main__":
    main()
