/* Products by shape on the cores, and on a fake device, whose clock gives the duration of each. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/bench/bench_shapes.h"
#include "tests/check.h"
#include "tests/doubles/fake_device.h"
#include "trace/shape.h"

static const dl_step_product products[] = {{DL_PRODUCT_FORWARD, 24, 8, 16, 12},
                                           {DL_PRODUCT_WEIGHT, 24, 8, 16, 12}};

static dl_status measure(const dl_device_type *device, const dl_step_product *of, size_t count,
                         dl_trace *trace, dl_error *err)
{
    char path[] = "bench_shapes_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    dl_trace_writer *writer = NULL;
    assert_int_equal(dl_trace_writer_open(&writer, path, err), DL_OK);
    const dl_bench_shapes_config config = {.device = device,
                                           .threads = 2,
                                           .products = of,
                                           .count = count,
                                           .seconds = 0.001,
                                           .quick = true};
    const dl_status status = dl_bench_shapes(writer, &config, err);
    assert_int_equal(dl_trace_writer_close(&writer, NULL), DL_OK);
    if (status == DL_OK) assert_int_equal(dl_trace_read(trace, path, err), DL_OK);
    unlink(path);
    return status;
}

static int count_of(const dl_trace *trace, const char *name, uint32_t step_count)
{
    int count = 0;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *r = &trace->records[i];
        count += strcmp(dl_trace_name(trace, r), name) == 0 && r->samples == step_count;
    }
    return count;
}

/* Two rounds of ten shapes in three passes, the network's two, and three sizes of moves. */
static void check_cases(const dl_trace *trace)
{
    assert_int_equal(trace->record_count, 2 * (30 + 2 + 3));
    for (int i = 0; i < DL_BENCH_SPREAD_SHAPES; i++) {
        dl_step_product of = dl_bench_spread_shape(i, false, true);
        for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
            char name[DL_SHAPE_NAME_BYTES];
            const dl_shape_product product = {(dl_product_pass)pass, of.rows, of.inputs,
                                              of.outputs};
            assert_int_equal(count_of(trace, dl_shape_name(name, &product), 0), 2);
        }
    }
    assert_int_equal(count_of(trace, "forward 24x8x16", 12), 2);
    assert_int_equal(count_of(trace, "weight 24x8x16", 12), 2);
    assert_int_equal(count_of(trace, "move", 0), 2 * 3);
}

static void cores_measure_all_cases(void **state)
{
    (void)state;
    dl_trace trace = {0};
    dl_error err = {0};
    if (measure(NULL, products, 2, &trace, &err)) fail_msg("%s", err.text);
    check_cases(&trace);
    for (size_t i = 0; i < trace.record_count; i++) {
        assert_int_equal(trace.records[i].threads, 2);
        assert_true(trace.records[i].duration_ns > 0);
        if (strcmp(dl_trace_name(&trace, &trace.records[i]), "forward 24x8x16") == 0)
            assert_int_equal(trace.records[i].bytes, 4 * (24 * 8 + 8 * 16 + 24 * 16));
    }
    dl_trace_free(&trace);
}

static void a_device_measures_them_by_its_clock(void **state)
{
    (void)state;
    dl_trace trace = {0};
    dl_error err = {0};
    fake_device_set(1, -1);
    if (measure(&fake_device, products, 2, &trace, &err)) fail_msg("%s", err.text);
    check_cases(&trace);
    for (size_t i = 0; i < trace.record_count; i++)
        assert_int_equal(trace.records[i].duration_ns, FAKE_OPERATION_NS);
    assert_int_equal(fake_device_leaks(), 0);
    dl_trace_free(&trace);
}

static void a_device_that_fails_is_an_error(void **state)
{
    (void)state;
    dl_trace trace = {0};
    dl_error err = {0};
    fake_device_set(1, 40);
    assert_int_equal(measure(&fake_device, products, 2, &trace, &err), DL_ERR_SYSTEM);
    assert_int_equal(fake_device_leaks(), 0);
    fake_device_set(1, -1);
}

static void products_beyond_the_library_are_refused(void **state)
{
    (void)state;
    static const dl_step_product large = {DL_PRODUCT_FORWARD, 1 << 20, 1 << 12, 8, 1};
    dl_trace trace = {0};
    dl_error err = {0};
    assert_int_equal(measure(NULL, &large, 1, &trace, &err), DL_ERR_RANGE);
    assert_non_null(strstr(err.text, "1048576 x 4096 x 8 is too large"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_measure_all_cases),
        cmocka_unit_test(a_device_measures_them_by_its_clock),
        cmocka_unit_test(a_device_that_fails_is_an_error),
        cmocka_unit_test(products_beyond_the_library_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
