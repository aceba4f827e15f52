#!/usr/bin/env bash
# The report's pages on a made project whose errors are known by hand: what ./reproduce leaves in its folder
# shows them as they are. Looks at finished files only: the page, tables, CSV, SVG.
# Usage: test_pages.sh DLSIM DLCAL     exit 77: gnuplot is not installed
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export DLSIM=$1 DLCAL=$2 DL_DATA=$PWD/data
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
command -v gnuplot >/dev/null || { echo "gnuplot is not installed (package gnuplot-nox)"; exit 77; }
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

ln -s "$root"/{reproduce,scripts,plots,README.md} .
mkdir -p scenarios/{seeds,mxnet,costs,measured}
# A worker's step takes 0.2 ms a sample and nothing else: 80 samples on n workers 16 ms / n.
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
workers,batch,sync,throughput_per_s,source
1,80,none,5000,"<b>""bold"", & a \n"
2,80,none,14388,x
4,80,none,18182,x
8,80,none,40012,x
T2
scenario seeds few "one row unseen" 'workers = 1, 2' "${plain[@]}" '[measured]' 'file = ../measured/few.csv'
scenario mxnet few "all rows fitted" 'workers = 1, 2' "${plain[@]}" '[measured]' 'file = ../measured/fitted.csv'
printf 'workers,batch,sync,throughput_per_s,source\n1,80,none,5000,x\n2,80,none,5388,x\n' >scenarios/measured/few.csv
printf 'workers,batch,sync,throughput_per_s,source\n1,80,none,5000,x\n2,80,none,10010,x\n' >scenarios/measured/fitted.csv
printf 'scenario,workers\nerrors,1\nfew,1\n' >scenarios/seeds/fitted.csv
printf 'scenario,workers\nfew,\n' >scenarios/mxnet/fitted.csv
printf 'scenario,workers,reason\nerrors,8,"<i>why"" not"\n' >scenarios/seeds/contradictions.csv
scenario mxnet swept "two stragglers" 'workers = 1, 2, 4' "${plain[@]}" '[noise]' 'slow = 0:2 | 0:3'
scenario mxnet copies "copies only" 'workers = 1, 2' '[sync]' 'mode = ps'
sed -i 's/made.ini/copies.ini/' scenarios/mxnet/copies.ini

tested=./reproduce
expect 0 "index.html" --quick --output r
page=r/index.html
sed 's/base64,[^"]*//g' "$page" >text.html
# part GROUP-NAME: the page's part on a study
part() { awk -v begin="<article id=\"$1\">" '$0 == begin { on = 1 } on; on && $0 == "</article>" { exit }' text.html; }
has() { # what, pattern; in standard input
    grep -q -- "$2" || fail "$1: no '$2'"
}
row() { # what, GROUP-NAME, workers, text of the row's cells
    part "$2" | grep "^<tr.*>$3</th>" | sed 's/<[^>]*>/|/g; s/||*/|/g' >row.txt
    grep -qF -- "$4" row.txt || fail "$1: no '$4' in: $(cat row.txt)"
}

# Errors by hand: 10000 / 14388 - 1, 20000 / 18182 - 1, 40000 / 40012 - 1.
row "an error below zero" seeds-errors 2 '|-30.5 %|'
row "an error above zero" seeds-errors 4 '|+10.0 %|'
row "an error of nearly nothing" seeds-errors 8 '|0.0 %|'
grep -q '| -30.5 % |' r/studies/seeds/errors/rows.md || fail "rows.md lacks -30.5 %"

# Verdicts: one unseen row is too few to judge, and counts in the totals.
verdict() { # GROUP, NAME, verdict
    grep -q "^$1,$2,.*,$3," r/overview.csv || fail "the verdict on $1/$2 is not '$3': $(grep "^$1,$2," r/overview.csv)"
    part "$1-$2" | has "the part on $1/$2" ">$3</span>"
}
verdict seeds errors predicted
verdict seeds few "too few rows"
verdict mxnet few reproduced
verdict mxnet swept "no measurement"
grep -q '1 predicted .* 1 reproduced, 1 with too few rows' r/summary.txt || fail "summary.txt: $(head -n 1 r/summary.txt)"
grep -q '^unseen rows *3: mean error 42.0 %, largest 85.6 %' r/summary.txt || fail "totals: $(grep unseen r/summary.txt)"
has "the method" '<i>too$' <text.html

# A scenario that is nearly all copies.
part mxnet-copies >copies.html
grep -qE '[0-9]{3}\.[0-9]+ times|from 0\.00 to 0\.00' copies.html && fail "copies only: $(grep -E 'times|0\.00' copies.html)"
has "copies only" 'over 100 times with copies in no time' <copies.html

[ ! -e r/studies/mxnet/copies/speedup.svg ] || fail "a figure of the speedup of copies only"

# lines PICTURE: how many lines of three points or more are drawn in the colours of series, and how many of them
# turn back or go straight up.
lines() {
    grep -o "<path[^>]*>" "$1" | awk '!/rgb\( *64, *64, *64\)|rgb\(128, 128, 128\)|gpPt/ && match($0, /d=.[^\x27]*/) {
            n = split(substr($0, RSTART + 3, RLENGTH - 3), point, /[ ML]+/)
            last = ""
            count = back = 0
            for (i = 1; i <= n; i++) {
                if (split(point[i], xy, ",") < 2) continue
                if (count++ && xy[1] + 0 <= last) back = 1
                last = xy[1] + 0
            }
            if (count > 2) { lines++; turned += back }
        }
        END { print lines + 0, turned + 0 }'
}
[ "$(lines r/studies/mxnet/swept/speedup.svg)" = "2 0" ] ||
    fail "lines of two stragglers, turned ones: $(lines r/studies/mxnet/swept/speedup.svg)"
for text in "slow 0:2" "slow 0:3"; do
    grep -q ">$text<" r/studies/mxnet/swept/speedup.svg || fail "speedup.svg lacks '$text'"
done

# Which points were fitted: hollow squares, full ones, a cross.
points=r/studies/seeds/errors/speedup.svg
for text in "measured, fitted" "measured, unseen" "contradictory"; do
    grep -q ">$text<" "$points" || fail "speedup.svg lacks '$text'"
done
drawn() { grep -c "href='#gpPt$1' transform=.*color='rgb(  0, 114, 178)'" "$points"; }
[ "$(drawn 3) $(drawn 4) $(drawn 1)" = "1 2 1" ] || fail "hollow, full points, crosses: $(drawn 3) $(drawn 4) $(drawn 1), not 1 2 1"

# Studies of one name in two groups.
for text in seeds/errors seeds/few mxnet/few; do
    [ "$(grep -c "<text>$text<" r/errors.svg)" -eq 1 ] || fail "errors.svg does not show $text once"
done

# Hostile names are shown as they are, and are nothing but text.
# shellcheck disable=SC2016 # not to be expanded
shown='a\\n&lt;script&gt;alert(1)&lt;/script&gt;&quot; onclick=&quot;b|#c &amp; '"'d'"', `id` $(id)'
has "the page" "<h3>$shown</h3>" <text.html
has "the page" "aria-label=\"Measured and predicted: $shown (none)\"" <text.html
has "the page" "<a href=\"#seeds-errors\">$shown</a>" <text.html
has "the page" "&lt;i&gt;why&quot; not" <text.html
has "the page" "&lt;b&gt;&quot;bold&quot;, &amp; a .n" <text.html
grep -n -i -e '<script' -e '" onclick' -e '<b>' -e '<i>why' text.html && fail "the page holds a name's HTML"
grep -n -i -e '<script' -r r --include=*.md --include=*.svg && fail "a name's HTML beside the page"
awk 'NR > 1 && !/^(seeds|mxnet),[a-z]+,/' r/overview.csv | grep . && fail "a broken line in overview.csv"
if command -v xmllint >/dev/null; then
    find r -name '*.svg' -exec xmllint --noout {} + || fail "a figure is not well-formed"
fi

# Of rows that are not there no error is printed.
expect 0 "unseen rows          none" --quick --output fitted mxnet
grep -E 'Contradictory rows: |Unseen rows: |rows that no cost was fitted to' fitted/index.html && fail "errors of no rows"

# Groups choose among the studies; the other parts are there in any case, also those on $DL_DATA.
expect 0 "index.html" --quick --output one seeds
for text in 'id="more"' 'Links: sizes left out of the fits' 'Pollux' 'What one trace'; do
    has "a page of one group" "$text" <one/index.html
done
grep -q 'id="mxnet-few"' one/index.html && fail "a page of one group shows another"
touch 'scenarios/seeds/a b.ini'
expect 2 "scenarios/seeds/a b.ini: the name may hold" --quick --output two

[ "$failures" -eq 0 ]
