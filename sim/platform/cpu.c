/* A CPU box: workers are threads pinned to cores, the server is memory, and copies and averages are
 * done by the workers' own threads, or their communication threads (sim/workload.h says what they
 * cost, sim/platform/host.h how they slow each other). */
#include "sim/platform/platform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/platform/host.h"

static dl_host *host_of(const dl_team *team)
{
    return team->machine;
}

static void on_work_done(void *user, int worker)
{
    dl_team_done(user, worker);
}

/* The run starts anywhere between two timer ticks, which come at the same time on all cores;
 * without noise, at a tick. The stream is none of a worker's. */
static double first_tick_ns(const dl_team_config *config)
{
    double slice_ns = config->workload->slice_ns;
    if (config->noise->kind == DL_NOISE_NONE || !isfinite(slice_ns)) return 0;
    dl_random stream;
    dl_random_init(&stream, config->seed, config->replicate, 1, 0);
    return slice_ns * dl_random_uniform(&stream);
}

static int init(dl_team *team)
{
    const dl_team_config *config = &team->config;
    team->machine = dl_calloc(1, sizeof(dl_host), "host");
    dl_host_init(host_of(team),
                 &(dl_host_config){.engine = &team->engine,
                                   .cores = config->cores,
                                   .threads = team->agents,
                                   .slice_ns = config->workload->slice_ns,
                                   .tick_ns = first_tick_ns(config),
                                   .memory_bytes_per_ns = config->workload->memory_bytes_per_ns,
                                   .costs = config->costs,
                                   .done = on_work_done,
                                   .user = team});
    return 1; /* the processor's timer */
}

static void free_host(dl_team *team)
{
    if (team->machine != NULL) dl_host_free(host_of(team));
    free(team->machine);
}

static void compute(dl_team *team, int worker, bool with_update)
{
    const dl_worker *w = &team->workers[worker];
    double work_ns = w->compute_ns + (with_update ? team->config.workload->update_ns : 0);
    dl_host_compute(host_of(team), worker, work_ns * w->noise_factor);
}

static void update(dl_team *team, int worker)
{
    dl_host_compute(host_of(team), worker,
                    team->config.workload->update_ns * team->workers[worker].noise_factor);
}

static void copy(dl_team *team, int worker, dl_content content)
{
    const dl_workload *workload = team->config.workload;
    dl_work work = dl_workload_copy(workload, workload->parameter_bytes);
    if (content == DL_CONTENT_PARAMETERS_AND_STATE) {
        work = dl_work_add(work, dl_workload_copy(workload, workload->state_bytes));
    }
    dl_host_move(host_of(team), worker, work);
}

static void average(dl_team *team, int worker, dl_content content, int parts)
{
    if (dl_team_worker(team, worker) >= parts) {
        dl_team_done(team, worker);
        return;
    }
    const dl_workload *workload = team->config.workload;
    const int vectors = team->config.workers;
    dl_work work = dl_workload_average(workload, workload->parameter_bytes / parts, vectors);
    if (content == DL_CONTENT_PARAMETERS_AND_STATE) {
        work = dl_work_add(work,
                           dl_workload_average(workload, workload->state_bytes / parts, vectors));
    }
    dl_host_move(host_of(team), worker, work);
}

static void serve_all(dl_team *team, int worker, int parts)
{
    if (dl_team_worker(team, worker) >= parts) {
        dl_team_done(team, worker);
        return;
    }
    const dl_workload *workload = team->config.workload;
    dl_host_move(
        host_of(team), worker,
        dl_workload_update(workload, workload->parameter_bytes / parts, team->config.workers));
}

static void serve(dl_team *team, int worker, int64_t gradients)
{
    const dl_workload *workload = team->config.workload;
    dl_host_move(host_of(team), worker,
                 dl_workload_update(workload, workload->parameter_bytes, (int)gradients));
}

static void blend(dl_team *team, int worker)
{
    const dl_workload *workload = team->config.workload;
    dl_host_move(host_of(team), worker,
                 dl_workload_average(workload, workload->parameter_bytes, 2));
}

/* The momentum of what it was, the average, and the parameters before; then the parameters of what
 * they were and the momentum: averages of 3 and of 2 vectors. */
static void filter(dl_team *team, int worker, int parts)
{
    if (dl_team_worker(team, worker) >= parts) {
        dl_team_done(team, worker);
        return;
    }
    const dl_workload *workload = team->config.workload;
    const double bytes = workload->parameter_bytes / parts;
    dl_host_move(host_of(team), worker,
                 dl_work_add(dl_workload_average(workload, bytes, 3),
                             dl_workload_average(workload, bytes, 2)));
}

static void cut(dl_team *team, int worker)
{
    dl_host_cut(host_of(team), worker);
}

static void take_core(dl_team *team, int worker)
{
    dl_host_compute(host_of(team), worker, 0);
}

static int64_t ran_ns(const dl_team *team, int worker)
{
    return dl_processor_ran_ns(&host_of(team)->processor, worker);
}

static void measure(const dl_team *team, dl_usage *usage)
{
    const dl_host *host = host_of(team);
    double span_ns = (double)team->engine.now_ns;
    for (int c = 0; c < team->config.cores && c < team->agents; c++) {
        char name[DL_RESOURCE_NAME_BYTES];
        snprintf(name, sizeof name, "core %d", c);
        double busy_ns = (double)dl_processor_busy_ns(&host->processor, c);
        dl_usage_note(usage, name, busy_ns / span_ns);
    }
    dl_usage_note(usage, "memory", host->traffic_bytes / host->memory_capacity / span_ns);
    usage->traffic_bytes = host->traffic_bytes;
}

const dl_platform dl_platform_cpu = {
    .name = "cpu",
    .init = init,
    .free = free_host,
    .compute = compute,
    .update = update,
    .push = copy,
    .pull = copy,
    .average = average,
    .serve_all = serve_all,
    .serve = serve,
    .blend = blend,
    .blend_own = blend,
    .filter = filter,
    .cut = cut,
    .take_core = take_core,
    .ran_ns = ran_ns,
    .measure = measure,
};
