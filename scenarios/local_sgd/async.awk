# Rows of a table of asynchronous DiLoCo (fsb_decoupled_diloco's summaries) become scenarios OUT/RUN.ini; prints for
# each "RUN produced applied superseded too_stale staleness merges interval_s" as measured, or "RUN - WHY".
# -v out=OUT -v machine=FILE. From a row are taken: the configuration; the syncer's time for a merge (its duty cycle);
# the learners' speeds. Where learners did unequal numbers of steps in the same time, these are their speeds (least, mean
# and most: the others are put evenly around the mean of the rest). Where all did the same number, the slowest took the
# whole time, less the last grace time and merge; the fastest is as fast as the fastest of the table's other runs, the
# others are put evenly between. A step's time has the upload in it.
function split_csv(line, cell,    i, c, n, quoted, text) {
    n = 1; text = ""; quoted = 0
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "," && !quoted) { cell[n++] = text; text = "" }
        else text = text c
    }
    cell[n] = text
    return n
}
function get(name) { return cell[at[name]] }
function least(a, b) { return a < b ? a : b }
{ sub(/\r$/, "") }
FNR == 1 { delete at; n = split_csv($0, cell); for (i = 1; i <= n; i++) at[cell[i]] = i; next }
{ split_csv($0, cell); span = get("merge_count") * get("global_interval_seconds_mean"); steps = get("inner_steps") }
{ waits = get("global_adoption_strategy") ~ /^predict/ }
# First pass: the shortest interval of all learners whose numbers of steps differ, and that do not wait.
NR == FNR {
    if (get("local_steps_max") + 0 > get("local_steps_min") + 0 && !waits) {
        cycle = span * steps / get("local_steps_max")
        if (!(steps in fastest) || cycle < fastest[steps]) fastest[steps] = cycle
    }
    next
}
{
    run = get("run_id"); n = get("num_learners"); why = ""
    if (get("mode") != "full") why = "mode " get("mode") " is not simulated"
    adopt["replace"] = "next"; adopt["rebase_post_publish_delta"] = "rebase"; adopt["predict_next_global"] = "predict"
    strategy = get("global_adoption_strategy")
    how = strategy in adopt ? adopt[strategy] : strategy ~ /^predict/ ? "predict" : ""
    if (how == "") why = "adoption by " strategy " is not simulated"
    if (why != "") { print run, "- " why; next }
    merge = get("syncer_duty_cycle_percent") / 100 * get("complete_training_time_seconds") / get("merge_count")
    low = get("local_steps_min") + 0; high = get("local_steps_max") + 0
    each = get("stop_reason") == "input_exhausted"
    if (high > low && !waits) {
        first = span * steps / high
        rest = (get("local_steps_total") - low - high) / (n - 2)
        apart = least((high - low) / (n - 1), 2 * least(high - rest, rest - low) / (n - 3))
        for (i = 0; i < n; i++)
            factor[i] = high / (i == 0 ? low : i == n - 1 ? high : rest + apart * (i - 1 - (n - 3) / 2))
    } else {
        last = (span - merge - get("grace_window_seconds") - get("sync_scan_interval_seconds")) * steps / high
        if (high > low) last = span * steps / low
        first = least(span * steps / high, last)
        if (steps in fastest) first = least(fastest[steps], first)
        for (i = 0; i < n; i++) factor[i] = (last + (first - last) * i / (n - 1)) / first
    }
    file = out "/" run ".ini"
    printf "[scenario]\nname = %s\nsteps = %d\nreplicates = 5\n", run, int(high / steps) * steps >file
    printf "[machine]\nfile = %s\ngpus = 1", machine >file
    for (i = 2; i <= n; i++) printf ", %d", i >file
    printf "\nworkers = %d\n[workload]\nsamples_per_s = %.6g\nbatch_per_worker = 16\n", n, 16 * steps / first >file
    printf "parameter_bytes = 497759232\n" >file
    if (get("update_tensor_dtype") ~ /16/) printf "[exchange]\ncompress = fp16\n" >file
    printf "[sync]\nmode = async_average\ninterval = %d\nbound = %d\n", steps, get("max_staleness_versions") >file
    printf "[syncer]\nquorum = %d\nscan_s = %g\n", n / 2, get("sync_scan_interval_seconds") >file
    printf "grace = %s\ngrace_s = %g\n", get("grace_window_mode") ~ /^adaptive/ ? "adaptive" : "fixed",
        get("grace_window_seconds") >file
    printf "merge_s = %.6g\nadopt = %s\nend = %s\n", merge, how, each ? "each" : "first" >file
    printf "[noise]\nkind = lognormal\nsigma = 0.05\nslow = " >file
    for (i = 0; i < n; i++) printf "%s%d:%.5f", i ? ", " : "", i, factor[i] >file
    printf "\n" >file
    close(file)
    print run, get("produced_updates"), get("applied_updates"), get("dropped_superseded"), get("dropped_stale"),
        get("applied_staleness_mean"), get("merge_count"), get("global_interval_seconds_mean")
}
