#!/usr/bin/env python3
"""Batches of rows by one matrix through Ray's actors: gemmd.ray, NumPy in as many actors, and one direct client.

  ray_rows.py HOST:PORT,HOST:PORT [--side 4096] [--rows 512] [--batches 16] [--actors 2] [--rounds 3]

Each round measures the three in another order, without the start of the actors and their first product. The direct
client has as many products under way as there are actors.
"""

import argparse
import itertools
import os
import statistics
import time

import numpy as np
import ray

import gemmd
import gemmd.ray


@ray.remote(num_cpus=0)
class ByNumPy:
    """Multiplies on this host."""

    def __init__(self, w):
        self.w = w

    def matmul(self, x):
        """The product x @ w."""
        return x @ self.w


def in_order(client, xs, w, count):
    """Products by one client, so many under way."""
    pending = [client.submit(x, w) for x in xs[:count]]
    for x in xs[count:]:
        yield pending.pop(0).result()
        pending.append(client.submit(x, w))
    for each in pending:
        yield each.result()


def ways_of(options, client, w, xs, references):
    """The three ways, each a function that makes all products."""
    resident = client.put(w)
    ours = gemmd.ray.pool(w, options.actors, address=options.address)
    reference = ray.put(w)
    theirs = ray.util.ActorPool([ByNumPy.remote(reference) for _ in range(options.actors)])
    return {
        "direct client": lambda: list(in_order(client, xs, resident, options.actors)),
        "gemmd.ray": lambda: list(ours.map(gemmd.ray.multiply, references)),
        "NumPy's actors": lambda: list(theirs.map(gemmd.ray.multiply, references)),
    }


def main():
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    for name, value in (("side", 4096), ("rows", 512), ("batches", 16), ("actors", 2), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    random = np.random.default_rng(1)
    w = random.standard_normal((options.side, options.side), dtype="f4")
    xs = [random.standard_normal((options.rows, options.side), dtype="f4") for _ in range(options.batches)]
    references = [ray.put(each) for each in xs]
    with gemmd.Client(options.address) as client:
        ways = ways_of(options, client, w, xs, references)
        seconds = {name: [] for name in ways}
        for work in ways.values():
            work()
        names = itertools.cycle(ways)
        for _ in range(options.rounds):
            for _ in ways:
                name = next(names)
                begun = time.perf_counter()
                ways[name]()
                seconds[name].append(time.perf_counter() - begun)
            next(names)  # another one begins the next round
    shortest = statistics.median(seconds["direct client"])
    for name, every in seconds.items():
        middle = statistics.median(every)
        rounds = ", ".join(f"{each:.2f}" for each in every)
        print(f"{name:16}{middle:8.2f} s{middle / shortest:8.2f}  rounds {rounds}")


if __name__ == "__main__":
    main()
