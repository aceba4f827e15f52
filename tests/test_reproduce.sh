#!/usr/bin/env bash
# ./reproduce --quick on groups of studies, into a folder of its own: the page is whole, shows every study,
# every measured row and every figure; groups that are not there do not hinder it; bad usage is refused.
# Usage: test_reproduce.sh DLSIM DLCAL     exit 77: gnuplot is not installed
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export DLSIM=$1 DLCAL=$2
tested=$root/reproduce
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
command -v gnuplot >/dev/null || { echo "gnuplot is not installed (package gnuplot-nox)"; exit 77; }
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
in_root() { # command...: run in the root, with the functions of the report's scripts
    (cd "$root" && source scripts/report/common.sh && "$@")
}

# The pieces, on made input.
cat >fitted.csv <<'T'
# one of two intervals
scenario,workers,interval
made,2,10
T
cat >contradictions.csv <<'T'
scenario,workers,reason
made,4,"less, for more"
T
cat >results.csv <<'T'
# settings: scaling=strong
cores,workers,batch,sync,interval,step_mean_s,measured_step_s,measured_per_s,error_frac,measured_runs,measured_source
,2,128,average,1,0.01,0.011,11636,0.1,1,"a, b"
,2,128,average,10,0.005,0.005,25600,0,1,"a, b"
,4,128,average,1,0.004,0.005,25600,0.25,2,c
,8,128,average,1,0.004,,error,,0,c
,16,128,average,1,0.004,,,,0,
T
scripts=$root/scripts/report
awk -v scenario=made -v group=g -f "$scripts/csv.awk" -f "$scripts/rows.awk" list=fitted fitted.csv \
    list=contradiction contradictions.csv list= results.csv >rows.csv
cut -d, -f2,6,7,9,11 rows.csv >got.txt
cat >want.txt <<'T'
workers,error_frac,use,options,runs
2,0.1,unseen,interval 1,1
2,0,fitted,interval 10,1
4,0.25,contradiction,interval 1,2
8,,error,interval 1,1
T
diff want.txt got.txt || fail "uses of rows"
grep -q '"less, for more",c$' rows.csv || fail "reason of a contradiction"
summary() { title="a, b" awk -v group=g -v name=made -f "$scripts/csv.awk" -f "$scripts/summary.awk" "$1"; }
awk -v fitted=x -f "$scripts/csv.awk" -f "$scripts/join_left_out.awk" rows.csv >joined.csv
[ "$(summary joined.csv)" = 'g,made,"a, b",too few rows,1,1,10.0,10.0,1,25.0,1,,,' ] || fail "summary: $(summary joined.csv)"
sed 's/,fitted,/,unseen,/' joined.csv >both.csv
[ "$(summary both.csv)" = 'g,made,"a, b",predicted,0,2,5.0,10.0,1,25.0,1,,,within' ] || fail "summary: $(summary both.csv)"
sed 's/,0\.1,unseen/,0.13,unseen/' both.csv >worse.csv
summary worse.csv | grep -q ',missed$' || fail "the bar on the largest error"
awk -v fitted= -f "$scripts/csv.awk" -f "$scripts/join_left_out.awk" rows.csv | grep -q ',0.1$' ||
    fail "without a fit a row is predicted without itself"

# The report on two groups.
expect 2 "no group 'nothing'" --quick --output "$folder/r" nothing
expect 2 "unknown argument" --fast
expect 0 "index.html" --quick --output "$folder/r" seeds keras_mxnet
page=r/index.html
if command -v xmllint >/dev/null; then
    # HTML 5's elements are unknown to it; all else counts.
    xmllint --html --noout "$page" 2>messages
    grep ' parser error ' messages | grep -v -E 'Tag (nav|main|section|article|header|figure|figcaption|details|summary|svg) invalid' &&
        fail "the page is not well-formed"
fi
for group in seeds keras_mxnet; do
    for name in $(in_root studies "$group"); do
        grep -q "id=\"$group-$name\"" "$page" || fail "the page lacks $group/$name"
        grep -q "href=\"#$group-$name\"" "$page" || fail "no link to $group/$name"
        rows=r/studies/$group/$name/rows.csv
        table=$(in_root measured_file "scenarios/$group/$name.ini")
        measured=0
        [ -z "$table" ] || measured=$(grep -c -v -e '^#' -e '^workers,' -e '^$' "$root/$table")
        shown=$(awk -v name=runs -f "$scripts/csv.awk" -f "$scripts/column.awk" "$rows" |
            awk '{ sum += $1 } END { print sum + 0 }')
        [ "$measured" -eq "$shown" ] || fail "$group/$name: $measured rows measured, $shown shown"
        in_table=$(awk -v begin="id=\"$group-$name\"" 'index($0, begin) { on = 1 } on && /^<tr class/ { n++ }
            on && /<\/article>/ { exit } END { print n + 0 }' "$page")
        [ "$in_table" -eq "$(($(wc -l <"$rows") - 1))" ] || fail "$group/$name: $in_table rows in the page's table"
    done
done
pictures=0
while read -r file; do
    pictures=$((pictures + 1))
    [ -s "$file" ] || fail "$file is empty"
done < <(find r -name '*.svg' -o -name '*.png')
[ "$pictures" -gt 40 ] || fail "only $pictures pictures"
[ "$(grep -o '<img alt="[^"]\{10,\}" src="data:' "$page" | wc -l)" -eq "$(grep -o '<img' "$page" | wc -l)" ] ||
    fail "a picture without alternative text, or one that is not in the page"
sed 's/base64,[^"]*//g' "$page" >text.html
grep -n -i -w -E 'nan|inf' text.html && fail "the page holds what is no number"
grep -n -E '(src|href)="(https?:)?//' text.html && fail "the page needs the network"
grep -q "$(cut -d, -f3 r/overview.csv | sed -n '2s/"//gp')" text.html || fail "no title"
[ "$(wc -l <r/overview.csv)" -eq "$(grep -c '^| ' r/overview.md)" ] || fail "overview.md lacks studies"

[ "$failures" -eq 0 ]
