/* The ranks of a run: processes, on one machine or several, that share the workers of a training
 * run and exchange with one another.
 *
 * The transport (kernels/ranks/mpi_ranks.c) makes a group, which is used through its functions. All
 * ranks must make the same calls in the same order, each from one thread at a time. When a rank is
 * lost, calls in progress and all later ones fail in every other rank, with an error that names the
 * lost rank. */
#ifndef DL_KERNELS_RANK_GROUP_H
#define DL_KERNELS_RANK_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/cluster.h"
#include "common/status.h"
#include "kernels/precision.h"

#define DL_RANKS_MAX 256

typedef struct dl_rank_group dl_rank_group;

/* Functions that return a status fail with DL_ERR_SYSTEM if a rank was lost. */
struct dl_rank_group {
    int rank, size;             /* 0 <= rank < size, 1 <= size <= DL_RANKS_MAX */
    int local_rank, local_size; /* among the ranks on the same host (by its name), in rank order */
    bool own_cores;             /* no other rank on this host may run on this rank's cores */
    double limit_s;             /* longest wait for another rank */

    /* result[count] = sum over all ranks, in order, of their vectors[0..n-1], in order, / of (as
     * dl_exchange_sum); the same bits on all ranks, and as in one process. All ranks pass the same
     * n >= 1, `of`, count and precision. `result` is none of the vectors. */
    dl_status (*sum)(dl_rank_group *group, void *result, const void *const *vectors, int n, int of,
                     size_t count, dl_precision precision, dl_error *err) DL_MUST_CHECK;

    /* A barrier of all ranks; sets *any to whether any rank passed `mine` = true. */
    dl_status (*agree)(dl_rank_group *group, bool mine, bool *any, dl_error *err) DL_MUST_CHECK;

    /* Sends rank 0's data[bytes] to all other ranks, which receive it in their data. */
    dl_status (*broadcast)(dl_rank_group *group, void *data, size_t bytes,
                           dl_error *err) DL_MUST_CHECK;

    /* Sends every rank's data[bytes] to rank 0, at all + rank * bytes; `all` may be NULL on other
     * ranks. */
    dl_status (*gather)(dl_rank_group *group, const void *data, void *all, size_t bytes,
                        dl_error *err) DL_MUST_CHECK;

    /* Returns, without waiting, whether a rank is known to be lost. Callable from any thread, also
     * while another thread is in a call. */
    bool (*lost)(dl_rank_group *group);

    /* Reports that this rank has failed: all calls of all ranks then fail, with the text of
     * `failure`. Callable from any thread, also while another thread is in a call. */
    void (*abandon)(dl_rank_group *group, const dl_error *failure);

    /* Ends this rank's part and frees the group. If `failure` is NULL (a successful run), first
     * waits until all other ranks end their parts; otherwise acts as `abandon`. */
    void (*leave)(dl_rank_group *group, const dl_error *failure);
};

#define DL_RANK_LIMIT_MAX_S 1e6 /* 12 days */

/* Starts MPI and makes the group of the processes that `launcher`, which must support MPI, has
 * started. All must pass the same `settings`: a text other than rank 0's is DL_ERR_DATA on all
 * ranks. *group is released with its `leave`. DL_ERR_RANGE for a limit outside 0 ...
 * DL_RANK_LIMIT_MAX_S and for more ranks than DL_RANKS_MAX, DL_ERR_SYSTEM if MPI fails or a rank is
 * lost, DL_ERR_UNSUPPORTED if there is no MPI. After a failure the process should end. */
dl_status dl_rank_group_join(dl_rank_group **group, const dl_launcher *launcher,
                             const char *settings, double limit_s, dl_error *err) DL_MUST_CHECK;

/* Arguments of DL_RANK_ENTRY in DL_CLUSTER_LIBRARY, which makes the group. */
typedef struct dl_rank_settings {
    double limit_s;
    const char *settings;
    const char *version; /* dl_version() of the program; DL_ERR_UNSUPPORTED if the library has
                          * another one */
    void (*add)(void *result, const void *const *vectors, int n, int of, size_t first, size_t count,
                dl_precision precision); /* dl_exchange_sum */
} dl_rank_settings;

#define DL_RANK_ENTRY "dl_mpi_ranks_join"
typedef dl_status (*dl_rank_join_function)(dl_rank_group **group, const dl_rank_settings *settings,
                                           dl_error *err);

#endif
