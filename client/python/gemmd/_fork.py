"""What a forked child may do: nothing with gRPC that its parent has begun to use, and it is told so.

gRPC's threads do not exist in the child, and whoever waits for them waits for ever.
"""

from __future__ import annotations

import os

from gemmd.errors import ForkedError

_in_use = False
_forked = False


def _after_in_child() -> None:
    global _forked
    _forked = _forked or _in_use


os.register_at_fork(after_in_child=_after_in_child)


def use_grpc() -> None:
    """Says that this process uses gRPC from here on. ForkedError where it must not."""
    global _in_use
    guard()
    _in_use = True


def guard() -> None:
    """ForkedError in a child of a process that used gRPC. Takes no lock: its owner may not be here."""
    if _forked:
        raise ForkedError(
            "this process was forked after its parent had used gemmd, and gRPC does not survive that: "
            'start processes with multiprocessing\'s "spawn" or "forkserver", or before the first client'
        )


def is_forked() -> bool:
    """Whether guard() would refuse: then nothing of gRPC is to be touched, not even to close it."""
    return _forked
