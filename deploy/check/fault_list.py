"""Faults to plant, as files in tests/planted/ list them, and how they are compiled in.

A fault is a paragraph; lines that begin with # are comments:

    a batch's mates are charged to the leader's tenant
    server/scheduling/job_queue.cc
    - Charge(node, us);
    + Charge(leader, us);

What is replaced ends with a semicolon and is one statement, no declaration, or is an expression
of the type of what replaces it. Either may take several lines; a statement may be replaced by
nothing. A line that begins with ~ says why it is accepted that no test notices the fault. One that
begins with @ names the test that must: for what only a whole server shows, whose nearest tests are
those of tests/e2e.
"""
import pathlib
import re

import plant_fault

# Every fault is in the same program: the number in the environment says which one is on.
SWITCH = """\
#ifndef GEMMD_IS_PLANTED
#define GEMMD_IS_PLANTED
#include <cstdlib>
namespace gemmd {
inline bool IsPlanted(int fault) {
  static const int planted = [] {
    const char* const number = std::getenv("GEMMD_PLANTED");
    return number == nullptr ? 0 : std::atoi(number);
  }();
  return fault == planted;
}
}  // namespace gemmd
#endif
"""


class Fault:
    def __init__(self, number, paragraph):
        self.number = number
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        self.name, self.file, *rest = lines
        self.find = self.replace = self.accepted = self.test = ""
        for line in rest:
            mark, text = line[0], line[1:].strip()
            if mark == "-":
                self.find += text + "\n"
            elif mark == "+":
                self.replace += text + "\n"
            elif mark == "@":
                self.test = text
            elif mark == "~":
                self.accepted = (self.accepted + " " + text).strip()
            else:
                raise SystemExit(f"{self.name}: a line begins with none of -, +, ~ and @: {line}")

    def plant(self, text):
        """The source with the fault behind the switch. Exits where the place is not to be found."""
        place = plant_fault.pattern(self.find)
        found = re.findall(place, text)
        if len(found) != 1:
            raise SystemExit(f"{self.file} has {len(found)} times, and not once: {self.find.strip()}\n"
                             f"  which is to be replaced so that: {self.name}")
        is_on = f"::gemmd::IsPlanted({self.number})"
        if self.find.rstrip().endswith(";"):
            # In braces of its own, because the statement may be all that an if has.
            planted = f"{{ if ({is_on}) {{ {self.replace} }} else {{ {found[0]} }} }}"
        else:
            planted = f"({is_on} ? ({self.replace}) : ({found[0]}))"
        return re.sub(place, lambda _: planted, text)


def read(folder):
    """All faults that the folder's lists have, numbered from 1 on."""
    faults = []
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        for paragraph in re.split(r"\n\s*\n", path.read_text().strip()):
            if all(line.startswith("#") for line in paragraph.splitlines()):
                continue
            faults.append(Fault(len(faults) + 1, paragraph))
    return faults


def plant(root, faults):
    """Plants all of them into the tree at once. They must not overlap."""
    texts = {}
    for fault in faults:
        path = pathlib.Path(root) / fault.file
        texts[path] = fault.plant(texts.get(path) or path.read_text())
    for path, text in texts.items():
        path.write_text(SWITCH + text)


def package_of(root, file):
    """The package whose tests are nearest: of the same folder in tests/, or of one above it."""
    for folder in list(pathlib.PurePath(file).parents)[:-1]:  # without "."
        if (pathlib.Path(root) / "tests" / folder / "BUILD.bazel").exists():
            return f"tests/{folder}"
    raise SystemExit(f"{file} has no tests")
