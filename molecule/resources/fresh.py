"""Nodes that are taken away and come back fresh, as from the installer, on the same volumes."""

import subprocess

import yaml
from scenario import CONTAINERS, LAB, PROJECT, SCENARIO, nodes

WRITTEN = {one["name"]: one for one in yaml.safe_load((SCENARIO / "nodes.yml").read_text())["lab_nodes"]}
ADDRESS = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
KEYS = "cd /etc/ssh && tar -c ssh_host_*"
KEYS_BACK = "rm /etc/ssh/ssh_host_*; tar -xC /etc/ssh && systemctl restart ssh"


def take_away():
    """Replace each node by a fresh one with the former host keys; it has the release that nodes.yml calls its next."""
    names = sorted(nodes(), key=lambda name: int(inspect(name, ADDRESS).rpartition(".")[2]))
    subnet = inspect(names[0], ADDRESS).rpartition(".")[0]
    systems = [f"{WRITTEN[name].get('next', WRITTEN[name]['release'])}/{WRITTEN[name]['gpu']}" for name in names]
    images = run(PROJECT / "lab/images.sh", *systems, text=True).split()
    volumes = [",".join(WRITTEN[name].get("volumes", [])) for name in names]
    wanted = [f"{name}={image}={volume}" for name, image, volume in zip(names, images, volumes)]
    keys = {name: run("docker", "exec", container(name), "sh", "-c", KEYS) for name in names}
    for name in names:
        run("docker", "rm", "--force", "--volumes", container(name))
    run(PROJECT / "lab/nodes.sh", CONTAINERS, subnet, LAB / "id.pub", *wanted)
    for name in names:
        run("docker", "exec", "--interactive", container(name), "sh", "-c", KEYS_BACK, input=keys[name])


def container(name):
    return f"{CONTAINERS}-{name}"


def inspect(name, form):
    return run("docker", "container", "inspect", f"--format={form}", container(name), text=True).strip()


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, cwd=PROJECT, **options).stdout
