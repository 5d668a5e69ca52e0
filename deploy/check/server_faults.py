#!/usr/bin/env python3
"""Plants faults into a copy of the tree, and runs the tests that must notice them.

  deploy/check/server_faults.py                  every fault of tests/planted/
  deploy/check/server_faults.py --random 5       so many of them
  deploy/check/server_faults.py --only REGEX     those whose name or file matches
  deploy/check/server_faults.py --compile        whether each compiles, and no test

Each fault is run against the tests of its nearest package alone. All are compiled in at once, so
that they cost one build. Exits with 1 where a fault is missed that is not accepted; fault_list.py
says what a list looks like.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import fault_list

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A fault may make a test wait for ever. Times the test took without one.
PATIENCE = 10
LEAST_S = 20


def say(text):
    print(text, flush=True)


def copy_tree(to):
    """What git tracks, or would; what is the same there is left alone, and so is not built anew."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    files = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    for name in files:
        source, copy = ROOT / name, to / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copy(source, copy)


class Bazel:
    def __init__(self, tree, faults):
        self.tree = tree
        cache = subprocess.run([ROOT / "deploy/bazel_cache.sh"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.split()
        # A kernel's header would have all device code compiled anew, which no test here runs.
        device_code = ["--config=cpu"] if any(fault.file.startswith("kernels/") for fault in faults) else []
        self.options = ["--config=opt", *device_code, *cache]

    def run(self, *arguments):
        done = subprocess.run(["bazel", *arguments], cwd=self.tree, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise SystemExit(f"bazel {arguments[0]} fails with the faults planted:\n{done.stderr}")
        return done.stdout

    def tests_of(self, fault):
        if fault.test:
            return [fault.test.replace(":", "/")]
        package = fault_list.package_of(self.tree, fault.file)
        listed = self.run("query", f"kind(cc_test, //{package}:all)").split()
        return [target.removeprefix("//").replace(":", "/") for target in listed]

    def build(self, tests):
        targets = ["//" + ":".join(test.rsplit("/", 1)) for test in tests]
        # All that does not compile is named at once.
        self.run("build", *self.options, "--keep_going", "--show_progress_rate_limit=60", *targets)
        self.bin = pathlib.Path(self.run("info", *self.options, "bazel-bin").strip())

    def compile(self, files):
        """Compiles, for each of the files, one target that has it, and links nothing."""
        self.run("build", *self.options, "--keep_going", "--show_progress_rate_limit=60",
                 "--compile_one_dependency", "--output_groups=compilation_outputs", *files)

    def clean_up(self):
        subprocess.run(["bazel", "clean", "--expunge"], cwd=self.tree, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_test(binary, number, limit_s):
    """What of the test failed with that fault; empty if nothing. And the seconds that it took."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        environment = dict(os.environ, GEMMD_PLANTED=str(number), GTEST_FAIL_FAST="1",
                           TEST_TMPDIR=scratch, TEST_SRCDIR=f"{binary}.runfiles",
                           TEST_WORKSPACE="gemmd")
        try:
            done = subprocess.run([binary], cwd=f"{binary}.runfiles/gemmd", env=environment,
                                  timeout=limit_s, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return f"{binary.name}: no end", limit_s
    seconds = time.monotonic() - start
    if done.returncode == 0:
        return "", seconds
    output = done.stdout.decode(errors="replace")
    failed = re.search(r"\[  FAILED  \] (\S+)", output)
    # One that ends the process is the last that ran.
    ran = re.findall(r"\[ RUN      \] (\S+)", output)
    which = failed.group(1) if failed else ran[-1] if ran else f"exit code {done.returncode}"
    return f"{binary.name}: {which}".rstrip(","), seconds


def check(fault, tests, seconds):
    """By what the fault is noticed; empty if by nothing."""
    for test in sorted(tests, key=seconds.get):
        noticed, _ = run_test(test, fault.number, max(LEAST_S, PATIENCE * seconds[test]))
        if noticed:
            return noticed
    return ""


def chosen(faults, options):
    if options.only:
        faults = [fault for fault in faults
                  if re.search(options.only, fault.name) or re.search(options.only, fault.file)]
    if options.random:
        faults = random.sample(faults, min(options.random, len(faults)))
    if not faults:
        raise SystemExit("no fault is to be planted")
    return faults


def place_of(fault):
    return fault.file, fault.test


def run(tree, faults, only_compile):
    fault_list.plant(tree, faults)
    bazel = Bazel(tree, faults)
    if only_compile:
        bazel.compile(sorted({fault.file for fault in faults}))
        say(f"{len(faults)} faults compile")
        return 0
    # Faults are keyed by what tells them apart: their files, and the tests that are named.
    tests = {}
    for fault in faults:
        if place_of(fault) not in tests:
            tests[place_of(fault)] = bazel.tests_of(fault)
    start = time.monotonic()
    bazel.build(sorted(set(sum(tests.values(), []))))
    say(f"built with {len(faults)} faults in {time.monotonic() - start:.0f} s")
    seconds = {}
    for place, names in tests.items():
        tests[place] = [bazel.bin / name for name in names]
        for binary in tests[place]:
            if binary in seconds:
                continue
            failed, seconds[binary] = run_test(binary, 0, 600)
            if failed:
                raise SystemExit(f"{failed} fails with no fault on")
    # One test a core, but for one that others may have.
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:
        results = pool.map(lambda fault: check(fault, tests[place_of(fault)], seconds), faults)
        return report(faults, results)


def report(faults, results):
    noticed = missed = accepted = 0
    for fault, result in zip(faults, results):
        if result:
            noticed += 1
            verdict = f"noticed by {result}"
            if fault.accepted:
                verdict += " (and is accepted as missed: take that away)"
        elif fault.accepted:
            accepted += 1
            verdict = f"missed, accepted: {fault.accepted}"
        else:
            missed += 1
            verdict = "MISSED"
        say(f"{fault.file + ': ' + fault.name:100} {verdict}")
    say(f"{len(faults)} faults: {noticed} noticed, {accepted} accepted, {missed} missed")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, metavar="N")
    parser.add_argument("--only", metavar="REGEX")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--copy", metavar="FOLDER", help="where the copy is made, and stays")
    options = parser.parse_args()
    faults = chosen(fault_list.read(ROOT / "tests/planted"), options)
    tree = pathlib.Path(options.copy or tempfile.mkdtemp(prefix="gemmd-planted-")).resolve()
    copy_tree(tree)
    try:
        missed = run(tree, faults, options.compile)
    finally:
        if not options.copy:
            Bazel(tree, faults).clean_up()
            shutil.rmtree(tree)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
