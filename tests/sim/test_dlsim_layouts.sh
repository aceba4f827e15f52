#!/usr/bin/env bash
# dlsim --advise layout: the advised layout is no slower than others run one by one, its options reproduce its row,
# and scenarios that cannot be searched are rejected.
# Usage: test_dlsim_layouts.sh DLSIM
set -u
tested=$(realpath "$1")
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
model=(--workload gpt2:fused=yes --machine 8xh100 --batch 64 --mode allreduce --steps 2)
column() { # file, name of the column: its value in the first row
    python3 -c 'import csv, sys
rows = csv.DictReader(line for line in open(sys.argv[1]) if not line.startswith("#"))
print(next(iter(rows))[sys.argv[2]])' "$1" "$2"
}

"$tested" "${model[@]}" --advise layout -o advice.csv --save best.ini >advice.txt 2>&1 || fail "exit $?: $(cat advice.txt)"
[ "$(grep -c '^[^#]' advice.csv)" -ge 16 ] || fail "fewer than 15 rows: $(cat advice.txt)"
best=$(column advice.csv step_mean_s)
# The saved scenario reproduces the first row.
"$tested" best.ini -q -o again.csv || fail "best.ini: exit $?"
python3 -c "import sys; sys.exit(abs($(column again.csv step_mean_s) / $best - 1) > 1e-3)" ||
    fail "best.ini takes $(column again.csv step_mean_s) s, not $best"
# So do its options (without those on a second line, "  --set ...").
options=$(awk '/^Advised: / { on = 1 } on && !/^(Advised:| )/ { exit } on { sub(/^Advised:/, ""); printf "%s", $0 }' advice.txt)
# shellcheck disable=SC2086 # several words
"$tested" "${model[@]}" $options -q -o again.csv || fail "$options: exit $?"
python3 -c "import sys; sys.exit(abs($(column again.csv step_mean_s) / $best - 1) > 1e-3)" ||
    fail "$options takes $(column again.csv step_mean_s) s, not $best"
tr -s '\n ' ' ' <advice.txt |
    grep -qE 'told apart from the first: rows 2[0-9, to]*, slower in [0-9]+ to [0-9]+ of [0-9]+ draws\.' ||
    fail "rows that cannot be told apart: $(cat advice.txt)"
# A given schedule replaces those tried by default.
"$tested" "${model[@]}" --set pipeline.schedule=1f1b --advise layout -q -o given.csv || fail "schedule 1f1b: exit $?"
grep -q interleaved advice.csv || fail "no interleaved schedule is tried: $(cat advice.csv)"
! grep -q interleaved given.csv || fail "interleaved, though 1f1b is given: $(cat given.csv)"
# With given axes, the best layout that has them is in the table and compared with the advised one.
"$tested" "${model[@]}" --layout tp=4 --advise layout -o four.csv >four.txt 2>&1 || fail "--layout tp=4: exit $?: $(cat four.txt)"
[ "$(column four.csv layout)" = "$(column advice.csv layout)" ] || fail "--layout tp=4 changes what is advised: $(cat four.txt)"
grep -q '^The given layout, tp=4, at best --layout tp=4,' four.txt || fail "not compared with tp=4: $(cat four.txt)"
grep -q ',"tp=4,' four.csv || fail "no row with tp=4: $(cat four.csv)"
own=$(column advice.csv layout)
expect 0 "The given layout, pp=4,dp=2 | $own: that is the one advised" "${model[@]}" --layout "pp=4,dp=2 | $own" --advise layout
expect 0 "The given layout, fsdp=4,tp=2: not among those" "${model[@]}" --layout fsdp=4,tp=2 --advise layout
# Experts are divided as well, of programs whose kernels are fused.
experts=(--machine 8xh100 --batch 64 --mode allreduce --steps 2 --workload
    "transformer:layers=4,width=2048,heads=16,experts=64,active=2,expert_width=2048,gated=yes,norm=rms,bias=no,sequence=2048,positions=0,fused=yes")
"$tested" "${experts[@]}" --advise layout -q -o experts.csv --save experts.ini || fail "experts: exit $?"
ep_step=$(column experts.csv step_mean_s)
case "$(column experts.csv layout)" in *ep=*) ;; *) fail "no ep is advised: $(cat experts.csv)" ;; esac
"$tested" experts.ini -q -o again.csv || fail "experts.ini: exit $?"
python3 -c "import sys; sys.exit(abs($(column again.csv step_mean_s) / $ep_step - 1) > 1e-3)" ||
    fail "experts.ini takes $(column again.csv step_mean_s) s, not $ep_step"
expect 0 "The given layout, ep=8, at best --layout ep=8 --micro-batch" "${experts[@]}" --layout ep=8 --advise layout
"$tested" "${experts[@]/fused=yes/fused=no}" --advise layout --max-points 30 -q -o plain.csv || fail "experts, fused=no: exit $?"
! grep -q 'ep=' <(grep -v '^#' plain.csv | cut -d, -f1-3) || fail "ep with fused=no: $(cat plain.csv)"
# Layouts do not repeat what is said of the whole model.
"$tested" "${experts[@]}" --layout 'ep=8 | ep=4,tp=2 | fsdp=8' -q -o notes.csv || fail "layouts of experts: exit $?"
for words in 'each of 64 experts is assumed' 'times of transformer:'; do
    [ "$(grep -c "^# note: $words" notes.csv)" -eq 1 ] || fail "'$words', not once: $(grep note: notes.csv)"
done
# Frameworks refuse tp that does not divide the heads of keys and values (4 here), or the tokens (197), and stages with
# chunks that do not divide the blocks (32), alone or with embedding and loss (33, 34); given chunks are not checked.
heads=(--workload qwen3_30b_a3b:layers=2,fused=yes --machine 8xh100 --batch 64 --advise layout --max-points 1 --layout)
expect 0 "The given layout, tp=4,dp=2: that is" "${heads[@]}" tp=4,dp=2
expect 0 "The given layout, tp=8: not among those" "${heads[@]}" tp=8
tokens=(--machine 8xh100 --batch 64 --advise layout --max-points 1 --layout tp=2,dp=4 --workload)
expect 0 "The given layout, tp=2,dp=4: not among those" "${tokens[@]}" vit_b16
expect 0 "The given layout, tp=2,dp=4: that is" "${tokens[@]}" vit_b16:sequence_parallel=no
blocks=(--workload llama3_8b:fused=yes --machine 1xdgx_h100 --batch 64 --micro-batch 1,2 --recompute none,full
    --set pipeline.schedule=interleaved)
"$tested" "${blocks[@]}" --advise layout -q -o blocks.csv || fail "blocks: exit $?"
python3 -c 'import csv, sys
rows = [row for row in csv.DictReader(line for line in open("blocks.csv") if not line.startswith("#")) if row["chunks"]]
pieces = {int(row["chunks"]) * int(row["layout"].split("pp=")[1].split(",")[0]) for row in rows}
sys.exit(not pieces or any(34 % n > 2 for n in pieces))' || fail "blocks cannot be divided so: $(cat blocks.csv)"
expect 0 "chunks 6" "${blocks[@]}" --layout tp=2,pp=2,fsdp=2 --micro-batch 1 --recompute none --set pipeline.chunks=6 --advise layout
# Long sequences are divided as well, into parts of at least 8192 tokens: among 2 and 4 GPUs of 8, not among 8.
long=(--machine 8xh100 --batch 8 --mode allreduce --steps 2 --workload llama3_8b:layers=2,sequence=32768,fused=yes)
"$tested" "${long[@]}" --advise layout -q -o long.csv --save long.ini || fail "long: exit $?"
grep -q 'cp=[24]' long.csv || fail "no cp is tried: $(cat long.csv)"
! grep -q 'cp=8' long.csv || fail "parts of 4096 tokens: $(cat long.csv)"
expect 0 "The given layout, cp=4,dp=2, at best --layout cp=4,dp=2 --micro-batch" "${long[@]}" --layout cp=4,dp=2 --advise layout
expect 0 "The given layout, cp=8: not among those" "${long[@]}" --layout cp=8 --advise layout
# GPUs with parts of the same sequences share parameters too: without cp none fits here.
expect 0 "All GPUs sharing all parameters, at best --layout cp=" --workload llama3_8b:sequence=32768,fused=yes \
    --machine 8xh100 --batch 8 --advise layout --max-points 30
# Recomputation without a saving is not tried, and is reported in its row: fused attention saves no scores.
number_of() { grep -oE '^Of [0-9]+ layouts' "$1"; }
"$tested" "${model[@]}" --recompute none,products,full --advise layout --max-points 1 -o saving.csv >saving.txt 2>&1
[ "$(number_of saving.txt)" = "$(number_of advice.txt)" ] || fail "other recomputation than none,products,full: $(cat advice.txt)"
for recompute in none,selective,products,full auto; do
    "$tested" "${model[@]}" --workload gpt2:attention=plain --recompute $recompute --advise layout --max-points 1 -o plain.csv 2>&1 |
        grep -oE '^Of [0-9]+ layouts' >"plain_$recompute.txt"
done
[ -s plain_auto.txt ] && cmp -s plain_*.txt || fail "plain attention: $(cat plain_*.txt)"
expect 0 "selective computes attention again and saves no memory" "${model[@]}" --recompute selective --layout dp=8 --notes
"$tested" "${model[@]}" --workload gpt2:attention=plain --recompute selective --layout dp=8 --notes 2>&1 |
    grep -q 'saves no memory' && fail "plain attention saves no memory"
# A node count in a machine's name is a limit; nodes are added to other machines. Idle GPUs are reported.
layout=(--workload gpt2 --batch 64 --micro-batch 1 --mode none --steps 1 --layout)
expect 2 "128 GPUs, there are 64" "${layout[@]}" tp=4,fsdp=32 --machine 8xdgx_h100
expect 2 "16 GPUs, there are 8" "${layout[@]}" tp=4,fsdp=4 --machine 2x4xh100@400ib
expect 2 "16 GPUs, there are 4" "${layout[@]}" tp=4,fsdp=4 --machine 1xg5.12xlarge
expect 0 "16 nodes" "${layout[@]}" tp=4,fsdp=32 --machine dgx_h100
expect 0 "4 nodes" "${layout[@]}" tp=4,fsdp=4 --machine 4xh100@400ib
expect 0 "largest layout uses 8 of the machine's 16 GPUs" "${layout[@]}" 'tp=4,dp=1 | tp=2,fsdp=4,dp=1' \
    --machine 16xh100 --notes
"$tested" "${layout[@]}" 'tp=4,dp=1 | tp=4,dp=4' --machine 16xh100 --notes 2>&1 | grep 'are idle' &&
    fail "GPUs that the second layout uses are idle"
# NVLink joins all 72 GPUs of a rack. Boxes of four GPUs and two racks have NICs only, which a note says of boxes.
trays=(--workload llama3_8b:fused=yes --batch 8 --micro-batch 1 --mode none --steps 1 --layout tp=8,dp=1)
frac() { "$tested" "${@:2}" --machine "$1" -q -o rack.csv && column rack.csv communication_frac; }
awk -v rack="$(frac gb200_nvl72 "${trays[@]}")" -v boxes="$(frac 2x4xgb200@4x400ib "${trays[@]}")" \
    'BEGIN { exit !(rack > 0 && rack < 0.25 && boxes > 0.5) }' || fail "tp=8 communicates in a rack as in boxes"
racks=(--workload vgg16 --batch-per-worker 16 --set exchange.overlap=no --steps 2)
awk -v one="$(frac 1xgb200_nvl72 "${racks[@]}" --workers 72)" -v two="$(frac 2xgb200_nvl72 "${racks[@]}" --workers 144)" \
    'BEGIN { exit !(one > 0 && two > 1.01 * one) }' || fail "two racks communicate as one"
# A rack has one processor for every two GPUs, through whose memory the batches come.
awk -v input="$(column rack.csv input_frac)" 'BEGIN { exit !(input >= 0 && input < 0.03) }' || fail "input in a rack: $(cat rack.csv)"
expect 0 "nodes of 4 gb200 exchange over their NICs here; NVLink joins all 72 GPUs of a rack: --machine gb200_nvl72" \
    "${trays[@]}" --machine 2x4xgb200@4x400ib
expect 0 "the largest layout uses 48 of the machine's 64 GPUs, the other 16 are idle" "${layout[@]}" tp=4,pp=3,fsdp=4 \
    --machine 8xdgx_h100 --notes
# Layers that nodes divide are noted.
cross=(--workload llama3_8b:fused=yes --batch 16 --micro-batch 1 --recompute full --steps 1 --notes)
expect 0 "in each pass; with tp first in --layout one node's GPUs do" "${cross[@]}" --mode none \
    --machine 4xdgx_h100 --layout cp=4,tp=8
expect 0 "tp = 16: GPUs of several nodes divide each layer and exchange activations over the network in each pass" \
    "${cross[@]}" --mode none --machine 2xdgx_h100 --layout tp=16
"$tested" "${cross[@]}" --mode none --machine 2xdgx_h100 --layout tp=16 2>&1 | grep 'with tp first' &&
    fail "16 GPUs are on one node if tp is first"
"$tested" "${cross[@]}" --mode none --machine 4xdgx_h100 --layout tp=8,cp=4 2>&1 | grep 'GPUs of several nodes' &&
    fail "nodes divide layers if tp is first"
# Time of the exchanges within layers is not said to be that of gradients, which one replica on tp has none to exchange.
expect 0 "gradients are not exchanged during the backward pass; with the exchanges within layers this takes" "${cross[@]}" \
    --mode allreduce --machine 1xdgx_h100 --layout cp=2,tp=4
"$tested" "${cross[@]}" --mode allreduce --machine 1xdgx_h100 --layout tp=8,dp=1 2>&1 | grep 'during the backward pass' &&
    fail "gradients of one replica are exchanged"
# A layout that does not divide the network is refused before a batch that it does not divide.
expect 1 "tp = 3 does not divide heads = 32" "${cross[@]}" --mode none --machine 1xdgx_h100 --layout tp=3,dp=2 --batch 7
# Advised layouts divide the whole batch: four GPUs cannot share six samples, so fsdp=4 is no remedy.
"$tested" --workload llama3_8b:fused=yes --machine 8xh100 --layout fsdp=2 --batch-per-worker 6 --micro-batch 1 --mode none \
    --fits >six.txt 2>&1
[ $? -eq 3 ] || fail "six samples fit: $(cat six.txt)"
grep -q 'what fits: --recompute full' six.txt || fail "another remedy: $(cat six.txt)"
# Schedules and chunks are rejected if no layout has stages.
expect 1 "schedule = gpipe: this needs stages" "${layout[@]}" 'tp=4,fsdp=2 | fsdp=8' --set pipeline.schedule=gpipe --machine 8xh100
chunks=(--set pipeline.schedule=interleaved --set pipeline.chunks=2 --machine 8xh100)
expect 1 "chunks = 2: this needs stages" "${layout[@]}" 'tp=4,fsdp=2 | fsdp=8' "${chunks[@]}"
expect 0 "samples/s" "${layout[@]}" 'pp=2,fsdp=4 | fsdp=8' "${chunks[@]}"
expect 0 "Advised" "${layout[@]}" tp=4 "${chunks[@]}" --advise layout --max-points 1
# Stages gather parameters once a step anyway.
kept=(--set exchange.reshard_after_forward=no --machine 8xh100 --notes)
expect 0 "reshard_after_forward has no effect with stages" "${layout[@]}" pp=2,fsdp=4 --mode allreduce "${kept[@]}"
"$tested" "${layout[@]}" fsdp=8 --mode allreduce "${kept[@]}" 2>&1 | grep 'reshard_after_forward has no effect' &&
    fail "reshard_after_forward has an effect without stages"
# Layouts with more stages use 1F1B, which has no chunks.
"$tested" --workload llama3_405b:fused=yes --machine 16x8xh100@400ib --batch-per-worker 64 --micro-batch 1 \
    --mode allreduce --layout tp=8,pp=4 "${chunks[@]:0:4}" >deep.txt 2>&1
[ $? -eq 3 ] || fail "four stages fit: $(cat deep.txt)"
tr -s '\n ' ' ' <deep.txt | grep -q -- '--layout tp=8,pp=8,fsdp=2 --micro-batch 1 --set pipeline.schedule=1f1b --set pipeline.chunks=1 (82.5' ||
    fail "other stages fit: $(cat deep.txt)"
# Megatron's usual choice adds stages before recomputation.
"$tested" --workload llama3_70b:fused=yes --machine 8xdgx_h100 --batch 64 --micro-batch 1 --set pipeline.schedule=1f1b \
    --mode allreduce --steps 1 --advise layout --max-points 30 -o usual.csv >usual.txt 2>&1 || fail "exit $?: $(cat usual.txt)"
tr -s '\n ' ' ' <usual.txt | grep -qE "Megatron's usual choice [^:]*, at best --layout tp=[0-9]+,pp=[^:]* --recompute (none|products)" ||
    fail "no stages, or full recomputation: $(cat usual.txt)"
expect 0 "recompute products" "${model[@]}" --recompute products --advise layout --max-points 10
# Other layouts, one by one.
for layout in dp=8 fsdp=8 tp=2,dp=4 tp=2,fsdp=4 tp=8 pp=2,dp=4 pp=2,fsdp=4 pp=4,dp=2 tp=2,pp=2,dp=2; do
    for size in 1 2 4 8; do
        "$tested" "${model[@]}" --layout "$layout" --micro-batch $size -q -o other.csv \
            >/dev/null 2>&1 || continue
        step=$(column other.csv step_mean_s)
        python3 -c "import sys; sys.exit(float('${step:-inf}') < $best * 0.999)" ||
            fail "$layout, micro-batch $size takes $step s, less than the advised $best s"
    done
done
# Equal layouts share one row, which gives their number; JSON and page have the same rows.
"$tested" "${model[@]}" --advise layout --json advice.json --html advice.html -q >/dev/null 2>&1 || fail "exit $?"
python3 - <<'END' || fail "advice.csv, advice.json, advice.html"
import csv, json
rows = list(csv.DictReader(line for line in open("advice.csv") if not line.startswith("#")))
kinds = {}
for row in rows:
    key = tuple(sorted(row["layout"].split(","))), row["micro_batch"], row["recompute"]
    kinds.setdefault(key, []).append(float(row["step_mean_s"]))
for key, steps in kinds.items():
    steps.sort()
    assert all(b > 1.004 * a for a, b in zip(steps, steps[1:])), (key, steps)
assert sum(int(row["equal_layouts"]) for row in rows) > 0
document = json.load(open("advice.json"))
assert len(document["rows"]) == len(rows)
assert [str(int(row["equal_layouts"])) for row in document["rows"]] == [row["equal_layouts"] for row in rows]
page = open("advice.html").read()
for text in (">layout<", "memory %", "MFU %", "equal", rows[0]["layout"]):
    assert text in page, text
END
# At most the requested number of runs.
simulated=$("$tested" "${model[@]}" --advise layout --max-points 30 -o few.csv 2>&1 | tr '\n' ' ' | grep -o '[0-9]* were *simulated' | grep -o '^[0-9]*')
[ "${simulated:-31}" -le 30 ] || fail "--max-points 30: $simulated simulated"
# Advised layouts fit by --fits, and layouts that do not fit are not advised.
large=(--workload llama3_8b:fused=yes --machine 8xh100 --batch 64 --mode allreduce)
"$tested" "${large[@]}" --recompute none --micro-batch 1,2 \
    --advise layout -o large.csv >large.txt 2>&1 || fail "exit $?: $(cat large.txt)"
for layout in fsdp=8 tp=2,fsdp=4 tp=2,pp=2,fsdp=2 tp=4,fsdp=2 tp=8; do
    for size in 1 2; do
        verdict=$("$tested" "${large[@]}" --layout "$layout" --micro-batch $size --recompute none --fits |
            grep -oE ' (yes|no|without cache) ' | sort -u | tr -d '\n')
        advised=$(python3 -c 'import csv, sys
rows = csv.DictReader(line for line in open("large.csv") if not line.startswith("#"))
print(any(row["layout"] == sys.argv[1] and row["micro_batch"] == sys.argv[2] for row in rows))' "$layout" $size)
        echo "$layout $size:$verdict $advised" >>verdicts
    done
done
grep -q ' without cache .*True\| no .*True' verdicts && fail "advised, and does not fit: $(cat verdicts)"
grep -q ' yes  *True' verdicts || fail "nothing of these is advised: $(cat verdicts)"
grep -q ' without cache ' verdicts || fail "all fit, or none does: $(cat verdicts)"
# The fastest layout that fits only without the allocator's cache is named, with its rate and the missing memory.
line=$(tr -s '\n ' ' ' <large.txt | grep -oE 'but fits only without the cache: --layout .* it lacks [0-9.]* GB')
options=$(sed 's/.*cache: //; s/, [0-9.]* samples.*//' <<<"$line")
# shellcheck disable=SC2086 # several words
"$tested" "${large[@]}" $options -q -o uncached.csv || fail "uncached, $line: exit $?"
python3 - "$line" "$(column uncached.csv throughput_per_s)" "$(column large.csv throughput_per_s)" "$(column uncached.csv memory_bytes)" <<'END' || fail "uncached: $line"
import re, sys
rate, ratio, lacks = (float(n) for n in re.search(r" ([0-9.]+) samples/s, ([0-9.]+) times .* lacks ([0-9.]+) GB", sys.argv[1]).groups())
alone, advised, needs = (float(text) for text in sys.argv[2:])
assert abs(rate / alone - 1) < 1e-3 and ratio > 1 and abs(ratio * advised / alone - 1) < 0.01, (rate, ratio, alone, advised)
has, workspace = 85.52, 1  # GB
assert abs(needs / 1e9 + 0.3 * (needs / 1e9 - workspace) - has - lacks) < 0.1, (needs, lacks)
END
expect 3 "--advise layout: none of " --workload llama3_405b --machine 8xh100 --batch 8 --advise layout
expect 2 "--batch, of all workers" --workload gpt2 --machine 8xh100 --batch-per-worker 8 --advise layout
expect 2 "did you mean 'layout'?" --workload gpt2 --machine 8xh100 --batch 64 --advise=layuot
expect 2 "chooses a layout of all GPUs by itself" --workload gpt2 --machine 8xh100 --batch 64 --set machine.gpus=0,1 --advise layout
expect 2 "--workers: --advise layout chooses a layout of all GPUs by itself" --workload gpt2 --machine 8xh100 --batch 64 --workers 4 --advise layout
expect 2 "--max-staleness cannot be combined with --advise layout" --workload gpt2 --machine 8xh100 --batch 64 --advise layout --max-staleness 1
# Efficiency counts a slower GPU by its speed, in workers of several GPUs too: here that of two beside one, on A100.
mixed=(-q --workload gpt2 --batch-per-worker 8 --steps 20)
"$tested" "${mixed[@]}" --machine 1xv100 --mode none --arithmetic fp32 -o slow.csv
"$tested" "${mixed[@]}" --machine 1xa100 --mode none --arithmetic fp32 -o fast.csv
"$tested" "${mixed[@]}" --machine 2xa100+2xv100 --layout tp=2 --workers 2 --arithmetic fp32 -o mixed.csv
awk -v fast="$(column fast.csv throughput_per_s)" -v slow="$(column slow.csv throughput_per_s)" \
    -v speedup="$(column mixed.csv speedup)" -v efficiency="$(column mixed.csv efficiency)" \
    'BEGIN { off = efficiency * (1 + slow / fast) / speedup - 1; exit !(slow < 0.9 * fast && off < 0.02 && off > -0.02) }' ||
    fail "efficiency of mixed GPUs: $(column mixed.csv efficiency)"
expect 2 "machine.reads=batch: not with [machine] dispatch = single" --workload gpt2 --machine 8xh100 --batch 64 --set machine.reads=batch --set machine.dispatch=single
expect 2 "--explain cannot be combined with --advise" --workload gpt2 --machine 8xh100 --batch 64 --advise layout --explain
# A worker of eight GPUs that each fail once in 8e6 s fails as often as a node that fails once in 1e6 s.
for fails in mtbf_s=8e6 node_mtbf_s=1e6; do
    "$tested" -q --workload gpt2 --machine 8xh100 --batch 64 --layout fsdp=8 --mode allreduce --steps 3 \
        --set failures.$fails --set failures.checkpoint_s=30 --set failures.job_steps=1000000 -o fails.csv
    python3 -c 'import csv
row = next(csv.DictReader(line for line in open("fails.csv") if not line.startswith("#")))
print(row["job_goodput_frac"], row["best_checkpoint_steps"])' >>fails.txt || fail "$fails"
done
[ "$(wc -l <fails.txt)" -eq 2 ] && [ "$(sort -u fails.txt | wc -l)" -eq 1 ] || fail "failures: $(cat fails.txt)"
# The target sets the length of a job: 640000 samples are 10000 steps of 64.
for length in target.samples=640000 failures.job_steps=10000; do
    "$tested" -q --workload gpt2 --machine 8xh100 --batch 64 --layout fsdp=8 --mode allreduce --steps 3 \
        --set failures.mtbf_s=1e4 --set failures.restart_s=600 --set failures.checkpoint_s=30 \
        --set $length -o job.csv
    python3 -c 'import csv
row = next(csv.DictReader(line for line in open("job.csv") if not line.startswith("#")))
print(row["job_goodput_frac"], row["best_checkpoint_steps"])' >>job.txt || fail "$length"
done
[ "$(wc -l <job.txt)" -eq 2 ] && [ "$(sort -u job.txt | wc -l)" -eq 1 ] || fail "jobs: $(cat job.txt)"
expect 0 "are those of a job of 3 steps" --workload gpt2 --machine 8xh100 --batch 64 --layout fsdp=8 \
    --mode allreduce --steps 3 --set failures.mtbf_s=1e4 --notes -o job.csv
# --tokens and --samples without a search: 1024 tokens per sample.
long=(--workload gpt2 --machine 8xh100 --batch 64 --mode allreduce --steps 3 -o long.csv)
seconds() { # of the target, in the only row
    python3 -c 'import csv
print(next(csv.DictReader(line for line in open("long.csv") if not line.startswith("#")))["target_s"])'
}
expect 0 "" -q "${long[@]}" --set target.samples=1000000
target=$(seconds)
for length in --samples=1000000 --tokens=1.024e9 "--epochs=2 --samples-per-epoch=500000"; do
    # shellcheck disable=SC2086
    expect 0 "" -q "${long[@]}" $length
    [ "${target:-0}" = "$(seconds)" ] || fail "$length: $(seconds), not $target"
done
expect 2 "samples are sequences" "${long[@]/gpt2/resnet50}" --tokens 1e9
# The speedups of all rows of a table have one baseline for all layouts: one GPU, with the number of micro-batches
# that it needs, else the smallest layout of the table that fits.
baselines() { # FILE: samples a second of each row's baseline, to three digits
    python3 -c 'import csv, sys
rows = csv.DictReader(line for line in open(sys.argv[1]) if not line.startswith("#"))
print(*sorted({"%.3g" % (float(r["throughput_per_s"]) / float(r["speedup"])) for r in rows if r["throughput_per_s"]}))' "$1"
}
speedup() { column "$1" speedup; }
large=(--workload gpt2_xl:heads=16 --machine 8xh100 --steps 2 --replicates 1)
expect 0 "Speedup is over one GPU in 8 micro-batches." "${large[@]}" --batch 64 \
    --layout 'fsdp=2 | tp=8 | pp=2,dp=4 | dp=8' -o several.csv
[ "$(baselines several.csv | wc -w)" = 1 ] || fail "baselines of several layouts: $(baselines several.csv)"
expect 0 "" -q "${large[@]}" --batch-per-worker 12 --workers 2 --mode fsdp -o mode.csv
expect 0 "Speedup is over one GPU in 2 micro-batches." "${large[@]}" --batch-per-worker 24 --workers 1 --layout fsdp=2 \
    -o layout.csv
awk -v a="$(speedup mode.csv)" -v b="$(speedup layout.csv)" 'BEGIN { exit !(a > 1.9 && a < 2.1 && b > a - 0.06 && b < a + 0.06) }' ||
    fail "two GPUs: $(speedup mode.csv) by --mode fsdp, $(speedup layout.csv) by --layout fsdp=2"
expect 0 "Speedup is over one worker of fsdp=4." --workload llama3_8b --machine 8xh100 --batch 8 --recompute full \
    --steps 2 --layout 'fsdp=2 | fsdp=4 | fsdp=8 | tp=8' -o several.csv
[ "$(baselines several.csv | wc -w)" = 1 ] || fail "baselines of one that does not fit: $(baselines several.csv)"
[ "$(column several.csv throughput_per_s)" != "" ] || fail "fsdp=2 did not run"
expect 0 "Speedup is over 4 GPUs with sharded parameters." --workload llama3_8b --machine 8xh100 --batch 8 \
    --recompute full --steps 2 --mode fsdp --workers 4,8 -o few.csv
expect 0 "highest throughput, 4." --workload llama3_8b --machine 8xh100 --batch 8 --recompute full --steps 2 --mode fsdp \
    --workers 4,8 --explain -o few.csv
# One baseline for all values of --recompute and --arithmetic, in any order; one per machine, which is named.
eight=(--workload llama3_8b:fused=yes,sequence=4096 --micro-batch 1 --batch 64 --layout fsdp=8 --steps 2)
for values in none,full full,none; do
    expect 0 "Speedup is over one worker of fsdp=8 (recompute none)." "${eight[@]}" --machine 8xh100 --recompute $values \
        -o several.csv
    [ "$(baselines several.csv | wc -w)" = 1 ] || fail "baselines of --recompute $values: $(baselines several.csv)"
    python3 -c 'import csv
rows = [r for r in csv.DictReader(line for line in open("several.csv") if not line.startswith("#"))]
of = {r["recompute"]: float(r["speedup"]) for r in rows}
assert abs(of["none"] - 1) < 1e-9 and 0.6 < of["full"] < 0.9, of' || fail "speedups of --recompute $values"
done
# The baseline of a layout has the table's micro-batch of 1 sample.
"$tested" "${eight[@]}" --machine 8xh100 --layout 'fsdp=4,dp=1 | fsdp=4,dp=2' --mode none,allreduce --recompute full \
    -q -o several.csv && python3 -c 'import csv
rows = [r for r in csv.DictReader(line for line in open("several.csv") if not line.startswith("#"))]
assert all(abs(float(r["speedup"]) - 1) < 1e-9 for r in rows if r["workers"] == "1"), rows' ||
    fail "the speedup of a layout over itself: $(cat several.csv)"
# A layout that is faster than the baseline's, of as many GPUs, is not explained by what one worker does.
"$tested" --workload llama3_8b:fused=yes --machine 8xh100 --layout 'pp=8 | tp=2,pp=4' --micro-batch 1 --batch 16 --mode none \
    --recompute full --steps 2 -o several.csv >faster.txt 2>&1 || fail "exit $?: $(cat faster.txt)"
grep -q '% each' faster.txt && fail "one worker explains another layout: $(cat faster.txt)"
# The exchange of an average does not depend on the interval: gathers among the shards belong to the local steps.
exchange_at() {
    "$tested" --workload gpt2:fused=yes --machine 4x1xh100@10ib --layout fsdp=2,dp=2 --batch 16 --micro-batch 4 \
        --mode average --interval "$1" --steps 40 -q -o average.csv && column average.csv outer_exchange_s
}
awk -v a="$(exchange_at 4)" -v b="$(exchange_at 40)" 'BEGIN { exit !(a > 0.2 && b > 0.98 * a && b < 1.02 * a) }' ||
    fail "exchange of an average: $(exchange_at 4) s every 4 steps, $(exchange_at 40) s every 40"
expect 0 "Speedup is over one GPU (arithmetic bf16)." --workload gpt2 --machine 8xh100 --arithmetic tf32,bf16 --batch 16 \
    --workers 1,8 --steps 2 -o several.csv
[ "$(baselines several.csv | wc -w)" = 1 ] || fail "baselines of two arithmetics: $(baselines several.csv)"
expect 0 "each model's own baseline: gpt2_xl, one GPU in 4 micro-batches;" --machine 8xa100 \
    --workload 'gpt2_xl|bert_base' --batch-per-worker 8 --workers 1 --steps 2 --layout 'pp=2' -o models.csv
expect 0 "each machine's own baseline: 8xmi300x, one GPU; 8xh100, one" "${eight[@]}" --machine 8xmi300x,8xh100 -o few.csv
expect 0 "worker of fsdp=8." "${eight[@]}" --machine 8xmi300x,8xh100 -o few.csv
expect 0 "Speedup is over one GPU of each machine." --workload gpt2 --machine 2xa100,2xh100 --batch 8 --steps 2 -o few.csv
# With several GPU models the fastest is the baseline, in any order in the machine.
for machine in 1x8xmi300x@10gbe+1x8xh100@10gbe 1x8xh100@10gbe+1x8xmi300x@10gbe; do
    expect 0 "" -q "${eight[@]}" --machine $machine --batch 128 --mode average --interval 50 --replicates 1 -o few.csv
    baselines few.csv
done >fastest.txt
[ "$(sort -u fastest.txt | wc -l)" = 1 ] || fail "baselines by the order of machines: $(cat fastest.txt)"
"$tested" --workload resnet50 --machine 1xrtx3090@10gbe+1xrtx4090@10gbe --batch-per-worker 32 --mode average --interval 50 \
    --steps 50 --notes -o few.csv 2>&1 | grep "times one without exchange: " && fail "a slower GPU is no slower exchange"
# Layers divided over GPUs without NVLink: collectives of 100 MB are not bound by latency.
expect 0 "bound by tp collectives" --workload gpt2_xl:heads=16 --machine 8xrtx3090 --batch 8 --layout tp=8 \
    --recompute full --steps 2 -o few.csv
# Loss of a single worker that accumulates: 8 passes, not only the copies of DistributedDataParallel.
expect 0 "8 micro-batches of 4 samples take" --workload gpt2 --machine 8xa100 --batch-per-worker 32 --workers 1 --steps 2 \
    --set sync.accumulate=8 -o few.csv
expect 0 "Speedup is over one GPU in 8 micro-batches." --workload gpt2 --machine 8xa100 --batch-per-worker 256 --workers 1,8 \
    --steps 2 --set sync.accumulate=8,16 -o few.csv
# A given size of micro-batches is the baseline's too: the rest of the speedup are copies into buckets.
expect 0 "99.9     0.1 compute" --workload gpt2_xl --machine 8xh100 --workers 8 --batch 256 --micro-batch 4 --steps 2 \
    -o few.csv
awk -v a="$(speedup few.csv)" 'BEGIN { exit !(a > 7.7 && a <= 8) }' || fail "speedup with micro-batches of 4: $(speedup few.csv)"
expect 2 "one value of machine.file" --workload gpt2 --machine 8xh100,8xa100 --batch 64 --advise layout
expect 0 "simulated" --workload gpt2 --machine 8xh100 --batch 64 --advise layout --for cost --max-points 10 -o few.csv
expect 2 "64 replicas of 64 GPUs, 4096 in all" --workload llama3_70b --machine dgx_h100 --workers 64 --layout tp=8,fsdp=8 --batch 64
expect 2 "no more than the model has layers" --workload llama3_70b --machine 16xdgx_h100 --layout pp=128 --batch 1024
# Products of axes beyond 32 and 64 bits are refused, rather than taken modulo 2^32 (here 0 and 1) or 2^64.
for axes in tp=65536,fsdp=65536 tp=641,fsdp=6700417 tp=10000000,cp=10000000,ep=10000000,fsdp=10000000; do
    for machine in 8xh100 8xh100@8x400ib "8xh100@8x400ib --workers 2"; do
        # shellcheck disable=SC2086 # several words
        expect 2 "--layout $axes: a worker would have more than 10000000 GPUs" \
            --workload llama3_8b --machine $machine --layout $axes --batch-per-worker 1
    done
done
# Each node's workers divide the optimizer's state among themselves, also those of layouts: twice as much as divided among
# both nodes' workers. Only sums cross the slow network: a step takes as long as without division, within 1 %.
two=(--workload gpt2_medium:fused=yes --machine 2x8xa100_80gb@10gbe --batch-per-worker 2 --mode allreduce --steps 3)
node=(--set exchange.sharded=optimizer --set exchange.sharded_among=node --set exchange.param_dtype=fp32)
expect 0 "optimizer 266 MB" "${two[@]}" --workers 16 --set exchange.sharded=optimizer --fits
expect 0 "optimizer 532 MB" "${two[@]}" --workers 16 "${node[@]}" --fits
expect 0 "optimizer 534 MB" "${two[@]}" --layout tp=2 "${node[@]}" --fits
for workers in --workers=16 --layout=tp=2; do
    "$tested" "${two[@]}" $workers --quiet -o whole.csv && "$tested" "${two[@]}" $workers "${node[@]}" --quiet -o node.csv ||
        fail "$workers: a node's workers"
    awk -v a="$(column whole.csv step_mean_s)" -v b="$(column node.csv step_mean_s)" 'BEGIN { exit !(b / a > 0.99 && b / a < 1.01) }' ||
        fail "$workers: $(column node.csv step_mean_s) s, not $(column whole.csv step_mean_s)"
done
for unequal in --workers=12 --set=machine.placement=48 --set=machine.placement=84 --set=machine.placement=18 --layout=tp=2,dp=6; do
    expect 2 "sharded_among = node: not if the nodes have different numbers of workers" "${two[@]}" "$unequal" "${node[@]}"
done
expect 2 "sharded_among=node: not with fsdp layouts, which shard parameters: this needs sharded = optimizer" "${two[@]}" \
    --layout fsdp=4 --workers 4 "${node[@]}"
expect 0 "optimizer 1.06 GB" "${two[@]}" --set machine.placement=44 "${node[@]}" --fits
# The memory counter of a time line has the largest need of the table.
"$tested" --workload gpt2 --machine 4xrtx3090 --batch-per-worker 4 --workers 4 --steps 3 --timeline memory.json --quiet \
    -o memory.csv || fail "a time line with memory"
python3 - "$(column memory.csv memory_bytes)" <<'END' || fail "memory.json"
import json, sys
counts = [e["args"]["value"] for e in json.load(open("memory.json"))["traceEvents"] if e["name"] == "memory of a GPU GB"]
least, most = min(counts), max(counts)
sys.exit(not (len(counts) == 6 and abs(most - float(sys.argv[1]) * 1e-9) < 1e-3 and 1.4 < least < most))
END
[ "$failures" -eq 0 ]
