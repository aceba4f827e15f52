#include "calibrate/replay/step_costs.h"

#include <math.h>

#include "tests/calibrate/rank_trace.h"

#define STEPS 4
#define KERNELS 3

/* Three kernels per step, some of which run beside a collective in some steps, with slowdown
 * factors. */
typedef struct made_steps {
    rank_trace trace;
    size_t work[STEPS * KERNELS];
    dl_activity_step steps[STEPS];
    dl_step_line line;
} made_steps;

static void init(made_steps *t, const double factors[STEPS][KERNELS], int64_t shortest_ns)
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

static dl_overlap_slowdown find(const made_steps *t)
{
    DL_SCOPED(dl_spans) collectives = dl_collective_spans(&t->trace.trace);
    return dl_overlap_slowdown_find(&t->trace.trace, &t->line, &collectives);
}

/* Kernels of 10, 20 and 40 us with slowdowns 1.3, 1.2 and 1.1, each twice: the longest outweighs
 * both others. */
static void the_weighted_median_is_taken(void **state DL_UNUSED)
{
    made_steps t;
    init(&t, (const double[STEPS][KERNELS]){{1.3, 0, 1.1}, {0, 1.2, 0}, {1.3, 0, 1.1}, {0, 1.2, 0}},
         10000);
    const dl_overlap_slowdown s = find(&t);
    assert_int_equal(s.works, 3);
    assert_float_equal(s.factor, 1.1, 1e-3);
    assert_true(s.error > 0.01 && s.error < 0.2 && !s.known);
}

/* The rank is fast in the steps in which a collective runs beside the first two kernels, as the
 * third kernel, which always runs alone, shows. The error is that of the kernels' own scatter. */
static void the_pace_of_steps_is_taken_out(void **state DL_UNUSED)
{
    made_steps t;
    init(&t, (const double[STEPS][KERNELS]){{1.1, 1.1, 0}, {0, 0, 0}, {1.12, 1.1, 0}, {0, 0, 0}},
         10000);
    for (size_t s = 0; s < STEPS; s += 2) {
        for (size_t k = 0; k < KERNELS; k++) {
            dl_activity *a = &t.trace.activities[t.work[s * KERNELS + k]];
            a->duration_ns = a->duration_ns * 4 / 5;
        }
    }
    const dl_overlap_slowdown s = find(&t);
    assert_int_equal(s.works, 2);
    assert_float_equal(s.factor, 1.1, 1e-3);
    assert_true(s.known && s.error < 0.02);
}

/* Kernels observed in one situation only, or too short, are ignored. One pair gives no scatter. */
static void what_tells_nothing_is_left_out(void **state DL_UNUSED)
{
    made_steps t;
    init(&t, (const double[STEPS][KERNELS]){{1.3, 0, 1.1}, {1.3, 0, 0}, {1.3, 0, 0}, {1.3, 0, 0}},
         10000);
    t.steps[2].label = t.steps[3].label = DL_STEP_OTHER;
    dl_overlap_slowdown s = find(&t);
    assert_int_equal(s.works, 1);
    assert_true(isinf(s.error) && !s.known);
    t.steps[1].label = DL_STEP_OTHER;
    s = find(&t);
    assert_int_equal(s.works, 0);
    assert_true(s.factor == 1 && s.error == 0);
    init(&t, (const double[STEPS][KERNELS]){{1.3, 0, 0}, {0, 0, 0}}, DL_OVERLAP_SHORTEST_NS / 2);
    s = find(&t);
    assert_int_equal(s.works, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weighted_median_is_taken),
        cmocka_unit_test(the_pace_of_steps_is_taken_out),
        cmocka_unit_test(what_tells_nothing_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
