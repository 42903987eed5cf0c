#!/bin/sh
# Make sure the node images exist: gpulab-node:<release>-<hash of the recipe>. Prints one tag per release asked for.
#   lab/images.sh bookworm trixie
# The base is pulled where a registry answers, else made from the machine's own Debian mirror.
set -eu
cd "$(dirname "$0")/.."
context='lab/Containerfile lab/ssh-host-keys.service'

base_image() {
    base=gpulab-base:$1
    docker image inspect "$base" >/dev/null 2>&1 && return
    if timeout 120 docker pull --quiet "debian:$1" >/dev/null 2>&1; then
        docker tag "debian:$1" "$base"
    else
        printf 'images: no registry answers: making %s with mmdebstrap\n' "$base" >&2
        mmdebstrap --quiet --variant=minbase --include=ca-certificates "$1" - | docker import - "$base" >/dev/null
    fi
}

node_image() {
    release=$1 tag=$2
    docker image inspect "$tag" >/dev/null 2>&1 && return
    base_image "$release"
    printf 'images: building %s\n' "$tag" >&2
    # shellcheck disable=SC2086
    tar -c $context | docker build --quiet --file lab/Containerfile --build-arg BASE="gpulab-base:$release" \
        --tag "$tag" - >/dev/null
}

# shellcheck disable=SC2086
recipe=$(cat lab/images.sh $context | sha256sum | cut -c1-12)
export DOCKER_BUILDKIT=0  # no buildx needed
pids=
for release in "$@"; do
    node_image "$release" "gpulab-node:$release-$recipe" & pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
for release in "$@"; do echo "gpulab-node:$release-$recipe"; done
