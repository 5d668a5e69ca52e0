"""traceparent goes with a product, over either transport, and the file that `gemm trace` writes is Perfetto's."""

import os
import pathlib
import subprocess

import numpy as np
import pytest

import gemmd
from gemmd._trace import trace_headers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def test_what_is_no_traceparent_is_refused():
    for bad in ("x", PARENT.upper(), PARENT + "-x", "ff" + PARENT[2:], PARENT.replace(TRACE, "0" * 32)):
        with pytest.raises(ValueError, match="traceparent is"):
            trace_headers(bad, None)
    for bad in ("a", "A=b", "a=b,a=c", "a=b=c", "a=b\t", "a=" + "b" * 257, "a@b@c=d"):
        with pytest.raises(ValueError, match="tracestate is"):
            trace_headers(PARENT, bad)
    with pytest.raises(ValueError, match="goes with traceparent"):
        trace_headers(None, "a=b")
    assert trace_headers("01" + PARENT[2:] + "-more", "a=b, t@s=c d").tracestate == "a=b, t@s=c d"
    assert trace_headers(None, None).metadata() == ()


def _gemm():
    path = os.environ.get("GEMM_BINARY", "bazel-bin/client/cli/gemm")
    if not pathlib.Path(path).exists():
        pytest.skip(f"there is no {path}: bazel build --config=opt //client/cli:gemm")
    return path


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_the_servers_traces_name_it(server, tmp_path, transport):
    perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    x = np.ones((64, 64), np.float32)
    with gemmd.Client(server.address, transport=transport) as client:
        results = [client.matmul(x, x, traceparent=PARENT, tracestate="rojo=1"), client.matmul(x, x)]
    file = tmp_path / "trace.pftrace"
    command = [_gemm(), "--server", server.address, "trace", "--last", "10m", "-o", str(file)]
    subprocess.run(command, check=True)
    trace = perfetto.Trace.FromString(file.read_bytes())
    sums, traced = _read(trace)
    for index, result in enumerate(results):
        receipt = result.receipt
        for stage in receipt.stages:
            assert stage.count == 1
            assert sums[receipt.request_id, stage.name] == pytest.approx(stage.end_us - stage.start_us, abs=0.01)
        assert traced[receipt.request_id] == (TRACE if index == 0 else None)


def _read(trace):
    """Each request's stages in microseconds, and its trace."""
    sums, traced = {}, {}
    open_slices = {}
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            arguments = {each.name: each for each in event.debug_annotations}
            stack.append((event.name, list(event.categories), arguments, packet.timestamp))
            continue
        name, categories, arguments, begin = stack.pop()
        if categories == ["stage"]:
            key = (arguments["request"].uint_value, name)
            sums[key] = sums.get(key, 0.0) + (packet.timestamp - begin) * 1e-3
        elif categories == ["request"]:
            found = arguments.get("trace_id")
            traced[arguments["request"].uint_value] = found.string_value if found else None
    assert not any(open_slices.values())
    return sums, traced
