#!/usr/bin/env bash
# dlprof bench --of: concurrent copies of any program. Usage: test_bench_of.sh DLPROF DLCAL
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

# Prints a line every 2 steps, about 20 ms, never ends, and writes its process id.
cat >endless.sh <<'END'
#!/usr/bin/env bash
echo $$ >>pids.txt
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
cat >stays.sh <<'END'
#!/usr/bin/env bash
while sleep 0.01; do echo "step 7 of a run"; done
END
chmod +x endless.sh short.sh plain.sh stays.sh
own=(--batch 16 --workers-max 2 --rounds 2 --lines 4)

# Runs in the background, with a limit that is long enough for a program that is slow to start.
"$tested" bench "${own[@]}" --limit 10 -o stays.dlt --of ./stays.sh >stays.txt 2>&1 &
stays=$!

expect 0 "copies  samples" bench "${own[@]}" --step-line 'step ([0-9]+)' -o two.dlt --of ./endless.sh
"$tested" info two.dlt | grep -q "step" || fail "no steps: $("$tested" info two.dlt)"
expect 0 "written to plain.dlt" bench "${own[@]}" --step-line "batch done" -o plain.dlt --of ./plain.sh
[ "$(wc -l <pids.txt)" -eq 6 ] || fail "not 2 rounds of 1 and 2 copies: $(cat pids.txt)"
while read -r pid; do
    [ "$(readlink "/proc/$pid/cwd")" != "$PWD" ] || fail "copy $pid is left over"
done <pids.txt

# Each copy has a number and a MASTER_PORT; if its port is in use, the message names the remedy.
cat >ports.sh <<'END'
#!/usr/bin/env bash
echo "$DLPROF_COPY at $MASTER_PORT" >>ports.txt
while sleep 0.01; do echo "step $((++step))"; done
END
cat >taken.sh <<'END'
#!/usr/bin/env bash
if [ "$DLPROF_COPY" = 1 ]; then
    echo "bind: Address already in use"
    echo "giving up"
    exit 4
fi
while sleep 0.01; do echo "step $((++step))"; done
END
chmod +x ports.sh taken.sh
MASTER_PORT=29500 expect 0 "written to ports.dlt" bench --batch 16 --workers-max 2 --rounds 1 --lines 4 -o ports.dlt --of ./ports.sh
[ "$(sort -u ports.txt | tr '\n' ,)" = "0 at 29500,1 at 29501," ] || fail "ports: $(cat ports.txt)"
expect 1 "giving up. Copies need ports of their own: MASTER_PORT" bench "${own[@]}" --of ./taken.sh

# Step numbers restart in each epoch, and a progress bar prints each twice: 4 steps, then, after an
# interval that is no step, 3 more.
cat >epochs.sh <<'END'
#!/usr/bin/env bash
for step in 1 2 3 4 5 1 2 3 4; do printf 'step %d of many\rstep %d of many\n' $step $step; done
END
# Prints one step, then nothing more.
cat >silent.sh <<'END'
#!/usr/bin/env bash
echo "step 1"
exec >/dev/null 2>&1
exec sleep 1000
END
chmod +x epochs.sh silent.sh
epochs=(bench --batch 16 --workers-max 1 --rounds 1 --warmup 0 -o epochs.dlt)
expect 0 "     1        7 " "${epochs[@]}" --lines 7 --of ./epochs.sh
expect 1 "exited with 0 after 9 lines of steps" "${epochs[@]}" --lines 8 --of ./epochs.sh
expect 1 "it must train for longer, or print such lines more often (--lines" "${epochs[@]}" --lines 8 --of ./epochs.sh
expect 1 "no line matched for 1 s" bench "${own[@]}" --limit 1 --of ./silent.sh

expect 1 "exited with 3 after 1 lines of steps" bench "${own[@]}" --of ./short.sh
expect 1 "it printed: no such file" bench "${own[@]}" --of ./short.sh
expect 1 "exited with 127" bench "${own[@]}" --of ./missing
# A program that does not run leaves the trace of an earlier measurement unchanged.
cp two.dlt kept.dlt
expect 1 "exited with 127" bench "${own[@]}" -o kept.dlt --of ./missing
cmp two.dlt kept.dlt || fail "a trace was destroyed by a program that gave nothing"
expect 1 "exited with 127" bench "${own[@]}" -o new.dlt --of ./missing
[ ! -e new.dlt ] || fail "a trace of nothing"
expect 1 "nowhere" bench "${own[@]}" -o nowhere/new.dlt --of ./endless.sh
expect 1 "no line matched for 1 s" bench "${own[@]}" --limit 1 --step-line "iteration" --of ./plain.sh
expect 2 "--batch is missing" bench --of ./short.sh
expect 2 "expected a program" bench --batch 1 --of
expect 2 "not a valid regular expression" bench --batch 1 --step-line "(" --of ./short.sh
expect 0 "PROGRAM [ARGUMENT...]" bench --help --of

# dlcal costs writes the factors of sharing and the step time to a cost file.
"$dlcal" costs "$traces/mlp_b16.json.gz" --batch 16 --copies two.dlt -o costs.ini >out.txt 2>&1 ||
    fail "$(cat out.txt)"
grep -q "2 concurrent copies: a step takes" out.txt || fail "no factor: $(cat out.txt)"
grep -q "a step of 16 samples of one copy (--copies) takes" costs.ini || fail "not scaled: $(cat costs.ini)"
grep -q "^copies_2 = " costs.ini || fail "no [sharing]: $(cat costs.ini)"
# The sum of the operations is the step without a profiler, half of a line's 20 ms or more.
awk -F'[= ]+' '/^\[/ { op = ($1 == "[op") } op && $1 == "fixed_ns" { s += $2 }
    op && $1 == "per_sample_ns" { s += 16 * $2 } END { exit !(s > 1e6) }' costs.ini ||
    fail "operations: $(cat costs.ini)"

# Processes that a copy started end with it, even in another session, and their processor time counts as
# the copies', not as other programs': 0.5 s, while the shells take some hundredths.
cat >family.sh <<'END'
#!/usr/bin/env bash
setsid python3 -c 'import os, time
if os.fork() == 0: time.sleep(1000)
while time.process_time() < 0.5: pass
open("used", "w").write(str(os.getpid()))
time.sleep(1000)' &
until [ -s used ]; do sleep 0.02; done
while sleep 0.01; do echo "step $((++step))"; done
END
chmod +x family.sh
if [ -r /proc/self/task/$$/children ]; then
    ( # whose only child is dlprof
        "$tested" bench --batch 16 --workers-max 1 --rounds 1 --lines 4 -o family.dlt --of ./family.sh >family.txt 2>&1
        times >times.txt
    )
    grep -q "written to family.dlt" family.txt || fail "family: $(cat family.txt)"
    for pid in $(pgrep -s "$(cat used)"); do fail "process $pid of a copy is left over"; done
    awk -F'[ms ]+' 'NR == 2 { exit !(60 * $1 + $2 + 60 * $3 + $4 >= 0.5) }' times.txt ||
        fail "not 0.5 s of the copies' children: $(cat times.txt)"
fi

wait $stays
[ $? -eq 1 ] || fail "a number that stays is no failure"
grep -q "stayed 7 for 10 s; the last line is step 7 of a run" stays.txt || fail "stays: $(cat stays.txt)"

exit $((failures > 0))
