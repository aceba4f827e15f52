# Reads result files of dlsim with [pipeline] and prints, for each scenario and machine, the fastest
# way that fits of each kind, and which is to be chosen: the fewest GPUs with at least 90 % of the
# throughput of the fastest.
function flush_machine(    kind, best, way, r) {
    if (machine == "") return
    printf "%s, %s\n", scenario, machine
    best = 0
    for (r = 1; r <= rows; r++) if (rate[r] > best) best = rate[r]
    for (kind = 1; kind <= 4; kind++) {
        way = 0
        for (r = 1; r <= rows; r++) {
            if (kinds[r] == kind && rate[r] > 0 && (!way || rate[r] > rate[way])) way = r
        }
        printf "  %-30s ", names[kind]
        if (way) print text[way]
        else print kind in least ? "does not fit: " least[kind] " GB too much at least" : "-"
    }
    way = 0 # the fewest GPUs of all that are fast enough
    for (r = 1; r <= rows; r++) {
        if (rate[r] < 0.9 * best || rate[r] <= 0) continue
        if (!way || gpus[r] < gpus[way] || (gpus[r] == gpus[way] && rate[r] > rate[way])) way = r
    }
    print "  choose: " (way ? names[kinds[way]] ", " text[way] : "a larger machine")
    rows = 0
    delete least
}
BEGIN {
    FS = ","
    names[1] = "one GPU"
    names[2] = "a copy of the model on each"
    names[3] = "the model split"
    names[4] = "split, and copies of that"
}
FNR == 1 { flush_machine(); machine = ""; named = 0 }
/^# scenario: / { scenario = substr($0, 13) }
/^# machine: / { head_machine = substr($0, 12) }
/^#/ { next }
{ gsub(/"[^"]*"/, "") } # texts with commas
!named { delete at; for (i = 1; i <= NF; i++) at[$i] = i; named = 1; next }
{
    now = "machine" in at ? $at["machine"] : head_machine
    if (now != machine) flush_machine()
    machine = now
    r = ++rows
    n = $at["workers"]; s = $at["pipeline_stages"]; gpus[r] = n * s
    kinds[r] = gpus[r] == 1 ? 1 : s == 1 ? 2 : n == 1 ? 3 : 4
    rate[r] = $at["throughput_per_s"] + 0
    text[r] = sprintf("%d x %d GPUs, %s micro-batches: %.4g samples/s", n, s,
                      $at["micro_batches"] == "" ? 1 : $at["micro_batches"], rate[r])
    over = ($at["memory_bytes"] - $at["memory_bytes"] / $at["memory_frac"]) / 1e9
    if (rate[r] == 0 && (!(kinds[r] in least) || over < least[kinds[r]] + 0)) {
        least[kinds[r]] = sprintf("%.2f", over)
    }
}
END { flush_machine() }
