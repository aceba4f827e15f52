#include "calibrate/replay/gradients.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "trace/kernel_class.h"

/* An all-reduce of a step. */
typedef struct reduce {
    double share, bytes; /* its own bytes */
} reduce;

/* Those of one regular step: reduces[first] to before reduces[first + count]. */
typedef struct step_reduces {
    size_t first, count;
    double bytes;
} step_reduces;

typedef struct search {
    const dl_gradient_source *source;
    const dl_activity **calls; /* [call_count] all-reduces by begin */
    size_t call_count, next;   /* next: the first that may belong to the step at hand */
    uint8_t *classes;
    reduce *reduces;     /* [call_count] */
    step_reduces *steps; /* [step_count] */
    size_t reduce_count, step_count;
} search;

static int by_begin(const void *left, const void *right)
{
    const dl_activity *a = *(const dl_activity *const *)left;
    const dl_activity *b = *(const dl_activity *const *)right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a > b) - (a < b);
}

static void list_calls(search *s)
{
    const dl_trace *trace = s->source->trace;
    s->calls = dl_calloc(trace->activity_count, sizeof *s->calls, "gradients");
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_COLLECTIVE || a->bytes == 0 ||
            strcasecmp(trace->strings[a->name], "AllReduce") != 0)
            continue;
        s->calls[s->call_count++] = a;
    }
    if (s->call_count > 0) qsort(s->calls, s->call_count, sizeof(dl_activity *), by_begin);
}

static const dl_activity *work_of(const search *s, size_t w)
{
    return &s->source->trace->activities[s->source->line->work[w]];
}

static bool is_update(const search *s, size_t w)
{
    const dl_activity *a = work_of(s, w);
    return s->source->phases->phases[w] == DL_PHASE_UPDATE && a->kind == DL_ACTIVITY_KERNEL &&
           s->classes[a->name] == DL_KERNEL_OPTIMIZER;
}

static double backward_ns(const search *s, size_t w)
{
    return s->source->phases->phases[w] == DL_PHASE_BACKWARD ? s->source->work_ns[w] : 0;
}

/* Files the all-reduces called while the step's works are launched, from its backward pass on. */
static void take_step(search *s, const dl_activity_step *step)
{
    const size_t end = step->first + step->count;
    double all_ns = 0, done_ns = 0;
    bool updated = false;
    for (size_t w = step->first; w < end; w++)
        all_ns += backward_ns(s, w);
    if (all_ns <= 0) return;
    step_reduces *taken = &s->steps[s->step_count++];
    *taken = (step_reduces){.first = s->reduce_count};
    for (size_t w = step->first; w < end; w++) {
        const dl_activity *call = dl_launches_find(s->source->launches, work_of(s, w)->correlation);
        while (call != NULL && s->next < s->call_count &&
               s->calls[s->next]->start_ns <= call->start_ns) {
            const double bytes = (double)s->calls[s->next++]->bytes;
            if (done_ns <= 0 || updated) continue;
            s->reduces[s->reduce_count++] = (reduce){done_ns / all_ns, bytes};
            taken->count++;
            taken->bytes += bytes;
        }
        done_ns += backward_ns(s, w);
        updated = (updated || is_update(s, w)) && backward_ns(s, w) <= 0;
    }
}

static int by_number_and_bytes(const void *left, const void *right)
{
    const step_reduces *a = left, *b = right;
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

/* Sorts the steps; the most usual ones are steps[*first] to before the returned place. */
static size_t most_usual(search *s, size_t *first)
{
    size_t best = 0;
    *first = 0;
    if (s->step_count > 0) qsort(s->steps, s->step_count, sizeof *s->steps, by_number_and_bytes);
    for (size_t i = 0, end; i < s->step_count; i = end) {
        for (end = i; end < s->step_count && s->steps[end].count == s->steps[i].count &&
                      s->steps[end].bytes == s->steps[i].bytes;)
            end++;
        if (s->steps[i].count == 0 || end - i < best) continue;
        best = end - i;
        *first = i;
    }
    return *first + best;
}

static dl_gradients_ready *take_means(search *s, size_t *count)
{
    size_t first;
    const size_t end = most_usual(s, &first);
    if (end == first) return NULL;
    *count = s->steps[first].count;
    dl_gradients_ready *ready = dl_calloc(*count, sizeof *ready, "gradients");
    for (size_t i = first; i < end; i++) {
        double bytes = 0;
        for (size_t k = 0; k < *count; k++) {
            const reduce *r = &s->reduces[s->steps[i].first + k];
            bytes += r->bytes;
            ready[k].share += r->share / (double)(end - first);
            ready[k].bytes = bytes;
        }
    }
    return ready;
}

dl_gradients_ready *dl_gradients_find(const dl_gradient_source *source, size_t *count)
{
    const dl_trace *trace = source->trace;
    const dl_step_line *line = source->line;
    search s = {.source = source};
    *count = 0;
    list_calls(&s);
    s.classes = dl_kernel_classes(trace->activities, trace->activity_count, trace->strings,
                                  trace->string_count);
    s.reduces = dl_calloc(s.call_count, sizeof *s.reduces, "gradients");
    s.steps = dl_calloc(line->count, sizeof *s.steps, "gradients");
    for (size_t i = 0; i < line->count; i++) {
        if (line->steps[i].label == DL_STEP_REGULAR) take_step(&s, &line->steps[i]);
    }
    dl_gradients_ready *ready = take_means(&s, count);
    free(s.calls);
    free(s.classes);
    free(s.reduces);
    free(s.steps);
    return ready;
}
