"""What a run will download from is asked for before the first change: which sources, and whether they answer."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.gpulab.node.plugins.action import sources_reach
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_repository, dnf_repository, reach
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.preflight import sources
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due, known

from unit.plan import make

ENVIRONMENT = {"name": "torch", "pytorch": "2.7"}


def asked(system="debian-13", roles=None, why=due.NO_RECEIPT, own_files=(), **wanted):
    """Return the sources of a bare node whose inventory sets these options."""
    facts = {**make.facts(system), "own_files": list(own_files)}
    values = options.complete(wanted)
    plan = resolve(facts, values, catalog.load(), make.TODAY)
    plan["due"] = {role: [why] for role in known.with_receipt()}
    return sources.planned(plan, facts, values, plan["due"] if roles is None else roles)


def names(found):
    return [source["name"] for source in found]


def test_nvidias_repository_is_asked_for_its_index_and_its_key_once_for_all_roles():
    found = asked(nvidia_driver_source="nvidia", cuda_source="nvidia", cuda_toolkits=["13.1"])
    assert names(found).count("the repository nvidia-cuda") == 1
    index, key = found[:2]
    assert index["urls"] == [
        f"https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/{name}"
        for name in ("InRelease", "Release")
    ]
    assert key["urls"][0].endswith(".pub")
    assert all(source["exact"] for source in (index, key))


def test_the_distributions_driver_asks_for_nothing_of_nvidias():
    assert asked(nvidia_driver_source="distribution", roles=["nvidia_driver"]) == []


@pytest.mark.parametrize("why", [due.WHY["gpulab"], due.WHY["settings"], "/etc/x differs"])
def test_a_role_whose_downloads_are_on_the_node_asks_for_nothing(why):
    assert asked(nvidia_driver_source="nvidia", why=why) == []


@pytest.mark.parametrize("why", [due.WHY["plan"], due.NEWER_DRIVER])
def test_a_role_that_may_download_asks(why):
    assert "the repository nvidia-cuda" in names(asked(nvidia_driver_source="nvidia", why=why))


def test_roles_that_are_not_at_work_ask_for_nothing():
    assert asked(nvidia_driver_source="nvidia", roles=["base", "tuning"]) == []


def test_mirrors_of_the_inventory_are_asked_in_place_of_the_vendors():
    found = asked(
        nvidia_driver_source="nvidia",
        gpulab_nvidia_repository_url="https://mirror.example/cuda/",
        gpulab_nvidia_repository_key="key.asc",
        container_toolkit_engines=["docker"],
        container_toolkit_docker_source="docker",
        container_toolkit_repository_url="https://mirror.example/toolkit",
        container_toolkit_docker_repository_url="https://mirror.example/docker",
        container_toolkit_docker_repository_key="docker.asc",
        environments_pytorch_index_url="https://mirror.example/whl",
        environments_uv_url="https://mirror.example/uv.whl",
        gpulab_environments=[ENVIRONMENT],
        conda_environments=[{"name": "c", "packages": ["python"]}],
        conda_micromamba_url="https://mirror.example/micromamba",
    )
    by_name = {source["name"]: source["urls"][0] for source in found}
    assert by_name["the repository nvidia-cuda"] == "https://mirror.example/cuda/InRelease"
    assert by_name["the repository docker"] == "https://mirror.example/docker/dists/trixie/InRelease"
    assert by_name["the repository nvidia-container-toolkit"].startswith("https://mirror.example/toolkit/")
    assert by_name["the package index of PyTorch"].startswith("https://mirror.example/whl/cu")
    assert by_name["the wheel of uv"] == "https://mirror.example/uv.whl"
    assert by_name["micromamba"] == "https://mirror.example/micromamba"
    keys = [name for name in by_name if name.startswith("the key")]
    assert keys == ["the key of the repository nvidia-container-toolkit"]  # the others come from files


@pytest.mark.parametrize(
    ("system", "path"),
    [
        ("debian-13", apt_repository.Repository("nvidia-cuda", "", "/", (), "", ()).key_path),
        ("rhel-9", dnf_repository.Repository("nvidia-cuda", "", "", "").key_path),
    ],
)
def test_a_key_that_the_node_has_is_not_asked_for(system, path):
    found = asked(system, nvidia_driver_source="nvidia", roles=["nvidia_driver"], own_files=[path])
    assert names(found) == ["the repository nvidia-cuda"]


def test_a_repository_of_rpm_is_asked_for_its_metadata():
    found = asked("rhel-9", nvidia_driver_source="nvidia", roles=["nvidia_driver"])
    assert found[0]["urls"] == [
        "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/repodata/repomd.xml"
    ]


@pytest.mark.parametrize(
    ("chosen", "skipped", "expected"),
    [
        (["all"], [], ["base", "nvidia_driver"]),
        (["nvidia_driver"], [], ["nvidia_driver"]),
        (["all"], ["nvidia_driver"], ["base"]),
    ],
)
def test_the_tags_of_a_run_choose_the_roles(chosen, skipped, expected):
    variables = {"ansible_run_tags": chosen, "ansible_skip_tags": skipped}
    assert due.at_work(variables, {"base": [], "nvidia_driver": []}) == expected


def test_the_proxies_are_those_that_the_run_will_set():
    values = {"base_http_proxy": None, "base_https_proxy": "http://proxy:3128", "base_no_proxy": ["localhost", "nas"]}
    assert sources_reach.proxies(values) == {"https_proxy": "http://proxy:3128", "no_proxy": "localhost,nas"}
    assert sources_reach.proxies({**values, "base_https_proxy": None}) == {}


def test_what_one_server_does_not_deliver_is_said_once():
    def unreached(name, url, detail="no answer"):
        return {"name": name, "url": url, "detail": detail}

    found = [
        unreached("the repository a", "https://one.example/InRelease"),
        unreached("the key of the repository a", "https://one.example/key"),
        unreached("the wheel of uv", "https://two.example/uv.whl", "refused"),
    ]
    assert list(sources.told(found)) == [
        "the repository a and the key of the repository a (https://one.example/InRelease: no answer)",
        "the wheel of uv (https://two.example/uv.whl: refused)",
    ]


@pytest.mark.parametrize(
    ("system", "source", "mirror", "own"),
    [
        ("debian-13", "nvidia", "gpulab_nvidia_repository_url", True),
        ("rhel-9", "nvidia", "gpulab_nvidia_repository_url", False),
        ("debian-13", "runfile", "nvidia_driver_runfile", False),
    ],
)
def test_the_remedy_names_the_mirrors_variable_and_the_distributions_driver_where_it_serves(
    system, source, mirror, own
):
    values = options.complete({"nvidia_driver_source": source, "nvidia_driver_runfile_sha256": "a" * 64})
    facts = {**make.facts(system), "own_files": []}
    plan = resolve(facts, values, catalog.load(), make.TODAY)
    plan["due"] = {"nvidia_driver": [due.NO_RECEIPT]}
    found = sources.planned(plan, facts, values, plan["due"])
    has_own_driver = sources.has_own_driver(plan, facts, values)
    way = f"set a mirror ({mirror})"
    way += ", or take the distribution's driver (nvidia_driver_source: distribution)" if own else ""
    assert sources.ways(found, found, has_own_driver=has_own_driver) == way
    assert sources.ways([found[0]], [{**found[0], "mirror": "x"}], has_own_driver=True) == "set a mirror (x)"


class Handler(BaseHTTPRequestHandler):
    """Serve /good, ask for a password at /private, hang at /slow, and fail at /broken; nothing else is there."""

    def do_GET(self):
        """Answer as the end of the path says."""
        if self.path.endswith("/slow"):
            self.server.stop.wait(30)
        code = next((code for end, code in self.server.codes.items() if self.path.endswith(end)), 404)
        self.send_response(code)
        self.end_headers()
        self.server.asked.append(self.path)

    def log_message(self, *_arguments):
        """Say nothing."""


@contextmanager
def serving():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.codes, server.asked, server.stop = {"/good": 200, "/private": 401, "/broken": 503}, [], threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.stop.set()
        server.shutdown()
        server.server_close()


def source(*urls, exact=True):
    return {"name": "the repository x", "urls": list(urls), "exact": exact}


def unreached(*sources, proxies=None):
    return reach.unreached(list(sources), lambda _url: proxies or {}, "")


def test_an_answer_is_reached_and_one_of_several_addresses_is_enough():
    with serving() as (_server, base):
        assert unreached(source(f"{base}/good"), source(f"{base}/missing", f"{base}/good")) == []


def test_what_is_not_there_is_named_with_the_servers_words():
    with serving() as (_server, base):
        found = unreached(source(f"{base}/missing", f"{base}/private"))
    assert found == [{"name": "the repository x", "url": f"{base}/missing", "detail": "HTTP Error 404: Not Found"}]


@pytest.mark.parametrize(("path", "reached"), [("private", True), ("missing", True), ("broken", False)])
def test_any_answer_of_an_index_counts_but_not_its_failure(path, reached):
    with serving() as (_server, base):
        assert (unreached(source(f"{base}/{path}", exact=False)) == []) is reached


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/InRelease"
    assert "refused" in unreached(source(url))[0]["detail"].lower()


def test_servers_that_hang_cost_one_wait_together(monkeypatch):
    monkeypatch.setattr(reach, "SECONDS", 1.0)
    with serving() as (_server, base):
        found = unreached(*[source(f"{base}/slow")] * 3)
    assert [one["detail"] for one in found] == ["no answer within 1 s"] * 3


def test_the_proxy_is_used_and_its_password_is_not_told():
    with serving() as (server, base):
        proxy = base.replace("http://", "http://user:geheim1@")
        assert unreached(source("http://nowhere.invalid/good"), proxies={"http_proxy": proxy}) == []
        assert server.asked == ["http://nowhere.invalid/good"]
    found = unreached(source("http://nowhere.invalid/good"), proxies={"http_proxy": proxy})
    assert found
    assert "geheim1" not in str(found)
