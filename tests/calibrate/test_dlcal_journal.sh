#!/usr/bin/env bash
# A killed fit to a table continues from its journal, and writes the same files as an uninterrupted
# one.
# Usage: test_dlcal_journal.sh DLCAL DLSIM
set -u
tested=$1 dlcal=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
output=fitted.ini
# shellcheck source=tests/kill.sh
source "$(dirname "$0")/../kill.sh"
# shellcheck source=tests/calibrate/made_table.sh
source "$(dirname "$0")/made_table.sh"

cat >scenario.ini <<END
[scenario]
steps = 40
[machine]
file = machine.ini
nodes = 2
workers = 1, 2, 8
[workload]
costs = costs.ini
batch = 96, 384
[sync]
mode = allreduce
[exchange]
overlap = yes
bucket_bytes = 200000
END
four_gpus "root_bytes_per_s = 4GB/s"
cat >>machine.ini <<END
[link port]
bytes_per_s = 1GB/s
latency_ns = 1000
[nics 0]
parent = socket0
link = x16
port = port
END
make_table_with_errors

fit=(table table.csv -s scenario.ini -o fitted.ini --rows rows.csv --json report.json)

# keep FOLDER: keeps the files of the fit, without its date
keep() {
    mkdir "$1"
    sed -i '1s/, [-0-9T:]*Z:/:/' fitted.ini
    mv fitted.ini rows.csv report.json report.txt "$1" || fail "$1: files are missing"
}

# resume FOLDER COMMAND...: runs the same command as the killed one
resume() {
    local folder=$1
    shift
    "$@" "${fit[@]}" >report.txt 2>errors.txt || fail "$*: $(cat errors.txt)"
    grep -q 'dlcal: continues after [1-9][0-9]* simulations from the journal' errors.txt || fail "$*: $(head -n 3 errors.txt)"
    [ -e fitted.ini.journal ] && fail "$*: the journal is still there"
    keep "$folder"
    diff -r whole "$folder" || fail "$*: another fit"
}

"$dlcal" "${fit[@]}" --journal off >report.txt || fail "the fit does not run"
keep whole

# Killed twice, with different numbers of threads.
kill_at 1 "$dlcal" "${fit[@]}" --threads 1
first=$(stat -c %s fitted.ini.journal)
kill_at $((3 * first)) "$dlcal" "${fit[@]}" --threads 2
head -c -20 fitted.ini.journal >torn && printf 'garbage' >>torn
resume threads "$dlcal"

# The journal of another fit is ignored, and still used by its own fit; an incomplete end is cut
# off.
cp torn fitted.ini.journal
expect 0 "fitted.ini.journal is of another, unfinished run" "${fit[@]}" --near
cp table.csv table.kept
sed -i '2s/$/1/' table.csv
expect 0 "" "${fit[@]}"
mv table.kept table.csv
cmp torn fitted.ini.journal.* || fail "another fit's journal was changed"
resume torn_end "$dlcal"
cp torn fitted.ini.journal
grep -v '^8,' table.csv >small.csv
expect 0 "costs written to fitted.ini" table small.csv "${fit[@]:2}" --journal restart
[ -e fitted.ini.journal ] && fail "restart: the journal is still there"
rm -f fitted.ini

# MPI ranks: all are killed and continue, then one of them is killed.
if command -v mpirun >/dev/null && [ -e "$(dirname "$dlcal")/libdlscale_mpi.so" ]; then
    # shellcheck source=tests/mpirun.sh
    source "$(dirname "$0")/../mpirun.sh"
    cp torn fitted.ini.journal
    resume ranks mpirun -n 2 "$dlcal"
    kill_rank "$dlcal" "${fit[@]}" --threads 1
    resume rank "$dlcal"
fi

expect 2 "journal" "${fit[@]}" --journal no

# A fit of two scenarios that share a cost also continues; keep takes the files of the first one.
sed 's/workers = 1, 2, 8/workers = 1, 2/' scenario.ini >second.ini
fit=(table table.csv small.csv -s scenario.ini -s second.ini -o fitted.ini -o second.out.ini --rows rows.csv --rows second.csv
    --json report.json --share dispatch.serial_ns)
rm -rf whole
"$dlcal" "${fit[@]}" --journal off >report.txt || fail "the fit of two does not run"
cp report.txt two.txt
keep whole
kill_at 1 "$dlcal" "${fit[@]}" --threads 1
resume two "$dlcal"

[ "$failures" -eq 0 ]
