#!/usr/bin/env python3
"""deploy/check/manifests.py finds each of these mistakes in manifests that are right without them.

deploy/check/kubernetes.sh runs it, because it needs PyYAML, which the tests of Bazel do without.
"""
import copy
import pathlib
import sys
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/check"))
import manifests  # noqa: E402

RENDERED = {path.stem: list(yaml.safe_load_all(path.read_text()))
            for path in (ROOT / "deploy/kubernetes/rendered").glob("*.yaml")}


def find(objects, kind, name="gemmd"):
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def workload(objects):
    (found,) = [each for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    return found


def pod(objects):
    return workload(objects)["spec"]["template"]["spec"]


def container(objects):
    return pod(objects)["containers"][0]


def give(option):
    """Replaces the option, or adds it."""
    def change(objects):
        arguments, name = container(objects)["args"], option.partition("=")[0]
        arguments[:] = [each for each in arguments if each.partition("=")[0] != name] + [option]
    return change


def put(of, *path):
    """Sets the last of `path` at the keys before it."""
    def change(objects):
        place = of(objects)
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]
    return change


def drop(of, *path):
    def change(objects):
        place = of(objects)
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
    return change


def of_kind(kind, name="gemmd"):
    return lambda objects: find(objects, kind, name)


# An overlay, what is done to it, and a part of the complaint.
MISTAKES = [
    ("cpu", give("--lifecycle.drain-timeout=1"), "--lifecycle.drain-timeout is no option of gemmd"),
    ("cpu", give("--cpu.memory-bytes=3221225472"), "memory: the limit is 4Gi"),
    ("nvidia", give("--cuda.pinned-bytes=8589934592"), "memory: the limit is 16Gi"),
    ("mig", give("--cuda.pinned-bytes=4294967296"), "memory: the limit is 8Gi"),
    ("nvidia", put(container, "resources", "limits", "nvidia.com/gpu", "2"), "memory: the limit is 16Gi"),
    ("nvidia", put(container, "resources", "requests", "memory", "8Gi"), "they should be one"),
    ("cpu", put(container, "resources", "requests", "cpu", "1"), "as many threads as the limit"),
    ("cpu", give("--device=auto"), "would compute on the CPU"),
    ("cpu", give("--device=cuda"), "the limits have no GPU"),
    ("nvidia", drop(pod, "runtimeClassName"), "runtimeClassName"),
    ("cpu", put(pod, "terminationGracePeriodSeconds", 45), "terminationGracePeriodSeconds is 45"),
    ("cpu", give("--lifecycle.drain-timeout-ms=60000"), "takes up to 80 s"),
    ("cpu", drop(container, "lifecycle"), "preStop has no sleep"),
    ("cpu", give("--listen=0.0.0.0:50052"), "ports: the container names"),
    ("cpu", put(lambda objects: workload(objects)["spec"]["template"], "metadata", "annotations", {}), "prometheus.io/port"),
    ("cpu", put(of_kind("Service"), "spec", "ports", 0, "targetPort", "metrics"), "has the numbers of others"),
    ("cpu", put(of_kind("NetworkPolicy"), "spec", "ingress", 0, "ports", 0, "port", "http"), "which no port is called"),
    ("cpu", drop(of_kind("NetworkPolicy"), "spec", "ingress", 0, "from"), "lets everybody in"),
    ("tls", give("--insecure"), "one of --insecure and --tls.certificate-file"),
    ("tls", put(container, "readinessProbe", {"grpc": {"port": 50051}}), "gRPC probe is plain text"),
    ("tls", put(container, "livenessProbe", "httpGet", "scheme", "HTTP"), "nor for a page over HTTPS"),
    ("tls", put(container, "readinessProbe", "exec", "command", ["/bin/true"]), "asks neither by gemm health"),
    ("tls", put(container, "livenessProbe", {"exec": {"command": ["/usr/local/bin/gemm", "health"]}}), "checks the certificate"),
    ("tls", drop(container, "volumeMounts", 1), "where nothing is mounted"),
    ("tls", drop(pod, "volumes", 0), "which no volume is called"),
    ("cpu", drop(container, "livenessProbe"), "livenessProbe does not ask"),
    ("cpu", drop(container, "securityContext", "capabilities"), "capabilities is None"),
    ("cpu", put(pod, "hostIPC", True), "hostIPC is on"),
    ("cpu", put(pod, "volumes", [{"name": "x", "hostPath": {"path": "/"}}]), "neither a Secret nor an emptyDir"),
    ("shared-memory", put(pod, "volumes", 0, "emptyDir", "sizeLimit", "4Gi"), "/dev/shm is of 4Gi"),
    ("shared-memory", drop(container, "volumeMounts"), "of medium Memory at /dev/shm"),
    ("cpu", put(of_kind("PodDisruptionBudget"), "spec", "selector", "matchLabels", "app", "gemm"), "selects {'app': 'gemm'}"),
    ("cpu", put(of_kind("PodDisruptionBudget"), "spec", {"minAvailable": 1, "selector": {"matchLabels": {"app": "gemmd"}}}),
     "of maxUnavailable 1"),
    ("fleet", put(of_kind("Service"), "spec", "clusterIP", "10.0.0.1"), "is no headless Service"),
    ("fleet", put(of_kind("Service", "gemmd-metrics"), "metadata", "labels", "app", "metrics"), "selects the Services []"),
    ("fleet", put(of_kind("HorizontalPodAutoscaler"), "spec", "scaleTargetRef", "kind", "Deployment"), "which is not there"),
    ("fleet", put(of_kind("HorizontalPodAutoscaler"), "spec", "metrics", 0, "pods", "metric", "name", "gemmd_queue_seconds"),
     "no metric of docs/operations.md"),
    ("fleet", put(workload, "spec", "replicas", 2), "undo what the scaler did"),
    ("fleet", put(of_kind("ServiceMonitor"), "spec", "endpoints", 0, "scheme", "https"), "goes with TLS"),
    ("fleet", put(of_kind("ServiceMonitor"), "spec", "endpoints", 0, "intervall", "15s"), "spec.endpoints.intervall"),
    ("nvidia", put(workload, "spec", "strategy", "rollingUpdate", "maxSurge", 1), "maxSurge"),
]


class ManifestsTest(unittest.TestCase):
    def test_what_is_committed_has_no_mistake(self):
        for name, objects in RENDERED.items():
            self.assertEqual([], manifests.complaints(objects), name)

    def test_each_mistake_is_found(self):
        for overlay, change, complaint in MISTAKES:
            with self.subTest(complaint):
                objects = copy.deepcopy(RENDERED[overlay])
                change(objects)
                found = manifests.complaints(objects)
                self.assertTrue(any(complaint in each for each in found), f"{complaint!r} is not in {found}")

    def test_each_rule_has_a_mistake(self):
        """A rule that finds nothing in all of them could be left out."""
        for rule in manifests.RULES:
            with self.subTest(rule.__name__):
                found = []
                for overlay, change, _ in MISTAKES:
                    objects = copy.deepcopy(RENDERED[overlay])
                    change(objects)
                    try:
                        found += list(rule(manifests.Server(objects)))
                    except (KeyError, StopIteration):
                        continue
                self.assertTrue(found)

    def test_a_quantity_that_is_none_is_refused(self):
        for text in ("16G ", "1.5Gi", "Gi", "4GiB"):
            with self.assertRaises(ValueError):
                manifests.quantity(text)
        self.assertEqual(16 << 30, manifests.quantity("16Gi"))

    def test_the_rules_of_alerts_are_copied_whole(self):
        alerts = (ROOT / "deploy/observe/alerts.yaml").read_text()
        made = yaml.safe_load(manifests.prometheus_rule(alerts))
        self.assertEqual(yaml.safe_load(alerts)["groups"], made["spec"]["groups"])


if __name__ == "__main__":
    unittest.main()
