#include "calibrate/replay/collectives.h"

#include "tests/calibrate/rank_trace.h"

#define STEPS 3
#define COMPUTE_NS 50000

/* Steps of a kernel, an all-reduce and a kernel on one stream, with 20 us of transfer and given
 * waits; the line defines the steps. */
typedef struct run_of_steps {
    rank_trace trace;
    size_t work[3 * STEPS];
    dl_activity_step steps[STEPS];
    dl_step_line line;
    dl_replay_run run;
    dl_instances instances;
    dl_transfer transfer;
} run_of_steps;

static void run_init(run_of_steps *r, const int64_t *late_ns)
{
    memset(r, 0, sizeof *r);
    rank_trace_init(&r->trace, 0);
    for (size_t s = 0; s < STEPS; s++) {
        const int64_t reduce_ns = 20000 + late_ns[s];
        r->work[3 * s] = rank_trace_work(&r->trace, RT_COMPUTE, COMPUTE_NS);
        r->work[3 * s + 1] =
            rank_trace_collective(&r->trace, RT_REDUCE, RT_REDUCE_KERNEL, 1000, reduce_ns);
        r->work[3 * s + 2] = rank_trace_work(&r->trace, RT_COMPUTE, COMPUTE_NS);
        r->steps[s] = (dl_activity_step){
            .first = 3 * s, .count = 3, .duration_ns = 2 * COMPUTE_NS + reduce_ns};
    }
    r->line = (dl_step_line){.work = r->work,
                             .work_count = 3 * STEPS,
                             .steps = r->steps,
                             .count = STEPS,
                             .regular_count = STEPS};
    dl_error err = {0};
    if (dl_replay_build(&r->run, (const dl_trace *[]){&r->trace.trace}, 1, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    dl_instances_find(&r->instances, &r->run);
    dl_transfer_fit(&r->transfer, &r->instances, &r->run);
}

static void run_free(run_of_steps *r)
{
    dl_transfer_free(&r->transfer);
    dl_instances_free(&r->instances);
    dl_replay_run_free(&r->run);
}

/* Kernels run in sequence, so times add up, and the mean of the other steps' latenesses is the
 * overall mean. */
static void what_is_taken_out_is_put_back(void **state DL_UNUSED)
{
    DL_AUTO(run_free) run_of_steps r;
    run_init(&r, (const int64_t[STEPS]){0, 30000, 60000});
    dl_prediction prediction;
    dl_error err = {0};
    assert_int_equal(
        dl_predict_steps(&prediction, &r.run, &r.instances, &r.transfer, &r.line, &err), DL_OK);
    assert_int_equal(prediction.steps, STEPS);
    assert_int_equal(prediction.collectives, 1);
    assert_int_equal(prediction.unknown, 0);
    assert_float_equal(prediction.recorded_ns, 150000, 1);
    assert_float_equal(prediction.replayed_ns, 150000, 100);
    assert_float_equal(prediction.empty_ns, 100000, 100);
    assert_float_equal(prediction.added_ns, 120000, 100);
    assert_float_equal(prediction.predicted_ns, 150000, 100);
}

static void the_graph_is_restored(void **state DL_UNUSED)
{
    DL_AUTO(run_free) run_of_steps r;
    run_init(&r, (const int64_t[STEPS]){0, 30000, 60000});
    dl_prediction prediction;
    dl_error err = {0};
    assert_int_equal(
        dl_predict_steps(&prediction, &r.run, &r.instances, &r.transfer, &r.line, &err), DL_OK);
    for (size_t i = 0; i < r.instances.count; i++) {
        const dl_replay_node *node = &r.run.graph.nodes[r.instances.instances[i].nodes[0]];
        assert_int_equal(node->duration_ns, r.trace.activities[node->activity].duration_ns);
    }
}

/* A step is never predicted from itself: with one late regular step and two others, the two others
 * are predicted late. */
static void other_steps_are_the_ones_that_tell(void **state DL_UNUSED)
{
    DL_AUTO(run_free) run_of_steps r;
    run_init(&r, (const int64_t[STEPS]){0, 90000, 0});
    r.steps[0].label = DL_STEP_WARMUP;
    r.line.regular_count = STEPS - 1;
    dl_prediction prediction;
    dl_error err = {0};
    assert_int_equal(
        dl_predict_steps(&prediction, &r.run, &r.instances, &r.transfer, &r.line, &err), DL_OK);
    assert_float_equal(prediction.predicted_ns, 165000, 100);
    r.steps[2].label = DL_STEP_OTHER;
    r.line.regular_count = 1;
    assert_int_equal(
        dl_predict_steps(&prediction, &r.run, &r.instances, &r.transfer, &r.line, &err),
        DL_ERR_DATA);
    assert_contains(err.text, "1 regular steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_out_is_put_back),
        cmocka_unit_test(the_graph_is_restored),
        cmocka_unit_test(other_steps_are_the_ones_that_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
