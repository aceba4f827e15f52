#!/usr/bin/env bash
# A killed sweep continues from its journal and writes the same bytes as an uninterrupted one.
# Usage: test_dlsim_journal.sh DLSIM
set -u
tested=$1 dlsim=$1
golden=$(cd "$(dirname "$0")/../golden" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
output=results.csv
# shellcheck source=tests/kill.sh
source "$(dirname "$0")/../kill.sh"

# 456 runs, with a number of steps that takes half a second on this machine.
steps=500
for _ in 1 2 3; do
    sed -e "s|^costs.*|costs = $golden/costs.ini|" -e '/^\[measured\]/,/^$/d' \
        -e "s/^steps.*/steps = $steps\nreplicates = 12/" "$golden/modes.ini" >sweep.ini
    printf '[noise]\nkind = gamma\nsigma = 0.2\n' >>sweep.ini
    before=$(date +%s%N)
    "$dlsim" sweep.ini -q --journal off -o expected.csv || fail "the sweep does not run"
    ms=$((($(date +%s%N) - before) / 1000000 + 1))
    [ $ms -ge 500 ] && break
    steps=$((steps * 700 / ms + 1))
done

# resume COMMAND...: the same command as the killed one
resume() {
    "$@" sweep.ini -o results.csv >output.txt 2>&1 || fail "$*: $(cat output.txt)"
    grep -q 'dlsim: continues with [1-9][0-9]* of 456 runs from the journal' output.txt || fail "$*: $(head -n 3 output.txt)"
    cmp expected.csv results.csv || fail "$*: other results"
    [ -e results.csv.journal ] && fail "$*: the journal is still there"
    rm -f results.csv
}

# Killed twice, with different numbers of threads.
kill_at 1 "$dlsim" sweep.ini -q --threads 1 -o results.csv
first=$(stat -c %s results.csv.journal)
kill_at $((first + 1)) "$dlsim" sweep.ini -q --threads 2 -o results.csv
resume "$dlsim" --threads 2

# The journal of another sweep is ignored, and still used by its own sweep; an incomplete end is cut off.
kill_at 1 "$dlsim" sweep.ini -q --threads 1 -o results.csv
head -c -20 results.csv.journal >torn && printf 'garbage' >>torn
cp torn results.csv.journal
expect 0 "results.csv.journal is of another, unfinished run" sweep.ini -q --seed 5 -o results.csv
expect 0 "" sweep.ini -q --without noise -o results.csv
cmp torn results.csv.journal.* || fail "another run's journal was changed"
cp sweep.ini sweep.kept
echo '; a word' >>sweep.ini
expect 0 "" sweep.ini -q -o results.csv
mv sweep.kept sweep.ini
resume "$dlsim" --threads 1
cp torn results.csv.journal
expect 0 "" "$golden/modes.ini" -q -o results.csv --journal restart
[ -e results.csv.journal ] && fail "restart: the journal is still there"
rm -f results.csv

# A file that only the second of two variants reads belongs to the sweep, too.
printf 'tokens\n100\n300\n' >first.csv
printf 'tokens\n200\n500\n' >second.csv
cat >generators.ini <<'END'
[scenario]
steps = 500
replicates = 8
[generators]
gpus = 8
generator_gpus = 1, 2, 3, 4
prompts = 8
answers = 4
lengths = first.csv, second.csv
token_s = 0.02
request_token_s = 0.002
train_fixed_s = 1
train_token_gpu_s = 1e-9
copy_s = 1
bound = 1, 2, 4
END
kill_at 1 "$dlsim" generators.ini -q --threads 1 -o results.csv
echo 900 >>second.csv
expect 0 "results.csv.journal is of another, unfinished run" generators.ini -q -o results.csv
rm -f results.csv results.csv.journal*

# The journal of a running sweep is not taken: that sweep continues and ends undisturbed.
"$dlsim" sweep.ini -q --threads 1 -o results.csv >first.txt 2>&1 &
first=$!
until [ -s results.csv.journal ] || ! kill -0 $first 2>/dev/null; do sleep 0.01; done
kill -STOP $first
expect 1 "results.csv.journal: another run is writing this journal" sweep.ini -q -o results.csv --journal restart
kill -CONT $first
wait $first || fail "a run whose journal was asked for: $(cat first.txt)"
cmp expected.csv results.csv || fail "a run whose journal was asked for: other results"
rm -f results.csv

# A full disk ends the sweep; the part already written is kept.
if command -v prlimit >/dev/null; then
    export GCOV_PREFIX=$PWD/counts
    prlimit --fsize=60000 "$dlsim" sweep.ini -q --threads 1 -o results.csv >output.txt 2>&1
    status=$?
    unset GCOV_PREFIX
    [ $status -eq 1 ] || fail "a full disk: exit $status: $(cat output.txt)"
    grep -q 'results.csv.journal: cannot write: File too large' output.txt || fail "a full disk: $(cat output.txt)"
    resume "$dlsim" --threads 2
fi

# MPI ranks: all are killed, then one of them.
if command -v mpirun >/dev/null && [ -e "$(dirname "$dlsim")/libdlscale_mpi.so" ]; then
    # shellcheck source=tests/mpirun.sh
    source "$(dirname "$0")/../mpirun.sh"
    kill_at 1 mpirun -n 2 "$dlsim" sweep.ini -q --threads 1 -o results.csv
    resume mpirun -n 4 "$dlsim" --threads 1
    kill_rank "$dlsim" sweep.ini -q --threads 1 -o results.csv
    resume mpirun -n 4 "$dlsim" --threads 1
fi

# Other outputs keep no journal.
expect 0 "" "$golden/modes.ini" -q -o /dev/null
expect 2 "journal" sweep.ini --journal no
DLSCALE_JOURNAL_S=often expect 1 "DLSCALE_JOURNAL_S: 'often'" sweep.ini -o results.csv

[ "$failures" -eq 0 ]
