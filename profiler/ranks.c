#include "profiler/ranks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/options.h"
#include "common/units.h"
#include "kernels/ranks/rank_group.h"
#include "profiler/run/run_meta.h"

#define LIMIT_S 60.0 /* longer than any step here, shorter than people wait */

/* Ports for jobs: below those that Linux gives to clients (32768 and above). */
#define FIRST_PORT 20000
#define PORTS 12000

/* The variables of each launcher, the most specific first: a program that torchrun starts in a
 * Slurm job has Slurm's numbers too. Where the first of `size` is missing, the next one counts. */
static const struct launcher {
    const char *name, *rank, *size[2], *local_size, *job[2];
} launchers[] = {
    {"torchrun", "RANK", {"WORLD_SIZE"}, "LOCAL_WORLD_SIZE", {"TORCHELASTIC_RUN_ID"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"mpirun", "PMI_RANK", {"PMI_SIZE"}, "MPI_LOCALNRANKS", {"PMI_ID_SPACE"}},
    {"srun",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     NULL,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

static const char *const choices[] = {"auto", "off", NULL};

dl_rank_options dl_rank_options_default(void)
{
    return (dl_rank_options){.limit_s = LIMIT_S};
}

static const dl_option own_options[DL_RANK_OPTION_COUNT] = {
    DL_OPTION_ROW_CHOICE(
        "ranks", 0, dl_rank_options, ranks, choices, "WHICH",
        "auto: processes of one mpirun, srun or torchrun share the workers of one run; "
        "off: each is a separate run"),
    DL_OPTION_ROW_TEXT("rendezvous", 0, dl_rank_options, rendezvous, "HOST:PORT",
                       "where rank 0 waits for the other ranks, if the launcher does not say"),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "rank-limit", 0, dl_rank_options, limit_s, 1e-3, DL_RANK_LIMIT_MAX_S, "SECONDS",
        "longest wait for another rank; longer than the slowest rank's steps and what "
        "each rank does before them"),
};

void dl_rank_options_table(dl_rank_options *options, dl_option *table)
{
    dl_options_bind(table, own_options, DL_RANK_OPTION_COUNT, options);
}

static const char *variable(const char *name)
{
    const char *text = name != NULL ? getenv(name) : NULL;
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static bool number(const char *name, int64_t low, int64_t *value)
{
    const char *text = variable(name);
    return text != NULL && dl_parse_int(text, low, INT32_MAX, value, NULL) == DL_OK;
}

/* Slurm gives its batch script the numbers of a rank, too, but it is none. */
static bool is_batch_script(const struct launcher *launcher)
{
    return strcmp(launcher->name, "srun") == 0 && variable("SLURM_JOB_ID") != NULL &&
           variable("SLURM_STEP_NUM_TASKS") == NULL;
}

static const struct launcher *find_launcher(dl_launch *launch, dl_error *err)
{
    for (int i = 0; i < LAUNCHERS; i++) {
        const struct launcher *launcher = &launchers[i];
        int64_t rank, size;
        if (!number(launcher->rank, 0, &rank) || is_batch_script(launcher)) continue;
        if (!number(launcher->size[0], 1, &size) && !number(launcher->size[1], 1, &size)) continue;
        launch->rank = (int)rank;
        launch->size = (int)size;
        if (rank >= size) {
            (void)dl_error_set(err, DL_ERR_DATA, "%s is %lld, but there are %lld ranks",
                               launcher->rank, (long long)rank, (long long)size);
        }
        return launcher;
    }
    return NULL;
}

static void find_job(const struct launcher *launcher, dl_launch *launch)
{
    const char *first = variable(launcher->job[0]), *second = variable(launcher->job[1]);
    if (first == NULL && second == NULL) return;
    snprintf(launch->job, sizeof launch->job, "%.120s.%.120s", first != NULL ? first : "",
             second != NULL ? second : "");
}

/* The first host of a list as Slurm writes it: "node[003-005,9]-ib,login" is node003-ib. */
static void first_host(const char *list, char *host, size_t bytes)
{
    size_t used = 0;
    for (const char *at = list; *at != '\0' && *at != ',' && used + 1 < bytes; at++) {
        if (*at != '[') {
            host[used++] = *at;
            continue;
        }
        for (at++; *at != '\0' && strchr("-,]", *at) == NULL && used + 1 < bytes; at++)
            host[used++] = *at;
        while (*at != '\0' && *at != ']')
            at++;
        if (*at == '\0') break;
    }
    host[used] = '\0';
}

/* Where rank 0 is, as far as the launcher says. */
static void find_host(const struct launcher *launcher, dl_launch *launch)
{
    static const char *const lists[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
                                        "SLURM_NODELIST", "SLURM_LAUNCH_NODE_IPADDR"};
    int64_t value;
    const char *text = variable("MASTER_ADDR");
    if (number(launcher->local_size, 1, &value) && value == launch->size) {
        snprintf(launch->host, sizeof launch->host, "127.0.0.1");
    }
    if (strcmp(launcher->name, "torchrun") == 0) {
        if (text != NULL) snprintf(launch->host, sizeof launch->host, "%s", text);
        if (number("MASTER_PORT", 1, &value) && value <= UINT16_MAX) launch->port = (int)value;
    }
    if (strcmp(launcher->name, "srun") != 0) return;
    if (number("SLURM_STEP_NUM_NODES", 1, &value) && value == 1) {
        snprintf(launch->host, sizeof launch->host, "127.0.0.1");
        return;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists && launch->host[0] == '\0'; i++) {
        text = variable(lists[i]);
        if (text != NULL) first_host(text, launch->host, sizeof launch->host);
    }
}

/* The same port for all ranks of a job. Without a number of the job, on one host, the launcher's
 * own process stands for it. */
static void find_port(dl_launch *launch)
{
    if (launch->job[0] == '\0' && strcmp(launch->host, "127.0.0.1") == 0) {
        snprintf(launch->job, sizeof launch->job, "parent %ld", (long)getppid());
    }
    if (launch->port != 0 || launch->job[0] == '\0') return;
    launch->port = FIRST_PORT + (int)(dl_hash_text(launch->job) % PORTS);
}

/* HOST:PORT, where HOST may hold colons or be in brackets. */
static dl_status parse_rendezvous(const char *text, dl_launch *launch, dl_error *err)
{
    const char *colon = strrchr(text, ':');
    int64_t port = 0;
    size_t bytes = colon != NULL ? (size_t)(colon - text) : 0;
    if (bytes == 0 || dl_parse_int(colon + 1, 1, UINT16_MAX, &port, NULL) != DL_OK ||
        bytes >= sizeof launch->host) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--rendezvous '%.200s'; must be HOST:PORT, as node1:29500", text);
    }
    if (text[0] == '[' && text[bytes - 1] == ']') {
        text++;
        bytes -= 2;
    }
    snprintf(launch->host, sizeof launch->host, "%.*s", (int)bytes, text);
    launch->port = (int)port;
    return DL_OK;
}

dl_status dl_launch_find(const dl_rank_options *options, dl_launch *launch, dl_error *err)
{
    dl_launch found = {.rank = 0, .size = 1};
    dl_error why = {0};
    const struct launcher *launcher = NULL;
    if (options->ranks == 0) launcher = find_launcher(&found, &why);
    if (why.code != DL_OK) {
        if (err != NULL) *err = why;
        return why.code;
    }
    if (launcher != NULL && found.size > 1) {
        find_job(launcher, &found);
        find_host(launcher, &found);
        find_port(&found);
    }
    if (options->rendezvous != NULL) {
        const dl_status status = parse_rendezvous(options->rendezvous, &found, err);
        if (status != DL_OK) return status;
        if (found.size == 1) {
            return dl_error_set(err, DL_ERR_USAGE,
                                "--rendezvous, but no launcher has started several ranks: neither "
                                "mpirun nor srun, nor are RANK and WORLD_SIZE set");
        }
    }
    if (found.size > 1 && (found.host[0] == '\0' || found.port == 0)) {
        return dl_error_set(err, DL_ERR_DATA,
                            "%s has started %d ranks, but does not say where they can meet: give "
                            "--rendezvous HOST:PORT with the host of rank 0 and a free port, or "
                            "--ranks off to run each by itself",
                            launcher->name, found.size);
    }
    *launch = found;
    return DL_OK;
}

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
    dl_train_config host = *config;
    host.workers = config->workers / dl_rank_group_size(group) * dl_rank_group_local_size(group);
    config->wait = dl_train_wait(&host);
}

/* What distinguishes one data set from another. */
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

void dl_ranks_meta(const dl_rank_group *group, const dl_train_config *config,
                   dl_trace_writer *writer)
{
    if (group == NULL) return;
    dl_trace_writer_metaf(writer, "rank", "%d", dl_rank_group_rank(group));
    dl_trace_writer_metaf(writer, "world_size", "%d", dl_rank_group_size(group));
    dl_trace_writer_metaf(writer, "local_rank", "%d", dl_rank_group_local_rank(group));
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
