/* A CPU host: workers are threads pinned to cores, the server is memory, and the workers' threads
 * (or their communication threads) do copies and averages (sim/workload.h has their costs,
 * sim/platform/host.h their mutual slowdown). Alternatively workers are processes, whose
 * all-reduces and round trips to a server were measured as the time that they add to a step of as
 * many processes (sim/collective/collective_cost.h): an all-reduce, or the work of a synchronous
 * server, is a delay for all; a round trip keeps its worker's core busy, like communication
 * threads. Other threads: a syncer, on any core; and loaders (sim/platform/loaders.h), processes
 * that compete for cores. With loaders an all-reduce keeps one core per worker busy, so that
 * loaders delay it. */
#include "sim/platform/platform.h"
#include "sim/sync/members.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/platform/loaders.h"
#include "sim/sync/syncer.h"

/* Threads of the host: agents, a syncer if there is one, loaders. */
typedef struct box {
    dl_host host;
    dl_loaders loaders;
} box;

static box *box_of(const dl_team *team)
{
    return team->machine;
}

static dl_host *host_of(const dl_team *team)
{
    return &box_of(team)->host;
}

/* The syncer's thread, which follows those of the agents. */
static int syncer_of(const dl_team *team)
{
    return team->agents;
}

static int first_loader(const dl_team *team)
{
    return team->agents + (team->config.syncer != NULL);
}

static void on_work_done(void *user, int worker)
{
    dl_team_done(user, worker);
}

static void on_thread_done(void *user, int thread)
{
    dl_team *team = user;
    if (dl_loaders_done(&box_of(team)->loaders, thread)) return;
    if (thread < team->agents) {
        dl_team_done(team, thread);
    } else {
        dl_syncer_merged(team);
    }
}

/* The run starts at a random time between two timer ticks, which are simultaneous on all cores;
 * without noise, at a tick. The random stream is not one of the workers' noise streams. */
static double first_tick_ns(const dl_team_config *config)
{
    double slice_ns = config->workload->slice_ns;
    if (config->noise->kind == DL_NOISE_NONE || !isfinite(slice_ns)) return 0;
    dl_random stream;
    dl_random_init(&stream, config->seed, config->replicate, 1, 0);
    return slice_ns * dl_random_uniform(&stream);
}

static bool has_loaders(const dl_team *team)
{
    return team->config.loading.loaders > 0;
}

static void start_step(dl_team *team, int worker)
{
    const dl_worker *w = &team->workers[worker];
    const dl_workload *workload = team->config.workload;
    const double compute_ns = dl_team_compute_ns(team, worker);
    /* The step's work scales input and compute, but not dispatch. */
    const double data_ns = compute_ns - workload->dispatch_ns;
    double work_ns = compute_ns + (w->work_factor - 1) * data_ns +
                     (w->updates_at_once ? workload->update_ns : 0);
    dl_host_compute(host_of(team), worker, work_ns * w->noise_factor);
}

/* Factor on the time of a batch that the worker makes itself. */
static double effort(void *user, int worker)
{
    const dl_worker *w = &((const dl_team *)user)->workers[worker];
    return w->work_factor * w->noise_factor;
}

/* The batch that the worker waits for is ready. */
static void on_batch(void *user, int worker)
{
    dl_team *team = user;
    dl_team_change(team, worker, DL_STATE_COMPUTE);
    start_step(team, worker);
}

static int init(dl_team *team)
{
    const dl_team_config *config = &team->config;
    const dl_loading *loading = &config->loading;
    box *own = team->machine = dl_calloc(1, sizeof(box), "host");
    dl_host_init(&own->host, &(dl_host_config){
                                 .engine = &team->engine,
                                 .cores = config->cores,
                                 .threads = first_loader(team) + config->workers * loading->loaders,
                                 .pinned = config->platform == &dl_platform_cpu ? team->agents : 0,
                                 .sharers = first_loader(team),
                                 .slice_ns = config->workload->slice_ns,
                                 .tick_ns = first_tick_ns(config),
                                 .memory_bytes_per_ns = config->workload->memory_bytes_per_ns,
                                 .costs = config->costs,
                                 .done = on_thread_done,
                                 .user = team});
    const dl_loaders_config loaders = {
        .engine = &team->engine,
        .host = &own->host,
        .workers = config->workers,
        .loaders = loading->loaders,
        .prefetch = loading->prefetch,
        .first_thread = first_loader(team),
        .samples = config->workload->batch_samples > 0 ? config->workload->batch_samples : 1,
        .make_ns = config->workload->make_ns,
        .read_bytes = config->workload->read_bytes,
        .storage_bytes_per_ns = loading->storage_bytes_per_ns,
        .ahead_bytes = loading->ahead_bytes,
        .steps = config->steps,
        .stopping = &team->stopping,
        .effort = effort,
        .came = on_batch,
        .user = team};
    dl_loaders_init(&own->loaders, &loaders);
    /* Events: the host's timer, ends of all-reduces and of cut work, the syncer's start. */
    return 1 + first_loader(team) + dl_loaders_events(&loaders);
}

static void free_host(dl_team *team)
{
    if (team->machine != NULL) dl_loaders_free(&box_of(team)->loaders);
    if (team->machine != NULL) dl_host_free(host_of(team));
    free(team->machine);
}

static void start(dl_team *team)
{
    dl_loaders_start(&box_of(team)->loaders);
}

static void compute(dl_team *team, int worker)
{
    if (dl_loaders_take(&box_of(team)->loaders, worker)) {
        start_step(team, worker);
    } else {
        dl_team_change(team, worker, DL_STATE_INPUT);
    }
}

/* Whether the syncer last ran on a core other than the worker's. */
static bool is_syncer_elsewhere(const dl_team *team, int worker)
{
    return host_of(team)->threads[syncer_of(team)].core != worker % team->config.cores;
}

static void update(dl_team *team, int worker)
{
    dl_host_compute(host_of(team), worker,
                    team->config.workload->update_ns * team->workers[worker].noise_factor);
}

/* Work of a push of `bytes`. An upload or a compressed parameter change takes a copy of the
 * parameters and a pass that subtracts those of the last average or upload; after an upload the
 * worker also copies the parameters that it continues from. */
static dl_work push_work(const dl_workload *workload, const dl_exchange *exchange, double bytes)
{
    const dl_work copy = dl_byte_work(&workload->copy, bytes, 1);
    if (exchange->as_upload)
        return dl_work_add(dl_work_add(copy, dl_byte_work(&workload->average, bytes, 2)), copy);
    if (workload->compression.kind == DL_COMPRESS_NONE) return copy;
    const dl_work message = dl_message_work(workload, bytes);
    if (!exchange->as_learned) return message;
    return dl_work_add(dl_learned_work(workload, bytes, true), message);
}

/* Work of an average of `bytes`. An average of parameter changes is added to the parameters of the
 * last average and kept for the next one; an outer update already includes this. */
static dl_work average_work(const dl_team *team, const dl_exchange *exchange, double bytes)
{
    const dl_workload *workload = team->config.workload;
    const dl_work mean = dl_byte_work(&workload->average, bytes, team->present);
    if (workload->compression.kind == DL_COMPRESS_NONE || !exchange->as_learned) return mean;
    return dl_work_add(mean, dl_learned_work(workload, bytes, !team->config.outer_update));
}

/* Work of a piece of the exchange of `bytes`. An outer update computes the momentum from the old
 * momentum, the average and the old parameters, then the parameters from the old ones and the
 * momentum: averages of 3 and of 2 vectors. */
static dl_work work_of(const dl_team *team, const dl_exchange *exchange, double bytes)
{
    const dl_workload *workload = team->config.workload;
    switch (exchange->kind) {
    case DL_AVERAGE: return average_work(team, exchange, bytes);
    case DL_SUM: return dl_byte_work(&workload->update, bytes, team->config.workers);
    case DL_OUTER_UPDATE:
        return dl_work_add(dl_byte_work(&workload->average, bytes, 3),
                           dl_byte_work(&workload->average, bytes, 2));
    case DL_APPLY: return dl_byte_work(&workload->update, bytes, (int)exchange->gradients);
    case DL_BLEND:
    case DL_BLEND_OWN: return dl_byte_work(&workload->average, bytes, 2);
    case DL_PUSH: return push_work(workload, exchange, bytes);
    case DL_FETCH: return dl_byte_work(&workload->copy, bytes * team->config.fragments, 1);
    case DL_ADD:
    case DL_UPDATE:
    case DL_REDUCE_INSIDE:
    case DL_GATHER:
    case DL_PULL: break;
    }
    return dl_byte_work(&workload->copy, bytes, 1);
}

/* Fraction of a vector that agents on other cores than this agent's were the last to access. */
static double part_elsewhere(const dl_team *team, int agent, int servers)
{
    const int cores = team->config.cores, workers = team->config.workers;
    const int first = agent >= workers ? workers : 0;
    int elsewhere = 0;
    for (int s = 0; s < servers; s++)
        elsewhere += (first + s) % cores != agent % cores;
    return servers > 0 ? (double)elsewhere / servers : 0;
}

static bool is_alone(const dl_team *team)
{
    return team->config.cores == 1 || team->config.workers == 1;
}

/* Additional time in ns to move `bytes` that are in other cores' caches. */
static double shared_ns(const dl_team *team, int agent, const dl_exchange *exchange, double bytes)
{
    const dl_workload *w = team->config.workload;
    const bool merges = exchange->as_upload || (exchange->kind == DL_PULL && team->syncer != NULL);
    const double part =
        merges ? is_syncer_elsewhere(team, agent) : part_elsewhere(team, agent, exchange->servers);
    const double push_ns = part * bytes * w->shared_push_ns_per_byte;
    switch (exchange->kind) {
    case DL_PUSH: return push_ns;
    case DL_PULL:
        return part * bytes * w->shared_pull_ns_per_byte + (exchange->in_place ? push_ns : 0);
    case DL_AVERAGE:
    case DL_BLEND: return is_alone(team) ? 0 : bytes * w->shared_average_ns_per_byte;
    default: return 0;
    }
}

static void exchange(dl_team *team, int agent, dl_exchange exchange)
{
    const dl_workload *workload = team->config.workload;
    const int present = team->present;
    const int slices = exchange.slices <= 0        ? 1
                       : exchange.slices > present ? present
                                                   : exchange.slices;
    if (exchange.slices > 0 && dl_members_rank(team, dl_team_worker(team, agent)) >= slices) {
        dl_team_done(team, agent);
        return;
    }
    dl_work work = work_of(team, &exchange, workload->parameter_bytes / slices);
    double bytes = workload->parameter_bytes / slices;
    if (exchange.with_state) {
        work = dl_work_add(work, work_of(team, &exchange, workload->state_bytes / slices));
        bytes += workload->state_bytes / slices;
    }
    work.full_speed_ns += shared_ns(team, agent, &exchange, bytes);
    dl_host_move(host_of(team), agent, work);
}

/* Work of merging `uploads` uploads. The sum overwrites a version that all workers have pulled. It
 * starts at zero; each upload, and then the parameters, are added in a pass that takes as long as
 * an average of two vectors; between these the sum is divided. */
static dl_work merge_work(const dl_team *team, int uploads)
{
    const dl_workload *workload = team->config.workload;
    const double bytes = workload->parameter_bytes;
    dl_work work = dl_byte_work(&workload->copy, 2 * bytes, 1);
    const dl_work add = dl_byte_work(&workload->average, bytes, 2);
    for (int i = 0; i <= uploads; i++)
        work = dl_work_add(work, add);
    if (team->config.cores > 1) work.full_speed_ns += bytes * workload->shared_average_ns_per_byte;
    return work;
}

static void on_wakeup_of_syncer(void *user, int uploads)
{
    dl_team *team = user;
    dl_host_move(host_of(team), syncer_of(team), merge_work(team, uploads));
}

static void merge(dl_team *team, int uploads)
{
    const double wakeup_ns = team->config.workload->wakeup_ns;
    if (dl_host_is_ending(host_of(team), syncer_of(team))) {
        on_wakeup_of_syncer(team, uploads);
    } else {
        dl_engine_after(&team->engine, dl_ns_ceil(wakeup_ns), on_wakeup_of_syncer, team, uploads);
    }
}

/* An average or a sum starts and ends for all workers together; other exchanges take no time. With
 * loaders, a worker's exchange ends when it has had its core for the busy time of the exchange, and
 * all workers then wait for the last one. */
static void reduce(dl_team *team, int agent, const dl_exchange *exchange)
{
    const dl_team_config *config = &team->config;
    const double left_ns = fmax(config->reduce_late_ns, config->reduce_ns - (double)team->late_ns);
    const bool whole = exchange->kind == DL_AVERAGE || exchange->kind == DL_SUM;
    const double ns = whole ? left_ns : 0;
    if (ns > 0 && has_loaders(team)) {
        dl_host_compute(host_of(team), agent, ns / config->side_by_side);
    } else if (ns > 0) {
        dl_engine_after(&team->engine, dl_ns_ceil(ns), on_work_done, team, agent);
    } else {
        dl_team_done(team, agent);
    }
}

/* One direction of a round trip: half of its time. The round trip was measured with as many
 * workers, all keeping cores busy as here, so the core's work is the time over their mutual
 * slowdown. */
static void call_server(dl_team *team, int agent, const dl_exchange *exchange)
{
    const dl_team_config *config = &team->config;
    const dl_workload *workload = config->workload;
    const double bytes =
        workload->parameter_bytes + (exchange->with_state ? workload->state_bytes : 0);
    const double ns = dl_collective_cost_ns(config->roundtrip, bytes) / 2;
    dl_host_compute(host_of(team), agent, ns / config->side_by_side);
}

/* The server is a separate process: workers that compute do not slow down its update. The agent's
 * core does the work, at a speed reduced by them, so the work is divided by their slowdown. */
static void update_server(dl_team *team, int agent, const dl_exchange *what)
{
    dl_work work = work_of(team, what, team->config.workload->parameter_bytes);
    work.full_speed_ns /= team->config.side_by_side;
    dl_host_move(host_of(team), agent, work);
}

static void exchange_of_processes(dl_team *team, int agent, dl_exchange what)
{
    if (team->config.reduces) {
        reduce(team, agent, &what);
    } else if (what.kind == DL_APPLY) {
        update_server(team, agent, &what);
    } else if (what.kind == DL_PUSH || what.kind == DL_PULL || what.kind == DL_FETCH) {
        call_server(team, agent, &what);
    } else {
        exchange(team, agent, what);
    }
}

static void cut(dl_team *team, int worker)
{
    if (dl_loaders_give_up(&box_of(team)->loaders, worker)) {
        dl_engine_after(&team->engine, 0, on_work_done, team, worker);
    } else {
        dl_host_cut(host_of(team), worker);
    }
}

static void take_core(dl_team *team, int worker)
{
    dl_host_compute(host_of(team), worker, 0);
}

static int64_t ran_ns(const dl_team *team, int worker)
{
    return host_of(team)->threads[worker].ran_ns;
}

static void measure(const dl_team *team, dl_usage *usage)
{
    const dl_host *host = host_of(team);
    double span_ns = (double)team->engine.now_ns;
    for (int c = 0; c < team->config.cores && c < host->config.threads; c++) {
        char name[DL_RESOURCE_NAME_BYTES];
        snprintf(name, sizeof name, "core %d", c);
        double busy_ns = (double)dl_host_busy_ns(host, c);
        dl_usage_note(usage, name, busy_ns / span_ns);
    }
    dl_usage_note(usage, "memory",
                  host->traffic_bytes / host->config.memory_bytes_per_ns / span_ns);
    dl_usage_note(usage, "storage", dl_loaders_storage_frac(&box_of(team)->loaders));
    usage->traffic_bytes = host->traffic_bytes;
}

#define ON_CORES                                                                           \
    .init = init, .free = free_host, .start = start, .compute = compute, .update = update, \
    .merge = merge, .cut = cut, .take_core = take_core, .ran_ns = ran_ns, .measure = measure

const dl_platform dl_platform_cpu = {.name = "cpu", .exchange = exchange, ON_CORES};

const dl_platform dl_platform_processes = {
    .name = "processes", .serves_while_pulled = true, .exchange = exchange_of_processes, ON_CORES};
