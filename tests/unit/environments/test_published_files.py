"""What well-known projects write in their environment.yml, and what micromamba and pip are given for it.

Each has the constructs of the file at its source, and few of its packages. Which of them the channels still have is not
tried here.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda
from ansible_collections.gpulab.node.plugins.module_utils.environments.conda_host import Condas
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import conda_files

NVIDIAS_INDEX = "https://nvidia-index.example"
COMMIT = "@4061b2ebca6938274d4db05b161ca519eb7c1eed"
OLD_PIP = {"pip=20.3": "pip>=22.2"}
CLIP = "-e git+https://github.com/openai/CLIP.git@main#egg=clip"
TAMING = "-e git+https://github.com/CompVis/taming-transformers.git@master#egg=taming-transformers"
COMMITS = {one: f"{one[3:].partition('.git')[0]}{COMMIT}" for one in (CLIP, TAMING)}
SUBMITIT, DLLOGGER = "git+https://github.com/facebookincubator/submitit", "git+https://github.com/NVIDIA/dllogger.git"


class Published(NamedTuple):
    """The channels, packages and lines for pip of a file, and which lines a wish has to replace."""

    channels: list
    packages: list
    pip: list = ()
    replace: dict = {}  # noqa: RUF012 - nothing changes it
    more: str = ""  # a requirements.txt beside it


FILES = {
    "CompVis/stable-diffusion": Published(
        ["pytorch", "defaults"],
        ["python=3.8", "pip=20.3", "cudatoolkit=11.3", "pytorch=1.11.0"],
        ["albumentations==0.4.3", "test-tube>=0.7.5", "eventlet", CLIP, TAMING, "-e ."],
        {**OLD_PIP, **COMMITS, "-e .": None},
    ),
    "CompVis/latent-diffusion": Published(
        ["pytorch", "defaults"],
        ["python=3.8.5", "pip=20.3", "pytorch=1.7.0"],
        ["torchmetrics==v0.6.0", TAMING, CLIP, "-e ."],
        {**OLD_PIP, **COMMITS, "-e .": None},
    ),
    "lllyasviel/ControlNet": Published(
        ["pytorch", "defaults"], ["python=3.8.5", "pip=20.3", "pytorch=1.12.1"], ["gradio==3.16.2"], OLD_PIP
    ),
    "facebookresearch/dinov2": Published(
        ["defaults", "pytorch", "nvidia", "xformers", "conda-forge"],
        ["python=3.9", "pytorch::pytorch=2.0.0", "pytorch::pytorch-cuda=11.7.0", "xformers::xformers=0.0.18", "pip"],
        [SUBMITIT, f"--extra-index-url {NVIDIAS_INDEX}", "cuml-cu11"],
        {SUBMITIT: SUBMITIT + COMMIT},
    ),
    "fastai/fastbook": Published(
        ["fastai", "pytorch", "defaults"],
        ["python>=3.6", "pytorch>=1.6", "pip"],
        ["-r requirements.txt"],
        more="fastai>=2.6.0\ngraphviz\nipywidgets\nmatplotlib\n",
    ),
    "mlfoundations/open_flamingo": Published(
        ["defaults"],
        ["python=3.9", "pip"],
        ["-r requirements.txt", "-e ."],
        {"-e .": None},
        "einops\ntransformers>=4.28.1\ntorch==2.0.1\n",
    ),
    "graphdeco-inria/gaussian-splatting": Published(
        ["pytorch", "conda-forge", "defaults"],
        ["cudatoolkit=11.6", "python=3.7.13", "pip=22.3.1", "pytorch=1.12.1"],
        ["submodules/diff-gaussian-rasterization", "submodules/simple-knn", "opencv-python"],
        {"submodules/diff-gaussian-rasterization": None, "submodules/simple-knn": None},
    ),
    "NVlabs/stylegan3": Published(
        ["pytorch", "nvidia"], ["python >= 3.8", "pip", "pytorch=1.9.1", "cudatoolkit=11.1"], ["imgui==1.3.0", "pyspng"]
    ),
    "NVlabs/eg3d": Published(
        ["pytorch", "nvidia"], ["python >= 3.8", "pip", "pytorch=1.11.0"], ["imgui==1.3.0", "mrcfile", "open3d"]
    ),
    "facebookresearch/DiT": Published(
        ["pytorch", "nvidia"], ["python >= 3.8", "pytorch >= 1.13", "pytorch-cuda=11.7"], ["timm", "diffusers"]
    ),
    "RosettaCommons/RFdiffusion": Published(
        ["defaults", "pytorch", "dglteam", "nvidia"], ["python=3.9", "pytorch=1.9", "pip"], ["hydra-core", "icecream"]
    ),
    "facebookresearch/esm": Published(
        ["conda-forge", "bioconda", "pytorch"],
        ["conda-forge::python=3.7", "conda-forge::pip", "conda-forge::cudatoolkit==11.3.*", "pytorch::pytorch=1.12.*"],
        ["biopython==1.79", "PyYAML==5.4.1", DLLOGGER],
        {DLLOGGER: DLLOGGER + COMMIT},
    ),
}
AS_THEY_ARE = {
    "NVlabs/stylegan3",
    "NVlabs/eg3d",
    "facebookresearch/DiT",
    "RosettaCommons/RFdiffusion",
    "fastai/fastbook",
}


@pytest.fixture
def resolve(tmp_path):
    """Return a function that reads the file of a project."""

    def call(name, replace=None):
        published = FILES[name]
        section = [{"pip": list(published.pip)}] if published.pip else []
        content = {"name": "x", "channels": published.channels, "dependencies": [*published.packages, *section]}
        (tmp_path / "environment.yml").write_text(yaml.safe_dump(content))
        (tmp_path / "requirements.txt").write_text(published.more)
        wish = {"name": "lab", "file": str(tmp_path / "environment.yml"), "replace": replace}
        places = conda_files.CondaSources(defaults="conda-forge", indexes=[NVIDIAS_INDEX])
        return conda_files.resolve(wish, ["conda-forge"], "x86_64", places)

    return call


@pytest.mark.parametrize("name", FILES)
def test_micromamba_and_pip_are_given_what_a_published_file_asks_for(resolve, name, tmp_path):
    published = FILES[name]
    found = resolve(name, published.replace)
    wanted = conda.Wanted("lab", *(tuple(found[key]) for key in ("packages", "channels", "pip")))
    _shell, script = Condas(tmp_path / "conda", {}, tmp_path).make(wanted)
    (create,) = [line for line in Path(script).read_text().splitlines() if " create " in line]
    words = shlex.split(create.rpartition(" > ")[0])
    channels = [words[number + 1] for number, word in enumerate(words) if word == "--channel"]
    right = ["conda-forge" if one == "defaults" else one for one in [*published.channels, "conda-forge"]]
    assert channels == list(dict.fromkeys(right))
    packages = words[words.index("--channel", words.index(channels[-1]) - 1) + 2 :]
    given = [published.replace.get(line, line).replace(">= ", ">=") for line in published.packages]
    git = ["git"] if any(COMMIT in (line or "") for line in published.replace.values()) else []
    assert packages == [*given, "pip>=22.2", *git]
    lines = [published.replace.get(line, line) for line in published.pip if line != "-r requirements.txt"]
    lines = [*published.more.split("\n")[:-1], *(line for line in lines if line)]
    assert (tmp_path / "conda/envs/.work/lab/pip.txt").read_text().splitlines() == lines


@pytest.mark.parametrize("name", FILES)
def test_what_a_published_file_has_to_have_replaced_is_said(resolve, name):
    """All lines at once, with the edit of the wish."""
    published = FILES[name]
    if published.replace:
        with pytest.raises(Refusal) as refusal:
            resolve(name)
        edit = refusal.value.remedy.partition("replace: {")[2].partition("}; null")[0]
        assert [line for line in published.replace if f"{line!r}: " not in edit] == []
    assert resolve(name, published.replace)["packages"]
    assert (not published.replace) is (name in AS_THEY_ARE)
