"""The simulated PCI tree, modules and driver files have the shape of a real machine's."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log
from sim import hardware, simulate
from sim.settings import Settings

MODELS = Path(__file__).parents[2] / "sim/models"


def settings_of(model, *lines, tmp_path):
    faults = tmp_path / "faults.conf"
    faults.write_text("".join(f"{line}\n" for line in lines))
    return Settings(MODELS / f"{model}.conf", faults)


def pci_files(root, address):
    device = root / "sys/bus/pci/devices" / address
    return {
        file.name: file.read_text().strip() for file in device.iterdir() if file.is_file() and file.name != "config"
    }


@pytest.mark.parametrize("model", sorted(path.stem for path in MODELS.glob("*.conf")))
def test_every_gpu_of_every_model_is_on_the_bus(tmp_path, model):
    settings = Settings(MODELS / f"{model}.conf")
    hardware.write_pci(tmp_path, settings, "nvidia")
    for gpu in settings.gpus:
        files = pci_files(tmp_path, settings.gpu(gpu, "address"))
        assert f"{files['vendor'][2:]}:{files['device'][2:]}" == settings.gpu(gpu, "device")
        assert files["class"] in {"0x030200", "0x030000"}
        assert (
            files["simulated"] == f"simulated GPU (gpulab tests/sim): {settings.gpu(0, 'name')} x{len(settings.gpus)}"
        )


def test_a_gpu_has_its_link_and_a_bridge_above(tmp_path):
    hardware.write_pci(tmp_path, settings_of("h100-sxm-8", "gpu.3.pcie_width = 8", tmp_path=tmp_path), "nvidia")
    files = pci_files(tmp_path, "0000:5d:00.0")
    assert (files["current_link_width"], files["max_link_width"]) == ("8", "16")
    assert (files["current_link_speed"], files["max_link_speed"]) == ("32.0 GT/s PCIe", "32.0 GT/s PCIe")
    home = (tmp_path / "sys/bus/pci/devices/0000:5d:00.0").resolve()
    assert home.parent.name == "0000:5c:01.0"
    assert (home.parent / "class").read_text() == "0x060400\n"
    assert (home.parent / "current_link_width").read_text() == "8\n"
    assert (home / "driver").resolve().name == "nvidia"


def test_a_gpu_on_bus_0_has_no_bridge(tmp_path):
    hardware.write_pci(tmp_path, Settings(MODELS / "t4.conf"), "")
    home = (tmp_path / "sys/bus/pci/devices/0000:00:1e.0").resolve()
    assert home.parent.name == "pci0000:00"
    assert not (home / "driver").exists()


def test_the_configuration_space_agrees_with_the_files(tmp_path):
    hardware.write_pci(tmp_path, settings_of("h100-sxm-8", "gpu.1.lost = 15", tmp_path=tmp_path), "nvidia")
    devices = tmp_path / "sys/bus/pci/devices"
    config = (devices / "0000:19:00.0/config").read_bytes()
    assert config[:4] == bytes.fromhex("de103023")
    assert config[9:12] == bytes.fromhex("000203")
    assert config[0x2C:0x30] == bytes.fromhex("de10c116")
    assert (devices / "0000:3b:00.0/config").read_bytes() == b"\xff" * 256


def test_nvswitches_are_bridges_of_nvidias(tmp_path):
    hardware.write_pci(tmp_path, Settings(MODELS / "h100-sxm-8.conf"), "nvidia")
    files = [pci_files(tmp_path, f"0000:{bus:02x}:00.0") for bus in range(5, 9)]
    assert {(each["device"], each["class"]) for each in files} == {("0x22a3", "0x068000")}
    assert (tmp_path / "sys/bus/pci/devices/0000:05:00.0").resolve().parent.name == "0000:00:05.0"


def test_writing_again_shows_the_new_state(tmp_path):
    settings = Settings(MODELS / "l40s.conf")
    hardware.write_pci(tmp_path, settings, "nouveau")
    hardware.write_pci(tmp_path, settings_of("l40s", "gpu.0.pcie_width = 4", tmp_path=tmp_path), "")
    device = tmp_path / "sys/bus/pci/devices/0000:31:00.0"
    assert (device / "current_link_width").read_text() == "4\n"
    assert not (device / "driver").is_symlink()


def test_a_loaded_driver_shows_in_proc_and_sys(tmp_path):
    hardware.write_modules(tmp_path, "nvidia", "535.261.03")
    hardware.write_proc_driver(tmp_path, Settings(MODELS / "l40s.conf"), "535.261.03", "open")
    assert (tmp_path / "sys/module/nvidia/version").read_text() == "535.261.03\n"
    assert (tmp_path / "sys/module/nvidia/initstate").read_text() == "live\n"
    assert "nvidia_uvm " in (tmp_path / "proc/modules").read_text()
    version = (tmp_path / "proc/driver/nvidia/version").read_text()
    assert version.startswith("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.261.03  ")
    information = (tmp_path / "proc/driver/nvidia/gpus/0000:31:00.0/information").read_text()
    assert "Device Minor:    0\n" in information


def kernel(version="550.163.01", flavour="open", *, blacklisted=True):
    return simulate.Kernel("6.1.0-50-amd64", version, flavour, blacklisted, {})


@pytest.mark.parametrize(
    ("model", "state", "driver"),
    [
        ("h100-sxm-8", kernel(), "nvidia"),
        ("h100-sxm-8", kernel(version=""), ""),
        ("h100-sxm-8", kernel(blacklisted=False), "nouveau"),
        ("h100-sxm-8", kernel(version="470.256.02"), ""),
        ("v100", kernel(flavour="open"), ""),
        ("v100", kernel(flavour="proprietary"), "nvidia"),
        ("v100", kernel("590.44.01", "proprietary"), ""),
        ("b200-sxm-8", kernel("570.124.06", "proprietary"), ""),
        ("b200-sxm-8", kernel("570.124.06", "open"), "nvidia"),
    ],
)
def test_the_driver_that_gets_the_gpus_is_the_one_that_would_on_hardware(model, state, driver):
    assert state.driver(Settings(MODELS / f"{model}.conf")) == driver


@pytest.mark.parametrize(
    ("file", "rule", "blacklisted"),
    [
        ("etc/modprobe.d/a.conf", "blacklist nouveau", True),
        ("usr/lib/modprobe.d/a.conf", "install nouveau /bin/false", True),
        ("etc/modprobe.d/a.conf", "alias nouveau off", True),
        ("etc/modprobe.d/a.conf", "# blacklist nouveau", False),
        ("etc/modprobe.d/a.conf", "blacklist nouveaux", False),
        ("etc/modprobe.d/a.conf.disabled", "blacklist nouveau", False),
    ],
)
def test_a_blacklist_is_found_where_modprobe_finds_it(tmp_path, file, rule, blacklisted):
    hardware.write_line(tmp_path / file, rule)
    assert simulate.nouveau_blacklisted(tmp_path) is blacklisted


def test_an_older_driver_is_an_older_nvml(tmp_path):
    texts = {}
    for version in ("535.261.03", "580.65.06"):
        (tmp_path / "driver.conf").write_text(simulate.driver_settings(kernel(version)))
        texts[version] = Settings(tmp_path / "driver.conf")
    assert [text.node("cuda_version") for text in texts.values()] == ["12020", "13000"]
    assert "nvmlDeviceGetGpuFabricInfoV" in texts["535.261.03"].node("absent_functions")
    assert not texts["580.65.06"].node("absent_functions")
    assert texts["535.261.03"].gpu(0, "recovery_action") == "N/A"


@pytest.mark.parametrize(
    ("model", "state"), [("h100-sxm-8", "2"), ("b200-sxm-8", "2"), ("gb200-4", "3"), ("a100-pcie-2", "N/A")]
)
def test_the_fabric_behind_nvswitches_waits_for_its_manager(tmp_path, model, state):
    manager = simulate.runs_fabric_manager(Settings(MODELS / f"{model}.conf"))
    (tmp_path / "driver.conf").write_text(simulate.driver_settings(kernel(), fabric_manager=manager))
    settings = Settings(MODELS / f"{model}.conf", tmp_path / "driver.conf")
    assert settings.gpu(0, "fabric_state") == state


def test_kernels_are_ordered_by_number():
    assert (
        max(["6.1.0-9-amd64", "6.1.0-50-amd64", "6.1.0-50-cloud-amd64"], key=simulate.natural) == "6.1.0-50-cloud-amd64"
    )


def test_later_lines_and_files_win(tmp_path):
    (tmp_path / "a").write_text("count = 2\ngpu.1.temp = 30\ngpu.*.temp = 40 # all\n")
    (tmp_path / "b").write_text("gpu.0.temp = 50\n")
    settings = Settings(tmp_path / "a", tmp_path / "b", tmp_path / "absent")
    assert [settings.gpu(gpu, "temp") for gpu in settings.gpus] == ["50", "40"]


def test_gpus_of_all_nodes_have_their_own_uuids(tmp_path):
    uuids = []
    for host in ("node1", "node2", "node1"):
        (tmp_path / "driver.conf").write_text(simulate.own_uuids(host, Settings(MODELS / "h100-sxm-8.conf")))
        settings = Settings(MODELS / "h100-sxm-8.conf", tmp_path / "driver.conf")
        uuids.append([settings.gpu(gpu, "uuid") for gpu in settings.gpus])
    assert len({*uuids[0], *uuids[1]}) == 16
    assert uuids[0] == uuids[2]


def test_the_kernel_log_tells_of_the_driver_and_of_what_settings_add(tmp_path):
    lines = (
        "kernel_log = NVRM: Xid (PCI:0000:19:00): 79, pid=1, fallen off",
        "kernel_log = NVRM: Xid (PCI:0000:19:00): 48, x",
    )
    hardware.write_kernel_log(tmp_path, settings_of("h100-sxm-8", *lines, tmp_path=tmp_path), "nvidia", "580.1")
    log = (tmp_path / "kernel.log").read_text()
    assert "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.1" in log
    assert [event["xid"] for event in kernel_log.events(log)] == [79, 48]
    hardware.write_kernel_log(tmp_path, settings_of("h100-sxm-8", tmp_path=tmp_path), "nouveau", "")
    assert "NVRM" not in (tmp_path / "kernel.log").read_text()


def test_dmesg_prints_the_log_that_the_simulation_writes():
    stand_in = (MODELS.parent / "dmesg").read_text()
    assert stand_in.splitlines()[-1] == f"exec cat {simulate.RUN}/kernel.log"
    assert "usr/local/bin/dmesg" in (MODELS.parent / "install.sh").read_text()
