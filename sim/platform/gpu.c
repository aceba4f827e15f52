#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

#define LINE_BYTES 64

/* --- setting up ------------------------------------------------------------------------------ */

static void on_input(void *user, int worker);
static const dl_gpu_listener listener;

static double slowed(const void *user, int worker)
{
    const dl_gpus *gpus = user;
    return dl_gpus_slowed_by_others(gpus, worker, gpus->places[worker]);
}

static void init_input(dl_gpus *gpus)
{
    dl_input_init(&gpus->input, &(dl_input_config){
                                    .engine = gpus->config.engine,
                                    .network = gpus->network,
                                    .options = gpus->config.options,
                                    .places = gpus->places,
                                    .workers = gpus->config.workers,
                                    .seed = gpus->config.team->seed,
                                    .replicate = gpus->config.team->replicate,
                                    .steps = gpus->config.steps,
                                    .storage = dl_gpus_add_storage(gpus),
                                    .came = on_input,
                                    .slowed = slowed,
                                    .user = gpus,
                                });
}

/* Sets the speeds of workers that share a GPU, as for cores in sim/platform/host.c. */
static void init_sharing(dl_gpus *gpus)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_machine *m = &options->machine;
    gpus->shared = gpus->config.workers > dl_gpu_options_count(options);
    if (!gpus->shared) return;
    gpus->computing = dl_calloc((size_t)dl_machine_gpus(m), sizeof(int), "workers of GPUs");
    gpus->share = dl_calloc((size_t)gpus->config.workers + 1, sizeof(double), "shares of GPUs");
    for (int k = 1; k <= gpus->config.workers; k++)
        gpus->share[k] = 1 / (k * dl_sharing(gpus->config.team->costs, k));
}

#define LARGE_BYTES 1e9 /* of an all-reduce that only rates limit */

/* Time of a ring among all GPUs on the links inside a node, over the time of the all-reduce, which
 * the nodes' ports may limit; at most 1. A ring through host memory has half the rate of its route,
 * which a GPU's sends and receives share. */
static double share_inside(const dl_gpu_options *options, const dl_workload *workload,
                           const dl_place *places, int count, int beside)
{
    const dl_links *links = &options->links;
    const dl_collective_config config =
        dl_gpu_options_collective(options, workload, DL_ALLREDUCE, places, count, LARGE_BYTES);
    double all_ns = 0;
    dl_route route;
    if (dl_collective_idle_ns(links, &config, &all_ns, NULL) != DL_OK) return 1;
    dl_links_route_collective(links, places[0], places[beside], false, &route);
    const double inside_per_s = dl_links_route_rate(links, &route) /
                                (dl_links_by_shm(links, places[0], places[beside]) ? 2 : 1);
    return fmin(1, 2. * (count - 1) / count * LARGE_BYTES / inside_per_s * 1e9 / all_ns);
}

double dl_gpus_slowdown(const dl_gpu_options *options, const dl_workload *workload,
                        const dl_place *places, int count)
{
    const dl_quantity *own = &dl_machine_node(&options->machine, places[0].node)->overlap_slowdown;
    int beside = 0;
    bool inside = true;
    for (int i = 1; i < count; i++) {
        const bool same = places[i].node == places[0].node;
        if (same && beside == 0) beside = i;
        inside &= same;
    }
    if (!own->known || beside == 0) return workload->overlap_slowdown;
    const double share = inside ? 1 : share_inside(options, workload, places, count, beside);
    return fmax(workload->overlap_slowdown, 1 / (1 - (1 - 1 / own->value) * share));
}

dl_status dl_gpus_create(dl_gpus **made, const dl_gpus_config *config, dl_error *err)
{
    const size_t workers = (size_t)config->workers;
    const bool alone = config->team->exchanges == DL_EXCHANGES_NOTHING;
    dl_gpus *gpus = *made = dl_calloc(1, sizeof *gpus, "GPUs");
    *gpus = (dl_gpus){
        .config = *config,
        .listener = &listener,
        .workers = dl_alloc_aligned(workers * sizeof *gpus->workers, "GPUs"),
        .places = dl_calloc(workers, sizeof *gpus->places, "GPUs"),
    };
    dl_ask_for_huge_pages(gpus->workers, workers * sizeof *gpus->workers);
    gpus->serving_threads =
        config->workers > config->server_threads ? config->workers : config->server_threads;
    gpus->network = config->network;
    if (config->network == NULL) {
        gpus->network = dl_calloc(1, sizeof *gpus->network, "network");
        dl_network_init(gpus->network, config->engine, 1);
        gpus->network->is_uncontended = config->options->without_contention;
        if (!alone || config->with_input) /* otherwise nothing is copied */
            dl_network_add_links(gpus->network, &config->options->links);
        const dl_team_observer *observer = config->team->observer;
        if (observer != NULL && observer->link != NULL)
            dl_network_watch(gpus->network, observer->link, observer->user);
    }
    for (size_t w = 0; w < workers; w++) {
        gpus->places[w] = dl_gpu_options_place(config->options, (int)w);
    }
    gpus->slowdown =
        dl_gpus_slowdown(config->options, config->workload, gpus->places, config->workers);
    gpus->slows = dl_gpus_reduce_gradients(gpus) && config->workers > 1 &&
                  (config->plan.as_ready || config->team->comm_threads);
    init_sharing(gpus);
    dl_status status = dl_gpus_exchange_init(gpus, err);
    if (status != DL_OK) {
        dl_gpus_free(gpus);
        *made = NULL;
        return status;
    }
    if (config->with_input) {
        init_input(gpus);
    }
    if (!alone) dl_gpus_traffic_init(gpus);
    if (config->network == NULL) dl_network_reserve(gpus->network, dl_gpus_flows(gpus));
    return DL_OK;
}

int dl_gpus_flows(const dl_gpus *gpus)
{
    const dl_gpus_config *config = &gpus->config;
    const int input = dl_input_most(&gpus->input);
    const bool elastic = dl_absences_given(&config->team->absences);
    if (config->team->exchanges == DL_EXCHANGES_NOTHING) return 1 + input;
    return (2 * config->workers + gpus->serving_threads) * config->options->shards +
           (elastic ? 4 : 1) * gpus->reduction.flows + (elastic ? config->workers : 0) +
           (config->options->on_hosts ? config->workers : 0) + dl_server_most_flows(gpus) + input +
           2 * dl_gpus_traffic_flows(gpus);
}

void dl_gpus_free(dl_gpus *gpus)
{
    if (gpus == NULL) return;
    dl_gpus_exchange_free(gpus);
    dl_gpus_traffic_free(gpus);
    dl_input_free(&gpus->input);
    if (gpus->config.network == NULL) {
        dl_network_free(gpus->network);
        free(gpus->network);
    }
    dl_dispatch_free(&gpus->dispatch);
    free(gpus->held);
    free(gpus->staging);
    free(gpus->storage);
    free(gpus->computing);
    free(gpus->share);
    free(gpus->workers);
    free(gpus->places);
    free(gpus);
}

/* --- a step on its GPU ----------------------------------------------------------------------- */

static void on_segment_done(void *user, int worker);
static void change_speed_of_all(dl_gpus *gpus);

/* Returns the holds on the worker's GPU; NULL: no GPU is ever held. */
static const dl_gpu_held *held_of(const dl_gpus *gpus, const dl_gpu_worker *w)
{
    const int worker = (int)(w - gpus->workers);
    return gpus->held != NULL ? &gpus->held[dl_gpus_number(gpus, worker)] : NULL;
}

static void schedule_end(dl_gpus *gpus, int worker)
{
    dl_gpu_worker *w = &gpus->workers[worker];
    w->since_ns = gpus->config.engine->now_ns;
    w->serves = w->speed <= 0 && held_of(gpus, w)->servers > 0;
    if (w->speed <= 0) return;
    w->event = dl_engine_after_about(gpus->config.engine, dl_ns_ceil(w->left_ns / w->speed),
                                     on_segment_done, gpus, worker, worker);
}

static double speed_now(const dl_gpus *gpus, const dl_gpu_worker *w)
{
    const dl_reduction *r = &gpus->reduction;
    const bool throughout = gpus->config.options->slows_throughout && r->next > 0;
    if (held_of(gpus, w) != NULL && held_of(gpus, w)->stops > 0) return 0;
    if (gpus->shared)
        return gpus->share[gpus->computing[dl_gpus_number(gpus, (int)(w - gpus->workers))]];
    return (r->running || throughout) && gpus->slows ? 1 / gpus->slowdown : 1;
}

/* Records that the worker starts or ends computing, and changes the speed of the others on its GPU.
 * The end of the worker's segment must not be scheduled at this time. */
static void set_computing(dl_gpus *gpus, int worker, bool computes)
{
    dl_gpu_worker *w = &gpus->workers[worker];
    w->phase = DL_GPU_IDLE;
    if (gpus->shared) {
        gpus->computing[dl_gpus_number(gpus, worker)] += computes ? 1 : -1;
        change_speed_of_all(gpus);
    }
    if (computes) w->phase = DL_GPU_COMPUTES;
}

/* Number of segments of the forward pass. 0: the pass is part of the first segment of the backward
 * pass; 1: it is one segment; otherwise the first segment covers the operations before the first
 * layer with parameters, and one follows for each bucket. */
static int forward_segments(const dl_gpus *gpus)
{
    if (dl_gpus_is_layered(gpus)) return gpus->reduction.buckets + 1;
    return dl_gpus_reads_forward(gpus) ? 1 : 0;
}

/* Whether a step's work has several segments. */
static bool has_segments(const dl_gpus *gpus)
{
    return gpus->config.plan.as_ready || forward_segments(gpus) > 0;
}

/* The bucket that a segment of the forward pass needs (the first layers' bucket is the last one);
 * -1: none. */
static int needed_bucket(const dl_gpus *gpus, int segment)
{
    const bool needs = segment > 0 && segment < forward_segments(gpus);
    return needs ? gpus->reduction.buckets - segment : -1;
}

/* The use of sharded parameters (dl_reduction_has) by a segment; -1: none. */
static int use_of(const dl_gpus *gpus, int segment)
{
    const int buckets = gpus->reduction.buckets;
    if (!gpus->config.plan.divides_parameters || segment == 0) return -1;
    return segment <= 2 * buckets ? segment - 1 : -1;
}

/* Whether the segment's parameters have arrived. With sharded gradients or parameters no pass
 * starts before the exchange of the previous one has ended. */
static bool has_parameters(const dl_gpus *gpus, int worker, int segment)
{
    if (gpus->config.plan.divides_gradients) {
        const int use = use_of(gpus, segment);
        if (gpus->reduction.passes < gpus->workers[worker].pass) return false;
        return use < 0 || dl_reduction_has(gpus, use);
    }
    const int bucket = needed_bucket(gpus, segment);
    return bucket < 0 || dl_server_has(gpus, worker, bucket);
}

/* Time in ns of the worker's GPU to compress the data of a step's exchange. */
static double compress_ns(const dl_gpus *gpus, int worker)
{
    const dl_gpu_options *options = gpus->config.options;
    const dl_place place = gpus->places[worker];
    const dl_gpu_model *model = dl_machine_model(&options->machine, place.node, place.index);
    if (dl_server_packs(gpus)) return 0;
    return dl_compress_gpu_bytes(&gpus->config.plan.message, gpus->config.content_bytes) /
           (model->memory_bytes_per_s.value / 1e9);
}

/* Whether gradients of the worker's current pass are exchanged: with collectives those of each
 * pass, with a server the sums that the last one completes. */
static bool exchanges(const dl_gpus *gpus, const dl_gpu_worker *w)
{
    return gpus->config.plan.is_collective || w->pass + 1 == gpus->config.plan.passes;
}

/* Time in ns of the worker's current segment: the whole pass if undivided; otherwise a part of the
 * forward pass (forward_segments), then the backward pass up to the next ready bucket (the last
 * layers' first), then the rest. */
static double segment_ns(const dl_gpus *gpus, const dl_gpu_worker *w)
{
    const dl_reduction *r = &gpus->reduction;
    if (!has_segments(gpus)) return w->work_ns;
    const double forward_ns = fmax(0, w->work_ns - w->backward_ns); /* >= 0 despite rounding */
    const int before = forward_segments(gpus), segment = w->segment - before;
    /* With reads = forward, the host reads a result that precedes the update. */
    const double update_ns = before == 1 ? w->update_ns : 0;
    /* A layer's share of the forward pass equals its share of the backward pass. */
    if (segment < 0 && before == 1) return fmax(0, forward_ns - update_ns);
    if (segment < 0) return r->share[w->segment == 0 ? r->buckets : -segment - 1] * forward_ns;
    if (!gpus->config.plan.as_ready) return w->backward_ns + update_ns;
    double ns = r->share[segment] * w->backward_ns;
    if (segment < r->buckets && exchanges(gpus, w))
        ns += r->bytes_share[segment] * compress_ns(gpus, (int)(w - gpus->workers));
    if (segment == 0) ns += before == 0 ? forward_ns : update_ns;
    return ns;
}

/* Continues the step: computes, or waits for parameters. */
static void start_segment(dl_gpus *gpus, int worker)
{
    dl_gpu_worker *w = &gpus->workers[worker];
    const bool is_sharded = gpus->config.plan.divides_gradients;
    if (!has_parameters(gpus, worker, w->segment)) {
        w->phase = DL_GPU_WAITS_FOR_PARAMETERS;
        dl_team_change(gpus->team, worker, is_sharded ? DL_STATE_ALLREDUCE : DL_STATE_PULL);
        return;
    }
    if (gpus->config.plan.divides_parameters && w->segment <= 2 * gpus->reduction.buckets)
        dl_reduction_uses(gpus, use_of(gpus, w->segment));
    set_computing(gpus, worker, true);
    w->left_ns = segment_ns(gpus, w);
    w->speed = speed_now(gpus, w);
    schedule_end(gpus, worker);
}

static void parameters_came(dl_gpus *gpus, int worker)
{
    const dl_gpu_worker *w = &gpus->workers[worker];
    if (gpus->config.fetched != NULL) gpus->config.fetched(gpus->config.user, worker);
    if (w->phase != DL_GPU_WAITS_FOR_PARAMETERS || !has_parameters(gpus, worker, w->segment))
        return;
    dl_team_change(gpus->team, worker, DL_STATE_COMPUTE);
    start_segment(gpus, worker);
}

static void start_pass(dl_gpus *gpus, int worker, int pass)
{
    gpus->workers[worker].pass = pass;
    gpus->workers[worker].segment = 0;
    start_segment(gpus, worker);
}

static void start_work(dl_gpus *gpus, int worker)
{
    start_pass(gpus, worker, 0);
}

/* Counts the time that the worker has lost since its speed last changed, to collectives inside the
 * node, to staged copies or to a server on its GPU, as copying or as the server's updates instead
 * of computing. */
static void count_slowed(dl_gpus *gpus, int worker)
{
    const dl_gpu_worker *w = &gpus->workers[worker];
    dl_worker *of = &gpus->team->workers[worker];
    const bool is_slow = gpus->slowdown > gpus->config.workload->overlap_slowdown;
    if (gpus->shared || w->speed >= 1 || (w->speed > 0 && !is_slow)) return;
    const int64_t from_ns =
        w->since_ns > of->measured_since_ns ? w->since_ns : of->measured_since_ns;
    const double since_ns = (double)(gpus->config.engine->now_ns - from_ns);
    const int64_t lost_ns = (int64_t)(since_ns * (1 - w->speed));
    of->spent_ns[DL_SPENT_COMPUTE] -= lost_ns;
    of->spent_ns[w->speed <= 0 && w->serves ? DL_SPENT_AVERAGE : DL_SPENT_COPIES] += lost_ns;
}

static void change_speed(dl_gpus *gpus, int worker)
{
    dl_gpu_worker *w = &gpus->workers[worker];
    if (w->phase != DL_GPU_COMPUTES) return;
    count_slowed(gpus, worker);
    double done_ns = (double)(gpus->config.engine->now_ns - w->since_ns) * w->speed;
    w->left_ns = fmax(0, w->left_ns - done_ns);
    if (w->speed > 0) dl_engine_cancel(gpus->config.engine, w->event);
    w->speed = speed_now(gpus, w);
    schedule_end(gpus, worker);
}

static void change_speed_of_all(dl_gpus *gpus)
{
    if (!gpus->slows && !gpus->shared) return;
    for (int worker = 0; worker < gpus->config.workers; worker++)
        change_speed(gpus, worker);
}

static void speed_changed(dl_gpus *gpus, int worker)
{
    if (worker >= 0) {
        change_speed(gpus, worker);
    } else {
        change_speed_of_all(gpus);
    }
}

/* Whether the current step's launch has started. */
static bool launch_has_started(dl_gpus *gpus, int worker)
{
    return dl_dispatch_has_started(&gpus->dispatch, worker, gpus->team->workers[worker].steps_done);
}

static bool launch_has_ended(dl_gpus *gpus, int worker)
{
    return dl_dispatch_has_launched(&gpus->dispatch, worker,
                                    gpus->team->workers[worker].steps_done);
}

static void end_work(dl_gpus *gpus, int worker)
{
    gpus->workers[worker].phase = DL_GPU_IDLE;
    dl_team_done(gpus->team, worker);
}

static void on_segment_done(void *user, int worker)
{
    dl_gpus *gpus = user;
    dl_gpu_worker *w = &gpus->workers[worker];
    const dl_reduction *r = &gpus->reduction;
    const bool as_ready = gpus->config.plan.as_ready;
    const int bucket = w->segment++ - forward_segments(gpus), next = bucket + 1;
    const bool is_last = bucket >= 0 && (!as_ready || next > r->buckets ||
                                         (next == r->buckets && r->share[r->buckets] <= 0));
    count_slowed(gpus, worker);
    set_computing(gpus, worker, false);
    if (next == 0 && w->pass + 1 == gpus->config.plan.passes && dl_gpus_reads_forward(gpus))
        dl_dispatch_step_ended(&gpus->dispatch, worker);
    if (as_ready && bucket >= 0 && bucket < r->buckets && exchanges(gpus, w))
        dl_gpus_bucket_ready(gpus, worker, bucket);
    if (!is_last) {
        start_segment(gpus, worker);
    } else if (gpus->config.plan.passes > 1 && w->pass + 1 < gpus->config.plan.passes) {
        if (gpus->config.plan.divides_gradients) dl_reduction_pass_done(gpus, worker);
        start_pass(gpus, worker, w->pass + 1);
    } else if (launch_has_ended(gpus, worker)) {
        end_work(gpus, worker);
    } else {
        w->phase = DL_GPU_WAITS_FOR_LAUNCH_END;
        dl_team_change(gpus->team, worker, DL_STATE_DISPATCH);
    }
}

static bool take_batch(dl_gpus *gpus, int worker)
{
    return dl_input_take(&gpus->input, worker, gpus->team->workers[worker].steps_done);
}

/* Starts the launched step, after copying the batch unless that is done. */
static void start_launched(dl_gpus *gpus, int worker)
{
    if (gpus->config.with_input && gpus->config.options->in_turn && !take_batch(gpus, worker)) {
        gpus->workers[worker].phase = DL_GPU_WAITS_FOR_INPUT;
        dl_team_change(gpus->team, worker, DL_STATE_INPUT);
    } else {
        start_work(gpus, worker);
    }
}

/* Callback: a launch of the worker has started or ended. */
static void on_launch(void *user, int worker)
{
    dl_gpus *gpus = user;
    dl_gpu_phase phase = gpus->workers[worker].phase;
    if (gpus->config.with_input && gpus->config.options->made_at_launch)
        dl_input_allow(&gpus->input, worker, gpus->dispatch.launches[worker].started);
    if (phase == DL_GPU_WAITS_FOR_LAUNCH && launch_has_started(gpus, worker)) {
        dl_team_change(gpus->team, worker, DL_STATE_COMPUTE);
        start_launched(gpus, worker);
    } else if (phase == DL_GPU_WAITS_FOR_LAUNCH_END && launch_has_ended(gpus, worker)) {
        end_work(gpus, worker);
    }
}

static void wait_for_launch(dl_gpus *gpus, int worker)
{
    if (launch_has_started(gpus, worker)) {
        start_launched(gpus, worker);
    } else {
        gpus->workers[worker].phase = DL_GPU_WAITS_FOR_LAUNCH;
        dl_team_change(gpus->team, worker, DL_STATE_DISPATCH);
    }
}

/* Callback: a batch is ready for a step that may wait for it. */
static void on_input(void *user, int worker)
{
    dl_gpus *gpus = user;
    if (gpus->workers[worker].phase != DL_GPU_WAITS_FOR_INPUT) return;
    bool is_there = take_batch(gpus, worker);
    DL_ASSERT(is_there, "no batch for worker %d", worker);
    dl_team_change(gpus->team, worker, DL_STATE_COMPUTE);
    if (gpus->config.options->in_turn) {
        start_work(gpus, worker);
    } else {
        wait_for_launch(gpus, worker);
    }
}

/* Takes the batch first if the launch depends on it. */
static void start_step(dl_gpus *gpus, int worker)
{
    if (gpus->config.with_input && !gpus->config.options->in_turn && !take_batch(gpus, worker)) {
        gpus->workers[worker].phase = DL_GPU_WAITS_FOR_INPUT;
        dl_team_change(gpus->team, worker, DL_STATE_INPUT);
    } else {
        wait_for_launch(gpus, worker);
    }
}

static void compute(dl_team *team, int worker)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const dl_gpu_step *step = dl_gpu_step_of(gpus->config.steps, worker);
    const dl_worker *w = &team->workers[worker];
    double slow = team->config.slow != NULL ? team->config.slow[worker] : 1;
    slow *= w->work_factor;
    const bool with_update = w->updates_at_once;
    gpus->workers[worker].work_ns =
        (slow * step->compute_ns + (with_update ? step->update_ns : 0)) * w->noise_factor /
        gpus->config.plan.passes;
    if (has_segments(gpus)) {
        gpus->workers[worker].update_ns = with_update ? step->update_ns * w->noise_factor : 0;
        gpus->workers[worker].backward_ns = slow * step->backward_ns * w->noise_factor;
    }
    if (gpus->reduction.before_count > 0) {
        gpus->workers[worker].phase = DL_GPU_WAITS_FOR_COLLECTIVES;
        dl_team_change(team, worker, DL_STATE_ALLREDUCE);
        dl_reduction_before(gpus, worker);
    } else {
        start_step(gpus, worker);
    }
}

static void start_steps(dl_gpus *gpus)
{
    for (int worker = 0; worker < gpus->config.workers; worker++) {
        gpus->workers[worker].phase = DL_GPU_IDLE;
        dl_team_change(gpus->team, worker, DL_STATE_COMPUTE);
        start_step(gpus, worker);
    }
}

static const dl_gpu_listener listener = {speed_changed, parameters_came, start_steps};

static void on_done(void *user, int worker)
{
    dl_team_done(user, worker);
}

/* Aborts the worker's step. Launched work stays launched: the host finishes it before it starts on
 * the next step. */
static void cut(dl_team *team, int worker)
{
    dl_gpus *gpus = dl_gpus_of(team);
    dl_gpu_worker *w = &gpus->workers[worker];
    if (w->phase == DL_GPU_IDLE) return;
    if (w->phase == DL_GPU_COMPUTES) {
        if (w->speed > 0) dl_engine_cancel(&team->engine, w->event);
        set_computing(gpus, worker, false);
    }
    w->phase = DL_GPU_IDLE;
    dl_engine_after(&team->engine, 0, on_done, team, worker);
}

/* The update needs no launch: the step's launch, which has ended, includes it. Only workers that
 * exchange by a collective update separately from their passes, and they do not share GPUs. */
static void update(dl_team *team, int agent)
{
    const int worker = dl_team_worker(team, agent);
    const double update_ns = dl_gpu_step_of(dl_gpus_of(team)->config.steps, worker)->update_ns;
    double work_ns = update_ns * team->workers[worker].noise_factor;
    dl_engine_after_about(&team->engine, dl_ns_ceil(work_ns), on_done, team, agent, agent);
}

/* --- the run --------------------------------------------------------------------------------- */

void dl_gpus_join(dl_gpus *gpus, dl_team *team)
{
    gpus->team = team;
}

int dl_gpus_buckets(const dl_gpus *gpus)
{
    return gpus->reduction.buckets;
}

double dl_gpus_moved_bytes(const dl_gpus *gpus)
{
    return gpus->moved_bytes;
}

const double *dl_gpus_sent_bytes(const dl_gpus *gpus)
{
    return gpus->sent_bytes;
}

const char *dl_gpus_link_name(const dl_gpus *gpus, int number)
{
    for (int i = 0; i < gpus->own_link_count; i++)
        if (gpus->own_links[i].number == number) return gpus->own_links[i].name;
    return NULL;
}

static int init(dl_team *team)
{
    team->machine = team->config.machine;
    dl_gpus *gpus = dl_gpus_of(team);
    const dl_gpu_options *options = gpus->config.options;
    const dl_workload *workload = team->config.workload;
    gpus->team = team;
    const int each = options->dispatch == DL_DISPATCH_SINGLE ? team->config.workers : 1;
    DL_AUTOFREE double *input_ns = NULL;
    if (options->in_turn)
        input_ns = dl_calloc((size_t)team->config.workers, sizeof *input_ns, "input");
    for (int w = 0; w < team->config.workers && input_ns != NULL; w++)
        input_ns[w] = dl_gpu_step_of(gpus->config.steps, w)->input_ns;
    const dl_team_observer *observer = team->config.observer;
    const dl_dispatch_config dispatch = {
        .engine = &team->engine,
        .kind = options->dispatch,
        .workers = team->config.workers,
        .ahead = dl_gpu_options_ahead(options),
        .steps = team->config.steps,
        .serial_ns = workload->serial_ns + each * workload->dispatch_ns,
        .own_serial_ns = input_ns,
        .per_worker_ns = workload->per_worker_ns * (1 + workload->contention_frac * (each - 1)),
        .progress = on_launch,
        .tells_all = gpus->config.with_input && options->made_at_launch,
        .user = gpus,
        .piece = observer != NULL ? observer->host : NULL,
        .observer = observer != NULL ? observer->user : NULL,
    };
    dl_dispatch_init(&gpus->dispatch, &dispatch);
    /* Pending events: one for each agent, launching thread and batch being made, two for each flow,
     * one for the update of rates, and one for the launch of a collective. */
    return team->agents + gpus->dispatch.thread_count + dl_input_most(&gpus->input) +
           2 * gpus->network->flow_room + 2;
}

/* Registers states for prefetching. The engine numbers events of agents first, then those of
 * flows. */
static void add_states(dl_team *team, dl_gpus *gpus)
{
    dl_network *network = gpus->network;
    const dl_dispatch *dispatch = &gpus->dispatch;
    const int workers = team->config.workers;
    network->number_of_flows = team->agents;
    dl_engine_add_state(&team->engine,
                        (dl_engine_state){(const char *)gpus->workers, sizeof *gpus->workers,
                                          LINE_BYTES, 0, workers});
    dl_engine_add_state(&team->engine, (dl_engine_state){(const char *)dispatch->launches,
                                                         sizeof *dispatch->launches,
                                                         sizeof *dispatch->launches, 0, workers});
    dl_engine_add_state(
        &team->engine, (dl_engine_state){(const char *)dispatch->threads, sizeof *dispatch->threads,
                                         sizeof *dispatch->threads, 0, dispatch->thread_count});
    dl_engine_add_state(
        &team->engine, (dl_engine_state){(const char *)network->flows, sizeof *network->flows,
                                         LINE_BYTES, network->number_of_flows, network->flow_room});
}

static void start(dl_team *team)
{
    dl_gpus *gpus = dl_gpus_of(team);
    add_states(team, gpus);
    if (gpus->config.with_input) dl_input_start(&gpus->input, team->config.steps);
    dl_dispatch_start(&gpus->dispatch);
    dl_gpus_traffic_start(gpus);
}

static void ended(dl_team *team)
{
    dl_dispatch_end(&dl_gpus_of(team)->dispatch);
    dl_network_watch_end(dl_gpus_of(team)->network);
}

static void step_ended(dl_team *team, int worker)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const bool has_gone_on = dl_gpus_reads_forward(gpus) && gpus->dispatch.launches[worker].ended >=
                                                                team->workers[worker].steps_done;
    if (!has_gone_on) dl_dispatch_step_ended(&gpus->dispatch, worker);
}

static void exchange(dl_team *team, int agent, dl_exchange exchange)
{
    dl_gpus_exchange(dl_gpus_of(team), agent, exchange);
}

static void members_changed(dl_team *team, int worker)
{
    dl_gpus_members_changed(dl_gpus_of(team), worker);
}

static int domain(const dl_team *team, int worker)
{
    return dl_gpus_domain(dl_gpus_of(team), worker);
}

/* Continues immediately: GPUs have no time slices. */
static void take_core(dl_team *team, int worker)
{
    dl_team_done(team, worker);
}

int dl_usage_note_links(dl_usage *usage, const dl_network *network, const dl_links *links,
                        double span_s)
{
    int busiest = -1;
    usage->timed_frac = dl_ns_to_s((double)dl_network_timed_ns(network)) / span_s;
    dl_usage_note(usage, DL_MEASURED_COLLECTIVES, usage->timed_frac);
    for (int l = 0; l < network->link_count; l++) {
        const double frac = network->bytes[l] / (network->capacity[l] * span_s);
        if (frac <= usage->link_frac) continue;
        usage->link_frac = frac;
        busiest = l;
    }
    if (busiest >= links->count) return busiest;
    if (busiest >= 0) dl_links_name(links, busiest, usage->link);
    return -1;
}

static void measure(const dl_team *team, dl_usage *usage)
{
    dl_gpus *gpus = dl_gpus_of(team);
    const dl_dispatch *dispatch = &gpus->dispatch;
    const double span_ns = (double)team->engine.now_ns;
    if (gpus->copies != NULL) dl_gpu_crowds_note_bytes(gpus);
    char name[DL_RESOURCE_NAME_BYTES];
    for (int w = 0; w < team->config.workers; w++) {
        const int64_t *spent_ns = team->workers[w].spent_ns;
        const double own_ns = span_ns - (double)team->workers[w].measured_since_ns;
        const dl_gpu_held *held = held_of(gpus, &gpus->workers[w]);
        const double served_frac = held != NULL ? (double)held->served_ns / span_ns : 0;
        const double frac =
            (double)(spent_ns[DL_SPENT_COMPUTE] + spent_ns[DL_SPENT_UPDATE]) / own_ns + served_frac;
        if (frac <= usage->busiest_frac) continue;
        snprintf(name, sizeof name, "gpu of worker %d", w);
        dl_usage_note(usage, name, frac);
    }
    for (int t = 0; t < dispatch->thread_count; t++) {
        const dl_launch_thread *thread = &dispatch->threads[t];
        const double step_ns = thread->serial_ns + thread->count * dispatch->config.per_worker_ns;
        const double frac = (double)thread->step * step_ns / span_ns;
        if (frac <= usage->busiest_frac) continue;
        snprintf(name, sizeof name, DL_HOST_THREAD "%d", t);
        dl_usage_note(usage, name, frac);
    }
    const int link = dl_usage_note_links(usage, gpus->network, &gpus->config.options->links,
                                         dl_ns_to_s(span_ns));
    if (link >= 0) snprintf(usage->link, sizeof usage->link, "%s", dl_gpus_link_name(gpus, link));
    dl_usage_note(usage, usage->link, usage->link_frac);
    usage->traffic_bytes = gpus->moved_bytes;
    for (int d = 0; d < dl_machine_domains(&gpus->config.options->machine); d++)
        usage->sent_bytes = fmax(usage->sent_bytes, gpus->sent_bytes[d]);
}

const dl_platform dl_platform_gpu = {
    .name = "gpu",
    .serves_while_pulled = true,
    .on_gpus = true,
    .init = init,
    .start = start,
    .ended = ended,
    .compute = compute,
    .update = update,
    .exchange = exchange,
    .members_changed = members_changed,
    .domain = domain,
    .cut = cut,
    .take_core = take_core,
    .step_ended = step_ended,
    .measure = measure,
};
