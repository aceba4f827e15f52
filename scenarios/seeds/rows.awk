# Measured rows of one result file, fitted or unseen, as CSV:
#   scenario,workers,batch,step_s,measured_step_s,error_frac,use
# error_frac: predicted over measured samples per second, minus 1, as dlsim writes it.
#
#   awk -v scenario=NAME -f rows.awk fitted.csv RESULTS.csv
BEGIN { FS = OFS = "," }
/^#/ { next }
FNR == NR { fitted[$1, $2, $3] = 1; next }
{ gsub(/"[^"]*"/, "") } # sources, the only cells that hold commas
!named { for (i = 1; i <= NF; i++) at[$i] = i; named = 1; next }
$at["error_frac"] != "" {
    use = (scenario, $at["workers"], $at["batch"]) in fitted ? "fitted" : "unseen"
    print scenario, $at["workers"], $at["batch"], $at["step_mean_s"], $at["measured_step_s"], \
        $at["error_frac"], use
}
