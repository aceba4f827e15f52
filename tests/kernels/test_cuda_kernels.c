/* The kernels of the "cuda" device, compiled for the processor (doubles/cuda/cuda_runtime.h),
 * compared with the processor's operations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/exchange.h"
#include "kernels/quantise.h"
#include "tests/check.h"
#include "tests/near.h"

/* Float has a precision of 6e-8; sums of a few terms in another order. */
#define TOLERANCE 3e-6

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const dl_backend *cpu;
static dl_random draws;
static dl_device device;

/* The rest of the device that the kernels need: a slot on which nothing fails. */
dl_device *dl_cuda_device(void)
{
    return &device;
}

bool dl_cuda_works(const dl_device *slot)
{
    return slot == &device;
}

bool dl_cuda_good(dl_device *slot DL_UNUSED, cudaError_t result, const char *what DL_UNUSED)
{
    assert_int_equal(result, cudaSuccess);
    return true;
}

/* Returns `count` normal numbers, aligned for vector loads; release() them. */
static float *drawn(size_t count)
{
    float *values = cpu->allocate(count * sizeof *values, "test");
    for (size_t i = 0; i < count; i++)
        values[i] = (float)dl_random_normal(&draws);
    return values;
}

static float *zeros(size_t count)
{
    return cpu->allocate(count * sizeof(float), "test");
}

static float *copy_of(const float *values, size_t count)
{
    float *copy = zeros(count);
    memcpy(copy, values, count * sizeof *copy);
    return copy;
}

static void assert_close(const float *actual, const float *expected, size_t count)
{
    DL_AUTOFREE double *a = dl_calloc(count, sizeof *a, "test"),
                       *e = dl_calloc(count, sizeof *e, "test");
    for (size_t i = 0; i < count; i++) {
        a[i] = (double)actual[i];
        e[i] = (double)expected[i];
    }
    assert_true(near_all(a, e, count, TOLERANCE));
}

static void rows_are_repeated_and_arrays_filled(void **state DL_UNUSED)
{
    enum { ROWS = 37, COLUMNS = 29 };
    float *row = drawn(COLUMNS), *matrix = zeros(ROWS * COLUMNS), *expected = zeros(ROWS * COLUMNS);
    dl_cuda_repeat_row(matrix, row, ROWS, COLUMNS);
    cpu->repeat_row(expected, row, ROWS, COLUMNS);
    assert_memory_equal(matrix, expected, ROWS * COLUMNS * sizeof *matrix);
    dl_cuda_set_ones(matrix, ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(matrix[i] == 1);
    cpu->release(row);
    cpu->release(matrix);
    cpu->release(expected);
}

static const dl_windows pools[] = {
    {.count = 3, .in = {8, 8, 5}, .kernel = 2, .stride = 2},
    {.count = 2, .in = {7, 9, 3}, .kernel = 3, .stride = 2, .padding = 1}, /* ResNet's first
                                                                            * pooling */
    {.count = 1, .in = {6, 5, 4}, .kernel = 3, .stride = 1},
    {.count = 2, .in = {11, 11, 1}, .kernel = 2, .stride = 3}, /* some pixels are in no window */
    {.count = 1, .in = {7, 7, 64}, .kernel = 7, .stride = 7},
};

static dl_windows pool_case(size_t i)
{
    dl_windows pool = pools[i];
    pool.out = (dl_shape){dl_window_count(pool.in.rows, pool.kernel, pool.stride, pool.padding),
                          dl_window_count(pool.in.columns, pool.kernel, pool.stride, pool.padding),
                          pool.in.channels};
    return pool;
}

/* The values are few different numbers, so that maxima are often equal. */
static void maxima_of_windows(void **state DL_UNUSED)
{
    for (size_t i = 0; i < COUNT(pools); i++) {
        const dl_windows pool = pool_case(i);
        const size_t in = (size_t)pool.count * dl_shape_count(pool.in);
        const size_t out = (size_t)pool.count * dl_shape_count(pool.out);
        float *x = drawn(in), *dy = drawn(out);
        for (size_t k = 0; k < in; k++)
            x[k] = roundf(x[k]);
        float *y[2], *dx[2];
        int32_t *choice[2];
        for (int c = 0; c < 2; c++) {
            y[c] = zeros(out);
            dx[c] = zeros(in);
            choice[c] = cpu->allocate(out * sizeof **choice, "test");
        }
        dl_cuda_max_pool(&pool, x, y[0], choice[0]);
        cpu->max_pool(&pool, x, y[1], choice[1]);
        assert_memory_equal(y[0], y[1], out * sizeof **y);
        assert_memory_equal(choice[0], choice[1], out * sizeof **choice);
        dl_cuda_max_pool_backward(&pool, choice[0], dy, dx[0]);
        cpu->max_pool_backward(&pool, choice[1], dy, dx[1]);
        assert_close(dx[0], dx[1], in);
        for (int c = 0; c < 2; c++) {
            cpu->release(y[c]);
            cpu->release(dx[c]);
            cpu->release(choice[c]);
        }
        cpu->release(x);
        cpu->release(dy);
    }
}

static void means_of_pixels(void **state DL_UNUSED)
{
    static const struct {
        int count, pixels, channels;
    } cases[] = {{3, 64, 5}, {1, 49, 64}, {2, 1, 3}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int count = cases[i].count, pixels = cases[i].pixels, channels = cases[i].channels;
        const size_t out = (size_t)count * (size_t)channels, in = out * (size_t)pixels;
        float *x = drawn(in), *dy = drawn(out);
        float *y[2] = {zeros(out), zeros(out)}, *dx[2] = {zeros(in), zeros(in)};
        dl_cuda_mean_pixels(count, pixels, channels, x, y[0]);
        cpu->mean_pixels(count, pixels, channels, x, y[1]);
        assert_close(y[0], y[1], out);
        dl_cuda_mean_pixels_backward(count, pixels, channels, dy, dx[0]);
        cpu->mean_pixels_backward(count, pixels, channels, dy, dx[1]);
        assert_close(dx[0], dx[1], in);
        for (int c = 0; c < 2; c++) {
            cpu->release(y[c]);
            cpu->release(dx[c]);
        }
        cpu->release(x);
        cpu->release(dy);
    }
}

static void check_softmax(int batch, int classes)
{
    const size_t count = (size_t)batch * (size_t)classes;
    float *scores = drawn(count);
    DL_AUTOFREE int32_t *labels = dl_calloc((size_t)batch, sizeof *labels, "test");
    for (size_t i = 0; i < count; i++)
        scores[i] = 100 * roundf(scores[i]); /* gives ties, and exp of them would be infinite */
    for (int i = 0; i < batch; i++)
        labels[i] = (int32_t)dl_random_below(&draws, (uint64_t)classes);
    float *p[2], *gradients[2];
    double *losses[2];
    int32_t *correct[2];
    for (int c = 0; c < 2; c++) {
        p[c] = zeros(count);
        gradients[c] = zeros(count);
        losses[c] = dl_calloc((size_t)batch, sizeof **losses, "test");
        correct[c] = dl_calloc((size_t)batch, sizeof **correct, "test");
    }
    const dl_softmax softmax = {batch, classes, scores, labels, p[1], losses[1], correct[1]};
    const dl_softmax of_cuda = {batch, classes, scores, labels, p[0], losses[0], correct[0]};
    cpu->softmax(&softmax);
    dl_cuda_softmax(&of_cuda);
    assert_close(p[0], p[1], count);
    assert_true(near_all(losses[0], losses[1], (size_t)batch, TOLERANCE));
    assert_memory_equal(correct[0], correct[1], (size_t)batch * sizeof **correct);
    cpu->softmax_backward(&softmax, gradients[1]);
    dl_cuda_softmax_backward(&softmax, gradients[0]);
    assert_close(gradients[0], gradients[1], count);
    for (int c = 0; c < 2; c++) {
        cpu->release(p[c]);
        cpu->release(gradients[c]);
        free(losses[c]);
        free(correct[c]);
    }
    cpu->release(scores);
}

/* Fewer and more classes than threads in a block. */
static void probabilities_losses_and_their_gradients(void **state DL_UNUSED)
{
    check_softmax(13, 10);
    check_softmax(5, 256);
    check_softmax(3, 1000);
}

/* Does the same three steps with both implementations and compares them. */
static void check_update(void (*of_cpu)(const dl_update *), void (*of_cuda)(const dl_update *),
                         double correction1, double correction2, bool moments)
{
    enum { NUMBERS = 1003, STEPS = 3 };
    float *p[2], *first[2] = {NULL, NULL}, *second[2];
    p[0] = drawn(NUMBERS);
    p[1] = copy_of(p[0], NUMBERS);
    for (int c = 0; c < 2; c++) {
        if (moments) first[c] = zeros(NUMBERS);
        second[c] = zeros(NUMBERS);
    }
    for (int step = 0; step < STEPS; step++) {
        float *gradients = drawn(NUMBERS);
        dl_update update = {.parameters = p[1],
                            .gradients = gradients,
                            .first = first[1],
                            .second = second[1],
                            .count = NUMBERS,
                            .rate = 0.01,
                            .decay1 = 0.9,
                            .decay2 = 0.999,
                            .correction1 = correction1,
                            .correction2 = correction2,
                            .epsilon = 1e-8};
        of_cpu(&update);
        update.parameters = p[0];
        update.first = first[0];
        update.second = second[0];
        of_cuda(&update);
        cpu->release(gradients);
    }
    assert_close(p[0], p[1], NUMBERS);
    if (moments) assert_close(first[0], first[1], NUMBERS);
    assert_close(second[0], second[1], NUMBERS);
    for (int c = 0; c < 2; c++) {
        cpu->release(p[c]);
        cpu->release(first[c]);
        cpu->release(second[c]);
    }
}

static void optimizers(void **state DL_UNUSED)
{
    check_update(cpu->sgd, dl_cuda_sgd, 1, 1, false);
    check_update(cpu->sgd, dl_cuda_sgd, 1, 1, true);
    check_update(cpu->rmsprop, dl_cuda_rmsprop, 1, 1, true);
    check_update(cpu->adam, dl_cuda_adam, 1 - 0.9, 1 - 0.999, true);
}

/* Bits are equal for any number of vectors; some numbers have a separate kernel. */
static void averages_have_the_processors_bits(void **state DL_UNUSED)
{
    enum { NUMBERS = 1003, MOST = 16 };
    float *vectors[MOST];
    for (int k = 0; k < MOST; k++)
        vectors[k] = drawn(NUMBERS + 1);
    float *result = zeros(NUMBERS + 1), *expected = zeros(NUMBERS);
    for (int n = 1; n <= MOST; n++) {
        dl_cuda_average(result, (const void *const *)vectors, n, NUMBERS);
        dl_exchange_average(expected, (const void *const *)vectors, n, 0, NUMBERS, DL_FLOAT);
        assert_memory_equal(result, expected, NUMBERS * sizeof *result);
        assert_true(result[NUMBERS] == 0);
    }
    for (int k = 0; k < MOST; k++)
        cpu->release(vectors[k]);
    cpu->release(result);
    cpu->release(expected);
}

static void half_precision_has_the_processors_bits(void **state DL_UNUSED)
{
    enum { NUMBERS = 2000 };
    static const float special[] = {0,        -0.0f,     1,          65504,     65519,    65520,
                                    -1e9f,    INFINITY,  5.96e-8f,   2.98e-8f,  2.99e-8f, 6.1e-5f,
                                    6.09e-5f, 1.000488f, 1.0009765f, 0.333333f, 2049,     2051};
    float *values = drawn(NUMBERS), *wide[2] = {zeros(NUMBERS), zeros(NUMBERS)};
    memcpy(values, special, sizeof special);
    for (size_t i = COUNT(special); i < NUMBERS; i++)
        values[i] *= ldexpf(1, (int)dl_random_below(&draws, 44) - 26);
    DL_SCOPED(dl_quantise_plan) plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_FP16);
    dl_quantise_plan_add(&plan, NUMBERS);
    uint16_t message[2][NUMBERS];
    dl_quantise_encode(&plan, values, NULL, message[1], DL_FLOAT);
    dl_quantise_decode(&plan, message[1], wide[1], DL_FLOAT);
    dl_cuda_encode(&plan, NULL, values, NULL, message[0]);
    dl_cuda_decode(&plan, NULL, message[0], wide[0]);
    assert_memory_equal(message[0], message[1], sizeof message[0]);
    assert_memory_equal(wide[0], wide[1], NUMBERS * sizeof(float));
    values[0] = NAN;
    dl_cuda_encode(&plan, NULL, values, NULL, message[0]);
    dl_cuda_decode(&plan, NULL, message[0], wide[0]);
    assert_true(isnan(wide[0][0]));
    cpu->release(values);
    cpu->release(wide[0]);
    cpu->release(wide[1]);
}

/* Complete and incomplete blocks, and blocks of one sign; residuals carried over three messages. */
static void one_bit_messages(void **state DL_UNUSED)
{
    enum { FIRST = 2500, SECOND = 31, THIRD = 1024, NUMBERS = FIRST + SECOND + THIRD };
    DL_SCOPED(dl_quantise_plan) plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_1BIT);
    dl_quantise_plan_add(&plan, FIRST);
    dl_quantise_plan_add(&plan, SECOND);
    dl_quantise_plan_add(&plan, THIRD);
    dl_quantise_bits *message[2];
    float *residual[2], *sent[2];
    for (int c = 0; c < 2; c++) {
        message[c] = dl_calloc(plan.block_count, sizeof **message, "test");
        residual[c] = zeros(NUMBERS);
        sent[c] = zeros(NUMBERS);
    }
    for (int step = 0; step < 3; step++) {
        float *values = drawn(NUMBERS);
        for (int i = FIRST; i < FIRST + SECOND; i++)
            values[i] = fabsf(values[i]) + 2 * (float)step;
        dl_quantise_encode(&plan, values, residual[1], message[1], DL_FLOAT);
        dl_quantise_decode(&plan, message[1], sent[1], DL_FLOAT);
        dl_cuda_encode(&plan, plan.blocks, values, residual[0], message[0]);
        dl_cuda_decode(&plan, plan.blocks, message[0], sent[0]);
        for (size_t b = 0; b < plan.block_count; b++)
            assert_memory_equal(message[0][b].words, message[1][b].words, sizeof message[0]->words);
        assert_close(sent[0], sent[1], NUMBERS);
        assert_close(residual[0], residual[1], NUMBERS);
        cpu->release(values);
    }
    for (int c = 0; c < 2; c++) {
        free(message[c]);
        cpu->release(residual[c]);
        cpu->release(sent[c]);
    }
}

static void an_overflow_clears_all_gradients(void **state DL_UNUSED)
{
    enum { NUMBERS = 700 };
    float *gradients = drawn(NUMBERS), *before = copy_of(gradients, NUMBERS);
    dl_cuda_unscale(gradients, NUMBERS);
    assert_int_equal(*device.overflow, 0);
    for (int i = 0; i < NUMBERS; i++)
        assert_true(gradients[i] == before[i] / DL_CUDA_LOSS_SCALE);
    gradients[NUMBERS - 1] = INFINITY;
    dl_cuda_unscale(gradients, NUMBERS);
    assert_int_equal(*device.overflow, 1);
    for (int i = 0; i < NUMBERS; i++)
        assert_true(gradients[i] == 0);
    free(device.overflow);
    cpu->release(gradients);
    cpu->release(before);
}

static void a_hold_ends_when_it_is_let_go(void **state DL_UNUSED)
{
    const volatile int let_go = 1;
    dl_cuda_hold(&let_go);
    dl_cuda_launch();
}

static int begin(void **state DL_UNUSED)
{
    cpu = dl_backend_cpu(DL_FLOAT);
    assert_int_equal(cpu->start(NULL), DL_OK);
    dl_random_init(&draws, 5, 0, 0, 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_repeated_and_arrays_filled),
        cmocka_unit_test(maxima_of_windows),
        cmocka_unit_test(means_of_pixels),
        cmocka_unit_test(probabilities_losses_and_their_gradients),
        cmocka_unit_test(optimizers),
        cmocka_unit_test(averages_have_the_processors_bits),
        cmocka_unit_test(half_precision_has_the_processors_bits),
        cmocka_unit_test(one_bit_messages),
        cmocka_unit_test(an_overflow_clears_all_gradients),
        cmocka_unit_test(a_hold_ends_when_it_is_let_go),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
