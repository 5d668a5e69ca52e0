"""What a forked child may do: nothing with gRPC that its parent has begun to use, and it is told so.

gRPC's threads do not exist in the child, and whoever waits for them waits for ever.
"""

from __future__ import annotations

import gc
import os
import weakref

from gemmd.errors import ForkedError

# gRPC's own handlers start its threads anew in a child, where they hang, abort or write on the parent's sockets.
# gRPC reads the variable when it is imported: setting it later has no effect.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Older gRPCs see the end of a connection, and a new one, when they look every 5 seconds, if no call is under way.
os.environ.setdefault("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "500")

_in_use = False
_forked = False
_holders: weakref.WeakSet[object] = weakref.WeakSet()
_held: list[object] = []


def _after_in_child() -> None:
    global _forked
    if not _in_use:
        return
    _forked = True
    # Destroying gRPC's objects calls gRPC too: what the parent had is neither freed nor collected here.
    _held.extend(_holders)
    gc.freeze()


def hold_in_child(holder: object) -> None:
    """Keeps it, and what it refers to, alive in children that are forked while it lives."""
    _holders.add(holder)


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
