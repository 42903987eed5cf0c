"""A driver from a .run file: what its texts say, and what is done on a node below a made-up root."""

import hashlib
import json
import shutil
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver import runfile
from ansible_collections.gpulab.node.plugins.module_utils.driver.runfile import RunfileDriver, Wish
from ansible_collections.gpulab.node.plugins.module_utils.driver.runfile_host import RunfileInstaller
from ansible_collections.gpulab.node.plugins.modules import nvidia_runfile as module

OLD, NEW = "580.178.04", "595.91.07"
KERNEL = "6.1.0-50-amd64"
DATA = b"the file"
SHA256 = hashlib.sha256(DATA).hexdigest()
WISH = Wish(RunfileDriver(NEW, "open"), "http://mirror.example/driver.run", SHA256)
USAGE = "  -s, --silent\n  --dkms\n  -M TYPE, --kernel-module-type=TYPE\n  --no-x-check\n  --skip-module-load\n"
REMOVAL_USAGE = "--silent\n--skip-module-unload\n"
NO_ROUTE = "no route to host"
COMPILER = "/x/nv.c:3:2: error: implicit declaration of function 'pci_resize_resource'\nmake: *** [x] Error 2\n"


class Machine:
    """A root with an installer's unpacked files in the place where its stand-in would put them."""

    def __init__(self, root, version=NEW, usage=USAGE):
        """version, usage: what is in the file."""
        self.root, self.version, self.usage = root, version, usage
        self.active, self.calls = "inactive", []

    def node(self, wish=WISH):
        """Return the core on this machine."""
        return RunfileInstaller(self.call, "boot", wish, self.root)

    def call(self, argv):
        """Play a command."""
        self.calls.append(argv)
        if argv[0] == "sh":
            tree = argv[-1]
            self.write(f"{tree}/nvidia-installer", "")
            self.write(f"{tree}/.manifest", f"NVIDIA Accelerated Graphics Driver\n{self.version}\n")
            for directory in ("kernel", "kernel-open"):
                self.write(f"{tree}/{directory}/Makefile", "modules:\n")
        if argv[0] == "systemctl":
            return 0, f"{self.active}\n", ""
        if argv[-1] == "--advanced-options":
            return 0, REMOVAL_USAGE if argv[0].endswith("nvidia-uninstall") else self.usage, ""
        return 0, "", ""

    def write(self, path, text):
        """Write a file."""
        path = self.path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def path(self, path):
        """Return where a path of the node lies."""
        return self.root / str(path).removeprefix(str(self.root)).lstrip("/")

    def install(self, version, licence="Dual MIT/GPL"):
        """Leave what an installer leaves."""
        self.write("/usr/bin/nvidia-uninstall", "")
        self.write(runfile.BACKUP, f"1.0-{version.replace('.', '')} ({version})\nNVIDIA Accelerated Graphics Driver\n")
        if licence:
            self.write(f"/usr/src/nvidia-{version}/nvidia/nv.c", f'MODULE_LICENSE("{licence}");\n')

    def left(self):
        """Return what is in gpulab's directory."""
        home = self.path(runfile.ROOT)
        return sorted(entry.name for entry in home.iterdir()) if home.is_dir() else None

    def begin(self, step, ended=None):
        """Leave a long step as a run leaves it that was cut off."""
        home = f"/var/lib/gpulab/steps/{step['step']}"
        record = {"fingerprint": "x", "boot_id": "boot", "started": 1.0, "argv": step["argv"], "acknowledged": False}
        self.write(f"{home}/state.json", json.dumps(record))
        if ended is None:
            self.active = "active"
        else:
            self.write(f"{home}/result", json.dumps({"rc": ended, "ended": 2}))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def download(path):
    path.write_bytes(DATA)


def refused(code, function, *arguments):
    with pytest.raises(Refusal) as refusal:
        function(*arguments)
    assert refusal.value.code == code
    return str(refusal.value)


@pytest.mark.parametrize(
    ("licence", "wanted", "fulfilled"),
    [
        ("Dual MIT/GPL", RunfileDriver(NEW, "open"), True),
        ("NVIDIA", RunfileDriver(NEW, "open"), False),
        (None, RunfileDriver(NEW, "open"), True),
        ("Dual MIT/GPL", RunfileDriver(OLD, "open"), False),
    ],
)
def test_version_and_kind_of_modules_decide_whether_it_is_there(machine, licence, wanted, fulfilled):
    machine.install(NEW, licence)
    assert machine.node(Wish(wanted, WISH.url, SHA256)).is_fulfilled() is fulfilled


def test_an_uninstaller_is_the_sign_of_an_installation(machine):
    machine.write(runfile.BACKUP, f"1.0-1 ({NEW})\n")
    assert machine.node().installed() is None
    assert not machine.node().is_fulfilled()


def test_what_an_installer_began_is_not_there_until_it_has_ended(machine):
    node = machine.node()
    node.fetch(download)
    node.start(KERNEL, keep_former=True)
    machine.install(NEW)
    assert not machine.node().is_fulfilled()
    node.finish()
    assert machine.node().is_fulfilled()
    assert machine.left() == [f"{SHA256}.run", "driver.json"]


def test_the_file_is_unpacked_once(machine):
    machine.node().fetch(download)
    assert machine.node().is_fetched()
    assert machine.left() == [f"{SHA256}.run", "tree", "tree.sha256"]
    other = Wish(WISH.driver, WISH.url, "0" * 64)
    assert not machine.node(other).is_fetched()


def test_a_file_that_cannot_be_had_is_refused(machine):
    assert NO_ROUTE in refused("D030", machine.node().fetch, fail)
    assert machine.left() is None


def test_another_file_is_refused_before_anything_of_it_runs(machine):
    said = refused("D031", machine.node(Wish(WISH.driver, WISH.url, "0" * 64)).fetch, download)
    assert SHA256 in said
    assert machine.calls == []
    assert machine.left() is None


def test_a_file_of_another_driver_is_refused(machine):
    machine.version = OLD
    assert f"it is driver {OLD}" in refused("D032", machine.node().fetch, download)
    assert machine.left() is None


def test_a_file_that_does_not_unpack_is_refused(machine):
    machine.call = lambda _argv: (1, "", "sh: it is no archive\n")
    assert "it is no archive" in refused("D032", machine.node().fetch, download)


def test_an_installer_that_knows_no_open_modules_is_refused(machine):
    machine.usage = "--silent --dkms"
    refused("D035", machine.node().fetch, download)
    assert runfile.arguments(machine.usage, RunfileDriver(NEW, "proprietary"), KERNEL)[-1] == f"--kernel-name={KERNEL}"


def test_a_file_without_the_modules_is_refused(machine):
    unpack = machine.call

    def without(argv):
        answer = unpack(argv)
        if argv[0] == "sh":
            shutil.rmtree(machine.path(runfile.ROOT / "tree/kernel-open"))
        return answer

    machine.call = without
    refused("D035", machine.node().fetch, download)


def test_only_options_that_the_installer_names_are_given_to_it():
    assert runfile.arguments(USAGE, WISH.driver, KERNEL) == [
        "--silent",
        "--dkms",
        f"--kernel-name={KERNEL}",
        "--kernel-module-type=open",
        "--no-x-check",
        "--skip-module-load",
    ]
    older = "--kernel-module-build-directory=DIR --no-nouveau-check"
    assert runfile.arguments(older, WISH.driver, KERNEL)[-2:] == [
        "--kernel-module-build-directory=kernel-open",
        "--no-nouveau-check",
    ]


def test_modules_are_tried_in_a_directory_of_their_own(machine):
    machine.write(f"/lib/modules/{KERNEL}/build/Makefile", "")
    node = machine.node()
    node.fetch(download)
    tried = node.try_build(KERNEL)
    assert tried["step"] == f"nvidia-runfile-{KERNEL}"
    assert tried["argv"][2] == str(machine.path(runfile.ROOT / f"try-{KERNEL}"))
    assert tried["argv"][-2:] == [f"KERNEL_UNAME={KERNEL}", "modules"]
    assert (machine.path(runfile.ROOT) / f"try-{KERNEL}/Makefile").is_file()


@pytest.mark.parametrize("there", [False, True])
def test_the_compiler_of_the_kernel_is_taken_where_it_is_there(machine, there):
    machine.write(f"/lib/modules/{KERNEL}/build/Makefile", "")
    machine.write(
        f"/boot/config-{KERNEL}", 'CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1) 12.3.0"\n'
    )
    if there:
        machine.write("/usr/bin/gcc-12", "")
    node = machine.node()
    node.fetch(download)
    assert ("CC=gcc-12" in node.try_build(KERNEL)["argv"]) is there
    argv = node.start(KERNEL, keep_former=False)["argv"]
    assert argv[: argv.index(str(machine.path(runfile.ROOT / "tree/nvidia-installer")))] == (
        ["env", "CC=gcc-12"] if there else []
    )


def test_a_build_that_goes_on_is_not_disturbed(machine):
    machine.write(f"/lib/modules/{KERNEL}/build/Makefile", "")
    node = machine.node()
    node.fetch(download)
    tried = node.try_build(KERNEL)
    machine.write(f"{tried['argv'][2]}/nv.o", "half of it")
    machine.begin(tried)
    assert node.try_build(KERNEL) == tried
    assert (machine.path(tried["argv"][2]) / "nv.o").exists()
    machine.active = "inactive"
    node.try_build(KERNEL)
    assert not (machine.path(tried["argv"][2]) / "nv.o").exists()


def test_a_kernel_without_headers_is_refused(machine):
    node = machine.node()
    node.fetch(download)
    refused("D002", node.try_build, KERNEL)


def test_a_build_that_fails_is_explained_and_leaves_nothing(machine):
    node = machine.node()
    node.fetch(download)
    machine.write("/build.log", COMPILER)
    said = str(node.explain_build(KERNEL, str(machine.path("/build.log"))))
    assert "D033" in said
    assert f"open modules of driver {NEW} do not build for kernel {KERNEL}" in said
    assert "implicit declaration of function 'pci_resize_resource'" in said
    assert machine.left() is None


ENDS = {
    "nothing before": (None, None, "No .run driver was installed before"),
    "the former one stays": (OLD, OLD, f"The driver {OLD} is still installed."),
    "the former one is gone": (OLD, None, f"The driver {OLD} was already removed."),
    "only a part of the new one is there": (OLD, NEW, f"The driver {OLD} was already removed."),
}


@pytest.mark.parametrize(("before", "after", "said"), ENDS.values(), ids=ENDS)
def test_an_installer_that_fails_says_what_is_left(machine, before, after, said):
    node = machine.node()
    if before:
        machine.install(before)
    node.fetch(download)
    node.start(KERNEL, keep_former=True)
    machine.path("/usr/bin/nvidia-uninstall").unlink(missing_ok=True)
    if after:
        machine.install(after)
    machine.write(runfile.LOG, "-> Installing\nERROR: Unable to create a\n       symlink.\n\nERROR: It has failed.\n")
    told = str(node.explain())
    assert "D034" in told
    assert said in told
    assert "failed: Unable to create a symlink." in told
    assert not node.is_fulfilled()


FORMER_DATA = b"the former file"
FORMER = Wish(RunfileDriver(OLD, "open"), "files/former.run", hashlib.sha256(FORMER_DATA).hexdigest())


def install(machine, wish, data, *, keep_former=True):
    """Play a whole installation."""
    machine.version = wish.driver.version
    node = machine.node(wish)
    node.fetch(lambda path: path.write_bytes(data))
    node.start(KERNEL, keep_former=keep_former)
    machine.install(wish.driver.version)
    node.finish()


def fail(_path):
    raise OSError(NO_ROUTE)


def test_the_former_file_stays_until_the_new_driver_is_confirmed(machine):
    install(machine, FORMER, FORMER_DATA)
    install(machine, WISH, DATA)
    node = machine.node()
    assert node.former() == FORMER
    assert machine.left() == sorted([f"{SHA256}.run", f"{FORMER.sha256}.run", "driver.json", "former.json"])
    node.confirm()
    assert node.former() is None
    assert machine.left() == [f"{SHA256}.run", "driver.json"]


def test_the_former_driver_is_fetched_from_the_file_that_is_kept(machine):
    install(machine, FORMER, FORMER_DATA)
    install(machine, WISH, DATA)
    machine.version = OLD
    former = machine.node(machine.node().former())
    former.fetch(fail)
    former.start(KERNEL, keep_former=False)
    assert former.former() == FORMER
    machine.install(OLD)
    former.finish()
    former.confirm()
    assert machine.left() == [f"{FORMER.sha256}.run", "driver.json"]


def test_a_kept_file_that_was_altered_is_fetched_again(machine):
    install(machine, WISH, DATA)
    machine.path(runfile.ROOT / f"{SHA256}.run").write_bytes(b"altered")
    refused("D030", machine.node().fetch, fail)
    machine.node().fetch(download)


def test_a_former_file_that_was_altered_is_fetched_from_where_it_came(machine, monkeypatch):
    install(machine, WISH, DATA)
    machine.path(runfile.ROOT / f"{SHA256}.run").write_bytes(b"altered")
    fetched = []
    monkeypatch.setattr(module.download, "save", lambda url, path, _timeout: fetched.append(url) or download(path))
    restoring = SimpleNamespace(params={"url": None, "path": None}, get_bin_path=lambda _name: None)
    module.fetch(restoring, machine.node(), WISH.url)
    assert fetched == [WISH.url]


def test_a_new_file_that_is_refused_leaves_the_one_that_is_installed(machine):
    install(machine, WISH, DATA)
    refused("D031", machine.node(FORMER).fetch, lambda path: path.write_bytes(b"another"))
    assert machine.left() == [f"{SHA256}.run", "driver.json"]


def test_the_first_driver_of_two_changes_is_the_former_one(machine):
    install(machine, FORMER, FORMER_DATA)
    install(machine, WISH, DATA)
    third = Wish(RunfileDriver("595.95.01", "open"), "files/third.run", hashlib.sha256(b"third").hexdigest())
    install(machine, third, b"third")
    assert machine.node().former() == FORMER


def test_a_driver_whose_file_is_not_there_has_no_way_back(machine):
    machine.install(OLD)
    assert OLD in refused("D037", machine.node().see_that_it_is_kept)
    install(machine, FORMER, FORMER_DATA)
    machine.node().see_that_it_is_kept()
    machine.install("570.1.2")  # by somebody else
    refused("D037", machine.node().see_that_it_is_kept)


def test_nothing_is_kept_where_no_way_back_is_asked_for(machine):
    install(machine, FORMER, FORMER_DATA)
    install(machine, WISH, DATA, keep_former=False)
    assert machine.node().former() is None
    assert machine.left() == [f"{SHA256}.run", "driver.json"]


def test_what_never_ended_is_none_to_go_back_to(machine):
    node = machine.node()
    node.fetch(download)
    node.start(KERNEL, keep_former=True)
    machine.install(NEW)
    machine.node(FORMER).see_that_it_is_kept()


def test_the_compilers_word_comes_before_the_installers(machine):
    machine.write(f"/var/lib/dkms/nvidia/{NEW}/build/make.log", COMPILER)
    machine.write(runfile.LOG, "ERROR: Failed to run dkms.\n")
    assert "pci_resize_resource" in str(machine.node().explain())


def test_an_installer_that_ends_well_and_installs_nothing_is_refused(machine):
    node = machine.node()
    node.fetch(download)
    node.start(KERNEL, keep_former=True)
    assert "Now installed: no driver." in refused("D034", node.finish)


@pytest.mark.parametrize("ended", [None, 0, 1])
def test_an_installation_that_was_cut_off_is_taken_up_again(machine, ended):
    node = machine.node()
    node.fetch(download)
    step = node.start(KERNEL, keep_former=True)
    assert node.begun() is None
    machine.begin(step, ended)
    assert machine.node().begun() == step


def test_another_driver_waits_for_the_one_that_is_being_installed(machine):
    node = machine.node()
    node.fetch(download)
    machine.begin(node.start(KERNEL, keep_former=True))
    refused("S003", machine.node(Wish(RunfileDriver(OLD, "open"), WISH.url, "0" * 64)).begun)
    refused("S003", machine.node(None).begun)


def test_what_gpulab_did_not_install_stays(machine):
    machine.install(OLD)
    assert machine.node(None).is_fulfilled()


def test_its_own_uninstaller_takes_it_off_and_gpulab_forgets_it(machine):
    machine.write(runfile.ROOT / runfile.RECORD, '{"wish": null, "complete": true}')
    machine.install(NEW)
    node = machine.node(None)
    assert not node.is_fulfilled()
    removal = node.start_removal()
    assert removal["argv"] == ["/usr/bin/nvidia-uninstall", "--silent", "--skip-module-unload"]
    machine.path("/usr/bin/nvidia-uninstall").unlink()
    node.finish_removal()
    assert node.is_fulfilled()
    assert machine.left() is None


def test_an_uninstaller_that_fails_is_refused_and_the_driver_not_forgotten(machine):
    machine.write(runfile.ROOT / runfile.RECORD, '{"wish": null, "complete": true}')
    machine.install(NEW)
    machine.write(runfile.UNINSTALL_LOG, "ERROR: Nothing works here.\n")
    node = machine.node(None)
    node.start_removal()
    assert "Nothing works here." in refused("D036", node.finish_removal)
    assert not node.is_fulfilled()


def test_a_driver_that_somebody_took_off_is_forgotten(machine):
    machine.write(runfile.ROOT / runfile.RECORD, '{"wish": null, "complete": true}')
    node = machine.node(None)
    assert node.start_removal() is None
    node.finish_removal()
    assert machine.left() is None
