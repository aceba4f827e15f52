/* The syncer's rules: when it merges which uploads, at times given by the tests. */
#include <math.h>

#include "tests/check.h"

#include "common/merge.h"

#define S INT64_C(1000000000)

static dl_merger merger_of(dl_merge_config config, int64_t bound, int workers)
{
    dl_merger m;
    dl_merger_init(&m, &config, bound, workers);
    return m;
}

/* With a quorum of two of three a single upload waits; the second one starts the merge, which takes
 * the uploads in the order of their arrival. */
static void a_quorum_starts_a_merge(void **state DL_UNUSED)
{
    DL_SCOPED(dl_merger) m = merger_of((dl_merge_config){.quorum = 2}, -1, 3);
    int64_t next = 0;
    dl_merger_submit(&m, 2, 9, 0, S);
    assert_int_equal(dl_merger_look(&m, 1 * S, &next), 0);
    assert_int_equal(next, INT64_MAX);
    dl_merger_submit(&m, 0, 9, 0, S);
    assert_int_equal(dl_merger_look(&m, 2 * S, &next), 2);
    assert_int_equal(m.chosen[0], 2);
    assert_int_equal(m.chosen[1], 0);
    assert_false(m.uploads[0].lies || m.uploads[2].lies);
    assert_int_equal(m.version, 0);
    dl_merger_publish(&m);
    assert_int_equal(m.version, 1);
    assert_int_equal(dl_merger_look(&m, 3 * S, &next), 0);
}

/* A quorum of one waits 5 s for more uploads: until 5 s after the first was seen, or until all are
 * there. */
static void grace_ends_by_time_or_when_all_are_there(void **state DL_UNUSED)
{
    DL_SCOPED(dl_merger) m = merger_of((dl_merge_config){.quorum = 1, .grace_s = 5}, -1, 2);
    int64_t next = 0;
    dl_merger_submit(&m, 0, 0, 0, S);
    assert_int_equal(dl_merger_look(&m, 10 * S, &next), 0);
    assert_int_equal(next, 15 * S);
    assert_int_equal(dl_merger_look(&m, 14 * S, &next), 0);
    assert_int_equal(next, 15 * S);
    assert_int_equal(dl_merger_look(&m, 15 * S, &next), 1);
    dl_merger_publish(&m);
    dl_merger_submit(&m, 0, 1, 1, S);
    assert_int_equal(dl_merger_look(&m, 20 * S, &next), 0);
    dl_merger_submit(&m, 1, 1, 0, S);
    assert_int_equal(dl_merger_look(&m, 21 * S, &next), 2);
}

/* Adaptive: learner 0, seen at 10 s, took 3 s for its interval, and is expected again at 13 s. The
 * scan every 2 s is earlier, at 12 s. An interval of 9 s does not prolong the grace time of 5 s. */
static void adaptive_grace_ends_when_one_is_due_again(void **state DL_UNUSED)
{
    DL_SCOPED(dl_merger) m = merger_of(
        (dl_merge_config){.quorum = 1, .grace_s = 5, .adaptive = true, .scan_s = 2}, -1, 2);
    int64_t next = 0;
    assert_int_equal(dl_merger_look(&m, 8 * S, &next), 0);
    assert_int_equal(next, 10 * S);
    dl_merger_submit(&m, 0, 0, 0, 3 * S);
    assert_int_equal(dl_merger_look(&m, 10 * S, &next), 0);
    assert_int_equal(next, 12 * S);
    assert_int_equal(dl_merger_look(&m, 12 * S, &next), 0);
    assert_int_equal(next, 13 * S);
    assert_int_equal(dl_merger_look(&m, 13 * S, &next), 1);
    dl_merger_publish(&m);
    dl_merger_submit(&m, 0, 1, 1, 9 * S);
    assert_int_equal(dl_merger_look(&m, 20 * S, &next), 0);
    assert_int_equal(dl_merger_look(&m, 25 * S, &next), 1);
}

/* A merge takes at most quorum_max uploads, the oldest. */
static void the_rest_waits_for_the_next_merge(void **state DL_UNUSED)
{
    DL_SCOPED(dl_merger) m = merger_of((dl_merge_config){.quorum = 1, .quorum_max = 2}, -1, 3);
    int64_t next = 0;
    for (int w = 2; w >= 0; w--)
        dl_merger_submit(&m, w, 0, 0, S);
    assert_int_equal(dl_merger_look(&m, S, &next), 2);
    assert_int_equal(m.chosen[0], 2);
    assert_int_equal(m.chosen[1], 1);
    dl_merger_publish(&m);
    assert_int_equal(dl_merger_look(&m, S, &next), 1);
    assert_int_equal(m.chosen[0], 0);
    assert_int_equal(m.version - m.uploads[0].base, 1);
}

/* A quorum of more uploads than there are learners is one of all: two. At the end an upload is
 * taken without it. */
static void the_last_uploads_need_no_quorum(void **state DL_UNUSED)
{
    DL_SCOPED(dl_merger) m = merger_of((dl_merge_config){.quorum = 9}, -1, 2);
    int64_t next = 0;
    assert_int_equal(dl_merger_take(&m, S), 0);
    dl_merger_submit(&m, 1, 0, 0, S);
    assert_int_equal(dl_merger_look(&m, S, &next), 0);
    assert_int_equal(dl_merger_take(&m, S), 1);
    assert_int_equal(m.chosen[0], 1);
    dl_merger_submit(&m, 0, 0, 0, S);
    dl_merger_submit(&m, 1, 1, 0, S);
    assert_int_equal(dl_merger_look(&m, S, &next), 2);
}

/* Learner 1's upload, based on version 0, waits when version 1 is made. It is older than learner
 * 0's, which is fresh; but with a bound of 0 it is too stale, and lost with the next version.
 * Weights are 1/(1 + s). */
static void stale_uploads_are_weighted_or_lost(void **state DL_UNUSED)
{
    for (int64_t bound = 0; bound <= 1; bound++) {
        dl_merger m =
            merger_of((dl_merge_config){.quorum = 1, .quorum_max = 1, .weight_power = 1}, bound, 2);
        int64_t next = 0;
        dl_merger_submit(&m, 0, 0, 0, S);
        assert_int_equal(dl_merger_look(&m, S, &next), 1);
        dl_merger_publish(&m);
        dl_merger_submit(&m, 1, 0, 0, S);
        dl_merger_submit(&m, 0, 1, 1, S);
        assert_int_equal(dl_merger_look(&m, S, &next), 1);
        assert_int_equal(m.chosen[0], bound == 0 ? 0 : 1);
        const int64_t staleness = m.version - m.uploads[m.chosen[0]].base;
        assert_true(dl_merge_weight(&m.config, staleness) == (bound == 0 ? 1 : 0.5));
        assert_int_equal(dl_merger_publish(&m), bound == 0);
        if (bound == 0) assert_int_equal(m.chosen[0], 1);
        assert_false(m.uploads[1].lies);
        assert_int_equal(m.uploads[0].lies, bound == 1);
        dl_merger_free(&m);
    }
}

/* A second upload of a learner replaces the first one, but not an upload that is being merged. */
static void newer_uploads_supersede(void **state DL_UNUSED)
{
    DL_SCOPED(dl_merger) m = merger_of((dl_merge_config){.quorum = 2}, -1, 2);
    int64_t next = 0;
    dl_merger_submit(&m, 0, 4, 0, S);
    dl_merger_submit(&m, 0, 9, 0, S);
    dl_merger_submit(&m, 1, 4, 0, S);
    assert_int_equal(dl_merger_look(&m, S, &next), 2);
    assert_int_equal(m.uploads[0].step, 9);
    dl_merger_submit(&m, 0, 14, 0, S);
    assert_int_equal(dl_merger_publish(&m), 0);
    assert_true(m.uploads[0].lies);
    assert_false(m.uploads[1].lies);
    assert_int_equal(m.uploads[0].step, 14);
}

static void bad_settings_are_refused(void **state DL_UNUSED)
{
    const struct {
        dl_merge_config config;
        const char *text;
    } bad[] = {
        {{.quorum = 0}, "quorum 0; must be 1 to 3"},
        {{.quorum = 4}, "quorum 4; must be 1 to 3"},
        {{.quorum = 2, .quorum_max = 1}, "at most 1 uploads per merge; must be 2, the quorum"},
        {{.quorum = 2, .quorum_max = 4}, "to 3"},
        {{.quorum = 1, .grace_s = -1}, "grace time -1"},
        {{.quorum = 1, .scan_s = (double)NAN}, "scan time"},
        {{.quorum = 1, .wait_s = 1e10}, "wait time"},
        {{.quorum = 1, .weight_power = -1}, "weight power -1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dl_error err = {0};
        assert_int_equal(dl_merge_check(&bad[i].config, 3, &err), DL_ERR_RANGE);
        if (strstr(err.text, bad[i].text) == NULL) fail_msg("%s", err.text);
    }
    dl_error err = {0};
    assert_int_equal(dl_merge_check(&(dl_merge_config){.quorum = 3, .quorum_max = 3}, 3, &err),
                     DL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quorum_starts_a_merge),
        cmocka_unit_test(grace_ends_by_time_or_when_all_are_there),
        cmocka_unit_test(adaptive_grace_ends_when_one_is_due_again),
        cmocka_unit_test(the_rest_waits_for_the_next_merge),
        cmocka_unit_test(the_last_uploads_need_no_quorum),
        cmocka_unit_test(stale_uploads_are_weighted_or_lost),
        cmocka_unit_test(newer_uploads_supersede),
        cmocka_unit_test(bad_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
