"""A real API server of Kubernetes, with its etcd, in a container; what its administrator does there for a test."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import time
from http import HTTPStatus
from pathlib import Path

import yaml
from kubernetes import client, config
from kubernetes.client.rest import ApiException
from urllib3.exceptions import HTTPError

ROOT = Path(__file__).parents[2]
NAMESPACE, ROLE = "lab", "gpulab-fence"
# What docs/fleet.md says that the fence's user has to be allowed
RIGHTS = ("list nodes", "patch nodes", "list pods")
ADMIN = "administrator"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "authorization.k8s.io"}]},  # the tests ask by that
        {"level": "Metadata", "users": ["gpulab"]},
        {"level": "None"},
    ],
}
START = """
etcd --data-dir /var/lib/etcd >/dev/null 2>&1 &
exec kube-apiserver --etcd-servers=http://127.0.0.1:2379 --service-cluster-ip-range=10.96.0.0/24 \
  --tls-cert-file=/given/crt --tls-private-key-file=/given/key --token-auth-file=/given/tokens \
  --service-account-issuer=https://lab --service-account-key-file=/given/key \
  --service-account-signing-key-file=/given/key --disable-admission-plugins=ServiceAccount --authorization-mode=RBAC \
  --audit-policy-file=/given/policy --audit-log-path=/given/audit --audit-log-mode=blocking
"""
UP_SECONDS = 120


class Server:
    """The container. token: that of the fence's user."""

    def __init__(self, image, directory, token):
        """Make certificate, tokens and settings, and start it."""
        self.directory = directory
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = found.getsockname()[1]
        argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lab"]
        files = ["-keyout", directory / "key", "-out", directory / "crt", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*argv, *files], check=True, capture_output=True)
        (directory / "audit").touch()
        (directory / "policy").write_text(yaml.safe_dump(POLICY))
        with (directory / "tokens").open("w") as file:
            csv.writer(file).writerows([(token, "gpulab", "1"), (ADMIN, "admin", "2", "system:masters")])
        self._tokens = {"gpulab": token, "admin": ADMIN}
        self._name = f"gpulab-cluster-{os.getpid()}"
        argv = ["docker", "run", "--detach", "--name", self._name, "--publish", f"127.0.0.1:{self._port}:6443"]
        given = ["--volume", f"{directory}:/given", image, "sh", "-c", START]
        subprocess.run([*argv, *given], check=True, capture_output=True)
        self.wait()

    def kubeconfig(self, path, user="gpulab"):
        """Write the settings of kubectl by which a user reaches it."""
        cluster = {"server": f"https://127.0.0.1:{self._port}", "certificate-authority": str(self.directory / "crt")}
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
        }
        path.write_text(yaml.safe_dump(text))
        return path

    def client(self, user="admin"):
        """Return a user's client."""
        made = config.new_client_from_config(str(self.kubeconfig(self.directory / f"{user}.kubeconfig", user)))
        made.configuration.retries = 0
        return made

    def kill(self):
        """Kill it as a crash would."""
        subprocess.run(["docker", "kill", self._name], check=False, capture_output=True)

    def wait(self):
        """Start it where it does not run, and wait until it is ready."""
        subprocess.run(["docker", "start", self._name], check=True, capture_output=True)
        deadline = time.monotonic() + UP_SECONDS
        while not self._is_ready():
            logs = ["docker", "logs", "--tail", "20", self._name]
            assert time.monotonic() < deadline, subprocess.run(logs, capture_output=True, text=True, check=False)
            time.sleep(0.5)

    def _is_ready(self):
        try:  # the last that it makes at its first start
            rights = client.RbacAuthorizationV1Api(self.client())
            rights.read_cluster_role_binding("system:basic-user", _request_timeout=5)
        except (ApiException, HTTPError):
            return False
        return True

    def audit(self):
        """Return (verb, path, object) of all that the fence's user asked for."""
        lines = (self.directory / "audit").read_text().splitlines()
        return [(one["verb"], one["requestURI"], one.get("objectRef", {})) for one in map(json.loads, lines)]

    def remove(self):
        """Remove it."""
        subprocess.run(["docker", "rm", "--force", "--volumes", self._name], check=True, capture_output=True)


class Cluster:
    """What the unit tests' stand-in is, of a real API server: two nodes without a kubelet, and pods bound to them."""

    def __init__(self, server, names):
        """Make the nodes anew, with no pods, and allow the fence's user what it needs."""
        self._server = server
        server.wait()
        self._core = client.CoreV1Api(server.client())
        self._rights = client.RbacAuthorizationV1Api(server.client())
        self._begin()
        self.refused, self.pods, self.meanwhile = set(), [], None
        for name in names:
            self._gone(self._core.delete_node, name)
            self._core.create_node({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        self._before = len(server.audit())

    @property
    def patched(self):
        """Return the paths that the fence's user changed for good; anything else than a node fails the test."""
        asked = self._server.audit()[self._before :]
        assert {verb for verb, _path, _object in asked} <= {"list", "patch"}, asked
        return [path for verb, path, _object in asked if verb == "patch" and "dryRun" not in path]

    @property
    def refused(self):
        """Return what the fence's user may not do, as "patch nodes"."""
        return self._refused

    @refused.setter
    def refused(self, refused):
        self._refused = refused
        allowed = [right.split() for right in RIGHTS if right not in refused]
        rules = [{"apiGroups": [""], "verbs": [verb], "resources": [kind]} for verb, kind in allowed]
        self._rights.replace_cluster_role(ROLE, {"metadata": {"name": ROLE}, "rules": rules})  # makes one, too
        review = client.AuthorizationV1Api(self._server.client("gpulab"))
        for right in RIGHTS:
            verb, kind = right.split()
            asked = {"spec": {"resourceAttributes": {"verb": verb, "resource": kind}}}
            deadline = time.monotonic() + UP_SECONDS
            while review.create_self_subject_access_review(asked).status.allowed == (right in refused):
                assert time.monotonic() < deadline, right
                time.sleep(0.1)

    @property
    def pods(self):
        """Return the names of the pods."""
        return [pod.metadata.name for pod in self._core.list_namespaced_pod(NAMESPACE).items]

    @pods.setter
    def pods(self, pods):
        for name in self.pods:  # no kubelet confirms that one has ended
            self._gone(self._core.delete_namespaced_pod, name, NAMESPACE, grace_period_seconds=0)
        for pod in pods:
            containers = [{"image": "none", **container} for container in pod["spec"]["containers"]]
            self._core.create_namespaced_pod(NAMESPACE, {**pod, "spec": {**pod["spec"], "containers": containers}})
            self._core.patch_namespaced_pod_status(pod["metadata"]["name"], NAMESPACE, {"status": pod["status"]})

    def others_come_first(self):
        """Do once what somebody else does before the next change comes."""
        others, self.meanwhile = self.meanwhile, None
        if others:
            self.change("node07", others)

    def kubeconfig(self, path):
        """Write the settings of kubectl by which the fence reaches it."""
        self._server.kubeconfig(path)

    def node(self, name):
        """Return (cordoned, the fence's annotation) of a node."""
        node = self._core.read_node(name)
        return bool(node.spec.unschedulable), (node.metadata.annotations or {}).get("gpulab.node/fence")

    def change(self, name, body):
        """Change a node as somebody else does; None takes an entry away."""
        self._core.patch_node(name, body)

    def stop(self):
        """Answer nobody any more."""
        self._server.kill()

    def _begin(self):
        """Make once what all tests need: a namespace, and what gives the fence's user its rights."""
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": ROLE},
            "roleRef": {"kind": "ClusterRole", "name": ROLE, "apiGroup": group},
            "subjects": [{"kind": "User", "name": "gpulab", "apiGroup": group}],
        }
        try:
            self._core.create_namespace({"metadata": {"name": NAMESPACE}})
            self._rights.create_cluster_role_binding(binding)
        except ApiException as error:
            if error.status != HTTPStatus.CONFLICT:
                raise

    def _gone(self, delete, *arguments, **more):
        try:
            delete(*arguments, **more)
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
