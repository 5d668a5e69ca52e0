"""A server of Operands in this process: it keeps what comes as it is told, or as an old server would."""

import threading
from concurrent import futures

import grpc

from gemmd import _messages


class FakeOperands:
    """keeps: of each upload's Begin and bytes, the Operand that the answer says is kept."""

    def __init__(self, keeps, interceptors=()):
        self.keeps = keeps
        self.begins = []
        self.digests = []
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(4), interceptors=interceptors)
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_unary_rpc_method_handler
        handlers = {
            "FindMissing": unary(self._find_missing, _messages.FindMissingRequest.FromString),
            "Upload": stream(self._upload, _messages.UploadRequest.FromString),
            "Get": unary(self._get, _messages.GetRequest.FromString),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("gemmd.v1.Operands", handlers),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _find_missing(self, request, context):
        self.digests += request.digests
        return _messages.FindMissingResponse(missing=request.digests).SerializeToString()

    def _get(self, request, context):
        # As a server that knows no names: the field says nothing to it.
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "handle and digest are missing; one of both must be set")

    def _upload(self, requests, context):
        begin, size = None, 0
        for request in requests:
            if request.HasField("begin"):
                begin = request.begin
            size += len(request.chunk.data)
        with self._lock:
            self.begins.append((begin, size))
        answer = _messages.UploadResponse(saved_bytes=12)
        answer.resident.handle, answer.resident.digest = "kept-1", b"k" * 32
        answer.resident.operand.CopyFrom(self.keeps(begin))
        return answer.SerializeToString()

    def close(self):
        self._server.stop(None).wait()
