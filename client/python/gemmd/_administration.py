"""What a client asks of a server besides products: its kernels, their plans, and the last requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gemmd import _messages, admin, types
from gemmd._checks import choice
from gemmd._header import DETERMINISM
from gemmd._names import matching


class Administration:
    """The part of Client that looks into a server."""

    def kernels(self, deadline: float | None = None, *, server: str | None = None) -> tuple[admin.Kernel, ...]:
        """Every kernel of the server, with the reason of those that its device cannot run. server: as in info()."""
        request, kind = _messages.ListKernelsRequest(), _messages.ListKernelsResponse
        return admin.kernels_of(self._call("Admin/ListKernels", request, kind, deadline, server))

    def explain(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: Any = "f32",
        output_dtype: Any = None,
        transpose_a: bool = False,
        transpose_b: bool = False,
        determinism: str = "batch_invariant",
        deadline: float | None = None,
        server: str | None = None,
    ) -> tuple[admin.Candidate, ...]:
        """Which kernel and plan serve a product of M x K and K x N, and why each other one does not.

        server: as in info().
        """
        request = _messages.ListKernelsRequest()
        _shape_into(request.explain, (m, n, k), dtype, output_dtype, transpose_a, transpose_b, determinism)
        found = self._call("Admin/ListKernels", request, _messages.ListKernelsResponse, deadline, server)
        return admin.candidates_of(found)

    def tune(
        self,
        shapes: Sequence[tuple[int, int, int]],
        *,
        dtype: Any = "f32",
        output_dtype: Any = None,
        transpose_a: bool = False,
        transpose_b: bool = False,
        determinism: str = "batch_invariant",
        repeats: int = 0,
        deadline: float | None = None,
        server: str | None = None,
    ) -> admin.Tuning:
        """Has the server measure its plans for shapes (M, N, K), 1 to 64 of them, and use the best from now on.

        repeats: launches of each plan; 0 means 5. server: as in info().
        PermissionDenied: the caller is no operator.
        """
        request = _messages.TuneRequest(repeats=repeats)
        for shape in shapes:
            _shape_into(request.shapes.add(), shape, dtype, output_dtype, transpose_a, transpose_b, determinism)
        return admin.tuning_of(self._call("Admin/Tune", request, _messages.TuneResponse, deadline, server))

    def drain(self, deadline: float | None = None, *, server: str | None = None) -> admin.Draining:
        """Has the server end, as SIGTERM does: it takes nothing new and finishes what it has. It returns at once.

        server: as in info(). PermissionDenied: the caller is no operator. FailedPrecondition: the server has no
        policy.
        """
        return admin.draining_of(
            self._call("Admin/Drain", _messages.DrainRequest(), _messages.DrainResponse, deadline, server)
        )

    def traces(
        self,
        last: float | None = None,
        most: int = 0,
        deadline: float | None = None,
        *,
        server: str | None = None,
    ) -> admin.Traces:
        """When the stages of the last requests ran, as `gemm trace` writes them.

        last: seconds since they ended; None: all that the server remembers. most: of the newest; 0 means 10,000.
        server: as in info().
        """
        request = _messages.TracesRequest(max_requests=most)
        if last is not None:
            if not last > 0:
                raise ValueError(f"last is {last} seconds; it must be above 0, or None for all")
            request.last_us = max(1, round(last * 1e6))
        return admin.traces_of(self._call("Admin/Traces", request, _messages.TracesResponse, deadline, server))

    def all_residents(
        self, deadline: float | None = None, *, pattern: str | None = None, server: str | None = None
    ) -> list[admin.TenantResident]:
        """The matrices of every tenant on the server, as `gemm ls --all-tenants` shows them, for operators.

        pattern, server: as in residents(). PermissionDenied: the caller is no operator.
        """
        found = [admin.tenant_resident_of(each) for each in self._list("Operands/ListAll", deadline, server)]
        return found if pattern is None else [each for each in found if matching(pattern, each.names)]

    def _list(self, method: str, deadline: float | None, server: str | None = None) -> list[Any]:
        raise NotImplementedError

    def _call(self, name: str, request: Any, answer: Any, deadline: float | None, server: str | None) -> Any:
        raise NotImplementedError


def _shape_into(
    message: Any,
    shape: tuple[int, int, int],
    dtype: Any,
    output_dtype: Any,
    transpose_a: bool,
    transpose_b: bool,
    determinism: str,
) -> None:
    """Fills a ProblemShape."""
    if len(shape) != 3:
        raise ValueError(f"a shape is {shape}; it must be M, N and K")
    message.m, message.n, message.k = (int(each) for each in shape)
    message.type = types.parse(dtype).number
    if output_dtype is not None:
        message.output_type = types.parse(output_dtype).number
    message.transpose_a, message.transpose_b = transpose_a, transpose_b
    name = determinism.replace("-", "_")
    choice("determinism", name, tuple(DETERMINISM))
    message.determinism = DETERMINISM[name]
