#!/usr/bin/env bash
# scripts/coverage.sh on a program of two objects that share a source; each executes a different
# part of it.
# Usage: test_coverage.sh COMPILER COVERAGE_SCRIPT
set -eu
compiler=$1 script=$2
command -v gcov >/dev/null || { echo "skipped: no gcov"; exit 77; }
[ "$("$compiler" -dumpversion)" = "$(gcov --version | sed -n '1s/^.* \([0-9]*\)\..*$/\1/p')" ] ||
    { echo "skipped: gcov is of another compiler"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/common" "$work/tests"
cat >"$work/common/part.h" <<'END'
static int part(int which)
{
    if (which == 1)
        return 10;
    if (which == 2)
        return 20;
    return 30;
}
END
for which in 1 2; do
    printf '#include "part.h"\nint main(void)\n{\n    return part(%d) == 0;\n}\n' $which \
        >"$work/common/main$which.c"
    (cd "$work" && "$compiler" --coverage -o main$which common/main$which.c && ./main$which)
done
table=$("$script" "$work")
echo "$table"
# All lines with code were executed, except the last return, which neither program reaches.
awk -F, '$1 == "common/part.h" { ok = $2 >= 5 && $3 == $2 - 1 }
         $1 ~ /main/ { bad += $2 != $3 }
         END { exit !(ok && !bad) }' "$work/coverage.csv" || { cat "$work/coverage.csv"; exit 1; }
lines=$(awk -F, 'NR > 1 { sum += $2 } END { print sum }' "$work/coverage.csv")
grep -qE "^common +$lines +$((lines - 1)) " <<<"$table"
grep -qE "^all +$lines +$((lines - 1)) " <<<"$table"
if "$script" "$work/tests" 2>/dev/null; then echo "FAIL: no line counted, and no error"; exit 1; fi
if "$script" 2>/dev/null >&2; then echo "FAIL: nothing given, and no error"; exit 1; fi
