"""gemmd.Client for asyncio: thousands of products under way in one thread of the caller's.

    async with gemmd.aio.Client("host:50051") as client:
        rows = await asyncio.gather(*(client.matmul(x, w) for x in xs))

Small products that are under way together share messages, both ways. A cancelled task cancels its product on the
server too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from gemmd import client as _client
from gemmd._channel import Tls
from gemmd._fleet import ServerState
from gemmd._layout import Array
from gemmd._prepare import Asked
from gemmd.admin import (
    Candidate,
    Draining,
    Estimate,
    Info,
    Kernel,
    Statistics,
    TenantResident,
    Traces,
    Tuning,
)
from gemmd.linear import Linear
from gemmd.resident import Named, Resident, Transposed
from gemmd.retry import RetryPolicy

T = TypeVar("T")


class _Mailbox:
    """What other threads tell a loop; what comes together wakes it once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._told: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_waking = False

    def tell(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        with self._lock:
            self._told.append((future, result, error))
            if self._is_waking:
                return
            self._is_waking = True
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            self.loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        with self._lock:
            told, self._told = self._told, deque()
            self._is_waking = False
        for future, result, error in told:
            if future.done():  # cancelled
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


class Client:
    """gemmd.Client for asyncio; its arguments, and its errors. Use it in one event loop at a time."""

    def __init__(
        self,
        address: str | Sequence[str] | None = None,
        *,
        tenant: str | None = None,
        tls: bool | Tls | None = None,
        token: str | None = None,
        plaintext_token: bool = False,
        retry: RetryPolicy | None = None,
        transport: str = "auto",
        channels: int = 0,
        chunk_bytes: int = 0,
        library: bool | str | None = None,
        affinity_header: bool = False,
    ) -> None:
        self.sync = _client.Client(
            address,
            tenant=tenant,
            tls=tls,
            token=token,
            plaintext_token=plaintext_token,
            retry=retry,
            transport=transport,
            channels=channels,
            chunk_bytes=chunk_bytes,
            library=library,
            affinity_header=affinity_header,
        )
        self._box: _Mailbox | None = None

    @property
    def address(self) -> str:
        """As gemmd.Client.address."""
        return self.sync.address

    def servers(self) -> tuple[ServerState, ...]:
        """gemmd.Client.servers(); it asks nobody, and so waits for nothing."""
        return self.sync.servers()

    async def matmul(self, a: Any, b: Any, *, deadline: float | None = None, **asked: Any) -> Any:
        """gemmd.Client.matmul(): the same arguments but progress=, result and errors.

        The arrays must not be changed before it has ended. Cancelling the task cancels the product, here and on
        the server.
        """
        begun = time.perf_counter()
        loop = asyncio.get_running_loop()
        box = self._box
        if box is None or box.loop is not loop:
            box = self._box = _Mailbox(loop)
        future: asyncio.Future[Any] = loop.create_future()
        told = functools.partial(box.tell, future)
        running = self.sync._start(a, b, Asked(**asked), deadline, told, begun)
        try:
            return await future
        except asyncio.CancelledError:
            running.cancel()
            raise

    async def grouped_matmul(
        self, a: Any, b: Any, offsets: Any, *, deadline: float | None = None, **asked: Any
    ) -> Any:
        """gemmd.Client.grouped_matmul(), as matmul() is."""
        return await self.matmul(a, b, deadline=deadline, **asked, row_ends=offsets)

    def submit(self, a: Any, b: Any, **asked: Any) -> asyncio.Task[Any]:
        """matmul() as a task that begins by itself; its arguments, and a deadline."""
        return asyncio.get_running_loop().create_task(self.matmul(a, b, **asked))

    async def put(
        self,
        x: Any,
        *,
        name: str | None = None,
        replace: bool = False,
        store_as: str | None = None,
        axis: int = 1,
        lease: float | None = None,
        deadline: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Resident:
        """gemmd.Client.put(), in a thread, where progress() is called too.

        The Resident's own methods, and @, wait: call them in threads too.
        """
        return await _in_thread(
            lambda: self.sync.put(
                x,
                name=name,
                replace=replace,
                store_as=store_as,
                axis=axis,
                lease=lease,
                deadline=deadline,
                progress=progress,
            )
        )

    async def resident(self, name: str, deadline: float | None = None) -> Resident:
        """gemmd.Client.resident(), in a thread."""
        return await _in_thread(lambda: self.sync.resident(name, deadline))

    async def named(self, name: str, deadline: float | None = None) -> Named:
        """gemmd.Client.named(), in a thread."""
        return await _in_thread(lambda: self.sync.named(name, deadline))

    async def residents(
        self, deadline: float | None = None, *, pattern: str | None = None, server: str | None = None
    ) -> list[Resident]:
        """gemmd.Client.residents(), in a thread."""
        return await _in_thread(lambda: self.sync.residents(deadline, pattern=pattern, server=server))

    async def all_residents(
        self, deadline: float | None = None, *, pattern: str | None = None, server: str | None = None
    ) -> list[TenantResident]:
        """gemmd.Client.all_residents(), in a thread."""
        return await _in_thread(lambda: self.sync.all_residents(deadline, pattern=pattern, server=server))

    async def set_name(
        self, resident: Resident, name: str, *, replace: bool = False, deadline: float | None = None
    ) -> None:
        """Resident.set_name(), in a thread."""
        await _in_thread(lambda: resident.set_name(name, replace=replace, deadline=deadline))

    async def numpy(self, resident: Resident, deadline: float | None = None) -> Array:
        """Resident.numpy(), in a thread."""
        return await _in_thread(lambda: resident.numpy(deadline))

    async def release(
        self,
        resident: str | Resident | Transposed | None = None,
        deadline: float | None = None,
        *,
        pattern: str | None = None,
    ) -> list[str]:
        """gemmd.Client.release(), in a thread."""
        return await _in_thread(lambda: self.sync.release(resident, deadline, pattern=pattern))

    async def linear(self, w: Any, bias: Any = None, activation: str = "none", **asked: Any) -> AsyncLinear:
        """gemmd.Client.linear(): a layer to be awaited."""
        return AsyncLinear(self, await _in_thread(lambda: self.sync.linear(w, bias, activation, **asked)))

    async def shared(
        self, shape: int | Sequence[int], dtype: Any = "float32", *, server: str | None = None
    ) -> Array:
        """gemmd.Client.shared(), in a thread."""
        return await _in_thread(lambda: self.sync.shared(shape, dtype, server=server))

    async def estimate(self, a: Any, b: Any, **asked: Any) -> Estimate:
        """gemmd.Client.estimate(), in a thread."""
        return await _in_thread(lambda: self.sync.estimate(a, b, **asked))

    async def info(self, deadline: float | None = None, *, server: str | None = None) -> Info:
        """gemmd.Client.info(), in a thread."""
        return await _in_thread(lambda: self.sync.info(deadline, server=server))

    async def stats(
        self, deadline: float | None = None, *, holders: int = 0, server: str | None = None
    ) -> Statistics:
        """gemmd.Client.stats(), in a thread."""
        return await _in_thread(lambda: self.sync.stats(deadline, holders=holders, server=server))

    async def kernels(self, deadline: float | None = None, *, server: str | None = None) -> tuple[Kernel, ...]:
        """gemmd.Client.kernels(), in a thread."""
        return await _in_thread(lambda: self.sync.kernels(deadline, server=server))

    async def explain(self, m: int, n: int, k: int, **asked: Any) -> tuple[Candidate, ...]:
        """gemmd.Client.explain(), in a thread."""
        return await _in_thread(lambda: self.sync.explain(m, n, k, **asked))

    async def tune(self, shapes: Sequence[tuple[int, int, int]], **asked: Any) -> Tuning:
        """gemmd.Client.tune(), in a thread."""
        return await _in_thread(lambda: self.sync.tune(shapes, **asked))

    async def drain(self, deadline: float | None = None, *, server: str | None = None) -> Draining:
        """gemmd.Client.drain(), in a thread."""
        return await _in_thread(lambda: self.sync.drain(deadline, server=server))

    async def traces(
        self,
        last: float | None = None,
        most: int = 0,
        deadline: float | None = None,
        *,
        server: str | None = None,
    ) -> Traces:
        """gemmd.Client.traces(), in a thread."""
        return await _in_thread(lambda: self.sync.traces(last, most, deadline, server=server))

    def __reduce__(self) -> Any:
        return _again, (self.sync,)

    async def close(self) -> None:
        """gemmd.Client.close(), in a thread."""
        await _in_thread(self.sync.close)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncLinear:
    """await layer(x) is activation(x @ w + bias); gemmd.Linear says the shapes."""

    def __init__(self, client: Client, layer: Linear) -> None:
        self._client = client
        self.layer = layer

    async def __call__(self, x: Any, **asked: Any) -> Any:
        """The layer's output for x."""
        return await self._client.matmul(x, self.layer.w, **self.layer.arguments(asked))


def _again(sync: _client.Client) -> Client:
    """A client from its pickle."""
    made = Client.__new__(Client)
    made.sync = sync
    made._box = None
    return made


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, call)
