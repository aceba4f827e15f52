/* Fixture of the tests of training: a small configuration of the mlp and a set of 50 images. */
#ifndef DL_TESTS_TRAIN_CASE_H
#define DL_TESTS_TRAIN_CASE_H

#include <stdbool.h>

#include "tests/check.h"

#include "kernels/train/train.h"

#define SAMPLES 50

static dl_data_set data; /* SAMPLES synthetic images */

static inline int make_data(void **state DL_UNUSED)
{
    dl_data_set_synthetic(&data, (dl_shape){28, 28, 1}, 10, SAMPLES, 3);
    return 0;
}

static inline int free_data(void **state DL_UNUSED)
{
    dl_data_set_free(&data);
    return 0;
}

/* 20 steps of 12 samples: 240 of a set of 50, so batches straddle the ends of epochs. */
static inline dl_train_config small_config(void)
{
    dl_train_config config = dl_train_default_config();
    config.model = "mlp";
    config.precision = DL_DOUBLE;
    config.optimizer = (dl_optimizer_config){.name = "sgd", .learning_rate = 0.05};
    config.batch = 12;
    config.steps = 20;
    config.seed = 11;
    config.wait = DL_WAIT_BLOCK; /* other tests run beside this one */
    return config;
}

static inline dl_train_result run(const dl_train_config *config, const dl_train_observer *observer)
{
    dl_train_result result = {0};
    dl_error err = {0};
    if (dl_train_run(config, &data, observer, &result, &err) != DL_OK) fail_msg("%s", err.text);
    return result;
}

static inline bool same_bits(const dl_train_result *a, const dl_train_result *b)
{
    assert_int_equal(a->parameter_count, b->parameter_count);
    return memcmp(a->parameters, b->parameters, a->parameter_count * sizeof(double)) == 0;
}

/* Frees both. */
static inline void expect_same(dl_train_result *a, dl_train_result *b)
{
    assert_true(same_bits(a, b));
    dl_train_result_free(a);
    dl_train_result_free(b);
}

#endif
