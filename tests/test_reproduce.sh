#!/usr/bin/env bash
# ./reproduce --quick on groups of studies: a complete page of every study with all measured rows
# and figures, and the index; bad usage is rejected.
# Usage: test_reproduce.sh DLSIM DLCAL     exit 77: gnuplot is not installed
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export DLSIM=$1 DLCAL=$2 DL_DATA=$PWD/none # the parts on data have their own tests
tested=$root/reproduce
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
command -v gnuplot >/dev/null || { echo "gnuplot is not installed (package gnuplot-nox)"; exit 77; }
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
# The report on two groups.
expect 2 "no group 'nothing'" --quick --output "$folder/r" nothing
expect 2 "unknown argument" --fast
expect 0 "index.html" --quick --output "$folder/r" seeds keras_mxnet
page=r/index.html
well_formed() { # page
    command -v xmllint >/dev/null || return 0
    # xmllint does not know the elements of HTML 5; other errors count.
    xmllint --html --noout --huge "$1" 2>messages
    ! grep ' parser error ' messages | grep -v -E 'Tag (main|figure|figcaption|details|section|summary) invalid' ||
        fail "$1 is not well-formed"
}
well_formed "$page"
without_scripts() { awk '/^<script/ { inside = 1 } !inside { print } /<\/script>$/ { inside = 0 }' "$1"; }
for group in seeds keras_mxnet; do
    for scenario in "$root/scenarios/$group"/*.ini; do
        name=$(basename "$scenario" .ini)
        study=r/$group/$name.html
        well_formed "$study"
        grep -q "href=\"./$group/$name.html\"" "$page" || fail "no link to $group/$name"
        table=$(sed -n 's/^file *= *\(.*measured.*csv\)/\1/p' "$scenario")
        measured=0
        [ -z "$table" ] || measured=$(grep -v -e '^#' -e '^$' "$root/scenarios/$group/$table" | tail -n +2 | grep -c .)
        in_table=$(grep -c '^<tr class="\(unseen\|fitted\|contradiction\)' "$study")
        in_rows=$(grep -c "^$name,.*,$group," r/rows.csv)
        runs=$(sed -n 's/^<tr class.*<td>\(unseen\|fitted\|contradiction\)<\/td><td class="number">\([0-9]*\)<.*/\2/p' "$study" |
            awk '{ more += $1 - 1 } END { print more + 0 }')
        [ "$measured" -eq $((in_table + runs)) ] || fail "$group/$name: $measured rows measured, $in_table shown"
        [ "$in_rows" -eq "$in_table" ] || fail "$group/$name: $in_rows rows in rows.csv, $in_table shown"
        without_scripts "$study" >text.html
        [ "$(grep -c '^<script type="application/json" id="figures-data">{"results":' "$study")" -eq 1 ] ||
            fail "$group/$name: no data of figures"
        grep -n 'There are no figures' text.html && fail "$group/$name: figures are missing"
        grep -n -i -w -E 'nan|inf' text.html && fail "$group/$name: not a number"
        grep -n -E '(src|href)="(https?:)?//' text.html && fail "$group/$name needs the network"
        grep -q '>What would help most: \|Making any single part faster' text.html ||
            fail "$group/$name does not say what would help"
    done
done
without_scripts "$page" | sed 's/base64,[^"]*//g' >text.html
grep -n -i -w -E 'nan|inf' text.html && fail "the index holds what is not a number"
grep -n -E '(src|href)="(https?:)?//' text.html && fail "the index needs the network"
[ "$(wc -c <"$page")" -lt 3000000 ] || fail "the index is too large"
[ "$(grep -c '^<tr class="\(study\|missed\)">' text.html)" -eq "$(ls "$root"/scenarios/{seeds,keras_mxnet}/*.ini | wc -l)" ] ||
    fail "the index does not have a row a study"
# Missed studies of these groups: each scenario gives a reason, and the documentation lists all of
# them.
missed=$("$root/scripts/judge_studies.sh" r) || fail "a study is missed and does not say why"
grep '^| `' <<<"$missed" >missed
grep -E '^\| `(seeds|keras_mxnet)/' "$root/docs/studies/published.md" | diff - missed >difference ||
    fail "docs/studies/published.md needs scripts/judge_studies.sh --docs: $(cat difference)"
grep -q '^| `seeds/navid_pytorch` | 1 | 9' missed || fail "the missed studies lack F. Navid's: $(cat missed)"
# The row of the study in which eight GPUs are slower than four.
grep -q '^<tr class="unseen"><th scope="row" class="number">8</th>.*-0\.9</td><td>unseen</td></tr>' r/seeds/beeva_tensorflow_p2.html ||
    fail "eight GPUs: $(grep '^<tr class="unseen"' r/seeds/beeva_tensorflow_p2.html)"
grep -q 'What would help most: launching of GPU work by the host in half the time' r/seeds/beeva_tensorflow_p2.html ||
    fail "eight GPUs: what would help"

[ "$failures" -eq 0 ]
