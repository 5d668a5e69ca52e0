#!/bin/bash
# When compute() of dask's threads, or of "sync", raises, all blocks that were computed until then stay in memory until
# a garbage collection, though nobody has the error any more. After one that succeeds they go at once.
#
# dask's own frames have the error in a variable, and the error's traceback has the frames. Python collects such
# cycles by the number of objects, not by their bytes: gigabytes may stay for long, and with them what the objects hold
# elsewhere: the matrices of gemmd.dask on servers. gc.collect() after a failure frees them.
#
# Seen with dask 2026.8.0, Python 3.11, 2026-11-30:
#   threads  after success: 0 blocks   after a failure: 3 blocks   after gc.collect(): 0
#   sync     after success: 0 blocks   after a failure: 3 blocks   after gc.collect(): 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'dask[array]==2026.8.0' numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import gc
import time
import weakref

from dask.threaded import get as threads
from dask.local import get_sync as sync

made = []


class Block:
    def __init__(self):
        made.append(weakref.ref(self))


def make():
    return Block()


def join(*blocks):
    return len(blocks)


def fail(*blocks):
    raise ValueError


def left():
    time.sleep(0.2)  # threads let go of their arguments
    return sum(each() is not None for each in made)


blocks = {f"block-{each}": (make,) for each in range(3)}
seen = {}
gc.disable()
for get in (threads, sync):
    made.clear()
    get({**blocks, "end": (join, *blocks)}, "end")
    succeeded = left()
    made.clear()
    try:
        get({**blocks, "end": (fail, *blocks)}, "end")
    except ValueError:
        pass
    failed = left()
    gc.collect()
    seen[get] = succeeded, failed, left()
    name = "threads" if get is threads else "sync"
    print(f"{name:8} after success: {succeeded} blocks   after a failure: {failed} blocks   after gc.collect(): {left()}")
assert list(seen.values()) == [(0, 3, 0), (0, 3, 0)], seen
PYTHON
