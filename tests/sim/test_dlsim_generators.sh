#!/usr/bin/env bash
# dlsim with [generators]: timeline, histogram, JSON, page, advice, presets.
# Usage: test_dlsim_generators.sh DLSIM
set -u
tested=$1
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

cat >s.ini <<'END'
[scenario]
steps = 20
[generators]
gpus = 8
prompts = 16
answers = 4
length_mean = 300
length_cap = 1000
token_s = 0.01
request_token_s = 0.0002
train_fixed_s = 1
train_token_gpu_s = 0.0006
copy_s = 0.5
END
has() { # FILE TEXT...
    local file=$1 text
    shift
    for text; do
        grep -q -- "$text" "$file" && continue
        echo "FAIL: no '$text' in $file"
        failures=$((failures + 1))
    done
}
expect 0 "4 GPUs generate, 4 train" s.ini -o s.csv --timeline t.json --histogram h.csv --html s.html
has t.json '"trainer"' '"replica 3"' '"working"' '"copying"' 'groups complete'
has s.html 'GPUs generate'
awk -F, '!/^[#c]/ { sum += $(NF - 1) } END { exit sum != 20 * 16 }' h.csv || {
    echo "FAIL: the histogram does not have 20 x 16 groups"
    failures=$((failures + 1))
}
expect 0 '"tokens_discarded":0,' s.ini --json -
# Speedup over on policy: 1.07 with copies of 5 s, 1.7 without copies.
expect 0 "policy: cannot tell which is faster" s.ini --set generators.copy_s=5 -o s.csv
expect 0 '"faster":"cannot tell"' s.ini --set generators.copy_s=5 --json -
expect 0 '"faster":"this"' s.ini --json -
expect 0 "Halving" s.ini --explain -o s.csv
# One more group may begin at each 16th of a bound: the value printed by --solve is beyond that jump.
bound=$("$tested" s.ini --set generators.train_fixed_s=6 --solve generators.bound \
    --target trainer_busy_frac=0.95 -o solved.csv | sed -n 's/^With bound = \([0-9.]*\),.*/\1/p')
"$tested" s.ini -q --set generators.train_fixed_s=6 --set generators.bound="${bound:-0}" -o s.csv
awk -F, '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == "trainer_busy_frac") at = i; next }
    { exit !($at >= 0.95) }' s.csv || {
    echo "FAIL: the trainer is not busy for 95 % with bound = $bound"
    failures=$((failures + 1))
}
# Equal seeds give equal results on any number of threads.
expect 0 "" s.ini -q --set generators.bound=0,1,2 --set scenario.replicates=3 --threads 1 -o one.csv
expect 0 "" s.ini -q --set generators.bound=0,1,2 --set scenario.replicates=3 --threads 3 -o three.csv
cmp one.csv three.csv || failures=$((failures + 1))

expect 0 "Advised: " s.ini --advise --max-staleness 1 -o a.csv --save advised.ini
expect 2 "--json cannot be combined with --advise of [generators]" s.ini --advise --json -
expect 0 "GPUs generate" advised.ini -o s.csv
expect 0 "generators.in_flight=" s.ini --set generators.rule=workers --set generators.in_flight=20 --advise \
    --max-staleness 2 -o a.csv
# With bound 2 the mean age is 2 in the long run, and 2.0005 here: within a limit of 2.
expect 0 "generators.bound=2" --workload qwen2.5_7b:recompute=full,fused=yes --machine dgx_h100 \
    --set machine.nodes=2 --layout fsdp=8 --set generators.prompts=64 --set generators.answers=8 \
    --set generators.length_mean=2000 --set generators.length_cap=8192 --set generators.copy_s=2 \
    --advise --max-staleness 2 -o a.csv
expect 2 "not with place = colocated" s.ini --set generators.place=colocated --advise -o a.csv
expect 0 "8 GPUs in turn" s.ini --set generators.place=colocated -o s.csv

# --rules alone prints its keys; with a scenario it sets those that the scenario lacks.
for rules in verl trl areal nemo-rl; do
    "$tested" --rules $rules >rules.ini || failures=$((failures + 1))
    { cat s.ini; grep -v '^\[' rules.ini; } >with.ini
    expect 0 "an update" with.ini -o with.csv
    expect 0 "Keys as in $rules, except those that the scenario sets: rule = " s.ini --rules $rules -o s.csv
    diff <(grep -v '^#' with.csv) <(grep -v '^#' s.csv) || failures=$((failures + 1))
done
{ cat with.ini; echo 'bound = 3'; } | sed '/^bound = 1$/d' >own.ini
expect 0 "Age 3.00 updates" own.ini --rules trl --set generators.partial=yes -o s.csv
expect 0 "Age 2.00 updates" own.ini --rules trl --set generators.bound=2 -o s.csv
expect 2 "did you mean 'verl'" --rules vrl

# Answers of 300 tokens and prompts of 100: the trainer, which limits the run, takes 9 + 64 x 400 x 6e-4 / 4 s per
# update, and 0.5 s for the copy. In turn, 8 replicas with 8 requests each take 300 x 0.0116 s, and training on 8 GPUs
# takes 10.92 s.
cat >alike.ini <<'END'
[scenario]
steps = 20
[generators]
gpus = 8
generator_gpus = 4
prompts = 16
answers = 4
length_mean = 300
length_cv = 0
token_s = 0.01
request_token_s = 0.0002
train_fixed_s = 9
train_token_gpu_s = 0.0006
copy_s = 0.5
bound = 4
END
column_is() { # COLUMN VALUE KEY=VALUE...
    local column=$1 value=$2
    shift 2
    "$tested" alike.ini -q -o alike.csv $(printf ' --set %s' "$@") || failures=$((failures + 1))
    awk -F, -v name="$column" -v value="$value" '/^#/ { next }
        !n { for (i = 1; i <= NF; i++) if ($i == name) n = i; next }
        { is = $n; exit } END { exit !((is / value - 1) ^ 2 < 1e-18) }' alike.csv && return
    echo "FAIL: $column is not $value with $*"
    failures=$((failures + 1))
}
column_is update_s 13.34 generators.bound=4
column_is usd_per_update 0.0592888888888888 generators.usd_per_gpu_hour=2 # 8 GPUs
column_is usd_per_update 0.0592888888888888 machine.file=dgx_h100 machine.price_usd_per_hour=16 # of their node
validations=(generators.validation_s=5 generators.validation_every=5)
column_is update_s 14.34 "${validations[@]}"
column_is update_s 14.34 "${validations[@]}" generators.validation_stops=trainer
column_is update_s 13.34 "${validations[@]}" generators.validation_stops=generators
column_is update_s 14.4 generators.place=colocated
column_is update_s 16.4 generators.place=colocated generators.tool_s=2 generators.tool_cv=0
# Both nodes are paid for, although only one trains.
column_is usd_per_hour 72 machine.file=dgx_h100 machine.nodes=2 machine.price_usd_per_hour=36 \
    generators.gpus=16 generators.generator_gpus=8 workload.model=gpt2
# A worker has the GPUs of all axes: 8 GPUs are too few for a worker of 16.
trained=(--workload gpt2:fused=yes --machine dgx_h100 --set machine.nodes=2 --set generators.gpus=16
    --set generators.generator_gpus=8 --set generators.prompts=64 --set generators.length_mean=500
    --set generators.copy_s=1 -o layout.csv)
for layout in tp=4,pp=4 tp=4,fsdp=4 cp=2,fsdp=8; do
    expect 2 "8 trainer GPUs of 16 are not a multiple of a worker's 16" "${trained[@]}" --layout $layout
done
expect 0 "8 GPUs generate, 8 train" "${trained[@]}" --layout tp=2,pp=2
# GPUs that generate are not idle; those of neither side are.
"$tested" "${trained[@]}" --layout tp=2,pp=2 --notes | grep -q "are idle" && {
    echo "FAIL: idle GPUs among 8 that train and 8 that generate"
    failures=$((failures + 1))
}
expect 0 "uses 4 of the machine's 16 GPUs, generators use 8, the other 4 are idle" "${trained[@]}" \
    --set generators.gpus=12 --layout tp=2,pp=2 --notes

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
