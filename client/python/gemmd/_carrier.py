"""Products carried by libgemmd, gemmd's C library, instead of gRPC's Python.

No byte of a matrix is copied on its way out, and those of a result once.
One attempt at a time: whether another follows, _engine.py decides, as for gRPC.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gemmd import _library, _status, errors
from gemmd._channel import Link
from gemmd._encoded import Encoded
from gemmd._route import Route, RouteOptions
from gemmd.retry import NO_PUSHBACK, Pushback

_VARIABLE = "GEMMD_DATA_PATH"
_TRANSPORTS = ("auto", "unary", "stream")

# An attempt's end: gemmd.v1.MatmulResponse's bytes and the way that it took, or what went wrong.
Done = Callable[["Carried", bytes, Route, "tuple[errors.Error, Pushback] | None"], None]

_numbers = itertools.count(1)
_under_way: dict[int, Carried] = {}
_thread_state = threading.local()


def chosen(library: bool | str | None) -> _library.Library | None:
    """The library that a Client asks for; None: gRPC's Python. ImportError: it was not found."""
    if library is None:
        path = os.environ.get(_VARIABLE) or "python"
        if path not in ("python", "libgemmd"):
            raise ValueError(f'{_VARIABLE} is {path!r}; it must be "python" or "libgemmd"')
        library = path == "libgemmd"
    return _library.load(library if isinstance(library, str) else None) if library else None


class _Client:
    """A gemmd_client, and who uses it."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle = handle
        self.beginning = 0  # attempts that are in a function of it
        self.calls = 0  # attempts that have not ended


def _options_of(link: Link) -> _library.ClientOptions:
    options = _library.ClientOptions(
        size=ctypes.sizeof(_library.ClientOptions),
        target=link.address.encode(),
        token=(link.token or "").encode(),
        tenant=(link.tenant or "").encode(),
        tls=link.tls is not None,
        retry_patience_ms=-1,  # attempts are counted here
        affinity_header=link.affinity_header,
    )
    if link.tls is not None:
        options.root_certificates, options.client_certificate, options.client_key = link.tls.read()
        options.server_name = (link.tls.server_name or "").encode()
    return options


class Carrier:
    """The library's connections to a link's server. Thread-safe."""

    def __init__(self, library: _library.Library, link: Link) -> None:
        self._library = library
        self.version: str = library.gemmd_version().decode()
        # Read once: files of certificates may be gone when a later client is made of them.
        self._options = _options_of(link)
        self._changed = threading.Condition()
        self._client: _Client | None = self._new()  # None: closed
        self._left: set[_Client] = set()  # that still have calls

    def _new(self) -> _Client:
        handle = ctypes.c_void_p()
        self._library.call("gemmd_client_new", ctypes.byref(self._options), ctypes.byref(handle))
        return _Client(handle)

    def prepare(self, encoded: Encoded, options: RouteOptions, timeout_us: int, done: Done) -> Carried:
        """An attempt. `done` is called once, on a thread of the library's; never if begin() raises."""
        return Carried(self._library, encoded, options, timeout_us, done)

    def begin(self, carried: Carried) -> None:
        """Begins it; it may have ended when this returns. Cancelled after close()."""
        with self._changed:
            client = self._client
            if client is None:
                raise errors.Cancelled("the client was closed")
            client.beginning += 1
            client.calls += 1
        try:
            carried.begin(client.handle, lambda: self._end(client))
        except BaseException:
            self._end(client)
            raise
        finally:
            with self._changed:
                client.beginning -= 1
                if client is not self._client:
                    self._changed.notify_all()

    def leave(self) -> None:
        """Later attempts get other connections; the old ones end with the attempts that they have."""
        new = self._new()
        with self._changed:
            old, self._client = self._client, new if self._client is not None else None
            if old is not None and old.calls > 0:
                self._left.add(old)
                return
        _thread.start_new_thread(self._free, (new if old is None else old,))

    def close(self) -> None:
        """Cancels what is under way and waits for its end, for up to 40 s where the server is silent."""
        with self._changed:
            clients = [*self._left, *([] if self._client is None else [self._client])]
            self._client = None
            self._left.clear()
        for each in clients:
            if getattr(_thread_state, "is_in_end", False):  # of a product, which it would wait for
                _thread.start_new_thread(self._free, (each,))
            else:
                self._free(each)

    def _end(self, client: _Client) -> None:
        with self._changed:
            client.calls -= 1
            if client.calls > 0 or client not in self._left:
                return
            self._left.remove(client)
        _thread.start_new_thread(self._free, (client,))  # which waits for the end of this one

    def _free(self, client: _Client) -> None:
        with self._changed:
            while client.beginning > 0:
                self._changed.wait()
        self._library.call("gemmd_client_free", client.handle)


class Carried:
    """An attempt: what must live until its end, and the handle that cancels it."""

    def __init__(
        self,
        library: _library.Library,
        encoded: Encoded,
        options: RouteOptions,
        timeout_us: int,
        done: Done,
    ) -> None:
        self.library = library
        self.done = done
        self._call = ctypes.c_void_p()
        header = encoded.header()
        planes = (_library.EncodedPlane * len(encoded.planes))(
            *(
                _library.EncodedPlane(each.operand, each.plane, _address_of(each.data), len(each.data))
                for each in encoded.planes
            )
        )
        trace = encoded.options.trace
        expected = encoded.expected
        self._request = _library.EncodedMatmul(
            size=ctypes.sizeof(_library.EncodedMatmul),
            header=header,
            header_bytes=len(header),
            planes=planes,
            plane_count=len(planes),
            d_type=expected.type,
            d_is_column_major=expected.order != 0,
            d_rows=expected.rows,
            d_columns=expected.columns,
            d=self._place(encoded),
            traceparent=trace.traceparent.encode() or None,
            tracestate=trace.tracestate.encode() or None,
            transport=_TRANSPORTS.index(options.transport),
            channels=options.channels,
            chunk_bytes=options.chunk_bytes,
            timeout_us=timeout_us,
            d_count=0 if encoded.options.batch is None else encoded.products,
        )
        self._keeps = encoded

    def begin(self, client: ctypes.c_void_p, on_end: Callable[[], None]) -> None:
        """Begins it, once; it may have ended when this returns. on_end() follows `done`."""
        self.on_end = on_end
        number = next(_numbers)
        _under_way[number] = self
        try:
            self.library.call(
                "gemmd_matmul_encoded",
                client,
                ctypes.byref(self._request),
                _on_end,
                ctypes.c_void_p(number),
                ctypes.byref(self._call),
            )
        except BaseException as error:
            del _under_way[number]
            if isinstance(error, errors.InvalidArgument) and error.field == "encoded.size":
                raise errors.Unimplemented(
                    f"d_count is {self._request.d_count}, and libgemmd is older than batches of products: {error}"
                ) from None
            raise

    def _place(self, encoded: Encoded) -> int | None:
        """Where D goes: aside, if its memory is its caller's, who may use it again after a cancellation."""
        self._aside: Any = None
        if encoded.target is None:
            return encoded.shared_at or None
        if not encoded.is_callers:
            return _address_of(encoded.target)
        self._aside = np.empty(len(encoded.target), np.uint8)
        return _address_of(self._aside.data)

    def place(self) -> None:
        """Puts D where it belongs. REQUIRES: the attempt ended well, and its caller still waits."""
        if self._aside is not None and self._keeps.target is not None:
            np.copyto(np.frombuffer(self._keeps.target, np.uint8), self._aside)

    def cancel(self) -> None:
        """Ends it soon; nothing where it has ended, or has not begun."""
        self.library.gemmd_call_cancel(self._call)

    def __del__(self) -> None:
        self.library.gemmd_call_free(self._call)


def _address_of(data: memoryview) -> int | None:
    """The first byte's address; None where there is none."""
    if len(data) == 0:
        return None
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address


@_library.CALLBACK  # type: ignore[untyped-decorator]
def _on_end(number: int, result: int | None, error: int | None) -> None:
    carried = _under_way.pop(number)
    try:
        end = _result_of(carried.library, result) if result else (b"", Route(), _error_of(carried.library, error))
    except Exception as bug:  # nobody is to wait for what never comes
        end = b"", Route(), (errors.Internal(f"the client failed: {bug!r}"), NO_PUSHBACK)
    is_nested = getattr(_thread_state, "is_in_end", False)
    _thread_state.is_in_end = True
    try:
        carried.done(carried, *end)
    finally:
        _thread_state.is_in_end = is_nested
        carried.on_end()


def _result_of(library: _library.Library, result: int) -> tuple[bytes, Route, None]:
    try:
        size = ctypes.c_uint64()
        response = ctypes.string_at(library.gemmd_result_response(result, ctypes.byref(size)), size.value)
        route = _library.Route(size=ctypes.sizeof(_library.Route))
        library.call("gemmd_result_route", result, ctypes.byref(route))
    finally:
        library.gemmd_result_free(result)
    return response, Route(_TRANSPORTS[route.transport], route.channels, route.chunk_bytes, True), None


def _error_of(library: _library.Library, error: int | None) -> tuple[errors.Error, Pushback]:
    if not error:
        return errors.ResourceExhausted("this process has no memory for it"), NO_PUSHBACK
    with contextlib.ExitStack() as stack:
        stack.callback(library.gemmd_error_free, error)
        size = ctypes.c_uint64()
        details = ctypes.string_at(library.gemmd_error_details(error, ctypes.byref(size)), size.value)
        return _status.error_of_library(
            library.gemmd_error_code(error),
            library.gemmd_error_message(error).decode(errors="replace"),
            details,
        )
