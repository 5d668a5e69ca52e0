#!/usr/bin/env python3
"""Counts what tests gemmd, and writes the table of docs/testing.md between its two marks.

  deploy/docs/testing_counts.py            writes it
  deploy/docs/testing_counts.py --check    exits with 1 where it is off by more than a tenth,
                                           so that not every new test has to touch the page
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/testing.md"
MARKS = "<!-- counts: deploy/docs/testing_counts.py -->", "<!-- end of counts -->"


def matches(pattern, *globs):
    """How often the pattern occurs in the files of the tree that the globs name."""
    return sum(len(re.findall(pattern, path.read_text(), re.M)) for glob in globs for path in ROOT.glob(glob))


def recorded_sets():
    recorded = ROOT / "tests/kernels/conformance/recorded_sm90.txt"
    return len({line.split()[0] for line in recorded.read_text().splitlines()
                if line.strip() and not line.startswith("#")})


def counts():
    yield ("Test cases in C++", matches(r"^(?:TYPED_)?TEST(?:_[FP])?\(", "tests/**/*.cc"),
           "`bazel test //tests/...`")
    yield ("Test functions in Python",
           matches(r"^ *(?:async )?def test_", "tests/python/*.py", "tests/reports/test_*.py"),
           "`deploy/check/python.sh`")
    yield ("Programs of `tests/e2e`, which run real processes",
           len(list(ROOT.glob("tests/e2e/*_test.cc")) + list(ROOT.glob("tests/e2e/*_test.py"))),
           "`bazel test //tests/e2e/...`")
    yield ("Programs of `tests/abuse`, which attack a server", len(list(ROOT.glob("tests/abuse/*_test.cc"))),
           "`bazel test //tests/abuse/...`")
    yield ("Programs of `tests/reports`, which try what others' users reported",
           len(list(ROOT.glob("tests/reports/*_test.py"))), "`bazel test //tests/reports/...`")
    yield ("Fuzzers", len(list(ROOT.glob("tests/fuzz/*_fuzz.cc"))), "`deploy/check/fuzz.sh`")
    yield ("Faults planted in server, client and codec",
           sum(len([paragraph for paragraph in re.split(r"\n\s*\n", path.read_text().strip())
                    if not all(line.startswith("#") for line in paragraph.splitlines())])
               for path in ROOT.glob("tests/planted/*.txt")),
           "`deploy/check/server_faults.py`")
    yield ("Faults planted in kernels", matches(r"^ +\"\w+\": fault\(", "tests/kernels/**/BUILD.bazel"),
           "`bazel test //tests/kernels/...`")
    yield ("Kernel families whose every wait, fence and barrier is deleted in turn",
           matches(r"^deletion_test\(", "tests/kernels/**/BUILD.bazel"), "`bazel test //tests/kernels/...`")
    yield ("Sets of instructions recorded on an H200, replayed bit for bit", recorded_sets(),
           "`bazel test //tests/kernels/conformance:replay_test`")


def table():
    rows = [f"| {what} | {count:,} | {command} |" for what, count, command in counts()]
    return "\n".join([MARKS[0], "", "| | count | run by |", "|---|---|---|", *rows, "", MARKS[1]])


def is_near(text):
    """Whether the page's table says the same of the same things, within a tenth."""
    shown = dict(re.findall(r"^\| (.+?) \| ([\d,]+) \|", text, re.M))
    return all(what in shown and abs(int(shown[what].replace(",", "")) - count) <= count / 10
               for what, count, _ in counts())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = PAGE.read_text()
    before, _, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not end:
        sys.exit(f"{PAGE} lacks a mark of {MARKS}")
    if not options.check:
        PAGE.write_text(before + table() + after)
    elif not is_near(text):
        sys.exit("docs/testing.md has other counts than the tree: run deploy/docs/testing_counts.py")


if __name__ == "__main__":
    main()
