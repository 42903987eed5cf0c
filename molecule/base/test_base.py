"""The base role, seen from the node."""


def test_https_works_with_the_nodes_own_trust_store(host):
    """The lab's way out may be a proxy with an authority of its own; pip shows whether the node trusts it."""
    host.check_output("apt-get install --yes --no-install-recommends python3-pip python3-venv")
    host.check_output("python3 -m venv /tmp/trust")
    host.check_output("/tmp/trust/bin/pip download --no-deps --dest /tmp/trust six")


def test_contrib_is_enabled_and_apt_is_content(host):
    targets = host.check_output("apt-get indextargets --format '$(COMPONENT)'").split()
    assert "contrib" in targets
    assert "non-free" not in targets
    update = host.run("apt-get update")
    assert update.rc == 0
    assert "configured multiple times" not in update.stdout + update.stderr


def test_the_mirror_is_the_nodes_own(host):
    uris = set(host.check_output("apt-get indextargets --format '$(COMPONENT) $(REPO_URI)'").splitlines())
    contrib = {line.split()[1] for line in uris if line.startswith("contrib ")}
    assert contrib == {line.split()[1] for line in uris if line.startswith("main ")}
