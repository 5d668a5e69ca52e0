"""Checks libquant.so against float64, bit by bit against a reference of mma.sync, and rows of M against each other;
then times it beside torch's bf16 product (cuBLAS), in shuffled order, both in one run.

    python3 check_bench.py libquant.so [check] [quick] [small] [SHAPE=TILING,TILING...]...

`small` checks one shape once, for compute-sanitizer; `bf16` checks rows of bf16 alone. SHAPE is MxNxK. A tiling is fN
(few.h, few_chain.h) or wN (wide.h) behind the letters of its format (tilings.py), none for int4 in groups of 128. Behind
it "r" stands for rows of f32, each three of the tiling's, beside which torch's f32 product is timed.
Each figure is the median of launches in a CUDA graph of 40, over copies of W in turns, half a GB of them; "spread" is
that of its rounds.
"""
import ctypes, math, random, re, statistics, sys, time
import torch
from tilings import FEW, FORMATS, TABLES, WIDE, bits_of, bits_of_code, first_of

lib = ctypes.CDLL(sys.argv[1])
P, I = ctypes.c_void_p, ctypes.c_int
lib.quant_gemm.argtypes = [I, I, I, I, P, P, P, P, P, P, P, P, I, I, I, P]
lib.quant_pack.argtypes = [I, I, I, I, P, P, P]
lib.quant_reference.argtypes = [I, P, P, P, P, P, P, I, P, I, I, I, P]
lib.quant_packed_bytes.restype = ctypes.c_longlong
dev = "cuda"
seed = int(time.time())
torch.manual_seed(seed)
random.seed(seed)


def stream(): return P(torch.cuda.current_stream().cuda_stream)
def ptr(t): return P(t.data_ptr() if t is not None else 0)


def some(shape, usual, few, odd):
    """Bytes of the interval `usual`, and a few of `few` among them where odd."""
    values = torch.randint(*usual, shape, device=dev, dtype=torch.uint8)
    if not odd: return values
    few = torch.tensor(few, device=dev, dtype=torch.uint8)
    return torch.where(torch.rand(shape, device=dev) < .002, few[torch.randint(0, len(few), shape, device=dev)], values)


def numbers_of(code, bytes, k):
    """The numbers that codes stand for, as they lie: float64."""
    if code == "u8": return bytes.double()
    if bits_of_code(code) == 8:
        return bytes.view({"i8": torch.int8, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[code]).double()
    if bits_of_code(code) == 4: c = torch.stack([bytes & 15, bytes >> 4], -1).view(-1, k).long()
    else:
        word = (bytes.view(-1, 3).int() * torch.tensor([1, 256, 65536], device=dev)).sum(1)
        c = torch.stack([word >> 6 * i & 63 for i in range(4)], -1).view(-1, k).long()
    if code == "u4": return c.double()
    if code in TABLES: return torch.tensor(TABLES[code], device=dev).double()[c]
    if code == "i4": return torch.where(c > 7, c - 16, c).double()
    _, e, _, m = code
    fractions = 1 << int(m)
    bias = (1 << int(e) - 1) - 1
    magnitude = [2. ** (max(x // fractions, 1) - bias) * (x % fractions / fractions + (x >= fractions))
                 for x in range(fractions << int(e))]
    return torch.tensor(magnitude + [-x for x in magnitude], device=dev, dtype=torch.float64)[c]


class Weights:
    def __init__(self, n, k, format, decoded=False, odd=False):
        """odd: scales of MX and nvfp4 of every kind, infinities and NaN among codes of fp8."""
        self.n, self.k, self.format = n, k, format
        bits = bits_of(format)
        number = FORMATS.index(format)
        codes = torch.randint(0, 256, (n, k * bits // 8), device=dev, dtype=torch.uint8)
        if format.code == "e4m3": codes = codes - ((codes & 127) == 127).byte()
        if format.code == "e4m3" and odd: codes[torch.rand(n, k, device=dev) < 2e-4] = 0xff
        if format.code == "e5m2": codes = torch.where((codes & 0x7c) == 0x7c, codes ^ 0x40, codes)
        if format.code == "e5m2" and odd:
            for code in (0x7c, 0xfc, 0x7e): codes[torch.rand(n, k, device=dev) < 1e-4] = code
        scale_k = format.scale_k or k
        blocks = (n, k // scale_k)
        zeros = None
        if format.zeros:
            low, high = {"i4": (-8, 8), "u4": (0, 16), "i8": (-128, 128), "u8": (0, 256)}[format.code]
            zeros = torch.randint(low, high, blocks, device=dev).to(torch.int8 if low < 0 else torch.uint8)
        self.tensor_scale = torch.full((1,), .0371, device=dev) if format.scale == "e4m3" else None
        if format.scale == "e8m0": scales = some(blocks, (116, 128), [0, 1, 128, 160, 255], odd)
        elif format.scale == "e4m3": scales = some(blocks, (8, 127), [0, 1, 7, 0x80, 0x85, 0xb9, 0x7f, 0xff], odd)
        else:
            scales = torch.rand(blocks, device=dev) * .02 + .001
            if format.scale == "f32": scales = scales / 16
            else: scales = scales.to({"f16": torch.float16, "bf16": torch.bfloat16}[format.scale])
        offsets = ((torch.rand(blocks, device=dev) * 12 - 14) * scales.float()).to(scales.dtype) if format.offsets else None
        self.packed = [self.pack(number, i, each) for i, each in enumerate((codes, scales, zeros, offsets))]
        torch.cuda.synchronize()
        if not decoded: return
        self.values = numbers_of(format.code, codes, k)
        if zeros is not None: self.values -= zeros.double().repeat_interleave(scale_k, 1)
        if format.scale == "e8m0": factors = torch.where(scales == 255, math.nan, torch.pow(2., scales.double() - 127))
        elif format.scale == "e4m3": factors = scales.view(torch.float8_e4m3fn).double()
        else: factors = scales.double()
        self.exact = self.values * factors.repeat_interleave(scale_k, 1)
        self.offsets = offsets.float().contiguous() if format.offsets else None
        if format.offsets: self.exact += offsets.double().repeat_interleave(scale_k, 1)
        # A chain is of values with their scales; other sums get theirs.
        self.scales, self.scale_k = None, 128
        if format.code == "e2m1":
            self.values = self.exact
            if self.tensor_scale is not None: self.exact = self.exact * self.tensor_scale.double()
            return
        self.scale_k = min(scale_k, 128)
        self.scales = factors.float().expand(n, k // self.scale_k).contiguous()

    def pack(self, number, plane, sent):
        if sent is None: return None
        packed = torch.full((lib.quant_packed_bytes(plane, number, self.n, self.k),), 0xAB, device=dev,
                            dtype=torch.uint8)
        assert lib.quant_pack(plane, number, self.n, self.k, ptr(sent), ptr(packed), stream()) == 0
        return packed


def parts(tiling):
    """The format's letters, which kernel, and its tiling's number."""
    letter, which, index = re.fullmatch(r"(\w*?)([fw])(\d+)r?", tiling).groups()
    return letter, "fw".index(which), int(index)


def format_of(tiling): return first_of(parts(tiling)[0])


# Types of A and D, in the order of kTypes in quant_library.cu.
TYPES = [(torch.bfloat16, torch.bfloat16), (torch.float16, torch.float16), (torch.float32, torch.float32),
         (torch.bfloat16, torch.float32)]
workspaces = {}


def workspace(w, m, is_float):
    if not w.format.offsets and not is_float: return None
    floats = ((m * 3 if is_float else m) + 128) * (w.k + 127) // 32 + (m * 3 * (w.k + w.n) + 1024 if is_float else 0)
    return workspaces.setdefault((m, w.n, w.k, is_float), torch.empty(floats, device=dev))


def gemm(w, tiling, a, d):
    _, kernel, index = parts(tiling)
    assert lib.quant_gemm(kernel, index, TYPES.index((a.dtype, d.dtype)), FORMATS.index(w.format), ptr(a), *map(ptr, w.packed),
                          ptr(w.tensor_scale), ptr(workspace(w, a.shape[0], a.dtype == torch.float32)), ptr(d), a.shape[0],
                          w.n, w.k, stream()) == 0, tiling


def fits(tiling, n):
    letter, kernel, index = parts(tiling)
    if kernel == 0: return n % FEW[letter][index][1] == 0
    _, lines, _, cluster = WIDE[letter][index]
    return n % (lines * cluster) == 0
def most(tiling):
    letter, kernel, index = parts(tiling)
    rows = 1024 if kernel == 1 and tiling[-1] == "r" else 1 << 30 if kernel == 1 else FEW[letter][index][0]
    return rows // 3 if kernel == 0 and tiling[-1] == "r" else rows


words = sys.argv[2:]


SMALL = "small" in words
ROWS = (1, 20) if SMALL else (1, 2, 5, 8, 13, 16, 27, 64, 200, 512)


def parts_of_rows(a):
    """Rows of f32 as rows of bf16: bits that are cut off, one after another."""
    for _ in range(3):
        part = (a.view(torch.int32) & -65536).view(torch.float32)
        yield part.to(torch.bfloat16)
        a = a - part


def check_float(w, tilings):
    """Rows of f32: the sums of three products by the tiling itself, and no further from float64 than f32's own sums."""
    bad = 0
    for tiling in tilings:
        for m in (1, 2, 5, 27, 200):
            if m > most(tiling): continue
            a = torch.randn(m, w.k, device=dev)
            hi, mid, lo = [torch.empty(m, w.n, device=dev) for _ in range(3)]
            for part, rows in zip((hi, mid, lo), parts_of_rows(a)): gemm(w, tiling, rows.contiguous(), part)
            d = torch.full((m + 1, w.n), float("nan"), device=dev)
            gemm(w, tiling, a, d)
            torch.cuda.synchronize()
            assert d[m].isnan().all(), "wrote past the last row"
            exact = a.double() @ w.exact.t()
            error = ((d[:m] - exact).norm() / exact.norm()).item()
            same = torch.equal(d[:m].view(torch.int32), ((lo + mid) + hi).view(torch.int32))
            ok = same and error < 2 ** -17
            bad += not ok
            if not ok or m == 1 and w.n == 1024:
                print(f"{tiling} {tuple(w.format)} M={m} N={w.n} K={w.k}: error {error:.2e} of the norm, bits "
                      f"{'those of three products' if same else 'DIFFER'}", flush=True)
    return bad


def check(tilings, shapes=((512, 1408),) if SMALL else ((512, 512), (1024, 4096), (192, 2688))):
    bad = 0
    letters = {parts(t)[0] for t in tilings}
    for n, k in shapes:
        for format in [f for f in FORMATS if f.letter in letters]:
            of_format = [t for t in tilings if fits(t, n) and parts(t)[0] == format.letter]
            own = [t for t in of_format if t[-1] != "r"]
            of_floats = [t for t in of_format if t[-1] == "r"]
            if not of_format: continue
            w = Weights(n, k, format, decoded=True)
            bad += check_float(w, of_floats)
            only_bf16 = format.code == "e2m1" or "bf16" in words
            for dtype in (torch.bfloat16,) if only_bf16 else (torch.bfloat16, torch.float16):
                bad += check_format(w, dtype, own)
    for format in [f for f in FORMATS if f.code[0] == "e"]:
        own = [t for t in tilings if parts(t)[0] == format.letter and t[-1] != "r"]
        if own and not SMALL: bad += check_odd(format, own)
    print("check:", "ok" if bad == 0 else f"{bad} BAD", flush=True)
    return bad


def reference(w, a):
    ref = torch.full((a.shape[0], w.n), float("nan"), device=dev, dtype=a.dtype)
    values = w.values.to(a.dtype).contiguous()
    # Numbers that the type has not are the sum of two.
    rests = (w.values - values.double()).to(a.dtype).contiguous() if w.format.letter == "t64" else None
    assert lib.quant_reference(int(a.dtype == torch.float16), ptr(a), ptr(values), ptr(rests), ptr(w.scales), ptr(w.offsets), ptr(w.tensor_scale), w.scale_k,
                               ptr(ref), a.shape[0], w.n, w.k, stream()) == 0
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
                # A sum may be too large for f16.
                fits_d = ref[:m].isfinite()
                error = ((d[:m].double() - exact[:m])[fits_d].norm() / exact[:m][fits_d].norm()).item()
                relative = max(relative, error if error == error else 9)
                same = same and torch.equal(d[:m].view(torch.int16), ref[:m].view(torch.int16))
        ok = same and relative < 2 ** -8
        bad += not ok
        if not ok or w.n == 1024 and w.format == format_of(tiling):
            print(f"{tiling} {dtype} {tuple(w.format)} N={w.n} K={w.k}: error {relative:.2e} of the norm, bits "
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
    print(f"odd weights of {tuple(format)}: {int(ref.isnan().any(0).sum())} lines of NaN", flush=True)
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


def code_bytes(format, n, k): return n * k * bits_of(format) // 8
def copies_of(bytes):
    """A number of copies of which no cache holds a part that counts."""
    return max(4, math.ceil(5e8 / bytes))


def bench(m, n, k, tilings, rounds=11):
    a = torch.randn(m, k, device=dev, dtype=torch.bfloat16)
    b = [torch.randn(n, k, device=dev, dtype=torch.bfloat16) for _ in range(copies_of(2 * n * k))]
    w = {format: [Weights(n, k, format) for _ in range(copies_of(code_bytes(format, n, k)))]
         for format in {format_of(t) for t in tilings}}
    d = torch.empty(m, n, device=dev, dtype=torch.bfloat16)
    floats = torch.randn(m, k, device=dev)
    float_d = torch.empty(m, n, device=dev)
    graphs = {"bf16": graph_of([lambda x=x: torch.nn.functional.linear(a, x) for x in b])}
    if any(t[-1] == "r" for t in tilings):
        f32 = [torch.randn(n, k, device=dev) for _ in range(copies_of(4 * n * k))]
        graphs["torch's f32"] = graph_of([lambda x=x: torch.nn.functional.linear(floats, x) for x in f32])
    for t in tilings:
        rows, result = (floats, float_d) if t[-1] == "r" else (a, d)
        graphs[t] = graph_of([lambda x=x: gemm(x, t, rows, result) for x in w[format_of(t)]])
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
    for name in [name for name in graphs if name != "bf16"]:
        t = statistics.median(times[name])
        print(f"  {name} {t:.2f} us = {base / t:.3f}  (spread {min(times[name]):.2f} to {max(times[name]):.2f})", flush=True)


print(torch.cuda.get_device_name(0), torch.__version__, time.strftime("%Y-%m-%d %H:%M"), "seed", seed, flush=True)
jobs = [w.split("=") for w in words if "=" in w]
if "check" in words:
    named = sorted({t for _, ts in jobs for t in ts.split(",")})
    if check(named): sys.exit(1)
for shape, ts in [] if SMALL else jobs:
    bench(*map(int, shape.split("x")), ts.split(","))
