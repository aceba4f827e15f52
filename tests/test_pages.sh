#!/usr/bin/env bash
# The pages of ./reproduce and dlsim --html for a generated project with known errors: they show the
# errors and texts unchanged. Checks only finished files, pages and CSV; test_figures.cjs checks the
# drawings.
# Usage: test_pages.sh DLSIM DLCAL     exit 77: gnuplot is not installed
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export DLSIM=$1 DLCAL=$2 DL_DATA=$PWD/data
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
command -v gnuplot >/dev/null || { echo "gnuplot is not installed (package gnuplot-nox)"; exit 77; }
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

ln -s "$root"/{reproduce,scripts,plots} .
mkdir -p scenarios/{seeds,mxnet,costs,measured}
printf 'group,title\nseeds,"Seeds"\nmxnet,MXNet\n' | tr -d '"' >scenarios/groups.csv
# A worker's step takes 0.2 ms per sample and nothing else: 16 ms / n for 80 samples on n workers.
cat >scenarios/costs/made.ini <<'T2'
[costs]
schema = 1
workload = made
device = none, by hand
parameter_bytes = 1000
state_bytes = 0
[op c.forward]
fixed_ns = 0, measured
per_sample_ns = 100000, measured
[op c.backward]
fixed_ns = 0, measured
per_sample_ns = 100000, measured
[copy]
latency_ns = 1000000000, measured
bandwidth_bytes_per_s = 1e9, measured
[update]
latency_ns = 0, measured
read_bytes_per_s = 1e12, measured
write_bytes_per_s = 1e12, measured
[sync]
barrier_ns = 0, measured
lock_ns = 0, measured
[memory]
total_bytes_per_s = 1e12, measured
[sharing]
copies_2 = 1, measured
T2
sed 's/per_sample_ns = 100000/per_sample_ns = 10/' scenarios/costs/made.ini >scenarios/costs/copies.ini
scenario() { # group, name, title, further lines...
    local file=scenarios/$1/$2.ini
    printf '; A made study: %s\n[scenario]\nname = %s\nsteps = 20\n' "$3" "$3" >"$file"
    printf '[workload]\ncosts = ../costs/made.ini\nbatch = 80\n[machine]\ncores = workers\n' >>"$file"
    shift 3
    printf '%s\n' "$@" >>"$file"
}
plain=('[sync]' 'mode = none')
# shellcheck disable=SC2016 # not to be expanded
hostile='a\n<script>alert(1)</script>" onclick="b|#c & '\''d'\'', `id` $(id)'
scenario seeds errors "$hostile" 'workers = 1, 2, 4, 8' "${plain[@]}" '[measured]' 'file = ../measured/errors.csv'
cat >scenarios/measured/errors.csv <<'T2'
workers,batch,sync,throughput_per_s,source,use,note
1,80,none,5000,"<b>""bold"", & a \n",fitted,
2,80,none,14388,x,,
4,80,none,18182,x,unseen,
8,80,none,40012,x,contradiction,"<i>why"" not
in one line"
T2
scenario seeds few "one row unseen" 'workers = 1, 2' "${plain[@]}" '[measured]' 'file = ../measured/few.csv'
scenario mxnet few "all rows fitted" 'workers = 1, 2' "${plain[@]}" '[measured]' 'file = ../measured/fitted.csv'
printf 'workers,batch,sync,throughput_per_s,source,use\n1,80,none,5000,x,fitted\n2,80,none,5388,x,\n' \
    >scenarios/measured/few.csv
printf 'workers,batch,sync,throughput_per_s,source,use\n1,80,none,5000,x,fitted\n2,80,none,10010,x,fitted\n' \
    >scenarios/measured/fitted.csv
scenario mxnet swept "two stragglers" 'workers = 1, 2, 4' "${plain[@]}" '[noise]' 'slow = 0:2 | 0:3'
scenario mxnet copies "copies only" 'workers = 1, 2' '[sync]' 'mode = ps'
sed -i 's/made.ini/copies.ini/' scenarios/mxnet/copies.ini

scenario mxnet mixed "two batches" 'workers = 1, 2' "${plain[@]}"
sed -i 's/^batch = 80/batch = 80, 160/; s#made.ini#fixed.ini#' scenarios/mxnet/mixed.ini
sed 's/fixed_ns = 0/fixed_ns = 1000000/' scenarios/costs/made.ini >scenarios/costs/fixed.ini

tested=./reproduce
expect 0 "index.html" --quick --output r
sed 's/base64,[^"]*//g' r/index.html >index.html
# part GROUP/NAME: the page of a study
part() { cat "r/$1.html"; }
has() { # what, pattern; reads standard input
    grep -q -- "$2" || fail "$1: no '$2'"
}
row() { # what, GROUP/NAME, workers, text of the row's cells
    part "$2" | grep "^<tr class.*\">$3</th>" | sed 's/<[^>]*>/|/g; s/||*/|/g' >row.txt
    grep -qF -- "$4" row.txt || fail "$1: no '$4' in: $(cat row.txt)"
}
# Errors: 10000 / 14388 - 1, 20000 / 18182 - 1, 40000 / 40012 - 1.
row "an error below zero" seeds/errors 2 '|-30.5|'
row "an error above zero" seeds/errors 4 '|+10.0|'
row "an error of nearly nothing" seeds/errors 8 '|0.0|'
row "a fitted row" seeds/errors 1 '|fitted|'
[ "$(part seeds/errors | grep -c '^<tr class="unseen[ "]')" -eq 2 ] || fail "unseen rows of seeds/errors"

# Verdicts: one unseen row is too few for a verdict, but counts in the totals.
verdict() { # GROUP/NAME, verdict
    has "the verdict on $1 in the index" "<td>$2" < <(grep -F "<a href=\"./$1.html\">" index.html)
    has "the page of $1" ">$2</span>" < <(part "$1")
}
verdict seeds/errors predicted
verdict seeds/few "too few rows"
verdict mxnet/few reproduced
verdict mxnet/swept "no measurement"
grep -q '1 predicted .* 1 reproduced, 1 with too few rows' r/summary.txt || fail "summary.txt: $(head -n 1 r/summary.txt)"
grep -q '^unseen rows *3: mean error 42.0 %, largest 85.6 %' r/summary.txt || fail "totals: $(grep unseen r/summary.txt)"
has "the index" '3 points that no cost was fitted to the error is 42.0 % on average and 85.6 % at most' <index.html
has "the words" '<i>too few rows</i>' <index.html

# A scenario that consists almost only of copies: halving them halves the step.
part mxnet/copies >copies.html
grep -qE '[0-9]{3}\.[0-9]+ times|from 0\.00 to 0\.00' copies.html && fail "copies only: $(grep -E 'times|0\.00' copies.html)"
has "copies only" '>copies over links and memory</th><td class="number">2.00 times</td><td class="number">over 100 times<' <copies.html
has "copies only" 'What would help most: copies over links and memory in half the time, for 2.00 times' <copies.html
has "copies only" 'Most of it is communication: 100 %' <copies.html
# A scenario with compute only.
has "compute only" 'compute (forward, backward, update)</th><td class="number">2.00 times</td>' < <(part seeds/errors)
has "compute only" 'From 4 to 8 workers (*a worker&#39;s step goes from 4.00 ms to 2.00 ms' < <(part seeds/errors)

has "the faster of two batches" '<p>With 2 workers (batch 160, ' < <(part mxnet/mixed)

# Studies with the same name in two groups.
gnuplot -e "results='r/rows.csv'; output='errors.svg'" "$root/plots/errors.gp" || fail "errors.gp"
for text in seeds/errors seeds/few mxnet/few; do
    [ "$(grep -c "<text>$text<" errors.svg)" -eq 1 ] || fail "errors.svg does not show $text once"
done

# Hostile names are shown literally and are never interpreted.
# shellcheck disable=SC2016 # not to be expanded
shown='a\\n&lt;script&gt;alert(1)&lt;/script&gt;&quot; onclick=&quot;b|#c &amp; &#39;d&#39;, `id` $(id)'
part seeds/errors >errors.html
has "the page" "<title>$shown</title>" <errors.html
has "the page" "<h1>$shown</h1>" <errors.html
has "the page" "aria-label=\"Predicted and measured: $shown\"" <errors.html
has "the page" "^name = $shown" <errors.html
has "the index" "<a href=\"./seeds/errors.html\">$shown</a>" <index.html
has "the page" "contradictory; &lt;i&gt;why&quot; not in one line" <errors.html
has "the page" "&lt;b&gt;&quot;bold&quot;, &amp; a .n" <errors.html
# Removes the scripts and their data, in which no "<" is left.
cat index.html errors.html |
    awk '/^<script( type="[a-z\/]*" id="[a-z]*-[a-z]*")?>/ { inside = 1 } !inside { print } /<\/script>$/ { inside = 0 }' >both.html
[ "$(wc -l <both.html)" -gt 150 ] || fail "only $(wc -l <both.html) lines without scripts"
grep -n -i -e '<script' -e '" onclick' -e '<b>' -e '<i>why' both.html && fail "a page holds a name's HTML"
has "results to save" '<a download="errors.csv" id="results-link">errors.csv</a>' <errors.html

# Without the scripts the page has only tables, and says so.
dlsim=$(realpath "$DLSIM")
DLSCALE_SHARE=/nowhere "$dlsim" -q scenarios/seeds/errors.ini -o bare.csv --html bare.html || fail "no scripts: exit $?"
has "no scripts" 'There are no figures, as /nowhere/page/figures.js is not there' <bare.html
[ "$(grep -c '^<tr' bare.html)" -eq "$(grep -c '^<tr' errors.html)" ] || fail "without scripts: other tables"

# Without unseen rows, no error of them is printed.
expect 0 "unseen rows          none" --quick --output fitted mxnet
grep -E 'that no cost was fitted to|nan' fitted/index.html && fail "errors of no rows"

# Groups select the studies; the other parts are always there, including those on $DL_DATA. Failures
# are reported.
printf '[scenario]\nname = <b>broken\n[workload]\ncosts = none.ini\n' >scenarios/seeds/broken.ini
expect 1 "1 failed" --quick --output one seeds
for text in 'Links: sizes left out of the fits' 'Pollux' 'What one trace'; do
    has "an index of one group" "<summary>$text" <one/index.html
done
has "a part without data" 'Skipped: there are no traces in the data folder' <one/index.html
grep -q 'mxnet/few' one/index.html && fail "an index of one group shows another"
has "a study that failed" 'failed: dlsim: ' < <(grep -F 'href="./seeds/broken.txt"' one/index.html)
rm scenarios/seeds/broken.ini
touch 'scenarios/seeds/a b.ini'
expect 2 "scenarios/seeds/a b.ini: the name may hold" --quick --output two

tested=$dlsim
printf 'group,title,file\ng,t,x.png\n' >list.csv
expect 1 "list.csv:2: 'x.png' is not a .csv, .svg or .txt" --index list.csv --html x.html
expect 2 "--index needs --html FILE" --index list.csv
expect 2 "--index takes no SCENARIO" --index list.csv --html x.html scenarios/seeds/few.ini
expect 2 "--html would overwrite the list of --index" --index list.csv --html list.csv

[ "$failures" -eq 0 ]
