/* Inside of rank groups: the group as rank_group.c uses it and rank_join.c makes it. */
#ifndef DL_KERNELS_RANK_INTERNAL_H
#define DL_KERNELS_RANK_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/ranks/rank_group.h"

struct dl_rank_group {
    int rank, size, local_rank, local_size;
    double limit_s;
    char (*hosts)[DL_RANK_HOST_BYTES]; /* [size] */
    int prev, next;                    /* connections from rank - 1 and to rank + 1; -1: none */
    bool next_left;                    /* the next rank has ended its part */
    uint64_t operation;                /* calls so far: all ranks count alike */
    const void **list;                 /* of vectors, [list_count] */
    int list_count;
    atomic_bool failed;
    dl_error failure; /* why; set before `failed` */
};

/* Finds the other ranks and connects the ring. */
dl_status dl_rank_find(dl_rank_group *group, const dl_rank_settings *settings,
                       dl_error *err) DL_MUST_CHECK;

#endif
