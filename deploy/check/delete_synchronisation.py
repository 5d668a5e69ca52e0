#!/usr/bin/env python3
"""Deletes each wait, fence, barrier and commit of a kernel in turn and runs its check.

Every deletion must make the check fail, or be listed in REDUNDANT below with the reason
why the kernel is right without it. Run from the workspace root:

    deploy/check/delete_synchronisation.py [--jobs N]

A check is a small program (tests/kernels/*/deletion_check.cc) compiled against the
changed copy of the header; it exits with 1 where the emulator or a wrong bit caught the
deletion. Needs g++, Abseil and Boost.Context, as the build does.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile

# (kernel source, check program, steps whose main loop each deletion may concern)
KERNELS = [
    ("kernels/landing/transpose_kernel.h", "tests/kernels/landing/deletion_check.cc"),
    ("kernels/sm80/ladder_a.h", "tests/kernels/sm80/deletion_check.cc"),
]

SYNCHRONISATION = re.compile(
    r"ptx::(CopyAsyncWait<[^;]*>|CopyAsyncCommit|SyncThreads|SyncWarp|NamedBarrier\w+|"
    r"Mbarrier(?:Wait|Arrive\w*)|Fence\w+|Cluster(?:Sync|Arrive|Wait)|Bulk\w+(?:<\d>)?|"
    r"Wgmma(?:Fence|Commit|Wait<\d>))\([^;]*\);")

# What a deletion leaves correct: (source, text of the line, how many such lines): reason.
REDUNDANT = {}

FLAGS = ["-std=c++17", "-O2", "-I."]
LIBRARIES = ["absl_statusor", "absl_status", "absl_strings"]


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def build_emulator(folder, jobs):
    sources = glob.glob("kernels/emulator/*.cc") + ["tests/kernels/emulator/half_matrix.cc"]
    objects = [os.path.join(folder, os.path.basename(s)[:-3] + ".o") for s in sources]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(
                lambda pair: run(["g++", *FLAGS, "-c", pair[0], "-o", pair[1]]),
                zip(sources, objects)):
            if result.returncode != 0:
                raise SystemExit(result.stdout)
    return objects


def check(folder, name, text, program, objects, libraries):
    """Compiles and runs the check on a kernel's text: whether it passed, and its output."""
    header = os.path.join(folder, name + ".h")
    binary = os.path.join(folder, name)
    with open(header, "w") as file:
        file.write(text)
    built = run(["g++", *FLAGS, f'-DKERNEL_HEADER="{header}"', program, *objects, "-o", binary,
                 *libraries, "-lboost_context"])
    if built.returncode != 0:
        return None, built.stdout
    result = run([binary])
    return result.returncode == 0, result.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    jobs = parser.parse_args().jobs
    libraries = subprocess.check_output(["pkg-config", "--libs", *LIBRARIES], text=True).split()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        objects = build_emulator(folder, jobs)
        for source, program in KERNELS:
            with open(source) as file:
                text = file.read()
            cases = [("as_it_is", None, text)]
            for i, match in enumerate(SYNCHRONISATION.finditer(text)):
                line = text.count("\n", 0, match.start()) + 1
                shorter = text[:match.start()] + text[match.end():]
                cases.append((f"deletion_{i}", (line, match.group()), shorter))
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                results = pool.map(
                    lambda case: check(folder, case[0], case[2], program, objects, libraries), cases)
                for (_, deletion, _), (passed, output) in zip(cases, results):
                    if deletion is None:
                        verdict, failed = ("passes", False) if passed else ("FAILS", True)
                        print(f"{source}: as it is: {verdict}\n{'' if passed else output}", end="")
                        failures += failed
                        continue
                    line, statement = deletion
                    reason = REDUNDANT.get((source, statement))
                    failed = passed is None or (passed and reason is None)
                    verdict = ("does not compile" if passed is None else
                               f"redundant: {reason}" if passed and reason else
                               "NOT CAUGHT" if passed else "caught")
                    print(f"{source}:{line}: {statement}: {verdict}: {output[:160]}")
                    failures += failed
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
