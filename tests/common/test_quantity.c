#include "tests/check.h"

#include <math.h>

#include "common/quantity.h"

static void quantities_are_in_base_units(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        dl_dimension dimension;
        double value;
        dl_origin origin;
    } cases[] = {
        {"11GiB, catalogue", DL_DIMENSION_BYTES, 11.0 * (1 << 30), DL_ORIGIN_CATALOGUE},
        {"12 kB", DL_DIMENSION_BYTES, 12000, DL_ORIGIN_ASSUMED},
        {"484GB/s , measured", DL_DIMENSION_BYTES_PER_S, 484e9, DL_ORIGIN_MEASURED},
        {"100Gb/s", DL_DIMENSION_BYTES_PER_S, 12.5e9, DL_ORIGIN_ASSUMED},
        {"1.6Tb/s", DL_DIMENSION_BYTES_PER_S, 200e9, DL_ORIGIN_ASSUMED},
        {"56 kb/s, measured", DL_DIMENSION_BYTES_PER_S, 7000, DL_ORIGIN_MEASURED},
        {"10Gbps", DL_DIMENSION_BYTES_PER_S, 1.25e9, DL_ORIGIN_ASSUMED},
        {"10 Gbit", DL_DIMENSION_BYTES_PER_S, 1.25e9, DL_ORIGIN_ASSUMED},
        {"10 Gbit/s, measured", DL_DIMENSION_BYTES_PER_S, 1.25e9, DL_ORIGIN_MEASURED},
        {"10GBps", DL_DIMENSION_BYTES_PER_S, 10e9, DL_ORIGIN_ASSUMED},
        {"9600b/s", DL_DIMENSION_BYTES_PER_S, 1200, DL_ORIGIN_ASSUMED},
        {"1e9", DL_DIMENSION_BYTES_PER_S, 1e9, DL_ORIGIN_ASSUMED},
        {"1.5e+1us", DL_DIMENSION_NS, 15000, DL_ORIGIN_ASSUMED},
        {"2 s", DL_DIMENSION_NS, 2e9, DL_ORIGIN_ASSUMED},
        {"1.5h", DL_DIMENSION_S, 5400, DL_ORIGIN_ASSUMED},
        {"30d", DL_DIMENSION_S, 30 * 86400, DL_ORIGIN_ASSUMED},
        {"15.7Tflop/s", DL_DIMENSION_FLOP_PER_S, 15.7e12, DL_ORIGIN_ASSUMED},
        {"7.2, catalogue", DL_DIMENSION_PURE, 7.2, DL_ORIGIN_CATALOGUE},
        {"25 GB/s, fitted", DL_DIMENSION_BYTES_PER_S, 25e9, DL_ORIGIN_FITTED},
        {"0", DL_DIMENSION_NS, 0, DL_ORIGIN_ASSUMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_quantity quantity = {0};
        dl_error err = {0};
        if (dl_quantity_parse(cases[i].text, cases[i].dimension, &quantity, &err) != DL_OK) {
            fail_msg("'%s': %s", cases[i].text, err.text);
        }
        assert_true(quantity.known);
        assert_true(fabs(quantity.value - cases[i].value) <= 1e-12 * cases[i].value);
        assert_int_equal(quantity.origin, cases[i].origin);
    }
}

static void quantities_may_have_bounds(void **state DL_UNUSED)
{
    dl_quantity quantity = {0};
    dl_error err = {0};
    assert_int_equal(dl_quantity_parse("6GB/s (4 GB/s to 9000MB/s), fitted",
                                       DL_DIMENSION_BYTES_PER_S, &quantity, &err),
                     DL_OK);
    assert_true(quantity.value == 6e9 && quantity.low == 4e9 && quantity.high == 9e9);
    assert_int_equal(quantity.origin, DL_ORIGIN_FITTED);
}

static void what_is_wrong_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        dl_dimension dimension;
        dl_status status;
        const char *says;
    } cases[] = {
        {"", DL_DIMENSION_NS, DL_ERR_PARSE, "not a number"},
        {"GB/s", DL_DIMENSION_BYTES_PER_S, DL_ERR_PARSE, "not a number"},
        {"1.2.3", DL_DIMENSION_NS, DL_ERR_PARSE, "1.2.3"},
        {"-1", DL_DIMENSION_NS, DL_ERR_RANGE, "-1"},
        {"6 (4 to 5)", DL_DIMENSION_NS, DL_ERR_RANGE, "within its bounds"},
        {"6 (0 to 9)", DL_DIMENSION_NS, DL_ERR_RANGE, "above 0"},
        {"6 (4, 9)", DL_DIMENSION_NS, DL_ERR_PARSE, "NUMBER (LOW to HIGH)"},
        {"6 (4 to 9GB)", DL_DIMENSION_NS, DL_ERR_NAME, "'GB'"},
        {"1e308GB", DL_DIMENSION_BYTES, DL_ERR_RANGE, "too large"},
        {"3GBs", DL_DIMENSION_BYTES_PER_S, DL_ERR_NAME, "GB/s"},
        {"3GB", DL_DIMENSION_BYTES_PER_S, DL_ERR_NAME, "GB/s"},
        {"10gb/s", DL_DIMENSION_BYTES_PER_S, DL_ERR_NAME,
         "unknown unit 'gb/s'; did you mean 'Gb/s' (bits) or 'GB/s' (bytes)?"},
        {"10mib/s", DL_DIMENSION_BYTES_PER_S, DL_ERR_NAME, "did you mean 'MiB/s'?"},
        {"3e", DL_DIMENSION_NS, DL_ERR_NAME, "'e'"},
        {"3 USD", DL_DIMENSION_PURE, DL_ERR_NAME, "no unit here"},
        {"3, measurd", DL_DIMENSION_PURE, DL_ERR_NAME, "measured"},
        {"3,", DL_DIMENSION_PURE, DL_ERR_NAME, "unknown origin"},
        {"55,22", DL_DIMENSION_PURE, DL_ERR_NAME, "'22' after the comma: this takes no list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_quantity quantity = {.value = 42};
        dl_error err = {0};
        assert_int_equal(dl_quantity_parse(cases[i].text, cases[i].dimension, &quantity, &err),
                         cases[i].status);
        assert_contains(err.text, cases[i].says);
        assert_true(quantity.value == 42 && !quantity.known);
    }
}

static void origins_have_names(void **state DL_UNUSED)
{
    assert_string_equal(dl_origin_name(DL_ORIGIN_MEASURED), "measured");
    assert_string_equal(dl_origin_name(DL_ORIGIN_ASSUMED), "assumed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_are_in_base_units),
        cmocka_unit_test(quantities_may_have_bounds),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(origins_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
