"""Products on gemmd servers for programs of Ray. Needs ray, and ray[serve] for deployment(); nothing imports it.

Multiplier is a stage of ray.data, pool() is Ray's ActorPool of them, and deployment() fronts servers with Ray
Serve. Each process sends its matrix once to each server. Processes with equal matrices share one copy, and the last
one that ends in good order releases it. One that is killed leaves it until its lease ends and its memory is needed.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmd import errors
from gemmd._held import Held
from gemmd._pool import PoolKey, pool_of, servers_of
from gemmd._tiles import Chain

try:
    import ray
    from ray.util import ActorPool
except ImportError as error:  # pragma: no cover
    raise ImportError("gemmd.ray needs ray: install ray, or ray[serve] for deployment()") from error


# A server that is away holds up no end longer than this.
_CLOSE_SECONDS = 5.0
# Errors after which a caller may try again later.
_LATER = frozenset(("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"))


class Multiplier:
    """Rows by a matrix, x @ w: for ray.data's map_batches(), for pool(), and without Ray.

    w: K x N, or the ObjectRef of one, which a host's actors share. address: as Client's; by default GEMMD_SERVER's
    of the process that it is made in. Servers take turns. column, output: of batches. asked: as Client.matmul() has
    it, bias and activation too, but for keep, out and what a factor needs.

    ds.map_batches(gemmd.ray.Multiplier, fn_constructor_kwargs={"w": ref, "column": "x"}, concurrency=2,
    batch_format="numpy"). Thread-safe. It pickles with its matrix.
    """

    def __init__(
        self,
        w: Any,
        *,
        address: Any = None,
        tenant: str | None = None,
        column: str = "data",
        output: str | None = None,
        **asked: Any,
    ) -> None:
        w = ray.get(w) if isinstance(w, ray.ObjectRef) else w
        if np.ndim(w) != 2:
            raise ValueError(f"w has {np.ndim(w)} dimensions; it must have 2")
        self.column = column
        self.output = column if output is None else output
        self._held = Held(np.asarray(w))
        self._key = PoolKey(servers_of(address), tenant)
        self._rows = Chain(self._key, asked)
        self._begin()

    def _begin(self) -> None:
        # Processes do not all begin at the first server.
        self._turn = itertools.count(os.getpid())

    def matmul(self, x: Any) -> Any:
        """The product x @ w, an ndarray; x: (..., K)."""
        return self._rows(x, [self._held], next(self._turn), [])

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The batch with its column multiplied, as ray.data wants it."""
        return {**batch, self.output: self.matmul(np.asarray(batch[self.column]))}

    def close(self) -> None:
        """Releases the matrix. A product after that sends it again."""
        self._held.let_go()
        pool_of(self._key).flush(_CLOSE_SECONDS)

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()


def pool(w: Any, count: int, *, options: Mapping[str, Any] | None = None, **more: Any) -> ActorPool:
    """`count` actors, each a Multiplier(w, **more), as Ray's ActorPool: its map() takes multiply.

    list(gemmd.ray.pool(w, 2).map(gemmd.ray.multiply, batches)). options: of the actors, as {"num_cpus": 0}, which
    is the default: servers compute. address: by default GEMMD_SERVER's of this process.
    """
    if count < 1:
        raise ValueError(f"count is {count}; a pool has one actor at least")
    more["address"] = list(servers_of(more.get("address")))
    reference = w if isinstance(w, ray.ObjectRef) else ray.put(np.asarray(w))
    actor = ray.remote(Multiplier).options(**{"num_cpus": 0, **(options or {})})
    return ActorPool([actor.remote(reference, **more) for _ in range(count)])


def multiply(actor: Any, x: Any) -> Any:
    """What ActorPool.map() and submit() want: x @ w by that actor."""
    return actor.matmul.remote(x)


class _Front:
    """The replica of a deployment."""

    def __init__(self, matrices: dict[str, Any], address: Any, tenant: str | None, asked: dict[str, Any]) -> None:
        self._by_name: dict[str, Multiplier] = {}
        for name, each in matrices.items():
            self._by_name[name] = Multiplier(each, address=address, tenant=tenant, **asked)

    async def matmul(self, name: str, x: Any) -> Any:
        """The product x @ matrices[name]. KeyError: there is none."""
        return await asyncio.to_thread(self._by_name[name].matmul, x)

    def __del__(self) -> None:
        # Serve calls it when a replica ends, and then kills the process, in which no handler of exit runs.
        for each in self._by_name.values():
            each.close()

    async def __call__(self, request: Any) -> Any:
        """POST /NAME with x as .npy brings the product as .npy."""
        from starlette.responses import Response

        name = request.url.path.rpartition("/")[2]
        if name not in self._by_name:
            return Response(f"no matrix is named {name!r}", 404)
        try:
            x = np.load(io.BytesIO(await request.body()), allow_pickle=False)
            product = await self.matmul(name, x)
        except errors.Error as error:
            return Response(str(error), 503 if error.code in _LATER else 400)
        except (ValueError, TypeError) as error:
            return Response(str(error), 400)
        body = io.BytesIO()
        np.save(body, product, allow_pickle=False)
        return Response(body.getvalue(), media_type="application/octet-stream")


def deployment(
    matrices: Mapping[str, Any],
    *,
    address: Any = None,
    tenant: str | None = None,
    options: Mapping[str, Any] | None = None,
    **asked: Any,
) -> Any:
    """A Ray Serve application, for serve.run(): its replicas multiply by matrices of these names on the servers.

    handle.matmul.remote(name, x) is x @ matrices[name]; over HTTP, POST /NAME with x as .npy brings the product as
    .npy. matrices: arrays of 2 dimensions, or ObjectRefs: a replica that starts later needs the process that made
    them. address: by default GEMMD_SERVER's of this process.
    options: of the deployment, as {"num_replicas": 2}. asked: as in Multiplier.
    """
    from ray import serve

    references = {name: each if isinstance(each, ray.ObjectRef) else ray.put(np.asarray(each))
                  for name, each in matrices.items()}  # fmt: skip
    made: Any = serve.deployment(_Front)
    return made.options(**{"name": "gemmd", **(options or {})}).bind(
        references, list(servers_of(address)), tenant, asked
    )
