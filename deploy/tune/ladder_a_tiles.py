#!/usr/bin/env python3
"""The search for ladder A's tile shape: builds kernel_bench once for every shape, runs them all.

  ladder_a_tiles.py list                  the shapes that the limits below leave
  ladder_a_tiles.py build FOLDER [SHAPE...]   a program for each; needs Bazel and nvcc, no GPU
  ladder_a_tiles.py run FOLDER [FLAG...]  on a machine with a GPU: a table, the quickest first

FLAGs are kernel_bench's; by default the last step, f16 with f32 sums, 8192 cubed. Every shape's result
is checked before it is timed. BAZEL_FLAGS has more arguments for Bazel. A shape is values of
kernels/workshop/ampere_mma/ladder_a_steps.h, which the build changes in a copy of the tree; sm80/a06 keeps its own.
"""
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TILE_K = 64
SHARED_BYTES = 227 * 1024  # of a multiprocessor, for dynamic use
REGISTERS = 65536
DEFAULT_FLAGS = ["--kernels=sm80/a05", "--types=f16", "--shapes=8192x8192x8192", "--rounds=3"]


@dataclasses.dataclass(frozen=True)
class Tile:
    """A block's tile, its grid of warps, blocks a multiprocessor, stages."""
    m: int
    n: int
    warps_m: int
    warps_n: int
    blocks: int
    stages: int

    @property
    def name(self):
        return f"{self.m}x{self.n}_{self.warps_m}x{self.warps_n}_{self.blocks}_s{self.stages}"

    @property
    def threads(self):
        return 32 * self.warps_m * self.warps_n

    def rejection(self):
        """Why the shape is not worth building, in a few words; empty if it is."""
        warp_m, warp_n = self.m // self.warps_m, self.n // self.warps_n
        if warp_m % 16 or warp_n % 16:
            return "warp tiles are multiples of 16x16"
        if not 128 <= self.threads <= 512:
            return "128 to 512 threads"
        shared = max(self.stages * (self.m + self.n) * TILE_K * 2, self.m * self.n * 2)
        if self.blocks * (shared + 1024) > SHARED_BYTES:
            return "shared memory"
        # Sums, two sets of fragments, and what addresses take.
        registers = warp_m * warp_n // 32 + 2 * (warp_m // 4 + warp_n // 4) + 48
        if registers > 255 or self.blocks * self.threads * registers > REGISTERS:
            return "registers"
        if warp_m * warp_n < 64 * 32:
            return "warp tiles below 64x32 read shared memory too often"
        # Copies: whole rows of A, of B and of the tile of D at once.
        for rows, chunks in ((self.m, TILE_K // 8), (TILE_K, self.n // 8), (self.m, self.n // 8)):
            if self.threads % chunks or rows % (self.threads // chunks):
                return "threads do not divide the copies"
        return ""


def tiles():
    shapes = itertools.product((128, 256), (128, 256), (1, 2, 4), (1, 2, 4), (1, 2), (2, 3, 4))
    return [tile for tile in (Tile(*shape) for shape in shapes) if not tile.rejection()]


def planted(text, constants):
    for name, value in constants.items():
        text, count = re.subn(rf"(constexpr int {name} = )\d+;", rf"\g<1>{value};", text, count=1)
        if count == 0:
            raise SystemExit(f"{name} is not where it was")
    return text


def build(folder, names):
    chosen = [tile for tile in tiles() if not names or tile.name in names]
    unknown = set(names) - {tile.name for tile in chosen}
    if unknown:
        raise SystemExit(f"not in the list: {', '.join(sorted(unknown))}")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as copy:
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.split("\0")
        for file in filter(None, files):
            target = pathlib.Path(copy, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, target)
        bazel = ["bazel", *shlex.split(os.environ.get("BAZEL_STARTUP_FLAGS", ""))]
        for tile in chosen:
            # The first step has the shape; from a03a on there are as many stages as it says.
            steps = planted((ROOT / "kernels/workshop/ampere_mma/ladder_a_steps.h").read_text(),
                            {"kTileM": tile.m, "kTileN": tile.n, "kWarpsM": tile.warps_m,
                             "kWarpsN": tile.warps_n, "kBlocksPerMultiprocessor": tile.blocks})
            pathlib.Path(copy, "kernels/workshop/ampere_mma/ladder_a_steps.h").write_text(
                re.sub(r"kStages = 3;", f"kStages = {tile.stages};", steps))
            subprocess.run([*bazel, "build", "--config=opt", "--config=h200",
                            *shlex.split(os.environ.get("BAZEL_FLAGS", "")),
                            "//kernels/workshop/bench:kernel_bench"], cwd=copy, check=True)
            subprocess.run(["strip", "-o", str(folder / tile.name),
                            str(pathlib.Path(copy, "bazel-bin/kernels/workshop/bench/kernel_bench"))],
                           check=True)
            print(f"built {folder / tile.name}", flush=True)


def run(folder, flags):
    rows = []
    for program in sorted(folder.iterdir()):
        report = pathlib.Path(tempfile.gettempdir(), program.name + ".json")
        code = subprocess.run([str(program), *(flags or DEFAULT_FLAGS), f"--json={report}"],
                              stdout=subprocess.DEVNULL, check=False).returncode
        if code not in (0, 1):
            raise SystemExit(f"{program.name}: exit code {code}")
        for case in json.loads(report.read_text())["cases"]:
            for row in case["rows"]:
                timing = row.get("timing", {})
                rows.append((timing.get("burst_tflops", 0), timing.get("sustained_tflops", 0),
                             timing.get("burst_ratio", 0), program.name,
                             f"{row['kernel']} {case['types']} {case['shape']}",
                             row.get("error", "")))
    print(f"{'burst':>7} {'sustained':>9} {'ratio':>6}  tile_warps_blocks_stages")
    for burst, sustained, ratio, name, what, error in sorted(rows, reverse=True):
        print(f"{burst:7.1f} {sustained:9.1f} {ratio:6.3f}  {name:22} {what} {error}")


def main():
    arguments = sys.argv[1:]
    if arguments == ["list"]:
        print("\n".join(tile.name for tile in tiles()))
    elif len(arguments) >= 2 and arguments[0] in ("build", "run"):
        {"build": build, "run": run}[arguments[0]](pathlib.Path(arguments[1]).resolve(),
                                                   arguments[2:])
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
