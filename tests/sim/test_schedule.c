/* The order of updates that a simulated run writes. */
#include "tests/sim_fixture.h"

#include <stdlib.h>

#include "common/csv.h"
#include "common/file.h"
#include "sim/schedule.h"

#define SCHEDULE "test_schedule.csv"

/* The schedule of 3 workers in that mode, with additional lines of [sync]; 12 samples per step. */
static dl_csv write_and_read(const char *mode, const char *options, int steps)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    dl_scenario s =
        fixture_scenario("[scenario]\nsteps = %d\nname = three\n[machine]\ncores = 3\nworkers = 3\n"
                         "[workload]\ncosts = c\nbatch = 12\n[sync]\nmode = %s\n%s\n"
                         "[noise]\nkind = gamma\nsigma = 0.3\n",
                         steps, mode, options);
    dl_error err = {0};
    if (dl_schedule_write(SCHEDULE, &s, &costs, &s.points[0], &err) != DL_OK) {
        fail_msg("%s: %s", mode, err.text);
    }
    dl_csv csv = {0};
    if (dl_csv_read(&csv, SCHEDULE, &err) != DL_OK) fail_msg("%s", err.text);
    dl_scenario_free(&s);
    return csv;
}

enum { TIME, EVENT, UPDATE, WORKER, READ, BATCH };

static long cell(const dl_csv *csv, size_t row, size_t column)
{
    return strtol(dl_csv_cell(csv, row, column), NULL, 10);
}

/* Common updates: update u has step u - 1 of each worker, with parameters of version u - 1 -
 * lag. */
static void all_together_are_0_or_lag_stale(void **state DL_UNUSED)
{
    static const char *const modes[] = {"allreduce", "ps"};
    for (int i = 0; i < 4; i++) {
        const int lag = i / 2;
        DL_SCOPED(dl_csv) csv = write_and_read(modes[i % 2], lag > 0 ? "lag = 1" : "", 5);
        assert_int_equal(csv.rows, 15);
        for (size_t r = 0; r < csv.rows; r++) {
            const long update = (long)r / 3 + 1, worker = (long)r % 3;
            assert_string_equal(dl_csv_cell(&csv, r, EVENT), "gradient");
            assert_int_equal(cell(&csv, r, UPDATE), update);
            assert_int_equal(cell(&csv, r, WORKER), worker);
            assert_int_equal(cell(&csv, r, READ), update > 1 ? update - 1 - lag : 0);
            assert_int_equal(cell(&csv, r, BATCH), (update - 1) * 3 + worker);
        }
    }
    remove(SCHEDULE);
}

/* Checks rows of updates by a server: numbers without gaps, ascending times, existing versions,
 * each step of a worker at most once. `each`: gradients per update; 0: any number. */
static void check_server(const char *mode, const char *options, size_t each)
{
    enum { STEPS = 40 };
    DL_SCOPED(dl_csv) csv = write_and_read(mode, options, STEPS);
    bool used[3 * (STEPS + 1)] = {false};
    long update = 0;
    size_t in_update = each;
    double before_s = 0;
    assert_true(csv.rows > STEPS);
    for (size_t r = 0; r < csv.rows; r++) {
        const long number = cell(&csv, r, UPDATE), batch = cell(&csv, r, BATCH);
        const double time_s = strtod(dl_csv_cell(&csv, r, TIME), NULL);
        if (number != update) {
            assert_int_equal(number, update + 1);
            if (each > 0) assert_int_equal(in_update, each);
            update = number;
            in_update = 0;
        }
        in_update++;
        assert_true(time_s >= before_s);
        before_s = time_s;
        assert_true(cell(&csv, r, READ) >= 0 && cell(&csv, r, READ) < number);
        assert_int_equal(batch % 3, cell(&csv, r, WORKER));
        assert_true(batch < 3 * (STEPS + 1) && !used[batch]);
        used[batch] = true;
    }
    remove(SCHEDULE);
}

static void servers_update_in_order(void **state DL_UNUSED)
{
    check_server("async", "", 1);
    check_server("ssp", "bound = 1", 1);
    check_server("softsync", "n = 1", 3);
    check_server("softsync", "n = 2\nbound = 2", 0);
    check_server("ksync", "k = 2", 2);
    check_server("kbatchsync", "k = 2", 2);
    check_server("kasync", "k = 2", 2);
    check_server("kbatchasync", "k = 2", 2);
}

/* The staleness in the rows equals that counted by the run. */
static void staleness_is_that_of_the_run(void **state DL_UNUSED)
{
    DL_SCOPED(dl_csv) csv = write_and_read("async", "", 50);
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    DL_SCOPED(dl_scenario) s = fixture_scenario(
        "[scenario]\nsteps = 50\n[machine]\ncores = 3\nworkers = 3\n[workload]\ncosts = c\n"
        "batch = 12\n[sync]\nmode = async\n[noise]\nkind = gamma\nsigma = 0.3\n");
    DL_SCOPED(dl_run_result) result = {0};
    dl_error err = {0};
    const dl_run_config config = {.scenario = &s, .costs = &costs, .point = &s.points[0]};
    assert_int_equal(dl_run(&config, &result, &err), DL_OK);
    int64_t counts[3][64] = {{0}};
    for (size_t r = 0; r < csv.rows; r++) {
        const long staleness = cell(&csv, r, UPDATE) - 1 - cell(&csv, r, READ);
        assert_true(staleness < result.staleness_bins && staleness < 64);
        counts[cell(&csv, r, WORKER)][staleness]++;
    }
    for (int w = 0; w < 3; w++) {
        for (int b = 0; b < result.staleness_bins; b++)
            assert_int_equal(counts[w][b], result.staleness[w * result.staleness_bins + b]);
    }
    remove(SCHEDULE);
}

/* average and bmuf every 3 steps: before average a, each worker has done its local steps 3 (a - 1)
 * to 3 a - 1, in order; none: only local steps. */
static void local_steps_come_before_their_average(void **state DL_UNUSED)
{
    static const char *const modes[] = {"average", "bmuf"};
    for (int m = 0; m < 2; m++) {
        dl_csv csv = write_and_read(modes[m], "interval = 3", 7); /* rounded up to 9 */
        long step[3] = {0}, averages = 0;
        assert_int_equal(csv.rows, 27 + 3);
        for (size_t r = 0; r < csv.rows; r++) {
            if (strcmp(dl_csv_cell(&csv, r, EVENT), "average") == 0) {
                assert_int_equal(cell(&csv, r, UPDATE), ++averages);
                for (int w = 0; w < 3; w++)
                    assert_int_equal(step[w], 3 * averages);
                assert_string_equal(dl_csv_cell(&csv, r, WORKER), "");
                continue;
            }
            const long w = cell(&csv, r, WORKER);
            assert_string_equal(dl_csv_cell(&csv, r, EVENT), "local");
            assert_int_equal(cell(&csv, r, BATCH), 3 * step[w]++ + w);
        }
        dl_csv_free(&csv);
    }
    dl_csv csv = write_and_read("none", "", 7);
    assert_true(csv.rows >= 7);
    for (size_t r = 0; r < csv.rows; r++)
        assert_string_equal(dl_csv_cell(&csv, r, EVENT), "local");
    dl_csv_free(&csv);
    remove(SCHEDULE);
}

/* Fragments every 6 steps, one every second step. With a lag, each worker's rows are its local
 * steps, a send after every second step, and a receive `lag` steps later; after the last step, the
 * 12th, all remaining ones are received. An average follows all sends of its fragment, or the steps
 * before it, and precedes its receives. */
static void fragments_are_sent_and_received_in_order(void **state DL_UNUSED)
{
    enum { STEPS = 12, FRAGMENTS = 3, PERIOD = 2, ROUNDS = STEPS / PERIOD, FRAGMENT = 6 };
    for (int lag = 0; lag < 6; lag++) {
        char options[80];
        snprintf(options, sizeof options, "interval = 6\nfragments = 3\nlag = %d", lag);
        DL_SCOPED(dl_csv) csv = write_and_read("average", options, STEPS);
        long done[3] = {0}, sent[3] = {0}, received[3] = {0}, averages = 0;
        assert_int_equal(csv.rows, 3 * STEPS + ROUNDS + (lag > 0 ? 2 * 3 * ROUNDS : 0));
        for (size_t r = 0; r < csv.rows; r++) {
            const char *event = dl_csv_cell(&csv, r, EVENT);
            const long w = cell(&csv, r, WORKER), fragment = cell(&csv, r, FRAGMENT);
            if (strcmp(event, "local") == 0) {
                assert_int_equal(cell(&csv, r, BATCH), 3 * done[w]++ + w);
                assert_string_equal(dl_csv_cell(&csv, r, FRAGMENT), "");
            } else if (strcmp(event, "send") == 0) {
                assert_int_equal(fragment, sent[w]++ % FRAGMENTS);
                assert_int_equal(done[w], sent[w] * PERIOD);
            } else if (strcmp(event, "receive") == 0) {
                assert_int_equal(fragment, received[w]++ % FRAGMENTS);
                assert_true(received[w] <= averages);
                assert_true(done[w] == received[w] * PERIOD + lag || done[w] == STEPS);
            } else {
                assert_string_equal(event, "average");
                assert_int_equal(fragment, averages++ % FRAGMENTS);
                assert_int_equal(cell(&csv, r, UPDATE), averages);
                for (int other = 0; other < 3; other++)
                    assert_true(lag > 0 ? sent[other] >= averages
                                        : done[other] == averages * PERIOD);
            }
        }
        for (int w = 0; lag > 0 && w < 3; w++)
            assert_int_equal(received[w], ROUNDS);
    }
    remove(SCHEDULE);
}

/* Two learners with 2 local steps of 1 ms; merges take 3 ms and start when both have uploaded; an
 * upload that is 1 version stale has weight 1 / 2. Both upload at 2 ms and again at 4, based on
 * version 0 while version 1 is merged until 5: in version 2, at 8, they are 1 stale. Learner 0 has
 * done its steps at 8 ms, and has taken version 1 at 6 and 2 at 8. Learner 1 fails at 5.5 ms,
 * returns at 7 with version 1, and repeats its current mini-batch, 11; nothing is merged after the
 * end. */
static void syncers_merge_in_order(void **state DL_UNUSED)
{
    static const char *const rows[] = {
        "0.001,local,,0,,0,",     "0.001,local,,1,,1,",   "0.002,local,,0,,2,",
        "0.002,local,,1,,3,",     "0.002,upload,,0,0,,",  "0.002,upload,,1,0,,",
        "0.002,merge,1,0,0,,1",   "0.002,merge,1,1,0,,1", "0.003,local,,0,,4,",
        "0.003,local,,1,,5,",     "0.004,local,,0,,6,",   "0.004,local,,1,,7,",
        "0.004,upload,,0,0,,",    "0.004,upload,,1,0,,",  "0.005,merge,2,0,0,,0.5",
        "0.005,merge,2,1,0,,0.5", "0.005,local,,0,,8,",   "0.005,local,,1,,9,",
        "0.006,local,,0,,10,",    "0.006,upload,,0,0,,",  "0.006,replace,,0,1,,",
        "0.007,replace,,1,1,,",   "0.007,local,,0,,12,",  "0.008,local,,0,,14,",
        "0.008,local,,1,,11,",    "0.008,upload,,0,1,,",  "0.008,replace,,0,2,,",
        "0.009,local,,1,,13,",    "0.009,upload,,1,1,,",  "0.009,replace,,1,2,,",
    };
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY);
    DL_SCOPED(dl_scenario) s = fixture_scenario(
        "[scenario]\nsteps = %d\n[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\n"
        "batch = 2\n[sync]\nmode = async_average\ninterval = 2\n[syncer]\nquorum = 2\n"
        "merge_s = 0.003\nweight_power = 1\n[failures]\naway = 1:0.0055-0.007\n",
        8);
    dl_error err = {0};
    assert_int_equal(dl_schedule_write(SCHEDULE, &s, &costs, &s.points[0], &err), DL_OK);
    DL_SCOPED(dl_csv) csv = {0};
    assert_int_equal(dl_csv_read(&csv, SCHEDULE, &err), DL_OK);
    assert_int_equal(csv.rows, sizeof rows / sizeof *rows);
    for (size_t r = 0; r < csv.rows; r++) {
        char row[128] = "";
        size_t used =
            (size_t)snprintf(row, sizeof row, "%g", strtod(dl_csv_cell(&csv, r, TIME), NULL));
        for (size_t c = EVENT; c <= BATCH + 1; c++)
            used += (size_t)snprintf(row + used, sizeof row - used, ",%s", dl_csv_cell(&csv, r, c));
        assert_string_equal(row, rows[r]);
    }
    remove(SCHEDULE);
}

/* Equal seeds give equal bytes; the header describes the run. */
static void it_is_deterministic(void **state DL_UNUSED)
{
    char *text[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        DL_SCOPED(dl_csv) csv DL_UNUSED = write_and_read("softsync", "n = 1", 30);
        size_t bytes = 0;
        assert_int_equal(dl_file_read(SCHEDULE, &text[i], &bytes, NULL), DL_OK);
    }
    assert_string_equal(text[0], text[1]);
    assert_contains(text[0], "# dlscale schedule\n# schema: 1\n");
    assert_contains(text[0], "\n# scenario: three\n");
    assert_contains(text[0], "\n# mode: softsync\n# seed: 1\n# workers: 3\n# batch: 12\n");
    free(text[0]);
    free(text[1]);
    remove(SCHEDULE);
}

static void what_cannot_be_written_is_an_error(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    static const char *const modes[] = {"easgd",
                                        "average\n[failures]\naway = 1:1-2",
                                        "average\ninterval = 3\nlag = 1\ninterval_by_speed = yes",
                                        "average\ninterval = 3\nfragments = 2",
                                        "async_average",
                                        "async"};
    static const dl_status expected[] = {DL_ERR_UNSUPPORTED, DL_ERR_UNSUPPORTED, DL_ERR_UNSUPPORTED,
                                         DL_ERR_UNSUPPORTED, DL_ERR_IO,          DL_ERR_IO};
    for (int i = 0; i < 6; i++) {
        dl_scenario s = fixture_scenario("[machine]\ncores = 2\nworkers = 2\n[workload]\n"
                                         "costs = c\nbatch = 2\n[sync]\nmode = %s\n",
                                         modes[i]);
        dl_error err = {0};
        assert_int_equal(dl_schedule_write("/dev/full", &s, &costs, &s.points[0], &err),
                         expected[i]);
        if (expected[i] == DL_ERR_UNSUPPORTED) assert_contains(err.text, s.points[0].mode->name);
        assert_int_equal(dl_schedule_write("no/such/f", &s, &costs, &s.points[0], &err),
                         expected[i]);
        dl_scenario_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_together_are_0_or_lag_stale),
        cmocka_unit_test(servers_update_in_order),
        cmocka_unit_test(staleness_is_that_of_the_run),
        cmocka_unit_test(local_steps_come_before_their_average),
        cmocka_unit_test(fragments_are_sent_and_received_in_order),
        cmocka_unit_test(syncers_merge_in_order),
        cmocka_unit_test(it_is_deterministic),
        cmocka_unit_test(what_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
