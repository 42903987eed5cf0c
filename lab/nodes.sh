#!/bin/sh
# Start a lab's nodes as systemd containers on a network of their own, let a key in, wait until they are up, and print
# their SSH host keys, one line each. Safe to run again: a node of the same image goes on.
#   lab/nodes.sh LAB SUBNET PUBLIC_KEY NAME=IMAGE[=DEVICE_RULE|DIRECTORY,...]...      SUBNET without its last number
# A directory is on a volume of its own, which outlives the node until the lab is removed; one below /var/cache outlives the lab.
# /etc/hosts is a file beside the key, as Docker would write its own at each start.
set -eu
lab=$1 subnet=$2 key=$3
shift 3

start() {  # name, image, last number of its address, device rules and directories
    if [ "$(docker container inspect --format '{{.Image}}' "$1" 2>/dev/null)" = "$(docker image inspect --format '{{.Id}}' "$2")" ]; then
        docker start "$1" >/dev/null
        return
    fi
    docker rm --force --volumes "$1" >/dev/null 2>&1 || :
    # A reboot ends the container's init; the engine starts it again, as a machine's firmware would. Rules are for the
    # simulated GPUs' device nodes, and for what else the node needs. A machine has half of its memory in /dev/shm.
    # Systemd of Debian 13 asks for its variable on a host with cgroup v1.
    (
        IFS=,
        set -f
        for rule in ${4:-}; do
            case $rule in
                /etc/hosts)
                    hosts=$(dirname "$key")/hosts.$1
                    printf '127.0.0.1 localhost\n%s %s\n' "$subnet.$3" "${1#"$lab-"}" > "$hosts"
                    set -- "$@" --volume "$hosts:$rule"
                    ;;
                /*)
                    kept=${rule##/var/cache/*}
                    docker volume create --label "gpulab${kept:+=$lab}" "$1-$(basename "$rule")" >/dev/null
                    set -- "$@" --volume "$1-$(basename "$rule"):$rule"
                    ;;
                *) set -- "$@" --device-cgroup-rule "$rule" ;;
            esac
        done
        image=$2 name=$1 address=$subnet.$3
        shift 4
        docker run --detach --pull never --name "$name" --hostname "${name#"$lab-"}" --label "gpulab=$lab" \
            --network "$lab" --ip "$address" --restart unless-stopped \
            --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_NICE --cap-add SYS_PTRACE --security-opt seccomp=unconfined \
            --cgroupns host --volume /sys/fs/cgroup:/sys/fs/cgroup:rw --tmpfs /run --tmpfs /run/lock --shm-size 1g \
            --env SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 --device-cgroup-rule 'c 195:* rwm' "$@" "$image" >/dev/null
    )
    echo "started $1" >&2
}

docker network inspect "$lab" >/dev/null 2>&1 || docker network create --subnet "$subnet.0/24" "$lab" >/dev/null || {
    echo "The lab's network $subnet.0/24 is taken on this machine (docker network ls, ip route). Call lab/up.yml with" \
        "-e lab_subnet=172.24.N and another N, or remove what has it." >&2
    exit 1
}
number=10
for node in "$@"; do
    name=${node%%=*} rest=${node#*=}
    rules=${rest#"${rest%%=*}"}
    start "$lab-$name" "${rest%%=*}" "$number" "${rules#=}"
    number=$((number + 1))
done
for node in "$@"; do
    docker exec --interactive "$lab-${node%%=*}" sh -ec '
        cd /home/admin/.ssh && cat > authorized_keys && chmod 0600 authorized_keys && chown 1000:1000 authorized_keys
        tries=0
        until systemctl is-system-running 2>/dev/null | grep -q -e running -e degraded && cat /etc/ssh/ssh_host_ed25519_key.pub
        do
            tries=$((tries + 1))
            [ "$tries" -lt 240 ] || { echo "$(hostname) is not up after a minute: $(systemctl is-system-running)" >&2; exit 1; }
            sleep 0.25
        done' < "$key"
done
