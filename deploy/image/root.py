#!/usr/bin/env python3
"""Makes the root file system of the image: what gemmd and gemm load, and nothing that starts anything else.

    deploy/image/root.py gemmd gemm OUT [LIBRARY...]

OUT, which must be new or empty, gets the programs, stripped; the shared libraries that they load, and each LIBRARY,
which they open by its name; the certificates of public authorities; one user; the licences of all of it; and lists of all of it: SPDX 2.3 in
/usr/share/sbom/gemmd.spdx.json, and dpkg's own in /var/lib/dpkg/status.d, where scanners look. Two runs on the same
machine give the same bytes. Every time is SOURCE_DATE_EPOCH (0 unless set).

Debian 12 alone: it asks dpkg whose each file is.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from urllib.parse import quote

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Packages of packages.txt whose archives and headers are in no program, but in tests.
FOR_TESTS = {"libbenchmark-dev", "libgmock-dev", "libgtest-dev", "libopenblas-pthread-dev"}
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
USER = 65532


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def loaded_by(program):
    """The files that the dynamic linker maps, itself among them, by the paths at which it looks for them."""
    found = re.findall(r"^\s*(?:\S+ => )?(/\S+) \(0x", output_of("ldd", program), re.MULTILINE)
    if not found:
        raise SystemExit(f"{program} loads no library by ldd's word: is it a program of this machine?")
    return [pathlib.Path(path) for path in found]


def place_of(path):
    """The place of a file of the system where /lib and /lib64 are links into /usr, as in Debian."""
    return pathlib.Path("/usr") / path.relative_to("/") if path.parts[1] in ("lib", "lib64") else path


def owner_of(path):
    """The package that a file is of, by either of its names; None: none says so."""
    usual = place_of(path)
    for name in (usual, pathlib.Path("/") / usual.relative_to("/usr"), path.resolve()):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    return None


def linked_packages():
    """The packages whose archives or headers became part of the programs."""
    names = [line.strip() for line in (ROOT / "deploy/packages.txt").read_text().splitlines()]
    installed = output_of("dpkg-query", "-W", "-f=${Package}\\n").split()
    runtimes = {name for name in installed if name.startswith("cuda-cudart-dev-")}
    return sorted(({name for name in names if name.endswith("-dev")} | runtimes) - FOR_TESTS)


class Package:
    """A package of Debian, or of NVIDIA's archive, as it is installed here."""

    def __init__(self, name, is_linked):
        form = "${Version}\t${Architecture}\t${Maintainer}\t${source:Package}"
        self.name = name
        self.is_linked = is_linked
        self.version, self.architecture, self.maintainer, self.source = output_of(
            "dpkg-query", "-W", f"-f={form}\n", name).splitlines()[0].split("\t")

    def copyright(self):
        return pathlib.Path("/usr/share/doc", self.name, "copyright")

    def spdx(self):
        vendor = "nvidia" if "nvidia" in self.maintainer.lower() else "debian"
        return {
            "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', self.name)}",
            "name": self.name,
            "versionInfo": self.version,
            "supplier": f"Organization: {self.maintainer}",
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION",
            "comment": f"source package {self.source}; /usr/share/doc/{self.name}/copyright has its licences",
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": "pkg:deb/{}/{}@{}?arch={}".format(
                    vendor, quote(self.name, safe=""), quote(self.version, safe=""), self.architecture),
            }],
        }


def spdx(version, packages, epoch):
    """The document. Its name space is the digest of what it says, so that equal ones have equal names."""
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    gemmd = {
        "SPDXID": "SPDXRef-gemmd",
        "name": "gemmd",
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }
    entries = [each.spdx() for each in packages]
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-gemmd")]
    for each, entry in zip(packages, entries):
        relationships.append(
            ("SPDXRef-gemmd", "STATIC_LINK" if each.is_linked else "DYNAMIC_LINK", entry["SPDXID"]))
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"gemmd-{version}",
        "creationInfo": {"created": created, "creators": ["Tool: gemmd-deploy-image-root"]},
        "packages": [gemmd, *entries],
        "relationships": [
            dict(zip(("spdxElementId", "relationshipType", "relatedSpdxElement"), each)) for each in relationships],
    }
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    document["documentNamespace"] = f"https://spdx.org/spdxdocs/gemmd-{version}-{digest}"
    return document


def copy(source, root, place, mode):
    target = root / place.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def write(root, place, text):
    target = root / place.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(0o644)


def settle(root, epoch):
    """Gives every folder its mode and everything its time, whatever umask and clock say here."""
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o1777 if path == root / "tmp" else 0o755)
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__.split("\n\n")[1].strip())
    programs, root = [pathlib.Path(each) for each in sys.argv[1:3]], pathlib.Path(sys.argv[3])
    named = [pathlib.Path(each) for each in sys.argv[4:]]
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    if not AUTHORITIES.is_file():
        raise SystemExit(f"{AUTHORITIES} is not here: install the package ca-certificates")
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise SystemExit(f"{root} is not empty")

    for program in programs:
        place = pathlib.Path("/usr/local/bin", program.name)
        copy(program, root, place, 0o755)
        subprocess.run(["strip", root / place.relative_to("/")], check=True)
    places = {path: place_of(path) for program in [*programs, *named] for path in loaded_by(program)}
    places.update({path: pathlib.Path("/usr/lib/x86_64-linux-gnu", path.name) for path in named})
    for path, place in sorted(places.items()):
        copy(path, root, place, 0o755)
    for name in ("lib", "lib64"):
        (root / "usr" / name).mkdir(exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")

    owners = {path: owner_of(path) for path in places}
    unknown = [str(path) for path, owner in owners.items() if owner is None]
    if unknown:
        raise SystemExit(f"no package has {', '.join(unknown)}, so nobody can say what it is")
    packages = [Package(name, False) for name in sorted({*owners.values(), "ca-certificates"})]
    packages += [Package(name, True) for name in linked_packages()]
    for each in packages:
        copy(each.copyright(), root, pathlib.Path("/usr/share/doc", each.name, "copyright"), 0o644)
        if not each.is_linked:
            write(root, f"/var/lib/dpkg/status.d/{each.name}", output_of("dpkg-query", "-s", each.name))
    for path in sorted(pathlib.Path("/usr/share/common-licenses").iterdir()):
        copy(path, root, path, 0o644)
    copy(ROOT / "LICENSE", root, pathlib.Path("/usr/share/doc/gemmd/LICENSE"), 0o644)
    version = re.search(r'kVersion\[\] = "(.*)";', (ROOT / "base/version.h").read_text()).group(1)
    write(root, "/usr/share/sbom/gemmd.spdx.json", json.dumps(spdx(version, packages, epoch), indent=1) + "\n")

    copy(AUTHORITIES, root, AUTHORITIES, 0o644)
    # By the first of these NVIDIA's container tools know where Debian has its libraries.
    for name in ("debian_version", "os-release"):
        copy(pathlib.Path("/etc", name), root, pathlib.Path("/etc", name), 0o644)
    write(root, "/etc/nsswitch.conf", "hosts: files dns\n")
    write(root, "/etc/passwd", f"gemmd:x:{USER}:{USER}::/nonexistent:/nonexistent\n")
    write(root, "/etc/group", f"gemmd:x:{USER}:\n")
    (root / "tmp").mkdir()
    settle(root, epoch)
    print(f"{len(programs)} programs, {len(places)} shared libraries of {len({*owners.values()})} packages, "
          f"{sum(each.is_linked for each in packages)} packages linked in")


if __name__ == "__main__":
    main()
