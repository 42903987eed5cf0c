"""Stand-ins for NVIDIA's CUDA packages: their names, dependencies, links and linker configuration, and no CUDA inside.

nvcc is a script that says so: it checks its arguments as the real one would, and has the host's compiler make a
program.
"""

from __future__ import annotations

from deb import Package

# The driver that cuda-compat of a CUDA is built from
COMPAT = {"13.0": "580.178.04", "13.1": "590.48.01", "13.2": "595.91.07"}
CUDNN, NCCL, TENSORRT = "9.20.0.48-1", "2.32.3-1+cuda{version}", "10.16.1.11-1+cuda{version}"
NVCC = """\
#!/bin/sh
# Stand-in for nvcc of CUDA {version}, for tests: it makes a program that has nothing to do with CUDA.
set -eu
compiler=g++ program=a.out source=
while [ $# -gt 0 ]; do
    case "$1" in
        -ccbin) compiler=$2; shift ;;
        -o) program=$2; shift ;;
        -gencode=arch=compute_89,code=sm_89 | -gencode=arch=compute_80,code=sm_80) ;;
        -gencode=*) echo "nvcc fatal   : Unsupported gpu architecture '$1'" >&2; exit 1 ;;
        *) source=$1 ;;
    esac
    shift
done
[ -r "$source" ]
echo 'int main() {{ return 0; }}' | "$compiler" -x c++ -o "$program" -
"""
# A library with an interface of this version only: the linker's cache shows which toolkit it was made for.
LIBRARY = """\
#!/bin/sh
set -e
echo 'extern "C" int stand_in() {{ return 0; }}' |
    g++ -shared -fPIC -Wl,-soname,libstandin.so.{version} -x c++ -o {library} -
"""
NO_LIBRARY = "#!/bin/sh\nrm --force {library}\n"
# What the packages of NVIDIA do on installation and on removal.
LINK = """\
#!/bin/sh
set -e
update-alternatives --install /usr/local/cuda cuda /usr/local/cuda-{version} {priority}
update-alternatives --install /usr/local/cuda-{major} cuda-{major} /usr/local/cuda-{version} {priority}
ldconfig
"""
UNLINK = """\
#!/bin/sh
set -e
update-alternatives --remove cuda /usr/local/cuda-{version}
update-alternatives --remove cuda-{major} /usr/local/cuda-{version}
"""


def toolkit(version: str) -> list[Package]:
    """Return the packages of one toolkit: a meta package, its parts, and what the toolkits of a major share."""
    suffix, major, full = version.replace(".", "-"), version.partition(".")[0], f"{version}.1-1"
    values = {"version": version, "major": major, "priority": version.replace(".", "")}
    prefix = f"/usr/local/cuda-{version}"
    values["library"] = f"{prefix}/targets/x86_64-linux/lib/libstandin.so.{version}"
    config = f"cuda-toolkit-{suffix}-config-common"
    parts = f"cuda-nvcc-{suffix}, cuda-cudart-{suffix}, {config}"
    return [
        Package(f"cuda-toolkit-{suffix}", full, {"Depends": parts}),
        Package(
            f"cuda-nvcc-{suffix}",
            full,
            {"Depends": f"g++, cuda-cudart-{suffix}"},
            scripts={"postinst": LIBRARY.format(**values), "prerm": NO_LIBRARY.format(**values)},
            files={
                f"{prefix}/version.json": f'{{"cuda": {{"version": "{version}.1"}}}}\n',
                f"{prefix}/bin/nvcc": NVCC.format(**values),
            },
        ),
        Package(
            f"cuda-cudart-{suffix}",
            full,
            {"Depends": config},
            files={f"{prefix}/targets/x86_64-linux/lib/libcudart.so.{major}": f"stand-in of CUDA {version}\n"},
        ),
        Package(
            config,
            full,
            {"Depends": "cuda-toolkit-config-common"},
            scripts={"postinst": LINK.format(**values), "prerm": UNLINK.format(**values)},
        ),
    ]


def compat(version: str) -> Package:
    """Return cuda-compat of one CUDA: its directory, which it tells nobody of."""
    driver = COMPAT[version]
    name, place = f"cuda-compat-{version.replace('.', '-')}", f"/usr/local/cuda-{version}/compat"
    return Package(name, f"{driver}-1", {}, files={f"{place}/libcuda.so.1": f"stand-in of driver {driver}\n"})


def libraries(version: str) -> list[Package]:
    """Return cuDNN, NCCL and TensorRT built for one CUDA."""
    major = version.partition(".")[0]
    nccl, tensorrt = (text.format(version=version) for text in (NCCL, TENSORRT))
    return [
        Package("libnccl2", nccl, {}),
        Package("libnccl-dev", nccl, {"Depends": f"libnccl2 (= {nccl})"}),
        Package("libnvinfer10", tensorrt, {}),
        Package(f"libcudnn9-cuda-{major}", CUDNN, {}),
        Package(f"libcudnn9-dev-cuda-{major}", CUDNN, {"Depends": f"libcudnn9-cuda-{major} (= {CUDNN})"}),
    ]


def common() -> list[Package]:
    """Return what all toolkits share."""
    name = "cuda-toolkit-config-common"
    conf = {"/etc/ld.so.conf.d/000_cuda.conf": "/usr/local/cuda/targets/x86_64-linux/lib\n"}
    return [Package(name, "13.2.1-1", {}, files=conf, scripts={"conffiles": "".join(f"{path}\n" for path in conf)})]
