/* Memory of the points of a study, by kind and stage, and the settings that fit: dlsim --fits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/rows.h"
#include "common/wrap.h"
#include "sim/fits.h"
#include "sim/report/report.h"

/* Largest micro-batch tried, in samples. */
#define MICRO_BATCH_MAX 65536

/* Largest micro-batch of a rank, in samples, with which the point fits at its number of
 * micro-batches. */
static double largest_micro_batch(const dl_variant *variant, const dl_point *point)
{
    const dl_split split = dl_point_split(point);
    const int64_t unit = (int64_t)point->workers * dl_split_batches(&split) * split.micro_batches;
    dl_point tried = *point;
    tried.batch = unit * MICRO_BATCH_MAX;
    const int64_t batch = dl_largest_fitting(&variant->scenario, &variant->costs, &tried, unit);
    return (double)(batch / unit);
}

/* Says why it is unknown whether the point fits. */
static void add_missing(FILE *below, const dl_variant *variant, const dl_gpu_memory *memory,
                        const char *label)
{
    DL_AUTOFREE char *missing =
        dl_costs_missing(&variant->costs, DL_NEED_GPU_MEMORY | DL_NEED_PARAMETERS | DL_NEED_STATE);
    if (missing != NULL)
        fprintf(below, "%s: unknown whether it fits: %s lacks %s\n", label,
                dl_base_name(variant->costs.path), missing);
    else
        fprintf(below, "%s: unknown whether it fits: %s is unknown\n", label,
                isnan(memory->has_bytes) ? "the GPU's memory" : "the memory that a step needs");
}

/* Adds the point's stages to the table, and each stage's memory by kind to the text below it. False
 * if the point does not fit. */
static bool add_point(dl_rows *rows, FILE *below, const dl_variant *variant, const dl_point *point,
                      const char *label)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_split split = dl_point_split(point);
    const dl_gpu_memory all = dl_run_memory(scenario, &variant->costs, point);
    const bool known = dl_memory_fit(&all) != DL_FIT_UNKNOWN;
    const double largest = known ? largest_micro_batch(variant, point) : (double)NAN;
    for (int s = 0; s < split.stages; s++) {
        char stage[16] = "";
        if (split.stages > 1) snprintf(stage, sizeof stage, "%d", s);
        const dl_gpu_memory memory = dl_run_stage_memory(scenario, &variant->costs, point, s);
        DL_AUTOFREE char *when = dl_fits_when(scenario, &variant->costs, point, s, &memory);
        dl_rows_add(rows,
                    "point=%-s stage=%s needs=%gB reserve=%gB has=%gB fits=%s "
                    "micro_batch|micro-batch=%g largest=%g when=%-s",
                    label, stage[0] != '\0' ? stage : NULL, memory.needs_bytes,
                    dl_memory_reserve_bytes(&memory), memory.has_bytes,
                    dl_fit_names[dl_memory_fit(&memory)], split.samples, largest, when);
        DL_AUTOFREE char *of = dl_fits_content(&memory.content);
        fprintf(below, "%s%s%s: %s\n", label, stage[0] != '\0' ? ", stage " : "", stage, of);
    }
    if (!known) add_missing(below, variant, &all, label);
    if (dl_memory_fits(&all)) return true;
    DL_AUTOFREE char *remedy = dl_fits_remedy(scenario, &variant->costs, point, &all);
    fprintf(below, "%s: %s\n", label, remedy);
    return false;
}

dl_status dl_report_memory(FILE *out, const dl_study *study, dl_error *err)
{
    dl_rows rows = {.out = out};
    bool fits = false;
    char *text = NULL, *rest = NULL;
    size_t bytes = 0;
    FILE *below = dl_text_stream(&text, &bytes);
    dl_rows_begin(&rows, "memory", NULL);
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        for (size_t p = 0; p < variant->scenario.point_count; p++) {
            DL_AUTOFREE char *label = dl_fits_label(study, variant, &variant->scenario.points[p]);
            fits |= add_point(&rows, below, variant, &variant->scenario.points[p], label);
        }
        const char *in_vain = dl_recompute_in_vain(&variant->scenario);
        if (in_vain != NULL) fprintf(below, "note: %s\n", in_vain);
    }
    dl_rows_end(&rows, 0);
    fclose(below);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        dl_wrap_print(out, 2, "%s", line);
    free(text);
    return fits ? DL_OK : dl_error_set(err, DL_ERR_UNFIT, "--fits: no point fits into its GPUs");
}
