"""The gpu_settings role, seen from the node: what the simulated NVML has, now and after a boot."""

import json

import pytest

WORKSTATION = "debian12"
UNIT = "gpulab-gpu-settings.service"
INSTANCES = ["3g.20gb", "2g.10gb"]
READ = """
import ctypes, json
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
def ask(function, gpu, *arguments):
    found = ctypes.c_uint()
    code = getattr(nvml, function)(gpu, *arguments, ctypes.byref(found))
    return "error %d" % code if code else found.value
def devices(gpu):
    found = []
    for index in range(7):
        device, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if not nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, ctypes.byref(device)):
            nvml.nvmlDeviceGetName(device, name, 96)
            found.append(name.value.decode().split()[-1])
    return found
def read(index):
    gpu = ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(gpu))
    now, later = ctypes.c_uint(), ctypes.c_uint()
    nvml.nvmlDeviceGetEccMode(gpu, ctypes.byref(now), ctypes.byref(later))
    return {"power": ask("nvmlDeviceGetPowerManagementLimit", gpu) // 1000,
            "clock": ask("nvmlDeviceGetClockInfo", gpu, 1), "persistence": ask("nvmlDeviceGetPersistenceMode", gpu),
            "accounting": ask("nvmlDeviceGetAccountingMode", gpu), "mode": ask("nvmlDeviceGetComputeMode", gpu),
            "ecc": [now.value, later.value], "instances": devices(gpu)}
print(json.dumps([read(index) for index in range(2)]))
"""


@pytest.fixture
def workstation(host):
    return host.check_output("hostname") == WORKSTATION


def gpus(host):
    return json.loads(host.check_output(f"python3 -c '{READ}'"))


def test_every_gpu_has_its_settings_and_nothing_else(host, workstation):
    if workstation:
        common = {"persistence": 0, "accounting": 1, "mode": 0, "ecc": [0, 0], "instances": []}
    else:
        common = {"persistence": 1, "accounting": 0, "mode": 3, "ecc": [0, 0], "instances": INSTANCES}
    assert gpus(host) == [{**common, "power": 200, "clock": 300}, {**common, "power": 180, "clock": 210}]


def test_ecc_took_a_reboot_and_the_unit_set_the_rest_again(host, workstation):
    """All but ECC and MIG is gone at a boot; idempotence and the test above saw it there again."""
    rebooted = host.check_output("cut -d' ' -f22 /proc/1/stat") != host.check_output("cat /root/boot-before")
    assert rebooted != workstation
    said = host.check_output(f"journalctl --boot --output=cat --unit={UNIT}")
    assert ("power_limit_watts 250 -> 200" in said) != workstation
    assert (f"mig_instances [] -> {json.dumps(INSTANCES)}" in said) != workstation


def test_the_unit_gives_back_what_was_changed_by_hand(host):
    host.check_output("gpulab-simulate set 'gpu.0.power_limit_w = 160' 'gpu.1.power_limit_w = 160'")
    assert [gpu["power"] for gpu in gpus(host)] == [160, 160]
    host.check_output(f"systemctl restart {UNIT}")
    assert [gpu["power"] for gpu in gpus(host)] == [200, 180]


def test_the_unit_makes_instances_again_that_are_gone(host, workstation):
    if workstation:
        pytest.skip("a GeForce has no MIG")
    host.check_output("gpulab-simulate set 'gpu.0.mig_instances ='")
    assert [gpu["instances"] for gpu in gpus(host)] == [[], INSTANCES]
    host.check_output(f"systemctl restart {UNIT}")
    assert [gpu["instances"] for gpu in gpus(host)] == [INSTANCES, INSTANCES]


def test_the_unit_says_what_the_driver_refuses_and_sets_the_rest(host):
    host.check_output("gpulab-simulate set 'gpu.0.power_limit_w = 160' 'gpu.1.power_limit_w = 160'")
    host.check_output("gpulab-simulate fault 'gpu.0.set_power_limit_w = ERR:4'")
    try:
        failed = host.run("python3 -BEs /usr/local/lib/gpulab-gpu-settings/apply.py")
    finally:
        host.check_output("gpulab-simulate heal")
        limits = [gpu["power"] for gpu in gpus(host)]
        host.check_output(f"systemctl restart {UNIT}")
    assert failed.rc == 1
    assert "GPULAB-H125" in failed.stderr
    assert "NO_PERMISSION" in failed.stderr
    assert limits == [160, 180]


def test_systemd_starts_the_unit_at_boot(host):
    host.check_output("systemctl daemon-reload")
    assert UNIT in host.check_output("systemctl show --property=Wants --value multi-user.target").split()
    before = host.check_output(f"systemctl show --property=Before --value {UNIT}").split()
    assert {"docker.service", "nvidia-cdi-refresh.service", "nvidia-dcgm-exporter.service"} <= set(before)
    assert host.run(f"systemd-analyze verify /etc/systemd/system/{UNIT}").stderr.count("gpulab") == 0
