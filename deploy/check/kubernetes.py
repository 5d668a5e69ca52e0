#!/usr/bin/env python3
"""Are the manifests of deploy/kubernetes valid, and do they agree with gemmd's options?

It needs kubernetes-validate (deploy/check/kubernetes.sh installs it), and renders where there is a kubectl or a kustomize.
  deploy/check/kubernetes.py           compares what is rendered with what is committed, and checks it
  deploy/check/kubernetes.py --write   writes what is made of other files: the alerts, and rendered/
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

import manifests

FOLDER = manifests.ROOT / "deploy/kubernetes"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir() if not path.name.startswith("."))
# The first that has preStop's sleep by default, and the newest that the schemas are of.
VERSIONS = ["1.30", "1.37"]
# Components as no overlay has them.
COMBINATIONS = [
    ["nvidia", "shared-memory", "tls"],
    ["nvidia", "observe", "tls", "hpa", "stateful"],
    ["plaintext", "nvidia", "runtime-class", "observe", "keda", "stateful"],
    ["plaintext", "nvidia", "keda"],
]


def renderer():
    for command in (["kubectl", "kustomize"], ["kustomize", "build"]):
        if shutil.which(command[0]):
            return command
    return None


def render(command, folder):
    return subprocess.run([*command, str(folder)], check=True, stdout=subprocess.PIPE, text=True).stdout


def render_beside(command, settings):
    """kustomize takes no absolute paths: so this kustomization is beside the overlays for a moment."""
    with tempfile.TemporaryDirectory(dir=FOLDER / "overlays", prefix=".") as folder:
        pathlib.Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(settings))
        return render(command, folder)


def kustomizations():
    """Those that are checked beside the overlays, by name: combinations, and what the page shows."""
    for components in COMBINATIONS:
        yield ", ".join(components), {"resources": ["../../base"],
                                      "components": [f"../../components/{each}" for each in components]}
    page = (manifests.ROOT / "docs/kubernetes.md").read_text()
    blocks = [block for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S) if "kind: " in block]
    own, patch = (yaml.safe_load(block.replace("gemmd/deploy/kubernetes/", "../../")) for block in blocks)
    yield "the page's overlay", own
    yield "the page's client", {"resources": ["../shared-memory"], "patches": [{"patch": yaml.safe_dump(patch)}]}


def check(name, text):
    objects = list(yaml.safe_load_all(text))
    found = manifests.complaints(objects)
    for each in objects:
        for version in VERSIONS:
            if each["kind"] in manifests.CUSTOM:
                continue
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                path = ".".join(str(part) for part in error.path)
                found.append(f"{each['kind']} {each['metadata']['name']} in Kubernetes {version}: {path}: {error.message}")
    kinds = ", ".join(sorted({each["kind"] for each in objects}))
    print(f"{name}: {len(objects)} objects, {len(found)} complaints ({kinds})")
    return [f"{name}: {each}" for each in found]


def compare(path, made, is_written):
    if is_written:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made)
    shown = path.relative_to(manifests.ROOT)
    if not path.exists() or path.read_text() != made:
        return [f"{shown} is not what deploy/check/kubernetes.py --write makes"]
    return []


def main(arguments):
    if arguments not in ([], ["--write"]):
        sys.exit(f"usage: deploy/check/kubernetes.py [--write], not {arguments}")
    is_written = arguments == ["--write"]
    alerts = (manifests.ROOT / "deploy/observe/alerts.yaml").read_text()
    found = compare(FOLDER / "components/observe/rules.yaml", manifests.prometheus_rule(alerts), is_written)
    command = renderer()
    if command is None and is_written:
        sys.exit("there is no kubectl and no kustomize here to render with")
    rendered = sorted(path.stem for path in (FOLDER / "rendered").glob("*.yaml"))
    if command is None:
        print("skipped: there is no kubectl and no kustomize here: rendered/ is checked as it is committed")
    else:
        for overlay in OVERLAYS:
            found += compare(FOLDER / f"rendered/{overlay}.yaml", render(command, FOLDER / "overlays" / overlay), is_written)
        for name, settings in kustomizations():
            found += check(name, render_beside(command, settings))
        rendered = sorted(path.stem for path in (FOLDER / "rendered").glob("*.yaml"))
    if rendered != OVERLAYS:
        found.append(f"rendered/ has {rendered}, and overlays/ {OVERLAYS}")
    for overlay in rendered:
        found += check(overlay, (FOLDER / f"rendered/{overlay}.yaml").read_text())
    print("\n".join(found) or "the manifests are valid, and agree with gemmd's options")
    return 1 if found else 0


if __name__ == "__main__":
    os.chdir(manifests.ROOT)
    sys.exit(main(sys.argv[1:]))
