#!/usr/bin/env bash
# Command-line behaviour of dlcal table: a fit to a table simulated by dlsim returns its costs, and
# dlsim reads them.
# Usage: test_dlcal_table.sh DLCAL DLSIM
set -u
tested=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
# shellcheck source=tests/calibrate/documented.sh
source "$(dirname "$0")/documented.sh"
# shellcheck source=tests/calibrate/made_table.sh
source "$(dirname "$0")/made_table.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

known="[costs]
schema = 1
parameter_bytes = 8000"
cat >scenario.ini <<END
[scenario]
steps = 3000
[machine]
file = machine.ini
workers = 1, 2, 3, 4
dispatch = single
[workload]
costs = costs.ini
batch = 24, 96
[sync]
mode = none
END
four_gpus
make_table "$known
[op network.forward]
fixed_ns = 1000000
per_sample_ns = 30000
[dispatch]
serial_ns = 200000
per_worker_ns = 500000"

expect 0 "Usage: dlcal table" table --help
expect 2 "" table
expect 2 "--scenario FILE is needed" table table.csv
expect 1 "nowhere.csv" table nowhere.csv -s scenario.ini -o x.ini
sed 's/^costs.*/samples_per_s = 300/' scenario.ini >number.ini
expect 1 "has all costs" table table.csv -s scenario.ini -o x.ini
# Costs that are not fitted get dlsim's assumptions, with a note; the prediction accepts dlsim's
# options.
cat >two.csv <<'END'
workers,batch,sync,interval,throughput_per_s
4,32,average,1,24.4
4,32,average,8,79.4
END
"$dlsim" --samples-per-s 25 --parameters 25e6 --machine 4xa10g --workers 4 --batch-per-worker 8 --check \
    --save-costs lacks.ini >/dev/null || fail "no costs saved"
printf '[machine]\nfile = 4xa10g\nworkers = 4\n[workload]\ncosts = lacks.ini\nbatch_per_worker = 8\n[sync]\nmode = average\nwhere = cpu\ninterval = 1,8\n' >lacks_s.ini
expect 0 "assumed [average] read_bytes_per_s = 10 GB/s, as dlsim does: one core" table two.csv -s lacks_s.ini \
    --fit link.pcie4x16.bytes_per_s -o lacks_x.ini
expect 0 "average interval 8 " table two.csv -s lacks_s.ini --fit link.pcie4x16.bytes_per_s -o lacks_x.ini
expect 2 "then dlsim --costs costs.ini --machine NAME" predict --machine 8xh100 x.json
expect 2 "did you mean 'dispatch.serial_ns'?" table table.csv -s scenario.ini --fit dispatch.serial_n -o x.ini
echo "$known" >costs.ini
expect 2 "--output would overwrite the scenario's cost file: costs.ini" table table.csv -s scenario.ini
expect 2 "--output would overwrite the table" table table.csv -s scenario.ini -o ./table.csv
expect 1 "cannot create" table table.csv -s scenario.ini -o no/such/folder.ini
if [ -e x.ini ]; then
    echo "FAIL: a failed fit left a cost file"
    failures=$((failures + 1))
fi
expect 0 "costs written to fitted.ini" table table.csv -s scenario.ini -o fitted.ini --json fit.json
grep -qE "per_worker_ns = (499|500)[0-9]{3}(\.| ).*n = 8, fitted" fitted.ini || failures=$((failures + 1))
grep -q "8 rows of table.csv, lines 2 to 9, scenario scenario.ini" fitted.ini ||
    failures=$((failures + 1))
grep -q '"left_out_error_frac":' fit.json || failures=$((failures + 1))

# Rows of several settings, and a batch that seems to be that of one worker, are refused; rows far
# off in one direction are noted.
sed '1s/$/,precision/; 2,5s/$/,fp32/; 6,$s/$/,Mixed/' table.csv >mixed.csv
expect 1 "mixed.csv:6: precision is Mixed, in rows before fp32" table mixed.csv -s scenario.ini -o x.ini
rate=(--samples-per-s 334 --parameters 25.6M --machine dgx1_v100 --fit link.nvlink2.bytes_per_s -o x.ini)
printf 'gpus,batch,images/sec\n1,32,334\n2,32,640\n4,32,1280\n' >own.csv
expect 1 "own.csv: the column batch, of all workers together, has the batch of one worker, 32, also for 4" \
    table own.csv "${rate[@]}" --batch-per-worker 32
expect 0 "costs written" table own.csv "${rate[@]}" --batch 32
printf 'gpus,throughput\n1,334000\n2,640000\n4,1280000\n' >tokens.csv
expect 0 "3 of 3 rows are more than 10 times too fast" table tokens.csv "${rate[@]}" --batch-per-worker 32
sed -i '1s/batch,/batch_per_gpu,/' own.csv
"$tested" table own.csv "${rate[@]}" --batch-per-worker 32 | grep "times too" && fail "right rows are doubted"

# Tables as people publish them: each gives the fit of the plain one, or is refused with a reason.
printf 'gpus,images/sec\n1,334\n2,640\n8,2500\n' >plain.csv
fit() { "$tested" table "$1" "${rate[@]}" --batch-per-worker 32 --json "$1.json" >"$1.txt" 2>&1 || cat "$1.txt"; }
rows_of() { grep -o '"\(workers\|batch\|measured_per_s\)":[0-9.]*' "$1" | awk -F: '{ printf "%s %.6g\n", $1, $2 }'; }
fit plain.csv
rows_of plain.csv.json | grep -qx '"measured_per_s" 2500' || fail "plain.csv: $(cat plain.csv.txt)"
same() { # NAME TEXT
    printf "%b" "$2" >"$1"
    fit "$1"
    [ "$(rows_of "$1.json")" = "$(rows_of plain.csv.json)" ] || fail "$1: $(cat "$1.txt")"
}
same tabs.tsv '\xEF\xBB\xBFnum_gpus\tThroughput (img/s)\n1\t334\n2\t640\n8\t2,500\n'
same european.csv '# a comment\nNumber of GPUs;Samples per Second;Precision\n1;334,0;\n2;640;\n8;2.500,0;\n'
same markdown.md 'Measured; by us, here:\n\n| GPUs | Images / sec | Speedup | MFU |\n|--:|:-:|---|---|\n| 1 | **334** | 1.0x | 41% |
| 2 | 640 |1.9x| |\n| 8 | 2 500 | | |\n\nMore text, | 7 |\n'
same each.csv 'world_size,samples_per_second_per_gpu,batch size per GPU\n1,334,32\n2,320,32\n8,312.5,32\n'
same quotes.csv '\r\nGPUs;images/s;source\r\n1;334;"a; b"\r\n2;640;\r\n8;2500;\r\n'
same steps.csv 'GPUs,Global Batch Size,Step time (ms)\n1,32,95.80838323353294\n2,64,100\n8,256,102.4\n'
same rates.csv 'GPUs,it/s\n1,10.4375\n2,10\n8,9.765625\n'
while IFS='|' read -r text reason; do
    printf "%b" "$text" >bad.csv
    expect 1 "$reason" table bad.csv "${rate[@]}" --batch-per-worker 32
done <<'END'
GPUs,tokens/s/GPU\n1,334\n|bad.csv: column 'tokens/s/GPU': tokens are not samples
GPUs,batch size,images/s\n1,32,334\n|bad.csv: column 'batch size': of all workers together (batch) or of each
GPUs,images/s\n1,334\n8,2.500\n|bad.csv:3: column images/s: does the point in 2.500 separate thousands
GPUs;images/s\n8;2.500\n|bad.csv:2: column images/s: does the point
GPUs,images/s\n1,"334,5"\n|bad.csv:2: column throughput_per_s: '334,5' is not a number
GPUs\timages/s\n1\tOOM\n|bad.csv:2: column throughput_per_s: 'OOM' is not a number
GPUs,images/s\n1,334\0\n2,640\n|bad.csv:2: the text holds a NUL byte
GPUs;images/s\n1;0,123\n8;2*2\n|bad.csv:3: column throughput_per_s: '2*2' is not a number
GPUs,images/s\n1,"0,123"\n|bad.csv:2: column throughput_per_s: '0,123' is not a number
GPUs,Workers,images/s\n1,8,334\n|bad.csv: the columns Workers and workers mean the same
GPUs,images/s/GPU\n1,334\n,320\n|bad.csv:3: workers and batch must be whole numbers
GPU,images/s\nV100,334\n|unknown column 'GPU'
GPUs,MFU\n1,41\n|bad.csv:2: neither throughput_per_s nor step_s is given
GPUs,images/s,samples/s\n1,41,42\n|the columns samples/s and throughput_per_s mean the same
END

printf '|GPUs|images/s|\n|-|-|\n|1|334|\n\n|GPUs|images/s|\n|-|-|\n|8|2500|\n' >two.md
expect 1 "two.md: has 2 tables: keep one" table two.md "${rate[@]}" --batch-per-worker 32
printf 'GPUs,images/s\n1,9.125\n2,17.5\n4,35\n8,100\n' >decimals.csv
fit decimals.csv
[ -s decimals.csv.json ] || fail "decimals.csv: $(cat decimals.csv.txt)"

# A scenario given by options, alone or over a file, gives the same fit as a file.
options=(--machine machine.ini --workers 1,2,3,4 --set machine.dispatch=single --costs costs.ini --batch 24,96 --mode none)
sed 's/dispatch = single/dispatch = per_gpu/' scenario.ini >other.ini
values() { grep -v '^[#;]' "$1"; }
expect 0 "costs written" table table.csv "${options[@]}" -o options.ini
grep -q "8 rows of table.csv, lines 2 to 9, scenario (command line)" options.ini || failures=$((failures + 1))
expect 0 "costs written" table table.csv -s other.ini --set machine.dispatch=single -o over.ini
for file in options.ini over.ini; do
    diff <(values fitted.ini) <(values "$file") || failures=$((failures + 1))
done
expect 2 "--mode nonee: unknown mode" table table.csv "${options[@]}" --mode nonee -o x.ini
expect 2 "--machine: 'nowhere' is neither" table table.csv "${options[@]}" --machine nowhere -o x.ini

# The costs of a network's name are fitted like those of a file, and a fit simulates as dlsim does
# with the same options, including the overlap of exchange with the backward pass, which both take
# from the costs.
printf 'workers,batch,throughput_per_s\n1,4,11.9\n2,8,14.6\n4,16,24.5\n' >steps.csv
named=(--workload gpt2_medium --machine 4xrtx3090)
expect 0 "costs written to named.ini" table steps.csv "${named[@]}" --fit shm.bytes_per_s -o named.ini --rows named.csv
# A measured step needs its batch, as the table's rows have several.
expect 2 "--calibrate 90samples/s@1: give the batch of this step too, as --batch-per-worker 32, or 90samples/s@1x32" \
    table "${named[@]}" table.csv --calibrate 90samples/s@1 -o c.ini
"$dlsim" "${named[@]}" --batch-per-worker 4 --check --save-costs saved.ini >/dev/null || fail "no costs of the network"
expect 1 "saved.ini: has all costs: --fit must name those to fit, as --fit 'shm.bytes_per_s'" \
    table steps.csv --costs saved.ini --machine 4xrtx3090 -o x.ini
expect 0 "costs written to saved_fit.ini" table steps.csv --costs saved.ini --machine 4xrtx3090 --fit shm.bytes_per_s -o saved_fit.ini
# The mode may have another program's word, as in the tables that dlsim compares with.
printf 'workers,sync,batch,samples_per_s\n1,DDP,4,4.0\n2,ddp,8,6.4\n4,ddp,16,11.5\n' >words.csv
expect 0 "3 rows of words.csv" table words.csv "${named[@]}" -o x.ini
paste -d' ' <(grep -A9 '^.machine' named.ini) <(grep -A9 '^.machine' saved_fit.ini) | awk '
    $1 == "bytes_per_s" { rows++; off = $3 / $(NF / 2 + 3) - 1; if (off > 1e-6 || off < -1e-6) bad++ }
    END { exit rows != 1 || bad }' || fail "a network's name is fitted otherwise"
"$dlsim" --quiet --costs named.ini --machine 4xrtx3090 --batch-per-worker 4 --workers 1,2,4 --noise none -o named_sim.csv ||
    fail "no prediction"
paste -d, <(grep -v '^#' named.csv) <(grep -v '^#' named_sim.csv) | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) { if ($i == "fitted_per_s") a = i; if ($i == "throughput_per_s") b = i; }; next }
    { rows++; off = $b / $a - 1; if (off > 2e-3 || off < -2e-3) bad++ }
    END { exit !a || !b || rows != 3 || bad }' || fail "dlsim predicts otherwise than dlcal fitted: $(cat named.csv)"

# The fitted costs predict the rows that they were fitted to.
cp fitted.ini costs.ini
"$dlsim" --quiet scenario.ini -o again.csv || failures=$((failures + 1))
paste -d, <(grep -v '^#' made.csv) <(grep -v '^#' again.csv) | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "throughput_per_s") at[++n] = i; next }
    { rows++; off = $at[2] / $at[1] - 1; if (off > 1e-3 || off < -1e-3) bad++ }
    END { exit n != 2 || rows != 8 || bad }' || {
    echo "FAIL: dlsim does not give the table back"
    failures=$((failures + 1))
}

# Only rows of one use, from the scenario's own table; dlsim reads the rows' errors. Without 3 GPUs
# and 24 samples, the rows do not determine where the host's time starts to limit a step.
echo "$known" >costs.ini
{ sed '1s/$/,use/; 2,$s/$/,fitted/' table.csv | sed '$s/,fitted$/,unseen/'; } >marked.csv
{ cat scenario.ini; printf '[measured]\nfile = marked.csv\n'; } >marked.ini
expect 2 "missing argument TABLE" table -s scenario.ini -o x.ini
expect 1 "no row of use 'fited' has a measured value" table -s marked.ini --use fited -o x.ini
expect 0 "costs from 7 rows of marked.csv" table -s marked.ini --use fitted -o marked.fit.ini
expect 0 "costs from 8 rows of marked.csv" table -s marked.ini -o marked.fit.ini --rows rows.csv
[ "$(grep -c '^[2-9],' rows.csv)" -eq 8 ] || { echo "FAIL: rows.csv: $(cat rows.csv)"; failures=$((failures + 1)); }
documented rows.csv
cp marked.fit.ini costs.ini
"$dlsim" --quiet marked.ini --left-out rows.csv -o left.csv || failures=$((failures + 1))
awk -F, '/^#/ { next }
    !named { for (i = 1; i <= NF; i++) at[$i] = i; named = 1; next }
    { rows++; e = $at["left_out_error_frac"]; if (e == "") none++; else if (e > 0.001 || e < -0.001) bad++
      if ($at["measured_use"] == "unseen") unseen++ }
    END { exit rows != 8 || bad || none != 1 || unseen != 1 }' left.csv || { echo "FAIL: left.csv"; failures=$((failures + 1)); }
expect 0 "of the cost file's" table -s marked.ini --fit dispatch.serial_ns -o x.ini

# Two scenarios that share one cost; in the second one's table all other costs are twice as large.
cp costs.ini kept.ini
echo "$known" >costs.ini
sed 's/costs.ini/slow.ini/' scenario.ini >slow_s.ini
cp costs.ini slow.ini
awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print; next }
    { n = $at["workers"]; b = $at["batch"]; gpu = 2e-3 + 60e-6 * b / n; host = 0.4e-3 + 0.5e-3 * n
      $at["throughput_per_s"] = b / (gpu > host ? gpu : host); print }' table.csv >slow.csv
two=(-s scenario.ini -s slow_s.ini table.csv slow.csv --share dispatch.per_worker_ns)
expect 0 "costs of slow_s.ini" table "${two[@]}" -o a.ini -o b.ini --rows a.csv --rows b.csv --predict table.csv --predict slow.csv \
    --json both.json
grep -qE '^per_worker_ns = (499|500)[0-9]{3}' a.ini || fail "shared: $(grep per_worker a.ini)"
[ "$(grep -h '^per_worker_ns' a.ini b.ini | sort -u | wc -l)" -eq 1 ] || fail "the shared cost differs"
[ "$(grep -h '^serial_ns' a.ini b.ini | sort -u | wc -l)" -eq 2 ] || fail "the scenarios' own costs are the same"
grep -q '"tables":\[{"table":"table.csv","scenario":"scenario.ini","costs":\[' both.json || fail "both.json"
head -n 1 a.csv | cmp - <(head -n 1 rows.csv) || fail "other columns of --rows"
expect 2 "--output is needed for each of 2 scenarios" table "${two[@]}"
expect 2 "--output is given 1 times for 2 scenarios" table "${two[@]}" -o a.ini
expect 2 "TABLE is given 1 times for 2 scenarios" table -s scenario.ini -s slow_s.ini table.csv -o a.ini -o b.ini
expect 2 "--rows is given 1 times for 2 scenarios" table "${two[@]}" -o a.ini -o b.ini --rows a.csv
expect 2 "--output is the same file as --output: a.ini" table "${two[@]}" -o a.ini -o a.ini
expect 2 "would overwrite" table "${two[@]}" -o a.ini -o slow.csv
expect 2 "--output would overwrite the scenario's cost file: slow.ini" table "${two[@]}" -o slow.ini -o b.ini
expect 2 "TABLE is given 2 times for 1 scenario" table -s scenario.ini table.csv slow.csv -o a.ini
cp kept.ini costs.ini
exit $((failures > 0))
