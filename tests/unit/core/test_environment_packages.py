"""The packages of an environment, by the names that pip, uv, setuptools and conda leave in it."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import (
    normalized,
    of_conda,
    of_wheels,
    record_kind,
)


@pytest.mark.parametrize(
    ("name", "kind", "package"),
    [
        ("torch-2.9.0+cu126.dist-info", "dist-info", {"torch": "2.9.0+cu126"}),
        ("nvidia_cudnn_cu12-9.10.2.21.dist-info", "dist-info", {"nvidia-cudnn-cu12": "9.10.2.21"}),
        ("Jinja2-3.1.6.dist-info", "dist-info", {"jinja2": "3.1.6"}),
        ("ruamel.yaml-clib-0.2.dist-info", "dist-info", {"ruamel-yaml-clib": "0.2"}),
        ("数据-1.0.dist-info", "dist-info", {"数据": "1.0"}),
        ("odd.dist-info", "dist-info", {}),
        ("old-1.0-py3.11.egg-info", "egg-info", {}),
        ("mine.egg-link", "egg-link", {}),
        ("~orch-2.9.0.dist-info", "", {}),
        (".dist-info", "", {}),
        ("torch-2.9.dist-info.bak", "", {}),
        ("torch", "", {}),
        ("", "", {}),
    ],
)
def test_a_name_beside_packages(name, kind, package):
    assert record_kind(name) == kind
    assert of_wheels([name, "six.py"]) == package


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("nvidia-ml-py-13.5-py_0.json", {"nvidia-ml-py": ("13.5", "py_0")}),
        ("_libgcc_mutex-0.1-main.json", {"_libgcc_mutex": ("0.1", "main")}),
        ("pytorch-2.9.0-cuda129_h5_0.json", {"pytorch": ("2.9.0", "cuda129_h5_0")}),
        ("odd.json", {}),
        ("odd-1.json", {}),
        (".hidden-1-0.json", {}),
        ("history", {}),
    ],
)
def test_a_name_in_conda_meta(name, package):
    assert of_conda([name]) == package


@pytest.mark.parametrize("name", ["Ruamel_YAML.clib", "ruamel--yaml-clib", "ruamel.yaml_clib"])
def test_a_name_as_indexes_compare_it(name):
    assert normalized(name) == "ruamel-yaml-clib"
