"""Times every tiling that takes a shape, beside torch's bf16 product, for fit.py.

    python3 sweep.py ./libquant.so [LETTERS] > sweep.txt

Those of int4, or of the format of those letters (tilings.py). W is shared by all M of an (N, K).
"""
import sys, random, statistics
lib = sys.argv[1]
letter = sys.argv[2] if len(sys.argv) > 2 else ""
sys.argv = ["x", lib]
import torch
import check_bench as cb
TILINGS = [f"{letter}f{i}" for i in range(len(cb.FEW[letter]))] + [f"{letter}w{i}" for i in range(len(cb.WIDE[letter]))]
NK = [(4096, 4096), (8192, 8192), (28672, 8192), (8192, 28672), (14336, 4096), (4096, 14336), (1024, 8192), (2048, 2048), (11008, 4096)]
MS = [1, 2, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096]
for n, k in NK:
    format = cb.format_of(TILINGS[0])
    w = [cb.Weights(n, k, format) for _ in range(cb.copies_of(cb.code_bytes(format, n, k)))]
    b = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(cb.copies_of(2 * n * k))]
    for m in MS:
        if m * n * k > 4096 * 8192 * 8192: continue
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        tilings = [t for t in TILINGS if cb.fits(t, n) and m <= cb.most(t)]
        if m > 256: tilings = [t for t in tilings if cb.most(t) > 256 and cb.WIDE[letter][cb.parts(t)[2]][1] > 64 and
                               cb.WIDE[letter][cb.parts(t)[2]][0] > 16]
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
