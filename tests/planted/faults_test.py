#!/usr/bin/env python3
"""The faults of these lists can be planted: the places are there, and have tests near them."""
import pathlib
import re
import sys
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "deploy/check"))
import fault_list  # noqa: E402
import plant_fault  # noqa: E402

FAULTS = fault_list.read(ROOT / "tests/planted")


def outside_brackets(text):
    """The text without what stands in brackets of any kind, or in quotes."""
    text = re.sub(r'"[^"]*"', "", text)
    while (shorter := re.sub(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|<[^<>;&|]*>", "", text)) != text:
        text = shorter
    return text


def before(text, fault):
    """What ends in front of the fault's place, comments aside."""
    head = re.split(plant_fault.pattern(fault.find), text)[0]
    return re.sub(r"//[^\n]*\n", "", head).rstrip()


class FaultsTest(unittest.TestCase):
    def test_each_can_be_planted_beside_the_others(self):
        texts = {}
        for fault in FAULTS:
            # A fault's text is once in the file, and still once with all that is planted before it.
            fault.plant((ROOT / fault.file).read_text())
            text = texts.get(fault.file) or (ROOT / fault.file).read_text()
            texts[fault.file] = fault.plant(text)

    def test_each_is_whole(self):
        # A part of an expression is found, and does not compile: no list could be run with it.
        for fault in FAULTS:
            for text in (fault.find, fault.replace):
                text = re.sub(r'"[^"]*"', "", text).replace("::", "")
                for left, right in ("()", "[]", "{}"):
                    self.assertEqual(text.count(left), text.count(right), fault.name)
                self.assertLessEqual(text.count("?"), text.count(":"), fault.name)
            # Neither an expression nor a statement is whole where an operand is missing.
            whole = fault.find.replace("::", "").strip()
            self.assertNotRegex(whole, r"^(&&|\|\||[/%,?:=|])|(&&|[-+/%,?:=|])$", fault.name)
            # An expression gets parentheses, which would end an assignment before it is whole.
            if not whole.endswith(";"):
                self.assertNotRegex(fault.find, r"[^=!<>+*/|&-]=[^=]", fault.name)
            # Nor is a list, in braces or without, or a part of a statement.
            self.assertNotRegex(fault.find, r"^\{", fault.name)
            if not whole.endswith(";"):
                self.assertNotRegex(whole, r"^(if|for|while|return|switch)\b|;\s*\}$|\{$", fault.name)
                self.assertNotIn(",", outside_brackets(whole), fault.name)
            # In braces of its own a declaration would be gone behind them.
            self.assertNotRegex(fault.find, r"^(const|auto|static) .*;$", fault.name)

    def test_a_statement_begins_where_another_ends(self):
        # The end of a declaration looks like a statement.
        for fault in FAULTS:
            if fault.find.rstrip().endswith(";"):
                head = before((ROOT / fault.file).read_text(), fault)
                self.assertRegex(head, r"([;{}):]|\b(else|do))$", fault.name)

    def test_each_has_tests_near_it(self):
        for fault in FAULTS:
            if not fault.test:
                self.assertTrue(fault_list.package_of(ROOT, fault.file))
                continue
            package, name = fault.test.split(":")
            if not (ROOT / package / f"{name}.py").exists():  # some packages name a test for each file
                self.assertIn(f'"{name}"', (ROOT / package / "BUILD.bazel").read_text())

    def test_there_are_enough_and_few_are_accepted(self):
        self.assertGreaterEqual(len(FAULTS), 60)
        accepted = [fault for fault in FAULTS if fault.accepted]
        self.assertLessEqual(10 * len(accepted), len(FAULTS))

    def test_each_is_told_from_the_others(self):
        names = [(fault.file, fault.name) for fault in FAULTS]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
