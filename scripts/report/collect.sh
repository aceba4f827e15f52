#!/usr/bin/env bash
# Tables and figures over all studies that OUT/studies.txt lists: overview.csv and .md, rows.csv, errors.svg
# and .png, summary.txt.
# Usage: collect.sh OUT
set -euo pipefail
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
out=$1
header=
{
    echo "group,scenario,title,verdict,fitted,unseen,unseen_mean,unseen_max,contradictions,contradictions_max,source_errors,left_out_mean,left_out_max,bar"
    while read -r group name; do cat "$out/studies/$group/$name/summary.csv"; done <"$out/studies.txt"
} >"$out/overview.csv"
while read -r group name; do
    rows=$out/studies/$group/$name/rows.csv
    [ -f "$rows" ] || continue
    [ -n "$header" ] || { header=yes; head -n 1 "$rows"; }
    tail -n +2 "$rows"
done <"$out/studies.txt" >"$out/rows.csv"
awk -f "$parts/csv.awk" -f "$parts/overview.awk" "$out/overview.csv" |
    title="Measured and predicted" awk -f "$parts/csv.awk" -f "$parts/table_md.awk" >"$out/overview.md"
rm -f "$out"/errors*
if [ "$(wc -l <"$out/rows.csv")" -gt 1 ]; then
    draw errors "$out/errors" "Error of each measured row" results="$out/rows.csv"
    [ "$(cut -d' ' -f1 "$out/studies.txt" | uniq | wc -l)" -lt 2 ] ||
        draw errors "$out/errors_by_group" "Error of each measured row" results="$out/rows.csv" by=group
    cut -d' ' -f1 "$out/studies.txt" | uniq | while read -r group; do
        awk -v group="$group" -f "$parts/csv.awk" -f "$parts/rows_of_group.awk" "$out/rows.csv" >"$out/errors.part"
        [ "$(wc -l <"$out/errors.part")" -lt 2 ] ||
            draw errors "$out/errors_$group" "$(group_title "$group")" results="$out/errors.part"
    done
    draw errors "$out/errors_by_workers" "Error over the number of workers" results="$out/rows.csv" over=workers
    rm -f "$out/errors.part"
fi
eval "$(awk -f "$parts/csv.awk" -f "$parts/totals.awk" "$out/overview.csv" "$out/rows.csv")"
# errors ROWS MEAN LARGEST: of no rows there is no error.
errors() { if [ "$1" -gt 0 ]; then echo "$1: mean error $2 %, largest $3 %"; else echo none; fi; }
# shellcheck disable=SC2154 # from totals.awk
cat >"$out/summary.txt" <<EOF
$total_studies studies: $total_predicted predicted ($total_within within 5 % mean and 12 % largest error, $total_missed not), $total_reproduced reproduced, $total_too_few_rows with too few rows to judge, $total_no_measurement without measurement, $total_failed failed
fitted rows          $(errors "$total_fitted_rows" "$mean_fitted" "$largest_fitted")
unseen rows          $(errors "$total_unseen_rows" "$mean_unseen" "$largest_unseen")
contradictory rows   $(errors "$total_contradiction_rows" "$mean_contradiction" "$largest_contradiction")
leave-one-out rows   $(errors "$left_rows" "$left_mean" "$left_largest")
EOF
