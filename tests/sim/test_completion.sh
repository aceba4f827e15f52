#!/usr/bin/env bash
# Completion of the values of dlsim's options, as called by bash; some values are completed by the program.
# Usage: test_completion.sh DLSIM
tested=$1
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
PATH=$(dirname "$tested"):$PATH
# shellcheck disable=SC1090
source <("$tested" --print-completion)

# becomes "WORDS" ARGUMENTS...: checks the completions of dlsim's last argument. '=' is a separate word.
becomes() {
    local words=$1
    shift
    COMP_WORDS=(dlsim "$@") COMP_CWORD=$#
    _dlsim
    [ "${COMPREPLY[*]}" = "$words" ] && return
    echo "FAIL: dlsim $*: '${COMPREPLY[*]}', not '$words'"
    failures=$((failures + 1))
}

# Machines by name, as nodes, and as boxes of GPUs; the last item of a list, and the last of several parts.
becomes p2.8xlarge_x8 --machine = p2.8xlarge_
becomes dgx_a100,2xg5.48xlarge --machine dgx_a100,2xg5.4
becomes 8xmi300x --machine 8xmi300
becomes 4x2xgtx1080ti --machine 4x2xgtx1080t
becomes 1xrtx3090+1xgtx1080ti --machine 1xrtx3090+1xgtx1080t
becomes "" --machine nowhere/

# Networks, choices, keys and their choices.
becomes resnet50 --workload resnet5
becomes allreduce,softsync --mode allreduce,soft
becomes "fsdp fsdp2" --mode fs
becomes ddp,diloco --mode ddp,dil
becomes bf16 --arithmetic b
becomes trace --noise tr
becomes throughput --for th
becomes "resume restart" --journal re
becomes noise,slow --without noise,sl
becomes sync.interval --solve sync.int
becomes exchange.overlap= --set exchange.over
becomes exchange.overlap= --set = exchange.over
becomes "no yes" --set exchange.overlap =
becomes "no yes" --set = exchange.overlap =
becomes none,optimizer --set exchange.sharded = none,o
becomes "ring tree node_tree hierarchical auto" --set exchange.algorithm = ""
becomes "pipedream" --set pipeline.schedule = pipe
becomes "" --costs c

# Axes of layouts, for each word of the last layout; rules of frameworks.
becomes "tp= cp= ep= pp= fsdp= dp=" --layout ""
becomes "8,pp=" --layout tp = 8,p
becomes "4,fsdp=" --layout = tp = 8,pp = 4,f
becomes "tp=8|pp=" --layout "tp=8|p"
becomes "2,fsdp=" --set machine.layout = pp = 2,f
becomes "verl trl areal nemo-rl" --rules ""
becomes areal --rules = a

[ "$failures" -eq 0 ]
