#!/usr/bin/env bash
# One GPU, several with a copy of the model each, or the model split over them? For each model and
# machine here: the fastest way of each kind that fits, as simulated, and the one to choose: the fewest
# GPUs that reach 90 % of the fastest way's throughput.
#
# Usage: scenarios/guide/guide.sh        needs bin/dlsim in build/release (or $DLSIM)
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    '') ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "guide.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac
dlsim=${DLSIM:-build/release/bin/dlsim}
[ -x "$dlsim" ] || { echo "guide.sh: no $dlsim; build it, or name it in DLSIM" >&2; exit 2; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for scenario in scenarios/guide/*.ini; do
    name=$(basename "$scenario" .ini)
    "$dlsim" --quiet "$scenario" -o "$out/$name.csv" || [ $? -eq 3 ] # 3: none of its points fits
done
awk -f scenarios/guide/guide.awk "$out"/*.csv
