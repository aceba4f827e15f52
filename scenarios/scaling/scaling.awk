# What scaling a GPU's compute times to another GPU misses: awk -f scaling.awk gpus.csv measured.csv
#
# A pair is one model and batch size on two GPUs by one program. Its error is the logarithm of measured over
# scaled speed ratio; scaled: (arithmetic ratio)^w (memory ratio)^(1 - w), w = 3/4 in dlsim. Each pair counts
# in both directions, so the mean is 0 by itself; printed are root mean square and largest. Then each model
# is left out in turn: with twice the root mean square over the pairs of the others as the interval, how
# many of its pairs are inside.
function abs(x) { return x < 0 ? -x : x }
function error(p, w)
{
    return log(measured[p]) - w * log(arithmetic[p]) - (1 - w) * log(memory[p])
}
function spread(w, without,    p, n, sum)
{
    for (p = 1; p <= pairs; p++) {
        if (model[p] == without) continue
        sum += error(p, w) ^ 2
        n++
    }
    return sqrt(sum / n)
}
# "VGG16" and "VGG-16" are one model.
function plain(name) { gsub(/-/, "", name); return name }
BEGIN { FS = "," }
/^#/ || /^program/ || /^gpu,/ { next }
NF == 3 { flop[$1] = $2; byte[$1] = $3; next }
{
    key = $1 "," plain($2) "," $3
    for (i = 1; i <= count[key]; i++) {
        pairs++
        other = gpu[key, i]
        model[pairs] = plain($2)
        name[pairs] = other " to " $4
        measured[pairs] = $5 / rate[key, i]
        arithmetic[pairs] = flop[$4] / flop[other]
        memory[pairs] = byte[$4] / byte[other]
    }
    count[key]++
    gpu[key, count[key]] = $4
    rate[key, count[key]] = $5
    models[plain($2)] = 1
}
END {
    printf "%-18s %5s %9s %8s %8s\n", "GPUs", "pairs", "mean log", "least", "most"
    for (p = 1; p <= pairs; p++) {
        e = error(p, 0.75)
        n[name[p]]++
        sum[name[p]] += e
        if (n[name[p]] == 1 || e < low[name[p]]) low[name[p]] = e
        if (n[name[p]] == 1 || e > high[name[p]]) high[name[p]] = e
    }
    for (g in n)
        printf "%-18s %5d %9.2f %8.2f %8.2f\n", g, n[g], sum[g] / n[g], low[g], high[g] | "sort"
    close("sort")
    for (w = 0; w <= 1; w += 0.25) {
        most = 0
        for (p = 1; p <= pairs; p++)
            if (abs(error(p, w)) > most) most = abs(error(p, w))
        printf "w = %.2f: %d pairs, root mean square %.3f, largest %.3f\n", w, pairs, spread(w, ""), most
    }
    for (m in models) {
        bound = 2 * spread(0.75, m)
        for (p = 1; p <= pairs; p++) {
            if (model[p] != m) continue
            all++
            inside += abs(error(p, 0.75)) <= bound
        }
    }
    printf "each model left out: %d of %d pairs inside twice the others' root mean square\n", inside, all
}
