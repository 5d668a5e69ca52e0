"""Checks libquant.so against float64, bit by bit against a reference of mma.sync, and rows of M against each other;
then times it beside torch's bf16 product (cuBLAS), in shuffled order, both in one run.

    python3 check_bench.py libquant.so [check] [quick] [SHAPE=TILING,TILING...]...

`quick` is for a library of bf16 by int4 alone. SHAPE is MxNxK. A tiling is fN (few.h) or wN (wide.h). Each figure is the median of launches in a CUDA graph of 40, over
four copies of W in turns; "spread" is that of its rounds.
"""
import ctypes, random, statistics, sys, time
import torch

lib = ctypes.CDLL(sys.argv[1])
P, I = ctypes.c_void_p, ctypes.c_int
lib.quant_gemm.argtypes = [I, I, I, I, P, P, P, P, P, I, I, I, P]
lib.quant_pack.argtypes = [I, I, I, I, P, P, P]
lib.quant_reference.argtypes = [I, P, P, P, P, I, I, I, P]
lib.quant_packed_bytes.restype = ctypes.c_longlong
dev = "cuda"
seed = int(time.time())
torch.manual_seed(seed)
random.seed(seed)
NONE, EIGHT, PLANE = 0, 1, 2
FEW_ROWS = [1, 1, 8, 16, 16, 16]


def stream(): return P(torch.cuda.current_stream().cuda_stream)
def ptr(t): return P(t.data_ptr() if t is not None else 0)


class Weights:
    def __init__(self, n, k, zero=EIGHT, decoded=False):
        self.n, self.k, self.zero = n, k, zero
        codes = torch.randint(0, 256, (n, k // 2), device=dev, dtype=torch.uint8)
        scales = (torch.rand(n, k // 128, device=dev) * .02 + .001).half()
        zeros = torch.randint(-8, 8, (n, k // 128), device=dev, dtype=torch.int8) if zero == PLANE else None
        self.packed = [self.pack(i, each) for i, each in enumerate((codes, scales, zeros))]
        torch.cuda.synchronize()
        if not decoded: return
        c = torch.stack([codes & 15, codes >> 4], -1).view(n, k).long()
        v = (c if zero == NONE else torch.where(c > 7, c - 16, c)).double()
        if zeros is not None: v -= zeros.double().repeat_interleave(128, 1)
        self.values, self.scales = v, scales.float().contiguous()
        self.exact = v * scales.double().repeat_interleave(128, 1)

    def pack(self, plane, sent):
        if sent is None: return None
        packed = torch.full((lib.quant_packed_bytes(plane, self.n, self.k),), 0xAB, device=dev, dtype=torch.uint8)
        assert lib.quant_pack(plane, self.zero, self.n, self.k, ptr(sent), ptr(packed), stream()) == 0
        return packed


def kernel_of(tiling): return (0 if tiling[0] == "f" else 1), int(tiling[1:])
def gemm(w, tiling, a, d):
    kernel, index = kernel_of(tiling)
    assert lib.quant_gemm(kernel, index, int(a.dtype == torch.float16), w.zero, ptr(a), *map(ptr, w.packed), ptr(d),
                          a.shape[0], w.n, w.k, stream()) == 0, tiling


FEW_LINES = [64, 32, 64, 64, 64, 128]
WIDE_LINES = [128, 512, 256, 256, 512, 128]
def fits(tiling, n): return n % (FEW_LINES if tiling[0] == "f" else WIDE_LINES)[int(tiling[1:])] == 0
def most(tiling): return FEW_ROWS[int(tiling[1:])] if tiling[0] == "f" else 1 << 30


words = sys.argv[2:]


def check(tilings, shapes=((512, 512), (1024, 4096), (192, 2688))):
    bad = 0
    for n, k in shapes:
        for zero in (EIGHT,) if "quick" in words else (NONE, EIGHT, PLANE):
            w = Weights(n, k, zero, decoded=True)
            for dtype in (torch.bfloat16,) if "quick" in words else (torch.bfloat16, torch.float16):
                a512 = torch.randn(512, k, device=dev).to(dtype)
                exact = a512.double() @ w.exact.t()
                ref = torch.full((512, n), float("nan"), device=dev, dtype=dtype)
                values = w.values.to(dtype).contiguous()
                assert lib.quant_reference(int(dtype == torch.float16), ptr(a512), ptr(values), ptr(w.scales), ptr(ref),
                                           512, n, k, stream()) == 0
                torch.cuda.synchronize()
                for tiling in tilings:
                    if not fits(tiling, n): continue
                    same, relative = True, 0.0
                    for m in (1, 2, 5, 8, 13, 16, 64, 200, 512):
                        if m > most(tiling): continue
                        for repeat in range(3):
                            d = torch.full((m + 1, n), float("nan"), device=dev, dtype=dtype)
                            gemm(w, tiling, a512[:m].contiguous(), d)
                            torch.cuda.synchronize()
                            assert d[m].isnan().all(), "wrote past the last row"
                            error = ((d[:m].double() - exact[:m]).norm() / exact[:m].norm()).item()
                            relative = max(relative, error if error == error else 9)
                            same = same and torch.equal(d[:m].view(torch.int16), ref[:m].view(torch.int16))
                    ok = same and relative < 2 ** -8
                    bad += not ok
                    if not ok or n == 1024 and zero == EIGHT:
                        print(f"{tiling} {dtype} zero {zero} N={n} K={k}: error {relative:.2e} of the norm, bits "
                              f"{'equal mma.sync and among M' if same else 'DIFFER'}", flush=True)
    print("check:", "ok" if bad == 0 else f"{bad} BAD", flush=True)
    return bad


def graph_of(calls, n=40):
    for c in calls: c()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for i in range(n): calls[i % len(calls)]()
    return g


def once(g, n=40):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record(); g.replay(); b.record(); torch.cuda.synchronize()
    return a.elapsed_time(b) * 1000 / n


def bench(m, n, k, tilings, rounds=11):
    a = torch.randn(m, k, device=dev, dtype=torch.bfloat16)
    b = [torch.randn(n, k, device=dev, dtype=torch.bfloat16) for _ in range(4)]
    w = [Weights(n, k) for _ in range(4)]
    d = torch.empty(m, n, device=dev, dtype=torch.bfloat16)
    graphs = {"bf16": graph_of([lambda x=x: torch.nn.functional.linear(a, x) for x in b])}
    for t in tilings: graphs[t] = graph_of([lambda x=x: gemm(x, t, a, d) for x in w])
    times = {name: [] for name in graphs}
    for _ in range(3):
        for g in graphs.values(): g.replay()
    torch.cuda.synchronize()
    for _ in range(rounds):
        order = list(graphs)
        random.shuffle(order)
        for name in order: times[name].append(once(graphs[name]))
    base = statistics.median(times["bf16"])
    print(f"--- {m}x{n}x{k}: bf16 {base:.2f} us", flush=True)
    for name in tilings:
        t = statistics.median(times[name])
        print(f"  {name} {t:.2f} us = {base / t:.3f}  (spread {min(times[name]):.2f} to {max(times[name]):.2f})", flush=True)


print(torch.cuda.get_device_name(0), torch.__version__, time.strftime("%Y-%m-%d %H:%M"), "seed", seed, flush=True)
jobs = [w.split("=") for w in words if "=" in w]
if "check" in words:
    named = sorted({t for _, ts in jobs for t in ts.split(",")})
    if check(named): sys.exit(1)
for shape, ts in jobs:
    bench(*map(int, shape.split("x")), ts.split(","))
