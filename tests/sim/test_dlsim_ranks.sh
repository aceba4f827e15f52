#!/usr/bin/env bash
# One sweep on threads and on ranks started by mpirun: the same bytes, and one message per failure.
# Usage: test_dlsim_ranks.sh DLSIM
set -u
tested=mpirun dlsim=$1
golden=$(cd "$(dirname "$0")/../golden" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
command -v mpirun >/dev/null || { echo "no mpirun: skipped"; exit 77; }
# shellcheck source=tests/mpirun.sh
source "$(dirname "$0")/../mpirun.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# same FILE: one thread, two threads, two ranks and four write the same files and the same table
same() {
    local name=$1 how
    "$dlsim" "$name" --threads 1 -o results.csv --histogram histogram.csv --json results.json --html page.html >one.table || fail "$name"
    for file in results.csv histogram.csv results.json page.html; do mv $file one.$file; done
    for how in "$dlsim --threads 2" "mpirun -n 2 $dlsim --threads 1" "mpirun -n 4 $dlsim --threads 2"; do
        $how "$name" -o results.csv --histogram histogram.csv --json results.json --html page.html >table 2>errors || fail "$how $name: $(cat errors)"
        for file in table results.csv histogram.csv results.json page.html; do
            cmp one.$file $file || fail "$how $name: another $file"
            rm -f $file
        done
        [ -s errors ] && fail "$how $name: $(cat errors)"
    done
}
# The launcher of another MPI sets other variables: one process reports this, and none runs the sweep alone.
for rank in 0 1; do
    PMI_RANK=$rank PMI_SIZE=2 "$dlsim" "$golden/modes.ini" -q -o other.csv >output.txt 2>&1
    [ $? -eq $((1 - rank)) ] || fail "rank $rank of another MPI: exit status"
    [ -e other.csv ] && fail "rank $rank of another MPI: results are written"
    [ "$rank" -eq 1 ] || grep -q "has started 2 processes, but this build's MPI finds 1" output.txt ||
        fail "another MPI: $(cat output.txt)"
done
for name in modes gpu_reduce gpu_servers noise; do same "$golden/$name.ini"; done
# Assumed costs are varied by all ranks too.
cat >assumed.ini <<END
[scenario]
steps = 40
replicates = 2
[machine]
file = dgx1_v100
workers = 1, 8, 16
[workload]
model = resnet50
batch_per_worker = 32
[sync]
mode = allreduce, average
where = cpu
interval = 4
[noise]
kind = lognormal
sigma = 0.05
END
same assumed.ini
grep -q 'samples/s -[0-9.]* to +' one.table || fail "no assumption's influence is shown: $(cat one.table)"

# A failure on any rank is reported once, and nothing is written.
expect 2 "nothing to simulate" -n 3 "$dlsim"
expect 1 "none.ini: " -n 3 "$dlsim" none.ini
[ "$(mpirun -n 3 "$dlsim" none.ini 2>&1 | grep -c none.ini)" -eq 1 ] || fail "not reported once"
sed -e "s|^costs.*|costs = $golden/costs.ini|" -e '/^\[measured\]/,/^$/d' "$golden/modes.ini" >mine.ini
cat >own.sh <<END
[ "\$OMPI_COMM_WORLD_RANK" -ne 1 ] || cd other
exec "$dlsim" mine.ini -q
END
mkdir other
expect 1 "rank 1 on $(hostname): " -n 2 sh own.sh
sed 's/^steps.*/steps = 7/' mine.ini >other/mine.ini
cmp -s mine.ini other/mine.ini && fail "the scenarios are equal"
expect 1 "dlsim: the scenario, or a file that it names, of rank 1 on $(hostname) differs" -n 2 sh own.sh
[ -e results.csv ] && fail "results were written"

# All output is printed once.
[ "$(mpirun -n 3 "$dlsim" --version | wc -l)" -eq 1 ] || fail "--version"
[ "$(mpirun -n 3 "$dlsim" --check mine.ini | grep -c 'points')" -eq 1 ] || fail "--check"

# A run with fewer points than ranks.
expect 0 "2 points in" -n 4 "$dlsim" --costs "$golden/costs.ini" --workers 1,2 --batch 8 --steps 5 -o few.csv

# A killed rank ends all.
sed -e 's/^steps.*/steps = 4000000/' mine.ini >long.ini
cat >die.sh <<END
[ "\$OMPI_COMM_WORLD_RANK" -ne 1 ] || { sleep 2; kill -9 \$\$; } &
exec "$dlsim" long.ini -q
END
output=$(mpirun -n 3 sh die.sh 2>&1)
status=$?
[ $status -eq 137 ] || fail "a killed rank: exit $status: $output"
names_killed 1 "$output" || fail "no name: $output"

[ "$failures" -eq 0 ]
