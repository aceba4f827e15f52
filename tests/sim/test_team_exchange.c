/* Times of exchanges on a CPU host, in a team that does nothing else. Costs: FIXTURE_COSTS, 8000
 * bytes of parameters, 4000 of state; copy 1 ns per byte; average 0.5 ns per byte and vector read,
 * 1 ns per byte written; update 1 and 1. */
#include "tests/sim_fixture.h"

#include "sim/platform/platform.h"
#include "sim/team.h"

enum { WORKERS = 4 };

static void (*start)(dl_team *team, int worker);

static void advance(dl_team *team, int worker)
{
    if (team->workers[worker].stage++ == 0) {
        start(team, worker);
    } else {
        dl_team_end_step(team, worker);
    }
}

/* Runs one step of every worker, each on a separate core; writes step times in ns to
 * took[WORKERS]. */
static void run(void (*what)(dl_team *, int), int64_t took[WORKERS])
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS "copies_4 = 1\n");
    dl_workload workload;
    dl_workload_init(&workload, &costs, 1);
    const dl_noise_config noise = {.kind = DL_NOISE_NONE};
    DL_SCOPED(dl_team) team;
    start = what;
    dl_team_init(&team, &(dl_team_config){.platform = &dl_platform_cpu,
                                          .costs = &costs,
                                          .workload = &workload,
                                          .cores = WORKERS,
                                          .workers = WORKERS,
                                          .steps = 1,
                                          .server_threads = 1,
                                          .advance = advance,
                                          .noise = &noise});
    dl_team_run(&team);
    for (int w = 0; w < WORKERS; w++)
        took[w] = team.workers[w].last_end_ns;
}

static void push_gradients(dl_team *team, int worker)
{
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PUSH});
}

static void pull_with_state(dl_team *team, int worker)
{
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PULL, .with_state = true});
}

static void average_in_two(dl_team *team, int worker)
{
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_AVERAGE, .slices = 2});
}

static void average_with_state(dl_team *team, int worker)
{
    dl_team_exchange(team, worker,
                     (dl_exchange){.kind = DL_AVERAGE, .with_state = true, .slices = 4});
}

static void serve_one(dl_team *team, int worker)
{
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_APPLY, .gradients = 1});
}

static void serve_all(dl_team *team, int worker)
{
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_SUM, .slices = 1});
}

static void copies_take_their_bytes(void **state DL_UNUSED)
{
    int64_t took[WORKERS];
    run(push_gradients, took);
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(took[w], 8000);
    run(pull_with_state, took);
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(took[w], 12000);
}

/* The first workers process slices: bytes / parts (4 x 0.5 + 1) ns; the others have nothing to
 * do. */
static void averages_are_sliced(void **state DL_UNUSED)
{
    int64_t took[WORKERS];
    run(average_in_two, took);
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(took[w], w < 2 ? 12000 : 0);
    run(average_with_state, took);
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(took[w], 9000);
}

/* All 4 gradients: 8000 (4 + 1) ns, for the first worker. */
static void the_server_adds_up_all_gradients(void **state DL_UNUSED)
{
    int64_t took[WORKERS];
    run(serve_all, took);
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(took[w], w < 1 ? 40000 : 0);
}

/* One gradient: 8000 (1 + 1) ns, for the calling worker. */
static void the_server_applies_one_gradient(void **state DL_UNUSED)
{
    int64_t took[WORKERS];
    run(serve_one, took);
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(took[w], 16000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_take_their_bytes),
        cmocka_unit_test(averages_are_sliced),
        cmocka_unit_test(the_server_adds_up_all_gradients),
        cmocka_unit_test(the_server_applies_one_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
