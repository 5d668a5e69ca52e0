"""Mistakes in Kubernetes' objects that no schema knows: where their parts disagree with each other or with gemmd's options.

Objects are what YAML says, as dicts. Each rule yields its complaints as text; complaints() asks them all.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
# Beside what options bound, a process takes as much (docs/operations.md).
BESIDE = 1 << 30
# From the drain's end to the process's.
MARGIN_SECONDS = 5
# Fields of custom resources, by their definitions: prometheus-operator 0.93.0, KEDA 2.20.2. None of Kubernetes' schemas
# knows them, and a field that is misspelt is no error there.
CUSTOM = {
    "ServiceMonitor": {
        "spec.jobLabel", "spec.selector.matchLabels.*", "spec.endpoints.port", "spec.endpoints.interval",
        "spec.endpoints.scheme", "spec.endpoints.tlsConfig.serverName", "spec.endpoints.tlsConfig.ca.secret.name",
        "spec.endpoints.tlsConfig.ca.secret.key", "spec.endpoints.authorization.credentials.name",
        "spec.endpoints.authorization.credentials.key"},
    "PrometheusRule": {
        "spec.groups.name", "spec.groups.rules.alert", "spec.groups.rules.expr", "spec.groups.rules.for",
        "spec.groups.rules.labels.*", "spec.groups.rules.annotations.*"},
    "ScaledObject": {
        "spec.scaleTargetRef.apiVersion", "spec.scaleTargetRef.kind", "spec.scaleTargetRef.name",
        "spec.minReplicaCount", "spec.maxReplicaCount", "spec.triggers.type", "spec.triggers.metricType",
        "spec.triggers.metadata.*",
        *(f"spec.advanced.horizontalPodAutoscalerConfig.behavior.{way}.{field}" for way in ("scaleUp", "scaleDown")
          for field in ("stabilizationWindowSeconds", "policies.type", "policies.value", "policies.periodSeconds"))},
}


def defaults():
    """Each option of gemmd with its default, by its flag's name."""
    found, message = {}, ""
    for line in (ROOT / "deploy/gemmd.textproto").read_text().splitlines():
        if opened := re.match(r"(\w+) \{$", line):
            message = opened[1] + "."
        elif line == "}":
            message = ""
        elif option := re.match(r"  #(\w+): (.+)$" if message else r"#(\w+): (.+)$", line):
            found[(message + option[1]).replace("_", "-")] = option[2].strip('"')
    return found


DEFAULTS = defaults()


def quantity(text):
    """Bytes of a quantity such as 16Gi."""
    match = re.fullmatch(r"(\d+)(\w*)", str(text))
    if not match or match[2] not in UNITS:
        raise ValueError(f"{text} is no quantity of bytes in {', '.join(filter(None, UNITS))}")
    return int(match[1]) * UNITS[match[2]]


def of_kind(objects, *kinds):
    return [each for each in objects if each["kind"] in kinds]


class Server:
    """The pod of gemmd among the objects, with the options of its arguments."""

    def __init__(self, objects):
        workloads = [each for each in of_kind(objects, "Deployment", "StatefulSet") if each["metadata"]["name"] == "gemmd"]
        if len(workloads) != 1:
            raise ValueError(f"{len(workloads)} Deployments and StatefulSets have the name gemmd, where one should")
        (self.workload,) = workloads
        self.objects = objects
        self.template = self.workload["spec"]["template"]
        self.pod = self.template["spec"]
        (self.container,) = [each for each in self.pod["containers"] if each["name"] == "gemmd"]
        self.given = {name: value or "on" for name, _, value in
                      (each.removeprefix("--").partition("=") for each in self.container["args"])}

    def option(self, name):
        return self.given.get(name, DEFAULTS[name])

    def number(self, name):
        return int(self.option(name))

    @property
    def limits(self):
        return self.container["resources"].get("limits", {})

    @property
    def has_tls(self):
        return bool(self.option("tls.certificate-file"))


def unknown_options(server):
    for name in server.given:
        if name not in DEFAULTS:
            yield f"--{name} is no option of gemmd"
    if len(server.given) != len(server.container["args"]):
        yield "an option is given twice"


def memory(server):
    """The limit holds what the options let the server take."""
    limits, requests = server.limits, server.container["resources"].get("requests", {})
    if limits.get("memory") != requests.get("memory"):
        yield f"memory: the request is {requests.get('memory')}, the limit {limits.get('memory')}: they should be one"
    limit = quantity(limits["memory"])
    parts = {"limits.receive-memory-bytes": max(server.number("limits.receive-memory-bytes") or limit // 8,
                                                3 * server.number("limits.message-bytes")),
             "observe.trace-bytes": server.number("observe.trace-bytes"), "beside": BESIDE}
    if server.option("device") == "cpu":
        parts["cpu.memory-bytes"] = server.number("cpu.memory-bytes") or limit // 2
    else:
        devices = sum(int(count) for name, count in limits.items() if name.startswith("nvidia.com/"))
        parts["cuda.pinned-bytes"] = devices * server.number("cuda.pinned-bytes")
        parts["cuda.unpinned-bytes"] = server.number("cuda.unpinned-bytes") or limit // 2
    if server.option("shared-memory.name-prefix"):
        parts["shared-memory.max-bytes"] = server.number("shared-memory.max-bytes")
    if sum(parts.values()) > limit:
        yield f"memory: the limit is {limits['memory']}, and the options take {sum(parts.values()) / (1 << 30):.1f}Gi: {parts}"


def device(server):
    """The device that is asked for is the one that the pod gets."""
    gpus = [name for name in server.limits if name.startswith("nvidia.com/")]
    wanted = server.option("device")
    if wanted not in ("cpu", "cuda"):
        yield f"--device is {wanted}: a server whose GPU is missing would compute on the CPU"
    if (wanted == "cuda") != bool(gpus):
        yield f"--device is {wanted}, and the limits have {gpus or 'no GPU'}"
    if bool(gpus) != ("runtimeClassName" in server.pod):
        yield "runtimeClassName is for pods with a GPU, and for all of them"
    if wanted == "cpu" and server.limits.get("cpu") != server.container["resources"]["requests"].get("cpu"):
        yield "cpu: request and limit should be one, because the server has as many threads as the limit has CPUs"


def ending(server):
    """The grace period is longer than the pause, the drain and the answers after it."""
    pause = server.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    if pause < 1:
        yield "preStop has no sleep: calls are refused that come before endpoints are updated"
    wait = (server.number("lifecycle.drain-timeout-ms") + server.number("lifecycle.send-timeout-ms")) / 1000
    needed = pause + wait + MARGIN_SECONDS
    grace = server.pod.get("terminationGracePeriodSeconds", 30)
    if grace < needed:
        yield f"terminationGracePeriodSeconds is {grace}, and preStop with the drain takes up to {needed:.0f} s"


def port_of(address):
    return int(address.rpartition(":")[2])


def ports(server):
    """Listeners, the container's ports and whatever names them agree."""
    named = {each["name"]: each["containerPort"] for each in server.container["ports"]}
    listening = {"grpc": port_of(server.option("listen")), "metrics": port_of(server.option("observe.listen"))}
    if named != listening:
        yield f"ports: the container names {named}, and the options listen on {listening}"
    annotated = server.template["metadata"].get("annotations", {}).get("prometheus.io/port")
    if annotated != str(listening["metrics"]):
        yield f"prometheus.io/port is {annotated}, and metrics are on {listening['metrics']}"
    for service in of_kind(server.objects, "Service"):
        name = service["metadata"]["name"]
        for port in service["spec"]["ports"]:
            if listening.get(port["targetPort"]) != port["port"]:
                yield f"Service {name}: port {port['port']} leads to {port['targetPort']}"
        if name != "gemmd-metrics" and any(each["targetPort"] != "grpc" for each in service["spec"]["ports"]):
            yield f"Service {name}: clients' Service has the numbers of others"
    for policy in of_kind(server.objects, "NetworkPolicy"):
        opened = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        if not opened <= set(named):
            yield f"NetworkPolicy opens {sorted(opened - set(named))}, which no port is called"
        if any(not rule.get("from") for rule in policy["spec"]["ingress"]):
            yield "NetworkPolicy: a rule without `from` lets everybody in"
    for monitor in of_kind(server.objects, "ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["port"] != "metrics":
                yield f"ServiceMonitor scrapes {endpoint['port']}, which no port is called"
            if (endpoint.get("scheme") == "https") != server.has_tls:
                yield "ServiceMonitor: scheme https goes with TLS"
            if bool(server.option("auth.policy-file")) != ("authorization" in endpoint):
                yield "ServiceMonitor: authorization goes with a policy"


def protection(server):
    """TLS or plain text, and probes that can speak it."""
    if server.has_tls == (server.option("insecure") == "on"):
        yield "one of --insecure and --tls.certificate-file should be given"
    mounts = [each["mountPath"] for each in server.container.get("volumeMounts", [])]
    for name, value in server.given.items():
        if name.endswith("-file") and not any(value.startswith(mount + "/") for mount in mounts):
            yield f"--{name} is {value}, where nothing is mounted"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        settings = server.container.get(probe, {})
        if server.has_tls and "grpc" in settings:
            yield f"{probe}: the kubelet's gRPC probe is plain text, and the server has TLS"
        if not server.has_tls and settings.get("grpc", {}).get("port") != port_of(server.option("listen")):
            yield f"{probe} does not ask the port of --listen"
        page = settings.get("httpGet", {})
        asks = page.get("port") == "metrics" and page.get("scheme") == "HTTPS" and page.get("path") in ("/healthz", "/readyz")
        if server.has_tls and not asks and settings.get("exec", {}).get("command", [])[:2] != ["/usr/local/bin/gemm", "health"]:
            yield f"{probe} asks neither by gemm health nor for a page over HTTPS"
        if probe != "readinessProbe" and "exec" in settings:
            yield f"{probe} checks the certificate, which a new start does not mend"


def confinement(server):
    """Pod Security's profile `restricted`, and a root file system that nothing is written to."""
    pod, container = server.pod.get("securityContext", {}), server.container.get("securityContext", {})
    wanted = [(pod, "runAsNonRoot", True), (pod, "seccompProfile", {"type": "RuntimeDefault"}),
              (container, "allowPrivilegeEscalation", False), (container, "readOnlyRootFilesystem", True),
              (container, "capabilities", {"drop": ["ALL"]})]
    for context, name, value in wanted:
        if context.get(name) != value:
            yield f"securityContext: {name} is {context.get(name)}, not {value}"
    for name in ("hostNetwork", "hostIPC", "hostPID"):
        if server.pod.get(name):
            yield f"{name} is on"
    for volume in server.pod.get("volumes", []):
        if not set(volume) <= {"name", "emptyDir", "secret"}:
            yield f"volume {volume['name']} is neither a Secret nor an emptyDir"


def shared_memory(server):
    volumes = {each["name"]: each for each in server.pod.get("volumes", [])}
    mounts = {each["mountPath"]: each["name"] for each in server.container.get("volumeMounts", [])}
    if not set(mounts.values()) <= set(volumes):
        yield f"volumeMounts name {sorted(set(mounts.values()) - set(volumes))}, which no volume is called"
    if not server.option("shared-memory.name-prefix"):
        if "/dev/shm" in mounts:
            yield "/dev/shm is mounted, and --shared-memory.name-prefix is not given"
        return
    volume = volumes.get(mounts.get("/dev/shm"), {}).get("emptyDir", {})
    if volume.get("medium") != "Memory":
        yield "shared memory needs an emptyDir of medium Memory at /dev/shm"
    elif quantity(volume.get("sizeLimit", "0")) < server.number("shared-memory.max-bytes"):
        yield f"/dev/shm is of {volume.get('sizeLimit')}, and --shared-memory.max-bytes is {server.option('shared-memory.max-bytes')}"


def selectors(server):
    """Whatever selects pods selects these, and a StatefulSet has its headless Service."""
    labels = server.template["metadata"]["labels"]
    chosen = [("the workload", server.workload["spec"]["selector"]["matchLabels"])]
    chosen += [("a topology spread", each["labelSelector"]["matchLabels"])
               for each in server.pod["topologySpreadConstraints"]]
    for each in of_kind(server.objects, "Service", "PodDisruptionBudget", "NetworkPolicy"):
        spec, name = each["spec"], f"{each['kind']} {each['metadata']['name']}"
        chosen.append((name, spec["selector"] if each["kind"] == "Service" else
                       spec.get("selector", spec.get("podSelector"))["matchLabels"]))
    for name, selector in chosen:
        if not selector.items() <= labels.items():
            yield f"{name} selects {selector}, and the pod has {labels}"
    services = {each["metadata"]["name"]: each for each in of_kind(server.objects, "Service")}
    for monitor in of_kind(server.objects, "ServiceMonitor"):
        selector = monitor["spec"]["selector"]["matchLabels"]
        found = [name for name, each in services.items() if selector.items() <= each["metadata"]["labels"].items()]
        if found != ["gemmd-metrics"]:
            yield f"ServiceMonitor selects the Services {found}"
        elif services[found[0]]["metadata"]["labels"][monitor["spec"]["jobLabel"]] != "gemmd":
            yield "ServiceMonitor: the alerts ask for job=\"gemmd\""
    if server.workload["kind"] == "StatefulSet":
        name = server.workload["spec"]["serviceName"]
        if services.get(name, {}).get("spec", {}).get("clusterIP") != "None":
            yield f"serviceName is {name}, which is no headless Service"


def disruption(server):
    budgets = of_kind(server.objects, "PodDisruptionBudget")
    if len(budgets) != 1 or budgets[0]["spec"].get("maxUnavailable") != 1 or "minAvailable" in budgets[0]["spec"]:
        yield "one PodDisruptionBudget of maxUnavailable 1 should be there: minAvailable 1 keeps a lone replica for ever"
    rolling = server.workload["spec"].get("strategy", {}).get("rollingUpdate", {})
    if server.option("device") == "cuda" and rolling.get("maxSurge", 0) != 0:
        yield "maxSurge: a new server cannot have the GPU before the old one gives it back"


def scaling(server):
    scalers = of_kind(server.objects, "HorizontalPodAutoscaler", "ScaledObject")
    if len(scalers) > 1:
        yield "two scalers would change the number of servers in turns"
    if scalers and "replicas" in server.workload["spec"]:
        yield "replicas: each apply would undo what the scaler did"
    pages = (ROOT / "docs/operations.md").read_text()
    for scaler in scalers:
        target = scaler["spec"]["scaleTargetRef"]
        if (target["kind"], target["name"]) != (server.workload["kind"], "gemmd"):
            yield f"{scaler['kind']} scales {target['kind']} {target['name']}, which is not there"
        for metric in re.findall(r"gemmd_\w+", str(scaler["spec"])):
            if f"`{metric}`" not in pages:
                yield f"{scaler['kind']} asks for {metric}, which is no metric of docs/operations.md"


def leaves(value, path):
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each, path)
    else:
        yield path


def custom_fields(server):
    for each in of_kind(server.objects, *CUSTOM):
        known = CUSTOM[each["kind"]]
        for path in leaves(each["spec"], "spec"):
            if path not in known and path.rpartition(".")[0] + ".*" not in known:
                yield f"{each['kind']} has {path}, which is no known field"


RULES = [unknown_options, memory, device, ending, ports, protection, confinement, shared_memory, selectors, disruption,
         scaling, custom_fields]


def complaints(objects):
    server = Server(objects)
    unknown = list(unknown_options(server))
    # Other rules read options.
    return unknown or [each for rule in RULES for each in rule(server)]


def prometheus_rule(alerts):
    """The alerts as the Prometheus operator takes them, from the text of deploy/observe/alerts.yaml."""
    lines = [line for line in alerts.splitlines() if not line.lstrip().startswith("#")]
    head = ["# deploy/check/kubernetes.py --write makes this of deploy/observe/alerts.yaml.",
            "apiVersion: monitoring.coreos.com/v1", "kind: PrometheusRule", "metadata:", "  name: gemmd",
            "  labels: {app: gemmd}", "spec:"]
    return "\n".join(head + [f"  {line}" if line else line for line in lines]) + "\n"
