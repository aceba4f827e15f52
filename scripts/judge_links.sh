#!/usr/bin/env bash
# Prints the errors of dlcal links, and of latency + bytes/bandwidth, on sizes that were left out of the
# fits, for logs of benchmarks.
#
# Usage: scripts/judge_links.sh [LOG...]     default: $DL_DATA/links/*.log; needs bin/dlcal in
# build/release (or $DLCAL)
set -euo pipefail
case "${1:-}" in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
dlcal=${DLCAL:-$(dirname "$0")/../build/release/bin/dlcal}
[ -x "$dlcal" ] || { echo "judge_links.sh: no $dlcal; build it, or name it in DLCAL" >&2; exit 2; }
if [ $# -eq 0 ]; then
    set -- "${DL_DATA:-./data}"/links/*.log
    [ -e "$1" ] || { echo "judge_links.sh: no $1: skipped"; exit 0; }
fi
exec "$dlcal" links --judge "$@"
