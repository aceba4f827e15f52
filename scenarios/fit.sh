#!/usr/bin/env bash
# Fits the costs of measured studies again, by `dlcal table` to the rows that the measured tables mark as
# fitted, and prints how far the values are from those of the cost files, which were taken from there and
# rounded. Takes some minutes. Results: build/fit/GROUP (reports, cost files).
#
# Usage: scenarios/fit.sh [GROUP...] [GROUP/SCENARIO...]
#        default: all groups with a fits.csv; needs bin/dlcal in build/release (or $DLCAL)
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
dlcal=${DLCAL:-build/release/bin/dlcal}
[ -x "$dlcal" ] || { echo "fit.sh: no $dlcal; build it, or name it in DLCAL" >&2; exit 2; }
[ $# -gt 0 ] || set -- scenarios/*/fits.csv
for want; do
    want=${want#scenarios/} want=${want%/fits.csv}
    group=${want%%/*} only=
    case "$want" in */*) only=${want#*/} ;; esac
    [ -f "scenarios/$group/fits.csv" ] || { echo "fit.sh: nothing is fitted in a group '$group'" >&2; exit 2; }
    out=build/fit/$group found=no
    mkdir -p "$out"
    while IFS=, read -r name costs; do
        [ -z "$only" ] || [ "$only" = "$name" ] || continue
        found=yes
        echo "$group/$name"
        "$dlcal" table --use fitted --scenario "scenarios/$group/$name.ini" --fit "${costs//\"/}" \
            --output "$out/$name.ini" >"$out/$name.txt"
        grep "of the [a-z]* file's" "$out/$name.txt" || true
    done < <(grep -v -e '^#' -e '^scenario,' "scenarios/$group/fits.csv")
    [ "$found" = yes ] || { echo "fit.sh: nothing is fitted for '$want'" >&2; exit 2; }
done
