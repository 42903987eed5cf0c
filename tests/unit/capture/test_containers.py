"""Container engines are read as they answer, and what of their storage comes back is told from what does not.

The answers of Docker are those of 20.10, and the files of Podman those of 4.3, as they were recorded, cut down.
"""

import hashlib
import json
from dataclasses import asdict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import containers
from ansible_collections.gpulab.node.plugins.module_utils.containers.docker_engine import NoAnswerError

ROOT = "/var/lib/docker"
BLOBS = "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
BASE, TOP, BUILT, WRITABLE = "24" * 32, "25" * 32, "26" * 32, "03" * 32
MOUNTS = "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n23 22 259:9 / /data rw - ext4 /dev/nvme1n1 rw\n"


def image(name, digests, *layers, **more):
    """Return an image as Docker describes it; its layers stand from the top down."""
    places = [f"{ROOT}/overlay2/{layer}/diff" for layer in layers]
    data = {"UpperDir": places[0], "MergedDir": places[0].replace("diff", "merged"), "LowerDir": ":".join(places[1:])}
    graph = {"Name": "overlay2", "Data": data}
    identity = f"sha256:{name}"
    return {"Id": identity, "RepoTags": [f"{name}:1"], "RepoDigests": digests, "GraphDriver": graph, **more}


PULLED = image("pytorch", ["docker.io/pytorch/pytorch@sha256:aa"], TOP, BASE)
OWN = image("ours", [], BUILT, BASE)
CONTAINER = {
    "Id": "148c",
    "Name": "/train",
    "State": {"Running": True},
    "HostConfig": {
        "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}], "81/tcp": None},
        "RestartPolicy": {"Name": "unless-stopped"},
        "NetworkMode": "default",
        "Runtime": "nvidia",
        "Privileged": False,
        "DeviceRequests": [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}],
    },
    "Mounts": [
        {"Type": "bind", "Source": "/data/sets", "Destination": "/sets", "RW": False},
        {"Type": "volume", "Name": "grafana", "Source": "/x", "Destination": "/var/lib/grafana", "RW": True},
    ],
    "Config": {
        "Env": ["SECRET_TOKEN=canary1", "PLAIN=canary2", "PATH=/bin"],
        "Entrypoint": ["python"],
        "Cmd": ["train.py", "--api-key", "canary3", "--wandb-token=canary4", "two words"],
        "Image": "pytorch:1",
        "User": "1000",
        "Labels": {
            "com.docker.compose.project": "lab",
            "com.docker.compose.project.working_dir": "/srv/lab",
            "com.docker.compose.project.config_files": "/srv/lab/compose.yml,/srv/lab/gpus.yml",
        },
    },
}
VOLUMES = [
    {"Name": "grafana", "Driver": "local", "Mountpoint": f"{ROOT}/volumes/grafana/_data", "Options": None},
    {
        "Name": "nas",
        "Driver": "local",
        "Mountpoint": "/data/volumes/nas/_data",
        "Options": {"type": "cifs", "o": "addr=nas,username=wei,password=canary5", "device": "//nas/x"},
    },
]


class Daemon:
    """Docker's daemon."""

    def __init__(self, *images):
        """Have these images, a container and two volumes."""
        self.asked = []
        self.answers = {
            "/info": {"DockerRootDir": ROOT, "Driver": "overlay2", "ServerVersion": "20.10.24", "DriverStatus": []},
            "/images/json?all=1": [{"Id": one["Id"]} for one in images],
            **{f"/images/{one['Id']}/json": one for one in images},
            "/volumes": {"Volumes": VOLUMES},
            "/networks": [
                {"Name": "bridge", "Driver": "bridge"},
                {"Name": "lab", "Driver": "macvlan", "IPAM": {"Config": [{"Subnet": "10.9.0.0/24"}]}},
            ],
            "/containers/json?all=1": [{"Id": "148c"}, {"Id": "gone"}],
            "/containers/148c/json": CONTAINER,
        }

    def __call__(self, question):
        """Answer; None for what is gone meanwhile."""
        self.asked.append(question)
        return self.answers.get(question)


@pytest.fixture
def node(tree):
    """Return a node on which Docker runs."""
    tree.file("/proc/self/mountinfo", MOUNTS).file("/run/docker.pid", "77").directory("/proc/77")
    return tree.node()


def documents(engines):
    """Return the engines as the manifest has them."""
    return list(map(asdict, engines.engines))


def docker(node, *images):
    """Return the engines of a node with these images, and the record of Docker."""
    engines = containers.read(node, Daemon(*(images or (PULLED, OWN))))
    return engines, documents(engines)[0]


def test_an_image_without_a_digest_was_built_here_and_does_not_come_back(node):
    _engines, record = docker(node)
    assert [(one["names"], one["digests"], one["comes_back"]) for one in record["images"]] == [
        (["pytorch:1"], ["docker.io/pytorch/pytorch@sha256:aa"], True),
        (["ours:1"], [], False),
    ]
    assert "built" in record["images"][1]["why"]


def test_layers_come_back_by_the_images_that_registries_have(node):
    engines, _record = docker(node)
    covered = {
        f"overlay2/{TOP}/diff/usr/lib/x.so": True,
        f"overlay2/{BASE}/diff/etc/passwd": True,  # one that an own image shares
        f"overlay2/{BUILT}/diff/app.py": False,
        f"overlay2/{WRITABLE}/diff/results.csv": False,
        f"overlay2/{WRITABLE}/diff": False,
        f"overlay2/{WRITABLE}/lower": True,
        f"overlay2/{WRITABLE}/link": True,
        f"overlay2/{WRITABLE}-init/diff/etc/hosts": True,
        "overlay2/l/JK6V5H43JFCOO6XZHUW2M7R3HJ": True,
        "overlay2": True,
    }
    assert {path: engines.covers(f"{ROOT}/{path}") for path in covered} == covered


def test_layers_of_the_driver_vfs_come_back_by_the_names_that_docker_notes(tree):
    """Its images do not tell where their layers are; a layer is named by all that are below it."""
    tree.file("/proc/self/mountinfo", MOUNTS).file("/run/docker.pid", "77").directory("/proc/77")
    lower, upper = f"sha256:{'31' * 32}", f"sha256:{'32' * 32}"
    both = hashlib.sha256(f"{lower} {upper}".encode()).hexdigest()
    notes = f"{ROOT}/image/vfs/layerdb/sha256"
    tree.file(f"{notes}/{lower[7:]}/cache-id", BASE).file(f"{notes}/{both}/cache-id", TOP)
    of_vfs = {"GraphDriver": {"Name": "vfs", "Data": None}}
    pulled = {**PULLED, **of_vfs, "RootFS": {"Type": "layers", "Layers": [lower, upper]}}
    own = {**OWN, **of_vfs, "RootFS": {"Type": "layers", "Layers": [lower, f"sha256:{'33' * 32}"]}}
    engines, _record = docker(tree.node(), pulled, own)
    covered = {
        f"vfs/dir/{TOP}/usr/x": True,
        f"vfs/dir/{BASE}/x": True,
        f"vfs/dir/{BUILT}/x": False,
        f"vfs/dir/{WRITABLE}/x": False,
        f"vfs/dir/{WRITABLE}-init/x": True,
        "vfs/dir": True,
    }
    assert {path: engines.covers(f"{ROOT}/{path}") for path in covered} == covered


def test_manifests_that_docker_keeps_with_containerd_come_back_with_their_images(tree):
    """Docker writes those of what it pulls there; that of many platforms names those of each."""
    tree.file("/proc/self/mountinfo", MOUNTS).file("/run/docker.pid", "77").directory("/proc/77")
    many, one, own = "41" * 32, "42" * 32, "43" * 32
    tree.file(f"{BLOBS}/{many}", json.dumps({"manifests": [{"digest": f"sha256:{one}"}, {"digest": "../x"}]}))
    tree.file(f"{BLOBS}/{one}", json.dumps({"layers": [{"digest": f"sha256:{BASE}"}]})).file(f"{BLOBS}/{own}", "{}")
    engines, _record = docker(tree.node(), {**PULLED, "RepoDigests": [f"docker.io/pytorch/pytorch@sha256:{many}"]}, OWN)
    covered = {many: True, one: True, own: False, BASE: False, "x": False}
    assert {name: engines.covers(f"{BLOBS}/{name}") for name in covered} == covered


def test_volumes_and_what_is_not_known_do_not_come_back_and_dockers_own_records_do(node):
    engines, _record = docker(node)
    covered = {
        "volumes/grafana/_data/grafana.db": False,
        "volumes/grafana/_data": False,
        "volumes/grafana": False,
        "volumes/metadata.db": True,
        "volumes": True,
        "image/overlay2/repositories.json": True,
        "containers/148c/config.v2.json": True,
        "network/files/local-kv.db": True,
        "containerd/daemon/io.containerd.metadata.v1.bolt/meta.db": True,
        "containerd/daemon/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/x": False,
        "containerd/daemon/io.containerd.content.v1.content/blobs/x": False,
        "swarm/raft/wal": False,
        "notes.txt": False,
        "": True,
    }
    assert {path: engines.covers(f"{ROOT}/{path}".rstrip("/")) for path in covered} == covered
    assert not engines.covers("/var/lib/docker-image/x")
    assert not engines.covers("/home/wei/image")


@pytest.mark.parametrize("registry", ["localhost:5000", "127.0.0.1:5000", "localhost"])
def test_a_registry_on_the_node_itself_brings_nothing_back(node, registry):
    engines, record = docker(node, image("ours", [f"{registry}/ours@sha256:aa"], TOP))
    assert [one["comes_back"] for one in record["images"]] == [False]
    assert not engines.covers(f"{ROOT}/overlay2/{TOP}/diff/x")


def test_digests_of_the_image_store_of_containerd_tell_nothing(node):
    """Docker 29 has a digest for every image, built here or not."""
    daemon = Daemon(image("ours", ["ours@sha256:aa"], TOP))
    daemon.answers["/info"]["DriverStatus"] = [["driver-type", "io.containerd.snapshotter.v1"]]
    engines = containers.read(node, daemon)
    assert documents(engines)[0]["images"][0]["comes_back"] is False
    assert not engines.covers(f"{ROOT}/overlay2/{TOP}/diff/x")


def test_images_that_are_only_steps_of_others_are_not_listed_but_their_layers_count(node):
    step = image("step", [], BUILT, RepoTags=[], Parent="sha256:other")
    _engines, record = docker(node, PULLED, step)
    assert [one["names"] for one in record["images"]] == [["pytorch:1"]]


def test_a_container_is_described_by_what_it_was_created_with(node):
    _engines, record = docker(node)
    (one,) = record["containers"]
    assert one == {
        "name": "train",
        "image": "pytorch:1",
        "running": True,
        "command": one["command"],
        "environment": ["PATH", "PLAIN", "SECRET_TOKEN"],
        "mounts": [
            {"source": "/data/sets", "destination": "/sets", "read_only": True},
            {"source": "grafana", "destination": "/var/lib/grafana", "read_only": False},
        ],
        "ports": ["8080:80/tcp"],
        "restart": "unless-stopped",
        "network": "default",
        "runtime": "nvidia",
        "gpus": [-1],
        "privileged": False,
        "user": "1000",
        "compose": {"project": "lab", "directory": "/srv/lab", "files": ["/srv/lab/compose.yml", "/srv/lab/gpus.yml"]},
    }
    assert one["command"].startswith("python train.py")
    assert "'two words'" in one["command"]


def test_no_secret_of_a_container_or_volume_is_in_the_record(node):
    engines, _record = docker(node)
    assert "canary" not in json.dumps(documents(engines))


def test_volumes_say_on_which_disk_they_are(node):
    _engines, record = docker(node)
    assert [(one["name"], one["on_root_disk"]) for one in record["volumes"]] == [("grafana", True), ("nas", False)]
    assert record["volumes"][1]["options"]["device"] == "//nas/x"


def test_networks_of_people_are_listed(node):
    _engines, record = docker(node)
    assert record["networks"] == [{"name": "lab", "driver": "macvlan", "subnets": ["10.9.0.0/24"]}]


def test_a_daemon_that_does_not_run_is_not_asked_for_that_would_start_it(tree):
    tree.file("/proc/self/mountinfo", MOUNTS).file("/run/docker.pid", "77").file(f"{ROOT}/overlay2/x/diff/y")
    daemon = Daemon(PULLED)
    engines = containers.read(tree.node(), daemon)
    assert daemon.asked == []
    assert [(one["program"], one["root"], one["trouble"]) for one in documents(engines)] == [
        ("docker", ROOT, "its daemon does not run")
    ]
    assert not engines.covers(f"{ROOT}/overlay2/{TOP}/diff/y")


@pytest.mark.parametrize("setting", ["data-root", "graph"])
def test_storage_of_a_daemon_that_does_not_run_is_where_its_settings_say(tree, setting):
    tree.file("/etc/docker/daemon.json", json.dumps({setting: "/data/docker"})).file("/data/docker/engine-id")
    assert documents(containers.read(tree.node(), Daemon()))[0]["root"] == "/data/docker"


@pytest.mark.parametrize("settings", ["{", "[]"])
def test_damaged_settings_of_docker_are_no_obstacle(tree, settings):
    tree.file("/etc/docker/daemon.json", settings).file(f"{ROOT}/engine-id")
    assert documents(containers.read(tree.node(), Daemon()))[0]["root"] == ROOT


def test_a_daemon_that_does_not_answer_brings_nothing_back(node):
    def silent(question):
        raise NoAnswerError(question, "timed out")

    engines = containers.read(node, silent)
    assert documents(engines)[0]["trouble"] == "/info: timed out"
    assert not engines.covers(f"{ROOT}/overlay2/{TOP}/diff/x")


def test_a_node_without_engines_has_none(tree):
    engines = containers.read(tree.node(), Daemon())
    assert documents(engines) == []
    assert not engines.covers(f"{ROOT}/image/x")


STORAGE = "/var/lib/containers/storage"
IDS = {"pulled": "7d" * 32, "own": "8e" * 32, "renamed": "9f" * 32, "container": "68" * 32}


def layer(name, parent="", compressed="sha256:of the archive"):
    """Return a layer as layers.json has it."""
    return {"id": name, "parent": parent, "diff-digest": f"sha256:{name}", "compressed-diff-digest": compressed}


def store(tree, root=STORAGE, driver="overlay"):
    """Write the storage of Podman: an image from a registry, one that was built here, and one that is called away."""
    images = [
        {"id": IDS["pulled"], "digest": "sha256:8e", "names": ["docker.io/library/redis:7"], "layer": TOP},
        {"id": IDS["own"], "digest": "sha256:9e", "names": ["localhost/probe:1"], "layer": BUILT},
        {"id": IDS["renamed"], "digest": "sha256:9f", "names": ["docker.io/lab/probe:1"], "layer": BUILT},
    ]
    layers = [layer(BASE), layer(TOP, BASE), layer(BUILT, BASE, f"sha256:{BUILT}"), {"id": WRITABLE, "parent": BUILT}]
    metadata = json.dumps({"image-name": "localhost/probe:1", "name": "c1"})
    one = {"id": IDS["container"], "names": ["c1"], "image": IDS["own"], "layer": WRITABLE, "metadata": metadata}
    specification = {
        "process": {"args": ["/f", "--token", "canary1"], "env": ["TOKEN=canary2", "HOME=/"]},
        "mounts": [
            {"type": "bind", "source": "/data", "destination": "/sets", "options": ["ro", "rbind"]},
            {"type": "proc", "source": "proc", "destination": "/proc"},
        ],
    }
    for kind, listed in (("images", images), ("layers", layers), ("containers", [one])):
        tree.file(f"{root}/{driver}-{kind}/{kind}.json", json.dumps(listed))
    tree.file(f"{root}/{driver}-containers/{IDS['container']}/userdata/config.json", json.dumps(specification))
    tree.file(f"{root}/volumes/vol1/_data/x").file(f"{root}/volumes/backingFsBlockDev")
    return tree.file("/proc/self/mountinfo", MOUNTS)


def podman(tree):
    """Return the engines, and the record of Podman."""
    engines = containers.read(tree.node(), Daemon())
    (record,) = documents(engines)
    return engines, record


def test_podmans_images_come_back_where_their_layers_came_from_a_registry(tree):
    """Podman has a digest for each image, and the name of a registry for what was only called so."""
    _engines, record = podman(store(tree))
    assert [(one["digests"], one["comes_back"]) for one in record["images"]] == [
        (["docker.io/library/redis@sha256:8e"], True),
        (["localhost/probe@sha256:9e"], False),
        (["docker.io/lab/probe@sha256:9f"], False),
    ]
    assert (record["driver"], record["root"]) == ("overlay", STORAGE)


@pytest.mark.parametrize("names", [["localhost:5000/redis:7"], [], None])
def test_an_image_of_podman_that_no_other_machine_names_does_not_come_back(tree, names):
    images = [{"id": IDS["pulled"], "digest": "sha256:8e", "names": names, "layer": TOP}]
    _engines, record = podman(store(tree).file(f"{STORAGE}/overlay-images/images.json", json.dumps(images)))
    assert [one["comes_back"] for one in record["images"]] == [False]


def test_an_image_that_podman_pulled_by_its_digest_is_called_by_its_tags_alone(tree):
    """As a rebuild does, which gives it its tags then."""
    names = ["docker.io/library/redis@sha256:8e", "docker.io/library/redis:7"]
    images = [{"id": IDS["pulled"], "digest": "sha256:8e", "names": names, "layer": TOP}]
    _engines, record = podman(store(tree).file(f"{STORAGE}/overlay-images/images.json", json.dumps(images)))
    (image,) = record["images"]
    assert (image["names"], image["digests"]) == (["docker.io/library/redis:7"], ["docker.io/library/redis@sha256:8e"])


def test_an_image_of_podman_with_a_layer_that_is_missing_does_not_come_back(tree):
    store(tree).file(f"{STORAGE}/overlay-layers/layers.json", json.dumps([layer(TOP, BASE)]))
    _engines, record = podman(tree)
    assert [one["comes_back"] for one in record["images"]] == [False, False, False]


def test_podmans_layers_come_back_by_its_images_and_volumes_and_secrets_do_not(tree):
    engines, _record = podman(store(tree))
    covered = {
        f"overlay/{TOP}/diff/usr/bin/redis": True,
        f"overlay/{BASE}/diff/etc/passwd": True,
        f"overlay/{BUILT}/diff/f": False,
        f"overlay/{WRITABLE}/diff/results.csv": False,
        f"overlay/{WRITABLE}/link": True,
        "overlay/l/JK6V5H43JFCOO6XZHUW2M7R3HJ": True,
        f"overlay-layers/{TOP}.tar-split.gz": True,
        f"overlay-images/{IDS['pulled']}/manifest": True,
        f"overlay-images/{IDS['own']}/manifest": False,
        "overlay-images/images.json": True,
        "overlay-images": True,
        "libpod/bolt_state.db": True,
        "secrets/filedriver/secretsdata.json": False,
        "volumes/vol1/_data/x": False,
        "volumes/backingFsBlockDev": True,
        "storage.lock": True,
    }
    assert {path: engines.covers(f"{STORAGE}/{path}") for path in covered} == covered


def test_layers_of_the_driver_vfs_come_back_too(tree):
    engines, _record = podman(store(tree, driver="vfs"))
    covered = {f"vfs/dir/{TOP}/usr/x": True, f"vfs/dir/{WRITABLE}/x": False, "vfs/dir": True, "vfs": True}
    assert {path: engines.covers(f"{STORAGE}/{path}") for path in covered} == covered


def test_podmans_storage_is_where_its_settings_say(tree):
    store(tree, "/data/containers").file("/etc/containers/storage.conf", '[storage]\n graphroot = "/data/containers"\n')
    engines, record = podman(tree)
    assert record["volumes"] == [
        {
            "name": "vol1",
            "driver": "local",
            "mountpoint": "/data/containers/volumes/vol1/_data",
            "options": {},
            "on_root_disk": False,
        }
    ]
    assert engines.covers("/data/containers/storage.lock")


def test_a_container_of_podman_has_its_mounts_and_no_secrets(tree):
    engines, record = podman(store(tree))
    (one,) = record["containers"]
    assert (one["name"], one["image"], one["environment"]) == ("c1", "localhost/probe:1", ["HOME", "TOKEN"])
    assert one["mounts"] == [{"source": "/data", "destination": "/sets", "read_only": True}]
    assert "canary" not in json.dumps(documents(engines))


@pytest.mark.parametrize("text", ["{", "[1]", '{"id": 1}', ""])
def test_damaged_lists_of_podman_bring_nothing_back(tree, text):
    store(tree).file(f"{STORAGE}/overlay-images/images.json", text)
    engines, record = podman(tree)
    assert record["images"] == []
    assert not engines.covers(f"{STORAGE}/overlay/{TOP}/diff/x")


def test_layers_that_go_round_in_a_circle_bring_nothing_back(tree):
    store(tree).file(f"{STORAGE}/overlay-layers/layers.json", json.dumps([layer(TOP, BASE), layer(BASE, TOP)]))
    _engines, record = podman(tree)
    assert [one["comes_back"] for one in record["images"]] == [False, False, False]
