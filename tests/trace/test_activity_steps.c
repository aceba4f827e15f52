#include "tests/check.h"

#include "tests/trace/training_trace.h"
#include "trace/activity/step_marks.h"
#include "trace/activity/steps.h"

static const training lenet = {.layers = 5, .kinds = 5, .input = true, .idle = true, .steps = 60};
static const training resnet = {
    .layers = 30, .kinds = 12, .unfused = true, .input = true, .idle = true, .steps = 24};
static const training transformer = {.layers = 24, .kinds = 1, .nccl = true, .steps = 30};
static const training transformer_unfused = {
    .layers = 24, .kinds = 1, .unfused = true, .input = true, .steps = 30};

static dl_status find_or_fail(dl_activity_steps *steps, const training_trace *trace,
                              const dl_step_hints *hints, dl_error *err)
{
    const dl_trace whole = {.activities = trace->activities,
                            .activity_count = trace->count,
                            .strings = (char **)trace->strings,
                            .string_count = TRAINING_STRINGS};
    return dl_activity_steps_init(steps, &whole, hints, err);
}

static void find(dl_activity_steps *steps, const training_trace *trace, const dl_step_hints *hints)
{
    dl_error err = {0};
    dl_status status = find_or_fail(steps, trace, hints, &err);
    if (status != DL_OK) fail_msg("%s", err.text);
}

/* Returns the number of true steps in `first` .. `end` - 1 with a regular step that begins within
 * `tolerance` of the median step time. */
static int hits(const dl_step_line *line, const training_trace *trace, int first, int end,
                double tolerance)
{
    int found = 0;
    double usual_ns =
        (double)(trace->starts_ns[end - 1] - trace->starts_ns[first]) / (double)(end - 1 - first);
    for (int step = first; step < end; step++) {
        for (size_t i = 0; i < line->count; i++) {
            double off_ns = (double)(line->steps[i].start_ns - trace->starts_ns[step]);
            if (line->steps[i].label == DL_STEP_OTHER) continue;
            if (off_ns > tolerance * usual_ns || off_ns < -tolerance * usual_ns) continue;
            found++;
            break;
        }
    }
    return found;
}

/* Checks that each work is in exactly one part, and that the parts are ordered in time. */
static void check_parts(const dl_step_line *line)
{
    size_t next = 0;
    for (size_t i = 0; i < line->count; i++) {
        assert_int_equal(line->steps[i].first, next);
        assert_true(line->steps[i].count > 0);
        assert_true(line->steps[i].duration_ns >= 0);
        if (i > 0)
            assert_int_equal(line->steps[i].start_ns,
                             line->steps[i - 1].start_ns + line->steps[i - 1].duration_ns);
        next += line->steps[i].count;
    }
    assert_int_equal(next, line->work_count);
}

/* Without losses every step is found at its exact start, and nothing else is a step. */
static void check_exact(const training *model)
{
    DL_AUTO(training_free) training_trace trace;
    DL_SCOPED(dl_activity_steps) steps = {0};
    training_make(&trace, model);
    find(&steps, &trace, &(dl_step_hints){0});
    assert_int_equal(steps.count, 1);
    const dl_step_line *line = &steps.lines[0];
    int first = model->tuning ? 2 : 0, end = model->steps - model->smaller_last;
    assert_int_equal(line->method, DL_STEPS_PERIOD);
    check_parts(line);
    assert_int_equal(hits(line, &trace, first, end, 0), end - first);
    assert_int_equal(line->regular_count, end - first);
    assert_true(line->order_match > 0.99);
    assert_true(line->similarity > 0.99);
}

static void test_models(void **state DL_UNUSED)
{
    const training *models[] = {&lenet, &resnet, &transformer, &transformer_unfused};
    for (size_t m = 0; m < 4; m++) {
        training model = *models[m];
        for (model.seed = 1; model.seed <= 2; model.seed++)
            check_exact(&model);
        model.tuning = true;
        check_exact(&model);
        model.smaller_last = true;
        check_exact(&model);
    }
}

/* Two to five steps of many equal layers: the layers repeat most often, but contain no update. */
static void test_few_steps_of_many_layers(void **state DL_UNUSED)
{
    const training *models[] = {&resnet, &transformer, &transformer_unfused};
    for (size_t m = 0; m < 3; m++) {
        for (int steps = 2; steps <= 5; steps++) {
            training model = *models[m];
            model.steps = steps;
            training_trace trace;
            dl_activity_steps found = {0};
            training_make(&trace, &model);
            find(&found, &trace, &(dl_step_hints){0});
            const dl_step_line *line = &found.lines[0];
            if (line->regular_count != (size_t)steps)
                fail_msg("model %zu: %zu of %d steps, by %s", m, line->regular_count, steps,
                         dl_step_method_name(line->method));
            check_parts(line);
            assert_int_equal(hits(line, &trace, 0, steps, 0), steps);
            assert_true(steps > 2 || line->method == DL_STEPS_OPTIMIZER);
            dl_activity_steps_free(&found);
            training_free(&trace);
        }
    }
    /* A single step cannot be distinguished from a part of one. */
    training model = transformer;
    model.steps = 1;
    training_trace trace;
    dl_activity_steps found = {0};
    training_make(&trace, &model);
    find(&found, &trace, &(dl_step_hints){0});
    assert_int_equal(found.lines[0].count, 0);
    assert_non_null(found.lines[0].reason);
    dl_activity_steps_free(&found);
    training_free(&trace);
}

/* An averaging in every step is part of it; in every second, fifth or tenth step it is separate
 * work. */
static void test_averaging(void **state DL_UNUSED)
{
    /* With an averaging in every step, the device's longest wait determines the start, so there
     * must be one. */
    const training *models[] = {&lenet, &resnet, &transformer_unfused};
    const int intervals[] = {1, 2, 5, 10};
    for (size_t m = 0; m < 3; m++) {
        for (size_t i = models[m]->idle ? 0 : 1; i < 4; i++) {
            training model = *models[m];
            model.interval = intervals[i];
            model.steps = m == 0 ? 60 : 45;
            check_exact(&model);
        }
    }
}

/* Lost records shift all later ones, in addition to averaging, validation and tuning. Of each
 * model's steps 19 of 20 are still found within 2 % of a step, and no extra steps. (If no batch is
 * copied and the device never waits, averaging hides the start of a step: left out.) */
static void check_losses(const training *usual, const int *intervals, int interval_count)
{
    const double lost[] = {0.01, 0.03, 0.05};
    int found = 0, steps_made = 0;
    for (int i = 0; i < 3 * 4 * interval_count; i++) {
        training model = *usual;
        model.lost = lost[i % 3];
        model.tuning = i / 3 % 2 == 1;
        model.validate_every = i / 6 % 2 * 7;
        model.interval = intervals[i / 12];
        model.seed = (uint64_t)i + 10;
        DL_AUTO(training_free) training_trace trace;
        DL_SCOPED(dl_activity_steps) steps = {0};
        training_make(&trace, &model);
        find(&steps, &trace, &(dl_step_hints){0});
        const dl_step_line *line = &steps.lines[0];
        if (line->method != DL_STEPS_PERIOD || line->order_match < 0.8 ||
            line->regular_count > (size_t)model.steps)
            fail_msg("case %d of %d layers: %zu labelled, order %.2f; %s", i, model.layers,
                     line->regular_count, line->order_match,
                     line->reason != NULL ? line->reason : "");
        check_parts(line);
        int first = model.tuning ? 2 : 0;
        found += hits(line, &trace, first, model.steps, 0.02);
        steps_made += model.steps - first;
    }
    if (20 * found < 19 * steps_made)
        fail_msg("%d of %d steps of %d layers", found, steps_made, usual->layers);
}

static void test_losses(void **state DL_UNUSED)
{
    const int intervals[] = {0, 2, 5};
    check_losses(&lenet, intervals, 3);
    check_losses(&resnet, intervals, 3);
    check_losses(&transformer_unfused, intervals, 3);
    check_losses(&transformer, intervals, 1);
}

/* Forward-only batches between the steps are not steps, whatever they share with them. */
static void test_validation(void **state DL_UNUSED)
{
    const training *models[] = {&lenet, &resnet, &transformer, &transformer_unfused};
    for (int i = 0; i < 8; i++) {
        training model = *models[i % 4];
        model.validate_every = i < 4 ? 7 : 20;
        model.seed = (uint64_t)i;
        DL_AUTO(training_free) training_trace trace;
        DL_SCOPED(dl_activity_steps) steps = {0};
        training_make(&trace, &model);
        find(&steps, &trace, &(dl_step_hints){0});
        const dl_step_line *line = &steps.lines[0];
        int found = hits(line, &trace, 0, model.steps, 0);
        if (found != model.steps || line->regular_count != (size_t)model.steps)
            fail_msg("case %d: %d of %d steps, %zu labelled", i, found, model.steps,
                     line->regular_count);
        check_parts(line);
    }
}

/* Correlations that wrap at 2^32 in the middle of the run. */
static void test_correlation_wrap(void **state DL_UNUSED)
{
    training model = lenet;
    model.correlation = UINT32_MAX - 1500;
    check_exact(&model);
}

/* Adds a range from the first call of each true step to that of the next, with work before the
 * first. */
static void add_ranges(training_trace *trace, const char *format, dl_activity_kind kind)
{
    for (int step = 0; step < trace->steps; step++) {
        int name = TRAINING_FREE + 10 + step;
        free(trace->strings[name]);
        trace->strings[name] = dl_format(format, step);
        int64_t end_ns =
            step + 1 < trace->steps ? trace->starts_ns[step + 1] - 10000 : trace->end_ns;
        int64_t start_ns = trace->starts_ns[step] - 10000;
        training_append(
            trace, (dl_activity){.kind = (uint8_t)kind,
                                 .name = (uint32_t)name,
                                 .thread = 100,
                                 .start_ns = start_ns,
                                 .duration_ns = kind == DL_ACTIVITY_MARK ? 0 : end_ns - start_ns});
    }
}

/* Adds ranges of operators and the optimizer in every step, which are not steps. */
static void add_distractions(training_trace *trace)
{
    const int layer = TRAINING_FREE + 80, optimizer = TRAINING_FREE + 81;
    free(trace->strings[layer]);
    trace->strings[layer] = dl_strdup("aten::conv2d");
    free(trace->strings[optimizer]);
    trace->strings[optimizer] = dl_strdup("Optimizer.step#SGD.step");
    for (int step = 0; step < trace->steps; step++) {
        for (int i = 0; i < 4; i++) {
            training_append(trace, (dl_activity){.kind = DL_ACTIVITY_RANGE,
                                                 .name = (uint32_t)(i == 3 ? optimizer : layer),
                                                 .thread = 100,
                                                 .start_ns = trace->starts_ns[step] + i * 30000,
                                                 .duration_ns = 20000});
        }
    }
}

/* Named steps override the detected period: the ranges begin a third of a step after the period's
 * cuts. */
static void check_marks(const char *format, dl_activity_kind kind, const char *text)
{
    training model = transformer;
    model.steps = 12;
    DL_AUTO(training_free) training_trace trace;
    training_make(&trace, &model);
    for (int i = 0; i < model.steps; i++)
        trace.starts_ns[i] += 1000000; /* a third of a step */
    add_ranges(&trace, format, kind);
    add_distractions(&trace);
    DL_SCOPED(dl_activity_steps) steps = {0};
    find(&steps, &trace, &(dl_step_hints){0});
    const dl_step_line *line = &steps.lines[0];
    assert_int_equal(line->method, DL_STEPS_MARKS);
    assert_string_equal(line->marks, text);
    check_parts(line);
    assert_int_equal(line->steps[0].label, DL_STEP_WARMUP);
    /* The last step lacks a third, as the trace ends. */
    assert_int_equal(line->regular_count, 11);
    assert_int_equal(line->steps[line->count - 1].label, DL_STEP_OTHER);
    for (size_t i = 1; i + 1 < line->count; i++) {
        assert_int_equal(line->steps[i].label, DL_STEP_REGULAR);
        /* The first work launched inside the range is at most one kernel (20 us) later. */
        assert_in_range(line->steps[i].start_ns, trace.starts_ns[i - 1],
                        trace.starts_ns[i - 1] + 25000);
    }
}

static void test_marks(void **state DL_UNUSED)
{
    check_marks("ProfilerStep#%d", DL_ACTIVITY_RANGE, "ProfilerStep##");
    check_marks("train iteration %d of 12", DL_ACTIVITY_RANGE, "train iteration # of #");
    check_marks("train_step", DL_ACTIVITY_RANGE, "train_step");
    check_marks("one pass", DL_ACTIVITY_RANGE, "one pass"); /* regular, whatever its name */
    check_marks("global step %d", DL_ACTIVITY_MARK, "global step #");
}

static void test_words(void **state DL_UNUSED)
{
    assert_true(dl_text_names_step("step 12"));
    assert_true(dl_text_names_step("ProfilerStep#5"));
    assert_true(dl_text_names_step("train_step"));
    assert_true(dl_text_names_step("Iteration: 3"));
    assert_true(dl_text_names_step("BATCH3"));
    assert_false(dl_text_names_step("stepping stone"));
    assert_false(dl_text_names_step("footstep"));
    assert_false(dl_text_names_step("aten::conv2d"));
    assert_false(dl_text_names_step(""));
}

static void test_hints(void **state DL_UNUSED)
{
    training model = lenet;
    DL_AUTO(training_free) training_trace trace;
    training_make(&trace, &model);
    add_ranges(&trace, "epoch %d", DL_ACTIVITY_RANGE);
    dl_activity_steps steps = {0};
    find(&steps, &trace, &(dl_step_hints){.marks = "^epoch [1-3]?[05]$"});
    assert_int_equal(steps.lines[0].method, DL_STEPS_GIVEN_MARKS);
    assert_int_equal(steps.lines[0].regular_count, 8); /* 0, 5, ... 35 */
    check_parts(&steps.lines[0]);
    dl_activity_steps_free(&steps);
    find(&steps, &trace, &(dl_step_hints){.period = 46});
    assert_int_equal(steps.lines[0].method, DL_STEPS_GIVEN_PERIOD);
    assert_int_equal(steps.lines[0].regular_count, model.steps);
    dl_activity_steps_free(&steps);
    dl_error err = {0};
    assert_int_equal(find_or_fail(&steps, &trace, &(dl_step_hints){.marks = "a("}, &err),
                     DL_ERR_PARSE);
    assert_contains(err.text, "'a('");
    assert_int_equal(find_or_fail(&steps, &trace, &(dl_step_hints){.marks = "absent"}, &err),
                     DL_ERR_DATA);
    assert_contains(err.text, "'absent'");
    assert_null(steps.lines);
    assert_int_equal(find_or_fail(&steps, &trace, &(dl_step_hints){.period = 1000}, &err),
                     DL_ERR_DATA);
    assert_contains(err.text, "do not repeat every 1000");
    assert_contains(err.text, "60 steps of about 47 kernels and copies are found by marks");
    assert_null(steps.lines);
}

/* Hints for a trace with too little information: it is one step, or two kernels are a step. Marks,
 * updates and a second hint contradict "one step". */
static void test_few_steps_given(void **state DL_UNUSED)
{
    training model = transformer;
    training_trace trace;
    dl_activity_steps steps = {0};
    dl_error err = {0};
    model.steps = 1;
    training_make(&trace, &model);
    find(&steps, &trace, &(dl_step_hints){.one_step = true});
    assert_int_equal(steps.lines[0].method, DL_STEPS_GIVEN_ONE);
    assert_int_equal(steps.lines[0].regular_count, 1);
    assert_int_equal(steps.lines[0].count, 1);
    assert_int_equal(steps.lines[0].steps[0].count, steps.lines[0].work_count);
    dl_activity_steps_free(&steps);
    assert_int_equal(
        find_or_fail(&steps, &trace, &(dl_step_hints){.one_step = true, .period = 5}, &err),
        DL_ERR_USAGE);
    training_free(&trace);
    model.steps = 2;
    training_make(&trace, &model);
    for (int i = 0; i < 3; i++) /* no name of an update */
        memset(trace.strings[TRAINING_UPDATE + i], 'x', 5);
    find(&steps, &trace, &(dl_step_hints){.period = 200}); /* 24 (3 + 5) + 2 + 3 = 197 */
    assert_int_equal(steps.lines[0].method, DL_STEPS_GIVEN_PERIOD);
    assert_int_equal(steps.lines[0].regular_count, 2);
    assert_int_equal(hits(&steps.lines[0], &trace, 0, 2, 0), 2);
    dl_activity_steps_free(&steps);
    training_free(&trace);
    training_make(&trace, &model);
    assert_int_equal(find_or_fail(&steps, &trace, &(dl_step_hints){.one_step = true}, &err),
                     DL_ERR_DATA);
    assert_contains(err.text, "--one-step: 2 steps of about");
    assert_contains(err.text, "each with an optimizer's update");
    training_free(&trace);
}

/* Marks of micro-batches are not steps: only the last one contains the update. */
static void test_marked_micro_batches(void **state DL_UNUSED)
{
    training model = transformer;
    model.steps = 12;
    training_trace trace;
    dl_activity_steps steps = {0};
    training_make(&trace, &model);
    add_ranges(&trace, "micro_batch %d", DL_ACTIVITY_RANGE);
    /* Only every third step keeps its update. */
    size_t kept = 0;
    int updates = 0;
    for (size_t i = 0; i < trace.count; i++) {
        const bool update = trace.activities[i].kind == DL_ACTIVITY_KERNEL &&
                            trace.activities[i].name >= TRAINING_UPDATE &&
                            trace.activities[i].name < TRAINING_UPDATE + 3;
        if (update && updates++ / 3 % 3 != 2) continue;
        trace.activities[kept++] = trace.activities[i];
    }
    trace.count = kept;
    find(&steps, &trace, &(dl_step_hints){0});
    assert_int_equal(steps.lines[0].regular_count, 4);
    assert_int_not_equal(steps.lines[0].method, DL_STEPS_MARKS);
    dl_activity_steps_free(&steps);
    /* The caller's hint has priority. */
    find(&steps, &trace, &(dl_step_hints){.marks = "micro_batch"});
    assert_int_equal(steps.lines[0].regular_count, 12);
    dl_activity_steps_free(&steps);
    training_free(&trace);
}

/* After `warm` kernels without a graph: a copy, then a graph of 30 nodes in one launch, some of
 * which are lost; every fifth time a second graph. */
static void check_graphs(int warm)
{
    DL_AUTO(training_free) training_trace trace = {.now_ns = 1000, .lost = 0.1};
    dl_random_init(&trace.random, 5, 0, 0, 0);
    for (int i = 0; i < TRAINING_STRINGS; i++)
        trace.strings[i] = dl_format("kernel_%d", i);
    enum { STEPS = 20 };
    for (int i = 0; i < warm; i++)
        training_launch(&trace, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                              .name = (uint32_t)(1 + i % 60 % 7 + i % 60 / 20),
                                              .stream = 7});
    int64_t starts_ns[STEPS];
    for (int step = 0; step < STEPS; step++) {
        trace.now_ns += 20000;
        trace.lost = 0;
        starts_ns[step] = trace.now_ns;
        training_copy(&trace, DL_COPY_H2D, 4096);
        trace.lost = 0.1;
        for (uint64_t graph = 9; graph <= (step % 5 == 4 ? 10u : 9u); graph++) {
            uint32_t launch = trace.correlation;
            for (uint64_t node = 0; node < 30; node++) {
                trace.correlation = launch;
                training_launch(&trace, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                                      .name = (uint32_t)(1 + node % 7),
                                                      .stream = 7,
                                                      .object = graph << 32 | node});
            }
        }
    }
    DL_SCOPED(dl_activity_steps) steps = {0};
    find(&steps, &trace, &(dl_step_hints){0});
    const dl_step_line *line = &steps.lines[0];
    assert_int_equal(line->method, DL_STEPS_GRAPH);
    check_parts(line);
    assert_int_equal(line->regular_count, STEPS);
    size_t found = 0;
    for (size_t i = 0; i < line->count; i++)
        found += found < STEPS && line->steps[i].start_ns == starts_ns[found];
    assert_int_equal(found, STEPS);
}

static void test_graphs(void **state DL_UNUSED)
{
    check_graphs(0);
    check_graphs(300); /* five steps before the graph is captured */
}

/* Copies of the next input on a separate stream, at any earlier time, do not begin a step. */
static void test_prefetched_input(void **state DL_UNUSED)
{
    training model = resnet;
    model.input = model.idle = false;
    training_trace trace;
    training_make(&trace, &model);
    const size_t count = trace.count;
    for (int step = 0; step < model.steps; step++) {
        const int64_t before_ns = 100000 + 50000 * (step % 7);
        training_append(&trace, (dl_activity){.kind = DL_ACTIVITY_MEMCPY,
                                              .copy = DL_COPY_H2D,
                                              .bytes = 600000,
                                              .stream = 13,
                                              .start_ns = trace.starts_ns[step] - before_ns,
                                              .duration_ns = 60000});
        /* Launched at the start of its step. */
        for (size_t i = 0; i < count; i++) {
            if (trace.activities[i].kind == DL_ACTIVITY_CALL ||
                trace.activities[i].start_ns < trace.starts_ns[step])
                continue;
            trace.activities[trace.count - 1].correlation = trace.activities[i].correlation;
            break;
        }
    }
    DL_SCOPED(dl_activity_steps) steps = {0};
    find(&steps, &trace, &(dl_step_hints){0});
    const dl_step_line *line = &steps.lines[0];
    size_t regular = 0;
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        if (step->label != DL_STEP_REGULAR) continue;
        bool known = false;
        for (int k = 0; k < model.steps; k++)
            known = known || step->start_ns == trace.starts_ns[k];
        assert_true(known);
        regular++;
    }
    assert_true(regular >= (size_t)model.steps - 1);
    training_free(&trace);
}

/* Different launch shapes in every step, as for batches of sentences. */
static void test_varying_shapes(void **state DL_UNUSED)
{
    DL_AUTO(training_free) training_trace trace;
    training_make(&trace, &resnet);
    dl_random random;
    dl_random_init(&random, 3, 0, 0, 0);
    for (size_t i = 0; i < trace.count; i++) {
        if (trace.activities[i].kind == DL_ACTIVITY_KERNEL)
            trace.activities[i].detail = (uint32_t)dl_random_below(&random, TRAINING_STRINGS);
    }
    DL_SCOPED(dl_activity_steps) steps = {0};
    find(&steps, &trace, &(dl_step_hints){0});
    assert_int_equal(steps.lines[0].method, DL_STEPS_PERIOD_NAMES);
    assert_int_equal(hits(&steps.lines[0], &trace, 0, trace.steps, 0), trace.steps);
}

/* The same steps on device 0, and unordered work on device 3; in any order in the file. */
static void test_devices(void **state DL_UNUSED)
{
    DL_AUTO(training_free) training_trace trace;
    training_make(&trace, &lenet);
    dl_random random;
    dl_random_init(&random, 4, 0, 0, 0);
    for (int i = 0; i < 3000; i++) {
        training_append(&trace, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                              .name = 1 + (uint32_t)dl_random_below(&random, 40),
                                              .device = 3,
                                              .correlation = 1000000 + (uint32_t)i,
                                              .start_ns = i * 10000,
                                              .duration_ns = 9000});
    }
    for (size_t i = trace.count; i-- > 1;) {
        size_t other = dl_random_below(&random, i + 1);
        dl_activity kept = trace.activities[i];
        trace.activities[i] = trace.activities[other];
        trace.activities[other] = kept;
    }
    DL_SCOPED(dl_activity_steps) steps = {0};
    find(&steps, &trace, &(dl_step_hints){0});
    assert_int_equal(steps.count, 2);
    assert_int_equal(hits(&steps.lines[0], &trace, 0, trace.steps, 0), trace.steps);
    assert_int_equal(steps.lines[1].device, 3);
    assert_int_equal(steps.lines[1].work_count, 3000);
    assert_int_equal(steps.lines[1].method, DL_STEPS_NONE);
    assert_int_equal(steps.lines[1].count, 0);
    assert_contains(steps.lines[1].reason, "does not repeat");
}

static void test_no_work(void **state DL_UNUSED)
{
    DL_AUTO(training_free) training_trace trace;
    training model = lenet;
    model.steps = 8;
    training_make(&trace, &model);
    add_ranges(&trace, "step %d", DL_ACTIVITY_RANGE);
    size_t kept = 0;
    for (size_t i = 0; i < trace.count; i++) {
        if (!dl_activity_is_device_work(&trace.activities[i]))
            trace.activities[kept++] = trace.activities[i];
    }
    trace.count = kept;
    dl_activity_steps steps = {0};
    find(&steps, &trace, &(dl_step_hints){0});
    assert_int_equal(steps.count, 1);
    assert_int_equal(steps.lines[0].device, DL_NO_DEVICE);
    assert_int_equal(steps.lines[0].regular_count, 8);
    assert_int_equal(steps.lines[0].steps[1].start_ns, trace.starts_ns[1] - 10000);
    dl_activity_steps_free(&steps);
    trace.count = 0;
    find(&steps, &trace, &(dl_step_hints){0});
    assert_int_equal(steps.count, 0);
    dl_activity_steps_free(&steps);
}

static void test_names(void **state DL_UNUSED)
{
    assert_string_equal(dl_step_label_name(DL_STEP_WARMUP), "warm-up");
    assert_string_equal(dl_step_label_name(DL_STEP_LABEL_END), "unknown");
    assert_string_equal(dl_step_method_name(DL_STEPS_GRAPH), "graph launches");
    assert_string_equal(dl_step_method_name(DL_STEPS_PERIOD_NAMES), "period without shapes");
    assert_string_equal(dl_step_method_name(DL_STEPS_METHOD_END), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_few_steps_of_many_layers),
        cmocka_unit_test(test_averaging),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_validation),
        cmocka_unit_test(test_correlation_wrap),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_few_steps_given),
        cmocka_unit_test(test_marked_micro_batches),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_prefetched_input),
        cmocka_unit_test(test_varying_shapes),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_no_work),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
