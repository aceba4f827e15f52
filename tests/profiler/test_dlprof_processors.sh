#!/usr/bin/env bash
# The built program runs on processors without AVX-512 and without AVX, with the same training results.
# QEMU's user mode (Debian: qemu-user-static or qemu-user) emulates them. The test is skipped without
# QEMU, or if the machine is not x86-64.
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
