"""Container settings are read from a node's files, and judged together with its engines."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import facts_containers
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

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
    assert facts_containers.read(Node(tmp_path)) == {"docker": None, "cdi": [], "toolkit_ldconfig": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"invalid": None, "runtimes": [], "default_runtime": None, "cdi": None}),
        (
            '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "default-runtime": "nvidia"}',
            {"invalid": None, "runtimes": ["nvidia"], "default_runtime": "nvidia", "cdi": None},
        ),
        ('{"features": {"cdi": true}}', {"invalid": None, "runtimes": [], "default_runtime": None, "cdi": True}),
        ('{"runtimes": [], "features": 1}', {"invalid": None, "runtimes": [], "default_runtime": None, "cdi": None}),
    ],
)
def test_daemon_json_is_read(text, expected):
    assert facts_containers.docker(text) == expected


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1,}'])
def test_broken_daemon_json_says_why(text):
    assert facts_containers.docker(text)["invalid"]


@pytest.mark.parametrize(("there", "missing"), [(True, []), (False, [f"/{LIBCUDA}"])])
def test_cdi_specification_is_compared_with_the_files(tree, tmp_path, there, missing):
    tree("run/cdi/nvidia.yaml", CDI)
    tree("etc/cdi/other.yaml", "kind: vendor.example/nic\n")
    if there:
        tree(LIBCUDA)
    assert facts_containers.cdi(Node(tmp_path)) == [
        {
            "path": "/run/cdi/nvidia.yaml",
            "kind": "nvidia.com/gpu",
            "library": "580.178.04",
            "missing": missing,
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
    assert facts_containers.cdi(Node(tmp_path))[0]["mig_devices"] == ["0:1", "MIG-5f-1"]


def test_cdi_specification_may_be_json(tree, tmp_path):
    tree("etc/cdi/nvidia.json", '{"kind": "nvidia.com/gpu", "mounts": [{"hostPath": "/lib/libcuda.so.535.1.2"}]}')
    (found,) = facts_containers.cdi(Node(tmp_path))
    assert (found["library"], found["missing"]) == ("535.1.2", ["/lib/libcuda.so.535.1.2"])


def test_toolkit_settings_are_read(tree, tmp_path):
    tree(
        "etc/nvidia-container-runtime/config.toml",
        '[nvidia-container-cli]\n#ldconfig = "x"\nldconfig = "@/sbin/ldconfig"\n',
    )
    assert facts_containers.read(Node(tmp_path))["toolkit_ldconfig"] == "@/sbin/ldconfig"


@pytest.mark.parametrize("engines", [{"docker": None}, {"nvidia_container_toolkit": None}])
def test_docker_without_the_toolkit_needs_no_settings(engines):
    facts = nodes.healthy("t4")
    facts["engines"].update(engines)
    facts["containers"]["docker"] = None
    assert [r.severity for r in verify(nodes.node(facts)) if r.id == "container-runtime"] == ["skipped"]
