/* Compares the speed of dlsim with that of others that do the same work (tests/sim/peers.h), in one
 * run, so that other load on the machine affects all alike: SimGrid, if this was built with it, and
 * programs written for that work alone, which a general simulator can hardly beat. Also compares an
 * event of the engine with one of the faster of two bare queues. Times are medians of five runs,
 * SimGrid's of one. Not a test: it only prints.
 *
 *   bench_peers [GPUS of the ring, 512] [WORKERS of the server, 1024]...
 *
 * With a server of 2048 workers SimGrid takes 40 s or more.
 */
#include <math.h>

#include "common/random.h"
#include "common/units.h"
#include "sim/engine.h"
#include "tests/sim/peers.h"

/* --- queues ---------------------------------------------------------------------------------- */

/* An event of the bare queues: 16 bytes. */
typedef struct item {
    int64_t time_ns;
    int64_t index;
} item;

typedef struct heap {
    item *items;
    int count;
} heap;

static void heap_push(heap *h, item e)
{
    int i = h->count++;
    for (; i > 0 && h->items[(i - 1) / 4].time_ns > e.time_ns; i = (i - 1) / 4)
        h->items[i] = h->items[(i - 1) / 4];
    h->items[i] = e;
}

static item heap_pop(heap *h)
{
    const item top = h->items[0], last = h->items[--h->count];
    int i = 0;
    for (int child; (child = 4 * i + 1) < h->count;) {
        const int end = child + 4 < h->count ? child + 4 : h->count;
        int least = child;
        for (int c = child + 1; c < end; c++)
            least = h->items[c].time_ns < h->items[least].time_ns ? c : least;
        if (last.time_ns <= h->items[least].time_ns) break;
        h->items[i] = h->items[least];
        i = least;
    }
    h->items[i] = last;
    return top;
}

/* A ladder queue (Tang, Goh & Thng 2005) of one rung after another: events far ahead are unsorted,
 * are spread over buckets when their time comes, and only one bucket at a time is sorted. */
typedef struct bucket {
    item *items;
    int count, room;
} bucket;

typedef struct rung {
    bucket *buckets;
    int count, room, at, pending;
    int64_t start_ns, width_ns;
} rung;

#define RUNGS 8
#define SORTED_MAX 48

typedef struct ladder {
    bucket far, bottom; /* bottom: sorted, the earliest last */
    int64_t far_start_ns, far_least_ns, far_most_ns;
    rung rungs[RUNGS];
    int rung_count;
} ladder;

static void append(bucket *b, item e)
{
    if (b->count == b->room) {
        b->room = b->room > 0 ? 2 * b->room : 8;
        b->items = dl_realloc(b->items, (size_t)b->room, sizeof *b->items, "bucket");
    }
    b->items[b->count++] = e;
}

static int place_in(const rung *r, int64_t time_ns)
{
    const int64_t place = (time_ns - r->start_ns) / r->width_ns;
    return place < 0 ? 0 : place < r->count ? (int)place : r->count - 1;
}

static void put_sorted(bucket *b, item e)
{
    append(b, e);
    int i = b->count - 1;
    for (; i > 0 && b->items[i - 1].time_ns < e.time_ns; i--)
        b->items[i] = b->items[i - 1];
    b->items[i] = e;
}

static void ladder_push(ladder *l, item e)
{
    if (e.time_ns >= l->far_start_ns) {
        if (e.time_ns < l->far_least_ns) l->far_least_ns = e.time_ns;
        if (e.time_ns > l->far_most_ns) l->far_most_ns = e.time_ns;
        append(&l->far, e);
        return;
    }
    for (int i = 0; i < l->rung_count; i++) {
        rung *r = &l->rungs[i];
        const int place = place_in(r, e.time_ns);
        if (place < r->at) continue;
        append(&r->buckets[place], e);
        r->pending++;
        return;
    }
    put_sorted(&l->bottom, e);
}

/* Spreads a bucket over a new rung of as many as it has events. */
static void add_rung(ladder *l, bucket *from, int64_t start_ns, int64_t span_ns)
{
    rung *r = &l->rungs[l->rung_count++];
    const int count = from->count;
    if (r->room < count) {
        r->buckets = dl_realloc(r->buckets, (size_t)count, sizeof *r->buckets, "buckets");
        memset(r->buckets + r->room, 0, (size_t)(count - r->room) * sizeof *r->buckets);
        r->room = count;
    }
    r->start_ns = start_ns;
    r->width_ns = span_ns / count + 1;
    r->count = r->pending = count;
    r->at = 0;
    for (int i = 0; i < count; i++)
        append(&r->buckets[place_in(r, from->items[i].time_ns)], from->items[i]);
    from->count = 0;
}

static void refill(ladder *l)
{
    while (l->rung_count > 0 && l->rungs[l->rung_count - 1].pending == 0)
        l->rung_count--;
    if (l->rung_count == 0) {
        add_rung(l, &l->far, l->far_least_ns, l->far_most_ns - l->far_least_ns);
        l->far_start_ns = l->far_most_ns + 1;
        l->far_least_ns = INT64_MAX;
        l->far_most_ns = INT64_MIN;
    }
    rung *r = &l->rungs[l->rung_count - 1];
    while (r->buckets[r->at].count == 0)
        r->at++;
    bucket *b = &r->buckets[r->at];
    const int64_t start_ns = r->start_ns + r->at * r->width_ns;
    r->at++;
    r->pending -= b->count;
    if (b->count > SORTED_MAX && l->rung_count < RUNGS && r->width_ns > 1) {
        add_rung(l, b, start_ns, r->width_ns);
        refill(l);
        return;
    }
    for (int i = 0; i < b->count; i++)
        put_sorted(&l->bottom, b->items[i]);
    b->count = 0;
}

static item ladder_pop(ladder *l)
{
    if (l->bottom.count == 0) refill(l);
    return l->bottom.items[--l->bottom.count];
}

/* Exponential times to the next event, made beforehand: all queues get the same. */
enum { DELAYS = 1 << 16, HOLDS = 2000000 };

static int64_t *make_delays(int pending)
{
    int64_t *delays_ns = dl_calloc(DELAYS, sizeof *delays_ns, "delays");
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    for (int i = 0; i < DELAYS; i++)
        delays_ns[i] = 1 + (int64_t)(-1000.0 * pending * log1p(-dl_random_uniform(&random)));
    return delays_ns;
}

typedef struct holds {
    dl_engine engine;
    const int64_t *delays_ns;
    unsigned drawn;
    int64_t left;
} holds;

static void hold(void *user, int index)
{
    holds *h = user;
    if (--h->left == 0) h->engine.stopped = true;
    dl_engine_after(&h->engine, h->delays_ns[h->drawn++ % DELAYS], hold, h, index);
}

/* Times in ns of an event: the engine's, the heap's, the ladder's. */
static void time_queues(int pending, double ns[3])
{
    int64_t *delays_ns = make_delays(pending);
    unsigned drawn = 0;
    holds h = {.delays_ns = delays_ns};
    heap bare = {.items = dl_calloc((size_t)pending + 1, sizeof(item), "heap")};
    ladder l = {.far_start_ns = INT64_MIN, .far_least_ns = INT64_MAX, .far_most_ns = INT64_MIN};
    dl_engine_init(&h.engine, pending + 1);
    for (int i = 0; i < pending; i++) {
        const int64_t start_ns = delays_ns[drawn++ % DELAYS];
        dl_engine_after(&h.engine, start_ns, hold, &h, i);
        heap_push(&bare, (item){start_ns, i});
        ladder_push(&l, (item){start_ns, i});
    }
    for (int part = 0; part < 2; part++) { /* the first one to warm up */
        const int64_t count = part == 0 ? 2 * (int64_t)pending : HOLDS;
        int64_t start_ns = dl_clock_ns();
        h.left = count;
        h.engine.stopped = false;
        dl_engine_run(&h.engine);
        ns[0] = (double)(dl_clock_ns() - start_ns) / (double)count;
        start_ns = dl_clock_ns();
        for (int64_t i = 0; i < count; i++) {
            item e = heap_pop(&bare);
            e.time_ns += delays_ns[drawn++ % DELAYS];
            heap_push(&bare, e);
        }
        ns[1] = (double)(dl_clock_ns() - start_ns) / (double)count;
        start_ns = dl_clock_ns();
        for (int64_t i = 0; i < count; i++) {
            item e = ladder_pop(&l);
            e.time_ns += delays_ns[drawn++ % DELAYS];
            ladder_push(&l, e);
        }
        ns[2] = (double)(dl_clock_ns() - start_ns) / (double)count;
    }
    dl_engine_free(&h.engine);
    free(bare.items);
    free(l.far.items);
    free(l.bottom.items);
    for (int i = 0; i < RUNGS; i++) {
        for (int b = 0; b < l.rungs[i].room; b++)
            free(l.rungs[i].buckets[b].items);
        free(l.rungs[i].buckets);
    }
    free(delays_ns);
}

static void compare_queues(void)
{
    static const int pending[] = {1000, 100000, 1000000};
    printf(
        "one event                     engine   4-ary heap       ladder   engine over fastest\n");
    for (size_t i = 0; i < DL_LENGTH(pending); i++) {
        double ns[3];
        time_queues(pending[i], ns);
        printf("%8d pending         %9.1f ns %9.1f ns %9.1f ns   %.2f\n", pending[i], ns[0], ns[1],
               ns[2], ns[0] / fmin(ns[1], ns[2]));
    }
}

/* --- programs for one work ------------------------------------------------------------------- */

/* A rank is at its rounds or at its computation, whose end is the event with index >= workers. */
static int64_t ring_alone_ns(const peer_case *of, const double *factors)
{
    const int n = of->workers, rounds = 2 * (n - 1);
    const int64_t piece_ns =
        (int64_t)ceil(PEER_BYTES / n / PEER_PORT_BYTES_PER_S * 1e9) + 2 * PEER_PORT_NS;
    heap h = {.items = dl_calloc(2 * (size_t)n, sizeof(item), "heap")};
    DL_AUTOFREE int *sent = dl_calloc((size_t)n, sizeof *sent, "ranks"),
                    *got = dl_calloc((size_t)n, sizeof *got, "ranks");
    DL_AUTOFREE int *step = dl_calloc((size_t)n, sizeof *step, "ranks");
    DL_AUTOFREE bool *sends = dl_calloc((size_t)n, sizeof *sends, "ranks"),
                     *computes = dl_calloc((size_t)n, sizeof *computes, "ranks");
    int64_t now_ns = 0;
    for (int i = 0; i < n; i++) {
        computes[i] = true;
        heap_push(&h, (item){(int64_t)(PEER_COMPUTE_NS * factors[i * of->steps]), n + i});
    }
    while (h.count > 0) {
        const item e = heap_pop(&h);
        const int rank = (int)(e.index % n), next = rank + 1 < n ? rank + 1 : 0;
        const int concerned[] = {rank, next};
        now_ns = e.time_ns;
        if (e.index >= n) {
            computes[rank] = false;
        } else {
            sends[rank] = false;
            sent[rank]++;
            got[next]++;
        }
        for (int c = 0; c < 2; c++) {
            const int i = concerned[c];
            if (sends[i] || computes[i] || got[i] < sent[i] || step[i] == of->steps) continue;
            if (sent[i] < (step[i] + 1) * rounds) {
                sends[i] = true;
                heap_push(&h, (item){now_ns + piece_ns, i});
            } else if (++step[i] < of->steps) {
                computes[i] = true;
                heap_push(&h, (item){now_ns + (int64_t)(PEER_COMPUTE_NS *
                                                        factors[i * of->steps + step[i]]),
                                     n + i});
            }
        }
    }
    free(h.items);
    return now_ns;
}

/* A way that all copies on it share evenly: bytes of each since the start tell when one ends. */
typedef struct shared_way {
    heap marks; /* index: worker; its time is a mark in thousandths of a byte */
    double moved;
    int64_t since_ns;
} shared_way;

static void move_on(shared_way *way, int64_t now_ns)
{
    if (way->marks.count > 0)
        way->moved +=
            (double)(now_ns - way->since_ns) * 1e-9 * PEER_PORT_BYTES_PER_S / way->marks.count;
    way->since_ns = now_ns;
}

static int64_t next_end_ns(const shared_way *way)
{
    if (way->marks.count == 0) return INT64_MAX;
    const double left = (double)way->marks.items[0].time_ns * 1e-3 - way->moved;
    return way->since_ns +
           (int64_t)ceil(fmax(0, left) * way->marks.count / PEER_PORT_BYTES_PER_S * 1e9);
}

/* Until the first worker has done its steps: the others only end the one that they are in, as in
 * dlsim. */
static int64_t server_alone_ns(const peer_case *of, const double *factors)
{
    enum { COMPUTED, AT_SERVER, AT_WORKER };
    const int n = of->workers;
    heap h = {.items = dl_calloc((size_t)n + 1, sizeof(item), "heap")};
    shared_way ways[2] = {{.moved = 0}, {.moved = 0}};
    DL_AUTOFREE int *step = dl_calloc((size_t)n, sizeof *step, "workers");
    bool over = false;
    int64_t now_ns = 0;
    for (int w = 0; w < 2; w++)
        ways[w].marks.items = dl_calloc((size_t)n + 1, sizeof(item), "copies");
    for (int i = 0; i < n; i++)
        heap_push(&h, (item){(int64_t)(PEER_COMPUTE_NS * factors[i * of->steps]), 3 * (int64_t)i});
    for (;;) {
        const int64_t event_ns = h.count > 0 ? h.items[0].time_ns : INT64_MAX;
        const int64_t in_ns = next_end_ns(&ways[0]), out_ns = next_end_ns(&ways[1]);
        int worker = -1;
        if (event_ns == INT64_MAX && in_ns == INT64_MAX && out_ns == INT64_MAX) break;
        if (event_ns <= in_ns && event_ns <= out_ns) {
            const item e = heap_pop(&h);
            now_ns = e.time_ns;
            worker = (int)(e.index / 3);
            const int what = (int)(e.index % 3);
            if (what == COMPUTED) {
                heap_push(&h, (item){now_ns + 2 * PEER_PORT_NS, e.index + 1});
                continue;
            }
            shared_way *way = &ways[what - 1];
            move_on(way, now_ns);
            heap_push(&way->marks, (item){(int64_t)((way->moved + PEER_BYTES) * 1e3), worker});
            continue;
        }
        shared_way *way = &ways[in_ns <= out_ns ? 0 : 1];
        now_ns = in_ns <= out_ns ? in_ns : out_ns;
        move_on(way, now_ns);
        worker = (int)heap_pop(&way->marks).index;
        if (way == &ways[0]) {
            heap_push(&h, (item){now_ns + 2 * PEER_PORT_NS, 3 * (int64_t)worker + AT_WORKER});
            continue;
        }
        over |= ++step[worker] == of->steps;
        if (!over)
            heap_push(&h, (item){now_ns + (int64_t)(PEER_COMPUTE_NS *
                                                    factors[(size_t)worker * (size_t)of->steps +
                                                            (size_t)step[worker]]),
                                 3 * (int64_t)worker});
    }
    free(h.items);
    free(ways[0].marks.items);
    free(ways[1].marks.items);
    return now_ns;
}

/* --- all ------------------------------------------------------------------------------------- */

enum { RUNS = 5 };

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* In seconds, of RUNS times: a run of milliseconds is slower or faster by half. */
static double median_s(int64_t *times_ns)
{
    qsort(times_ns, RUNS, sizeof *times_ns, compare_times);
    return dl_ns_to_s((double)times_ns[RUNS / 2]);
}

static void compare_work(const char *name, const peer_case *of)
{
    int64_t times_ns[RUNS], simulated_ns = 0;
    dl_run_result result = {0};
    for (int i = 0; i < RUNS; i++) {
        dl_run_result_free(&result);
        const int64_t start_ns = dl_clock_ns();
        result = peer_simulate(of);
        times_ns[i] = dl_clock_ns() - start_ns;
    }
    const double own_s = median_s(times_ns);
    printf("%s, %d GPUs, %d steps       simulated        run    over dlsim\n", name, of->workers,
           of->steps);
    printf("  dlsim                    %11.6f s %10.4f s\n", result.span_s, own_s);
    dl_run_result_free(&result);
    if (of->work != PEER_BOX_RING) { /* pieces share links there: not written for it alone */
        double *factors = peer_samples(of);
        for (int i = 0; i < RUNS; i++) {
            const int64_t start_ns = dl_clock_ns();
            simulated_ns =
                of->work == PEER_SERVER ? server_alone_ns(of, factors) : ring_alone_ns(of, factors);
            times_ns[i] = dl_clock_ns() - start_ns;
        }
        const double floor_s = median_s(times_ns);
        free(factors);
        printf("  for this work alone      %11.6f s %10.4f s   %8.2f\n",
               dl_ns_to_s((double)simulated_ns), floor_s, floor_s / own_s);
    }
#ifdef PEER_SIMGRID
    double simgrid_s = 0, run_s = 0;
    if (peer_simgrid(of, "", &simgrid_s, &run_s)) {
        printf("  SimGrid (LV08)           %11.6f s %10.4f s   %8.1f\n", simgrid_s, run_s,
               run_s / own_s);
    }
#else
    printf("  SimGrid                  was not there when this was built\n");
#endif
}

int main(int argc, char **argv)
{
    const int ring = argc > 1 ? atoi(argv[1]) : 512;
    for (int i = 2; i < argc; i++)
        if (atoi(argv[i]) < 2) return 2;
    if (ring < 2) return 2;
    compare_queues();
    compare_work("ring", &(peer_case){PEER_RING, ring, 10});
    compare_work("unequal GPUs, ring", &(peer_case){PEER_UNEQUAL_RING, ring, 10});
    compare_work("PCIe trees, ring", &(peer_case){PEER_BOX_RING, ring, 10});
    if (argc <= 2) compare_work("server", &(peer_case){PEER_SERVER, 1024, 10});
    for (int i = 2; i < argc; i++)
        compare_work("server", &(peer_case){PEER_SERVER, atoi(argv[i]), 10});
    return 0;
}
