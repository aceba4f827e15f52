# One line for each measured run: run, algorithm, interval, rate of the port in bit/s, seconds a step, whether
# the port is shaped, measured steps, steps before them, what the first average took more than the others in
# s ("-": it was not measured), seconds of an average. Ports that are not shaped have the rate that NCCL's own
# all-reduce reached on them.
function number(name) { return $at[name] + 0 }
BEGIN { FS = "," }
NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{
    shaped = $at["bw_requested_bps"] != ""
    rate = shaped ? number("bw_requested_bps") : number("nccl_bw_bps")
    steps = number("n_steps_telemetry"); every = number("H"); averages = number("n_sync")
    # Runs have a warm-up of 2 to 20 steps: one that agrees with the number of averages.
    for (warmup = 10; warmup < 40; warmup++)
        if (int((warmup + steps) / every) - int(warmup / every) == averages) break
    first = "-"
    if ($at["algorithm"] != "ddp" && warmup < every && averages > 1)
        first = number("sync_s") - averages * number("median_sync_step_ms") / 1000
    sub(/^cu_grid-/, "", $at["run"])
    average = averages > 1 ? number("median_sync_step_ms") / 1000 : 0
    print $at["run"], $at["algorithm"], every, rate, number("total_s") / steps, (shaped ? "yes" : "no"), steps,
        ($at["algorithm"] == "ddp" ? 1 : warmup), first, average
}
