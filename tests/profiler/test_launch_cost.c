/* Cost of recording CUDA, measured with the doubles of the driver and of CUPTI. Skipped without
 * libcupti, whose functions read the buffers.
 *
 * Usage: test_launch_cost DEVICE_LIBRARY INJECTED_LIBRARY CUPTI_DOUBLE REAL_CUPTI */
#include <stdlib.h>
#include <unistd.h>

#include "profiler/bench/capture_cost.h"
#include "tests/folder.h"

static dl_progress progress;
static char folder[] = "launch_cost.XXXXXX";
static dl_launch_config config = {.folder = folder, .seconds = 0.1, .progress = &progress};

/* The double records in the launching thread the activities of each preset: light, one record per
 * kernel and per copy; default, also those of calls, waits and events; full, also those of the
 * driver's calls. */
static void test_measures_what_each_preset_adds(void **state DL_UNUSED)
{
    dl_launch_cost cost;
    dl_error err = {0};
    setenv("DLPROF_STEPS", "nonsense", 1); /* settings of another run have no effect */
    if (dl_launch_cost_measure(&config, &cost, &err) != DL_OK) fail_msg("%s", err.text);
    for (int v = DL_LAUNCH_NVTX; v < DL_LAUNCH_VARIANT_COUNT; v++) {
        const dl_capture_figures *figures = &cost.figures[v];
        assert_int_equal(figures->repetitions, DL_LAUNCH_REPETITIONS_MIN);
        assert_string_equal(figures->device, "Double of a GPU");
        for (int item = 0; item < DL_CAPTURE_ITEM_COUNT; item++) {
            const dl_capture_figure *figure = &figures->items[item];
            assert_true(figure->low_ns <= figure->ns && figure->ns <= figure->high_ns);
        }
    }
    for (int v = DL_LAUNCH_LIGHT; v < DL_LAUNCH_VARIANT_COUNT; v++) {
        /* Costs are differences of times: on a busy machine one may be below zero, but the upper
         * end of its interval may not. */
        assert_true(cost.figures[v].items[DL_CAPTURE_PER_KERNEL].high_ns > 0);
        assert_true(cost.figures[v].items[DL_CAPTURE_PER_COPY].high_ns > 0);
        assert_true(cost.figures[v].items[DL_CAPTURE_PER_RECORD].high_ns > 0);
    }
    assert_true(cost.figures[DL_LAUNCH_NVTX].items[DL_CAPTURE_PER_RECORD].ns == 0);
    assert_true(cost.records_per_launch[DL_LAUNCH_NVTX] == 0);
    assert_true(cost.records_per_launch[DL_LAUNCH_LIGHT] >= 0.5 &&
                cost.records_per_launch[DL_LAUNCH_LIGHT] < 0.51);
    assert_true(cost.records_per_launch[DL_LAUNCH_DEFAULT] >= 1.75 &&
                cost.records_per_launch[DL_LAUNCH_DEFAULT] < 1.76);
    assert_true(cost.records_per_launch[DL_LAUNCH_FULL] >= 2.0 &&
                cost.records_per_launch[DL_LAUNCH_FULL] < 2.01);
    assert_int_equal(count_files(folder), 0);
}

static void assert_fails(dl_status expected, const char *text)
{
    dl_launch_cost cost;
    dl_error err = {0};
    assert_int_equal(dl_launch_cost_measure(&config, &cost, &err), expected);
    assert_contains(err.text, text);
    assert_int_equal(count_files(folder), 0);
}

static void test_says_what_is_missing(void **state DL_UNUSED)
{
    setenv("DOUBLE_DEVICE", "none", 1);
    assert_fails(DL_ERR_UNSUPPORTED, "the double has no device");
    unsetenv("DOUBLE_DEVICE");
    const char *device_library = config.device_library;
    config.device_library = "/nowhere/libdlprof_cuda.so";
    assert_fails(DL_ERR_UNSUPPORTED, "/nowhere");
    config.device_library = device_library;
    setenv("DOUBLE_CUPTI", "taken", 1);
    assert_fails(DL_ERR_UNSUPPORTED, "another tool has CUPTI");
    unsetenv("DOUBLE_CUPTI");
}

/* Lost records would make recording look cheap. */
static void test_lost_records_are_no_result(void **state DL_UNUSED)
{
    setenv("DOUBLE_CUPTI", "no-copies", 1);
    assert_fails(DL_ERR_DATA, "preset light: recorded 10500 kernels and 0 copies of 10500 each");
    unsetenv("DOUBLE_CUPTI");
}

static void test_can_be_stopped(void **state DL_UNUSED)
{
    const atomic_bool stop = true;
    config.stop = &stop;
    assert_fails(DL_ERR_SYSTEM, "stopped in repetition 1");
    config.stop = NULL;
}

int main(int argc, char **argv)
{
    if (argc != 5) return 1;
    if (access(argv[4], R_OK) != 0) return 77;
    if (mkdtemp(folder) == NULL) return 1;
    config.device_library = argv[1];
    config.library = argv[2];
    config.cupti = argv[3];
    setenv("DOUBLE_REAL_CUPTI", argv[4], 1);
    dl_progress_init(&progress, "test");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_measures_what_each_preset_adds),
                                       cmocka_unit_test(test_says_what_is_missing),
                                       cmocka_unit_test(test_lost_records_are_no_result),
                                       cmocka_unit_test(test_can_be_stopped)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
