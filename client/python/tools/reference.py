#!/usr/bin/env python3
"""Writes REFERENCE.md of the package's docstrings and signatures; --check only compares.

Needs the package installed. A test runs the check, so that the page cannot say something else than the code.
"""

from __future__ import annotations

import ast
import inspect
import pathlib
import sys
import textwrap
from typing import Any

import gemmd
import gemmd.admin
import gemmd.aio
import gemmd.errors
import gemmd.quantized
import gemmd.result
import gemmd.weights

PACKAGE = pathlib.Path(__file__).parents[1] / "gemmd"
PAGE = pathlib.Path(__file__).parents[1] / "REFERENCE.md"
CLASSES = [
    gemmd.Client,
    gemmd.Pending,
    gemmd.Result,
    gemmd.Receipt,
    gemmd.Resident,
    gemmd.Named,
    gemmd.Transposed,
    gemmd.Stacked,
    gemmd.Linear,
    gemmd.Quantized,
    gemmd.Tls,
    gemmd.RetryPolicy,
    gemmd.ServerState,
    gemmd.Estimate,
    gemmd.Info,
    gemmd.Statistics,
    gemmd.aio.Client,
]


def _block(text: str | None, signature: str = "") -> list[str]:
    """A code block: the signature, which may be long, and the docstring."""
    lines = [*textwrap.wrap(signature, 108, subsequent_indent="    "), ""] if signature else []
    lines += inspect.cleandoc(text or "").splitlines()
    return ["", *(f"    {each}" for each in lines)]


def _signature(name: str, function: Any) -> str:
    found = inspect.signature(function)
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for key, each in found.parameters.items()
        if key not in ("self", "cls")
    ]
    return f"{name}{found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}"


def _own(kind: Any) -> dict[str, Any]:
    """Members of the class and of its bases in this package."""
    found: dict[str, Any] = {}
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] == "gemmd":
            found = {**found, **{name: member for name, member in vars(each).items() if name not in found}}
    return found


def _members(kind: Any) -> list[str]:
    lines = []
    for name, member in _own(kind).items():
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, property):
            lines += ["", f"#### `.{name}`", *_block(member.__doc__)]
        elif callable(member) or isinstance(member, classmethod):
            function = getattr(kind, name)
            lines += ["", f"#### `.{name}`", *_block(function.__doc__, _signature(name, function))]
    return lines


def _others() -> list[str]:
    """The modules that need another package, which may be missing here, by their sources; and admin's values."""
    lines: list[str] = []
    for name in ("torch", "dask", "ray"):
        tree = ast.parse((PACKAGE / f"{name}.py").read_text())
        lines += ["", f"## `gemmd.{name}`", *_block(ast.get_docstring(tree))]
        for node in tree.body:
            if not _is_public(node):
                continue
            assert isinstance(node, ast.ClassDef | ast.FunctionDef)
            lines += ["", f"### `gemmd.{name}.{node.name}`", *_block(ast.get_docstring(node), _head(node))]
            for member in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(member, ast.FunctionDef) and _is_public(member):
                    lines += ["", f"#### `.{member.name}`", *_block(ast.get_docstring(member), _head(member))]
    for module in (gemmd.weights, gemmd.admin):
        lines += ["", f"## `{module.__name__}`", *_block(module.__doc__)]
        classes = [name for name, member in vars(module).items() if isinstance(member, type)]
        for name in getattr(module, "__all__", classes):
            member = getattr(module, name)
            if member.__module__ == module.__name__ and member not in CLASSES:
                lines += ["", f"#### `{name}`", *_block(member.__doc__, _signature(name, member))]
    return lines


def _is_public(node: ast.AST) -> bool:
    """Whether it is a class or a function for callers."""
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")


def _head(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The signature in a source, without types."""
    function: ast.AST = node
    if isinstance(node, ast.ClassDef):
        function = next(each for each in node.body if getattr(each, "name", "") == "__init__")
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    for each in (*arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if each is not None:
            each.annotation = None
    arguments.args = [each for each in arguments.args if each.arg not in ("self", "cls")]
    return f"{node.name}({ast.unparse(arguments)})"


def page() -> str:
    """The page's text."""
    lines = [
        "# Reference of gemmd for Python",
        "",
        "What `client/python/tools/reference.py` reads in the code: its docstrings, word for word.",
        "[README.md](README.md) shows how it is used.",
        "",
        "## `gemmd.matmul`",
        *_block(gemmd.matmul.__doc__, _signature("matmul", gemmd.matmul)),
    ]
    for kind in CLASSES:
        module = "gemmd.aio" if kind is gemmd.aio.Client else "gemmd"
        begin = vars(kind).get("__init__")
        head = _signature(kind.__name__, begin) if begin is not None else kind.__name__
        lines += ["", f"## `{module}.{kind.__name__}`", *_block(kind.__doc__, head), *_members(kind)]
    lines += _others()
    lines += ["", "## Errors", *_block(gemmd.errors.__doc__)]
    for name, kind in vars(gemmd.errors).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            bases = ", ".join(each.__name__ for each in kind.__bases__)
            lines += ["", f"#### `{name}({bases})`", *_block(kind.__doc__)]
    return "\n".join(each.rstrip() for each in lines) + "\n"


def main() -> int:
    """Writes or compares; the exit code."""
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(page())
        return 0
    if PAGE.read_text() == page():
        return 0
    print("REFERENCE.md differs from the code: run client/python/tools/reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
