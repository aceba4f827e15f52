#!/usr/bin/env bash
# Everything on one study of the report, into OUT/studies/GROUP/NAME: results.csv, rows.csv and rows.md,
# summary.csv, sentence.txt, figures, study.html.
#
# Usage: study.sh OUT QUICK GROUP NAME     QUICK: yes or no; yes computes no leave-one-out error
# Exit code 0 also if the scenario could not be simulated: then error.txt says why.
set -euo pipefail
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
quick=$2 group=$3 name=$4
folder=$1/studies/$group/$name
scenario=scenarios/$group/$name.ini
dlsim=$(program dlsim)
mkdir -p "$folder"
find "$folder" -maxdepth 1 -type f ! -name 'leave_out.*' -delete
title=$(setting "$scenario" scenario name)

simulate() { "$dlsim" --quiet --threads 1 "$scenario" "$@"; } # options...

if ! simulate -o "$folder/results.csv" --histogram "$folder/histogram.csv" 2>"$folder/error.txt"; then
    echo "$group/$name: $(tail -n 1 "$folder/error.txt")" >&2
    title=$title awk -v group="$group" -v name="$name" -v failed=1 -f "$parts/csv.awk" -f "$parts/summary.awk" \
        /dev/null >"$folder/summary.csv"
    "$parts/study_page.sh" "$folder" "$group" "$name" >"$folder/study.html"
    exit 0
fi
rm "$folder/error.txt"
measured_rows "$group" "$name" "$folder/results.csv" >"$folder/rows.csv"

cached=()
[ "$quick" = no ] || cached=(--cached)
"$parts/leave_out.sh" "$group" "$name" "$folder" "${cached[@]}"
left_out=()
[ ! -f "$folder/leave_out.csv" ] || left_out=("$folder/leave_out.csv")
awk -v fitted="$(fit_of "$group" "$name")" -f "$parts/csv.awk" -f "$parts/join_left_out.awk" "${left_out[@]}" \
    "$folder/rows.csv" >"$folder/rows.new"
mv "$folder/rows.new" "$folder/rows.csv"
title=$title awk -v group="$group" -v name="$name" -f "$parts/csv.awk" -f "$parts/summary.awk" \
    "$folder/rows.csv" >"$folder/summary.csv"

# Where the time goes, and what each cost is worth at the row with most workers.
explain() { awk -f "$parts/csv.awk" -f "$parts/explain.awk" "$folder/results.csv"; }
{ read -r most && read -r most_drawn && read -r sentence; } < <(explain)
echo "$sentence" >"$folder/sentence.txt"
if [ "$most" -gt 0 ]; then
    for cost in dispatch input copy contention average update overlap; do
        simulate --without "$cost" -o "$folder/without.csv" 2>/dev/null || continue
        awk -v row="$most" -v cost="$cost" -f "$parts/csv.awk" -f "$parts/worth.awk" "$folder/results.csv" \
            "$folder/without.csv"
    done | awk -f "$parts/worth_text.awk" >>"$folder/sentence.txt"
    rm -f "$folder/without.csv"
fi

column() { # name: its cells
    awk -v name="$1" -f "$parts/csv.awk" -f "$parts/column.awk" "$folder/results.csv"
}
distinct() { column "$1" | sort -u | grep -c . || true; }
measured_rows "$group" "$name" "$folder/results.csv" 1 >"$folder/marked.csv"
# A scenario that is nearly all exchange has no speedup worth a figure.
speeds_up() { column speedup | awk '$1 >= 0.01 { found = 1 } END { exit !found }'; }
[ "$(distinct workers)" -lt 2 ] || ! speeds_up || draw speedup "$folder/speedup" "$title" results="$folder/marked.csv"
[ "$most" -eq 0 ] || draw breakdown "$folder/breakdown" "$title" results="$folder/results.csv"
[ "$(distinct interval)" -lt 2 ] || draw interval "$folder/interval" "$title" results="$folder/marked.csv"
rm "$folder/marked.csv"
# Modes that wait for all have a staleness of 0, or their lag.
if paste -d, <(column sync) <(column staleness_mean) |
    grep -vE '^(none|allreduce|ps|average|ksync|kbatchsync|bmuf),' | grep -q ',.*[1-9]'; then
    draw staleness "$folder/staleness" "$title" results="$folder/results.csv" \
        histogram="$folder/histogram.csv"
else
    rm -f "$folder/histogram.csv"
fi
if [ "$(wc -l <"$folder/rows.csv")" -gt 1 ] && [ "$most" -gt 0 ]; then
    simulate --timeline "$folder/timeline.json" --point "$most_drawn" -o "$folder/point.csv"
    awk -f "$parts/timeline.awk" "$folder/timeline.json" "$folder/timeline.json" >"$folder/timeline.csv"
    rm "$folder/point.csv" "$folder/timeline.json"
    draw timeline "$folder/timeline" "$title" results="$folder/timeline.csv"
fi
awk -f "$parts/csv.awk" -f "$parts/rows_table.awk" "$folder/rows.csv" >"$folder/table.csv"
title=$title awk -f "$parts/csv.awk" -f "$parts/table_md.awk" "$folder/table.csv" >"$folder/rows.md"
"$parts/study_page.sh" "$folder" "$group" "$name" >"$folder/study.html"
echo "  $group/$name"
