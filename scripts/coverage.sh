#!/usr/bin/env bash
# Prints the share of each folder's lines that the programs and tests of a build with DL_COVERAGE
# executed; BUILD/coverage.csv has the share of each source. A line that is compiled several times (for
# float and double, into several tests) counts as executed if any of the copies was.
# Usage: coverage.sh BUILD
set -euo pipefail
case "${1:-}" in
    "" | -*) sed -n '2,5s/^# \{0,1\}//p' "$0"; [ "${1:-}" = --help ] && exit 0 || exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"

find . -name '*.gcda' -print0 | xargs -0 -r -n 50 gcov -t 2>/dev/null |
    awk -F: -v root="$root/" -v sources=coverage.csv '
    $2 + 0 == 0 && $3 == "Source" {
        name = $4
        sub("^" root, "", name)
        while (sub(/^\.\.\//, "", name)) {}
        split(name, part, "/")
        folder = part[1]
        known = folder ~ /^(common|trace|kernels|profiler|sim|calibrate)$/
        next
    }
    known && $2 + 0 > 0 {
        count = $1
        gsub(/ /, "", count)
        if (count == "-") next
        line = name ":" ($2 + 0)
        if (!(line in executed)) {
            executed[line] = 0
            lines[name]++
        }
        if (count !~ /^[#=]/ && !executed[line]) {
            executed[line] = 1
            done[name]++
        }
    }
    END {
        print "source,lines,executed" >sources
        close(sources)
        for (name in lines) {
            print name "," lines[name] "," done[name] + 0 | ("sort >>" sources)
            split(name, part, "/")
            all[part[1]] += lines[name]
            ran[part[1]] += done[name]
            sum += lines[name]
            sum_ran += done[name]
        }
        if (sum == 0) {
            print "no line was counted: build with DL_COVERAGE and run the tests first" >"/dev/stderr"
            exit 1
        }
        count = split("common trace kernels profiler sim calibrate", order, " ")
        printf "%-10s %7s %9s %9s\n", "folder", "lines", "executed", "coverage"
        for (i = 1; i <= count; i++)
            printf "%-10s %7d %9d %7.1f %%\n", order[i], all[order[i]], ran[order[i]],
                100 * ran[order[i]] / (all[order[i]] > 0 ? all[order[i]] : 1)
        printf "%-10s %7d %9d %7.1f %%\n", "all", sum, sum_ran, 100 * sum_ran / sum
    }'
