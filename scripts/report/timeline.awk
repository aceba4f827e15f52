# Three steps of a simulated run, as CSV for plots/timeline.gp: worker,part,start_s,end_s. Reads the
# Chrome-trace JSON of dlsim --timeline (an event a line) twice, to know the steps before the rest:
#   awk [-v first=STEP] -f timeline.awk timeline.json timeline.json
# The steps begin with worker 0's step `first` (3). States of a worker go by the parts of results.
function value(name) {
    if (!match($0, "\"" name "\":\"?[^,\"}]*")) return ""
    text = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
    sub(/^"/, "", text)
    return text
}
BEGIN {
    if (first == "") first = 3
    split("push pull allreduce update barrier lock wait average", state, " ")
    split("communication communication communication averaging waiting waiting waiting averaging", of, " ")
    for (i in state) part[state[i]] = of[i]
    print "worker,part,start_s,end_s"
}
!/"ph":"X"/ { next }
FNR == NR {
    if (/"cat":"step"/ && value("tid") == 0) {
        s = value("step") + 0
        if (s == first) from = value("ts") + 0
        if (s <= first + 2) until = value("ts") + value("dur")
        if (s == 0) begin = value("ts") + 0
    }
    next
}
FNR == 1 && from == "" { from = begin } # fewer steps than that
/"cat":"activity"/ {
    start = value("ts") + 0
    end = start + value("dur")
    if (end <= from || start >= until) next
    if (start < from) start = from
    if (end > until) end = until
    name = value("name")
    printf "%d,%s,%.9f,%.9f\n", value("tid"), name in part ? part[name] : name, (start - from) / 1e6,
        (end - from) / 1e6
}
