#!/usr/bin/env bash
# scenarios/guide/guide.sh has an answer for every model and machine: a model that does not fit into
# one GPU is not put on one, and a model that fits nowhere needs a larger machine.
set -euo pipefail
guide=$(cd "$(dirname "$0")/.." && pwd)/scenarios/guide/guide.sh
DLSIM=$(realpath "$1") "$guide" >guide.txt

expect() { # line of the machine, pattern of the answer
    if ! grep -A 5 "$1" guide.txt | grep -q "choose: $2"; then
        echo "test_guide: '$1' does not have 'choose: $2'" >&2
        grep -A 5 "$1" guide.txt >&2
        exit 1
    fi
}
[ "$(grep -c 'choose:' guide.txt)" = 12 ]
expect 'GPT-2 large on 2 GTX' 'the model split, 1 x 2 GPUs'
expect 'GPT-2 large.*p2.8xlarge$' 'split, and copies'
expect 'GPT-2 XL on 2 GTX' 'a larger machine'
expect 'GPT-2 XL.*dgx1_v100$' 'split, and copies'
expect 'VGG-19-BN.*dgx1_v100$' 'a copy of the model on each'
expect 'VGG-19-BN.*2x GTX 1080 Ti$' 'a copy of the model on each, 2'
if "$guide" --wrong 2>/dev/null; then exit 1; fi
echo ok
