#!/usr/bin/env bash
# docs/formats.md against the programs: they read its examples, and write exactly the columns, lines
# and keys that it names. Usage: test_formats.sh DLSIM DLPROF docs/formats.md
set -u
dlsim=$1 dlprof=$2 page=$3
tested=$dlsim
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# Writes every block "```LANGUAGE file=NAME" to a file, beside the files that the page links.
awk '/^```[a-z]+ file=/ { name = substr($2, 6); printf "" >name; next }
     /^```/ { name = ""; next }
     name != "" { print >name }' "$page"
cp "$(dirname "$page")"/examples/*.{ini,csv} .
for name in lenet.ini vgg.ini two.ini two.schedule.csv lenet.measured.csv lenet.costs.ini vgg.costs.ini; do
    [ -s "$name" ] || { echo "FAIL: $page has no example $name"; exit 1; }
done
{
    sed -e '/^\[exchange\]/,$d' -e '/^workers/d' vgg.ini
    printf '[pipeline]\nstages = 1, 2\nmicro_batches = 8\ngpus = 2\n'
} >vgg_split.ini

# The text after a heading, up to the next one.
section() { awk -v heading="## $1" '/^## / { inside = $0 == heading } inside' "$page"; }
# Names in backticks in the first cells of a section's tables.
names() { section "$1" | grep '^| `' | cut -d'|' -f2 | grep -o '`[^`]*`' | tr -d '`#' | tr -d ' ' | sort; }
same() { # what, one list, another list, each with a name per line
    local difference
    difference=$(diff <(echo "$2") <(echo "$3")) || fail "$1: on the page (<), written (>): $difference"
}

printf 'line,left_out_error_frac\n4,0.1\n' >left_out.csv
expect 0 "3 measured points" lenet.ini -o lenet.results.csv --histogram lenet.histogram.csv --left-out left_out.csv
cat >>vgg.costs.ini <<END
[trace 1]
file = vgg_rank0of2.json.gz
ranks = 2
rank = 0
batch = 32
allreduces = yes
step_ns = 24.1 +- 0.2 ms, n = 20, measured
collective_1 = AlltoAll, 2, 4e6, 1.1e6, 2
END
expect 0 "GPUs" vgg.ini -o vgg.results.csv
expect 0 "2 stages" vgg_split.ini -o split.results.csv
expect 0 "" vgg.ini -o without.results.csv --without input,noise
sed '/^steps/s/=.*/= 1/; /^steps/a per_worker = yes' lenet.ini >short.ini
expect 0 "ran too few steps" short.ini -o short.results.csv
expect 0 "Halving" vgg.ini -o explained.results.csv --explain
sed '/^\[copy\]/,/^\[average\]/{/^\[average\]/!d}' lenet.costs.ini >poor.costs.ini
sed 's/lenet.costs.ini/poor.costs.ini/' lenet.ini >poor.ini
expect 0 "[copy] latency_ns = 500 ns" poor.ini -o poor.results.csv
sed 's/^mode .*/mode = async_average/' lenet.ini | grep -v -e measured >syncer.ini
expect 0 "too stale" syncer.ini -o syncer.results.csv
{ cat lenet.ini; printf '[failures]\nmtbf_s = 1000\ncheckpoint_s = 1\ncheckpoint_steps = 100\n'; } >failures.ini
expect 0 "best checkpoint" failures.ini -o failures.results.csv
{ sed 's/^mode .*/mode = average/' lenet.ini | grep -v -e measured; printf '[failures]\naway = 0:0.1-0.2\n'; } >away.ini
expect 0 "with workers that are away" away.ini -o away.results.csv
{ cat lenet.ini; printf '[target]\nsamples = 1000000\n'; } >target.ini
expect 0 "at the target" target.ini -o target.results.csv
expect 0 "MFU %" --workload gpt2 --machine dgx_h100 --workers 1 --batch-per-worker 8 --mode none -o tokens.results.csv
expect 0 "equal" --workload gpt2 --machine 2xrtx4090 --batch 8 --advise layout -o advised.results.csv
printf '[scenario]\nsteps = 9\n[generators]\ngpus = 8\ngenerator_gpus = 2\nprompts = 8\nlength_mean = 99\ntoken_s = 0.01\ntrain_token_gpu_s = 1e-3\n' >generators.ini
expect 0 "6 train" generators.ini -o generators.results.csv

printf 'workers,batch,sync,step_s,step_quantiles_s\n2,32,allreduce,0.004,0.003;0.005\n' >steps.csv
expect 0 "KS %" lenet.ini --measured steps.csv -o steps.results.csv

# Columns of the point and fixed columns, of all kinds of results; swept columns are listed
# separately.
columns() { grep -v '^#' "$1" | head -n 1 | tr , '\n'; }
written=$(for kind in lenet vgg split syncer failures target away explained short tokens advised generators steps; do columns $kind.results.csv; done |
    grep -vx -e overlap -e stages -e chunks -e layout -e micro_batch -e recompute -e schedule -e sharded | sort -u)
reference=$(dirname "$page")/columns.md
options='interval n bound k moving_rate block_momentum accumulate lag'
same "columns of the results" \
    "$({ grep '^| `' "$reference" | cut -d'|' -f2 | tr -d '` ' | tr , '\n'; tr ' ' '\n' <<<"$options"; } | sort)" "$written"
columns vgg.results.csv | grep -qx overlap || fail "no column for a key that varies"
same "columns of the histogram" "$(names 'Staleness histogram')" \
    "$(columns lenet.histogram.csv | sed '1,/^lag$/d' | sort)"

# Columns of the advice.
expect 0 "Advised:" vgg.ini --advise --steps 5 --max-points 20 -o advice.csv
same "columns of the advice" "$(names Advice)" "$(columns advice.csv | sed s/batch_per_worker/batch/ | sort)"

# Lines before the column names.
same "lines before the columns" \
    "$(section Results | grep -o '^| `#.*`' | cut -d'|' -f2 | grep -o '# [a-z]*' | tr -d '# ' | sort)" \
    "$(sed -n 's/^# \([a-z]*\).*/\1/p' ./*.results.csv | sort -u)"

# Measured rows: dlsim reads all columns of the page and no others; dlprof train writes no others.
all=$(names 'Measured rows' | paste -sd,)
count=$(tr -cd , <<<"$all" | wc -c)
[ "$count" -ge 20 ] || fail "few columns of measured rows: $all"
sed 's/^file.*/file = all.csv/' lenet.ini >all.ini
echo "$all" >all.csv
expect 0 "LeNet" all.ini -o all.results.csv
sed -i 's/seed/sead/' all.csv
expect 1 "seed" all.ini -o all.results.csv
"$dlprof" train --model mlp --data synthetic --workers 2 --batch 8 --steps 300 --sync softsync --n 1 --csv run.csv \
    -o run.dlt >train.txt 2>&1 || fail "dlprof train: $(cat train.txt)"
"$dlprof" train --model mlp --data synthetic --workers 2 --batch 8 --steps 20 --sync async_average -o merged.dlt \
    >train.txt 2>&1 || fail "dlprof train: $(cat train.txt)"
for column in $(columns run.csv); do
    [[ ",$all," == *",$column,"* ]] || fail "dlprof train --csv writes $column, which the page does not name"
done

# The schedule equals the program's output, and can be replayed.
expect 0 "" -q two.ini -o two.results.csv --schedule written.csv
same "schedule" "$(grep -v '^# program' two.schedule.csv)" "$(grep -v '^# program' written.csv)"
tested=$dlprof expect 0 "mean 0." train --model mlp --data synthetic --learning-rate 0.01 --no-trace \
    --schedule two.schedule.csv

# A trace, byte by byte; its keys are those that its header names.
for byte in $(sed 's/  .*//' "$(dirname "$page")/../tests/trace/example.hex"); do printf '%b' "\\x$byte"; done >bytes.dlt
expect_info() { grep -qE "$1" info.txt || fail "dlprof info: no '$1' in: $(cat info.txt)"; }
"$dlprof" info bytes.dlt >info.txt 2>&1 || fail "dlprof info: $(cat info.txt)"
expect_info '^records +6, complete'
expect_info '^batch +32'
expect_info '^0 +2 +0 26.0 us 26.0 us 27.5 us 2.12 us 1230769.2'
expect_info '^0 +98.08 +1.92 '
expect_info '^fc1 +compute backward +2 17.0 us +65.38'
keys=0
for key in $(for trace in run merged; do
    "$dlprof" info --json $trace.dlt | grep -o '"meta":{[^}]*}' | grep -o '"[a-z_]*":"' | tr -d '":'
done | sort -u); do
    keys=$((keys + 1))
    sed -n '/^\/\* Meta keys/,/\*\//p' "$(dirname "$page")/../trace/dlt/dlt.h" | grep -qw -- "$key" ||
        fail "trace/dlt/dlt.h does not name the key $key of a trace"
done
[ $keys -ge 40 ] || fail "only $keys keys of traces"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
