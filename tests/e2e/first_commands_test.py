#!/usr/bin/python3
"""A new user's first commands, right and wrong, on a new server: what they print is first_commands.txt.

Each line of that file after "$ " is run by a shell in a folder with a few small matrices, and what
it prints, with "[N]" where it exits with N, must follow. Times, rates, addresses and names that
the server makes are masked. After a change that is meant:

    bazel run //tests/e2e:first_commands_test -- --write
"""
import difflib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path.cwd()
GOLDEN = ROOT / "tests/e2e/first_commands.txt"

MASKS = [
    (r"127\.0\.0\.1:\d{4,5}(?= ?[:,]|$)", "SERVER"),
    (r"\b[0-9a-f]{64}\b", "DIGEST"),
    (r"\b[0-9a-f]{8}-\d+\b", "HANDLE"),
    (r"gemm(d?) \d+\.\d+\.\d+\S*", r"gemm\1 VERSION"),
    # Measured numbers have a fraction, an exponent or a unit of time.
    (r"(?<![\d.])-?\d+(\.\d+)?e[-+]\d+", "#"),
    (r"(?<![\d.])-?\d+\.\d+(?![\d.])", "#"),
    (r"(?<![\d.])\d+(?= ?(us|ms|ns)\b)", "#"),
    (r"\b(\d+h)?\d+m\d+s\b|(?<=uptime)  +\d+s", " #"),
]


def write_matrices(folder):
    random = numpy.random.default_rng(7)
    for name, shape in (("A", (48, 32)), ("B", (32, 40)), ("one", (1, 1)),
                        ("large", (700, 700))):
        numpy.save(folder / f"{name}.npy", random.standard_normal(shape).astype("f4"))
    numpy.save(folder / "B64.npy", random.standard_normal((32, 40)))
    numpy.save(folder / "vector.npy", numpy.ones(32, "f4"))
    (folder / "notes.txt").write_text("not a matrix\n")


def start(folder):
    log = folder / "gemmd.log"
    with log.open("w") as stderr:
        server = subprocess.Popen(
            [ROOT / "server/gemmd", "--listen=127.0.0.1:0", "--device=cpu", "--cpu.threads=1"],
            cwd=folder, stderr=stderr)
    while True:
        is_over = server.poll() is not None
        serving = re.search(r'"event":"serving".*"address":"([^"]*)"', log.read_text())
        if serving:
            return server, serving.group(1)
        assert not is_over, log.read_text()
        time.sleep(0.01)


def masked(text):
    lines = []
    for line in text.splitlines():
        for pattern, mask in MASKS:
            line = re.sub(pattern, mask, line)
        # Columns are as wide as what they hold.
        lines.append(re.sub(r" {2,}", "  ", line).rstrip() + "\n")
    return "".join(lines)


def transcript(commands):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_matrices(folder)
        server, address = start(folder)
        environment = {"PATH": f"{ROOT}/client/cli:{ROOT}/server:/usr/bin:/bin", "GEMMD_SERVER": address,
                       "HOME": name}
        printed = []
        for command in commands:
            result = subprocess.run(["/bin/bash", "-c", command], cwd=folder, env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                                    text=True, errors="replace")
            printed.append(f"$ {command}\n{masked(result.stdout)}")
            if result.returncode != 0:
                printed.append(f"[{result.returncode}]\n")
            printed.append("\n")
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0, (folder / "gemmd.log").read_text()
    return "".join(printed)


def main():
    golden = GOLDEN.read_text()
    now = transcript(re.findall(r"^\$ (.*)$", golden, re.M))
    if sys.argv[1:] == ["--write"]:
        tree = os.environ.get("BUILD_WORKSPACE_DIRECTORY", ROOT)
        (pathlib.Path(tree) / "tests/e2e/first_commands.txt").write_text(now)
        return 0
    difference = list(difflib.unified_diff(golden.splitlines(True), now.splitlines(True),
                                           "first_commands.txt", "printed now"))
    sys.stdout.writelines(difference)
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
