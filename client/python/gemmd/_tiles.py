"""Blocks of a product on a pool of servers: the tasks of graphs, and which server makes which tile."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gemmd import errors
from gemmd._held import Held
from gemmd._pool import Pool, PoolKey, pool_of
from gemmd.client import Client
from gemmd.resident import Resident


class Work:
    """What each task has of the whole product. It travels to dask's workers by its arguments."""

    def __init__(self, key: PoolKey, asked: dict[str, Any]) -> None:
        self.key = key
        self.asked = asked

    def __reduce__(self) -> Any:
        return type(self), (self.key, self.asked)

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self.key, sorted(self.asked.items(), key=lambda each: each[0])

    @property
    def deadline(self) -> float | None:
        """Each request's deadline, in seconds."""
        seconds: float | None = self.asked.get("deadline")
        return seconds


class Put(Work):
    """Brings a matrix to its server before the products by it. Their tasks do that too, where this has failed."""

    def __call__(self, held: Held, home: int) -> None:
        if _is_passing():
            return
        pool = pool_of(self.key)
        server = pool.order(home)[0]
        with contextlib.suppress(errors.Unavailable):
            pool.attempt(server, lambda: held.factor(pool, server, self.deadline))


class Tile(Work):
    """The product of a block row and a block column: a list of panels each, along K.

    stay: whether the left one and the right one are to stay on the server. puts: tasks that come before.
    """

    def __call__(
        self, left: list[Held], right: list[Held], home: int, stay: tuple[bool, bool], puts: list[None]
    ) -> Any:
        del puts
        pool = pool_of(self.key)
        lefts = _Factors(left, stay[0] and not _is_passing())
        rights = _Factors(right, stay[1] and not _is_passing())

        def lost(server: str) -> None:
            lefts.lost(server)
            rights.lost(server)

        def work(server: str) -> Any:
            return _twice(
                lambda: _sum(
                    pool.at(server),
                    lefts.at(pool, server, self.deadline),
                    rights.at(pool, server, self.deadline),
                    self.asked,
                ),
                lambda: lost(server),
            )

        return pool.run(home, work, lambda client: _sum(client, lefts.arrays, rights.arrays, self.asked))


class Inline(Work):
    """A tile whose factors go along: arrays, or lists of panels along K."""

    def __call__(self, left: Any, right: Any) -> Any:
        lefts, rights = (each if isinstance(each, list) else [each] for each in (left, right))
        return _sum(pool_of(self.key).every, lefts, rights, self.asked)


class Chain(Work):
    """Rows by one matrix after another. What is between stays on the server that makes them all."""

    def __call__(self, rows: Any, matrices: list[Held], home: int, puts: list[None]) -> Any:
        del puts
        pool = pool_of(self.key)
        factors = _Factors(matrices, not _is_passing())

        def work(server: str) -> Any:
            return _twice(
                lambda: self._steps(pool.at(server), rows, factors.at(pool, server, self.deadline)),
                lambda: factors.lost(server),
            )

        return pool.run(home, work, lambda client: self._steps(client, rows, factors.arrays))

    def _steps(self, client: Client, x: Any, matrices: list[Any]) -> Any:
        with contextlib.ExitStack() as kept:
            for each in matrices[:-1]:
                x = _kept(client, x, each, None, self.asked, kept)
            return np.asarray(client.matmul(x, matrices[-1], **self.asked))


class _Factors:
    """What a task was given. stay: whether they are to stay on the server."""

    def __init__(self, held: list[Held], stay: bool) -> None:
        self.held = held
        self.stay = stay
        self._found: list[Any] = []

    @property
    def arrays(self) -> list[Any]:
        """As they go along with a product."""
        return [each.array for each in self.held]

    def at(self, pool: Pool, server: str, deadline: float | None) -> list[Any]:
        """As a product there names them."""
        self._found = [each.factor(pool, server, deadline) for each in self.held] if self.stay else self.arrays
        return self._found

    def lost(self, server: str) -> None:
        """Those that at() found last are to be sent there again."""
        for held, factor in zip(self.held, self._found, strict=False):
            held.lost(server, factor)


def _twice(work: Callable[[], Any], lost: Callable[[], None]) -> Any:
    """work(), once more after lost() where a matrix was missing: its owner may have released it."""
    try:
        return work()
    except errors.NotFound:
        lost()
        return work()


def _is_passing() -> bool:
    """Whether what a task is given ends with it: on the main threads of dask's pools of processes."""
    if multiprocessing.parent_process() is None or threading.current_thread() is not threading.main_thread():
        return False
    distributed: Any = sys.modules.get("distributed")
    if distributed is None:
        return True
    try:
        distributed.get_worker()
    except ValueError:
        return True
    return False


def _sum(client: Client, left: list[Any], right: list[Any], asked: dict[str, Any]) -> Any:
    """The products of panels along K, added in their order: on the server, which keeps the sum meanwhile."""
    total: Any = None
    with contextlib.ExitStack() as kept:
        for x, y in zip(left[:-1], right[:-1], strict=True):
            total = _added(client, x, y, total, asked, kept)
        return np.asarray(_added(client, left[-1], right[-1], total, asked, None))


def _added(
    client: Client, x: Any, y: Any, total: Any, asked: dict[str, Any], kept: contextlib.ExitStack | None
) -> Any:
    """The sum x @ y + total, on the server until `kept` is closed; downloaded where there is none."""
    if total is not None and total.dtype == np.int32:
        # Nothing is added to an exact product there.
        part = total.numpy() if isinstance(total, Resident) else total
        return part + np.asarray(client.matmul(x, y, **asked))
    if kept is None:
        return client.matmul(x, y, c=total, **asked)
    return _kept(client, x, y, total, asked, kept)


def _kept(client: Client, x: Any, y: Any, c: Any, asked: dict[str, Any], kept: contextlib.ExitStack) -> Any:
    """The sum x @ y + c on the server, until `kept` is closed; here where the server keeps no more."""
    try:
        made = client.matmul(x, y, c=c, keep=True, **asked)
    except (errors.ResourceExhausted, errors.PermissionDenied):
        return np.asarray(client.matmul(x, y, c=c, **asked))
    kept.callback(_release, made)
    return made


def _release(made: Resident) -> None:
    with contextlib.suppress(errors.Error):  # a server that is away has lost it, or evicts it after its lease
        made.release()


class Grid(NamedTuple):
    """How block rows and block columns are dealt to servers: rows x columns of them. shift: where it begins."""

    rows: int
    columns: int
    shift: int

    def home(self, i: int, j: int) -> int:
        """The server of a tile; Pool.order() takes it modulo their number."""
        return self.shift + (i % self.rows) * self.columns + j % self.columns


def grid_of(shape: tuple[int, int], servers: int, sizes: tuple[float, float], shift: int = 0) -> Grid:
    """The grid for which least is sent, of those with as many servers as have a tile.

    shape: in tiles. sizes: bytes of the left and of the right factor.
    """
    left, right = (0.0 if math.isnan(each) else each for each in sizes)
    choices = [
        (-rows * columns, columns * left + rows * right, rows, columns)
        for rows in range(1, min(shape[0], servers) + 1)
        for columns in range(1, min(shape[1], servers // rows) + 1)
    ]
    _, _, rows, columns = min(choices)
    return Grid(rows, columns, shift)
