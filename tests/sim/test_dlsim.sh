#!/usr/bin/env bash
# Command-line behaviour of dlsim: exit statuses, messages, files. Usage: test_dlsim.sh DLSIM
set -u
dlsim=$1
costs=$(cd "$(dirname "$0")" && pwd)/../golden/costs.ini
tested=$dlsim
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

cp "$costs" costs.ini
scenario() { # file, sync mode, costs
    printf '[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = %s\nbatch = 32\n[sync]\nmode = %s\n' \
        "$3" "$2" >"$1"
}
scenario good.ini async costs.ini
scenario mode.ini asink costs.ini
scenario lost.ini async nowhere.ini
sed -e '/^\[copy\]/,/^\[average\]/{/^\[average\]/!d}' -e '/^parameter_bytes/s/=.*/= 50 MB/' costs.ini >poor.ini
scenario poor_scenario.ini async poor.ini

expect 0 "Usage: dlsim" --help
# Options are listed by topic, the keys of a scenario first, wrapped to the terminal's width.
"$dlsim" --help >help.txt
[ "$(grep -c '^[A-Z].*:$' help.txt)" -ge 8 ] && [ "$(sed -n '/:$/p' help.txt | head -1)" = "Model and costs:" ] &&
    ! grep -qx 'Options:' help.txt && ! grep -q '.\{80\}' help.txt ||
    { echo "FAIL: --help has no topics: $(grep ':$' help.txt)"; failures=$((failures + 1)); }
[[ $(tr -s ' \n' ' ' <help.txt) == *"Number of steps of each worker ([scenario] steps; default 200). "* ]] ||
    { echo "FAIL: --help names no keys: $(cat help.txt)"; failures=$((failures + 1)); }
expect 0 "dlsim " --version
expect 2 "did you mean '--check'?" --chek good.ini
expect 2 ""
expect 1 "mode.ini:8:" mode.ini
expect 1 "async" mode.ini
expect 1 "nowhere.ini" lost.ini
expect 1 "[copy] latency_ns" poor_scenario.ini --set workload.missing=refuse
expect 1 "[copy] bandwidth_bytes_per_s" --check poor_scenario.ini --set workload.missing=refuse
expect 0 "costs that are missing are assumed" --check poor_scenario.ini
expect 0 "note: assumed [copy] bandwidth_bytes_per_s = 10 GB/s (3.333 GB/s to 30 GB/s): one core streaming from memory" --check poor_scenario.ini
# A missing key is reported with the option that requires it.
expect 2 "dlsim: --noise lognormal: this needs [noise] sigma (--set noise.sigma=NUMBER)" --machine 8xh100 --workload resnet50 \
    --batch 64 --noise lognormal
# Measured rows accept other programs' words for modes, and times with a unit.
printf 'workers,batch,mode,step_s\n8,256,ddp,0.2\n8,256,DDP,200ms\n' >words.csv
expect 0 " 1280 " --machine 8xh100 --workload resnet50 --batch 256 --workers 8 --mode ddp --measured words.csv -o words_out.csv
printf 'workers,batch,mode,step_s\n8,256,ddp,200 furlong\n' >words.csv
expect 1 "words.csv:2: step_s = 200 furlong: unknown unit 'furlong'" --machine 8xh100 --workload resnet50 --batch 256 \
    --workers 8 --mode ddp --measured words.csv -o words_out.csv
# Half of the measured steps are shorter than all simulated ones.
printf 'workers,batch,mode,step_s,step_quantiles_s\n8,256,ddp,0.2,1e-9;1\n' >words.csv
expect 0 "distance from the simulated ones 50 % (median over 1 point), at most 50 %" --machine 8xh100 --workload resnet50 \
    --batch 256 --workers 8 --mode ddp --measured words.csv -o words_out.csv
grep -q ',step_distance_frac\(,\|$\)' words_out.csv || fail "no step_distance_frac in: $(cat words_out.csv)"
# Rows of a file's measured table that lose their point by options are left out, and counted.
printf '[measured]\nfile = kept.csv\n' | cat good.ini - >kept.ini
printf 'workers,batch,sync,throughput_per_s\n2,32,async,1000\n4,32,async,2000\n' >kept.csv
expect 1 "kept.csv:3: no point of the scenario has these keys: in the nearest, workers is 2, not 4" kept.ini -o kept_out.csv
expect 0 "left out: 1 measured row: no point has the same keys" kept.ini --workers 2 -o kept_out.csv
expect 0 "error over 1 measured point" kept.ini --workers 2 -o kept_out.csv
expect 0 "left out: 2 measured rows: no point has the same keys" kept.ini --workers 1 -o kept_out.csv
expect 1 "kept.csv:3: no point of the scenario has these keys" kept.ini --workers 2 --measured kept.csv -o kept_out.csv
expect 0 "" --check good.ini
[ ! -e results.csv ] || { echo "FAIL: results of runs that failed or only checked"; failures=$((failures + 1)); }

expect 0 "samples/s" good.ini -o r.csv --histogram h.csv --timeline t.json
expect 0 "note: measure first: [copy] bandwidth_bytes_per_s, by dlprof bench" poor_scenario.ini -o poor.csv
expect 0 "note: also assumed, each under 0.5 % of samples/s (sources in the results): [copy] latency_ns = 500 ns" poor_scenario.ini -o poor.csv
grep -q '^# assumed: \[copy\] bandwidth_bytes_per_s=1e+10 low=3.33.* at_low_frac=-0\.[0-9]* ' poor.csv ||
    { echo "FAIL: the results do not name what was assumed: $(grep '^#' poor.csv)"; failures=$((failures + 1)); }
grep -q '^# assumed' r.csv && { echo "FAIL: something is assumed though all is given"; failures=$((failures + 1)); }
for file in r.csv h.csv t.json; do
    [ -s "$file" ] || { echo "FAIL: no $file"; failures=$((failures + 1)); }
done
expect 1 "--draw-machine needs a machine file" good.ini --draw-machine m.dot --check
gpu=$(dirname "$costs")/gpu_reduce.ini
expect 0 "no costs are missing" "$gpu" --draw-machine m.dot --check
grep -q -e '-- gpu0 \[label' m.dot || { echo "FAIL: the machine is not drawn"; failures=$((failures + 1)); }
expect 1 "No such file" "$gpu" --draw-machine no/such/m.dot --check

expect 0 "" good.ini -o again.csv --threads 2 --quiet
cmp -s r.csv again.csv || { echo "FAIL: equal seeds, other results"; failures=$((failures + 1)); }
expect 0 "What takes the time:" good.ini -o explained.csv --explain
expect 0 "what takes time" --costs costs.ini --batch 32 --workers 1,2 --cores 2 -o explained.csv --explain --point 1
expect 0 "With 1 worker (" --costs costs.ini --batch 32 --workers 1,2 --cores 2 -o explained.csv --explain --point 1
grep -q '^# gain: cost=compute half=' explained.csv || { echo "FAIL: no gains in the results"; failures=$((failures + 1)); }
expect 0 "Advised: 2 workers, batch 32" good.ini --mode allreduce --advise -o advice.csv --save advised.ini
[ "$(grep -c '^1,' advice.csv)" -eq 1 ] || { echo "FAIL: no rank 1 in the advice"; failures=$((failures + 1)); }
expect 0 "samples/s" advised.ini -o advised.csv
expect 1 "points is within the limits" good.ini --advise --for deadline --deadline 1e-6 --samples 1e9 -o advice.csv
expect 2 "--budget needs the length of the training" good.ini --advise --budget 3
expect 2 "--epochs needs --samples-per-epoch" good.ini --advise --epochs 3
expect 2 "--max-batch needs --advise" good.ini --max-batch 3
expect 2 "--html cannot be combined with --advise" good.ini --advise --html x.html
"$tested" good.ini -o - >printed.csv && "$tested" good.ini -q -o written.csv || fail "-o -"
cmp printed.csv written.csv || fail "-o FILE is not -o -"
expect 2 "--output - and --json -: give only one" good.ini -o - --json -
"$tested" good.ini --mode allreduce --advise --json - >advice.json || fail "--advise --json"
python3 -c 'import json, sys
advice = json.load(open("advice.json"))
best = advice["rows"][0]
sys.exit((advice["format"], best["rank"], best["workers"], best["batch_of_all"]) != ("dlsim advice", 1, "2", 32) or
         len(advice["rows"]) != advice["search"]["points"])' || fail "advice as JSON: $(cat advice.json)"
rm -f advice.csv
expect 0 "points in advised.json" good.ini --mode allreduce --advise --json advised.json
cmp advice.json advised.json || fail "--json FILE is not --json -"
[ ! -e advice.csv ] || fail "--advise --json FILE also writes a CSV file"
expect 2 "--solve needs --target" good.ini --solve batch
expect 2 "--explain cannot be combined with --solve" good.ini --solve batch --target step_mean_s=1 --explain
# Keys of switches between nodes are rejected without such switches.
fabric=(--workload gpt2 --machine 4x1xrtx4090@10gbe --workers 4 --batch-per-worker 8 --steps 1 --set fabric.oversubscription=4)
expect 2 "--set fabric.oversubscription=4: this needs [fabric] topology = fat_tree, rail; here it is none" "${fabric[@]}"
expect 2 "here it is none" "${fabric[@]}" --set fabric.topology=none
expect 2 "here it is torus" "${fabric[@]}" --set fabric.topology=torus --set fabric.size_x=4
expect 0 "2 points" "${fabric[@]}" --set fabric.topology=none,fat_tree --set fabric.group_nodes=2
# A placement gives the workers, in place of the default ones.
expect 0 "4 GPUs, allreduce, placement 4" --samples-per-s 300 --parameters 25.6M --machine 2x4xv100@100ib \
    --batch-per-worker 16 --steps 2 --set machine.placement=31,4 -o c.csv
# Keys of a job that nothing stops, and of batches that take no time.
expect 2 "--set failures.restart_s=9: this needs mtbf_s, node_mtbf_s or at_s" good.ini --set failures.restart_s=9
expect 2 "--set failures.job_steps=9: this needs mtbf_s, node_mtbf_s or at_s, or checkpoint_steps" good.ini --set failures.job_steps=9
expect 0 "samples/s" good.ini --set failures.checkpoint_s=9 --set failures.checkpoint_steps=9 -o c.csv
expect 0 "[op input]: [input] cores make batches in no time" "${fabric[@]:0:10}" --set input.cores=4 --notes -o c.csv
expect 0 "[input] stored_bytes_per_sample: [input] cached_frac has nothing to read" "${fabric[@]:0:10}" \
    --set input.cached_frac=0.5 --notes -o c.csv
expect 0 "samples/s" "${fabric[@]}" --set fabric.topology=fat_tree --set fabric.group_nodes=2
slow=(--workload gpt2 --machine 4x1xrtx4090@10gbe --workers 4 --batch-per-worker 8 --mode "allreduce,average" --interval 10,100)
expect 0 "The fastest of all points: 4 GPUs (batch 8 each, average, interval" "${slow[@]}" --explain --point 1 -o target.csv
expect 0 "bound by node0 port0 up; then compute" "${slow[@]}" --explain --point 1 -o target.csv
# Tables are as wide as COLUMNS says, and have a column of factors only if some are given.
for width in 80 160; do
    COLUMNS=$width "$tested" "${slow[@]}" --set target.samples=1e6 -o target.csv | grep '^workers.*samples/s' >head.txt
    grep -q "factor" head.txt && fail "a column of factors 1: $(cat head.txt)"
    [ "$(grep -c "tokens/s MFU %" head.txt)" -eq $((width == 160)) ] || fail "COLUMNS=$width: $(cat head.txt)"
done
expect 0 " factor hours" "${slow[@]}" --set target.samples=1e6 --set target.factor=average:1.1 -o target.csv
# An interval of 100 is faster, but needs three times the samples.
expect 0 "The first at the target of all points: 4 GPUs (batch 8 each, average, interval
10), in " "${slow[@]}" --set target.samples=1e6 --set "target.factor=interval 10:1, interval 100:3" --explain --point 1 -o target.csv
expect 0 "With parameter_bytes = " good.ini --solve parameter_bytes --target step_mean_s=0.05
expect 0 "of 2 targets are reached." "${slow[@]}" --workers 4 --mode average --solve sync.interval --target utilisation_frac=0.9,0.01 -o target.csv
expect 0 "1 row in solved.csv" good.ini --solve parameter_bytes --target step_mean_s=0.05
# 100 samples/s take 1 s for 100 samples; a search for the batch needs none to start from.
expect 0 "With batch_per_worker = 100, step_mean_s is 1: " --samples-per-s 100 --parameters 1e6 --cores 4 --workers 1 \
    --solve batch_per_worker --target step_mean_s=1
expect 2 "is missing" --samples-per-s 100 --parameters 1e6 --cores 4 --solve parameter_bytes --target step_mean_s=1
expect 1 "no parameter_bytes gives staleness_mean = 5: it is 0.9" good.ini --solve parameter_bytes --target staleness_mean=5 -o ends.csv
expect 1 "--for cost: a machine without a machine file has no price" good.ini --advise --for cost
expect 0 "samples/s" good.ini -o without.csv --without copy,sharing
grep -q '^# without: copy+sharing$' without.csv || { echo "FAIL: what is off is not told"; failures=$((failures + 1)); }
expect 2 "did you mean 'copy'?" good.ini --without coppy
for shown in "$(dirname "$0")"/../../scenarios/modes/cpu_[hw]*.ini; do
    expect 0 "no costs are missing" --check "$shown"
done
[ ! -e /dev/full ] || expect 1 "/dev/full" good.ini -o /dev/full
[ ! -e /dev/full ] || tested=bash expect 1 "standard output: cannot write" -c '"$0" good.ini >/dev/full' "$dlsim"
expect 1 "no/such/folder" good.ini -o no/such/folder/r.csv

# Inputs are not overwritten, nor one output by another; this is checked before the simulation.
cp good.ini kept.ini
cp costs.ini kept_costs.ini
ln -s good.ini link.ini
expect 2 "--output would overwrite the scenario: good.ini" good.ini -o good.ini
expect 2 "--output would overwrite the scenario: link.ini" good.ini -o link.ini
expect 2 "--timeline would overwrite the cost file: ./costs.ini" good.ini -o x.csv --timeline ./costs.ini
expect 2 "--timeline is the same file as --output: x.csv" good.ini -o x.csv --timeline x.csv
expect 2 "--output: the name of the file is empty" good.ini -o ""
cp "$gpu" gpu.ini
machine=$(sed -n 's/^file *= *//p' gpu.ini)
mkdir -p "$(dirname "$machine")"
cp "$(dirname "$gpu")/$machine" "$machine"
cp "$(dirname "$gpu")/$(sed -n 's/^costs *= *//p' gpu.ini)" "$(sed -n 's/^costs *= *//p' gpu.ini)"
expect 2 "--draw-machine would overwrite the machine file" gpu.ini --draw-machine "$machine" --check
expect 0 "" gpu.ini --output "$machine" --check
printf '[measured]\nfile = rows.csv\n' | cat good.ini - >measured.ini
echo 'workers,batch,throughput_per_s
2,32,1000' >rows.csv
expect 2 "--histogram would overwrite the measured file: rows.csv" measured.ini -o x.csv --histogram rows.csv
cmp -s good.ini kept.ini && cmp -s costs.ini kept_costs.ini && [ ! -e x.csv ] ||
    { echo "FAIL: an input was written over"; failures=$((failures + 1)); }

# A full disk (simulated by a file size limit, with its signal ignored) leaves the old files unchanged.
cp r.csv old.csv
cp t.json old.json
full_disk='trap "" XFSZ; ulimit -f 0; exec "$0" good.ini "$@"'
tested=bash expect 1 "r.csv: cannot write: File too large" -c "$full_disk" "$dlsim" -o r.csv
tested=bash expect 1 "t.json: cannot write: File too large" -c "$full_disk" "$dlsim" -o /dev/null --timeline t.json
tested=bash expect 1 "s.csv: cannot write: File too large" -c "$full_disk" "$dlsim" -o /dev/null --schedule s.csv
tested=bash expect 1 "h.csv: cannot write: File too large" -c "$full_disk" "$dlsim" -o /dev/null --histogram h.csv
cmp -s r.csv old.csv && cmp -s t.json old.json || { echo "FAIL: a failed run touched the old files"; failures=$((failures + 1)); }
[ ! -e s.csv ] && [ -z "$(find . -name '.*.partial*')" ] || { echo "FAIL: a failed run left parts"; failures=$((failures + 1)); }

# Notes report values decided by a default, and given values only for input, which may be set too low.
expect 0 "  cores" --keys input
expect 2 "did you mean 'input'?" --keys inptu
expect 2 "did you mean 'host'?" --keys hos
expect 0 "  fp32_flop_per_s" --keys gpu_model
t4=$(cd "$(dirname "$0")/../.." && pwd)/scenarios/t4
mkdir -p t4
sed -e "/^cores/d" -e "s|= *\.\./|= $t4/../|" "$t4/allreduce.ini" >t4/slow_input.ini
sed -e "s|= *\.\./|= $t4/../|" -e '/^overlap/d' -e '/^cores/s/=.*/= 16/' "$t4/allreduce.ini" >t4/no_overlap.ini
sed -e "s|= *\.\./|= $t4/../|" -e '/^\[sync\]/,/^\[/{/^mode/d}' -e '/^\[exchange\]/,/^$/d' "$t4/allreduce.ini" >t4/no_sync.ini
expect 0 "note: default [input] cores = 1: GPUs wait for input up to" t4/slow_input.ini -o d.csv
expect 0 "input %" t4/slow_input.ini -o d.csv
sed -e "/^cores/s/=.*/= 1/" -e "s|= *\.\./|= $t4/../|" "$t4/allreduce.ini" >t4/given_input.ini
expect 0 "note: [input] cores = 1: busy whenever batches can be made; GPUs wait for input up to" t4/given_input.ini -o g.csv
grep -q '^# note: \[input\] cores = 1: busy whenever' g.csv ||
    { echo "FAIL: the results do not name the cores that are busy"; failures=$((failures + 1)); }
sed 's/^stored_bytes_per_sample.*/stored_bytes_per_sample = 110kB, assumed/' "$t4/../costs/resnet50_t4.ini" >t4/stored.ini
sed -e "s|= *\.\./|= $t4/../|" -e 's|^costs .*|costs = stored.ini|' -e '/^\[input\]/a storage_bytes_per_s = 20MB/s' \
    -e '/^cores/s/=.*/= 16/' "$t4/allreduce.ini" >t4/storage.ini
expect 0 "note: [input] storage_bytes_per_s = 20.0 MB/s: read all the time; GPUs wait for input up to" t4/storage.ini -o g2.csv
# On cores: a step of 2 ms, 3 ms to make a batch, which has 4 MB in storage.
printf '[costs]\nschema = 1\ncores = 4\n[op step.forward]\nfixed_ns = 0\nper_sample_ns = 1000000\n' >loaded.costs.ini
printf '[sharing]\ncopies_2 = 1\n[sync]\nslice_ns = 4e6\n' >>loaded.costs.ini
cp loaded.costs.ini unloaded.costs.ini
printf '[op input]\nfixed_ns = 0\nper_sample_ns = 1500000\n[input]\nstored_bytes_per_sample = 2000000\n' >>loaded.costs.ini
loaded() { # cores, lines of [input]...: writes loaded.ini
    printf '[scenario]\nsteps = 100\nwarmup = 20\n[machine]\ncores = %d\nworkers = 1\n[workload]\n' "$1" >loaded.ini
    printf 'costs = loaded.costs.ini\nbatch = 2\n[sync]\nmode = none\n[input]\n' >>loaded.ini
    printf '%s\n' "${@:2}" >>loaded.ini
}
loaded 4 "cached_frac = 0"
expect 0 "note: default [input] loaders = 0: workers make their batches themselves: it takes up to 60.0 % of the time" loaded.ini -o l.csv
loaded 4 "loaders = 1"
expect 0 "note: [input] loaders = 1: busy whenever batches can be made; workers wait for input up to 33.3 % of the time" loaded.ini -o l.csv
expect 0 "    33.3 " loaded.ini -o l.csv
loaded 2 "loaders = 2"
expect 0 "note: [input] loaders = 2: they and training keep all cores busy; workers wait for input up to" loaded.ini -o l.csv
loaded 4 "loaders = 2" "prefetch = 0"
expect 0 "note: [input] prefetch = 0: workers wait for input up to 60.0 % of the time" loaded.ini -o l.csv
loaded 4 "loaders = 2" "storage_bytes_per_s = 1GB/s"
expect 0 "note: [input] storage_bytes_per_s = 1.00 GB/s: read all the time; workers wait for input up to 50.0 % of the time" loaded.ini -o l.csv
expect 0 " 2.00 ms" loaded.ini --without input -o l.csv
loaded 4 "loaders = 2"
"$dlsim" loaded.ini -o l.csv >l.txt
! grep -q 'note: .*\[input\]' l.txt || { echo "FAIL: a note of input that bounds nothing"; failures=$((failures + 1)); }
sed -i 's/= loaded.costs/= unloaded.costs/' loaded.ini
expect 0 "unknown in unloaded.costs.ini: [op input]: [input] loaders make batches in no time" loaded.ini -o l.csv
sed 's/^storage_bytes/shared_storage_bytes/' t4/storage.ini >t4/shared.ini
expect 0 "note: [input] shared_storage_bytes_per_s = 20.0 MB/s: read all the time; GPUs wait for input up to" t4/shared.ini -o g2.csv
grep -q '^# default: \[input\] cores' g.csv && { echo "FAIL: given cores are no default"; failures=$((failures + 1)); }
grep -q '^# default: \[input\] cores=1 rows=[1-9]* input_frac=0\.[0-9]*$' d.csv ||
    { echo "FAIL: the results do not name the default"; failures=$((failures + 1)); }
expect 0 "note: default [exchange] overlap = no: exchange does not run during" t4/no_overlap.ini -o d.csv
grep -q '^# default: \[input\] cores' d.csv && { echo "FAIL: a given key is no default"; failures=$((failures + 1)); }
expect 0 "note: default [sync] mode = none: workers do not exchange anything" t4/no_sync.ini -o d.csv
expect 0 "steps do not vary and GPUs of one model are equal ([spread] gpu_frac), so no worker is late by chance" \
    t4/no_overlap.ini -o d.csv
{ cat "$t4/../costs/resnet50_t4.ini"; printf '\n[spread]\ngpu_frac = 0.01\n'; } >t4/unequal.costs.ini
sed 's|^costs .*|costs = unequal.costs.ini|' t4/no_overlap.ini >t4/unequal.ini
lasting="note: default [noise] kind = none: steps do not vary: beyond lasting differences in speed, no worker is late"
expect 0 "$lasting" t4/unequal.ini -o d.csv
expect 0 "$lasting" t4/no_overlap.ini --set "noise.slow=0:1.1" -o d.csv

# Measured costs give an interval only with several runs.
measured="note: no interval, as a single run uses the mean costs: --replicates 20 draws them within"
printf '[costs]\nschema = 1\ncores = 2\nparameter_bytes = 1000\n[op step.forward]\nfixed_ns = 0\nper_sample_ns = 1000 +- 10\n' >errors.ini
expect 0 "$measured" --costs errors.ini --batch 64 --workers 1 --mode none -o d.csv
! "$dlsim" --costs errors.ini --batch 64 --workers 1 --mode none --replicates 2 -o d.csv | grep -q "$measured" ||
    { echo "FAIL: a note of no interval beside one"; failures=$((failures + 1)); }

# Processes divide states, threads share them.
sed '/^cores/a sharded = gradients' errors.ini >divided.ini
expect 0 "note: states are divided as [costs] sharded = gradients in divided.ini says" \
    --costs divided.ini --batch 64 --workers 2 --mode allreduce -o d.csv
threads="--workers 2 --set machine.processes=no"
# shellcheck disable=SC2086
expect 0 "note: [costs] sharded = gradients in divided.ini has no effect: workers on cores are threads, which each update all" \
    --costs divided.ini --batch 64 --mode none $threads -o d.csv
# shellcheck disable=SC2086
expect 2 "workers on cores are threads here, which share the parameters: [exchange] sharded (mode fsdp)" \
    --costs errors.ini --batch 64 --mode fsdp $threads -o d.csv

# Number of points: interval is not an option of async, so 2 workers x (2 intervals + 1) x 2 sigmas.
sized() { # file, workers, intervals, sigmas
    printf '[machine]\ncores = 4\nworkers = %s\n[workload]\ncosts = costs.ini\nbatch = 6400\n' "$2" >"$1"
    printf '[sync]\nmode = average, async\ninterval = %s\n[noise]\nkind = gamma\nsigma = %s\n' "$3" "$4" >>"$1"
}
sized twelve.ini 1,2 1,2 0.1,0.2
# One worker that exchanges with a server is slower than one alone: the parts of its step show the reason.
expect 0 "note: 1 worker with async is 0.123 times one without exchange: averaging 84 %, compute 12 %, communication 5 % of its step" \
    --workload gpt2 --machine dgx_h100 --workers 1 --batch-per-worker 8 --mode async,allreduce -o d.csv
expect 0 "12 points" twelve.ini --check
sized large.ini 1 "$(seq -s, 999)" "$(seq -s, 0.01 0.01 1.1)" # 1 x 1000 x 110
expect 1 "the lists make 1.1e+05 points, 1.1e+05 runs, about" large.ini --threads 2
expect 1 "shorten them, or run them all with --long" large.ini
expect 0 "110000 points" large.ini --check --long
# A run of days is rejected after its first seconds, also with --solve.
golden=$(dirname "$costs")
sed -e "s|gpu/|$golden/gpu/|" -e 's|^steps.*|steps = 3000000|' -e 's|^replicates.*|replicates = 300|' \
    "$golden/gpu_servers.ini" >days.ini
expect 1 "days.ini: this would take about" days.ini -q -o days.csv
expect 1 "estimated from the first" days.ini -q -o days.csv --solve machine.ahead --target throughput_per_s=1000000
[ -e days.csv ] && fail "days.ini: results of a run that was ended"
rm -f days.csv.journal
sized huge.ini 1,2,4,5,8 "$(seq -s, 9999)" "$(seq -s, 0.0001 0.0001 2)" # 5 x 10000 x 20000
rm -f results.csv
expect 1 "huge.ini: the lists make 1e+09 points, 1e+09 runs, about " huge.ini
[ -e results.csv ] && { echo "FAIL: a sweep that was refused has results"; failures=$((failures + 1)); }
echo 'stepps = 4' >>huge.ini
expect 1 "unknown key 'stepps'" huge.ini

# Pages without the simulator.
DLSCALE_SHARE=$folder/share expect 1 "share/page/dlsim.core: is not there" --html empty.html
mkdir -p share/page
echo "dlscale-core 3 0.1.0 none" >share/page/dlsim.core
echo "</script>" >share/page/live.js
DLSCALE_SHARE=$folder/share expect 1 "is not a core of a page" --html empty.html
[ -e empty.html ] && fail "a page without what it needs"
DLSCALE_SHARE=$folder/share expect 0 "page in page.html" good.ini --html page.html
grep -q "This page has no controls" page.html || fail "no reason why a page has no controls"

# The slowest steps are shown where steps vary.
slow=(--samples-per-s 600 --parameters 1M --machine 8xh100 --batch-per-worker 64 --workers 8 -o slow.csv)
expect 0 " step p99 " "${slow[@]}" --set noise.kind=lognormal --set noise.sigma=0.05
"$tested" "${slow[@]}" >even.txt || fail "steps without noise: exit $?"
grep -q "samples/s on 8xh100" even.txt || fail "no results without noise: $(cat even.txt)"
grep -q "p99" even.txt && fail "slow steps without noise"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
