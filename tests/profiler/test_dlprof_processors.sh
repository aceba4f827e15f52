#!/usr/bin/env bash
# The program as built runs on processors without AVX-512, and on those without AVX, and trains the
# same: QEMU's user mode (Debian: qemu-user-static or qemu-user) pretends to be one. Without it, or
# elsewhere than on x86-64, the test is skipped.
set -u
dlprof=$1
qemu=$(command -v qemu-x86_64-static || command -v qemu-x86_64) || exit 77
[ "$(uname -m)" = x86_64 ] || exit 77
run=(train --model lenet --data synthetic --batch 4 --steps 2 --no-trace)
expected=$("$dlprof" "${run[@]}" | grep -o '^loss *first [0-9.]*') || exit 1
failures=0
for processor in Haswell Nehalem; do # AVX2 and fused products; SSE4.2
    got=$("$qemu" -cpu "$processor" "$dlprof" "${run[@]}" | grep -o '^loss *first [0-9.]*')
    [ "$got" = "$expected" ] ||
        { echo "FAIL: $processor: '$got', not '$expected'"; failures=$((failures + 1)); }
done
exit "$failures"
