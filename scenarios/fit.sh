#!/usr/bin/env bash
# Fits the costs of measured studies again, by `dlcal table` to the rows that each group's fitted.csv
# lists, and prints the values beside those of the cost files, which were taken from there and rounded.
# Takes some minutes. Results: build/fit/GROUP (reports, cost files).
#
# Usage: scenarios/fit.sh [GROUP...] [GROUP/SCENARIO...]
#        default: all groups with a fits.csv; needs bin/dlcal in build/release (or $DLCAL)
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
dlcal=$(program dlcal)

# values FILE: "section key value" of each cost.
values() {
    awk '/^\[/ { section = $0 } / = [0-9.]/ { sub(/,.*/, "", $3); print section "\t" $1 "\t" $3 }' "$1"
}

fit() { # group, scenario, costs
    local scenario=scenarios/$1/$2.ini out=build/fit/$1 use
    mkdir -p "$out"
    # The rows to fit: those of the measured table whose cells fitted.csv lists.
    awk -v scenario="$2" -f "$parts/csv.awk" -f scenarios/fit.awk "scenarios/$1/fitted.csv" \
        "$(measured_file "$scenario")" >"$out/$2.csv"
    "$dlcal" table "$out/$2.csv" --scenario "$scenario" --fit "$3" --output "$out/$2.ini" >"$out/$2.txt"
    printf '%s/%s\n' "$1" "$2"
    use=$(dirname "$scenario")/$(setting "$scenario" workload costs)
    awk -F'\t' -v fitted=", $3," '
        FNR == NR { file[$1, $2] = $3; next }
        index(fitted, ", " $1 " " $2 ",") || index(fitted, ", " substr($1, 2, length($1) - 2) "." $2 ",") {
            was = file[$1, $2]
            printf "  %-40s cost file %12.6g  fitted %12.6g  %s\n", $1 " " $2, was, $3,
                (was > 0 ? sprintf("%+5.1f %%", 100 * ($3 / was - 1)) : "")
        }' <(values "$use") <(values "$out/$2.ini")
}

[ $# -gt 0 ] || mapfile -t wanted < <(groups)
[ $# -eq 0 ] || wanted=("$@")
for want in "${wanted[@]}"; do
    group=${want%%/*} only=
    case "$want" in */*) only=${want#*/} ;; esac
    [ -d "scenarios/$group" ] || { echo "fit.sh: no group '$group'" >&2; exit 2; }
    if [ -n "$only" ]; then
        costs=$(fit_of "$group" "$only")
        [ -n "$costs" ] || { echo "fit.sh: nothing is fitted for '$want'" >&2; exit 2; }
        fit "$group" "$only" "$costs"
        continue
    fi
    for name in $(studies "$group"); do
        costs=$(fit_of "$group" "$name")
        [ -z "$costs" ] || fit "$group" "$name" "$costs"
    done
done
