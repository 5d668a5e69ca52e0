#!/bin/bash
# torch.compile(f, fullgraph=True) is to be an error where f has no single graph. It is none in a process that compiled
# f before without fullgraph=True: f then runs uncompiled, without a word.
#
# So a test of "one graph" depends on the tests before it, until torch._dynamo.reset(). Layers of gemmd.torch are such
# breaks: products on a server are no operators of a graph.
#
# Seen with torch 2.15.0 (CPU), 2026-11-28:
#   first       Unsupported
#   after one   no error
#   reset       Unsupported
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import torch


@torch.compiler.disable
def outside(x):
    return x * 2


def function(x):
    return outside(x)


def outcome(name):
    try:
        torch.compile(function, backend="eager", fullgraph=True)(torch.ones(2))
        found = "no error"
    except torch._dynamo.exc.Unsupported:
        found = "Unsupported"
    print(f"{name:12}{found}")
    return found


seen = [outcome("first")]
torch.compile(function, backend="eager")(torch.ones(2))
seen.append(outcome("after one"))
torch._dynamo.reset()
seen.append(outcome("reset"))
assert seen == ["Unsupported", "no error", "Unsupported"], seen
PYTHON
