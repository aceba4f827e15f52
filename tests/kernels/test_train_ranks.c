/* Training over ranks, each a thread of this process: the same bits as in one process, on the
 * processor and on the fake device; ends, losses, refusals. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/doubles/fake_device.h"
#include "tests/doubles/thread_ranks.h"
#include "tests/train_case.h"

#define RANKS_MAX 4

#define LIMIT_S 120.0 /* limit where no rank should wait long */

/* One rank of a run. */
typedef struct member {
    dl_train_config config;
    const dl_train_observer *observer;
    dl_train_result result;
    dl_status status;
    dl_error err;
    pthread_t thread;
} member;

static void *run_member(void *argument)
{
    member *m = argument;
    m->status = dl_train_run(&m->config, &data, m->observer, &m->result, &m->err);
    m->config.ranks->leave(m->config.ranks, m->status == DL_OK ? NULL : &m->err);
    return NULL;
}

static void set_up(member *members, int ranks, const dl_train_config *config)
{
    for (int r = 0; r < ranks; r++)
        members[r] = (member){.config = *config};
}

static void run_with_limit(member *members, int count, double limit_s)
{
    thread_ranks *ranks = thread_ranks_make(count, limit_s);
    for (int r = 0; r < count; r++)
        members[r].config.ranks = thread_ranks_join(ranks, r);
    for (int r = 0; r < count; r++)
        assert_int_equal(pthread_create(&members[r].thread, NULL, run_member, &members[r]), 0);
    for (int r = 0; r < count; r++)
        pthread_join(members[r].thread, NULL);
    thread_ranks_free(ranks);
}

static void run_members(member *members, int count)
{
    run_with_limit(members, count, LIMIT_S);
}

static void check_like_one_process(const dl_train_config *config, int ranks)
{
    member members[RANKS_MAX];
    DL_SCOPED(dl_train_result) expected = run(config, NULL);
    set_up(members, ranks, config);
    run_members(members, ranks);
    for (int r = 0; r < ranks; r++) {
        member *m = &members[r];
        if (m->status != DL_OK) fail_msg("rank %d: %s", r, m->err.text);
        assert_true(same_bits(&m->result, &expected));
        assert_true(m->result.first_loss == expected.first_loss);
        assert_true(m->result.last_loss == expected.last_loss);
        assert_int_equal(m->result.samples, expected.samples);
        assert_int_equal(m->result.updates, expected.updates);
        assert_int_equal(m->result.steps_done[0], expected.steps_done[r * m->result.worker_count]);
        dl_train_result_free(&m->result);
    }
}

static dl_train_config ranks_config(dl_sync sync, int workers)
{
    dl_train_config config = small_config();
    config.optimizer.momentum = 0.5;
    config.sync = sync;
    config.workers = workers;
    config.interval = 3;
    config.average_state = true;
    config.drop_epochs = 1.5;
    config.wait = DL_WAIT_BLOCK; /* more threads than cores */
    config.steps = 8;
    return config;
}

/* 8 steps with an interval of 3: the run ends between two averages. */
static void ranks_give_one_processs_bits(void **state DL_UNUSED)
{
    static const int cases[][2] = {{2, 4}, {1, 1}, {2, 2}, {3, 6}, {4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int precision = i == 0 ? DL_FLOAT : DL_DOUBLE; precision <= DL_DOUBLE; precision++) {
            dl_train_config config = ranks_config(DL_SYNC_ALLREDUCE, cases[i][1]);
            config.precision = (dl_precision)precision;
            check_like_one_process(&config, cases[i][0]);
            config.sync = DL_SYNC_AVERAGE;
            check_like_one_process(&config, cases[i][0]);
            config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
            check_like_one_process(&config, cases[i][0]);
        }
    }
}

/* Fragments, lags and messages: 8 steps end between two averages, all of which are then merged.
 * Each kind of message is tested with each lag in one of the cases, and with no lag in another. */
static void ranks_average_fragments_late_and_quantised(void **state DL_UNUSED)
{
    static const int cases[][2] = {{2, 4}, {3, 6}, {4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int kind = DL_QUANTISE_NONE; kind < DL_QUANTISE_COUNT; kind++) {
            dl_train_config config = ranks_config(DL_SYNC_AVERAGE, cases[i][1]);
            config.precision = kind % 2 == 0 ? DL_FLOAT : DL_DOUBLE;
            config.interval = 6;
            config.fragments = 3;
            config.average_state = kind == DL_QUANTISE_NONE;
            config.quantise = (dl_quantise)kind;
            config.topk_frac = 0.1;
            if (kind % 3 == (int)i) check_like_one_process(&config, cases[i][0]);
            config.average_state = false;
            config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
            config.lag = 1 + 2 * ((kind + (int)i) % 3);
            check_like_one_process(&config, cases[i][0]);
        }
    }
}

/* Two levels: a rank is a site, or has several; each kind of message in two of the cases. 8 steps
 * with an interval of 6: the run ends between two averages. */
static void sites_are_within_ranks(void **state DL_UNUSED)
{
    static const struct {
        int ranks, workers, sites;
    } cases[] = {{2, 4, 2}, {2, 4, 4}, {3, 12, 6}, {1, 4, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int kind = (int)i % 2; kind < DL_QUANTISE_COUNT; kind += 2) {
            dl_train_config config = ranks_config(DL_SYNC_AVERAGE, cases[i].workers);
            config.sites = cases[i].sites;
            config.interval = 6;
            config.fragments = 3;
            config.average_state = kind == DL_QUANTISE_NONE;
            config.quantise = (dl_quantise)kind;
            config.topk_frac = 0.1;
            config.outer = (dl_outer_config){(dl_outer)(kind % 3), 0.7, 0.9};
            check_like_one_process(&config, cases[i].ranks);
        }
    }
}

/* The fastest worker is in another rank than most workers; a stop is agreed by all ranks. */
static void intervals_by_speed_are_of_all_ranks(void **state DL_UNUSED)
{
    static const double slow[] = {2, 2, 1, 4};
    dl_train_config config = ranks_config(DL_SYNC_AVERAGE, 4);
    config.interval = 4;
    config.steps = 16;
    config.interval_by_speed = true;
    config.slow = slow;
    check_like_one_process(&config, 2);
    check_like_one_process(&config, 4);
}

/* Records seen by one rank's observer, from several threads. */
typedef struct seen {
    uint32_t first;
    atomic_uint workers;          /* bit set */
    atomic_int averages, vectors; /* number of averages; vectors of the last one */
    atomic_int barriers_of_first;
} seen;

static void look(void *user, const dl_record *record)
{
    seen *s = user;
    atomic_fetch_or(&s->workers, 1u << record->worker);
    if (record->kind == DL_RECORD_AVERAGE) {
        atomic_fetch_add(&s->averages, 1);
        atomic_store(&s->vectors, (int)record->vectors);
    }
    if (record->kind == DL_RECORD_WAIT && record->worker == s->first) {
        atomic_fetch_add(&s->barriers_of_first, 1);
    }
}

/* Workers are numbered over all ranks. In each step a rank's first worker waits twice for its other
 * worker and once for the other ranks. */
static void records_are_of_the_whole_run(void **state DL_UNUSED)
{
    const dl_train_config config = ranks_config(DL_SYNC_ALLREDUCE, 4);
    member members[2];
    seen seen_by[2] = {{.first = 0}, {.first = 2}};
    dl_train_observer observers[2];
    set_up(members, 2, &config);
    for (int r = 0; r < 2; r++) {
        observers[r] = (dl_train_observer){.user = &seen_by[r], .record = look};
        members[r].observer = &observers[r];
        members[r].config.slow = NULL;
    }
    run_members(members, 2);
    for (int r = 0; r < 2; r++) {
        if (members[r].status != DL_OK) fail_msg("rank %d: %s", r, members[r].err.text);
        assert_int_equal(seen_by[r].workers, r == 0 ? 3 : 12);
        assert_int_equal(seen_by[r].averages, config.steps);
        assert_int_equal(seen_by[r].vectors, 4);
        assert_int_equal(seen_by[r].barriers_of_first, 3 * config.steps);
        dl_train_result_free(&members[r].result);
    }
}

/* Only rank 1 is asked to stop: all ranks do the same number of steps, fewer than requested. */
static void a_stop_is_agreed(void **state DL_UNUSED)
{
    static const dl_sync modes[] = {DL_SYNC_ALLREDUCE, DL_SYNC_AVERAGE};
    for (int i = 0; i < 2; i++) {
        const dl_train_config config = ranks_config(modes[i], 4);
        atomic_bool stop = true;
        member members[2];
        set_up(members, 2, &config);
        members[1].config.stop = &stop;
        run_members(members, 2);
        for (int r = 0; r < 2; r++) {
            if (members[r].status != DL_OK) fail_msg("rank %d: %s", r, members[r].err.text);
            for (int w = 0; w < 2; w++)
                assert_int_equal(members[r].result.steps_done[w], i == 0 ? 2 : 6);
            dl_train_result_free(&members[r].result);
        }
    }
}

/* Abandons the group in the rank's third step. */
static void go(void *user, const dl_record *record)
{
    member *m = user;
    if (record->step == 2 && record->kind == DL_RECORD_INPUT) {
        const dl_error why = {.code = DL_ERR_SYSTEM, .text = "it goes"};
        m->config.ranks->abandon(m->config.ranks, &why);
    }
}

static void a_lost_rank_ends_the_run(void **state DL_UNUSED)
{
    static const dl_sync modes[] = {DL_SYNC_ALLREDUCE, DL_SYNC_AVERAGE};
    for (int i = 0; i < 2; i++) {
        const dl_train_config config = ranks_config(modes[i], 6);
        member members[3];
        set_up(members, 3, &config);
        const dl_train_observer observer = {.user = &members[1], .record = go};
        members[1].observer = &observer;
        run_members(members, 3);
        for (int r = 0; r < 3; r++)
            assert_int_equal(members[r].status, DL_ERR_SYSTEM);
        for (int r = 0; r < 3; r += 2)
            assert_string_equal(members[r].err.text, "rank 1 has failed: it goes");
    }
}

/* A rank that cannot set up its run reports it to the others. */
static void all_start_or_none(void **state DL_UNUSED)
{
    const dl_train_config config = ranks_config(DL_SYNC_ALLREDUCE, 2);
    member members[2];
    set_up(members, 2, &config);
    members[1].config.model = "lenet";         /* another model, which accepts the same data */
    members[1].config.optimizer.name = "none"; /* this optimizer does not exist */
    run_members(members, 2);
    assert_int_equal(members[1].status, DL_ERR_NAME);
    assert_int_equal(members[0].status, DL_ERR_SYSTEM);
}

static dl_train_config device_config(dl_sync sync, int workers)
{
    dl_train_config config = ranks_config(sync, workers);
    config.steps = 14;
    config.device = &fake_device;
    config.where = DL_TRAIN_WHERE_ALLREDUCE;
    return config;
}

/* Devices that reduce among themselves over ranks, and devices that exchange on the host. */
static void devices_give_one_processs_bits(void **state DL_UNUSED)
{
    static const int cases[][2] = {{2, 4}, {3, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (dl_sync sync = DL_SYNC_ALLREDUCE; sync <= DL_SYNC_AVERAGE; sync++) {
            if (sync == DL_SYNC_PS) continue;
            for (int where = DL_TRAIN_WHERE_CPU; where <= DL_TRAIN_WHERE_ALLREDUCE; where++) {
                if (where == DL_TRAIN_WHERE_GPU) continue;
                dl_train_config config = device_config(sync, cases[i][1]);
                config.where = (dl_train_where)where;
                fake_device_set(8, -1);
                check_like_one_process(&config, cases[i][0]);
                config.dispatch = DL_DISPATCH_SINGLE;
                check_like_one_process(&config, cases[i][0]);
                assert_int_equal(fake_device_leaks(), 0);
            }
        }
    }
}

/* The ranks of one host use consecutive devices. */
static void devices_are_shared_out(void **state DL_UNUSED)
{
    int opened[10] = {0};
    const dl_train_config config = device_config(DL_SYNC_ALLREDUCE, 4);
    member members[2];
    fake_device_set(8, -1);
    set_up(members, 2, &config);
    run_members(members, 2);
    for (int r = 0; r < 2; r++) {
        if (members[r].status != DL_OK) fail_msg("rank %d: %s", r, members[r].err.text);
        dl_train_result_free(&members[r].result);
    }
    for (const char *digit = fake_device_opened(); *digit != '\0'; digit++)
        opened[*digit - '0']++;
    for (int d = 0; d < 10; d++)
        assert_int_equal(opened[d], d < 4);
}

static void stops_of_devices_are_agreed(void **state DL_UNUSED)
{
    for (int dispatch = DL_DISPATCH_THREADS; dispatch <= DL_DISPATCH_SINGLE; dispatch++) {
        dl_train_config config = device_config(DL_SYNC_ALLREDUCE, 4);
        config.dispatch = (dl_dispatch)dispatch;
        atomic_bool stop = true;
        member members[2];
        fake_device_set(4, -1);
        set_up(members, 2, &config);
        members[1].config.stop = &stop;
        run_members(members, 2);
        for (int r = 0; r < 2; r++) {
            if (members[r].status != DL_OK) fail_msg("rank %d: %s", r, members[r].err.text);
            for (int w = 0; w < 2; w++)
                assert_int_equal(members[r].result.steps_done[w], 2);
            dl_train_result_free(&members[r].result);
        }
    }
}

/* All devices fail one after another, starting in one of the ranks: one rank reports the failure,
 * the others a lost rank. */
static void a_broken_device_ends_all_ranks(void **state DL_UNUSED)
{
    static const long broken_at[] = {200, 333, 700};
    for (size_t i = 0; i < sizeof broken_at / sizeof *broken_at; i++) {
        const dl_train_config config = device_config(DL_SYNC_ALLREDUCE, 4);
        member members[2];
        fake_device_set(4, broken_at[i]);
        set_up(members, 2, &config);
        run_members(members, 2);
        bool told = false;
        for (int r = 0; r < 2; r++) {
            assert_int_equal(members[r].status, DL_ERR_SYSTEM);
            told |= strstr(members[r].err.text, "broke") != NULL;
        }
        if (!told) fail_msg("'%s', '%s'", members[0].err.text, members[1].err.text);
        assert_int_equal(fake_device_leaks(), 0);
    }
}

/* A device that fails during the set-up, on the fifth call: the other rank names the reason. */
static void a_rank_that_cannot_start_ends_all_ranks(void **state DL_UNUSED)
{
    const dl_train_config config = device_config(DL_SYNC_ALLREDUCE, 4);
    member members[2];
    fake_device_set(4, 5);
    set_up(members, 2, &config);
    run_members(members, 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(members[r].status, DL_ERR_SYSTEM);
        if (strstr(members[r].err.text, "broke") == NULL)
            fail_msg("rank %d: '%s'", r, members[r].err.text);
    }
    assert_int_equal(fake_device_leaks(), 0);
}

/* With one thread for all workers, the fake device's reductions block the host, unlike real ones: a
 * rank whose device has failed waits for a rank that waits for this device, until the limit ends
 * both. */
static void a_rank_that_hangs_ends_all_ranks(void **state DL_UNUSED)
{
    dl_train_config config = device_config(DL_SYNC_ALLREDUCE, 4);
    config.dispatch = DL_DISPATCH_SINGLE;
    member members[2];
    fake_device_set(4, 700);
    set_up(members, 2, &config);
    run_with_limit(members, 2, 1);
    for (int r = 0; r < 2; r++)
        assert_int_equal(members[r].status, DL_ERR_SYSTEM);
    assert_int_equal(fake_device_leaks(), 0);
}

static void a_reduction_that_cannot_be_named_ends_all_ranks(void **state DL_UNUSED)
{
    const dl_train_config config = device_config(DL_SYNC_ALLREDUCE, 2);
    member members[2];
    fake_device_set(2, -1);
    fake_device_refuse_ids(true);
    set_up(members, 2, &config);
    run_members(members, 2);
    fake_device_refuse_ids(false);
    assert_string_equal(members[0].err.text, "no fake id");
    /* Or the loss of rank 0, if that is noticed first. */
    if (strstr(members[1].err.text, "rank 0 could not start a reduction") == NULL)
        assert_string_equal(members[1].err.text, "rank 0 has failed: no fake id");
    assert_int_equal(fake_device_leaks(), 0);
}

static void settings_are_checked(void **state DL_UNUSED)
{
    static const struct {
        dl_sync sync;
        int workers, server_threads;
        dl_quantise quantise;
        int sites, lag;
        const char *text;
    } wrong[] = {
        {DL_SYNC_ALLREDUCE, 3, 1, DL_QUANTISE_NONE, 0, 0,
         "3 workers cannot be shared equally by 2 ranks"},
        {DL_SYNC_NONE, 2, 1, DL_QUANTISE_NONE, 0, 0, "none exchanges nothing between ranks"},
        {DL_SYNC_PS, 2, 1, DL_QUANTISE_NONE, 0, 0, "ps needs a server"},
        {DL_SYNC_ASYNC, 2, 1, DL_QUANTISE_NONE, 0, 0, "async needs a server"},
        {DL_SYNC_SOFTSYNC, 2, 1, DL_QUANTISE_NONE, 0, 0, "softsync needs a server"},
        {DL_SYNC_ALLREDUCE, 2, 1, DL_QUANTISE_FP16, 0, 0, "cannot be compressed between ranks"},
        {DL_SYNC_AVERAGE, 2, 2, DL_QUANTISE_NONE, 0, 0, "must be 1 over several ranks"},
        {DL_SYNC_AVERAGE, 4, 1, DL_QUANTISE_NONE, 1, 0, "1 sites over 2 ranks"},
        {DL_SYNC_AVERAGE, 4, 1, DL_QUANTISE_NONE, 2, 1, "cannot be combined with --lag"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dl_train_config config = ranks_config(wrong[i].sync, wrong[i].workers);
        member members[2];
        config.server_threads = wrong[i].server_threads;
        config.quantise = wrong[i].quantise;
        config.sites = wrong[i].sites;
        config.lag = wrong[i].lag;
        set_up(members, 2, &config);
        run_members(members, 2);
        for (int r = 0; r < 2; r++) {
            assert_true(members[r].status == DL_ERR_UNSUPPORTED ||
                        members[r].status == DL_ERR_RANGE);
            assert_contains(members[r].err.text, wrong[i].text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_one_processs_bits),
        cmocka_unit_test(ranks_average_fragments_late_and_quantised),
        cmocka_unit_test(sites_are_within_ranks),
        cmocka_unit_test(intervals_by_speed_are_of_all_ranks),
        cmocka_unit_test(records_are_of_the_whole_run),
        cmocka_unit_test(a_stop_is_agreed),
        cmocka_unit_test(a_lost_rank_ends_the_run),
        cmocka_unit_test(all_start_or_none),
        cmocka_unit_test(devices_give_one_processs_bits),
        cmocka_unit_test(devices_are_shared_out),
        cmocka_unit_test(stops_of_devices_are_agreed),
        cmocka_unit_test(a_broken_device_ends_all_ranks),
        cmocka_unit_test(a_rank_that_cannot_start_ends_all_ranks),
        cmocka_unit_test(a_rank_that_hangs_ends_all_ranks),
        cmocka_unit_test(a_reduction_that_cannot_be_named_ends_all_ranks),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
