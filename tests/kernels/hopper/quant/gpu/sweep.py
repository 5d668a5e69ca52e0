"""Times every tiling that takes a shape, beside torch's bf16 product, for fit.py.

    python3 sweep.py ./libquant.so [int4|mxfp4] > sweep.txt

W is shared by all M of an (N, K). The library may be one of bf16 by int4 and mxfp4 alone (QUANT_QUICK).
"""
import sys, random, statistics
lib = sys.argv[1]
COUNTS = {"c": 3, "mw": 6} if "mxfp4" in sys.argv else {"f": 6, "w": 6}
TILINGS = [kind + str(i) for kind, count in COUNTS.items() for i in range(count)]
sys.argv = ["x", lib]
import torch
import check_bench as cb
NK = [(4096, 4096), (8192, 8192), (28672, 8192), (8192, 28672), (14336, 4096), (4096, 14336), (1024, 8192), (2048, 2048), (11008, 4096)]
MS = [1, 2, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096]
for n, k in NK:
    w = [cb.Weights(n, k, cb.format_of(TILINGS[0])) for _ in range(4)]
    b = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    for m in MS:
        if m * n * k > 4096 * 8192 * 8192: continue
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        tilings = [t for t in TILINGS if cb.fits(t, n) and m <= cb.most(t)]
        if m > 256: tilings = [t for t in tilings if t[-2:] not in ("w5", "w0")]
        count = 40 if m <= 256 else 8
        graphs = {"bf16": cb.graph_of([lambda x=x: torch.nn.functional.linear(a, x) for x in b], count)}
        for t in tilings: graphs[t] = cb.graph_of([lambda x=x: cb.gemm(x, t, a, d) for x in w], count)
        times = {g: [] for g in graphs}
        for g in graphs.values(): g.replay()
        for _ in range(7):
            order = list(graphs); random.shuffle(order)
            for g in order: times[g].append(cb.once(graphs[g], count))
        med = {g: statistics.median(v) for g, v in times.items()}
        best = min(tilings, key=lambda t: med[t])
        print(f"{m}x{n}x{k} bf16 {med['bf16']:.2f} best {best} {med['bf16']/med[best]:.3f} | " + " ".join(f"{t}={med[t]:.2f}" for t in tilings), flush=True)
    del w, b
    torch.cuda.empty_cache()
