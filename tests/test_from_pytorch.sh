#!/usr/bin/env bash
# docs/from_pytorch.md: dlsim accepts the options in each row of its tables, added to the page's
# command.
# Usage: test_from_pytorch.sh DLSIM ROOT
set -u
tested=$(realpath "$1")
page=$(realpath "$2")/docs/from_pytorch.md
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
read -ra base <<<"$(sed -n 's/^\$ dlsim //p' "$page")"
rows=0
while IFS= read -r options; do
    rows=$((rows + 1))
    read -ra words <<<"$options"
    expect 0 "samples/s" "${base[@]}" "${words[@]}"
done < <(awk -F'|' '/^\|/ && match($(NF - 1), /`--[^`]* [^`]*`/) { print substr($(NF - 1), RSTART + 1, RLENGTH - 2) }' "$page")
[ "$rows" -ge 40 ] || { echo "FAIL: only $rows rows"; failures=$((failures + 1)); }
[ "$failures" -eq 0 ]
