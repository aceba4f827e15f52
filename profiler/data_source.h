/* Where training data comes from: MNIST or CIFAR-10, whichever has the model's shape, where its
 * files are; else synthetic images of that shape. */
#ifndef DL_PROFILER_DATA_SOURCE_H
#define DL_PROFILER_DATA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/data_set.h"

typedef enum dl_data_choice {
    DL_DATA_AUTO,
    DL_DATA_MNIST,
    DL_DATA_CIFAR10,
    DL_DATA_SYNTHETIC
} dl_data_choice;
extern const char *const dl_data_choice_names[]; /* "auto", "mnist", "cifar10", "synthetic", NULL */

/* The choice that gives the set called so again (dl_data_set's name). */
dl_data_choice dl_data_choice_of(const char *set_name);

typedef struct dl_data_source {
    dl_data_choice choice;
    const char *model;  /* a name of dl_model_names */
    const char *folder; /* with the set's files; NULL: $DL_DATA/mnist or $DL_DATA/cifar10, where
                           DL_DATA is ./data if not set */
    uint64_t seed;      /* of synthetic images */
    bool test_set;      /* the test images instead of the training images */
} dl_data_source;

/* Reads or makes the set; the caller frees it with dl_data_set_free. `auto` takes the real set of
 * the model's shape unless its files cannot be read; damaged files are an error. Synthetic images
 * are as many as the real set of that shape has; where we read none (ImageNet's), 256, and 64 for
 * the test. *note, in words what was taken and why, is released with free(). */
dl_status dl_data_source_open(const dl_data_source *source, dl_data_set *set, char **note,
                              dl_error *err) DL_MUST_CHECK;

#endif
