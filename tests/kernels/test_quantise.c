/* Messages of gradients compared with a plain reference in double, and the properties of error
 * feedback. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/random.h"
#include "kernels/quantise.h"
#include "tests/check.h"

#define COUNT 2500 /* two complete blocks and a rest that ends within a word */

static double values[COUNT];
static float singles[COUNT];

static int make_values(void **state DL_UNUSED)
{
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

static void blocks_cover_ranges_without_mixing_them(void **state DL_UNUSED)
{
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

/* Rounds to 11 bits of significand, or to multiples of 2^-24 below 2^-14. */
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
    DL_SCOPED(dl_quantise_plan) plan;
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
}

static void halves_are_rounded_and_stay_finite(void **state DL_UNUSED)
{
    check_halves(DL_FLOAT);
    check_halves(DL_DOUBLE);
}

/* Computes the expected values of a block in double. */
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
    DL_SCOPED(dl_quantise_plan) plan = make_plan(DL_QUANTISE_1BIT);
    const bool single = precision == DL_FLOAT;
    double residual[COUNT] = {0}, to[COUNT], kept[COUNT] = {0};
    float residual_single[COUNT] = {0}, to_single[COUNT];
    DL_AUTOFREE dl_quantise_bits *message = dl_calloc(plan.block_count, sizeof *message, "test");
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
                /* Nothing is lost: the residual holds the unsent part. */
                assert_true(fabs(sum[i] - sent - left) < tolerance);
                kept[at] = left;
            }
        }
    }
    /* Bits beyond the end of a block are 0. */
    assert_int_equal(message[1].words[0] & ~1u, 0);
    for (int w = 1; w < DL_QUANTISE_BLOCK / 32; w++)
        assert_int_equal(message[1].words[w], 0);
}

static void bits_are_means_and_keep_the_rest(void **state DL_UNUSED)
{
    check_bits(DL_FLOAT, 1e-5);
    check_bits(DL_DOUBLE, 1e-7); /* the means are sent as float */
}

/* Error feedback: the sum of the values sent follows the sum of the gradients, with a bounded
 * residual; without it the error would grow with the rounds. */
static void what_is_sent_adds_up_to_the_gradients(void **state DL_UNUSED)
{
    enum { ROUNDS = 200 };
    DL_SCOPED(dl_quantise_plan) plan = make_plan(DL_QUANTISE_1BIT);
    double residual[COUNT] = {0}, sent[COUNT], sum[COUNT] = {0};
    DL_AUTOFREE dl_quantise_bits *message = dl_calloc(plan.block_count, sizeof *message, "test");
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
}

static void one_sided_blocks_have_one_mean(void **state DL_UNUSED)
{
    DL_SCOPED(dl_quantise_plan) plan;
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
}

/* Blocks of 4 and of 2 numbers. The first one's scale is 1 / 127: 1 becomes 127, -0.5 is -63.5 and
 * becomes the even -64, 0.25 is 31.75 and 0.1 is 12.7. The second one's is 2 / 127: -2 becomes
 * -127, and 1e-3 is 0.06, which is lost. */
static void bytes_are_multiples_of_a_scale(void **state DL_UNUSED)
{
    static const double from[] = {1, -0.5, 0.25, 0.1, -2, 1e-3};
    static const int expected[] = {127, -64, 32, 13, -127, 0};
    DL_SCOPED(dl_quantise_plan) plan;
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
}

/* No error exceeds half a scale, which is the block's largest magnitude / 127. */
static void bytes_are_off_by_half_a_scale_at_most(void **state DL_UNUSED)
{
    DL_SCOPED(dl_quantise_plan) plan = make_plan(DL_QUANTISE_INT8);
    DL_AUTOFREE dl_quantise_bytes *message = dl_calloc(plan.block_count, sizeof *message, "test");
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
}

/* The 2 numbers of largest magnitude in a range of 5 are sent, and the 1 in a range of 2, the first
 * of equal ones; the others are added to the next message's numbers. The part of a double that
 * float cannot represent, 1e-12, stays in the residual. */
static void topk_sends_the_largest_and_keeps_the_rest(void **state DL_UNUSED)
{
    static const double from[] = {-3, 1, 3, -3, 0.5, 0x1p-30, 0};
    dl_quantise_plan plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_TOPK);
    plan.kept_frac = 0.4; /* 2 of 5; 0.8, rounded up to 1, of 2 */
    dl_quantise_plan_add(&plan, 5);
    dl_quantise_plan_add(&plan, 0);
    dl_quantise_plan_add(&plan, 2);
    assert_int_equal(plan.block_count, 2);
    assert_int_equal(plan.message_bytes, 3 * 8);
    static const dl_quantise_entry first[] = {{0, -3}, {2, 3}, {5, 0x1p-30F}};
    static const dl_quantise_entry second[] = {{0, -3}, {3, -6}, {5, 0x1p-30F}};
    for (int single = 0; single <= 1; single++) {
        const dl_precision precision = single ? DL_FLOAT : DL_DOUBLE;
        float in[7], residual_single[7] = {0}, out[7];
        double residual[7] = {0}, to[7];
        dl_quantise_entry message[3];
        for (int i = 0; i < 7; i++)
            in[i] = (float)from[i];
        for (int round = 0; round < 2; round++) {
            const dl_quantise_entry *expected = round == 0 ? first : second;
            dl_quantise_encode(&plan, single ? (const void *)in : from,
                               single ? (void *)residual_single : residual, message, precision);
            dl_quantise_decode(&plan, message, single ? (void *)out : to, precision);
            for (int e = 0; e < 3; e++) {
                assert_int_equal(message[e].place, expected[e].place);
                assert_true(message[e].value == expected[e].value);
            }
            for (int i = 0; i < 7; i++) {
                double sent = 0;
                for (int e = 0; e < 3; e++)
                    if (expected[e].place == (uint32_t)i) sent = (double)expected[e].value;
                assert_true((single ? (double)out[i] : to[i]) == sent);
            }
        }
        /* 1 and 0.5 were never sent, 3 at position 2 only in the first message. */
        assert_true((single ? (double)residual_single[1] : residual[1]) == 2);
        assert_true((single ? (double)residual_single[2] : residual[2]) == 3);
        assert_true((single ? (double)residual_single[3] : residual[3]) == 0);
    }
    const double fine = 1 + 1e-12;
    double rest = 0;
    dl_quantise_entry message;
    dl_quantise_plan_free(&plan);
    dl_quantise_plan_init(&plan, DL_QUANTISE_TOPK);
    dl_quantise_plan_add(&plan, 1);
    dl_quantise_encode(&plan, &fine, &rest, &message, DL_DOUBLE);
    assert_true(message.value == 1 && rest == fine - 1);
    dl_quantise_plan_free(&plan);
}

/* Compared with sorting, for fractions from one number to all; nothing is lost. */
static void topk_is_what_sorting_finds(void **state DL_UNUSED)
{
    static const double fractions[] = {1e-9, 0.01, 0.3, 1};
    for (size_t f = 0; f < 4; f++) {
        DL_SCOPED(dl_quantise_plan) plan;
        dl_quantise_plan_init(&plan, DL_QUANTISE_TOPK);
        plan.kept_frac = fractions[f];
        dl_quantise_plan_add(&plan, COUNT);
        const size_t kept = f == 0 ? 1 : f == 1 ? 25 : f == 2 ? 750 : COUNT;
        assert_int_equal(plan.message_bytes, kept * sizeof(dl_quantise_entry));
        DL_AUTOFREE dl_quantise_entry *message = dl_calloc(kept, sizeof *message, "test");
        float residual[COUNT] = {0}, sent[COUNT];
        dl_quantise_encode(&plan, singles, residual, message, DL_FLOAT);
        dl_quantise_decode(&plan, message, sent, DL_FLOAT);
        size_t number = 0;
        for (int i = 0; i < COUNT; i++) {
            size_t larger = 0;
            for (int j = 0; j < COUNT; j++) {
                const float a = fabsf(singles[j]), b = fabsf(singles[i]);
                larger += a > b || (a == b && j < i);
            }
            assert_true(sent[i] == (larger < kept ? singles[i] : 0));
            assert_true(sent[i] + residual[i] == singles[i]);
            number += larger < kept;
        }
        assert_int_equal(number, kept);
    }
}

/* A block whose largest magnitude is 4: 4 is 1 of it and -2 a half; 3 is halfway between 2 and 4,
 * so becomes 4, and 2.9 becomes 2; -0.1 is 1/40 of it, closer to 1/32 than to 1/64; 1/32 is 2^-7 of
 * it, halfway between 0 and 2^-6, and becomes the latter; 0.03 becomes 0. */
static void nibbles_are_powers_of_a_scale(void **state DL_UNUSED)
{
    static const double from[] = {4, -2, 3, 2.9, -0.1, 1.0 / 32, 0.03};
    static const double expected[] = {4, -2, 4, 2, -0.125, 1.0 / 16, 0};
    DL_SCOPED(dl_quantise_plan) plan;
    dl_quantise_plan_init(&plan, DL_QUANTISE_FP4);
    dl_quantise_plan_add(&plan, 7);
    assert_int_equal(plan.message_bytes, 4 + DL_QUANTISE_BLOCK / 2);
    dl_quantise_nibbles message;
    float in[7], out[7];
    double to[7];
    for (int i = 0; i < 7; i++)
        in[i] = (float)from[i];
    for (int single = 0; single <= 1; single++) {
        const dl_precision precision = single ? DL_FLOAT : DL_DOUBLE;
        dl_quantise_encode(&plan, single ? (const void *)in : from, NULL, &message, precision);
        dl_quantise_decode(&plan, &message, single ? (void *)out : to, precision);
        assert_true(message.scale == 4);
        assert_int_equal(message.pairs[0], 7 | (6 | 8) << 4);
        assert_int_equal(message.pairs[3], 0);
        assert_int_equal(message.pairs[4], 0);
        for (int i = 0; i < 7; i++)
            assert_true((single ? (double)out[i] : to[i]) == expected[i]);
    }
}

/* No error exceeds a third of the number, or 2^-7 of the block's largest magnitude. */
static void nibbles_are_off_by_a_third_at_most(void **state DL_UNUSED)
{
    DL_SCOPED(dl_quantise_plan) plan = make_plan(DL_QUANTISE_FP4);
    DL_AUTOFREE dl_quantise_nibbles *message = dl_calloc(plan.block_count, sizeof *message, "test");
    double to[COUNT];
    dl_quantise_encode(&plan, values, NULL, message, DL_DOUBLE);
    dl_quantise_decode(&plan, message, to, DL_DOUBLE);
    for (size_t b = 0; b < plan.block_count; b++) {
        const size_t first = plan.blocks[b].first, end = first + plan.blocks[b].count;
        for (size_t i = first; i < end; i++) {
            const double least = (double)message[b].scale * 0x1p-7;
            assert_true(fabs(to[i] - values[i]) <= fmax(fabs(values[i]) / 3, least) * (1 + 1e-6));
        }
    }
}

/* Blocks of zeros, of numbers too small for a scale, and with numbers that are not finite. */
static void check_unusual_blocks(dl_quantise kind)
{
    static const double from[] = {0, 0, 0x1p-110, -0x1p-111, 1, (double)NAN, -INFINITY, 3};
    DL_SCOPED(dl_quantise_plan) plan;
    dl_quantise_plan_init(&plan, kind);
    for (int b = 0; b < 4; b++)
        dl_quantise_plan_add(&plan, 2);
    DL_AUTOFREE void *message = dl_calloc(1, plan.message_bytes, "test");
    double to[8];
    dl_quantise_encode(&plan, from, NULL, message, DL_DOUBLE);
    dl_quantise_decode(&plan, message, to, DL_DOUBLE);
    for (int i = 0; i < 4; i++)
        assert_true(to[i] == 0);
    for (int i = 4; i < 8; i++)
        assert_true(isnan(to[i]));
}

static void unusual_blocks_have_no_scale(void **state DL_UNUSED)
{
    check_unusual_blocks(DL_QUANTISE_INT8);
    check_unusual_blocks(DL_QUANTISE_FP4);
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
        cmocka_unit_test(topk_sends_the_largest_and_keeps_the_rest),
        cmocka_unit_test(topk_is_what_sorting_finds),
        cmocka_unit_test(nibbles_are_powers_of_a_scale),
        cmocka_unit_test(nibbles_are_off_by_a_third_at_most),
        cmocka_unit_test(unusual_blocks_have_no_scale),
    };
    return cmocka_run_group_tests(tests, make_values, NULL);
}
