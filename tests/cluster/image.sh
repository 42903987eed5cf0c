#!/bin/sh
# Make sure that there is an image with the API server, and print its tag. It is built once: a quarter of an hour, 4 GB.
set -eu
cd "$(dirname "$0")/../.."
export DOCKER_BUILDKIT=0  # the builder that every engine has
base=$(lab/images.sh bookworm/none)
tag=gpulab-cluster:$({ echo "$base"; cat tests/cluster/Containerfile; } | sha256sum | cut -c1-12)
docker image inspect "$tag" >/dev/null 2>&1 || {
    echo "image: building $tag" >&2
    docker build --quiet --build-arg BASE="$base" --tag "$tag" - < tests/cluster/Containerfile >/dev/null
}
echo "$tag"
