#!/usr/bin/env bash
# What follows from the studies that the project grew from, and what their authors asked: a text, every
# number in which is read from a result, cost or measured file.
#
# Usage: scenarios/seeds/answers.sh FOLDER     FOLDER/NAME/results.csv: results of dlsim (./reproduce makes
#                                              them); needs bin/dlsim in build/release (or $DLSIM)
set -euo pipefail
results=$(cd "${1:?usage: answers.sh FOLDER}" && pwd)
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/report/common.sh
source scripts/report/common.sh
dlsim=$(program dlsim)
free=$(mktemp -d)
trap 'rm -rf "$free"' EXIT
for name in beeva_mxnet_p2_lenet beeva_tensorflow_p2 navid_keras_more; do
    mkdir "$free/${name}_free_host"
    "$dlsim" --quiet "scenarios/seeds/$name.ini" --without dispatch -o "$free/${name}_free_host/results.csv"
done

# value RESULT KEY=VALUE,... COLUMN: the cell of the one row with these keys; `fastest` as COLUMN: the
# workers of the row with the largest throughput.
value() {
    local file=$results/$1/results.csv
    [ -f "$file" ] || file=$free/$1/results.csv
    awk -F, -v keys="$2" -v column="$3" '
        /^#/ { next }
        { gsub(/"[^"]*"/, "") }
        !named { for (i = 1; i <= NF; i++) at[$i] = i; named = split(keys, want, ","); next }
        {
            for (k in want) { split(want[k], pair, "="); if ($at[pair[1]] != pair[2]) next }
            rows++
            rate = $at["throughput_per_s"] + 0
            if (column != "fastest") found = $at[column]
            else if (rate > top) { top = rate; found = $at["workers"] }
        }
        END {
            if (found == "" || (rows != 1 && column != "fastest")) {
                print "answers.sh: no one row " keys ": " column > "/dev/stderr"
                exit 1
            }
            print found
        }' "$file"
}
# cost COSTS SECTION KEY: the number in a cost file.
cost() {
    awk -v section="[$2]" -v key="$3" '
        /^\[/ { in_section = $0 == section }
        in_section && $1 == key { sub(/,.*/, "", $3); print $3; found = 1 }
        END { exit !found }' "scenarios/costs/$1.ini"
}
# measured TABLE WORKERS BATCH: step in s.
measured() {
    awk -F, -v n="$2" -v b="$3" '
        /^#/ { next }
        !named { named = 1; is_step = $4 == "step_s"; next }
        $1 == n && $2 == b && !found { found = 1; printf "%.8g\n", is_step ? $4 : b / $4 }
        END { exit !found }' "scenarios/measured/$1.csv"
}

ms() { calc "%.2f ms" "1000 * ($1)"; } # seconds
# rate RESULT KEYS: samples a second; times A B: A / B.
rate() { calc "%.0f" "$(value "$1" "$2" throughput_per_s)"; }
times() { calc "%.2f" "$1 / $2"; }
percent() { calc "%.0f %%" "100 * $1"; }

section() { printf '\n\n%s\n%s\n\n' "$1" "$(printf '%s' "$1" | sed 's/./-/g')"; }

mxnet_text() {
    local lenet=lenet_mxnet_p2 mlp=mlp_mxnet_p2 p2=beeva_mxnet_p2_lenet
    local serial issue fixed sample
    serial=$(cost $lenet dispatch serial_ns)
    issue=$(cost $lenet dispatch per_worker_ns)
    fixed=$(calc %.0f "$(cost $lenet 'op network.forward' fixed_ns) + $(cost $lenet 'op network.backward' fixed_ns)")
    sample=$(calc %.0f "$(cost $lenet 'op network.forward' per_sample_ns) + $(cost $lenet 'op network.backward' per_sample_ns)")
    section "BEEVA, MXNet: LeNet and an MLP on K80s"
    cat <<EOF
On EC2 a step takes the longer of two times: a GPU's own work on its share of the batch, and the
host's issuing of all GPUs' work, one after another.
  LeNet  GPU $(calc %.2f "$fixed / 1e6") ms + $(calc %.1f "$sample / 1e3") us a sample; host $(calc %.2f "$serial / 1e6") ms + $(calc %.2f "$issue / 1e6") ms a GPU
  MLP    host $(calc %.2f "$(cost $mlp dispatch serial_ns) / 1e6") ms + $(calc %.2f "$(cost $mlp dispatch per_worker_ns) / 1e6") ms a GPU
The host's time differs from network to network: it belongs to the operations, not to the machine.

- LeNet, batch 128: one GPU $(ms "$(value $p2 workers=1,batch=128 step_mean_s)"), eight $(ms "$(value $p2 workers=8,batch=128 step_mean_s)") (measured $(ms "$(measured $p2 1 128)") and $(ms "$(measured $p2 8 128)")). Of the
  eight GPUs' step $(percent "$(value $p2 workers=8,batch=128 compute_frac)") is work. The most GPUs that pay: $(value $p2 batch=64 fastest) at batch 64, $(value $p2 batch=128 fastest) at 128.
- A host that issued in no time would make eight GPUs $(times "$(value ${p2}_free_host workers=8,batch=128 throughput_per_s)" "$(value $p2 workers=8,batch=128 throughput_per_s)") times as fast at batch 128. The links
  are not the limit: the busiest is in use $(percent "$(value $p2 workers=8,batch=128 link_frac)") of the time, for $(calc %.1f "$(cost $lenet costs parameter_bytes) / 1e6") MB of gradients.
- From batch $(calc %.0f "8 * (($serial + 8 * $issue) - $fixed) / $sample") on, eight GPUs' own work would take longer than the issuing.
- Google, 8 dies: one thread makes batches at $(calc %.1f "$(cost lenet_mxnet_gce 'op input' per_sample_ns) / 1e3") us a sample: $(calc %.0f "1e9 / $(cost lenet_mxnet_gce 'op input' per_sample_ns)") samples/s at most, which is
  what 512 and 1024 samples a step reach. Below that host and GPUs take turns.
- The two machines of Google's differ: with the same costs one GPU of the smaller is predicted
  $(calc %.0f "100 * $(value beeva_mxnet_gce2_lenet workers=1 error_frac)") % too fast, of the larger $(calc %.0f "100 * $(value beeva_mxnet_gce8_lenet workers=1,batch=128 error_frac)") %.
EOF
    cat <<EOF

(3 GPUs: the batch shown is three times the largest share; steps of batch 64 and 128 are compared.)

Rows that contradict each other or the model, left as they are:
- EC2, 8 GPUs: a step takes $(ms "$(measured $p2 8 64)") at batch 64, $(ms "$(measured $p2 8 128)") at 128, but $(ms "$(measured $p2 8 512)") at 512. More
  work in less time: the row of 512 was taken later (lower in the table), perhaps with other software.
- Google, 8 GPUs: $(ms "$(measured beeva_mxnet_gce8_lenet 8 128)") at batch 128, $(ms "$(measured beeva_mxnet_gce8_lenet 8 256)") at 256.
- Google, batch 128, 8 GPUs: the table prints 2.4 s an epoch beside $(calc %.0f "128 / $(measured beeva_mxnet_gce8_lenet 8 128)") samples/s, which is
  $(calc %.1f "60000 * $(measured beeva_mxnet_gce8_lenet 8 128) / 128") s. Samples a second are used throughout.
- Azure: three rows differ in learning rate only and are one point.

Rows of the table that nothing predicts:
EOF
    awk -F, '!/^#/ && !/^infrastructure/ {
        split($0, part, "\""); sub(/,"$/, "", part[2])
        printf "  infrastructure %s, %s, batch %s, %s GPUs: %s\n", $1, $2, $3, $4, $5 ~ /^"/ ? part[2] : $5
        print "    " part[$5 ~ /^"/ ? 4 : 2]
    }' scenarios/measured/beeva_mxnet_not_predicted.csv
}

tensorflow_text() {
    local t=beeva_tensorflow_p2
    section "BEEVA, TensorFlow: Keras's convnet on K80s"
    cat <<EOF
Eight K80 dies are slower than four: $(times "$(measured $t 8 128)" "$(measured $t 4 128)") times the step measured, $(times "$(value $t workers=8 step_mean_s)" "$(value $t workers=4 step_mean_s)") predicted from the rows
of 1, 2 and 4. Each step ends before the next is issued, so the host's $(calc %.1f "$(cost convnet_keras_p2 dispatch serial_ns) / 1e6") ms and, GPU by GPU,
$(calc %.2f "$(cost convnet_keras_p2 dispatch per_worker_ns) / 1e6") ms of issuing and the copies of parameters and gradients by way of the first GPU come on top of
the GPUs' work. More GPUs shorten only the latter. With a host that issues in no time eight would be
$(times "$(value ${t}_free_host workers=8 throughput_per_s)" "$(value ${t}_free_host workers=1 throughput_per_s)") times one, and four $(times "$(value ${t}_free_host workers=4 throughput_per_s)" "$(value ${t}_free_host workers=1 throughput_per_s)"): the first GPU's link is what is left.
Not predicted: 3 GPUs and infrastructure 2, both "error" in the source. (The program in the authors'
fork has a batch of 1024, their table says 128; the table is taken.)

EOF
}

navid_text() {
    local k=navid_keras km=navid_keras_more p=navid_pytorch pm=navid_pytorch_more
    local i=navid_vgg_interval m=navid_vgg_modes u=navid_vgg_unequal
    section "F. Navid: two GTX 1080 Ti"
    cat <<EOF
Keras, MNIST, 128 samples a GPU: $(times "2 * $(measured $k 1 128)" "$(measured $k 2 256)") times one GPU. Both rows are fitted. The second GPU adds
$(ms "$(measured $k 2 256) - $(measured $k 1 128)") to a step; $(calc %.2f "$(cost mnist_keras_z10pe dispatch per_worker_ns) / 1e6") ms of that is issuing its tower, not copying.

EOF
    cat <<EOF

PyTorch, VGG-19-BN, 128 samples in all: $(times "$(measured $p 1 128)" "$(measured $p 2 128)") times one GPU measured, $(times "$(value $p workers=1 step_mean_s)" "$(value $p workers=2 step_mean_s)") predicted from
one GPU's time, $(calc %.0f "$(cost vgg19_bn_pytorch_z10pe costs parameter_bytes) / 1e6") MB of parameters and PCIe's rate. $(percent "$(value $p workers=2 communication_frac)") of a GPU's time is copying, $(percent "$(value $p workers=2 waiting_frac)") waiting for the other's.
The prediction is slow by $(calc %.1f "1000 * ($(value $p workers=2 step_mean_s) - $(measured $p 2 128))") ms: some of the copying is hidden, or one GPU's step holds time that two halve.

EOF
    cat <<EOF

What he asked. Everything below is a prediction that nothing was measured for; the server's speed
(10 GB/s a thread), the noise (5 %) and a box with eight GPUs are assumed. Rates are samples a second,
with 64 a GPU where nothing else is said; VGG-19-BN on one GPU without exchange: $(rate navid_vgg_allreduce workers=1). What staleness and
drift do to accuracy is not simulated.

- More GPUs as he ran them: Keras $(calc %.2f "$(value $km workers=4 speedup)") times with four, $(calc %.2f "$(value $km workers=8 speedup)") with eight; DataParallel at 128 samples in
  all $(calc %.2f "$(value $pm workers=4 speedup)") and $(calc %.2f "$(value $pm workers=8 speedup)"): slower than one, as every GPU's copies share the first GPU's link.
- A faster host: at the limit of no time to issue, Keras gives $(calc %.2f "$(value ${km}_free_host workers=2 speedup)") with two, $(calc %.2f "$(value ${km}_free_host workers=4 speedup)") with four,
  $(calc %.2f "$(value ${km}_free_host workers=8 speedup)") with eight.
- Averaging every 10 steps, not every step (VGG, in host memory): two GPUs $(rate $i workers=2,interval=1) -> $(rate $i workers=2,interval=10),
  eight $(rate $i workers=8,interval=1) -> $(rate $i workers=8,interval=10). Momentum averaged too: $(rate ${i}_state workers=2,interval=1) -> $(rate ${i}_state workers=2,interval=10) and $(rate ${i}_state workers=8,interval=1) -> $(rate ${i}_state workers=8,interval=10).
- Gradients instead of parameters: as many bytes, so as fast (two GPUs $(rate $m workers=2,sync=ps), parameters $(rate $m workers=2,sync=average,interval=1)); but
  momentum then need not be averaged ($(rate ${i}_state workers=2,interval=1) with it). Added up by the GPUs themselves: $(rate navid_vgg_allreduce workers=2)
  with two, $(rate navid_vgg_allreduce workers=8) with eight.
- Applied on arrival (async): two GPUs $(rate $m workers=2,sync=async), eight $(rate $m workers=8,sync=async) at a mean staleness of $(calc %.2f "$(value $m workers=2,sync=async staleness_mean)") and $(calc %.2f "$(value $m workers=8,sync=async staleness_mean)"). The
  server handles $(calc %.0f "$(cost vgg19_bn_pytorch_z10pe costs parameter_bytes) / 1e6") MB a gradient, one gradient after another: with eight that is slower than adding
  them up together every step (ps, $(rate $m workers=8,sync=ps)).
- Soft synchronisation (groups of half, staleness at most 4): eight GPUs $(rate $m workers=8,sync=softsync) at $(calc %.2f "$(value $m workers=8,sync=softsync staleness_mean)") updates on
  average, $(value $m workers=8,sync=softsync staleness_max) at most.
- One of two GPUs half as fast: every step $(rate $m workers=2,sync=ps) -> $(rate $u workers=2,sync=ps), async $(rate $m workers=2,sync=async) -> $(rate $u workers=2,sync=async), every 10 steps
  $(rate $m workers=2,sync=average,interval=10) -> $(rate $u workers=2,sync=average,interval=10).
EOF
}

mxnet_text
tensorflow_text
navid_text
