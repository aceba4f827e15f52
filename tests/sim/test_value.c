#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/value.h"

static void all_parts_are_read(void **state DL_UNUSED)
{
    dl_value value = {0};
    assert_int_equal(dl_value_parse("1200 +- 14, n = 900, fitted", DL_DIMENSION_PURE, &value, NULL),
                     DL_OK);
    assert_true(value.known);
    assert_true(value.value == 1200 && value.error == 14);
    assert_int_equal(value.count, 900);
    assert_int_equal(value.origin, DL_ORIGIN_FITTED);
}

static void parts_may_be_left_out(void **state DL_UNUSED)
{
    dl_value value = {0};
    assert_int_equal(dl_value_parse("-2.5e3", DL_DIMENSION_PURE, &value, NULL), DL_OK);
    assert_true(value.value == -2500 && value.error == 0);
    assert_int_equal(value.count, 0);
    assert_int_equal(value.origin, DL_ORIGIN_ASSUMED);
    assert_int_equal(dl_value_parse("7,measured", DL_DIMENSION_PURE, &value, NULL), DL_OK);
    assert_int_equal(value.origin, DL_ORIGIN_MEASURED);
    assert_int_equal(dl_value_parse("7+-1,n=3", DL_DIMENSION_PURE, &value, NULL), DL_OK);
    assert_true(value.error == 1);
    assert_int_equal(value.count, 3);
}

/* Bounds may have units like the number. */
static void bounds_are_read(void **state DL_UNUSED)
{
    dl_value value = {0};
    assert_int_equal(
        dl_value_parse("0 (0 to 2.8 ms), n = 5, fitted", DL_DIMENSION_NS, &value, NULL), DL_OK);
    assert_true(dl_value_is_bounded(&value));
    assert_true(value.value == 0 && value.low == 0 && fabs(value.high - 2.8e6) < 1e-6);
    assert_int_equal(value.count, 5);
    assert_int_equal(dl_value_parse("7 +- 1", DL_DIMENSION_NS, &value, NULL), DL_OK);
    assert_false(dl_value_is_bounded(&value));
}

static void what_is_wrong_is_refused_and_said(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        dl_status status;
        const char *says;
    } cases[] = {
        {"", DL_ERR_PARSE, ""},
        {"12ns", DL_ERR_NAME, "no unit here"},
        {"nan", DL_ERR_PARSE, "nan"},
        {"12 +-", DL_ERR_PARSE, ""},
        {"12 +- -1", DL_ERR_RANGE, "-1"},
        {"12, n", DL_ERR_NAME, "unknown origin 'n'"},
        {"12, n 3", DL_ERR_PARSE, "n = COUNT"},
        {"12, n = 0", DL_ERR_RANGE, "0"},
        {"12, n = 1.5", DL_ERR_PARSE, "1.5"},
        {"12, fited", DL_ERR_NAME, "did you mean 'fitted'"},
        {"12, n = 3, fitted, n = 3", DL_ERR_PARSE, "after the origin"},
        {"12,", DL_ERR_NAME, "unknown origin"},
        {"0 (0 to)", DL_ERR_PARSE, "expected 'NUMBER (LOW to HIGH)'"},
        {"0 (0 to 2", DL_ERR_PARSE, "expected 'NUMBER (LOW to HIGH)'"},
        {"0 (0 to 2) 3", DL_ERR_PARSE, "expected 'NUMBER (LOW to HIGH)'"},
        {"0 (0 to x)", DL_ERR_PARSE, "x"},
        {"3 (0 to 2)", DL_ERR_RANGE, "not within its bounds"},
        {"2 (2 to 2)", DL_ERR_RANGE, "not within its bounds"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_value value = {.value = 5};
        dl_error err = {0};
        if (dl_value_parse(cases[i].text, DL_DIMENSION_PURE, &value, &err) != cases[i].status) {
            fail_msg("'%s': %s (%s)", cases[i].text, status_name(err.code), err.text);
        }
        assert_contains(err.text, cases[i].says);
        assert_true(value.value == 5);
    }
}

static void what_is_written_reads_back(void **state DL_UNUSED)
{
    const dl_value values[] = {
        {.known = true,
         .value = 0.1,
         .error = 1e-9,
         .count = 12345678901,
         .origin = DL_ORIGIN_MEASURED},
        {.known = true, .value = -3, .error = 0, .count = 0, .origin = DL_ORIGIN_ASSUMED},
        {.known = true,
         .value = 1.0 / 3,
         .error = 2.0 / 3,
         .count = 1,
         .origin = DL_ORIGIN_CATALOGUE},
        {.known = true,
         .value = 0,
         .low = 0,
         .high = 2.1e6,
         .count = 9,
         .origin = DL_ORIGIN_FITTED},
        {.known = true, .value = 1e15, .low = 1.0 / 3, .high = 1e15, .origin = DL_ORIGIN_FITTED},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        DL_AUTOFREE char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        dl_value_write(out, &values[i]);
        fclose(out);
        dl_value back = {0};
        assert_int_equal(dl_value_parse(text, DL_DIMENSION_PURE, &back, NULL), DL_OK);
        assert_true(back.value == values[i].value && back.error == values[i].error);
        assert_true(back.low == values[i].low && back.high == values[i].high);
        assert_int_equal(back.count, values[i].count);
        assert_int_equal(back.origin, values[i].origin);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_read),
        cmocka_unit_test(parts_may_be_left_out),
        cmocka_unit_test(bounds_are_read),
        cmocka_unit_test(what_is_wrong_is_refused_and_said),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
