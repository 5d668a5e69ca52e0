#!/usr/bin/env python3
"""Every file that starts gemmd in a container serves /metrics, where others may scrape it, and by options there are."""
import pathlib
import re
import sys
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/check"))
sys.dont_write_bytecode = True
import manifests  # noqa: E402

PORT = "9464"
FILES = {
    "deploy/image/Containerfile": rf"^EXPOSE .*\b{PORT}\b",
    # Published for this host alone.
    "deploy/compose/compose.yaml": rf'^ *ports: .*"127\.0\.0\.1:{PORT}:{PORT}"',
}
# Rendered, all of them, and checked further by deploy/check/kubernetes.sh.
RENDERED = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "deploy/kubernetes/rendered").iterdir())
FILES.update({path: rf"^ *- containerPort: {PORT}\n *name: metrics$" for path in RENDERED})


def options(text):
    """The options of gemmd that a file's lines give, without comments: {name: value, or None}."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = re.findall(r"--([a-z][a-z0-9.-]*)(?:=([^\s\"',\]]+))?", "\n".join(lines))
    return {name: value or None for name, value in found}


class ObservedTest(unittest.TestCase):
    def test_each_file_that_starts_gemmd_is_known_here(self):
        starting = {path.relative_to(ROOT).as_posix() for folder in ("image", "compose", "kubernetes/rendered")
                    for path in (ROOT / "deploy" / folder).iterdir() if "--listen=" in path.read_text()}
        self.assertEqual(set(FILES), starting)

    def test_metrics_are_served_where_others_reach_them(self):
        for path, published in FILES.items():
            text = (ROOT / path).read_text()
            given = options(text)
            self.assertEqual(f"0.0.0.0:{PORT}", given.get("observe.listen"), path)
            # docs/security.md: beyond loopback only with TLS, or by --insecure.
            self.assertTrue("insecure" in given or "tls.certificate-file" in given, path)
            self.assertRegex(text, re.compile(published, re.M), path)

    def test_kubernetes_has_the_alerts_of_the_one_source(self):
        alerts = (ROOT / "deploy/observe/alerts.yaml").read_text()
        made = (ROOT / "deploy/kubernetes/components/observe/rules.yaml").read_text()
        self.assertEqual(manifests.prometheus_rule(alerts), made, "deploy/check/kubernetes.py --write makes it anew")

    def test_options_are_read_from_commands_alone(self):
        self.assertEqual({"listen": "0.0.0.0:1", "insecure": None},
                         options('# --observe.listen=x\nCMD ["--listen=0.0.0.0:1", "--insecure"]'))


if __name__ == "__main__":
    unittest.main()
