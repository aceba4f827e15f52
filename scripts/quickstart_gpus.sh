#!/usr/bin/env bash
# Runs ./quickstart on a machine with NVIDIA GPUs: trains on one GPU and predicts 1, 2, 4, .. all GPUs from
# it; trains on as many with NCCL; compares; records a run of each number of GPUs with CUPTI. Writes
# everything to one file, OUT/gpus.report.txt, to be sent to the model's maintainers, without host names,
# users and folders. If a command fails, the others still run, and the report names it.
#
# Usage: scripts/quickstart_gpus.sh BIN OUT [OPTION VALUE]...
#   BIN, OUT     folder of the programs; folder of the results, which is deleted first
#   --model      of dlprof train; default resnet50, on synthetic images
#   --batch      samples per GPU; calibration also uses a half and a quarter; default 64
#   --precision  default tf32 if all GPUs support it, else fp32
#   --steps      steps per run; default 40
#   --rounds     rounds, each of which measures everything once; default 3
#   --seconds    time after which no further round begins; default 180
#   --bench      options of dlprof bench on one GPU; default "--seconds 15"
# Exit status: 0 if at least one run of several GPUs (or of the only one) was predicted and measured.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '7,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bin=$(realpath "$1") out=$2
source_dir=$(realpath "$(dirname "$0")/..")
shift 2
declare -A set=([model]=resnet50 [batch]=64 [precision]="" [steps]=40 [rounds]=3 [seconds]=180 [bench]="--seconds 15")
while [ $# -gt 0 ]; do
    key=${1#--}
    if [ "$key" = "$1" ] || [ -z "${set[$key]+known}" ] || [ $# -lt 2 ]; then
        echo "quickstart_gpus: unknown argument '$1', or no value; known: ${!set[*]}" >&2
        exit 2
    fi
    set[$key]=$2
    shift 2
done
# CUDA shows fewer GPUs than nvidia-smi with CUDA_VISIBLE_DEVICES or MIG; dlprof says how many, or why none.
words=$("$bin/dlprof" train --device cuda:4095 --precision "${set[precision]:-fp32}" --data synthetic 2>&1)
gpus=$(sed -n 's/.*; there [a-z]* \([1-9][0-9]*\),.*/\1/p' <<<"$words")
[ -n "$gpus" ] || { echo "quickstart_gpus: $words; ./quickstart --cores uses cores" >&2; exit 1; }
cards=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader)
if [ -z "${set[precision]}" ]; then
    set[precision]=fp32
    [ "$(sort -t, -k3 -n <<<"$cards" | awk -F, 'NR == 1 { print int($3) }')" -ge 8 ] && set[precision]=tf32
fi
rm -rf "$out"
mkdir -p "$out" && cd "$out" || exit 1
folder=$PWD
: >failed.txt

# attempt NAME COMMAND...: writes output to NAME.txt; notes a failure, also a timeout of ten minutes.
attempt() {
    local name=$1 status=0
    shift
    timeout 600 "$@" >"$name.txt" 2>&1 || status=$?
    [ $status -eq 0 ] || { echo "$name: exit status $status: $(tail -n 3 "$name.txt" | tr -s '\n ' ' ')" >>failed.txt; return 1; }
}

train=("$bin/dlprof" train --device cuda --data synthetic --model "${set[model]}"
    --precision "${set[precision]}" --steps "${set[steps]}")
counts=()
for ((n = 1; n < gpus; n *= 2)); do counts+=("$n"); done
counts+=("$gpus")
modes=(allreduce "average --interval 10")

of_all() { # workers, mode with its options: prints options of dlprof train
    echo "--workers $1 --batch $(($1 * set[batch])) --sync $2 --where allreduce --no-trace"
}

echo "$gpus GPUs: $(sort <<<"$cards" | uniq -c | awk '{ n = $1; sub(/^ *[0-9]+ /, ""); print n " x " $0 }' | paste -sd ';')"
echo "${set[model]}, ${set[batch]} samples a GPU, ${set[precision]}; about $((set[seconds] + 60)) s"
attempt machine "$bin/dlprof" machine --measure -o machine.ini
echo "machine and links measured, $SECONDS s"

traces=()
for part in 4 2 1; do
    batch=$((set[batch] / part))
    attempt "one_$batch" "${train[@]}" --gpus 1 --workers 1 --batch $batch -o "one_$batch.dlt" && traces+=("one_$batch.dlt")
done
# shellcheck disable=SC2086 # several options
attempt bench "$bin/dlprof" bench --device cuda --model "${set[model]}" --precision "${set[precision]}" \
    --batch "${set[batch]}" --workers-max 1 ${set[bench]} --data synthetic -o bench.dlt && traces+=(bench.dlt)
attempt fit "$bin/dlcal" fit "${traces[@]}" -o costs.ini
echo "costs taken from runs of one GPU, $SECONDS s"

for ((round = 1; round <= set[rounds]; round++)); do
    if [ "$round" -gt 1 ] && [ "$SECONDS" -ge "${set[seconds]}" ]; then
        echo "round $round was not begun after $SECONDS s" | tee -a failed.txt
        break
    fi
    for n in "${counts[@]}"; do
        for mode in "${modes[@]}"; do
            read -ra options <<<"$(of_all "$n" "$mode")"
            attempt "measured_${n}_${mode%% *}_$round" "${train[@]}" "${options[@]}" --csv measured.csv
        done
    done
    echo "round $round of ${set[rounds]}: ${counts[*]} GPUs, $SECONDS s"
done
for n in "${counts[@]}"; do
    read -ra options <<<"$(of_all "$n" allreduce)"
    attempt "recorded_$n" "$bin/dlprof" run -q -o "recorded_$n" -- "${train[@]}" "${options[@]}" &&
        attempt "info_$n" "$bin/dlprof" info "recorded_$n"/*.dlt
done
echo "recorded by CUPTI, $SECONDS s"

list=$(IFS=, && echo "${counts[*]}")
attempt results "$bin/dlsim" --costs costs.ini --machine machine.ini --workers "$list" --batch-per-worker "${set[batch]}" \
    --mode allreduce,average --interval 10 --set sync.where=allreduce --noise trace --replicates 8 \
    --measured measured.csv -o results.csv --html gpus.html
[ ! -s results.csv ] || awk '/^note/ { notes = 1 } /^error/ { notes = 0 } !notes' results.txt

# Parts of the report, from which without_names removes the names of the host, its user and folders.
section() { printf '\n## %s\n' "$1"; }
whole() { [ ! -s "$1" ] || cat "$1"; }
report() {
    echo "# dlscale on several GPUs: predicted from one, measured on all"
    section "versions"
    "$bin/dlsim" --version | head -n 1
    date -u +%Y-%m-%d
    uname -srm
    awk '{ print "GPU: " $0 }' <<<"$cards"
    nvidia-smi topo -m 2>/dev/null
    ldd "$bin/libdlprof_cuda.so" 2>/dev/null | awk '$3 ~ /nccl|cudart|cudnn|cublas/ { system("readlink -f " $3) }' |
        sed 's|.*/||'
    section "settings"
    for key in "${!set[@]}"; do echo "$key = ${set[$key]}"; done | sort
    section "failed or left out"
    whole failed.txt
    section "predicted beside measured"
    whole results.txt
    section "measured"
    whole measured.csv
    section "machine file"
    whole machine.ini
    section "cost file"
    whole costs.ini
    section "predicted, all columns"
    whole results.csv
    for n in "${counts[@]}"; do
        section "recorded by CUPTI, $n GPUs"
        [ ! -s "info_$n.txt" ] || sed -n '/^device /,$p' "info_$n.txt"
    done
}
without_names() {
    local host user
    host=$(uname -n) user=$(id -un)
    awk -v folder="$folder" -v bin="$bin" -v home="${HOME:-}" -v host="$host" -v user="$user" '
        function hide(name, by,    at, rest, before, after) {
            rest = $0; $0 = ""
            while (length(name) > 1 && (at = index(rest, name)) > 0) {
                before = at > 1 ? substr(rest, at - 1, 1) : ""; after = substr(rest, at + length(name), 1)
                $0 = $0 substr(rest, 1, at - 1) ((before after) ~ /[A-Za-z0-9_]/ ? name : by)
                rest = substr(rest, at + length(name))
            }
            $0 = $0 rest
        }
        { hide(folder, "OUT"); hide(bin, "BIN"); hide(home, "HOME"); hide(host, "HOST"); hide(user, "USER")
          gsub(/GPU-[0-9a-f]+(-[0-9a-f]+)+/, "GPU-UUID"); print }'
}
report | without_names >gpus.report.txt
if command -v gnuplot >/dev/null && [ -s results.csv ]; then
    attempt plot env LC_ALL=C.UTF-8 gnuplot -e "results='results.csv'; output='gpus.speedup.png'; title='${set[model]}'" \
        "$source_dir/plots/speedup.gp"
fi

[ ! -s failed.txt ] || { echo "failed or left out:" && sed 's/^/  /' failed.txt | cut -c -160; }
found=$(sed -n 's/^error over/predicted from one GPU,/p' results.txt)
[ -n "$found" ] || { echo "nothing was compared; gpus.report.txt says why"; exit 1; }
echo "report:   ${folder##*/}/gpus.report.txt: please send it, errors too; it names no host, user or folder"
echo "learnt:   $found"
