/* Fits of products by shape to traces with known numbers. */
#include "calibrate/shapes.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/hand_trace.h"
#include "tests/near.h"

/* 80 Gflop/s, 8 bytes per ns, 20 us: a product takes 20000 + 4 weights / 8 + max(flop / 80, 4
 * others / 8) ns. Gradients of inputs are twice, of weights four times as slow. */
static double true_ns(const dl_shape_product *p)
{
    const double ns =
        20000 + dl_shape_weights(p) / 2 + fmax(dl_shape_flop(p) / 80, dl_shape_others(p) / 2);
    return ns * (p->pass == DL_PRODUCT_FORWARD ? 1 : p->pass == DL_PRODUCT_DATA ? 2 : 4);
}

static void add(dl_trace *trace, dl_shape_product product, uint32_t step_count, double factor)
{
    char name[DL_SHAPE_NAME_BYTES];
    const uint32_t id = hand_name(trace, dl_shape_name(name, &product));
    for (uint32_t round = 0; round < 3; round++) {
        dl_record *r = hand_record(trace, DL_RECORD_BENCH, 0, 0,
                                   (int64_t)(factor * true_ns(&product) * (1 + 0.05 * round)));
        r->name = id;
        r->step = round;
        r->samples = step_count;
        r->threads = 2;
    }
}

/* Adds moves at 10 bytes per ns and 3 us each. */
static void add_moves(dl_trace *trace)
{
    const uint32_t id = hand_name(trace, "move");
    for (uint64_t bytes = 100000; bytes <= 100000000; bytes *= 10) {
        dl_record *r = hand_record(trace, DL_RECORD_BENCH, 0, 0, 3000 + (int64_t)bytes / 10);
        r->name = id;
        r->bytes = bytes;
        r->threads = 2;
    }
}

static void add_time(dl_trace *trace, const char *name, uint64_t bytes, uint32_t samples,
                     uint32_t in_layer, uint32_t round, double ns)
{
    dl_record *r = hand_record(trace, DL_RECORD_BENCH, 0, 0, (int64_t)ns);
    r->name = hand_name(trace, name);
    r->bytes = bytes;
    r->samples = samples;
    r->vectors = in_layer;
    r->step = round;
    r->threads = 2;
}

/* Adds norms at 4 bytes per ns and 1 us, both passes alike, and attention at 5 flop per ns and 2
 * us, backward at 2 flop per ns and 3 us: 2 x heads x tokens^2 x numbers flop, backward 2.5
 * times as many. The network's norm takes 1.25 times its modelled time. */
static void add_kinds(dl_trace *trace)
{
    for (uint64_t bytes = 100000; bytes <= 10000000; bytes *= 10) {
        add_time(trace, "norm", bytes, 0, 0, 0, 1000 + (double)bytes / 4);
        add_time(trace, "norm_backward", bytes, 0, 0, 0, 1000 + (double)bytes / 4);
    }
    add_time(trace, "norm", 400000, 2, 0, 0, 1.25 * (1000 + 100000));
    add_time(trace, "attention 4x100x10", 0, 0, 0, 0, 2000 + 800000 / 5.0);
    add_time(trace, "attention 8x200x10", 0, 0, 0, 0, 2000 + 6400000 / 5.0);
    add_time(trace, "attention_backward 4x100x10", 0, 0, 0, 0, 3000 + 2000000 / 2.0);
    add_time(trace, "attention_backward 8x200x10", 0, 0, 0, 0, 3000 + 16000000 / 2.0);
}

/* Adds three rounds of a layer of two kernels of 100 us and one of 50: 1.2, 1.4 and 1.3 times as
 * long, and a fourth round that was stopped; launches of 10 kernels in 40 us. */
static void add_layers(dl_trace *trace)
{
    static const double factors[] = {1.2, 1.4, 1.3, 9};
    for (uint32_t round = 0; round < 4; round++) {
        add_time(trace, "forward 700x300x501", 0, 12, 2, round, 100e3);
        if (round < 3) add_time(trace, "norm", 4000, 1, 1, round, 50e3);
        for (int i = 0; i < 3; i++)
            add_time(trace, "layer", 0, 8, 0, round, (1 + 0.5 * (i - 1)) * factors[round] * 250e3);
        add_time(trace, "launch", 0, 10, 0, round, 40e3);
    }
}

/* The network's only product takes `factor` times its modelled time. */
static dl_trace make(int spread, double factor, const char *kind)
{
    static const int64_t shapes[][3] = {{2048, 1024, 1024}, {1024, 256, 1024}, {4096, 16, 384},
                                        {512, 2048, 512},   {64, 64, 64},      {8192, 8, 256},
                                        {1024, 64, 16},     {128, 2048, 8},    {32, 32, 32}};
    dl_trace trace = hand_trace();
    hand_meta(&trace, "kind", kind);
    hand_meta(&trace, "arithmetic", "fp32");
    hand_meta(&trace, "where", "cores");
    hand_meta(&trace, "threads", "2");
    hand_meta(&trace, "device", "test box");
    hand_meta(&trace, "device_memory_bytes", "8000000000");
    hand_meta(&trace, "workload", "gpt2");
    hand_meta(&trace, "batch", "8");
    hand_meta(&trace, "others_permille", "120");
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        for (int i = 0; i < spread; i++)
            add(&trace,
                (dl_shape_product){(dl_product_pass)pass, shapes[i][0], shapes[i][1], shapes[i][2]},
                0, 1);
        add(&trace, (dl_shape_product){(dl_product_pass)pass, 700, 300, 500}, 12, factor);
    }
    add_moves(&trace);
    return trace;
}

/* The median of three rounds is 1.05 of the modelled time, so rates are lower and times longer by
 * that factor; the last round takes 1.10 of the first. */
static void three_numbers_are_found_again(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = make(9, 1.25, "shapes");
    DL_SCOPED(dl_shapes) shapes = {0};
    dl_error err = {0};
    if (dl_shapes_fit(&shapes, &trace, &err)) fail_msg("%s", err.text);
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        const dl_shape_fit *fit = &shapes.passes[pass];
        const double slower = 1.05 * (pass == 0 ? 1 : pass == 1 ? 2 : 4);
        assert_int_equal(fit->shapes, 9);
        assert_true(near_scaled(fit->flop_per_s.value, 80e9 / slower, 0, 1e-3));
        assert_true(near_scaled(fit->bytes_per_s.value, 8e9 / slower, 0, 1e-3));
        assert_true(near_scaled(fit->fixed_ns.value, 20000 * slower, 0, 1e-3));
        assert_true(fit->flop_per_s.error_frac < 1e-3 && !fit->flop_per_s.at_limit);
        assert_true(fit->inside.max < 1e-3);
        /* Predicted 1 instead of 1.25. */
        assert_int_equal(fit->left_out.count, 1);
        assert_true(near_scaled(fit->left_out.mean, 0.2, 0, 2e-3));
        assert_true(near_scaled(fit->left_out.sum_frac, -0.2, 0, 2e-3));
    }
    assert_int_equal(shapes.all.count, 3);
    assert_true(near_scaled(shapes.all.max, 0.2, 0, 2e-3));
    assert_true(near_scaled(shapes.moves[DL_MOVE_PLAIN].per_s.value, 10e9, 0, 1e-6));
    assert_true(near_scaled(shapes.moves[DL_MOVE_PLAIN].fixed_ns.value, 3000, 0, 1e-3));
    assert_true(near_scaled(shapes.drift, 1.1, 0, 1e-3));
}

/* The numbers are written for the machine's own device, and for the device of another machine's
 * text. */
static void a_machine_file_has_them(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = make(9, 1, "shapes");
    DL_SCOPED(dl_shapes) shapes = {0};
    DL_SCOPED(dl_machine) machine = {0};
    DL_AUTOFREE char *text = NULL, *more = NULL;
    dl_error err = {0};
    assert_int_equal(dl_shapes_fit(&shapes, &trace, &err), DL_OK);
    if (dl_shapes_machine(&shapes, NULL, "m.ini", &text, &err)) fail_msg("%s", err.text);
    assert_int_equal(dl_machine_read_text(&machine, "m.ini", text, strlen(text), &err), DL_OK);
    const dl_gpu_kernels *kernels = &machine.models[0].kernels[DL_FP32];
    assert_string_equal(machine.models[0].name, "cores");
    assert_true(kernels->known && !machine.models[0].kernels[DL_TF32].known);
    assert_non_null(strstr(text, "; Other programs used 12 % of the processors meanwhile.\n"));
    assert_true(
        near_scaled(kernels->products[DL_PRODUCT_DATA].flop_per_s.value, 80e9 / 2.1, 0, 1e-3));
    assert_int_equal(kernels->products[DL_PRODUCT_WEIGHT].fixed_ns.origin, DL_ORIGIN_FITTED);
    assert_true(near_scaled(kernels->moves[DL_MOVE_PLAIN].bytes_per_s.value, 10e9, 0, 1e-5));
    /* The text already has kernels now. */
    assert_int_equal(dl_shapes_machine(&shapes, text, "m.ini", &more, &err), DL_ERR_DATA);
    assert_non_null(strstr(err.text, "already"));
    char *kernels_at = strstr(text, "; Fitted by");
    assert_non_null(kernels_at);
    *kernels_at = '\0';
    shapes.on_cores = false;
    assert_int_equal(dl_shapes_machine(&shapes, NULL, "m.ini", &more, &err), DL_ERR_USAGE);
    if (dl_shapes_machine(&shapes, text, "m.ini", &more, &err)) fail_msg("%s", err.text);
    assert_non_null(strstr(more, "[kernels cores fp32]"));
}

static void kinds_and_the_layer_are_found(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = make(9, 1, "shapes");
    dl_shapes shapes = {0};
    dl_machine machine = {0};
    DL_AUTOFREE char *text = NULL, *more = NULL;
    dl_error err = {0};
    add_kinds(&trace);
    if (dl_shapes_fit(&shapes, &trace, &err)) fail_msg("%s", err.text);
    const dl_shape_line *norm = &shapes.moves[DL_MOVE_NORM];
    assert_true(near_scaled(norm->per_s.value, 4e9, 0, 1e-3));
    assert_true(near_scaled(norm->fixed_ns.value, 1000, 0, 1e-3));
    assert_true(norm->inside_mean < 1e-3);
    assert_int_equal(norm->left_out, 1);
    assert_true(near_scaled(norm->left_out_mean, 0.2, 0, 1e-3));
    assert_true(near_scaled(shapes.attention[0].per_s.value, 5e9, 0, 1e-3));
    assert_true(near_scaled(shapes.attention[1].per_s.value, 2e9, 0, 1e-3));
    assert_true(near_scaled(shapes.attention[1].fixed_ns.value, 3000, 0, 1e-3));
    assert_true(shapes.moves[DL_MOVE_LOSS].per_s.value == 0);
    assert_int_equal(shapes.sustained.count, 0);
    dl_shapes_free(&shapes);
    add_layers(&trace);
    if (dl_shapes_fit(&shapes, &trace, &err)) fail_msg("%s", err.text);
    assert_int_equal(shapes.layer_kernels, 3);
    assert_int_equal(shapes.sustained.count, 3);
    assert_true(near_scaled(shapes.sustained.value, 1.3, 0, 1e-6));
    assert_true(near_scaled(shapes.launch_ns.value, 4000, 0, 1e-6));
    if (dl_shapes_machine(&shapes, NULL, "m.ini", &text, &err)) fail_msg("%s", err.text);
    assert_int_equal(dl_machine_read_text(&machine, "m.ini", text, strlen(text), &err), DL_OK);
    const dl_gpu_kernels *kernels = &machine.models[0].kernels[DL_FP32];
    assert_true(near_scaled(kernels->attention[1].flop_per_s.value, 2e9, 0, 1e-3));
    assert_true(!kernels->moves[DL_MOVE_LOSS].bytes_per_s.known);
    assert_true(near_scaled(kernels->launch_ns.value, 4000, 0, 1e-5));
    /* On cores the layer's factor is a comment. */
    assert_true(!kernels->sustained.known);
    assert_non_null(strstr(text, "; sustained = 1.3 "));
    *strstr(text, "; Fitted by") = '\0';
    shapes.on_cores = false;
    dl_machine_free(&machine);
    if (dl_shapes_machine(&shapes, text, "m.ini", &more, &err)) fail_msg("%s", err.text);
    assert_int_equal(dl_machine_read_text(&machine, "m.ini", more, strlen(more), &err), DL_OK);
    kernels = &machine.models[0].kernels[DL_FP32];
    assert_true(near_scaled(kernels->sustained.value, 1.3, 0, 1e-3));
    assert_int_equal(kernels->sustained.origin, DL_ORIGIN_MEASURED);
    assert_true(kernels->sustained.low < 1.3 && kernels->sustained.high > 1.3);
    dl_machine_free(&machine);
    dl_shapes_free(&shapes);
}

static void traces_without_enough_are_refused(void **state DL_UNUSED)
{
    dl_error err = {0};
    DL_SCOPED(dl_trace) few = make(3, 1, "shapes"), other = make(9, 1, "bench");
    DL_SCOPED(dl_trace) damaged = make(9, 1, "shapes");
    dl_shapes shapes = {0};
    assert_int_equal(dl_shapes_fit(&shapes, &few, &err), DL_ERR_DATA);
    assert_non_null(strstr(err.text, "3 spread shapes of products 'forward', 4 are needed"));
    dl_shapes_free(&shapes);
    assert_int_equal(dl_shapes_fit(&shapes, &other, &err), DL_ERR_DATA);
    assert_non_null(strstr(err.text, "not a trace of dlprof bench shapes"));
    dl_shapes_free(&shapes);
    damaged.records[damaged.record_count - 1].step = UINT32_MAX;
    assert_int_equal(dl_shapes_fit(&shapes, &damaged, &err), DL_ERR_DATA);
    assert_non_null(strstr(err.text, "a record is of round 4294967295, but the trace has"));
    dl_shapes_free(&shapes);
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_numbers_are_found_again),
        cmocka_unit_test(a_machine_file_has_them),
        cmocka_unit_test(kinds_and_the_layer_are_found),
        cmocka_unit_test(traces_without_enough_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
