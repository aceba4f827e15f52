/* Where training data comes from: MNIST where its files are, else synthetic images of its shape. */
#ifndef DL_PROFILER_DATA_SOURCE_H
#define DL_PROFILER_DATA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/data_set.h"

typedef enum dl_data_choice { DL_DATA_AUTO, DL_DATA_MNIST, DL_DATA_SYNTHETIC } dl_data_choice;
extern const char *const dl_data_choice_names[]; /* "auto", "mnist", "synthetic", NULL */

typedef struct dl_data_source {
    dl_data_choice choice;
    const char
        *folder;   /* with MNIST's IDX files; NULL: $DL_DATA/mnist, without DL_DATA ./data/mnist */
    uint64_t seed; /* of synthetic images */
    bool test_set; /* the test images instead of the training images */
} dl_data_source;

/* Reads or makes the set; the caller frees it with dl_data_set_free. `auto` takes MNIST unless its
 * files cannot be read; damaged files are an error. *note, in words what was taken and why, is
 * released with free(). */
dl_status dl_data_source_open(const dl_data_source *source, dl_data_set *set, char **note,
                              dl_error *err) DL_MUST_CHECK;

#endif
