#!/usr/bin/env bash
# Judges all predictions from published traces, tables and logs on data that no fit used, in one text:
# replay, collectives put back, 1 to 16 GPUs from one trace (scenarios/traces); Pollux' placements
# (scenarios/pollux); sizes of copies and collectives (judge_links.sh).
# Takes about five minutes. Result: build/predictions.txt ($OUT).
#
# Usage: scripts/judge_predictions.sh    needs bin/dlcal and bin/dlsim in build/release (or $DLCAL,
# $DLSIM), and the data in $DL_DATA; skips parts without data with a message
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
    '') ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "judge_predictions.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac
export DLCAL=${DLCAL:-build/release/bin/dlcal} DLSIM=${DLSIM:-build/release/bin/dlsim}
data=${DL_DATA:-./data}
out=${OUT:-build/predictions.txt}
mkdir -p "$(dirname "$out")"
{
    scenarios/traces/report.sh
    printf '\n\nPollux: T4 GPUs on 50 Gb/s Ethernet, placements that no cost was fitted to\n'
    printf '%s\n\n' "---------------------------------------------------------------------------"
    scenarios/pollux/report.sh
    printf '\n\nCopies and collectives by size\n------------------------------\n\n'
    if [ -d "$data/links" ]; then
        scripts/judge_links.sh "$data"/links/*.log
    else
        echo "no logs in $data/links: skipped"
    fi
} | tee "$out"
