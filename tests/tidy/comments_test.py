#!/usr/bin/env python3
"""Comments say what a thing is or does.

None begins a sentence as an indirect question ("What a launch needs."), or leans on its neighbour ("The same of
rows."). Docstrings of Python do not lean either.
"""
import ast
import io
import pathlib
import re
import tokenize
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]

QUESTION = re.compile(r"(What|Who|Whose|Whom|Which|How|Whether)\b(?!.*\?$)")
LEANS = re.compile(r"(The same|Of|Some|So (many|much)|As (many|much)|Likewise)\b")
C_LIKE = {".h", ".hpp", ".cc", ".cu", ".cuh", ".proto"}
HASH = {".sh", ".bzl", ".bazel"}
# A token of C++: a comment, a literal, or anything else that could hide the begin of one.
TOKEN = re.compile(r"""//(?P<line>(?:\\\n|[^\n])*) | /\*(?P<block>.*?)\*/
    | R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*"
    | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'""", re.DOTALL | re.VERBOSE)


def walk(folder):
    """The files of the tree: not what builds and editors leave there."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "bazel-", "__pycache__")):
            continue
        if path.is_dir():
            yield from walk(path)
        else:
            yield path


def comments(suffix, text):
    """Each comment's line, column and text."""
    if suffix in C_LIKE:
        for token in TOKEN.finditer(text):
            if token["line"] is not None or token["block"] is not None:
                begin = text.rfind("\n", 0, token.start()) + 1
                body = token["line"] if token["line"] is not None else token["block"]
                yield text.count("\n", 0, begin) + 1, token.start() - begin, " ".join(body.split())
    elif suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield *token.start, " ".join(token.string[1:].split())
    elif suffix in HASH:
        for number, line in enumerate(text.splitlines(), 1):
            if found := re.match(r"\s*#(?!!)(.*)", line):
                yield number, line.index("#"), " ".join(found[1].split())


def sentences(suffix, text):
    """Each sentence with the line on which its comment begins. Comments of one column on lines that
    follow each other are one text; an empty one ends it."""
    blocks = []
    last = None
    for line, column, body in comments(suffix, text):
        if body and last == (line - 1, column):
            blocks[-1][1].append(body)
        elif body:
            blocks.append((line, [body]))
        last = (line, column) if body else None
    for line, bodies in blocks:
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(bodies)):
            yield line, sentence


def docstrings(text):
    """Each sentence of Python's docstrings with the line on which its docstring begins. An empty line ends it."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for paragraph in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(paragraph.split())):
                yield node.body[0].lineno, sentence


def leaning(suffix, text):
    said = [*sentences(suffix, text), *(docstrings(text) if suffix == ".py" else [])]
    return [(line, each) for line, each in said if LEANS.match(each)]


def questions(suffix, text):
    return [(line, each) for line, each in sentences(suffix, text) if QUESTION.match(each)]


class CommentsTest(unittest.TestCase):
    def faults(self, find):
        found = []
        for path in walk(ROOT):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix not in C_LIKE | HASH | {".py"}:
                continue
            for line, sentence in find(path.suffix, path.read_text()):
                found.append(f"{name}:{line}: {sentence}")
        return found

    def test_none_begins_as_an_indirect_question(self):
        found = self.faults(questions)
        self.assertEqual([], found, "say what it is or does:\n" + "\n".join(found))

    def test_none_leans_on_its_neighbour(self):
        found = self.faults(leaning)
        self.assertEqual([], found, "say it without what stands above:\n" + "\n".join(found))

    def test_sentences_of_comments_are_found(self):
        for suffix, text, expected in [
                (".h", "// The slots. What a launch\n// needs.\nint x;\n", [(1, "What a launch needs.")]),
                (".h", "int x;  // Who waits\n        // for it\n", [(1, "Who waits for it")]),
                (".h", "// A slot.\n//\n// Whether it is taken.\n", [(3, "Whether it is taken.")]),
                (".cc", "int x = 1'000;\n/* How it\n   ends. */\n", [(2, "How it ends.")]),
                (".cc", 'char c = \'"\';  // Which one.\n', [(1, "Which one.")]),
                (".py", "x = 1  # Whose it is\n", [(1, "Whose it is")]),
                (".sh", "# What comes.\ntrue\n", [(1, "What comes.")])]:
            with self.subTest(text):
                self.assertEqual(expected, questions(suffix, text))

    def test_leaning_sentences_are_found(self):
        text = "// Reads a row. The same of rows.\nint x;  // Of one.\n// Some day.\n"
        self.assertEqual([(1, "The same of rows."), (2, "Of one."), (3, "Some day.")], leaning(".h", text))
        self.assertEqual([], leaning(".h", "// Often the same.\n"))
        text = 'def bytes_of(x):\n    """Of D.\n\n    Some day it is wide. Often the same.\n    """\nx = "Of D."\n'
        self.assertEqual([(2, "Of D."), (2, "Some day it is wide.")], leaning(".py", text))

    def test_nothing_else_is_taken_for_one(self):
        for suffix, text in [
                (".h", "// The device says\n// What it does not take.\n"),
                (".h", "// What is a tile? A part of D.\n"),
                (".h", "// However it ends, the slot is free.\n"),
                (".cc", 'auto page = R"(\n// What a page says.\n)";\n'),
                (".cc", 'auto url = "http://x. What is here.";\n'),
                (".py", 'x = "# What is here."\n'),
                (".sh", "#!/bin/sh\n")]:
            with self.subTest(text):
                self.assertEqual([], questions(suffix, text))


if __name__ == "__main__":
    unittest.main()
