#!/bin/sh
# Make sure node images exist and print their tags, one line each.
#   lab/images.sh bookworm/rtx4090-2 trixie/none       release/model of tests/sim/models, or none for a node without GPU
# A release in lab/stand-ins is Debian trixie that says it is another system; rocky9 and rocky10 are made of Debian, too,
# but have nothing of its package manager left.
# Debian's base image is pulled where a registry answers, else made from the machine's own Debian mirror. Each image is
# tagged with a hash of its recipe and built once.
set -eu
cd "$(dirname "$0")/.."
export DOCKER_BUILDKIT=0  # the builder that every engine has

# Two labs that start at once make an image once. The lock lies where nobody else can take it.
own=${XDG_CACHE_HOME:-$HOME/.cache}/gpulab
mkdir -p "$own" && chmod 0700 "$own"
exec 9>"$own/images.lock"
flock --wait 1800 9 || { echo "another lab makes images for half an hour: fuser -v $own/images.lock" >&2; exit 1; }

stands_in() { [ -e "lab/stand-ins/$1" ]; }
bare() { if stands_in "$1"; then echo trixie; else echo "$1"; fi; }
base() { case $1 in rocky9) echo bookworm ;; rocky10) echo trixie ;; *) echo "$1" ;; esac; }
version() { case $1 in rocky9) echo 9.6 ;; rocky10) echo 10.0 ;; esac; }
exists() { docker image inspect "$1" >/dev/null 2>&1; }
hash() { cat "$@" | sha256sum | cut -c1-12; }

recipe() {  # release without stand-ins: what its image is made from, the Containerfile first
    case $1 in
        rocky*) echo lab/rocky.Containerfile $(git ls-files lab/rocky | sort) ;;
        *) echo lab/Containerfile ;;
    esac
    echo lab/ssh-host-keys.service
}

base_image() {  # release
    exists "gpulab-base:$1" && return
    if timeout 120 docker pull --quiet "debian:$1" >/dev/null 2>&1; then
        docker tag "debian:$1" "gpulab-base:$1"
    else
        printf 'images: no registry answers: making gpulab-base:%s with mmdebstrap\n' "$1" >&2
        mmdebstrap --quiet --dpkgopt=force-unsafe-io --variant=minbase --include=ca-certificates "$1" - |
            docker import - "gpulab-base:$1" >/dev/null
    fi
}

bare_image() {  # release, tag: a machine without GPU
    exists "$2" && return
    base_image "$(base "$1")"
    printf 'images: building %s\n' "$2" >&2
    files=$(recipe "$1")
    tar -c $files | docker build --quiet --file "${files%%[[:space:]]*}" --tag "$2" \
        --build-arg BASE="gpulab-base:$(base "$1")" --build-arg VERSION="$(version "$1")" - >/dev/null
}

stand_in_image() {  # release, tag: a machine that says it is another system
    exists "$2" && return
    printf 'images: building %s\n' "$2" >&2
    tar -c lab/stand-ins | docker build --quiet --file lab/stand-ins/Containerfile --tag "$2" \
        --build-arg BASE="$(tag_of trixie/none)" --build-arg RELEASE="$1" - >/dev/null
}

gpu_image() {  # bare tag, model, tag: the same machine with a simulated GPU
    exists "$3" && return
    printf 'images: building %s\n' "$3" >&2
    context=$(mktemp -d)
    tests/sim/install.sh "$context/root" "$2"
    printf 'FROM %s\nCOPY root /\n' "$1" > "$context/Containerfile"
    tar -c -C "$context" . | docker build --quiet --file Containerfile --tag "$3" - >/dev/null
    rm -rf "$context"
}

tag_of() {  # release/model
    release=${1%/*} model=${1#*/}
    files="$(recipe "$(bare "$release")") lab/images.sh"
    stands_in "$release" && files="$files lab/stand-ins/Containerfile lab/stand-ins/$release"
    bare="gpulab-node:$release-$(hash $files)"
    if [ "$model" = none ]; then echo "$bare"; else
        echo "$bare-$model-$(hash $(git ls-files tests/sim | sort))"
    fi
}

releases=$(for node in "$@"; do bare "${node%/*}"; done | sort -u)
pids=
for release in $releases; do
    bare_image "$release" "$(tag_of "$release/none")" & pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
for node in "$@"; do
    ! stands_in "${node%/*}" || stand_in_image "${node%/*}" "$(tag_of "${node%/*}/none")"
done
pids=
for node in $(printf '%s\n' "$@" | grep -v '/none$' | sort -u); do
    gpu_image "$(tag_of "${node%/*}/none")" "${node#*/}" "$(tag_of "$node")" & pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
for node in "$@"; do tag_of "$node"; done
