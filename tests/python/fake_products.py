"""A server of plain products of f64, in NumPy: with batches, or older than they are."""

from concurrent import futures

import grpc
import numpy as np

from gemmd import _messages


class FakeProducts:
    """Answers Matmul. A context manager. requests: the headers so far.

    has_batches: False computes the first product and says nothing of others, or refuses the bytes of a stack, as a
    server does that does not know the field. refuses: what it does not take of a batch, in UNIMPLEMENTED.
    """

    def __init__(self, has_batches, refuses="", interceptors=()):
        self.has_batches = has_batches
        self.refuses = refuses
        self.requests = []
        self._server = grpc.server(futures.ThreadPoolExecutor(4), interceptors=interceptors)
        handler = grpc.unary_unary_rpc_method_handler(self._matmul, _messages._class_of("MatmulRequest").FromString)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("gemmd.v1.Gemm", {"Matmul": handler}),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._server.stop(None).wait()

    def _matmul(self, request, context):
        header = request.header
        self.requests.append(header)
        batch = header.batch
        if not self.has_batches:
            batch = type(batch)(count=1)
        elif header.HasField("batch") and self.refuses:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, self.refuses)
        data = {chunk.operand: chunk.data for chunk in request.payload}
        a, b, c = (
            _stack_of(name, plane.data, data.get(number, b""), max(1, batch.count), stride, context)
            for number, (name, plane, stride) in enumerate(
                (("a", header.a, batch.a_stride), ("b", header.b, batch.b_stride), ("c", header.c, batch.c_stride)),
                start=1,
            )
        )
        d = header.alpha * (a @ b) + (header.beta * c if header.beta else 0)
        response = _messages.MatmulResponse()
        response.receipt.products = batch.count if self.has_batches and header.HasField("batch") else 0
        response.d.type, response.d.rows, response.d.columns = header.output_type, *d.shape[1:]
        response.d.order = header.output_order
        response.payload.add(operand=5, data=(d.swapaxes(1, 2) if header.output_order else d).tobytes())
        return response.SerializeToString()


def _stack_of(name, plane, data, count, stride, context):
    """The matrices of an operand: count x rows x columns."""
    turned = plane.order == 1
    outer, inner = (plane.columns, plane.rows) if turned else (plane.rows, plane.columns)
    leading = plane.leading_dimension or inner
    size = 8 * ((count - 1) * stride + (outer - 1) * leading + inner) if outer and inner else 0
    if len(data) != size:
        why = f"payload of {name}: a chunk of {len(data)} bytes is at offset 0; the plane has {size}"
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
    elements = np.frombuffer(data) if data else np.zeros(0)
    steps = (8 * stride, 8 * leading, 8)
    lines = np.lib.stride_tricks.as_strided(elements, (count, outer, inner), steps, writeable=False)
    return lines.swapaxes(1, 2) if turned else lines
