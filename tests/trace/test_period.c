#include "tests/check.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/random.h"
#include "trace/activity/steps_internal.h"

enum { SYMBOLS_MAX = 200000, KINDS_MAX = 5000 };

/* A sequence written symbol by symbol, one symbol per microsecond. */
typedef struct written {
    uint32_t *symbols;
    int64_t *idle_ns, *start_ns;
    uint8_t *roles;
    size_t count;
} written;

static written start_writing(void)
{
    return (written){.symbols = calloc(SYMBOLS_MAX, sizeof(uint32_t)),
                     .idle_ns = calloc(SYMBOLS_MAX, sizeof(int64_t)),
                     .start_ns = calloc(SYMBOLS_MAX, sizeof(int64_t)),
                     .roles = calloc(KINDS_MAX, 1)};
}

static void write_symbol(written *text, uint32_t symbol)
{
    assert_true(text->count < SYMBOLS_MAX && symbol < KINDS_MAX);
    text->start_ns[text->count] = (int64_t)text->count * 1000;
    text->symbols[text->count++] = symbol;
}

static void stop_writing(written *text)
{
    free(text->symbols);
    free(text->idle_ns);
    free(text->start_ns);
    free(text->roles);
}

static dl_sequence sequence_of(const written *text)
{
    return (dl_sequence){.symbols = text->symbols,
                         .idle_ns = text->idle_ns,
                         .start_ns = text->start_ns,
                         .roles = text->roles,
                         .count = text->count,
                         .kind_count = KINDS_MAX};
}

static void find(dl_period *period, const written *text, size_t given)
{
    const dl_sequence sequence = sequence_of(text);
    dl_period_find(period, &sequence, given);
}

static void find_late(dl_period *period, const written *text, size_t given)
{
    const dl_sequence sequence = sequence_of(text);
    dl_period_find_late(period, &sequence, given);
}

static void expect_no_units(dl_period period, const char *what)
{
    if (period.cut_count != 0)
        fail_msg("%s: %zu units of %zu symbols, order %.3f explained %.3f", what, period.cut_count,
                 period.length, period.order_match, period.explained);
    assert_non_null(period.reason);
    dl_period_free(&period);
}

static void expect_none(const written *text, const char *what)
{
    dl_period period = {0};
    find(&period, text, 0);
    expect_no_units(period, what);
}

/* Expects no period in a later part either. */
static void expect_none_late(const written *text, const char *what)
{
    dl_period period = {0};
    expect_none(text, what);
    find_late(&period, text, 0);
    expect_no_units(period, what);
}

/* Symbols drawn independently, equally likely or kind k with a probability proportional to 1 / (k +
 * 1); and runs of one symbol of random lengths. */
static void test_random_symbols(void **state DL_UNUSED)
{
    const uint32_t kinds[] = {2, 3, 5, 10, 50, 300};
    for (uint32_t seed = 0; seed < 5; seed++) {
        for (size_t k = 0; k < 6; k++) {
            for (int form = 0; form < 3; form++) {
                dl_random random;
                dl_random_init(&random, 7, seed, kinds[k], (uint32_t)form);
                written text = start_writing();
                while (text.count < 3000) {
                    double u = dl_random_uniform(&random);
                    double scale = form == 1 ? pow(kinds[k] + 1, u) - 1 : u * kinds[k];
                    bool repeat = form == 2 && text.count > 0 && dl_random_below(&random, 5) > 0;
                    write_symbol(&text, repeat ? text.symbols[text.count - 1] : (uint32_t)scale);
                }
                expect_none_late(&text, form == 0 ? "uniform" : form == 1 ? "skewed" : "runs");
                stop_writing(&text);
            }
        }
    }
}

/* Each block contains the same 30 kinds in a different order. */
static void test_shuffled_blocks(void **state DL_UNUSED)
{
    for (uint32_t seed = 0; seed < 3; seed++) {
        uint32_t block[30];
        dl_random random;
        dl_random_init(&random, 8, seed, 0, 0);
        written text = start_writing();
        for (uint32_t i = 0; i < 30; i++)
            block[i] = i;
        for (int b = 0; b < 100; b++) {
            dl_random_shuffle(&random, block, 30);
            for (uint32_t i = 0; i < 30; i++)
                write_symbol(&text, block[i]);
        }
        expect_none_late(&text, "shuffled");
        stop_writing(&text);
    }
}

/* One repeated kind; too few symbols. */
static void test_monotony(void **state DL_UNUSED)
{
    written text = start_writing();
    while (text.count < 1000)
        write_symbol(&text, 4);
    expect_none_late(&text, "one kind");
    text.count = 6;
    expect_none_late(&text, "six symbols");
    text.count = 0;
    expect_none_late(&text, "nothing");
    stop_writing(&text);
}

/* Expects `units` cuts, one every `length` symbols, starting at any of the first `length`
 * indices. */
static void expect_units(const written *text, size_t given, size_t units, size_t length)
{
    DL_SCOPED(dl_period) period = {0};
    find(&period, text, given);
    if (period.cut_count + 1 < units || period.cut_count > units)
        fail_msg("%zu units instead of %zu; %s", period.cut_count, units,
                 period.reason != NULL ? period.reason : "");
    assert_int_equal(period.length, length);
    assert_true(period.cuts[0] < length);
    for (size_t i = 1; i < period.cut_count; i++)
        assert_int_equal(period.cuts[i] - period.cuts[i - 1], length);
    assert_true(period.order_match > 0.999);
}

/* The shortest steps: a copy and a graph; and three kernels. */
static void test_short_units(void **state DL_UNUSED)
{
    for (uint32_t length = 2; length <= 3; length++) {
        written text = start_writing();
        for (uint32_t i = 0; i < 200 * length; i++)
            write_symbol(&text, i % length);
        expect_units(&text, 0, 200, length);
        stop_writing(&text);
    }
}

/* No kind occurs once per unit: 1 2 1 3 2 3. */
static void test_pairs(void **state DL_UNUSED)
{
    const uint32_t unit[] = {1, 2, 1, 3, 2, 3};
    written text = start_writing();
    for (size_t i = 0; i < 600; i++)
        write_symbol(&text, unit[i % 6]);
    expect_units(&text, 0, 100, 6);
    stop_writing(&text);
}

/* Units of 30 000 symbols: less than two and a half fit into the searched window, so only the rare
 * kinds reveal the period. */
static void test_long_units(void **state DL_UNUSED)
{
    enum { LENGTH = 30000, UNITS = 6 };
    dl_random random;
    dl_random_init(&random, 9, 0, 0, 0);
    written text = start_writing();
    for (size_t i = 0; i < LENGTH; i++) {
        double u = dl_random_uniform(&random);
        write_symbol(&text, (uint32_t)(u * u * u * KINDS_MAX));
    }
    while (text.count < (size_t)LENGTH * UNITS)
        write_symbol(&text, text.symbols[text.count - LENGTH]);
    expect_units(&text, 0, UNITS, LENGTH);
    stop_writing(&text);
}

/* The cut is at the device's longest wait, even if another kind is rarer. */
static void test_rotation(void **state DL_UNUSED)
{
    written text = start_writing();
    for (uint32_t i = 0; i < 50 * 40; i++)
        write_symbol(&text, i % 40);
    for (size_t i = 0; i < text.count; i++)
        text.idle_ns[i] = i % 40 == 17 ? 900 : i % 40 == 5 ? 500 : 10;
    dl_period period = {0};
    find(&period, &text, 0);
    assert_true(period.cut_count >= 49);
    for (size_t i = 0; i < period.cut_count; i++)
        assert_int_equal(period.cuts[i] % 40, 17);
    dl_period_free(&period);
    /* The batch's copy, credited a tenth of the step's 40 us, outweighs a wait of 900 ns. */
    text.roles[30] = DL_ROLE_INPUT;
    find(&period, &text, 0);
    assert_int_equal(period.cuts[1] % 40, 30);
    dl_period_free(&period);
    /* No cut within a forward pass, wherever the device waits. */
    for (uint32_t i = 25; i < 35; i++)
        text.roles[i] |= DL_ROLE_FORWARD;
    for (size_t i = 0; i < text.count; i++)
        text.idle_ns[i] = i % 40 == 33 ? 20000 : 10;
    find(&period, &text, 0);
    for (size_t i = 0; i < period.cut_count; i++)
        assert_true(period.cuts[i] % 40 <= 25);
    dl_period_free(&period);
    stop_writing(&text);
}

static void test_given_period(void **state DL_UNUSED)
{
    written text = start_writing();
    for (uint32_t i = 0; i < 100 * 20; i++) /* pairs of units that differ in one symbol */
        write_symbol(&text, i % 20 == 7 ? 30 : i % 20 == 17 ? 31 : i % 10);
    expect_units(&text, 20, 100, 20);
    DL_SCOPED(dl_period) period = {0};
    find(&period, &text, 700);
    assert_int_equal(period.cut_count, 0);
    assert_contains(period.reason, "given period");
    stop_writing(&text);
}

/* Writes units of 30 kinds, with the update's three kinds after every `cycle`-th unit. */
static void write_accumulation(written *text, int units, int cycle)
{
    for (int u = 0; u < units; u++) {
        for (uint32_t i = 0; i < 30; i++)
            write_symbol(text, i);
        for (uint32_t i = 0; i < 3 && (u + 1) % cycle == 0; i++)
            write_symbol(text, 100 + i);
    }
}

/* Finds the units of whole steps; returns whether they come from updates, because the repeated
 * units lack these. */
static bool end_with_updates(dl_period *period, const written *text)
{
    const dl_sequence sequence = sequence_of(text);
    find(period, text, 0);
    if (period->cut_count > 0 && dl_period_is_whole(period, &sequence)) return false;
    dl_period_free(period);
    return dl_period_find_updates(period, &sequence);
}

/* Four units and an update form one step; the trace ends two units after the last update. */
static void test_accumulation(void **state DL_UNUSED)
{
    dl_period period = {0};
    written text = start_writing();
    write_accumulation(&text, 42, 4);
    assert_false(end_with_updates(&period, &text));
    assert_int_equal(period.cut_count, 42); /* nothing identifies the update */
    dl_period_free(&period);
    for (uint32_t i = 0; i < 3; i++)
        text.roles[100 + i] = DL_ROLE_UPDATE;
    end_with_updates(&period, &text);
    assert_int_equal(period.cut_count, 10);
    assert_int_equal(period.length, 123);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(period.cuts[i], 123 * i);
    assert_float_equal(period.order_match, 1, 1e-9);
    dl_period_free(&period);
    stop_writing(&text);
}

/* Updates in each unit are part of it, and there are no other cuts. */
static void test_no_accumulation(void **state DL_UNUSED)
{
    DL_SCOPED(dl_period) period = {0};
    written text = start_writing();
    for (uint32_t i = 0; i < 3; i++)
        text.roles[100 + i] = DL_ROLE_UPDATE;
    write_accumulation(&text, 40, 1);
    assert_false(end_with_updates(&period, &text));
    assert_int_equal(period.cut_count, 40);
    stop_writing(&text);
}

/* Kinds of write_layers: layers of the passes, their first and last kinds, the update. */
enum { LAYER_FORWARD = 10, LAYER_BACKWARD = 20, HEAD = 30, LOSS = 31, UPDATE = 40 };

static void mark_layers(written *text)
{
    for (uint32_t i = 0; i < 5; i++) {
        text->roles[LAYER_FORWARD + i] = DL_ROLE_FORWARD;
        text->roles[LAYER_BACKWARD + i] = DL_ROLE_BACKWARD;
    }
    text->roles[UPDATE] = DL_ROLE_UPDATE;
}

/* Writes a step: `validation` adds a forward pass before it; passes of layers with five kernels
 * each, `updates` kernels of an update. */
static void write_layers(written *text, int layers, int micro_batches, int updates, int validation)
{
    for (int pass = 0; pass < 2 * micro_batches + validation; pass++) {
        const bool forward = pass < validation || (pass - validation) % 2 == 0;
        write_symbol(text, forward ? HEAD : LOSS);
        for (uint32_t i = 0; i < 5 * (uint32_t)layers; i++)
            write_symbol(text, (forward ? LAYER_FORWARD : LAYER_BACKWARD) + i % 5);
    }
    for (int i = 0; i < updates; i++)
        write_symbol(text, UPDATE);
}

/* Two steps or more, with one or several micro-batches and an update of few or many kernels: the
 * layers, micro-batches and parts of the update repeat more often, but contain no whole step. */
static void test_layers_are_no_steps(void **state DL_UNUSED)
{
    for (int steps = 2; steps < 7; steps++) {
        for (int c = 0; c < 8; c++) {
            const int layers = c % 2 == 0 ? 6 : 40, micro = c / 2 % 2 == 0 ? 1 : 4;
            const int updates = c / 4 == 0 ? 2 : 300;
            written text = start_writing();
            mark_layers(&text);
            for (int s = 0; s < steps; s++)
                write_layers(&text, layers, micro, updates, 0);
            const size_t length = text.count / (size_t)steps;
            DL_SCOPED(dl_period) period = {0};
            if (!end_with_updates(&period, &text) && period.cut_count == 0)
                fail_msg("%d steps, case %d: %s", steps, c, period.reason);
            assert_int_equal(period.cut_count, steps);
            for (size_t u = 0; u < period.cut_count; u++)
                assert_int_equal(period.cuts[u], u * length);
            assert_int_equal(period.length, length);
            stop_writing(&text);
        }
    }
}

/* A single update does not distinguish a step from a part of one. A first step without its
 * beginning is excluded; other work before a step is not part of it. */
static void test_updates_end_whole_steps_only(void **state DL_UNUSED)
{
    DL_SCOPED(dl_period) period = {0};
    written text = start_writing();
    mark_layers(&text);
    write_layers(&text, 12, 1, 2, 0);
    const size_t length = text.count;
    dl_sequence sequence = sequence_of(&text);
    assert_false(dl_period_find_updates(&period, &sequence));
    assert_contains(period.reason, "fewer than two updates");
    write_layers(&text, 12, 1, 2, 0);
    sequence = sequence_of(&text);
    sequence = dl_sequence_from(&sequence, length / 2);
    assert_false(dl_period_find_updates(&period, &sequence));
    write_layers(&text, 12, 1, 2, 1); /* from index 2 length: 61 symbols of a validation, a step */
    write_layers(&text, 12, 1, 2, 0);
    sequence = sequence_of(&text);
    assert_true(dl_period_find_updates(&period, &sequence));
    assert_int_equal(period.cut_count, 4);
    assert_int_equal(period.cuts[2], 2 * length + 61);
    assert_int_equal(period.cuts[3], 3 * length + 61);
    stop_writing(&text);
}

/* Work before the first of two steps belongs to no step. */
static void test_other_work_before_two_steps(void **state DL_UNUSED)
{
    DL_SCOPED(dl_period) period = {0};
    written text = start_writing();
    mark_layers(&text);
    for (uint32_t i = 0; i < 40; i++)
        write_symbol(&text, 50 + i % 7);
    write_layers(&text, 12, 1, 2, 0);
    write_layers(&text, 12, 1, 2, 0);
    const dl_sequence sequence = sequence_of(&text);
    assert_true(dl_period_find_updates(&period, &sequence));
    assert_int_equal(period.cut_count, 2);
    assert_int_equal(period.cuts[0], 40);
    assert_int_equal(period.length, (text.count - 40) / 2);
    stop_writing(&text);
}

/* Two alternating optimizers end one step. */
static void test_optimizers_in_turn(void **state DL_UNUSED)
{
    DL_SCOPED(dl_period) period = {0};
    written text = start_writing();
    mark_layers(&text);
    text.roles[UPDATE + 1] = DL_ROLE_UPDATE;
    size_t second = 0;
    for (int s = 0; s < 3; s++) {
        write_layers(&text, 8, 1, 2, 0);
        write_layers(&text, 3, 1, 0, 0);
        write_symbol(&text, UPDATE + 1);
        if (s == 0) second = text.count;
    }
    const dl_sequence sequence = sequence_of(&text);
    assert_true(dl_period_find_updates(&period, &sequence));
    assert_int_equal(period.cut_count, 3);
    assert_int_equal(period.cuts[1], second);
    stop_writing(&text);
}

/* Writes a compiler's autotuning of 60 kernels, each 20 times after a memset, then 100 irregular
 * symbols, then 40 units of 25 symbols interrupted by other work. */
static size_t write_tuned(written *text, int units)
{
    dl_random random;
    dl_random_init(&random, 9, 0, 0, 0);
    for (uint32_t kernel = 0; kernel < 60; kernel++) {
        for (int again = 0; again < 20; again++) {
            write_symbol(text, 0);
            write_symbol(text, 100 + kernel);
        }
    }
    for (int i = 0; i < 100; i++)
        write_symbol(text, 200 + (uint32_t)dl_random_below(&random, 50));
    const size_t first = text->count;
    for (int unit = 0; unit < units; unit++) {
        for (uint32_t i = 0; i < 25; i++)
            write_symbol(text, i);
        for (uint32_t i = 0; unit == units / 2 && i < 10; i++)
            write_symbol(text, 300 + i);
    }
    return first;
}

static void test_late_units(void **state DL_UNUSED)
{
    written text = start_writing();
    const size_t first = write_tuned(&text, 40);
    expect_none(&text, "a quarter of the work");
    dl_period period = {0};
    find_late(&period, &text, 0);
    if (period.cut_count == 0) fail_msg("%s", period.reason);
    /* The start of a unit is ambiguous here; the first and the last one may be truncated. */
    assert_in_range(period.cut_count, 39, 40);
    assert_int_equal(period.length, 25);
    assert_in_range(period.cuts[0], first, first + 25);
    assert_true(period.order_match > 0.999);
    dl_period_free(&period);
    find_late(&period, &text, 25);
    assert_in_range(period.cut_count, 39, 40);
    dl_period_free(&period);
    stop_writing(&text);
}

/* Three units after this much other work are too few. */
static void test_few_late_units(void **state DL_UNUSED)
{
    written text = start_writing();
    write_tuned(&text, 3);
    expect_none_late(&text, "three units");
    stop_writing(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_no_accumulation),
        cmocka_unit_test(test_layers_are_no_steps),
        cmocka_unit_test(test_updates_end_whole_steps_only),
        cmocka_unit_test(test_other_work_before_two_steps),
        cmocka_unit_test(test_optimizers_in_turn),
        cmocka_unit_test(test_random_symbols),
        cmocka_unit_test(test_shuffled_blocks),
        cmocka_unit_test(test_monotony),
        cmocka_unit_test(test_short_units),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_long_units),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_given_period),
        cmocka_unit_test(test_late_units),
        cmocka_unit_test(test_few_late_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
