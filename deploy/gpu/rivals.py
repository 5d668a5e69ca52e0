#!/usr/bin/env python3
"""Measures gemmd beside what else multiplies matrices that lie in host memory, in one run.

    deploy/gpu/rivals.py --gemmd bazel-bin/server/gemmd --gemm bazel-bin/client/cli/gemm --json FILE
        [--python DIR]                where the gemmd package is, for its row
        [--batch-invariant-ops DIR]   a clone of thinking-machines-lab/batch_invariant_ops
        [--kernel-bench FILE]         for its rows too: ours, each against cuBLAS in this run
        [--lupine DIR]                a build of lupinemachines/lupine: server and libcuda.so.1

It needs one CUDA GPU, PyTorch and grpcio. Contenders take turns in random order, --rounds times; a
figure is the median of the rounds' medians. What each does with one product is in its docstring.
"""

import argparse
import csv
import ctypes
import io
import json
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent import futures

import grpc
import torch

SIZE = 4096
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
MESSAGES = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def median_ms(function, calls):
    """The median of `calls` calls after one, in milliseconds."""
    function()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def check(name, product, a, b):
    """Ends the run where a product is wrong."""
    exact = a[:8].double() @ b.double()
    error = float((product[:8].double() - exact).norm() / exact.norm())
    if not error < 1e-2:
        sys.exit(f"{name}: a wrong product, relative error {error:.3g}")


class Operands:
    """Random A and B in pageable host memory."""

    def __init__(self, type_name):
        generator = torch.Generator().manual_seed(1)
        self.type_name = type_name
        self.type = TYPES[type_name]
        self.a = torch.randn(SIZE, SIZE, generator=generator).to(self.type)
        self.b = torch.randn(SIZE, SIZE, generator=generator).to(self.type)

    def bytes_of(self, matrix):
        return bytes(matrix.view(torch.uint8).numpy())


class TorchHere:
    """torch on the GPU's host: both operands to the GPU, one product, the result back."""

    def __init__(self, operands):
        self.operands = operands
        check("torch", self.once(), operands.a, operands.b)

    def once(self):
        return (self.operands.a.cuda() @ self.operands.b.cuda()).cpu()

    def measure(self, calls):
        return median_ms(self.once, calls)


class TorchBehindGrpc:
    """A gRPC server in Python around torch, as one writes it in an afternoon: the request is A and B,
    the answer D, each as one message of bytes."""

    def __init__(self, operands):
        self.operands = operands
        a, b = (operands.bytes_of(m) for m in (operands.a, operands.b))
        self.request = a + b
        self.server = grpc.server(futures.ThreadPoolExecutor(4), options=MESSAGES)
        handler = grpc.unary_unary_rpc_method_handler(lambda request, _: self.serve(request))
        service = grpc.method_handlers_generic_handler("peer", {"Multiply": handler})
        self.server.add_generic_rpc_handlers((service,))
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.call = grpc.insecure_channel(f"127.0.0.1:{port}", MESSAGES).unary_unary("/peer/Multiply")
        check("torch behind gRPC", self.once(), operands.a, operands.b)

    def serve(self, request):
        def take(part):
            return torch.frombuffer(bytearray(part), dtype=self.operands.type).reshape(SIZE, SIZE)

        half = len(request) // 2
        product = take(request[:half]).cuda() @ take(request[half:]).cuda()
        return self.operands.bytes_of(product.cpu())

    def once(self):
        answer = self.call(self.request)
        return torch.frombuffer(bytearray(answer), dtype=self.operands.type).reshape(SIZE, SIZE)

    def measure(self, calls):
        return median_ms(self.once, calls)


class CublasXt:
    """cuBLASXt from page-locked memory, at the best of three block sizes. f32 alone."""

    BLOCKS = (1024, 2048, 4096)

    def __init__(self, operands):
        self.operands = operands
        self.library = ctypes.CDLL(find_cublas())
        self.handle = ctypes.c_void_p()
        self.must(self.library.cublasXtCreate(ctypes.byref(self.handle)))
        self.must(self.library.cublasXtDeviceSelect(self.handle, 1, (ctypes.c_int * 1)(0)))
        self.a, self.b = operands.a.pin_memory(), operands.b.pin_memory()
        self.d = torch.empty(SIZE, SIZE).pin_memory()
        self.must(self.library.cublasXtSetBlockDim(self.handle, 2048))
        self.once()
        check("cuBLASXt", self.d, operands.a, operands.b)

    @staticmethod
    def must(status):
        if status != 0:
            sys.exit(f"cuBLASXt: status {status}")

    def once(self):
        # Row-major D = A B is column-major D' = B' A'.
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        n = ctypes.c_size_t(SIZE)
        pointer = [ctypes.c_void_p(m.data_ptr()) for m in (self.b, self.a, self.d)]
        self.must(
            self.library.cublasXtSgemm(
                self.handle, 0, 0, n, n, n, ctypes.byref(one), pointer[0], n, pointer[1], n,
                ctypes.byref(zero), pointer[2], n,
            )
        )
        torch.cuda.synchronize()

    def measure(self, calls):
        times = []
        for block in self.BLOCKS:
            self.must(self.library.cublasXtSetBlockDim(self.handle, block))
            times.append(median_ms(self.once, calls))
        return min(times)


class Lupine:
    """CUDA over the network by lupine: torch in a process of its own, to whose libcuda a server here
    answers; as TorchHere, from pageable tensors."""

    PORT = 14833
    CHILD = """
import statistics, sys, time, torch
size, calls, kind = int(sys.argv[1]), int(sys.argv[2]), {"bf16": torch.bfloat16, "f32": torch.float32}[sys.argv[3]]
a, b = torch.randn(size, size).to(kind), torch.randn(size, size).to(kind)
def once():
    return (a.cuda() @ b.cuda()).cpu()
exact = a[:8].double() @ b.double()
assert float((once()[:8].double() - exact).norm() / exact.norm()) < 1e-2, "a wrong product"
times = []
for _ in range(calls):
    start = time.perf_counter()
    once()
    times.append(time.perf_counter() - start)
print(statistics.median(times) * 1e3)
"""

    def __init__(self, operands, folder):
        self.type_name = operands.type_name
        self.folder = pathlib.Path(folder)

    def start(self):
        """A server, once it takes connections."""
        command = [str(self.folder / "lupine_driver_server")]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.PORT)).close()
                return server
            except ConnectionRefusedError:
                time.sleep(0.1)
        server.kill()
        sys.exit(f"{command[0]} takes no connections on port {self.PORT}")

    def measure(self, calls):
        """None where the product fails, which is printed."""
        server = self.start()
        try:
            return self.measure_with_server(calls)
        finally:
            server.kill()
            server.wait()

    def measure_with_server(self, calls):
        environment = dict(os.environ, LUPINE_SERVER=f"127.0.0.1:{self.PORT}")
        environment["LD_LIBRARY_PATH"] = f"{self.folder}:{environment.get('LD_LIBRARY_PATH', '')}"
        command = [sys.executable, "-c", self.CHILD, str(SIZE), str(calls), self.type_name]
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment, timeout=90
            )
        except subprocess.TimeoutExpired:
            print(f"lupine, {self.type_name}: no answer in 90 s")
            return None
        if run.returncode != 0:
            print(f"lupine, {self.type_name}: {run.stderr.strip().splitlines()[-1:] or run.returncode}")
            return None
        return float(run.stdout)


def median_of(times):
    """None where a round failed."""
    return None if None in times else statistics.median(times)


def find_cublas():
    for folder in (pathlib.Path(torch.__file__).parent.parent, pathlib.Path("/usr/local/cuda/lib64")):
        for path in sorted(folder.glob("**/libcublas.so.1*")):
            return str(path)
    sys.exit("there is no libcublas.so")


class GemmdBench:
    """`gemm bench` with one product in flight, C++: inline over gRPC, or in shared memory."""

    def __init__(self, operands, gemm, address, flags):
        self.command = [gemm, "--server", address, "bench", "-c", "1", "--csv", "-q"]
        self.command += ["-s", f"{SIZE}x{SIZE}x{SIZE}", "--type", operands.type_name]
        self.command += ["--warm-up", "500ms", "--verify-fraction", "0.05", *flags]

    def measure(self, calls):
        duration = f"{max(1, calls // 5)}s"
        run = subprocess.run(
            [*self.command, "--duration", duration], capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: {run.stderr}")
        row = next(csv.DictReader(io.StringIO(run.stdout)))
        return float(row["p50_us"]) / 1e3


class GemmdPython:
    """gemmd's Python client: NumPy arrays inline over gRPC."""

    def __init__(self, operands, address):
        import gemmd

        self.client = gemmd.Client(address)
        self.operands = operands
        if operands.type == torch.float32:
            self.a, self.b = operands.a.numpy(), operands.b.numpy()
        else:
            self.a, self.b = operands.a, operands.b  # by DLPack
        product = self.once()
        view = product.view("u2") if product.dtype.itemsize == 2 else product
        tensor = torch.from_numpy(view)
        check("gemmd for Python", tensor.view(operands.type), operands.a, operands.b)

    def once(self):
        return self.client.matmul(self.a, self.b)

    def measure(self, calls):
        return median_ms(self.once, calls)


def start_gemmd(gemmd):
    """A server on a free port: the process and its address."""
    log = tempfile.NamedTemporaryFile("r", suffix=".log")
    command = [gemmd, "--device=cuda", "--listen=127.0.0.1:0", "--shared-memory.name-prefix=gemmd-"]
    with open(log.name, "w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stderr=output)
    for _ in range(600):
        found = re.search(r'"event":"serving".*?"address":"([^"]+)"', pathlib.Path(log.name).read_text())
        if found:
            return process, found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"gemmd does not serve: {pathlib.Path(log.name).read_text()}")


def host_products(options):
    """Milliseconds a product, by type and contender."""
    process, address = start_gemmd(options.gemmd)
    if options.python:
        sys.path.insert(0, options.python)
    rows = {}
    try:
        for type_name in TYPES:
            operands = Operands(type_name)
            contenders = {
                "gemmd, shared memory": GemmdBench(
                    operands, options.gemm, address, ["--operands", "shared-memory"]
                ),
                "gemmd, inline over gRPC": GemmdBench(operands, options.gemm, address, ["--call", "auto"]),
                "torch on the GPU's host, pageable": TorchHere(operands),
                "torch behind gRPC in Python": TorchBehindGrpc(operands),
            }
            if options.python:
                contenders["gemmd for Python, inline over gRPC"] = GemmdPython(operands, address)
            if options.lupine:
                contenders["torch over lupine"] = Lupine(operands, options.lupine)
            if type_name == "f32":
                contenders["cuBLASXt, page-locked"] = CublasXt(operands)
            times = {name: [] for name in contenders}
            order = list(contenders)
            for _ in range(options.rounds):
                random.shuffle(order)
                for name in order:
                    times[name].append(contenders[name].measure(options.calls))
            rows[type_name] = {name: median_of(each) for name, each in times.items()}
            print(type_name, json.dumps({n: [t and round(t, 2) for t in ts] for n, ts in times.items()}))
    finally:
        process.terminate()
        process.wait()
    return rows


def device_us(function, sets):
    """Microseconds of one launch, back to back in a graph over several sets of operands."""
    for each in sets:
        function(*each)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for each in sets:
            function(*each)
    times = []
    for _ in range(20):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / len(sets))
    return statistics.median(times)


def batch_invariant(options):
    """Speed as a share of cuBLAS's for kernels whose bits do not depend on the batch: theirs by
    CUDA graphs beside torch.matmul, ours by kernel_bench beside cuBLASLt, which makes its own turns."""
    sys.path.insert(0, options.batch_invariant_ops)
    from batch_invariant_ops import matmul_persistent

    rows = {}
    for m, n, k in ((4096, 4096, 4096), (1, 8192, 8192), (64, 8192, 8192)):
        sets = []
        for seed in range(4):
            torch.manual_seed(seed)
            a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
            sets.append((a, torch.randn(k, n, device="cuda", dtype=torch.bfloat16)))
        check("batch_invariant_ops", matmul_persistent(*sets[0]).cpu(), sets[0][0].cpu(), sets[0][1].cpu())
        shares = []
        for _ in range(options.rounds):
            shares.append(device_us(torch.matmul, sets) / device_us(matmul_persistent, sets))
        rows[f"{m} x {n} x {k}"] = {"batch_invariant_ops": statistics.median(shares)}
    if options.kernel_bench:
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            subprocess.run(
                [
                    options.kernel_bench, "--kernels=sm90/*", "--types=bf16", "--layouts=NN", "--rounds=3",
                    "--shapes=4096x4096x4096,1x8192x8192,64x8192x8192", "--sustained-ms=40",
                    "--settled=none", f"--json={file.name}",
                ],
                check=True,
            )
            rows["kernel_bench"] = json.load(file)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gemmd", required=True)
    parser.add_argument("--gemm", required=True)
    parser.add_argument("--python")
    parser.add_argument("--batch-invariant-ops")
    parser.add_argument("--kernel-bench")
    parser.add_argument("--lupine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    random.seed(1)
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    if options.batch_invariant_ops:
        result["batch_invariant"] = batch_invariant(options)
    result["host_products_ms"] = host_products(options)
    pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["host_products_ms"], indent=1))


if __name__ == "__main__":
    main()
