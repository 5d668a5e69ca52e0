#!/bin/bash
# A grpcio client given a port above 65535 connects to that port modulo 65536, without a word; without a port it
# connects to 443.
#
# So a slip of the finger reaches another service on the host, with whatever the first call carries. getaddrinfo() of
# the C library refuses such a port.
#
# Seen with grpcio 1.85.3, 2026-11-27 (1.69.0 likewise, but an IPv4 address without a port meant port 0):
#   port 46147 was reached by the target 127.0.0.1:111683, which sent b'PRI * HTTP/2.0'
#   no port: connecting to ipv4:127.0.0.1:443
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.3
"$folder/venv/bin/python" - <<'PYTHON'
import re
import socket

import grpc

with socket.create_server(("127.0.0.1", 0)) as listener:
    listener.settimeout(20)
    port = listener.getsockname()[1]
    target = f"127.0.0.1:{port + 65536}"
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary("/service/Method").future(b"", timeout=20)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(20)
            begin = connection.recv(14)
        call.cancel()
print(f"port {port} was reached by the target {target}, which sent {begin}")
assert begin == b"PRI * HTTP/2.0"

try:
    with grpc.insecure_channel("127.0.0.1") as channel:
        channel.unary_unary("/service/Method")(b"", timeout=20)
except grpc.RpcError as error:
    where = re.search(r"ipv4:[\d.:]+(?<!:)", error.details())
    assert where, error.details()
    print(f"no port: connecting to {where.group()}")
    assert where.group() == "ipv4:127.0.0.1:443"
PYTHON
