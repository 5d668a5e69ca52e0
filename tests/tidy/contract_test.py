#!/usr/bin/env python3
"""What others rely on does not vanish: the wire contract, the server's options, the flags of `gemm`.

contract.txt lists them, a line each. Whatever is listed must be there under the same number and of
the same type, or stand under "removed" with the version that went without it; a removed field's
number must be reserved. What is new must be listed: `tests/tidy/contract_test.py --write` adds it,
and takes nothing away. docs/compatibility.md says what may be removed and when.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "tests/tidy/contract.txt"
# In the test's runfiles, else where Bazel leaves it.
GEMM = next((path for path in [pathlib.Path("client/cli/gemm"), ROOT / "bazel-bin/client/cli/gemm"]
             if path.is_file() and os.access(path, os.X_OK)), None)

TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|[\w.]+|[^\s\w]')


def tokens(text):
    return [word for word in TOKEN.findall(text) if not word.startswith("//")]


def statements(words):
    """The statements of a block: (words before its end, the words of its braces or None)."""
    head, depth, body = [], 0, []
    for word in words:
        if word == "{":
            depth += 1
            if depth == 1:
                body = []
                continue
        if word == "}":
            depth -= 1
            if depth == 0:
                yield head, body
                head = []
                continue
        if depth > 0:
            body.append(word)
        elif word == ";":
            if head:
                yield head, None
            head = []
        else:
            head.append(word)


def field(words):
    """(number, name, type) of a field's words: `repeated A.B name = 3 [default = 1]`."""
    at = words.index("=")
    kind = words[:at - 1]
    if kind and kind[0] == "optional":
        kind = kind[1:]
    return int(words[at + 1]), words[at - 1], " ".join(kind).replace(" < ", "<").replace(" , ", ",").replace(" >", ">")


def reserved(words):
    """The numbers of `reserved 3, 5 to 7, "name"`."""
    numbers = set()
    for part in " ".join(words).split(","):
        if '"' not in part:
            first, _, last = part.strip().partition(" to ")
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def read_message(name, body, found, gone):
    found.append(f"message {name}")
    for head, inner in statements(body):
        if head[0] == "message":
            read_message(f"{name}.{head[1]}", inner, found, gone)
        elif head[0] == "enum":
            read_enum(f"{name}.{head[1]}", inner, found)
        elif head[0] == "oneof":
            for each, _ in statements(inner):
                number, label, kind = field(each)
                found.append(f"field {name} {number} {label} {kind} oneof {head[1]}")
        elif head[0] == "reserved":
            gone.setdefault(name, set()).update(reserved(head[1:]))
        elif head[0] != "option":
            number, label, kind = field(head)
            found.append(f"field {name} {number} {label} {kind}")


def read_enum(name, body, found):
    found.append(f"enum {name}")
    for head, _ in statements(body):
        if head[0] not in ("option", "reserved"):
            found.append(f"value {name} {head[2]} {head[0]}")


def read_proto(text):
    """What a .proto file declares, and the reserved numbers of each message."""
    found, gone, package = [], {}, ""
    for head, body in statements(tokens(text)):
        if head[0] == "package":
            package = head[1]
        elif head[0] == "message":
            read_message(f"{package}.{head[1]}", body, found, gone)
        elif head[0] == "enum":
            read_enum(f"{package}.{head[1]}", body, found)
        elif head[0] == "service":
            for each, _ in statements(body):
                found.append(f"method {package}.{head[1]} " + " ".join(each[1:]).replace("( ", "(").replace(" )", ")"))
    return found, gone


def wire():
    found, gone = [], {}
    for path in sorted([*(ROOT / "proto/gemmd/v1").glob("*.proto"), *(ROOT / "proto/inference").glob("*.proto")]):
        declared, numbers = read_proto(path.read_text())
        found += declared
        gone.update(numbers)
    return found, gone


def options():
    """The server's, by the names that files and flags have: limits.message_bytes."""
    found, _ = read_proto((ROOT / "server/options/config.proto").read_text())
    fields = [line.split()[1:5] for line in found if line.startswith("field gemmd.config.")]

    def below(message, prefix):
        for owner, _, name, kind in fields:
            if owner == message:
                inner = f"gemmd.config.{kind}"
                if any(each[0] == inner for each in fields):
                    yield from below(inner, f"{prefix}{name}.")
                else:
                    yield f"option {prefix}{name} {kind}"

    return list(below("gemmd.config.ServerConfig", ""))


def flags(*command):
    """The flags of a command of `gemm` and of those below it, as --help lists them."""
    text = subprocess.run([GEMM, *command, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    listed = text.partition("Examples:")[0]
    name = " ".join(["gemm", *command])
    yield f"command {name}"
    for names in re.findall(r"^ +((?:-\w,)?--[\w-]+(?:,--[\w-]+)*)", listed, re.M):
        for each in names.split(","):
            yield f"flag {name} {each}"
    for inner in re.findall(r"^  ([a-z]+)  ", listed.partition("ommands:")[2], re.M):
        yield from flags(*command, inner)


def recorded():
    """The lines of contract.txt: those that hold, and (version, line) of those that were removed."""
    lines = [line for line in CONTRACT.read_text().splitlines() if line and not line.startswith("#")]
    removed = [line.split(" ", 2)[1:] for line in lines if line.startswith("removed ")]
    return [line for line in lines if not line.startswith("removed ")], removed


def vanished(listed, there):
    return [line for line in listed if line not in set(there)]


def is_of_gemm(line):
    return line.startswith(("command ", "flag "))


HELP = ("others rely on it: docs/compatibility.md says how something is removed; then its line in "
        "tests/tidy/contract.txt begins with \"removed VERSION\"")
WRITE = "run tests/tidy/contract_test.py --write"


class Contract(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.listed, self.removed = recorded()

    def expect_same(self, listed, there):
        self.assertGreater(len(there), 40)
        self.assertEqual([], vanished(listed, there), HELP)
        self.assertEqual([], vanished(there, listed), f"this is new: {WRITE}")

    def test_the_wire_and_the_options(self):
        self.expect_same([line for line in self.listed if not is_of_gemm(line)], wire()[0] + options())

    def test_the_command_line(self):
        self.assertIsNotNone(GEMM, "bazel build --config=opt //client/cli:gemm")
        self.expect_same([line for line in self.listed if is_of_gemm(line)], list(flags()))

    def test_what_was_removed_is_not_there_and_its_number_is_reserved(self):
        _, gone = wire()
        for version, line in self.removed:
            self.assertRegex(version, r"^\d+\.\d+\.\d+$", line)
            self.assertNotIn(line, self.listed)
            words = line.split()
            if words[0] == "field" and f"message {words[1]}" in self.listed:
                self.assertIn(int(words[2]), gone.get(words[1], set()), f"{line}: its number must be reserved")

    def test_every_reserved_number_says_what_it_was(self):
        removed = {tuple(line.split()[1:3]) for _, line in self.removed if line.startswith("field ")}
        for message, numbers in wire()[1].items():
            for number in numbers:
                self.assertIn((message, str(number)), removed, "contract.txt must say what it was")


class Reader(unittest.TestCase):
    """What reads .proto files sees each kind of change."""

    TEXT = """package p;
service S { rpc Do(stream A) returns (B) {} }
message A {  // { not a brace
  map<string, uint64> counts = 4;
  oneof which { string name = 1; .q.Other other = 2 [deprecated = true]; }
  optional int64 size = 3 [default = 7, (help) = "http://a; \\" }"];
  message Inner { repeated bytes chunks = 1; reserved 2, 5 to 6; }
  enum E { NONE = 0; SOME = 1; }
}
"""

    def test_reads_every_declaration(self):
        found, gone = read_proto(self.TEXT)
        self.assertEqual([
            "method p.S Do (stream A) returns (B)", "message p.A", "field p.A 4 counts map<string,uint64>",
            "field p.A 1 name string oneof which", "field p.A 2 other .q.Other oneof which", "field p.A 3 size int64",
            "message p.A.Inner", "field p.A.Inner 1 chunks repeated bytes", "enum p.A.E", "value p.A.E 0 NONE",
            "value p.A.E 1 SOME"], [line.replace(". q", ".q") for line in found])
        self.assertEqual({"p.A.Inner": {2, 5, 6}}, gone)

    def test_a_change_of_anything_is_something_that_vanished(self):
        before, _ = read_proto(self.TEXT)
        for old, new in (("counts = 4", "counts = 8"), ("counts = 4", "amounts = 4"), ("int64 size", "int32 size"),
                         ("repeated bytes", "bytes"), ("SOME = 1", "SOME = 2"), ("stream A", "A"),
                         ("string name = 1;", "")):
            self.assertIn(old, self.TEXT)
            after, _ = read_proto(self.TEXT.replace(old, new))
            self.assertEqual(1, len(vanished(before, after)), new)


def write():
    if GEMM is None:
        sys.exit("there is no gemm to ask for its flags: bazel build --config=opt //client/cli:gemm")
    listed, removed = recorded() if CONTRACT.exists() else ([], [])
    there = wire()[0] + options() + list(flags())
    lost = vanished(listed, there)
    if lost:
        sys.exit("\n".join([f"gone from the tree; {HELP}:", *lost]))
    head = "# What others rely on, and what it was that went. contract_test.py says how to change it.\n"
    CONTRACT.write_text(head + "".join(f"{line}\n" for line in [
        *there, *(f"removed {version} {line}" for version, line in removed)]))


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else unittest.main()
