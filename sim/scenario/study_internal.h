/* What reading the costs of a study's variants (study_costs.c) shares with settings that a scenario
 * leaves open (study_settings.c). */
#ifndef DL_SIM_STUDY_INTERNAL_H
#define DL_SIM_STUDY_INTERNAL_H

#include "sim/scenario/scenario_internal.h"
#include "sim/scenario/study.h"

/* The costs of the scenario's model on a GPU of its machine. */
dl_status dl_scenario_estimate_costs(const dl_scenario *scenario, const dl_gpu_model *gpu,
                                     dl_costs *costs, dl_error *err) DL_MUST_CHECK;

/* Settings that the scenario leaves open, as in the program that the variant's costs are of. */
dl_status dl_variant_take_settings(dl_variant *variant, dl_error *err) DL_MUST_CHECK;

/* Types that sharded vectors are sent as, where they are left open: the usual ones, which are added to
 * the variant's assumptions. A measured step has them in it: before it is looked for. */
void dl_variant_take_dtypes(dl_variant *variant);

/* The usual values of those that are left, which are added to the variant's assumptions. */
void dl_variant_assume_settings(dl_variant *variant);

#endif
