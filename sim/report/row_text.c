#include "sim/report/row_text.h"

#include <math.h>
#include <string.h>

#include "common/alloc.h"
#include "common/columns.h"

double dl_report_error_frac(const dl_row *row, const dl_measured *measured)
{
    return row->mean.throughput_per_s / measured->value[DL_MEASURE_PER_S] - 1;
}

void dl_report_options(char *text, size_t bytes, const dl_study *study, const dl_row *row)
{
    const dl_variant *variant = &study->variants[row->variant];
    char options[DL_POINT_TEXT_BYTES];
    size_t used = 0;
    text[0] = '\0';
    for (size_t k = 0; k < study->key_count; k++) {
        const char *value = dl_study_text(study, variant, &row->point, k);
        if (value[0] == '\0' || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %s", used > 0 ? ", " : "",
                                 study->keys[k].column, value);
    }
    dl_point_options(options, sizeof options, &row->point);
    if (options[0] == '\0' || used >= bytes) return;
    snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", options);
}

/* The marks in their order, and their meanings. */
static const struct {
    char mark;
    const char *meaning;
} meanings[] = {{'*', "outside the range in which the costs were measured"},
                {'+', "leaves out collectives of the traced step: see the note"},
                {'!', "the costs contradict the trace that they are from: see the note"}};
_Static_assert(DL_LENGTH(meanings) < DL_MARKS_BYTES, "more marks than there is room for");

const char *dl_report_marks(char text[DL_MARKS_BYTES], const dl_row *row)
{
    const bool is[] = {row->extrapolated, !isnan(row->left_out_s), row->contradicts_trace};
    size_t count = 0;
    for (size_t m = 0; m < DL_LENGTH(meanings) && row->error == NULL; m++)
        if (is[m]) text[count++] = meanings[m].mark;
    text[count] = '\0';
    return text;
}

char *dl_report_above(const dl_row *row)
{
    if (row->above == NULL) return NULL;
    return dl_format("%.1f %% each: %s", 100 * row->efficiency, row->above);
}

void dl_report_marks_explain(FILE *out, const char *used, const char *before, const char *after)
{
    for (size_t m = 0; m < DL_LENGTH(meanings); m++)
        if (strchr(used, meanings[m].mark) != NULL)
            fprintf(out, "%s%c %s%s\n", before, meanings[m].mark, meanings[m].meaning, after);
}

void dl_report_marks_of(char used[DL_MARKS_BYTES], const dl_row *row)
{
    char own[DL_MARKS_BYTES];
    for (const char *c = dl_report_marks(own, row); *c != '\0'; c++) {
        if (strchr(used, *c) != NULL) continue;
        used[strlen(used) + 1] = '\0';
        used[strlen(used)] = *c;
    }
}

static void add_short(dl_notes *notes, const dl_sweep *sweep)
{
    const dl_row *worst = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error != NULL || !(row->mean.tail_frac > DL_REPORT_TAIL_FRAC)) continue;
        if (worst == NULL || row->mean.tail_frac > worst->mean.tail_frac) worst = row;
        count++;
    }
    if (worst == NULL) return;
    char text[DL_POINT_TEXT_BYTES];
    dl_notes_add(notes,
                 "%zu of %zu points ran too few steps for a throughput within %.0f %%: after "
                 "the first worker's last step others continue, for up to %.0f %% of the run "
                 "(%s); raise [scenario] steps",
                 count, sweep->row_count, 100 * DL_REPORT_TAIL_FRAC, 100 * worst->mean.tail_frac,
                 dl_point_text(text, sizeof text, &worst->point));
}

/* The workers of a row that make more than half as many steps as the fastest one. */
typedef struct fast_workers {
    int count;
    double steps_frac; /* share of all steps */
    double step_s;     /* mean step of the fastest worker */
} fast_workers;

static fast_workers fast_workers_of(const dl_row *row)
{
    fast_workers fast = {.step_s = INFINITY};
    double sum = 0, of_fast = 0;
    for (int w = 0; w < row->mean.workers; w++)
        if (row->mean.worker_step_s[w] < fast.step_s) fast.step_s = row->mean.worker_step_s[w];
    for (int w = 0; w < row->mean.workers; w++) {
        const double step_s = row->mean.worker_step_s[w];
        if (!(step_s > 0)) continue; /* it left before its first step */
        sum += 1 / step_s;
        if (step_s >= 2 * fast.step_s) continue;
        of_fast += 1 / step_s;
        fast.count++;
    }
    fast.steps_frac = of_fast / sum;
    return fast;
}

static void add_unequal(dl_notes *notes, const dl_sweep *sweep)
{
    const dl_row *worst = NULL;
    fast_workers most = {0};
    double most_times = 2; /* steps of a fast worker over those of another one */
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error != NULL || row->mean.workers < 2 || row->mean.worker_step_s == NULL)
            continue;
        const fast_workers fast = fast_workers_of(row);
        const int others = row->mean.workers - fast.count;
        const double times = fast.steps_frac / fast.count / ((1 - fast.steps_frac) / others);
        if (others == 0 || !(times > most_times)) continue;
        most_times = times;
        most = fast;
        worst = row;
    }
    if (worst == NULL) return;
    char text[DL_POINT_TEXT_BYTES];
    dl_notes_add(notes,
                 "%d of %d workers make%s %.0f %% of the steps, the fastest one in %.3g s; the "
                 "mean step counts all workers alike (%s)",
                 most.count, worst->mean.workers, most.count == 1 ? "s" : "", 100 * most.steps_frac,
                 most.step_s, dl_point_text(text, sizeof text, &worst->point));
}

/* Rows whose averaging interval or staleness has no [target] factor. */
static void add_no_target(dl_notes *notes, const dl_study *study, const dl_sweep *sweep)
{
    const dl_row *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        const dl_target *target = &study->variants[row->variant].scenario.target;
        if (target->samples == 0 || row->error != NULL ||
            !isnan(dl_target_factor_of(target, row->point.mode, row->point.option[DL_SYNC_INTERVAL],
                                       row->staleness_mean))) {
            continue;
        }
        if (count++ == 0) first = row;
    }
    if (count == 0) return;
    char options[DL_REPORT_OPTIONS_BYTES];
    dl_report_options(options, sizeof options, study, first);
    dl_notes_add(notes,
                 "no [target] factor is given for %zu of %zu rows (the first: workers %d, "
                 "%s%s%s, staleness %.3g): they have no time to the target; as --set "
                 "target.factor=%s:1.1",
                 count, sweep->row_count, first->point.workers, dl_point_mode(&first->point),
                 options[0] != '\0' ? ", " : "", options,
                 isnan(first->staleness_mean) ? 0 : first->staleness_mean, first->point.mode->name);
}

/* A row in which [failures] worker_mtbf_s had no effect, as the simulated time is too short. */
static void add_no_failure(dl_notes *notes, const dl_study *study, const dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        const dl_scenario *scenario = &study->variants[row->variant].scenario;
        const dl_absences *absences = &scenario->absences;
        const double mean_s = absences->mtbf_s, step_s = row->mean.step_mean_s;
        if (!(mean_s > 0) || row->error != NULL || row->mean.away_frac > 0) continue;
        const int apart = absences->together == DL_TOGETHER_WORKER ? row->point.workers : 1;
        dl_notes_add(notes,
                     "no worker failed in the %.0f s that were simulated (workers %d, "
                     "[failures] worker_mtbf_s = %.6g): --steps %.0f would see ten failures",
                     (double)scenario->steps * step_s, row->point.workers, mean_s,
                     ceil(10 * mean_s / apart / step_s));
        return;
    }
}

void dl_report_row_notes(dl_notes *notes, const dl_study *study, const dl_sweep *sweep)
{
    add_short(notes, sweep);
    add_unequal(notes, sweep);
    add_no_target(notes, study, sweep);
    add_no_failure(notes, study, sweep);
}

const char *dl_rate_text(char text[DL_RATE_BYTES], double per_s)
{
    static const dl_column rate = {.form = DL_FORM_RATE};
    DL_AUTOFREE char *number = dl_column_number_text(&rate, per_s);
    snprintf(text, DL_RATE_BYTES, "%s", number);
    return text;
}

void dl_parts_sort(const double *size, dl_part *order)
{
    for (int p = 0; p < DL_PART_COUNT; p++) {
        int at = p;
        for (; at > 0 && size[order[at - 1]] < size[p]; at--)
            order[at] = order[at - 1];
        order[at] = (dl_part)p;
    }
}

dl_part dl_dominant_part(const dl_row *row)
{
    dl_part order[DL_PART_COUNT];
    dl_parts_sort(row->mean.part_frac, order);
    return order[0];
}

void dl_parts_put(char **text, const dl_row *row, int first)
{
    dl_part order[DL_PART_COUNT];
    dl_parts_sort(row->mean.part_frac, order);
    for (int p = first; p < DL_PART_COUNT && row->mean.part_frac[order[p]] >= DL_PART_SHOWN_FRAC;
         p++) {
        dl_extend(text, "%s%s %.0f %%", p == first ? "" : ", ", dl_part_names[order[p]],
                  100 * row->mean.part_frac[order[p]]);
    }
}
