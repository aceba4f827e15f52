/* Memory use of a point's fullest GPU, and changes with which the point would fit. */
#ifndef DL_SIM_FITS_H
#define DL_SIM_FITS_H

#include "sim/island/memory.h"
#include "sim/sweep.h"

bool dl_memory_fits(const dl_gpu_memory *memory); /* also true for unknown needs */

/* Memory that PyTorch's allocator may hold in addition: DL_RESERVE_FRAC of the allocated bytes. */
double dl_memory_reserve_bytes(const dl_gpu_memory *memory);

/* The verdict of --fits, and of advice. */
typedef enum dl_fit {
    DL_FIT_UNKNOWN,
    DL_FIT_NO,
    DL_FIT_UNCACHED, /* it fits only if the allocator keeps next to nothing */
    DL_FIT_YES,
    DL_FITS
} dl_fit;
extern const char *const dl_fit_names[DL_FITS]; /* "", "no", "without cache", "yes" */
dl_fit dl_memory_fit(const dl_gpu_memory *memory);

/* The largest fitting batch up to the point's, a multiple of `unit`; 0: none. */
int64_t dl_largest_fitting(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point, int64_t unit);

/* The time within a step at which the stage's memory peaks: "in the loss of micro-batch 1"; freed
 * by the caller. */
char *dl_fits_when(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                   int stage, const dl_gpu_memory *memory);

/* A stage's GPU memory by content, except `others`, at each layer of each pass of a step, in order
 * of time: an array of *count freed by the caller; NULL if it is unknown. */
dl_gpu_content *dl_fits_course(const dl_scenario *scenario, const dl_costs *costs,
                               const dl_point *point, int stage, size_t *count);

/* A stage's memory per GPU in each pass of a step, [2 x micro-batches x chunks]; false: unknown. */
bool dl_fits_passes(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                    int stage, dl_memory_pass *passes);

/* "parameters 32.1 GB, gradients 32.1 GB": the kinds that take memory; the caller frees it. */
char *dl_fits_content(const dl_gpu_content *content);

/* "what fits: --batch-per-worker 2, exchange.sharded=gradients (61 GB)" for a point that does not
 * fit; dl_fits_text puts its content and "; " before that. Freed by the caller. */
char *dl_fits_remedy(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     const dl_gpu_memory *memory);
char *dl_fits_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                   const dl_gpu_memory *memory);

/* DL_ERR_UNFIT if no point of the sweep fits into its GPUs. */
dl_status dl_fits_check(const dl_sweep *sweep, dl_error *err) DL_MUST_CHECK;

/* Whether this recomputation (DL_RECOMPUTE_SELECTIVE, ...) stores fewer bytes of activations than
 * none. False without a model, and for a model that does not support it. */
bool dl_recompute_saves(const dl_scenario *scenario, int recompute);

/* A warning if the scenario's selective recomputation saves no memory; else NULL. */
const char *dl_recompute_in_vain(const dl_scenario *scenario);

#endif
