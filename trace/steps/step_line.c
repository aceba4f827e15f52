#include "trace/steps/step_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/distribution.h"

/* As steps.h says of warm-up. */
#define WARMUP_FACTOR 1.25
#define WARMUP_STEPS_MAX 10

dl_sequence dl_symbol_sequence(const dl_symbol_line *symbols)
{
    return (dl_sequence){.symbols = symbols->symbols,
                         .idle_ns = symbols->idle_ns,
                         .start_ns = symbols->start_ns,
                         .roles = symbols->kind_roles,
                         .count = symbols->count,
                         .kind_count = symbols->kind_count};
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorted numbers of the streams that carry more than copies; owned by the caller. */
static uint32_t *list_busy(const dl_step_line *line, const dl_activity *activities, size_t *count)
{
    uint32_t *busy = dl_calloc(line->work_count, sizeof *busy, "streams");
    *count = 0;
    for (size_t i = 0; i < line->work_count; i++) {
        const dl_activity *work = &activities[line->work[i]];
        if (work->kind == DL_ACTIVITY_MEMCPY || (*count > 0 && busy[*count - 1] == work->stream))
            continue;
        busy[(*count)++] = work->stream;
    }
    qsort(busy, *count, sizeof *busy, by_number);
    return busy;
}

static void find_prefetched(dl_step_line *line, const dl_activity *activities)
{
    size_t count;
    uint32_t *busy = list_busy(line, activities, &count);
    free(line->prefetched);
    line->prefetched = dl_calloc(line->work_count, 1, "copies");
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        bool others = false;
        for (size_t i = step->first; i < step->first + step->count; i++) {
            const dl_activity *work = &activities[line->work[i]];
            line->prefetched[i] =
                bsearch(&work->stream, busy, count, sizeof *busy, by_number) == NULL;
            others = others || !line->prefetched[i];
        }
        if (!others) memset(line->prefetched + step->first, 0, step->count);
    }
    free(busy);
}

bool dl_step_line_begins(const dl_step_line *line, size_t work)
{
    return line->prefetched == NULL || !line->prefetched[work];
}

/* Times of line->steps, whose work is known. */
static void set_times(dl_step_line *line, const dl_activity *activities)
{
    int64_t before_ns = INT64_MIN;
    for (size_t s = 0; s < line->count; s++) {
        dl_activity_step *step = &line->steps[s];
        step->start_ns = INT64_MAX;
        for (size_t i = step->first; i < step->first + step->count; i++) {
            const dl_activity *work = &activities[line->work[i]];
            int64_t end_ns = work->start_ns + work->duration_ns;
            if (work->start_ns < step->start_ns && dl_step_line_begins(line, i))
                step->start_ns = work->start_ns;
            if (end_ns > step->work_end_ns) step->work_end_ns = end_ns;
        }
        if (step->start_ns < before_ns) step->start_ns = before_ns;
        before_ns = step->start_ns;
        if (s > 0) step[-1].duration_ns = step->start_ns - step[-1].start_ns;
    }
    if (line->count == 0) return;
    dl_activity_step *last = &line->steps[line->count - 1];
    last->duration_ns = last->work_end_ns > last->start_ns ? last->work_end_ns - last->start_ns : 0;
}

void dl_step_line_flag_warmup(dl_step_line *line)
{
    double *durations_ns = dl_calloc(line->count, sizeof *durations_ns, "step times");
    size_t regular = 0;
    for (size_t i = 0; i < line->count; i++) {
        if (line->steps[i].label == DL_STEP_REGULAR)
            durations_ns[regular++] = (double)line->steps[i].duration_ns;
    }
    if (regular > 0) {
        dl_distribution all = dl_distribution_of(durations_ns, regular);
        size_t most = (regular + 9) / 10, flagged = 0;
        if (most > WARMUP_STEPS_MAX) most = WARMUP_STEPS_MAX;
        for (size_t i = 0; i < line->count && flagged < most; i++) {
            dl_activity_step *step = &line->steps[i];
            if (step->label != DL_STEP_REGULAR) continue;
            double duration_ns = (double)step->duration_ns;
            if (duration_ns <= WARMUP_FACTOR * all.p50 || duration_ns <= all.p90) break;
            step->label = DL_STEP_WARMUP;
            flagged++;
        }
    }
    free(durations_ns);
}

void dl_step_line_measure(dl_step_line *line, const dl_step_part *parts)
{
    double sum = 0, squares = 0, number = 0;
    size_t labelled = 0;
    line->regular_count = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_activity_step *step = &line->steps[i];
        if (step->label != DL_STEP_REGULAR) continue;
        line->regular_count++;
        labelled += step->count;
        if (parts != NULL) line->similarity += parts[i].alike;
        if (i + 1 == line->count || step[1].label != DL_STEP_REGULAR) continue;
        sum += (double)step->duration_ns;
        squares += (double)step->duration_ns * (double)step->duration_ns;
        number++;
    }
    if (line->work_count > 0) line->labelled_share = (double)labelled / (double)line->work_count;
    if (line->regular_count > 0) line->similarity /= (double)line->regular_count;
    if (number < 2 || sum <= 0) return;
    double mean = sum / number, variance = squares / number - mean * mean;
    line->spacing_cv = variance > 0 ? sqrt(variance) / mean : 0;
}

void dl_step_line_finish(dl_step_line *line, const dl_activity *activities,
                         const dl_symbol_line *symbols, dl_step_part *parts,
                         const dl_period *period)
{
    dl_sequence sequence = dl_symbol_sequence(symbols);
    for (size_t i = 0; i < line->count; i++) {
        size_t end = i + 1 < line->count ? parts[i + 1].first : symbols->count;
        for (size_t s = parts[i].first; s < end; s++)
            line->steps[i].fingerprint += symbols->kind_hash[symbols->symbols[s]];
    }
    line->lag_match = period->lag_match;
    line->order_match = period->order_match;
    line->cycle_steps =
        dl_step_parts_cycle(parts, line->count, symbols->count, &sequence, period->content);
    dl_step_parts_compare(parts, line->count, symbols->count, &sequence, period->content,
                          period->length);
    find_prefetched(line, activities);
    set_times(line, activities);
    dl_step_line_flag_warmup(line);
    dl_step_line_measure(line, parts);
}
