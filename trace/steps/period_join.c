/* Units that only accumulate gradients are parts of a step. */
#include <stdlib.h>

#include "common/alloc.h"
#include "trace/steps/period.h"

/* Fewer equal distances are a coincidence. */
#define CYCLES_MIN 3
/* Share of the distances that have to be equal. */
#define EQUAL_MIN 0.8

static bool updates(const dl_sequence *sequence, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        if (sequence->roles[sequence->symbols[i]] & DL_ROLE_UPDATE) return true;
    }
    return false;
}

static bool content_updates(const dl_period *period, const dl_sequence *sequence)
{
    for (uint32_t kind = 0; kind < sequence->kind_count; kind++) {
        if (period->content[kind] > 0 && sequence->roles[kind] & DL_ROLE_UPDATE) return true;
    }
    return false;
}

static int by_size(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* The distance of units[count] that most have from the one before; 0 if they have none. */
static size_t usual_distance(const size_t *units, size_t count)
{
    if (count <= CYCLES_MIN) return 0;
    size_t *distances = dl_calloc(count, sizeof *distances, "units");
    for (size_t i = 1; i < count; i++)
        distances[i - 1] = units[i] - units[i - 1];
    qsort(distances, count - 1, sizeof *distances, by_size);
    const size_t usual = distances[(count - 1) / 2];
    size_t equal = 0;
    for (size_t i = 0; i + 1 < count; i++)
        equal += distances[i] == usual;
    free(distances);
    return (double)equal >= EQUAL_MIN * (double)(count - 1) ? usual : 0;
}

void dl_period_join(dl_period *period, const dl_sequence *sequence)
{
    if (period->cut_count == 0 || content_updates(period, sequence)) return;
    size_t *ends = dl_calloc(period->cut_count, sizeof *ends, "units"), count = 0;
    for (size_t u = 0; u < period->cut_count; u++) {
        const bool last = u + 1 == period->cut_count;
        if (updates(sequence, period->cuts[u], last ? sequence->count : period->cuts[u + 1]))
            ends[count++] = u;
    }
    const size_t distance = usual_distance(ends, count);
    if (distance >= 2) {
        size_t *cuts = dl_calloc(count + 1, sizeof *cuts, "units"), kept = 0;
        if (ends[0] + 1 >= distance) cuts[kept++] = period->cuts[ends[0] + 1 - distance];
        for (size_t i = 0; i < count && ends[i] + 1 < period->cut_count; i++)
            cuts[kept++] = period->cuts[ends[i] + 1];
        const double lag_match = period->lag_match;
        dl_period_free(period);
        dl_period_of_cuts(period, sequence, cuts, kept);
        period->lag_match = lag_match;
        free(cuts);
    }
    free(ends);
}
