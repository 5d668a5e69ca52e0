"""Modules that a user makes of proto/ by protoc are gemmd.v1.*, beside the installed package of that name."""

import os
import pathlib
import subprocess
import sys

import pytest

PROTO = pathlib.Path(__file__).parents[2] / "proto"
USE = """
import gemmd
import numpy as np
from gemmd.v1 import admin_pb2, matrix_pb2
import gemmd.v1.gemm_pb2
import grpc

with gemmd.Client() as client, grpc.insecure_channel(client.address) as channel:
    ask = channel.unary_unary(
        "/gemmd.v1.Admin/ServerInfo",
        request_serializer=admin_pb2.ServerInfoRequest.SerializeToString,
        response_deserializer=admin_pb2.ServerInfoResponse.FromString,
    )
    assert ask(admin_pb2.ServerInfoRequest()).version == client.info().version
    assert client.matmul(np.eye(2), np.eye(2)).trace() == 2
"""


@pytest.mark.parametrize("has_init", [False, True])
def test_they_are_found_beside_the_client(server, tmp_path, has_init):
    pytest.importorskip("grpc_tools")
    names = [str(each.relative_to(PROTO)) for each in (PROTO / "gemmd/v1").glob("*.proto")]
    tool = [sys.executable, "-m", "grpc_tools.protoc"]
    subprocess.run([*tool, f"-I{PROTO}", f"--python_out={tmp_path}", *names], check=True)
    if has_init:
        (tmp_path / "gemmd/v1/__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "GEMMD_SERVER": server.address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
