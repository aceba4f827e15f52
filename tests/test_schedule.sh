#!/usr/bin/env bash
# Schedules written by dlsim and replayed by dlprof. Usage: test_schedule.sh DLSIM DLPROF
set -u
dlsim=$1 dlprof=$2
costs=$(cd "$(dirname "$0")" && pwd)/../scenarios/modes/cpu_costs.ini
tested=$dlprof
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

common=(--model mlp --data synthetic --learning-rate 0.05 --evaluate-every 10)
schedule() { # file, workers, mode, more lines of [sync]
    printf '[scenario]\nsteps = 30\n[machine]\ncores = workers\nworkers = %s\n[workload]\ncosts = %s\nbatch = 12\n' \
        "$2" "$costs" >s.ini
    printf '[sync]\nmode = %s\n%s\n[noise]\nkind = gamma\nsigma = 0.2\n' "$3" "${4:-}" >>s.ini
    "$dlsim" -q s.ini -o s.results --schedule "$1" || fail "dlsim --schedule of $3"
}
columns() { grep -v '^#' "$1" | cut -d, -f1,2,4,5; } # all but the simulated time

# One worker is plain training in every mode: all points, losses and accuracies are equal to the
# last digit.
"$dlprof" train "${common[@]}" --batch 12 --steps 30 --no-trace --curve plain.csv >out.txt || fail "plain: $(cat out.txt)"
[ "$(columns plain.csv | wc -l)" -eq 4 ] || fail "plain.csv: $(cat plain.csv)"
for mode in none average async allreduce ps softsync; do
    schedule one.csv 1 "$mode"
    "$dlprof" train "${common[@]}" --schedule one.csv --curve one_curve.csv >out.txt || fail "$mode: $(cat out.txt)"
    [ "$(columns one_curve.csv)" = "$(columns plain.csv)" ] || fail "$mode differs from plain training"
done

# Synchronous: allreduce with as many threads, and with one thread on the whole batch, are equal up
# to rounding.
schedule three.csv 3 allreduce
"$dlprof" train "${common[@]}" --schedule three.csv --curve three_curve.csv >out.txt || fail "three: $(cat out.txt)"
grep -q 'mean 0.000, most 0' out.txt || fail "three: $(cat out.txt)"
close() { # compares two curves
    paste -d, <(columns "$1") <(columns "$2") | awk -F, 'NR > 1 && ($1 != $5 || $2 != $6 ||
        $3 - $7 > 1e-3 || $7 - $3 > 1e-3 || $4 - $8 > 1e-3 || $8 - $4 > 1e-3) { bad = 1 } END { exit bad }'
}
close three_curve.csv plain.csv || fail "allreduce is not large-batch training: $(cat three_curve.csv plain.csv)"
schedule stale.csv 3 async
"$dlprof" train "${common[@]}" --schedule stale.csv --curve stale_curve.csv --evaluate >out.txt || fail "stale: $(cat out.txt)"
grep -q 'mean 1.9' out.txt || fail "stale: $(cat out.txt)"
close stale_curve.csv plain.csv && fail "stale gradients change nothing"
"$dlprof" train "${common[@]}" --schedule stale.csv --curve one_core.csv --cores 1 >out.txt || fail "one core: $(cat out.txt)"
cmp -s one_core.csv stale_curve.csv || fail "another curve on one core"
[ "$(tail -n 1 stale_curve.csv | cut -d, -f3)" = "$(tail -n 1 stale.csv | cut -d, -f1 | sed 's/0*$//')" ] ||
    fail "the last point's simulated time: $(tail -n 1 stale_curve.csv), $(tail -n 1 stale.csv)"

# The last point of a curve is the end of the run, even without other points.
expect 0 "curve       end.csv (1 point)" train --model mlp --data synthetic --learning-rate 0.05 --batch 12 \
    --steps 30 --no-trace --curve end.csv
[ "$(columns end.csv | tail -n +2 | cut -d, -f1-3)" = "$(columns plain.csv | tail -n 1 | cut -d, -f1-3)" ] ||
    fail "only the end: $(cat end.csv)"
expect 0 "(4 points)" train "${common[@]}" --batch 12 --steps 31 --no-trace --curve more.csv

# Conflicting options, and files that are not schedules
expect 2 "--workers and --schedule" train --schedule three.csv --workers 2
expect 2 "--epochs and --schedule" train --schedule three.csv --epochs 1
expect 2 "needs --curve" train --evaluate-every 10 --no-trace --steps 1 --model mlp
expect 2 "as in 100 or 0.5epochs" train --evaluate-every ten --curve c.csv --no-trace --model mlp
expect 2 "as in 100 or 0.5epochs" train --evaluate-every 0.5 --curve c.csv --no-trace --model mlp
expect 1 "nothing.csv" train --schedule nothing.csv --model mlp
expect 1 "s.ini:1: is not a schedule" train --schedule s.ini --model mlp
sed '20s/gradient,[0-9]*/gradient,99/' three.csv >bad.csv
expect 1 "bad.csv:20: update is '99'" train --schedule bad.csv --model mlp
sed '20s/,[0-9]*$//' three.csv >bad.csv
expect 1 "bad.csv:20:" train --schedule bad.csv --model mlp
for key in schema workers batch mode; do
    sed "s/^# $key:.*/# $key:/; s/\$/\r/" three.csv >bad.csv
    expect 1 "$key is ''" train --schedule bad.csv --model mlp
done
printf '# dlscale schedule\r\n# schema:\r\n' >bad.csv
expect 1 "bad.csv:2: schema is ''" train --schedule bad.csv --model mlp
tested=$dlsim
sed -e 's/^mode.*/mode = bmuf\ninterval = 5/' -e '/^measured/d' s.ini >bmuf.ini
expect 0 "" -q bmuf.ini -o r.csv --schedule bmuf.csv
tested=$dlprof
expect 1 "bmuf.csv: is of mode bmuf, which needs an outer optimizer" train --schedule bmuf.csv --model mlp --data synthetic
expect 0 "outer optimizer sgd, rate 1, momentum 0.5" train --schedule bmuf.csv --model mlp --data synthetic \
    --outer sgd --outer-rate 1 --outer-momentum 0.5
expect 1 "an outer optimizer needs averages" train --schedule three.csv --model mlp --data synthetic --outer nesterov
# Quantised fragments that are merged some steps after they were sent: the same curve on one core
# and on all cores, and from threads that average in this way.
late=(--outer nesterov --mixing 0.25 --compress int8)
for lag in 0 3 7; do
    schedule late.csv 3 average "$(printf 'interval = 8\nfragments = 4\nlag = %s' "$lag")"
    expect 0 "" train "${common[@]}" "${late[@]}" --schedule late.csv --curve late_all.csv
    expect 0 "" train "${common[@]}" "${late[@]}" --schedule late.csv --curve late_one.csv --cores 1
    cmp -s late_all.csv late_one.csv || fail "lag $lag: another curve on one core"
    mixing=("${late[@]}")
    [ "$lag" -gt 0 ] || mixing=(--outer nesterov --compress int8)
    expect 0 "" train --model mlp --data synthetic --learning-rate 0.05 --batch 12 --workers 3 --steps 32 --no-trace \
        --sync average --interval 8 --fragments 4 --lag "$lag" "${mixing[@]}" --curve late_threads.csv
    [ "$(tail -n 1 late_all.csv | cut -d, -f2,4)" = "$(tail -n 1 late_threads.csv | cut -d, -f2,4)" ] ||
        fail "lag $lag: $(tail -n 1 late_all.csv late_threads.csv)"
done
# Two levels, 8 GPUs on two nodes: equal to training by 8 threads at two sites.
here=$(cd "$(dirname "$0")" && pwd)
for lag in 0 5; do
    printf '[scenario]\nsteps = 24\n[machine]\nfile = %s\nworkers = 8\n[workload]\ncosts = %s\nbatch = 24\n' \
        "$here/../scenarios/machines/t4_4x4_ethernet.ini" "$here/../scenarios/costs/ddp_v100_resnet50.ini" >sites.ini
    printf '[sync]\nmode = average\nwhere = allreduce\ninside = allreduce\ninterval = 6\nfragments = 3\nlag = %s\n' \
        $lag >>sites.ini
    printf '[noise]\nkind = gamma\nsigma = 0.2\n' >>sites.ini
    "$dlsim" -q sites.ini -o sites.results --schedule sites.csv || fail "dlsim --schedule of sites"
    expect 0 "sites       2, whose workers" train "${common[@]}" --schedule sites.csv --compress 1bit --curve sites_all.csv
    expect 0 "" train "${common[@]}" --schedule sites.csv --compress 1bit --curve sites_one.csv --cores 1
    cmp -s sites_all.csv sites_one.csv || fail "sites, lag $lag: another curve on one core"
    expect 0 "" train --model mlp --data synthetic --learning-rate 0.05 --batch 24 --workers 8 --steps 24 --no-trace \
        --sync average --interval 6 --fragments 3 --lag $lag --inside allreduce --sites 2 --compress 1bit --curve sites_threads.csv
    [ "$(tail -n 1 sites_all.csv | cut -d, -f2,4)" = "$(tail -n 1 sites_threads.csv | cut -d, -f2,4)" ] ||
        fail "sites, lag $lag: $(tail -n 1 sites_all.csv sites_threads.csv)"
done
# Merges of a syncer: the same curve on one core and on all cores, with and without an outer
# optimizer; weights for stale uploads change the curve.
for power in 0 1; do
    schedule merges$power.csv 4 async_average "interval = 3
[syncer]
quorum = 2
merge_s = 0.004
weight_power = $power"
    for outer in "" "--outer nesterov"; do
        for cores in 1 2; do
            # shellcheck disable=SC2086
            "$dlprof" train "${common[@]}" --schedule merges$power.csv $outer --cores $cores --curve merges.$cores.csv \
                >out.txt || fail "merges: $(cat out.txt)"
        done
        cmp -s merges.1.csv merges.2.csv || fail "merges $power $outer: another curve on two cores"
        cp merges.1.csv "merges$power${outer:+.outer}.curve"
    done
done
# With a bound of 0, uploads made while a merge is due are too stale, and enter no version.
schedule bound.csv 4 async_average "$(printf 'interval = 3\nbound = 0\n[syncer]\nquorum = 2\nmerge_s = 0.004')"
[ "$(grep -c ,upload, bound.csv)" -gt "$(grep -c ,merge, bound.csv)" ] || fail "bound 0 discards nothing"
expect 0 "staleness   mean 0.000, most 0" train "${common[@]}" --schedule bound.csv --outer nesterov --curve bound.curve
grep -qE 'staleness   mean (0\.[0-9]*[1-9]|[1-9])' out.txt || fail "merges: $(cat out.txt)"
cmp -s merges0.curve merges1.curve && fail "weights change nothing"
cmp -s merges0.curve merges0.outer.curve && fail "the outer optimizer changes no merge"
expect 1 "states cannot be averaged" train --schedule merges0.csv --model mlp --data synthetic --average-state

tested=$dlsim
sed -i 's/^mode.*/mode = easgd/; /^interval/,$d' s.ini
expect 1 "mode easgd has no schedule" -q s.ini -o r.csv --schedule none.csv
[ ! -e none.csv ] || fail "easgd left a schedule"
tested=$dlprof

# softsync and its bound, with threads
expect 0 "softsync of 2 gradients, at most 1 stale" train --model mlp --data synthetic --batch 12 --workers 4 \
    --sync softsync --n 2 --bound 1 --steps 20 --no-trace
expect 0 "divided by the staleness" train --model mlp --data synthetic --batch 12 --workers 4 --sync async \
    --staleness-rate --steps 20 --no-trace
expect 2 "--server-threads and --schedule" train --schedule three.csv --server-threads 2
expect 2 "1000000 cores" train --model mlp --data synthetic --schedule three.csv --cores 1000000

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
