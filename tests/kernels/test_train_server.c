/* The asynchronous parameter server: staleness in async and softsync, its bound, and the learning
 * rate by staleness. A run depends on the scheduler; the properties checked do not. */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/train_case.h"

#define WORKERS 4
#define STEPS 12

/* Fields of the steps' records: over all threads, and by worker. */
typedef struct seen {
    atomic_llong gradients, most, sum, without;
    atomic_bool versions[WORKERS * STEPS + 1]; /* versions made by an update */
    int64_t version[WORKERS];                  /* version of the worker's parameters */
    bool updates[WORKERS];                     /* the worker makes an update in this step */
} seen;

/* Derives the version of a worker's parameters from its records: it read after its last
 * contribution, or update; the gradient is `staleness` updates older than the server. */
static void look(void *user, const dl_record *record)
{
    seen *all = user;
    const uint32_t w = record->worker;
    if (record->kind == DL_RECORD_AVERAGE) all->updates[w] = true;
    if (record->kind != DL_RECORD_STEP) return;
    if (record->staleness == DL_NO_STALENESS) {
        atomic_fetch_add(&all->without, 1);
        return;
    }
    long long most = atomic_load(&all->most);
    while (record->staleness > most &&
           !atomic_compare_exchange_weak(&all->most, &most, record->staleness)) {}
    atomic_fetch_add(&all->gradients, 1);
    atomic_fetch_add(&all->sum, record->staleness);
    all->version[w] += record->staleness;
    if (!all->updates[w]) return;
    all->updates[w] = false;
    all->version[w]++;
    if (all->version[w] <= WORKERS * STEPS) atomic_store(&all->versions[all->version[w]], true);
}

static dl_train_config server_config(dl_sync sync)
{
    dl_train_config config = small_config();
    config.sync = sync;
    config.workers = WORKERS;
    config.steps = STEPS;
    return config;
}

static dl_train_result run_seen(const dl_train_config *config, seen *all)
{
    memset(all, 0, sizeof *all);
    const dl_train_observer observer = {.user = all, .record = look};
    return run(config, &observer);
}

/* The versions derived from the workers' staleness are all versions, each once, one for every
 * workers / n gradients: no update is lost or unseen, in any order of the threads. */
static void check_versions(const dl_train_config *config, int64_t gradients_an_update)
{
    static seen all;
    DL_SCOPED(dl_train_result) result = run_seen(config, &all);
    int64_t steps = 0, updates = 0, sum = 0;
    for (int w = 0; w < WORKERS; w++) {
        steps += result.steps_done[w];
        sum += all.version[w];
    }
    assert_int_equal(all.gradients, steps);
    for (int64_t v = 1; v <= WORKERS * STEPS; v++) {
        updates += all.versions[v];
        assert_int_equal(all.versions[v], v <= steps / gradients_an_update);
    }
    assert_int_equal(updates, steps / gradients_an_update);
    /* An update makes all gradients staler except that of the worker that makes it. */
    assert_int_equal(all.sum, sum - updates);
    assert_true(all.sum <= updates * (WORKERS - 1));
}

static void every_update_is_seen(void **state DL_UNUSED)
{
    for (int wait = DL_WAIT_SPIN; wait <= DL_WAIT_BLOCK; wait++) {
        dl_train_config config = server_config(DL_SYNC_ASYNC);
        config.wait = (dl_wait)wait;
        check_versions(&config, 1);
        config.sync = DL_SYNC_SOFTSYNC;
        for (config.softsync_n = 1; config.softsync_n <= WORKERS; config.softsync_n++) {
            check_versions(&config, WORKERS / config.softsync_n);
        }
    }
}

/* No gradient is staler than the bound, although a worker is slow. */
static void the_bound_holds(void **state DL_UNUSED)
{
    const double slow[WORKERS] = {4, 1, 1, 1};
    for (int64_t bound = 0; bound <= 3; bound++) {
        for (int n = 1; n <= WORKERS; n += 3) {
            dl_train_config config = server_config(DL_SYNC_SOFTSYNC);
            config.softsync_n = n;
            config.bound = bound;
            config.slow = slow;
            static seen all;
            DL_SCOPED(dl_train_result) result DL_UNUSED = run_seen(&config, &all);
            assert_true(all.most <= bound);
            assert_true(all.gradients >= STEPS);
            /* Only gradients that waited when the run ended are in no update. */
            assert_true(all.without < WORKERS);
        }
    }
}

/* A single worker is never stale: the rate is the configured one, bit for bit. */
static void one_worker_keeps_its_rate(void **state DL_UNUSED)
{
    for (int sync = DL_SYNC_ASYNC; sync <= DL_SYNC_SOFTSYNC; sync++) {
        dl_train_config config = server_config((dl_sync)sync);
        config.workers = 1;
        DL_SCOPED(dl_train_result) plain = run(&config, NULL);
        config.staleness_rate = true;
        DL_SCOPED(dl_train_result) by_staleness = run(&config, NULL);
        assert_true(same_bits(&plain, &by_staleness));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_update_is_seen),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(one_worker_keeps_its_rate),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
