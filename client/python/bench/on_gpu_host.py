#!/usr/bin/env python3
"""The Python client on a GPU's host: one product at a time, and rows by asyncio, beside the C++ library.

    on_gpu_host.py --gemm bazel-bin/client/cli/gemm --server 127.0.0.1:50051 [--rounds 3]

The server needs --shared-memory.name-prefix. Each product is first compared with float64; then loads take turns
with `gemm bench`. Nothing here passes or fails: machines differ. Needs ml_dtypes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
from against_cpp import gemm_bench, median_ms

import gemmd
import gemmd.aio

SIDE = 4096
BF16 = ml_dtypes.bfloat16


def error_of(d: np.ndarray, a: np.ndarray, b: np.ndarray, rows: int = 8) -> float:
    """||D - AB|| / ||AB|| of a few rows, in float64."""
    picked = np.linspace(0, len(a) - 1, rows).astype(int)
    exact = a[picked].astype("f8") @ b.astype("f8")
    return float(np.linalg.norm(d[picked].astype("f8") - exact) / np.linalg.norm(exact))


def inline(options: argparse.Namespace, channels: int) -> tuple[float, float, float]:
    """SIDE cubed in bf16, over a stream: ms here, ms of C++, and the error."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((SIDE, SIDE), "f4").astype(BF16) for _ in "ab")
    out = np.empty((SIDE, SIDE), BF16)
    with gemmd.Client(options.server, transport="stream", channels=channels) as client:
        error = error_of(client.matmul(a, b, out=out), a, b)
        ours = median_ms(lambda: client.matmul(a, b, out=out))
    theirs = gemm_bench(options, "-s", f"{SIDE}x{SIDE}x{SIDE}", "--type", "bf16", "--call", "stream",
                        "--stripes", str(channels))  # fmt: skip
    return ours, theirs, error


def shared(options: argparse.Namespace) -> tuple[float, float, float]:
    """A product whose operands and result lie in shared memory."""
    random = np.random.default_rng(2)
    with gemmd.Client(options.server) as client:
        a, b, d = (client.shared((SIDE, SIDE), BF16) for _ in "abd")
        for x in (a, b):
            x[:] = random.standard_normal((SIDE, SIDE), "f4").astype(BF16)
        client.matmul(a, b, out=d)
        error = error_of(d, a, b)
        ours = median_ms(lambda: client.matmul(a, b, out=d))
    theirs = gemm_bench(options, "-s", f"{SIDE}x{SIDE}x{SIDE}", "--type", "bf16", "--operands", "shared-memory")
    return ours, theirs, error


async def rows(server: str, under_way: int, each: int, side: int = 8192) -> tuple[float, float, float]:
    """Rows of bf16 over a resident square: rows a second, us of this process's CPU each, and the error."""
    random = np.random.default_rng(3)
    w = random.standard_normal((side, side), "f4").astype(BF16)
    x = random.standard_normal((under_way, 1, side), "f4").astype(BF16)
    async with gemmd.aio.Client(server) as client:
        factor = await client.put(w)
        error = error_of(
            np.concatenate(await asyncio.gather(*(client.matmul(row, factor) for row in x))), x[:, 0], w
        )

        async def some(row: np.ndarray, count: int) -> None:
            for _ in range(count):
                await client.matmul(row, factor)

        await asyncio.gather(*(some(row, 4) for row in x))
        begun, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(some(row, each) for row in x))
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    count = under_way * each
    return count / took, cpu / count * 1e6, error


def rows_of_a_process(server: str, start: multiprocessing.Barrier, told: multiprocessing.Queue[float]) -> None:
    """One of several processes that bring rows together."""
    start.wait()
    told.put(asyncio.run(rows(server, 256, 60))[0])


def rows_of_processes(server: str, count: int) -> list[float]:
    """Rows a second of each process, where so many run at once."""
    context = multiprocessing.get_context("spawn")
    start, told = context.Barrier(count), context.Queue()
    processes = [context.Process(target=rows_of_a_process, args=(server, start, told)) for _ in range(count)]
    for process in processes:
        process.start()
    found = [told.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gemm", required=True)
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=4)
    options = parser.parse_args()
    loads: list[tuple[str, Callable[[], tuple[float, float, float]]]] = [
        (f"{SIDE} cubed bf16, stream, 1 connection", lambda: inline(options, 1)),
        (f"{SIDE} cubed bf16, stream, 8 connections", lambda: inline(options, 8)),
        (f"{SIDE} cubed bf16, stream, 12 connections", lambda: inline(options, 12)),
        (f"{SIDE} cubed bf16, shared memory", lambda: shared(options)),
    ]
    with gemmd.Client(options.server) as client:
        device = client.info().devices[0].model
    print(f"{device}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print(f"{'load':<42} {'Python ms':>10} {'C++ ms':>10} {'ratio':>6} {'error':>9}")
    for name, load in loads:
        found = [load() for _ in range(options.rounds)]
        ours, theirs = (statistics.median(each[side] for each in found) for side in (0, 1))
        worst = max(each[2] for each in found)
        print(f"{name:<42} {ours:>10.2f} {theirs:>10.2f} {ours / theirs:>6.2f} {worst:>9.1e}", flush=True)
    for under_way in (64, 256, 1024):
        rate, cpu, error = asyncio.run(rows(options.server, under_way, 20000 // under_way))
        print(f"1x8192x8192 bf16 by asyncio, {under_way} under way: {rate:.0f}/s, {cpu:.0f} us of CPU each, "
              f"error {error:.1e}", flush=True)  # fmt: skip
    if options.processes > 1:
        rates = rows_of_processes(options.server, options.processes)
        print(f"{options.processes} processes with 256 under way: {' '.join(f'{rate:.0f}/s' for rate in rates)}")


if __name__ == "__main__":
    main()
