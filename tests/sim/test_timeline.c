#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "common/file.h"
#include "sim/report/timeline.h"

#define TIMELINE "test_timeline.json"

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

/* The timeline of the scenario's point; the caller frees it. */
static char *written(const dl_scenario *s, const dl_costs *costs)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_timeline_write(TIMELINE, s, costs, &s->points[0], NULL), DL_OK);
    assert_int_equal(dl_file_read(TIMELINE, &text, &bytes, NULL), DL_OK);
    remove(TIMELINE);
    return text;
}

/* async, 2 workers, 3 steps: each step has compute, push, update, pull (20 slices or more with the
 * waits) and one step slice; the first compute starts at 0 and takes 1 000 000 ns = 1000 us. */
static void every_step_and_activity_is_there(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    dl_scenario s = fixture_scenario("[scenario]\nsteps = 3\n[machine]\ncores = 2\nworkers = 2\n"
                                     "[workload]\ncosts = c\nbatch = 2\n[sync]\nmode = async\n");
    DL_AUTOFREE char *text = written(&s, &costs);
    assert_int_equal(count_of(text, "\"name\":\"step\""), 6);
    assert_int_equal(count_of(text, "\"name\":\"compute\""), 6);
    assert_int_equal(count_of(text, "\"name\":\"pull\""), 6);
    assert_contains(text, "cores 2, workers 2, batch 2, async");
    assert_contains(text, "worker 1");
    assert_contains(text, "\"dur\":1000.000");
    assert_contains(text, "\"staleness\":1");
    /* Each gradient has an arrow to the update that includes it. */
    assert_int_equal(count_of(text, "\"name\":\"update\",\"cat\":\"server\""), 6);
    assert_int_equal(count_of(text, "{\"ph\":\"s\""), 6);
    assert_int_equal(count_of(text, "{\"ph\":\"f\""), 6);
    /* Both workers push at once: one of them waits for the lock, until the other has unlocked. */
    assert_contains(text, "\"name\":\"queue\"");
    const int changes = count_of(text, "\"name\":\"queue\""), waits = count_of(text, "\"lock\"");
    assert_int_equal(changes, 2 * waits);
    dl_error err = {0};
    assert_int_equal(dl_timeline_write("/dev/full", &s, &costs, &s.points[0], &err), DL_ERR_IO);
    assert_int_equal(dl_timeline_write("no/such/folder/t", &s, &costs, &s.points[0], &err),
                     DL_ERR_IO);
    dl_scenario_free(&s);
}

/* 2 GPUs, 3 steps with two buckets of 40 kB, which take 400 ns and 4 us at 10 GB/s each: 9.09 GB/s.
 * The first one is ready in the middle of the backward pass, at 0.4 + 0.3 ms. */
static void collectives_have_a_track(void **state DL_UNUSED)
{
    fixture_write("timeline_gpus.ini", FIXTURE_GPUS);
    dl_costs costs =
        fixture_costs(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH "[overlap]\nslowdown = 1\n");
    DL_SCOPED(dl_scenario) s = fixture_scenario(
        "[scenario]\nsteps = 3\n[machine]\nfile = timeline_gpus.ini\nworkers = 2\n[workload]\n"
        "costs = c\nbatch_per_worker = 1\n[sync]\nmode = allreduce\n[exchange]\n"
        "algorithm = ring\noverlap = yes\nbucket_bytes = 40000\n");
    unlink("timeline_gpus.ini");
    DL_AUTOFREE char *text = written(&s, &costs);
    assert_int_equal(count_of(text, "\"name\":\"allreduce\",\"cat\":\"collective\""), 6);
    assert_int_equal(count_of(text, "\"bucket\":1,\"bytes\":40000,\"GB/s\":9.09"), 3);
    assert_int_equal(count_of(text, "{\"ph\":\"C\",\"name\":\"GB/s\""), 12);
    assert_contains(text, "\"pid\":2,\"tid\":0,\"ts\":700.000,\"dur\":4.400");
    assert_contains(text, "\"name\":\"collectives\"");
    dl_costs_free(&costs);
}

/* Two GPUs that push and pull: in three steps each of two host threads launches three times, and the
 * links have tracks with their rate. */
static void host_threads_and_links_have_tracks(void **state DL_UNUSED)
{
    fixture_write("timeline_gpus.ini", FIXTURE_GPUS);
    dl_costs costs = fixture_costs(FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 0\nper_worker_ns = "
                                                     "2000\n[overlap]\nslowdown = 1\n");
    DL_SCOPED(dl_scenario) s = fixture_scenario(
        "[scenario]\nsteps = 3\n[machine]\nfile = timeline_gpus.ini\nworkers = 2\n[workload]\n"
        "costs = c\nbatch_per_worker = 1\n[sync]\nmode = ps\n");
    unlink("timeline_gpus.ini");
    DL_AUTOFREE char *text = written(&s, &costs);
    assert_int_equal(count_of(text, "\"name\":\"launch\",\"cat\":\"host\",\"pid\":5,\"tid\":1,"),
                     3);
    assert_contains(text, "\"name\":\"host thread 1\"");
    assert_contains(text, "links, the busiest");
    assert_true(count_of(text, "\"name\":\"traffic\",\"cat\":\"link\",\"pid\":6,\"tid\":0,") >= 3);
    assert_contains(text, "\"name\":\"node0 sw0 up GB/s\"");
    dl_costs_free(&costs);
}

/* Number of steps that the text states. */
static int steps_said(const char *text)
{
    const char *said = strstr(text, " (first ");
    assert_non_null(said);
    return atoi(said + strlen(" (first "));
}

/* A run of 20,000 steps: the file has about 2 MB, states its number of steps, and has no network
 * track. */
static void long_runs_have_their_first_steps(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    DL_SCOPED(dl_scenario) s =
        fixture_scenario("[scenario]\nsteps = 20000\n[machine]\ncores = 1\n"
                         "workers = 1\n[workload]\ncosts = c\nbatch = 1\n[sync]\n"
                         "mode = none\n");
    DL_AUTOFREE char *text = written(&s, &costs);
    assert_in_range(strlen(text), 1800000, 2000000);
    assert_int_equal(steps_said(text), count_of(text, "\"name\":\"step\""));
    assert_int_equal(count_of(text, "\"network\""), 0);
}

/* A timeline limited to 1000 bytes, of 20 steps of `workers` workers without exchange: after the
 * header of 43 bytes and a name of 76 for each worker, steps of 88 + 98 bytes each, or slightly
 * more with longer times. */
static char *brief(int workers)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    DL_SCOPED(dl_scenario) s = fixture_scenario("[scenario]\nsteps = 20\n[machine]\ncores = 16\n"
                                                "workers = %d\n[workload]\ncosts = c\n"
                                                "batch_per_worker = 1\n[sync]\nmode = none\n",
                                                workers);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(dl_timeline_put(out, 1000, &s, &costs, &s.points[0], NULL), DL_OK);
    fclose(out);
    assert_in_range(bytes, 1000, 1300);
    assert_contains(text, "\n]}\n");
    return text;
}

/* Two workers: 43 + 2 x 76 + 5 x 186 = 1125, so the second step has one or both workers. The first
 * step of 16 or 8 workers takes at least 43 + 8 x (76 + 186) = 2139; that of four begins its last
 * event at 993. */
static void a_step_beyond_the_limit_has_fewer_workers(void **state DL_UNUSED)
{
    char *text = brief(2);
    assert_contains(text, "none (first 2 of 20 steps)\"");
    assert_contains(text, "\"worker 1\"");
    free(text);
    text = brief(16);
    assert_contains(text, "none (first 1 of 20 steps) (first 4 of 16 workers)\"");
    assert_int_equal(count_of(text, "\"thread_name\""), 4);
    assert_int_equal(count_of(text, "\"tid\":4"), 0);
    free(text);
}

typedef struct count {
    int steps;
    bool is_enough;
} count;

static void count_step(void *user, int worker, int64_t step, int64_t start_ns, int64_t end_ns,
                       int staleness)
{
    (void)worker, (void)step, (void)start_ns, (void)end_ns, (void)staleness;
    count *c = user;
    c->is_enough = ++c->steps == 5;
}

/* An observer that sets is_enough after five of 20 steps gets no sixth step. */
static void a_run_ends_when_enough_is_seen(void **state DL_UNUSED)
{
    for (int ends = 0; ends < 2; ends++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
        DL_SCOPED(dl_scenario) s =
            fixture_scenario("[scenario]\nsteps = 20\n[machine]\ncores = 1\n"
                             "workers = 1\n[workload]\ncosts = c\nbatch = 1\n[sync]\n"
                             "mode = none\n");
        count c = {0};
        const dl_team_observer observer = {
            .user = &c, .step = count_step, .is_enough = ends ? &c.is_enough : NULL};
        assert_int_equal(dl_run_observe(&s, &costs, &s.points[0], &observer, NULL), DL_OK);
        assert_int_equal(c.steps, ends ? 5 : 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_and_activity_is_there),
                                       cmocka_unit_test(collectives_have_a_track),
                                       cmocka_unit_test(host_threads_and_links_have_tracks),
                                       cmocka_unit_test(long_runs_have_their_first_steps),
                                       cmocka_unit_test(a_step_beyond_the_limit_has_fewer_workers),
                                       cmocka_unit_test(a_run_ends_when_enough_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
