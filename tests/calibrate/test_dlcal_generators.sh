#!/usr/bin/env bash
# Command-line behaviour of dlcal generators; dlsim gives equal results from its cost file and from
# keys.
# Usage: test_dlcal_generators.sh DLCAL DLSIM
set -u
tested=$1
dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

# a = 10 ms, b = 0.1 ms: c / (a + b c) tokens/s; an update takes 4 s + 200 us per token of a GPU.
cat >parts.csv <<'END'
requests,tokens_per_s,tokens,gpus,update_s
1,99.00990099,,,
10,909.0909091,,,
100,5000,1000000,10,24
,,1000000,20,14
END
expect 0 "10.0 ms + 100 us for each request in flight (3 rows" generators parts.csv -o rl.costs.ini
expect 0 "4.00 s + 200 us for each token of a GPU (2 rows" generators parts.csv -o rl.costs.ini

section='[generators]
gpus = 24
generator_gpus = 8
prompts = 64
length_mean = 1000
length_cap = 4000'
printf '[workload]\ncosts = rl.costs.ini\n%s\n' "$section" >costs.ini
printf '%s\ntoken_s = 0.01\nrequest_token_s = 1e-4\ntrain_fixed_s = 4\ntrain_token_gpu_s = 2e-4\n' \
    "$section" >keys.ini
update() { "$dlsim" "$1" -q -o "$1.csv" && awk -F, '/^#/ { next }
    !at { for (i = 1; i <= NF; i++) if ($i == "update_s") at = i; next }
    { printf "%.5f\n", $at }' "$1.csv"; }
by_costs=$(update costs.ini) by_keys=$(update keys.ini)
if [ -z "$by_keys" ] || [ "$by_costs" != "$by_keys" ]; then
    echo "FAIL: an update takes $by_costs s by the cost file, $by_keys s by keys"
    failures=$((failures + 1))
fi

printf 'step_s\n30\n' >step.csv
expect 1 "a whole step does not tell generation from training" generators step.csv -o no.ini
printf 'requests,tokens_per_s\n8,900\n8,910\n' >one.csv
expect 1 "at least two values of requests are needed" generators one.csv -o no.ini
printf 'requests,tokens_per_s\n8,-1\n9,910\n' >bad.csv
expect 1 "bad.csv:2: tokens_per_s: expected a number above 0" generators bad.csv -o no.ini

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
