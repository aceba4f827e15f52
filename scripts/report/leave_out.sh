#!/usr/bin/env bash
# Leave-one-out errors of a study: each row predicted by `dlcal table` with the costs fitted to the others,
# from the cost file's values on. Writes FOLDER/leave_out.csv (workers,batch,sync,measured_per_s,error_frac)
# unless what it depends on is unchanged since; an empty table if nothing is fitted or the rows do not
# determine the costs. A fit that takes more than $LEAVE_OUT_SECONDS of a core (60) is given up; leave_out.note
# says so.
#
# Usage: leave_out.sh GROUP NAME FOLDER [--cached]       --cached: only checks what is there
set -euo pipefail
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
group=$1 name=$2 folder=$3 only=${4:-}
scenario=scenarios/$group/$name.ini
dlcal=$(program dlcal)
table=$(measured_file "$scenario")
costs=$(fit_of "$group" "$name")
if [ -z "$table" ] || [ -z "$costs" ]; then
    rm -f "$folder"/leave_out.*
    exit 0
fi
limit=${LEAVE_OUT_SECONDS:-60}
key=$({ echo "$costs" "$limit"; "$dlcal" --version; sha256sum "$dlcal"; inputs "$scenario" | xargs sha256sum; } | sha256sum)
[ "$(cat "$folder/leave_out.key" 2>/dev/null)" = "$key" ] && exit 0
rm -f "$folder"/leave_out.*
[ "$only" != --cached ] || exit 0
code=0
{ (
    ulimit -St "$limit"
    "$dlcal" table "$table" --near --threads 1 --scenario "$scenario" --fit "$costs" \
        --output "$folder/leave_out.ini" --json "$folder/leave_out.json"
) >"$folder/leave_out.txt" 2>&1 || code=$?; } 2>/dev/null # the shell's word on the limit
if [ "$code" -ge 128 ]; then
    echo "leave-one-out: not computed, it takes more than $limit s of a core" >"$folder/leave_out.note"
    echo "$key" >"$folder/leave_out.key"
    exit 0
elif [ "$code" -ne 0 ]; then
    printf 'leave-one-out of %s/%s: %s\n' "$group" "$name" "$(tail -n 1 "$folder/leave_out.txt")" >&2
    exit 0
fi
awk -f "$parts/left_out.awk" "$folder/leave_out.json" >"$folder/leave_out.csv"
echo "$key" >"$folder/leave_out.key"
