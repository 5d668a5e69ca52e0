#!/usr/bin/env python3
"""What documents say of the tree is so: maps are whole, paths are there, lines can be read."""
import pathlib
import re
import subprocess
import sys
import unittest

from headings import anchors

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "deploy/docs"))
from page_code import blocks  # noqa: E402


# Folders of the tree's top that git ignores: what builds and releases leave there.
LEFT_THERE = re.findall(r"^/([\w-]+)/$", (ROOT / ".gitignore").read_text(), re.M)


def walk(folder):
    """The files of the tree: not what builds, releases and editors leave there."""
    for path in folder.iterdir():
        if path.name.startswith((".", "bazel-", "__pycache__")) or (folder == ROOT and path.name in LEFT_THERE):
            continue
        if path.is_dir():
            yield from walk(path)
        else:
            yield path


FILES = sorted(path.relative_to(ROOT).as_posix() for path in walk(ROOT))
DOCUMENTS = [path for path in FILES if path.endswith(".md")]
# It names what is gone.
PAST = {"CHANGELOG.md"}
# Planned, and said to be.
PLANNED = {"ptx/tcgen05.h", "recorded_sm100.txt", "recorded_sm120.txt"}
PATH = re.compile(r"`((?:\.\./)*[\w.-]+(?:/[\w.-]+)*\.(?:h|cc|cu|py|sh|md|proto|bzl|yaml|txt|json))`")


def read(path):
    return (ROOT / path).read_text()


def folders(parent):
    """The folders of the tree below `parent`, the top where it is empty."""
    depth = len(pathlib.PurePath(parent).parts)
    parts = [pathlib.PurePath(path).parts for path in FILES if path.startswith(parent)]
    return sorted({each[depth] for each in parts if len(each) > depth + 1})


class DocumentsTest(unittest.TestCase):
    def expect_all(self, names, text, where):
        missing = [name for name in names if name not in text]
        self.assertEqual([], missing, f"{where} does not name them")

    def test_maps_name_every_folder(self):
        top = [name for name in folders("") if not name.startswith(".")]
        self.expect_all([f"`{name}/`" for name in top],
                        read("README.md").partition("## Where things are")[2],
                        "README.md, Where things are")
        head = read("server/main.cc").partition("#include")[0]
        self.expect_all([f"//   {name}/" for name in folders("server/")], head, "server/main.cc")
        self.expect_all([f"`server/{name}`" for name in folders("server/")],
                        read("ARCHITECTURE.md"), "ARCHITECTURE.md")
        table = read("kernels/README.md").partition("## ")[0]
        self.expect_all([f"`{name}/`" for name in folders("kernels/")],
                        table, "kernels/README.md")

    def test_the_map_of_the_command_line_names_every_command(self):
        head = read("client/cli/main.cc").partition("#include")[0]
        commands = [pathlib.PurePath(path).name for path in FILES
                    if re.match(r"client/cli/commands/\w+_command\.cc$", path)]
        self.assertGreater(len(commands), 8)
        self.expect_all(commands, head, "client/cli/main.cc")

    def test_paths_between_backticks_are_there(self):
        missing = []
        for document in DOCUMENTS:
            if document in PAST:
                continue
            for path in PATH.findall(read(document)):
                from_here = (ROOT / document).parent / path
                if path not in PLANNED and not from_here.exists() and not any(
                        file == path or file.endswith("/" + path) for file in FILES):
                    missing.append(f"{document}: {path}")
        self.assertEqual([], missing)

    def test_links_lead_somewhere(self):
        missing = []
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(document)):
                if not (ROOT / document).parent.joinpath(target).exists():
                    missing.append(f"{document}: {target}")
        self.assertEqual([], missing)

    def test_anchors_are_headings(self):
        missing = []
        for document in DOCUMENTS:
            for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", read(document)):
                path = (ROOT / document).parent / target if target else ROOT / document
                if path.suffix == ".md" and path.exists() and anchor not in anchors(path.read_text()):
                    missing.append(f"{document}: {target}#{anchor}")
        self.assertEqual([], missing)

    def test_each_alert_links_its_own_section(self):
        """A section that is there, is named after the alert, and says something."""
        rules = re.findall(r"^ *- alert: (\w+)\n(.*?)(?=^ *- alert:|\Z)", read("deploy/observe/alerts.yaml"), re.M | re.S)
        self.assertGreater(len(rules), 10)
        for alert, rule in rules:
            (link,) = re.findall(r"^ *runbook_url: (\S+)$", rule, re.M) or [f"{alert} has no runbook_url"]
            path, _, anchor = link.partition("#")
            self.assertEqual(alert.lower(), anchor, link)
            section = re.search(rf"^### {alert}\n\n(.+?)(?=^#|\Z)", read(path), re.M | re.S)
            self.assertIsNotNone(section, link)
            self.assertGreater(len(section[1].split()), 10, link)

    def test_changes_that_a_page_shows_fit_the_tree(self):
        """Below **FILE**, the lines of a difference that are there before it stand so in FILE, once."""
        shown = 0
        for document in DOCUMENTS:
            for path, language, code in blocks(read(document)):
                if language != "diff":
                    continue
                before = "".join(line[1:] + "\n" for line in code.splitlines() if not line.startswith("+"))
                self.assertEqual(1, read(path).count(before), f"{document}: {path} has not, once:\n{before}")
                shown += 1
        self.assertGreater(shown, 5)

    def test_decisions_are_numbered_and_listed(self):
        pages = [path for path in FILES if re.match(r"docs/decisions/\d", path)]
        numbers = [int(pathlib.PurePath(path).name[:3]) for path in pages]
        self.assertEqual(list(range(1, len(pages) + 1)), numbers)
        index = read("docs/decisions/README.md")
        self.expect_all([pathlib.PurePath(path).name for path in pages], index,
                        "docs/decisions/README.md")
        for path in pages:
            self.expect_all(["**Context.**", "**Choice.**", "**Cost.**", "**Evidence.**"], read(path), path)

    def test_what_is_made_from_the_tree_is_as_the_tree(self):
        drawn = [ROOT / path for path in FILES if path.startswith("docs/") and path.endswith("-way.txt")]
        self.assertTrue(drawn)
        for command in (["deploy/docs/diagram.py", "--check", *drawn],
                        ["deploy/docs/testing_counts.py", "--check"]):
            made = subprocess.run([ROOT / command[0], *command[1:]], stderr=subprocess.PIPE, text=True)
            self.assertEqual("", made.stderr)

    def test_lines_outside_tables_and_code_are_short(self):
        long_lines = []
        for document in DOCUMENTS:
            is_code = False
            for number, line in enumerate(read(document).splitlines(), 1):
                is_code ^= line.startswith("```")
                if not is_code and not line.startswith(("| ", "|-", "    ")) and len(line) > 120:
                    long_lines.append(f"{document}:{number}: {len(line)} columns")
        self.assertEqual([], long_lines)


if __name__ == "__main__":
    unittest.main()
