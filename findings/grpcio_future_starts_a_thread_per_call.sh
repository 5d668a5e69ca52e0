#!/bin/bash
# grpcio: a unary call by future() starts a thread of its own, where no other call of its channel is under way, and the
# thread ends with the call. A blocking call starts none.
#
# One would expect a thread for each channel. So a client that sends one request after another by future(), to be able
# to cancel them, pays for a thread each time. While a stream of the same channel stays open, no call starts one.
#
# Seen with grpcio 1.85.3, 2026-11-28:
#   threads started by 100 calls: blocking 0, future() 100, future() beside an open stream 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.3
"$folder/venv/bin/python" - <<'PYTHON'
import concurrent.futures
import threading

import grpc


def echo(request, _):
    return request


def wait(requests, _):
    yield b"open"
    for _ in requests:
        pass


server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("s", {
    "Echo": grpc.unary_unary_rpc_method_handler(echo), "Wait": grpc.stream_stream_rpc_method_handler(wait)})])
port = server.add_insecure_port("127.0.0.1:0")
server.start()

started = []  # by this thread
start = threading.Thread.start
caller = threading.current_thread()


def counted(thread):
    if threading.current_thread() is caller:
        started.append(thread)
    start(thread)


threading.Thread.start = counted


def threads(call, ends):
    """How many threads 100 calls start, each after the threads of the one before have ended."""
    started.clear()
    for _ in range(100):
        call()
        for thread in started if ends else []:
            thread.join(20)
    return len(started)


with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    method = channel.unary_unary("/s/Echo")
    blocking = threads(lambda: method(b"x", timeout=20), True)
    future = threads(lambda: method.future(b"x", timeout=20).result(), True)
    end = threading.Event()

    def requests():
        end.wait(60)
        yield b""

    stream = channel.stream_stream("/s/Wait")(requests())
    assert next(stream) == b"open"
    beside = threads(lambda: method.future(b"x", timeout=20).result(), False)
    end.set()
server.stop(None)
print(f"threads started by 100 calls: blocking {blocking}, future() {future}, future() beside an open stream {beside}")
assert (blocking, future, beside) == (0, 100, 0)
PYTHON
