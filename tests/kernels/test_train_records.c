/* The records of training: their fields and order, and that they fill the steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/near.h"
#include "tests/train_case.h"

#define WORKERS_MAX 4

/* Records of all workers, each in its worker's list, as the observer's contract allows. */
typedef struct recorder {
    dl_record *records[WORKERS_MAX];
    size_t count[WORKERS_MAX];
} recorder;

static void record(void *user, const dl_record *fields)
{
    recorder *all = user;
    const uint32_t w = fields->worker;
    all->records[w] = dl_realloc(all->records[w], all->count[w] + 1, sizeof *fields, "records");
    all->records[w][all->count[w]++] = *fields;
}

static void recorder_free(recorder *all)
{
    for (int w = 0; w < WORKERS_MAX; w++)
        free(all->records[w]);
}

static dl_train_result run_recorded(const dl_train_config *config, recorder *all)
{
    *all = (recorder){0};
    const dl_train_observer observer = {.user = all, .record = record};
    return run(config, &observer);
}

/* Writes the records of one step as "kind.phase.name", in order, to text[bytes]. The order of the
 * model's forward and backward operations is checked here; they are written as "model". */
static void describe_step(const dl_train_config *config, const recorder *all, uint32_t worker,
                          uint32_t step, char *text, size_t bytes)
{
    const char **names = NULL;
    int count = 0;
    dl_error err = {0};
    assert_int_equal(dl_train_event_names(config, &names, &count, &err), DL_OK);
    uint32_t operation = 0, passes = 0;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < all->count[worker]; i++) {
        const dl_record *r = &all->records[worker][i];
        if (r->step != step) continue;
        assert_true(r->name < (uint32_t)count);
        if (r->kind == DL_RECORD_COMPUTE && r->phase == DL_PHASE_FORWARD) {
            assert_int_equal(r->name, operation++);
            assert_int_equal(passes, 0);
            continue;
        }
        if (r->kind == DL_RECORD_COMPUTE && r->phase == DL_PHASE_BACKWARD) {
            assert_int_equal(r->name, --operation);
            if (passes++ == 0) used += (size_t)snprintf(text + used, bytes - used, "model ");
            continue;
        }
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s.%s.%s ", dl_record_kind_name(r->kind),
                             dl_phase_name(r->phase), names[r->name]);
        assert_true(used < bytes);
    }
    assert_int_equal(operation, 0);
    assert_int_equal(passes, 6); /* operations of the mlp */
    free(names);
}

#define INPUT "input.none.input model "
#define UPDATE "compute.update.fc1 compute.update.fc2 compute.update.fc3 "
#define BARRIER "wait.none.barrier "
#define STEP "step.none.step "

static void check_step(const dl_train_config *config, const recorder *all, uint32_t worker,
                       uint32_t step, const char *expected)
{
    char text[1024];
    describe_step(config, all, worker, step, text, sizeof text);
    assert_string_equal(text, expected);
}

static void records_follow_the_mode(void **state DL_UNUSED)
{
    static const struct {
        dl_sync sync;
        const char *first, *second; /* workers; only the first one averages */
    } cases[] = {
        {DL_SYNC_NONE, INPUT UPDATE STEP, INPUT UPDATE STEP},
        {DL_SYNC_ALLREDUCE,
         INPUT BARRIER "average.none.gradients " BARRIER "copy.pull.gradients " UPDATE STEP,
         INPUT BARRIER "average.none.gradients " BARRIER "copy.pull.gradients " UPDATE STEP},
        {DL_SYNC_PS,
         INPUT "copy.push.gradients " BARRIER "average.update.gradients " BARRIER
               "copy.pull.parameters " STEP,
         INPUT "copy.push.gradients " BARRIER BARRIER "copy.pull.parameters " STEP},
        {DL_SYNC_AVERAGE,
         INPUT UPDATE "copy.push.parameters copy.push.state " BARRIER
                      "average.none.parameters average.none.state " BARRIER
                      "copy.pull.parameters copy.pull.state " STEP,
         INPUT UPDATE "copy.push.parameters copy.push.state " BARRIER BARRIER
                      "copy.pull.parameters copy.pull.state " STEP},
        {DL_SYNC_ASYNC,
         INPUT "copy.push.gradients wait.none.lock average.update.gradients "
               "copy.pull.parameters " STEP,
         INPUT "copy.push.gradients wait.none.lock average.update.gradients "
               "copy.pull.parameters " STEP},
    };
    dl_train_config config = small_config();
    config.optimizer.momentum = 0.9;
    config.average_state = true;
    config.workers = 2;
    config.steps = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(recorder) all;
        config.sync = cases[i].sync;
        DL_SCOPED(dl_train_result) result = run_recorded(&config, &all);
        for (uint32_t w = 0; w < 2; w++) {
            for (uint32_t step = 0; step < result.steps_done[w]; step++) {
                check_step(&config, &all, w, step, w == 0 ? cases[i].first : cases[i].second);
            }
        }
    }
}

/* For each worker: steps follow one another without gap; a step's records follow one another
 * without gap from its start and end within it; the result has the steps' durations. */
static void check_time_line(const dl_train_config *config, const recorder *all,
                            const dl_train_result *result, uint32_t worker)
{
    int64_t step_start_ns = 0, border_ns = 0, steps = 0;
    for (size_t i = 0; i < all->count[worker]; i++) {
        const dl_record *r = &all->records[worker][i];
        assert_int_equal(r->step, steps);
        assert_int_equal(r->samples, config->batch / config->workers);
        assert_true(r->duration_ns >= 0);
        if (i == 0) step_start_ns = border_ns = r->start_ns;
        if (r->kind != DL_RECORD_STEP) {
            assert_true(r->start_ns == border_ns);
            assert_true(r->staleness == DL_NO_STALENESS);
            border_ns = r->start_ns + r->duration_ns;
            continue;
        }
        assert_true(r->start_ns == step_start_ns);
        assert_true(r->start_ns + r->duration_ns >= border_ns);
        assert_true(r->duration_ns == result->step_ns[worker][steps]);
        step_start_ns = border_ns = r->start_ns + r->duration_ns;
        steps++;
    }
    assert_int_equal(steps, result->steps_done[worker]);
}

static void records_cover_the_steps(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.workers = 4;
    for (int sync = DL_SYNC_NONE; sync <= DL_SYNC_SOFTSYNC; sync++) {
        DL_SCOPED(recorder) all;
        config.sync = (dl_sync)sync;
        DL_SCOPED(dl_train_result) result = run_recorded(&config, &all);
        double longest_s = 0;
        int64_t steps_done = 0, most = 0;
        for (uint32_t w = 0; w < 4; w++) {
            check_time_line(&config, &all, &result, w);
            double sum_s = 0;
            steps_done += result.steps_done[w];
            if (result.steps_done[w] > most) most = result.steps_done[w];
            for (int64_t s = 0; s < result.steps_done[w]; s++) {
                sum_s += 1e-9 * (double)result.step_ns[w][s];
            }
            longest_s = fmax(longest_s, sum_s);
        }
        assert_true(result.seconds >= longest_s - 1e-9);
        assert_int_equal(most, config.steps);
        const bool ragged = sync == DL_SYNC_NONE || sync >= DL_SYNC_ASYNC;
        assert_true(ragged || steps_done == config.workers * config.steps);
        const double samples = (double)(steps_done * config.batch / config.workers);
        assert_true(near_scaled(result.samples_per_s, samples / result.seconds, 0, 1e-12));
    }
}

/* Sizes in records: 784 x 128 + 128 + 128 x 64 + 64 + 64 x 10 + 10 = 109,386 numbers of 8 bytes in
 * one vector; 6 samples of 784 numbers in a worker's input; Adam's state has 2 vectors. */
static void records_tell_sizes(void **state)
{
    (void)state;
    dl_train_config config = small_config();
    config.optimizer = (dl_optimizer_config){.name = "adam", .learning_rate = 1e-3};
    config.workers = 2;
    config.server_threads = 2;
    config.steps = 2;
    config.sync = DL_SYNC_AVERAGE;
    config.average_state = true;
    DL_SCOPED(recorder) all;
    DL_SCOPED(dl_train_result) result DL_UNUSED = run_recorded(&config, &all);
    const char **names = NULL;
    int count = 0;
    dl_error err = {0};
    assert_int_equal(dl_train_event_names(&config, &names, &count, &err), DL_OK);
    for (size_t i = 0; i < all.count[1]; i++) {
        const dl_record *r = &all.records[1][i];
        const bool exchange = r->kind == DL_RECORD_COPY || r->kind == DL_RECORD_AVERAGE;
        uint64_t bytes = r->kind == DL_RECORD_INPUT ? 6 * 784 * 8 : 0;
        if (exchange) bytes = strcmp(names[r->name], "state") == 0 ? 2 * 875088 : 875088;
        assert_int_equal(r->bytes, bytes);
        assert_int_equal(r->vectors, r->kind == DL_RECORD_AVERAGE ? 2 : 0);
        assert_int_equal(r->threads, r->kind == DL_RECORD_AVERAGE ? 2 : 0);
    }
    free(names);
}

static void interval_exchanges_only_then(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.workers = 2;
    config.sync = DL_SYNC_AVERAGE;
    config.interval = 3;
    config.steps = 7;
    DL_SCOPED(recorder) all;
    DL_SCOPED(dl_train_result) result DL_UNUSED = run_recorded(&config, &all);
    for (uint32_t step = 0; step < 7; step++) {
        const char *exchange =
            INPUT UPDATE "copy.push.parameters " BARRIER BARRIER "copy.pull.parameters " STEP;
        check_step(&config, &all, 1, step, step % 3 == 2 ? exchange : INPUT UPDATE STEP);
    }
}

/* A worker applies its gradient as update `version` = its last one + staleness + 1 (it read right
 * after its last own update). The versions of all workers must be 1 .. n x steps, each once: no
 * update is lost, counted twice or unseen. The sum over a worker telescopes, so the mean staleness
 * is (sum of last versions) / (n x steps) - 1, at most n - 1. */
static void check_staleness(int workers, dl_wait wait, const double *slow)
{
    dl_train_config config = small_config();
    config.workers = workers;
    config.sync = DL_SYNC_ASYNC;
    config.steps = 60;
    config.wait = wait;
    config.slow = slow;
    recorder all;
    DL_SCOPED(dl_train_result) result = run_recorded(&config, &all);
    int64_t updates = 0;
    for (int w = 0; w < workers; w++)
        updates += result.steps_done[w];
    DL_AUTOFREE bool *seen = dl_calloc((size_t)updates + 1, sizeof *seen, "versions");
    int64_t staleness_sum = 0, last_sum = 0;
    for (int w = 0; w < workers; w++) {
        int64_t version = 0;
        for (size_t i = 0; i < all.count[w]; i++) {
            const dl_record *r = &all.records[w][i];
            if (r->kind != DL_RECORD_STEP) continue;
            assert_true(r->staleness >= 0);
            version += r->staleness + 1;
            assert_true(version <= updates);
            assert_false(seen[version]);
            seen[version] = true;
            staleness_sum += r->staleness;
        }
        last_sum += version;
    }
    for (int64_t v = 1; v <= updates; v++)
        assert_true(seen[v]);
    assert_int_equal(staleness_sum, last_sum - updates);
    assert_true(staleness_sum <= (workers - 1) * updates);
    recorder_free(&all);
}

static void staleness_counts_every_update(void **state DL_UNUSED)
{
    const double slow[] = {1, 3, 1, 1};
    check_staleness(1, DL_WAIT_AUTO, NULL);
    check_staleness(2, DL_WAIT_SPIN, NULL);
    check_staleness(2, DL_WAIT_BLOCK, NULL);
    check_staleness(4, DL_WAIT_BLOCK, NULL);
    check_staleness(4, DL_WAIT_BLOCK, slow);
}

/* Only worker 1 loses time, once per step between backward pass and exchange; results do not
 * change. It burns as much CPU time as the passes used, at least the clock's resolution. */
static void a_slow_worker_loses_time_only(void **state DL_UNUSED)
{
    const double slow[] = {1, 2};
    dl_train_config config = small_config();
    config.workers = 2;
    config.steps = 4;
    config.sync = DL_SYNC_ALLREDUCE;
    DL_SCOPED(dl_train_result) even = run(&config, NULL);
    config.slow = slow;
    DL_SCOPED(recorder) all;
    DL_SCOPED(dl_train_result) result = run_recorded(&config, &all);
    const char *exchange =
        BARRIER "average.none.gradients " BARRIER "copy.pull.gradients " UPDATE STEP;
    DL_AUTOFREE char *first = dl_format(INPUT "%s", exchange);
    DL_AUTOFREE char *second = dl_format(INPUT "slowdown.none.slowdown %s", exchange);
    for (uint32_t step = 0; step < 4; step++) {
        check_step(&config, &all, 0, step, first);
        check_step(&config, &all, 1, step, second);
    }
    for (size_t i = 0; i < all.count[1]; i++) {
        const dl_record *r = &all.records[1][i];
        if (r->kind == DL_RECORD_SLOWDOWN) assert_true(r->duration_ns > 0);
    }
    assert_true(same_bits(&even, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_follow_the_mode),
        cmocka_unit_test(records_cover_the_steps),
        cmocka_unit_test(records_tell_sizes),
        cmocka_unit_test(interval_exchanges_only_then),
        cmocka_unit_test(staleness_counts_every_update),
        cmocka_unit_test(a_slow_worker_loses_time_only),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
