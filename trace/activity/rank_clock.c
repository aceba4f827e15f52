#include "trace/activity/rank_clock.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/kernel_class.h"

/* Maximum shift between two ranks' sequences, in collectives. */
#define SHIFT_MAX 2000
/* Maximum number of kernels used to distinguish shifts, evenly spread over the trace. */
#define SAMPLE_MAX 1000

/* Kernel of a collective. */
typedef struct kernel {
    const char *collective; /* constant */
    uint32_t device, stream;
    int64_t start_ns, end_ns;
} kernel;

/* Kernels of one stream in order. */
typedef struct sequence {
    kernel *kernels; /* [count], within `all` */
    size_t count;
    kernel *all;
} sequence;

DL_ORDER(by_stream_and_start, kernel, DL_BY(device), DL_BY(stream), DL_BY(start_ns), DL_BY(end_ns));

/* Returns whether NCCL's send and receive kernels execute all-to-alls only: the host called
 * all-to-alls, and no send, receive, gather or scatter. */
static bool all_to_all_only(const dl_trace *trace)
{
    size_t all_to_all = 0, others = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_COLLECTIVE) continue;
        const char *name = trace->strings[a->name];
        all_to_all += strcasecmp(name, "AlltoAll") == 0;
        others += strcmp(name, "Send") == 0 || strcmp(name, "Recv") == 0 ||
                  strcmp(name, "Gather") == 0 || strcmp(name, "Scatter") == 0;
    }
    return all_to_all > 0 && others == 0;
}

/* Returns the collective of a kernel that ends simultaneously on all ranks, or NULL for other
 * kernels. */
static const char *ends_together(const char *name, bool with_sends)
{
    static const char *const names[] = {"AllReduce", "AllGather", "ReduceScatter", "AlltoAll",
                                        "AllToAll"};
    dl_kernel_collective told = {"", ""};
    if (!dl_kernel_tell_collective(name, &told)) return NULL;
    if (with_sends && strcmp(told.collective, "SendRecv") == 0) return told.collective;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(told.collective, names[i]) == 0) return told.collective;
    }
    return NULL;
}

static sequence find_sequence(const dl_trace *trace)
{
    sequence s = {0};
    size_t count = 0;
    bool with_sends = all_to_all_only(trace);
    const char **told = dl_calloc(trace->string_count, sizeof *told, "names of kernels");
    for (size_t i = 0; i < trace->string_count; i++)
        told[i] = ends_together(trace->strings[i], with_sends);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_KERNEL || told[a->name] == NULL) continue;
        DL_APPEND(s.all, count, "collectives") = (kernel){
            told[a->name], a->device, a->stream, a->start_ns, a->start_ns + a->duration_ns};
    }
    free(told);
    dl_sort(s.all, count, sizeof *s.all, by_stream_and_start);
    DL_GROUPS (first, end, count,
               s.all[end].device == s.all[first].device &&
                   s.all[end].stream == s.all[first].stream) {
        if (end - first <= s.count) continue;
        s.kernels = s.all + first;
        s.count = end - first;
    }
    return s;
}

/* Median of values[count > 0]; sorts the values. */
static int64_t median(int64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, dl_compare_int64s);
    int64_t low = values[(count - 1) / 2], high = values[count / 2];
    return low + (high - low) / 2;
}

/* Overlap of two sequences in which the other's kernel i corresponds to the first's kernel i +
 * shift. */
typedef struct overlap {
    int64_t from, to; /* range of i */
} overlap;

static overlap overlap_of(const sequence *first, const sequence *other, int64_t shift)
{
    overlap o = {shift < 0 ? -shift : 0, (int64_t)first->count - shift};
    if (o.to > (int64_t)other->count) o.to = (int64_t)other->count;
    return o;
}

static bool agree(const kernel *a, const kernel *b)
{
    return a->collective == b->collective || strcmp(a->collective, b->collective) == 0;
}

static size_t count_agreeing(const sequence *first, const sequence *other, int64_t shift)
{
    const overlap o = overlap_of(first, other, shift);
    size_t count = 0;
    for (int64_t i = o.from; i < o.to; i++)
        count += agree(&first->kernels[i + shift], &other->kernels[i]);
    return count;
}

/* Returns the clock of `other` against `first` at that shift, from every `stride`-th pair of equal
 * names. `differences` is scratch with room for all pairs. */
static dl_rank_clock clock_of(const sequence *first, const sequence *other, int64_t shift,
                              size_t stride, int64_t *differences)
{
    dl_rank_clock clock = {.low_ns = INT64_MIN, .high_ns = INT64_MAX};
    const overlap o = overlap_of(first, other, shift);
    size_t used = 0;
    for (int64_t i = o.from; i < o.to; i++) {
        const kernel *a = &first->kernels[i + shift], *b = &other->kernels[i];
        if (!agree(a, b) || clock.matched++ % stride != 0) continue;
        int64_t low_ns = a->start_ns - b->end_ns, high_ns = a->end_ns - b->start_ns;
        if (low_ns > clock.low_ns) clock.low_ns = low_ns;
        if (high_ns < clock.high_ns) clock.high_ns = high_ns;
        differences[used++] = a->end_ns - b->end_ns;
    }
    if (used == 0) return clock;
    clock.offset_ns = median(differences, used);
    for (size_t i = 0; i < used; i++)
        differences[i] = llabs(differences[i] - clock.offset_ns);
    clock.spread_ns = median(differences, used);
    if (clock.low_ns <= clock.high_ns) {
        if (clock.offset_ns < clock.low_ns) clock.offset_ns = clock.low_ns;
        if (clock.offset_ns > clock.high_ns) clock.offset_ns = clock.high_ns;
    }
    return clock;
}

static bool is_better(const dl_rank_clock *clock, const dl_rank_clock *best)
{
    if (clock->spread_ns != best->spread_ns) return clock->spread_ns < best->spread_ns;
    return llabs(clock->offset_ns) < llabs(best->offset_ns);
}

/* Returns the clock at the best shift: the one with the most equal names; among these the one with
 * the smallest spread over about SAMPLE_MAX kernels, then the one with the smallest offset. */
static dl_rank_clock find_clock(const sequence *first, const sequence *other)
{
    int64_t from = -(int64_t)other->count + 1, to = (int64_t)first->count - 1;
    if (from < -SHIFT_MAX) from = -SHIFT_MAX;
    if (to > SHIFT_MAX) to = SHIFT_MAX;
    size_t shifts = to < from ? 0 : (size_t)(to - from + 1), most = 0;
    DL_AUTOFREE size_t *agreeing = dl_calloc(shifts, sizeof *agreeing, "collectives");
    for (size_t i = 0; i < shifts; i++) {
        agreeing[i] = count_agreeing(first, other, from + (int64_t)i);
        if (agreeing[i] > most) most = agreeing[i];
    }
    dl_rank_clock best = {0};
    int64_t *differences = dl_calloc(other->count, sizeof *differences, "collectives"), at = 0;
    for (size_t i = 0; i < shifts && most > 0; i++) {
        if (agreeing[i] < most) continue;
        const int64_t shift = from + (int64_t)i;
        const dl_rank_clock clock =
            clock_of(first, other, shift, 1 + most / SAMPLE_MAX, differences);
        if (best.matched > 0 && !is_better(&clock, &best)) continue;
        best = clock;
        at = shift;
    }
    if (most > 0) best = clock_of(first, other, at, 1, differences);
    free(differences);
    return best;
}

dl_status dl_rank_clocks_find(dl_rank_clock *clocks, const dl_trace *const *traces, size_t count,
                              dl_error *err)
{
    dl_status status = DL_OK;
    DL_ASSERT(count >= 2, "%zu traces", count);
    DL_AUTOFREE dl_rank_clock *found = dl_calloc(count, sizeof *found, "clocks");
    sequence first = find_sequence(traces[0]);
    found[0].matched = first.count;
    for (size_t i = 1; i < count && status == DL_OK; i++) {
        sequence other = find_sequence(traces[i]);
        found[i] = find_clock(&first, &other);
        if (found[i].matched == 0) {
            status = dl_error_set_at(err, DL_ERR_DATA, traces[i]->path, 0,
                                     "no collective that ends on all ranks together is in it and "
                                     "in %s: their clocks cannot be compared",
                                     traces[0]->path);
        }
        free(other.all);
    }
    if (status == DL_OK) memcpy(clocks, found, count * sizeof *clocks);
    free(first.all);
    return status;
}

dl_status dl_rank_clock_apply(dl_trace *trace, int64_t offset_ns, dl_error *err)
{
    for (size_t i = 0; i < trace->activity_count; i++) {
        dl_activity moved = trace->activities[i];
        if (__builtin_add_overflow(moved.start_ns, offset_ns, &moved.start_ns) ||
            !dl_activity_valid(&moved)) {
            return dl_error_set_at(err, DL_ERR_RANGE, trace->path, 0,
                                   "the offset %lld ns moves a time out of its range",
                                   (long long)offset_ns);
        }
    }
    for (size_t i = 0; i < trace->activity_count; i++)
        trace->activities[i].start_ns += offset_ns;
    return DL_OK;
}
