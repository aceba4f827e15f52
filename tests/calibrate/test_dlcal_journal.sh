#!/usr/bin/env bash
# A fit to a table that is killed goes on from its journal, and then writes what one that was not does.
# Usage: test_dlcal_journal.sh DLCAL DLSIM
set -u
tested=$1 dlcal=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
output=fitted.ini
# shellcheck source=tests/kill.sh
source "$(dirname "$0")/../kill.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none

cat >scenario.ini <<END
[scenario]
steps = 400
[machine]
file = machine.ini
nodes = 2
workers = 1, 2, 4, 8
[workload]
costs = costs.ini
batch = 96, 192, 384
[sync]
mode = allreduce
[exchange]
overlap = yes
bucket_bytes = 200000
END
cat >machine.ini <<END
[machine]
schema = 1
name = test
peer = all
[gpu_model g]
memory_bytes = 1GB
memory_bytes_per_s = 100GB/s
fp32_flop_per_s = 1Tflop/s
[link x16]
bytes_per_s = 10GB/s
latency_ns = 100
[link port]
bytes_per_s = 1GB/s
latency_ns = 1000
[host]
memory_bytes_per_s = 40GB/s
root_bytes_per_s = 4GB/s
[gpus 0-3]
model = g
parent = socket0
link = x16
[nics 0]
parent = socket0
link = x16
port = port
END
known="[costs]
schema = 1
parameter_bytes = 8000000
[dispatch]
per_worker_ns = 0"
printf '%s\nserial_ns = 200000\n[op network.forward]\nfixed_ns = 1000000\nper_sample_ns = 30000\n' "$known" >costs.ini
"$dlsim" --quiet scenario.ini -o made.csv || exit 1
# Every third row is 4 % off, so that rows are weighed and left out.
awk -F, '/^#/ { next }
    !named { for (i = 1; i <= NF; i++) at[$i] = i; named = 1; print "workers,batch,throughput_per_s"; next }
    { print $at["workers"] "," $at["batch"] "," $at["throughput_per_s"] * (1 + (++row % 3 == 0) * 0.04) }' made.csv >table.csv
printf '%s\n' "$known" >costs.ini

fit=(table table.csv -s scenario.ini -o fitted.ini --rows rows.csv --json report.json)

# keep FOLDER: what the fit wrote, without the time of the fit
keep() {
    mkdir "$1"
    sed -i '1s/, [-0-9T:]*Z:/:/' fitted.ini
    mv fitted.ini rows.csv report.json report.txt "$1" || fail "$1: files are missing"
}

# resume FOLDER COMMAND...: the same command as the killed one
resume() {
    local folder=$1
    shift
    "$@" "${fit[@]}" >report.txt 2>errors.txt || fail "$*: $(cat errors.txt)"
    grep -q 'dlcal: goes on after [1-9][0-9]* simulations from the journal' errors.txt || fail "$*: $(head -n 3 errors.txt)"
    [ -e fitted.ini.journal ] && fail "$*: the journal is still there"
    keep "$folder"
    diff -r whole "$folder" || fail "$*: another fit"
}

"$dlcal" "${fit[@]}" --journal off >report.txt || fail "the fit does not run"
keep whole

# Killed twice, on other numbers of threads.
kill_at 1 "$dlcal" "${fit[@]}" --threads 1
first=$(stat -c %s fitted.ini.journal)
kill_at $((first + 1)) "$dlcal" "${fit[@]}" --threads 2
resume threads "$dlcal"

# The journal of another fit is refused, unless the fit starts anew; a torn end is not.
kill_at 1 "$dlcal" "${fit[@]}" --threads 1
head -c -20 fitted.ini.journal >torn && printf 'garbage' >>torn
cp torn fitted.ini.journal
expect 1 "fitted.ini.journal: was written by another run" "${fit[@]}" --near
cp table.csv table.kept
sed -i '2s/$/1/' table.csv
expect 1 "With --journal restart the run starts anew" "${fit[@]}"
mv table.kept table.csv
cmp torn fitted.ini.journal || fail "a refused journal was changed"
resume torn_end "$dlcal"
cp torn fitted.ini.journal
expect 0 "costs written to fitted.ini" "${fit[@]}" --near --journal restart
[ -e fitted.ini.journal ] && fail "restart: the journal is still there"
rm -f fitted.ini

# Ranks: those that go on after a kill, then one that is killed.
if command -v mpirun >/dev/null && [ -e "$(dirname "$dlcal")/libdlscale_mpi.so" ]; then
    export ASAN_OPTIONS=detect_leaks=0 # of MPI's own
    cp torn fitted.ini.journal
    resume ranks mpirun -n 2 "$dlcal"
    cat >die.sh <<END
if [ "\$OMPI_COMM_WORLD_RANK" -eq 1 ]; then
    { until [ -s fitted.ini.journal ]; do
        [ -e fitted.ini ] && exit
        sleep 0.01
    done; kill -9 \$\$; } &
fi
exec "$dlcal" ${fit[@]} --threads 1
END
    mpirun -n 2 sh die.sh >output.txt 2>&1
    status=$?
    [ $status -eq 137 ] || fail "a killed rank: exit $status: $(cat output.txt)"
    [ -e fitted.ini ] && fail "a killed rank: costs were written"
    grep -q "process rank 1 with PID .* on node $(hostname) exited on signal 9" output.txt || fail "a killed rank: $(cat output.txt)"
    resume rank "$dlcal"
fi

expect 2 "journal" "${fit[@]}" --journal no

[ "$failures" -eq 0 ]
