"""Models in the store, as two people's programs find them without a network, and as root keeps them."""

import json
import shlex

import pytest
import scenario

FIRST, SECOND = "a" * 40, "b" * 40
WITH_TORCH = ("debian12",)
TOKEN = "hf_nobodyMaySeeThis1234567890"  # noqa: S105
REPOSITORY = "/srv/models/hub/models--acme--tiny"
TINY = {"name": "acme/tiny", "revision": FIRST, "files": ["*.safetensors", "*.json"]}
NEW = {**TINY, "revision": SECOND}
PROGRAM = "/usr/bin/python3 -BEs /usr/local/lib/gpulab-models/models.py"


def as_person(host, name, command):
    """Run a command as a login does, without a way out."""
    return host.run(f"unshare --net su - {name} -c {shlex.quote(command)}")


def use(host, person, *arguments):
    """Return what a program finds, run by a person."""
    run = as_person(host, person, f"timeout 60 /opt/hf/bin/python /opt/use.py {' '.join(arguments)}")
    assert run.rc == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def converge(**variables):
    """Apply the role; no token stands in what is shown, at any verbosity."""
    run = scenario.playbook(scenario.CONVERGE, "-vvv", "--diff", **variables)
    assert TOKEN not in run.output
    return run


def proof():
    """Return what the proof says, in one line."""
    return " ".join(scenario.playbook("playbooks/verify.yml", verify_fail_on="warn").output.split())


def blob(host, name="model.safetensors"):
    """Return the path of a file's blob."""
    return host.check_output(f"readlink -f {REPOSITORY}/snapshots/{FIRST}/{name}")


@pytest.mark.parametrize("person", ["ada", "ben"])
def test_two_people_load_one_model_without_a_network(host, person):
    found = use(host, person, "acme/tiny")
    snapshot = f"{REPOSITORY}/snapshots/{FIRST}"
    answer = found.pop("answer")
    assert found == {"weight": 1.0, "hidden": 64, "tokens": [1, 2], "snapshot": snapshot}
    assert answer == ([1.0, 1.0] if host.backend.host in WITH_TORCH else None)
    assert use(host, person, "acme/tiny", FIRST)["weight"] == 1.0
    assert use(host, person, "datasets/acme/words") == {"rows": ["word", "root"]}
    assert use(host, person, "acme/llama") == {"weight": 4.0}  # by the reader of llama.cpp's own package


def test_what_is_for_a_group_is_for_nobody_else(host):
    assert use(host, "ada", "acme/gated")["weight"] == 3.0
    assert as_person(host, "ben", "timeout 60 /opt/hf/bin/python /opt/use.py acme/gated").rc != 0


def test_nobody_but_root_writes_there(host):
    for place in (REPOSITORY, f"{REPOSITORY}/blobs", f"{REPOSITORY}/refs/main", blob(host), "/srv/models/locks"):
        run = as_person(host, "ada", f"python3 -c \"open('{place}', 'a')\" || touch {place}/x || ln -s /etc {place}/y")
        assert run.rc != 0
        assert "Permission denied" in run.stderr
    assert host.run("find /srv/models ! -user root -o -perm /022 ! -type l | grep .").rc != 0


def test_what_runs_code_did_not_come_and_caches_are_peoples_own(host):
    assert not host.file(f"{REPOSITORY}/snapshots/{FIRST}/pytorch_model.bin").exists
    shown = as_person(host, "ada", "env").stdout.splitlines()
    assert {"HF_HUB_CACHE=/srv/models/hub", "HF_HUB_OFFLINE=1"} <= set(shown)
    assert "HF_DATASETS_CACHE=/home/ada/.cache/huggingface/datasets" in shown
    assert not any(line.startswith("HF_HOME") for line in shown)
    run = as_person(host, "ada", "HF_HUB_CACHE=$HOME/own bash -lc 'echo $HF_HUB_CACHE'")
    assert run.stdout.strip() == "/home/ada/own"


def test_the_token_is_nowhere_on_the_node(host):
    places = "/etc /var/lib/gpulab /var/log /var/tmp /tmp /run /root/.ansible /home /srv/models /usr/local"
    pattern = TOKEN.replace("may", "[m]ay").replace("May", "[M]ay")  # the journal has this command
    assert (
        host.run(f"grep --recursive --devices=skip --files-with-matches '{pattern}' {places} 2>/dev/null").stdout == ""
    )
    assert TOKEN not in host.run("journalctl --no-pager --output=cat").stdout
    assert f"Bearer {TOKEN}" in host.file("/srv/hub/asked").content_string
    cdn = [line for line in host.file("/srv/hub/asked").content_string.splitlines() if line.startswith("/cdn/")]
    assert cdn
    assert not any(TOKEN in line for line in cdn)


def test_the_locks_are_on_the_controller(host):
    exported = scenario.EPHEMERAL / f"locks/{host.check_output('hostname')}/models--acme--tiny/{FIRST}.sha256"
    lines = exported.read_text().splitlines()
    assert lines[0] == f"# acme/tiny {FIRST} *.safetensors *.json"
    (digest,) = [line.split()[0] for line in lines[1:] if line.endswith("model.safetensors")]
    assert blob(host).endswith(digest)


def test_the_next_run_asks_neither_stick_nor_hub():
    scenario.everywhere("mv /mnt/stick /mnt/pulled-out; systemctl stop lab-hub; rm /srv/hub/asked")
    try:
        run = converge()
    finally:
        scenario.everywhere(
            "mv /mnt/pulled-out /mnt/stick; systemd-run --unit=lab-hub-again"
            " python3 /root/model_hub.py /srv/hub 8443 /root/hub.pem /root/hub.key"
        )
    assert run.status == 0, run.output
    assert set(run.changed.values()) == {0}


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"model_store_repositories": [{**TINY, "revision": "main"}]}, "M001"),
        ({"model_store_repositories": [{**TINY, "revision": "e" * 40}]}, "M009"),
        ({"model_store_repositories": [{**NEW, "files": []}]}, "M005"),
        ({"model_store_repositories": [{**TINY, "name": "acme/gated", "revision": SECOND}]}, "M009"),
        ({"model_store_directory": "/tmp/models"}, "M007"),
        (
            {
                "model_store_directory": "/srv/others",
                "model_store_folder": "",
                "model_store_token": "hf_another",
                "model_store_repositories": [{**TINY, "name": "acme/gated", "revision": "c" * 40}],
            },
            "M003",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(variables, code):
    state = "find /srv/models /srv/others /etc/profile.d -printf '%p %i %C@\n' 2>/dev/null | sort"
    before = scenario.each(lambda host: host.run(state).stdout)
    scenario.everywhere("mkdir -p -m 0777 /tmp/models")
    run = converge(**variables)
    assert run.status != 0
    assert f"GPULAB-{code}" in run.output
    assert scenario.each(lambda host: host.run(state).stdout) == before


def test_a_second_revision_comes_beside_the_one_that_is_mapped_which_stays_until_nobody_uses_it():
    path = f"{REPOSITORY}/snapshots/{FIRST}/model.safetensors"
    mapping = f"import mmap, time; f = open('{path}', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); f.close()"
    scenario.everywhere(f'systemd-run --uid=ada --unit=lab-mapped /usr/bin/python3 -c "{mapping}; time.sleep(9999)"')
    run = converge(model_store_repositories=[NEW])
    assert run.status == 0, run.output
    assert f"acme/tiny@{FIRST}" in run.output  # left alone
    for host in scenario.nodes().values():
        assert use(host, "ben", "acme/tiny")["weight"] == 2.0
        assert use(host, "ben", "acme/tiny", FIRST)["weight"] == 1.0
        assert "user ada)" in host.check_output(f"{PROGRAM} list")
    refused = converge(model_store_repositories=[NEW], model_store_absent=[f"acme/tiny@{FIRST}"])
    assert "GPULAB-M006" in refused.output
    assert "user ada" in refused.output
    scenario.everywhere("systemctl stop lab-mapped")
    assert converge(model_store_repositories=[NEW], model_store_absent=[f"acme/tiny@{FIRST}"]).status == 0
    for host in scenario.nodes().values():
        assert not host.file(f"{REPOSITORY}/snapshots/{FIRST}").exists
        assert use(host, "ben", "acme/tiny")["weight"] == 2.0
    assert converge().status == 0


def test_a_turned_byte_is_found_by_the_night_and_told_by_the_proof_and_mended():
    for host in scenario.nodes().values():
        host.check_output(f"chmod u+w {blob(host)}; printf x | dd of={blob(host)} bs=1 seek=300 conv=notrunc")
        host.check_output('sed -i \'s/"at": [0-9.]*/"at": 0/\' /var/lib/gpulab/model-store.json')
        host.run("systemctl start gpulab-models.service")
        log = host.check_output("journalctl --unit=gpulab-models --output=cat")
        assert "GPULAB-M002 acme/tiny@aaaaaaaa" in log
        assert "model.safetensors" in log
    told = proof()
    assert "acme/tiny@aaaaaaaa has damaged files: model.safetensors (GPULAB-M002)" in told
    assert "--tags model_store" in told
    assert converge().status == 0
    for host in scenario.nodes().values():
        host.check_output("systemctl start gpulab-models.service")
        assert use(host, "ada", "acme/tiny")["weight"] == 1.0
    assert "fail storage-models" not in proof()


def test_a_blob_that_is_gone_is_told_though_huggingface_hub_says_that_all_is_there():
    for host in scenario.nodes().values():
        host.check_output(f"rm {blob(host, 'tokenizer.json')}")
    assert "acme/tiny@aaaaaaaa lacks tokenizer.json (GPULAB-M008)" in proof()
    assert converge().status == 0
    assert "fail storage-models" not in proof()


def test_a_killed_controller_leaves_no_half_snapshot_and_the_next_run_ends():
    scenario.everywhere(
        "mkdir -p /srv/hub/models/acme/large && cp -r /srv/hub/models/acme/gated/c* /srv/hub/models/acme/large/"
    )
    scenario.everywhere(f"truncate -s 12M /srv/hub/models/acme/large/{'c' * 40}/model.safetensors; touch /srv/hub/slow")
    large = {**TINY, "name": "acme/large", "revision": "c" * 40}
    folder = "/srv/models/hub/models--acme--large"
    scenario.cut_off(scenario.CONVERGE, when=f"ls {folder}/blobs/*.part", model_store_repositories=[TINY, large])
    for host in scenario.nodes().values():
        assert not host.file(f"{folder}/snapshots/{'c' * 40}").exists
    scenario.everywhere("sleep 25; rm /srv/hub/slow; ls /srv/models/hub/models--acme--large/blobs/*.part")
    run = converge(model_store_repositories=[TINY, large])
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        assert host.file(f"{folder}/snapshots/{'c' * 40}/model.safetensors").size > 0
        assert host.run(f"ls {folder}/blobs/*.part").rc != 0
    assert converge(model_store_absent=["acme/large"]).status == 0


def test_a_full_disk_is_told_before_the_first_byte_and_one_that_fills_keeps_what_came():
    scenario.everywhere("mkdir -p /srv/small && mount -t tmpfs -o size=100k,mode=755 small /srv/small")
    try:
        run = converge(model_store_directory="/srv/small/models", model_store_repositories=[TINY])
        assert "GPULAB-M004" in run.output
        for host in scenario.nodes().values():
            assert host.check_output("ls /srv/small") == ""
    finally:
        scenario.everywhere("umount /srv/small")


def test_what_leads_programs_there_goes_and_the_store_stays():
    run = scenario.playbook(scenario.CONVERGE, model_store_state="absent")
    assert run.status == 0, run.output
    for host in scenario.nodes().values():
        paths = "/etc/profile.d/gpulab-models.sh /etc/environment.d/90-gpulab-models.conf /usr/local/lib/gpulab-models"
        assert (
            host.run(f"ls -d {paths} /etc/systemd/system/gpulab-models* /var/lib/gpulab/model-store.json").stdout == ""
        )
        assert host.file(f"{REPOSITORY}/refs/main").content_string == FIRST
    run = scenario.playbook(scenario.CONVERGE, model_store_state="absent")
    assert set(run.changed.values()) == {0}
