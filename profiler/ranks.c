#include "profiler/ranks.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "profiler/run/run_meta.h"

dl_status dl_ranks_check(const dl_rank_options *options, const dl_train_config *config,
                         dl_error *err)
{
    dl_launch launch;
    const dl_status status = dl_launch_find(options, &launch, err);
    if (status != DL_OK || launch.size == 1) return status;
    return dl_train_check_ranks(config, launch.size, err);
}

dl_status dl_ranks_join(const dl_rank_options *options, const char *settings, dl_rank_group **group,
                        dl_error *err)
{
    dl_launch launch;
    dl_status status = dl_launch_find(options, &launch, err);
    if (status != DL_OK || launch.size == 1) return status;
    char *agreed = dl_format("%s %s", dl_version(), settings);
    const dl_rank_settings wanted = {.rank = launch.rank,
                                     .size = launch.size,
                                     .host = launch.host,
                                     .port = launch.port,
                                     .limit_s = options->limit_s,
                                     .run = launch.job,
                                     .settings = agreed};
    status = dl_rank_group_join(group, &wanted, err);
    free(agreed);
    return status;
}

void dl_ranks_apply(dl_rank_group *group, dl_train_config *config)
{
    if (group == NULL) return;
    config->ranks = group;
    if (config->wait != DL_WAIT_AUTO) return;
    const int workers =
        config->workers / dl_rank_group_size(group) * dl_rank_group_local_size(group);
    config->wait = workers <= dl_run_cores(config) ? DL_WAIT_SPIN : DL_WAIT_BLOCK;
}

/* What tells one data set from another. */
typedef struct fingerprint {
    char name[32];
    uint64_t count, labels_crc;
} fingerprint;

static fingerprint fingerprint_of(const dl_data_set *data)
{
    fingerprint made = {.count = data->count};
    snprintf(made.name, sizeof made.name, "%s", data->name);
    made.labels_crc =
        crc32_z(0, (const unsigned char *)data->labels, data->count * sizeof *data->labels);
    return made;
}

dl_status dl_ranks_check_data(dl_rank_group *group, const dl_data_set *data, dl_error *err)
{
    if (group == NULL) return DL_OK;
    const fingerprint own = fingerprint_of(data);
    fingerprint first = own;
    const dl_status status = dl_rank_group_broadcast(group, &first, sizeof first, err);
    if (status != DL_OK || memcmp(&own, &first, sizeof own) == 0) return status;
    return dl_error_set(err, DL_ERR_DATA,
                        "this rank has data set '%s' of %zu samples, rank 0 has '%s' of %llu, or "
                        "one in another order",
                        data->name, data->count, first.name, (unsigned long long)first.count);
}

char *dl_ranks_path(const dl_rank_group *group, const char *path)
{
    if (group == NULL) return dl_strdup(path);
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash : path, '.');
    const size_t stem = dot != NULL ? (size_t)(dot - path) : strlen(path);
    return dl_format("%.*s.rank%d%s", (int)stem, path, dl_rank_group_rank(group), path + stem);
}

static void put_number(dl_trace_writer *writer, const char *key, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    dl_trace_writer_meta(writer, key, text);
}

void dl_ranks_meta(const dl_rank_group *group, const dl_train_config *config,
                   dl_trace_writer *writer)
{
    if (group == NULL) return;
    put_number(writer, "rank", dl_rank_group_rank(group));
    put_number(writer, "world_size", dl_rank_group_size(group));
    put_number(writer, "local_rank", dl_rank_group_local_rank(group));
    dl_trace_writer_meta(writer, "rank_exchange", dl_train_is_collective(config) ? "nccl" : "tcp");
}

/* A rank's part of what is gathered: of each of its workers the count of steps, then `most` steps,
 * of which those count. */
static size_t part_bytes(int workers, int64_t most)
{
    return (size_t)workers * (sizeof(int64_t) + (size_t)most * sizeof(dl_recorder_step));
}

static void pack(const dl_recorder *recorder, int first, int workers, int64_t most, char *part)
{
    for (int w = 0; w < workers; w++) {
        const int64_t count = dl_recorder_steps_done(recorder, first + w);
        memcpy(part, &count, sizeof count);
        memcpy(part + sizeof count, recorder->workers[first + w].steps,
               (size_t)count * sizeof(dl_recorder_step));
        part += part_bytes(1, most);
    }
}

static void unpack(dl_recorder *recorder, int first, int workers, int64_t most, const char *part)
{
    for (int w = 0; w < workers; w++) {
        dl_recorder_worker *worker = &recorder->workers[first + w];
        int64_t count;
        memcpy(&count, part, sizeof count);
        dl_recorder_reserve(worker, count);
        memcpy(worker->steps, part + sizeof count, (size_t)count * sizeof *worker->steps);
        atomic_store(&worker->count, count);
        part += part_bytes(1, most);
    }
}

/* The most steps that a worker of any rank has done. */
static dl_status most_steps(dl_rank_group *group, const dl_recorder *recorder, int64_t *most,
                            dl_error *err)
{
    const int rank = dl_rank_group_rank(group), size = dl_rank_group_size(group);
    const int workers = recorder->worker_count / size;
    int64_t all[DL_RANKS_MAX], own = 0;
    for (int w = rank * workers; w < (rank + 1) * workers; w++) {
        const int64_t done = dl_recorder_steps_done(recorder, w);
        if (done > own) own = done;
    }
    dl_status status = dl_rank_group_gather(group, &own, rank == 0 ? all : NULL, sizeof own, err);
    for (int r = 0; status == DL_OK && rank == 0 && r < size; r++)
        if (all[r] > own) own = all[r];
    if (status == DL_OK) status = dl_rank_group_broadcast(group, &own, sizeof own, err);
    *most = own;
    return status;
}

dl_status dl_ranks_gather_steps(dl_rank_group *group, dl_recorder *recorder, dl_error *err)
{
    int64_t most = 0;
    if (group == NULL) return DL_OK;
    dl_status status = most_steps(group, recorder, &most, err);
    if (status != DL_OK) return status;
    const int rank = dl_rank_group_rank(group), size = dl_rank_group_size(group);
    const int workers = recorder->worker_count / size;
    const size_t bytes = part_bytes(workers, most);
    char *own = dl_calloc(1, bytes, "steps of this rank");
    char *all = rank == 0 ? dl_calloc((size_t)size, bytes, "steps of all ranks") : NULL;
    pack(recorder, rank * workers, workers, most, own);
    status = dl_rank_group_gather(group, own, all, bytes, err);
    for (int r = 1; status == DL_OK && rank == 0 && r < size; r++)
        unpack(recorder, r * workers, workers, most, all + (size_t)r * bytes);
    free(all);
    free(own);
    return status;
}
