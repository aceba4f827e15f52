/* Workers of a run that are divided over processes: what each process does of it, and how the ranks
 * meet.
 *
 * A process trains its workers as if they were all there are; only their numbers, their shares of
 * the batch, and the averages are those of the whole run. Its first worker exchanges with the other
 * ranks, while its others wait where they would wait for one another's averages. Whether the run
 * ends early is agreed between all, since a rank that ended alone would leave the others waiting. */
#include <string.h>

#include "kernels/ranks/rank_group.h"
#include "kernels/train/train_worker.h"

int dl_train_rank_count(const dl_train_config *config)
{
    return config->ranks != NULL ? dl_rank_group_size(config->ranks) : 1;
}

dl_status dl_train_check_ranks(const dl_train_config *config, int ranks, dl_error *err)
{
    const char *mode = dl_sync_names[config->sync];
    if (config->workers % ranks != 0) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d workers cannot be shared equally by %d ranks; their number (of all "
                            "ranks together) must be a multiple of it",
                            config->workers, ranks);
    }
    if (config->sync == DL_SYNC_NONE) {
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "none exchanges nothing: ranks have nothing to do with one another. Use "
            "allreduce or average, or start the processes by themselves");
    }
    if (config->sync != DL_SYNC_ALLREDUCE && config->sync != DL_SYNC_AVERAGE) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "%s needs a server, which is in the memory of one process: over ranks "
                            "there are only allreduce and average",
                            mode);
    }
    if (config->where == DL_TRAIN_WHERE_GPU) {
        return dl_error_set(
            err, DL_ERR_UNSUPPORTED,
            "%s on one GPU: other ranks cannot reach its memory. Over ranks vectors "
            "meet on the processors or are reduced between GPUs (allreduce)",
            mode);
    }
    if (config->quantise != DL_QUANTISE_NONE) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "gradients are sent between ranks as they are: they cannot be made "
                            "smaller there");
    }
    if (config->server_threads != 1) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d server threads; over ranks one of each exchanges",
                            config->server_threads);
    }
    return DL_OK;
}

dl_status dl_train_take_part(dl_train_shared *shared, dl_error *err)
{
    const dl_train_config *whole = shared->whole;
    dl_train_config *own = &shared->own;
    *own = *whole;
    shared->config = own;
    if (whole->ranks == NULL) return DL_OK;
    const int ranks = dl_train_rank_count(whole);
    shared->ranks = whole->ranks;
    own->ranks = NULL;
    own->workers = whole->workers / ranks;
    own->batch = whole->batch / ranks;
    shared->first_worker = dl_rank_group_rank(shared->ranks) * own->workers;
    if (whole->slow != NULL) own->slow = whole->slow + shared->first_worker;
    const int before = dl_rank_group_local_rank(shared->ranks) * own->workers;
    own->first_core += before;
    int devices = 0;
    if (whole->device == NULL) return DL_OK;
    const dl_status status = whole->device->count(&devices, err);
    /* A launcher may show each rank its own devices only: then all of them count from the same. */
    if (status == DL_OK) own->first_device += before % (devices - own->first_device);
    return status;
}

/* The end for this process: another worker's reason stands, and this may be its consequence. */
static void end_by_loss(dl_train_worker *worker, dl_status status, const dl_error *why)
{
    dl_train_shared *shared = worker->shared;
    if (worker->status == DL_OK && !atomic_load(&shared->failed)) {
        worker->status = status;
        worker->err = *why;
    }
    atomic_store(&shared->failed, true);
    atomic_store(&shared->last_step, worker->step + (shared->mode->collective ? 2 : 1));
}

void dl_train_ranks_meet(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const bool mine = dl_train_stopped(shared->config) || atomic_load(&shared->failed);
    bool stop = false;
    dl_error why = {0};
    const dl_status status = dl_rank_group_agree(shared->ranks, mine, &stop, &why);
    atomic_store(&shared->agreed_stop, stop);
    if (status != DL_OK) end_by_loss(worker, status, &why);
}

void dl_train_ranks_average(dl_train_worker *worker, void *result, void *const *vectors,
                            size_t count, dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    dl_error why = {0};
    const dl_status status =
        dl_rank_group_sum(shared->ranks, result, (const void *const *)vectors, config->workers,
                          shared->whole->workers, count, config->precision, &why);
    if (status != DL_OK) end_by_loss(worker, status, &why);
    dl_train_mark_average(worker, DL_PHASE_NONE, name, shared->whole->workers, 1,
                          count * dl_precision_bytes(config->precision));
}

dl_status dl_train_ranks_ready(const dl_train_shared *shared, dl_status status, dl_error *err)
{
    bool failed = false;
    if (shared->ranks == NULL) return status;
    dl_error why = {0};
    const dl_status met = dl_rank_group_agree(shared->ranks, status != DL_OK, &failed, &why);
    if (status != DL_OK) return status;
    if (met != DL_OK) {
        if (err != NULL) *err = why;
        return met;
    }
    if (!failed) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "another rank could not start; its message says why");
}

void dl_train_ranks_give_up(const dl_train_shared *shared)
{
    if (shared->ranks != NULL && shared->mode->collective) dl_rank_group_abandon(shared->ranks);
}

dl_status dl_train_ranks_sum(const dl_train_shared *shared, double *const *vectors, size_t count,
                             double *sum, dl_error *err)
{
    return dl_rank_group_sum(shared->ranks, sum, (const void *const *)vectors,
                             shared->config->workers, 1, count, DL_DOUBLE, err);
}

static bool device_lost(void *group)
{
    return dl_rank_group_lost(group);
}

/* Rank 0's identity of the reduction, with whether it could be made. */
typedef struct identity {
    bool made;
    char id[DL_DEVICE_ID_BYTES];
} identity;

dl_status dl_train_ranks_join(const dl_train_shared *shared, dl_device *const *devices,
                              dl_error *err)
{
    const dl_device_type *type = shared->config->device;
    identity of = {0};
    dl_status made = DL_OK;
    if (dl_rank_group_rank(shared->ranks) == 0) {
        made = type->make_id(of.id, err);
        of.made = made == DL_OK;
    }
    const dl_status status =
        dl_rank_group_broadcast(shared->ranks, &of, sizeof of, made == DL_OK ? err : NULL);
    if (made != DL_OK) return made;
    if (status != DL_OK) return status;
    if (!of.made) {
        return dl_error_set(err, DL_ERR_SYSTEM, "rank 0 could not start a reduction between GPUs");
    }
    dl_device_ranks ranks = {.first = shared->first_worker,
                             .count = shared->whole->workers,
                             .limit_s = dl_rank_group_limit_s(shared->ranks),
                             .lost = device_lost,
                             .user = shared->ranks};
    memcpy(ranks.id, of.id, sizeof ranks.id);
    return type->join_ranks(devices, shared->config->workers, &ranks, err);
}
