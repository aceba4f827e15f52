/* Messages of gradients against a plain reference in double, and what error feedback promises. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "kernels/quantise.h"
#include "tests/check.h"

#define COUNT 2500 /* two whole blocks and a rest that ends within a word */

static double values[COUNT];
static float singles[COUNT];

static int make_values(void **state)
{
    (void)state;
    dl_random random;
    dl_random_init(&random, 5, 0, 0, 0);
    for (int i = 0; i < COUNT; i++) {
        values[i] = dl_random_uniform(&random) - 0.4;
        singles[i] = (float)values[i];
        values[i] = (double)singles[i];
    }
    return 0;
}

static dl_quantise_plan make_plan(dl_quantise kind)
{
    dl_quantise_plan plan;
    dl_quantise_plan_init(&plan, kind);
    dl_quantise_plan_add(&plan, 0);
    dl_quantise_plan_add(&plan, 1025);
    dl_quantise_plan_add(&plan, COUNT - 1025);
    return plan;
}

static void blocks_cover_ranges_without_mixing_them(void **state)
{
    (void)state;
    dl_quantise_plan plan = make_plan(DL_QUANTISE_1BIT);
    static const dl_quantise_block expected[] = {{0, 1024}, {1024, 1}, {1025, 1024}, {2049, 451}};
    assert_int_equal(plan.count, COUNT);
    assert_int_equal(plan.block_count, 4);
    for (int b = 0; b < 4; b++) {
        assert_int_equal(plan.blocks[b].first, expected[b].first);
        assert_int_equal(plan.blocks[b].count, expected[b].count);
    }
    assert_int_equal(plan.message_bytes, 4 * (8 + 1024 / 8));
    dl_quantise_plan_free(&plan);
    plan = make_plan(DL_QUANTISE_FP16);
    assert_int_equal(plan.message_bytes, 2 * COUNT);
    dl_quantise_plan_free(&plan);
}

/* Rounding to 11 bits of significand, or to multiples of 2^-24 below 2^-14. */
static double half_reference(double x)
{
    if (fabs(x) >= 65520) return copysign(65504, x);
    int exponent;
    (void)frexp(x, &exponent);
    const double unit = ldexp(1, exponent - 11 < -24 ? -24 : exponent - 11);
    return nearbyint(x / unit) * unit;
}

static void check_halves(dl_precision precision)
{
    static const double special[] = {0,      1,        -2.5,      65504,     65519.9,  1e30,
                                     -1e9,   6e-8,     2.9e-8,    3.1e-8,    6.1e-5,   1 + 0x1p-11,
                                     1.0005, -0x1p-24, 0x1.8p-24, 0x1.002p0, 0x1.006p0};
    enum { SPECIALS = sizeof special / sizeof special[0] };
    dl_quantise_plan plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_FP16);
    dl_quantise_plan_add(&plan, COUNT + SPECIALS);
    double from[COUNT + SPECIALS], to[COUNT + SPECIALS];
    float from_single[COUNT + SPECIALS], to_single[COUNT + SPECIALS];
    uint16_t message[COUNT + SPECIALS];
    for (int i = 0; i < COUNT + SPECIALS; i++) {
        from_single[i] = (float)(i < COUNT ? values[i] : special[i - COUNT]);
        from[i] = (double)from_single[i];
    }
    const bool single = precision == DL_FLOAT;
    dl_quantise_encode(&plan, single ? (void *)from_single : (void *)from, NULL, message,
                       precision);
    dl_quantise_decode(&plan, message, single ? (void *)to_single : (void *)to, precision);
    for (int i = 0; i < COUNT + SPECIALS; i++) {
        const double expected = fmin(fmax(half_reference(from[i]), -65504), 65504);
        assert_true((single ? (double)to_single[i] : to[i]) == expected);
    }
    dl_quantise_plan_free(&plan);
}

static void halves_are_rounded_and_stay_finite(void **state)
{
    (void)state;
    check_halves(DL_FLOAT);
    check_halves(DL_DOUBLE);
}

/* What a block should become, in double. */
static void bit_reference(const double *from, size_t count, double *to)
{
    double sum[2] = {0, 0};
    size_t number[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        sum[from[i] >= 0] += from[i];
        number[from[i] >= 0]++;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = sum[from[i] >= 0] / (double)number[from[i] >= 0];
}

static void check_bits(dl_precision precision, double tolerance)
{
    dl_quantise_plan plan = make_plan(DL_QUANTISE_1BIT);
    const bool single = precision == DL_FLOAT;
    double residual[COUNT] = {0}, to[COUNT], kept[COUNT] = {0};
    float residual_single[COUNT] = {0}, to_single[COUNT];
    dl_quantise_bits *message = dl_calloc(plan.block_count, sizeof *message, "test");
    for (int round = 0; round < 5; round++) {
        dl_quantise_encode(&plan, single ? (void *)singles : (void *)values,
                           single ? (void *)residual_single : (void *)residual, message, precision);
        dl_quantise_decode(&plan, message, single ? (void *)to_single : (void *)to, precision);
        for (size_t b = 0; b < plan.block_count; b++) {
            double sum[DL_QUANTISE_BLOCK], expected[DL_QUANTISE_BLOCK];
            const size_t first = plan.blocks[b].first, count = plan.blocks[b].count;
            for (size_t i = 0; i < count; i++)
                sum[i] = values[first + i] + kept[first + i];
            bit_reference(sum, count, expected);
            for (size_t i = 0; i < count; i++) {
                const size_t at = first + i;
                const double sent = single ? (double)to_single[at] : to[at];
                const double left = single ? (double)residual_single[at] : residual[at];
                assert_true(fabs(sent - expected[i]) < tolerance);
                /* Nothing is lost: what was not sent is kept. */
                assert_true(fabs(sum[i] - sent - left) < tolerance);
                kept[at] = left;
            }
        }
    }
    /* Bits behind the end of a block are 0. */
    assert_int_equal(message[1].words[0] & ~1u, 0);
    for (int w = 1; w < DL_QUANTISE_BLOCK / 32; w++)
        assert_int_equal(message[1].words[w], 0);
    free(message);
    dl_quantise_plan_free(&plan);
}

static void bits_are_means_and_keep_the_rest(void **state)
{
    (void)state;
    check_bits(DL_FLOAT, 1e-5);
    check_bits(DL_DOUBLE, 1e-7); /* the means are sent as float */
}

/* Error feedback: the sum of what is sent follows the sum of the gradients, whose residual stays
 * bounded, while without it the error would grow with the rounds. */
static void what_is_sent_adds_up_to_the_gradients(void **state)
{
    (void)state;
    enum { ROUNDS = 200 };
    dl_quantise_plan plan = make_plan(DL_QUANTISE_1BIT);
    double residual[COUNT] = {0}, sent[COUNT], sum[COUNT] = {0};
    dl_quantise_bits *message = dl_calloc(plan.block_count, sizeof *message, "test");
    for (int round = 0; round < ROUNDS; round++) {
        dl_quantise_encode(&plan, values, residual, message, DL_DOUBLE);
        dl_quantise_decode(&plan, message, sent, DL_DOUBLE);
        for (int i = 0; i < COUNT; i++)
            sum[i] += sent[i];
    }
    double error = 0, one_round = 0;
    for (int i = 0; i < COUNT; i++) {
        error += fabs(sum[i] - ROUNDS * values[i]) / COUNT;
        one_round += fabs(sent[i] - values[i]) / COUNT;
    }
    assert_true(one_round > 0.05);
    assert_true(error < 20 * one_round);
    free(message);
    dl_quantise_plan_free(&plan);
}

static void one_sided_blocks_have_one_mean(void **state)
{
    (void)state;
    dl_quantise_plan plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_1BIT);
    dl_quantise_plan_add(&plan, 3);
    const float from[] = {-1, -2, -6};
    float residual[3] = {0}, to[3];
    dl_quantise_bits message;
    dl_quantise_encode(&plan, from, residual, &message, DL_FLOAT);
    dl_quantise_decode(&plan, &message, to, DL_FLOAT);
    assert_true(message.low == -3 && message.high == 0);
    for (int i = 0; i < 3; i++)
        assert_true(to[i] == -3 && residual[i] == from[i] + 3);
    dl_quantise_plan_free(&plan);
}

/* Blocks of 4 and of 2 numbers. The first one's scale is 1 / 127: 1 is 127 of it, -0.5 is -63.5,
 * which the even -64 is nearest to, 0.25 is 31.75 and 0.1 is 12.7. The second one's is 2 / 127: -2 is
 * -127, and 1e-3 is 0.06, which is lost. */
static void bytes_are_multiples_of_a_scale(void **state)
{
    (void)state;
    static const double from[] = {1, -0.5, 0.25, 0.1, -2, 1e-3};
    static const int expected[] = {127, -64, 32, 13, -127, 0};
    dl_quantise_plan plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_INT8);
    dl_quantise_plan_add(&plan, 4);
    dl_quantise_plan_add(&plan, 2);
    assert_int_equal(plan.message_bytes, 2 * (4 + DL_QUANTISE_BLOCK));
    dl_quantise_bytes message[2];
    double to[6];
    float singles_in[6], singles_out[6];
    for (int i = 0; i < 6; i++)
        singles_in[i] = (float)from[i];
    for (int single = 0; single <= 1; single++) {
        dl_quantise_encode(&plan, single ? (const void *)singles_in : from, NULL, message,
                           single ? DL_FLOAT : DL_DOUBLE);
        dl_quantise_decode(&plan, message, single ? (void *)singles_out : to,
                           single ? DL_FLOAT : DL_DOUBLE);
        assert_true(message[0].scale == 1.0F / 127 && message[1].scale == 2.0F / 127);
        for (int i = 0; i < 6; i++) {
            const dl_quantise_bytes *block = &message[i / 4];
            assert_int_equal(block->numbers[i % 4], expected[i]);
            assert_true((single ? (double)singles_out[i] : to[i]) ==
                        (double)((float)expected[i] * block->scale));
        }
        for (int i = 2; i < DL_QUANTISE_BLOCK; i++)
            assert_int_equal(message[1].numbers[i], 0);
    }
    dl_quantise_plan_free(&plan);
}

/* No number is off by more than half a scale, which is its block's largest magnitude / 127. */
static void bytes_are_off_by_half_a_scale_at_most(void **state)
{
    (void)state;
    dl_quantise_plan plan = make_plan(DL_QUANTISE_INT8);
    dl_quantise_bytes *message = dl_calloc(plan.block_count, sizeof *message, "test");
    double to[COUNT];
    dl_quantise_encode(&plan, values, NULL, message, DL_DOUBLE);
    dl_quantise_decode(&plan, message, to, DL_DOUBLE);
    for (size_t b = 0; b < plan.block_count; b++) {
        const size_t first = plan.blocks[b].first, end = first + plan.blocks[b].count;
        double most = 0;
        for (size_t i = first; i < end; i++)
            most = fmax(most, fabs(values[i]));
        assert_true(fabs((double)message[b].scale - most / 127) < 1e-7 * most);
        for (size_t i = first; i < end; i++)
            assert_true(fabs(to[i] - values[i]) <= (0.5 + 1e-4) * most / 127);
    }
    free(message);
    dl_quantise_plan_free(&plan);
}

/* Zeros, what is too small for a scale, and what is not finite, each as a block. */
static void bytes_of_unusual_blocks(void **state)
{
    (void)state;
    static const double from[] = {0, 0, 0x1p-110, -0x1p-111, 1, (double)NAN, -INFINITY, 3};
    dl_quantise_plan plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_INT8);
    for (int b = 0; b < 4; b++)
        dl_quantise_plan_add(&plan, 2);
    dl_quantise_bytes message[4];
    double to[8];
    dl_quantise_encode(&plan, from, NULL, message, DL_DOUBLE);
    dl_quantise_decode(&plan, message, to, DL_DOUBLE);
    for (int i = 0; i < 4; i++)
        assert_true(to[i] == 0);
    for (int i = 4; i < 8; i++)
        assert_true(isnan(to[i]));
    dl_quantise_plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_cover_ranges_without_mixing_them),
        cmocka_unit_test(halves_are_rounded_and_stay_finite),
        cmocka_unit_test(bits_are_means_and_keep_the_rest),
        cmocka_unit_test(what_is_sent_adds_up_to_the_gradients),
        cmocka_unit_test(one_sided_blocks_have_one_mean),
        cmocka_unit_test(bytes_are_multiples_of_a_scale),
        cmocka_unit_test(bytes_are_off_by_half_a_scale_at_most),
        cmocka_unit_test(bytes_of_unusual_blocks),
    };
    return cmocka_run_group_tests(tests, make_values, NULL);
}
