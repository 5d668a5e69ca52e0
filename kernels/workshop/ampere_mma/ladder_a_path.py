#!/usr/bin/env python3
"""Ladder A as one step sees it: its kernel with that step's values in place of the template's.

  ladder_a_path.py a02          the kernel of a step
  ladder_a_path.py a02 a03a     the lines that differ between two steps
  ladder_a_path.py              how many differ from each step to the next

Branches that the step does not take, functions that it does not call, comments and empty lines are
left out.
"""
import difflib
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).parent
KERNEL = FOLDER.parents[1] / "mma/copy_async"


def steps(folder=FOLDER, kernel_folder=KERNEL):
    """The values of every step by its name, in order: {"a01a": {"kStages": "1", ...}, ...}.

    The step that serves stands where the ladder says `using NAME = copy_async::ServedStep;`.
    """
    text = (folder / "ladder_a_steps.h").read_text()
    served = (kernel_folder / "served_step.h").read_text()
    body = re.search(r"struct ServedStep (\{\n.*?\n\};)", served, re.S).group(1)
    text = re.sub(r"using (\w+) = copy_async::ServedStep;", lambda match: f"struct {match.group(1)} {body}", text)
    structs, named = {}, {}
    for name, base, body in re.findall(r"struct (\w+)(?: : (\w+))? \{\n(.*?)\n\};", text, re.S):
        values = dict(structs.get(base, {}))
        values.update(re.findall(r"static constexpr [^=;]*?\b(k\w+) =\s*(.+?);", body, re.S))
        structs[name] = values
        named[values["kName"].strip('"').split("/")[1]] = values
    return named


def closing(text, start):
    """Where the bracket that opens at `start` closes."""
    pairs = {"(": ")", "{": "}"}
    opens, closes, depth = text[start], pairs[text[start]], 0
    for i in range(start, len(text)):
        depth += (text[i] == opens) - (text[i] == closes)
        if depth == 0:
            return i
    raise SystemExit("a bracket is not closed")


def holds(condition, values):
    condition = re.sub(r"Step::(k\w+)", lambda match: values[match.group(1)], condition)
    left, equals, right = condition.partition(" == ")
    if equals:
        return left == right
    return {"true": True, "false": False}[condition]


def taken(text, values):
    """Without `if constexpr`: of each the branch that the step takes."""
    while (start := text.find("if constexpr (")) >= 0:
        chosen, at = None, start
        while True:
            always = text[at] == "{"
            if not always:
                first = text.index("(", at)
                at = closing(text, first)
                condition = text[first + 1:at]
                at = text.index("{", at)
            end = closing(text, at)
            if chosen is None and (always or holds(condition, values)):
                chosen = text[at + 1:end]
            rest = re.match(r" else (?:if constexpr )?(?=[({])", text[end + 1:])
            if not rest:
                break
            at = end + 1 + rest.end()
            if text[at] == "(":
                at -= 1
        lines = (chosen or "").strip("\n").rstrip().split("\n")
        text = (text[:start].rstrip(" ") + "\n".join(line[2:] for line in lines) + text[end + 1:])
    return text


def called(text):
    """Without the functions of the class that nothing calls."""
    function = re.compile(r"^  (?:static )?GEMMD_DEVICE \S+ (\w+)\(.*?^  \}\n|"
                          r"^  (?:static )?GEMMD_DEVICE \S+ (\w+)\([^\n]*\}\n", re.S | re.M)
    while True:
        for match in function.finditer(text):
            name = match.group(1) or match.group(2)
            if name not in ("Run", "Worker") and len(re.findall(rf"\b{name}\(", text)) == 1:
                text = text[:match.start()] + text[match.end():]
                break
        else:
            return text


def kernel(name, folder=FOLDER, kernel_folder=KERNEL):
    """The lines of a step's kernel."""
    values = steps(folder, kernel_folder)[name]
    text = (kernel_folder / "gemm.h").read_text()
    text = re.sub(r"[ \t]*//[^\n]*", "", text[text.index("template <class Step"):])
    text = called(taken(text, values))
    text = re.sub(r"\bStep::(k\w+)", lambda match: values[match.group(1)], text)
    return [line for line in text.splitlines() if line.strip()]


def changes(before, after, folder=FOLDER, kernel_folder=KERNEL):
    """What differs, in groups of lines that touch: [(lines that go, lines that come), ...]."""
    old, new = kernel(before, folder, kernel_folder), kernel(after, folder, kernel_folder)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [(old[i:j], new[k:m]) for what, i, j, k, m in matcher.get_opcodes() if what != "equal"]


def path(folder=FOLDER, kernel_folder=KERNEL):
    """For every step but the first: its name, how many lines go and come, and in how many places."""
    names = list(steps(folder, kernel_folder))
    for before, after in zip(names, names[1:]):
        groups = changes(before, after, folder, kernel_folder)
        yield after, sum(len(old) for old, _ in groups), sum(len(new) for _, new in groups), groups


def main():
    names = list(steps())
    for name in sys.argv[1:]:
        if name not in names:
            sys.exit(f"{name!r} is no step of ladder A: {', '.join(names)}")
    if len(sys.argv) == 2:
        print("\n".join(kernel(sys.argv[1])))
    elif len(sys.argv) == 3:
        for old, new in changes(*sys.argv[1:]):
            print("\n".join(["- " + line for line in old] + ["+ " + line for line in new]), end="\n\n")
    else:
        for name, gone, come, groups in path():
            print(f"{name}: lines that go {gone}, that come {come}; places {len(groups)}")


if __name__ == "__main__":
    main()
