"""Checks libquant.so against float64, bit by bit against a reference of mma.sync, and rows of M against each other;
then times it beside torch's bf16 product (cuBLAS), in shuffled order, both in one run.

    python3 check_bench.py libquant.so [check] [quick] [small] [SHAPE=TILING,TILING...]...

`quick` is for a library of QUANT_QUICK, `small` checks one shape once, for compute-sanitizer. SHAPE is MxNxK. A tiling
is fN (few.h, few_chain.h) or wN (wide.h) of int4; mfN and mwN are of mxfp4, nfN and nwN of nvfp4, ifN and iwN of int8,
efN and ewN of fp8.
Each figure is the median of launches in a CUDA graph of 40, over copies of W in turns, half a GB of them; "spread" is
that of its rounds.
"""
import ctypes, math, random, re, statistics, sys, time
import torch
from tilings import FEW, WIDE, WIDE_CLUSTERS

lib = ctypes.CDLL(sys.argv[1])
P, I = ctypes.c_void_p, ctypes.c_int
lib.quant_gemm.argtypes = [I, I, I, I, P, P, P, P, P, P, I, I, I, P]
lib.quant_pack.argtypes = [I, I, I, I, P, P, P]
lib.quant_reference.argtypes = [I, P, P, P, P, P, I, I, I, P]
lib.quant_packed_bytes.restype = ctypes.c_longlong
dev = "cuda"
seed = int(time.time())
torch.manual_seed(seed)
random.seed(seed)
UINT4, INT4, INT4_ZEROS, MXFP4, NVFP4, INT8, INT8_ZEROS, INT8_LINES, E4M3 = range(9)  # formats of B
OF_LETTER = {"": (INT4, UINT4, INT4_ZEROS), "m": (MXFP4,), "n": (NVFP4,), "i": (INT8, INT8_ZEROS, INT8_LINES),
             "e": (E4M3,)}
E2M1 = [0, .5, 1, 1.5, 2, 3, 4, 6]


def stream(): return P(torch.cuda.current_stream().cuda_stream)
def ptr(t): return P(t.data_ptr() if t is not None else 0)


class Weights:
    def __init__(self, n, k, format=INT4, decoded=False, odd=False):
        """odd: the smallest and large scales of mxfp4, scales of every kind of nvfp4, NaN among codes of fp8."""
        self.n, self.k, self.format, self.tensor_scale = n, k, format, None
        codes = torch.randint(0, 256, (n, k if format >= INT8 else k // 2), device=dev, dtype=torch.uint8)
        if format == E4M3: codes = codes - ((codes & 127) == 127).byte()
        if format == E4M3 and odd: codes[torch.rand(n, k, device=dev) < 2e-4] = 0xff
        zeros = None
        if format == INT4_ZEROS: zeros = torch.randint(-8, 8, (n, k // 128), device=dev, dtype=torch.int8)
        if format == INT8_ZEROS: zeros = torch.randint(-128, 128, (n, k // 128), device=dev, dtype=torch.int8)
        if format == MXFP4:
            scales = torch.randint(116, 128, (n, k // 32), device=dev, dtype=torch.uint8)
            if odd:
                few = torch.tensor([0, 1, 128, 160], device=dev, dtype=torch.uint8)
                where = torch.rand(n, k // 32, device=dev) < .002
                scales = torch.where(where, few[torch.randint(0, 4, (n, k // 32), device=dev)], scales)
        elif format == NVFP4:
            scales = torch.randint(8, 127, (n, k // 16), device=dev, dtype=torch.uint8)
            if odd:
                few = torch.tensor([0, 1, 7, 0x80, 0x85, 0xb9, 0x7f, 0xff], device=dev, dtype=torch.uint8)
                where = torch.rand(n, k // 16, device=dev) < .002
                scales = torch.where(where, few[torch.randint(0, 8, (n, k // 16), device=dev)], scales)
            self.tensor_scale = torch.full((1,), .0371, device=dev)
        else:
            scales = torch.rand(n, 1 if format == INT8_LINES else k // 128, device=dev) * .02 + .001
            scales = scales.half() if format < MXFP4 else scales / 16
        self.packed = [self.pack(i, each) for i, each in enumerate((codes, scales, zeros))]
        torch.cuda.synchronize()
        if not decoded: return
        c = torch.stack([codes & 15, codes >> 4], -1).view(n, k).long() if format < INT8 else codes
        if format in (MXFP4, NVFP4):
            table = torch.tensor(E2M1 + [-x for x in E2M1], device=dev, dtype=torch.float64)
            if format == MXFP4: factors = torch.pow(2., scales.double() - 127).repeat_interleave(32, 1)
            else: factors = scales.view(torch.float8_e4m3fn).double().repeat_interleave(16, 1)
            self.values = self.exact = table[c] * factors
            if format == NVFP4: self.exact = self.values * self.tensor_scale.double()
            self.scales = None
            return
        if format == E4M3: v = c.view(torch.float8_e4m3fn).double()
        elif format >= INT8: v = c.view(torch.int8).double()
        else: v = (c if format == UINT4 else torch.where(c > 7, c - 16, c)).double()
        if zeros is not None: v -= zeros.double().repeat_interleave(128, 1)
        scales = scales.float().expand(n, k // 128).contiguous()
        self.values, self.scales, self.exact = v, scales, v * scales.double().repeat_interleave(128, 1)

    def pack(self, plane, sent):
        if sent is None: return None
        packed = torch.full((lib.quant_packed_bytes(plane, self.format, self.n, self.k),), 0xAB, device=dev,
                            dtype=torch.uint8)
        assert lib.quant_pack(plane, self.format, self.n, self.k, ptr(sent), ptr(packed), stream()) == 0
        return packed


def parts(tiling):
    """The format's letter, which kernel, and its tiling's number."""
    letter, which, index = re.fullmatch(r"([mnie]?)([fw])(\d+)", tiling).groups()
    return letter, "fw".index(which), int(index)


def format_of(tiling): return OF_LETTER[parts(tiling)[0]][0]


def gemm(w, tiling, a, d):
    _, kernel, index = parts(tiling)
    assert lib.quant_gemm(kernel, index, int(a.dtype == torch.float16), w.format, ptr(a), *map(ptr, w.packed),
                          ptr(w.tensor_scale), ptr(d), a.shape[0], w.n, w.k, stream()) == 0, tiling


def fits(tiling, n):
    letter, kernel, index = parts(tiling)
    return n % (WIDE[index][1] * WIDE_CLUSTERS[index] if kernel == 1 else FEW[letter][index][1]) == 0
def most(tiling):
    letter, kernel, index = parts(tiling)
    return 1 << 30 if kernel == 1 else FEW[letter][index][0]


words = sys.argv[2:]


SMALL = "small" in words
ROWS = (1, 20) if SMALL else (1, 2, 5, 8, 13, 16, 27, 64, 200, 512)


def check(tilings, shapes=((512, 1408),) if SMALL else ((512, 512), (1024, 4096), (192, 2688))):
    bad = 0
    quick = "quick" in words
    for n, k in shapes:
        for letter, formats in OF_LETTER.items():
            own = [t for t in tilings if fits(t, n) and parts(t)[0] == letter]
            for format in [f for f in formats if not quick or f in (INT4, MXFP4, NVFP4, INT8, INT8_LINES, E4M3)] if own else []:
                w = Weights(n, k, format, decoded=True)
                for dtype in (torch.bfloat16,) if format in (MXFP4, NVFP4) or quick else (torch.bfloat16, torch.float16):
                    bad += check_format(w, dtype, own)
    for format in (MXFP4, NVFP4, E4M3):
        own = [t for t in tilings if format_of(t) == format]
        if own and not SMALL: bad += check_odd(format, own)
    print("check:", "ok" if bad == 0 else f"{bad} BAD", flush=True)
    return bad


def reference(w, a):
    ref = torch.full((a.shape[0], w.n), float("nan"), device=dev, dtype=a.dtype)
    values = w.values.to(a.dtype).contiguous()
    assert lib.quant_reference(int(a.dtype == torch.float16), ptr(a), ptr(values), ptr(w.scales), ptr(w.tensor_scale), ptr(ref),
                               a.shape[0], w.n, w.k, stream()) == 0
    torch.cuda.synchronize()
    return ref


def check_format(w, dtype, tilings):
    a512 = torch.randn(max(ROWS), w.k, device=dev).to(dtype)
    exact = a512.double() @ w.exact.t()
    ref = reference(w, a512)
    bad = 0
    for tiling in tilings:
        same, relative = True, 0.0
        for m in ROWS:
            if m > most(tiling): continue
            for repeat in range(1 if SMALL else 3):
                d = torch.full((m + 1, w.n), float("nan"), device=dev, dtype=dtype)
                gemm(w, tiling, a512[:m].contiguous(), d)
                torch.cuda.synchronize()
                assert d[m].isnan().all(), "wrote past the last row"
                error = ((d[:m].double() - exact[:m]).norm() / exact[:m].norm()).item()
                relative = max(relative, error if error == error else 9)
                same = same and torch.equal(d[:m].view(torch.int16), ref[:m].view(torch.int16))
        ok = same and relative < 2 ** -8
        bad += not ok
        if not ok or w.n == 1024 and w.format == format_of(tiling):
            print(f"{tiling} {dtype} format {w.format} N={w.n} K={w.k}: error {relative:.2e} of the norm, bits "
                  f"{'equal mma.sync and among M' if same else 'DIFFER'}", flush=True)
    return bad


def check_odd(format, tilings):
    """What seldom occurs, and has code of its own: odd scales of mxfp4 and nvfp4, and NaN of fp8."""
    w = Weights(512, 1024, format, decoded=True, odd=True)
    a = torch.randn(40, w.k, device=dev).to(torch.bfloat16)
    ref = reference(w, a)
    bad = 0
    for tiling in tilings:
        m = min(40, most(tiling))
        d = torch.zeros(m, w.n, device=dev, dtype=torch.bfloat16)
        gemm(w, tiling, a[:m].contiguous(), d)
        torch.cuda.synchronize()
        same = torch.equal(d.nan_to_num(7e30).view(torch.int16), ref[:m].nan_to_num(7e30).view(torch.int16))
        bad += not same
        if not same: print(f"{tiling} of odd weights: bits DIFFER", flush=True)
    print(f"odd weights of format {format}: {int(ref.isnan().any(0).sum())} lines of NaN", flush=True)
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


def code_bytes(format, n, k): return n * k if format >= INT8 else n * k // 2
def copies_of(bytes):
    """As many as no cache holds a part of that counts."""
    return max(4, math.ceil(5e8 / bytes))


def bench(m, n, k, tilings, rounds=11):
    a = torch.randn(m, k, device=dev, dtype=torch.bfloat16)
    b = [torch.randn(n, k, device=dev, dtype=torch.bfloat16) for _ in range(copies_of(2 * n * k))]
    w = {format: [Weights(n, k, format) for _ in range(copies_of(code_bytes(format, n, k)))]
         for format in {format_of(t) for t in tilings}}
    d = torch.empty(m, n, device=dev, dtype=torch.bfloat16)
    graphs = {"bf16": graph_of([lambda x=x: torch.nn.functional.linear(a, x) for x in b])}
    for t in tilings: graphs[t] = graph_of([lambda x=x: gemm(x, t, a, d) for x in w[format_of(t)]])
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
for shape, ts in [] if SMALL else jobs:
    bench(*map(int, shape.split("x")), ts.split(","))
