/* Lists of batch sizes: accepted and refused texts. */
#include "tests/check.h"

#include "profiler/workload_options.h"

static void takes_lists(void **state DL_UNUSED)
{
    int batches[DL_BATCH_LIST_MAX], count = 0;
    dl_error err = {0};
    assert_int_equal(dl_batch_list_parse("64", batches, &count, &err), DL_OK);
    assert_int_equal(count, 1);
    assert_int_equal(batches[0], 64);
    assert_int_equal(dl_batch_list_parse("128,1,32", batches, &count, &err), DL_OK);
    assert_int_equal(count, 3);
    assert_int_equal(batches[0], 128);
    assert_int_equal(batches[1], 1);
    assert_int_equal(batches[2], 32);
}

/* Every text is a usage error, and the result is left unchanged. */
static void refuses_others(void **state DL_UNUSED)
{
    static const char *const texts[] = {
        "",  ",",  "32,",     ",32", "32,,64", "x",   "32 ",
        "0", "-1", "1048577", "1.5", "32;64",  "8,8", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int batches[DL_BATCH_LIST_MAX] = {77}, count = 55;
        dl_error err = {0};
        if (dl_batch_list_parse(texts[i], batches, &count, &err) != DL_ERR_USAGE) {
            fail_msg("'%s' was taken", texts[i]);
        }
        assert_contains(err.text, "--batch");
        assert_int_equal(count, 55);
        assert_int_equal(batches[0], 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_lists),
                                       cmocka_unit_test(refuses_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
