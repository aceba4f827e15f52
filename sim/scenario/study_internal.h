/* Functions shared by study_costs.c, which reads the costs of a study's variants, and
 * study_settings.c, which completes the settings that a scenario leaves open. */
#ifndef DL_SIM_STUDY_INTERNAL_H
#define DL_SIM_STUDY_INTERNAL_H

#include "sim/scenario/scenario_internal.h"
#include "sim/scenario/study.h"

/* Sets settings that the scenario leaves open to those of the program that the costs describe. */
dl_status dl_variant_take_settings(dl_variant *variant, dl_error *err) DL_MUST_CHECK;

/* Sets the number types of messages of sharded vectors, where the scenario leaves them open, to the
 * usual ones, as assumptions of the variant. Call before calibration, as a measured step includes
 * these messages. */
void dl_variant_take_dtypes(dl_variant *variant);

/* Sets settings that are still open to their usual values, as assumptions of the variant. */
void dl_variant_assume_settings(dl_variant *variant);

/* Notes as an assumption that variants do not compress gradients, if the study compares them with
 * FSDP whose messages have 16 bits. Call after the types of messages are set in all variants. */
void dl_study_assume_messages(dl_study *study);

#endif
