"""Progress bars of big transfers, where tqdm is installed and somebody looks: standard error is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_FROM_BYTES = 64 << 20

Progress = Callable[[int], None]


def bar(size: int, what: str) -> Progress | None:
    """What is to be told of the bytes of a transfer; None where no bar is to be shown."""
    if size < _FROM_BYTES or not (sys.stderr and sys.stderr.isatty()):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    shown: Any = tqdm(total=size, desc=what, unit="B", unit_scale=True, leave=False)
    left = size

    def tell(count: int) -> None:
        nonlocal left
        left -= count
        shown.update(count)
        if left <= 0:
            shown.close()

    return tell


def downloads() -> Callable[[int], Progress]:
    """For transfers whose size the server says."""
    return lambda size: bar(size, "download") or (lambda _: None)
