/* The ranks of a run: processes, on one machine or several, that exchange through TCP.
 *
 * They find one another at an address that all know: rank 0 listens there, the others connect and
 * introduce themselves; rank 0 sends all where the others listen, and each connects to the next
 * one:
 *
 *   0 -> 1 -> 2 -> ... -> size-1 -> 0
 *
 * All that is exchanged goes along this ring, in pieces, so that all links work at once. A sum
 * starts at rank 0 and is added to in the order of the ranks, then goes round again as the result:
 * so it has the same bits as the sum that one process takes of the same vectors in their order. The
 * price: a link carries each vector twice, where a ring that starts everywhere (reduce-scatter)
 * carries 2 (size - 1) / size of it; half of that with 2 ranks, 3/4 with 4.
 *
 * All ranks must make the same calls in the same order, each from one thread at a time. Who finds a
 * neighbour gone notifies its other neighbour; from then on every call fails in every rank, and
 * says which rank was lost. Nobody waits longer than the time limit for anything to arrive.
 *
 * Messages are not encrypted, and say who they come from, but do not prove it: for the networks of
 * clusters. Machines must have the same order of bytes and the same floating-point format. */
#ifndef DL_KERNELS_RANK_GROUP_H
#define DL_KERNELS_RANK_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/precision.h"

#define DL_RANKS_MAX 256
#define DL_RANK_HOST_BYTES 256
#define DL_RANK_LIMIT_MAX_S 1e6 /* some days */

typedef struct dl_rank_group dl_rank_group;

typedef struct dl_rank_settings {
    int rank, size;   /* 0 <= rank < size, 1 <= size <= DL_RANKS_MAX */
    const char *host; /* where rank 0 listens: a name or an address, */
    int port;         /* and 1..65535 */
    double
        limit_s; /* > 0, to DL_RANK_LIMIT_MAX_S; longest wait for another rank, to come and later */
    const char *run;      /* names the run; who names another one is turned away */
    const char *settings; /* what all ranks must agree in; another text is an error of all */
} dl_rank_settings;

/* Waits for all ranks and connects them. *group is released with dl_rank_group_leave. DL_ERR_RANGE
 * for bad numbers, DL_ERR_NAME if the host has no address, DL_ERR_DATA if the ranks do not agree,
 * DL_ERR_SYSTEM if one does not come within the limit or the port is taken. */
dl_status dl_rank_group_join(dl_rank_group **group, const dl_rank_settings *settings,
                             dl_error *err) DL_MUST_CHECK;

/* Ends this rank's part. After a run that went well on all ranks waits, within the limit, for both
 * neighbours to end theirs, and its other end is no loss to them; else they find it gone. NULL is
 * fine. */
void dl_rank_group_leave(dl_rank_group *group, bool well);

/* Any thread, also while another one is in a call: takes this rank out at once, as if it had ended
 * without a word. */
void dl_rank_group_abandon(dl_rank_group *group);

int dl_rank_group_rank(const dl_rank_group *group);
int dl_rank_group_size(const dl_rank_group *group);
double dl_rank_group_limit_s(const dl_rank_group *group);
/* Among the ranks on the same host (of the same host name), by rank. */
int dl_rank_group_local_rank(const dl_rank_group *group);
int dl_rank_group_local_size(const dl_rank_group *group);

/* result[count] = sum over all ranks, in their order, of their vectors[0..n-1], in their order, /
 * of (as dl_exchange_sum); the same bits on all ranks. All give the same n >= 1, `of`, count and
 * precision. `result` is none of the vectors. DL_ERR_SYSTEM: a rank was lost. */
dl_status dl_rank_group_sum(dl_rank_group *group, void *result, const void *const *vectors, int n,
                            int of, size_t count, dl_precision precision,
                            dl_error *err) DL_MUST_CHECK;

/* All meet, and *any is whether any of them gave `mine`. */
dl_status dl_rank_group_agree(dl_rank_group *group, bool mine, bool *any,
                              dl_error *err) DL_MUST_CHECK;

/* Rank 0's data[bytes] to all. */
dl_status dl_rank_group_broadcast(dl_rank_group *group, void *data, size_t bytes,
                                  dl_error *err) DL_MUST_CHECK;

/* Every rank's own data[bytes] to rank 0, at all + rank * bytes; `all` may be NULL elsewhere. */
dl_status dl_rank_group_gather(dl_rank_group *group, const void *data, void *all, size_t bytes,
                               dl_error *err) DL_MUST_CHECK;

/* Whether a rank is lost or has left, as far as can be known without waiting. Any thread, also
 * while another one is in a call. */
bool dl_rank_group_lost(dl_rank_group *group);

#endif
