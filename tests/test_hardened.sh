#!/usr/bin/env bash
# Checks in the built files that the hardening options of compiler and linker took effect.
# Usage: test_hardened.sh FILE...    programs and shared libraries
set -u
export LC_ALL=C
failures=0
command -v readelf >/dev/null || { echo "no readelf: skipped"; exit 77; }

# want PATTERN WHAT: fails unless a line of $listing, the file's readelf output, matches
want() {
    grep -qE "$1" <<<"$listing" && return
    echo "FAIL: $file: no $2"
    failures=$((failures + 1))
}

for file; do
    listing=$(readelf --wide --file-header --segments --dynamic --dyn-syms "$file") || exit 1
    want '^ *GNU_RELRO ' "segment that is read-only after relocation (GNU_RELRO)"
    want '\(FLAGS_1\).*\bNOW\b' "binding at start (BIND_NOW)"
    want '^ *GNU_STACK .* RW +0x' "stack that is not executable (GNU_STACK RW)"
    want ' __stack_chk_fail(@| |$)' "stack protector (__stack_chk_fail)"
    want ' __[a-z]+_chk(@| |$)' "checked function of the C library (FORTIFY)"
    want '^ *Type: +DYN ' "position-independent code"
    [[ $file == *.so* ]] || want '\(FLAGS_1\).*\bPIE\b' "position-independent executable (PIE)"
done
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
