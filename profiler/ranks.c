#include "profiler/ranks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/alloc.h"

#define LIMIT_S 60.0 /* longer than any step here, shorter than users are willing to wait */

static const char *const choices[] = {"auto", "off", NULL};

dl_rank_options dl_rank_options_default(void)
{
    return (dl_rank_options){.limit_s = LIMIT_S};
}

static const dl_option own_options[DL_RANK_OPTION_COUNT] = {
    DL_OPTION_ROW_CHOICE("ranks", 0, dl_rank_options, ranks, choices, "WHICH",
                         "Whether the processes of one mpirun (or srun with MPI) share the "
                         "workers of one run (auto), or are separate runs (off).",
                         .group = "Ranks"),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "rank-limit", 0, dl_rank_options, limit_s, 1e-3, DL_RANK_LIMIT_MAX_S, "SECONDS",
        "Longest wait for another rank; must cover the slowest rank's start and step."),
};

void dl_rank_options_table(dl_rank_options *options, dl_option *table)
{
    dl_options_bind(table, own_options, DL_RANK_OPTION_COUNT, options);
}

dl_launcher dl_ranks_launcher(const dl_rank_options *options)
{
    const dl_launcher found = dl_launcher_find();
    return options->ranks != 0 || found.size == 1 ? (dl_launcher){0} : found;
}

/* Refuses processes of torchrun, which can exchange only through PyTorch. */
static dl_status refuse_torchrun(const dl_rank_options *options, dl_error *err)
{
    const char *size = getenv("WORLD_SIZE");
    if (options->ranks != 0 || size == NULL || strcmp(size, "1") == 0 ||
        getenv("TORCHELASTIC_RUN_ID") == NULL)
        return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE,
                        "torchrun has started %s processes, which have no MPI to exchange "
                        "through: start them with mpirun; with --ranks off, each is a separate "
                        "run",
                        size);
}

dl_status dl_ranks_check(const dl_rank_options *options, const dl_train_config *config,
                         dl_error *err)
{
    const dl_launcher launcher = dl_ranks_launcher(options);
    if (launcher.name == NULL) return refuse_torchrun(options, err);
    return launcher.size > 1 ? dl_train_check_ranks(config, launcher.size, err) : DL_OK;
}

dl_status dl_ranks_join(const dl_rank_options *options, const char *settings, dl_rank_group **group,
                        dl_error *err)
{
    const dl_launcher launcher = dl_ranks_launcher(options);
    if (launcher.name == NULL) return DL_OK;
    DL_AUTOFREE char *agreed = dl_format("%s %s", dl_version(), settings);
    const dl_status status = dl_rank_group_join(group, &launcher, agreed, options->limit_s, err);
    if (status == DL_OK && (*group)->size == 1) { /* the launcher gave no count */
        (*group)->leave(*group, NULL);
        *group = NULL;
    }
    return status;
}

void dl_ranks_apply(dl_rank_group *group, dl_train_config *config)
{
    if (group == NULL) return;
    config->ranks = group;
    dl_train_config host = *config;
    const int sharing = group->own_cores ? 1 : group->local_size;
    host.workers = config->workers / group->size * sharing;
    config->wait = dl_train_wait(&host);
}

/* Properties that distinguish data sets. */
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
    const dl_status status = group->broadcast(group, &first, sizeof first, err);
    if (status != DL_OK || memcmp(&own, &first, sizeof own) == 0) return status;
    return dl_error_set(err, DL_ERR_DATA,
                        "this rank has data set '%s' of %zu samples, rank 0 has '%s' of %llu, or "
                        "in another order",
                        data->name, data->count, first.name, (unsigned long long)first.count);
}

char *dl_ranks_path(const dl_rank_group *group, const char *path)
{
    if (group == NULL) return dl_strdup(path);
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash : path, '.');
    const size_t stem = dot != NULL ? (size_t)(dot - path) : strlen(path);
    return dl_format("%.*s.rank%d%s", (int)stem, path, group->rank, path + stem);
}

void dl_ranks_meta(const dl_rank_group *group, const dl_train_config *config,
                   dl_trace_writer *writer)
{
    if (group == NULL) return;
    dl_trace_writer_metaf(writer, "rank", "%d", group->rank);
    dl_trace_writer_metaf(writer, "world_size", "%d", group->size);
    dl_trace_writer_metaf(writer, "local_rank", "%d", group->local_rank);
    dl_trace_writer_meta(writer, "rank_exchange", dl_train_is_collective(config) ? "nccl" : "mpi");
}

/* Bytes of a rank's part of the gathered data: for each of its workers a count and `most` steps, of
 * which the first `count` are valid. */
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

/* Sets *most, on all ranks, to the largest number of steps of any worker of any rank. */
static dl_status most_steps(dl_rank_group *group, const dl_recorder *recorder, int64_t *most,
                            dl_error *err)
{
    const int rank = group->rank, size = group->size;
    const int workers = recorder->worker_count / size;
    int64_t all[DL_RANKS_MAX], own = 0;
    for (int w = rank * workers; w < (rank + 1) * workers; w++) {
        const int64_t done = dl_recorder_steps_done(recorder, w);
        if (done > own) own = done;
    }
    dl_status status = group->gather(group, &own, rank == 0 ? all : NULL, sizeof own, err);
    for (int r = 0; status == DL_OK && rank == 0 && r < size; r++)
        if (all[r] > own) own = all[r];
    if (status == DL_OK) status = group->broadcast(group, &own, sizeof own, err);
    *most = own;
    return status;
}

dl_status dl_ranks_gather_steps(dl_rank_group *group, dl_recorder *recorder, dl_error *err)
{
    int64_t most = 0;
    if (group == NULL) return DL_OK;
    dl_status status = most_steps(group, recorder, &most, err);
    if (status != DL_OK) return status;
    const int rank = group->rank, size = group->size;
    const int workers = recorder->worker_count / size;
    const size_t bytes = part_bytes(workers, most);
    DL_AUTOFREE char *own = dl_calloc(1, bytes, "steps of this rank");
    DL_AUTOFREE char *all = rank == 0 ? dl_calloc((size_t)size, bytes, "steps of all ranks") : NULL;
    pack(recorder, rank * workers, workers, most, own);
    status = group->gather(group, own, all, bytes, err);
    for (int r = 1; status == DL_OK && rank == 0 && r < size; r++)
        unpack(recorder, r * workers, workers, most, all + (size_t)r * bytes);
    return status;
}
