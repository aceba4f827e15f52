/* Kernels and a layer on the cores, and on a fake device, whose clock gives the duration of
 * each. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/bench/bench_shapes.h"
#include "tests/check.h"
#include "tests/doubles/fake_device.h"
#include "trace/shape.h"

enum { ROUNDS = 2, BATCH = 3 };

/* Sequences of 8 tokens, so that 3 samples are 24 rows; a block has products of 16 x 16, 16 x 48,
 * 16 x 64 and 64 x 16, the head one of 16 x 40. */
static const char network[] =
    "transformer:layers=2,width=16,heads=2,sequence=8,vocabulary=40,positions=8,dropout=no";

static dl_status measure(const dl_device_type *device, const char *workload, int64_t batch,
                         dl_trace *trace, dl_error *err)
{
    char path[] = "bench_shapes_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    dl_trace_writer *writer = NULL;
    DL_SCOPED(dl_architecture) architecture = {0};
    assert_int_equal(dl_architecture_make(&architecture, workload, err), DL_OK);
    assert_int_equal(dl_trace_writer_open(&writer, path, err), DL_OK);
    const dl_bench_shapes_config config = {.device = device,
                                           .threads = 2,
                                           .network = &architecture,
                                           .batch = batch,
                                           .seconds = 0.001,
                                           .quick = true};
    const dl_status status = dl_bench_shapes(writer, &config, err);
    assert_int_equal(dl_trace_writer_close(&writer, NULL), DL_OK);
    if (status == DL_OK) assert_int_equal(dl_trace_read(trace, path, err), DL_OK);
    unlink(path);
    return status;
}

/* Number of records of a kernel that is so often in a step and in a layer; -1: any. */
static int count_of(const dl_trace *trace, const char *name, int in_step, int in_layer)
{
    int count = 0;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *r = &trace->records[i];
        count += strcmp(dl_trace_name(trace, r), name) == 0 &&
                 (in_step < 0 || r->samples == (uint32_t)in_step) &&
                 (in_layer < 0 || r->vectors == (uint32_t)in_layer);
    }
    return count;
}

/* Ten shapes in three passes, and the network's products, of which one block has half. */
static void check_products(const dl_trace *trace)
{
    for (int i = 0; i < DL_BENCH_SPREAD_SHAPES; i++) {
        dl_step_product of = dl_bench_spread_shape(i, false, true);
        for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
            char name[DL_SHAPE_NAME_BYTES];
            const dl_shape_product product = {(dl_product_pass)pass, of.rows, of.inputs,
                                              of.outputs};
            assert_int_equal(count_of(trace, dl_shape_name(name, &product), 0, 0), ROUNDS);
        }
    }
    static const char *const in_blocks[] = {"24x16x48", "24x16x16", "24x16x64", "24x64x16"};
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        for (size_t b = 0; b < sizeof in_blocks / sizeof *in_blocks; b++) {
            char name[DL_SHAPE_NAME_BYTES];
            snprintf(name, sizeof name, "%s %s", dl_product_pass_names[pass], in_blocks[b]);
            assert_int_equal(count_of(trace, name, 2, 1), ROUNDS);
        }
    }
    assert_int_equal(count_of(trace, "forward 24x16x40", 1, 0), ROUNDS);
}

/* Sum of a round's kernels of the layer, each as often as the layer has it. */
static double sum_ns(const dl_trace *trace, uint32_t round)
{
    double sum = 0;
    for (size_t i = 0; i < trace->record_count; i++)
        if (trace->records[i].step == round)
            sum += trace->records[i].vectors * (double)trace->records[i].duration_ns;
    return sum;
}

static void cores_measure_all_kernels(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    if (measure(NULL, network, BATCH, &trace, &err)) fail_msg("%s", err.text);
    check_products(&trace);
    /* Three sizes of moves, two of the others. */
    static const char *const kinds[] = {
        "norm", "norm_backward", "activation", "activation_backward",
        "loss", "loss_backward", "update"};
    assert_int_equal(count_of(&trace, "move", 0, 0), 3 * ROUNDS);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        assert_int_equal(count_of(&trace, kinds[k], 0, 0), 2 * ROUNDS);
    assert_int_equal(count_of(&trace, "attention 16x128x64", 0, 0), ROUNDS);
    assert_int_equal(count_of(&trace, "attention_backward 16x128x64", 0, 0), ROUNDS);
    /* A block has two norms, one activation, and attention of 2 heads of 8 numbers per sample. */
    assert_int_equal(count_of(&trace, "norm", 2, 2), ROUNDS);
    assert_int_equal(count_of(&trace, "activation", 1, 1), ROUNDS);
    assert_int_equal(count_of(&trace, "attention 6x8x8", 1, 1), ROUNDS);
    assert_int_equal(count_of(&trace, "attention_backward 6x8x8", 1, 1), ROUNDS);
    assert_int_equal(count_of(&trace, "layer", BATCH, 0) >= ROUNDS, 1);
    assert_int_equal(count_of(&trace, "launch", -1, -1), 0);
    assert_null(dl_trace_meta(&trace, "layer_note"));
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *r = &trace.records[i];
        const char *name = dl_trace_name(&trace, r);
        assert_int_equal(r->threads, 2);
        assert_true(r->duration_ns > 0);
        if (strcmp(name, "forward 24x16x48") == 0)
            assert_int_equal(r->bytes, 4 * (24 * 16 + 16 * 48 + 24 * 48));
        if (strcmp(name, "norm") == 0 && r->samples > 0)
            assert_int_equal(r->bytes, 4 * 2 * 24 * 16);
    }
}

/* The fake device has no operations of transformers: norms and activations are plain moves, and the
 * layer is without attention. Each operation takes as long alone as in the layer. */
static void a_device_measures_them_by_its_clock(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(1, -1);
    if (measure(&fake_device, network, BATCH, &trace, &err)) fail_msg("%s", err.text);
    check_products(&trace);
    assert_int_equal(count_of(&trace, "norm", -1, -1), 0);
    assert_int_equal(count_of(&trace, "loss", 0, 0), 2 * ROUNDS);
    assert_string_equal(dl_trace_meta(&trace, "layer_note"), "without its attention");
    assert_int_equal(count_of(&trace, "layer", BATCH, 0), 2 * ROUNDS);
    assert_int_equal(count_of(&trace, "launch", -1, 0), ROUNDS);
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *r = &trace.records[i];
        const char *name = dl_trace_name(&trace, r);
        if (strcmp(name, "layer") == 0) {
            assert_true((double)r->duration_ns == sum_ns(&trace, r->step));
        } else if (strcmp(name, "launch") == 0) {
            assert_true(r->samples * (double)FAKE_OPERATION_NS == sum_ns(&trace, r->step));
        } else {
            assert_int_equal(r->duration_ns, FAKE_OPERATION_NS);
        }
    }
    assert_int_equal(fake_device_leaks(), 0);
}

/* More kernels than fit into a GPU's queue: the layer runs without a hold. */
static void a_layer_of_many_experts_is_not_held(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    fake_device_set(1, -1);
    if (measure(
            &fake_device,
            "transformer:layers=1,width=16,heads=2,sequence=8,vocabulary=40,experts=128,active=2",
            1, &trace, &err))
        fail_msg("%s", err.text);
    const dl_record *launches = NULL;
    for (size_t i = 0; i < trace.record_count; i++)
        if (strcmp(dl_trace_name(&trace, &trace.records[i]), "launch") == 0)
            launches = &trace.records[i];
    assert_true(launches != NULL && launches->samples > DL_DEVICE_HELD_MAX);
    assert_true(count_of(&trace, "layer", 1, 0) >= ROUNDS);
}

static void a_network_without_blocks_has_no_layer(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = {0};
    dl_error err = {0};
    if (measure(NULL, "resnet18", 1, &trace, &err)) fail_msg("%s", err.text);
    assert_string_equal(dl_trace_meta(&trace, "layer_note"), "the network has no blocks");
    assert_int_equal(count_of(&trace, "layer", -1, -1), 0);
}

static void a_device_that_fails_is_an_error(void **state DL_UNUSED)
{
    dl_trace trace = {0};
    dl_error err = {0};
    fake_device_set(1, 40);
    assert_int_equal(measure(&fake_device, network, BATCH, &trace, &err), DL_ERR_SYSTEM);
    assert_int_equal(fake_device_leaks(), 0);
    fake_device_set(1, -1);
}

static void products_beyond_the_library_are_refused(void **state DL_UNUSED)
{
    dl_trace trace = {0};
    dl_error err = {0};
    assert_int_equal(measure(NULL, "transformer:layers=1,width=4096,heads=32,sequence=1024",
                             1 << 10, &trace, &err),
                     DL_ERR_RANGE);
    assert_non_null(strstr(err.text, "1048576 x 4096 x"));
    assert_non_null(strstr(err.text, "is too large"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_measure_all_kernels),
        cmocka_unit_test(a_device_measures_them_by_its_clock),
        cmocka_unit_test(a_layer_of_many_experts_is_not_held),
        cmocka_unit_test(a_network_without_blocks_has_no_layer),
        cmocka_unit_test(a_device_that_fails_is_an_error),
        cmocka_unit_test(products_beyond_the_library_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
