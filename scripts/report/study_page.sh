#!/usr/bin/env bash
# The part of the page on one study, from what study.sh left in its folder, to standard output.
# Usage: study_page.sh FOLDER GROUP NAME
set -euo pipefail
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
folder=$1 group=$2 name=$3
scenario=scenarios/$group/$name.ini
title=$(setting "$scenario" scenario name | escape)

# The scenario's leading comment, one paragraph a line.
comment() {
    awk '!/^;/ { exit }
        { sub(/^; ?/, "") }
        $0 == "" { print text; text = ""; next }
        { text = text (text == "" ? "" : " ") $0 }
        END { print text }' "$scenario" | grep . || true
}
figure() { picture "$folder/$1" "$2" "$3"; } # see picture

printf '<article id="%s-%s">\n<h3>%s</h3>\n' "$group" "$name" "$title"
awk -v note="$(cat "$folder/leave_out.note" 2>/dev/null)" -f "$parts/csv.awk" -f "$parts/badges.awk" "$folder/summary.csv"
comment | escape | sed -n '1s#.*#<p>&</p>#p'
if [ "$(comment | wc -l)" -gt 1 ]; then
    echo '<details><summary>How its settings and costs were chosen</summary>'
    comment | escape | sed '1d; s#.*#<p>&</p>#'
    echo '</details>'
fi
if [ -f "$folder/error.txt" ]; then
    printf '<p class="failed">Could not be simulated: %s</p>\n</article>\n' "$(tail -n 1 "$folder/error.txt" | escape)"
    exit 0
fi
escape <"$folder/sentence.txt" | sed 's#.*#<p>&</p>#'
if [ "$(wc -l <"$folder/rows.csv")" -gt 1 ]; then
    mode=$(sed -n '1s/^# mode: / (/p' "$folder/table.csv")
    caption="Measured and predicted: $(setting "$scenario" scenario name)${mode:+$mode)}" awk -f "$parts/csv.awk" \
        -f "$parts/table_html.awk" "$folder/table.csv"
    awk -f "$parts/csv.awk" -f "$parts/remarks.awk" "$folder/rows.csv"
else
    printf '<details><summary>All %d points</summary>\n' \
        "$(awk '!/^#/ && NF { n++ } END { print n - 1 }' "$folder/results.csv")"
    awk -f "$parts/csv.awk" -f "$parts/results_table.awk" "$folder/results.csv" |
        caption="Predicted: $(setting "$scenario" scenario name)" awk -f "$parts/csv.awk" -f "$parts/table_html.awk"
    echo '</details>'
fi
plain=$(setting "$scenario" scenario name)
what=$(head -n 1 "$folder/sentence.txt")
echo '<div class="figures">'
figure speedup "$plain: speedup against the number of workers, predicted as lines, measured as points. $what" \
    'Speedup: predicted lines; measured points, hollow where costs were fitted to them; the thin line is proportional.'
figure breakdown "$plain: share of each part in a step. $what" \
    "Where a step's time goes, averaged over the workers, and its mean time."
figure interval "$plain: throughput against the number of mini-batches between two averagings." \
    'What averaging less often is worth.'
figure staleness "$plain: distribution of the staleness of applied gradients, a panel for each number of workers and mode." \
    'How stale the applied gradients are.'
figure timeline "$plain: three simulated steps, a row for each worker." 'Three simulated steps, a row per worker.'
echo '</div>'
echo '</article>'
