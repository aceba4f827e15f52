/* Labels units of a sequence of symbols by their common content. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/activity/steps_internal.h"
#include "trace/distribution.h"

/* The tail of a unit is separated if it has at least TAIL_SHARE of the usual step's symbols, at
 * least TAIL_MIN symbols or SHORT_TAIL_SHARE of the usual step's, and at least TAIL_STRANGE of the
 * tail's symbols are not usual content. */
#define TAIL_MIN 3
#define TAIL_SHARE 0.02
#define SHORT_TAIL_SHARE 0.25
#define TAIL_STRANGE 0.8

#define WARMUP_ALIKE 0.9

/* Returns the end of the content of the unit [first, end): the index that maximizes the number of
 * content symbols before it plus that of other symbols after it. Returns `end` if the tail is too
 * short to be separated and `begins_other` is false, or if it is mostly usual content. `left` as in
 * dl_units_common. */
static size_t find_tail(const dl_period *period, const dl_sequence *sequence, size_t first,
                        size_t end, bool begins_other, uint32_t *left)
{
    size_t tail = first;
    int64_t score = 0, best = 0;
    size_t strange = 0, strange_before = 0;
    for (size_t i = first; i < end; i++) {
        bool common = left[sequence->symbols[i]] > 0;
        left[sequence->symbols[i]] -= common;
        strange += !common;
        score += common ? 1 : -1;
        if (score < best) continue;
        best = score;
        tail = i + 1;
        strange_before = strange;
    }
    for (size_t i = first; i < end; i++)
        left[sequence->symbols[i]] = period->content[sequence->symbols[i]];
    size_t length = end - tail;
    double share = (double)length / (double)period->length;
    bool little = share < TAIL_SHARE || (length < TAIL_MIN && share < SHORT_TAIL_SHARE);
    if (little && !begins_other) return end;
    return (double)(strange - strange_before) >= TAIL_STRANGE * (double)length ? tail : end;
}

static double similarity(const dl_sequence *sequence, size_t first, size_t end,
                         const uint32_t *content, size_t length, uint32_t *left)
{
    size_t common = dl_units_common(sequence->symbols, first, end, content, left);
    size_t longer = end - first > length ? end - first : length;
    return longer > 0 ? (double)common / (double)longer : 0;
}

static uint32_t *copy_content(const uint32_t *content, uint32_t kind_count)
{
    uint32_t *left = dl_calloc(kind_count, sizeof *left, "content of units");
    memcpy(left, content, kind_count * sizeof *left);
    return left;
}

/* Median of `alike` over the regular parts; 0 if there are none. */
static double usual_likeness(const dl_step_part *parts, size_t count)
{
    DL_AUTOFREE double *alike = dl_calloc(count, sizeof *alike, "likeness of steps");
    size_t regular = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].label == DL_STEP_REGULAR) alike[regular++] = parts[i].alike;
    }
    return regular > 0 ? dl_distribution_of(alike, regular).p50 : 0;
}

static void label_warmup(dl_step_part *parts, size_t count)
{
    double least = WARMUP_ALIKE * usual_likeness(parts, count);
    size_t first = 0;
    while (first < count && (parts[first].label != DL_STEP_REGULAR || parts[first].alike < least))
        first++;
    for (size_t i = 0; i < first && first < count; i++)
        parts[i].label = DL_STEP_WARMUP;
}

void dl_step_parts_set_apart(dl_step_part *parts, size_t count)
{
    const double usual = usual_likeness(parts, count);
    bool regular = false; /* an earlier part is regular */
    if (usual < DL_STEP_SIMILARITY) return;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].label != DL_STEP_REGULAR) continue;
        if (parts[i].alike < DL_STEP_SIMILARITY * usual) {
            parts[i].label = regular ? DL_STEP_OTHER : DL_STEP_WARMUP;
        } else {
            regular = true;
        }
    }
}

void dl_step_parts_compare(dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content, size_t length)
{
    DL_AUTOFREE uint32_t *left = copy_content(content, sequence->kind_count);
    for (size_t i = 0; i < count; i++) {
        size_t part_end = i + 1 < count ? parts[i + 1].first : end;
        parts[i].alike = similarity(sequence, parts[i].first, part_end, content, length, left);
    }
}

/* A unit: a step up to `tail`, if `regular`, and the work after it up to `end`. */
typedef struct unit {
    size_t first, tail, end;
    bool regular;
} unit;

static unit *take_units(const dl_period *period, const dl_sequence *sequence, uint32_t *left)
{
    unit *units = dl_calloc(period->cut_count, sizeof *units, "steps");
    for (size_t u = period->cut_count; u-- > 0;) {
        unit *next = u + 1 < period->cut_count ? &units[u + 1] : NULL;
        unit *now = &units[u];
        now->first = period->cuts[u];
        now->end = next != NULL ? next->first : sequence->count;
        now->tail =
            find_tail(period, sequence, now->first, now->end, next != NULL && !next->regular, left);
        double alike =
            similarity(sequence, now->first, now->tail, period->content, period->length, left);
        now->regular = alike >= DL_STEP_SIMILARITY;
    }
    return units;
}

dl_step_part *dl_step_parts(const dl_period *period, const dl_sequence *sequence, size_t *count)
{
    dl_step_part *parts = dl_calloc(2 * period->cut_count + 1, sizeof *parts, "steps");
    DL_AUTOFREE uint32_t *left = copy_content(period->content, sequence->kind_count);
    DL_AUTOFREE unit *units = take_units(period, sequence, left);
    size_t found = 0;
    bool short_tail = false; /* the last part is the start of the following unit */
    if (period->cuts[0] > 0) parts[found++] = (dl_step_part){.label = DL_STEP_OTHER};
    for (size_t u = 0; u < period->cut_count; u++) {
        const unit *now = &units[u];
        if (now->regular || !short_tail) {
            parts[found++] = (dl_step_part){
                .first = now->first, .label = now->regular ? DL_STEP_REGULAR : DL_STEP_OTHER};
        }
        short_tail = now->regular && now->tail < now->end && now->end - now->tail < TAIL_MIN;
        if (now->regular && now->tail < now->end)
            parts[found++] = (dl_step_part){.first = now->tail, .label = DL_STEP_OTHER};
    }
    dl_step_parts_compare(parts, found, sequence->count, sequence, period->content, period->length);
    label_warmup(parts, found);
    *count = found;
    return parts;
}
