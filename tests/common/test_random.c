#include "tests/check.h"

#include <Random123/philox.h>
#include <math.h>

#include "common/philox.h"
#include "common/random.h"

/* Random123's published vectors of philox4x32-10: counter, key, block. */
static void blocks_are_philox4x32_10(void **state DL_UNUSED)
{
    static const struct {
        uint32_t counter[4], key[2], block[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int v = 0; v < 3; v++) {
        dl_random stream = {.used = 4};
        memcpy(stream.counter, vectors[v].counter, sizeof stream.counter);
        memcpy(stream.key, vectors[v].key, sizeof stream.key);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(dl_random_u32(&stream), vectors[v].block[i]);
        }
    }
}

/* For random counters and keys. */
static void own_blocks_are_those_of_random123(void **state DL_UNUSED)
{
    dl_random stream;
    dl_random_init(&stream, 7, 0, 0, 0);
    for (int i = 0; i < 10000; i++) {
        philox4x32_ctr_t counter;
        philox4x32_key_t key;
        uint32_t block[4];
        for (int w = 0; w < 4; w++)
            counter.v[w] = dl_random_u32(&stream);
        for (int w = 0; w < 2; w++)
            key.v[w] = dl_random_u32(&stream);
        dl_philox4x32_10(counter.v, key.v, block);
        const philox4x32_ctr_t expected = philox4x32_R(10, counter, key);
        assert_memory_equal(block, expected.v, sizeof block);
    }
}

/* The first block of stream zero in little-endian order, from its third number; the last number is
 * truncated. */
static void bytes_are_those_of_the_numbers(void **state DL_UNUSED)
{
    static const uint8_t expected[] = {0x4c, 0xac, 0x57, 0xbc, 0xd8, 0xdb};
    dl_random stream;
    uint8_t bytes[7] = {[6] = 99};
    dl_random_init(&stream, 0, 0, 0, 0);
    dl_random_u64(&stream);
    dl_random_bytes(&stream, bytes, 6);
    assert_memory_equal(bytes, expected, 6);
    assert_int_equal(bytes[6], 99);
    assert_int_equal(dl_random_place(&stream), 4);
}

/* Seed 0 and identity 0 are counter 0 and key 0; the next block has counter 1. */
static void stream_zero_starts_at_counter_zero(void **state DL_UNUSED)
{
    dl_random stream;
    dl_random_init(&stream, 0, 0, 0, 0);
    assert_int_equal(dl_random_u64(&stream), 0xe169c58d6627e8d5);
    dl_random_u64(&stream);
    dl_random next = {.counter = {1, 0, 0, 0}, .used = 4};
    assert_int_equal(dl_random_u32(&stream), dl_random_u32(&next));
}

/* After 2^32 blocks the counter carries into the second word, and never into the identity. */
static void counter_carries_into_its_second_word_only(void **state DL_UNUSED)
{
    dl_random stream = {.counter = {0xffffffff, 0xffffffff, 5, 6}, .used = 4};
    dl_random_u32(&stream);
    assert_int_equal(stream.counter[0], 0);
    assert_int_equal(stream.counter[1], 0);
    assert_int_equal(stream.counter[2], 5);
    assert_int_equal(stream.counter[3], 6);
}

/* Streams that differ in one part of their identity share no counter; parts beyond 21 bits wrap. */
static void names_make_different_streams(void **state DL_UNUSED)
{
    static const uint32_t names[][3] = {{0, 0, 0},       {1, 0, 0},         {0, 1, 0},
                                        {0, 0, 1},       {0, 0, 2097151},   {0, 2097151, 0},
                                        {2097151, 0, 0}, {0, 1048576, 0},   {0, 0, 1048576},
                                        {0, 0, 2097152}, {0, 0, UINT32_MAX}};
    enum { NAMES = sizeof names / sizeof names[0] };
    for (int a = 0; a < NAMES; a++) {
        dl_random first;
        dl_random_init(&first, 9, names[a][0], names[a][1], names[a][2]);
        for (int b = 0; b < a; b++) {
            dl_random second;
            dl_random_init(&second, 9, names[b][0], names[b][1], names[b][2]);
            assert_memory_not_equal(&first.counter, &second.counter, sizeof first.counter);
        }
    }
    dl_random wrapped, plain, other_seed;
    dl_random_init(&plain, 9, 1, 2, 3);
    dl_random_init(&wrapped, 9, (1 << 21) + 1, (1 << 21) + 2, 3);
    dl_random_init(&other_seed, 9 + (UINT64_C(1) << 32), 1, 2, 3);
    assert_memory_equal(&plain, &wrapped, sizeof plain);
    assert_memory_not_equal(plain.key, other_seed.key, sizeof plain.key);
}

/* A stream continued from its position elsewhere is the same stream, also past the first 2^32
 * blocks and with a worker number beyond 21 bits. */
static void a_stream_is_its_names_and_its_place(void **state DL_UNUSED)
{
    static const uint64_t starts[] = {0, 7, UINT64_C(0x3fffffffe), UINT64_C(1) << 50};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        dl_random whole, part;
        dl_random_init(&whole, 3, 1, 4, 5000000);
        dl_random_seek(&whole, starts[i]);
        for (uint64_t drawn = 0; drawn < 20; drawn++) {
            assert_int_equal(dl_random_place(&whole), starts[i] + drawn);
            dl_random_init(&part, 3, 1, 4, 5000000);
            dl_random_seek(&part, starts[i] + drawn);
            assert_int_equal(dl_random_u32(&whole), dl_random_u32(&part));
        }
    }
}

static void copy_forks_the_stream(void **state DL_UNUSED)
{
    dl_random stream;
    dl_random_init(&stream, 3, 1, 4, 1);
    for (int i = 0; i < 5; i++)
        dl_random_u32(&stream);
    dl_random fork = stream;
    for (int i = 0; i < 100; i++)
        assert_int_equal(dl_random_u32(&stream), dl_random_u32(&fork));
}

/* n = 200,000 uniforms: mean 1/2 with standard error sqrt(1/12/n) = 6.5e-4; variance 1/12 with
 * standard error sqrt(1/180/n) = 1.7e-4; correlation of neighbours and of two workers' streams 0
 * with standard error 1/sqrt(n) = 2.2e-3. Bounds are 5 standard errors; the seed is fixed. */
static void uniforms_have_their_moments(void **state DL_UNUSED)
{
    enum { N = 200000 };
    dl_random stream, worker;
    dl_random_init(&stream, 42, 0, 0, 0);
    dl_random_init(&worker, 42, 0, 0, 1);
    double sum = 0.0, squares = 0.0, neighbours = 0.0, workers = 0.0, before = 0.0;
    for (int i = 0; i < N; i++) {
        double u = dl_random_uniform(&stream) - 0.5;
        assert_true(u >= -0.5 && u < 0.5);
        sum += u;
        squares += u * u;
        neighbours += u * before;
        workers += u * (dl_random_uniform(&worker) - 0.5);
        before = u;
    }
    assert_true(fabs(sum / N) < 5 * 6.5e-4);
    assert_true(fabs(squares / N - 1.0 / 12.0) < 5 * 1.7e-4);
    assert_true(fabs(neighbours / N * 12.0) < 5 * 2.2e-3);
    assert_true(fabs(workers / N * 12.0) < 5 * 2.2e-3);
}

/* chi^2 of 7 classes, n = 70,000: 6 degrees of freedom, 99.9 % point 22.46. With n = 3 * 2^62 a
 * plain modulo would give the lowest quarter of the numbers twice the probability of the others:
 * 1/2 of the draws would lie below n/3; without bias 1/3. */
static void below_is_unbiased(void **state DL_UNUSED)
{
    dl_random stream;
    dl_random_init(&stream, 5, 0, 0, 0);
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++)
        counts[dl_random_below(&stream, 7)]++;
    double chi2 = 0.0;
    for (int i = 0; i < 7; i++)
        chi2 += (counts[i] - 10000.0) * (counts[i] - 10000.0) / 10000.0;
    assert_true(chi2 < 22.46);

    const uint64_t n = UINT64_C(3) << 62;
    int low = 0;
    for (int i = 0; i < 9000; i++) {
        uint64_t value = dl_random_below(&stream, n);
        assert_true(value < n);
        low += value < n / 3;
    }
    assert_in_range(low, 2776, 3224); /* 3000 +- 5 sqrt(9000 / 3 * 2 / 3) */
    assert_int_equal(dl_random_below(&stream, 1), 0);
}

/* n = 100,000: mean 0 +- 1/sqrt(n) = 3.2e-3, variance 1 +- sqrt(2/n) = 4.5e-3, fourth moment 3 +-
 * sqrt(96/n) = 3.1e-2. Each call takes two uniforms, i.e. one block of four words. */
static void normals_have_their_moments(void **state DL_UNUSED)
{
    enum { N = 100000 };
    dl_random stream;
    dl_random_init(&stream, 6, 0, 0, 0);
    double sum = 0.0, squares = 0.0, fourth = 0.0;
    for (int i = 0; i < N; i++) {
        double z = dl_random_normal(&stream);
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
    }
    assert_int_equal(stream.counter[0], N);
    assert_true(fabs(sum / N) < 5 * 3.2e-3);
    assert_true(fabs(squares / N - 1.0) < 5 * 4.5e-3);
    assert_true(fabs(fourth / N - 3.0) < 5 * 3.1e-2);
}

/* 24,000 shuffles of 4 items: 24 orders, 1000 each; chi^2 with 23 degrees of freedom, 99.9 % point
 * 49.73. */
static void shuffles_are_equally_likely(void **state DL_UNUSED)
{
    dl_random stream;
    dl_random_init(&stream, 7, 0, 0, 0);
    int counts[256] = {0};
    for (int i = 0; i < 24000; i++) {
        uint32_t values[4] = {0, 1, 2, 3};
        dl_random_shuffle(&stream, values, 4);
        counts[values[0] << 6 | values[1] << 4 | values[2] << 2 | values[3]]++;
    }
    double chi2 = 0.0;
    int orders = 0;
    for (int i = 0; i < 256; i++) {
        if (counts[i] == 0) continue;
        orders++;
        chi2 += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
    }
    assert_int_equal(orders, 24);
    assert_true(chi2 < 49.73);
    dl_random_shuffle(&stream, NULL, 0);
}

/* The 120 pairs of 16 things include 66 without any of 4 given ones. Any 8 of 16 include at least
 * one of 9 given ones. */
static void some_are_drawn_without_replacement(void **state DL_UNUSED)
{
    assert_true(fabs(dl_chance_of_some(16, 4, 2) - 54 / 120.0) < 1e-15);
    assert_true(fabs(dl_chance_of_some(8, 1, 2) - 0.25) < 1e-15);
    assert_true(fabs(dl_chance_of_some(128, 8, 1) - 1 / 16.0) < 1e-15);
    assert_true(dl_chance_of_some(16, 9, 8) == 1);
    assert_true(dl_chance_of_some(8, 8, 1) == 1);
    assert_true(dl_chance_of_some(8, 0, 8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_philox4x32_10),
        cmocka_unit_test(own_blocks_are_those_of_random123),
        cmocka_unit_test(stream_zero_starts_at_counter_zero),
        cmocka_unit_test(bytes_are_those_of_the_numbers),
        cmocka_unit_test(counter_carries_into_its_second_word_only),
        cmocka_unit_test(names_make_different_streams),
        cmocka_unit_test(a_stream_is_its_names_and_its_place),
        cmocka_unit_test(copy_forks_the_stream),
        cmocka_unit_test(uniforms_have_their_moments),
        cmocka_unit_test(below_is_unbiased),
        cmocka_unit_test(normals_have_their_moments),
        cmocka_unit_test(shuffles_are_equally_likely),
        cmocka_unit_test(some_are_drawn_without_replacement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
