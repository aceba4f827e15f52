/* Runs computed without events for each worker equal, bit by bit, those simulated by events. */
#include "tests/gpu_fixture.h"

#include "common/alloc.h"
#include "common/random.h"

enum { SCENARIOS = 600 };

typedef struct made {
    int seed;
    dl_random random;
    dl_costs costs;
    dl_scenario scenario;
    char text[2048];
} made;

static int below(made *m, int end)
{
    return (int)dl_random_below(&m->random, (uint64_t)end);
}

/* Draws 0 or a time of up to `most` ns. */
static int time_ns(made *m, int most)
{
    return below(m, 3) == 0 ? 0 : below(m, most);
}

static void make_costs(made *m)
{
    char text[2048];
    const int used =
        snprintf(text, sizeof text,
                 "[costs]\nschema = 1\nparameter_bytes = %d\nstate_bytes = 4000\n"
                 "[op a.forward]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[op a.backward]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[op a.update]\nfixed_ns = %d\nper_sample_ns = 0\n"
                 "[dispatch]\nserial_ns = %d\nper_worker_ns = %d\n",
                 100 * below(m, 20000), 1000 + below(m, 400000), 1000 + below(m, 600000),
                 time_ns(m, 200000), time_ns(m, 300000), time_ns(m, 600000));
    if (below(m, 4) == 0)
        snprintf(text + used, sizeof text - (size_t)used, "[spread]\nwork_frac = 0.3\n");
    m->costs = fixture_costs(text);
}

static const char *noise_of(made *m, const char *mode)
{
    static const char *const noises[] = {"kind = lognormal\nsigma = 0.2\n",
                                         "kind = gamma\nsigma = 0.4\nslow = 0:1.7\n",
                                         "kind = exponential\n", "kind = work\n"};
    /* Without noise, workers that do not wait for each other end their steps simultaneously. */
    return strcmp(mode, "allreduce") == 0 && below(m, 4) == 0 ? "kind = none\n"
                                                              : noises[below(m, 4)];
}

/* Returns lines of the machine file: the second node of some machines has fewer GPUs, or slower
 * ports. */
static const char *unlike_node(int seed)
{
    static const char *const kinds[] = {
        "", "",
        "[nodes 1]\nkind = other\n[switch sw0 of other]\nparent = socket0\nlink = x16\n"
        "[gpus 0 of other]\nmodel = g\nparent = sw0\nlink = x16\n"
        "[gpus 1-2 of other]\nmodel = g\nparent = socket0\nlink = wire\n",
        "[nodes 1]\nkind = other\n[nics 0 of other]\nparent = sw0\nlink = wire\nport = x16\n"};
    return kinds[seed % 4];
}

static void make(made *m, int seed)
{
    static const char *const modes[] = {"none", "allreduce", "average"};
    char path[64], sync[64] = "";
    *m = (made){.seed = seed};
    dl_random_init(&m->random, (uint64_t)seed, 0, 0, 0);
    make_costs(m);
    const char *mode = modes[below(m, 3)];
    const int interval = strcmp(mode, "average") == 0 ? 1 + below(m, 4) : 1;
    if (strcmp(mode, "average") == 0)
        snprintf(sync, sizeof sync, "interval = %d\nwhere = allreduce\n", interval);
    snprintf(path, sizeof path, "direct_%d.ini", (int)getpid());
    char machine[2048];
    snprintf(machine, sizeof machine, "%s%s", FIXTURE_GPUS, unlike_node(seed));
    fixture_write(path, machine);
    const int workers = 1 + below(m, seed % 4 == 2 ? 7 : 8), warmup = interval * below(m, 4);
    snprintf(m->text, sizeof m->text,
             "[scenario]\nsteps = %d\nwarmup = %d\nseed = %d\n[machine]\nfile = %s\nworkers = %d\n"
             "ahead = %d\n[exchange]\nalgorithm = %s\nbucket_bytes = %d\n"
             "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = %s\n%s[noise]\n%s",
             interval * (1 + below(m, 12)), warmup, seed, path, workers, below(m, 4),
             below(m, 2) == 0 ? "ring" : "auto", below(m, 2) * 300000, mode, sync,
             noise_of(m, mode));
    m->scenario = fixture_scenario("%s", m->text);
    unlink(path);
}

static void free_made(made *m)
{
    dl_scenario_free(&m->scenario);
    dl_costs_free(&m->costs);
}

static dl_status run(const made *m, dl_run_way way, int64_t log_steps, dl_run_result *result)
{
    dl_error err = {0};
    const dl_run_config config = {.scenario = &m->scenario,
                                  .costs = &m->costs,
                                  .point = &m->scenario.points[0],
                                  .log_steps = log_steps,
                                  .way = way};
    *result = (dl_run_result){0};
    return dl_run(&config, result, &err);
}

/* Whether two arrays are equal or both absent. */
static bool are_same(const void *a, const void *b, size_t bytes)
{
    return (a != NULL) == (b != NULL) && (a == NULL || memcmp(a, b, bytes) == 0);
}

/* Clears the bytes after the end of the text, which may be left from a longer text. */
static void clear_rest(char *text, size_t room)
{
    const size_t used = strlen(text);
    memset(text + used, 0, room - used);
}

/* Compares all of two results bit by bit, except that bytes of links may have been summed in
 * another order. */
static bool are_equal(const dl_run_result *a, const dl_run_result *b)
{
    const size_t workers = (size_t)a->workers,
                 numbers = (size_t)a->staleness_rows * (size_t)a->staleness_bins;
    dl_run_result flat[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        clear_rest(flat[i].usage.link, sizeof flat[i].usage.link);
        clear_rest(flat[i].usage.busiest, sizeof flat[i].usage.busiest);
        flat[i].usage.link_frac = (float)flat[i].usage.link_frac;
        flat[i].usage.busiest_frac = (float)flat[i].usage.busiest_frac;
        flat[i].worker_step_s = NULL;
        flat[i].averaging = NULL;
        flat[i].staleness = flat[i].worker_stale_sum = flat[i].worker_stale_count = NULL;
    }
    return memcmp(&flat[0], &flat[1], sizeof flat[0]) == 0 &&
           are_same(a->worker_step_s, b->worker_step_s, workers * sizeof(double)) &&
           are_same(a->staleness, b->staleness, numbers * sizeof *a->staleness) &&
           are_same(a->worker_stale_sum, b->worker_stale_sum, workers * sizeof(int64_t)) &&
           are_same(a->worker_stale_count, b->worker_stale_count, workers * sizeof(int64_t)) &&
           (a->averaging != NULL) == (b->averaging != NULL) &&
           (a->averaging == NULL || memcmp(a->averaging, b->averaging, sizeof *a->averaging) == 0);
}

/* Modes none, allreduce, average, any noise, launches that take no time or longer than a step,
 * several buckets, slow workers, a warm-up. */
static void results_are_those_by_events(void **state)
{
    (void)state;
    for (int seed = 0; seed < SCENARIOS; seed++) {
        made m;
        make(&m, seed);
        dl_run_result direct, events;
        if (run(&m, DL_RUN_DIRECTLY, 0, &direct) != DL_OK) fail_msg("seed %d:\n%s", seed, m.text);
        assert_int_equal(run(&m, DL_RUN_BY_EVENTS, 0, &events), DL_OK);
        if (!are_equal(&direct, &events)) {
            fail_msg("seed %d: %.17g and %.17g s, lag %g and %g, %lld and %lld events\n%s", seed,
                     direct.span_s, events.span_s, direct.clock_lag_max, events.clock_lag_max,
                     (long long)direct.events, (long long)events.events, m.text);
        }
        dl_run_result_free(&direct);
        dl_run_result_free(&events);
        free_made(&m);
    }
}

/* Steps that are not stored individually are summed in another order, which changes only
 * rounding. */
static void counted_steps_agree(void **state)
{
    (void)state;
    for (int seed = 0; seed < SCENARIOS / 10; seed++) {
        made m;
        make(&m, seed);
        dl_run_result direct, events;
        assert_int_equal(run(&m, DL_RUN_DIRECTLY, 1, &direct), DL_OK);
        assert_int_equal(run(&m, DL_RUN_BY_EVENTS, 1, &events), DL_OK);
        assert_true(direct.throughput_per_s == events.throughput_per_s);
        assert_true(direct.step_p50_s == events.step_p50_s);
        assert_true(direct.step_p99_s == events.step_p99_s);
        assert_near(direct.step_sd_s, events.step_sd_s, 1e-9);
        dl_run_result_free(&direct);
        dl_run_result_free(&events);
        free_made(&m);
    }
}

/* Two GPUs, one with 1 ms per step and one with 2 ms: at 2 ms both end a step, and their order
 * decides how far one is ahead. Such a run is simulated by events. */
static void ties_are_left_to_events(void **state)
{
    (void)state;
    static const char *const syncs[] = {"none", "average\nwhere = allreduce\ninterval = 4"};
    for (int i = 0; i < 2; i++) {
        made m = {0};
        char path[64];
        m.costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 8000\n"
                                "[op a.forward]\nfixed_ns = 1000000\nper_sample_ns = 0\n"
                                "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n");
        snprintf(path, sizeof path, "direct_%d.ini", (int)getpid());
        fixture_write(path, FIXTURE_GPUS);
        m.scenario =
            fixture_scenario("[scenario]\nsteps = 8\n[machine]\nfile = %s\nworkers = 2\n"
                             "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = %s\n"
                             "[noise]\nslow = 1:2\n",
                             path, syncs[i]);
        unlink(path);
        dl_run_result result;
        assert_int_equal(run(&m, DL_RUN_DIRECTLY, 0, &result), DL_ERR_UNSUPPORTED);
        assert_int_equal(run(&m, DL_RUN_FASTEST, 0, &result), DL_OK);
        assert_true(result.clock_lag_max >= 2);
        dl_run_result_free(&result);
        free_made(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_by_events),
        cmocka_unit_test(counted_steps_agree),
        cmocka_unit_test(ties_are_left_to_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
