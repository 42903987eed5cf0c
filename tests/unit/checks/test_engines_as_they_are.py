"""A setting of an engine counts where the engine reads it, and where what it names is there: from files to findings."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import containers

from . import nodes

DAEMON, SNAP = "etc/docker/daemon.json", "var/snap/docker/current/config/daemon.json"
TOOLKIT = "etc/nvidia-container-runtime/config.toml"
CONTAINERD = "etc/containerd/config.toml"
NVIDIA = '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}'
PROGRAM = {"usr/bin/nvidia-container-runtime": "", DAEMON: NVIDIA}
RUNS_AT_BOOT = "--config-file=/srv/docker.json"
SELINUX_ON = {"sys/fs/selinux/enforce": "1"}
DEVICES = "sys/fs/selinux/booleans/container_use_devices"
SPECIFICATION = {
    "path": "/var/run/cdi/nvidia.yaml",
    "kind": "nvidia.com/gpu",
    "library": nodes.DRIVER,
    "missing": [],
    "devices": ["all"],
    "mig_devices": [],
}


def results(place, files, check, *, cdi=(SPECIFICATION,), planned=(), **engines):
    """Return what a check finds on a healthy node with these files, specifications, engines; place: it or its root."""
    node = place if isinstance(place, Node) else Node(place)
    for path, text in files.items():
        node.path(path).parent.mkdir(parents=True, exist_ok=True)
        node.path(path).write_text(text)
    facts = nodes.healthy("l40s")
    facts["containers"] = {**containers.read(node), "cdi": list(cdi)}
    facts["engines"].update(engines)
    plan = {"container_toolkit": {"engines": list(planned), "packages": ["nvidia-container-toolkit=1.20.0-1"]}}
    return [found for found in verify(nodes.node(facts, plan)) if found.id == check]


def only(place, files, check, **more):
    (found,) = results(place, files, check, **more)
    return found


@pytest.mark.parametrize(
    ("files", "version", "severity", "says"),
    [
        (PROGRAM, "28.0.1", "ok", "set up"),
        ({DAEMON: NVIDIA}, "28.0.1", "warn", "nvidia-container-runtime, which does not exist"),
        # Docker of a snap does not read /etc/docker; it gives GPUs where its own toolkit has set it up
        ({"snap/bin/docker": "", SNAP: "{}", **PROGRAM}, "28.0.1", "warn", f"/{SNAP}, which gpulab does not write"),
        ({"snap/bin/docker": "", SNAP: NVIDIA, "usr/bin/nvidia-container-runtime": ""}, "28.0.1", "ok", "set up"),
        ({"snap/bin/docker": "", "usr/bin/dockerd": "", SNAP: "{}", **PROGRAM}, "28.0.1", "ok", "set up"),
        # the daemon that runs decides
        (
            {"run/docker.pid": "7", "proc/7/cmdline": f"dockerd\0{RUNS_AT_BOOT}\0", "srv/docker.json": "{}", **PROGRAM},
            "28.0.1",
            "warn",
            "/srv/docker.json",
        ),
        (
            {
                "run/snap.docker/docker.pid": "7",
                "proc/7/cmdline": "dockerd\0--config-file=/var/snap/docker/3/daemon.json\0",
            }
            | PROGRAM,
            "28.0.1",
            "warn",
            "/var/snap/docker/3/daemon.json",
        ),
        # Docker 28.3 takes CDI by itself, an older one where it is told to
        ({}, "28.2.2", "warn", "not set up"),
        ({}, "28.3.0", "ok", "set up"),
        ({DAEMON: '{"features": {"cdi": false}}'}, "29.1.0", "warn", "not set up"),
        ({DAEMON: '{"features": {"cdi": true}}'}, "28.0.1", "ok", "set up"),
        ({TOOLKIT: "no-cgroups = true\n", **PROGRAM}, "28.0.1", "warn", "no-cgroups"),
        ({TOOLKIT: "#no-cgroups = true\nno-cgroups = false\n", **PROGRAM}, "28.0.1", "ok", "set up"),
    ],
)
def test_docker_gives_gpus_by_what_is_there(tmp_path, files, version, severity, says):
    found = only(tmp_path, files, "container-runtime", docker=version)
    assert (found.severity, says in found.summary) == (severity, True), found


@pytest.mark.parametrize("there", [False, True])
def test_no_container_starts_where_the_program_of_the_default_runtime_is_gone(tmp_path, there):
    program = "usr/local/nvidia/toolkit/nvidia-container-runtime"
    settings = f'{{"default-runtime": "nvidia", "runtimes": {{"nvidia": {{"path": "/{program}"}}}}}}'
    found = only(tmp_path, {DAEMON: settings, **({program: ""} if there else {})}, "container-runtime")
    assert found.severity == ("ok" if there else "fail")
    assert there or (f"/{program}" in found.summary and found.remediation == "set_by_hand")


@pytest.mark.parametrize(
    ("files", "cdi", "engines", "expected"),
    [
        ({DAEMON: '{"features": {"cdi": true}}'}, (), {}, ("warn", "Docker cannot give")),
        ({}, (), {"docker": "29.0.0"}, ("warn", "Docker cannot give")),
        ({DAEMON: '{"features": {"cdi": true}}'}, (), {"podman": "5.4.2"}, ("warn", "Docker and Podman")),
        (PROGRAM, (), {"docker": "29.0.0"}, ("inapplicable", "")),  # the runtime is another way
        ({DAEMON: '{"features": {"cdi": true}}'}, (), {"nvidia_container_toolkit": None}, ("inapplicable", "")),
        ({DAEMON: '{"cdi-spec-dirs": ["/etc/cdi"]}'}, (SPECIFICATION,), {}, ("warn", "/etc/cdi alone")),
        ({DAEMON: '{"cdi-spec-dirs": ["/etc/cdi", "/run/cdi/"]}'}, (SPECIFICATION,), {}, ("ok", "describe")),
    ],
)
def test_an_engine_that_takes_cdi_needs_a_specification(tmp_path, files, cdi, engines, expected):
    found = only(tmp_path, files, "cdi-specification", cdi=cdi, **engines)
    assert (found.severity, expected[1] in found.summary) == (expected[0], True), found


def test_docker_by_cdi_alone_is_not_called_set_up_without_a_specification(tmp_path):
    found = only(tmp_path, {DAEMON: '{"features": {"cdi": true}}'}, "container-runtime", cdi=())
    assert (found.severity, "cdi-specification" in found.reason) == ("skipped", True)


@pytest.mark.parametrize(
    ("files", "severity"),
    [
        ({}, "inapplicable"),
        ({TOOLKIT: '[nvidia-container-cli]\n#root = "/run/nvidia/driver"\n'}, "inapplicable"),
        ({TOOLKIT: '[nvidia-container-cli]\nroot = ""\n'}, "inapplicable"),
        ({TOOLKIT: '[nvidia-container-cli]\nroot = "/run/nvidia/driver"\n'}, "warn"),
        ({TOOLKIT: 'root = "/run/nvidia/driver"\n', "run/nvidia/driver/usr/bin/nvidia-smi": ""}, "ok"),
    ],
)
def test_the_root_of_the_driver_holds_one(tmp_path, files, severity):
    assert only(tmp_path, files, "toolkit-driver-root").severity == severity


# What containerd says that its file comes to, in short
COMES_TO, CONF_D = "containerd config dump", "etc/containerd/conf.d/more.toml"
CDI_ON, CDI_OFF = "    enable_cdi = true\n", "    enable_cdi = false\n"
CRI_OFF, CRI_OFF_2 = 'disabled_plugins = ["cri"]\n', "disabled_plugins = ['io.containerd.grpc.v1.cri']\n"
HANDLER = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n'


FORMS = {
    "1.6": ("1.6.20", {}, "upgrade_software"),
    "1.6 does not know it": ("1.6.20", {CONTAINERD: CDI_ON}, "upgrade_software"),
    "1.6 with NVIDIA's runtime": ("1.6.20", {CONTAINERD: HANDLER, COMES_TO: HANDLER}, "none"),
    "1.7": ("1.7.24", {}, "set_by_hand"),
    "1.7 with Debian's file": ("1.7.24", {CONTAINERD: "version = 2\n"}, "set_by_hand"),
    "off": ("1.7.24", {CONTAINERD: CDI_OFF, COMES_TO: CDI_OFF}, "set_by_hand"),
    "on": ("1.7.24", {CONTAINERD: CDI_ON, COMES_TO: CDI_ON}, "none"),
    "on without version = 2": ("1.7.24", {CONTAINERD: CDI_ON, COMES_TO: CDI_OFF}, "set_by_hand"),
    "on by an import": ("1.7.24", {CONTAINERD: 'imports = ["more.toml"]\n', COMES_TO: CDI_ON}, "none"),
    "on in conf.d": ("2.2.1", {CONF_D: CDI_OFF, COMES_TO: CDI_ON}, "none"),
    "off in conf.d": ("2.2.1", {CONF_D: CDI_OFF, COMES_TO: CDI_OFF}, "set_by_hand"),
    "in a comment, so it is not asked": (
        "1.7.24",
        {CONTAINERD: "# enable_cdi = true\n", COMES_TO: CDI_ON},
        "set_by_hand",
    ),
    "without Kubernetes": ("1.7.24", {CONTAINERD: CRI_OFF, COMES_TO: CRI_OFF + CDI_ON}, "set_by_hand"),
    "2": ("2.1.9", {}, "none"),
    "2 without Kubernetes": ("2.1.9", {CONTAINERD: CRI_OFF, COMES_TO: CRI_OFF_2 + CDI_ON}, "set_by_hand"),
}


@pytest.mark.parametrize(("version", "files", "remedy"), FORMS.values(), ids=FORMS)
def test_containerd_is_judged_by_what_its_files_come_to(tree, version, files, remedy):
    tree.prints("containerd config dump", files.get(COMES_TO, ""))
    written = {path: text for path, text in files.items() if path != COMES_TO}
    found = only(tree.node(), written, "containerd-cdi", planned=["containerd"], containerd=version)
    assert (found.severity, found.remediation) == ("ok" if remedy == "none" else "warn", remedy)


def test_containerd_is_not_judged_where_it_is_missing(tmp_path):
    assert only(tmp_path, {}, "containerd-cdi", planned=["containerd"], containerd=None).severity == "skipped"


def test_what_is_wrong_with_containerd_is_said(tree):
    def found(comes_to):
        node = tree.file(CONTAINERD, comes_to).prints("containerd config dump", comes_to).node()
        return only(node, {}, "containerd-cdi", planned=["containerd"], containerd="1.7.24")

    assert "no kubelet can start containers by it" in found(CRI_OFF).summary
    assert "pods start without their GPUs" in found(CDI_OFF).summary


def test_containerd_below_docker_is_dockers_affair(tmp_path):
    assert only(tmp_path, {}, "containerd-cdi", planned=["docker"], containerd="1.7.24").severity == "inapplicable"


@pytest.mark.parametrize(
    ("files", "engines", "severity"),
    [
        ({}, {"podman": "5.4.2"}, "inapplicable"),
        ({"sys/fs/selinux/enforce": "0"}, {"podman": "5.4.2"}, "inapplicable"),
        (SELINUX_ON, {}, "inapplicable"),
        (SELINUX_ON, {"podman": "5.4.2"}, "warn"),
        ({**SELINUX_ON, DEVICES: "0 0"}, {"podman": "5.4.2"}, "warn"),
        ({**SELINUX_ON, DEVICES: "1 1"}, {"podman": "5.4.2"}, "ok"),
        ({**SELINUX_ON, DAEMON: '{"selinux-enabled": true}'}, {}, "warn"),
        (SELINUX_ON, {"podman": "5.4.2", "nvidia_container_toolkit": None}, "inapplicable"),
    ],
)
def test_selinux_keeps_containers_from_devices(tmp_path, files, engines, severity):
    found = only(tmp_path, files, "container-selinux", **engines)
    assert (found.severity, found.remediation) == (severity, "allow_devices" if severity == "warn" else "none")
