"""Docker's daemon.json keeps what is its owner's, takes gpulab's settings in, and gives them back."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_settings
from ansible_collections.gpulab.node.plugins.module_utils.containers.docker_settings import RELOAD, RESTART, Record
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from hypothesis import given
from hypothesis import strategies as st

CDI = {"features": {"cdi": True}}
MEMLOCK = {"Name": "memlock", "Hard": -1, "Soft": -1}
PREFERRED = {
    "live-restore": True,
    "default-shm-size": "1g",
    "default-ulimits": {"memlock": MEMLOCK},
    "log-driver": "json-file",
    "log-opts": {"max-size": "100m", "max-file": "3"},
}
OWNERS = '{\n  "bridge": "none",\n  "log-opts": {"max-size": "10m"},\n  "features": {}\n}'


def merge(text, required=None, preferred=None, record=None):
    return docker_settings.plan(text, record or Record(), required or {}, preferred or {})


def refusal(*args, **kwargs):
    with pytest.raises(Refusal) as refused:
        merge(*args, **kwargs)
    return refused.value


def test_without_a_file_all_settings_are_written():
    plan = merge(None, CDI, PREFERRED)
    assert json.loads(plan.text) == {**PREFERRED, **CDI}
    assert plan.action == RESTART
    assert plan.record.original is None


def test_what_the_owner_wrote_stays_and_a_conflict_is_named():
    plan = merge(OWNERS, CDI, PREFERRED)
    assert plan.effective["bridge"] == "none"
    assert plan.effective["log-opts"] == {"max-size": "10m", "max-file": "3"}
    assert plan.kept == ['log-opts.max-size is "10m" (requested: "100m")']
    assert "log-opts.max-size" not in plan.record.made
    assert plan.text.startswith('{\n  "bridge"')


def test_the_diff_shows_nothing_of_the_owners():
    plan = merge('{"http-proxy": "http://user:secret@proxy"}', CDI)
    assert [(change.name, change.before, change.after) for change in plan.changes] == [("features.cdi", "", "true")]


def test_a_second_run_changes_nothing():
    first = merge(OWNERS, CDI, PREFERRED)
    second = merge(first.text, CDI, PREFERRED, Record(first.record.original, first.record.made))
    assert (second.text, second.changes, second.action) == (first.text, [], "")
    assert second.record.made == first.record.made


def test_an_interrupted_run_is_taken_up():
    first = merge(OWNERS, CDI, PREFERRED)
    assert first.record.pending == RESTART
    second = merge(first.text, CDI, PREFERRED, first.record)
    assert (second.changes, second.action) == ([], RESTART)


@pytest.mark.parametrize("owners", [None, "", "{}\n", OWNERS, '{"features": {"buildkit": true}}'])
def test_absent_leaves_the_file_as_it_was_to_the_letter(owners):
    first = merge(owners, CDI, PREFERRED)
    last = merge(first.text, record=first.record)
    assert last.text == owners
    assert last.record.made == {}
    assert last.action == RESTART


def test_absent_keeps_what_the_owner_added_or_changed_since():
    first = merge(OWNERS, CDI, PREFERRED)
    edited = {**json.loads(first.text), "debug": True, "default-shm-size": "8g"}
    last = merge(json.dumps(edited), record=first.record)
    assert json.loads(last.text) == {**json.loads(OWNERS), "debug": True, "default-shm-size": "8g"}


def test_what_the_owner_changed_since_is_the_owners():
    first = merge(None, {}, PREFERRED)
    edited = {**json.loads(first.text), "default-shm-size": "8g"}
    second = merge(json.dumps(edited), {}, PREFERRED, Record(None, first.record.made))
    assert second.changes == []
    assert second.kept == ['default-shm-size is "8g" (requested: "1g")']


def test_a_changed_wish_changes_what_gpulab_made():
    first = merge(None, {}, PREFERRED)
    second = merge(first.text, {}, {**PREFERRED, "default-shm-size": "8g"}, Record(None, first.record.made))
    assert [(change.before, change.after) for change in second.changes] == [('"1g"', '"8g"')]
    assert second.action == RELOAD


def test_a_required_setting_of_the_owners_is_refused_and_named():
    refused = refusal('{"features": {"cdi": false}}', CDI)
    assert refused.code == "H111"
    assert "features.cdi: false" in refused.cause
    assert "features.cdi: true" in refused.cause


@pytest.mark.parametrize("value", ["[]", "true", "null", '"cdi"'])
def test_a_required_setting_below_something_else_is_refused(value):
    assert refusal(f'{{"features": {value}}}', CDI).code == "H111"


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1,}', "nonsense", "3"])
def test_what_is_no_daemon_json_is_refused_before_anything(text):
    assert refusal(text, CDI).code == "H110"


@pytest.mark.parametrize("driver", ["journald", "local", "syslog"])
def test_options_of_a_log_driver_are_not_given_to_another(driver):
    plan = merge(json.dumps({"log-driver": driver}), {}, PREFERRED)
    assert "log-opts" not in plan.effective
    assert plan.effective["log-driver"] == driver


ACTIONS = {
    "shm": ({"default-shm-size": "1g"}, RELOAD),
    "live restore": ({"live-restore": True}, RELOAD),
    "runtimes": ({"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}, RELOAD),
    "cdi": (CDI, RESTART),
    "ulimits": ({"default-ulimits": {"memlock": MEMLOCK}}, RESTART),
    "both": ({**CDI, "live-restore": True}, RESTART),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize(("settings", "action"), ACTIONS.values(), ids=ACTIONS)
def test_docker_is_restarted_only_where_a_reload_is_not_enough(settings, action):
    assert merge(None, {}, settings).action == action


def test_docker_forgets_a_setting_at_a_restart_only():
    first = merge(None, {}, {"live-restore": True})
    assert merge(first.text, record=Record(None, first.record.made)).action == RESTART


VALUES = st.one_of(
    st.booleans(), st.integers(), st.sampled_from(["", "1g", "journald"]), st.lists(st.integers(), max_size=2)
)
FILES = st.dictionaries(
    st.sampled_from(["live-restore", "features", "log-opts", "log-driver", "default-ulimits", "debug", "hosts"]),
    st.one_of(VALUES, st.dictionaries(st.sampled_from(["cdi", "memlock", "max-size", "x"]), VALUES, max_size=2)),
)


@given(FILES)
def test_nothing_of_the_owners_is_ever_lost(settings):
    text = json.dumps(settings)
    first = merge(text, {}, {**PREFERRED, **CDI})
    for key, value in settings.items():
        inner = value if isinstance(value, dict) else None
        assert first.effective[key] == value if inner is None else inner.items() <= first.effective[key].items()
    assert merge(first.text, record=first.record).text == text


def container(name="job", **host):
    return {"Name": f"/{name}", "HostConfig": host}


GPU = {
    "cdi": ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}, True),
    "gpus all": ({"DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]}, True),
    "runtime": ({"Runtime": "nvidia", "DeviceRequests": None}, True),
    "device": ({"Devices": [{"PathOnHost": "/dev/nvidia0"}], "Runtime": "runc"}, True),
    "privileged": ({"Privileged": True}, True),
    "plain": ({"Runtime": "runc", "Devices": [{"PathOnHost": "/dev/fuse"}], "DeviceRequests": None}, False),
    "nothing known": ({}, False),
}


@pytest.mark.parametrize(("host", "gpu"), GPU.values(), ids=GPU)
def test_a_container_with_a_gpu_is_recognised(host, gpu):
    assert docker_settings.uses_gpu(container(**host)) is gpu


GUARDED = {
    "restart, none runs": (RESTART, [], False, None),
    "restart, one runs": (RESTART, [("job", False)], False, "job"),
    "restart, one runs and outlives it": (RESTART, [("job", False)], True, None),
    "restart, one has a GPU": (RESTART, [("web", False), ("train", True)], True, "train"),
    "reload, one has a GPU": (RELOAD, [("train", True)], False, None),
    "nothing": ("", [("train", True)], False, None),
}


@pytest.mark.parametrize(("action", "running", "live", "named"), GUARDED.values(), ids=GUARDED)
def test_no_container_notices_a_restart(action, running, live, named):
    containers = [{"name": name, "gpu": gpu} for name, gpu in running]
    if named is None:
        docker_settings.check_containers(action, containers, {"live-restore": live}, "node1")
        return
    with pytest.raises(Refusal) as refused:
        docker_settings.check_containers(action, containers, {"live-restore": live}, "node1")
    assert refused.value.code == "H112"
    assert refused.value.cause.endswith(f": {named}.")
    assert "container_toolkit_restart_force=node1" in refused.value.remedy


def test_data_is_not_left_behind():
    held = docker_settings.holdings(containers=1, images=2, volumes=0)
    assert held == ["1 container", "2 images"]
    with pytest.raises(Refusal) as refused:
        docker_settings.check_data_root("/var/lib/docker", "/data/docker", held)
    assert refused.value.code == "H113"
    assert "/var/lib/docker holds 1 container and 2 images" in refused.value.cause
    docker_settings.check_data_root("/var/lib/docker", "/data/docker", [])
    docker_settings.check_data_root("/data/docker", "/data/docker", held)


JOURNAL = """
time="2026-11-21T19:29:10Z" level=info msg="Starting up"
failed to start daemon: Error initializing network controller: bridge must be created
docker.service: Main process exited, code=exited, status=1/FAILURE
Failed to start docker.service - Docker Application Container Engine.
"""


def test_the_line_that_says_why_is_found():
    assert docker_settings.reason(JOURNAL).startswith("failed to start daemon: Error initializing network")
    assert docker_settings.reason("a\nb\n") == "b"
    assert docker_settings.reason("") == "its journal has no message"


def test_a_record_survives_being_written(tmp_path):
    record, path = merge(OWNERS, CDI, PREFERRED).record, tmp_path / "record"
    docker_settings.keep_record(path, record)
    assert docker_settings.read_record(path) == record
    docker_settings.keep_record(path, Record("{}"))
    assert not path.exists()
    assert docker_settings.read_record(path) == Record()


ON_COMMAND_LINE = {
    "another log driver": (
        {"log-driver": "journald"},
        ['log-driver is "journald" on its command line (requested: "json-file")'],
    ),
    "the same log driver": ({"log-driver": "json-file"}, []),
    "options of logs": (
        {"log-opts": {"max-size": "10m"}},
        [
            'log-opts.max-size is "10m" on its command line (requested: "100m")',
            'log-opts.max-file is not set on its command line (requested: "3")',
        ],
    ),
    "live-restore and the shared memory": (
        {"default-shm-size": "2g", "live-restore": True},
        ['default-shm-size is "2g" on its command line (requested: "1g")'],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("flags", "kept"), ON_COMMAND_LINE.values(), ids=ON_COMMAND_LINE)
def test_a_preferred_setting_gives_way_to_a_flag_and_is_not_in_the_file(flags, kept):
    plan = docker_settings.plan(None, Record(), CDI, PREFERRED, flags)
    written = json.loads(plan.text)
    assert not flags.keys() & written.keys()
    assert plan.kept == kept
    assert not {name.partition(".")[0] for name in plan.record.made} & flags.keys()
    if flags.get("log-driver") == "journald":
        assert "log-opts" not in written
    again = docker_settings.plan(plan.text, Record(None, plan.record.made), CDI, PREFERRED, flags)
    assert (again.changes, again.action, again.text) == ([], "", plan.text)


def test_where_all_settings_are_flags_nothing_is_to_do():
    flags = {"default-shm-size": "2g", "live-restore": True}
    plan = docker_settings.plan(None, Record(), {}, {"live-restore": True, "default-shm-size": "1g"}, flags)
    assert (plan.text, plan.changes, plan.action) == (None, [], "")
    assert plan.effective == flags


def test_a_required_setting_that_a_flag_sets_otherwise_is_refused():
    with pytest.raises(Refusal) as refused:
        docker_settings.plan(None, Record(), {"log-driver": "json-file"}, {}, {"log-driver": "journald"})
    assert refused.value.code == "H111"
    assert refused.value.cause.startswith("the command line of dockerd (systemctl cat docker.service")
    assert 'log-driver: "journald"' in refused.value.cause


def test_a_setting_that_became_a_flag_goes_from_the_file_and_docker_is_left_alone():
    first = merge(None, {}, PREFERRED)
    flags = {"live-restore": True, "default-shm-size": "2g"}
    second = docker_settings.plan(first.text, Record(None, first.record.made), {}, PREFERRED, flags)
    assert not flags.keys() & json.loads(second.text).keys()
    assert [change.name for change in second.changes] == ["live-restore", "default-shm-size"]
    assert second.action == ""


def test_what_the_owner_set_in_both_places_is_refused_before_docker_fails_over_it():
    with pytest.raises(Refusal) as refused:
        docker_settings.plan('{"debug": true}', Record(), CDI, {}, {"debug": True})
    assert refused.value.code == "H110"
    assert "debug is set both there and on the command line" in refused.value.cause


RUNTIME = {"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}
SAME_RUNTIME = {
    "nvidia-ctk's": {"args": [], "path": "nvidia-container-runtime"},
    "nvidia-docker2's": {"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": []},
    "no arguments": {"path": "/usr/bin/nvidia-container-runtime"},
}


@pytest.mark.parametrize("runtime", SAME_RUNTIME.values(), ids=SAME_RUNTIME)
def test_nvidias_runtime_is_the_same_however_it_is_written(runtime):
    text = json.dumps({"runtimes": {"nvidia": runtime}})
    assert merge(text, RUNTIME).text == text
    assert docker_settings.plan(None, Record(), RUNTIME, {}, json.loads(text)).text is None


def test_another_runtime_of_that_name_is_refused():
    assert refusal('{"runtimes": {"nvidia": {"path": "/opt/wrapper"}}}', RUNTIME).code == "H111"


def test_graph_is_the_former_name_of_the_data_root():
    text = '{"graph": "/data01/docker", "storage-driver": "overlay2"}'
    assert merge(text, {"data-root": "/data01/docker/"}).changes == []
    refused = refusal(text, {"data-root": "/new/docker"})
    assert refused.code == "H111"
    assert 'data-root: "/data01/docker"' in refused.cause
    assert merge(text, CDI).effective["data-root"] == "/data01/docker"


def test_a_key_that_is_there_twice_means_what_docker_takes_it_for():
    """Docker 20.10 and 28 take the last value, and merge objects."""
    twice = '{"log-opts": {"max-size": "10m"}, "debug": false, "debug": true, "log-opts": {"max-file": "5"}}'
    plan = merge(twice, CDI, PREFERRED)
    assert json.loads(plan.text)["log-opts"] == {"max-size": "10m", "max-file": "5"}
    assert json.loads(plan.text)["debug"] is True
    assert merge(plan.text, record=plan.record).text == twice


def test_a_byte_order_mark_is_no_part_of_the_settings():
    assert json.loads(merge('\ufeff{"debug": true}', CDI).text) == {"debug": True, **CDI}


def test_letters_of_the_names_of_a_limits_fields_do_not_matter():
    text = '{"default-ulimits": {"memlock": {"name": "memlock", "hard": -1, "soft": -1}}}'
    assert merge(text, {}, {"default-ulimits": {"memlock": MEMLOCK}}).kept == []


def test_on_the_way_back_docker_gets_live_restore_where_it_went_down_with_it():
    plan = merge(OWNERS, {}, PREFERRED)
    assert json.loads(docker_settings.outliving(OWNERS, plan)) == {**json.loads(OWNERS), "live-restore": True}
    assert json.loads(docker_settings.outliving(None, plan)) == {"live-restore": True}
    on_command_line = docker_settings.plan(OWNERS, Record(), {}, PREFERRED, {"live-restore": True})
    assert docker_settings.outliving(OWNERS, on_command_line) == OWNERS
