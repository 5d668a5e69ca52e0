"""Products of dask arrays, block by block on gemmd servers. Needs dask[array]; nothing else here imports it.

Lazy, as a @ b: gemmd.dask.matmul(a, b).compute()

A block row of a and a block column of b are sent once to each server that needs them, and stay there until the last
of their products is made.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gemmd import types
from gemmd._held import Held
from gemmd._pool import PoolKey, servers_of
from gemmd._tiles import Chain, Inline, Put, Tile, grid_of

try:
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph
except ImportError as error:  # pragma: no cover
    raise ImportError("gemmd.dask needs dask: install dask[array]") from error

# A block's product takes these as the whole one would; c, bias and an activation would be applied to each block.
_ASKED = frozenset(("dtype", "accumulate", "kernel", "determinism", "priority", "verify", "deadline"))

# Blocks along K are joined up to so many bytes. Sums over more are rounded between.
_PANEL_BYTES = 1 << 30


def _result_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a product of arrays, as Client.matmul() has it."""
    left, right = types.of_dtype(a), types.of_dtype(b)
    common = types.common(left, right)
    if common is None:
        types.check_factors(left, right)
        common = types.result_of(left, right, has_scales=False)
    return common.dtype


def _check_asked(asked: dict[str, Any]) -> None:
    if other := sorted(set(asked) - _ASKED):
        raise TypeError(f"{other[0]}= goes with no product of blocks; {', '.join(sorted(_ASKED))} do")


def _check_shapes(a: Any, b: Any) -> None:
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"a has {a.ndim} dimensions and b {b.ndim}; both must have 2")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}: they do not go together")


def _widest(chunks: tuple[float, ...]) -> float:
    known = [each for each in chunks if not math.isnan(each)]
    return max(known, default=1)


def _in_panels(a: Any, b: Any) -> tuple[Any, Any]:
    """Both with the same blocks along K: one of them, or as few as _PANEL_BYTES allows."""
    if math.isnan(a.shape[1]):
        return a, b  # blocks of unknown sizes stay
    line = max(_widest(a.chunks[0]) * a.dtype.itemsize, _widest(b.chunks[1]) * b.dtype.itemsize, 1)
    panel = int(min(max(_PANEL_BYTES // line, 1), max(a.shape[1], 1)))
    return a.rechunk({1: panel}), b.rechunk({0: panel})


class _Layer:
    """Tasks of one product, until they are a graph."""

    def __init__(self, key: PoolKey, asked: dict[str, Any], *about: Any) -> None:
        self.token = tokenize(key, sorted(asked.items(), key=lambda each: each[0]), *about)
        self.shift = int(self.token[:8], 16)  # so that small graphs do not all begin at the first server
        self.servers = len(key.servers)
        self.tasks: dict[Any, Any] = {}
        self._put = Put(key, asked)

    def held(self, side: str, source: Any, *at: int) -> tuple[Any, ...]:
        """The key of a block that is held."""
        key = (f"gemmd-{side}-{self.token}", *at)
        self.tasks[key] = (Held, (source.name, *at))
        return key

    def put(self, key: tuple[Any, ...], home: int) -> tuple[Any, ...]:
        """The key of the task that brings it there."""
        put = (f"{key[0]}-put", *key[1:], home % self.servers)
        self.tasks[put] = (self._put, key, home)
        return put

    def array(self, name: str, sources: list[Any], chunks: Any, dtype: Any) -> Any:
        """The dask array of the tasks that have that name."""
        graph = HighLevelGraph.from_collections(name, self.tasks, dependencies=sources)
        return da.Array(graph, name, chunks=chunks, meta=np.empty((0, 0), dtype))


def _tiles(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    return itertools.product(range(rows), range(columns))


def _has_expressions() -> bool:
    """Whether dask's arrays are expressions here (array.query-planning), to which no graph can be given."""
    asks: Callable[[], bool] = getattr(da, "array_expr_enabled", lambda: False)
    return asks()


def _by_blockwise(work: Inline, a: Any, b: Any, dtype: Any) -> Any:
    meta = np.empty((0, 0), dtype)
    return da.blockwise(work, "ij", a, "ik", b, "kj", dtype=dtype, concatenate=False, meta=meta)


def matmul(a: Any, b: Any, *, address: Any = None, tenant: str | None = None, **asked: Any) -> Any:
    """Multiplies dask arrays of 2 dimensions, M x K and K x N: a dask array that computes on the servers.

    address: one server or several, as Client's, and the same for every worker; by default GEMMD_SERVER's, here and
    now. asked: dtype=, accumulate=, kernel=, determinism=, priority=, verify= and deadline= (of each request) of
    Client.matmul(). A transposed factor is a.T.

    Blocks along K are joined, so that each block of the result has the bits that Client.matmul() gives the block
    row by the block column. Above 1 GiB a block row, or block column, is sums over several parts of K, in their
    order: they are added on the server, and rounded to the result's type between.

    Each block row and block column goes once to each server that needs it, under a name "held/...". It is released
    with its last product (some seconds later where it went from one worker to another), when a process ends, and
    after an exception, for which dask's frames must be gone: gc.collect() sees to that. A process that is killed
    leaves it until its lease ends and its memory is needed; Client.release(pattern="held/*") takes it too, and
    that of others. Where the store is full, factors go along with each product; where a server is away, its
    products are made on the others. So it is with threads and with distributed. Workers of "processes" keep
    nothing, and factors go along; so they do where dask's arrays are expressions (array.query-planning), and where
    they have less than 64 KiB.

    ValueError: the shapes do not go together, or there are other dimensions. TypeError: another argument.
    """
    _check_asked(asked)
    a, b = da.asarray(a), da.asarray(b)
    _check_shapes(a, b)
    dtype = types.parse(asked["dtype"]).dtype if "dtype" in asked else _result_dtype(a.dtype, b.dtype)
    a, b = _in_panels(a, b)
    key = PoolKey(servers_of(address), tenant)
    if _has_expressions():
        return _by_blockwise(Inline(key, asked), a, b, dtype)
    layer = _Layer(key, asked, a.name, b.name)
    rows, panels, columns = a.numblocks[0], a.numblocks[1], b.numblocks[1]
    grid = grid_of((rows, columns), layer.servers, (a.nbytes, b.nbytes), layer.shift)
    left = [[layer.held("left", a, i, k) for k in range(panels)] for i in range(rows)]
    right = [[layer.held("right", b, k, j) for k in range(panels)] for j in range(columns)]
    uses = collections.Counter(
        each
        for i, j in _tiles(rows, columns)
        for home in [grid.home(i, j) % layer.servers]
        for each in (("left", i, home), ("right", j, home))
    )
    name, tile = f"gemmd-matmul-{layer.token}", Tile(key, asked)
    for i, j in _tiles(rows, columns):
        home = grid.home(i, j) % layer.servers
        stay = uses["left", i, home] > 1, uses["right", j, home] > 1
        held = [*(left[i] if stay[0] else []), *(right[j] if stay[1] else [])]
        puts = [layer.put(each, home) for each in held]
        layer.tasks[name, i, j] = (tile, left[i], right[j], home, stay, puts)
    return layer.array(name, [a, b], (a.chunks[0], b.chunks[1]), dtype)


def chain(a: Any, *matrices: Any, address: Any = None, tenant: str | None = None, **asked: Any) -> Any:
    """Multiplies a @ matrices[0] @ matrices[1] ... from left to right: blocks of a's rows through all of them.

    Each of the matrices, which is one block then, goes once to each server. What is between two of them stays on
    the server that makes it, and never travels. Rows have the bits that Client.matmul() gives them one step after
    another. Arguments and all else as in matmul().
    """
    _check_asked(asked)
    if not matrices:
        raise ValueError("chain() takes one matrix at least besides a")
    a, rest = da.asarray(a), [da.asarray(each) for each in matrices]
    dtype, before = a.dtype, a
    for each in rest:
        _check_shapes(before, each)
        dtype, before = _result_dtype(dtype, each.dtype), each
        dtype = types.parse(asked["dtype"]).dtype if "dtype" in asked else dtype
    if _has_expressions():
        return functools.reduce(lambda x, y: matmul(x, y, address=address, tenant=tenant, **asked), rest, a)
    a, rest = a.rechunk({1: -1}), [each.rechunk(-1) for each in rest]
    key = PoolKey(servers_of(address), tenant)
    layer = _Layer(key, asked, a.name, *(each.name for each in rest))
    held = [layer.held(f"factor{index}", each, 0, 0) for index, each in enumerate(rest)]
    name, steps = f"gemmd-chain-{layer.token}", Chain(key, asked)
    for i in range(a.numblocks[0]):
        home = (layer.shift + i) % layer.servers
        puts = [layer.put(each, home) for each in held]
        layer.tasks[name, i, 0] = (steps, (a.name, i, 0), held, home, puts)
    return layer.array(name, [a, *rest], (a.chunks[0], rest[-1].chunks[1]), dtype)
