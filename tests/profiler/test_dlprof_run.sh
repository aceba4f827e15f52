#!/usr/bin/env bash
# The command dlprof run, with scripts as targets. The injected library is an empty file next to a copy
# of the program, and the scripts write the files that it would write, so everything around it is
# tested on every machine. With NVTX_STEPS (nvtx_steps.c), also the real library and a real target.
# Usage: test_dlprof_run.sh DLPROF [NVTX_STEPS]
# shellcheck disable=SC2016 # the targets expand the single-quoted text
set -u
built=$1
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

mkdir bare full work
cp "$built" bare/dlprof
cp "$built" full/dlprof
touch full/libdlprof_inject.so
bare=$folder/bare/dlprof
full=$folder/full/dlprof
library=$folder/full/libdlprof_inject.so
cd work || exit 1
"$built" train --model mlp --batch 4 --data synthetic --steps 2 -o ../good.dlt >/dev/null || exit 1
head -c -1 ../good.dlt >../cut.dlt

# A build without the library runs the command, records nothing and prints a message.
tested=$bare
expect 0 "Usage: dlprof run" run --help
expect 5 "no libdlprof_inject.so beside" run -- sh -c 'exit 5'
expect 0 "unset" run -- sh -c 'echo ${CUDA_INJECTION64_PATH-unset}'
[ -z "$(ls)" ] || fail "without the library files were left: $(ls)"

tested=$full
# Bad usage exits with 2
expect 2 "must follow the options" run
expect 2 "must follow the options" run --
expect 2 "must follow the options" run -q --preset full
expect 2 "did you mean '--preset'?" run --presett full -- true
expect 2 "did you mean 'light'?" run --preset ligth -- true
expect 2 "--limit: 1000 is" run --limit 1kB -- true
expect 2 "--duration: 1e-05 is" run --duration 0.00001 -- true
for variable in CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH; do
    export $variable=/opt/other.so
    expect 2 "$variable is set already, to /opt/other.so" run -- true
    expect 0 "$variable=$library" run --force -- env
    unset $variable
done
export NCCL_PROFILER_PLUGIN=/opt/other.so
expect 2 "NCCL_PROFILER_PLUGIN is set" run --nccl-plugin -- true
expect 0 "NCCL_PROFILER_PLUGIN=/opt/other.so" run -- env
expect 0 "NCCL_PROFILER_PLUGIN=$library" run --nccl-plugin --force -- env
unset NCCL_PROFILER_PLUGIN
expect 1 "cannot make the folder" run -o no/folder -- true
echo old >summary.txt
expect 1 "cannot create" run --summary summary.txt --json no/folder.json -- true
[ "$(cat summary.txt)" = old ] && [ -z "$(find . -name '.*.partial*')" ] || fail "a run that did not start left reports"
expect 2 "--json is the same file as --summary" run --summary summary.txt --json ./summary.txt -- true
rm summary.txt
touch file
expect 1 "file: cannot write into it: Not a directory" run -o file -- true
rm file
[ -d /proc/self ] && expect 1 "/proc: cannot write into it" run -o /proc -- true
expect 2 "--output: the name of the file is empty" run --output= -- true
export DLPROF_PRESET=ligth
expect 2 "did you mean 'light'?" run -- true
unset DLPROF_PRESET
[ -z "$(ls)" ] || fail "these left files: $(ls)"

# Commands that cannot be run and exit codes are treated as by a shell.
expect 127 "nosuch: cannot run it" run -- nosuch
expect 127 "nosuch: cannot run it" run nosuch --preset
# Without -- the first word that is no option starts the command; all later words, also --, belong to it.
expect 4 "x --preset -- -q" run -q sh -c 'echo $0 $*; exit 4' x --preset -- -q
expect 126 "cannot run it" run -- /etc/passwd
echo 'import torch' >train.py
expect 126 "Permission denied; a script follows its interpreter: python3 SCRIPT.py" run ./train.py
rm train.py
mkdir used && touch used/1.dlt
expect 1 "used: holds traces or logs of another run already; -o names another folder" run -o used -- true
rm -r used
expect 0 "no trace: no CUDA activity seen" run -- true
expect 77 "no CUDA activity seen" run -q -- sh -c 'exit 77'
expect 143 "no CUDA activity seen" run -- sh -c 'kill -TERM $$'
[ -z "$(ls)" ] || fail "runs without a trace left files: $(ls)"

# The settings reach the target; standard input and output are its own.
output=$(echo "from stdin" | "$full" run -o out --preset full --graphs graph --steps 12 --duration 1.5 \
    --limit 2GB --dump-raw --lib-ranges -- sh -c 'cat; env' 2>/dev/null)
for line in "from stdin" CUDA_INJECTION64_PATH="$library" NVTX_INJECTION64_PATH="$library" \
    DLPROF_OUTPUT="$PWD/out" DLPROF_PRESET=full DLPROF_GRAPHS=graph DLPROF_STEPS=12 \
    DLPROF_DURATION=1.5 DLPROF_LIMIT=2GB DLPROF_DUMP_RAW=1 \
    DLPROF_LIB_RANGES=1 CUBLAS_NVTX_LEVEL=1 CUBLASLT_NVTX_LEVEL=1 CUDNN_NVTX_LEVEL=1; do
    grep -qxF "$line" <<<"$output" || fail "the target did not get '$line'"
done
grep -q "^dlprof" <<<"$output" && fail "our words on the target's standard output"
output=$(KINETO_USE_DAEMON=1 DLPROF_PRESET=light "$full" run -- env 2>/dev/null)
grep -qx DLPROF_PRESET=light <<<"$output" || fail "a setting from the environment was lost"
grep -q KINETO_USE_DAEMON <<<"$output" && fail "KINETO_USE_DAEMON was left"
grep -q CUBLAS_NVTX_LEVEL <<<"$output" && fail "cuBLAS was asked for ranges"

# Several processes, one cut short, one that failed, one with a log only.
cat >target.sh <<'END'
cp ../good.dlt "$DLPROF_OUTPUT/node.11.1000.dlt"
cp ../cut.dlt "$DLPROF_OUTPUT/node.12.1000.dlt"
echo garbage >"$DLPROF_OUTPUT/node.13.1000.dlt"
echo "another profiler holds CUPTI" >"$DLPROF_OUTPUT/node.14.1000.log"
exit "$1"
END
expect 0 "3 traces in $PWD/several" run -o several -- sh target.sh 0
expect 1 "holds traces or logs of another run" run -o several -- true
expect 3 "failed with exit code 3" run -o failed -- sh target.sh 3
expect 137 "was killed by SIGKILL" run -o killed -- sh -c 'sh target.sh 0; kill -KILL $$'
"$full" run -q -o quiet --summary summary.txt --json run.json -- sh target.sh 0 2>words.txt
[ -s words.txt ] && fail "--quiet printed: $(cat words.txt)"
expect 0 "node pid 14: left no trace" run -q -o troubles -- sh target.sh 0
for text in "node pid 12: .*incomplete" "node pid 13: its trace cannot be read" \
    "node pid 14: left no trace" "another profiler holds CUPTI"; do
    grep -q "$text" summary.txt || fail "no '$text' in: $(cat summary.txt)"
done
python3 - <<'END' || fail "run.json: $(cat run.json)"
import json
run = json.load(open("run.json"))
assert run["command"] == ["sh", "target.sh", "0"] and run["exit_code"] == 0 and run["signal"] == 0
assert [p["pid"] for p in run["processes"]] == [11, 12, 13, 14]
assert [p.get("complete") for p in run["processes"]] == [True, False, None, None]
END

# The reader of the summary has closed the pipe.
{
    "$full" run -o unread --json unread.json -- sh -c 'sh target.sh 0; sleep 0.5; exit 7' 2>&1
    echo $? >status.txt
} | true
grep -qx 7 status.txt || fail "unread: exit $(cat status.txt), not 7"
[ -s unread.json ] || fail "unread: no JSON"

# Control characters in names and logs of files are escaped.
expect 0 '\u001b[31mred' run -o red -- sh -c 'printf "\033[31mred\n" >"$DLPROF_OUTPUT/node.1.1.log"'

# A full disk: the written part is kept, and the message has the reason. The limit on files is a little
# below a trace's size, which differs between runs; if the trace still fits, the limit is lowered.
if [ $# -gt 1 ]; then
    "$built" run -q -o whole -- "$2" 200
    bytes=$(stat -c %s whole/*.dlt)
    for less in 60 200 400 800; do
        rm -rf small
        output=$(GCOV_PREFIX=$PWD/counts prlimit --fsize=$((bytes - less)) "$built" run -o small -- "$2" 200 2>&1)
        status=$?
        ! grep -q "cannot write" <<<"$output" || break
    done
    [ $status -eq 0 ] || fail "full: exit $status: $output"
    grep -q "cannot write: File too large" <<<"$output" || fail "full: no reason: $output"
    grep -qE "[1-9][0-9]+ range" <<<"$output" || fail "full: nothing kept: $output"
fi

# If the report cannot be written, there is a message, and the exit code is still the target's.
[ -c /dev/full ] && expect 0 "/dev/full: cannot write: No space left on device" run -o nowhere --json /dev/full -- sh target.sh 0

# Without a trace, the message has the reason from the injected library's log.
expect 0 "no GPU work was recorded; the summary says more" run -o early -- \
    sh -c 'sh target.sh 0; rm "$DLPROF_OUTPUT"/*.11.*'
expect 0 "libcupti.so not found" run -o logged -- \
    sh -c 'echo "libcupti.so not found" >"$DLPROF_OUTPUT/node.1.1.log"'
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 500 locked
    expect 1 "cannot write into it" run -o locked -- true
fi

# Of many concurrent runs with the same folder exactly one gets it, whether or not it exists before.
for kind in new there; do
    [ $kind = new ] || mkdir together.$kind
    for i in $(seq 40); do
        "$full" run -q -o together.$kind -- sh -c 'sleep 0.5; cp ../good.dlt "$DLPROF_OUTPUT/node.$$.1000.dlt"' \
            2>"refused.$i" &
    done
    wait
    [ "$(ls together.$kind/*.dlt | wc -l)" -eq 1 ] || fail "together.$kind: $(ls -A together.$kind)"
    [ "$(ls -A together.$kind | wc -l)" -eq 1 ] || fail "together.$kind: left $(ls -A together.$kind)"
    refused=$(cat refused.* | grep -cE "another dlprof run records into it|holds traces or logs of another run")
    [ "$refused" -eq 39 ] || fail "together.$kind: $refused refused: $(cat refused.*)"
    rm refused.*
done
mkdir -p killed.run/.dlprof-run
expect 1 "if that was killed: remove .dlprof-run" run -o killed.run -- true

# dlprof forwards a signal that only it receives, and still prints the summary.
"$full" run -o told -- sh -c 'sh target.sh 0; trap "exit 9" TERM; touch ready; while :; do sleep 0.05; done' \
    2>words.txt &
runner=$!
until [ -e ready ] || ! kill -0 $runner 2>/dev/null; do sleep 0.1; done
kill -TERM $runner
wait $runner
status=$?
[ $status -eq 9 ] || fail "SIGTERM: exit $status, not 9"
grep -q "3 traces" words.txt || fail "SIGTERM: no summary in: $(cat words.txt)"

# A terminal's Ctrl-C reaches the target once, from the terminal.
cat >count.sh <<'END'
count=0
trap 'count=$((count + 1))' INT
touch ctrl
while [ $count -eq 0 ]; do sleep 0.05; done
for _ in 1 2 3 4; do sleep 0.05; done # for a second one
exit $count
END
python3 - "$full" <<'END' || fail "Ctrl-C"
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "run", "--", "sh", "count.sh"])
while not os.path.exists("ctrl"):
    time.sleep(0.02)
os.write(terminal, b"\x03")
text = b""
try:
    while True:
        piece = os.read(terminal, 4096)
        if not piece:
            break
        text += piece
except OSError:
    pass
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status != 1 or b"dlprof run: no trace" not in text:
    sys.exit(f"exit {status}: {text}")
END

# The real library in real processes without CUDA, which mark ranges: ranks, a limit, a kill.
if [ $# -gt 1 ]; then
    tested=$built
    steps=$2
    expect 0 "42 activities (40 range, 2 clock)" run -- "$steps" 20
    expect 0 "no GPU work was recorded, only what the command marks" run -- "$steps" 20
    expect 0 "stopped early: limit on steps" run --steps 3 -- "$steps" 20
    expect 137 "incomplete" run -o real -- "$steps" 20 killed
    # The steps are those of the process, as no device has any.
    expect 0 "" run -q -o marked "$steps" 20
    expect 0 " marks" info marked/*.dlt
    grep -q "^host " <<<"$("$built" info marked/*.dlt)" || fail "no steps: $("$built" info marked/*.dlt)"
    # dlprof train marks the steps of its first worker.
    expect 0 "(25 range, 2 clock)" run -o own -- "$built" train --model mlp --data synthetic --batch 4 --steps 25 \
        --workers 2 --sync average -o ../own.dlt
    expect 0 "sd found" info own/*.dlt
    expect 0 "40 range" run --json ranks.json -- sh -c 'RANK=1 "$0" 20 & RANK=0 "$0" 10; wait' "$steps"
    python3 - <<'END' || fail "ranks.json: $(cat ranks.json)"
import json
processes = json.load(open("ranks.json"))["processes"]
assert [p["rank"] for p in processes] == [0, 1]
assert [p["activities"]["range"] for p in processes] == [20, 40]
assert all(p["complete"] and p["lost"] == 0 for p in processes)
END
fi

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
