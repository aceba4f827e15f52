#include "sim/report/row_text.h"

#include <math.h>
#include <stdlib.h>
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

char *dl_report_short_note(const dl_sweep *sweep)
{
    const dl_row *worst = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error != NULL || !(row->mean.tail_frac > DL_REPORT_TAIL_FRAC)) continue;
        if (worst == NULL || row->mean.tail_frac > worst->mean.tail_frac) worst = row;
        count++;
    }
    if (worst == NULL) return NULL;
    char text[DL_POINT_TEXT_BYTES];
    return dl_format(
        "%zu of %zu points ran too few steps for a throughput within %.0f %%: after the first "
        "worker's last step others run on, for up to %.0f %% of the run (%s); raise [scenario] "
        "steps",
        count, sweep->row_count, 100 * DL_REPORT_TAIL_FRAC, 100 * worst->mean.tail_frac,
        dl_point_text(text, sizeof text, &worst->point));
}

/* Share of the row's steps that its fastest worker makes; sets *worker to that worker. */
static double most_steps_frac(const dl_row *row, int *worker)
{
    double sum = 0, most = 0;
    *worker = 0;
    for (int w = 0; w < row->mean.workers; w++) {
        const double rate = 1 / row->mean.worker_step_s[w];
        if (!(rate > 0)) continue; /* it had left before its first step */
        sum += rate;
        if (rate > most) *worker = w;
        most = fmax(most, rate);
    }
    return most / sum;
}

char *dl_report_unequal_note(const dl_sweep *sweep)
{
    const dl_row *worst = NULL;
    double most = 0;
    int worker;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error != NULL || row->mean.workers < 2 || row->mean.worker_step_s == NULL)
            continue;
        const double frac = most_steps_frac(row, &worker);
        if (!(frac * (row->mean.workers - 1) > 2 * (1 - frac)) || frac < most) continue;
        most = frac;
        worst = row;
    }
    if (worst == NULL) return NULL;
    char text[DL_POINT_TEXT_BYTES];
    most_steps_frac(worst, &worker);
    return dl_format(
        "worker %d makes %.0f %% of the steps, one in %.3g s; the mean step counts all "
        "workers alike (%s)",
        worker, 100 * most, worst->mean.worker_step_s[worker],
        dl_point_text(text, sizeof text, &worst->point));
}

const char *dl_rate_text(char text[DL_RATE_BYTES], double per_s)
{
    static const dl_column rate = {.form = DL_FORM_RATE};
    char *number = dl_column_number_text(&rate, per_s);
    snprintf(text, DL_RATE_BYTES, "%s", number);
    free(number);
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

void dl_parts_put(FILE *out, const dl_row *row, int first)
{
    dl_part order[DL_PART_COUNT];
    dl_parts_sort(row->mean.part_frac, order);
    for (int p = first; p < DL_PART_COUNT && row->mean.part_frac[order[p]] >= DL_PART_SHOWN_FRAC;
         p++) {
        fprintf(out, "%s%s %.0f %%", p == first ? "" : ", ", dl_part_names[order[p]],
                100 * row->mean.part_frac[order[p]]);
    }
}
