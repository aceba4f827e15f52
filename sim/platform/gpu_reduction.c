/* All-reduce of the workers' vectors in buckets, in sequence: from the times when buckets are ready
 * to the collectives that reduce them; collectives inside sites, and those that precede each
 * step. */
#include "sim/platform/gpu_internal.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/sync/members.h"

static void try_next(dl_gpus *gpus);
static void make_collectives_again(dl_gpus *gpus);

/* The host memory of the GPU's socket. */
static dl_place host_of(const dl_gpus *gpus, dl_place gpu)
{
    return (dl_place){DL_PLACE_HOST, gpu.node, dl_links_socket(&gpus->config.options->links, gpu)};
}

/* Adds each worker's copies to and from its host's memory; if that is pageable, they also cross a
 * link with the rate of staging copies. */
static void add_host_copies(dl_gpus *gpus)
{
    const size_t workers = (size_t)gpus->config.workers;
    const double rate = gpus->config.options->pageable ? gpus->config.workload->pageable_bytes_per_s
                                                       : (double)INFINITY;
    gpus->up = dl_calloc(workers, sizeof *gpus->up, "copies");
    gpus->down = dl_calloc(workers, sizeof *gpus->down, "copies");
    for (int w = 0; w < gpus->config.workers; w++) {
        const dl_place gpu = gpus->places[w], host = host_of(gpus, gpu);
        const int up = dl_gpus_add_own_link(gpus, rate, "pageable copies of worker %d up", w);
        const int down = dl_gpus_add_own_link(gpus, rate, "pageable copies of worker %d down", w);
        gpus->up[w] = dl_gpus_copy_of(gpus, gpu, host, up);
        gpus->down[w] = dl_gpus_copy_of(gpus, host, gpu, down);
    }
}

/* Bytes that a worker's GPU copies, each way, for a collective of the hosts. */
static double staged_bytes(const dl_gpus *gpus)
{
    return dl_compress_bytes(&gpus->config.plan.message, gpus->config.content_bytes);
}

/* Decompresses the worker's messages, if the plan compresses, or its part of them, if the workers
 * divide the state; then its exchange ends. */
static void unpack(void *user, int worker)
{
    dl_gpus *gpus = user;
    const dl_exchange_plan *plan = &gpus->config.plan;
    if (!plan->packs) {
        dl_gpus_exchanged(gpus, worker);
        return;
    }
    /* With topk each worker decompresses the messages of all workers, whose indices differ;
     * otherwise their sum. */
    const int messages = plan->sum == DL_ALLGATHER ? dl_gpus_present(gpus) : 1;
    const double bytes = dl_decompress_gpu_bytes(
        &plan->message, gpus->config.content_bytes / plan->sharers, messages);
    dl_gpus_touch(gpus, worker, plan->passes * bytes, dl_gpus_exchanged, worker);
}

/* The worker gets the result, which it may have to copy from its host. */
static void leave_reduction(dl_gpus *gpus, int worker)
{
    const bool gathered = gpus->config.plan.gathers_after && gpus->workers[worker].rounds % 2 == 1;
    gpus->workers[worker].rounds++;
    if (gathered) {
        dl_gpus_exchanged(gpus, worker);
        return;
    }
    if (gpus->down == NULL) {
        unpack(gpus, worker);
        return;
    }
    dl_network_start(gpus->network, gpus->down[worker].class, staged_bytes(gpus),
                     gpus->down[worker].latency_ns, unpack, gpus, worker);
}

/* Counts the bytes sent by a collective that has run. */
static void note_sent(dl_gpus *gpus, const dl_collective *collective)
{
    const double *sent_bytes = collective->plan.sent_bytes;
    const int domains = dl_machine_domains(&gpus->config.options->machine);
    for (int d = 0; d < domains && sent_bytes != NULL; d++)
        gpus->sent_bytes[d] += sent_bytes[d];
}

/* Ends the collectives first to end - 1. */
static void end_collectives(dl_gpus *gpus, int first, int end)
{
    dl_reduction *r = &gpus->reduction;
    for (int i = first; i < end; i++) {
        r->ready[i] = 0;
        note_sent(gpus, &r->collectives[r->collective[i]]);
    }
    r->gathered = 0;
    gpus->moved_bytes += first == 0 ? r->moved_bytes : r->gathered_bytes;
}

static void end_pass(dl_gpus *gpus, int end)
{
    end_collectives(gpus, 0, end);
    gpus->reduction.next = 0;
    gpus->reduction.passes++;
    for (int w = 0; w < gpus->config.workers; w++)
        gpus->listener->parameters_came(gpus, w);
}

static void end_round(dl_gpus *gpus, int first, int end)
{
    dl_reduction *r = &gpus->reduction;
    end_collectives(gpus, first, end);
    r->rounds++;
    r->passes = 0;
    const int joined = r->joined;
    r->joined = 0;
    for (int w = 0; w < gpus->config.workers && joined > 0; w++) {
        if (!gpus->workers[w].in_exchange) continue;
        gpus->workers[w].in_exchange = false;
        leave_reduction(gpus, w);
    }
}

/* --- the order of a step's collectives ------------------------------------------------------ */

/* The order of a step's collectives. With sharded parameters it is that of PyTorch's FSDP: gathers
 * of the forward pass; then gather 0, gather 1, sum 0, gather 2, sum 1, ..., sum B - 1, as the next
 * layers' parameters are requested before a layer's gradients are ready. If parameters are kept
 * after the forward pass, only the sums follow its gathers. */

/* Position of a bucket's sum in that order. */
static int place_of_sum(const dl_gpus *gpus, int bucket)
{
    const int buckets = gpus->reduction.buckets;
    if (gpus->config.plan.gathers < 2) return gpus->config.plan.gathers * buckets + bucket;
    return buckets + (bucket < buckets - 1 ? 2 * bucket + 2 : 2 * buckets - 1);
}

/* Position of the gather for a use in that order. */
static int place_of_gather(const dl_gpus *gpus, int use)
{
    const int buckets = gpus->reduction.buckets, back = use - buckets;
    return use <= buckets ? use : buckets + 2 * back - 1;
}

static bool is_sum(const dl_gpus *gpus, int place)
{
    const int buckets = gpus->reduction.buckets, back = place - buckets;
    switch (gpus->config.plan.gathers) {
    case 0: return back < 0;
    case 1: return back >= 0;
    default: return back == 2 * buckets - 1 || (back > 1 && back % 2 == 0);
    }
}

void dl_reduction_uses(dl_gpus *gpus, int use)
{
    dl_reduction *r = &gpus->reduction;
    if (use + 1 >= gpus->config.plan.gathers * r->buckets) return;
    r->ready[place_of_gather(gpus, use + 1)]++;
    try_next(gpus);
}

bool dl_reduction_has(const dl_gpus *gpus, int use)
{
    const int gathers = gpus->config.plan.gathers * gpus->reduction.buckets;
    return use >= gathers || gpus->reduction.gathered > use;
}

static void show_collective(const dl_gpus *gpus)
{
    const dl_team_observer *observer = gpus->team->config.observer;
    const dl_reduction *r = &gpus->reduction;
    if (observer == NULL || observer->collective == NULL) return;
    const dl_collective *collective = &r->collectives[r->collective[r->next]];
    observer->collective(observer->user, dl_collective_kind_names[collective->config.kind], r->next,
                         collective->config.bytes, r->started_ns, gpus->config.engine->now_ns);
}

static void on_collective_done(void *user, int unused DL_UNUSED)
{
    dl_gpus *gpus = user;
    dl_reduction *r = &gpus->reduction;
    const int place = r->next;
    const bool in_two = gpus->config.plan.gathers_after;
    show_collective(gpus);
    r->running = false;
    r->next = (place + 1) % r->count;
    gpus->listener->speed_changed(gpus, -1);
    const bool ends = r->next == 0 || (in_two && r->next == r->buckets);
    const bool of_pass = !in_two || place < r->buckets;
    if (ends && of_pass && r->passes + 1 < gpus->config.plan.passes) {
        end_pass(gpus, place + 1);
        return;
    }
    if (ends) {
        end_round(gpus, in_two && r->next == 0 ? r->buckets : 0, place + 1);
        return;
    }
    try_next(gpus);
    if (is_sum(gpus, place)) return;
    r->gathered++;
    for (int w = 0; w < gpus->config.workers; w++)
        gpus->listener->parameters_came(gpus, w);
}

static void start_next(void *user, int unused DL_UNUSED)
{
    dl_gpus *gpus = user;
    dl_reduction *r = &gpus->reduction;
    dl_collective *next = &r->collectives[r->collective[r->next]];
    const int ranks = next->rank_count; /* of one node, for all nodes, if these divide the state */
    for (int i = 0; i < ranks; i++)
        dl_collective_arrive(next);
}

/* Starts the next collective if all workers have reached it and the stream is free. */
static void try_next(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    if (r->running || r->ready[r->next] < dl_gpus_present(gpus)) return;
    if (r->stale) make_collectives_again(gpus);
    r->running = true;
    r->started_ns = gpus->config.engine->now_ns;
    gpus->listener->speed_changed(gpus, -1);
    if (r->first_use_ns > 0) {
        dl_engine_after(gpus->config.engine, r->first_use_ns, start_next, gpus, 0);
        r->first_use_ns = 0;
    } else {
        start_next(gpus, 0);
    }
}

/* Callback: all buckets of a worker are ready. */
static void on_packed(void *user, int unused DL_UNUSED)
{
    dl_gpus *gpus = user;
    for (int b = 0; b < gpus->reduction.buckets; b++)
        gpus->reduction.ready[place_of_sum(gpus, b)]++;
    try_next(gpus);
}

/* Callback: the worker's messages are compressed. */
static void on_made(void *user, int worker)
{
    dl_gpus *gpus = user;
    if (gpus->up == NULL) {
        on_packed(gpus, worker);
        return;
    }
    dl_network_start(gpus->network, gpus->up[worker].class, staged_bytes(gpus),
                     gpus->up[worker].latency_ns, on_packed, gpus, worker);
}

/* Makes the worker wait for the end of a round. If the round has already ended, ends the worker's
 * exchange instead and returns false. */
static bool join_round(dl_gpus *gpus, int worker)
{
    dl_reduction *r = &gpus->reduction;
    dl_gpu_worker *w = &gpus->workers[worker];
    dl_team_change(gpus->team, dl_team_exchanger(gpus->team, worker), DL_STATE_ALLREDUCE);
    if (w->rounds < r->rounds) {
        leave_reduction(gpus, worker);
        return false;
    }
    w->in_exchange = true;
    r->joined++;
    return true;
}

void dl_reduction_pass_done(dl_gpus *gpus, int worker)
{
    if (!gpus->config.plan.as_ready)
        dl_gpus_pack(gpus, worker, gpus->config.content_bytes, on_made);
}

void dl_reduction_gather(dl_gpus *gpus, int worker)
{
    if (!join_round(gpus, worker)) return;
    gpus->reduction.ready[gpus->reduction.buckets]++;
    try_next(gpus);
}

void dl_reduction_join(dl_gpus *gpus, int worker)
{
    if (join_round(gpus, worker)) dl_reduction_pass_done(gpus, worker);
}

/* Plans a collective among `count` GPUs. If `equal` is not 0, groups of `equal` GPUs have the same
 * data. */
static dl_status init_collective(dl_gpus *gpus, dl_collective *collective, dl_collective_kind kind,
                                 const dl_place *ranks, int count, int equal, double bytes,
                                 double pause_ns, dl_error *err)
{
    const dl_gpu_options *options = gpus->config.options;
    dl_collective_config config =
        dl_gpu_options_collective(options, gpus->config.workload, kind, ranks, count, bytes);
    config.equal_ranks = equal;
    config.pause_ns = pause_ns;
    config.transfers_max = DL_TRANSFERS_HELD_MAX - gpus->reduction.held;
    dl_status status = dl_collective_init(collective, gpus->network, &options->links, &config, err);
    if (status != DL_OK) return status;
    const int transfers = collective->plan.transfer_count;
    gpus->reduction.held += transfers;
    if (transfers > gpus->reduction.flows) gpus->reduction.flows = transfers;
    return DL_OK;
}

/* Number of workers per site if sites reduce gradients inside, so that their workers have equal
 * parameters, and several sites are present, all of that size; otherwise 0. */
static int equal_workers(const dl_gpus *gpus)
{
    if (gpus->inside_count > 0 && gpus->reduction.present <= gpus->inside[0].count) return 0;
    for (int i = 1; i < gpus->inside_count; i++)
        if (gpus->inside[i].count != gpus->inside[0].count) return 0;
    return gpus->inside_count > 1 ? gpus->inside[0].count : 0;
}

/* Number of ranks that gather: those that divide the state. */
static int gatherers(const dl_gpus *gpus)
{
    const int sharers = gpus->config.plan.sharers;
    return sharers > 1 ? sharers : gpus->reduction.present;
}

/* Plans the collective that sums a bucket of `bytes`, or the one that gathers it. Of several nodes
 * whose workers gather among themselves, at the same time, the first represents all. */
static dl_status init_one(dl_gpus *gpus, dl_collective *collective, bool sums, double bytes,
                          double pause_ns, dl_error *err)
{
    const dl_exchange_plan *plan = &gpus->config.plan;
    const int messages = sums && plan->sum == DL_ALLGATHER ? gpus->reduction.present : 1;
    double sent_bytes = (sums ? plan->sum_frac : plan->gather_frac) * bytes;
    if (sums && plan->packs) sent_bytes = messages * dl_compress_bytes(&plan->message, bytes);
    dl_status status =
        init_collective(gpus, collective, sums ? plan->sum : DL_ALLGATHER, gpus->reduction.places,
                        sums ? gpus->reduction.present : gatherers(gpus), equal_workers(gpus),
                        sent_bytes, pause_ns, err);
    if (status == DL_OK) dl_collective_on_done(collective, on_collective_done, gpus, 0);
    return status;
}

static void on_inside_done(void *user, int number)
{
    dl_gpus *gpus = user;
    const dl_inside *inside = &gpus->inside[number];
    gpus->moved_bytes += dl_collective_sent_bytes(&inside->collective);
    note_sent(gpus, &inside->collective);
    for (int w = inside->first; w < inside->first + inside->count; w++)
        dl_gpus_ended(gpus, w);
}

void dl_reduction_inside(dl_gpus *gpus, int worker)
{
    int number = 0;
    if (gpus->inside_count == 0) { /* GPUs that only exchange */
        dl_gpus_ended(gpus, worker);
        return;
    }
    while (worker >= gpus->inside[number].first + gpus->inside[number].count)
        number++;
    dl_team_change(gpus->team, worker, DL_STATE_ALLREDUCE);
    dl_collective_arrive(&gpus->inside[number].collective);
}

/* The domain of a worker: its site (or its node, without sites). */
static int inside_of(const dl_gpus *gpus, int worker)
{
    return dl_machine_domain(&gpus->config.options->machine, gpus->places[worker].node);
}

static void group_workers(dl_gpus *gpus)
{
    const int workers = gpus->config.workers;
    gpus->inside = dl_calloc((size_t)workers, sizeof *gpus->inside, "workers of a site");
    for (int w = 0; w < workers; w++) {
        if (w > 0 && inside_of(gpus, w) == inside_of(gpus, w - 1)) {
            gpus->inside[gpus->inside_count - 1].count++;
        } else {
            gpus->inside[gpus->inside_count++] = (dl_inside){.first = w, .count = 1};
        }
    }
}

/* Plans the collectives inside sites, which may all run concurrently. */
static dl_status init_inside(dl_gpus *gpus, dl_error *err)
{
    dl_status status = DL_OK;
    int flows = 0;
    for (int i = 0; i < gpus->inside_count && status == DL_OK; i++) {
        dl_inside *inside = &gpus->inside[i];
        status =
            init_collective(gpus, &inside->collective, DL_ALLREDUCE, gpus->places + inside->first,
                            inside->count, 0, gpus->config.inside_bytes, 0, err);
        if (status != DL_OK) return status;
        dl_collective_on_done(&inside->collective, on_inside_done, gpus, i);
        flows += inside->collective.plan.transfer_count;
    }
    gpus->reduction.flows += flows;
    return status;
}

/* --- collectives before each step ------------------------------------------------------------ */

void dl_reduction_before(dl_gpus *gpus, int worker)
{
    dl_reduction *r = &gpus->reduction;
    const dl_before *first = &r->before[0];
    if (r->calls_left == 0) {
        r->before_at = 0;
        r->calls_left = first->calls;
        r->groups_left = first->group_count;
    }
    dl_collective_arrive(&first->collectives[worker / first->group]);
}

/* Starts the next call for all workers, which wait for one another. */
static void start_before(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    const dl_before *b = &r->before[r->before_at];
    r->groups_left = b->group_count;
    for (int worker = 0; worker < gpus->config.workers; worker++)
        dl_collective_arrive(&b->collectives[worker / b->group]);
}

static void on_before_done(void *user, int unused DL_UNUSED)
{
    dl_gpus *gpus = user;
    dl_reduction *r = &gpus->reduction;
    if (--r->groups_left > 0) return;
    gpus->moved_bytes += r->before[r->before_at].moved_bytes;
    if (--r->calls_left == 0 && r->before_at + 1 < r->before_count)
        r->calls_left = r->before[++r->before_at].calls;
    if (r->calls_left > 0) {
        start_before(gpus);
    } else {
        gpus->listener->start_steps(gpus);
    }
}

static dl_status init_before_one(dl_gpus *gpus, dl_before *b, const dl_step_collective *of,
                                 dl_error *err)
{
    dl_status status = DL_OK;
    int flows = 0;
    *b = (dl_before){
        .group_count = gpus->config.workers / of->group, .group = of->group, .calls = of->calls};
    b->collectives = dl_calloc((size_t)b->group_count, sizeof *b->collectives, "collectives");
    for (int g = 0; g < b->group_count && status == DL_OK; g++) {
        status = init_collective(gpus, &b->collectives[g], of->kind, gpus->places + g * of->group,
                                 of->group, 0, of->bytes, 0, err);
        if (status != DL_OK) return status;
        dl_collective_on_done(&b->collectives[g], on_before_done, gpus, 0);
        b->moved_bytes += dl_collective_sent_bytes(&b->collectives[g]);
        flows += b->collectives[g].plan.transfer_count;
    }
    if (flows > gpus->reduction.flows) gpus->reduction.flows = flows;
    return status;
}

static dl_status init_before(dl_gpus *gpus, dl_error *err)
{
    const dl_gpus_config *config = &gpus->config;
    dl_reduction *r = &gpus->reduction;
    dl_status status = DL_OK;
    r->before = dl_calloc((size_t)config->before_count, sizeof *r->before, "collectives");
    while (r->before_count < config->before_count && status == DL_OK) {
        status = init_before_one(gpus, &r->before[r->before_count],
                                 &config->before[r->before_count], err);
        r->before_count++;
    }
    return status;
}

/* Key that identifies equal collectives. */
typedef struct one_kind {
    double bytes; /* NaN: the first one after a pause, which is unique */
    bool sums;
} one_kind;

/* Assigns a collective to a position in the step's order: an existing one of the same kind and
 * size, or a new one. Sizes are compared exactly: all buckets but the last one are equal. kinds[i]
 * is the key of collective i. */
static dl_status add_collective(dl_gpus *gpus, int place, one_kind like, one_kind *kinds,
                                dl_error *err)
{
    dl_reduction *r = &gpus->reduction;
    int i = r->collective_count - 1;
    const double pause_ns = place == 0 ? gpus->config.pause_ns : 0;
    while (i >= 0 && (pause_ns > 0 || kinds[i].bytes != like.bytes || kinds[i].sums != like.sums))
        i--;
    if (i < 0) {
        i = r->collective_count;
        dl_status status = init_one(gpus, &r->collectives[i], like.sums, like.bytes, pause_ns, err);
        if (status != DL_OK) return status;
        kinds[i] = like;
        if (pause_ns > 0) kinds[i].bytes = (double)NAN;
        r->collective_count++;
    }
    r->collective[place] = i;
    if (!r->collectives[i].measured) r->transfers += r->collectives[i].plan.transfer_count;
    const double moved_bytes = dl_collective_sent_bytes(&r->collectives[i]);
    if (place == r->buckets && gpus->config.plan.gathers_after) {
        r->gathered_bytes += moved_bytes * r->present / gatherers(gpus);
    } else {
        r->moved_bytes += moved_bytes;
    }
    return DL_OK;
}

/* Adds a bucket's collectives: its sum, and the gathers of its parameters for one or both
 * passes. */
static dl_status add_bucket(dl_gpus *gpus, int bucket, double bytes, one_kind *kinds, dl_error *err)
{
    const int buckets = gpus->reduction.buckets;
    dl_status status =
        add_collective(gpus, place_of_sum(gpus, bucket), (one_kind){bytes, true}, kinds, err);
    const int uses[] = {buckets - 1 - bucket, buckets + bucket};
    for (int i = 0; i < gpus->config.plan.gathers && status == DL_OK; i++) {
        status = add_collective(gpus, place_of_gather(gpus, uses[i]), (one_kind){bytes, false},
                                kinds, err);
    }
    return status;
}

void dl_reduction_ready(dl_gpus *gpus, int bucket)
{
    gpus->reduction.ready[place_of_sum(gpus, bucket)]++;
    try_next(gpus);
}

/* --- setting up ----------------------------------------------------------------------------- */

/* Sets the ranks of the collectives: all present workers, or their hosts. */
static void set_ranks(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    r->present = 0;
    for (int w = 0; w < gpus->config.workers; w++) {
        if (gpus->team == NULL || dl_members_has(gpus->team, w)) {
            const dl_place gpu = gpus->places[w];
            r->places[r->present++] = gpus->config.options->on_hosts ? host_of(gpus, gpu) : gpu;
        }
    }
}

/* Plans the collectives again for the present workers. The new plans may have more transfers than
 * the folded plans for all workers. */
static void make_collectives_again(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    const int different = r->collective_count, flows = r->flows;
    DL_ASSERT(gpus->config.plan.sharers == 1, "workers come and go that divide the state");
    DL_AUTOFREE one_kind *kinds = dl_calloc((size_t)different, sizeof *kinds, "buckets");
    for (int i = 0; i < different; i++)
        dl_collective_free(&r->collectives[i]);
    r->collective_count = r->held = 0;
    r->moved_bytes = r->gathered_bytes = r->transfers = 0;
    set_ranks(gpus);
    for (int b = 0; b < r->buckets; b++) {
        dl_error err = {0};
        const dl_status status = add_bucket(gpus, b, r->parts.bytes[b], kinds, &err);
        DL_ASSERT(status == DL_OK, "%s", err.text);
    }
    r->stale = false;
    dl_network_reserve(gpus->network, gpus->network->flow_room + 4 * (r->flows - flows));
    dl_engine_make_room(gpus->config.engine, 8 * (r->flows - flows));
}

int dl_gpus_domain(const dl_gpus *gpus, int worker)
{
    return inside_of(gpus, worker);
}

void dl_gpus_members_changed(dl_gpus *gpus, int worker)
{
    gpus->workers[worker].rounds = gpus->reduction.rounds;
    gpus->reduction.stale = gpus->config.plan.is_collective;
}

static dl_status init_buckets(dl_gpus *gpus, dl_error *err)
{
    dl_reduction *r = &gpus->reduction;
    const double all = gpus->config.content_bytes;
    dl_status status =
        dl_buckets_init(&r->parts, gpus->config.options, gpus->config.workload, all, err);
    if (status != DL_OK) return status;
    const size_t buckets = (size_t)r->parts.count;
    r->buckets = r->parts.count;
    r->share = r->parts.share;
    r->bytes_share = r->parts.bytes_share;
    const size_t count =
        (size_t)(1 + gpus->config.plan.gathers) * buckets + gpus->config.plan.gathers_after;
    r->count = (int)count;
    const size_t different = r->parts.differ || count < 6 ? count : 6;
    r->places = dl_calloc((size_t)gpus->config.workers, sizeof *r->places, "ranks");
    set_ranks(gpus);
    r->collectives = dl_calloc(different, sizeof *r->collectives, "buckets");
    r->collective = dl_calloc(count, sizeof *r->collective, "buckets");
    r->ready = dl_calloc(count, sizeof *r->ready, "buckets");
    DL_AUTOFREE one_kind *kinds = dl_calloc(different, sizeof *kinds, "buckets");
    for (int b = 0; b < r->buckets && status == DL_OK && gpus->config.plan.is_collective; b++)
        status = add_bucket(gpus, b, r->parts.bytes[b], kinds, err);
    if (status == DL_OK && gpus->config.plan.gathers_after)
        status = add_collective(gpus, r->buckets, (one_kind){all, false}, kinds, err);
    if (status != DL_OK) return status;
    return dl_collective_check_run(gpus->config.options->fidelity, r->transfers,
                                   dl_team_exchanges(gpus->config.team) * gpus->config.plan.passes,
                                   err);
}

dl_status dl_reduction_init(dl_gpus *gpus, dl_error *err)
{
    const dl_gpus_config *config = &gpus->config;
    const dl_machine *m = &config->options->machine;
    dl_status status = DL_OK;
    /* DistributedDataParallel has already used collectives: it has broadcast its parameters before
     * the first step. */
    if (!dl_gpus_reduce_gradients(gpus))
        gpus->reduction.first_use_ns = dl_ns_ceil(m->first_use_ns.value);
    if (config->inside_bytes > 0) group_workers(gpus);
    if (config->plan.is_collective || config->plan.as_ready || dl_server_is_wanted(gpus) ||
        config->options->tensors != DL_TENSORS_SPLIT) {
        status = init_buckets(gpus, err);
    }
    if (status == DL_OK && config->plan.is_collective) status = init_before(gpus, err);
    gpus->config.before = NULL; /* owned by the caller, used only for initialisation */
    if (status == DL_OK && config->inside_bytes > 0) status = init_inside(gpus, err);
    if (status == DL_OK && config->plan.is_collective && config->options->on_hosts)
        add_host_copies(gpus);
    return status;
}

void dl_reduction_free(dl_gpus *gpus)
{
    dl_reduction *r = &gpus->reduction;
    for (int i = 0; i < r->collective_count; i++)
        dl_collective_free(&r->collectives[i]);
    for (int i = 0; i < r->before_count; i++) {
        for (int g = 0; g < r->before[i].group_count; g++)
            dl_collective_free(&r->before[i].collectives[g]);
        free(r->before[i].collectives);
    }
    free(r->before);
    for (int i = 0; i < gpus->inside_count; i++)
        dl_collective_free(&gpus->inside[i].collective);
    free(gpus->inside);
    free(r->places);
    free(r->collectives);
    free(r->collective);
    dl_buckets_free(&r->parts);
    free(r->ready);
    free(gpus->up);
    free(gpus->down);
}
