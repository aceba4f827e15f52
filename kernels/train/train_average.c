/* Mode average: parameters averaged every `interval` steps; optionally in fragments, with a lag,
 * quantised, between sites, or with an outer optimizer (see train.h).
 *
 * Without lag the phases are: update and push; average, each server thread a slice; pull. As in
 * allreduce, the next push comes after the second barrier, when all slots have been read, and the
 * next averaging after the next first barrier, when the result has been read.
 *
 * With lag there are no barriers. Round r averages fragment r mod F. A worker pushes the fragment
 * to its slot after step (r + 1) x period, the last worker to push averages, and each worker merges
 * the average `lag` steps after its push. As the lag is shorter than the interval, a worker has
 * merged round r before it pushes round r + F, the next one of the same fragment. So one slot,
 * result and start per fragment suffice: none is written while another worker may still read it.
 * This also holds with sites, since the workers of a site average gradients in each step and so
 * stay in the same step. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "kernels/ranks/rank_group.h"
#include "kernels/train/train_internal.h"

/* Maximum bytes of one broadcast. */
#define BROADCAST_BYTES ((size_t)1 << 30)

/* Local steps from one average to the next, of all parameters or of the next fragment. */
static int64_t period_of(const dl_train_config *config)
{
    return config->interval / config->fragments;
}

int dl_sync_phases(const dl_train_worker *worker)
{
    const dl_train_config *config = worker->shared->config;
    const bool between = config->sync == DL_SYNC_AVERAGE &&
                         (worker->step + 1) % (worker->interval / config->fragments) != 0;
    return between ? 1 : worker->shared->mode->phase_count;
}

/* Number of workers that share a slot: those of a site, else 1. */
static int site_size(const dl_train_config *config)
{
    return config->workers / dl_train_senders(config);
}

static int site_of(const dl_train_worker *worker)
{
    return worker->index / site_size(worker->shared->config);
}

static bool sends(const dl_train_worker *worker)
{
    return worker->index % site_size(worker->shared->config) == 0;
}

static size_t bytes_of(const dl_train_shared *shared, size_t count)
{
    return count * dl_precision_bytes(shared->config->precision);
}

/* Returns the address of number `first` of the vector. */
static void *from(const dl_train_shared *shared, const void *vector, size_t first)
{
    return (char *)vector + bytes_of(shared, first);
}

static dl_fragment fragment_of_round(const dl_train_shared *shared, int64_t round)
{
    const int fragments = shared->config->fragments;
    return dl_fragment_of(shared->count, fragments, (int)(round % fragments));
}

/* The fragment of the round that is due after the worker's step. */
static dl_fragment due_fragment(const dl_train_worker *worker)
{
    const int64_t done = worker->step + 1;
    return fragment_of_round(worker->shared, done / period_of(worker->shared->config) - 1);
}

/* Number of ranges of the optimizer's state that are averaged with a fragment: one per vector of
 * the state; a single range if there is only one fragment. */
static int state_ranges(const dl_train_shared *shared)
{
    if (shared->config->fragments == 1) return shared->state_count > 0;
    return (int)(shared->state_count / shared->count);
}

static dl_fragment state_range(const dl_train_shared *shared, const dl_fragment *fragment,
                               int range)
{
    if (shared->config->fragments == 1) return (dl_fragment){.count = shared->state_count};
    return (dl_fragment){.first = (size_t)range * shared->count + fragment->first,
                         .count = fragment->count};
}
/* Offset of the fragment's message among those of a worker. */
static size_t message_offset(const dl_train_shared *shared, int fragment)
{
    size_t offset = 0;
    for (int f = 0; f < fragment; f++)
        offset += shared->plans[f].message_bytes;
    return offset;
}

/* Pushes the worker's change of the fragment to the server as a message; over ranks rank 0 decodes
 * it later. */
static void push_learned(dl_train_worker *worker, const dl_fragment *fragment)
{
    const dl_train_shared *shared = worker->shared;
    const dl_precision precision = shared->config->precision;
    const dl_quantise_plan *plan = &shared->plans[fragment->index];
    const size_t bytes = bytes_of(shared, fragment->count), first = fragment->first;
    const size_t offset = message_offset(shared, fragment->index);
    void *learned = from(shared, worker->learned, first);
    void *residual = worker->residual != NULL ? from(shared, worker->residual, first) : NULL;
    char *own = (char *)worker->message + offset;
    char *message = (char *)shared->messages[site_of(worker)] + offset;
    dl_train_encode_change(plan, learned, from(shared, dl_model_parameters(worker->model), first),
                           from(shared, shared->parameters, first), residual, own, precision);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_QUANTISE, 1, 1, bytes);
    dl_train_push(worker, message, own, plan->message_bytes, DL_TRAIN_NAME_PARAMETERS);
    if (shared->ranks != NULL) return;
    dl_quantise_decode(plan, message, from(shared, shared->slots[site_of(worker)], first),
                       precision);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_DEQUANTISE, 1, 1, bytes);
}

static void push_fragment(dl_train_worker *worker, const dl_fragment *fragment)
{
    const dl_train_shared *shared = worker->shared;
    const size_t bytes = bytes_of(shared, fragment->count);
    if (shared->plans != NULL) {
        push_learned(worker, fragment);
        return;
    }
    dl_train_push(worker, from(shared, shared->slots[site_of(worker)], fragment->first),
                  from(shared, dl_model_parameters(worker->model), fragment->first), bytes,
                  DL_TRAIN_NAME_PARAMETERS);
    size_t state_count;
    const void *state = dl_optimizer_state(worker->optimizer, &state_count);
    for (int v = 0; v < state_ranges(shared); v++) {
        const dl_fragment range = state_range(shared, fragment, v);
        dl_train_push(worker, from(shared, shared->state_slots[site_of(worker)], range.first),
                      from(shared, state, range.first), bytes_of(shared, range.count),
                      DL_TRAIN_NAME_STATE);
    }
}

/* As wait_for_all (train.c), for the worker's site. */
static void wait_for_site(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_barrier_wait(&shared->site_barriers[site_of(worker)]);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
}

/* All-reduce of the site's gradients through memory: two waits are enough, as in allreduce. */
static void reduce_inside(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const int site = site_of(worker), size = site_size(config);
    size_t first, count;
    wait_for_site(worker);
    dl_train_slice_of(shared->count, size, worker->index % size, &first, &count);
    dl_train_average_vectors(shared, shared->site_means[site], &shared->gradients[site * size],
                             size, first, count);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_GRADIENTS, size, size,
                          shared->bytes);
    wait_for_site(worker);
    dl_train_pull(worker, dl_model_gradients(worker->model), shared->site_means[site],
                  shared->bytes, DL_TRAIN_NAME_GRADIENTS);
}

/* Does the update of a local step. */
static void update_locally(dl_train_worker *worker)
{
    if (worker->shared->site_means != NULL) reduce_inside(worker);
    dl_train_update_replica(worker);
}

void dl_average_push(dl_train_worker *worker)
{
    update_locally(worker);
    if (dl_sync_phases(worker) == 1 || !sends(worker)) return;
    const dl_fragment fragment = due_fragment(worker);
    push_fragment(worker, &fragment);
}

/* Calls dl_train_end_average for one worker's slice of `parts`; recorded with the three vectors
 * that the outer optimizer reads. */
static void end_average(dl_train_worker *worker, size_t first, size_t count, int parts,
                        size_t recorded)
{
    const dl_train_shared *shared = worker->shared;
    if (!dl_train_keeps_start(shared->config)) return;
    dl_train_end_average(shared->config, shared->result, shared->parameters, shared->velocity,
                         first, count);
    dl_train_mark_average(worker, DL_PHASE_UPDATE, DL_TRAIN_NAME_PARAMETERS, 3, parts, recorded);
}

/* Averages slice `index` (of `parts`) of the fragment, and the same slice of the optimizers' states
 * if these are averaged. */
static void average_slice(dl_train_worker *worker, const dl_fragment *fragment, int index,
                          int parts)
{
    const dl_train_shared *shared = worker->shared;
    const size_t recorded = bytes_of(shared, fragment->count);
    size_t first, count;
    dl_train_slice_of(fragment->count, parts, index, &first, &count);
    first += fragment->first;
    dl_train_average(worker, shared->result, shared->slots, first, count, parts,
                     DL_TRAIN_NAME_PARAMETERS, recorded);
    end_average(worker, first, count, parts, recorded);
    for (int v = 0; v < state_ranges(shared); v++) {
        const dl_fragment range = state_range(shared, fragment, v);
        dl_train_slice_of(range.count, parts, index, &first, &count);
        dl_train_average(worker, shared->state_result, shared->state_slots, range.first + first,
                         count, parts, DL_TRAIN_NAME_STATE, bytes_of(shared, range.count));
    }
}

/* Over ranks: averages `vectors` of this process's senders from number `first` on. */
static void average_ranks_vectors(dl_train_worker *worker, void *result, void *const *vectors,
                                  size_t first, size_t count, dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    void *parts[DL_TRAIN_WORKERS_MAX];
    for (int w = 0; w < dl_train_senders(shared->config); w++)
        parts[w] = from(shared, vectors[w], first);
    dl_train_ranks_average(worker, from(shared, result, first), parts, count, name);
}

/* Rank 0: decodes the messages of sender `own` of each rank into vectors. */
static void decode_gathered(const dl_train_shared *shared, const dl_fragment *fragment, int own)
{
    const dl_quantise_plan *plan = &shared->plans[fragment->index];
    for (int r = 0; r < shared->ranks->size; r++) {
        void *slot = shared->all_slots[r * dl_train_senders(shared->config) + own];
        dl_quantise_decode(plan, (char *)shared->gathered + (size_t)r * plan->message_bytes,
                           from(shared, slot, fragment->first), shared->config->precision);
    }
}

/* Over ranks: all messages go to rank 0, which sends the mean of their values. */
static dl_status average_ranks_messages(const dl_train_shared *shared, const dl_fragment *fragment,
                                        dl_error *why)
{
    dl_rank_group *ranks = shared->ranks;
    const size_t message_bytes = shared->plans[fragment->index].message_bytes;
    const size_t offset = message_offset(shared, fragment->index);
    const size_t bytes = bytes_of(shared, fragment->count);
    char *result = from(shared, shared->result, fragment->first);
    dl_status status = DL_OK;
    for (int w = 0; status == DL_OK && w < dl_train_senders(shared->config); w++) {
        status = ranks->gather(ranks, (char *)shared->messages[w] + offset, shared->gathered,
                               message_bytes, why);
        if (status == DL_OK && ranks->rank == 0) decode_gathered(shared, fragment, w);
    }
    if (status == DL_OK && ranks->rank == 0) {
        dl_exchange_average(shared->result, (const void *const *)shared->all_slots,
                            dl_train_senders(shared->whole), fragment->first, fragment->count,
                            shared->config->precision);
    }
    for (size_t done = 0; status == DL_OK && done < bytes; done += BROADCAST_BYTES) {
        const size_t left = bytes - done;
        status = ranks->broadcast(ranks, result + done,
                                  left < BROADCAST_BYTES ? left : BROADCAST_BYTES, why);
    }
    return status;
}

/* Averages over the ranks, in the thread of worker 0, for all workers of this rank. */
static void average_over_ranks(dl_train_worker *worker, const dl_fragment *fragment)
{
    const dl_train_shared *shared = worker->shared;
    const size_t bytes = bytes_of(shared, fragment->count);
    dl_train_ranks_meet(worker);
    if (shared->plans != NULL) {
        dl_error why = {0};
        const dl_status status = average_ranks_messages(shared, fragment, &why);
        if (status != DL_OK) dl_train_end_by_loss(worker, status, &why);
        dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_PARAMETERS,
                              dl_train_senders(shared->whole), 1, bytes);
    } else {
        average_ranks_vectors(worker, shared->result, shared->slots, fragment->first,
                              fragment->count, DL_TRAIN_NAME_PARAMETERS);
    }
    end_average(worker, fragment->first, fragment->count, 1, bytes);
    for (int v = 0; v < state_ranges(shared); v++) {
        const dl_fragment range = state_range(shared, fragment, v);
        average_ranks_vectors(worker, shared->state_result, shared->state_slots, range.first,
                              range.count, DL_TRAIN_NAME_STATE);
    }
}

void dl_average_combine(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_fragment fragment = due_fragment(worker);
    const int parts = shared->config->server_threads;
    if (shared->ranks != NULL) {
        if (worker->index == 0) average_over_ranks(worker, &fragment);
    } else if (worker->index < parts) {
        average_slice(worker, &fragment, worker->index, parts);
    }
}

/* Returns the vector that workers take after an average. */
static const void *merged_vector(const dl_train_shared *shared)
{
    return dl_train_keeps_start(shared->config) ? shared->parameters : shared->result;
}

void dl_average_pull(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_fragment fragment = due_fragment(worker);
    const size_t bytes = bytes_of(shared, fragment.count);
    dl_train_pull(worker, from(shared, dl_model_parameters(worker->model), fragment.first),
                  from(shared, merged_vector(shared), fragment.first), bytes,
                  DL_TRAIN_NAME_PARAMETERS);
    size_t state_count;
    void *state = dl_optimizer_state(worker->optimizer, &state_count);
    for (int v = 0; v < state_ranges(shared); v++) {
        const dl_fragment range = state_range(shared, &fragment, v);
        dl_train_pull(worker, from(shared, state, range.first),
                      from(shared, shared->state_result, range.first),
                      bytes_of(shared, range.count), DL_TRAIN_NAME_STATE);
    }
}

/* Wakes threads that wait for a counter to grow. */
static void wake_all(dl_train_shared *shared)
{
    if (shared->wait == DL_WAIT_SPIN) return;
    pthread_mutex_lock(&shared->mutex);
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

static void wait_until(dl_train_worker *worker, const atomic_llong *counter, int64_t least)
{
    dl_train_shared *shared = worker->shared;
    if (shared->wait == DL_WAIT_SPIN) {
        while (atomic_load(counter) < least)
            dl_cpu_relax();
    } else {
        pthread_mutex_lock(&shared->mutex);
        while (atomic_load(counter) < least)
            pthread_cond_wait(&shared->changed, &shared->mutex);
        pthread_mutex_unlock(&shared->mutex);
    }
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
}

/* Sends the fragment that is due; without ranks the last worker to send averages it (over ranks
 * merge_next does). */
static void send_fragment(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_fragment fragment = due_fragment(worker);
    const int senders = dl_train_senders(shared->config);
    push_fragment(worker, &fragment);
    const int64_t sent = atomic_fetch_add(&shared->sent[fragment.index], 1) + 1;
    if (sent % senders != 0) return;
    if (shared->ranks == NULL) {
        average_slice(worker, &fragment, 0, 1);
        atomic_fetch_add(&shared->averaged[fragment.index], 1);
    }
    wake_all(shared);
}

/* Merges the worker's next round; over ranks, worker 0 first averages it. */
static void merge_next(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const int64_t round = worker->merged++, turn = round / config->fragments + 1;
    const dl_fragment fragment = fragment_of_round(shared, round);
    if (shared->ranks != NULL && worker->index == 0) {
        wait_until(worker, &shared->sent[fragment.index], turn * dl_train_senders(config));
        average_over_ranks(worker, &fragment);
        atomic_fetch_add(&shared->averaged[fragment.index], 1);
        wake_all(shared);
    }
    wait_until(worker, &shared->averaged[fragment.index], turn);
    dl_exchange_mix(from(shared, dl_model_parameters(worker->model), fragment.first),
                    from(shared, merged_vector(shared), fragment.first), config->mixing,
                    fragment.count, config->precision);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_COPY,
                                      .phase = DL_PHASE_PULL,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_PARAMETERS),
                                      .bytes = bytes_of(shared, fragment.count)});
}

/* Number of rounds that must be merged after the worker's step. */
static int64_t rounds_due(const dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const int64_t done = worker->step + 1, late = done - shared->config->lag;
    const bool last = done >= atomic_load_explicit(&shared->last_step, memory_order_relaxed);
    const int64_t until = last ? done : late > 0 ? late : 0;
    return until / period_of(shared->config);
}

void dl_average_lagging(dl_train_worker *worker)
{
    const int64_t done = worker->step + 1;
    update_locally(worker);
    if (done % period_of(worker->shared->config) == 0 && sends(worker)) {
        send_fragment(worker);
    }
    while (worker->merged < rounds_due(worker))
        merge_next(worker);
}

/* A worker that has merged a round sees what worker 0 wrote before sending its part. The first
 * round that worker 0 sends after `done` steps is merged by step `done` + period + lag. */
int64_t dl_average_stop(const dl_train_config *config, int64_t done)
{
    const int64_t interval = config->interval;
    const int64_t ahead = config->lag > 0 ? period_of(config) + config->lag : 0;
    return ((done + ahead) / interval + 1) * interval;
}

static void make_sites(dl_train_shared *shared)
{
    const dl_train_config *config = shared->config;
    const size_t sites = (size_t)config->sites;
    if (sites == 0) return;
    shared->site_barriers = dl_calloc(sites, sizeof *shared->site_barriers, "sites");
    shared->site_means = dl_calloc(sites, sizeof *shared->site_means, "sites");
    shared->gradients = dl_calloc((size_t)config->workers, sizeof *shared->gradients, "gradients");
    for (size_t s = 0; s < sites; s++) {
        dl_barrier_init(&shared->site_barriers[s], site_size(config), shared->wait);
        shared->site_means[s] = dl_alloc_staggered(shared->bytes, "mean gradients");
    }
}

static void free_sites(const dl_train_shared *shared)
{
    for (int s = 0; shared->site_means != NULL && s < shared->config->sites; s++) {
        dl_barrier_free(&shared->site_barriers[s]);
        dl_free_staggered(shared->site_means[s]);
    }
    free(shared->site_barriers);
    free(shared->site_means);
    free(shared->gradients);
}

void dl_average_make(dl_train_shared *shared, const dl_model *model)
{
    const dl_train_config *config = shared->config;
    const size_t fragments = (size_t)config->fragments;
    if (config->sync != DL_SYNC_AVERAGE) return;
    make_sites(shared);
    if (config->lag > 0) {
        shared->sent = dl_calloc(fragments, sizeof *shared->sent, "fragments");
        shared->averaged = dl_calloc(fragments, sizeof *shared->averaged, "fragments");
    }
    if (config->quantise == DL_QUANTISE_NONE) return;
    shared->plans = dl_fragment_plans(model, config, config->fragments);
    shared->message_bytes = message_offset(shared, config->fragments);
    if (shared->ranks == NULL || shared->ranks->rank > 0) return;
    const size_t all = (size_t)dl_train_senders(shared->whole);
    shared->all_slots = dl_calloc(all, sizeof *shared->all_slots, "slots");
    for (size_t w = 0; w < all; w++)
        shared->all_slots[w] = dl_alloc_staggered(shared->bytes, "slot");
    shared->gathered =
        dl_calloc((size_t)shared->ranks->size, shared->message_bytes, "gathered messages");
}

void dl_average_free(dl_train_shared *shared)
{
    free_sites(shared);
    for (int w = 0; shared->all_slots != NULL && w < dl_train_senders(shared->whole); w++)
        dl_free_staggered(shared->all_slots[w]);
    free(shared->all_slots);
    free(shared->gathered);
    free(shared->sent);
    free(shared->averaged);
    dl_fragment_plans_free(shared->plans, shared->config->fragments);
}
