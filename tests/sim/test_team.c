/* Waits of a team, checked step by step through an observer. Costs: FIXTURE_COSTS. */
#include "tests/sim_fixture.h"

enum { LOG = 64 };

typedef struct span {
    int worker;
    dl_worker_state state;
    int64_t start_ns, end_ns;
} span;

typedef struct watch {
    span spans[LOG];
    int count, steps;
    int64_t step_end_ns[8], covered_ns[8];
} watch;

static void on_state(void *user, int worker, dl_worker_state state, int64_t start_ns,
                     int64_t end_ns)
{
    watch *w = user;
    w->covered_ns[worker] += end_ns - start_ns;
    if (w->count < LOG) w->spans[w->count++] = (span){worker, state, start_ns, end_ns};
}

static void on_step(void *user, int worker, int64_t step DL_UNUSED, int64_t start_ns DL_UNUSED,
                    int64_t end_ns, int staleness DL_UNUSED)
{
    watch *w = user;
    w->steps++;
    w->step_end_ns[worker] = end_ns;
}

static void run(watch *w, const char *mode, int cores, int workers, int steps, const char *slice_ns)
{
    *w = (watch){.count = 0};
    const dl_team_observer observer = {.user = w, .state = on_state, .step = on_step};
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    assert_int_equal(dl_value_parse(slice_ns, DL_DIMENSION_NS, &costs.slice_ns, NULL), DL_OK);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = %d\n[machine]\ncores = %d\nworkers = %d\n"
                         "[workload]\ncosts = c\nbatch_per_worker = 1\n[sync]\nmode = %s\n",
                         steps, cores, workers, mode);
    DL_SCOPED(dl_run_result) result = {0};
    const dl_run_config config = {.scenario = &scenario,
                                  .costs = &costs,
                                  .point = &scenario.points[0],
                                  .observer = &observer};
    assert_int_equal(dl_run(&config, &result, NULL), DL_OK);
    dl_scenario_free(&scenario);
}

static void assert_spans(const watch *w, int worker, const span *expected, int count)
{
    int found = 0;
    for (int i = 0; i < w->count; i++) {
        const span *s = &w->spans[i];
        if (s->worker != worker) continue;
        assert_true(found < count);
        const span *e = &expected[found++];
        if (s->state != e->state || s->start_ns != e->start_ns || s->end_ns != e->end_ns) {
            fail_msg("worker %d: %s %lld..%lld, not %s %lld..%lld", worker,
                     dl_worker_state_names[s->state], (long long)s->start_ns, (long long)s->end_ns,
                     dl_worker_state_names[e->state], (long long)e->start_ns, (long long)e->end_ns);
        }
    }
    assert_int_equal(found, count);
}

/* allreduce, 2 workers on one core, one step, unlimited slices. Worker 0 computes to 1 000 000 and
 * blocks; worker 1 computes to 2 000 000, arrives last and continues immediately (average 8000).
 * Worker 0 is woken at 2 001 000, takes the core, averages to 2 009 000 and blocks at the second
 * barrier. Worker 1 averages its remaining 7000, arrives last at 2 016 000 and pulls. Worker 0 is
 * woken at 2 017 000, takes the core, pulls and updates to 2 125 000; then worker 1 pulls its
 * remaining 7000. */
static void who_waits_on_a_shared_core_gives_it_away(void **state DL_UNUSED)
{
    static const span first[] = {
        {0, DL_STATE_COMPUTE, 0, 1000000},       {0, DL_STATE_BARRIER, 1000000, 2001000},
        {0, DL_STATE_AVERAGE, 2001000, 2009000}, {0, DL_STATE_BARRIER, 2009000, 2017000},
        {0, DL_STATE_PULL, 2017000, 2025000},    {0, DL_STATE_UPDATE, 2025000, 2125000}};
    static const span second[] = {{1, DL_STATE_COMPUTE, 0, 2000000},
                                  {1, DL_STATE_AVERAGE, 2000000, 2016000},
                                  {1, DL_STATE_PULL, 2016000, 2132000},
                                  {1, DL_STATE_UPDATE, 2132000, 2232000}};
    watch w;
    run(&w, "allreduce", 1, 2, 1, "1e9");
    assert_spans(&w, 0, first, 6);
    assert_spans(&w, 1, second, 4);
}

/* async, 2 workers with a core each: both push until 1 008 000; worker 0 gets the lock first
 * (update 16 000, pull 8000), worker 1 50 ns after its release. */
static void the_lock_is_handed_over(void **state DL_UNUSED)
{
    static const span second[] = {{1, DL_STATE_COMPUTE, 0, 1000000},
                                  {1, DL_STATE_PUSH, 1000000, 1008000},
                                  {1, DL_STATE_LOCK, 1008000, 1032050},
                                  {1, DL_STATE_AVERAGE, 1032050, 1048050},
                                  {1, DL_STATE_PULL, 1048050, 1056050}};
    watch w;
    run(&w, "async", 2, 2, 1, "1e9");
    assert_spans(&w, 1, second, 5);
}

/* async, 2 workers on one core, slices of 1 020 000 ns: worker 0's slice ends while it holds the
 * lock, 4000 ns before its update is done. Worker 1 computes and pushes to 2 028 000, and blocks at
 * the lock; worker 0 continues, releases it at 2 040 000, and worker 1 works again 1000 ns
 * later. */
static void the_owner_of_the_lock_may_lose_its_core(void **state DL_UNUSED)
{
    static const span first[] = {{0, DL_STATE_COMPUTE, 0, 1000000},
                                 {0, DL_STATE_PUSH, 1000000, 1008000},
                                 {0, DL_STATE_AVERAGE, 1008000, 2032000},
                                 {0, DL_STATE_PULL, 2032000, 2040000}};
    static const span second[] = {{1, DL_STATE_COMPUTE, 0, 2020000},
                                  {1, DL_STATE_PUSH, 2020000, 2028000},
                                  {1, DL_STATE_LOCK, 2028000, 2041000},
                                  {1, DL_STATE_AVERAGE, 2041000, 2057000},
                                  {1, DL_STATE_PULL, 2057000, 2065000}};
    watch w;
    run(&w, "async", 1, 2, 1, "1.02e6");
    assert_spans(&w, 0, first, 4);
    assert_spans(&w, 1, second, 5);
}

/* A worker's activities fill its time from 0 to the end of its last step. */
static void activities_leave_no_gaps(void **state DL_UNUSED)
{
    static const char *const modes[] = {"none", "allreduce", "ps", "average", "async"};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (int cores = 1; cores <= 4; cores++) {
            watch w;
            run(&w, modes[m], cores, 4, 25, "3e5");
            for (int worker = 0; worker < 4; worker++) {
                assert_true(w.step_end_ns[worker] > 0);
                assert_int_equal(w.covered_ns[worker], w.step_end_ns[worker]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_on_a_shared_core_gives_it_away),
        cmocka_unit_test(the_lock_is_handed_over),
        cmocka_unit_test(the_owner_of_the_lock_may_lose_its_core),
        cmocka_unit_test(activities_leave_no_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
