#!/usr/bin/env bash
# Prints the published studies that ./reproduce misses: a study is missed if its unseen rows (no cost is
# fitted to them) have a mean error above 5 % or a largest error above 12 %. Adds two sentences of the
# paragraph "Missed ..." of the study's scenario.
#
# Usage: scripts/judge_studies.sh [--docs] [REPORT]
#   --docs    replace the table in docs/studies/published.md
#   REPORT    folder with rows.csv of ./reproduce (--quick) (default: report)
# Exit code: 0 done; 1 a study is missed and its scenario has no reason
set -euo pipefail
docs=
case "${1:-}" in
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --docs) docs=1; shift ;;
esac
rows=${1:-report}/rows.csv
[ -r "$rows" ] || { echo "judge_studies.sh: no $rows; ./reproduce --quick writes it" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)

# For each missed study: unseen rows, mean and largest error in %; then totals.
errors=$(awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "group") group = i; next }
    $7 == "unseen" { # columns 1 to 7 have no quoted text
        rest = $0
        while (match(rest, /"[^"]*"/))
            rest = substr(rest, 1, RSTART - 1) substr(rest, RSTART + RLENGTH)
        split(rest, cells, ",")
        study = cells[group] "/" $1
        if (!(study in n)) order[++studies] = study
        off = 100 * ($6 < 0 ? -$6 : $6)
        n[study]++; sum[study] += off; all++; total += off
        if (off > most[study]) most[study] = off
        if (off > largest) largest = off
    }
    END {
        for (i = 1; i <= studies; i++) {
            s = order[i]
            missed = sum[s] / n[s] > 5 || most[s] > 12
            misses += missed
            if (n[s] > 1) several++
            if (n[s] > 1) several_misses += missed
            if (missed) printf "%s %d %.1f %.1f\n", s, n[s], sum[s] / n[s], most[s]
        }
        printf "total %d %d %d %d %d %.1f %.1f\n", studies, studies - misses, several,
            several - several_misses, all, total / all, largest
    }' "$rows")
status=0
table=$(
    echo "| study | rows | mean, max % | |"
    echo "|---|---|---|---|"
    while read -r study n mean most; do
        [ "$study" != total ] || continue
        reason=$(awk '
            /^;( |$)/ { sub(/^; ?/, ""); text = text ($0 == "" ? "\n" : " " $0); next }
            { exit }
            END { print text }' "$root/scenarios/$study.ini" |
            sed -n 's/^ *Missed:* *\(.*[^ ]\) *$/\1/p' |
            awk '{ n = split($0, s, /[.] /); print (n > 2 ? s[1] ". " s[2] "." : $0); exit }')
        [ -n "$reason" ] || {
            echo "judge_studies.sh: scenarios/$study.ini does not say why" >&2
            exit 1
        }
        echo "| \`$study\` | $n | $mean, $most | $reason |"
    done <<<"$errors"
) || status=1
[ "$status" = 0 ] || exit 1
read -r _ studies within several several_within all mean most <<<"$(tail -n 1 <<<"$errors")"
text="Of $studies studies with rows that no cost was fitted to ($all rows, mean $mean %, largest
$most %), $within are within 5 % on average and 12 % at most; of the $several with two or more
such rows $several_within are. The others:

$table"
echo "$text"
[ -z "$docs" ] || {
    new=$(text=$text awk '
        /^<!-- end of judge_studies.sh -->$/ { inside = 0 }
        !inside { print }
        /^<!-- judge_studies.sh -->$/ { print "\n" ENVIRON["text"] "\n"; inside = 1 }
        ' "$root/docs/studies/published.md")
    echo "$new" >"$root/docs/studies/published.md"
}
