#!/usr/bin/env python3
"""A language model whose linear layers a gemmd server computes: the same text, and users who share launches.

    torch_model.py --server 127.0.0.1:50051 [--seconds 40] [--processes 12] [--users 4]

It trains a small transformer on Python's own sources, on a GPU where there is one; then gemmd.torch.replace()
puts every nn.Linear's weights on the server, in f32 and in bf16. It compares logits with torch's on the CPU, both
against float64, and lets many users write at once, in processes of some threads. Needs torch; ml_dtypes for bf16.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import pathlib
import statistics
import sysconfig
import tempfile
import threading
import time

import torch
from torch import nn
from torch.nn import functional

import gemmd
import gemmd.torch

CONTEXT = 128


class Block(nn.Module):
    """Attention and a perceptron, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Writer(nn.Module):
    """Predicts the next byte."""

    def __init__(self, width: int = 512, depth: int = 4, heads: int = 8) -> None:
        super().__init__()
        self.byte, self.place = nn.Embedding(256, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Bytes (batch, length) to logits (batch, length, 256)."""
        x = self.byte(text) + self.place(torch.arange(text.shape[1], device=text.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def sources() -> torch.Tensor:
    """Python's own library as bytes."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    return torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))),
                            dtype=torch.uint8).long()  # fmt: skip


def train(text: torch.Tensor, seconds: float) -> tuple[Writer, float, int]:
    """A trained model on the CPU, its last loss in nats a byte, and its steps."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    model = Writer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text, losses, give_up = text.to(device), [], time.monotonic() + seconds
    while time.monotonic() < give_up:
        starts = torch.randint(len(text) - CONTEXT - 1, (64, 1), device=device)
        window = text[starts + torch.arange(CONTEXT + 1, device=device)]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.cpu().eval(), statistics.mean(losses[-20:]), len(losses)


def relative(got: torch.Tensor, exact: torch.Tensor) -> float:
    """||got - exact|| / ||exact||."""
    return float((got.double() - exact).norm() / exact.norm())


@torch.no_grad()
def compare(model: Writer, text: torch.Tensor, client: gemmd.Client, dtype: torch.dtype) -> Writer:
    """Prints how far torch's and gemmd's logits are from float64's; the model with layers on the server."""
    windows = text[torch.arange(16)[:, None] * 5000 + torch.arange(CONTEXT)]
    exact = copy.deepcopy(model).double()(windows)
    here = copy.deepcopy(model).to(dtype)
    there = copy.deepcopy(here)
    names = gemmd.torch.replace(there, client)
    ours, theirs = there(windows), here(windows)
    same = (ours.argmax(-1) == theirs.argmax(-1)).double().mean()
    print(f"{dtype!s:<15} {len(names)} layers on the server; error of the logits against float64: "
          f"gemmd {relative(ours, exact):.2e}, torch on the CPU {relative(theirs, exact):.2e}; "
          f"the same next byte in {same:.4f} of {windows.numel()}", flush=True)  # fmt: skip
    return there


@torch.no_grad()
def write(model: Writer, prompt: torch.Tensor, count: int) -> torch.Tensor:
    """The prompt and the likeliest next bytes, one after another."""
    for _ in range(count):
        prompt = torch.cat([prompt, model(prompt[None, -CONTEXT:])[0, -1].argmax()[None]])
    return prompt


def prompt_of(text: torch.Tensor, user: int) -> torch.Tensor:
    """Where a user begins."""
    return text[7000 * user : 7000 * user + 64]


def some_users(
    server: str, weights: str, users: range, each: int, start: multiprocessing.Barrier, told: multiprocessing.Queue
) -> None:
    """A process of users, each a thread: tells their texts and how long they took."""
    torch.set_num_threads(1)
    model, text = Writer().eval(), sources()
    model.load_state_dict(torch.load(weights))
    wrote: dict[int, torch.Tensor] = {}

    def write_one(user: int) -> None:
        wrote[user] = write(model, prompt_of(text, user), each)

    with gemmd.Client(server) as client:
        gemmd.torch.replace(model, client)
        write(model, prompt_of(text, 0), 2)
        start.wait()
        begun = time.perf_counter()
        threads = [threading.Thread(target=write_one, args=(user,)) for user in users]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - begun
    told.put((took, {user: bytes(found.tolist()) for user, found in wrote.items()}))


def all_users(options: argparse.Namespace, model: Writer, served: Writer, text: torch.Tensor) -> None:
    """Processes of users write at once; what each wrote is what it writes alone."""
    context = multiprocessing.get_context("spawn")
    start, told = context.Barrier(options.processes + 1), context.Queue()
    with tempfile.TemporaryDirectory() as folder, gemmd.Client(options.server) as client:
        weights = str(pathlib.Path(folder) / "weights")
        torch.save(model.state_dict(), weights)
        processes = [
            context.Process(
                target=some_users,
                args=(options.server, weights, range(i * options.users, (i + 1) * options.users), options.bytes,
                      start, told),
            )
            for i in range(options.processes)
        ]  # fmt: skip
        for process in processes:
            process.start()
        start.wait()
        before = client.stats()
        found = [told.get(timeout=600) for _ in processes]
        after = client.stats()
        for process in processes:
            process.join()
    texts = {user: wrote for _, some in found for user, wrote in some.items()}
    count = options.processes * options.users
    alone = {user: bytes(write(served, prompt_of(text, user), options.bytes).tolist()) for user in (0, count - 1)}
    print(f"{count} users in {options.processes} processes, {options.bytes} bytes each: "
          f"{count * options.bytes / max(took for took, _ in found):.0f} bytes/s; the same texts alone and among "
          f"all: {all(texts[user] == wrote for user, wrote in alone.items())}")  # fmt: skip
    print(f"the server's launches: {launches(after, before)}")
    print("it wrote: " + repr(texts[0].decode(errors="replace")))


def launches(after: gemmd.admin.Statistics, before: gemmd.admin.Statistics) -> str:
    """What the server launched between the two, by form."""
    told = []
    for now, old in zip(after.queues, before.queues, strict=True):
        for form in ("alone", "rows", "group", "slices"):
            new, was = getattr(now, form), getattr(old, form)
            if new.launches > was.launches:
                told.append(f"{form} {new.launches - was.launches} for {new.requests - was.requests} requests")
    return ", ".join(told)


def main() -> None:
    """Trains, compares, serves, prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--users", type=int, default=4, help="of each process")
    parser.add_argument("--bytes", type=int, default=48)
    options = parser.parse_args()
    torch.set_num_threads(4)
    text = sources()
    model, loss, steps = train(text, options.seconds)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters, {steps} steps, "
          f"{loss:.3f} nats a byte on {len(text) / 1e6:.1f} MB")  # fmt: skip
    with gemmd.Client(options.server) as client:
        compare(model, text, client, torch.bfloat16)
        served = compare(model, text, client, torch.float32)
        all_users(options, model, served, text)


if __name__ == "__main__":
    main()
