/* Where the figures of the recording's cost are found, and which of them are valid for this
 * host. */
#include "tests/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/bench/overhead.h"
#include "profiler/inject/settings.h"
#include "trace/activity/capture_cost.h"
#include "trace/dlt/dlt.h"

static char home[] = "overhead_file.XXXXXX";
static char *place; /* default path */

static char *figures_of(const char *host)
{
    dl_capture_figures figures = {.repetitions = 6};
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++)
        figures.items[i] = (dl_capture_figure){10 * (i + 1), 10 * i, 10 * (i + 2)};
    snprintf(figures.host, sizeof figures.host, "%s", host);
    snprintf(figures.device, sizeof figures.device, "A GPU");
    return dl_capture_figures_text(&figures);
}

/* Writes a trace of `kind` with the value under the key of preset light. */
static void write_file(const char *path, const char *kind, const char *value)
{
    dl_trace_writer *writer = NULL;
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_trace_writer_meta(writer, "kind", kind);
    dl_trace_writer_meta(writer, DL_CAPTURE_COST_KEY ".light", value);
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
}

/* Checks that the cost found contains `expected`. */
static void assert_cost(const char *given, const char *expected)
{
    DL_AUTOFREE char *text = NULL;
    dl_error err = {0};
    if (dl_overhead_file_cost(given, DL_CAPTURE_LIGHT, &text, &err) != DL_OK)
        fail_msg("%s", err.text);
    assert_contains(text, expected);
}

static void test_nothing_is_unknown(void **state DL_UNUSED)
{
    assert_cost(NULL, "unknown (no figures of dlprof bench overhead)");
}

static void test_the_default_place_is_for_this_host(void **state DL_UNUSED)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    DL_AUTOFREE char *here = figures_of(host), *there = figures_of("elsewhere.example");
    write_file(place, "overhead", here);
    assert_cost(NULL, here);
    write_file(place, "overhead", there);
    assert_cost(NULL, "was recorded on host elsewhere.example)");
    assert_cost(place, there); /* a given file is used for any host */
    write_file(place, "overhead", "unknown (no GPU)");
    assert_cost(NULL, "unknown (no GPU)");
    assert_cost(place, "unknown (no GPU)");
    write_file(place, "overhead", "much");
    assert_cost(NULL, "unknown (");
    write_file(place, "train", here);
    assert_cost(NULL, "is not from dlprof bench overhead");
    unlink(place);
}

static void test_a_given_file_must_be_one(void **state DL_UNUSED)
{
    char *text = NULL;
    dl_error err = {0};
    assert_int_equal(dl_overhead_file_cost("/nowhere.dlt", DL_CAPTURE_LIGHT, &text, &err),
                     DL_ERR_IO);
    write_file(place, "overhead", "much");
    assert_int_equal(dl_overhead_file_cost(place, DL_CAPTURE_LIGHT, &text, &err), DL_ERR_DATA);
    assert_contains(err.text, "'much' are not costs");
    assert_int_equal(dl_overhead_file_cost(place, DL_CAPTURE_FULL, &text, &err), DL_ERR_DATA);
    assert_contains(err.text, "capture_cost.full");
    assert_null(text);
    unlink(place);
}

/* XDG_DATA_HOME takes precedence over HOME; without both there is no path. */
static void test_finds_the_default_place(void **state DL_UNUSED)
{
    char *path = dl_overhead_file_default();
    assert_string_equal(path, place);
    free(path);
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", "/home/someone", 1);
    path = dl_overhead_file_default();
    assert_string_equal(path, "/home/someone/.local/share/dlprof/overhead.dlt");
    free(path);
    unsetenv("HOME");
    assert_null(dl_overhead_file_default());
    setenv("XDG_DATA_HOME", home, 1);
}

int main(void)
{
    if (mkdtemp(home) == NULL) return 1;
    char *folder = dl_format("%s/dlprof", home);
    if (mkdir(folder, 0777) != 0) return 1;
    setenv("XDG_DATA_HOME", home, 1);
    place = dl_format("%s/overhead.dlt", folder);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_unknown),
                                       cmocka_unit_test(test_the_default_place_is_for_this_host),
                                       cmocka_unit_test(test_a_given_file_must_be_one),
                                       cmocka_unit_test(test_finds_the_default_place)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    rmdir(home);
    free(folder);
    free(place);
    return failed;
}
