#include "sim/step_collectives.h"

#include <math.h>
#include <strings.h>

#include "common/alloc.h"

/* Names used by frameworks and NCCL. */
static const struct {
    const char *name;
    dl_collective_kind kind;
} kinds[] = {
    {"AllReduce", DL_ALLREDUCE}, {"AllGather", DL_ALLGATHER}, {"ReduceScatter", DL_REDUCE_SCATTER},
    {"AlltoAll", DL_ALLTOALL},   {"Broadcast", DL_BROADCAST}, {"Reduce", DL_REDUCE},
};

static bool find_kind(const char *name, dl_collective_kind *kind)
{
    for (size_t i = 0; i < DL_LENGTH(kinds); i++) {
        if (strcasecmp(name, kinds[i].name) != 0) continue;
        *kind = kinds[i].kind;
        return true;
    }
    return false;
}

bool dl_step_collective_of(const dl_cost_trace *trace, const dl_traced_collective *traced,
                           int workers, double samples, dl_step_collective *made)
{
    dl_collective_kind kind;
    const int64_t ranks = traced->ranks;
    if (!find_kind(traced->name, &kind) || !(traced->bytes > 0) || ranks < 2) return false;
    const int group = ranks == trace->ranks ? workers : (int)ranks;
    if (workers % group != 0) return false;
    const double calls = fmax(1, round(traced->calls));
    const bool grows = kind != DL_BROADCAST && trace->batch > 0;
    double bytes = traced->bytes / calls * (grows ? samples / (double)trace->batch : 1);
    if (kind == DL_ALLTOALL) bytes *= (double)ranks; /* NCCL counts the bytes per rank */
    if (kind == DL_ALLGATHER || kind == DL_REDUCE_SCATTER) bytes *= group;
    *made = (dl_step_collective){kind, (int64_t)calls, group, bytes};
    return true;
}

const dl_cost_trace *dl_step_collectives_trace(const dl_costs *costs)
{
    for (size_t i = 0; i < costs->trace_count; i++)
        if (costs->traces[i].collective_count > 0) return &costs->traces[i];
    return NULL;
}

int dl_step_collectives_list(const dl_costs *costs, int workers, double samples,
                             dl_step_collective **list)
{
    int count = 0;
    const dl_cost_trace *trace = dl_step_collectives_trace(costs);
    *list = NULL;
    if (costs->broadcast_bytes.known && costs->broadcast_bytes.value > 0) {
        DL_APPEND(*list, count, "collectives of a step") =
            (dl_step_collective){DL_BROADCAST, 1, workers, costs->broadcast_bytes.value};
    }
    for (size_t i = 0; trace != NULL && i < trace->collective_count; i++) {
        dl_step_collective made;
        if (!dl_step_collective_of(trace, &trace->collectives[i], workers, samples, &made))
            continue;
        DL_APPEND(*list, count, "collectives of a step") = made;
    }
    return count;
}
