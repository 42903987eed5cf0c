"""CUDA toolkits as NVIDIA's and Debian's packages leave them."""

from ansible_collections.gpulab.node.plugins.module_utils.facts import cuda


def toolkit(tree, version, json=None):
    prefix = f"/usr/local/cuda-{version}"
    tree.file(f"{prefix}/bin/nvcc")
    return tree.file(f"{prefix}/version.json", json) if json else tree


def test_a_bare_node_has_none(tree):
    assert cuda.read(tree.node()) == {"toolkits": [], "default": None, "compat": []}


def test_toolkits_side_by_side_and_the_default(tree):
    toolkit(tree, "12.9", '{"cuda": {"name": "CUDA SDK", "version": "12.9.1"}}')
    toolkit(tree, "13.2", "damaged")
    tree.link("/etc/alternatives/cuda", "/usr/local/cuda-12.9").link("/usr/local/cuda", "/etc/alternatives/cuda")
    tree.link("/usr/local/cuda-12", "/etc/alternatives/cuda-12")
    assert cuda.read(tree.node()) == {
        "toolkits": [
            {"prefix": "/usr/local/cuda-12.9", "version": "12.9.1"},
            {"prefix": "/usr/local/cuda-13.2", "version": "13.2"},
        ],
        "default": "/usr/local/cuda-12.9",
        "compat": [],
    }


def test_what_a_removed_toolkit_leaves_is_none(tree):
    tree.file("/usr/local/cuda-12.9/lib64/mine.so").link("/usr/local/cuda", "/usr/local/cuda-12.8")
    assert cuda.read(tree.node()) == {"toolkits": [], "default": None, "compat": []}


def test_forward_compatibility_is_where_its_libcuda_is(tree):
    tree.file("/usr/local/cuda-13.1/compat/libcuda.so.590.48.01", "")
    tree.link("/usr/local/cuda-13.1/compat/libcuda.so.1", "libcuda.so.590.48.01")
    tree.file("/usr/local/cuda-13.2/compat/README", "")
    assert cuda.read(tree.node())["compat"] == ["/usr/local/cuda-13.1/compat"]


def test_debians_own(tree):
    tree.file("/usr/bin/nvcc").file("/usr/include/cuda.h", "/* a */\n#define CUDA_VERSION 12040\n#define B\n")
    assert cuda.read(tree.node())["toolkits"] == [{"prefix": "/usr", "version": "12.4"}]
