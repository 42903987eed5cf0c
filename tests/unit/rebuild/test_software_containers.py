"""Images come back by their digests; what no registry has is told."""

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import Engine
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_containers

from unit.filled import typed

DIGEST = "example.org/cuda@sha256:" + "1" * 64
PULLED = {"id": "i1", "names": ["example.org/cuda:12"], "digests": [DIGEST], "comes_back": True, "why": ""}
BUILT = {"id": "i2", "names": ["lab/own:1"], "digests": [], "comes_back": False, "why": "it was built here"}
COMPOSE = {"project": "web", "directory": "/srv/web", "files": []}
VOLUME, NETWORK = {"name": "results"}, {"name": "lab"}
CONTAINER = {"name": "web-1", "image": "example.org/cuda:12", "compose": COMPOSE}
OTHER = {"name": "tool", "image": "lab/own:1", "compose": None}


def engine(**more):
    return typed({"program": "docker", **more}, Engine)


FULL = engine(images=[PULLED, BUILT], volumes=[VOLUME], networks=[NETWORK], containers=[CONTAINER, OTHER])


def plan(now, before=FULL):
    pulls, missing = software_containers.plan([before], {"docker": now} if now else {})
    return {"pulls": pulls, "missing": missing}


def test_an_image_is_pulled_by_its_digest_and_gets_its_names():
    (pull,) = plan(engine())["pulls"]
    assert software_containers.commands(pull) == [
        ["docker", "pull", "--quiet", DIGEST],
        ["docker", "tag", DIGEST, "example.org/cuda:12"],
    ]
    assert software_containers.failed(pull, "denied") == {
        "section": "containers",
        "name": "example.org/cuda:12",
        "why": "denied",
    }


def test_an_image_that_is_there_is_not_pulled_again():
    assert plan(engine(images=[PULLED]))["pulls"] == []
    (pull,) = plan(engine(images=[{**PULLED, "names": []}]))["pulls"]
    assert software_containers.commands(pull) == [["docker", "tag", DIGEST, "example.org/cuda:12"]]


def test_what_no_registry_has_is_told_with_the_way_to_it():
    told = {one["name"]: one["why"] for one in plan(engine())["missing"]}
    assert told == {
        "image lab/own:1": "it was built here",
        "volume results": "volumes are not captured; its backup has the data",
        "network lab": "networks are not made again: docker network create",
        "container web-1": "start it again in /srv/web: docker compose up --detach",
        "container tool": "containers are not made again; its image was lab/own:1",
    }


def test_what_somebody_made_again_is_not_told():
    assert plan(FULL) == {"pulls": [], "missing": []}


def test_without_its_engine_all_of_it_is_told_at_once():
    (told,) = plan(None)["missing"]
    assert told["why"] == "it is not on the node; 2 images, 2 containers, 1 volumes did not come back"
    (told,) = plan(engine(trouble="its daemon does not run"))["missing"]
    assert told["why"].startswith("its daemon does not run")
    assert plan(None, engine()) == {"pulls": [], "missing": []}
