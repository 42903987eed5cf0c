"""Images of work: what their digests lead to, what is refused before one comes, and what of one reaches people."""

import hashlib
import json
import os
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action.work_images import ActionModule
from ansible_collections.gpulab.node.plugins.module_utils.containers import work_images, work_store
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts.work_images import WorkImagesQuery
from ansible_collections.gpulab.node.plugins.modules import work_images as module

TEST = "true"


def put(top, data):
    """Put data into a layout; return its digest."""
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    name = hashlib.sha256(data).hexdigest()
    path = top / "blobs/sha256" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return f"sha256:{name}"


def made(top, architecture="amd64", kind="tar+gzip", **config):
    """Make an image of one layer; return its digest."""
    settings = {"Env": ["A=1", "B=2\n3"], "WorkingDir": "/work", **config}
    said = put(top, {"architecture": architecture, "config": settings})
    layer = {"mediaType": f"application/vnd.oci.image.layer.v1.{kind}", "digest": put(top, b"layer"), "size": 5}
    return put(top, {"config": {"digest": said, "size": 100}, "layers": [layer]})


def named(top, digest, **more):
    """Return an image of the inventory."""
    return work_images.WorkImage(
        **{"name": "a", "source": str(top), "digest": digest, "driver": "", "test": TEST, **more}
    )


def code(call, *arguments):
    """Return the code of the refusal that a call raises."""
    with pytest.raises(Refusal) as refused:
        call(*arguments)
    return refused.value.code


def test_a_list_leads_to_the_image_of_this_architecture(tmp_path):
    manifests = [
        {"digest": made(tmp_path, one), "platform": {"architecture": one, "os": "linux"}} for one in ("amd64", "arm64")
    ]
    image = named(tmp_path, put(tmp_path, {"manifests": manifests}))
    found = work_images.parts(image, "aarch64")
    assert (found.manifest, found.architecture) == (manifests[1]["digest"], "arm64")
    assert (found.environment, found.directory, found.space) == (["A=1"], "/work", 120)
    assert code(work_images.parts, image, "riscv64") == "K002"


def test_an_image_for_another_architecture_is_refused(tmp_path):
    assert code(work_images.parts, named(tmp_path, made(tmp_path)), "aarch64") == "K002"


@pytest.mark.parametrize("which", [0, 1])
def test_what_has_another_digest_is_refused(tmp_path, which):
    digest = made(tmp_path)
    config = json.loads((tmp_path / "blobs/sha256" / digest[7:]).read_text())["config"]["digest"]
    (tmp_path / "blobs/sha256" / (digest, config)[which][7:]).write_text('{"architecture": "amd64"}')
    assert code(work_images.parts, named(tmp_path, digest), "x86_64") == "K011"


@pytest.mark.parametrize(
    "manifest", [{}, [], {"config": {"digest": "../../etc/shadow"}, "layers": []}, {"manifests": 3}]
)
def test_a_manifest_that_is_none_is_refused(tmp_path, manifest):
    assert code(work_images.parts, named(tmp_path, put(tmp_path, manifest)), "x86_64") in {"K011", "K009"}


def test_a_layer_whose_digest_leads_elsewhere_is_refused(tmp_path):
    said = put(tmp_path, {"architecture": "amd64"})
    layers = [{"mediaType": "tar", "digest": "sha256:../../../etc/shadow", "size": 1}]
    digest = put(tmp_path, {"config": {"digest": said, "size": 1}, "layers": layers})
    assert code(work_images.parts, named(tmp_path, digest), "x86_64") == "K011"


@pytest.mark.parametrize(
    ("driver", "least", "reached"),
    [
        ("570.26", "570.26", True),
        ("570.9", "570.26", False),
        ("580", "570.26", True),
        ("570", "570.26", True),  # a branch alone: its newest
        ("560", "570.26", False),
        ("", "570", False),
    ],
)
def test_a_driver_reaches_another(driver, least, reached):
    assert work_images.reaches(driver, least) is reached


def test_settings_alone_are_refused_before_anything_is_asked(tmp_path):
    good = named(tmp_path, f"sha256:{'a' * 64}")
    work_images.check([good], "")
    assert code(work_images.check, [named(tmp_path, "latest")], "570.1") == "K001"
    assert code(work_images.check, [named(tmp_path, good.digest, driver="570.26")], "535.1") == "K003"
    assert code(work_images.check, [good, good], "") == "K013"


def test_a_registry_that_does_not_answer_is_said_in_its_own_words(tmp_path, monkeypatch):
    skopeo = tmp_path / "skopeo"
    skopeo.write_text("#!/bin/sh\necho 'level=fatal msg=\"no such host\"' >&2; exit 1\n")
    skopeo.chmod(0o755)
    monkeypatch.setattr(work_images, "SKOPEO", str(skopeo))
    with pytest.raises(Refusal, match="no such host") as refused:
        work_images.parts(named(tmp_path, f"sha256:{'a' * 64}", source="docker://nowhere/a"), "x86_64")
    assert refused.value.code == "K009"


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return a store with one image whose name leads to it, and that image."""
    monkeypatch.setattr(work_store, "RECORD", tmp_path / "var/record.json")
    image = named(tmp_path, f"sha256:{'a' * 64}", driver="570.26")
    held = work_store.WorkStore(tmp_path / "images")
    (held.directory / image.folder / "rootfs").mkdir(parents=True, mode=0o755)
    said = {"digest": image.digest, "architecture": "amd64", "environment": [], "directory": "/"}
    (held.directory / image.folder / "image.json").write_text(json.dumps(said))
    held.link(image)
    return SimpleNamespace(store=held, image=image, node=Node(tmp_path))


def facts(store, monkeypatch, program):
    """Return the facts where ch-run is this program of a shell."""
    run = store.node.root / "ch-run"
    run.write_text(f"#!/bin/sh\n{program}\n")
    run.chmod(0o755)
    monkeypatch.setattr(work_store, "CH_RUN", str(run))
    monkeypatch.setattr(work_store, "AS_NOBODY", ())
    record = work_store.Record("/images", [work_store.Kept("a", store.image.digest, "570.26", TEST)])
    monkeypatch.setattr(work_store, "read_record", lambda _path: record)
    (image,) = WorkImagesQuery(store.node, 5).facts()["images"]
    return image


def test_facts_say_that_an_image_starts_or_why_not(store, monkeypatch):
    assert facts(store, monkeypatch, "exit 0")["problem"] == ""
    assert facts(store, monkeypatch, "echo no such file >&2; exit 1")["problem"] == "no such file"
    (store.store.directory / store.image.folder / "image.json").write_text('{"digest": "sha256:b"}')
    assert "another image" in facts(store, monkeypatch, "exit 0")["problem"]
    (store.store.directory / store.image.folder / "rootfs").chmod(0o777)
    assert "not root's alone" in facts(store, monkeypatch, "exit 0")["problem"]


def test_what_no_name_leads_to_goes_unless_somebody_runs_in_it(store, tmp_path):
    (tmp_path / "proc/7").mkdir(parents=True)
    rootfs = store.store.directory / store.image.folder / "rootfs"
    (tmp_path / "proc/7/root").symlink_to(rootfs)
    assert store.store.users(store.image.folder, tmp_path / "proc")[0].startswith("process 7")
    assert store.store.tidy() == []
    assert rootfs.is_dir()
    store.store.remove("a")
    assert store.store.tidy() == []
    assert list(store.store.directory.iterdir()) == []


def test_a_full_disk_is_refused(store):
    assert code(store.store.check_space, 1 << 60) == "K005"


@pytest.mark.parametrize(
    ("printed", "refused"),
    [
        ("write /srv/x: no space left on device", "K005"),
        ("abc: FAILED\nsha256sum: WARNING: 1 computed checksum did NOT match", "K011"),
        ("time=now level=fatal msg=refused", "K009"),
    ],
)
def test_why_an_image_did_not_come(store, printed, refused):
    assert module.explained(store.store, store.image, printed).code == refused


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("owner", ["_apt", "root"])
def test_only_what_the_unpacker_made_is_given_to_root(tmp_path, monkeypatch, owner):
    uid = 4242 if owner == "_apt" else 0
    monkeypatch.setattr(work_store.pwd, "getpwnam", lambda _name: SimpleNamespace(pw_uid=4242))
    image = named(tmp_path, "")
    top, secret = tmp_path / "tree", tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    (top / "sub").mkdir(parents=True)
    (top / "sub/run").write_text("x")
    (top / "out").symlink_to(secret)
    (top / "twice").hardlink_to(top / "sub/run")
    for path in (top, top / "sub", top / "sub/run", top / "out"):
        os.chown(path, uid, uid, follow_symlinks=False)
    (top / "sub/run").chmod(0o6711)
    if owner == "root":
        assert code(work_store.give, image, top) == "K011"
        return
    work_store.give(image, top)
    status = (top / "sub/run").stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (0, 0o755)
    assert secret.stat().st_mode & 0o7777 == 0o600


def test_one_image_after_the_other_comes_and_a_failure_is_explained():
    asked = []

    def answers(_module, args):
        asked.append((args.get("operation", "look"), args.get("only")))
        why = {"code": "K009", "cause": "", "remedy": ""}
        return {"changed": True, "coming": ["a", "b"], "argv": [], "environment": {}, "why": why, "in_use": []}

    action = object.__new__(ActionModule)
    ends = iter([0, 1])
    action.call_module, action._task = answers, SimpleNamespace(check_mode=False)
    action.run_step = lambda _step: SimpleNamespace(rc=next(ends), tail=["no"])
    assert code(action.carry_out, {}) == "K009"
    assert asked == [("look", None), ("prepare", "a"), ("seal", "a"), ("prepare", "b"), ("explain", "b")]


def test_what_a_killed_run_has_left_coming_is_ended_before_its_files_go(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(module, "finish", lambda *_given: done.append("finish") or {})
    monkeypatch.setattr(module.WorkStore, "prepare", lambda *_given: done.append("prepare") or [])
    monkeypatch.setattr(module.work_images, "parts", lambda *_given: None)
    image = {"name": "a", "source": str(tmp_path), "digest": "", "driver": "", "test": "true"}
    given = {"directory": str(tmp_path), "images": [image], "absent": [], "driver": "", "state": "present", "only": "a"}
    for operation in ("prepare", "finish"):
        asked = SimpleNamespace(params={**given, "operation": operation}, run_command=done.append)
        module.operate(asked)
    assert done == [module.END_FORMER, "prepare", module.END_FORMER, "finish"]
    assert module.END_FORMER == ["systemctl", "stop", "gpulab-image-*.service"]
