"""What Docker's command line fixes is known by the names of daemon.json, however it is written."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_flags

COMMAND = "/usr/sbin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock"
ULIMIT = {"Name": "memlock", "Hard": -1, "Soft": -1}
FLAGS = {
    "value after =": (["--log-driver=journald"], {"log-driver": "journald"}),
    "value as next word": (["--log-driver", "local", "--live-restore"], {"log-driver": "local", "live-restore": True}),
    "switch": (["--live-restore"], {"live-restore": True}),
    "switch off": (["--live-restore=false"], {"live-restore": False}),
    "last one counts": (["--default-shm-size=1g", "--default-shm-size", "2g"], {"default-shm-size": "2g"}),
    "options of logs": (["--log-opt", "labels=x", "--log-opt=tag=a=b"], {"log-opts": {"labels": "x", "tag": "a=b"}}),
    "limit": (["--default-ulimit", "memlock=-1:-1"], {"default-ulimits": {"memlock": ULIMIT}}),
    "limit, one value": (["--default-ulimit=memlock=-1"], {"default-ulimits": {"memlock": ULIMIT}}),
    "runtime": (["--add-runtime=nvidia=/usr/bin/nvidia-container-runtime"],
                {"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}),
    "feature": (["--feature", "cdi", "--feature=x=false"], {"features": {"cdi": True, "x": False}}),
    "data-root": (["--data-root", "/data"], {"data-root": "/data"}),
    "data-root's former name": (["--graph=/data"], {"data-root": "/data"}),
    "in one letter": (["-g", "/data", "-D"], {"data-root": "/data", "debug": True}),
    "in one letter, together": (["-g/data"], {"data-root": "/data"}),
    "lists": (["-H", "fd://", "--host=tcp://0.0.0.0:2375"], {"hosts": ["fd://", "tcp://0.0.0.0:2375"]}),
}  # fmt: skip


@pytest.mark.parametrize(("words", "settings"), FLAGS.values(), ids=FLAGS)
def test_each_form_of_a_flag_is_known(words, settings):
    assert docker_flags.parse(["/usr/bin/dockerd", *words]) == settings


@pytest.mark.parametrize("argv", [[], [""], ["/usr/bin/containerd", "--log-level=debug"]])
def test_another_program_fixes_nothing(argv):
    assert docker_flags.parse(argv) == {}


def test_the_command_line_of_a_process_ends_with_a_null_byte():
    assert docker_flags.of_process("dockerd\0-l\0info\0--live-restore\0") == {"log-level": "info", "live-restore": True}
    assert docker_flags.of_process("") == {}


def show(command, *more):
    return "\n".join(
        [
            f"ExecStart={{ path=/usr/sbin/dockerd ; argv[]={command} ; ignore_errors=no ; start_time=[n/a] ; pid=0 }}",
            *more,
        ]
    )


FILES = {
    "quoted": 'DOCKER_OPTS="--log-driver=journald --log-opt tag=a"\n',
    "plain": "DOCKER_OPTS=--log-driver=journald --log-opt tag=a\n",
    "after comments": "# DOCKER_OPTS=--debug\n; x\nOTHER=1\n  DOCKER_OPTS='--log-driver=journald --log-opt tag=a'\n",
    "over two lines": 'DOCKER_OPTS="--log-driver=journald \\\n --log-opt tag=a"\n',
    "last one counts": "DOCKER_OPTS=--debug\nDOCKER_OPTS=--log-driver=journald --log-opt tag=a\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_the_next_start_has_the_flags_of_the_units_environment(text):
    files = {"/etc/default/docker": text}
    shown = show(f"{COMMAND} $DOCKER_OPTS", "EnvironmentFiles=/etc/default/docker (ignore_errors=yes)")
    argv = docker_flags.next_start(shown, files.get)
    assert argv == [*COMMAND.split(), "--log-driver=journald", "--log-opt", "tag=a"]


def test_the_next_start_has_the_flags_of_a_drop_in():
    argv = docker_flags.next_start(
        show(f"{COMMAND} --data-root=${{ROOT}} $NONE", 'Environment=ROOT=/data "A=b c"'), {}.get
    )
    assert argv == [*COMMAND.split(), "--data-root=/data"]


def test_a_unit_that_is_not_there_has_no_next_start():
    assert docker_flags.next_start("", {}.get) == []
