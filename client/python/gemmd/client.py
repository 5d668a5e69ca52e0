"""Client: products of NumPy arrays on a gemmd server."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from gemmd import _carrier, _fork, _messages, _transfer, errors, types
from gemmd._address import Address, addresses_of
from gemmd._administration import Administration
from gemmd._channel import Link, Tls, check_token
from gemmd._durations import deadline_of, lease_of
from gemmd._engine import Engine
from gemmd._fleet import ServerState
from gemmd._header import Place, header_message, spec_of
from gemmd._interrupts import Slot, deferred, ended_by, interruptibly
from gemmd._layout import Array
from gemmd._names import check_name, check_naming, matching, place_of
from gemmd._prepare import Asked, Prepared, prepare
from gemmd._progress import Counter, Progress
from gemmd._regions import Regions
from gemmd._route import RouteOptions
from gemmd._running import Running, Told
from gemmd._server import Server
from gemmd._servers import One, Plan, Servers, Several
from gemmd._sources import source_of
from gemmd._splitting import Splitting, serving
from gemmd._tracebacks import let_go
from gemmd._transfer import Deadline
from gemmd.admin import Estimate, Info, Statistics, estimate_of, info_of, statistics_of
from gemmd.linear import Linear
from gemmd.resident import Named, Resident, Transposed, resident_of
from gemmd.retry import RetryPolicy


class Pending(Future[Any]):
    """A product under way: a concurrent.futures.Future whose cancel() reaches the server too."""

    _running: Running | None = None

    def __reduce__(self) -> Any:
        raise TypeError("a product under way stays in its process: pickle what result() returns")

    def __init__(self) -> None:
        super().__init__()
        # Waited on instead of Future's Condition, which Ctrl-C might leave taken (_interrupts.py).
        self._gate = gate = threading.Lock()
        gate.acquire()
        self.add_done_callback(lambda _: gate.release())  # without `self`, which would refer to itself

    def cancel(self) -> bool:
        """Ends it here, with CancelledError, and on the server. False if it has ended."""
        with deferred():
            if self._running is not None:
                self._running.abandon()
            return super().cancel()

    def result(self, timeout: float | None = None) -> Any:
        """What Client.matmul() returns or raises; TimeoutError after `timeout` seconds, and it goes on."""
        self._wait(timeout)
        try:
            return super().result(0)
        finally:
            del self  # which has the error, whose traceback refers to this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What result() would raise, or None."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if timeout is None:
            with self._gate:
                return
        if not self._gate.acquire(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            raise FutureTimeoutError
        self._gate.release()


class Client(Administration):
    """Products on one gemmd server, or on several. Thread-safe; a context manager.

    address: "host:50051", "unix:/run/gemmd" or another address that gRPC resolves; without a port 50051; by
        default GEMMD_SERVER, else 127.0.0.1:50051. Several servers are one client's (docs/several-servers.md):
        "a:50051,b:50051", ["a:50051", "b:50051"], and "dns:///name:50051", every address that the name has.
    tenant: whose matrices the server keeps and shows, where no certificate says so.
    tls: True for the system's root certificates, or a gemmd.Tls; plaintext without. The environment's proxies
        (https_proxy, no_proxy) are used with TLS alone, and not for this host.
    token: what the server knows this caller by ("authorization: Bearer ..."). ValueError: it would leave this
        host in plain text, and plaintext_token is False.
    retry: when a failed call is tried again.
    transport: "auto" chooses by size; "unary" or "stream" insist. channels: connections that one product may be
        spread over; 0 chooses. chunk_bytes: of a streamed product; 0 chooses.
    library: products go by libgemmd.so.0, gemmd's C library (docs/library.md), several times as fast: True takes it
        where GEMMD_LIBRARY or the linker finds it, a string is its path. None: as the variable GEMMD_DATA_PATH
        says, "libgemmd" or "python", else by gRPC's Python. ImportError: it was not found.
    affinity_header: calls about a matrix with a digest have it as the header gemmd-affinity, for a proxy that
        spreads calls by it; products of such matrices then go in one call each, unless transport is "stream".

    It connects at the first call, with several servers at once, and again by itself after a failure. With several
    a product goes to the one that holds its matrix, and to another one where that is away; server= names the one
    that a call is about. Every method raises gemmd.Error's
    classes for what the server refuses, ClosedError after close(), and ForkedError in a child of the process
    that made it. deadline= is in seconds, for the whole call with its retries; None waits.

    It pickles as its arguments, and connects anew where it is read; equal ones share a client there. One with a
    token=, or with a private key as bytes, does not pickle, because whoever reads the pickle would have the secret.
    """

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
        self._arguments = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        if transport not in ("auto", "unary", "stream"):
            raise ValueError(f"transport is {transport!r}; it must be auto, unary or stream")
        if not 0 <= channels <= 64:
            raise ValueError(f"channels is {channels}; it must be 0 to 64")
        if chunk_bytes and chunk_bytes < 4096:
            raise ValueError(f"chunk_bytes is {chunk_bytes}; it must be 0 or at least 4096")
        secure = Tls() if tls is True else tls or None
        addresses = addresses_of(address)
        found = _carrier.chosen(library)

        def connect(one: Address, tls: Tls | None) -> Server:
            return Server(Link(one, tls, token, tenant, plaintext_token, affinity_header), found)

        for each in addresses:
            check_token(each, secure, token, plaintext_token)
        servers = _servers_of(addresses, secure, connect)
        self._addresses = [each.target for each in addresses]
        self._library = "" if found is None else found.gemmd_version().decode()
        self._engine = Engine(servers, retry or RetryPolicy(), RouteOptions(transport, channels, chunk_bytes))
        self._engine.owner = weakref.ref(self)
        self._arguments["address"] = self._addresses
        self._regions = Regions(self._engine)
        self._closed = False
        # Runs when this is collected, and at exit.
        self._finalizer = weakref.finalize(self, _close, self._regions, self._engine)

    @property
    def address(self) -> str:
        """Where the server is; of several what they were given as, with commas between them."""
        return ",".join(self._addresses)

    def servers(self) -> tuple[ServerState, ...]:
        """The servers as this client sees them, without asking them; all that a name has now."""
        self._check()
        with deferred():
            return self._engine.servers.states()

    def matmul(
        self,
        a: Any,
        b: Any,
        *,
        alpha: float = 1.0,
        beta: float | None = None,
        c: Any = None,
        bias: Any = None,
        activation: str = "none",
        out: Array | None = None,
        dtype: Any = None,
        accumulate: str | None = None,
        kernel: str = "",
        determinism: str = "batch_invariant",
        priority: str = "normal",
        verify: int = 0,
        keep: bool = False,
        lease: float | None = None,
        deadline: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        transpose_a: bool = False,
        transpose_b: bool = False,
        split: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Any:
        """D = activation(alpha * a @ b + beta * c + bias), of shapes as numpy.matmul has them.

        a: (..., M, K) or (K,); b: (..., K, N) or (K,): arrays that are NumPy's or have DLPack on a CPU,
            gemmd.Quantized, or matrices on the server (gemmd.Resident, its T, or its stack()). Arrays of two types
            become the type that holds both, as with NumPy: float64 by float32 is float64, bf16 by float32 float32.
            Any quantized ones go together, and with float32, float16 and bf16.
        transpose_a, transpose_b: the factor is stored the other way round: (..., K, M), (..., N, K).
        c: broadcast to (..., M, N); bias: (N,); both of the result's type, or of one that it holds. beta: 1 where
            c is given. With alpha=0 NaN and infinity of a and b reach the result; with beta=0 those of c do not.
        activation: "none", "relu", "gelu_tanh" or "silu".
        out: where the result is written. Where it shares memory with an operand, the result is copied there in
            the end.
        dtype: the result's type, by default a's (int32 for integers, float32 with scales, bf16 for fp8, fp6 and
            fp4), b's where a alone is quantized.
        accumulate: "f32", "f64" or "int32" instead of the server's rule. kernel: by name.
        determinism: "batch_invariant" (a row's bits depend on nothing else) or "fast".
        priority: "normal", "high" or "low". verify: random vectors for the server to check the product with.
        keep: leave the result on the server and return a Resident; lease: seconds it is safe from eviction.
        traceparent, tracestate: the trace that the product belongs to, as W3C's headers of these names say it;
            the server's traces name it.
        split: each of the client's servers computes some of the rows, and D is put together here, with the bits of
            one server's (docs/several-servers.md). a and c are arrays, b one matrix: an array, or one with a
            digest on servers, which put() brings to each of them. The result's `receipts` has one for each part.
        progress: called now and then, and at the end, with the bytes that went or came and with all that will; it
            runs on this thread, and ends the product by raising. Each attempt counts anew.

        All products of a stack are one request, in which a matrix that is the same for all of them is sent once; a
        server that does not take that gets them one by one. keep=True keeps one matrix, not a stack.

        Returns a gemmd.Result: an ndarray (a view of out, if given) with `.receipt`. Arrays in C or Fortran
        order, rows somewhat apart, and stacks that one stride walks are sent from where they lie; others are copied
        once. If it fails, what is in out is unspecified. Ctrl-C cancels it, here and on the server.

        ValueError and TypeError say what does not go together; InvalidArgument, FailedPrecondition,
        NotFound, ResourceExhausted, DeadlineExceeded, Unavailable, DataLoss: see gemmd.errors.
        """
        begun = time.perf_counter()
        asked = Asked(alpha, beta, c, bias, activation, out, dtype, accumulate, kernel, determinism, priority,
                      verify, keep, lease, traceparent, tracestate, transpose_a, transpose_b,
                      split=split)  # fmt: skip
        return self._wait(a, b, asked, deadline, begun, progress)

    def grouped_matmul(
        self,
        a: Any,
        b: Any,
        offsets: Any,
        *,
        deadline: float | None = None,
        progress: Callable[[int, int], None] | None = None,
        **asked: Any,
    ) -> Any:
        """Groups of a's rows, each by a matrix of b of its own: (M, K) and (count, K, N) give (M, N).

        As torch._grouped_mm: the experts of a layer, a's tokens sorted by expert. offsets: where each group ends,
        `count` integers, none less than the one before, the last M; numpy.cumsum(group_sizes) where sizes are at
        hand, as jax.lax.ragged_dot has them. A group may be empty. b: an array of three dimensions, or a stack on
        the server, client.put(w.reshape(-1, N)).stack(count), and its mT where experts are stored N x K. bias:
        (N,), or (count, N), one for each. c, keep=, activation and all else as in matmul(). a, c and b may stay on
        the server, so that one layer's kept result is the next one's a.

        Each row has the bits that it has in a product by itself. All groups are one request. In the background:
        submit(a, b, row_ends=offsets).

        Returns a gemmd.Result, whose receipt counts the groups as `products`. ValueError and TypeError say what
        does not go together; also the errors of matmul().
        """
        begun = time.perf_counter()
        return self._wait(a, b, Asked(**asked, row_ends=offsets), deadline, begun, progress)

    def _wait(
        self, a: Any, b: Any, asked: Asked, deadline: float | None, begun: float, progress: Progress | None
    ) -> Any:
        try:
            return self._run(a, b, asked, deadline, begun, progress)
        except BaseException as error:
            let_go(error)
            raise

    def _run(
        self, a: Any, b: Any, asked: Asked, deadline: float | None, begun: float, progress: Progress | None
    ) -> Any:
        slot = Slot()
        running = self._prepare(a, b, asked, deadline, slot.put, begun, progress)
        try:
            with ended_by(running.cancel):
                left = running.start(here=progress is None)
                if left is not None:
                    left.run()
            if progress is None:
                return slot.take()
            meter = running.meter(progress)
            found = slot.take(meter.poll)
            meter.end()
            return found
        except BaseException:  # Ctrl-C, or what progress() raised
            with deferred():
                running.cancel()
            raise

    def submit(self, a: Any, b: Any, *, deadline: float | None = None, **asked: Any) -> Pending:
        """matmul() in the background: its arguments but progress=, and a future of what it returns.

        The arrays must not be changed before it has ended. Callbacks of the future must not wait for others.
        """
        begun = time.perf_counter()
        pending = Pending()
        pending._running = self._start(a, b, Asked(**asked), deadline, _teller(pending), begun)
        return pending

    def _prepare(
        self,
        a: Any,
        b: Any,
        asked: Asked,
        deadline: float | None,
        told: Told,
        begun: float,
        progress: Progress | None = None,
    ) -> Running:
        self._check()
        servers = serving(self._engine.servers.states()) if asked.split else []
        prepared: Prepared = prepare(self._regions, a, b, asked, len(servers))
        # The library does not tell how many bytes have gone.
        route = None if progress is None else self._engine.route._replace(may_carry=False)
        end = deadline_of(deadline)
        if prepared.rows:
            return Splitting(self._engine, self._regions, prepared, end, told, route, begun, servers)
        return Running(self._engine, self._regions, prepared, end, told, route, begun)

    def _start(self, a: Any, b: Any, asked: Asked, deadline: float | None, told: Told, begun: float) -> Running:
        running = self._prepare(a, b, asked, deadline, told, begun)
        with deferred():
            running.start()
        return running

    def put(
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
        """Uploads a matrix, or what of it the server does not have; it stays there for products to name.

        x: 2-D, as matmul() takes it, or Quantized; tightly packed, else copied once. lease: seconds that it is
        safe from eviction after each use; None for the server's default.
        name, replace: gives it this name when it is there, as Resident.set_name() does. AlreadyExists: another
        matrix has the name, and replace is False; that is asked before the upload too, without store_as.
        store_as: a format of docs/quantization.md ("mxfp8-e4m3") that the server quantizes x to, of f32, f16 or
        bf16, and keeps instead, as it would keep Quantized.of(x, store_as, axis). axis: 1 for a right factor, 0
        for a left one. Unimplemented: the server is older than that.
        progress: as in matmul(); without it tqdm shows a bar where somebody looks.
        """
        self._check()
        check_naming(name, replace)
        seconds = lease_of(lease)
        source = source_of(x, store_as, axis)
        end = Deadline(deadline_of(deadline))
        counter = Counter(source.size_bytes)

        def work() -> Resident:
            if name is not None and not replace:
                _transfer.check_is_free(self._engine, source, name, end)
            found = _transfer.put(self._engine, source, seconds, end, counter.add)
            made = resident_of(self._engine, found.resident, source, found.saved_bytes)
            if name is not None:
                made._learn(_transfer.set_name(self._engine, made.place, name, replace, end, source))
            return made

        return end.run(work, counter.meter(progress, "upload"))

    def resident(self, name: str, deadline: float | None = None) -> Resident:
        """The matrix of that handle, digest in 64 hexadecimal digits, or name. NotFound: there is none.

        It stays that matrix, also where another one gets the name: named() follows the name.
        """
        place, end = self._ask(name, deadline)
        return resident_of(self._engine, end.run(lambda: _transfer.get(self._engine, place, end)))

    def named(self, name: str, deadline: float | None = None) -> Named:
        """Whichever matrix has that name when a product uses it. NotFound: none has it now.

        So a loop of products goes on with new weights once put(name=, replace=True) has moved the name to them.
        resident() keeps to the matrix that has the name now.
        """
        check_name("name", name)
        place, end = self._ask(name, deadline)
        found = end.run(lambda: _transfer.get(self._engine, place, end))
        return Named(self._engine, name, spec_of(found.operand), found.handle, found.digest, found.names)

    def residents(
        self, deadline: float | None = None, *, pattern: str | None = None, server: str | None = None
    ) -> list[Resident]:
        """The tenant's matrices on the server, in the order in which they came; each has its names.

        pattern: only those with a name like it. "*" stands for any characters, "?" for one, and brackets for
        themselves: "experts[3]" is a name. server: those of that one; without it those of each of several, one
        server after another, and an error where one is away.
        """
        found = [resident_of(self._engine, each) for each in self._list("Operands/List", deadline, server)]
        return found if pattern is None else [each for each in found if matching(pattern, each.names)]

    def release(
        self,
        resident: str | Resident | Transposed | None = None,
        deadline: float | None = None,
        *,
        pattern: str | None = None,
    ) -> list[str]:
        """Every server forgets a matrix, for everybody: that of a handle, a digest or a name, or a Resident.

        Where a matrix has several names, the one that is given goes alone; the last one goes with its matrix.
        pattern: instead of it, all names that are like it, as residents() says; none may be.
        Returns the texts that were released. NotFound: no matrix has that handle, digest or name. Each of
        several servers is asked, and one that is away is an error.
        """
        if (resident is None) == (pattern is None):
            raise TypeError("release() takes one of both: a matrix, or pattern=")
        if isinstance(resident, Resident | Transposed):
            resident.release(deadline)
            return []
        if resident is not None:
            place, end = self._ask(resident, deadline)
            end.run(lambda: _transfer.release(self._engine, place, end))
            return [resident]
        end = Deadline(deadline_of(deadline))
        every = self._list("Operands/List", end.left)
        # Two servers may have copies of a matrix, with one name.
        names = list(dict.fromkeys(name for each in every for name in matching(pattern or "", each.names)))
        gone: list[str] = []

        def work() -> None:
            for name in names:
                with contextlib.suppress(errors.NotFound):  # somebody else released it
                    _transfer.release(self._engine, Place("name", name), end)
                    gone.append(name)

        end.run(work)
        return gone

    def _ask(self, text: str, deadline: float | None) -> tuple[Place, Deadline]:
        """What a text calls a matrix by, and until when an answer is waited for."""
        self._check()
        return place_of(text), Deadline(deadline_of(deadline))

    def _list(self, method: str, deadline: float | None, server: str | None = None) -> list[Any]:
        self._check()
        end = Deadline(deadline_of(deadline))
        name = "" if server is None else Address(server, "server").target
        return end.run(lambda: _transfer.list_of(self._engine, method, end, name))

    def linear(
        self,
        w: Any,
        bias: Any = None,
        activation: str = "none",
        *,
        name: str | None = None,
        replace: bool = False,
        lease: float | None = None,
        store_as: str | None = None,
        **asked: Any,
    ) -> Linear:
        """A layer: layer(x) is activation(x @ w + bias), with w (K x N) on the server. `asked` as in matmul().

        w: as put() takes it, or on the server already: of torch's N x K weights, resident.T; named() for weights
        that others replace meanwhile.
        name, replace, store_as: as in put().
        """
        if isinstance(w, Resident | Transposed):
            for key, value in (("name", name), ("store_as", store_as)):
                if value is not None:
                    raise ValueError(f"{key} is {value!r}, and w is on the server already")
            return Linear(self, w, bias, activation, asked)
        made = self.put(w, name=name, replace=replace, lease=lease, store_as=store_as)
        return Linear(self, made, bias, activation, asked)

    def shared(self, shape: int | Sequence[int], dtype: Any = np.float32, *, server: str | None = None) -> Array:
        """A zeroed array in memory that the server, on this host, reads operands from and writes out= into.

        Views of it count too. The memory ends with the last array that views it, or with the client: after
        close() the arrays are ordinary ones. Between products nothing is checked: do not write into what a
        product under way reads. One that was cancelled or met its deadline may write its out= for a moment longer:
        give the next product another. FailedPrecondition: shared memory is off; PermissionDenied: another host.
        server: needed where the client has several: the one on this host; products of the array go there alone.
        """
        self._check()
        home = self._one_server(server)
        dims = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(each) for each in shape)
        element = types.parse(dtype)
        size = math.prod(dims) * element.dtype.itemsize
        if size <= 0 or min(dims) < 1:
            raise ValueError(f"shape is {dims}; shared memory has at least one element")
        memory = interruptibly(lambda: self._regions.create(size, home), lambda: None)
        return np.frombuffer(memory, np.uint8, size).view(element.dtype).reshape(dims)

    def estimate(
        self,
        a: Any,
        b: Any,
        *,
        caller_gflops: float = 0.0,
        deadline: float | None = None,
        server: str | None = None,
        **asked: Any,
    ) -> Estimate:
        """What the product would take, without sending it: arguments as matmul()'s; stacks are one request.

        caller_gflops: GFLOP/s that this machine achieves itself; then `offload_is_faster` says which is. server: as
        in info().
        """
        self._check()
        prepared = prepare(self._regions, a, b, Asked(**asked))
        if len(prepared.encoded) != 1:
            raise ValueError("an estimate is of products that have elements")
        encoded = prepared.encoded[0]
        operands, output = encoded.specs()
        request = _messages.EstimateRequest(caller_gflops=caller_gflops)
        request.header.CopyFrom(header_message(operands, encoded.options, output))
        answer = self._call("Gemm/Estimate", request, _messages.EstimateResponse, deadline, server)
        left = operands[0]
        flops = 0 if left is None else 2 * left.data.rows * left.data.columns * encoded.expected.columns
        if answer.flops < flops * encoded.products:
            raise errors.Unimplemented("the server is older than batches of products, and estimates one of them")
        return estimate_of(answer)

    def info(self, deadline: float | None = None, *, server: str | None = None) -> Info:
        """What the server is: version, devices, limits. server: one of several, needed where there are such."""
        self._check()
        request = _messages.ServerInfoRequest()
        answer = self._call("Admin/ServerInfo", request, _messages.ServerInfoResponse, deadline, server)
        return info_of(answer, self._library)

    def stats(self, deadline: float | None = None, *, holders: int = 0, server: str | None = None) -> Statistics:
        """What the server has done since it began. server: as in info().

        holders: tells also who holds what of all that has a limit, at most so many tenants and addresses of each
        quantity, those that hold most. 1 to 100; where there is a policy, the caller must be an operator.
        """
        self._check()
        if not 0 <= holders <= 100:
            raise ValueError(f"holders is {holders!r}; it must be 0 to 100")
        request = _messages.StatisticsRequest(holders=holders)
        answer = self._call("Admin/Statistics", request, _messages.StatisticsResponse, deadline, server)
        return statistics_of(answer)

    def __reduce__(self) -> Any:
        tls = self._arguments["tls"]
        if self._arguments["token"] is not None or (isinstance(tls, Tls) and isinstance(tls.key, bytes)):
            secret = "private key" if self._arguments["token"] is None else "token"
            raise TypeError(
                f"{self!r} has a secret, its {secret}, which a pickle would show to whoever reads it: make a "
                "Client in the other process, which takes the secret from where this one did"
            )
        return _client_again, (type(self), self._arguments)

    def close(self) -> None:
        """Ends what is under way, unregisters shared memory, and closes the connections. Idempotent."""
        self._closed = True
        interruptibly(self._finalizer, lambda: None)

    def _call(self, name: str, request: Any, answer: Any, deadline: float | None, server: str | None) -> Any:
        end, engine = Deadline(deadline_of(deadline)), self._engine
        plan = Plan(server=self._one_server(server))
        return end.run(
            lambda: _transfer.ask(
                engine, plan, end, lambda one: _transfer.call(engine, one, name, request, answer, end)
            )
        )

    def _one_server(self, server: str | None) -> str:
        """The address of the only server that is asked. ValueError: it is not said which."""
        if server is not None:
            return Address(server, "server").target
        if self._engine.servers.are_several:
            raise ValueError(
                "server is None, and this is about one server, of which the client has several; it must be one of "
                f"{', '.join(self._engine.servers.names)}"
            )
        return ""

    def _check(self) -> None:
        _fork.guard()
        if self._closed:
            raise errors.ClosedError("the client is closed")

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.address!r}{', closed' if self._closed else ''})"


_again_lock = threading.Lock()
_again: weakref.WeakValueDictionary[str, Client] = weakref.WeakValueDictionary()


def _client_again(kind: type[Client], arguments: dict[str, Any]) -> Client:
    """A client from its pickle; many matrices that come one by one have one client."""
    key = repr((kind, arguments))
    with _again_lock:
        found = _again.get(key)
        if found is None or found._closed:
            found = _again[key] = kind(**arguments)
        return found


def _close(regions: Regions, engine: Engine) -> None:
    regions.close()
    engine.close()


def _teller(future: Future[Any]) -> Told:
    def told(result: Any, error: BaseException | None) -> None:
        try:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        except InvalidStateError:  # cancelled
            pass

    return told


def _servers_of(
    addresses: list[Address], tls: Tls | None, connect: Callable[[Address, Tls | None], Server]
) -> Servers:
    if len(addresses) == 1 and addresses[0].servers is None:
        return One(connect(addresses[0], tls))
    loaded = None if tls is None else tls.loaded()

    def of_name(one: Address, name: str) -> Server:
        if loaded is None or not name or loaded.server_name:
            return connect(one, loaded)
        # A certificate is checked for the name, though the connection is to an address.
        return connect(one, replace(loaded, server_name=name))

    return Several(addresses, of_name)


_default: Client | None = None
_default_lock = threading.Lock()


def default_client() -> Client:
    """The client of GEMMD_SERVER that module functions share; closed at exit."""
    global _default
    _fork.guard()
    with _default_lock:
        if _default is None or _default._closed or _default._addresses != _default_addresses():
            if _default is not None:
                _default.close()
            _default = Client()
        return _default


def _default_addresses() -> list[str]:
    return [each.target for each in addresses_of(None)]


def matmul(a: Any, b: Any, **asked: Any) -> Any:
    """Client.matmul() on the servers that GEMMD_SERVER names, else on 127.0.0.1:50051."""
    return default_client().matmul(a, b, **asked)


__all__ = ["CancelledError", "Client", "Pending", "default_client", "matmul"]
