/* Launch edges, launch latencies and the spacing of works. */
#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/build_state.h"
#include "common/alloc.h"
#include "trace/distribution.h"

/* Works begin this long after the one before at most if they only waited for it; longer gaps have
 * another reason. Of traces of PyTorch on V100, A100 and MI300X the median is 0.5 to 2 us. */
#define LONGEST_SPACING_NS 20000

/* A launch on an idle stream begins its work this long after at most; later ones waited for
 * something else. */
#define LONGEST_LATENCY_NS 100000

/* Spacing varies with the device's clock and load, so it is typical for a part of the trace, if
 * that has enough works of the sort. */
#define WINDOW_NS 50000000
#define FEWEST_IN_WINDOW 16

/* What works are alike; all ids are below 2^32, kinds below 16. */
typedef struct sort_key {
    uint32_t call;   /* name of the call that launched it */
    uint32_t what;   /* of a kernel its name, of others their size in powers of two */
    uint32_t kinds;  /* its own, its direction and memory, the one's before */
    uint32_t window; /* 1.. = part of the trace; 0 = all of it */
} sort_key;

/* One value of a sort of works. */
typedef struct sample {
    sort_key sort;
    int64_t value_ns;
} sample;

typedef struct samples {
    sample *items; /* [count], sorted by sort and value once all are there */
    size_t count;
} samples;

static int compare_sorts(const sort_key *x, const sort_key *y)
{
    if (x->call != y->call) return x->call < y->call ? -1 : 1;
    if (x->kinds != y->kinds) return x->kinds < y->kinds ? -1 : 1;
    if (x->what != y->what) return x->what < y->what ? -1 : 1;
    return x->window < y->window ? -1 : x->window > y->window;
}

static int by_sort_and_value(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    int order = compare_sorts(&x->sort, &y->sort);
    if (order != 0) return order;
    return x->value_ns < y->value_ns ? -1 : x->value_ns > y->value_ns;
}

static void add_sample(samples *to, sort_key sort, int64_t value_ns)
{
    to->items[to->count++] = (sample){sort, value_ns > 0 ? value_ns : 0};
}

/* The mean of the sorted items[count] up to three medians. */
static int64_t trimmed_mean(const sample *items, size_t count)
{
    int64_t limit_ns = 3 * items[count / 2].value_ns + 1000, sum_ns = 0;
    size_t summed = 0;
    for (; summed < count && items[summed].value_ns <= limit_ns; summed++)
        sum_ns += items[summed].value_ns;
    return sum_ns / (int64_t)summed;
}

/* Replaces the samples by one of each sort, its typical value. */
static void condense(samples *s)
{
    qsort(s->items, s->count, sizeof *s->items, by_sort_and_value);
    size_t kept = 0;
    for (size_t first = 0, end; first < s->count; first = end) {
        sort_key sort = s->items[first].sort;
        for (end = first; end < s->count && compare_sorts(&s->items[end].sort, &sort) == 0;)
            end++;
        if (sort.window != 0 && end - first < FEWEST_IN_WINDOW) continue;
        int64_t value_ns = trimmed_mean(&s->items[first], end - first);
        s->items[kept++] = (sample){sort, value_ns};
    }
    s->count = kept;
}

/* First sample of `sort` or later. */
static size_t find_sort(const samples *in, const sort_key *sort)
{
    size_t low = 0, high = in->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_sorts(&in->items[middle].sort, sort) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Value of `sort` in its window, or in all of the trace, or of the sort nearest to it in order;
 * 0 without any. */
static int64_t typical(const samples *s, sort_key sort)
{
    size_t i = find_sort(s, &sort);
    if (i < s->count && compare_sorts(&s->items[i].sort, &sort) == 0) return s->items[i].value_ns;
    if (sort.window != 0) {
        sort.window = 0;
        return typical(s, sort);
    }
    return i > 0 ? s->items[i - 1].value_ns : s->count > 0 ? s->items[0].value_ns : 0;
}

static uint32_t kinds_of_work(const dl_activity *work)
{
    return (uint32_t)work->kind << 8 | (uint32_t)work->copy << 4 | work->memory;
}

static sort_key latency_sort(const dl_activity *work, const dl_activity *call)
{
    return (sort_key){.call = call->name, .kinds = kinds_of_work(work)};
}

/* Works of a launched graph follow one another faster than works launched one by one; kernels
 * differ by their parameters, copies by their sizes. */
static sort_key spacing_sort(const replay_builder *b, const dl_activity *before,
                             const dl_activity *work, const dl_activity *call)
{
    sort_key sort = {.call = call == NULL ? 0 : call->name,
                     .kinds = (uint32_t)before->kind << 16 | kinds_of_work(work)};
    sort.window = 1 + (uint32_t)((work->start_ns - b->begin_ns) / WINDOW_NS);
    if (work->kind == DL_ACTIVITY_KERNEL) {
        sort.what = work->name;
    } else {
        for (uint64_t bytes = work->bytes; bytes > 0; bytes /= 2)
            sort.what++;
    }
    return sort;
}

static const dl_activity *launch_of(const replay_builder *b, uint32_t node)
{
    uint32_t call = b->launcher[node - b->first_node];
    return call == DL_REPLAY_NONE ? NULL : &b->trace->activities[call];
}

static const dl_activity *work_of(const replay_builder *b, uint32_t node)
{
    return &b->trace->activities[b->graph->nodes[node].activity];
}

int64_t replay_work_end(const replay_builder *b, uint32_t node)
{
    const dl_activity *work = work_of(b, node);
    return work->start_ns + work->duration_ns;
}

/* Takes latency or spacing from one work, whichever held it back. */
static void sample_work(const replay_builder *b, uint32_t before, uint32_t node, samples *latency,
                        samples *spacing)
{
    const dl_activity *work = work_of(b, node), *call = launch_of(b, node);
    int64_t free_ns = before == DL_REPLAY_NONE ? INT64_MIN : replay_work_end(b, before);
    if (call != NULL && free_ns <= call->start_ns) {
        int64_t value_ns = work->start_ns - call->start_ns;
        if (value_ns < LONGEST_LATENCY_NS) add_sample(latency, latency_sort(work, call), value_ns);
        return;
    }
    if (before == DL_REPLAY_NONE) return;
    int64_t value_ns = work->start_ns - free_ns;
    bool early = call == NULL || call->start_ns < free_ns - LONGEST_SPACING_NS;
    if (!early || value_ns >= LONGEST_SPACING_NS) return;
    sort_key sort = spacing_sort(b, work_of(b, before), work, call);
    add_sample(spacing, sort, value_ns);
    sort.window = 0;
    add_sample(spacing, sort, value_ns);
}

/* Whether the host held the work back: it copied pageable memory to memory of its own before, or
 * its call took long (the first launch of a kernel loads its code), and the stream was idle. The
 * time until the device begins is the host's then, and kept as it is. */
static bool host_held(const replay_builder *b, uint32_t node, const dl_activity *call)
{
    const dl_activity *work = work_of(b, node);
    uint32_t before = b->graph->before[node];
    bool staged = work->kind == DL_ACTIVITY_MEMCPY && work->copy == DL_COPY_H2D &&
                  work->memory == DL_MEMORY_PAGEABLE;
    int64_t latency_ns = work->start_ns - call->start_ns;
    return (staged || call->duration_ns > LONGEST_LATENCY_NS) && latency_ns >= 0 &&
           latency_ns < call->duration_ns + LONGEST_LATENCY_NS &&
           (before == DL_REPLAY_NONE ||
            replay_work_end(b, before) + LONGEST_SPACING_NS < work->start_ns);
}

static void add_launch(replay_builder *b, uint32_t node, const samples *latency)
{
    const dl_activity *call = launch_of(b, node), *work = work_of(b, node);
    if (call == NULL) return;
    dl_replay_edge edge = {.from = b->rank->node_of[call - b->trace->activities],
                           .to = node,
                           .lag_ns = typical(latency, latency_sort(work, call)),
                           .kind = DL_REPLAY_LAUNCH,
                           .from_start = 1};
    if (host_held(b, node, call)) {
        edge.lag_ns = work->start_ns - call->start_ns;
        /* A longer call would hold it back longer. Calls of copies may wait for their own end. */
        if (edge.lag_ns >= call->duration_ns && b->roles[call->name] == CALL_LAUNCH) {
            edge.lag_ns -= call->duration_ns;
            edge.from_start = 0;
        }
    }
    dl_replay_graph_add_edge(b->graph, &edge);
}

static void index_launches(replay_builder *b)
{
    size_t nodes = b->graph->node_count;
    b->first_work = dl_calloc(nodes, sizeof *b->first_work, "replay launches");
    memset(b->first_work, 0xff, nodes * sizeof *b->first_work);
    for (size_t i = b->rank->work_count; i-- > 0;) {
        uint32_t call = b->launcher[i];
        if (call == DL_REPLAY_NONE) continue;
        b->first_work[b->rank->node_of[call]] = b->first_node + (uint32_t)i;
    }
    for (size_t i = 0; i < b->call_count; i++) {
        if (b->calls[i].role != CALL_LAUNCH && b->calls[i].role != CALL_COPY) continue;
        b->rank->launch_calls++;
        b->rank->launches_without += b->first_work[b->calls[i].node] == DL_REPLAY_NONE;
    }
}

void replay_build_launches(replay_builder *b)
{
    size_t works = b->rank->work_count;
    samples latency = {.items = dl_calloc(works, sizeof(sample), "replay latencies")};
    samples spacing = {.items = dl_calloc(2 * works, sizeof(sample), "replay spacings")};
    for (size_t i = 0; i < works; i++) {
        uint32_t node = b->first_node + (uint32_t)i;
        sample_work(b, b->graph->before[node], node, &latency, &spacing);
    }
    condense(&latency);
    condense(&spacing);
    for (size_t i = 0; i < works; i++) {
        uint32_t node = b->first_node + (uint32_t)i, before = b->graph->before[node];
        add_launch(b, node, &latency);
        if (before != DL_REPLAY_NONE) {
            sort_key sort =
                spacing_sort(b, work_of(b, before), work_of(b, node), launch_of(b, node));
            b->graph->nodes[node].spacing_ns = typical(&spacing, sort);
        }
    }
    free(latency.items);
    free(spacing.items);
    index_launches(b);
}
