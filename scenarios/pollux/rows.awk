# Rows of the Pollux tables as rows of ours (placement,batch,step_s). -v want=
# -v batches=REGEX: only these batches of a GPU; -v most=N: equal and other are at most N GPUs, and more
#   node    one node                                    fitted with a catalogue's network
#   equal   one node, or equal GPUs on each node        fitted
#   other   the rest                                    predicted
#   more    of a scalability table, all rows: GPUs spread evenly over the nodes, the first have one more
BEGIN { FS = ","; print "placement,batch,step_s" }
{ sub(/\r$/, "") }
FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{
    placement = ""
    if (want == "more") {
        nodes = $at["num_nodes"]; gpus = $at["num_replicas"]
        for (k = 0; k < nodes; k++) placement = placement int(gpus / nodes) + (k < gpus % nodes)
    } else {
        placement = $at["placement"]; gpus = 0
        for (k = 1; k <= length(placement); k++) gpus += substr(placement, k, 1)
        is_equal = gpus == length(placement) * substr(placement, 1, 1)
        if (want == "node" && length(placement) > 1) next
        is_fitted = most > 0 ? gpus <= most : is_equal
        if (want == "equal" && !is_fitted || want == "other" && is_fitted) next
    }
    if (batches != "" && $at["local_bsz"] !~ "^(" batches ")$") next
    print placement "," gpus * $at["local_bsz"] "," $at["step_time"]
}
