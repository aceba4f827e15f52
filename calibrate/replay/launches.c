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

/* One value of a sort of works. */
typedef struct sample {
    uint64_t sort;
    int64_t value_ns;
} sample;

typedef struct samples {
    sample *items; /* [count], sorted by sort and value once all are there */
    size_t count;
} samples;

static int by_sort_and_value(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    if (x->sort != y->sort) return x->sort < y->sort ? -1 : 1;
    return x->value_ns < y->value_ns ? -1 : x->value_ns > y->value_ns;
}

static void add_sample(samples *to, uint64_t sort, int64_t value_ns)
{
    to->items[to->count++] = (sample){sort, value_ns};
}

/* First sample of `sort` or later. */
static size_t find_sort(const samples *in, uint64_t sort)
{
    size_t low = 0, high = in->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (in->items[middle].sort < sort) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Replaces the samples by one of each sort, its typical value: the mean of those up to three
 * medians. */
static void condense(samples *s)
{
    qsort(s->items, s->count, sizeof *s->items, by_sort_and_value);
    size_t kept = 0;
    for (size_t first = 0, end; first < s->count; first = end) {
        for (end = first; end < s->count && s->items[end].sort == s->items[first].sort;)
            end++;
        int64_t limit_ns = 3 * s->items[first + (end - first) / 2].value_ns + 1000, sum_ns = 0;
        size_t summed = 0;
        for (; first + summed < end && s->items[first + summed].value_ns <= limit_ns; summed++)
            sum_ns += s->items[first + summed].value_ns;
        int64_t value_ns = sum_ns / (int64_t)summed;
        s->items[kept++] = (sample){s->items[first].sort, value_ns};
    }
    s->count = kept;
}

/* Value of `sort`, or that of the sort before it in order, or 0 without any. */
static int64_t typical(const samples *s, uint64_t sort)
{
    size_t i = find_sort(s, sort);
    if (i < s->count && s->items[i].sort == sort) return s->items[i].value_ns;
    return i > 0 ? s->items[i - 1].value_ns : s->count > 0 ? s->items[0].value_ns : 0;
}

/* Copies differ by direction and by the host's memory. */
static uint64_t sort_of_work(const dl_activity *work)
{
    return (uint64_t)work->kind << 8 | (uint64_t)work->copy << 4 | work->memory;
}

static uint64_t latency_sort(const dl_activity *work, const dl_activity *call)
{
    return sort_of_work(work) << 32 | call->name;
}

static uint64_t spacing_sort(const dl_activity *before, const dl_activity *work)
{
    return sort_of_work(before) << 32 | sort_of_work(work);
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
        if (value_ns < LONGEST_LATENCY_NS) {
            add_sample(latency, latency_sort(work, call), value_ns > 0 ? value_ns : 0);
        }
        return;
    }
    if (before == DL_REPLAY_NONE) return;
    int64_t value_ns = work->start_ns - free_ns;
    bool early = call == NULL || call->start_ns < free_ns - LONGEST_SPACING_NS;
    if (early && value_ns < LONGEST_SPACING_NS) {
        add_sample(spacing, spacing_sort(work_of(b, before), work), value_ns > 0 ? value_ns : 0);
    }
}

/* Whether the host copies to memory of its own before the device does, and the stream is idle
 * then: the time until the device begins is the host's, and kept as it is. */
static bool is_staged(const replay_builder *b, uint32_t node, const dl_activity *call)
{
    const dl_activity *copy = work_of(b, node);
    uint32_t before = b->graph->before[node];
    int64_t latency_ns = copy->start_ns - call->start_ns;
    return copy->kind == DL_ACTIVITY_MEMCPY && copy->copy == DL_COPY_H2D &&
           copy->memory == DL_MEMORY_PAGEABLE && latency_ns >= 0 &&
           latency_ns < call->duration_ns + LONGEST_LATENCY_NS &&
           (before == DL_REPLAY_NONE ||
            replay_work_end(b, before) + LONGEST_SPACING_NS < copy->start_ns);
}

static void add_launch(replay_builder *b, uint32_t node, const samples *latency)
{
    const dl_activity *call = launch_of(b, node);
    if (call == NULL) return;
    const dl_activity *work = work_of(b, node);
    int64_t lag_ns = is_staged(b, node, call) ? work->start_ns - call->start_ns
                                              : typical(latency, latency_sort(work, call));
    uint32_t from = b->rank->node_of[call - b->trace->activities];
    dl_replay_graph_add_edge(
        b->graph,
        &(dl_replay_edge){
            .from = from, .to = node, .lag_ns = lag_ns, .kind = DL_REPLAY_LAUNCH, .from_start = 1});
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
    samples spacing = {.items = dl_calloc(works, sizeof(sample), "replay spacings")};
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
            b->graph->nodes[node].spacing_ns =
                typical(&spacing, spacing_sort(work_of(b, before), work_of(b, node)));
        }
    }
    free(latency.items);
    free(spacing.items);
    index_launches(b);
}
