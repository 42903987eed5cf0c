#!/bin/sh
# Start twelve kinds of work as real processes on a lab's node, most of them with its real systemd; run as root there.
#   work_of_people.sh start | count | stop
# The node has no engine of its own: containers and guests are processes in control groups of their names.
set -eu
home=$(sed -n 's/^[0-9]*:name=systemd://p' /proc/1/cgroup) root=/sys/fs/cgroup/systemd
[ -n "$home" ] || { home=$(sed -n 's/^0:://p' /proc/1/cgroup) root=/sys/fs/cgroup; }
root=$root${home%/init.scope}
units="jupyterhub.service code-server@admin.service apt-daily-upgrade.service backup.service by-hand.service slurmd.service"
sleeps=12345  # what tells these processes from others

unit() {  # name, user, further settings
    printf '[Service]\nExecStart=/usr/bin/sleep %s\nUser=%s\n%s\n[Install]\nWantedBy=multi-user.target\n' "$sleeps" "$2" "${3:-}" \
        > "/etc/systemd/system/$1"
    systemctl daemon-reload
    systemctl start --no-block "$1"
}

inside() {  # control group
    mkdir -p "$root/$1"
    sh -c 'echo $$ > "$1/cgroup.procs"; exec sleep "$2"' sh "$root/$1" "$sleeps" >/dev/null 2>&1 &
}

case $1 in
    start)
        unit jupyterhub.service admin Restart=always
        unit code-server@admin.service admin Restart=always
        unit slurmd.service admin
        unit apt-daily-upgrade.service root Type=oneshot
        unit backup.service root Type=oneshot
        unit by-hand.service root
        systemctl enable --quiet jupyterhub.service code-server@admin.service slurmd.service
        systemd-run --quiet --unit=made-by-hand.service sleep "$sleeps"
        systemd-run --quiet --scope --unit=run-work.scope sleep "$sleeps" >/dev/null 2>&1 &
        inside docker/4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f
        inside lxc.payload.c1/system.slice/cron.service
        inside system.slice/cron.service
        inside system.slice/atd.service
        inside machine.slice/machine-c2.scope
        ;;
    count) pgrep --count --full "sleep $sleeps" ;;
    stop)
        # shellcheck disable=SC2086 # several units
        systemctl stop $units
        pkill --full "sleep $sleeps" || :
        for unit in $units; do
            systemctl disable --quiet "$unit" 2>/dev/null || :
            rm -f "/etc/systemd/system/$unit"
        done
        systemctl daemon-reload
        ;;
esac
