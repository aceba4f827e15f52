# Of lines "params_B layers step_s method", five rates of the table in Gb/s, five that dlsim solved for: both, and
# how far dlsim is off the table's own resolution.
#
# The table's rates are those of a grid, 0.1 Gb/s x 10^(4 k / 49), so steps of 1.21. They fit if a cell is the
# last rate of the grid at which the utilisation is not yet reached, which is inferred from the table: what is
# needed then lies between the cell and the next rate of the grid. Its rules, as far as the paper has them and
# the table agrees: two sites exchange bf16 once in each direction; forward takes a third of the step; layers
# are sent one after another as the backward pass finishes them, in the last local step of DiLoCo too;
# fragment p of F has the layers p, p + F and p + 2F; "overlap" is one more step. dlsim's averages start when
# the step has ended. "rules" is the closed form of the former, `simulated` that of the latter.
function above(a, b) { return a > b ? a : b }

# What of sending layers first, first + every, ... of `layers` at `rate` is left after the backward pass.
function left_of(bits, layers, first, every, rate, backward,    i, t) {
    t = 0
    for (i = layers - 1; i >= 0; i--) {
        if (i % every != first % every) continue
        t = above(t, backward * (layers - i) / layers) + bits / layers / rate
    }
    return above(0, t - backward)
}
function used_by_rules(rate,    bits, exposed, fragments, p) {
    bits = 16 * params * (method ~ /FP4/ ? 1 / 4 : 1)
    if (method == "data-parallel") return step / (step + left_of(bits, layers, 0, 1, rate, 2 * step / 3))
    fragments = method == "DiLoCo" ? 1 : layers / 3
    for (p = 0; p < fragments; p++)
        exposed += above(0, left_of(bits, layers, p, fragments, rate, 2 * step / 3) - (method ~ /overlap/ ? step : 0))
    return 100 * step / (100 * step + exposed)
}
function used_as_simulated(rate,    bits, fragments) {
    if (method == "data-parallel") return used_by_rules(rate)
    bits = 16 * params * (method ~ /FP4/ ? 1 / 4 : 1)
    fragments = method == "DiLoCo" ? 1 : layers / 3
    return 100 * step / (100 * step + fragments * above(0, bits / fragments / rate - (method ~ /overlap/ ? step : 0)))
}
function needed(target, rules,    low, high, middle, k) {
    low = 1e-3; high = 1e5
    for (k = 0; k < 100; k++) {
        middle = sqrt(low * high)
        if ((rules ? used_by_rules(middle) : used_as_simulated(middle)) >= target) high = middle
        else low = middle
    }
    return high
}
# In %, beyond the cell's range, whose ends were rounded to one decimal; 0 within it.
function off(rate, cell,    low, high) {
    low = cell - 0.05; high = (cell + 0.05) * 10 ^ (4 / 49)
    return rate < low ? 100 * (rate / low - 1) : rate > high ? 100 * (rate / high - 1) : 0
}
BEGIN {
    split("0.5 0.8 0.9 0.95 0.99", targets, " ")
    print "Rate in Gb/s that a compute utilisation needs: the table's range, dlsim, the closed form of the table's rules;"
    print "% beyond the range (0: within it)"
    printf "%4s %-22s %5s %17s %8s %6s %8s %6s\n", "B", "method", "util", "table", "dlsim", "%", "rules", "%"
}
{
    params = $1; layers = $2; step = $3; method = $4
    if (!(method in rows)) order[++methods] = method
    for (i = 1; i <= 5; i++) {
        cell = $(4 + i); rate = $(9 + i); rules = needed(targets[i], 1)
        e = off(rate, cell); r = off(rules, cell)
        printf "%4s %-22s %5g %8.1f %8.1f %8.2f %6.1f %8.2f %6.1f\n", params, method, 100 * targets[i], cell,
            cell * 10 ^ (4 / 49), rate, e, rules, r
        rows[method]++; all++
        if (e == 0) { within[method]++; all_within++ }
        if (e >= -10 && e <= 10) { near[method]++; all_near++ }
        else if (r >= -10 && r <= 10) explained++
        else open++
        if (r == 0) { by_rules[method]++; all_by_rules++ }
        d = rate / needed(targets[i], 0) - 1; d = d < 0 ? -d : d
        if (d > furthest) furthest = d
    }
}
END {
    printf "\n%-22s %6s %14s %14s %16s\n", "cells", "all", "dlsim within", "within 10 %", "rules within"
    for (m = 1; m <= methods; m++)
        printf "%-22s %6d %14d %14d %16d\n", order[m], rows[order[m]], within[order[m]], near[order[m]], by_rules[order[m]]
    printf "%-22s %6d %14d %14d %16d\n", "all", all, all_within, all_near, all_by_rules
    printf "dlsim more than 10 %% off: %d cells that sending during the backward pass explains, %d others\n", explained, open
    printf "dlsim and the closed form of its own rules: at most %.2f %% apart\n", 100 * furthest
}
