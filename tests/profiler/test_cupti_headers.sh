#!/usr/bin/env bash
# The recorder compiles with the headers of older CUDA toolkits, from PyPI. Usage:
# test_cupti_headers.sh ROOT COMPILER; exit status 77 without PyPI
set -u
root=$1 compiler=$2 failures=0
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_cupti_headers.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
for version in cu11:11.8 cu12:12.1 cu12:12.4 cu12:12.8; do
    suffix=${version%:*} cuda=${version#*:}
    mkdir "$cuda"
    for part in cupti runtime nvcc; do
        python3 -m pip --quiet download --no-deps --dest "$cuda" "nvidia-cuda-$part-$suffix==$cuda.*" || exit 77
    done
    for wheel in "$cuda"/*.whl; do python3 -m zipfile -e "$wheel" "$cuda"; done
    includes=()
    for include in "$cuda"/nvidia/cuda_*/include; do includes+=(-isystem "$include"); done
    for source in "$root"/profiler/inject/{cupti_*,entry}.c; do
        $compiler -std=c11 -D_GNU_SOURCE -DDL_CUPTI_FOLDER='""' -Wall -Wextra -Werror -fsyntax-only -I"$root" \
            "${includes[@]}" "$source" || { echo "FAIL: CUDA $cuda: $source"; failures=$((failures + 1)); }
    done
done
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
