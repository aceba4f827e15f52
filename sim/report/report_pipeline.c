#include "sim/report/report_pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/run.h"

#define POINTS_SHOWN 6

static const char *const names[] = {
    "gpus_used",       "pipeline_stages",    "pipeline_micro_batches", "pipeline_schedule",
    "bubble_frac",     "crossing_bytes",     "exchange_bytes",         "stage_first_layer",
    "stage_busy_frac", "stage_memory_bytes",
};

void dl_report_pipeline_names(dl_csv_writer *writer)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        dl_csv_text(writer, names[i]);
}

/* "1;2.5" in a text of its own. */
static char *joined(const double *values, int count)
{
    char *text = dl_strdup("");
    for (int i = 0; i < count; i++) {
        char number[DL_DOUBLE_TEXT_BYTES];
        char *grown =
            dl_format("%s%s%s", text, i > 0 ? ";" : "", dl_format_double(number, values[i]));
        free(text);
        text = grown;
    }
    return text;
}

static void write_joined(dl_csv_writer *writer, const double *values, int count)
{
    char *text = joined(values, count);
    dl_csv_text(writer, text);
    free(text);
}

void dl_report_pipeline_row(dl_csv_writer *writer, const dl_scenario *scenario,
                            const dl_costs *costs, const dl_row *row)
{
    const dl_point *point = &row->point;
    dl_csv_int(writer, dl_point_gpus(point));
    dl_csv_int(writer, point->stages);
    if (!dl_point_is_split(point)) {
        for (size_t i = 2; i < sizeof names / sizeof *names; i++)
            dl_csv_text(writer, "");
        return;
    }
    const dl_split_result *split = row->mean.split; /* NULL: the point did not fit */
    double memory[DL_STAGES_MAX];
    for (int s = 0; s < point->stages; s++)
        memory[s] = dl_run_stage_memory(scenario, costs, point, s).needs_bytes;
    char *layers = dl_run_split_text(scenario, costs, point);
    dl_csv_int(writer, point->micro_batches);
    dl_csv_text(writer, dl_schedule_names[scenario->pipeline->schedule]);
    dl_csv_double(writer, split != NULL ? split->bubble_frac : (double)NAN);
    dl_csv_double(writer, split != NULL ? split->crossed_bytes : (double)NAN);
    dl_csv_double(writer, split != NULL ? split->reduced_bytes : (double)NAN);
    dl_csv_text(writer, layers);
    write_joined(writer, split != NULL ? split->busy_frac : NULL,
                 split != NULL ? split->stages : 0);
    write_joined(writer, memory, point->stages);
    free(layers);
}

static void print_stages(FILE *out, const dl_variant *variant, const dl_row *row)
{
    const dl_point *point = &row->point;
    const dl_split_result *split = row->mean.split;
    char text[DL_POINT_TEXT_BYTES], needs[32], has[32];
    fprintf(out, "%s, %d stages, %d micro-batches, %s", dl_point_text(text, sizeof text, point),
            point->stages, point->micro_batches,
            dl_schedule_names[variant->scenario.pipeline->schedule]);
    if (split != NULL) fprintf(out, ": bubble %.1f %%", 100 * split->bubble_frac);
    fprintf(out, "\n");
    char *layers = dl_run_split_text(&variant->scenario, &variant->costs, point);
    char *rest = layers;
    for (int s = 0; s < point->stages; s++) {
        char *name = strsep(&rest, ";");
        const dl_gpu_memory memory =
            dl_run_stage_memory(&variant->scenario, &variant->costs, point, s);
        fprintf(out, "  stage %d from %-20s", s, name);
        if (split != NULL) fprintf(out, " busy %5.1f %%", 100 * split->busy_frac[s]);
        if (!isnan(memory.needs_bytes)) {
            fprintf(out, "  memory %s of %s",
                    dl_format_bytes(needs, sizeof needs, memory.needs_bytes),
                    dl_format_bytes(has, sizeof has, memory.has_bytes));
        }
        fprintf(out, "\n");
    }
    free(layers);
}

void dl_report_pipeline_table(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    int points = 0;
    for (size_t r = 0; r < sweep->row_count; r++)
        points += dl_point_is_split(&sweep->rows[r].point);
    if (points > POINTS_SHOWN) {
        fprintf(out, "%d points of split models: their stages stand in the results\n", points);
        return;
    }
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        if (dl_point_is_split(&row->point)) {
            print_stages(out, &study->variants[row->variant], row);
        }
    }
}
