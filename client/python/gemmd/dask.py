"""Products of dask arrays, block by block on a gemmd server. Needs dask[array]; nothing else here imports it.

Lazy, as a @ b: gemmd.dask.matmul(a, b).compute()
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gemmd import types
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
        # dask hands all blocks of the contraction, those of a and of b in one order.
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


# A block's product takes these as the whole one would; c, bias and an activation would be applied to each block.
_ASKED = frozenset(("dtype", "accumulate", "kernel", "determinism", "priority", "verify", "deadline"))


def _result_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a product of arrays, as Client.matmul() has it."""
    left, right = types.of_dtype(a), types.of_dtype(b)
    common = types.common(left, right)
    if common is None:
        types.check_factors(left, right)
        common = types.result_of(left, right, has_scales=False)
    return common.dtype


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

    address: as Client's; by default GEMMD_SERVER's, of each worker. asked: dtype=, accumulate=, kernel=,
    determinism=, priority=, verify= and deadline= of Client.matmul(). A product over several blocks of K adds them
    in their order; their sums are rounded to the result's type between blocks. A transposed factor is a.T.

    ValueError: the shapes do not go together, or there are other dimensions. TypeError: another argument.
    """
    if other := sorted(set(asked) - _ASKED):
        raise TypeError(f"{other[0]}= goes with no product of blocks; {', '.join(sorted(_ASKED))} do")
    a, b = da.asarray(a), da.asarray(b)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"a has {a.ndim} dimensions and b {b.ndim}; both must have 2")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}: they do not go together")
    if a.chunks[1] != b.chunks[0]:
        b = b.rechunk({0: a.chunks[1]})
    dtype = types.parse(asked["dtype"]).dtype if "dtype" in asked else _result_dtype(a.dtype, b.dtype)
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
