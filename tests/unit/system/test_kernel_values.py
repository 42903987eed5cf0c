"""Values of the running kernel: which files change, and what they are given back."""

from ansible_collections.gpulab.node.plugins.module_utils.system.kernel_values import Step, plan

SWAP, PAGES = "/proc/sys/vm/swappiness", "/sys/kernel/mm/transparent_hugepage/enabled"


def test_only_what_differs_changes():
    readings = {"vm.swappiness": {SWAP: "60"}, "transparent_hugepage": {PAGES: "madvise"}, "cpu_governor": {}}
    wanted = {"vm.swappiness": "10", "transparent_hugepage": "madvise", "cpu_governor": "performance"}
    assert plan(wanted, readings, {}) == [Step("vm.swappiness", SWAP, "60", "10")]


def test_white_space_is_no_difference():
    readings = {"net.ipv4.tcp_rmem": {"/x": "4096 131072 6291456"}}
    assert plan({"net.ipv4.tcp_rmem": "4096  131072\t6291456"}, readings, {}) == []


def test_what_is_no_longer_wanted_is_given_back():
    readings = {"vm.swappiness": {SWAP: "10"}, "cpu_governor": {"/cpu0": "performance", "/cpu1": "performance"}}
    remembered = {"vm.swappiness": {SWAP: "60"}, "cpu_governor": {"/cpu0": "powersave"}}
    assert plan({}, readings, remembered) == [
        Step("vm.swappiness", SWAP, "10", "60"),
        Step("cpu_governor", "/cpu0", "performance", "powersave"),
    ]


def test_what_is_wanted_is_not_given_back():
    assert plan({"vm.swappiness": "10"}, {"vm.swappiness": {SWAP: "10"}}, {"vm.swappiness": {SWAP: "60"}}) == []
