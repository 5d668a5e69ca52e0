#!/bin/bash
# A gRPC server that shuts down answers CANCELLED to calls that arrive before their client has seen the shutdown. Nobody
# cancelled them, and the server never ran them; clients that try UNAVAILABLE again do not try these. Servers in C++ and
# Python share the library that does it.
#
# gemmd closes its connections before it shuts gRPC down, and such calls are UNAVAILABLE.
#
# Seen with grpcio 1.85.3, 2026-11-30; 1.51.3 had 36 and 28. 64 clients call on and on, until a call fails:
#   CANCELLED    40
#   UNAVAILABLE  24
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.3
"$folder/venv/bin/python" - <<'PYTHON'
import collections
import threading
from concurrent import futures

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


codes = collections.Counter()
own_connection = [("grpc.use_local_subchannel_pool", 1)]


def call_on_and_on(address, begun):
    with grpc.insecure_channel(address, options=own_connection) as channel:
        echo = channel.unary_unary("/service/Echo")
        try:
            while True:
                echo(b"", timeout=20)
                begun.set()
        except grpc.RpcError as error:
            codes[error.code().name] += 1


for _ in range(8):
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Echo()])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    events = [threading.Event() for _ in range(8)]
    clients = [threading.Thread(target=call_on_and_on, args=(address, event)) for event in events]
    for client in clients:
        client.start()
    for event in events:
        event.wait()
    server.stop(grace=5).wait()
    for client in clients:
        client.join()
for code, count in codes.most_common():
    print(f"{code:<13}{count}")
assert set(codes) == {"CANCELLED", "UNAVAILABLE"}, codes
assert codes["CANCELLED"] >= 8, codes
PYTHON
