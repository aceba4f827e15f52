#!/usr/bin/env bash
# dlprof bench --of: copies of any program side by side. Usage: test_bench_of.sh DLPROF DLCAL
set -u
tested=$1
dlcal=$2
traces=$(cd "$(dirname "$0")/../clients/traces" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# Two steps a line, some 20 ms; it never ends by itself.
cat >endless.sh <<'END'
#!/usr/bin/env bash
echo "loading"
for ((i = 2; ; i += 2)); do
    sleep 0.02
    echo "epoch 1 step $i of many" >&2
done
END
cat >short.sh <<'END'
#!/usr/bin/env bash
echo "step 1"
echo "no such file" >&2
exit 3
END
cat >plain.sh <<'END'
#!/usr/bin/env bash
while sleep 0.01; do echo "batch done"; done
END
chmod +x endless.sh short.sh plain.sh
own=(--batch 16 --workers-max 2 --rounds 2 --lines 4)

expect 0 "copies  samples" bench "${own[@]}" --step-line 'step ([0-9]+)' -o two.dlt --of ./endless.sh
"$tested" info two.dlt | grep -q "step" || fail "no steps: $("$tested" info two.dlt)"
expect 0 "written to plain.dlt" bench "${own[@]}" --step-line "batch done" -o plain.dlt --of ./plain.sh
pgrep -f "$PWD/endless.sh" && fail "a copy is left over"

expect 1 "exited with 3 after 1 lines of steps" bench "${own[@]}" --of ./short.sh
expect 1 "it printed: no such file" bench "${own[@]}" --of ./short.sh
expect 1 "exited with 127" bench "${own[@]}" --of ./missing
expect 1 "no line matched for 1 s" bench "${own[@]}" --limit 1 --step-line "iteration" --of ./plain.sh
expect 2 "--batch is missing" bench --of ./short.sh
expect 2 "want a program" bench --batch 1 --of
expect 2 "no regular expression" bench --batch 1 --step-line "(" --of ./short.sh
expect 0 "PROGRAM [ARGUMENT...]" bench --help --of

# Its factors and its step go into a cost file.
"$dlcal" costs "$traces/mlp_b16.json.gz" --batch 16 --copies two.dlt -o costs.ini >out.txt 2>&1 ||
    fail "$(cat out.txt)"
grep -q "2 copies side by side: a step takes" out.txt || fail "no factor: $(cat out.txt)"
grep -q "without a profiler a step of 16 samples takes" costs.ini || fail "not scaled: $(cat costs.ini)"
grep -q "^copies_2 = " costs.ini || fail "no [sharing]: $(cat costs.ini)"
# The operations' sum is the step without a profiler, half of what a line takes: 10 ms or more.
awk -F'[= ]+' '/^\[/ { op = ($1 == "[op") } op && $1 == "fixed_ns" { s += $2 }
    op && $1 == "per_sample_ns" { s += 16 * $2 } END { exit !(s > 1e7 && s < 1e9) }' costs.ini ||
    fail "operations: $(cat costs.ini)"

exit $((failures > 0))
