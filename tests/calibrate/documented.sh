# For tests of what dlcal writes: its columns and members are in the reference. Sourced after expect.sh.

# documented FILE...: each column of a CSV file, and each member of a JSON file but those that are named by
# kinds of edges, classes and messages, is in docs/formats.md or, where it is a key, in docs/keys.md.
documented() {
    local docs file name
    docs=$(dirname "${BASH_SOURCE[0]}")/../../docs
    for file; do
        for name in $(case $file in
            *.csv) grep -v '^#' "$file" | head -1 | tr ',' ' ' ;;
            *) sed -E 's/"(edges|critical_path_ns|quantise)":\{([^{}]|\{([^{}]|\{[^{}]*\})*\})*\}//g' "$file" |
                grep -oE '"[a-z0-9_]+":' | tr -d '":' | sort -u ;;
        esac); do
            grep -qF "\`$name\`" "$docs/formats.md" "$docs/keys.md" ||
                { echo "FAIL: $file has '$name', which docs/formats.md does not name"; failures=$((failures + 1)); }
        done
    done
}
