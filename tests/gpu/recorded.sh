#!/usr/bin/env bash
# Whether a summary of dlprof run (--json FILE) holds kernels, and nothing of them was dropped or lost.
# Prints a line; exit status 0 if so, 1 if not, 2 for bad usage.
#
#   tests/gpu/recorded.sh SUMMARY.json [KERNELS]     the least number of kernels, default 1
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
numbers() { # key
    grep -oE "\"($1)\":[0-9]+" "$2" 2>/dev/null
}
# The counts by kind are each process's; those of its summary have other keys.
kernels=$(numbers kernel "$1" | awk -F: '{ sum += $2 } END { print sum + 0 }')
missing=$(numbers 'lost|dropped_records|lost_[a-z]+|invalid_records|bytes_ignored' "$1" | grep -v ':0$' |
    sort -u | paste -sd ' ')
if [ "$kernels" -lt "${2:-1}" ]; then
    echo "NOT HELD: $kernels kernels recorded, ${2:-1} or more expected"
    exit 1
fi
if [ -n "$missing" ]; then
    echo "NOT HELD: $kernels kernels recorded, but $missing"
    exit 1
fi
echo "held: $kernels kernels recorded, none dropped or lost"
