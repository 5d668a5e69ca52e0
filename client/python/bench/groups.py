#!/usr/bin/env python3
"""Experts that stay on a GPU's server, by groups of rows: beside torch, on the same GPU in turns.

    groups.py ADDRESS [--experts 8,64] [--tokens 64,512] [--k 4096] [--n 14336]

Weights are bf16, experts x N x K, and int4 in groups of 128. Rivals: torch._grouped_mm, and a loop of torch.mm over
the experts in a CUDA graph, whose bf16 results are compared. gemmd's times are of its device, from the first
kernel's begin to the last one's end. Tokens and results stay there, as torch's do; "copied" is of bf16 whose tokens
and results travel, with the copies that come between. Medians, in us.
Needs torch with CUDA and ml_dtypes. Nothing here passes or fails: machines differ.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch

import gemmd

_RUNS = 12


def device_us(client: gemmd.Client, x: Any, experts: Any, ends: Any, keep: bool) -> float:
    """The median time of the server's device."""
    took = []
    for _ in range(_RUNS):
        d = client.grouped_matmul(x, experts, ends, keep=keep)
        compute = next(stage for stage in d.receipt.stages if stage.name == "compute")
        took.append(compute.end_us - compute.start_us)
        if keep:
            d.release()
    return statistics.median(took[2:])


def torch_us(run: Callable[[], Any]) -> float:
    """The median time of torch's device."""
    for _ in range(3):
        run()
    took = []
    for _ in range(_RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        took.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(took)


def graph_of(work: Callable[[], Any]) -> Callable[[], Any]:
    """The work's launches without its caller."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def ends_of(random: np.random.Generator, tokens: int, experts: int, is_skewed: bool) -> Any:
    """Where the experts' tokens end: as many for each, or by Zipf's law."""
    weights = 1 / np.arange(1, experts + 1) if is_skewed else np.ones(experts)
    sizes = (
        random.multinomial(tokens, weights / weights.sum()) if is_skewed else np.full(experts, tokens // experts)
    )
    sizes[-1] += tokens - sizes.sum()
    return np.cumsum(sizes)


def row(client: gemmd.Client, options: argparse.Namespace, w: Any, stacks: dict[str, Any], ends: Any) -> str:
    """One line of the table."""
    tokens = int(ends[-1])
    x = torch.randn(tokens, options.k, device="cuda", dtype=torch.bfloat16)
    sent = x.cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    d = torch.empty(tokens, options.n, device="cuda", dtype=torch.bfloat16)
    groups = [(int(a), int(b), i) for i, (a, b) in enumerate(zip((0, *ends), ends, strict=False)) if a < b]

    def loop() -> None:
        for begin, end, i in groups:
            torch.mm(x[begin:end], w[i], out=d[begin:end])

    offsets = torch.tensor(ends, device="cuda", dtype=torch.int32)
    times = {
        "loop": torch_us(graph_of(loop)),
        "grouped": torch_us(lambda: torch._grouped_mm(x, w, offs=offsets)),
        "copied": device_us(client, sent, stacks["bf16"], ends, False),
    }
    with client.put(sent) as there:
        times |= {name: device_us(client, there, stack, ends, True) for name, stack in stacks.items()}
    ours = np.asarray(client.grouped_matmul(sent, stacks["bf16"], ends)).astype("f4")
    error = np.linalg.norm(ours - d.float().cpu().numpy()) / np.linalg.norm(ours)
    if not error < 1e-2:
        raise AssertionError(f"gemmd's result is {error} off torch's")
    ratios = times["grouped"] / times["bf16"], times["loop"] / times["bf16"], times["bf16"] / times["int4"]
    names = "bf16", "grouped", "loop", "int4", "copied"
    cells = [*(f"{times[name]:.0f}" for name in names), *(f"{r:.2f}" for r in ratios)]
    return " | ".join(cells)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--experts", default="8,64")
    parser.add_argument("--tokens", default="64,512")
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--n", type=int, default=14336)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    print(torch.cuda.get_device_name(), torch.__version__)
    names = "bf16", "_grouped_mm", "loop", "int4", "copied", "_grouped_mm / bf16", "loop / bf16", "bf16 / int4"
    print(f"| experts | tokens | | {' | '.join(names)} |")
    with gemmd.Client(options.address) as client:
        for count in map(int, options.experts.split(",")):
            w = torch.randn(count, options.n, options.k, device="cuda", dtype=torch.bfloat16)
            lines = count * options.n
            codes = random.integers(0, 256, lines * options.k // 2, dtype=np.uint8)
            scales = random.uniform(0.01, 0.02, (lines, options.k // 128)).astype("f2")
            int4 = gemmd.Quantized(codes, scales, "int4", block_k=128, block_lines=1, shape=(lines, options.k))
            bf16 = w.cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16).reshape(lines, options.k)
            with client.put(bf16) as of_bf16, client.put(int4) as of_int4:
                stacks = {"bf16": of_bf16.stack(count).mT, "int4": of_int4.stack(count).mT}
                for tokens in map(int, options.tokens.split(",")):
                    for is_skewed in (False, True):
                        ends = ends_of(random, tokens, count, is_skewed)
                        cells = row(client, options, w.transpose(1, 2), stacks, ends)
                        print(f"| {count} | {tokens} | {'skewed' if is_skewed else 'even'} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
