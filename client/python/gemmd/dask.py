"""Products of dask arrays, block by block on a gemmd server. Needs dask[array]; nothing else here imports it.

Lazy, as a @ b: gemmd.dask.matmul(a, b).compute()
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gemmd.client import Client, default_client

try:
    import dask.array as da
except ImportError as error:  # pragma: no cover
    raise ImportError("gemmd.dask needs dask: install dask[array]") from error


class _Block:
    """Multiplies blocks of one row of A's and one column of B's. It travels to dask's workers by its arguments."""

    def __init__(self, address: str | None, tenant: str | None, asked: dict[str, Any]) -> None:
        self.address = address
        self.tenant = tenant
        self.asked = asked

    def __call__(self, a: Any, b: Any) -> Any:
        client = _client(self.address, self.tenant)
        # Of the contraction dask hands all blocks, in the same order.
        left = a if isinstance(a, list) else [a]
        right = b if isinstance(b, list) else [b]
        total: Any = None
        for x, y in zip(left, right, strict=True):
            if total is not None and total.dtype == np.int32:
                total += client.matmul(x, y, **self.asked)  # nothing is added to an exact product there
            else:
                # The sum goes along as C: the server adds.
                total = np.asarray(client.matmul(x, y, c=total, **self.asked))
        return total


_lock = threading.Lock()
_clients: dict[tuple[str | None, str | None], Client] = {}


def _client(address: str | None, tenant: str | None) -> Client:
    if address is None and tenant is None:
        return default_client()
    key = (address, tenant)
    with _lock:
        if key not in _clients:
            _clients[key] = Client(address, tenant=tenant)
        return _clients[key]


def matmul(a: Any, b: Any, *, address: str | None = None, tenant: str | None = None, **asked: Any) -> Any:
    """Multiplies dask arrays of 2 dimensions, M x K and K x N: a dask array that computes on the server.

    address: the server's; by default GEMMD_SERVER's, of each worker. asked: dtype=, kernel=, determinism= and
    verify= of Client.matmul(). A product over several blocks of K adds them in their order; their sums are
    rounded to the result's type between blocks.

    ValueError: the shapes do not go together, or there are other dimensions.
    """
    a, b = da.asarray(a), da.asarray(b)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"a has {a.ndim} dimensions and b {b.ndim}; both must have 2")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}: they do not go together")
    if a.chunks[1] != b.chunks[0]:
        b = b.rechunk({0: a.chunks[1]})
    dtype = np.dtype(asked["dtype"]) if "dtype" in asked else np.int32 if a.dtype == np.int8 else a.dtype
    return da.blockwise(
        _Block(address, tenant, asked),
        "ij",
        a,
        "ik",
        b,
        "kj",
        dtype=dtype,
        concatenate=False,
        meta=np.empty((0, 0), dtype),
    )
