#!/usr/bin/env bash
# Command-line behaviour of dlcal links, and dlsim with its cost file. Usage: test_dlcal_links.sh
# DLCAL DLSIM
set -u
tested=$1
dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
# shellcheck source=tests/calibrate/documented.sh
source "$(dirname "$0")/documented.sh"

# nccl-tests on 4 GPUs: 20 us + S / (100 GB/s) in place, 10 % more out of place.
fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

write_log() {
    local bytes
    echo "# Collective test starting: ${1}_perf"
    echo "# nThread 1 nGpus 4"
    echo "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"
    for ((bytes = 1024; bytes <= 1 << 30; bytes *= 4)); do
        awk -v s=$bytes 'BEGIN { t = 20 + s / 1e5
            printf "%12d %d float sum -1 %.3f 0 0 0 %.3f 0 0 0\n", s, s / 4, 1.1 * t, t }'
    done
}
write_log all_reduce >allreduce.log
write_log sendrecv >sendrecv.log
echo "# Collective test starting: all_reduce_perf" >empty.log

expect 0 "Usage: dlcal links" links --help
expect 0 "20.0 us     0.4" links allreduce.log
expect 0 "100 GB/s     0.5" links allreduce.log
expect 0 "latency + bytes/bandwidth" links --judge allreduce.log
# A change of protocol at 128 and 256 MB, and an outlier, which is left out when fits are compared.
cat >changes.csv <<'END'
collective,ranks,bytes,time_us
allreduce,8,32e6,400
allreduce,8,64e6,800
allreduce,8,128e6,814
allreduce,8,256e6,878
allreduce,8,512e6,1384
allreduce,8,1024e6,2768
allreduce,8,2048e6,5535
allreduce,8,4096e6,11070
allreduce,8,8192e6,22141
END
expect 0 "changes over      none       - 2" links changes.csv
# As a spreadsheet writes it: with a byte order mark, and with semicolons, which are refused.
{ printf '\xef\xbb\xbf'; sed 's/$/\r/' changes.csv; } >marked.csv
expect 0 "changes over      none       - 2" links marked.csv
tr , ';' <marked.csv >semicolons.csv
expect 1 "semicolons.csv:1: the columns are separated by ';' instead of commas" links semicolons.csv
sed 's/^allreduce/SendRecv/' changes.csv >sendrecv.csv
expect 0 "sendrecv 8 ranks in place" links sendrecv.csv
expect 1 "(sendrecv 8 ranks)" links sendrecv.csv -o no.ini
expect 0 "2.00 TB/s, but no size reaches more than 370 GB/s" links changes.csv
sed 's/^\( *1048576 .* \)30.486/\1130.486/' allreduce.log >wrong.log
expect 0 "outlier: 1.05 MB" links wrong.log
expect 0 "without 1 of these 5: outliers" links wrong.log
expect 0 "costs written to links.ini" links allreduce.log sendrecv.log -o links.ini
expect 0 "sendrecv 4 ranks in place: not written" links allreduce.log sendrecv.log -o links.ini
expect 1 "also measured in allreduce.log" links allreduce.log "$PWD/allreduce.log" -o links.ini
expect 1 "fits into a cost file (sendrecv 4 ranks)" links sendrecv.log -o no.ini
expect 1 "100 GB/s     0.5" links sendrecv.log -o no.ini
# A collective that was timed in place only is written beside one that was timed in both places.
expect 0 "costs written to both.ini" links allreduce.log changes.csv --place out -o both.ini
grep -q '^\[collective allreduce 8\]' both.ini && grep -q '^\[collective allreduce 4\]' both.ini ||
    fail "places: $(cat both.ini)"
# Of copies, only pageable ones give a cost.
cat >pinned.log <<'END'
 Host to Device Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)        Bandwidth(GB/s)
   16000000                     11.9
   64000000                     12.0
END
{ cat pinned.log; sed 's/PINNED/PAGEABLE/; s/11.9/4.9/; s/12.0/5.0/' pinned.log; } >copies_of_both.log
expect 1 "nothing in the logs fits into a cost file (h2d)" links pinned.log -o pinned.ini
expect 0 "costs written to copies.ini" links copies_of_both.log -o copies.ini
awk '$1 == "pageable_bytes_per_s" { exit !($3 > 4.9e9 && $3 < 5.2e9) }' copies.ini || fail "copies: $(cat copies.ini)"
expect 1 "there is no table" links empty.log
expect 1 "nowhere.log" links nowhere.log
expect 2 "--costs needs --output" links --costs x.ini allreduce.log
expect 2 "--output would overwrite a log" links allreduce.log -o allreduce.log
expect 2 "--json would overwrite the file of --costs" links allreduce.log --costs links.ini -o x.ini --json links.ini
expect 0 "" links --json links.json allreduce.log
grep -q '"name": *"allreduce"' links.json || fail "links.json lacks the series"
grep -q '^\[collective allreduce 4\]$' links.ini || fail "links.ini lacks the collective"

# All-reduces on 1, 2, 4 nodes of 8 GPUs with a ring's latency: 10 us + 5 us per additional node + S
# / (10 GB/s). 16 nodes, 4 times the measured maximum, take 85 us + S / (10 GB/s).
write_nodes() {
    local nodes
    echo "op,ranks,nodes,bytes,time_us"
    for nodes in 1 2 4; do
        awk -v n=$nodes 'BEGIN { for (s = 1024; s <= 2^26; s *= 4)
            printf "allreduce,%d,%d,%d,%.4f\n", 8 * n, n, s, 10 + 5 * (n - 1) + s / 1e4 }'
    done
}
write_nodes >nodes.csv
expect 0 "allreduce in place over nodes of 8 ranks: 1, 2, 4" links nodes.csv
expect 0 "1.02 kB to   67.1 MB grows with the hops of a ring" links nodes.csv
expect 0 "the largest, 4, from those below: mean 0.0 %" links nodes.csv
expect 0 "16 nodes is extrapolated: 4 times the measured maximum" \
    links nodes.csv --nodes 2,16 -o nodes.ini
grep -A2 '^\[collective allreduce 128\]$' nodes.ini | grep -q '^nodes = 16$' || fail "no 16 nodes"
sed -n '/allreduce 128/,$p' nodes.ini | grep -q '^bytes_1024 = 85102' || fail "not 85.1 us: $(cat nodes.ini)"
grep -A2 '^\[collective allreduce 8\]$' nodes.ini | grep -q '^nodes = 1$' || fail "not on one node: $(cat nodes.ini)"
# The growth is known where at least two sizes lie within those of all counts.
few() { # sizes on four nodes
    grep -v '^allreduce,32' nodes.csv
    for bytes; do awk -v s="$bytes" 'BEGIN { printf "allreduce,32,4,%d,%.4f\n", s, 25 + s / 1e4 }'; done
}
few 1024 2048 4096 >few.csv
expect 0 "1.02 kB to   4.10 kB grows with the hops of a ring" links few.csv
few 1024 2048 3072 >few.csv
expect 1 "no collective was measured at 3 counts" links few.csv --nodes 8 -o x.ini
# The share of a ring's bytes that nodes send grows less and less: 10^8 bytes take 19,375 us on 32 nodes.
{
    echo "op,ranks,nodes,bytes,time_us"
    for nodes in 2 4 8; do
        awk -v n=$nodes 'BEGIN { for (s = 1e6; s < 2e8; s *= 10)
            printf "allreduce,%d,%d,%d,%.4f\n", 8 * n, n, s, 2 * (1 - 1 / n) * s / 1e4 }'
    done
} >shares.csv
expect 0 "grows with the share sent" links shares.csv --nodes 32 -o shares.ini
awk '/allreduce 256/ { on = 1 } on && $1 == "bytes_100000000" { found = $3 > 1.93e7 && $3 < 1.95e7 }
    END { exit !found }' shares.ini || fail "not 19.4 ms: $(cat shares.ini)"
expect 1 "no collective was measured at 3 counts" links allreduce.log --nodes 4 -o x.ini
expect 2 "--nodes needs --output" links nodes.csv --nodes 4
expect 2 "--nodes: " links nodes.csv --nodes 4,x -o x.ini

# Added to the costs of a workload: on 4 GPUs with slow links, the all-reduce takes the measured
# time.
cat >work.ini <<'END'
[costs]
schema = 1
parameter_bytes = 100000000
[op a.forward]
fixed_ns = 400000
per_sample_ns = 0
[op a.backward]
fixed_ns = 600000
per_sample_ns = 0
[dispatch]
serial_ns = 0
per_worker_ns = 0
[sync]
barrier_ns = 0
lock_ns = 0
END
cat >machine.ini <<'END'
[machine]
schema = 1
name = four on a crossbar
nodes = 1
peer = all
[gpu_model G]
memory_bytes = 1e10
memory_bytes_per_s = 1e12
fp32_flop_per_s = 1e13
[link slow]
bytes_per_s = 1e9
latency_ns = 1000
[host]
sockets = 1
cores = 8
memory_bytes = 1e11
memory_bytes_per_s = 1e11
[gpus 0-3]
model = G
parent = socket0
link = slow
[nvswitch]
link = slow
END
cat >scenario.ini <<'END'
[scenario]
name = four
steps = 10
[machine]
file = machine.ini
workers = 4
[workload]
costs = all.ini
batch_per_worker = 1
[sync]
mode = allreduce
END
expect 0 "" links allreduce.log --costs work.ini -o all.ini
# 1 ms of compute and 20 us + 10^8 bytes at 100 GB/s.
step=$("$dlsim" scenario.ini --quiet -o four.csv && awk -F, '/^[^#]/ { if (!n) { for (i = 1; i <= NF; i++)
    if ($i == "step_mean_s") n = i } else print $n }' four.csv)
awk -v s="$step" 'BEGIN { exit !(s > 0.00201 && s < 0.00203) }' || fail "a step takes $step s, not 2.02 ms"

# A table of timed calls of processes, with latency and time per byte: all-reduces of 2 ranks 100
# us, 1 ns; round trips of 2 callers 40 us, 2 ns; updates 0.5 ns; pairs 150 us, 1 ns; during
# computation 20 us, 0.5 ns; with a late process 10 us, 0.5 ns; pushes and pulls 200 us, 1 ns.
{
    echo "collective,ranks,bytes,time_us"
    for bytes in 1000 10000 100000 1000000; do
        for repeat in 1 2 3; do
            echo "allreduce,2,$bytes,$((100 + bytes / 1000))"
            echo "roundtrip,2,$bytes,$((40 + bytes / 500))"
            echo "update,1,$bytes,$((bytes / 2000 + 1))"
            echo "allreduce_pair,2,$bytes,$((150 + bytes / 1000))"
            echo "allreduce_beside,2,$bytes,$((20 + bytes / 2000))"
            echo "allreduce_late,2,$bytes,$((10 + bytes / 2000))"
            echo "pushpull,2,$bytes,$((200 + bytes / 1000))"
        done
    done
} >calls.csv
expect 0 "allreduce 2 ranks" links calls.csv --costs work.ini -o calls.ini
grep -q "^\[collective allreduce 2\]" calls.ini || fail "no all-reduce in: $(cat calls.ini)"
awk -F'[= ]+' '/^\[/ { s = $0 } s == "[roundtrip 2]" && $1 == "bytes_0" { l = $2 }
    s == "[roundtrip 2]" && $1 == "bytes_1000000" { b = $2 }
    END { exit !(l > 39000 && l < 41000 && b > 2.03e6 && b < 2.05e6) }' calls.ini || fail "round trips: $(cat calls.ini)"
time_of() { # section, bytes, low, high
    awk -F'[= ]+' -v want="[$1]" -v key="bytes_$2" -v low="$3" -v high="$4" '/^\[/ { s = $0 }
        s == want && $1 == key { found = $2 > low && $2 < high } END { exit !found }' calls.ini ||
        fail "[$1] bytes_$2: $(cat calls.ini)"
}
time_of "allreduce_pair 2" 1000000 1.14e6 1.16e6
time_of "allreduce_beside 2" 1000000 5.1e5 5.3e5
time_of "allreduce_late 2" 1000000 5.0e5 5.2e5
time_of "pushpull 2" 1000000 1.19e6 1.21e6
grep -q "^starts" calls.ini && fail "starts of a table without them: $(cat calls.ini)"
# Three starts of the processes, which took 1, 0.8 and 1.3 times as long: medians are those of the
# first.
{
    echo "collective,ranks,bytes,time_us,start"
    for bytes in 1000 1000000; do
        echo "allreduce,2,$bytes,$((100 + bytes / 1000)),1"
        echo "allreduce,2,$bytes,$((80 + bytes / 1250)),20"
        echo "allreduce,2,$bytes,$((130 + bytes * 13 / 10000)),3"
    done
} >starts.csv
expect 0 "allreduce 2 ranks" links starts.csv --costs work.ini -o starts.ini
awk -F'[=, ]+' '$1 == "starts" { found = NF == 4 && $2 > 0.99 && $2 < 1.01 && $3 > 1.29 && $3 < 1.31 &&
    $4 > 0.79 && $4 < 0.81 } END { exit !found }' starts.ini || fail "starts: $(cat starts.ini)"
# ln 1, ln 1.3 and ln 0.8 have a standard deviation of 0.243, so the median has an error of 0.243
# sqrt(pi / 6) = 17.6 %. Each time has this error in addition to the line's 1 %.
expect 0 "3 starts: from 0.80 to 1.30 of the medians, whose standard error is 17.6 %" links starts.csv
awk '$1 == "bytes_1000000" { found = $5 + 0 > 0.175 * $3 && $5 + 0 < 0.18 * $3 } END { exit !found }' \
    starts.ini || fail "errors of starts: $(cat starts.ini)"
grep -v ',3$\|,20$' starts.csv >one.csv
expect 0 "one start of the processes" links one.csv
"$tested" links calls.csv --costs starts.ini -o again.ini >/dev/null || fail "starts are not read again"
sed 's/,20$/,0/' starts.csv >none.csv
expect 1 "start: expected a number from 1 to" links none.csv
sed 's/update/updaet/' calls.csv >typo.csv
expect 1 "typo.csv:4: unknown collective 'updaet'" links typo.csv
sed 's/,100$/,none/; s/,101$/,none/' calls.csv >text.csv
expect 1 "text.csv:2: " links text.csv

# Comparison with a machine: four GPUs on a crossbar of 1 GB/s, two links of 1 us between any two. A
# ring all-gather takes 3 (2 us + S / 4 GB/s); at 8 kB, half of this is due to bytes.
sed 's/^bytes_per_s = 1e9$/bytes_per_s = 1GB\/s, measured/; s/^latency_ns = 1000$/latency_ns = 1us, measured/' \
    machine.ini >crossbar.ini
write_ring() { # factors on the machine's time, for small and for large sizes
    echo "collective,ranks,bytes,time_us"
    awk -v small="$1" -v large="$2" 'BEGIN { for (s = 256; s <= 2^26; s *= 2)
        printf "allgather,4,%d,%.6f\n", s, (s < 8000 ? small : large) * (6 + 0.75 * s / 1000) }'
}
beside() { # text, arguments
    local text=$1
    shift
    expect 0 "$text" links "$@"
}
write_ring 1 1 >as_is.csv
beside "small sizes, up to 4.10 kB: 1.00 (1.00 to 1.00), as expected within 36 %" \
    as_is.csv --machine crossbar.ini --csv beside.csv
beside "large sizes, from 8.19 kB: 1.00 (1.00 to 1.00), as expected within 27 %" as_is.csv --machine crossbar.ini
awk -F, '!/^#/ && ++row == 2 { found = $6 == 256 && $7 == 6192 && $8 >= 6192 && $8 < 6196 &&
    $12 == "ring" && $14 == "small" } END { exit !found }' beside.csv || fail "no ring of 6.192 us: $(cat beside.csv)"
# Three starts, as above, whose median has an error of 17.6 %: twice that, combined with the model's
# 27 %.
awk -F, 'NR == 1 { print $0 ",start"; next } { for (s = 1; s <= 3; s++)
    printf "%s,%s,%s,%.6f,%d\n", $1, $2, $3, $4 * (s == 1 ? 1 : s == 2 ? 1.3 : 0.8), s }' as_is.csv >as_is_starts.csv
beside "1.00 (1.00 to 1.00), as expected within 44 %" as_is_starts.csv --machine crossbar.ini
write_ring 1 2 >half.csv
beside "large sizes, from 8.19 kB: 0.50 (0.50 to 0.50), slower by more than 27 %" half.csv --machine crossbar.ini
beside "as expected if the GPUs' PCIe links run at half their rate (slots, generation) (then 1.00)" \
    half.csv --machine crossbar.ini
write_ring 2 1 >latency.csv
beside "small sizes, up to 4.10 kB: 0.50 (0.50 to 0.50), slower by more than 36 %" latency.csv --machine crossbar.ini
beside "none of the single changes of the machine that were tried explains this" latency.csv --machine crossbar.ini
write_ring 1 0.7 >fast.csv
beside "1.43 (1.43 to 1.43), faster by more than 27 %" fast.csv --machine crossbar.ini
# Assumed values that affect the verdict are named.
write_ring 1 1.5 >slow.csv
beside "0.67 (0.67 to 0.67), slower by more than 27 %" slow.csv --machine crossbar.ini
beside "0.67 (0.67 to 0.67), as expected within 40 %" slow.csv --machine machine.ini
beside "rests on assumed [link slow] bytes_per_s" slow.csv --machine machine.ini
# A cause that another log contradicts is not printed; a cause that explains all logs is printed
# alone. Two GPUs without peer access have 0.9 of 12.4 GB/s each way. All-reduces at half of this
# rate have two possible causes: slots of half the rate, or both directions sharing 12.4 GB/s.
# Broadcasts at the full or at half the rate decide between them.
cat >box.ini <<'END'
[machine]
schema = 1
name = box
peer = none
[gpu_model g]
memory_bytes = 11GB, catalogue
memory_bytes_per_s = 616GB/s, catalogue
fp32_flop_per_s = 13Tflop/s, catalogue
[link pcie]
bytes_per_s = 12.4GB/s, measured
latency_ns = 1us, measured
[host]
memory_bytes_per_s = 76.8GB/s, measured
[gpus 0-1]
model = g
parent = socket0
link = pcie
[protocol simple]
launch_ns = 8us, measured
hop_ns = 5us, measured
network_hop_ns = 14us, measured
bandwidth_frac = 0.9, measured
END
series() { # collective, bytes a us
    echo "collective,ranks,bytes,time_us"
    awk -v name="$1" -v rate="$2" 'BEGIN { for (s = 2^20; s <= 2^28; s *= 4)
        printf "%s,2,%d,%.3f\n", name, s, 30 + s / rate }'
}
series allreduce 5580 >halved.csv
series broadcast 11160 >whole.csv
series broadcast 5580 >halved_too.csv
half="PCIe links run at half their rate"
beside "as expected if the GPUs' $half (slots, generation) (then 1.00); both directions through host memory share 12." \
    halved.csv --machine box.ini
beside "as expected if both directions through host memory share 12." halved.csv whole.csv --machine box.ini
"$tested" links halved.csv whole.csv --machine box.ini | grep -q "$half" && fail "a refuted cause is given"
beside "as expected if the GPUs' $half" halved.csv halved_too.csv --machine box.ini
"$tested" links halved.csv halved_too.csv --machine box.ini | grep -q "share 12" && fail "two causes are given"
# For a box with an assumed rate, the logs give a value.
beside "memory share 11.1 GB/s" \
    halved.csv whole.csv --machine 2xrtx2080ti
# Between nodes slow ports are the alternative; without small sizes, whose times are shorter than the
# machine's, either rate explains the large ones.
between() { # smallest size
    echo "collective,ranks,nodes,bytes,time_us"
    awk -v least="$1" 'BEGIN { for (s = least; s <= 2^28; s *= 4)
        printf "allreduce,2,2,%d,%.3f\n", s, 40 + s / 3000 }'
}
between 1048576 >large.csv
beside "as expected if both directions through host memory share 6." large.csv --machine 2x1xrtx4090@100gbe
beside "(then 1.00); each port of the nodes carries 3." large.csv --machine 2x1xrtx4090@100gbe
beside "; slow ports of the nodes would look the" large.csv --machine 2x1xrtx4090@100gbe
between 1024 >all_sizes.csv
beside "none of the single changes of the machine" all_sizes.csv --machine 2x1xrtx4090@100gbe
"$tested" links all_sizes.csv --machine 2x1xrtx4090@100gbe | grep -q "one cause" && fail "none, and one cause"
# One thread calls for all GPUs.
{
    echo "# nThread 1 nGpus 4"
    echo "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"
    awk 'BEGIN { for (s = 256; s <= 2^26; s *= 2) { t = 40 + 1.5 * s / 1000
        printf "%d %d float sum -1 %.3f %.5f %.5f 0 %.3f %.5f %.5f 0\n", s, s / 4, t, s / t / 1e3,
            1.5 * s / t / 1e3, t, s / t / 1e3, 1.5 * s / t / 1e3 } }'
} >thread_allreduce.log
expect 0 "one thread calls for 4 GPUs (nGpus)" links thread_allreduce.log --machine crossbar.ini
sed '1a #  Rank  0 Pid 1 on host device  0 [0x00] GPU H' thread_allreduce.log >other.log
expect 0 "the log is of GPU H, the machine has other GPUs" links other.log --machine dgx_h100
# Copies at half and at all of the link's rate, one of a GPU that the machine lacks, and single
# rates.
cat >copies.log <<'END'
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1         9
 0      0.50      1.00      0.40

SUM host_to_device_memcpy_ce 1.9
Running all_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0
 0      0.50
END
expect 0 "2 measured, 750 MB/s; machine 1.00 GB/s (medians)" links copies.log --machine crossbar.ini
expect 0 "(medians): 0.75 (0.50 to 1.00)" links copies.log --machine crossbar.ini
expect 0 "rates of GPUs that the machine lacks: 1" links copies.log --machine crossbar.ini
expect 0 "1 single rates: not compared" links copies.log --machine crossbar.ini
expect 1 "nothing in the logs is comparable: allreduce 8 ranks" links nodes.csv --machine crossbar.ini
printf 'collective,ranks,bytes,time_us\nallgather,4,0,10\nallgather,4,0.5,11\n' >empty.csv
expect 1 "allgather: not compared, no call moved a byte" links empty.csv --machine crossbar.ini
printf 'cpu_to_gpu0_by_dma_under_numa0 0.5\ncpu_to_gpu0_by_dma_under_numa2147483647 0.4\n' >numas.log
expect 0 "1 measured, 500 MB/s; machine 1.00 GB/s" links numas.log --machine crossbar.ini
# Copies of a single size count as rates, also between peers; copies through host memory give the
# rate for [shm].
cat >quick.log <<'END'
 Device 0: GPU G
 Host to Device Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)        Bandwidth(GB/s)
   32000000                     1.0
Device=0 CANNOT Access Peer Device=1
Device=1 CANNOT Access Peer Device=0
Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\D     0      1
     0 815.00   6.10
     1   6.10 815.00
Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\D     0      1
     0 820.00   0.50
     1   0.50 820.00
END
expect 0 "2 of 2 pairs of GPUs cannot access each other's memory" links quick.log
expect 0 "sends and receives 6.10 GB/s together (median)" links quick.log
expect 0 "1 measured, 1.00 GB/s; machine 1.00 GB/s (medians): 1.00" links quick.log --machine crossbar.ini
expect 0 "2 measured, 500 MB/s; machine 1.00 GB/s (medians): 0.50" links quick.log --machine crossbar.ini
# Half of the speed from 4 MB on, which the median over the large sizes hides: 9 of the 14 sizes
# from 8.19 kB to 67.1 MB are below 4 MB.
awk -F, 'NR > 1 && $3 >= 4e6 { $4 *= 2 } { print $1 "," $2 "," $3 "," $4 }' as_is.csv >break.csv
beside "large sizes, from 8.19 kB, by range:" break.csv --machine crossbar.ini --csv break_out.csv
beside "8.19 kB to 2.10 MB: 1.00 (1.00 to 1.00), as expected within 27 %" break.csv --machine crossbar.ini
beside "4.19 MB to 67.1 MB: 0.50 (0.50 to 0.50), slower by more than 27 %" break.csv --machine crossbar.ini
awk -F, '$6 == 67108864 { found = $16 == "slower" } END { exit !found }' break_out.csv || fail "no verdict by size: $(cat break_out.csv)"
# A single slow size is taken as chance. The busbw of an all-gather of 4, 3/4 of bytes over time, is
# the link's rate.
awk -F, '$3 == 1048576 { $4 *= 2 } { print $1 "," $2 "," $3 "," $4 }' as_is.csv >chance.csv
beside "large sizes, from 8.19 kB: 1.00" chance.csv --machine crossbar.ini
beside "busbw GB/s" as_is.csv --machine crossbar.ini
"$tested" links as_is.csv --machine crossbar.ini |
    awk '$1 == "67.1" && $2 == "MB" { found = $7 > 0.999 && $7 < 1.001 && $8 > 0.999 && $8 < 1.001 }
        END { exit !found }' || fail "no busbw of 1 GB/s"
documented break_out.csv
expect 2 "--csv needs --machine" links as_is.csv --csv beside.csv
expect 2 "--csv would overwrite the machine file" links as_is.csv --machine crossbar.ini --csv crossbar.ini
expect 1 "did you mean 'dgx_a100'?" links as_is.csv --machine dgxx_a100

# Real logs against the machines that they were measured on: rates are as expected, as in
# docs/studies/collectives.md.
verdicts() { # machine, parts, logs
    local machine=$1 parts=$2 odd
    shift 2
    "$tested" links "$@" --machine "$machine" --csv real.csv >/dev/null || fail "$* beside $machine"
    odd=$(awk -F, -v parts="$parts" '!/^#/ && $14 ~ parts { n++; if ($16 != "as expected") print }
        END { if (n < 5) print n + 0, "rows" }' real.csv)
    [ -z "$odd" ] || fail "$machine: $odd"
}
logs=${DL_DATA:-./data}/links
if [ -d "$logs" ]; then
    verdicts dgx_a100 '^large$' "$logs"/a100_8gpu_nvswitch_*.log
    verdicts dgx_h100 '^large$' "$logs"/h100_?gpu_nccl_tests.log
    verdicts dgx_a100 '^rate$' "$logs"/a100_gpu_copy_bw.log
else
    echo "no $logs: real logs are not compared"
fi

exit $((failures > 0))
