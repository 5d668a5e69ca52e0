#!/usr/bin/env python3
"""5,000 products of 16 x 16 f32: as one request by both data paths, one by one, and by NumPy in this process.

  stacks.py HOST:PORT

Each figure is the best of nine; of the requests one by one the best of three.
"""

import argparse
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


def main():
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    many_small(parser.parse_args().address)


if __name__ == "__main__":
    main()
