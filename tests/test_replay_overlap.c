#include "calibrate/replay/overlap.h"

#include "tests/rank_trace.h"

#define STEPS 2
#define KERNELS 3

/* Three kernels a step, of which in each step other ones run beside a collective, with factors. */
typedef struct two_steps {
    rank_trace trace;
    size_t work[STEPS * KERNELS];
    dl_activity_step steps[STEPS];
    dl_step_line line;
} two_steps;

static void init(two_steps *t, const double factors[STEPS][KERNELS], int64_t shortest_ns)
{
    memset(t, 0, sizeof *t);
    rank_trace_init(&t->trace, 0);
    for (size_t s = 0; s < STEPS; s++) {
        t->steps[s] = (dl_activity_step){.first = s * KERNELS, .count = KERNELS};
        for (size_t k = 0; k < KERNELS; k++) {
            const int64_t start_ns = t->trace.device_ns;
            const int64_t alone_ns = shortest_ns << k;
            const double factor = factors[s][k];
            t->work[s * KERNELS + k] = rank_trace_work(
                &t->trace, RT_COMPUTE, (int64_t)((double)alone_ns * (factor > 0 ? factor : 1)));
            if (factor <= 0) continue;
            rank_trace_add(&t->trace, (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                                    .name = RT_REDUCE_KERNEL,
                                                    .stream = 9,
                                                    .start_ns = start_ns,
                                                    .duration_ns = t->trace.device_ns - start_ns});
        }
    }
    t->line = (dl_step_line){.work = t->work,
                             .work_count = STEPS * KERNELS,
                             .steps = t->steps,
                             .count = STEPS,
                             .regular_count = STEPS};
}

/* Kernels of 10, 20 and 40 us slowed 1.3, 1.2 and 1.1 times: the longest outweighs both others. */
static void the_weighted_median_is_taken(void **state)
{
    (void)state;
    two_steps t;
    init(&t, (const double[STEPS][KERNELS]){{1.3, 0, 1.1}, {0, 1.2, 0}}, 10000);
    const dl_overlap_slowdown s = dl_overlap_slowdown_find(&t.trace.trace, &t.line);
    assert_int_equal(s.works, 3);
    assert_float_equal(s.factor, 1.1, 1e-3);
    assert_float_equal(s.alone_ns, 70000, 10);
    assert_true(s.error > 0 && s.error < 0.2);
}

/* Seen one way only, partly beside, or too short: not counted. */
static void what_tells_nothing_is_left_out(void **state)
{
    (void)state;
    two_steps t;
    init(&t, (const double[STEPS][KERNELS]){{1.3, 0, 1.1}, {1.3, 0, 0}}, 10000);
    dl_overlap_slowdown s = dl_overlap_slowdown_find(&t.trace.trace, &t.line);
    assert_int_equal(s.works, 1);
    t.steps[1].label = DL_STEP_OTHER;
    s = dl_overlap_slowdown_find(&t.trace.trace, &t.line);
    assert_int_equal(s.works, 0);
    assert_true(s.factor == 1 && s.error == 0);
    init(&t, (const double[STEPS][KERNELS]){{1.3, 0, 0}, {0, 0, 0}}, DL_OVERLAP_SHORTEST_NS / 2);
    s = dl_overlap_slowdown_find(&t.trace.trace, &t.line);
    assert_int_equal(s.works, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weighted_median_is_taken),
        cmocka_unit_test(what_tells_nothing_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
