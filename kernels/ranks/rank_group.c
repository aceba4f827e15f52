/* A group of ranks: pieces along their ring, what one rank sends the others at its end, and the
 * exchanges that are made of them. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/exchange.h"
#include "kernels/ranks/rank_group.h"
#include "kernels/ranks/rank_internal.h"
#include "kernels/ranks/rank_socket.h"

/* Longest wait for the rest of a message that another rank has started to say its end with. */
#define LAST_WORDS_S 1.0

#define FRAME_MAGIC 0x4b52414eu

enum { FRAME_DATA = 1, FRAME_LOST, FRAME_LEFT };

/* Before each piece. DATA: of operation `operation`, `bytes` follow; `flag`: of
 * dl_rank_group_agree. LOST: the reason follows. LEFT: the rank has ended its part. */
typedef struct frame {
    uint32_t magic, kind, flag, unused;
    uint64_t operation, bytes;
} frame;

static int64_t deadline_ns_of(const dl_rank_group *group)
{
    return dl_clock_ns() + dl_ns_ceil(dl_s_to_ns(group->limit_s));
}

/* The neighbours. */
static int prev_rank(const dl_rank_group *group)
{
    return (group->rank + group->size - 1) % group->size;
}

static int next_rank(const dl_rank_group *group)
{
    return (group->rank + 1) % group->size;
}

/* Both neighbours may be notified at any time: what goes to `next` is broken off only where that
 * rank is gone or has said so itself. Whether they hear it is not waited for. */
static void notify_loss(dl_rank_group *group)
{
    char message[sizeof(frame) + DL_ERROR_TEXT_BYTES];
    const size_t bytes = strlen(group->failure.text);
    const frame head = {.magic = FRAME_MAGIC, .kind = FRAME_LOST, .bytes = bytes};
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, group->failure.text, bytes);
    (void)send(group->next, message, sizeof head + bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)send(group->prev, message, sizeof head + bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static dl_status fail(dl_rank_group *group, const char *format, ...) DL_PRINTF(2, 3);

static dl_status fail(dl_rank_group *group, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = dl_vformat(format, args);
    va_end(args);
    const dl_status status = dl_error_set(&group->failure, DL_ERR_SYSTEM, "%s", text);
    free(text);
    notify_loss(group);
    atomic_store(&group->failed, true);
    return status;
}

static dl_status gone(dl_rank_group *group, int rank)
{
    return fail(group, "rank %d on %s has gone: rank %d finds its connection closed", rank,
                group->hosts[rank], group->rank);
}

static dl_status late(dl_rank_group *group, int rank, const char *does)
{
    return fail(group, "rank %d on %s %s rank %d for %g s: it hangs, or waits for one that does",
                rank, group->hosts[rank], does, group->rank, group->limit_s);
}

/* Another rank's last words, whose header has come from `rank`. */
static dl_status hear_loss(dl_rank_group *group, int made, int rank, const frame *head)
{
    char text[DL_ERROR_TEXT_BYTES] = "";
    const size_t bytes = head->bytes < sizeof text ? (size_t)head->bytes : sizeof text - 1;
    const int64_t until_ns = dl_clock_ns() + dl_ns_ceil(dl_s_to_ns(LAST_WORDS_S));
    if (dl_rank_receive(made, text, bytes, until_ns) != DL_RANK_IO_DONE) return gone(group, rank);
    return fail(group, "%s", text);
}

/* The next rank says something, which it only does at its end. */
static dl_status hear_next(dl_rank_group *group)
{
    frame head;
    const int next = next_rank(group);
    const int64_t until_ns = dl_clock_ns() + dl_ns_ceil(dl_s_to_ns(LAST_WORDS_S));
    if (dl_rank_receive(group->next, &head, sizeof head, until_ns) != DL_RANK_IO_DONE) {
        return gone(group, next);
    }
    if (head.kind == FRAME_LOST) return hear_loss(group, group->next, next, &head);
    group->next_left = true;
    return DL_OK;
}

/* Waits until one of the connections is ready for `events`, and listens to the next rank meanwhile.
 */
static dl_status wait_for(dl_rank_group *group, int made, short events, int64_t deadline_ns)
{
    const bool to_next = made == group->next;
    for (;;) {
        struct pollfd wait[2] = {
            {.fd = made, .events = events},
            {.fd = group->next_left ? -1 : group->next, .events = POLLIN},
        };
        const int ready = poll(wait, 2, dl_rank_left_ms(deadline_ns));
        if (ready == 0 && to_next) return late(group, next_rank(group), "takes nothing from");
        if (ready == 0) return late(group, prev_rank(group), "sends nothing to");
        if (ready > 0 && wait[1].revents != 0) {
            const dl_status status = hear_next(group);
            if (status != DL_OK) return status;
        }
        if (ready > 0 && wait[0].revents != 0) return DL_OK;
    }
}

/* The deadline moves on with every byte. */
static dl_status receive(dl_rank_group *group, void *data, size_t bytes)
{
    int64_t deadline_ns = deadline_ns_of(group);
    for (size_t done = 0; done < bytes;) {
        const ssize_t moved = recv(group->prev, (char *)data + done, bytes - done, 0);
        if (moved > 0) {
            done += (size_t)moved;
            deadline_ns = deadline_ns_of(group);
            continue;
        }
        if (moved == 0 || !dl_rank_would_wait()) return gone(group, prev_rank(group));
        const dl_status status = wait_for(group, group->prev, POLLIN, deadline_ns);
        if (status != DL_OK) return status;
    }
    return DL_OK;
}

/* A closed connection to the next rank may still hold its last words. */
static dl_status next_closed(dl_rank_group *group)
{
    const dl_status status = group->next_left ? DL_OK : hear_next(group);
    return status != DL_OK ? status : gone(group, next_rank(group));
}

static dl_status send_parts(dl_rank_group *group, struct iovec *parts, size_t count)
{
    int64_t deadline_ns = deadline_ns_of(group);
    while (count > 0) {
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t moved = sendmsg(group->next, &message, MSG_NOSIGNAL);
        if (moved < 0 && !dl_rank_would_wait()) return next_closed(group);
        if (moved < 0) {
            const dl_status status = wait_for(group, group->next, POLLOUT, deadline_ns);
            if (status != DL_OK) return status;
            continue;
        }
        deadline_ns = deadline_ns_of(group);
        for (; count > 0 && (size_t)moved >= parts->iov_len; count--, parts++)
            moved -= (ssize_t)parts->iov_len;
        if (count == 0) break;
        parts->iov_base = (char *)parts->iov_base + moved;
        parts->iov_len -= (size_t)moved;
    }
    return DL_OK;
}

/* A piece of the present operation to the next rank; the same from the rank before, *flag (or NULL)
 * is set if it comes with one. Whatever goes wrong becomes the group's failure, and both neighbours
 * are notified. */
static dl_status send_piece(dl_rank_group *group, const void *data, size_t bytes, bool flag)
{
    frame head = {.magic = FRAME_MAGIC,
                  .kind = FRAME_DATA,
                  .flag = flag,
                  .operation = group->operation,
                  .bytes = bytes};
    struct iovec parts[2] = {{.iov_base = &head, .iov_len = sizeof head},
                             {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes}};
    return send_parts(group, parts, bytes > 0 ? 2 : 1);
}

static dl_status receive_piece(dl_rank_group *group, void *data, size_t bytes, bool *flag)
{
    frame head;
    const int from = prev_rank(group);
    const dl_status status = receive(group, &head, sizeof head);
    if (status != DL_OK) return status;
    if (head.magic == FRAME_MAGIC && head.kind == FRAME_LOST) {
        return hear_loss(group, group->prev, from, &head);
    }
    if (head.magic == FRAME_MAGIC && head.kind == FRAME_LEFT) {
        return fail(group, "rank %d on %s has ended its part, but rank %d has not", from,
                    group->hosts[from], group->rank);
    }
    if (head.magic != FRAME_MAGIC || head.kind != FRAME_DATA ||
        head.operation != group->operation || head.bytes != bytes) {
        return fail(group,
                    "ranks %d and %d do not do the same: operation %llu of %llu bytes meets "
                    "operation %llu of %zu bytes",
                    from, group->rank, (unsigned long long)head.operation,
                    (unsigned long long)head.bytes, (unsigned long long)group->operation, bytes);
    }
    if (flag != NULL && head.flag != 0) *flag = true;
    return receive(group, data, bytes);
}

void dl_rank_group_abandon(dl_rank_group *group)
{
    if (group->size == 1) return;
    (void)shutdown(group->next, SHUT_RDWR);
    (void)shutdown(group->prev, SHUT_RDWR);
}

bool dl_rank_group_lost(dl_rank_group *group)
{
    struct pollfd ends[2] = {{.fd = group->prev, .events = POLLRDHUP},
                             {.fd = group->next, .events = POLLRDHUP}};
    if (atomic_load(&group->failed)) return true;
    if (group->size == 1) return false;
    if (poll(ends, 2, 0) > 0) return true;
    for (int i = 0; i < 2; i++) {
        frame head;
        const ssize_t seen = recv(ends[i].fd, &head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
        if (seen == (ssize_t)sizeof head && head.magic == FRAME_MAGIC && head.kind == FRAME_LOST)
            return true;
    }
    return false;
}

/* Says goodbye to both neighbours and waits, within the limit, until both have. A connection that
 * is closed before all was read would take with it what is still under way. */
static void part(dl_rank_group *group)
{
    const frame left = {.magic = FRAME_MAGIC, .kind = FRAME_LEFT};
    const int ends[2] = {group->prev, group->next};
    const int64_t deadline_ns = deadline_ns_of(group);
    for (int i = 0; i < 2; i++) {
        (void)dl_rank_send(ends[i], &left, sizeof left, deadline_ns);
        (void)shutdown(ends[i], SHUT_WR);
    }
    for (int i = 0; i < 2; i++) {
        char byte;
        while (dl_rank_receive(ends[i], &byte, 1, deadline_ns) == DL_RANK_IO_DONE) {}
    }
}

/* Bytes of a piece that goes along the ring: enough that the header and the calls of the system
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

/* Starts an operation, unless the group has failed before. */
static dl_status begin(dl_rank_group *group)
{
    if (atomic_load(&group->failed)) return group->failure.code;
    group->operation++;
    return DL_OK;
}

/* Ends it: gives the caller the reason if it failed. */
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
        if (group->rank != from) status = receive_piece(group, piece, size, NULL);
        if (status == DL_OK && next_rank(group) != from) {
            status = send_piece(group, piece, size, false);
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
        if (!first_rank) status = receive_piece(group, piece, size * bytes, NULL);
        if (status != DL_OK) break;
        dl_exchange_sum(result, list, n + !first_rank, last_rank ? of : 1, first, size, precision);
        if (!last_rank) status = send_piece(group, piece, size * bytes, false);
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
    if (status == DL_OK && group->rank > 0) status = receive_piece(group, NULL, 0, &flag);
    if (status == DL_OK && group->rank < last) status = send_piece(group, NULL, 0, flag);
    /* The last one knows, and passes it on. */
    if (status == DL_OK && group->rank < last) status = receive_piece(group, NULL, 0, &flag);
    if (status == DL_OK && last > 0 && next_rank(group) != last) {
        status = send_piece(group, NULL, 0, flag);
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

/* Rank 1's goes to rank 2, which passes it on after its own, and so on to rank 0: in the order
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
            if (i > 0) status = receive_piece(group, at + first, size, NULL);
            if (status == DL_OK && group->rank > 0) {
                status = send_piece(group, at + first, size, false);
            }
        }
    }
    free(block);
    return end(group, status, err);
}

void dl_rank_group_leave(dl_rank_group *group, bool well)
{
    if (group == NULL) return;
    if (well && group->next >= 0 && group->prev >= 0 && !atomic_load(&group->failed)) part(group);
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
