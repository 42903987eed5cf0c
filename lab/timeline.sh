#!/bin/sh
# Run a phase of `make lab` and add it to the timeline; or print the timeline, of what took five seconds or more.
#   lab/timeline.sh NAME COMMAND...
#   lab/timeline.sh
set -eu
file=${LAB_TIMELINE:?}

if [ $# -gt 0 ]; then
    name=$1 began=$(date +%s)
    shift
    "$@"
    echo "$began $(date +%s) $name" >> "$file"
    exit
fi

# What the nodes compiled beside all that.
for node in $(docker ps --filter label=gpulab=gpulab --format '{{.Names}}' | sort); do
    docker exec "$node" sh -c '
        for step in /var/lib/gpulab/steps/dkms-*/; do
            began=$(sed -n "s/.*\"started\": *\([0-9]*\).*/\1/p" "$step/state.json") ended=$(sed -n "s/.*\"ended\": *\([0-9]*\).*/\1/p" "$step/result")
            echo "$began $ended beside it, $(hostname) compiles the driver"
        done' 2>/dev/null || :
done | cat "$file" - | sort -n | awk '
    NR == 1 { zero = $1 }
    NF < 3 || $1 < zero { next }
    { begin = $1 - zero; end = $2 - zero; last = end > last ? end : last; $1 = $2 = "" }
    end - begin >= 5 { printf "%5d s to %4d s  %4d s %s\n", begin, end, end - begin, substr($0, 2) }
    END { printf "make lab took %d min %02d s\n", last / 60, last % 60 }'
