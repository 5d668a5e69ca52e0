#!/usr/bin/env python3
"""Writes deploy/gemmd.textproto, a configuration file with every option, each at its default and commented out.

deploy/docs/sample_config.py           writes it
deploy/docs/sample_config.py --check   says whether it is as server/options/config.proto has the options
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = ROOT / "server/options/config.proto"
SAMPLE = ROOT / "deploy/gemmd.textproto"
WIDTH = 100

MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^  optional (\w+) (\w+) = \d+\s*(?:\[(.*?)\])?;", re.M | re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

HEAD = """\
# proto-file: server/options/config.proto
# proto-message: gemmd.config.ServerConfig
#
# Options of gemmd --config=FILE, each at its default. Take the "#" from those that you change. Flags
# of the command line win over the file: limits { calls: 100 } is --limits.calls=100. gemmd --check
# --config=FILE says what is wrong, and gemmd --print-config what is in force.
# deploy/docs/sample_config.py writes this file.
"""


def texts(options, name):
    """The strings of (name) = "..." "..." in a field's options, each whole."""
    for found in re.finditer(rf"\({name}\) =\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)", options):
        yield "".join(STRING.findall(found[1]))


def number(options, name):
    return re.search(rf"\({name}\) = (-?\d+)", options)[1]


def comment(kind, options):
    text = next(texts(options, "help"))
    text = text[0].upper() + text[1:] + "."
    if kind == "int64":
        text += f" {number(options, 'min')} to {number(options, 'max')}."
    elif choices := list(texts(options, "choice")):
        text += " One of " + ", ".join(choices) + "."
    if "(reloads) = true" in options:
        text += " SIGHUP reloads it."
    return text


def fields(message, messages, indent):
    for kind, name, options in FIELD.findall(messages[message]):
        if kind in messages:
            yield f"{indent}{name} {{"
            yield from fields(kind, messages, indent + "  ")
            yield f"{indent}}}"
        else:
            yield from textwrap.wrap(
                comment(kind, options),
                WIDTH,
                initial_indent=f"{indent}# ",
                subsequent_indent=f"{indent}# ",
                break_long_words=False,
            )
            default = re.search(r"default = (\"(?:[^\"\\]|\\.)*\"|-?\d+)", options)[1]
            yield f"{indent}#{name}: {default}"


def sample():
    messages = dict(MESSAGE.findall(PROTO.read_text()))
    return "\n".join([HEAD, *fields("ServerConfig", messages, "")]) + "\n"


def main():
    if "--check" not in sys.argv[1:]:
        SAMPLE.write_text(sample())
    elif SAMPLE.read_text() != sample():
        sys.exit(f"{SAMPLE} is not as {PROTO} has the options: run deploy/docs/sample_config.py")


if __name__ == "__main__":
    main()
