"""What keeps a hub from a node: each refusal by what the role saw there."""

from datetime import datetime, timedelta, timezone
from functools import cache

import pytest
from ansible_collections.gpulab.node.plugins.filter.hub_faults import hub_faults
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

NODE = "NodeName=node1 CPUTot=16 RealMemory=64000 MemSpecLimit=2000 Gres=gpu:a100:2(S:0) State=IDLE"
SHELL = 'LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=7,fd=3)) ino:1 sk:1'


@cache
def pair(names=("lab.example", "*.gpu.example"), begin=-1, days=60, password=None):
    """Return the texts of a certificate and its key; begin and days count from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old.example")])
    now = datetime.now(timezone.utc)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now + timedelta(days=begin)).not_valid_after(now + timedelta(days=days))
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False)
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode(), text.decode()


def seen(**others):
    """Return what a role saw of a node that can have a hub, but for others; pair stands for certificate and key."""
    certificate, key = others.pop("pair", pair())
    return {
        "host": "node1", "system": {"id": "debian", "version": "13", "name": "Debian 13"},
        "url": "https://lab.example:8443", "certificate": certificate, "key": key,
        "users": ["vision"], "groups": ["vision"], "choices": [{"name": "big", "gpus": 2, "hours": 4, "memory": "60G"}],
        "node": NODE, "kernels": ["/usr/local/share/jupyter/kernels/venv-lab/kernel.json"],
        "listeners": SHELL, "uid": "", "units": "", **others,
    }  # fmt: skip


def listening(port, uid=""):
    return f'LISTEN 0 511 *:{port} *:* users:(("node",pid=9,fd=3)) {uid} ino:2 sk:2'


FAULTS = {
    "J001 no PEM": {"certificate": "nothing"},
    "J001 the key is missing": {"key": ""},
    "J001 another certificate": {"key": pair(days=61)[1]},
    "J001 passphrase": {"pair": pair(password=b"secret")},
    "J002 lab.example, *.gpu.example": {"url": "https://other.example"},
    "J002 a.b.gpu.example": {"url": "https://a.b.gpu.example"},
    "J002 no name": {"pair": pair(names=()), "url": "https://old.example"},
    "J003 14 days": {"pair": pair(days=13)},
    "J003 from": {"pair": pair(begin=1)},
    "J004 port 8443 of node1 is taken by node (process 9)": {"listeners": f"{SHELL}\n{listening(8443, 'uid:33')}"},
    "J004 8081": {"listeners": listening(8081)},
    "J005 big: 3 GPUs, of 2": {"choices": [{"name": "big", "gpus": 3, "hours": 1}]},
    "J005 big: 17 cores, of 16": {"choices": [{"name": "big", "gpus": 0, "hours": 1, "cores": 17}]},
    "J005 big: 62464 MiB of memory, of 62000": {
        "choices": [{"name": "big", "gpus": 0, "hours": 1, "memory": "61G"}]
    },
    "J005 no choice": {"choices": []},
    "J006 kernel": {"kernels": ["/usr/local/share/jupyter/kernels/theirs/kernel.json"]},
    "J007 Slurm": {"node": ""},
    "J008 jupyterhub.service": {"units": "jupyterhub.service enabled enabled"},
    "J009 no group robots": {"users": ["vision", "robots"]},
    "J009 empty": {"users": []},
    "J011 Ubuntu": {"system": {"id": "ubuntu", "version": "24.04", "name": "Ubuntu 24.04"}},
    "J012 http://lab": {"url": "http://lab.example"},
}  # fmt: skip


@pytest.mark.parametrize("expected", FAULTS)
def test_what_cannot_work_is_refused(expected):
    code, _, words = expected.partition(" ")
    (refusal,) = hub_faults(seen(**FAULTS[expected]))
    assert refusal["code"] == code
    assert words in refusal["cause"]
    assert "PRIVATE" not in str(refusal)


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"url": "https://LAB.example"},
        {"url": "https://node1.gpu.example:8443"},
        {"listeners": listening(8443, "uid:998"), "uid": "998"},
        {"listeners": listening(18443)},
        {"kernels": ["/usr/local/share/jupyter/kernels/conda-lab/kernel.json"]},
    ],
)
def test_a_node_that_can_have_a_hub_gets_it(others):
    assert hub_faults(seen(**others)) == []


def test_all_that_is_wrong_is_told_at_once():
    wrong = seen(url="https://other.example", node="", kernels=[], units="jupyterhub.service enabled")
    assert [refusal["code"] for refusal in hub_faults(wrong)] == ["J002", "J007", "J006", "J008"]
