#!/usr/bin/env python3
"""deploy/release.sh in a repository of its own: what it refuses, what it runs, and what it tags.

Bazel, strip and .ci/run are stand-ins that write down that they were called; git, the wheel's
builder and everything else are real.
"""
import datetime
import hashlib
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["LICENSE", "base/version.h", ".gitignore", "client/python", "proto", "deploy/release.sh",
          "deploy/bazel_cache.sh", "deploy/packages.txt", "client/c/install.sh", "client/include/gemmd"]
CHANGES = "### Safety\n- Nothing breaks.\n\n### Features\n- `gemmd` multiplies.\n"
CI = """#!/bin/sh
echo "ci $*" >>"$RECORD"
[ -z "$CHANGES_THE_TREE" ] || echo more >>README.md
exit "${CI_STATUS:-0}"
"""
BAZEL = """#!/bin/sh
echo "bazel $*" >>"$RECORD"
for program in server/gemmd client/cli/gemm; do
  mkdir -p "bazel-bin/$(dirname $program)"
  printf '#!/bin/sh\\necho "%s %s"\\n' "$(basename $program)" "${BUILT_VERSION:-1.2.3}" >"bazel-bin/$program"
  chmod +x "bazel-bin/$program"
done
mkdir -p bazel-bin/client/c && echo library >bazel-bin/client/c/libgemmd.so.0
mkdir -p bazel-bin/client/blas && echo library >bazel-bin/client/blas/libgemmd_blas.so
"""


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = pathlib.Path(self.folder.name, "tree")
        self.record = pathlib.Path(self.folder.name, "record")
        self.programs = pathlib.Path(self.folder.name, "bin")
        for path in COPIED:
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, self.tree / path, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, self.tree / path)
        self.version = subprocess.run(["sed", "-n", r's/.*"\(.*\)";/\1/p', "base/version.h"], cwd=self.tree,
                                      check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        for path in ["base/version.h", "client/python/BUILD.bazel", "client/python/README.md"]:
            self.edit(path, self.version, "1.2.3")
        self.write("README.md", "# gemmd\n")
        self.write("CHANGELOG.md", f"# Changelog\n\n## 1.2.3 (2026-01-02)\n\n{CHANGES}\n## 1.2.2 (2026-01-01)\n\nOld.\n")
        self.write(".ci/run", CI, is_program=True)
        self.programs.mkdir()
        self.write(self.programs / "bazel", BAZEL, is_program=True)
        self.write(self.programs / "strip", "#!/bin/sh\n", is_program=True)
        self.environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}",
                            "RECORD": str(self.record), "GIT_CONFIG_GLOBAL": "/dev/null",
                            "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "Somebody",
                            "GIT_AUTHOR_EMAIL": "somebody@example.org", "GIT_COMMITTER_NAME": "Somebody",
                            "GIT_COMMITTER_EMAIL": "somebody@example.org"}
        self.git("init", "-q", "-b", "main")
        self.commit()

    def write(self, path, text, is_program=False):
        path = self.tree / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if is_program else 0o644)

    def edit(self, path, old, new):
        text = (self.tree / path).read_text()
        self.assertIn(old, text, path)
        (self.tree / path).write_text(text.replace(old, new))

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], cwd=self.tree, env=self.environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")

    def release(self, *arguments, **environment):
        return subprocess.run(["deploy/release.sh", *arguments], cwd=self.tree,
                              env={**self.environment, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)

    def ran(self):
        return self.record.read_text().splitlines() if self.record.exists() else []

    def expect_refused(self, complaint, *arguments, **environment):
        tags = self.git("tag")
        result = self.release(*(arguments or ["1.2.3"]), **environment)
        self.assertNotEqual(0, result.returncode, result.stdout)
        self.assertIn(complaint, result.stdout)
        self.assertEqual(tags, self.git("tag"), "nothing is tagged")

    def test_a_dry_run_checks_everything_and_does_nothing(self):
        result = self.release("--dry-run", "1.2.3")
        self.assertEqual(0, result.returncode, result.stdout)
        self.assertEqual(6, result.stdout.count("ok      "), result.stdout)
        for step in ("ci", "binaries", "wheel", "tag"):
            self.assertIn(f"would   {step}: ", result.stdout)
        self.assertEqual([], self.ran())
        self.assertEqual("", self.git("tag"))
        self.assertFalse((self.tree / "release").exists())

    def test_a_release_passes_ci_builds_and_tags(self):
        result = self.release("1.2.3")
        self.assertEqual(0, result.returncode, result.stdout)
        self.assertEqual("ci --whole", self.ran()[0])
        self.assertIn("//server:gemmd //client/cli:gemm //client/c:libgemmd //client/blas:libgemmd_blas", self.ran()[1])
        self.assertEqual(self.git("rev-parse", "HEAD"), self.git("rev-parse", "v1.2.3^{commit}"))
        self.assertEqual(f"gemmd 1.2.3\n\n{CHANGES}", self.git("for-each-ref", "--format=%(contents)",
                                                              "refs/tags/v1.2.3").rstrip("\n") + "\n")
        released = self.tree / "release/1.2.3"
        sums = dict(reversed(line.split()) for line in (released / "SHA256SUMS").read_text().splitlines())
        self.assertEqual({"gemmd-1.2.3-linux-amd64.tar.xz", "gemmd_client-1.2.3-py3-none-any.whl"}, set(sums))
        for name, digest in sums.items():
            self.assertEqual(digest, hashlib.sha256((released / name).read_bytes()).hexdigest())
        with tarfile.open(released / "gemmd-1.2.3-linux-amd64.tar.xz") as archive:
            names = {pathlib.PurePath(name).name for name in archive.getnames()}
        self.assertLessEqual({"gemmd", "gemm", "libgemmd.so.0", "libgemmd.so", "libgemmd_blas.so", "gemmd.h", "gemmd.pc",
                              "LICENSE", "README.md", "CHANGELOG.md"}, names)
        self.assertEqual("", self.git("status", "--porcelain"))

    def test_what_ci_does_not_pass_is_not_tagged(self):
        self.expect_refused("== ci", CI_STATUS="1")
        self.assertEqual(["ci --whole"], self.ran())

    def test_a_tree_that_changes_meanwhile_is_not_tagged(self):
        self.expect_refused("the tree changed meanwhile", CHANGES_THE_TREE="1")

    def test_programs_of_another_version_are_not_released(self):
        self.expect_refused('what was built says "gemmd 1.2.2"', BUILT_VERSION="1.2.2")

    def test_a_step_is_left_out_by_its_name_and_the_tag_says_so(self):
        result = self.release("--skip=ci", "--skip=wheel", "1.2.3")
        self.assertEqual(0, result.returncode, result.stdout)
        self.assertNotIn("ci --whole", self.ran())
        self.assertIn("Left out: ci wheel.", self.git("tag", "-n9", "--list", "v1.2.3"))
        self.assertEqual(["SHA256SUMS", "gemmd-1.2.3-linux-amd64.tar.xz"],
                         sorted(os.listdir(self.tree / "release/1.2.3")))

    def test_no_check_of_the_tree_can_be_left_out(self):
        for name in ("", "tree", "all", "changelog", "ci,wheel"):
            self.expect_refused("is no step that can be left out", f"--skip={name}", "1.2.3")

    def test_arguments(self):
        for arguments in (["--dry-run"], ["1.2"], ["v1.2.3"], ["1.2.03"], ["1.2.3", "1.2.4"], ["--force", "1.2.3"]):
            self.expect_refused("usage: ", *arguments)

    def test_changes_that_are_not_committed(self):
        self.write("new.txt", "")
        self.expect_refused("not committed:\n?? new.txt")
        self.assertEqual([], self.ran())

    def test_a_header_or_a_wheel_of_another_version(self):
        self.edit("base/version.h", "1.2.3", "1.2.4")
        self.commit()
        self.expect_refused('base/version.h says "1.2.4"')
        self.expect_refused('the Python client says "1.2.4"')
        self.edit("base/version.h", "1.2.4", "1.2.3")
        self.edit("client/python/BUILD.bazel", "1.2.3", "1.2.33")
        self.commit()
        self.expect_refused("other versions are named:\nclient/python/BUILD.bazel:")

    def test_a_changelog_without_the_version(self):
        for heading, complaint in (("## 1.2.3 (unreleased)", "should with"), ("## 1.2.4 (2026-01-02)", "should with"),
                                   ("## 1.2.3 (2026-02-30)", "is no day"),
                                   (f"## 1.2.3 ({datetime.date.today().year + 1}-01-01)", "has not come yet"),
                                   ("## 1.2.3 (2026-01-02)\n\n## 1.2.2 (2026-01-01)", "says nothing of 1.2.3")):
            self.write("CHANGELOG.md", f"# Changelog\n\n{heading}\n\n{CHANGES}")
            self.commit()
            self.expect_refused(complaint)

    def test_a_tag_that_is_there_or_of_a_later_version(self):
        self.git("tag", "v1.10.0")
        self.expect_refused("the tag v1.10.0 is of a later version")
        self.git("tag", "v1.2.3")
        self.expect_refused("the tag v1.2.3 is there already")


if __name__ == "__main__":
    unittest.main()
