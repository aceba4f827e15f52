#include "calibrate/replay/spans.h"

#include <stdlib.h>

#include "common/alloc.h"

void dl_spans_add(dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns)
{
    if (spans->count == spans->room) {
        spans->room = 2 * spans->room + 64;
        spans->items = dl_realloc(spans->items, spans->room, sizeof *spans->items, "spans");
    }
    spans->items[spans->count++] = (dl_span){on, start_ns, end_ns};
}

static int by_place_and_start(const void *left, const void *right)
{
    const dl_span *a = left, *b = right;
    if (a->on != b->on) return a->on < b->on ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

void dl_spans_join(dl_spans *spans)
{
    const size_t all = spans->count;
    if (all > 0) qsort(spans->items, all, sizeof *spans->items, by_place_and_start);
    spans->count = 0;
    for (size_t i = 0; i < all; i++) {
        const dl_span *next = &spans->items[i];
        dl_span *last = spans->count > 0 ? &spans->items[spans->count - 1] : NULL;
        if (last == NULL || last->on != next->on || next->start_ns > last->end_ns) {
            spans->items[spans->count++] = *next;
        } else if (next->end_ns > last->end_ns) {
            last->end_ns = next->end_ns;
        }
    }
}

/* The first span that ends after the time, or lies on another place behind. */
static size_t first_after(const dl_spans *spans, uint32_t on, int64_t time_ns)
{
    size_t low = 0, high = spans->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const dl_span *m = &spans->items[middle];
        if (m->on < on || (m->on == on && m->end_ns <= time_ns)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool dl_spans_hold(const dl_spans *spans, uint32_t on, int64_t time_ns)
{
    const size_t i = first_after(spans, on, time_ns);
    return i < spans->count && spans->items[i].on == on && spans->items[i].start_ns <= time_ns;
}

int64_t dl_spans_covered(const dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns)
{
    int64_t sum_ns = 0;
    for (size_t i = first_after(spans, on, start_ns); i < spans->count; i++) {
        const dl_span *s = &spans->items[i];
        if (s->on != on || s->start_ns >= end_ns) break;
        const int64_t from_ns = s->start_ns > start_ns ? s->start_ns : start_ns;
        const int64_t to_ns = s->end_ns < end_ns ? s->end_ns : end_ns;
        sum_ns += to_ns - from_ns;
    }
    return sum_ns;
}

void dl_spans_free(dl_spans *spans)
{
    free(spans->items);
    *spans = (dl_spans){0};
}
