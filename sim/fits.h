/* Memory use of a point's fullest GPU, and changes that would make the point fit. */
#ifndef DL_SIM_FITS_H
#define DL_SIM_FITS_H

#include "sim/island/memory.h"
#include "sim/sweep.h"

bool dl_memory_fits(const dl_gpu_memory *memory); /* also true if the need is unknown */

/* Memory that PyTorch's allocator may hold in addition: DL_RESERVE_FRAC of the allocated bytes (the
 * need without the workspace). */
double dl_memory_reserve_bytes(const dl_gpu_memory *memory);

/* Verdict of --fits and of advice. */
typedef enum dl_fit {
    DL_FIT_UNKNOWN,
    DL_FIT_NO,
    DL_FIT_UNCACHED, /* fits only if the allocator caches almost nothing */
    DL_FIT_YES,
    DL_FITS
} dl_fit;
extern const char *const dl_fit_names[DL_FITS]; /* "", "no", "without cache", "yes" */
dl_fit dl_memory_fit(const dl_gpu_memory *memory);

/* The largest batch, up to the point's, that fits and is a multiple of `unit`; 0: none. */
int64_t dl_largest_fitting(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point, int64_t unit);

/* When in a step the stage's memory peaks: "in the loss of micro-batch 1"; "" if unknown. The
 * caller frees the text. */
char *dl_fits_when(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                   int stage, const dl_gpu_memory *memory);

/* A stage's GPU memory by content, except `others`, at each layer of each pass of a step, in order
 * of time: an array of *count entries that the caller frees; NULL if unknown. */
dl_gpu_content *dl_fits_course(const dl_scenario *scenario, const dl_costs *costs,
                               const dl_point *point, int stage, size_t *count);

/* Sets passes[2 x micro-batches x chunks] to a stage's memory per GPU in each pass of a step;
 * false: unknown. */
bool dl_fits_passes(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                    int stage, dl_memory_pass *passes);

/* Lists the content that takes memory: "parameters 32.1 GB, gradients 32.1 GB". The caller frees
 * it. */
char *dl_fits_content(const dl_gpu_content *content);

/* dl_fits_remedy: changes with which the point fits, "what fits: --batch-per-worker 2,
 * exchange.sharded=gradients (61 GB)", or, if there are none, advice to take more or larger GPUs.
 * If the scenario's generators do not fit, their remedy (dl_generate_remedy). dl_fits_text: the
 * memory's content, "; " and the remedy. The caller frees the text. */
char *dl_fits_remedy(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     const dl_gpu_memory *memory);
char *dl_fits_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                   const dl_gpu_memory *memory);

/* Returns the swept settings, "tp=8,pp=2, recompute full", workers and batch if points differ in
 * them or nothing is swept, and the mode if points differ in it; the caller frees it. */
char *dl_fits_label(const dl_study *study, const dl_variant *variant, const dl_point *point);

/* Returns DL_ERR_UNFIT, with the remedy for the point that needs the smallest part of its GPUs'
 * memory, if no point of the study's sweep fits into its GPUs. */
dl_status dl_fits_check(const dl_study *study, const dl_sweep *sweep, dl_error *err) DL_MUST_CHECK;

/* Whether this recomputation (DL_RECOMPUTE_SELECTIVE, ...) stores fewer bytes of activations than
 * no recomputation. False without a model, or if the model does not support it. */
bool dl_recompute_saves(const dl_scenario *scenario, int recompute);

/* A warning if the scenario's selective recomputation saves no memory; otherwise NULL. */
const char *dl_recompute_in_vain(const dl_scenario *scenario);

#endif
