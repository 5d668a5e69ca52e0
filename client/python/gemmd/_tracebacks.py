"""What errors keep alive."""

from __future__ import annotations

import traceback

from gemmd._interrupts import deferred


def let_go(error: BaseException) -> None:
    """Empties the frames that have ended of an error's tracebacks.

    One of them mostly refers to the error, which refers to the frame: the callers' frames, with their arrays, would
    stay until a garbage collection.
    """
    chain: list[BaseException] = [error]
    with deferred():  # calls of gRPC's end here, which take its locks
        for each in chain:
            chain += [one for one in (each.__cause__, each.__context__) if one is not None and one not in chain]
            traceback.clear_frames(each.__traceback__)
