#include "common/cluster.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/bytes.h"
#include "common/cpu.h"
#include "common/file.h"
#include "common/install.h"
#include "common/system.h"
#include "common/units.h"

#define RANKS_MAX 1000000

/* Environment variables of the launchers; the first row whose `rank` is set (in the last row, also
 * `size`) applies: Open MPI; PMI 1 and 2 (MPICH, Intel MPI, srun --mpi=pmi2); PMIx (srun
 * --mpi=pmix). The last row matches any srun, which sets its variables in job steps only, not in
 * the script of sbatch. */
static const struct {
    const char *name, *rank, *size;
    bool has_mpi;
} launchers[] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
    {"mpirun (PMI)", "PMI_RANK", "PMI_SIZE", true},
    {"srun (PMIx)", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", true},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", false},
};

/* Returns the variable's number, or -1. */
static int read_number(const char *name)
{
    const char *text = getenv(name);
    int64_t number = -1;
    if (text == NULL || dl_parse_int(text, 0, RANKS_MAX, &number, NULL) != DL_OK) return -1;
    return (int)number;
}

dl_launcher dl_launcher_find(void)
{
    const char *wanted = getenv("DLSCALE_MPI");
    if (wanted != NULL && strcmp(wanted, "off") == 0) return (dl_launcher){0};
    for (size_t i = 0; i < DL_LENGTH(launchers); i++) {
        const int rank = read_number(launchers[i].rank), size = read_number(launchers[i].size);
        if (rank < 0 || (size < 0 && !launchers[i].has_mpi)) continue;
        return (dl_launcher){.name = launchers[i].name,
                             .rank = rank,
                             .size = size > 0 ? size : 0,
                             .has_mpi = launchers[i].has_mpi};
    }
    return (dl_launcher){0};
}

/* A rank's description of itself, sent to all ranks. */
typedef struct introduction {
    char host[DL_CLUSTER_HOST_BYTES];
    uint64_t mask;    /* hash of its affinity mask */
    uint64_t program; /* hash of the program's file */
} introduction;

static uint64_t hash_mask(void)
{
    DL_AUTOFREE int *cores = NULL;
    const int count = dl_system_cores(&cores);
    return dl_hash_bytes(0, cores, (size_t)count * sizeof *cores);
}

/* Hashes the program's file; 0 if it cannot be read. */
static uint64_t hash_program(void)
{
    DL_AUTOFREE char *path = dl_system_program(), *data = NULL;
    size_t bytes = 0;
    uint64_t hash = 0;
    if (path != NULL && dl_file_read_up_to(path, SIZE_MAX / 2, &data, &bytes, NULL) == DL_OK) {
        hash = dl_hash_bytes(DL_HASH_START, data, bytes);
    }
    return hash;
}

static dl_status introduce(dl_cluster *cluster, dl_error *err)
{
    introduction mine = {.mask = hash_mask(), .program = hash_program()};
    const size_t size = (size_t)cluster->size;
    if (gethostname(mine.host, sizeof mine.host - 1) != 0) strcpy(mine.host, "?");
    DL_AUTOFREE introduction *all = dl_calloc(size, sizeof *all, "ranks");
    dl_status status = cluster->calls->all_gather(&mine, all, sizeof mine, err);
    cluster->hosts = dl_calloc(size, sizeof *cluster->hosts, "hosts of ranks");
    int sharing = 0;
    cluster->local_size = cluster->local_rank = 0;
    for (int r = 0; r < cluster->size && status == DL_OK; r++) {
        memcpy(cluster->hosts[r], all[r].host, sizeof all[r].host);
        const bool here = strcmp(all[r].host, mine.host) == 0;
        cluster->local_size += here;
        cluster->local_rank += here && r < cluster->rank;
        sharing += here && all[r].mask == mine.mask;
    }
    for (int r = 1; r < cluster->size && status == DL_OK; r++) {
        if (all[r].program == all[0].program) continue;
        status = dl_error_set(err, DL_ERR_DATA,
                              "rank %d on %s runs another version of the program than rank 0 on %s",
                              r, all[r].host, all[0].host);
        cluster->failed = true;
    }
    if (status == DL_OK && sharing > 1) cluster->cpu_count /= sharing;
    if (cluster->cpu_count < 1) cluster->cpu_count = 1;
    return status;
}

dl_status dl_cluster_entry(const dl_launcher *launcher, const char *name, void *function,
                           dl_error *err)
{
    DL_AUTOFREE char *path = NULL;
    dl_error why = {0};
    if (!launcher->has_mpi) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "%s has started %d processes without MPI: use srun --mpi=pmix, "
                            "--mpi=pmi2 or mpirun; with DLSCALE_MPI=off each works alone",
                            launcher->name, launcher->size);
    }
    if (dl_library_path(DL_CLUSTER_LIBRARY, &path, &why) != DL_OK) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "%s has started %d processes, but this build has no MPI: there is no "
                            "%.200s; with DLSCALE_MPI=off each works alone",
                            launcher->name, launcher->size, why.file);
    }
    /* Make its symbols global: MPI loads plugins that look for its functions. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "cannot load MPI: %.400s", dlerror());
    }
    if (dl_library_function(handle, name, function)) return DL_OK;
    return dl_error_set(err, DL_ERR_UNSUPPORTED, "%s is of another version", DL_CLUSTER_LIBRARY);
}

dl_status dl_launcher_check(const dl_launcher *launcher, int size, dl_error *err)
{
    if (size == launcher->size || (launcher->size == 0 && launcher->rank < size)) return DL_OK;
    return dl_error_set(err, DL_ERR_UNSUPPORTED,
                        "%s has started %s%d processes, but this build's MPI finds %d: the "
                        "launcher is another MPI's; use that of the build's MPI (another mpirun, "
                        "srun --mpi=pmix); with DLSCALE_MPI=off each works alone",
                        launcher->name, launcher->size > 0 ? "" : "at least ",
                        launcher->size > 0 ? launcher->size : launcher->rank + 1, size);
}

/* Loads the library and checks that its table of calls is of this version. */
static dl_status load(const dl_cluster_calls **calls, const dl_launcher *launcher, dl_error *err)
{
    dl_cluster_entry_function entry = NULL;
    const dl_status status = dl_cluster_entry(launcher, DL_CLUSTER_ENTRY, &entry, err);
    if (status != DL_OK) return status;
    const dl_cluster_calls *found = entry();
    if (found->bytes != sizeof *found) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "%s is of another version",
                            DL_CLUSTER_LIBRARY);
    }
    *calls = found;
    return DL_OK;
}

/* Redirects this rank's standard output to /dev/null; for all ranks except rank 0. */
static dl_status be_silent(dl_error *err)
{
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fflush(stdout);
    const bool done = null >= 0 && dup2(null, STDOUT_FILENO) >= 0;
    if (null >= 0) close(null);
    return done ? DL_OK : dl_error_set(err, DL_ERR_SYSTEM, "cannot open /dev/null");
}

dl_status dl_cluster_start(dl_cluster *cluster, dl_error *err)
{
    const dl_launcher launcher = dl_launcher_find();
    *cluster = (dl_cluster){.size = 1, .local_size = 1, .cpu_count = dl_cpu_count()};
    if (launcher.name == NULL || launcher.size == 1) return DL_OK;
    dl_status status = load(&cluster->calls, &launcher, err);
    if (status == DL_OK) status = cluster->calls->start(&cluster->rank, &cluster->size, err);
    if (status == DL_OK && (status = dl_launcher_check(&launcher, cluster->size, err)) != DL_OK)
        cluster->calls->end();
    if (status != DL_OK) {
        cluster->calls = NULL;
        cluster->rank = launcher.rank;
        cluster->size = 1;
        return status;
    }
    if (cluster->size == 1) return DL_OK;
    status = introduce(cluster, err);
    if (status == DL_OK && cluster->rank > 0) status = be_silent(err);
    return status;
}

/* A rank's status in an agreement. */
typedef struct verdict {
    dl_status status;
    dl_error error;
} verdict;

dl_status dl_cluster_agree(dl_cluster *cluster, dl_status status, dl_error *err)
{
    if (cluster->size == 1 || cluster->failed || cluster->calls == NULL) return status;
    verdict mine = {.status = status};
    DL_AUTOFREE verdict *all = NULL;
    if (status != DL_OK && err != NULL) mine.error = *err;
    all = dl_calloc((size_t)cluster->size, sizeof *all, "errors of ranks");
    dl_error failure = {0};
    if (cluster->calls->all_gather(&mine, all, sizeof mine, &failure) != DL_OK) {
        cluster->failed = true;
        if (status == DL_OK && err != NULL) *err = failure;
        return status != DL_OK ? status : DL_ERR_SYSTEM;
    }
    for (int r = 0; r < cluster->size && !cluster->failed; r++) {
        if (all[r].status == DL_OK) continue;
        cluster->failed = true;
        if (status != DL_OK) break;
        status = all[r].status;
        if (err == NULL) break;
        *err = all[r].error;
        snprintf(err->text, sizeof err->text, "rank %d on %s: %.400s", r, cluster->hosts[r],
                 all[r].error.text);
    }
    return status;
}

dl_status dl_cluster_same(dl_cluster *cluster, unsigned long long key, const char *what,
                          dl_error *err)
{
    if (cluster->size == 1) return DL_OK;
    DL_AUTOFREE unsigned long long *all =
        dl_calloc((size_t)cluster->size, sizeof *all, "keys of ranks");
    dl_status status = cluster->calls->all_gather(&key, all, sizeof key, err);
    for (int r = 1; r < cluster->size && status == DL_OK; r++) {
        if (all[r] == all[0]) continue;
        status = dl_error_set(err, DL_ERR_DATA, "%s of rank %d on %s differs from that of rank 0",
                              what, r, cluster->hosts[r]);
    }
    if (status != DL_OK) cluster->failed = true;
    return status;
}

int dl_cluster_end(dl_cluster *cluster, dl_status status, dl_error *err, const char *program)
{
    status = dl_cluster_agree(cluster, status, err);
    if (cluster->calls != NULL) cluster->calls->end();
    free(cluster->hosts);
    cluster->hosts = NULL;
    if (cluster->rank > 0) return 0;
    if (status != DL_OK) dl_error_print(err, program, stderr);
    return dl_status_exit_code(status);
}
