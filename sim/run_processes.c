/* Exchange among workers that are processes: its duration from measured times, or, if it was not
 * measured, the costs that are needed to predict it. */
#include <math.h>

#include "common/alloc.h"
#include "sim/run_internal.h"

bool dl_run_is_of_processes(const dl_scenario *scenario)
{
    return scenario->gpu == NULL && scenario->processes == DL_PROCESSES_YES;
}

const dl_collective_cost *dl_run_process_cost(const dl_costs *costs, const dl_point *point,
                                              int kind)
{
    return dl_collective_cost_find(costs->collectives, costs->collective_count, kind,
                                   point->workers, kind < 0 ? 0 : 1);
}

/* Whether the whole exchange with a synchronous server was measured. */
static bool pushes_and_pulls(const dl_costs *costs, const dl_point *point)
{
    return dl_mode_serves_gradients(point->mode) &&
           dl_run_process_cost(costs, point, DL_PUSHPULL) != NULL;
}

bool dl_run_reduces(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    return dl_run_is_of_processes(scenario) &&
           (point->mode->through & DL_THROUGH_COLLECTIVE || pushes_and_pulls(costs, point));
}

/* Whether a step of processes starts with a broadcast of buffers. */
static bool broadcasts(const dl_costs *costs, const dl_point *point)
{
    return dl_mode_reduces_gradients(point->mode) && point->workers > 1 &&
           costs->broadcast_bytes.known && costs->broadcast_bytes.value > 0;
}

/* Whether the workers are processes that push to a server and pull from it. */
static bool calls_server(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    return dl_run_is_of_processes(scenario) && !dl_run_reduces(scenario, costs, point) &&
           (point->mode->needs & DL_NEED_COPY) != 0;
}

/* Whether pushpull was measured for any number of workers. */
static bool has_pushpull(const dl_costs *costs)
{
    for (size_t i = 0; i < costs->collective_count; i++)
        if (costs->collectives[i].kind == DL_PUSHPULL) return true;
    return false;
}

/* Whether this kind of exchange was measured only for other numbers of processes. */
static bool of_other_ranks(const dl_costs *costs, const dl_point *point, int kind)
{
    return dl_costs_other_ranks(costs, kind, point->workers) != NULL;
}

/* Whether this kind of exchange was not measured for any number of processes. */
static bool is_unknown(const dl_costs *costs, const dl_point *point, int kind)
{
    return dl_run_process_cost(costs, point, kind) == NULL && !of_other_ranks(costs, point, kind);
}

char *dl_run_collective_missing(const dl_scenario *scenario, const dl_costs *costs,
                                const dl_point *point)
{
    if (dl_costs_exchange_by_messages(costs)) return NULL; /* dl_run_needs includes these */
    if (calls_server(scenario, costs, point) && is_unknown(costs, point, DL_ROUNDTRIP)) {
        const bool whole = dl_mode_serves_gradients(point->mode) && has_pushpull(costs);
        return dl_format("[%s %d]", whole ? "pushpull" : "roundtrip", point->workers);
    }
    if (!dl_run_reduces(scenario, costs, point) || pushes_and_pulls(costs, point) ||
        point->workers == 1)
        return NULL;
    if (is_unknown(costs, point, DL_ALLREDUCE)) {
        return dl_format("[collective allreduce %d]", point->workers);
    }
    if (!broadcasts(costs, point) || !is_unknown(costs, point, DL_BROADCAST)) {
        return NULL;
    }
    return dl_format("[collective broadcast %d]", point->workers);
}

/* Time in ns of the collectives of processes that divide the model state. Gathering parameters
 * takes half as long as reducing as many bytes: gloo's rings have N - 1 and 2 (N - 1) rounds of
 * equal messages. With a divided optimizer DistributedDataParallel reduces, and the parameters are
 * gathered after the update. Otherwise, as in PyTorch's FSDP, the training thread waits for each
 * collective, and gloo executes a reduce-scatter as an all-reduce. Each micro-batch reduces divided
 * gradients, and gathers divided parameters. */
static double divided_ns(const dl_exchange_plan *plan, const dl_costs *costs, double backward_ns,
                         const dl_process_reduces *of)
{
    const dl_gradients_ready whole = {.share = 1, .bytes = (double)costs->parameter_bytes};
    const dl_gradients_ready *units = costs->gradient_count > 0 ? costs->gradients : &whole;
    const size_t count = costs->gradient_count > 0 ? costs->gradient_count : 1;
    double reduce_ns = 0, before_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        reduce_ns += dl_collective_cost_ns(of->alone, units[i].bytes - before_bytes);
        before_bytes = units[i].bytes;
    }
    const double sums_ns =
        plan->divides_gradients ? reduce_ns : dl_buckets_ns(of, units, count, backward_ns);
    return plan->passes * (sums_ns + 0.5 * plan->gathers * reduce_ns) +
           0.5 * plan->gathers_after * reduce_ns;
}

/* Time in ns of an exchange's collectives among processes; buckets of gradients start as they
 * become ready, as in DistributedDataParallel. */
static double reduces_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                         double backward_ns, const dl_process_reduces *of)
{
    const dl_exchange_plan plan = dl_scenario_exchange(scenario, point);
    if (plan.sharers > 1) return divided_ns(&plan, costs, backward_ns, of);
    if (dl_mode_reduces_gradients(point->mode) && costs->gradient_count > 0)
        return dl_buckets_ns(of, costs->gradients, costs->gradient_count, backward_ns);
    const double parts = dl_scenario_fragments(scenario, point);
    const bool with_state =
        dl_mode_takes(point->mode, DL_SYNC_AVERAGE_STATE) && scenario->average_state;
    return dl_collective_cost_ns(of->alone, (double)costs->parameter_bytes / parts) +
           (with_state ? dl_collective_cost_ns(of->alone, (double)costs->state_bytes / parts) : 0);
}

void dl_run_reduce_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                      double backward_ns, double *ns, double *late_ns)
{
    dl_process_reduces together = {.alone = dl_run_process_cost(costs, point, DL_PUSHPULL)};
    dl_process_reduces late = {0};
    if (!dl_mode_serves_gradients(point->mode)) {
        together = (dl_process_reduces){
            .alone = dl_run_process_cost(costs, point, DL_ALLREDUCE),
            .pair = dl_run_process_cost(costs, point, DL_ALLREDUCE_PAIR),
            .beside = dl_run_process_cost(costs, point, DL_ALLREDUCE_BESIDE),
        };
        late.alone = dl_run_process_cost(costs, point, DL_ALLREDUCE_LATE);
    }
    *ns = *late_ns = 0;
    /* No exchange, one worker, or no time for this number of processes. */
    if (!dl_run_reduces(scenario, costs, point) || together.alone == NULL) return;
    *ns = reduces_ns(scenario, costs, point, backward_ns, &together);
    *late_ns = late.alone != NULL
                   ? fmin(*ns, reduces_ns(scenario, costs, point, backward_ns, &late))
                   : *ns;
    if (broadcasts(costs, point)) {
        const double calls = costs->broadcast_calls.known ? costs->broadcast_calls.value : 1;
        const double broadcast_ns =
            calls * dl_collective_cost_ns(dl_run_process_cost(costs, point, DL_BROADCAST),
                                          costs->broadcast_bytes.value / calls);
        *ns += broadcast_ns;
        *late_ns += broadcast_ns;
    }
}

bool dl_run_scales_exchange(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point)
{
    if (calls_server(scenario, costs, point)) return of_other_ranks(costs, point, DL_ROUNDTRIP);
    if (!dl_run_reduces(scenario, costs, point) || pushes_and_pulls(costs, point) ||
        point->workers == 1)
        return false;
    return of_other_ranks(costs, point, DL_ALLREDUCE) ||
           (broadcasts(costs, point) && of_other_ranks(costs, point, DL_BROADCAST));
}

/* Needs of exchanges among processes whose times are not in the costs. */
static unsigned message_needs(const dl_scenario *scenario, const dl_costs *costs,
                              const dl_point *point)
{
    if (dl_run_scales_exchange(scenario, costs, point)) return DL_NEED_OTHER_RANKS;
    if (!dl_costs_exchange_by_messages(costs)) return 0;
    if (calls_server(scenario, costs, point)) return DL_NEED_RPC;
    return dl_run_reduces(scenario, costs, point) && point->workers > 1 ? DL_NEED_GLOO : 0;
}

unsigned dl_run_process_needs(const dl_scenario *scenario, const dl_costs *costs,
                              const dl_point *point, unsigned needs)
{
    needs &= ~(unsigned)(DL_NEED_MEMORY | DL_NEED_BARRIER | DL_NEED_WAKEUP | DL_NEED_LOCK |
                         DL_NEED_COPY);
    if (pushes_and_pulls(costs, point)) needs &= ~(unsigned)DL_NEED_UPDATE;
    if (dl_run_reduces(scenario, costs, point)) needs &= ~(unsigned)DL_NEED_AVERAGE;
    return needs | message_needs(scenario, costs, point);
}
