"""Containers with GPUs, seen from the node. Docker and Podman are real; the toolkit, driver and GPUs are stand-ins."""

import json
import time

import pytest
from scenario import CONVERGE, EPHEMERAL, PROJECT, playbook, task

DRIVER = "580.178.04"
DAEMON_JSON = "/etc/docker/daemon.json"
RECORD = "/var/lib/gpulab/docker-settings.json"
DEFAULTS = "/etc/default/docker"
DROP_IN = "/etc/systemd/system/docker.service.d/flags.conf"
SPECIFICATION = "/var/run/cdi/nvidia.yaml"
IMAGE = "tiny"
TOOLKIT = {
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
}
CONTAINERD = "/etc/containerd/config.toml"
# In a node of the lab, containerd has no file system in layers; Kubernetes' pause is a shell that sleeps.
CRI = '"io.containerd.grpc.v1.cri"'
CONTAINERD_SETTINGS = """
[plugins.{0}]
sandbox_image = "docker.io/library/pause:latest"
restrict_oom_score_adj = true
[plugins.{0}.containerd]
snapshotter = "native"
"""
CDI_ON = f"[plugins.{CRI}]\nenable_cdi = true\n"
MEMLOCK = {"memlock": {"Name": "memlock", "Hard": 65536, "Soft": 65536}}
OWNERS = {"bridge": "none", "iptables": False, "storage-driver": "vfs", "default-shm-size": "256m"}


@pytest.fixture(scope="module", autouse=True)
def image(host):
    """Make an image of little more than a shell, for both engines."""
    host.check_output("apt-get install --yes --no-install-recommends busybox-static")
    host.check_output("mkdir -p /tmp/tiny/bin && cp /bin/busybox /tmp/tiny/bin && ln -sf busybox /tmp/tiny/bin/sh")
    for engine in ("docker", "podman"):
        host.check_output("tar -C /tmp/tiny -c . | %s import - tiny", engine)


@pytest.fixture
def by_cdi(host):
    """Tell whether the node's Docker takes GPUs by CDI; Debian 12's does not."""
    return settings(host).get("features") == {"cdi": True}


@pytest.fixture
def container(host):
    """Start a container that is removed after the test; return its name and a function that says how it is."""
    host.check_output("docker run --detach --name job %s /bin/busybox sleep 3600", IMAGE)
    yield "job", lambda: host.check_output("docker inspect --format '{{.State.Running}} {{.State.StartedAt}}' job")
    host.check_output("docker rm --force job")


@pytest.fixture
def containerd(host):
    """Return a function that starts containerd with a text in its file and in another one; undo it after the test."""
    host.check_output("apt-get install --yes --no-install-recommends python3-grpcio")
    task(host, "ansible.builtin.copy", src=str(PROJECT / "tests/stubs/cri.py"), dest="/tmp/cri.py", mode="0644")
    sleeps = 'ENTRYPOINT ["/bin/busybox", "sleep", "3600"]'
    host.check_output("tar -C /tmp/tiny -c . | docker import --change %s - pause", sleeps)
    host.check_output("cp %s /tmp/containerd.toml", CONTAINERD)

    def start(text, more=""):
        host.check_output("mkdir -p /etc/containerd/conf.d")
        write(host, CONTAINERD, text)
        write(host, "/etc/containerd/conf.d/more.toml", more)
        host.check_output("systemctl restart containerd && systemctl start docker")
        for name in (IMAGE, "pause"):
            host.check_output(f"docker save {name} | ctr -n k8s.io images import --snapshotter native -")

    yield start
    host.check_output("rm -r /etc/containerd/conf.d && mv /tmp/containerd.toml %s", CONTAINERD)
    host.check_output("systemctl restart containerd && systemctl start docker && docker image rm pause")


@pytest.fixture
def untouched(host):
    """Hold that a test leaves Docker's file, gpulab's record and the daemon as they are."""

    def state():
        files = host.run(f"cat {DAEMON_JSON} /var/lib/gpulab/docker-settings.json").stdout
        return files, host.check_output("systemctl show --property=MainPID,ActiveState docker")

    before = state()
    yield
    assert state() == before


@pytest.fixture
def owners():
    """Return what the owner's file holds in the end; a test has taken the shared memory out of it."""
    kept = {name: value for name, value in OWNERS.items() if name != "default-shm-size"}
    return {**kept, "default-ulimits": MEMLOCK}


@pytest.fixture
def gpu_container(host, by_cdi):
    """Start a container that has the GPUs, and remove it after the test; return its name."""
    options = "--device nvidia.com/gpu=all" if by_cdi else "--runtime nvidia --env NVIDIA_VISIBLE_DEVICES=all"
    host.check_output(f"docker run --detach --name train {options} {IMAGE} /bin/busybox sleep 3600")
    yield "train"
    host.check_output("docker rm --force train")


@pytest.fixture
def docker_of_the_owners(host):
    """Return a function that starts Docker with flags and settings of its owner's and none of gpulab's; undo it after.

    The flags are where the node's unit looks for them, or in a drop-in.
    """
    files = [DAEMON_JSON, RECORD, DEFAULTS, DROP_IN]
    host.check_output(f"mkdir -p {DROP_IN.rpartition('/')[0]} && rm -rf /tmp/former && mkdir /tmp/former")
    host.check_output(f"for file in {' '.join(files)}; do test ! -f $file || cp --parents $file /tmp/former; done")

    def restart():
        host.check_output("systemctl daemon-reload && systemctl reset-failed docker && systemctl restart docker")

    def start(flags, *, drop_in=False, **more):
        host.check_output("rm -f %s", RECORD)
        write(host, DAEMON_JSON, json.dumps({"bridge": "none", "iptables": False, "storage-driver": "vfs", **more}))
        program = "/usr/sbin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock"
        command = f"ExecStart=\nExecStart={program} {flags}"
        write(host, *((DROP_IN, f"[Service]\n{command}\n") if drop_in else (DEFAULTS, f'DOCKER_OPTS="{flags}"\n')))
        restart()

    yield start
    host.check_output(f"rm -f {' '.join(files)} && cp -a /tmp/former/. /")
    restart()


@pytest.fixture
def nothing_dies(host, docker_of_the_owners):
    """Start Docker as its owner does, and a container; hold that Docker starts again after the test."""

    def start(flags, **more):
        docker_of_the_owners(flags, **more)
        host.check_output("docker run --detach --name job %s /bin/busybox sleep 3600", IMAGE)
        return state(), host.file(DAEMON_JSON).content_string, pid(host)

    def state():
        return host.check_output("docker inspect --format '{{.State.Running}} {{.State.StartedAt}}' job")

    yield start, state
    host.check_output("docker rm --force job")
    host.check_output("systemctl reset-failed docker && systemctl restart docker")


def pid(host):
    return host.check_output("systemctl show --property=MainPID docker")


def settings(host):
    return json.loads(host.file(DAEMON_JSON).content_string)


def write(host, path, text):
    host.check_output("printf %%s %s > %s", text, path)


def drop(host, name):
    """Take a setting out of Docker's file, as its owner would."""
    found = settings(host)
    found.pop(name, None)
    write(host, DAEMON_JSON, json.dumps(found, indent=2))


def merge(host, **options):
    """Merge settings into Docker's; return the result, failed or not."""
    return task(host, "gpulab.node.docker_settings", host="node", **options)


def converge(host, *options, **variables):
    """Apply the role to this node once more; return the exit status and what was printed."""
    run = playbook(CONVERGE, f"--limit={host.backend.host}", *options, **variables)
    return run.status, run.output


def wanted(host):
    """Return what the role asks of docker_settings here, as it is remembered."""
    made = json.loads(host.file("/var/lib/gpulab/docker-settings.json").content_string)["made"]
    nested = {}
    for name, value in made.items():
        key, _dot, subkey = name.partition(".")
        if subkey:
            nested.setdefault(key, {})[subkey] = value
        else:
            nested[key] = value
    return nested


def devices(host, engine, *options):
    """Return NVIDIA's device files in a container."""
    listing = host.check_output(f"{engine} run --rm {' '.join(options)} {IMAGE} /bin/busybox ls /dev")
    return {name for name in listing.split() if name.startswith("nvidia")}


def test_the_owners_settings_are_all_there_and_gpulabs_beside_them(host):
    found = settings(host)
    assert OWNERS.items() <= found.items()
    assert found["live-restore"] is True
    assert found["log-opts"] == {"max-size": "100m", "max-file": "3"}
    assert MEMLOCK.items() <= found["default-ulimits"].items()
    assert found["default-ulimits"]["stack"]["Hard"] == 64 * 2**20
    assert "live-restore" in wanted(host)
    assert "default-shm-size" not in wanted(host)


def test_docker_lives_by_them(host):
    info = json.loads(host.check_output("docker info --format '{{json .}}'"))
    assert info["LiveRestoreEnabled"]
    limits = host.check_output("docker run --rm %s /bin/sh -c 'ulimit -l; ulimit -s'", IMAGE).split()
    assert limits == ["64", "65536"]
    shm = host.check_output("docker run --rm %s /bin/busybox df -m /dev/shm", IMAGE)
    assert " 256 " in shm


def test_docker_gives_a_container_the_gpus(host, by_cdi):
    options = ["--device nvidia.com/gpu=all"] if by_cdi else ["--runtime nvidia", "--env NVIDIA_VISIBLE_DEVICES=all"]
    assert devices(host, "docker", *options) >= {"nvidia0", "nvidia1", "nvidiactl"}
    assert devices(host, "docker") == set()


def test_docker_gives_a_container_one_gpu(host, by_cdi):
    if not by_cdi:
        pytest.skip("the stand-in for the runtime gives all")
    assert {"nvidia0", "nvidia1"} & devices(host, "docker", "--device nvidia.com/gpu=1") == {"nvidia1"}


def test_podman_gives_a_container_the_gpus(host):
    found = devices(host, "podman", "--network none", "--device nvidia.com/gpu=all")
    assert found >= {"nvidia0", "nvidia1", "nvidiactl"}


def in_a_pod(host, devices):
    """Return NVIDIA's device files in a container that is started as the kubelet does, with these devices of CDI."""
    listing = host.check_output(f"python3 /tmp/cri.py docker.io/library/{IMAGE} {devices} /bin/busybox ls /dev")
    return {name for name in listing.split() if name.startswith("nvidia")}


def said_of_containerd(host):
    """Return what the facts say of containerd's settings, and the plan of its CDI."""
    read = task(host, "gpulab.node.gpu_facts")["ansible_facts"]["gpulab"]["containers"]["containerd"]
    engines = ["docker", "podman", "containerd"]
    output = playbook("playbooks/plan.yml", f"--limit={host.backend.host}", container_toolkit_engines=engines).output
    return read, "has CDI off. Set enable_cdi = true" in output


def test_kubernetes_gives_a_pod_the_gpus_where_containerd_takes_cdi(host, containerd):
    """A real containerd; the kubelet is a stand-in. Where CDI is off, the pod starts and nothing says what it lacks."""
    settings = f"version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n{CONTAINERD_SETTINGS.format(CRI)}"
    if "1.6." in host.check_output("containerd --version"):
        containerd(settings)
        assert in_a_pod(host, "nvidia.com/gpu=all") == set()
        pytest.skip("this containerd has no CDI")
    without = {"nvidia_runtime": False, "kubernetes": True, "cdi": False}
    for text, more in (
        (settings, ""),
        (settings.replace("imports", "# imports"), CDI_ON),
        (CONTAINERD_SETTINGS.format("cri") + CDI_ON, ""),  # without version = 2, the plugin has another name
    ):
        containerd(text, more)
        assert in_a_pod(host, "nvidia.com/gpu=all") == set()
        assert said_of_containerd(host) == (without, True)
    on = CONTAINERD_SETTINGS.format(CRI).replace("restrict", "enable_cdi = true\nrestrict")
    containerd(settings, f"version = 2\n{on}")  # an imported file replaces the section whole
    assert in_a_pod(host, "nvidia.com/gpu=all") >= {"nvidia0", "nvidia1", "nvidiactl"}
    assert {"nvidia0", "nvidia1"} & in_a_pod(host, "nvidia.com/gpu=1") == {"nvidia1"}
    assert in_a_pod(host, "-") == set()
    assert said_of_containerd(host) == ({**without, "cdi": True}, False)


def test_no_pod_starts_where_the_plugin_for_kubernetes_is_off(host, containerd):
    """As docker.com's containerd.io comes."""
    containerd('disabled_plugins = ["cri"]\n')
    assert "unknown service" in host.run("python3 /tmp/cri.py - - true").stderr
    assert said_of_containerd(host)[0]["kubernetes"] is False


def test_podman_maps_the_ids_of_a_user_who_is_not_root(host):
    """Without uidmap there is no range, and no image whose files have more than one owner."""
    host.check_output("getent passwd ana || useradd --create-home ana")
    ranges = host.check_output("runuser --login ana --command 'podman unshare cat /proc/self/uid_map'").splitlines()
    assert [int(line.split()[2]) for line in ranges] == [1, 65536]


def test_the_planned_toolkit_is_installed_and_no_newer_or_older(host):
    assert {host.package(name).version for name in TOOLKIT} == {"1.20.0-1"}


def test_no_upgrade_but_gpulabs_changes_the_toolkit(host):
    assert set(host.check_output("apt-mark showhold").split()) >= TOOLKIT


def test_the_specification_is_for_the_driver_that_runs(host):
    assert f"libcuda.so.{DRIVER}" in host.file(SPECIFICATION).content_string
    assert host.service("nvidia-cdi-refresh.path").is_running
    assert host.check_output("systemctl is-enabled nvidia-cdi-refresh.service nvidia-cdi-refresh.path").split() == [
        "enabled",
        "enabled",
    ]


def test_the_specification_is_made_anew_when_modules_change(host):
    host.check_output("echo '{}' > %s", SPECIFICATION)
    host.check_output("systemctl reset-failed nvidia-cdi-refresh.service; systemctl stop nvidia-cdi-refresh.service")
    host.check_output("touch /usr/bin/nvidia-ctk")
    for _second in range(20):
        if DRIVER in host.file(SPECIFICATION).content_string:
            return
        time.sleep(1)
    pytest.fail("nothing happened")


def test_a_stale_specification_is_renewed_by_the_module(host):
    stale = host.file(SPECIFICATION).content_string.replace(DRIVER, "535.261.03")
    host.check_output("cp %s /tmp/fresh && sed -i s/%s/535.261.03/g %s", SPECIFICATION, DRIVER, SPECIFICATION)
    assert host.file(SPECIFICATION).content_string == stale
    assert task(host, "gpulab.node.cdi_specification", check=True)["changed"]
    assert host.file(SPECIFICATION).content_string == stale
    assert task(host, "gpulab.node.cdi_specification")["changed"]
    assert host.check_output("cmp %s /tmp/fresh && echo same", SPECIFICATION) == "same"
    assert not task(host, "gpulab.node.cdi_specification")["changed"]


def test_nobody_is_in_the_docker_group_unasked(host):
    assert host.group("docker").members == []


def test_a_user_who_is_asked_for_is_let_in_and_nobody_is_made(host):
    given = {"group": "docker", "users": ["admin"]}
    assert task(host, "gpulab.node.group_members", check=True, **given)["added"] == ["admin"]
    assert host.group("docker").members == []
    assert task(host, "gpulab.node.group_members", **given)["changed"]
    assert not task(host, "gpulab.node.group_members", **given)["changed"]
    assert host.group("docker").members == ["admin"]
    host.check_output("gpasswd --delete admin docker")
    refused = task(host, "gpulab.node.group_members", group="docker", users=["nobody-here"])
    assert refused["refusal"]["code"] == "H118"
    assert not host.user("nobody-here").exists


@pytest.mark.usefixtures("untouched")
def test_settings_that_docker_does_not_know_are_refused_before_anything(host):
    if "--validate" not in host.check_output("dockerd --help"):
        pytest.skip("this Docker cannot judge a file without starting on it")
    result = merge(host, preferred={**wanted(host), "nonsense": 1})
    assert result["refusal"]["code"] == "H114"
    assert "nonsense" in result["msg"]


def test_docker_that_does_not_come_up_gets_its_former_settings_back(host):
    """Docker accepts the name of a bridge that there is not, and does not start with it."""
    before = host.file(DAEMON_JSON).content_string
    drop(host, "bridge")
    kept = host.file(DAEMON_JSON).content_string
    result = merge(host, preferred={**wanted(host), "bridge": "missing0"})
    assert result["refusal"]["code"] == "H115"
    assert "missing0" in result["msg"]
    assert "Docker runs with them" in result["msg"]
    assert host.file(DAEMON_JSON).content_string == kept
    assert "bridge" not in wanted(host)
    assert host.service("docker").is_running
    assert host.service("docker.socket").is_running
    write(host, DAEMON_JSON, before)
    host.check_output("systemctl restart docker")


def test_a_broken_file_is_refused_before_anything(host):
    before = host.file(DAEMON_JSON).content_string
    broken = before.rstrip().rstrip("}")
    write(host, DAEMON_JSON, broken)
    status, output = converge(host)
    after = host.file(DAEMON_JSON).content_string
    write(host, DAEMON_JSON, before)
    assert status == 2
    assert "GPULAB-H110" in output
    assert after == broken
    assert host.service("docker").is_running


@pytest.mark.usefixtures("untouched")
def test_a_needed_setting_of_the_owners_is_not_overwritten(host):
    result = merge(host, preferred=wanted(host), required={"storage-driver": "overlay2"})
    assert result["refusal"]["code"] == "H111"
    assert 'storage-driver: "vfs"' in result["msg"]


@pytest.mark.usefixtures("untouched")
def test_data_is_not_left_behind(host):
    result = merge(host, preferred=wanted(host), required={"data-root": "/srv/docker"})
    assert result["refusal"]["code"] == "H113"
    assert " image" in result["msg"]
    assert not host.file("/srv/docker").exists


def test_docker_keeps_its_data_where_it_is_told_to_as_long_as_it_has_none(host):
    def root():
        return host.check_output("docker info --format '{{.DockerRootDir}}'")

    former = root()
    host.check_output("docker image rm %s", IMAGE)
    status, output = converge(host, container_toolkit_docker_data_root="/srv/docker")
    assert status == 0, output
    assert root() == "/srv/docker"
    assert host.file("/srv/docker").is_directory
    assert "changed=0" in converge(host, container_toolkit_docker_data_root="/srv/docker")[1]
    status, output = converge(host)
    assert status == 0, output
    assert root() == former
    host.check_output("tar -C /tmp/tiny -c . | docker import - %s", IMAGE)


def test_a_running_container_survives_a_restart_of_docker(host, container):
    """The size of logs needs a restart; the container does not notice it, and the next run changes nothing."""
    _name, state = container
    daemon = host.check_output("systemctl show --property=MainPID docker")
    before = state()
    status, output = converge(host, container_toolkit_docker_log_size="50m")
    assert status == 0, output
    assert state() == before
    assert before.startswith("true ")
    assert host.check_output("systemctl show --property=MainPID docker") != daemon
    assert settings(host)["log-opts"]["max-size"] == "50m"


def test_a_reload_is_enough_for_the_shared_memory(host):
    """The owner's own size gives way here, so that gpulab's is taken."""
    drop(host, "default-shm-size")
    daemon = host.check_output("systemctl show --property=MainPID docker")
    result = merge(host, preferred={**wanted(host), "default-shm-size": "512m"})
    assert (result["changed"], result["action"]) == (True, "reload")
    assert host.check_output("systemctl show --property=MainPID docker") == daemon
    assert " 512 " in host.check_output("docker run --rm %s /bin/busybox df -m /dev/shm", IMAGE)


PREFERRED = {
    "live-restore": True,
    "default-shm-size": "1g",
    "log-driver": "json-file",
    "log-opts": {"max-size": "100m"},
    "default-ulimits": MEMLOCK,
}


@pytest.mark.parametrize("drop_in", [False, True])
def test_a_flag_of_the_owners_stays_and_a_restart_ends_no_container(host, nothing_dies, drop_in):
    start, state = nothing_dies
    before, _file, daemon = start("--log-driver=journald", drop_in=drop_in)
    result = merge(host, preferred=PREFERRED)
    assert (result.get("changed"), result.get("action")) == (True, "restart"), result
    assert result["kept"] == ['log-driver is "journald" on its command line (requested: "json-file")']
    assert pid(host) != daemon
    assert state() == before
    assert not {"log-driver", "log-opts"} & settings(host).keys()
    assert host.check_output("docker info --format '{{.LoggingDriver}} {{.LiveRestoreEnabled}}'") == "journald true"
    assert not merge(host, preferred=PREFERRED)["changed"]


def test_a_flag_against_what_is_needed_is_refused_before_anything(host, nothing_dies):
    start, state = nothing_dies
    before = start("--log-driver=journald")
    result = merge(host, required={"log-driver": "json-file"})
    assert result["refusal"]["code"] == "H111"
    assert 'log-driver: "journald"' in result["msg"]
    assert (state(), host.file(DAEMON_JSON).content_string, pid(host)) == before


def test_settings_that_are_flags_are_not_written_where_a_reload_would_do(host, nothing_dies):
    start, state = nothing_dies
    before = start("--default-shm-size=2g --live-restore")
    result = merge(host, preferred={"live-restore": True, "default-shm-size": "1g"})
    assert result["changed"] is False, result
    assert result["kept"] == ['default-shm-size is "2g" on its command line (requested: "1g")']
    assert (state(), host.file(DAEMON_JSON).content_string, pid(host)) == before


def test_where_docker_refuses_to_reload_the_former_file_is_back_and_docker_is_not_stopped(host, nothing_dies):
    """The owner has broken the file since the start: no restart may follow, not on the way back either."""
    start, state = nothing_dies
    before, text, daemon = start("--debug")
    broken = json.dumps({**json.loads(text), "nonsense": 1})
    write(host, DAEMON_JSON, broken)
    for preferred in ({"live-restore": True}, PREFERRED):
        result = merge(host, preferred=preferred)
        judged_before = "--validate" in host.check_output("dockerd --help")
        assert result["refusal"]["code"] == ("H114" if judged_before else "H190"), result
        assert "nonsense" in result["msg"]
        assert (state(), host.file(DAEMON_JSON).content_string, pid(host)) == (before, broken, daemon)
        assert not host.file(RECORD).exists
    write(host, DAEMON_JSON, text)


def test_on_the_way_back_from_a_failed_start_no_container_ends(host, nothing_dies):
    """Docker goes down with live-restore; started without it, it would end the containers that it finds."""
    start, state = nothing_dies
    before, text, daemon = start("--debug")
    result = merge(host, preferred={"live-restore": True, "exec-opts": ["native.cgroupdriver=nonsense"]})
    assert result["refusal"]["code"] == "H115", result
    assert "Docker runs with them" in result["msg"]
    assert pid(host) != daemon
    assert (state(), host.file(DAEMON_JSON).content_string) == (before, text)
    merge(host, preferred={"live-restore": True})  # for the restart at the end


def test_graph_is_the_data_root_under_its_former_name(host, nothing_dies):
    if "20.10" not in host.check_output("dockerd --version"):
        pytest.skip("since Docker 23, graph is unknown")
    start, state = nothing_dies
    host.check_output("mkdir -p /data01 && cp -a /var/lib/docker /data01/docker")
    before = start("", graph="/data01/docker", **{"live-restore": True})
    result = merge(host, required={"data-root": "/new/docker"})
    assert result["refusal"]["code"] == "H113"
    assert "/data01/docker holds 1 container and" in result["msg"]
    assert merge(host, required={"data-root": "/data01/docker"})["changed"] is False
    assert (state(), host.file(DAEMON_JSON).content_string, pid(host)) == before


def test_a_member_of_a_swarm_does_not_get_what_docker_would_not_start_with(host, docker_of_the_owners):
    docker_of_the_owners("")
    host.check_output("docker swarm init --advertise-addr 127.0.0.1")
    result = merge(host, preferred={"live-restore": True, "default-shm-size": "1g"})
    assert result["kept"] == ["live-restore is not set, because the node is in a swarm"]
    assert "live-restore" not in settings(host)
    host.check_output("systemctl restart docker")
    host.check_output("docker swarm leave --force")


def test_docker_merges_objects_of_a_key_that_is_there_twice_and_so_does_gpulab(host, docker_of_the_owners):
    docker_of_the_owners("")
    text = host.file(DAEMON_JSON).content_string.rstrip("}")
    twice = '"log-opts": {"max-size": "10m"}, "log-opts": {"max-file": "5"}, "debug": false, "debug": true}'
    write(host, DAEMON_JSON, f"{text}, {twice}")
    host.check_output("systemctl restart docker")

    def found():
        host.check_output("docker create --name twice %s /bin/busybox", IMAGE)
        options = host.check_output("docker inspect --format '{{json .HostConfig.LogConfig.Config}}' twice")
        host.check_output("docker rm twice")
        return json.loads(options), host.check_output("docker info --format '{{.Debug}}'")

    assert found() == ({"max-size": "10m", "max-file": "5"}, "true")
    assert merge(host, preferred={"default-ulimits": MEMLOCK})["changed"]
    assert found() == ({"max-size": "10m", "max-file": "5"}, "true")


@pytest.mark.usefixtures("untouched")
def test_docker_is_not_restarted_under_a_container_with_a_gpu(host, gpu_container):
    status, output = converge(host, container_toolkit_docker_log_size="60m")
    assert status == 2
    assert "GPULAB-H112" in output
    assert gpu_container in output


@pytest.mark.usefixtures("untouched")
def test_packages_do_not_change_under_a_container_with_a_gpu(host, gpu_container):
    size = settings(host)["log-opts"]["max-size"]
    status, output = converge(host, container_toolkit_version="1.19.1", container_toolkit_docker_log_size=size)
    assert status == 2
    assert "GPULAB-H117" in output
    assert gpu_container in output
    assert host.package("nvidia-container-toolkit").version == "1.20.0-1"


def users_of_gpus(host):
    return task(host, "gpulab.node.gpu_facts", timeout=10)["ansible_facts"]["gpulab"]["users_of_gpus"]


@pytest.mark.usefixtures("gpu_container")
def test_a_container_with_a_gpu_counts_though_it_computes_nothing(host):
    users = users_of_gpus(host)
    assert users["state"] == "busy"
    assert [(one["kind"], one["command"]) for one in users["who"]] == [("container", "busybox")]


@pytest.mark.usefixtures("container")
def test_a_container_without_a_gpu_does_not_count(host):
    assert users_of_gpus(host)["state"] == "idle"


def test_a_job_of_slurm_counts_though_it_has_no_gpu_open(host):
    step = "slurmstepd: [4711.batch]"
    host.check_output("cp /bin/sleep /tmp/slurmstepd")
    host.check_output(f"systemd-run --unit=job bash -c 'exec -a \"{step}\" /tmp/slurmstepd 600'")
    users = users_of_gpus(host)
    host.check_output("systemctl stop job && rm /tmp/slurmstepd")
    assert (users["state"], [(one["kind"], one["command"]) for one in users["who"]]) == ("busy", [("slurm", step)])


def test_docker_has_its_owners_settings_again_where_it_gets_no_gpus_any_more(host, owners):
    status, output = converge(host, container_toolkit_engines=["podman"])
    assert status == 0, output
    assert settings(host) == owners
    status, output = converge(host)
    assert status == 0, output
    assert settings(host)["live-restore"] is True


def test_absent_leaves_the_node_as_it_was(host, owners):
    """The last test but one: only what the owner wrote is left of Docker's file, and no toolkit."""
    host.check_output(f"cd /tmp && apt-get download {' '.join(TOOLKIT)}")  # for the last test
    status, output = converge(host, "--check", container_toolkit_state="absent")
    assert status == 0, output
    assert host.package("nvidia-container-toolkit").is_installed
    status, output = converge(host, container_toolkit_state="absent")
    assert status == 0, output
    assert settings(host) == owners
    assert not any(host.package(name).is_installed for name in TOOLKIT)
    assert not TOOLKIT & set(host.check_output("apt-mark showhold").split())
    assert not host.file(SPECIFICATION).exists
    assert host.run("ls /etc/apt/*/*nvidia-container-toolkit* /var/lib/gpulab/docker-settings.json").stdout == ""
    assert host.service("docker").is_running
    assert "changed=0" in converge(host, container_toolkit_state="absent")[1]


def test_a_toolkit_of_the_owners_stays(host):
    """The last test."""
    host.check_output("dpkg --install /tmp/*nvidia-container*.deb")
    host.check_output("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=%s nvidia-ctk cdi generate", SPECIFICATION)
    status, output = converge(host, container_toolkit_state="absent")
    assert status == 0, output
    assert "changed=0" in output
    assert all(host.package(name).is_installed for name in TOOLKIT)
    assert host.file(SPECIFICATION).exists


MIRROR = "mirror.test:5443"
MIRROR_FILES = (
    f"/etc/docker/certs.d/{MIRROR}/gpulab.crt",
    "/etc/containers/registries.conf.d/gpulab.conf",
    "/etc/containerd/certs.d/docker.io/hosts.toml",
)


@pytest.fixture
def mirror(host):
    """Serve a registry with an image that is nowhere else, by an authority of the lab's own; return its certificate."""
    host.check_output("apt-get install --yes --no-install-recommends docker-registry openssl")
    host.check_output("grep -q mirror.test /etc/hosts || echo 127.0.0.1 mirror.test >> /etc/hosts")
    host.check_output("mkdir -p /tmp/mirror && chmod 755 /tmp/mirror")
    host.check_output(
        "cd /tmp/mirror && openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout key -out crt"
        " -subj /CN=mirror.test -addext subjectAltName=DNS:mirror.test"
        " -addext keyUsage=critical,digitalSignature,keyCertSign"
    )
    served = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": "/tmp/mirror/data"}},
        "http": {"addr": ":5443", "tls": {"certificate": "/tmp/mirror/crt", "key": "/tmp/mirror/key"}},
    }
    write(host, "/tmp/mirror/config.yml", json.dumps(served))
    host.check_output("systemd-run --unit=mirror docker-registry serve /tmp/mirror/config.yml")
    host.check_output("podman push --tls-verify=false tiny docker://%s/library/mirrored:latest", MIRROR)
    certificate = EPHEMERAL / f"{host.backend.host}.crt"
    certificate.write_text(host.file("/tmp/mirror/crt").content_string)
    yield str(certificate)
    host.run("docker image rm docker.io/library/mirrored; podman image rm docker.io/library/mirrored")
    host.check_output(
        "systemctl stop mirror; rm /usr/local/share/ca-certificates/mirror.crt; update-ca-certificates --fresh"
    )


def test_engines_have_images_of_a_registry_from_its_mirror(host, mirror):
    assert converge(host)[0] == 0  # what tests of before left
    daemon = pid(host)
    assert host.run("docker pull --quiet docker.io/library/mirrored").failed
    assert host.run("podman pull --quiet docker.io/library/mirrored").failed
    options = {
        "container_toolkit_engines": ["docker", "podman", "containerd"],
        "container_toolkit_registry_mirrors": {"docker.io": MIRROR},
        "base_ca_certificates": [mirror],
    }
    status, output = converge(host, **options)
    assert status == 0, output
    host.check_output("docker pull --quiet docker.io/library/mirrored")
    # What role base does with base_ca_certificates; Docker reads that when it starts, and has read its own file now.
    host.check_output("cp /tmp/mirror/crt /usr/local/share/ca-certificates/mirror.crt && update-ca-certificates")
    host.check_output("podman pull --quiet docker.io/library/mirrored")
    host.check_output("ctr content fetch --hosts-dir /etc/containerd/certs.d docker.io/library/mirrored:latest")
    assert pid(host) == daemon  # a reload was enough
    assert "changed=0" in converge(host, **options)[1]
    status, output = converge(host)
    assert status == 0, output
    assert not any(host.file(path).exists for path in MIRROR_FILES)
    assert "registry-mirrors" not in settings(host)


def test_docker_reaches_registries_by_the_nodes_proxies(host):
    status, output = converge(host, base_https_proxy="http://lab:canary@127.0.0.1:3128")
    assert status == 0, output
    assert "canary" not in output
    failed = host.run("docker pull registry.test/image").stderr
    if "--http-proxy" in host.check_output("dockerd --help"):
        assert "127.0.0.1:3128" in failed
        status, output = converge(host)
        assert status == 0, output
    else:
        assert "a Docker before 23" in output
    assert "127.0.0.1:3128" not in host.run("docker pull registry.test/image").stderr
    assert "changed=0" in converge(host)[1]


def test_the_known_holes_of_packages_and_wheels_are_named(host):
    environment = "/opt/venvs/old"
    host.check_output("mkdir -p %s/lib/python3/site-packages/tensorrt_cu12-10.16.0.7.dist-info", environment)
    run = playbook("playbooks/advisories.yml", f"--limit={host.backend.host}")
    assert run.status == 0, run.output
    assert f"tensorrt-cu12 10.16.0.7 ({environment}) is affected: " in run.output
    assert "CVE-2026-24188 (8.2)" in run.output
    assert "changed=0" in run.output
    written = json.loads((PROJECT / f"reports/advisories/{host.backend.host}.json").read_text())
    installed = {one["package"]: one["version"] for one in written["installed"]}
    assert installed["nvidia-container-toolkit"] == host.package("nvidia-container-toolkit").version
    host.check_output("rm -r %s", environment)
