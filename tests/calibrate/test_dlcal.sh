#!/usr/bin/env bash
# Command-line behaviour of dlcal: exit statuses, messages, files. Usage: test_dlcal.sh DLCAL DLPROF
set -u
dlcal=$1 dlprof=$2
tested=$dlcal
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

small=(--model mlp --data synthetic --steps 30)
"$dlprof" train "${small[@]}" --workers 1 --batch 16 -o a.dlt >/dev/null || exit 1
"$dlprof" train "${small[@]}" --workers 1 --batch 48 -o b.dlt >/dev/null || exit 1
"$dlprof" train "${small[@]}" --workers 2 --sync average --batch 32 -o two.dlt >/dev/null || exit 1
"$dlprof" train --model lenet --data synthetic --steps 3 --batch 4 -o lenet.dlt >/dev/null || exit 1
"$dlprof" bench --quick --model mlp --data synthetic -o bench.dlt >/dev/null || exit 1
echo "no trace" >text.dlt

expect 0 "fit" --help
expect 0 "dlcal " --version
expect 0 "Usage: dlcal fit" fit --help
[ ! -e /dev/full ] || tested=bash expect 1 "standard output: cannot write" -c '"$0" fit a.dlt >/dev/full' "$dlcal"
[ ! -e /dev/full ] || tested=bash expect 1 "standard output: cannot write" \
    -c '"$0" train --model mlp --data synthetic --steps 2 --batch 4 -o full.dlt >/dev/full' "$dlprof"
expect 2 "did you mean 'fit'?" fitt
expect 2 "" fit
expect 2 "--parameter-bytes: '-1': -1 B is not within 0 B to 1 EB" costs --parameter-bytes -1 a.dlt
expect 2 "--state-bytes: '1 Mb': unknown unit 'Mb'; did you mean 'MB'?" costs --state-bytes '1 Mb' a.dlt
expect 2 "--output" fit --outptu x.ini a.dlt
expect 1 "nowhere.dlt" fit nowhere.dlt -o x.ini
expect 1 "text.dlt" fit text.dlt -o x.ini
expect 1 "two.dlt: is of 2 workers" fit a.dlt two.dlt -o x.ini
expect 1 "lenet.dlt: the model is 'lenet', but 'mlp' in a.dlt" fit a.dlt lenet.dlt -o x.ini
expect 1 "cannot create" fit a.dlt b.dlt -o no/such/folder.ini
if [ -e x.ini ]; then
    echo "FAIL: a failed fit left a cost file"
    failures=$((failures + 1))
fi
# Other load on the machine may make a quick benchmark too uneven for a fit, so it is repeated.
for _ in 1 2 3; do
    "$dlcal" fit a.dlt bench.dlt b.dlt -o all.ini >/dev/null 2>&1 && break
    "$dlprof" bench --quick --model mlp --data synthetic -o bench.dlt >/dev/null || exit 1
done
rm -f all.ini
expect 0 "per-sample scaling" fit a.dlt -o one.ini
expect 0 "costs written to all.ini" fit a.dlt bench.dlt b.dlt -o all.ini --json all.json
for part in "[op dispatch]" "[copy]" "[average]" "[memory]" "barrier_ns" "copies_2" "factors_1"; do
    if ! grep -qF "$part" all.ini; then
        echo "FAIL: no $part in the cost file"
        failures=$((failures + 1))
    fi
done
sum=$(md5sum a.dlt)
expect 2 "--output would overwrite a trace: a.dlt" fit b.dlt a.dlt -o a.dlt
expect 2 "--json would overwrite a trace: ./a.dlt" fit b.dlt a.dlt -o x.ini --json ./a.dlt
expect 2 "--json is the same file as --output" fit a.dlt -o x.ini --json x.ini
tested=$dlprof expect 2 "--output would overwrite a trace: a.dlt" export a.dlt -o a.dlt
[ "$(md5sum a.dlt)" = "$sum" ] && [ ! -e x.ini ] || { echo "FAIL: a trace was written over"; failures=$((failures + 1)); }
cp all.ini old.ini
tested=bash expect 1 "all.ini: cannot write: File too large" -c 'trap "" XFSZ; ulimit -f 0; exec "$0" fit a.dlt -o all.ini' "$dlcal"
cmp -s all.ini old.ini || { echo "FAIL: a failed fit touched the old cost file"; failures=$((failures + 1)); }
grep -q '"program":"dlcal"' all.json || failures=$((failures + 1))
exit $((failures > 0))
