"""Builds the wheel: PEP 517 by the standard library and protoc, nothing else.

The package has one generated file, gemmd/descriptors.binpb: the wire contract as a serialized
FileDescriptorSet. Message classes are made of it at run time (gemmd/_messages.py says why). protoc
comes from the system; where it is missing, an installer is asked for grpcio-tools, which has one.

As a script: gemmd_build.py FOLDER builds a wheel there and prints its name.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Not resolved: in a sandbox every file is a link, and its place is beside the other links.
HERE = pathlib.Path(__file__).absolute().parents[1]
TREE = HERE.parents[1]
NAME = "gemmd_client"
TAG = "py3-none-any"


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """What pip installs before build_wheel()."""
    return [] if shutil.which("protoc") else ["grpcio-tools"]


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Writes the wheel and returns its file name. Equal sources give equal bytes."""
    version = _version()
    info = f"{NAME}-{version}.dist-info"
    files = {f"gemmd/{path.relative_to(HERE / 'gemmd')}": path.read_bytes() for path in _sources()}
    files["gemmd/descriptors.binpb"] = _descriptors()
    files[f"{info}/METADATA"] = _metadata(version).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: gemmd_build\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()
    )
    files[f"{info}/licenses/LICENSE"] = (TREE / "LICENSE").read_bytes()
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    record.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = ("\n".join(record) + "\n").encode()
    wheel = f"{NAME}-{version}-{TAG}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Always fails: the wheel is built within gemmd's own tree, which has the wire contract."""
    raise RuntimeError("gemmd-client is built from a clone of gemmd: pip wheel client/python")


def _version() -> str:
    found = re.search(r'kVersion\[\] = "([^"]+)"', (TREE / "base/version.h").read_text())
    if found is None:
        raise RuntimeError("base/version.h has no kVersion")
    return found[1]


def _sources() -> list[pathlib.Path]:
    found = (HERE / "gemmd").rglob("*")
    return sorted(path for path in found if path.suffix == ".py" or path.name == "py.typed")


def _descriptors() -> bytes:
    proto = TREE / "proto"
    names = sorted(str(path.relative_to(proto)) for path in (proto / "gemmd" / "v1").glob("*.proto"))
    names.append("grpc/health/v1/health.proto")
    command = ["protoc"] if shutil.which("protoc") else [sys.executable, "-m", "grpc_tools.protoc"]
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "descriptors.binpb"
        include = [f"-I{proto}"]
        if len(command) > 1:
            import grpc_tools

            include.append(f"-I{pathlib.Path(grpc_tools.__file__).parent / '_proto'}")
        subprocess.run([*command, *include, "--include_imports", f"--descriptor_set_out={out}", *names], check=True)
        return out.read_bytes()


def _metadata(version: str) -> str:
    """METADATA of pyproject.toml, which is read by pattern: Python 3.10 has no parser for it."""
    text = (HERE / "pyproject.toml").read_text()

    def value(key: str) -> str:
        found = re.search(rf'^{key} = "([^"]*)"', text, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"pyproject.toml has no {key}")
        return found[1]

    def items(line: str) -> list[str]:
        return re.findall(r'"([^"]*)"', line)

    lines = ["Metadata-Version: 2.1", f"Name: {value('name')}", f"Version: {version}"]
    lines += [f"Summary: {value('description')}", f"Requires-Python: {value('requires-python')}"]
    lines += ["License: Apache-2.0", "License-File: LICENSE", "Description-Content-Type: text/markdown"]
    dependencies = re.search(r"^dependencies = (\[.*\])", text, re.MULTILINE)
    lines += [f"Requires-Dist: {each}" for each in items(dependencies[1] if dependencies else "")]
    extras = text.partition("[project.optional-dependencies]")[2].partition("\n\n")[0]
    for name, needs in re.findall(r"^(\w+) = (\[.*?\])(?:\s+#.*)?$", extras, re.MULTILINE):
        lines.append(f"Provides-Extra: {name}")
        lines += [f'Requires-Dist: {each}; extra == "{name}"' for each in items(needs)]
    return "\n".join(lines) + "\n\n" + (HERE / "README.md").read_text()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
