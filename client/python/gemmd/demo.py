"""python -m gemmd.demo [ADDRESS]: a product, its receipt, weights that stay, and many rows under way.

The server is ADDRESS, else GEMMD_SERVER's, else 127.0.0.1:50051. Ends with 0 where every result is NumPy's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import numpy as np

import gemmd
import gemmd.aio


def main(arguments: list[str] | None = None) -> int:
    """Runs it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gemmd.demo", description="Shows what gemmd does.")
    parser.add_argument("address", nargs="?", help="the server's address")
    parser.add_argument("--side", type=int, default=512, help="of the matrices")
    options = parser.parse_args(arguments)
    try:
        return 0 if _show(options.address, options.side) else 1
    except gemmd.Error as error:
        print(f"gemmd.demo: {error.code}: {error}", file=sys.stderr)
        return 1


def _show(address: str | None, side: int) -> bool:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((side, side)).astype(np.float32) for _ in range(2))
    fits = True

    def check(what: str, d: np.ndarray, wanted: np.ndarray) -> None:
        nonlocal fits
        error = float(np.abs(d - wanted).max())
        good = error <= 1e-4 * side
        fits = fits and good
        print(f"{what}: {'as NumPy has it' if good else 'WRONG'} (differs by at most {error:.2g})\n")

    with gemmd.Client(address) as client:
        info = client.info()
        devices = ", ".join(f"{each.name} ({each.model})" for each in info.devices)
        print(f"gemmd {info.version} at {client.address}: {devices}\n")
        print(f">>> d = client.matmul(a, b)    # {side} x {side} float32")
        d = client.matmul(a, b)
        print(d.receipt)
        check("a @ b", d, a @ b)
        print(">>> w = client.put(b); client.matmul(a, w, activation='relu')")
        with client.put(b) as w:
            d = client.matmul(a, w, activation="relu")
            print(f"payload in: {d.receipt.payload_bytes_in} bytes, of a alone")
            check("relu(a @ w)", d, np.maximum(a @ b, 0))
            print(">>> await asyncio.gather(*(client.matmul(x, w) for x in a))")
            check("rows, all under way at once", asyncio.run(_rows(client.address, a, w)), a @ b)
        print(">>> client.estimate(a, b)")
        print(client.estimate(a, b))
    return fits


async def _rows(address: str, a: np.ndarray, w: gemmd.Resident) -> np.ndarray:
    async with gemmd.aio.Client(address) as client:
        return np.stack(await asyncio.gather(*(client.matmul(x, w) for x in a)))


if __name__ == "__main__":
    sys.exit(main())
