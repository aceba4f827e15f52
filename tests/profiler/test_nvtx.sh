#!/usr/bin/env bash
# The injected library in real processes: each program finds the library through its environment, and
# nvtx_dump prints its trace.
# Usage: test_nvtx.sh LIBRARY DUMP target|nccl|math PROGRAM; 77 = skipped on this machine
set -u
library=$1 dump=$2 part=$3 program=$4
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_nvtx.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failures=0
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NCCL_NVTX_DISABLE

# capture ARGUMENTS...: runs the program and sets $seen to the contents of its trace.
capture() {
    rm -f "$folder"/*
    NVTX_INJECTION64_PATH=$library DLPROF_OUTPUT=$folder "$program" "$@" >"$folder/printed" 2>&1
    local status=$?
    [ $status -eq 77 ] && exit 77
    if [ $status -ne 0 ]; then
        echo "FAIL: $program $*: exit $status: $(cat "$folder/printed")"
        exit 1
    fi
    local traces=("$folder"/*.dlt)
    if [ ! -e "${traces[0]}" ] || [ ${#traces[@]} -ne 1 ]; then
        echo "FAIL: not one trace but: $(ls "$folder")"
        exit 1
    fi
    seen=$("$dump" "${traces[@]}") || exit 1
    holds 'meta complete=1'
    lacks 'meta invalid_records'
    # In a forked child, which lacks its parent's threads, the leak checker warns of false leaks.
    if grep -v 'False leaks are possible' "$folder/printed"; then
        echo "FAIL: the above was printed"
        failures=$((failures + 1))
    fi
}

# holds LINE [COUNT]: the trace has COUNT (1) lines that contain LINE.
holds() {
    local count
    count=$(grep -cF -- "$1" <<<"$seen")
    [ "$count" -eq "${2:-1}" ] && return
    printf 'FAIL: %d times "%s", not %d, in:\n%s\n' "$count" "$1" "${2:-1}" "$seen"
    failures=$((failures + 1))
}
lacks() { holds "$1" 0; }

case $part in
target)
    capture
    holds 'range name=whole run detail= '
    holds 'range name=wide € detail= '
    holds 'range name=open inner detail= '
    holds 'range name=started here detail= '
    holds 'range name=open in a thread that ends '
    holds 'range name=registered detail=own domain ' 2
    holds 'mark name=a mark detail= '
    holds '=ender'
    holds 'range name' 7
    capture fork
    lacks child
    holds 'range name' 7
    # Without DLPROF_OUTPUT nothing is written, and the program runs normally.
    rm -f "$folder"/*
    (cd "$folder" && NVTX_INJECTION64_PATH=$library "$program") || failures=$((failures + 1))
    if [ -n "$(ls "$folder")" ]; then
        echo "FAIL: wrote $(ls "$folder")"
        failures=$((failures + 1))
    fi
    ;;
nccl)
    capture
    holds 'range name=ncclCommInitRank detail=NCCL '
    holds 'collective name=AllReduce detail= bytes=4000 comm=0 peer=0 '
    holds 'collective name=AllGather detail= bytes=1000 comm=0 peer=0 '
    holds 'collective name=ReduceScatter detail= bytes=1200 '
    holds 'collective name=Broadcast detail= bytes=2000 comm=0 peer=3 '
    holds 'collective name=Reduce detail= bytes=200 comm=0 peer=2 '
    holds 'collective name=Send detail= bytes=400 comm=0 peer=5 '
    holds 'collective name=Recv detail= bytes=200 comm=0 peer=6 '
    holds 'collective' 7
    lacks 'comm name' # its communicator failed
    ;;
math)
    unset CUBLAS_NVTX_LEVEL CUDNN_NVTX_LEVEL
    export CUBLAS_NVTX_LEVEL=1 CUDNN_NVTX_LEVEL=1
    capture
    holds 'range name=cublasCreate_v2 detail=cuBLAS '
    holds 'range name=cudnnCreate detail=cuDNN '
    ;;
esac
[ "$failures" -eq 0 ]
