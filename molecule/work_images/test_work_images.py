"""Images of work as people use them, as root keeps them, and as somebody attacks them."""

import json
import shlex

import pytest
import scenario

NAMES = ("tools", "arm", "large", "bomb", "newer", "more")
STORE = "/srv/images"
SERVER = "docker://images.lab.example:5443/lab/tools"


def as_person(host, name, command):
    """Run a command as a login does."""
    return host.run(f"su - {name} -c {shlex.quote(command)}")


def digests(host):
    """Return the digests of a node's images by name; busybox is another one on each release of Debian."""
    made = (scenario.EPHEMERAL / "images" / host.backend.host).read_text()
    return dict(zip(NAMES, made.split(), strict=True))


def digest(name):
    """Return the digest of an image as a template, which is each node's own."""
    return f"{{{{ lookup('ansible.builtin.file', images_of_node).splitlines()[{NAMES.index(name)}] }}}}"


def image(name, **more):
    """Return an image as the inventory names it."""
    return {"name": name, "source": "/mnt/stick", "digest": digest(name), **more}


def place_of(host, name):
    """Return the directory of an image on a node."""
    return f"{STORE}/{digests(host)[name].replace(':', '-')}"


def converge(*images, **variables):
    """Apply the role, with these images beside those of the scenario."""
    if images:
        variables["work_images_list"] = list(images)
    return scenario.playbook(scenario.CONVERGE, **variables)


def proof(directory):
    """Return what the proof says of images, as [severity, summary] of each node and finding."""
    run = scenario.playbook("playbooks/verify.yml", verify_report_directory=str(directory))
    hosts = json.loads((directory / "report.json").read_text())["hosts"]
    found = [result for host in hosts for result in host["results"] if result["id"] == "work-images"]
    assert found, run.output
    return [[result["severity"], result["summary"]] for result in found]


def test_people_without_root_start_commands(host):
    assert as_person(host, "ada", "work-run tools id -un").stdout == "ada\n"
    assert as_person(host, "ben", "work-run more cat /words").stdout == "from the registry\n"
    shown = as_person(host, "ada", "PYTHONPATH=/x LD_PRELOAD= work-run tools env").stdout.splitlines()
    assert {"GREETING=hello $HOME", "LD_LIBRARY_PATH=/compat", "HOME=/home/ada"} <= set(shown)
    assert not [line for line in shown if line.startswith("PYTHONPATH")]
    run = as_person(host, "ada", "mkdir -p made && cd made && work-run tools sh -c 'echo work > result; exit 7'")
    assert (run.rc, host.file("/home/ada/made/result").content_string) == (7, "work\n")
    assert "tools" in as_person(host, "ada", "work-run").stdout
    assert "there is no image other" in as_person(host, "ada", "work-run other true").stderr


def test_nothing_of_an_image_is_a_way_to_become_root_or_out_of_it(host):
    assert host.run(f"find {STORE} ! -user root -o ! -group root -o -perm /6000 -o ! -type l -perm /022 | grep .").rc
    assert host.run(f"find {STORE} -type b -o -type c -o -type s -o -type p | grep .").rc
    assert host.run("ls /etc/evil /etc/evil2 /evil2 /srv/evil2").stdout == ""
    assert host.run(f"getcap -r {STORE} 2>/dev/null").stdout == ""
    run = as_person(host, "ada", "work-run tools /root/id -u; work-run tools cat /etc/shadow")
    assert run.stdout.strip() == host.check_output("id -u ada")
    assert "Too many levels of symbolic links" in run.stderr  # it leads to itself in there


@pytest.mark.parametrize("place", [f"{STORE}/tools/rootfs/bin/sh", f"{STORE}/tools/image.json", f"{STORE}/tools"])
def test_nobody_but_root_writes_there(host, place):
    run = as_person(host, "ada", f"echo x >> {place}; mv {place} {place}2; ln -sfn /tmp {STORE}/tools; rm -f {place}")
    assert "denied" in run.stderr
    run = as_person(host, "ada", "work-run tools touch /open/x /bin/sh")
    assert "Read-only file system" in run.stderr
    assert as_person(host, "ada", "work-run tools cat /words").stdout == "the tools\n"


def test_a_command_has_the_driver_of_the_moment_and_a_session_that_opens_no_gpu_is_told(host):
    host.check_output("mknod --mode=0666 /dev/nvidia0 c 195 0; mkdir -p /opt/lab /etc/ld.so.conf.d")
    host.check_output("echo /opt/lab > /etc/ld.so.conf.d/lab.conf")
    look = "echo $LD_LIBRARY_PATH; for way in ${LD_LIBRARY_PATH%%:*}/*; do test -e $way && ls -l $way; done"
    try:
        for version in ("570.26", "580.1"):
            made = f"/opt/lab/libcuda.so.{version}"
            host.check_output(f"rm -f /opt/lab/*; cp /usr/lib/gpulab-simulation/libcuda.so.1 {made} && ldconfig")
            first, *ways = as_person(host, "ada", f"work-run tools sh -c {shlex.quote(look)}").stdout.splitlines()
            assert first.endswith(":/compat")
            assert any(way.endswith(f"/libcuda.so.1 -> /.gpulab/host/0/libcuda.so.{version}") for way in ways), ways
        host.check_output("chmod 0600 /dev/nvidia0")
        run = as_person(host, "ada", "work-run tools sh -c 'echo $LD_LIBRARY_PATH'")
        assert (run.stdout, "opens none of the node's GPUs (1)" in run.stderr) == ("/compat\n", True)
    finally:
        host.check_output("rm -r /dev/nvidia0 /opt/lab /etc/ld.so.conf.d/lab.conf; ldconfig")
    assert host.run("ls -d /tmp/work-run-*").stdout == ""


def test_the_next_run_asks_neither_stick_nor_registry():
    scenario.everywhere("mv /mnt/stick /mnt/pulled-out; systemctl stop lab-registry")
    try:
        run = converge()
    finally:
        scenario.everywhere(
            "mv /mnt/pulled-out /mnt/stick; systemd-run --unit=lab-again docker-registry serve /root/registry.yml"
        )
    assert run.status == 0, run.output
    assert set(run.changed.values()) == {0}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"digest": "latest"}, "K001"),
        ({"digest": "sha256:abc"}, "K001"),
        ({"digest": "arm"}, "K002"),
        ({"driver": "9999.1"}, "K003"),
        ({"source": "/mnt/nothing"}, "K009"),
        ({"source": SERVER, "digest": "sha256:" + "0" * 64}, "K009"),
        ({"source": "docker://127.0.0.1:1/lab/tools", "digest": "sha256:" + "0" * 64}, "K009"),
        ({"source": "/mnt/turned"}, "K011"),
        ({"directory": "/tmp/images"}, "K013"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(change, code):
    turned = "/mnt/turned/blobs/sha256"
    for host in scenario.nodes().values():
        host.check_output(f"mkdir -p {turned} && echo x > {turned}/{digests(host)['newer'].partition(':')[2]}")
    state = f"find {STORE} /usr/local/bin /mnt -printf '%p %i %C@\n'; cat /var/lib/gpulab/work-images.json"
    before = scenario.each(lambda host: host.check_output(state))
    given = {**image("newer"), **change}
    place = given.pop("directory", STORE)
    if given["digest"] in NAMES:
        given["digest"] = digest(given["digest"])
    run = converge(given, work_images_directory=place)
    assert run.status != 0
    assert f"GPULAB-{code}" in run.output
    assert scenario.each(lambda host: host.check_output(state)) == before


def test_a_blob_that_was_turned_and_a_test_that_fails_leave_nothing():
    scenario.everywhere(
        "rm -rf /mnt/turned && cp -r /mnt/stick /mnt/turned && cd /mnt/turned/blobs/sha256 && for blob in *; do"
        " test $(stat -c %s $blob) -lt 10000 || printf x | dd of=$blob bs=1 seek=5000 conv=notrunc status=none; done"
    )
    run = converge(image("newer", source="/mnt/turned"))
    assert "GPULAB-K011" in run.output
    run = converge(image("newer", test="nothing"))
    assert "GPULAB-K012" in run.output
    for host in scenario.nodes().values():
        assert not host.file(f"{STORE}/.new").exists
        assert not host.file(f"{STORE}/newer").exists
        assert host.run(f"ls -d {STORE}/sha256-*").stdout.count("\n") == 2


def test_a_disk_that_is_full_is_told_and_no_half_image_stays():
    scenario.everywhere("mkdir -p /srv/small && mount -t tmpfs -o size=150M,mode=755 small /srv/small")
    try:
        before = converge(image("large"), work_images_directory="/srv/small/images")
        assert "GPULAB-K005" in before.output
        halfway = converge(image("bomb"), work_images_directory="/srv/small/images")
        assert "GPULAB-K005" in halfway.output
        for host in scenario.nodes().values():
            assert host.check_output("find /srv/small -mindepth 2") == ""
    finally:
        scenario.everywhere("umount /srv/small")


def test_a_killed_controller_leaves_no_half_image_and_the_next_run_ends():
    scenario.cut_off(scenario.CONVERGE, when=f"ls {STORE}/.new/script", work_images_list=[image("large")])
    for host in scenario.nodes().values():
        assert not host.file(f"{STORE}/large").exists
    run = converge(image("large"))
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        assert as_person(host, "ada", "work-run large cat /words").stdout == "large\n"
        assert not host.file(f"{STORE}/.new").exists
    assert converge(work_images_absent=["large"]).status == 0


def test_what_is_in_use_stays_until_nobody_uses_it():
    scenario.everywhere(
        "systemd-run --uid=ada --unit=lab-runs /usr/local/bin/work-run tools sleep 9999;"
        " timeout 60 sh -c 'until pgrep --uid ada --exact sleep; do sleep 0.2; done'"
    )
    refused = converge(image("newer"), work_images_absent=["tools"])
    assert "GPULAB-K007" in refused.output
    assert "user ada" in refused.output
    changed = {**image("newer"), "name": "tools"}
    run = converge(changed)
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        assert as_person(host, "ben", "work-run tools cat /words").stdout == "the newer tools\n"
        assert host.file(place_of(host, "tools")).exists
    scenario.everywhere("systemctl stop lab-runs")
    assert converge().status == 0
    for host in scenario.nodes().values():
        assert as_person(host, "ben", "work-run tools cat /words").stdout == "the tools\n"
        assert not host.file(place_of(host, "newer")).exists


def test_the_proof_starts_images_and_says_what_is_damaged(tmp_path):
    whole = ["ok", "2 images in /srv/images, started without a GPU"]
    gone = "is not there or does not start (GPULAB-K012)"
    assert whole in proof(tmp_path)
    scenario.everywhere(f"chmod 0644 {STORE}/tools/rootfs/bin/busybox")
    assert ["fail", f"the image tools {gone}"] in proof(tmp_path)
    scenario.everywhere(f"rm {STORE}/more/image.json; chmod 0755 {STORE}/tools/rootfs/bin/busybox")
    assert ["fail", f"the image more {gone}"] in proof(tmp_path)
    assert converge().status == 0
    assert whole in proof(tmp_path)


def test_images_go_and_come_back_by_their_digests_and_what_people_made_stays():
    before = scenario.each(lambda host: host.check_output(f"ls -l {STORE} | grep -o '[a-z]* -> .*'"))
    run = scenario.playbook(scenario.CONVERGE, work_images_state="absent")
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        assert (
            host.run(f"ls -d {STORE} /usr/local/bin/work-run /usr/bin/ch-run /var/lib/gpulab/work-images.json").stdout
            == ""
        )
        assert host.file("/home/ada/made/result").content_string == "work\n"
    assert set(scenario.playbook(scenario.CONVERGE, work_images_state="absent").changed.values()) == {0}
    assert converge().status == 0
    assert scenario.each(lambda host: host.check_output(f"ls -l {STORE} | grep -o '[a-z]* -> .*'")) == before
