#!/usr/bin/env bash
# Fits to a table on threads and on ranks started by mpirun write the same report and the same
# files.
# Usage: test_dlcal_ranks.sh DLCAL DLSIM
set -u
tested=mpirun dlcal=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
# shellcheck source=tests/calibrate/made_table.sh
source "$(dirname "$0")/made_table.sh"
command -v mpirun >/dev/null || { echo "no mpirun: skipped"; exit 77; }
# shellcheck source=tests/mpirun.sh
source "$(dirname "$0")/../mpirun.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

cat >scenario.ini <<END
[scenario]
steps = 400
[machine]
file = machine.ini
workers = 1, 2, 3, 4
[workload]
costs = costs.ini
batch = 24, 96
[sync]
mode = allreduce
END
four_gpus "root_bytes_per_s = 4GB/s"
make_table_with_errors

fit() { # command..., writes into the folder `to`
    "$@" table table.csv -s scenario.ini --threads "$threads" -o fitted.ini --rows rows.csv --json report.json \
        --predict table.csv >report.txt 2>errors.txt || fail "$*: $(cat errors.txt)"
    mkdir -p "$to"
    sed -i '1s/, [-0-9T:]*Z:/:/' fitted.ini # the date of the fit
    mv fitted.ini rows.csv report.json report.txt "$to" || fail "$*: files are missing"
    [ -s errors.txt ] && fail "$*: $(cat errors.txt)"
}
threads=1 to=one fit "$dlcal"
grep -q 'leave-one-out error over 8 rows' one/report.txt || fail "no row was left out: $(cat one/report.txt)"
threads=1 to=two fit mpirun -n 2 "$dlcal"
threads=1 to=four fit mpirun -n 4 "$dlcal"
for ranks in two four; do diff -r one $ranks || fail "$ranks ranks: another fit"; done

# Two scenarios that share a cost: the same fit on ranks.
sed 's/batch = 24, 96/batch = 48, 96/' scenario.ini >second.ini
sed '2,$s/,24,/,48,/' table.csv >second.csv
both() { # command...: as fit, for both scenarios
    "$@" table table.csv second.csv -s scenario.ini -s second.ini --share dispatch.serial_ns --near --threads 1 -o first.ini \
        -o second.out.ini --json report.json >report.txt 2>errors.txt || fail "$*: $(cat errors.txt)"
    mkdir -p "$to"
    sed -i '1s/, [-0-9T:]*Z:/:/' first.ini second.out.ini
    mv first.ini second.out.ini report.json report.txt "$to" || fail "$*: files are missing"
}
to=both_one both "$dlcal"
grep -q '5 costs from 16 rows of 2 tables' both_one/report.txt || fail "both: $(cat both_one/report.txt)"
[ "$(grep -h '^serial_ns' both_one/*.ini | sort -u | wc -l)" -eq 1 ] || fail "serial_ns differs"
to=both_three both mpirun -n 3 "$dlcal"
diff -r both_one both_three || fail "three ranks: another fit of both"

# A failure is reported once.
expect 2 "--scenario FILE is needed" -n 2 "$dlcal" table table.csv
expect 1 "nowhere.csv" -n 2 "$dlcal" table nowhere.csv -s scenario.ini -o x.ini
[ "$(mpirun -n 3 "$dlcal" table nowhere.csv -s scenario.ini -o x.ini 2>&1 | grep -c 'nowhere.csv')" -eq 1 ] || fail "not said once"
head -n 3 table.csv >few.csv
expect 1 "rows cannot determine" -n 2 "$dlcal" table few.csv -s scenario.ini -o x.ini
expect 0 "Usage: dlcal fit" -n 3 "$dlcal" fit --help
[ "$(mpirun -n 3 "$dlcal" fit --help | grep -c Usage)" -eq 1 ] || fail "fit --help is not printed once"

[ "$failures" -eq 0 ]
