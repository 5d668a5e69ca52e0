#!/usr/bin/env python3
"""Stacks of f32 products as one request, beside NumPy in this process.

  stacks.py HOST:PORT               5,000 of 16 x 16, by both data paths and one by one
  stacks.py HOST:PORT --in-turns    1,000 of 128 cubed, by both data paths and in shared memory

Figures of 16 x 16 are the best of nine; those of requests one by one the best of three. In turns every way comes
once a round, in shuffled order: medians, quartiles, how long the device computed, and the median ratio of NumPy's
time in the same round to each. The rest of a request moves operands and results, in shared memory too, for which
the server is on this host and has --shared-memory.name-prefix.
"""

import argparse
import contextlib
import statistics
import time

import numpy as np

import gemmd


def best_ms(work, times):
    """The shortest of so many turns."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found) * 1e3


def many_small(address):
    """Prints a line for each way."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((5000, 16, 16), dtype=np.float32) for _ in range(2))
    print(f"NumPy                     {best_ms(lambda: a @ b, 9):8.2f} ms")
    for name, library in (("gRPC's Python", None), ("libgemmd", True)):
        try:
            with gemmd.Client(address, library=library) as client:
                np.testing.assert_allclose(client.matmul(a, b), a @ b, atol=1e-4)
                print(f"one request, {name:13s}{best_ms(lambda: client.matmul(a, b), 9):8.2f} ms")
        except ImportError as error:
            print(f"one request, {name}: {error}")
    with gemmd.Client(address) as client:

        def one_by_one():
            for pending in [client.submit(x, y) for x, y in zip(a, b, strict=True)]:
                pending.result()

        print(f"5,000 requests            {best_ms(one_by_one, 3):8.2f} ms")


def in_turns(address, rounds, count, size):
    """Prints a line for each way."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((count, size, size), dtype=np.float32) for _ in range(2))
    wanted, d = a @ b, np.empty_like(a)

    def request(client, *arrays):
        stages = client.matmul(*arrays[:2], out=arrays[2]).receipt.stages
        return next((each.end_us - each.start_us) / 1e3 for each in stages if each.name == "compute")

    with contextlib.ExitStack() as opened:
        client = opened.enter_context(gemmd.Client(address))
        ways = {"NumPy": lambda: np.matmul(a, b, out=d), "gRPC's Python": lambda: request(client, a, b, d)}
        with contextlib.suppress(ImportError):
            by_library = opened.enter_context(gemmd.Client(address, library=True))
            ways["libgemmd"] = lambda: request(by_library, a, b, d)
        if client.info().shared_memory_prefix:
            x, y, z = (client.shared(a.shape, "f4") for _ in range(3))
            x[:], y[:] = a, b
            ways["shared memory"] = lambda: request(client, x, y, z)
        for name, way in ways.items():
            way()
            np.testing.assert_allclose(z if name == "shared memory" else d, wanted, atol=1e-3)
        took = {name: [] for name in ways}
        computed = {name: [] for name in ways}
        for _ in range(rounds):
            for name in random.permutation(list(ways)):
                begun = time.perf_counter()
                computing = ways[name]()
                took[name].append((time.perf_counter() - begun) * 1e3)
                computed[name].append(took[name][-1] if name == "NumPy" else computing)
    print(f"{count} products of {size} x {size} x {size} f32, {rounds} rounds; ms")
    print(f"{'':14}{'median':>8}{'quartiles':>18}{'NumPy / it':>12}{'computing':>11}{'NumPy / it':>12}")
    for name, times in took.items():
        low, middle, high = statistics.quantiles(times, n=4)
        whole, computing = (
            statistics.median(one / other for one, other in zip(took["NumPy"], each, strict=True))
            for each in (times, computed[name])
        )
        print(
            f"{name:14}{middle:8.1f}{f'{low:.1f} to {high:.1f}':>18}{whole:12.2f}"
            f"{statistics.median(computed[name]):11.1f}{computing:12.2f}"
        )


def main():
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--in-turns", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--size", type=int, default=128)
    asked = parser.parse_args()
    if asked.in_turns:
        in_turns(asked.address, asked.rounds, asked.count, asked.size)
    else:
        many_small(asked.address)


if __name__ == "__main__":
    main()
