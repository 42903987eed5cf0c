"""What every plan has to obey, written from NVIDIA's rules and not from the catalog or the resolver."""

from __future__ import annotations

import re
from dataclasses import dataclass

PRE_TURING = {"Maxwell", "Pascal", "Volta"}
TURING_TO_HOPPER = {"Turing", "Ampere", "Ada", "Hopper"}
FLOORS = {"580": (580, 178, 4), "595": (595, 91, 7), "610": (610, 57, 4), "615": (615, 71, 9), "620": (620,)}
# From NVIDIA's release notes: the driver branch that came with each CUDA
OWN_BRANCHES = {"12.6": 560, "12.8": 570, "12.9": 575, "13.0": 580, "13.1": 590, "13.2": 595, "13.3": 610}
# From NVIDIA's list of data-centre products, by PCI id, as far as the catalog has them
DATA_CENTRE = re.compile(
    "10de:(1db[134568]|1df[56]|1eb8|20b[01257]|20f1|223[56]|2321|2329|233[0159b]|2342|2348|26b9|27b8|290[19a]|2941|2bb5"
    "|3182|31c2)"
)
GETS_NO_FIXES = {"470", "525", "530", "535", "545", "550", "555", "560", "565", "570", "575", "590", "610"}


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def compat_package(toolkit):
    return f"cuda-compat-{toolkit['version'].replace('.', '-')}"


@dataclass
class Planned:
    """A plan with what it was made from; gpus are (architecture, is a Grace superchip) of the node's GPUs."""

    plan: dict
    facts: dict
    wishes: dict
    gpus: list

    def __post_init__(self):
        """Name what the rules look at."""
        self.driver = self.plan["driver"]
        self.branch = int(self.driver["branch"])
        self.open = self.driver["kernel_modules"] == "open"
        by_name = self.driver["branch"] in (self.wishes["gpulab_allow_branches"] or ())
        debian = (
            self.facts["system"]["id"] == "debian"
        )  # whose branches get no fixes: they are accepted with the source
        self.allowed = by_name or (debian and self.wishes["nvidia_driver_source"] == "distribution")
        self.pre_turing = any(architecture in PRE_TURING for architecture, _ in self.gpus)
        self.blackwell = any(architecture == "Blackwell" for architecture, _ in self.gpus)
        self.grace = any(grace for _, grace in self.gpus)
        self.devices = [gpu["device"] for gpu in self.facts["pci"]["gpus"]]
        self.cudas = [numbers(toolkit["version"]) for toolkit in self.plan["cuda"]["toolkits"]]
        self.wheels = [numbers(environment["cuda"]) for environment in self.plan["environments"]]


def pre_turing_takes_580_at_most(p):
    return not p.pre_turing or p.branch <= 580


def pre_turing_takes_proprietary_modules(p):
    return not p.pre_turing or not p.open


def blackwell_and_grace_take_open_modules(p):
    return p.open or not (p.blackwell or p.grace)


def blackwell_takes_570_at_least(p):
    return not p.blackwell or p.branch >= 570


def no_proprietary_modules_from_615(p):
    return p.branch < 615 or p.open


def cuda_13_takes_turing(p):
    return not p.pre_turing or all(cuda < (13, 0) for cuda in p.cudas + p.wheels)


def cuda_13_takes_580_or_forward_compatibility(p):
    plain = [cuda for cuda, tool in zip(p.cudas, p.plan["cuda"]["toolkits"]) if not tool["compat"]]
    return all(cuda < (13, 0) for cuda in plain + p.wheels) or numbers(p.driver["newest_known"]) >= (580, 65, 6)


def forward_compatibility_is_requested_and_for_data_centre_boards(p):
    compat = [tool for tool in p.plan["cuda"]["toolkits"] if tool["compat"]]
    return not compat or (p.wishes["cuda_compat"] and all(DATA_CENTRE.fullmatch(gpu) for gpu in p.devices))


def forward_compatibility_is_for_a_driver_below_the_toolkits_own(p):
    compat = [tool for tool in p.plan["cuda"]["toolkits"] if tool["compat"]]
    below = all(p.branch < OWN_BRANCHES[tool["version"]] for tool in compat)
    return below and all(tool["packages"][-1] == compat_package(tool) for tool in compat)


def blackwell_takes_cuda_12_8(p):
    return not p.blackwell or all(cuda >= (12, 8) for cuda in p.cudas)


def blackwell_takes_wheels_of_pytorch_for_cuda_12_8(p):
    pytorch = [numbers(one["cuda"]) for one in p.plan["environments"] if one["framework"] == "pytorch"]
    return not p.blackwell or all(cuda >= (12, 8) for cuda in pytorch)


def cudnn_9_11_takes_turing(p):
    cudnn = p.plan["libraries"]["cudnn"]
    return not p.pre_turing or cudnn is None or numbers(cudnn["version"])[:2] < (9, 11)


def branch_gets_fixes_or_is_allowed(p):
    return p.allowed or p.driver["branch"] not in GETS_NO_FIXES


def version_reaches_its_floor(p):
    return p.allowed or numbers(p.driver["newest_known"]) >= FLOORS[p.driver["branch"]]


def packages_are_named_and_compute_only_without_a_display(p):
    names = p.driver["packages"]
    bad = [name for name in names if re.search(r"[{}]|None", name)]
    shown = [name for name in names if re.search(r"xserver|xorg|-gl\b|nvidia-driver(?:=|\Z)", name)]
    return not bad and (bool(names) or p.driver["source"] == "runfile") and (p.driver["display"] or not shown)


def kernels_built_for_have_headers(p):
    built = p.driver["kernels"] if p.driver["dkms_module"] else []
    there = {kernel["version"] for kernel in p.facts["kernels"] if kernel["headers"]}
    return all(kernel in there or any(kernel in package for package in p.driver["header_packages"]) for kernel in built)


def arm_servers_take_sbsa(p):
    urls = [part["repository"]["url"] for part in (p.driver, p.plan["cuda"]) if part.get("repository")]
    return p.facts["system"]["architecture"] != "aarch64" or all("/sbsa" in url for url in urls)


def toolkits_come_without_driver(p):
    names = [name for toolkit in p.plan["cuda"]["toolkits"] for name in toolkit["packages"]]
    return all(
        re.fullmatch(r"cuda-(toolkit|compat)-\d+-\d+|nvidia-cuda-toolkit|g\+\+(-\d+)?|gcc-c\+\+|python3-pip", name)
        for name in names
    )


def what_is_wanted_is_not_retired(p):
    wanted = {name.partition("=")[0] for toolkit in p.plan["cuda"]["toolkits"] for name in toolkit["packages"]}
    libraries = [part for part in p.plan["libraries"].values() if isinstance(part, dict)]
    wanted |= {name.partition("=")[0] for part in libraries for name in part["packages"]}
    retired = p.plan["cuda"]["retire_packages"] + p.plan["libraries"]["retire_packages"]
    return not wanted & set(retired) and not any(set(name) & set("*?[{") for name in retired)


def a_repository_replaces_the_driver_only_where_it_brings_it(p):
    repository = p.plan["cuda"]["repository"]
    from_nvidia = p.driver["source"] == "nvidia"
    return repository is None or repository["format"] == "rpm" or ("libcuda1" in repository["packages"]) == from_nvidia


def nccl_is_pinned_to_its_cuda(p):
    nccl = p.plan["libraries"]["nccl"]
    return nccl is None or all(name.endswith(f"+cuda{p.plan['cuda']['default']}") for name in nccl["packages"])


def nvswitches_have_a_fabric_manager_of_the_drivers_version(p):
    manager = p.plan["fabric_manager"]
    return not p.facts["pci"]["nvswitches"] or (manager["needed"] and manager["version"] == p.driver["version"])


def imex_has_the_drivers_version(p):
    return not p.plan["imex"]["needed"] or p.plan["imex"]["version"] == p.driver["version"]


def container_toolkit_reaches_its_floor(p):
    version = p.plan["container_toolkit"]["version"]
    return version is None or numbers(version) >= (1, 19, 1)


def no_reason_is_given_twice(p):
    lists = [part["because"] for part in p.plan.values() if isinstance(part, dict) and "because" in part]
    return all(len(set(because)) == len(because) for because in lists)


HELPERS = {"Planned", "numbers", "dataclass", "compat_package"}
RULES = [rule for name, rule in list(globals().items()) if callable(rule) and name not in HELPERS]


def violations(plan, facts, wishes, gpus):
    """Return the names of the rules that a plan breaks."""
    planned = Planned(plan, facts, wishes, gpus)
    return [rule.__name__ for rule in RULES if not rule(planned)]
