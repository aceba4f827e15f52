#include "calibrate/replay/step_costs.h"
#include <stdlib.h>

#include <math.h>

#include "tests/calibrate/rank_trace.h"

#define FORWARD_NS 50000
#define FIRST_NS 30000 /* backward pass before the first all-reduce */
#define SECOND_NS 70000
#define UPDATE_NS 10000

/* Adds a step of DistributedDataParallel without its mark: two buckets, each all-reduced in 5 us on
 * the same stream; before them `gathers` gathers of 7000 bytes in 20 us each. */
static void add_unmarked_step(rank_trace *t, double scale, int gathers)
{
    for (int g = 0; g < gathers; g++)
        rank_trace_collective(t, RT_GATHER, RT_GATHER_KERNEL, 7000, 20000);
    rank_trace_work(t, RT_COMPUTE, (int64_t)(scale * FORWARD_NS));
    const int64_t backward_ns = t->host_ns;
    rank_trace_work(t, RT_COMPUTE, (int64_t)(scale * FIRST_NS));
    rank_trace_collective(t, RT_REDUCE, RT_REDUCE_KERNEL, 3000, 5000);
    rank_trace_work(t, RT_COMPUTE, (int64_t)(scale * SECOND_NS));
    rank_trace_range(t, RT_BACKWARD, backward_ns);
    rank_trace_collective(t, RT_REDUCE, RT_REDUCE_KERNEL, 1000, 5000);
    rank_trace_work_in(t, RT_OPTIMIZER, UPDATE_NS);
}

static void add_steps_that_gather(rank_trace *t, int steps, double scale, int gathers)
{
    for (int s = 0; s < steps; s++) {
        const int64_t step_ns = t->host_ns;
        add_unmarked_step(t, scale, gathers);
        rank_trace_range(t, RT_STEP, step_ns);
    }
}

static void add_steps(rank_trace *t, int steps, double scale)
{
    rank_trace_init(t, 0);
    add_steps_that_gather(t, steps, scale, 0);
}

static dl_step_costs take_by(const rank_trace *t, int64_t batch, const char *marks, dl_notes *notes)
{
    dl_step_costs costs = {0};
    dl_error err = {0};
    const dl_step_hints hints = {.marks = marks};
    if (dl_step_costs_take(&costs, &t->trace, batch, &hints, NULL, DL_EXTERNAL_THREADS, notes,
                           &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    return costs;
}

static dl_step_costs take_noting(const rank_trace *t, int64_t batch, dl_notes *notes)
{
    return take_by(t, batch, "ProfilerStep", notes);
}

static dl_step_costs take(const rank_trace *t, int64_t batch)
{
    DL_SCOPED(dl_notes) notes = {0};
    return take_noting(t, batch, &notes);
}

static bool has_note(const dl_notes *notes, const char *part)
{
    for (size_t i = 0; i < notes->count; i++)
        if (strstr(notes->lines[i], part) != NULL) return true;
    return false;
}

static void phases_and_gradients_come_out(void **state DL_UNUSED)
{
    rank_trace t;
    add_steps(&t, 4, 1);
    DL_SCOPED(dl_step_costs) c = take(&t, 8);
    assert_int_equal(c.steps, 3); /* the last one has no end on the host */
    assert_float_equal(c.step_ns, 170000, 5000);
    assert_float_equal(c.device_ns, 160000, 5000);
    assert_float_equal(c.host_ns, 6200, 1500); /* six launches, two calls of collectives */
    assert_float_equal(c.forward_ns.value, FORWARD_NS, 1500);
    assert_float_equal(c.backward_ns.value, FIRST_NS + SECOND_NS, 3000);
    assert_float_equal(c.update_ns.value, UPDATE_NS, 500);
    assert_int_equal(c.op_count, 3);
    assert_string_equal(c.ops[0].name, "gemm.forward");
    assert_string_equal(c.ops[1].name, "gemm.backward");
    assert_string_equal(c.ops[2].name, "gemm.update");
    assert_float_equal(c.ops[0].ns.value + c.ops[1].ns.value + c.ops[2].ns.value, c.device_ns, 1);
    assert_int_equal(c.gradient_count, 2);
    assert_float_equal(c.gradients[0].share, 0.3, 0.01);
    assert_float_equal(c.gradients[1].share, 1, 1e-9);
    assert_true(c.gradients[0].bytes == 3000 && c.gradients[1].bytes == 4000);
    assert_int_equal(c.slowdown.works, 0);
}

/* An all-reduce of integers during the backward pass, as of DDP's map of used parameters, is no
 * bucket of gradients. */
static void sums_of_integers_are_no_gradients(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 4; s++) {
        const int64_t step_ns = t.host_ns;
        rank_trace_work(&t, RT_COMPUTE, FORWARD_NS);
        const int64_t backward_ns = t.host_ns;
        rank_trace_work(&t, RT_COMPUTE, FIRST_NS);
        const size_t map = t.trace.activity_count;
        rank_trace_collective(&t, RT_REDUCE, RT_REDUCE_KERNEL, 204, 5000);
        t.activities[map].detail = RT_INTEGERS;
        rank_trace_work(&t, RT_COMPUTE, SECOND_NS);
        rank_trace_range(&t, RT_BACKWARD, backward_ns);
        rank_trace_collective(&t, RT_REDUCE, RT_REDUCE_KERNEL, 4000, 5000);
        rank_trace_work_in(&t, RT_OPTIMIZER, UPDATE_NS);
        rank_trace_range(&t, RT_STEP, step_ns);
    }
    DL_SCOPED(dl_notes) notes = {0};
    DL_SCOPED(dl_step_costs) c = take_noting(&t, 8, &notes);
    assert_int_equal(c.gradient_count, 1);
    assert_true(c.gradients[0].bytes == 4000);
    assert_float_equal(c.gradients[0].share, 1, 1e-9);
    assert_true(has_note(&notes, "4 calls in the trace sum integers"));
}

/* Thread 2 of the process all-reduces the same gradients on device 1. */
static void collectives_of_other_devices_are_not_counted(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 4; s++) {
        const int64_t step_ns = t.host_ns;
        add_unmarked_step(&t, 1, 0);
        for (int bucket = 0; bucket < 2; bucket++) {
            const int64_t call_ns = step_ns + 3300 + 500 * bucket;
            rank_trace_add(&t, (dl_activity){.kind = DL_ACTIVITY_COLLECTIVE,
                                             .name = RT_REDUCE,
                                             .thread = 2,
                                             .bytes = bucket == 0 ? 3000 : 1000,
                                             .object = 7,
                                             .start_ns = call_ns,
                                             .duration_ns = 400});
            rank_trace_add(&t, (dl_activity){.kind = DL_ACTIVITY_CALL,
                                             .name = RT_LAUNCH,
                                             .thread = 2,
                                             .correlation = ++t.correlation,
                                             .start_ns = call_ns + 100,
                                             .duration_ns = 200});
            rank_trace_add(&t, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                             .name = RT_REDUCE_KERNEL,
                                             .device = 1,
                                             .stream = 3,
                                             .correlation = t.correlation,
                                             .start_ns = t.device_ns - 60000 + 6000 * bucket,
                                             .duration_ns = 5000});
        }
        rank_trace_range(&t, RT_STEP, step_ns);
    }
    DL_SCOPED(dl_step_costs) c = take(&t, 8);
    assert_int_equal(c.gradient_count, 2);
    assert_true(c.gradients[0].bytes == 3000 && c.gradients[1].bytes == 4000);
    assert_int_equal(c.other_count, 0);
}

/* A step with 30 us more work on the device, as with a validation, is left out; so is one with more
 * operations than all steps have without it, 45 in place of 36. */
static void longer_steps_are_noted(void **state DL_UNUSED)
{
    static const struct {
        int more;
        const char *note;
    } cases[] = {{0, NULL},
                 {12, "1 of 6 steps is longer, by 30.0 us in all"},
                 {45, "1 of 6 steps is longer, by 112 us in all"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank_trace t;
        rank_trace_init(&t, 0);
        for (int s = 0; s < 6; s++) {
            const int64_t step_ns = t.host_ns;
            for (int k = 0; s == 2 && k < cases[i].more; k++)
                rank_trace_work(&t, RT_COMPUTE, 2500);
            add_unmarked_step(&t, 1, 0);
            rank_trace_range(&t, RT_STEP, step_ns);
        }
        DL_SCOPED(dl_notes) notes = {0};
        DL_SCOPED(dl_step_costs) costs = {0};
        const dl_step_hints hints = {0};
        assert_int_equal(dl_step_costs_take(&costs, &t.trace, 8, &hints, NULL, DL_EXTERNAL_THREADS,
                                            &notes, NULL),
                         DL_OK);
        if (cases[i].note == NULL) {
            assert_false(has_note(&notes, "longer"));
        } else {
            assert_true(has_note(&notes, cases[i].note));
        }
    }
}

/* Two marked steps, of which the last has no end, after unmarked ones: the all-reduces of the
 * latter do not belong to the first step's forward pass, as sums of activations would. */
static void reduces_before_the_steps_are_of_no_pass(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    add_unmarked_step(&t, 1, 0);
    add_unmarked_step(&t, 1, 0);
    add_steps_that_gather(&t, 2, 1, 0);
    DL_SCOPED(dl_step_costs) c = take(&t, 8);
    assert_int_equal(c.steps, 1);
    assert_int_equal(c.gradient_count, 2);
    assert_true(c.gradients[1].bytes == 4000);
}

static void sum_over(rank_trace *t, uint64_t object, uint64_t bytes)
{
    const uint32_t kernel = rank_trace_collective(t, RT_REDUCE, RT_REDUCE_KERNEL, bytes, 5000);
    t->activities[kernel - 2].object = object;
}

/* The larger sums of activations have no known communicator, the smaller ones divide the layers. */
static void unknown_communicators_divide_no_layers(void **state DL_UNUSED)
{
    static const uint64_t objects[] = {0, 9};
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int i = 0; i < 2; i++)
        rank_trace_add(&t,
                       (dl_activity){.kind = DL_ACTIVITY_COMM, .object = objects[i], .count = 2});
    for (int s = 0; s < 4; s++) {
        const int64_t step_ns = t.host_ns;
        rank_trace_work(&t, RT_COMPUTE, FORWARD_NS);
        sum_over(&t, 0, 9000);
        sum_over(&t, 9, 500);
        rank_trace_work(&t, RT_COMPUTE, FORWARD_NS);
        const int64_t backward_ns = t.host_ns;
        rank_trace_work(&t, RT_COMPUTE, FIRST_NS);
        sum_over(&t, 0, 9000);
        sum_over(&t, 9, 500);
        sum_over(&t, 7, 4000);
        rank_trace_work(&t, RT_COMPUTE, SECOND_NS);
        rank_trace_range(&t, RT_BACKWARD, backward_ns);
        rank_trace_work_in(&t, RT_OPTIMIZER, UPDATE_NS);
        rank_trace_range(&t, RT_STEP, step_ns);
    }
    DL_SCOPED(dl_step_costs) c = take(&t, 8);
    assert_int_equal(c.axes.tensor, 2);
    assert_true(c.axes.tensor_object == 9 && c.axes.tensor_bytes == 500);
}

/* Two gathers per step are neither gradients nor part of the costs, and are noted; all-reduces of
 * gradients are not. */
static void other_collectives_are_named(void **state DL_UNUSED)
{
    for (int gathers = 0; gathers <= 2; gathers += 2) {
        rank_trace t;
        DL_SCOPED(dl_notes) notes = {0};
        rank_trace_init(&t, 0);
        add_steps_that_gather(&t, 4, 1, gathers);
        DL_SCOPED(dl_step_costs) c = take_noting(&t, 8, &notes);
        bool named = false;
        for (size_t i = 0; i < notes.count; i++) {
            if (strstr(notes.lines[i], "besides the exchange of gradients") == NULL) continue;
            named = true;
            assert_contains(notes.lines[i], ": 2 AllGather (14.0 kB, 40.0 us of the device).");
        }
        assert_true(named == (gathers > 0));
        assert_float_equal(c.device_ns, 160000, 5000);
        assert_true(c.gradients[1].bytes == 4000);
    }
}

/* Adds steps of two micro-batches, each with a forward pass of four kernels of 10 us and a backward
 * pass of 30 + 70 us (the first one 75) with an all-reduce of 3000 bytes after the first 30 and one
 * of 1000 after it, in the last pass or in each. */
static void add_accumulating_steps(rank_trace *t, int steps, bool each)
{
    rank_trace_init(t, 0);
    for (int s = 0; s < steps; s++) {
        const int64_t step_ns = t->host_ns;
        for (int pass = 0; pass < 2; pass++) {
            const bool exchanges = each || pass == 1;
            const int64_t longer_ns = pass == 0 ? 5000 : 0;
            for (int i = 0; i < 4; i++)
                rank_trace_work(t, RT_COMPUTE, 10000);
            const int64_t backward_ns = t->host_ns;
            rank_trace_work(t, RT_COMPUTE, FIRST_NS);
            if (exchanges) rank_trace_collective(t, RT_REDUCE, RT_REDUCE_KERNEL, 3000, 5000);
            rank_trace_work(t, RT_COMPUTE, SECOND_NS + longer_ns);
            if (exchanges) rank_trace_collective(t, RT_REDUCE, RT_REDUCE_KERNEL, 1000, 5000);
            rank_trace_range(t, RT_BACKWARD, backward_ns);
        }
        rank_trace_work_in(t, RT_OPTIMIZER, UPDATE_NS);
        rank_trace_range(t, RT_STEP, step_ns);
    }
}

/* The costs are those of one pass, except for the update; buckets are those of the last pass. */
static void accumulated_passes_come_apart(void **state DL_UNUSED)
{
    for (int each = 0; each <= 1; each++) {
        rank_trace t;
        add_accumulating_steps(&t, 3, each);
        DL_SCOPED(dl_step_costs) c = take(&t, 8);
        assert_int_equal(c.passes, 2);
        assert_float_equal(c.forward_ns.value, 80000, 3000);
        assert_float_equal(c.backward_ns.value, 205000, 6000);
        assert_int_equal(c.gradient_count, 2);
        assert_float_equal(c.gradients[0].share, 0.3, 1e-9);
        assert_float_equal(c.gradients[1].share, 1, 1e-9);
        assert_true(c.gradients[0].bytes == 3000 && c.gradients[1].bytes == 4000);
        DL_SCOPED(dl_costs) costs = {0};
        DL_SCOPED(dl_notes) notes = {0};
        dl_error err = {0};
        assert_int_equal(dl_step_costs_combine(&costs, &c, 1, &notes, &err), DL_OK);
        assert_true(costs.accumulate == 2 && costs.batch_min == 4 && costs.batch_max == 4);
        assert_int_equal(costs.parameter_bytes, 4000);
        assert_float_equal(dl_costs_step_ns(&costs, 4, "forward"), 40000, 1500);
        assert_float_equal(dl_costs_step_ns(&costs, 4, "backward"), 102500, 3000);
        assert_float_equal(dl_costs_step_ns(&costs, 4, "update"), UPDATE_NS, 500);
        assert_float_equal(costs.dispatch.per_worker_ns.value, c.host_ns / 2, 1);
        assert_int_equal(costs.traces[0].batch, 8);
    }
}

static void batch_sizes_make_lines(void **state DL_UNUSED)
{
    rank_trace small, large;
    add_steps(&small, 4, 1);
    add_steps(&large, 4, 2);
    dl_step_costs steps[] = {take(&small, 8), take(&large, 24)};
    dl_costs costs = {0};
    dl_notes notes = {0};
    dl_error err = {0};
    assert_int_equal(dl_step_costs_combine(&costs, steps, 2, &notes, &err), DL_OK);
    assert_true(costs.batch_min == 8 && costs.batch_max == 24);
    assert_int_equal(costs.parameter_bytes, 4000);
    /* Twice the time at three times the samples: fixed = half of the smaller batch's time. */
    assert_float_equal(costs.ops[0].per_sample_ns.value, FORWARD_NS / 16., 150);
    assert_float_equal(costs.ops[0].fixed_ns.value, FORWARD_NS / 2., 1500);
    assert_int_equal(costs.ops[0].fixed_ns.origin, DL_ORIGIN_FITTED);
    assert_float_equal(costs.ops[2].per_sample_ns.value, 0, 100);
    assert_int_equal(costs.noise_count, 2);
    assert_false(costs.overlap_slowdown.known);
    dl_costs_free(&costs);
    dl_notes_free(&notes);
    /* With one batch size, the kernel's start and end, 5 us, and the update are fixed. */
    assert_int_equal(dl_step_costs_combine(&costs, steps, 1, &notes, &err), DL_OK);
    assert_float_equal(costs.ops[0].per_sample_ns.value, (FORWARD_NS - 5000) / 8., 200);
    assert_float_equal(costs.ops[0].fixed_ns.value, 5000, 50);
    assert_true(costs.ops[2].per_sample_ns.value == 0);
    assert_int_equal(costs.ops[0].fixed_ns.origin, DL_ORIGIN_ASSUMED);
    assert_contains(
        notes.lines[notes.count - 3],
        "15.0 us of the forward and backward pass are assumed not to depend on it (5 us of");
    assert_float_equal(costs.ops[2].fixed_ns.value, UPDATE_NS, 500);
    /* Its one kernel's start and end, 5 us, are not those of bytes. */
    assert_float_equal(costs.ops[2].starts_frac.value, 5000. / UPDATE_NS, 0.02);
    assert_false(costs.ops[0].starts_frac.known);
    dl_costs_free(&costs);
    dl_notes_free(&notes);
    dl_step_costs_free(&steps[0]);
    dl_step_costs_free(&steps[1]);
}

/* External waits of any stage are those of the model, also if the first stage has none. */
static void waits_of_later_stages_count(void **state DL_UNUSED)
{
    rank_trace t[2];
    dl_step_costs steps[2];
    for (uint32_t s = 0; s < 2; s++) {
        add_steps(&t[s], 4, 1);
        steps[s] = take(&t[s], 8);
        steps[s].axes.stages = 2;
        steps[s].axes.stage = s;
        steps[s].waits_ns = s * 1000;
    }
    DL_SCOPED(dl_costs) costs = {0};
    DL_SCOPED(dl_notes) notes = {0};
    dl_error err = {0};
    assert_int_equal(dl_stage_costs_combine(&costs, steps, 2, false, &notes, &err), DL_OK);
    assert_true(costs.dispatch.external_ns.known);
    assert_float_equal(costs.dispatch.external_ns.value, 1000, 1e-9);
    assert_int_equal(costs.dispatch.external_ns.origin, DL_ORIGIN_MEASURED);
    assert_float_equal(costs.dispatch.per_worker_ns.value, 2 * steps[0].host_ns - 1000, 1e-6);
    dl_step_costs_free(&steps[0]);
    dl_step_costs_free(&steps[1]);
}

/* Three ranks are no pairs that share parameters: they do not run the layout of the costs. */
static void ranks_that_do_not_fit_the_layout_are_noted(void **state DL_UNUSED)
{
    rank_trace t;
    add_steps(&t, 4, 1);
    DL_SCOPED(dl_step_costs) step = take(&t, 8);
    step.axes.shards = 2;
    for (uint32_t ranks = 3; ranks < 5; ranks++) {
        DL_SCOPED(dl_costs) costs = {0};
        DL_SCOPED(dl_notes) notes = {0};
        dl_error err = {0};
        step.ranks = ranks;
        assert_int_equal(dl_step_costs_combine(&costs, &step, 1, &notes, &err), DL_OK);
        assert_int_equal(costs.traces[0].ranks, ranks == 3 ? 0 : 4);
        assert_int_equal(has_note(&notes, "3 ranks are not a multiple of the 2 GPUs"), ranks == 3);
    }
}

/* A kernel that takes 1.25 times as long beside a collective is charged its time alone; copies to
 * the device are input. */
static void what_is_charged_by_itself_is_taken_out(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 6; s++) {
        const bool beside = s % 2 == 0;
        const int64_t step_ns = t.host_ns;
        dl_activity *copy = &t.activities[rank_trace_work(&t, RT_COMPUTE, 20000)];
        copy->kind = DL_ACTIVITY_MEMCPY;
        copy->name = 0;
        copy->copy = DL_COPY_H2D;
        copy->bytes = 240000;
        rank_trace_work(&t, RT_COMPUTE, 30000); /* always alone */
        const int64_t backward_ns = t.host_ns, start_ns = t.device_ns;
        rank_trace_work(&t, RT_COMPUTE, beside ? 50000 : 40000);
        rank_trace_range(&t, RT_BACKWARD, backward_ns);
        if (beside) {
            rank_trace_add(&t, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                             .name = RT_GATHER_KERNEL,
                                             .stream = 9,
                                             .start_ns = start_ns,
                                             .duration_ns = t.device_ns - start_ns});
        }
        rank_trace_range(&t, RT_STEP, step_ns);
    }
    DL_SCOPED(dl_step_costs) c = take(&t, 8);
    assert_true(c.slowdown.known);
    assert_float_equal(c.slowdown.factor, 1.25, 1e-3);
    assert_float_equal(c.forward_ns.value, 30000, 100);
    assert_float_equal(c.backward_ns.value, 40000, 100);
    assert_float_equal(c.device_ns, 70000, 100);
    assert_float_equal(c.input_bytes.value, 240000, 1e-6);
    assert_int_equal(c.op_count, 2);
}

/* A trace of the device alone does not give the host's time. */
static void without_launches_dispatch_is_unknown(void **state DL_UNUSED)
{
    rank_trace t;
    add_steps(&t, 4, 1);
    int compute = 0;
    for (size_t i = 0; i < t.trace.activity_count; i++) {
        dl_activity *a = &t.activities[i];
        a->correlation = 0;
        /* Rename the first of every four kernels, so that the steps are detectable. */
        if (a->kind == DL_ACTIVITY_KERNEL && a->name == RT_COMPUTE && compute++ % 4 == 0)
            a->name = RT_GATHER;
    }
    DL_SCOPED(dl_step_costs) c = {0};
    DL_SCOPED(dl_costs) costs = {0};
    DL_SCOPED(dl_notes) notes = {0};
    dl_error err = {0};
    const dl_step_hints hints = {.period = 4};
    assert_int_equal(
        dl_step_costs_take(&c, &t.trace, 8, &hints, NULL, DL_EXTERNAL_THREADS, &notes, &err),
        DL_OK);
    assert_true(isnan(c.host_ns));
    assert_int_equal(dl_step_costs_combine(&costs, &c, 1, &notes, &err), DL_OK);
    assert_false(costs.dispatch.per_worker_ns.known);
    assert_true(costs.ops[0].per_sample_ns.known);
}

/* Only one step: forward 50, backward 30 + 70, update 10 us on the device; six launches in
 * sequence. */
static void one_step_is_taken_as_it_is(void **state DL_UNUSED)
{
    rank_trace t;
    add_steps(&t, 1, 1);
    DL_SCOPED(dl_step_costs) c = take(&t, 8);
    assert_int_equal(c.steps, 1);
    assert_float_equal(c.step_ns, 170000, 1);
    assert_float_equal(c.device_ns, 160000, 1);
    assert_float_equal(c.host_ns, 6200, 1500);
    assert_float_equal(c.forward_ns.value, FORWARD_NS, 1);
    assert_float_equal(c.backward_ns.value, FIRST_NS + SECOND_NS, 1);
    assert_true(isnan(c.forward_ns.error));
    DL_SCOPED(dl_costs) costs = {0};
    DL_SCOPED(dl_notes) notes = {0};
    dl_error err = {0};
    assert_int_equal(dl_step_costs_combine(&costs, &c, 1, &notes, &err), DL_OK);
    assert_float_equal(costs.ops[0].per_sample_ns.value, (FORWARD_NS - 5000) / 8., 1);
    assert_true(costs.ops[0].per_sample_ns.error == 0);
    assert_int_equal(costs.noise_count, 0); /* one step has no scatter */
}

/* Takes the costs of a trace in which the device waits 80 us in every backward pass, before its
 * second kernel, for no recorded reason: 250 us per step instead of 170. */
static dl_status take_waiting(dl_step_costs *c, dl_external external, dl_notes *notes,
                              dl_error *err)
{
    static rank_trace t;
    add_steps(&t, 4, 1);
    int64_t later_ns = 0;
    for (size_t i = 0; i < t.trace.activity_count; i++) {
        dl_activity *a = &t.activities[i];
        if (a->kind != DL_ACTIVITY_KERNEL) continue;
        if (a->duration_ns == SECOND_NS) later_ns += 80000;
        a->start_ns += later_ns;
    }
    const dl_step_hints hints = {.marks = "ProfilerStep"};
    *c = (dl_step_costs){0};
    return dl_step_costs_take(c, &t.trace, 8, &hints, NULL, external, notes, err);
}

static void waits_of_devices_are_kept_removed_or_refused(void **state DL_UNUSED)
{
    dl_step_costs c;
    DL_SCOPED(dl_notes) notes = {0};
    dl_error err = {0};
    assert_int_equal(take_waiting(&c, DL_EXTERNAL_THREADS, &notes, &err), DL_ERR_DATA);
    assert_contains(err.text, "of a step of 250 us, the trace explains 170 us, 32 % less: 4 "
                              "operations of the device start 320 us in total");
    assert_contains(err.text, "before 'sgemm'");
    dl_step_costs_free(&c);
    assert_int_equal(take_waiting(&c, DL_EXTERNAL_KEEP, &notes, &err), DL_OK);
    assert_float_equal(c.device_ns, 240000, 500);
    assert_float_equal(c.backward_ns.value, FIRST_NS + SECOND_NS + 80000, 500);
    assert_int_equal(c.op_count, 4);
    assert_string_equal(c.ops[2].name, "external.backward");
    assert_float_equal(c.ops[2].ns.value, 80000, 500);
    DL_SCOPED(dl_costs) costs = {0};
    assert_int_equal(dl_step_costs_combine(&costs, &c, 1, &notes, &err), DL_OK);
    assert_float_equal(costs.ops[2].fixed_ns.value, 80000, 500); /* independent of the batch */
    assert_true(costs.ops[2].per_sample_ns.value == 0);
    dl_step_costs_free(&c);
    assert_int_equal(take_waiting(&c, DL_EXTERNAL_REMOVE, &notes, &err), DL_OK);
    assert_float_equal(c.device_ns, 160000, 500);
    assert_true(has_note(&notes, "it took 250 us, and takes 170 us"));
    dl_step_costs_free(&c);
}

/* Steps of a kernel of 2 ms, after which the host waits 3 ms more for input, with nothing recorded;
 * the next launch takes 1 us of the host. */
static void waits_of_threads_are_named(void **state DL_UNUSED)
{
    for (int remove = 0; remove < 2; remove++) {
        rank_trace t;
        rank_trace_init(&t, 0);
        for (int s = 0; s < 4; s++) {
            const int64_t step_ns = t.host_ns;
            t.device_ns = t.host_ns + 5000;
            rank_trace_work(&t, RT_COMPUTE, 2000000);
            t.host_ns = t.device_ns + 3000000;
            rank_trace_range(&t, RT_STEP, step_ns);
        }
        DL_SCOPED(dl_step_costs) c = {0};
        DL_SCOPED(dl_notes) notes = {0};
        dl_error err = {0};
        const dl_step_hints hints = {.marks = "ProfilerStep"};
        assert_int_equal(dl_step_costs_take(&c, &t.trace, 8, &hints, NULL,
                                            remove ? DL_EXTERNAL_REMOVE : DL_EXTERNAL_THREADS,
                                            &notes, &err),
                         DL_OK);
        assert_float_equal(c.step_ns, 5005000, 1);
        assert_float_equal(c.device_ns, 2000000, 1000);
        /* All the host's time except the 3 ms: it was untraced while the kernel ran too. */
        assert_float_equal(c.host_ns, remove ? 2005000 : 5005000, 1000);
        assert_float_equal(c.waits_ns, remove ? 0 : 3000000, 1000);
        bool named = false;
        for (size_t i = 0; i < notes.count; i++)
            named = named || (strstr(notes.lines[i], "external waits") != NULL &&
                              strstr(notes.lines[i], "longest 3.00 ms, in 'ProfilerStep#1'"));
        assert_true(named);
        DL_SCOPED(dl_costs) costs = {0};
        assert_int_equal(dl_step_costs_combine(&costs, &c, 1, &notes, &err), DL_OK);
        assert_float_equal(costs.dispatch.per_worker_ns.value, 2005000, 1000);
        assert_true(costs.dispatch.external_ns.known == !remove);
        if (!remove) assert_float_equal(costs.dispatch.external_ns.value, 3000000, 1000);
    }
}

/* A loader that stalls every fourth step: 80 ms more in two of the eight steps, 20 ms on
 * average. */
static void waits_of_few_steps_count(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 9; s++) {
        const int64_t step_ns = t.host_ns;
        t.device_ns = t.host_ns + 5000;
        rank_trace_work(&t, RT_COMPUTE, 20000000);
        t.host_ns = t.device_ns + (s % 4 == 3 ? 80000000 : 0);
        rank_trace_range(&t, RT_STEP, step_ns);
    }
    DL_SCOPED(dl_costs) costs = {0};
    DL_SCOPED(dl_notes) notes = {0};
    dl_error err = {0};
    DL_SCOPED(dl_step_costs) c = take_noting(&t, 8, &notes);
    assert_int_equal(c.steps, 8);
    assert_float_equal(c.step_ns, 40005000, 1);
    assert_float_equal(c.waits_ns, 20000000, 1000);
    assert_float_equal(c.host_ns, 40005000, 1000);
    assert_int_equal(dl_step_costs_combine(&costs, &c, 1, &notes, &err), DL_OK);
    assert_float_equal(costs.dispatch.per_worker_ns.value, 20005000, 1000);
    assert_float_equal(costs.dispatch.external_ns.value, 20000000, 1000);
}

/* Six launches per step: 200 ns each by the trace's figures; without figures of a recorder, 2.7 us
 * each plus 0.7 us for each of three ranges per step, limited to half of the host's time. */
static void recording_is_taken_off_the_host(void **state DL_UNUSED)
{
    static char figures[] = "kernel 200 100 300; copy 900 800 950; event 0 0 0; sync 0 0 0; record "
                            "0 0 0; repetitions 12; host node1; device NVIDIA H200";
    static char pytorch[] = "PyTorch", framework[] = "framework", key[] = "capture_cost";
    static char shapes[] = "record_shapes", unknown[] = "unknown (not measured)", one[] = "1";
    char *measured[] = {key, figures}, *not_measured[] = {key, unknown};
    char *profiled[] = {framework, pytorch, shapes, one};
    rank_trace t;
    add_steps(&t, 4, 1);
    dl_step_costs bare = take(&t, 8), c;
    assert_float_equal(bare.host_error_ns, 0, 0);
    t.trace.meta = measured;
    t.trace.meta_count = 1;
    c = take(&t, 8);
    assert_float_equal(bare.host_ns - c.host_ns, 1200, 1);
    assert_float_equal(c.host_error_ns, 1200 / (2 * 1.96), 1);
    dl_step_costs_free(&c);
    t.trace.meta = not_measured;
    c = take(&t, 8);
    assert_float_equal(c.host_ns, bare.host_ns / 2, 1);
    dl_step_costs_free(&c);
    assert_float_equal(dl_profiled_operator_ns(&t.trace), 700, 0);
    t.trace.meta = profiled;
    t.trace.meta_count = 2;
    assert_float_equal(dl_profiled_operator_ns(&t.trace), 1300, 0);
    c = take(&t, 8);
    assert_float_equal(c.host_error_ns, DL_PROFILED_ERROR * bare.host_ns / 2, 1);
    assert_float_equal(c.device_ns, bare.device_ns, 1);
    dl_step_costs_free(&c);
    dl_step_costs_free(&bare);
}

/* One of five steps takes 200 us more of host time, so that the mean is 540 us; or 700 us more,
 * which exceeds two medians without more work, so that it is left out. */
static void host_is_the_mean_without_interruptions(void **state DL_UNUSED)
{
    static const struct {
        int64_t long_ns;
        double host_ns;
    } cases[] = {{700000, 541000}, {1200000, 501000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank_trace t;
        rank_trace_init(&t, 0);
        for (int s = 0; s < 6; s++) {
            const int64_t step_ns = t.host_ns;
            rank_trace_work(&t, RT_COMPUTE, 900000);
            t.host_ns += s == 2 ? cases[i].long_ns : 500000;
            rank_trace_range(&t, RT_STEP, step_ns);
        }
        DL_SCOPED(dl_step_costs) c = take(&t, 8);
        assert_int_equal(c.steps, 5);
        assert_float_equal(c.host_ns, cases[i].host_ns, 500);
    }
}

/* The third of four steps is twice as long as the others, or more. It is interrupted unless it has
 * more work, or unless its work is unknown. */
static void interrupted_steps_have_no_more_work(void **state DL_UNUSED)
{
    static const struct {
        double ns, works;
        uint8_t interrupted;
    } cases[] = {{199, 50, 0}, {201, 50, 1}, {201, 52, 1}, {201, 53, 0}, {900, NAN, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double all = isnan(cases[i].works) ? NAN : 50;
        const double ns[] = {100, 100, cases[i].ns, 100};
        const double works[] = {all, all, cases[i].works, all};
        DL_SCOPED(dl_notes) notes = {0};
        uint8_t kept[] = {1, 1, 1, 1};
        dl_steps_leave_out_interrupted(kept, ns, works, 4, &notes);
        assert_int_equal(kept[0] + kept[1] + kept[3], 3);
        assert_int_equal(kept[2], !cases[i].interrupted);
        assert_int_equal(notes.count, cases[i].interrupted);
    }
    /* Two of five are no exceptions, one of four is. */
    const double ns[] = {100, 900, 400, 100, 100}, works[] = {50, 50, 50, 50, 50};
    for (uint8_t last = 0; last < 2; last++) {
        uint8_t kept[] = {1, 1, last, 1, 1};
        dl_steps_leave_out_interrupted(kept, ns, works, 5, NULL);
        for (int s = 0; s < 5; s++)
            assert_int_equal(kept[s], s == 1 || s == 2 ? last : 1);
    }
}

/* The second of five steps takes over ten times the median; or another one over twice, as when a
 * data loader stalls; of two steps the median says nothing. */
static void only_a_single_pause_is_left_out(void **state DL_UNUSED)
{
    static const struct {
        double ns[5];
        size_t count, paused;
    } cases[] = {
        {{100, 1001, 100, 100, 190}, 5, 1},
        {{100, 1000, 100, 100, 190}, 5, SIZE_MAX},
        {{100, 5000, 100, 100, 201}, 5, SIZE_MAX},
        {{100, 5000, 100, 5000, 100}, 5, SIZE_MAX},
        {{100, 1001, 100}, 3, 1},
        {{100, 9000}, 2, SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(dl_notes) notes = {0};
        uint8_t kept[] = {1, 1, 1, 1, 1};
        dl_steps_leave_out_pause(kept, cases[i].ns, cases[i].count, NULL, &notes);
        for (size_t s = 0; s < 5; s++)
            assert_int_equal(kept[s], s != cases[i].paused);
        assert_int_equal(notes.count, cases[i].paused != SIZE_MAX);
    }
}

/* In one of eight steps of 173 us the host waits for 20 ms, in a range of its own; in another case
 * in two steps, whose waits are a part of training: of seven timed steps, 2 x 20 / 7 = 5.7 ms. */
static void a_pause_is_left_out_of_gpu_steps(void **state DL_UNUSED)
{
    static const struct {
        int pauses;
        size_t steps;
        double step_ns, waits_ns;
    } cases[] = {{0, 7, 173000, 0}, {1, 6, 173000, 0}, {2, 7, 5.89e6, 5.71e6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank_trace t;
        rank_trace_init(&t, 0);
        for (int s = 0; s < 8; s++) {
            const int64_t step_ns = t.host_ns;
            add_unmarked_step(&t, 1, 0);
            /* The host waits for the device, as with loss.item(), then for a checkpoint. */
            const int64_t pause_ns = s == 2 || (s == 5 && cases[i].pauses > 1) ? 20000000 : 0;
            rank_trace_add(&t, (dl_activity){.kind = DL_ACTIVITY_CALL,
                                             .name = RT_SYNCHRONIZE,
                                             .thread = 1,
                                             .start_ns = t.host_ns,
                                             .duration_ns = t.device_ns - t.host_ns});
            t.host_ns = t.device_ns + 1000;
            if (pause_ns > 0 && cases[i].pauses > 0) {
                const int64_t from_ns = t.host_ns;
                t.host_ns += pause_ns;
                rank_trace_range(&t, RT_CHECKPOINT, from_ns);
            }
            t.device_ns = t.host_ns + 2000;
            rank_trace_range(&t, RT_STEP, step_ns);
        }
        DL_SCOPED(dl_notes) notes = {0};
        DL_SCOPED(dl_step_costs) c = take_noting(&t, 8, &notes);
        assert_int_equal(c.steps, cases[i].steps);
        assert_float_equal(c.step_ns, cases[i].step_ns, 0.02 * cases[i].step_ns);
        assert_float_equal(c.waits_ns, cases[i].waits_ns, 0.02 * cases[i].step_ns);
        assert_true(c.host_ns < 20000 + cases[i].waits_ns);
        assert_true(has_note(&notes,
                             "1 of 7 steps is left out: it takes 20.2 ms, in "
                             "'save_checkpoint', the others 173 us") == (cases[i].pauses == 1));
    }
}

static void copy_to_device(rank_trace *t, uint64_t bytes)
{
    dl_activity *a = &t->activities[rank_trace_work(t, RT_COMPUTE, 1000)];
    a->kind = DL_ACTIVITY_MEMCPY;
    a->copy = DL_COPY_H2D;
    a->name = 0;
    a->bytes = bytes;
}

/* Copied before the steps: two tensors of the model, and inputs of both sizes as in every step. For
 * 51 MB the update of 10 us is too short to read and write each byte in any memory; 1 ms is far too
 * long for 4 MB. */
static void model_is_what_was_copied_before(void **state DL_UNUSED)
{
    static const struct {
        uint64_t first;
        int64_t update_ns;
        double parameters;
    } cases[] = {{3000000, UPDATE_NS, 4000000}, {50000000, UPDATE_NS, 0}, {3000000, 1000000, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank_trace t;
        rank_trace_init(&t, 0);
        copy_to_device(&t, cases[i].first);
        copy_to_device(&t, 1000000);
        copy_to_device(&t, 7000);
        copy_to_device(&t, 900);
        for (int s = 0; s < 4; s++) {
            const int64_t step_ns = t.host_ns;
            copy_to_device(&t, 7000);
            copy_to_device(&t, 900);
            rank_trace_work(&t, RT_COMPUTE, FORWARD_NS);
            rank_trace_work_in(&t, RT_BACKWARD, SECOND_NS);
            rank_trace_work_in(&t, RT_OPTIMIZER, cases[i].update_ns);
            rank_trace_range(&t, RT_STEP, step_ns);
        }
        DL_SCOPED(dl_step_costs) c = take(&t, 8);
        assert_float_equal(c.parameter_bytes, cases[i].parameters, 0);
    }
}

/* Gradients accumulated by backward passes whose host is ahead of the device: 1000 and 3000 bytes
 * per step give 4000, two of 1000 bytes 2000, not 1000; sizes that do not repeat give nothing. Only
 * then the 4 MB copied before are used. */
static void model_is_as_large_as_gradients_that_are_added(void **state DL_UNUSED)
{
    static const struct {
        uint64_t first, second, more; /* growth per step */
        double parameters;
    } cases[] = {{1000, 3000, 0, 4000}, {1000, 1000, 0, 2000}, {1000, 3000, 8, 4000000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rank_trace t;
        rank_trace_init(&t, 0);
        copy_to_device(&t, 4000000);
        for (int s = 0; s < 4; s++) {
            const int64_t step_ns = t.host_ns;
            rank_trace_work(&t, RT_COMPUTE, FORWARD_NS);
            const int64_t backward_ns = t.host_ns;
            rank_trace_work(&t, RT_COMPUTE, SECOND_NS);
            for (int g = 0; g < 2; g++) {
                rank_trace_range(&t, RT_BACKWARD, backward_ns);
                t.activities[t.trace.activity_count - 1].bytes =
                    (g == 0 ? cases[i].first : cases[i].second) + cases[i].more * (uint64_t)s;
            }
            rank_trace_work_in(&t, RT_OPTIMIZER, UPDATE_NS);
            rank_trace_range(&t, RT_STEP, step_ns);
        }
        DL_SCOPED(dl_step_costs) c = take(&t, 8);
        assert_float_equal(c.parameter_bytes, cases[i].parameters, 0);
    }
}

/* Three steps of four passes and two of two: the mean is 3.2, the bytes are those of one pass. */
static void model_is_as_large_as_gradients_of_varying_passes(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 5; s++) {
        const int64_t step_ns = t.host_ns;
        for (int pass = 0; pass < (s % 2 == 0 ? 4 : 2); pass++) {
            for (int i = 0; i < 4; i++)
                rank_trace_work(&t, RT_COMPUTE, 10000);
            rank_trace_work_in(&t, RT_BACKWARD, SECOND_NS);
            t.activities[t.trace.activity_count - 1].bytes = 4000;
        }
        rank_trace_work_in(&t, RT_OPTIMIZER, UPDATE_NS);
        rank_trace_range(&t, RT_STEP, step_ns);
    }
    DL_SCOPED(dl_step_costs) c = take(&t, 8);
    assert_float_equal(c.mean_passes, 3.2, 1e-9);
    assert_float_equal(c.parameter_bytes, 4000, 1e-6);
}

/* Gradients of two passes, with an update after each, may be those of the same parameters. */
static void shared_parameters_are_noted(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 4; s++) {
        const int64_t step_ns = t.host_ns;
        for (int model = 0; model < 2; model++) {
            for (int i = 0; i < 4; i++)
                rank_trace_work(&t, RT_COMPUTE, 10000);
            rank_trace_work_in(&t, RT_BACKWARD, SECOND_NS);
            t.activities[t.trace.activity_count - 1].bytes = model == 0 ? 1000 : 4000;
            rank_trace_work_in(&t, RT_OPTIMIZER, UPDATE_NS);
        }
        rank_trace_range(&t, RT_STEP, step_ns);
    }
    DL_SCOPED(dl_notes) notes = {0};
    DL_SCOPED(dl_step_costs) c = take_noting(&t, 8, &notes);
    assert_float_equal(c.parameter_bytes, 5000, 0);
    assert_true(has_note(&notes, "several optimizers add, except"));
}

/* Marks that each hold three updates of the same parameters, as of an epoch, are not steps. */
static void marks_of_several_updates_are_no_steps(void **state DL_UNUSED)
{
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 4; s++) {
        const int64_t mark_ns = t.host_ns;
        for (int update = 0; update < 3; update++) {
            for (int i = 0; i < 4; i++)
                rank_trace_work(&t, RT_COMPUTE, 10000);
            rank_trace_work_in(&t, RT_BACKWARD, SECOND_NS);
            t.activities[t.trace.activity_count - 1].bytes = 4000;
            t.activities[t.trace.activity_count - 2].detail = RT_BACKWARD; /* another kernel */
            rank_trace_work_in(&t, RT_OPTIMIZER, UPDATE_NS);
            t.activities[t.trace.activity_count - 2].detail = RT_OPTIMIZER;
        }
        rank_trace_range(&t, RT_STEP, mark_ns);
    }
    DL_SCOPED(dl_notes) notes = {0};
    DL_SCOPED(dl_step_costs) c = take_by(&t, 8, NULL, &notes);
    assert_float_equal(c.parameter_bytes, 4000, 0);
    assert_float_equal(c.update_ns.value, UPDATE_NS, 0.01 * UPDATE_NS);
    assert_true(has_note(&notes, "holds several updates of the same parameters"));
}

/* Where marks hold several updates of unequal work, steps may be launches of a graph instead. */
static void steps_of_graphs_are_not_called_updates(void **state DL_UNUSED)
{
    static const int launches[3][2] = {{1, 30}, {1, 1}, {30, 1}};
    rank_trace t;
    rank_trace_init(&t, 0);
    for (int s = 0; s < 3; s++) {
        const int64_t mark_ns = t.host_ns;
        for (int update = 0; update < 2; update++) {
            rank_trace_work_in(&t, RT_BACKWARD, SECOND_NS);
            t.activities[t.trace.activity_count - 1].bytes = 4000;
            t.activities[t.trace.activity_count - 2].name = RT_REDUCE; /* another kernel */
            for (int i = 0; i < launches[s][update]; i++)
                t.activities[rank_trace_work(&t, RT_COMPUTE, 10000)].object = UINT64_C(9) << 32 | 1;
            rank_trace_work_in(&t, RT_OPTIMIZER, UPDATE_NS);
            t.activities[t.trace.activity_count - 2].name = RT_GATHER;
        }
        rank_trace_range(&t, RT_STEP, mark_ns);
    }
    DL_SCOPED(dl_activity_steps) steps = {0};
    dl_error err = {0};
    assert_int_equal(dl_activity_steps_init(&steps, &t.trace, &(dl_step_hints){0}, &err), DL_OK);
    assert_true(steps.lines[0].marks_hold_steps);
    assert_int_equal(steps.lines[0].method, DL_STEPS_GRAPH);
    DL_SCOPED(dl_notes) notes = {0};
    DL_SCOPED(dl_step_costs) c DL_UNUSED = take_by(&t, 8, NULL, &notes);
    assert_false(has_note(&notes, "holds several updates of the same parameters"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_and_gradients_come_out),
        cmocka_unit_test(reduces_before_the_steps_are_of_no_pass),
        cmocka_unit_test(sums_of_integers_are_no_gradients),
        cmocka_unit_test(collectives_of_other_devices_are_not_counted),
        cmocka_unit_test(longer_steps_are_noted),
        cmocka_unit_test(unknown_communicators_divide_no_layers),
        cmocka_unit_test(other_collectives_are_named),
        cmocka_unit_test(accumulated_passes_come_apart),
        cmocka_unit_test(batch_sizes_make_lines),
        cmocka_unit_test(waits_of_later_stages_count),
        cmocka_unit_test(ranks_that_do_not_fit_the_layout_are_noted),
        cmocka_unit_test(what_is_charged_by_itself_is_taken_out),
        cmocka_unit_test(without_launches_dispatch_is_unknown),
        cmocka_unit_test(one_step_is_taken_as_it_is),
        cmocka_unit_test(waits_of_devices_are_kept_removed_or_refused),
        cmocka_unit_test(waits_of_threads_are_named),
        cmocka_unit_test(waits_of_few_steps_count),
        cmocka_unit_test(recording_is_taken_off_the_host),
        cmocka_unit_test(host_is_the_mean_without_interruptions),
        cmocka_unit_test(interrupted_steps_have_no_more_work),
        cmocka_unit_test(only_a_single_pause_is_left_out),
        cmocka_unit_test(a_pause_is_left_out_of_gpu_steps),
        cmocka_unit_test(model_is_what_was_copied_before),
        cmocka_unit_test(model_is_as_large_as_gradients_that_are_added),
        cmocka_unit_test(model_is_as_large_as_gradients_of_varying_passes),
        cmocka_unit_test(shared_parameters_are_noted),
        cmocka_unit_test(marks_of_several_updates_are_no_steps),
        cmocka_unit_test(steps_of_graphs_are_not_called_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
