"""The nightly proof, seen from a controller."""

import pytest
import scenario

UNITS = ("gpulab-proof@.service", "gpulab-proof.timer", "gpulab-proof-weekly.timer")


def test_systemd_takes_the_units_and_the_timers_wait(host):
    done = host.run("cd /etc/systemd/system && systemd-analyze verify gpulab-proof@quick.service %s %s", *UNITS[1:])
    assert (done.rc, done.stderr) == (0, "")
    for timer in UNITS[1:]:
        assert host.check_output("systemctl is-active %s", timer) == "active"
        assert host.check_output("systemctl is-enabled %s", timer) == "enabled"
    properties = host.check_output("systemctl show -p Persistent,RandomizedDelayUSec,TimersCalendar gpulab-proof.timer")
    assert "Persistent=yes" in properties
    assert "RandomizedDelayUSec=30min" in properties
    assert "*-*-* 02:00:00" in properties


@pytest.mark.parametrize(("level", "status"), [("quick", 0), ("standard", 2)])
def test_proof_runs_as_the_user_and_a_bad_one_calls_somebody(host, level, status):
    host.check_output("rm -f /run/somebody-was-called /srv/lab/called; echo %s > /srv/lab/status", str(status))
    done = host.run("systemctl start gpulab-proof@%s.service", level)
    assert done.succeeded == (status == 0)
    user, directory, arguments = host.check_output("cat /srv/lab/called").splitlines()
    assert (user, directory) == ("prover", "/srv/lab")
    asked = f"gpulab.node.verify -e verify_level={level} -e verify_software=all"
    assert arguments == f"{asked} -i /srv/lab/hosts.yml -l training_servers:&rack1"
    host.run("sleep 1")
    assert host.file("/run/somebody-was-called").exists == (status != 0)


def test_what_could_not_run_is_refused_and_what_is_not_wanted_goes():
    refused = scenario.playbook(scenario.CONVERGE, nightly_directory="/srv/nowhere")
    assert "GPULAB-F060" in refused.output
    assert "/srv/nowhere is not there" in refused.output
    assert set(scenario.each(lambda host: host.file("/etc/systemd/system/gpulab-proof.timer").exists).values()) == {
        True
    }
    scenario.playbook(scenario.CONVERGE, nightly_standard_at=None)
    assert set(
        scenario.each(lambda host: host.run("systemctl is-active gpulab-proof-weekly.timer").stdout).values()
    ) == {"inactive\n"}
    scenario.playbook(scenario.CONVERGE, nightly_state="absent")
    assert set(scenario.each(lambda host: host.run("ls /etc/systemd/system | grep gpulab-proof").stdout).values()) == {
        ""
    }
    again = scenario.playbook(scenario.CONVERGE, nightly_state="absent")
    assert set(again.changed.values()) == {0}
