/* A whole calibration: traces in, costs and the quality of every fit out. */
#ifndef DL_CALIBRATE_CALIBRATION_H
#define DL_CALIBRATE_CALIBRATION_H

#include "calibrate/charges.h"
#include "calibrate/dataset.h"
#include "calibrate/memory.h"
#include "calibrate/notes.h"
#include "calibrate/operations.h"
#include "calibrate/sharing.h"
#include "calibrate/step_noise.h"
#include "sim/costs/costs.h"

/* Owns everything; zero before use, release with dl_calibration_free. */
typedef struct dl_calibration {
    dl_dataset dataset;
    dl_costs costs;
    dl_operations operations; /* op_count 0 without train traces */
    dl_step_noise noise;      /* no sets without train traces */
    dl_charges charges;
    dl_memory_fit memory;
    dl_sharing_fit sharing;
    dl_notes notes;
} dl_calibration;

/* Reads the traces paths[count], count >= 1, and fits what they allow; what they lack stays unknown
 * in the costs, and a note says so. Fails as dl_dataset_add and the fits do. */
dl_status dl_calibration_fit(dl_calibration *calibration, const char *const *paths, size_t count,
                             dl_error *err) DL_MUST_CHECK;

/* Writes the cost file, with where it comes from (program, date, names of the traces without their
 * folders) and all notes as its first lines. */
dl_status dl_calibration_write(const dl_calibration *calibration, const char *path,
                               dl_error *err) DL_MUST_CHECK;

void dl_calibration_free(dl_calibration *calibration);

#endif
