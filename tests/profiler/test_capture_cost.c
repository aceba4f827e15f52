/* Cost of the injected library, measured with the library itself. Usage: test_capture_cost
 * LIBRARY */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "profiler/bench/capture_cost.h"
#include "tests/folder.h"

static const char *library;
static char folder[] = "capture_cost.XXXXXX";

/* Each range and mark has a cost, every one is in the trace (else the measurement fails), and no
 * file remains. */
static void test_measures(void **state)
{
    (void)state;
    dl_capture_figure costs[DL_CAPTURE_COST_COUNT];
    dl_error err = {0};
    setenv("DLPROF_STEPS", "nonsense", 1); /* settings of another run have no effect */
    if (dl_capture_cost_measure(library, folder, costs, &err) != DL_OK) fail_msg("%s", err.text);
    for (int i = 0; i < DL_CAPTURE_COST_COUNT; i++) {
        /* Costs are differences of times: a cost may be below zero. */
        assert_true(isfinite(costs[i].low_ns) && isfinite(costs[i].high_ns));
        assert_true(costs[i].low_ns <= costs[i].ns && costs[i].ns <= costs[i].high_ns);
    }
    assert_int_equal(count_files(folder), 0);
}

static void test_no_library(void **state)
{
    (void)state;
    dl_capture_figure costs[DL_CAPTURE_COST_COUNT];
    dl_error err = {0};
    assert_int_equal(dl_capture_cost_measure("/nowhere/lib.so", folder, costs, &err), DL_ERR_DATA);
    assert_contains(err.text, "nothing was recorded");
    assert_int_equal(count_files(folder), 0);
    assert_int_equal(dl_capture_cost_measure(library, "/nowhere", costs, &err), DL_ERR_IO);
}

int main(int argc, char **argv)
{
    if (argc != 2 || mkdtemp(folder) == NULL) return 1;
    library = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_measures),
                                       cmocka_unit_test(test_no_library)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
