/* Whole models: gradients compared with finite differences, shards with the whole batch, and
 * seeds. */
#include <stdlib.h>

#include "common/random.h"
#include "kernels/model.h"
#include "tests/check.h"
#include "tests/near.h"

enum { BATCH = 6 };

/* Models without batch norm that are fast; for the others see test_large_models.c. */
static const char *const small_models[] = {"mlp", "lenet", NULL};

static dl_model *create(const char *name, dl_precision precision, uint64_t seed)
{
    dl_model *model = NULL;
    dl_error err = {0};
    assert_int_equal(dl_model_create(&model, name, precision, BATCH, seed, &err), DL_OK);
    return model;
}

/* Copies samples first .. first+count-1 of a fixed random batch to the model's input. */
static void fill(dl_model *model, int first, int count)
{
    const size_t per_sample = dl_model_input_count(model);
    for (int s = 0; s < count; s++) {
        dl_random random;
        dl_random_init(&random, 3, 0, 0, (uint32_t)(first + s));
        dl_model_labels(model)[s] =
            (int32_t)dl_random_below(&random, (uint64_t)dl_model_class_count(model));
        for (size_t i = 0; i < per_sample; i++) {
            const double value = dl_random_uniform(&random);
            const size_t at = (size_t)s * per_sample + i;
            if (dl_model_precision(model) == DL_DOUBLE) {
                ((double *)dl_model_input(model))[at] = value;
            } else {
                ((float *)dl_model_input(model))[at] = (float)value;
            }
        }
    }
}

static double forward(dl_model *model, int batch)
{
    const int count = dl_model_operation_count(model);
    for (int i = 0; i < count; i++)
        dl_model_forward(model, i, batch);
    return dl_model_loss(model);
}

static void backward(dl_model *model, int batch)
{
    for (int i = dl_model_operation_count(model) - 1; i >= 0; i--) {
        dl_model_backward(model, i, batch);
    }
}

static double gradient_at(dl_model *model, size_t i)
{
    return dl_model_precision(model) == DL_DOUBLE ? ((double *)dl_model_gradients(model))[i]
                                                  : (double)((float *)dl_model_gradients(model))[i];
}

/* About 20 parameters of each operation, spread over its range, in double. h = 1e-6 is so small
 * that no rectifier or maximum switches, with rounding errors of 1e-16 * loss / h = 1e-9 in
 * gradients of about 1e-2. */
static void gradients_match_finite_differences(void **state DL_UNUSED)
{
    for (int m = 0; small_models[m]; m++) {
        dl_model *model = create(small_models[m], DL_DOUBLE, 11);
        double *parameters = dl_model_parameters(model);
        fill(model, 0, BATCH);
        (void)forward(model, BATCH);
        backward(model, BATCH);
        const double *gradients = dl_model_gradients(model);
        for (int i = 0; i < dl_model_operation_count(model); i++) {
            size_t first, count;
            dl_model_operation_parameters(model, i, &first, &count);
            const double scale = rms(gradients + first, count), h = 1e-6;
            for (size_t k = first; k < first + count; k += count / 20 + 1) {
                const double middle = parameters[k];
                parameters[k] = middle + h;
                const double above = forward(model, BATCH);
                parameters[k] = middle - h;
                const double difference = (above - forward(model, BATCH)) / (2 * h);
                parameters[k] = middle;
                if (!near_scaled(gradients[k], difference, scale, 1e-6)) {
                    fail_msg("%s, %s, parameter %zu", small_models[m],
                             dl_model_operation_name(model, i), k - first);
                }
            }
        }
        dl_model_destroy(model);
    }
}

/* Compares the mean of the shards' gradients, `shard` samples each, with that of the whole
 * batch. */
static void check_shards(const char *name, dl_precision precision, int shard, double tolerance)
{
    dl_model *model = create(name, precision, 11);
    const size_t count = dl_model_parameter_count(model);
    DL_AUTOFREE double *whole = dl_calloc(count, sizeof *whole, "test");
    DL_AUTOFREE double *mean = dl_calloc(count, sizeof *mean, "test");
    double loss = 0;
    fill(model, 0, BATCH);
    const double whole_loss = forward(model, BATCH);
    const int whole_correct = dl_model_correct(model);
    backward(model, BATCH);
    for (size_t i = 0; i < count; i++)
        whole[i] = gradient_at(model, i);
    int correct = 0;
    for (int first = 0; first < BATCH; first += shard) {
        fill(model, first, shard);
        loss += forward(model, shard) * shard / BATCH;
        correct += dl_model_correct(model);
        backward(model, shard);
        for (size_t i = 0; i < count; i++)
            mean[i] += gradient_at(model, i) * shard / BATCH;
    }
    assert_true(near_scaled(loss, whole_loss, 0, tolerance));
    assert_int_equal(correct, whole_correct);
    assert_true(near_all(mean, whole, count, tolerance));
    dl_model_destroy(model);
}

static void shard_gradients_average_to_the_whole(void **state DL_UNUSED)
{
    for (int m = 0; small_models[m]; m++) {
        check_shards(small_models[m], DL_DOUBLE, 3, 1e-12);
        check_shards(small_models[m], DL_DOUBLE, 1, 1e-12);
        check_shards(small_models[m], DL_FLOAT, 2, 1e-4);
    }
}

/* mlp: 785*128 + 129*64 + 65*10. lenet: 26*20 + 501*50 + 801*500 + 501*10. */
static void parameter_counts_are_those_of_the_papers(void **state DL_UNUSED)
{
    const struct {
        const char *name;
        size_t count;
    } expected[] = {{"mlp", 109386}, {"lenet", 431080}};
    for (int i = 0; i < 2; i++) {
        dl_model *model = create(expected[i].name, DL_FLOAT, 1);
        assert_int_equal(dl_model_parameter_count(model), expected[i].count);
        assert_int_equal(dl_model_parameter_bytes(model), 4 * expected[i].count);
        assert_int_equal(dl_model_input_count(model), 784);
        assert_int_equal(dl_model_class_count(model), 10);
        assert_int_equal((uintptr_t)dl_model_parameters(model) % 64, 0);
        assert_int_equal((uintptr_t)dl_model_gradients(model) % 64, 0);
        dl_model_destroy(model);
    }
}

/* Operations of lenet in order, with consecutive parameters, and 2 m n k flops per product: conv1
 * has two products (24^2 pixels x 25 x 20), as its input's gradient is not needed; the others have
 * three: conv2 8^2 x 500 x 50, fc1 800 x 500, fc2 500 x 10. */
static void lenet_is_laid_out_as_documented(void **state DL_UNUSED)
{
    const struct {
        const char *name;
        size_t count;
        double flops;
    } expected[] = {
        {"conv1", 520, 4.0 * 576 * 25 * 20},
        {"pool1", 0, 0},
        {"relu1", 0, 0},
        {"conv2", 25050, 6.0 * 64 * 500 * 50},
        {"pool2", 0, 0},
        {"relu2", 0, 0},
        {"fc1", 400500, 6.0 * 800 * 500},
        {"relu3", 0, 0},
        {"fc2", 5010, 6.0 * 500 * 10},
        {"loss", 0, 0},
    };
    dl_model *model = create("lenet", DL_FLOAT, 1);
    size_t next = 0;
    assert_int_equal(dl_model_operation_count(model), 10);
    for (int i = 0; i < 10; i++) {
        size_t first, count;
        dl_model_operation_parameters(model, i, &first, &count);
        assert_string_equal(dl_model_operation_name(model, i), expected[i].name);
        assert_int_equal(first, next);
        assert_int_equal(count, expected[i].count);
        assert_true(near_scaled(dl_model_operation_flops(model, i), expected[i].flops, 0, 0));
        next += count;
    }
    assert_int_equal(next, dl_model_parameter_count(model));
    dl_model_destroy(model);
}

static void equal_seeds_give_equal_parameters(void **state DL_UNUSED)
{
    dl_model *a = create("lenet", DL_FLOAT, 5), *b = create("lenet", DL_FLOAT, 5);
    dl_model *other = create("lenet", DL_FLOAT, 6), *twofold = create("lenet", DL_DOUBLE, 5);
    const size_t bytes = dl_model_parameter_bytes(a);
    assert_memory_equal(dl_model_parameters(a), dl_model_parameters(b), bytes);
    assert_memory_not_equal(dl_model_parameters(a), dl_model_parameters(other), bytes);
    const float *x = dl_model_parameters(a);
    const double *y = dl_model_parameters(twofold);
    for (size_t i = 0; i < dl_model_parameter_count(a); i++) {
        if (x[i] < (float)y[i] || x[i] > (float)y[i]) fail_msg("parameter %zu", i);
    }
    dl_model_destroy(a);
    dl_model_destroy(b);
    dl_model_destroy(other);
    dl_model_destroy(twofold);
}

/* A model for another batch size starts like one of 20 million parameters, which several threads
 * draw: the parameters are equal, and so is a step, which also reads the running statistics. */
static void a_model_starts_like_another(void **state DL_UNUSED)
{
    dl_model *drawn = create("vgg19_bn", DL_FLOAT, 5), *made = NULL;
    dl_error err = {0};
    assert_int_equal(dl_model_create_like(&made, drawn, dl_backend_cpu(DL_FLOAT), 2 * BATCH, &err),
                     DL_OK);
    assert_memory_equal(dl_model_parameters(made), dl_model_parameters(drawn),
                        dl_model_parameter_bytes(drawn));
    fill(drawn, 0, 2);
    fill(made, 0, 2);
    const double loss = forward(drawn, 2);
    assert_memory_equal(&loss, &(double){forward(made, 2)}, sizeof loss);
    dl_model_destroy(made);
    dl_model_destroy(drawn);
}

/* A step that is run twice gives the same bits: the first run leaves no state. */
static void steps_repeat_bit_for_bit(void **state DL_UNUSED)
{
    dl_model *model = create("lenet", DL_FLOAT, 5);
    const size_t bytes = dl_model_parameter_bytes(model);
    DL_AUTOFREE void *first = dl_calloc(1, bytes, "test");
    fill(model, 0, BATCH);
    (void)forward(model, BATCH);
    backward(model, BATCH);
    memcpy(first, dl_model_gradients(model), bytes);
    fill(model, 2, 3);
    (void)forward(model, 3);
    backward(model, 3);
    assert_memory_not_equal(first, dl_model_gradients(model), bytes);
    fill(model, 0, BATCH);
    (void)forward(model, BATCH);
    backward(model, BATCH);
    assert_memory_equal(first, dl_model_gradients(model), bytes);
    dl_model_destroy(model);
}

/* Vectors like the parameters, gradients and state of a worker. Their size is one page less than a
 * power of two: an allocator that maps each would place them exactly that power of two apart. */
static void vectors_of_a_backend_are_staggered(void **state DL_UNUSED)
{
    const dl_backend *backend = dl_backend_cpu(DL_FLOAT);
    const uintptr_t cycle = (uintptr_t)DL_STAGGER_BYTES * DL_STAGGER_COUNT;
    void *vectors[4];
    for (int i = 0; i < 4; i++) {
        const size_t bytes = ((size_t)1 << 22) - 4096;
        vectors[i] =
            i % 2 == 0 ? backend->allocate(bytes, "test") : backend->allocate_host(bytes, "test");
        for (int j = 0; j < i; j++)
            assert_int_not_equal((uintptr_t)vectors[i] / 4096 % (cycle / 4096),
                                 (uintptr_t)vectors[j] / 4096 % (cycle / 4096));
    }
    for (int i = 0; i < 4; i++)
        (i % 2 == 0 ? backend->release : backend->release_host)(vectors[i]);
}

static void bad_arguments_are_refused(void **state DL_UNUSED)
{
    dl_model *model = NULL;
    dl_error err = {0};
    assert_int_equal(dl_model_create(&model, "lenett", DL_FLOAT, 1, 1, &err), DL_ERR_NAME);
    assert_contains(err.text, "lenett");
    assert_contains(err.text, "'lenet'");
    assert_int_equal(dl_model_create(&model, "mlp", DL_FLOAT, 0, 1, &err), DL_ERR_RANGE);
    assert_null(model);
    dl_model_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(shard_gradients_average_to_the_whole),
        cmocka_unit_test(parameter_counts_are_those_of_the_papers),
        cmocka_unit_test(lenet_is_laid_out_as_documented),
        cmocka_unit_test(equal_seeds_give_equal_parameters),
        cmocka_unit_test(a_model_starts_like_another),
        cmocka_unit_test(steps_repeat_bit_for_bit),
        cmocka_unit_test(vectors_of_a_backend_are_staggered),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
