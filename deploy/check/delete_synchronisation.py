#!/usr/bin/env python3
"""Deletes each wait, fence, barrier and commit of every kernel in turn and runs its check.

Every deletion must make the check fail, or be listed with the reason why the kernel is right
without it. Run from the workspace root:

    deploy/check/delete_synchronisation.py [--jobs N]

A family of kernels registers itself: a file tests/kernels/*/deletion_check.cc is a small
program that exits with 1 where the emulator or a wrong bit caught something, and its first
comment says what it covers:

    // Deletes from: kernels/sm80/ladder_a.h
    // Redundant in kernels/sm80/ladder_a.h: ptx::SyncThreads(); # 2: why the second is

("# 2" counts the same statement from the top of that source, from 1.) A source under kernels/
that synchronises and that no check names is a failure. Needs g++, Abseil and Boost.Context,
as the build does.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile

SYNCHRONISATION = re.compile(
    r"ptx::(CopyAsyncWait<[^;]*>|CopyAsyncCommit|SyncThreads|SyncWarp|NamedBarrier\w+|"
    r"Mbarrier(?:Wait|Arrive\w*)|Fence\w+|Cluster(?:Sync|Arrive|Wait)|Bulk\w+(?:<\d>)?|"
    r"Wgmma(?:Fence|Commit|Wait<\d>)|WaitForPrecedingGrid|WaitGlobalAtLeast|"
    r"StoreGlobalRelease)\([^;]*\);")
DELETES = re.compile(r"^// Deletes from: (\S+)$", re.M)
REDUNDANT = re.compile(r"^// Redundant in (\S+): (.*;) # (\d+): (.+)$", re.M)

FLAGS = ["-std=c++17", "-O2", "-I."]
LIBRARIES = ["absl_statusor", "absl_status", "absl_strings"]
# They say what the instructions are, or measure the hardware's peaks, and compute nothing.
NO_KERNELS = ("kernels/ptx/", "kernels/emulator/", "kernels/bench/")


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def read(path):
    with open(path) as file:
        return file.read()


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


def deletions(source):
    """Each statement of a source, with its line, its count and the text without it."""
    text = read(source)
    seen = {}
    for match in SYNCHRONISATION.finditer(text):
        statement = " ".join(match.group().split())
        seen[statement] = seen.get(statement, 0) + 1
        yield {"source": source, "line": text.count("\n", 0, match.start()) + 1,
               "statement": statement, "count": seen[statement],
               "text": text[:match.start()] + text[match.end():]}


def check(folder, name, program, deletion, objects, libraries):
    """Compiles and runs a check on a changed copy: whether it passed, and its output."""
    include = []
    if deletion is not None:
        # Found before the source itself.
        copy = os.path.join(folder, name + ".d", deletion["source"])
        os.makedirs(os.path.dirname(copy))
        with open(copy, "w") as file:
            file.write(deletion["text"])
        include = ["-I" + os.path.join(folder, name + ".d")]
    binary = os.path.join(folder, name)
    built = run(["g++", *include, *FLAGS, program, *objects, "-o", binary, *libraries,
                 "-lboost_context"])
    if built.returncode != 0:
        return None, built.stdout
    result = run([binary])
    return result.returncode == 0, result.stdout.strip()


def verdict_of(deletion, passed, reasons):
    """What to print, and whether it is a failure."""
    if passed is None:
        return "does not compile", True
    if deletion is None:
        return ("passes", False) if passed else ("FAILS", True)
    reason = reasons.pop((deletion["source"], deletion["statement"], deletion["count"]), None)
    if not passed:
        return ("caught, but listed as redundant", True) if reason else ("caught", False)
    return (f"redundant: {reason}", False) if reason else ("NOT CAUGHT", True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    jobs = parser.parse_args().jobs
    libraries = subprocess.check_output(["pkg-config", "--libs", *LIBRARIES], text=True).split()
    failures = 0
    covered = set()
    cases = []
    reasons = {}
    for program in sorted(glob.glob("tests/kernels/*/deletion_check.cc")):
        text = read(program)
        cases.append((program, None))
        for source in DELETES.findall(text):
            covered.add(source)
            cases.extend((program, deletion) for deletion in deletions(source))
        for source, statement, count, reason in REDUNDANT.findall(text):
            reasons[(source, statement, int(count))] = reason
    for source in sorted(glob.glob("kernels/**/*.h", recursive=True)):
        if source.startswith(NO_KERNELS) or source in covered:
            continue
        if SYNCHRONISATION.search(read(source)):
            print(f"{source}: synchronises, and no deletion_check.cc names it")
            failures += 1
    with tempfile.TemporaryDirectory() as folder:
        objects = build_emulator(folder, jobs)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            results = pool.map(
                lambda case: check(folder, f"case_{case[0]}", *case[1], objects, libraries),
                enumerate(cases))
            for (program, deletion), (passed, output) in zip(cases, results):
                verdict, failed = verdict_of(deletion, passed, reasons)
                place = (program + ": as it is" if deletion is None else
                         "{source}:{line}: {statement}".format(**deletion))
                print(f"{place}: {verdict}: {output[:160] if passed is not None else output}")
                failures += failed
    for source, statement, count in reasons:
        print(f"{source}: listed as redundant, and not there: {statement} # {count}")
        failures += 1
    print(f"{failures} failures in {len(cases)} cases")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
