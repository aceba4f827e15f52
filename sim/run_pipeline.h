/* For sim/run.c: points whose model is split over GPUs (sim/pipeline/pipeline.h). */
#ifndef DL_SIM_RUN_PIPELINE_H
#define DL_SIM_RUN_PIPELINE_H

#include "sim/engine.h"
#include "sim/run.h"

/* Whether each worker of the point is several GPUs. */
bool dl_point_is_split(const dl_point *point);

/* GPUs of the point: workers x stages. */
int dl_point_gpus(const dl_point *point);

/* Whether the model can be split as the point wants it: DL_ERR_* of dl_pipeline_cut. */
dl_status dl_run_split_check(const dl_scenario *scenario, const dl_costs *costs,
                             const dl_point *point, dl_error *err) DL_MUST_CHECK;

/* Bytes of layers that the point needs and the costs lack, as dl_costs_missing writes it. */
char *dl_run_split_missing(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point);

dl_origin dl_run_split_origin(const dl_scenario *scenario, const dl_costs *costs, dl_origin others);

/* What a GPU of the stage needs, and what the smallest one that has it has; NaN if unknown. */
dl_gpu_memory dl_run_stage_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int stage);

/* That of the fullest stage, whose number goes to *stage. */
dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int *stage);

/* "conv1;fc1", the first layers of the stages, in a text of its own. */
char *dl_run_split_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* The errors of dl_run, of a run that has ended; in sim/run.c. */
dl_status dl_run_check_time(const dl_engine *engine, const dl_run_config *config,
                            dl_error *err) DL_MUST_CHECK;

/* As dl_run, with the costs of its draw. */
dl_status dl_run_split(const dl_run_config *config, const dl_costs *costs, dl_run_result *result,
                       dl_error *err) DL_MUST_CHECK;

#endif
