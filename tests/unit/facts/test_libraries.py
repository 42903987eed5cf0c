"""CUDA libraries are those that the linker finds."""

from ansible_collections.gpulab.node.plugins.module_utils.facts import libraries

LINKED = """2 libs found in cache `/etc/ld.so.cache'
\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnccl.so.2
\tlibnccl.so (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnccl.so
\tlibnccl.so.2 (libc6) => /usr/lib/i386-linux-gnu/libnccl.so.2
\tlibcudnn.so.9 (libc6,x86-64) => /usr/local/cuda/lib64/libcudnn.so.9
\tlibcudnn_adv.so.9 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcudnn_adv.so.9
"""


def test_bare_node_has_none(tree):
    assert libraries.read(tree.node(), "") == {"cudnn": [], "nccl": [], "tensorrt": []}


def test_versions_are_those_of_the_linkers_files(tree):
    tree.link("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.28.3")
    tree.link("/usr/local/cuda/lib64/libcudnn.so.9", "libcudnn.so.9.14.0")
    tree.link("/usr/lib/i386-linux-gnu/libnccl.so.2", "libnccl.so.2.1.0")
    tree.link("/usr/lib/x86_64-linux-gnu/libcudnn_adv.so.9", "libcudnn_adv.so.9.1.0")
    assert libraries.read(tree.node(), LINKED) == {"cudnn": ["9.14.0"], "nccl": ["2.28.3"], "tensorrt": []}


def test_library_that_vanished_has_no_version(tree):
    assert libraries.read(tree.node(), LINKED)["nccl"] == []
