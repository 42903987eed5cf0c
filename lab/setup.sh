#!/bin/sh
# Set up all that the lab and the tests need on this machine: programs, a container engine, the Python environment.
# Arguments are further program:package or file:package pairs, in Debian's names. REQUIREMENTS=run makes an environment for the
# lab alone, where there is none for the tests yet; IMAGES are node images to make beside it (see images.sh). Idempotent; on
# Debian and Ubuntu as root it installs what is missing, elsewhere it says what to install.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# program:package pairs (Debian's names)
missing=
for pair in docker:docker.io dockerd:docker.io mmdebstrap:mmdebstrap gcc:gcc make:make ssh:openssh-client git:git \
            "$@"; do
    [ -f "${pair%%:*}" ] || command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
python=${PYTHON:-python3}
"$python" -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
# An engine that already answers needs no packages of Debian's.
if docker info >/dev/null 2>&1; then missing=$(printf '%s' "$missing" | sed 's/docker\.io//g'); fi
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
if [ -n "${missing% }" ]; then
    command -v apt-get >/dev/null 2>&1 || die "install these programs, then run again (Debian package names): $missing"
    [ "$(id -u)" = 0 ] || die "run as root, or first: sudo apt-get install $missing"
    say "installing $missing"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -qq --yes --no-install-recommends $missing >/dev/null
fi

# A container engine that answers.
if ! docker info >/dev/null 2>&1; then
    [ "$(id -u)" = 0 ] || die "no container engine answers: start it (sudo systemctl start docker) and join the group docker"
    say "starting the container engine"
    if [ -d /run/systemd/system ]; then
        systemctl start docker
    else
        # A pid file that a former boot left behind would keep dockerd from starting.
        pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid
        setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null &
    fi
    tries=0
    until docker info >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || die "the container engine does not answer; its log: /var/log/dockerd.log"
        sleep 1
    done
fi

# The Python environment: pinned and hash-checked; made again when the pins or the interpreter change.
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
    die "ansible-core 2.19 needs Python 3.11 to 3.13 on the controller; set PYTHON=/path/to/python3.12"
stamp() { { cat "requirements/$1.txt"; "$python" --version; pwd; } | sha256sum | cut -d' ' -f1; }
wanted=${REQUIREMENTS:-dev} made=$(cat .venv/stamp 2>/dev/null || :)
if [ "$made" != "$(stamp "$wanted")" ] && [ "$made" != "$(stamp dev)" ]; then
    say "making .venv from requirements/$wanted.txt"
    # shellcheck disable=SC2086  # what makes the nodes waits for these, and says what went wrong
    [ -z "${IMAGES:-}" ] || lab/images.sh $IMAGES >/dev/null 2>&1 &
    rm -rf .venv
    "$python" -m venv .venv
    .venv/bin/pip install --quiet --quiet --disable-pip-version-check --require-hashes --requirement "requirements/$wanted.txt"
    stamp "$wanted" > .venv/stamp
fi
