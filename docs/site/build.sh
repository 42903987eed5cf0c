#!/bin/sh
# Lint what modules, plugins and roles say of themselves, and build the site into .site/html.
# The directory .site has a Python environment of its own and can be deleted.
set -eu
cd "$(dirname "$0")/../.."
if ! cmp -s requirements/site.in .site/requirements; then
    rm -rf .site
    "${PYTHON:-python3}" -m venv .site/venv
    .site/venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements/site.in
    cp requirements/site.in .site/requirements
fi
PATH=$PWD/.site/venv/bin:$PATH
export PATH ANSIBLE_HOME="$PWD/.site/ansible" ANSIBLE_COLLECTIONS_PATH="$PWD/collections"
antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck --validate-collection-refs=all \
    --disallow-unknown-collection-refs .
rm -rf .site/collection .site/html
mkdir -p .site/collection
antsibull-docs collection --use-current --squash-hierarchy --no-indexes --dest-dir .site/collection gpulab.node
sphinx-build --quiet --fail-on-warning --keep-going -c docs/site . .site/html
echo "The site: $PWD/.site/html/docs/site/index.html"
