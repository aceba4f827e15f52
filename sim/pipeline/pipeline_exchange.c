/* What crosses between stages, and the all-reduce of each stage's gradients. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/pipeline/pipeline.h"

static double bytes_of_cut(const dl_pipeline *p, int stage)
{
    return p->config.stages[stage].crossing_bytes * p->config.split.samples;
}

/* --- crossings ------------------------------------------------------------------------------- */

static void start_crossing(dl_pipeline *p, int gpu, bool forward);

static void arrive(dl_pipeline *p, int gpu, bool forward)
{
    dl_pipeline_gpu *g = &p->gpus[gpu];
    dl_crossing *crossing = forward ? &g->next : &g->back;
    const int to = forward ? gpu + 1 : gpu - 1;
    const int cut = dl_pipeline_stage(p, forward ? gpu : to);
    p->crossed_bytes += bytes_of_cut(p, cut);
    crossing->queued--;
    crossing->busy = false;
    *(forward ? &p->gpus[to].got_forwards : &p->gpus[to].got_backwards) += 1;
    if (crossing->queued > 0) start_crossing(p, gpu, forward);
    dl_pipeline_try(p, to);
}

static void on_forward_arrived(void *user, int gpu)
{
    arrive(user, gpu, true);
}

static void on_backward_arrived(void *user, int gpu)
{
    arrive(user, gpu, false);
}

static void start_crossing(dl_pipeline *p, int gpu, bool forward)
{
    dl_crossing *crossing = forward ? &p->gpus[gpu].next : &p->gpus[gpu].back;
    const int stage = dl_pipeline_stage(p, gpu);
    crossing->busy = true;
    if (p->config.free_crossing) {
        arrive(p, gpu, forward);
        return;
    }
    dl_network_start(&p->network, crossing->class, bytes_of_cut(p, forward ? stage : stage - 1),
                     crossing->latency_ns, forward ? on_forward_arrived : on_backward_arrived, p,
                     gpu);
}

void dl_pipeline_send(dl_pipeline *p, int gpu, bool forward)
{
    const int stage = dl_pipeline_stage(p, gpu);
    if (stage == (forward ? p->config.split.stages - 1 : 0)) return;
    dl_crossing *crossing = forward ? &p->gpus[gpu].next : &p->gpus[gpu].back;
    crossing->queued++;
    if (!crossing->busy) start_crossing(p, gpu, forward);
    dl_pipeline_try(p, forward ? gpu + 1 : gpu - 1); /* which now waits for the crossing */
}

bool dl_pipeline_is_sent(const dl_pipeline *p, int gpu, bool forward)
{
    return (forward ? p->gpus[gpu - 1].next.queued : p->gpus[gpu + 1].back.queued) > 0;
}

static void init_crossing(dl_pipeline *p, dl_crossing *crossing, int from, int to)
{
    dl_route route;
    dl_links_route(&p->config.options->links, p->places[from], p->places[to], &route);
    crossing->class = dl_network_route_class(&p->network, &route);
    crossing->latency_ns = dl_ns_ceil(route.latency_ns);
}

/* --- all-reduce ------------------------------------------------------------------------------ */

static void on_reduced(void *user, int stage)
{
    dl_pipeline *p = user;
    p->reduced_bytes += p->reductions[stage].sent_bytes;
    p->reductions[stage].arrived = 0;
    for (int g = stage; g < p->gpu_count; g += p->config.split.stages)
        dl_pipeline_update(p, g);
}

void dl_pipeline_reduce(dl_pipeline *p, int gpu)
{
    if (p->reductions == NULL) {
        dl_pipeline_update(p, gpu);
        return;
    }
    const int stage = dl_pipeline_stage(p, gpu);
    dl_stage_reduction *reduction = &p->reductions[stage];
    dl_pipeline_set_state(p, gpu, DL_STATE_BARRIER);
    if (++reduction->arrived == p->config.replicas) {
        for (int g = stage; g < p->gpu_count; g += p->config.split.stages)
            dl_pipeline_set_state(p, g, DL_STATE_ALLREDUCE);
    }
    dl_collective_arrive(&reduction->collective);
}

/* `held`: transfers of the stages before it. */
static dl_status init_reduction(dl_pipeline *p, int stage, int held, dl_place *ranks, dl_error *err)
{
    const dl_gpu_options *options = p->config.options;
    dl_stage_reduction *reduction = &p->reductions[stage];
    for (int r = 0; r < p->config.replicas; r++)
        ranks[r] = p->places[r * p->config.split.stages + stage];
    const dl_collective_config config = {
        .kind = DL_ALLREDUCE,
        .algorithm = options->algorithm,
        .fidelity = options->fidelity,
        .ranks = ranks,
        .rank_count = p->config.replicas,
        .bytes = p->config.stages[stage].parameter_bytes,
        .chunk_bytes = DL_CHUNK_BYTES,
        .message_ns = options->message_ns,
        .measured = p->config.workload->collectives,
        .measured_count = p->config.workload->collective_count,
        .transfers_max = DL_TRANSFERS_HELD_MAX - held,
    };
    dl_status status =
        dl_collective_init(&reduction->collective, &p->network, &options->links, &config, err);
    if (status != DL_OK) return status;
    dl_collective_on_done(&reduction->collective, on_reduced, p, stage);
    /* What was measured as a whole does not tell what it sends. */
    if (reduction->collective.measured) reduction->sent_bytes = (double)NAN;
    const dl_plan *plan = &reduction->collective.plan;
    for (int t = 0; t < plan->transfer_count && !reduction->collective.measured; t++)
        reduction->sent_bytes += plan->transfers[t].bytes * plan->costs.bandwidth_frac;
    return DL_OK;
}

dl_status dl_pipeline_exchange_init(dl_pipeline *p, dl_error *err)
{
    const int stages = p->config.split.stages;
    int flows = dl_input_most(&p->input) + 2 * p->gpu_count;
    for (int g = 0; g < p->gpu_count; g++) {
        const int stage = dl_pipeline_stage(p, g);
        if (stage < stages - 1) init_crossing(p, &p->gpus[g].next, g, g + 1);
        if (stage > 0) init_crossing(p, &p->gpus[g].back, g, g - 1);
    }
    dl_status status = DL_OK;
    if (p->config.reduces && p->config.replicas > 1) {
        dl_place *ranks = dl_calloc((size_t)p->config.replicas, sizeof *ranks, "replicas");
        p->reductions = dl_calloc((size_t)stages, sizeof *p->reductions, "all-reduces");
        int held = 0;
        double transfers = 0;
        for (int s = 0; s < stages && status == DL_OK; s++) {
            status = init_reduction(p, s, held, ranks, err);
            const dl_collective *collective = &p->reductions[s].collective;
            held += dl_collective_flows(collective);
            if (!collective->measured) transfers += collective->plan.transfer_count;
        }
        flows += held;
        free(ranks);
        if (status == DL_OK) {
            status = dl_collective_check_run(p->config.options->fidelity, transfers,
                                             (double)p->config.steps, err);
        }
    }
    dl_network_reserve(&p->network, flows);
    return status;
}
