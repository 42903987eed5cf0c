#!/bin/sh
# ansible-test sanity on what ships, where it ships to. Outside git: in an ignored directory ansible-test skips all
# and calls that success.
set -eu
cd "$(dirname "$0")/.."
artefact=$(mktemp -d)
trap 'rm -rf "$artefact"' EXIT
ansible-galaxy collection build --force --output-path "$artefact" >/dev/null
ansible-galaxy collection install "$artefact"/*.tar.gz --no-deps --offline --force --collections-path "$artefact" >/dev/null 2>&1

# ansible-test keeps its environments below HOME, and downloads pip's bootstrap script from a host of its own that a
# closed network does not reach; ensurepip brings the same pip.
export HOME="$PWD/.ansible/home"
mkdir -p "$HOME/.ansible/test/cache"
printf 'import ensurepip\nensurepip.bootstrap(upgrade=True)\n' > "$HOME/.ansible/test/cache/get_pip_24_2.py"
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
cd "$artefact/ansible_collections/gpulab/node"
# make lint decides what pep8 and yamllint do; pylint, which takes as long as all others together, has a target of its own.
[ $# -gt 0 ] || set -- --skip-test pep8 --skip-test yamllint --skip-test pylint
ansible-test sanity --python "$python" --color no "$@"
