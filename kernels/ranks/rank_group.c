#include "kernels/ranks/rank_group.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "kernels/exchange.h"
#include "kernels/ranks/rank_inside.h"

/* Bytes of a piece that goes along the ring: so many that the header and the calls of the system
 * are little beside it, so few that a vector of 1 MB keeps several links busy at once. */
#define PIECE_BYTES ((size_t)128 << 10)

int dl_rank_group_rank(const dl_rank_group *group)
{
    return group->rank;
}

int dl_rank_group_size(const dl_rank_group *group)
{
    return group->size;
}

double dl_rank_group_limit_s(const dl_rank_group *group)
{
    return group->limit_s;
}

int dl_rank_group_local_rank(const dl_rank_group *group)
{
    return group->local_rank;
}

int dl_rank_group_local_size(const dl_rank_group *group)
{
    return group->local_size;
}

/* Begins an operation, unless the group has failed before. */
static dl_status begin(dl_rank_group *group)
{
    if (atomic_load(&group->failed)) return group->failure.code;
    group->operation++;
    return DL_OK;
}

/* Ends it: tells the caller why it failed. */
static dl_status end(const dl_rank_group *group, dl_status status, dl_error *err)
{
    if (status != DL_OK && err != NULL) *err = group->failure;
    return status;
}

/* Piece after piece of data[bytes]: taken from the rank before unless this one is `from`, given to
 * the next one unless that is. */
static dl_status pass_round(dl_rank_group *group, int from, void *data, size_t bytes)
{
    dl_status status = DL_OK;
    for (size_t first = 0; status == DL_OK && first < bytes; first += PIECE_BYTES) {
        const size_t size = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
        char *piece = (char *)data + first;
        if (group->rank != from) status = dl_rank_receive_piece(group, piece, size, NULL);
        if (status == DL_OK && dl_rank_next(group) != from) {
            status = dl_rank_send_piece(group, piece, size, false);
        }
    }
    return status;
}

/* Adds up along the ring: at the last rank the result is complete. */
static dl_status add_up(dl_rank_group *group, void *result, int n, int of, size_t count,
                        dl_precision precision)
{
    const bool first_rank = group->rank == 0, last_rank = group->rank == group->size - 1;
    const size_t bytes = dl_precision_bytes(precision), at_once = PIECE_BYTES / bytes;
    const void *const *list = group->list + first_rank; /* [0] is the sum so far */
    dl_status status = DL_OK;
    for (size_t first = 0; status == DL_OK && first < count; first += at_once) {
        const size_t size = count - first < at_once ? count - first : at_once;
        char *piece = (char *)result + first * bytes;
        if (!first_rank) status = dl_rank_receive_piece(group, piece, size * bytes, NULL);
        if (status != DL_OK) break;
        dl_exchange_sum(result, list, n + !first_rank, last_rank ? of : 1, first, size, precision);
        if (!last_rank) status = dl_rank_send_piece(group, piece, size * bytes, false);
    }
    return status;
}

dl_status dl_rank_group_sum(dl_rank_group *group, void *result, const void *const *vectors, int n,
                            int of, size_t count, dl_precision precision, dl_error *err)
{
    dl_status status = begin(group);
    if (status != DL_OK) return end(group, status, err);
    if (group->list_count < n + 1) {
        group->list_count = n + 1;
        group->list =
            dl_realloc(group->list, (size_t)n + 1, sizeof *group->list, "vectors of a sum");
    }
    group->list[0] = result;
    memcpy(group->list + 1, vectors, (size_t)n * sizeof *vectors);
    status = add_up(group, result, n, of, count, precision);
    if (status == DL_OK) {
        status = pass_round(group, group->size - 1, result, count * dl_precision_bytes(precision));
    }
    return end(group, status, err);
}

dl_status dl_rank_group_agree(dl_rank_group *group, bool mine, bool *any, dl_error *err)
{
    const int last = group->size - 1;
    bool flag = mine;
    dl_status status = begin(group);
    if (status == DL_OK && group->rank > 0) status = dl_rank_receive_piece(group, NULL, 0, &flag);
    if (status == DL_OK && group->rank < last) status = dl_rank_send_piece(group, NULL, 0, flag);
    /* The last one knows, and tells. */
    if (status == DL_OK && group->rank < last)
        status = dl_rank_receive_piece(group, NULL, 0, &flag);
    if (status == DL_OK && last > 0 && dl_rank_next(group) != last) {
        status = dl_rank_send_piece(group, NULL, 0, flag);
    }
    if (status == DL_OK) *any = flag;
    return end(group, status, err);
}

dl_status dl_rank_group_broadcast(dl_rank_group *group, void *data, size_t bytes, dl_error *err)
{
    dl_status status = begin(group);
    if (status == DL_OK) status = pass_round(group, 0, data, bytes);
    return end(group, status, err);
}

/* Rank 1's goes to rank 2, which passes it on behind its own, and so on to rank 0: in the order
 * size - 1, ..., 1. */
dl_status dl_rank_group_gather(dl_rank_group *group, const void *data, void *all, size_t bytes,
                               dl_error *err)
{
    dl_status status = begin(group);
    const int passed = group->rank > 0 ? group->rank - 1 : group->size - 1;
    char *block = dl_calloc(1, bytes, "what the ranks gather");
    if (group->rank == 0) memcpy(all, data, bytes);
    for (int i = group->rank == 0; status == DL_OK && i <= passed; i++) {
        const int of = group->rank == 0 ? group->size - i : group->rank - i;
        char *at = group->rank == 0 ? (char *)all + (size_t)of * bytes : block;
        for (size_t first = 0; status == DL_OK && first < bytes; first += PIECE_BYTES) {
            const size_t size = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
            if (i == 0) memcpy(at + first, (const char *)data + first, size);
            if (i > 0) status = dl_rank_receive_piece(group, at + first, size, NULL);
            if (status == DL_OK && group->rank > 0) {
                status = dl_rank_send_piece(group, at + first, size, false);
            }
        }
    }
    free(block);
    return end(group, status, err);
}

void dl_rank_group_leave(dl_rank_group *group, bool well)
{
    if (group == NULL) return;
    if (well && group->next >= 0 && group->prev >= 0 && !atomic_load(&group->failed))
        dl_rank_part(group);
    if (group->next >= 0) close(group->next);
    if (group->prev >= 0) close(group->prev);
    free(group->list);
    free(group->hosts);
    free(group);
}

static dl_status check_settings(const dl_rank_settings *settings, dl_error *err)
{
    if (settings->size < 1 || settings->size > DL_RANKS_MAX) {
        return dl_error_set(err, DL_ERR_RANGE, "%d ranks; must be 1 to %d", settings->size,
                            DL_RANKS_MAX);
    }
    if (settings->rank < 0 || settings->rank >= settings->size) {
        return dl_error_set(err, DL_ERR_RANGE, "rank %d of %d; they count from 0", settings->rank,
                            settings->size);
    }
    if (!(settings->limit_s > 0) || settings->limit_s > DL_RANK_LIMIT_MAX_S) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "a time limit of %g s; must be above 0, and %g at most",
                            settings->limit_s, DL_RANK_LIMIT_MAX_S);
    }
    if (settings->size > 1 && (settings->port < 1 || settings->port > UINT16_MAX)) {
        return dl_error_set(err, DL_ERR_RANGE, "port %d; must be 1 to %d", settings->port,
                            UINT16_MAX);
    }
    return DL_OK;
}

dl_status dl_rank_group_join(dl_rank_group **group, const dl_rank_settings *settings, dl_error *err)
{
    dl_status status = check_settings(settings, err);
    if (status != DL_OK) return status;
    dl_rank_group *made = dl_calloc(1, sizeof *made, "group of ranks");
    *made = (dl_rank_group){.rank = settings->rank,
                            .size = settings->size,
                            .limit_s = settings->limit_s,
                            .prev = -1,
                            .next = -1};
    made->hosts = dl_calloc((size_t)settings->size, sizeof *made->hosts, "hosts of ranks");
    if (settings->size == 1) {
        made->local_size = 1;
    } else {
        status = dl_rank_find(made, settings, err);
    }
    if (status == DL_OK) {
        *group = made;
    } else {
        dl_rank_group_leave(made, false);
    }
    return status;
}
