/* The ranks of a run: processes, on one machine or several, that share the workers of a training
 * run and exchange with one another.
 *
 * A group is made by what connects the processes (kernels/ranks/mpi_ranks.c), and used through its
 * functions. All ranks must make the same calls in the same order, each from one thread at a time.
 * When a rank is lost, every call of that time and all later ones fail in every other rank, and
 * say which rank it was. */
#ifndef DL_KERNELS_RANK_GROUP_H
#define DL_KERNELS_RANK_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/cluster.h"
#include "common/status.h"
#include "kernels/precision.h"

#define DL_RANKS_MAX 256

typedef struct dl_rank_group dl_rank_group;

/* The functions fail with DL_ERR_SYSTEM: a rank was lost. */
struct dl_rank_group {
    int rank, size;             /* 0 <= rank < size, 1 <= size <= DL_RANKS_MAX */
    int local_rank, local_size; /* among the ranks on the same host (of that name), by rank */
    bool own_cores;             /* no other rank on this host may run on this one's cores */
    double limit_s;             /* longest wait for another rank */

    /* result[count] = sum over all ranks, in their order, of their vectors[0..n-1], in their order,
     * / of (as dl_exchange_sum); the same bits on all ranks, and as in one process. All give the
     * same n >= 1, `of`, count and precision. `result` is none of the vectors. */
    dl_status (*sum)(dl_rank_group *group, void *result, const void *const *vectors, int n, int of,
                     size_t count, dl_precision precision, dl_error *err) DL_MUST_CHECK;

    /* All meet, and *any is whether any of them gave `mine`. */
    dl_status (*agree)(dl_rank_group *group, bool mine, bool *any, dl_error *err) DL_MUST_CHECK;

    /* Rank 0's data[bytes] to all. */
    dl_status (*broadcast)(dl_rank_group *group, void *data, size_t bytes,
                           dl_error *err) DL_MUST_CHECK;

    /* Every rank's own data[bytes] to rank 0, at all + rank * bytes; `all` may be NULL elsewhere.
     */
    dl_status (*gather)(dl_rank_group *group, const void *data, void *all, size_t bytes,
                        dl_error *err) DL_MUST_CHECK;

    /* Whether a rank is lost, as far as can be known at once. Any thread, also while another one is
     * in a call. */
    bool (*lost)(dl_rank_group *group);

    /* This rank has failed: so do all calls of the other ranks, with its text, and its own ones.
     * Any thread, also while another one is in a call. */
    void (*abandon)(dl_rank_group *group, const dl_error *failure);

    /* Ends this rank's part and frees the group. After a run that went well (`failure` NULL) waits
     * until all other ranks end theirs; else as `abandon`. */
    void (*leave)(dl_rank_group *group, const dl_error *failure);
};

#define DL_RANK_LIMIT_MAX_S 1e6 /* some days */

/* Starts MPI and makes the group of the processes that `launcher` has started, which must have MPI.
 * `settings` is what all must agree in: other words than rank 0's are DL_ERR_DATA on all ranks.
 * *group is released with its `leave`. DL_ERR_RANGE for a limit outside 0 ... DL_RANK_LIMIT_MAX_S
 * and for more ranks than DL_RANKS_MAX, DL_ERR_SYSTEM if MPI fails or a rank is lost,
 * DL_ERR_UNSUPPORTED where there is no MPI. After a failure the process should end. */
dl_status dl_rank_group_join(dl_rank_group **group, const dl_launcher *launcher,
                             const char *settings, double limit_s, dl_error *err) DL_MUST_CHECK;

/* The same for the library DL_CLUSTER_LIBRARY, where it has the name DL_RANK_ENTRY. */
typedef struct dl_rank_settings {
    double limit_s;
    const char *settings;
    const char *version; /* dl_version() of the program; another one is DL_ERR_UNSUPPORTED */
    void (*add)(void *result, const void *const *vectors, int n, int of, size_t first, size_t count,
                dl_precision precision); /* dl_exchange_sum */
} dl_rank_settings;

#define DL_RANK_ENTRY "dl_mpi_ranks_join"
typedef dl_status (*dl_rank_join_function)(dl_rank_group **group, const dl_rank_settings *settings,
                                           dl_error *err);

#endif
