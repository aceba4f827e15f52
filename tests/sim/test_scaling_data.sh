#!/usr/bin/env bash
# Checks the interval of scaled compute (sim/scenario/scaling.h): it is twice the root mean square error of the
# measured pairs in scenarios/scaling, and at least 95 % of them lie inside. Usage: test_scaling_data.sh SOURCE_DIR
set -u
report=$(awk -f "$1/scenarios/scaling/scaling.awk" "$1/scenarios/scaling/gpus.csv" \
    "$1/scenarios/scaling/measured.csv") || exit 1
echo "$report"
spread=$(awk '$2 == "DL_SCALING_SPREAD" { print $3 }' "$1/sim/scenario/scaling.h")
share=$(awk '$2 == "DL_SCALING_ARITHMETIC_SHARE" { print $3 }' "$1/sim/scenario/scaling.h")
echo "$report" | awk -v spread="$spread" -v share="$share" '
    $1 == "w" && $3 + 0 == share { rms = $9 + 0 }
    /left out/ { inside = $5 / $7 }
    END {
        if (!(spread > 0) || rms == 0 || spread < 1.99 * rms || spread > 2.01 * rms) {
            print "FAIL: the interval is " spread ", twice the root mean square " 2 * rms
            exit 1
        }
        if (inside < 0.95) {
            print "FAIL: " inside " of the pairs are inside"
            exit 1
        }
    }'
