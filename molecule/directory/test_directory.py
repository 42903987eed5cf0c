"""People of a directory, as the nodes and sshd see them."""

import subprocess

import pytest
import scenario

SSH = "ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR -o NumberOfPasswordPrompts=1 -o PubkeyAuthentication=no"
SLAPD = ["/usr/sbin/slapd", "-d", "0", "-h", "ldaps:///", "-f", "/root/slapd.conf"]
STATE = "cat /etc/nsswitch.conf /etc/pam.d/common-*; cat /etc/sssd/sssd.conf 2>&1; dpkg-query --show 'sssd*'"


def logs_in(host, name, password):
    return host.run(f"sshpass -p '{password}' {SSH} {name}@127.0.0.1 id -u || true").stdout.strip()


def directory(*command):
    subprocess.run(["docker", "exec", f"{scenario.CONTAINERS}-ldap", *command], check=True)


def test_a_member_has_the_same_number_everywhere_and_a_home_of_her_own(host):
    assert host.check_output("id ada") == "uid=20001(ada) gid=21000(vision) groups=21000(vision)"
    assert logs_in(host, "ada", "of ada") == "20001"
    assert host.check_output("stat --format=%a:%U:%G /home/ada") == "700:ada:vision"


def test_nobody_else_logs_in(host):
    assert host.check_output("id -u ben") == "20002"
    assert logs_in(host, "ben", "of ben") == ""
    assert logs_in(host, "ada", "wrong") == ""


def test_the_password_of_the_node_is_roots_alone(host):
    assert host.check_output("stat --format=%A:%U:%G /etc/sssd/sssd.conf").endswith("---:root:root")


def test_who_has_been_there_logs_in_while_no_server_answers():
    for host in scenario.nodes().values():
        assert logs_in(host, "ada", "of ada") == "20001"
    directory("pkill", "-x", "slapd")
    try:
        for host in scenario.nodes().values():
            assert logs_in(host, "ada", "of ada") == "20001"
            assert logs_in(host, "ada", "wrong") == ""
    finally:
        directory("systemd-run", "--unit=lab-ldap-again", *SLAPD)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"directory_uris": ["ldap://ldap.lab.example"]}, "not of the form ldaps://NAME"),
        ({"directory_groups": []}, "nobody could log in"),
        ({"directory_base": "dc=lab,dc=example\nldap_tls_reqcert = never"}, "line break"),
        ({"users_people": [{"name": "eve", "uid": 20009}]}, "users_people names people, too: eve"),
        ({"directory_uris": ["ldaps://other.lab.example"]}, "its certificate is not accepted"),
        ({"directory_uris": ["ldaps://ldap.lab.example:6360"]}, "Connection refused"),
        ({"directory_bind_password": "secret-of-somebody"}, "does not take the password of cn=reader"),
        ({"directory_base": "dc=nowhere,dc=example"}, "it has no entry dc=nowhere"),
        ({"directory_bind_dn": "", "directory_bind_password": ""}, "GPULAB-U014"),
    ],
)
def test_what_cannot_be_joined_changes_nothing(settings, told):
    before = scenario.each(lambda host: host.check_output(STATE))
    run = scenario.playbook(scenario.CONVERGE, **settings)
    assert run.status != 0
    assert told in " ".join(run.output.split())
    assert "secret-of-somebody" not in run.output
    assert scenario.each(lambda host: host.check_output(STATE)) == before


def test_a_server_that_hangs_is_told_within_its_time():
    directory("pkill", "-STOP", "-x", "slapd")
    try:
        run = scenario.playbook(scenario.CONVERGE, directory_settings={"entry_cache_timeout": 600})
        same = scenario.playbook(scenario.CONVERGE)
    finally:
        directory("pkill", "-CONT", "-x", "slapd")
    assert run.status != 0
    assert "GPULAB-U014" in run.output
    assert same.status == 0, same.output


def test_a_group_that_the_directory_does_not_have_is_found():
    proof = scenario.playbook("playbooks/verify.yml", verify_fail_on="warn").output
    assert "warn users-directory" not in " ".join(proof.split())
    assert scenario.playbook(scenario.CONVERGE, directory_groups=["vision", "renamed"]).status == 0
    proof = " ".join(scenario.playbook("playbooks/verify.yml", verify_fail_on="warn").output.split())
    assert "nobody of renamed can log in" in proof
    assert scenario.playbook(scenario.CONVERGE).status == 0


def test_what_gpulab_brought_goes_and_homes_stay():
    assert scenario.playbook(scenario.CONVERGE, directory_state="absent").status == 0
    for host in scenario.nodes().values():
        assert host.run("id ada").rc != 0
        assert not host.file("/etc/sssd/sssd.conf").exists
        assert "sss" not in host.check_output("cat /etc/nsswitch.conf /etc/pam.d/common-*")
        assert "mkhomedir" not in host.check_output("cat /etc/pam.d/common-session")
        assert host.file("/home/ada").is_directory
    run = scenario.playbook(scenario.CONVERGE, directory_state="absent")
    assert set(run.changed.values()) == {0}


def test_a_file_of_somebody_elses_is_left():
    scenario.everywhere("mkdir -p /etc/sssd && printf '[sssd]\n' > /etc/sssd/sssd.conf")
    run = scenario.playbook(scenario.CONVERGE)
    assert run.status != 0
    assert "GPULAB-H020" in run.output
    assert scenario.each(lambda host: host.check_output("cat /etc/sssd/sssd.conf")) == dict.fromkeys(
        scenario.nodes(), "[sssd]"
    )
