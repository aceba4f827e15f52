/* Times when something was so on a thread or a device: sets of intervals that do not overlap. */
#ifndef DL_CALIBRATE_REPLAY_SPANS_H
#define DL_CALIBRATE_REPLAY_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dl_span {
    uint32_t on; /* thread, device */
    int64_t start_ns, end_ns;
} dl_span;

/* Owns its array; release with dl_spans_free. A zeroed one is empty. */
typedef struct dl_spans {
    dl_span *items; /* [count]; once joined, by `on` and time */
    size_t count, room;
} dl_spans;

void dl_spans_add(dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns);

/* Sorts the spans and joins those that overlap or touch: to be called before any question. */
void dl_spans_join(dl_spans *spans);

/* Whether a span holds the time; its end does not. O(log n). */
bool dl_spans_hold(const dl_spans *spans, uint32_t on, int64_t time_ns);

/* Time of start_ns .. end_ns that spans cover. O(log n) and the number of them. */
int64_t dl_spans_covered(const dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns);

void dl_spans_free(dl_spans *spans);

#endif
