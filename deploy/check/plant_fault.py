#!/usr/bin/env python3
"""Copies a source with one text replaced: plant_fault.py SOURCE COPY FIND REPLACE.

FIND must occur exactly once, blanks aside: runs of white space match each other.
"""
import re
import sys


def pattern(find):
    return r"\s+".join(re.escape(word) for word in find.split())


def plant(text, find, replace):
    planted, count = re.subn(pattern(find), lambda _: replace, text)
    if count != 1:
        raise SystemExit(f"the text to replace occurs {count} times: {find}")
    return planted


def main():
    source, copy, find, replace = sys.argv[1:]
    with open(source) as file:
        text = file.read()
    with open(copy, "w") as file:
        file.write(plant(text, find, replace))


if __name__ == "__main__":
    main()
