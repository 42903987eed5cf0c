"""Container settings are read from a node's files, and judged together with its engines."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import containers

from unit import machines

from . import nodes

CDI = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
containerEdits:
  hooks:
  - args: [nvidia-cdi-hook, update-ldcache]
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04
    containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04
"""
LIBCUDA = "usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04"


@pytest.fixture
def tree(tmp_path):
    """Return a function that writes a file of the node."""

    def write(path, text=""):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")

    return write


def test_bare_node_has_nothing(tmp_path):
    assert containers.read(Node(tmp_path)) == machines.machine({})["containers"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (
            '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "default-runtime": "nvidia"}',
            {
                "runtimes": ["nvidia"],
                "default_runtime": "nvidia",
                "programs": {"nvidia": "nvidia-container-runtime"},
            },
        ),
        ('{"features": {"cdi": true}}', {"cdi": True}),
        ('{"runtimes": [], "features": 1, "cdi-spec-dirs": "/cdi"}', {}),
        (
            '{"runtimes": {"nvidia": 1, "kata": {"runtimeType": "io.containerd.kata.v2"}}}',
            {"runtimes": ["kata", "nvidia"]},
        ),
        ('{"cdi-spec-dirs": ["/cdi"], "selinux-enabled": true}', {"cdi_directories": ["/cdi"], "selinux": True}),
    ],
)
def test_daemon_json_is_read(text, expected):
    without = {
        "invalid": None,
        "runtimes": [],
        "default_runtime": None,
        "cdi": None,
        "cdi_directories": None,
        "selinux": False,
        "programs": {},
    }
    assert containers.docker(text) == {**without, **expected}


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1,}'])
def test_broken_daemon_json_says_why(text):
    assert containers.docker(text)["invalid"]


@pytest.mark.parametrize("gone", [LIBCUDA, "dev/nvidia0", "usr/bin/nvidia-cdi-hook", None])
def test_cdi_specification_is_compared_with_the_files(tree, tmp_path, gone):
    tree("run/cdi/nvidia.yaml", CDI)
    tree("etc/cdi/other.yaml", "kind: vendor.example/nic\n")
    for path in {LIBCUDA, "dev/nvidia0", "usr/bin/nvidia-cdi-hook"} - {gone}:
        tree(path)
    assert containers.cdi(Node(tmp_path)) == [
        {
            "path": "/run/cdi/nvidia.yaml",
            "kind": "nvidia.com/gpu",
            "library": "580.178.04",
            "missing": [f"/{gone}"] if gone else [],
            "devices": ["0"],
            "mig_devices": [],
        }
    ]


@pytest.mark.parametrize(
    "text",
    [
        """
kind: nvidia.com/gpu
devices:
    - name: "0:1"
      containerEdits:
        env: [NAME=0:2]
    - name: MIG-5f-1
    - name: "1"
""",
        """{
  "kind": "nvidia.com/gpu",
  "devices": [
    {
      "name": "mig0:1"
    },
    {"name": "MIG-5f-1"},
    {"name": "all"}
  ]
}""",
    ],
)
def test_cdi_specification_names_mig_devices_in_two_ways(tree, tmp_path, text):
    tree("run/cdi/nvidia.yaml", text)
    assert containers.cdi(Node(tmp_path))[0]["mig_devices"] == ["0:1", "MIG-5f-1"]


def test_cdi_specification_may_be_json(tree, tmp_path):
    tree("etc/cdi/nvidia.json", '{"kind": "nvidia.com/gpu", "mounts": [{"hostPath": "/lib/libcuda.so.535.1.2"}]}')
    (found,) = containers.cdi(Node(tmp_path))
    assert (found["library"], found["missing"]) == ("535.1.2", ["/lib/libcuda.so.535.1.2"])


ONE_DEVICE = {
    "JSON on one line": (
        '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":'
        '[{"path":"/dev/nvidia0"}]}}],"containerEdits":{"mounts":[{"hostPath":"/usr/lib/libcuda.so.570.133.20",'
        '"containerPath":"/usr/lib/libcuda.so.570.133.20"}]}}'
    ),
    "JSON, devices first": (
        '{"devices":[{"containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]},"name":"0"}],"containerEdits":'
        '{"mounts":[{"hostPath":"/usr/lib/libcuda.so.570.133.20"}]},"kind":"nvidia.com/gpu"}'
    ),
    "YAML, kind last": """
devices:
  - containerEdits:
      deviceNodes:
        - path: /dev/in-the-container
          hostPath: /dev/nvidia0
    name: '0'
containerEdits:
  mounts:
    - containerPath: /usr/lib/libcuda.so.570.133.20
      hostPath: "/usr/lib/libcuda.so.570.133.20"   # the host's
kind: "nvidia.com/gpu"
""",
    "YAML, lists not indented": """---
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - hostPath: /dev/nvidia0
      path: /dev/nvidia0
containerEdits:
  mounts:
  - hostPath: /usr/lib/libcuda.so.570.133.20
""",
}


@pytest.mark.parametrize("text", ONE_DEVICE.values(), ids=ONE_DEVICE)
@pytest.mark.parametrize("name", ["nvidia.json", "nvidia.yaml"])
def test_cdi_specification_is_read_however_it_is_written(tree, tmp_path, name, text):
    tree(f"etc/cdi/{name}", text)
    assert containers.cdi(Node(tmp_path)) == [
        {
            "path": f"/etc/cdi/{name}",
            "kind": "nvidia.com/gpu",
            "library": "570.133.20",
            "missing": ["/dev/nvidia0", "/usr/lib/libcuda.so.570.133.20"],
            "devices": ["0"],
            "mig_devices": [],
        }
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "kind:", "[1, 2]", "- - a: 1\n  b", "kind: k8s.device-plugin.nvidia.com/gpu", "[" * 9999]
)
def test_what_is_no_specification_of_gpus_is_passed_over(tree, tmp_path, text):
    tree("etc/cdi/nvidia.yaml", text)
    assert containers.cdi(Node(tmp_path)) == []


def test_the_command_line_of_docker_counts_as_its_file_does(tree, tmp_path):
    tree("run/docker.pid", "77")
    tree("proc/77/cmdline", "/usr/bin/dockerd\0-H\0fd://\0--add-runtime=nvidia=/usr/bin/nvidia-container-runtime\0")
    found = containers.read(Node(tmp_path))["docker"]
    assert (found["runtimes"], found["cdi"], found["file"]) == (["nvidia"], None, "/etc/docker/daemon.json")
    assert found["missing_programs"] == {"nvidia": "/usr/bin/nvidia-container-runtime"}
    tree("etc/docker/daemon.json", '{"features": {"cdi": true}, "features": {"x": true}}')
    found = containers.read(Node(tmp_path))["docker"]
    assert (found["runtimes"], found["cdi"]) == (["nvidia"], True)


STALE = {"library": "570.133.20", "missing": ["/usr/lib/libcuda.so.570.133.20"]}
JUDGED = {
    "made at boot for another driver, over a good one": ({}, STALE, ["/var/run/cdi/nvidia.yaml was made for another"]),
    "of the owner, below a good one": (STALE, {}, []),
    "of the owner, with a device more": ({**STALE, "devices": ["0", "1"]}, {}, ["/etc/cdi/nvidia.yaml was made for"]),
    "a device node is gone": ({}, {"missing": ["/dev/nvidia7"]}, ["nvidia.yaml names missing device nodes"]),
    "two in one directory": ({"path": "/var/run/cdi/other.json"}, {}, ["both describe the device 0"]),
}


@pytest.mark.parametrize(("below", "above", "words"), JUDGED.values(), ids=JUDGED)
def test_the_specification_that_containers_use_is_judged(below, above, words):
    facts = nodes.healthy("t4")
    (good,) = facts["containers"]["cdi"]
    good["devices"] = ["0"]
    facts["containers"]["cdi"] = [{**good, "path": "/etc/cdi/nvidia.yaml", **below}, {**good, **above}]
    found = [result for result in verify(nodes.node(facts)) if result.id == "cdi-specification"]
    assert [result.severity for result in found] == (["warn"] * len(words) or ["ok"])
    assert all(word in result.summary for word, result in zip(words, found))


def test_toolkit_settings_are_read(tree, tmp_path):
    tree(
        "etc/nvidia-container-runtime/config.toml",
        '[nvidia-container-cli]\n#ldconfig = "x"\nldconfig = "@/sbin/ldconfig"\n',
    )
    assert containers.read(Node(tmp_path))["toolkit_ldconfig"] == "@/sbin/ldconfig"


@pytest.mark.parametrize("engines", [{"docker": None}, {"nvidia_container_toolkit": None}])
def test_docker_without_the_toolkit_needs_no_settings(engines):
    facts = nodes.healthy("t4")
    facts["engines"].update(engines)
    facts["containers"]["docker"] = None
    plan = {"container_toolkit": {"engines": [], "packages": []}}
    assert [r.severity for r in verify(nodes.node(facts, plan)) if r.id == "container-runtime"] == ["inapplicable"]
