"""The vault password of a run, and keys of age."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from ansible.parsing.vault import VaultSecret, VaultSecretsContext
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import secrets, signature

MEMORY = Path("/dev/shm")  # noqa: S108 - where a sync takes no time


@pytest.fixture
def tmp_path():
    """Return a directory in memory, where there is such."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture
def vault_password(monkeypatch):
    """Let a run have these vault passwords, by vault id; by default one."""

    def set_passwords(**passwords):
        context = VaultSecretsContext([(name, VaultSecret(text.encode())) for name, text in passwords.items()])
        monkeypatch.setattr(VaultSecretsContext, "_current", context)

    set_passwords(default="correct horse")
    return set_passwords


@pytest.fixture
def vault(vault_password):
    vault_password(default="correct horse")
    return secrets.Vault("node07")


@pytest.fixture
def age_key(tmp_path):
    """Return (public key, file with the private one)."""
    if not shutil.which("age-keygen"):
        pytest.skip("age is not installed")
    path = tmp_path / "age.key"
    subprocess.run(["age-keygen", "-o", path], check=True, capture_output=True)
    done = subprocess.run(["age-keygen", "-y", path], check=True, capture_output=True, text=True)
    return done.stdout.strip(), str(path)


@pytest.fixture
def age(age_key):
    return secrets.Age("node07", [age_key[0]], age_key[1])


@pytest.fixture(autouse=True)
def signing_key(monkeypatch, tmp_path_factory):
    """Keep the key that signs captures out of this user's home; return its path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
    return signature.place()
