#!/usr/bin/env python3
"""Prints the code that a page shows under a file's name, so that tests compile what readers copy.

  deploy/docs/page_code.py PAGE FILE            the C++ under the line **FILE**
  deploy/docs/page_code.py PAGE --added FILE    the lines that its differences add to FILE
"""
import re
import sys


def blocks(text):
    """(file, language, code) of each fenced block below a line that is **file** and no more."""
    file = None
    for name, language, code in re.findall(r"^\*\*(\S+)\*\*$|^```(\w+)\n(.*?)^```", text, re.M | re.S):
        if name:
            file = name
        elif file:
            yield file, language, code


def main(page, *arguments):
    with open(page, encoding="utf-8") as opened:
        found = [(language, code) for file, language, code in blocks(opened.read()) if file == arguments[-1]]
    if arguments[0] == "--added":
        code = "".join(line[1:] for language, code in found if language == "diff"
                       for line in code.splitlines(True) if line.startswith("+"))
    else:
        code = "".join(code for language, code in found if language == "cpp")
    if not code:
        sys.exit(f"{page} shows no such code of {arguments[-1]}")
    print(code, end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
