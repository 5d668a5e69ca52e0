#!/usr/bin/env python3
"""Every file that starts gemmd in a container serves /metrics, where others may scrape it, and by options there are."""
import pathlib
import re
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
PORT = "9464"
FILES = {
    "deploy/image/Containerfile": rf"^EXPOSE .*\b{PORT}\b",
    # Published for this host alone.
    "deploy/compose/compose.yaml": rf'^ *ports: .*"127\.0\.0\.1:{PORT}:{PORT}"',
    "deploy/kubernetes/gemmd.yaml": rf"^ *- \{{name: metrics, containerPort: {PORT}\}}",
}


def options(text):
    """The options of gemmd that a file's lines give, without comments: {name: value, or None}."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = re.findall(r"--([a-z][a-z0-9.-]*)(?:=([^\s\"',\]]+))?", "\n".join(lines))
    return {name: value or None for name, value in found}


class ObservedTest(unittest.TestCase):
    def test_each_file_that_starts_gemmd_is_known_here(self):
        starting = {path.relative_to(ROOT).as_posix() for folder in ("image", "compose", "kubernetes")
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

    def test_kubernetes_scrapes_the_port_and_probes_what_clients_use(self):
        text = (ROOT / "deploy/kubernetes/gemmd.yaml").read_text()
        self.assertIn(f'prometheus.io/port: "{PORT}"', text)
        for probe in ("startup", "readiness", "liveness"):
            self.assertRegex(text, rf"{probe}Probe:\n *grpc: \{{port: 50051\}}")
        service = text.partition("kind: Service")[2]
        self.assertNotIn(PORT, service, "clients' Service has no numbers of others")

    def test_options_are_read_from_commands_alone(self):
        self.assertEqual({"listen": "0.0.0.0:1", "insecure": None},
                         options('# --observe.listen=x\nCMD ["--listen=0.0.0.0:1", "--insecure"]'))


if __name__ == "__main__":
    unittest.main()
