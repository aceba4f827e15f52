#include "tests/check.h"

#include "tests/training_trace.h"
#include "trace/activity_steps.h"

static const training lenet = {.layers = 5, .kinds = 5, .input = true, .idle = true, .steps = 60};
static const training resnet = {
    .layers = 30, .kinds = 12, .unfused = true, .input = true, .idle = true, .steps = 40};
static const training transformer = {.layers = 24, .kinds = 1, .nccl = true, .steps = 40};
static const training transformer_unfused = {
    .layers = 24, .kinds = 1, .unfused = true, .input = true, .steps = 40};

static void find(dl_activity_steps *steps, const training_trace *trace, const dl_step_hints *hints)
{
    dl_error err = {0};
    dl_status status = dl_activity_steps_init(steps, trace->activities, trace->count,
                                              trace->strings, TRAINING_STRINGS, hints, &err);
    if (status != DL_OK) fail_msg("%s", err.text);
}

/* How many of the true steps `first` to before `end` have a regular step that begins within
 * `tolerance` of the usual step's time. */
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

/* Every piece of work is in exactly one part, and the parts follow each other in time. */
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

/* Without losses every step is found where it begins, to the nanosecond, and nothing else is one.
 */
static void check_exact(const training *model, size_t cycle)
{
    training_trace trace;
    dl_activity_steps steps = {0};
    training_make(&trace, model);
    find(&steps, &trace, &(dl_step_hints){0});
    assert_int_equal(steps.count, 1);
    const dl_step_line *line = &steps.lines[0];
    int first = model->tuning ? 2 : 0, end = model->steps - model->smaller_last;
    assert_int_equal(line->method, DL_STEPS_PERIOD);
    check_parts(line);
    assert_int_equal(hits(line, &trace, first, end, 0), end - first);
    assert_int_equal(line->regular_count, end - first);
    assert_int_equal(line->cycle_steps, cycle);
    assert_true(line->order_match > 0.99);
    assert_true(line->similarity > 0.99);
    dl_activity_steps_free(&steps);
    training_free(&trace);
}

static void test_models(void **state)
{
    (void)state;
    const training *models[] = {&lenet, &resnet, &transformer, &transformer_unfused};
    for (size_t m = 0; m < 4; m++) {
        training model = *models[m];
        for (model.seed = 1; model.seed <= 2; model.seed++)
            check_exact(&model, 0);
        model.tuning = true;
        check_exact(&model, 0);
        model.smaller_last = true;
        check_exact(&model, 0);
    }
}

/* An averaging in every step is part of it; in every second, fifth or tenth it is work of its own
 * and the steps between make a cycle. */
static void test_averaging(void **state)
{
    (void)state;
    /* With an averaging in every step, the device's longest wait decides: there must be one. */
    const training *models[] = {&lenet, &resnet, &transformer_unfused};
    const int intervals[] = {1, 2, 5, 10};
    for (size_t m = 0; m < 3; m++) {
        for (size_t i = models[m]->idle ? 0 : 1; i < 4; i++) {
            training model = *models[m];
            model.interval = intervals[i];
            model.steps = 60;
            check_exact(&model, intervals[i] == 1 ? 0 : (size_t)intervals[i]);
        }
    }
}

/* Lost records shift everything behind them; nine of ten steps are still found within 2 % of a
 * step, and not more than there are. */
static void test_losses(void **state)
{
    (void)state;
    const training *models[] = {&lenet, &resnet, &transformer, &transformer_unfused};
    const double lost[] = {0.01, 0.03, 0.05};
    const int intervals[] = {0, 5};
    for (int i = 0; i < 4 * 3 * 2; i++) {
        training model = *models[i % 4];
        model.lost = lost[i / 4 % 3];
        model.interval = intervals[i / 12];
        model.tuning = i % 3 == 0;
        model.seed = (uint64_t)i + 10;
        training_trace trace;
        dl_activity_steps steps = {0};
        training_make(&trace, &model);
        find(&steps, &trace, &(dl_step_hints){0});
        const dl_step_line *line = &steps.lines[0];
        int first = model.tuning ? 2 : 0, found = hits(line, &trace, first, model.steps, 0.02);
        if (10 * found < 9 * (model.steps - first) || line->regular_count > (size_t)model.steps)
            fail_msg("case %d: %d of %d steps, %zu labelled; %s", i, found, model.steps - first,
                     line->regular_count, line->reason != NULL ? line->reason : "");
        check_parts(line);
        assert_true(line->order_match > 0.8);
        dl_activity_steps_free(&steps);
        training_free(&trace);
    }
}

/* Forward-only batches between the steps are no steps, whatever they share with them. */
static void test_validation(void **state)
{
    (void)state;
    const training *models[] = {&lenet, &resnet, &transformer, &transformer_unfused};
    for (int i = 0; i < 8; i++) {
        training model = *models[i % 4];
        model.validate_every = i < 4 ? 7 : 20;
        model.seed = (uint64_t)i;
        training_trace trace;
        dl_activity_steps steps = {0};
        training_make(&trace, &model);
        find(&steps, &trace, &(dl_step_hints){0});
        const dl_step_line *line = &steps.lines[0];
        int found = hits(line, &trace, 0, model.steps, 0);
        if (found != model.steps || line->regular_count != (size_t)model.steps)
            fail_msg("case %d: %d of %d steps, %zu labelled", i, found, model.steps,
                     line->regular_count);
        check_parts(line);
        dl_activity_steps_free(&steps);
        training_free(&trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_averaging),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_validation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
