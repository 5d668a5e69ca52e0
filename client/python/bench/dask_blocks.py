#!/usr/bin/env python3
"""A product of dask arrays on gemmd's servers, beside NumPy's blocks on the same workers and one direct client.

  dask_blocks.py HOST:PORT,HOST:PORT [--side 8192] [--block 2048] [--rounds 3] [--workers 0] [--threads 4]

The direct client submits as many products as there are servers at once, each of as many rows. --workers: processes
of dask.distributed, of so many threads each; without it dask's own threads in this process. Each round measures the
three in another order. Uploaded bytes are the servers' own count.
"""

import argparse
import contextlib
import statistics
import time

import dask
import dask.array as da
import distributed
import numpy as np

import gemmd
import gemmd.dask


def uploaded(client):
    """Bytes of matrices that came to each server, and with products, since it began."""
    stats = [client.stats(server=each.address) for each in client.servers()]
    return np.array([(each.operands.uploaded_bytes, each.payload_bytes_in) for each in stats])


def direct(client, a, b):
    """One product for each server, of rows of a, at once."""
    parts = np.array_split(a, len(client.servers()))
    return np.concatenate([each.result() for each in [client.submit(part, b) for part in parts]])


def ways_of(options, client, a, b):
    """The three ways, each a function that makes the product."""
    x, y = (da.from_array(each, options.block) for each in (a, b))
    if options.workers:
        x, y = dask.persist(x, y)  # on the workers, as what they have read would be
        distributed.wait([x, y])
    kind = {} if options.workers else {"scheduler": "threads", "num_workers": options.threads}
    return {
        "direct client": lambda: direct(client, a, b),
        "gemmd.dask": lambda: gemmd.dask.matmul(x, y, address=options.address).compute(**kind),
        "NumPy's blocks": lambda: (x @ y).compute(**kind),
    }


def measured(ways, rounds, client):
    """Seconds of each round by way, and what came to the servers in one."""
    seconds = {name: [] for name in ways}
    came = {}
    names = list(ways)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            before, begun = uploaded(client), time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - begun)
            came[name] = uploaded(client) - before
    return seconds, came


@contextlib.contextmanager
def cluster_of(options):
    """dask.distributed's workers, if there are to be any."""
    if not options.workers:
        yield
        return
    with distributed.LocalCluster(
        n_workers=options.workers, threads_per_worker=options.threads, dashboard_address=None
    ) as cluster:
        with distributed.Client(cluster):
            yield


def main():
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    for name, value in (("side", 8192), ("block", 2048), ("rounds", 3), ("workers", 0), ("threads", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((options.side, options.side), dtype="f4") for _ in range(2))
    with gemmd.Client(options.address) as client, cluster_of(options):
        ways = ways_of(options, client, a, b)
        seconds, came = measured(ways, options.rounds, client)
    shortest = statistics.median(seconds["direct client"])
    for name, every in seconds.items():
        middle = statistics.median(every)
        print(
            f"{name:16}{middle:8.2f} s{middle / shortest:8.2f}  rounds {', '.join(f'{each:.2f}' for each in every)}"
        )
        for number, (matrices, along) in enumerate(came[name]):
            print(f"  server {number}: {matrices / 2**20:.0f} MiB uploaded, {along / 2**20:.0f} MiB with products")


if __name__ == "__main__":
    main()
