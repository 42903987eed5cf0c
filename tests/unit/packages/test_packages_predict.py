"""What check mode foresees on a node whose apt-get is played: it knows some packages and not others."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Step
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_host
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import Wishes
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_host import Apt
from ansible_collections.gpulab.node.plugins.modules.packages import predict


@pytest.fixture
def predicted(tmp_path):
    """Return a function from wanted packages to what check mode foresees where the lists have only dkms and sl."""

    def call(argv):
        names = argv[argv.index("install") + 1 :]
        unknown = [name for name in names if name.partition("=")[0] not in {"dkms", "sl"}]
        if "broken" in names:
            return 100, "", "E: Unable to correct problems, you have held broken packages.\n"
        if unknown:
            return 100, "", "".join(f"E: Unable to locate package {name.partition('=')[0]}\n" for name in unknown)
        lines = [f"   {name} (1)" for name in names] + [f"'http://m/{name}' {name}.deb 100 SHA256:aa" for name in names]
        return 0, "\n".join(["The following NEW packages will be installed:", *lines, ""]), ""

    def wanted(*present):
        wishes = Wishes(present)
        apt = Apt(call, Step("driver", call, "boot", tmp_path), wishes, recommends=False, lock_timeout=1)
        return predict(apt, wishes)["predicted"]

    return wanted


def test_a_transaction_is_predicted_with_its_downloads(predicted):
    found = predicted("dkms", "sl")
    assert found["install"] == {"dkms": "1", "sl": "1"}
    assert found["downloads"] == {"dkms.deb": 100, "sl.deb": 100}
    assert found["not_listed"] == []


def test_what_the_lists_lack_is_named_and_the_rest_predicted(predicted):
    found = predicted("dkms", "nvidia-smi=535.*")
    assert (found["install"], found["not_listed"]) == ({"dkms": "1"}, ["nvidia-smi=535.*"])
    assert found["downloads"] == {"dkms.deb": 100}


def test_what_cannot_be_installed_is_refused(predicted):
    with pytest.raises(Refusal) as refusal:
        predicted("broken", "dkms")
    assert refusal.value.code == "H048"


def test_a_pin_that_this_very_run_takes_away_is_predicted_as_gone(tmp_path, monkeypatch):
    (tmp_path / "preferences").write_text("Package: sl\nPin: version 1\nPin-Priority: 900\n")
    monkeypatch.setattr(apt_host, "PREFERENCES", tmp_path / "preferences")
    preferences = []

    def call(argv):
        (path,) = (word.rpartition("=")[2] for word in argv if "Dir::Etc::preferences=" in word)
        preferences.append(Path(path).read_text())
        return 0, "", ""

    wishes = Wishes(("nvidia-open=595.95.*", "dkms"), hold=("nvidia-*", "libcuda1"))
    predict(Apt(call, Step("driver", call, "boot", tmp_path), wishes, recommends=False, lock_timeout=1), wishes)
    ours = "Package: nvidia-* libcuda1\nPin: version 595.95.*\nPin-Priority: 1001\n"
    assert preferences
    assert all(text.startswith("Package: sl\n") and text.endswith(ours) for text in preferences)
