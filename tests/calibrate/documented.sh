# Checks that the reference documents the columns that dlcal writes. Sourced after expect.sh.

# documented FILE.csv...: fails unless docs/formats.md names each column of the files.
documented() {
    local page file name
    page=$(dirname "${BASH_SOURCE[0]}")/../../docs/formats.md
    for file; do
        for name in $(grep -v '^#' "$file" | head -1 | tr ',' ' '); do
            grep -qF "\`$name\`" "$page" ||
                { echo "FAIL: $file has '$name', which docs/formats.md does not name"; failures=$((failures + 1)); }
        done
    done
}
