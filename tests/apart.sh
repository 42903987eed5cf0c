#!/bin/sh
# Run a command apart from this machine, where root may do so: with processes of its own, because tests look for those that
# use GPUs, and a lab at work beside them has its simulated ones open; and with an /etc and a /dev/null that nobody can
# replace, because tests restore files of nodes. The shell in between is the first process there, and buries what the tests
# leave behind.
apart() { unshare --pid --fork --mount-proc --kill-child "$@"; }
apart true 2>/dev/null || exec "$@"
apart sh -c '
for path in /etc /dev/null; do
  mount --bind "$path" "$path" && mount -o remount,bind,ro "$path" || exit 1
done
"$@"; exit $?' sh "$@"
