/* Ranks started by mpirun, or another launcher of MPI, and their exchange through MPI.
 *
 * A sum of vectors has the same bits as in one process. With n vectors on each of `size` ranks:
 *
 *   n = 1   an all-to-all gives each rank its piece of every vector, which it sums in the order of
 *           the ranks; an all-gather then distributes the sums. A rank sends 2 (size - 1) / size of
 *           a vector, the minimum
 *   n > 1   the sum of each piece passes from rank to rank, and each rank adds its vectors; then
 *           the result passes on from the last rank to the others: a rank sends at most two vectors
 *           (one with 2 ranks), for any n; all to all would send
 *           (n + 1) (size - 1) / size.
 *
 * No call blocks inside MPI: requests are tested, and between the tests each rank checks whether
 * another one is lost. A rank that fails sends its reason to all others. When a rank's process
 * ends, another rank on the same host notices and notifies the rest. No rank waits longer than the
 * time limit. (When a rank dies, mpirun asks all to end, and then kills them: Open MPI 4 two
 * seconds after the death, Open MPI 5 after 0.4 s, as measured with 5.0.7.) */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/options.h"
#include "common/units.h"
#include "kernels/ranks/rank_group.h"

#define HOST_BYTES 256

/* Longest wait for an answer from ranks that are in an exchange themselves. */
#define CALL_S 1.0

/* Longest wait for notices to leave this process; Open MPI 5 kills the others soon after. */
#define NOTICE_S 0.1

/* Interval between checks that this host's processes exist, which are system calls. */
#define LOOK_NS 20000000

/* After a wait this long, the core is yielded between two tests, for NAP_NS each time. */
#define PATIENCE_NS 1000000
#define NAP_NS 50000

/* Numbers of a vector per block: one block is summed while the next is in flight. */
#define BLOCK_NUMBERS ((size_t)1 << 20)

/* Pieces of the result in flight at the same time. */
#define WINDOW 8

/* Maximum bytes that one rank sends another in one message. */
#define SLICE_BYTES ((size_t)1 << 26)

enum { TAG_SUM = 1, TAG_RESULT, TAG_GATHER, TAG_NOTICE, TAG_CALL };

enum { ABANDONED_NOT, ABANDONED_SOON, ABANDONED_NOW };

/* Host, process and cores of one rank, known to all ranks. */
typedef struct member {
    char host[HOST_BYTES];
    pid_t pid;
    cpu_set_t cores;
} member;

/* A rank's last message. */
typedef struct notice {
    bool stays; /* the sender waits until all others have received it */
    char text[DL_ERROR_TEXT_BYTES];
} notice;

typedef struct mpi_ranks {
    dl_rank_group base;
    pthread_mutex_t mutex; /* guards all calls of MPI */
    MPI_Comm exchange, notices;
    bool owns_mpi;
    void (*add)(void *result, const void *const *vectors, int n, int of, size_t first, size_t count,
                dl_precision precision); /* dl_exchange_sum */
    member *members;                     /* [size] */
    bool sees_processes;                 /* processes of this host are visible by their pids */
    int64_t looked_ns;
    notice heard, last; /* last: sent when this rank fails, perhaps after end_group has returned */
    MPI_Request hearing, called[DL_RANKS_MAX]; /* receives of a notice from any rank, and of a call
                                                * from each rank */
    void *buffer;                              /* pieces received from other ranks */
    size_t buffer_bytes;
    atomic_int abandoned; /* this process has failed; NOW: `reason` is set */
    dl_error reason;
    atomic_bool failed; /* once true, MPI is no longer called, since the buffers of its requests may
                         * be gone */
    dl_error failure;   /* the reason; set before `failed` */
} mpi_ranks;

static mpi_ranks *of_group(dl_rank_group *group)
{
    return (mpi_ranks *)group;
}

static int64_t after(double seconds)
{
    return dl_clock_ns() + dl_ns_ceil(dl_s_to_ns(seconds));
}

static MPI_Datatype type_of(dl_precision precision)
{
    return precision == DL_FLOAT ? MPI_FLOAT : MPI_DOUBLE;
}

/* Returns the first rank of this host whose process has ended; -1 if there is none. */
static int ended_process(mpi_ranks *g)
{
    const dl_rank_group *base = &g->base;
    const int64_t now_ns = dl_clock_ns();
    if (!g->sees_processes || now_ns - g->looked_ns < LOOK_NS) return -1;
    g->looked_ns = now_ns;
    for (int r = 0; r < base->size; r++) {
        if (r == base->rank || strcmp(g->members[r].host, g->members[base->rank].host) != 0)
            continue;
        if (kill(g->members[r].pid, 0) != 0 && errno == ESRCH) return r;
    }
    return -1;
}

/* Yields the core, for longer after a longer wait. */
static void pause_for(int64_t waited_ns)
{
    if (waited_ns > PATIENCE_NS) {
        (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    } else {
        (void)sched_yield();
    }
}

/* Waits up to the deadline without checking the other ranks; false if requests are still open. */
static bool wait_briefly(MPI_Request *requests, int count, int64_t deadline_ns)
{
    int done = 0;
    while (MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS && !done &&
           dl_clock_ns() < deadline_ns) {
        (void)sched_yield();
    }
    return done != 0;
}

/* Ignores SIGTERM: when one rank has ended, mpirun sends it to all before it kills them, which
 * leaves time to report the reason of a failure. */
static void outlast_request(void)
{
    (void)signal(SIGTERM, SIG_IGN);
}

/* Ends the group, which has failed for the reason `text`. `notifies`: this rank tells the others.
 * `stays`: all ranks, including the failed one, wait until every rank has heard of it. */
static dl_status end_group(mpi_ranks *g, bool notifies, bool stays, const char *text)
{
    MPI_Request sent[DL_RANKS_MAX];
    int count = 0;
    outlast_request();
    g->last.stays = stays;
    snprintf(g->last.text, sizeof g->last.text, "%s", text);
    const dl_status status = dl_error_set(&g->failure, DL_ERR_SYSTEM, "%s", text);
    for (int r = 0; notifies && r < g->base.size; r++) {
        if (r == g->base.rank) continue;
        count += MPI_Isend(&g->last, sizeof g->last, MPI_BYTE, r, TAG_NOTICE, g->notices,
                           &sent[count]) == MPI_SUCCESS;
    }
    (void)wait_briefly(sent, count, after(NOTICE_S));
    MPI_Request all;
    if (stays && MPI_Ibarrier(g->notices, &all) == MPI_SUCCESS) {
        const int64_t deadline_ns = after(g->base.limit_s);
        while (!wait_briefly(&all, 1, dl_clock_ns() + LOOK_NS) && dl_clock_ns() < deadline_ns &&
               ended_process(g) < 0) {}
    }
    atomic_store(&g->failed, true);
    return status;
}

static dl_status fail(mpi_ranks *g, const char *format, ...) DL_PRINTF(2, 3);

static dl_status fail(mpi_ranks *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *text = dl_vformat(format, args);
    va_end(args);
    return end_group(g, true, false, text);
}

static dl_status mpi_failed(mpi_ranks *g, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    (void)MPI_Error_string(code, text, &length);
    return fail(g, "rank %d on %s: %s", g->base.rank, g->members[g->base.rank].host, text);
}

/* Reports that this rank has failed. */
static dl_status give_up(mpi_ranks *g)
{
    const dl_error *why = &g->reason;
    DL_AUTOFREE char *text =
        dl_format("rank %d on %s has failed: %s%s%s", g->base.rank, g->members[g->base.rank].host,
                  why->file, why->file[0] != '\0' ? ": " : "", why->text);
    return end_group(g, true, true, text);
}

/* Checks whether another rank is lost: a notice has arrived, or a process has ended. A notice takes
 * precedence, since it names the rank that failed first. */
static dl_status look(mpi_ranks *g)
{
    if (atomic_load(&g->abandoned) == ABANDONED_NOW) return give_up(g);
    const int ended = ended_process(g);
    int heard = 0;
    const int code = MPI_Test(&g->hearing, &heard, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return mpi_failed(g, code);
    if (heard) return end_group(g, false, g->heard.stays, g->heard.text);
    if (ended < 0) return DL_OK;
    return fail(g, "rank %d on %s has gone: its process has ended", ended, g->members[ended].host);
}

/* Returns a list of the ranks that do not answer, as "rank 2 on node1, rank 3 on node2"; free() it.
 * Every rank has posted a receive from each other rank, which MPI completes as long as the
 * receiving rank calls MPI. */
static char *names_of_silent(mpi_ranks *g)
{
    MPI_Request calls[DL_RANKS_MAX];
    char *text = dl_strdup("");
    for (int r = 0; r < g->base.size; r++) {
        calls[r] = MPI_REQUEST_NULL;
        if (r != g->base.rank)
            (void)MPI_Issend(NULL, 0, MPI_BYTE, r, TAG_CALL, g->notices, &calls[r]);
    }
    (void)wait_briefly(calls, g->base.size, after(CALL_S));
    for (int r = 0; r < g->base.size; r++) {
        int done = 1;
        (void)MPI_Request_get_status(calls[r], &done, MPI_STATUS_IGNORE);
        if (done) continue;
        dl_extend(&text, "%srank %d on %s", text[0] != '\0' ? ", " : "", r, g->members[r].host);
    }
    return text;
}

static dl_status late(mpi_ranks *g)
{
    DL_AUTOFREE char *names = names_of_silent(g);
    return names[0] != '\0'
               ? fail(g, "%.300s kept rank %d waiting for %g s: it hangs, or needs a longer limit",
                      names, g->base.rank, g->base.limit_s)
               : fail(g,
                      "an exchange of rank %d on %s has not ended within %g s, though all ranks "
                      "answer",
                      g->base.rank, g->members[g->base.rank].host, g->base.limit_s);
}

/* Waits for all requests. Requests of a failed group stay open. */
static dl_status wait_for(mpi_ranks *g, MPI_Request *requests, int count)
{
    const int64_t since_ns = dl_clock_ns(), deadline_ns = after(g->base.limit_s);
    for (;;) {
        int done = 0;
        const int code = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS) return mpi_failed(g, code);
        if (done) return DL_OK;
        const dl_status status = look(g);
        if (status != DL_OK) return status;
        const int64_t now_ns = dl_clock_ns();
        if (now_ns > deadline_ns) return late(g);
        pause_for(now_ns - since_ns);
    }
}

/* Starts a call, unless the group has already failed. */
static dl_status begin(mpi_ranks *g)
{
    pthread_mutex_lock(&g->mutex);
    if (atomic_load(&g->failed)) return g->failure.code;
    return atomic_load(&g->abandoned) == ABANDONED_NOW ? give_up(g) : DL_OK;
}

/* Ends a call; *err gets the reason if it failed. */
static dl_status end(mpi_ranks *g, dl_status status, dl_error *err)
{
    pthread_mutex_unlock(&g->mutex);
    if (status != DL_OK && err != NULL) *err = g->failure;
    return status;
}

/* Converts MPI's result of starting an operation to a status. */
static dl_status started(mpi_ranks *g, int code)
{
    return code == MPI_SUCCESS ? DL_OK : mpi_failed(g, code);
}

/* Replaces *number by its smallest or largest over all ranks. */
static dl_status reduce(mpi_ranks *g, int *number, MPI_Op by, dl_error *err)
{
    MPI_Request request;
    dl_status status = begin(g);
    if (status == DL_OK) {
        status =
            started(g, MPI_Iallreduce(MPI_IN_PLACE, number, 1, MPI_INT, by, g->exchange, &request));
    }
    if (status == DL_OK) status = wait_for(g, &request, 1);
    return end(g, status, err);
}

static dl_status agree(dl_rank_group *group, bool mine, bool *any, dl_error *err)
{
    int flag = mine;
    const dl_status status = reduce(of_group(group), &flag, MPI_MAX, err);
    if (status == DL_OK) *any = flag != 0;
    return status;
}

static dl_status broadcast_from(mpi_ranks *g, int rank, void *data, size_t bytes, dl_error *err)
{
    MPI_Request request;
    DL_ASSERT(bytes <= INT_MAX, "%zu bytes", bytes);
    dl_status status = begin(g);
    if (status == DL_OK) {
        status = started(g, MPI_Ibcast(data, (int)bytes, MPI_BYTE, rank, g->exchange, &request));
    }
    if (status == DL_OK) status = wait_for(g, &request, 1);
    return end(g, status, err);
}

static dl_status broadcast(dl_rank_group *group, void *data, size_t bytes, dl_error *err)
{
    return broadcast_from(of_group(group), 0, data, bytes, err);
}

/* Gathers bytes first ... first + size - 1 of every rank's data at rank 0. */
static dl_status gather_slice(mpi_ranks *g, const char *data, char *all, size_t bytes, size_t first,
                              size_t size)
{
    MPI_Request requests[DL_RANKS_MAX];
    int count = 0;
    dl_status status = DL_OK;
    if (g->base.rank == 0) {
        memcpy(all + first, data + first, size);
        for (int r = 1; status == DL_OK && r < g->base.size; r++) {
            status = started(g, MPI_Irecv(all + (size_t)r * bytes + first, (int)size, MPI_BYTE, r,
                                          TAG_GATHER, g->exchange, &requests[count++]));
        }
    } else {
        status = started(g, MPI_Isend(data + first, (int)size, MPI_BYTE, 0, TAG_GATHER, g->exchange,
                                      &requests[count++]));
    }
    return status == DL_OK ? wait_for(g, requests, count) : status;
}

static dl_status gather(dl_rank_group *group, const void *data, void *all, size_t bytes,
                        dl_error *err)
{
    mpi_ranks *g = of_group(group);
    dl_status status = begin(g);
    for (size_t first = 0; status == DL_OK && first < bytes; first += SLICE_BYTES) {
        const size_t size = bytes - first < SLICE_BYTES ? bytes - first : SLICE_BYTES;
        status = gather_slice(g, data, all, bytes, first, size);
    }
    return end(g, status, err);
}

/* Operations in flight; the oldest is waited for before there are more than WINDOW. */
typedef struct window {
    MPI_Request at[WINDOW];
    int next;
} window;

static void open_window(window *w)
{
    w->next = 0;
    for (int i = 0; i < WINDOW; i++)
        w->at[i] = MPI_REQUEST_NULL;
}

static dl_status make_room(mpi_ranks *g, window *w, MPI_Request **room)
{
    *room = &w->at[w->next];
    w->next = (w->next + 1) % WINDOW;
    return wait_for(g, *room, 1);
}

/* Division of a block over the ranks: how many numbers this rank sends to and receives from each
 * rank, and their offsets. No rank sends to itself. */
typedef struct division {
    int pieces[DL_RANKS_MAX], starts[DL_RANKS_MAX];
    int sent[DL_RANKS_MAX], received[DL_RANKS_MAX], places[DL_RANKS_MAX];
} division;

static void divide(const dl_rank_group *group, size_t count, division *d)
{
    const size_t size = (size_t)group->size, rank = (size_t)group->rank;
    for (size_t r = 0; r < size; r++) {
        d->starts[r] = (int)(count * r / size);
        d->pieces[r] = (int)(count * (r + 1) / size - count * r / size);
        d->sent[r] = r != rank ? d->pieces[r] : 0;
    }
    for (size_t r = 0; r < size; r++) {
        d->received[r] = r != rank ? d->pieces[rank] : 0;
        d->places[r] = (int)r * d->pieces[rank];
    }
}

/* State of a sum of one vector per rank. The pieces of two blocks are in flight at a time. */
typedef struct pieces {
    mpi_ranks *group;
    char *result;
    const char *vector;
    int of;
    size_t count, bytes; /* count: numbers of the vector; bytes: size of one number */
    dl_precision precision;
    division whole, rest; /* divisions of a block of BLOCK_NUMBERS, and of the last block */
    MPI_Request exchanged[2];
    window gathered;
} pieces;

static const division *division_of(const pieces *p, size_t first)
{
    return p->count - first < BLOCK_NUMBERS ? &p->rest : &p->whole;
}

static char *place_of(const pieces *p, size_t first)
{
    const size_t half = p->group->buffer_bytes / 2;
    return (char *)p->group->buffer + first / BLOCK_NUMBERS % 2 * half;
}

static dl_status exchange_pieces(pieces *p, size_t first)
{
    if (first >= p->count) return DL_OK;
    const division *d = division_of(p, first);
    const MPI_Datatype type = type_of(p->precision);
    return started(p->group,
                   MPI_Ialltoallv(p->vector + first * p->bytes, d->sent, d->starts, type,
                                  place_of(p, first), d->received, d->places, type,
                                  p->group->exchange, &p->exchanged[first / BLOCK_NUMBERS % 2]));
}

static dl_status sum_and_gather(pieces *p, size_t first)
{
    const division *d = division_of(p, first);
    const dl_rank_group *group = &p->group->base;
    const int rank = group->rank;
    const size_t own = (first + (size_t)d->starts[rank]) * p->bytes;
    const void *list[DL_RANKS_MAX];
    MPI_Request *room;
    for (int r = 0; r < group->size; r++) {
        list[r] =
            r == rank ? p->vector + own : place_of(p, first) + (size_t)d->places[r] * p->bytes;
    }
    p->group->add(p->result + own, list, group->size, p->of, 0, (size_t)d->pieces[rank],
                  p->precision);
    const dl_status status = make_room(p->group, &p->gathered, &room);
    if (status != DL_OK) return status;
    return started(p->group, MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL,
                                             p->result + first * p->bytes, d->pieces, d->starts,
                                             type_of(p->precision), p->group->exchange, room));
}

static dl_status sum_pieces(mpi_ranks *g, void *result, const void *vector, int of, size_t count,
                            dl_precision precision)
{
    pieces p = {.group = g,
                .result = result,
                .vector = vector,
                .of = of,
                .count = count,
                .bytes = dl_precision_bytes(precision),
                .precision = precision};
    const size_t largest = count < BLOCK_NUMBERS ? count : BLOCK_NUMBERS;
    divide(&g->base, BLOCK_NUMBERS, &p.whole);
    divide(&g->base, count % BLOCK_NUMBERS, &p.rest);
    open_window(&p.gathered);
    /* Two blocks in flight, each with the largest piece of every rank. */
    const size_t needed = 2 * (largest + (size_t)g->base.size) * p.bytes;
    if (g->buffer_bytes < needed) {
        free(g->buffer);
        g->buffer = dl_alloc_aligned(needed, "pieces of other ranks");
        g->buffer_bytes = needed;
    }
    dl_status status = exchange_pieces(&p, 0);
    for (size_t first = 0; status == DL_OK && first < count; first += BLOCK_NUMBERS) {
        status = exchange_pieces(&p, first + BLOCK_NUMBERS);
        if (status == DL_OK) status = wait_for(g, &p.exchanged[first / BLOCK_NUMBERS % 2], 1);
        if (status == DL_OK) status = sum_and_gather(&p, first);
    }
    return status == DL_OK ? wait_for(g, p.gathered.at, WINDOW) : status;
}

/* Numbers per piece passed along the ranks: few enough that all ranks work simultaneously. */
static size_t numbers_at_once(size_t count)
{
    const size_t least = BLOCK_NUMBERS / 32, share = count / 16;
    if (share < least) return least;
    return share < BLOCK_NUMBERS ? share : BLOCK_NUMBERS;
}

/* State of a sum of several vectors per rank. */
typedef struct chain {
    mpi_ranks *group;
    char *result;
    size_t count, at_once, bytes;
    MPI_Datatype type;
    MPI_Request taken, given;
    window received, forwarded; /* pieces of the result */
    size_t places[WINDOW];      /* [WINDOW] positions of the pieces being received; NONE: none */
} chain;

#define NONE SIZE_MAX

static int numbers_of(const chain *c, size_t first)
{
    return (int)(c->count - first < c->at_once ? c->count - first : c->at_once);
}

/* Receives a piece of the sum from the previous rank. */
static dl_status take(chain *c, size_t first)
{
    const int rank = c->group->base.rank;
    if (rank == 0 || first >= c->count) return DL_OK;
    return started(c->group, MPI_Irecv(c->result + first * c->bytes, numbers_of(c, first), c->type,
                                       rank - 1, TAG_SUM, c->group->exchange, &c->taken));
}

/* Sends a piece of the sum to the next rank. */
static dl_status give(chain *c, size_t first)
{
    const int rank = c->group->base.rank;
    if (rank == c->group->base.size - 1) return DL_OK;
    return started(c->group, MPI_Isend(c->result + first * c->bytes, numbers_of(c, first), c->type,
                                       rank + 1, TAG_SUM, c->group->exchange, &c->given));
}

/* Forwards a piece of the result to the next rank, unless that is the last one, which made it. */
static dl_status forward(chain *c, size_t first)
{
    const dl_rank_group *group = &c->group->base;
    const int next = (group->rank + 1) % group->size;
    MPI_Request *room;
    if (next == group->size - 1) return DL_OK;
    const dl_status status = make_room(c->group, &c->forwarded, &room);
    if (status != DL_OK) return status;
    return started(c->group, MPI_Isend(c->result + first * c->bytes, numbers_of(c, first), c->type,
                                       next, TAG_RESULT, c->group->exchange, room));
}

/* Waits for the piece that has been in flight longest, and forwards it; *room becomes its request,
 * which is free again. */
static dl_status finish_oldest(chain *c, MPI_Request **room)
{
    const int slot = c->received.next;
    const size_t first = c->places[slot];
    c->places[slot] = NONE;
    const dl_status status = make_room(c->group, &c->received, room);
    return status == DL_OK && first != NONE ? forward(c, first) : status;
}

/* Distributes the result of the piece at `first`, after its sum has been passed on. */
static dl_status share_out(chain *c, size_t first)
{
    const dl_rank_group *group = &c->group->base;
    const int before = (group->rank + group->size - 1) % group->size;
    MPI_Request *room;
    if (group->rank == group->size - 1) return forward(c, first);
    dl_status status = wait_for(c->group, &c->given, 1);
    const int slot = c->received.next;
    if (status == DL_OK) status = finish_oldest(c, &room);
    if (status != DL_OK) return status;
    c->places[slot] = first;
    return started(c->group, MPI_Irecv(c->result + first * c->bytes, numbers_of(c, first), c->type,
                                       before, TAG_RESULT, c->group->exchange, room));
}

static dl_status sum_along(mpi_ranks *g, void *result, const void *const *vectors, int n, int of,
                           size_t count, dl_precision precision)
{
    const bool first_rank = g->base.rank == 0, last_rank = g->base.rank == g->base.size - 1;
    chain c = {.group = g,
               .result = result,
               .count = count,
               .at_once = numbers_at_once(count),
               .bytes = dl_precision_bytes(precision),
               .type = type_of(precision),
               .taken = MPI_REQUEST_NULL,
               .given = MPI_REQUEST_NULL};
    DL_AUTOFREE const void **list = dl_calloc((size_t)n + 1, sizeof *list, "vectors of a sum");
    list[0] = result; /* the sum so far */
    memcpy(list + 1, vectors, (size_t)n * sizeof *vectors);
    open_window(&c.received);
    open_window(&c.forwarded);
    for (int i = 0; i < WINDOW; i++)
        c.places[i] = NONE;
    dl_status status = take(&c, 0);
    for (size_t first = 0; status == DL_OK && first < count; first += c.at_once) {
        status = wait_for(g, &c.taken, 1);
        if (status == DL_OK) status = take(&c, first + c.at_once);
        if (status != DL_OK) break;
        g->add(result, list + first_rank, n + !first_rank, last_rank ? of : 1, first,
               (size_t)numbers_of(&c, first), precision);
        /* The previous piece: its transfer to the next rank was hidden by this one's sum. */
        if (first > 0) status = share_out(&c, first - c.at_once);
        if (status == DL_OK) status = give(&c, first);
    }
    if (status == DL_OK) status = share_out(&c, (count - 1) / c.at_once * c.at_once);
    MPI_Request *room;
    for (int i = 0; status == DL_OK && i < WINDOW; i++)
        status = finish_oldest(&c, &room);
    if (status == DL_OK) status = wait_for(g, c.forwarded.at, WINDOW);
    return status;
}

static dl_status sum(dl_rank_group *group, void *result, const void *const *vectors, int n, int of,
                     size_t count, dl_precision precision, dl_error *err)
{
    mpi_ranks *g = of_group(group);
    dl_status status = begin(g);
    if (status == DL_OK && count > 0) {
        status = n == 1 ? sum_pieces(g, result, vectors[0], of, count, precision)
                        : sum_along(g, result, vectors, n, of, count, precision);
    }
    return end(g, status, err);
}

/* A thread that is in a call does the check itself. */
static bool lost(dl_rank_group *group)
{
    mpi_ranks *g = of_group(group);
    if (!atomic_load(&g->failed) && pthread_mutex_trylock(&g->mutex) == 0) {
        if (!atomic_load(&g->failed) && look(g) != DL_OK) {
            DL_ASSERT(atomic_load(&g->failed), "lost, but rank %d goes on", group->rank);
        }
        pthread_mutex_unlock(&g->mutex);
    }
    return atomic_load(&g->failed);
}

/* If another thread is in a call, that thread reports the failure. */
static void abandon(dl_rank_group *group, const dl_error *failure)
{
    mpi_ranks *g = of_group(group);
    int not_yet = ABANDONED_NOT;
    if (!atomic_compare_exchange_strong(&g->abandoned, &not_yet, ABANDONED_SOON)) return;
    g->reason = *failure;
    atomic_store(&g->abandoned, ABANDONED_NOW);
    (void)lost(group);
}

/* Length of the word of `text` that starts there, up to the next blank or the end. */
static int word_bytes(const char *text)
{
    return (int)strcspn(text, " ");
}

/* Names the first word in which the settings differ from rank 0's. */
static void describe_difference(const mpi_ranks *g, const char *own, const char *first,
                                dl_error *err)
{
    while (*own != '\0' && word_bytes(own) == word_bytes(first) &&
           strncmp(own, first, (size_t)word_bytes(own)) == 0) {
        own += word_bytes(own);
        first += word_bytes(first);
        own += *own == ' ';
        first += *first == ' ';
    }
    if (*own == '\0') own = "nothing";
    if (*first == '\0') first = "nothing";
    (void)dl_error_set(err, DL_ERR_DATA,
                       "rank %d on %s was started with other options than rank 0, or is of another "
                       "version: %.*s, not %.*s",
                       g->base.rank, g->members[g->base.rank].host, word_bytes(own), own,
                       word_bytes(first), first);
}

static dl_status compare_settings(mpi_ranks *g, const char *settings, dl_error *err)
{
    size_t length = strlen(settings) + 1, of_first = length;
    dl_status status = broadcast(&g->base, &of_first, sizeof of_first, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE char *first = dl_calloc(1, of_first, "settings of rank 0");
    if (g->base.rank == 0) memcpy(first, settings, length);
    status = broadcast(&g->base, first, of_first, err);
    int differing = g->base.size; /* lowest rank whose settings differ */
    if (status == DL_OK && strcmp(first, settings) != 0) differing = g->base.rank;
    if (status == DL_OK) status = reduce(g, &differing, MPI_MIN, err);
    if (status != DL_OK || differing == g->base.size) return status;
    outlast_request();
    dl_error difference = {0};
    if (g->base.rank == differing) describe_difference(g, settings, first, &difference);
    status = broadcast_from(g, differing, difference.text, sizeof difference.text, err);
    if (status != DL_OK) return status;
    (void)reduce(g, &differing, MPI_MIN, err); /* no rank leaves before all have the text */
    return dl_error_set(err, DL_ERR_DATA, "%s", difference.text);
}

/* Finds the host, process and cores of each rank. */
static dl_status find_members(mpi_ranks *g)
{
    dl_rank_group *base = &g->base;
    member *own = &g->members[base->rank];
    MPI_Request request;
    (void)gethostname(own->host, sizeof own->host - 1);
    own->pid = getpid();
    (void)sched_getaffinity(0, sizeof own->cores, &own->cores);
    dl_status status = started(g, MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, g->members,
                                                 sizeof *own, MPI_BYTE, g->exchange, &request));
    if (status == DL_OK) status = wait_for(g, &request, 1);
    base->own_cores = true;
    bool seen = status == DL_OK;
    for (int r = 0; status == DL_OK && r < base->size; r++) {
        const member *other = &g->members[r];
        if (strcmp(other->host, own->host) != 0) continue;
        base->local_size++;
        base->local_rank += r < base->rank;
        seen &= kill(other->pid, 0) == 0 || errno == EPERM;
        cpu_set_t both;
        CPU_AND(&both, &other->cores, &own->cores);
        if (r != base->rank && CPU_COUNT(&both) > 0) base->own_cores = false;
    }
    g->sees_processes = seen;
    return status;
}

static dl_status start_mpi(mpi_ranks *g, dl_error *err)
{
    int there = 0, given = MPI_THREAD_SINGLE;
    (void)MPI_Initialized(&there);
    int code = MPI_SUCCESS;
    if (there) {
        (void)MPI_Query_thread(&given);
    } else {
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
        g->owns_mpi = code == MPI_SUCCESS;
    }
    if (code == MPI_SUCCESS && given < MPI_THREAD_SERIALIZED) {
        return dl_error_set(err, DL_ERR_SYSTEM, "MPI cannot be called by several threads in turn");
    }
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &g->exchange);
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &g->notices);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(g->exchange, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(g->notices, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(g->exchange, &g->base.rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(g->exchange, &g->base.size);
    if (code == MPI_SUCCESS) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "MPI does not start: error %d", code);
}

static void end_well(mpi_ranks *g)
{
    bool any = false;
    if (agree(&g->base, false, &any, NULL) != DL_OK) return;
    (void)MPI_Cancel(&g->hearing);
    (void)MPI_Wait(&g->hearing, MPI_STATUS_IGNORE);
    for (int r = 0; r < g->base.size; r++) {
        if (g->called[r] == MPI_REQUEST_NULL) continue;
        (void)MPI_Cancel(&g->called[r]);
        (void)MPI_Wait(&g->called[r], MPI_STATUS_IGNORE);
    }
    (void)MPI_Comm_free(&g->notices);
    (void)MPI_Comm_free(&g->exchange);
    if (g->owns_mpi) (void)MPI_Finalize();
}

/* After a failure MPI is not finalized, which would wait forever for ranks that do not call it. */
static void leave(dl_rank_group *group, const dl_error *failure)
{
    DL_AUTOFREE mpi_ranks *g = of_group(group);
    if (failure == NULL) {
        end_well(g);
    } else if (!atomic_load(&g->failed)) {
        abandon(group, failure);
    }
    pthread_mutex_destroy(&g->mutex);
    free(g->buffer);
    free(g->members);
}

__attribute__((visibility("default"))) dl_status
dl_mpi_ranks_join(dl_rank_group **group, const dl_rank_settings *settings, dl_error *err);

dl_status dl_mpi_ranks_join(dl_rank_group **group, const dl_rank_settings *settings, dl_error *err)
{
    if (strcmp(settings->version, dl_version()) != 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "MPI's library is of version %s, not %s",
                            dl_version(), settings->version);
    }
    if (!(settings->limit_s > 0) || settings->limit_s > DL_RANK_LIMIT_MAX_S) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "a time limit of %g s; must be above 0, and %g at most",
                            settings->limit_s, DL_RANK_LIMIT_MAX_S);
    }
    mpi_ranks *g = dl_calloc(1, sizeof *g, "group of ranks");
    g->add = settings->add;
    for (int r = 0; r < DL_RANKS_MAX; r++)
        g->called[r] = MPI_REQUEST_NULL;
    g->base = (dl_rank_group){.limit_s = settings->limit_s,
                              .sum = sum,
                              .agree = agree,
                              .broadcast = broadcast,
                              .gather = gather,
                              .lost = lost,
                              .abandon = abandon,
                              .leave = leave};
    pthread_mutex_init(&g->mutex, NULL);
    dl_status status = start_mpi(g, err);
    if (status == DL_OK && g->base.size > DL_RANKS_MAX) {
        status = dl_error_set(err, DL_ERR_RANGE, "%d ranks; must be 1 to %d", g->base.size,
                              DL_RANKS_MAX);
    }
    if (status == DL_OK) {
        g->members = dl_calloc((size_t)g->base.size, sizeof *g->members, "ranks");
        status = started(g, MPI_Irecv(&g->heard, sizeof g->heard, MPI_BYTE, MPI_ANY_SOURCE,
                                      TAG_NOTICE, g->notices, &g->hearing));
        for (int r = 0; status == DL_OK && r < g->base.size; r++) {
            if (r != g->base.rank)
                status = started(
                    g, MPI_Irecv(NULL, 0, MPI_BYTE, r, TAG_CALL, g->notices, &g->called[r]));
        }
        if (status == DL_OK) status = find_members(g);
        if (status != DL_OK && err != NULL) *err = g->failure;
    }
    if (status == DL_OK) status = compare_settings(g, settings->settings, err);
    /* After a failure, memory that MPI may still write to is not freed. */
    if (status == DL_OK) *group = &g->base;
    return status;
}
