"""site.yml end to end on two bare nodes, in the order in which an operator meets it all.

The packages are Debian's and the module is built by DKMS; the GPUs and the kernel's part are simulated (tests/sim).
"""

import json
import re
import time

import disturb
import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known
from declared import LIST, left_of, undeclared
from laboratory import ROOT
from rollouts import restart

pytestmark = pytest.mark.story
NODES = [
    {"name": "node12", "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]},
    {"name": "node13", "release": "trixie", "gpu": "a100-pcie-2", "groups": ["training_servers"]},
]
NAMES = [node["name"] for node in NODES]
SITE = ("site.yml", "-l", "gpu-nodes")
INSTALL_SECONDS = 1800
# All that installing, configuring and building writes to; name, kind, rights, owner, size, time, target and content.
FILE_TREE = r"""
top="/etc /usr /boot /var/lib/dkms /var/lib/dpkg /var/lib/gpulab /lib/modules/"
find $top -printf '%p %y %m %U:%G %s %T@ %l\n' 2>/dev/null | sort
find $top -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum
"""
REMOVED = known.removed()
LIST_NODE = (ROOT / "tests/list_node.sh").read_text()
WORK_OF_PEOPLE = (ROOT / "tests/lab/work_of_people.sh").read_text()
KINDS_OF_WORK = (
    "jupyterhub.service",
    "code-server@admin.service",
    "slurmd.service",
    "run-work.scope",
    "container 4f4f4f4f4f4f of Docker",
    "the LXC guest c1",
    "the guest c2",
    "cron.service",
    "atd.service",
    "apt-daily-upgrade.service (a job at work)",
    "backup.service (a job at work)",
    "by-hand.service (started by hand and not enabled)",
    "made-by-hand.service (started by hand and not enabled)",
)
STEP = "/var/lib/gpulab/steps/dkms-*"
BUILDING = "pgrep -x cc1 && ls /var/lib/dkms/nvidia*/*/build/make.log"
KERNELS = "ls /boot/vmlinuz-* | sort -V | cut -d- -f2-"
KERNEL = f"$({KERNELS} | tail -1)"
# As on a machine that was installed some time ago: the archive has a newer kernel by now.
OLDER_KERNEL = """
export DEBIAN_FRONTEND=noninteractive
newest=$(ls /lib/modules)
apt-get update -qq
version=$(apt-cache madison linux-image-cloud-amd64 | awk 'END {print $3}')
apt-get install --yes -qq --no-install-recommends --allow-downgrades "linux-image-cloud-amd64=$version"
apt-get purge --yes -qq "linux-image-$newest"
rm -rf "/lib/modules/$newest" /var/lib/apt/lists/*
"""
GPU_DRIVERS = """for gpu in /sys/bus/pci/devices/*; do
    case $(cat $gpu/class) in 0x030*) basename $(readlink -f $gpu/driver) ;; esac
done"""
LOOKS = 13  # tasks of a run that finds nothing to do, the proof included
LEAST_DISTURBED = 5  # items of a node
MOST_SKIPPED = 25  # answers of a proof about a node: what ought to be looked at and cannot be
# What a run leaves that no receipt names and no package owns, and why not.
NOT_IN_RECEIPTS = (
    r"/etc/ssl/certs/",  # update-ca-certificates makes it of the files that are named
    r"(/usr)?/lib/modules/",  # DKMS' modules and depmod's indices: the facts of kernels have them
    r"/boot/initrd\.img-",  # the facts of kernels say what is in it
    r"/etc/(alternatives|rc\d\.d)/",  # links that packages' scripts make
    r"/etc/systemd/system/[^/]+\.wants/",  # of units that are named
)
OWNED = """
cat /var/lib/dpkg/info/*.list
find /etc /usr /opt -xdev -type l -lname '/etc/alternatives/*'
"""
DRIVER_LOADED = "/proc/driver/nvidia/version"


@pytest.fixture(scope="module", autouse=True)
def former(lab):
    """Let the first node have an older kernel than its archive; return the kernels of each."""
    lab.node(NAMES[0]).run(OLDER_KERNEL, timeout=300)
    restart(lab, NAMES[:1])
    return every(lab, KERNELS)


@pytest.fixture(params=NAMES)
def node(request, lab):
    return lab.node(request.param)


@pytest.fixture
def report(lab):
    """Return where verify writes, in a form for -e, and the directory."""
    directory = lab.directory / "report"
    return ("-e", f"verify_report_directory={directory}"), directory


@pytest.fixture(scope="module")
def bare(lab):
    """Return what was on the nodes before anything ran on them."""
    return every(lab, LIST_NODE)


def every(lab, script):
    return [lab.node(name).run(script) for name in NAMES]


def receipts(node):
    """Return the receipts on a node, by role."""
    names = node.run("ls /var/lib/gpulab/receipts").split()
    return {name.removesuffix(".json"): json.loads(node.run(f"cat /var/lib/gpulab/receipts/{name}")) for name in names}


def due(lab):
    """Return what the preview says is due, by node and role."""
    path = lab.directory / "preview.json"
    assert lab.play("playbooks/plan.yml", "-e", f"plan_json={path}").rc == 0
    return {host["name"]: host["due"] for host in json.loads(path.read_text())["hosts"]}


def changed(run):
    return {host: counts["changed"] for host, counts in run.recap.items()}


def test_a_bare_node_has_nouveau_on_its_gpus_and_nothing_of_nvidia(node):
    assert node.run(GPU_DRIVERS).split() == ["nouveau", "nouveau"]
    assert "nvidia" not in node.run("ldconfig -p; dpkg --get-selections; ls /dev")


@pytest.mark.usefixtures("bare")
def test_check_mode_announces_the_driver_and_changes_nothing(lab, report):
    before = every(lab, FILE_TREE)
    run = lab.play(*SITE, "--check", "--diff", *report[0])
    assert run.rc == 0, run.output[-3000:]
    assert set(run.recap) == set(NAMES)
    for name in NAMES:
        assert run.recap[name]["changed"] > 0
    assert run.output.count("nvidia-kernel-dkms") >= len(NAMES)
    for name, was, is_now in zip(NAMES, before, every(lab, FILE_TREE)):
        assert sorted(set(was.splitlines()) ^ set(is_now.splitlines())) == [], name


def test_a_run_that_is_killed_while_dkms_builds_leaves_the_build_going(lab, report):
    run = lab.start(*SITE, *report[0])
    nodes = [lab.node(name) for name in NAMES]
    run.wait_until(lambda: all(node.holds(BUILDING) for node in nodes), INSTALL_SECONDS, "both nodes build")
    run.kill()
    time.sleep(10)  # longer than a worker that lost its controller asks for the step's state
    for node in nodes:
        assert node.run("systemctl is-active 'gpulab-dkms-*.service'") == "active"
        assert not node.holds(f"test -e {STEP}/result")
        assert not node.holds(f"test -e {DRIVER_LOADED}")


def test_the_next_run_takes_the_build_over_and_finishes(lab, report):
    steps, boots = every(lab, f"cat {STEP}/state.json"), [lab.node(name).boot() for name in NAMES]
    run = lab.play(*SITE, *report[0], timeout=INSTALL_SECONDS)
    assert run.rc == 0, run.output[-3000:]
    for name, step, boot in zip(NAMES, steps, boots):
        assert json.loads(lab.node(name).run(f"cat {STEP}/state.json"))["started"] == json.loads(step)["started"]
        assert lab.node(name).boot() != boot, f"{name} was not rebooted"


def test_no_other_kernel_came_with_the_driver(lab, former):
    assert every(lab, KERNELS) == former


def test_the_module_is_built_and_installed_for_the_installed_kernel(node):
    status = node.run(f"dkms status -k {KERNEL}")
    assert status.endswith(": installed"), status
    version = status.split("/")[1].split(",")[0]
    assert node.run(f"modinfo -k {KERNEL} -F version nvidia-current") == version
    assert node.run("dpkg --audit") == ""


def test_the_build_left_out_debugging_information_unless_types_are_made_of_it(node):
    makes_types = node.holds(f"test -e /lib/modules/{KERNEL}/build/vmlinux")
    left_out = node.holds(f"grep -q -- ' -g0 .*nv-pci' /var/lib/dkms/nvidia-current/*/{KERNEL}/*/log/make.log")
    assert left_out is not makes_types


def test_the_driver_is_loaded_since_the_reboot(node):
    version = node.run(f"modinfo -k {KERNEL} -F version nvidia-current")
    assert version in node.run(f"cat {DRIVER_LOADED}")
    assert node.run(GPU_DRIVERS).split() == ["nvidia", "nvidia"]


def test_a_second_run_changes_nothing(lab, report):
    boots = [lab.node(name).boot() for name in NAMES]
    run = lab.play(*SITE, *report[0])
    assert run.rc == 0, run.output[-3000:]
    assert changed(run) == dict.fromkeys(NAMES, 0)
    assert [lab.node(name).boot() for name in NAMES] == boots


def test_the_roles_themselves_change_nothing_either(lab, report):
    run = lab.play(*SITE, "-e", "gpulab_due=all", *report[0])
    assert run.rc == 0, run.output[-3000:]
    assert changed(run) == dict.fromkeys(NAMES, 0)


def test_a_run_that_finds_nothing_to_do_looks_once(lab, report):
    assert due(lab) == {name: {} for name in NAMES}
    run = lab.play(*SITE, *report[0])
    assert {host: counts["ok"] <= LOOKS for host, counts in run.recap.items()} == dict.fromkeys(NAMES, True)


@pytest.mark.parametrize("way", disturb.WAYS, ids=lambda way: way.__name__)
def test_whatever_is_disturbed_is_named_and_put_right(lab, tmp_path, way):
    node = lab.node("node12")
    before = disturb.items(receipts(node))
    commands = disturb.commands(way, before)
    assert len(commands) > LEAST_DISTURBED
    node.run("\n".join(commands.values()))
    run = lab.play("site.yml", "-l", "node12", "-e", f"verify_report_directory={tmp_path}")
    assert run.rc == 0, run.output[-3000:]
    (host,) = json.loads((tmp_path / "report.json").read_text())["hosts"]
    (drift,) = [result for result in host["results"] if result["id"] == "drift"]
    assert drift["summary"].startswith("put right by this run: ")
    names = [name for item in commands for name in disturb.names(item, before[item])]
    assert [name for name in names if name not in drift["summary"]] == []
    assert disturb.items(receipts(node)) == before
    assert due(lab)["node12"] == {}


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1, "inputs": {'])
def test_a_receipt_that_is_gone_or_cut_off_makes_its_role_due(lab, text):
    node = lab.node("node12")
    receipt = "/var/lib/gpulab/receipts/nouveau.json"
    kept = node.run(f"cat {receipt}")
    node.run(f"printf '%s' '{text}' > {receipt}" if text else f"rm {receipt}")
    assert list(due(lab)["node12"]) == ["nouveau"]
    node.run(f"cat > {receipt} <<'END'\n{kept}\nEND")
    assert due(lab)["node12"] == {}


def test_what_the_run_brought_is_in_the_receipts(lab, bare):
    node = lab.node("node12")
    lines = set(node.run(LIST_NODE).splitlines()) - set(bare[0].splitlines())
    paths = {line.split()[-1] for line in lines if "/" in line}
    named = {item.partition(":")[2].partition("#")[0] for item in disturb.items(receipts(node))}
    owned = set(node.run(OWNED).splitlines())
    left = {path for path in paths - named - owned if path.removeprefix("/usr") not in owned}
    assert sorted(path for path in left if not re.match("|".join(NOT_IN_RECEIPTS), path)) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_receipts_name_is_what_the_roles_declare(lab, name):
    assert undeclared(receipts(lab.node(name))) == []


def test_a_capture_has_nothing_of_gpulabs_left_over(lab, tmp_path):
    for name in NAMES:
        lab.node(name).run("systemctl start dpkg-db-backup.service")  # as its timer does at midnight
    vault = "--vault-password-file=molecule/capture/vault_password"
    run = lab.play("playbooks/capture.yml", "-e", f"capture_directory={tmp_path}", vault)
    assert run.rc == 0, run.output[-3000:]
    for name in NAMES:
        manifest = json.loads((tmp_path / name / "latest/manifest.json").read_text())
        assert manifest["remainder"] == []
        assert manifest["sections"]["environments"] == []


def test_check_mode_has_nothing_to_announce_any_more(lab, report):
    run = lab.play(*SITE, "--check", "--diff", *report[0])
    assert run.rc == 0, run.output[-3000:]
    assert changed(run) == dict.fromkeys(NAMES, 0)


def test_the_report_says_that_the_gpus_are_simulated(report):
    directory = report[1]
    written = json.loads((directory / "report.json").read_text())
    assert sorted(host["name"] for host in written["hosts"]) == NAMES
    assert all("simulated GPU" in host["simulated"] for host in written["hosts"])
    assert "simulated GPU" in (directory / "report.html").read_text()
    assert (directory / "junit.xml").read_text().count('name="simulated" value="simulated GPU') == len(NAMES)
    for name in NAMES:
        assert "gpulab_simulated 1" in (directory / f"{name}.prom").read_text()


def test_verify_finds_a_hot_gpu_and_says_what_to_do(lab, report):
    assert lab.play("playbooks/verify.yml", *report[0]).rc == 0
    node = lab.node("node12")
    node.run("gpulab-simulate fault 'gpu.0.temp = 99'")
    run = lab.play("playbooks/verify.yml", *report[0])
    assert run.rc == 2
    assert "99 °C, the limit is 90 °C" in run.said_of("node12")
    assert "GPULAB-V001" in run.said_of("node12")
    assert "fail temperature [GPU " in run.output
    assert "check_cooling" in run.output
    assert run.recap["node13"]["verdict"] == "ok"
    node.run("gpulab-simulate heal")
    assert lab.play("playbooks/verify.yml", *report[0]).rc == 0


def test_gpus_compute_when_asked_to_and_wrong_results_are_found(lab, report):
    standard = ("playbooks/verify.yml", "-e", "verify_level=standard", *report[0])
    assert lab.play(*standard).rc == 0
    results = [r for host in json.loads((report[1] / "report.json").read_text())["hosts"] for r in host["results"]]
    tried = [r for r in results if r["id"] == "cuda-smoke"]
    assert [(r["severity"], gpu) for r in tried for gpu in r["gpus"]] == [("ok", 0), ("ok", 1)] * len(NAMES)
    assert all("simulated" in r["reason"] for r in results if r["id"] == "memory-bandwidth")
    node = lab.node("node13")
    node.run("gpulab-simulate fault 'gpu.1.cuda_wrong_results = 3'")
    run = lab.play(*standard)
    assert run.rc == 2
    assert "fail cuda-smoke [GPU " in run.said_of("node13")
    assert run.recap["node12"]["verdict"] == "ok"
    node.run("gpulab-simulate heal")


@pytest.mark.parametrize("level", ["quick", "standard"])
def test_a_proof_alone_names_a_file_changed_by_hand_and_compares_with_what_was_planned(lab, report, level):
    node, file = lab.node("node12"), "/etc/modprobe.d/gpulab-nouveau.conf"
    node.run(f"cp -p {file} /root/as-it-was && echo '# by hand' >>{file}")
    run = lab.play("playbooks/verify.yml", "-e", f"verify_level={level}", *report[0])
    node.run(f"mv /root/as-it-was {file}")
    assert run.rc == 0, run.output[-3000:]
    hosts = {host["name"]: host for host in json.loads((report[1] / "report.json").read_text())["hosts"]}
    found = {result["id"]: result for result in hosts["node12"]["results"]}
    assert found["drift"]["observed"] == [f"{file}: edited"]
    assert {found[check]["severity"] for check in ("driver-plan", "tuning-limits")} == {"ok"}
    assert max(host["counts"]["skipped"] for host in hosts.values()) <= MOST_SKIPPED


@pytest.mark.usefixtures("report")
def test_nvidia_smi_answers_and_says_that_the_gpus_are_simulated(lab):
    for name in NAMES:
        node = lab.node(name)
        assert "SIMULATED" in node.run("nvidia-smi")
        assert len(node.run("nvidia-smi -L").splitlines()) == 2


def make_stale_and_busy(node):
    """Let the kernel hold another driver than the disk, as after an upgrade, while a job runs on GPU 0."""
    version = node.run("cat /sys/module/nvidia/version")
    node.run(f"sed -i s/{version}/450.51.05/ /sys/module/nvidia/version {DRIVER_LOADED}")
    job = node.run("sleep 1800 >/dev/null 2>&1 & echo $!")
    node.run(f"gpulab-simulate set 'gpu.0.processes = {job}:1024'")


def test_a_node_in_use_is_not_rebooted(lab, report):
    node = lab.node("node12")
    make_stale_and_busy(node)
    boot = node.boot()
    run = lab.play(*SITE, *report[0])
    assert run.rc == 2
    assert "GPULAB-H030" in run.said_of("node12")
    assert "sleep" in run.said_of("node12")
    assert "-e reboot_force=node12" in run.said_of("node12")
    assert node.boot() == boot
    assert run.recap["node13"]["verdict"] == "ok"


def test_what_somebody_left_running_is_not_rebooted_away(lab, report):
    node = lab.node("node12")
    node.run("gpulab-simulate set 'gpu.0.processes ='")
    assert lab.log_in("node12", "nohup sleep 1800 >/dev/null 2>&1 &").wait(60) == 0
    boot = node.boot()
    run = lab.play(*SITE, *report[0])
    assert "GPULAB-H030" in run.said_of("node12")
    assert "admin, logged out, still runs sleep" in run.said_of("node12")
    assert node.boot() == boot
    node.run("pkill -u admin -x sleep")


def test_many_kinds_of_work_are_each_named_and_none_is_ended(lab, report):
    node = lab.node("node12")
    node.run(f"set -- start\n{WORK_OF_PEOPLE}")
    begun, boot = node.run(f"set -- count\n{WORK_OF_PEOPLE}"), node.boot()
    run = lab.play(*SITE, *report[0])
    said = " ".join(run.said_of("node12").split())
    assert "GPULAB-H030" in said
    for place in KINDS_OF_WORK:
        assert f" runs sleep in {place}" in said
    assert (node.run(f"set -- count\n{WORK_OF_PEOPLE}"), node.boot()) == (begun, boot)
    node.run(f"set -- stop\n{WORK_OF_PEOPLE}")


def test_a_desktop_is_not_taken_away_and_another_node_not_forced_in_its_place(lab, report):
    node = lab.node("node12")
    leader = node.run("systemctl show --property=MainPID --value systemd-journald")
    node.run(f"printf 'USER=0\\nCLASS=user\\nTYPE=x11\\nLEADER={leader}\\n' > /run/systemd/sessions/desktop")
    boot = node.boot()
    run = lab.play(*SITE, "-e", "reboot_force=node13", *report[0])
    assert "GPULAB-H030" in run.said_of("node12")
    assert "root at a desktop" in run.said_of("node12")
    assert node.boot() == boot


def test_a_node_in_use_is_rebooted_by_name(lab, report):
    boots = [lab.node(name).boot() for name in NAMES]
    run = lab.play(*SITE, "-e", "reboot_force=node12", *report[0])
    assert run.rc == 0, run.output[-3000:]
    assert lab.node("node12").boot() != boots[0]
    assert lab.node("node13").boot() == boots[1]


def test_options_of_the_module_hold_after_the_reboot_that_they_take(lab, report):
    node = lab.node("node12")
    options = {"NVreg_RestrictProfilingToAdminUsers": 0, "NVreg_RegistryDwords": "a=1; b=2"}
    wish = ("-e", json.dumps({"nvidia_driver_module_options": {"nvidia": options}}))
    boot = node.boot()
    for turn in ("reboots", "changes nothing"):
        run = lab.play("site.yml", "-l", "node12", *wish, *report[0])
        assert run.rc == 0, run.output[-3000:]
        assert (node.boot() != boot) is (turn == "reboots")
        assert (changed(run)["node12"] == 0) is (turn == "changes nothing")
        running = node.run("cat /proc/driver/nvidia/params").splitlines()
        assert {"RmProfilingAdminOnly: 0", 'RegistryDwords: "a=1; b=2"'} <= set(running)
        boot = node.boot()


def test_open_modules_that_do_not_build_are_refused_before_any_package_is_touched(lab, report):
    node = lab.node("node13")
    packages = "dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Abbrev}\n'"
    before = node.run(packages)
    run = lab.play("site.yml", "-l", "node13", "-e", "nvidia_driver_kernel_modules=open", *report[0])
    assert run.rc == 2
    said = run.said_of("node13")
    assert "GPULAB-P016" in said
    assert node.run(f"modinfo -k {KERNEL} -F version nvidia-current") in said
    assert node.run(f"echo {KERNEL}") in said
    assert node.run(packages) == before
    assert node.run("dpkg --audit") == ""
    assert node.holds(f"test -e {DRIVER_LOADED}")


def test_what_site_yml_brought_is_taken_away_again(lab, bare):
    run = lab.play("playbooks/remove.yml")
    assert run.rc == 0, run.output[-3000:]
    for name, was, is_now in zip(NAMES, bare, every(lab, LIST_NODE)):
        differing = set(was.splitlines()) ^ set(is_now.splitlines())
        # On Debian 12 it came with dkms; python3-apt, which was there before, recommends it.
        assert sorted(line for line in differing if not re.search(r"lsb.release", line)) == [], name
        assert left_of(REMOVED, lab.node(name).run(LIST)) == [], name
    assert changed(lab.play("playbooks/remove.yml")) == dict.fromkeys(NAMES, 0)
