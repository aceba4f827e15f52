/* Ranks over the loopback, each a thread with its own group: sums, meetings, losses, strangers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/free_port.h"

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/exchange.h"
#include "kernels/ranks/rank_group.h"
#include "kernels/ranks/rank_socket.h"

#define RANKS 4
#define LIMIT_S 120.0 /* where nothing is meant to be waited for */
/* Where something is, from the least limit on, until the machine is fast enough for the rest. */
#define LEAST_LIMIT_S 1.0

/* One rank of a case. */
typedef struct member {
    dl_rank_settings settings;
    int (*work)(struct member *member); /* 0: went well */
    dl_rank_group *group;
    dl_status status; /* of joining; then as `work` sets it */
    dl_error err;
    pthread_t thread;
} member;

static void *run_member(void *argument)
{
    member *m = argument;
    m->status = dl_rank_group_join(&m->group, &m->settings, &m->err);
    const bool well = m->status == DL_OK && m->work(m) == 0;
    dl_rank_group_leave(m->group, well);
    return NULL;
}

static void set_up(member *members, int size, int (*work)(member *))
{
    const int port = free_port();
    for (int r = 0; r < size; r++) {
        members[r] = (member){.work = work,
                              .settings = {.rank = r,
                                           .size = size,
                                           .host = "127.0.0.1",
                                           .port = port,
                                           .limit_s = LIMIT_S,
                                           .run = "test",
                                           .settings = "equal"}};
    }
}

static void run_members(member *members, int count)
{
    for (int r = 0; r < count; r++)
        assert_int_equal(pthread_create(&members[r].thread, NULL, run_member, &members[r]), 0);
    for (int r = 0; r < count; r++)
        pthread_join(members[r].thread, NULL);
}

static void all_went_well(const member *members, int count)
{
    for (int r = 0; r < count; r++)
        if (members[r].status != DL_OK) fail_msg("rank %d: %s", r, members[r].err.text);
}

/* Numbers whose sum depends on the order in which they are added. */
static float number(int vector, size_t i)
{
    return (float)((vector + 1) * 1e-3 + (double)(i % 977) * 0.37 + (vector % 3) * 1e4);
}

#define VECTORS 3 /* of each rank */
/* More than one piece, and no whole number of them. */
#define COUNT 100003

static float *vector_of(int vector)
{
    float *made = dl_calloc(COUNT, sizeof *made, "vector");
    for (size_t i = 0; i < COUNT; i++)
        made[i] = number(vector, i);
    return made;
}

/* The ranks' sum has the bits of one average of all vectors in one process. */
static int sum_like_one_process(member *m)
{
    const int all = m->settings.size * VECTORS;
    const void *vectors[RANKS * VECTORS];
    float *expected = dl_calloc(COUNT, sizeof *expected, "expected");
    float *actual = dl_calloc(COUNT, sizeof *actual, "actual");
    for (int v = 0; v < all; v++)
        vectors[v] = vector_of(v);
    dl_exchange_average(expected, vectors, all, 0, COUNT, DL_FLOAT);
    for (int again = 0; again < 3 && m->status == DL_OK; again++) {
        memset(actual, 0, COUNT * sizeof *actual);
        m->status = dl_rank_group_sum(m->group, actual, vectors + m->settings.rank * VECTORS,
                                      VECTORS, all, COUNT, DL_FLOAT, &m->err);
        if (m->status == DL_OK && memcmp(actual, expected, COUNT * sizeof *actual) != 0) {
            m->status = dl_error_set(&m->err, DL_ERR_DATA, "other bits");
        }
    }
    for (int v = 0; v < all; v++)
        free((void *)(uintptr_t)vectors[v]);
    free(expected);
    free(actual);
    return m->status != DL_OK;
}

static void sums_have_one_processs_bits(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        member members[RANKS];
        set_up(members, size, sum_like_one_process);
        run_members(members, size);
        all_went_well(members, size);
    }
}

/* Everything once: who is on this host, agreement, broadcast, gathering, a sum of doubles. */
static int do_everything(member *m)
{
    const int rank = m->settings.rank, size = m->settings.size;
    dl_rank_group *group = m->group;
    bool nobody = true, somebody = false;
    int number_0 = rank == 0 ? 77 : -1, own[2] = {rank, rank * rank}, all[RANKS][2] = {{0}};
    const double value = rank + 1;
    const void *vector = &value;
    double sum = 0;
    bool good = dl_rank_group_rank(group) == rank && dl_rank_group_size(group) == size &&
                dl_rank_group_local_rank(group) == rank && dl_rank_group_local_size(group) == size;
    good &= dl_rank_group_agree(group, false, &nobody, &m->err) == DL_OK && !nobody;
    good &= dl_rank_group_agree(group, rank == size - 2, &somebody, &m->err) == DL_OK &&
            somebody == (size > 1);
    good &= dl_rank_group_broadcast(group, &number_0, sizeof number_0, &m->err) == DL_OK &&
            number_0 == 77;
    good &= dl_rank_group_gather(group, own, rank == 0 ? all : NULL, sizeof own, &m->err) == DL_OK;
    for (int r = 0; rank == 0 && r < size; r++)
        good &= all[r][0] == r && all[r][1] == r * r;
    good &= !dl_rank_group_lost(group);
    good &= dl_rank_group_sum(group, &sum, &vector, 1, 1, 1, DL_DOUBLE, &m->err) == DL_OK &&
            sum == size * (size + 1) / 2.0;
    if (!good && m->err.code == DL_OK) dl_error_set(&m->err, DL_ERR_DATA, "wrong result");
    m->status = good ? DL_OK : m->err.code;
    return !good;
}

static void ranks_tell_one_another(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        member members[RANKS];
        set_up(members, size, do_everything);
        run_members(members, size);
        all_went_well(members, size);
    }
}

/* Rank 2 goes without a word in the middle of it. */
static int one_goes(member *m)
{
    float zero[2] = {0}, sum[2];
    const void *vector = zero;
    bool any = false;
    m->status = dl_rank_group_agree(m->group, false, &any, &m->err);
    if (m->settings.rank == 2) return 1;
    if (m->status == DL_OK) {
        m->status = dl_rank_group_sum(m->group, sum, &vector, 1, 1, 2, DL_FLOAT, &m->err);
    }
    const bool lost = dl_rank_group_lost(m->group);
    dl_error again = {0};
    const bool same = dl_rank_group_agree(m->group, false, &any, &again) == m->status &&
                      strcmp(again.text, m->err.text) == 0;
    if (!lost || !same) m->status = DL_OK;
    return 1;
}

static void all_learn_who_is_lost(void **state)
{
    (void)state;
    member members[RANKS];
    set_up(members, RANKS, one_goes);
    run_members(members, RANKS);
    for (int r = 0; r < RANKS; r++) {
        if (r == 2) continue;
        assert_int_equal(members[r].status, DL_ERR_SYSTEM);
        assert_contains(members[r].err.text, "rank 2 on ");
        assert_contains(members[r].err.text, "has gone");
    }
}

/* Rank 1 does nothing for longer than the limit. */
static int one_hangs(member *m)
{
    bool any = false;
    if (m->settings.rank == 1) {
        while (!dl_rank_group_lost(m->group))
            usleep(1000);
        return 1;
    }
    m->status = dl_rank_group_agree(m->group, false, &any, &m->err);
    return 1;
}

/* Who waits out the limit first says that rank 1 hangs, and ends; the other may see only that. Not so
 * where the ranks have not even come together within the limit. */
static bool one_is_told_to_hang(double limit_s)
{
    member members[3];
    set_up(members, 3, one_hangs);
    members[0].settings.limit_s = members[2].settings.limit_s = limit_s;
    run_members(members, 3);
    char hanging[64];
    snprintf(hanging, sizeof hanging, "for %g s: it hangs, or waits for one that does", limit_s);
    int told = 0, gone = 0;
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(members[r].status, DL_ERR_SYSTEM);
        told += strstr(members[r].err.text, hanging) != NULL;
        gone += strstr(members[r].err.text, "has gone") != NULL;
    }
    return told >= 1 && told + gone == 2;
}

static void nobody_waits_for_ever(void **state)
{
    (void)state;
    double limit_s = LEAST_LIMIT_S;
    while (!one_is_told_to_hang(limit_s) && limit_s < LIMIT_S)
        limit_s *= 2;
    assert_true(limit_s < LIMIT_S);
}

/* Rank 0 adds up another number of numbers. */
static int do_different_things(member *m)
{
    const float values[3] = {1, 2, 3};
    const void *vector = values;
    float sum[3];
    const size_t count = m->settings.rank == 0 ? 2 : 3;
    m->status = dl_rank_group_sum(m->group, sum, &vector, 1, 1, count, DL_FLOAT, &m->err);
    return 1;
}

static int end_too_early(member *m)
{
    bool any;
    if (m->settings.rank == 0) return 0;
    m->status = dl_rank_group_agree(m->group, false, &any, &m->err);
    return 1;
}

static void ranks_must_do_the_same(void **state)
{
    (void)state;
    member members[2];
    set_up(members, 2, do_different_things);
    run_members(members, 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(members[r].status, DL_ERR_SYSTEM);
        assert_contains(members[r].err.text, "ranks 0 and 1 do not do the same: operation 1 of 8");
    }
    set_up(members, 2, end_too_early);
    run_members(members, 2);
    assert_int_equal(members[1].status, DL_ERR_SYSTEM);
    assert_contains(members[1].err.text, "rank 0 on ");
    assert_contains(members[1].err.text, "has ended its part, but rank 1 has not");
}

static int do_nothing(member *m)
{
    (void)m;
    return 0;
}

/* Of four ranks, two come; both who came say who is missing. */
static void who_does_not_come_is_named(void **state)
{
    (void)state;
    member members[RANKS];
    bool named = false;
    for (double limit_s = LEAST_LIMIT_S; !named && limit_s < LIMIT_S; limit_s *= 2) {
        set_up(members, RANKS, do_nothing);
        members[0].settings.limit_s = limit_s;
        members[1] = members[2];
        run_members(members, 2);
        assert_int_equal(members[0].status, DL_ERR_SYSTEM);
        named = true;
        for (int r = 0; r < 2; r++)
            named &=
                strstr(members[r].err.text, "ranks 1, 3 of 4 did not come to 127.0.0.1:") != NULL;
    }
    assert_true(named);

    set_up(members, 2, do_nothing);
    members[1].settings.limit_s = LEAST_LIMIT_S;
    (void)run_member(&members[1]);
    assert_int_equal(members[1].status, DL_ERR_SYSTEM);
    assert_contains(members[1].err.text, "rank 0 cannot be reached at 127.0.0.1:");
}

static void ranks_must_agree_in_settings(void **state)
{
    (void)state;
    member members[3];
    set_up(members, 2, do_nothing);
    members[1].settings.settings = "other";
    run_members(members, 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(members[r].status, DL_ERR_DATA);
        assert_contains(members[r].err.text, "was started with other options");
    }
    static const struct {
        const char *own, *other, *difference;
    } cases[] = {{"train steps=20 seed=1", "train steps=30 seed=1", ": steps=30, not steps=20"},
                 {"train steps=20", "train steps=20 evaluate", ": evaluate, not nothing"},
                 {"train evaluate", "train", ": nothing, not evaluate"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_up(members, 2, do_nothing);
        members[0].settings.settings = cases[i].own;
        members[1].settings.settings = cases[i].other;
        run_members(members, 2);
        for (int r = 0; r < 2; r++)
            assert_contains(members[r].err.text, cases[i].difference);
    }
    /* Behind what is told of the settings there is a difference, but which is not known. */
    static char long_own[8000], long_other[8000];
    memset(long_own, 'a', sizeof long_own - 1);
    memset(long_other, 'a', sizeof long_other - 1);
    long_other[sizeof long_other - 2] = 'b';
    set_up(members, 2, do_nothing);
    members[0].settings.settings = long_own;
    members[1].settings.settings = long_other;
    run_members(members, 2);
    for (int r = 0; r < 2; r++) {
        assert_contains(members[r].err.text, "was started with other options than rank 0");
        assert_null(strstr(members[r].err.text, ", not "));
    }
    set_up(members, 2, do_nothing);
    members[1].settings.size = 3;
    run_members(members, 2);
    for (int r = 0; r < 2; r++)
        assert_contains(members[r].err.text, "was started as one of 3, rank 0 as one of 2");
    set_up(members, 3, do_nothing);
    members[2].settings.rank = 1;
    run_members(members, 3);
    for (int r = 0; r < 3; r++)
        assert_contains(members[r].err.text, "there is a second rank 1");
}

/* Talks to rank 0 as no rank does. Returns NULL if it is turned away. */
static void *be_a_stranger(void *argument)
{
    member *zero = argument;
    int made = -1;
    dl_error err = {0};
    const int64_t deadline_ns = dl_clock_ns() + 120 * DL_NS_PER_S;
    static const char text[600] = "GET / HTTP/1.1\r\n\r\n";
    if (dl_rank_connect("127.0.0.1", zero->settings.port, deadline_ns, &made, &err) != DL_OK)
        return zero;
    char byte;
    const bool sent = dl_rank_send(made, text, sizeof text, deadline_ns) == DL_RANK_IO_DONE;
    const bool closed = dl_rank_receive(made, &byte, 1, deadline_ns) == DL_RANK_IO_CLOSED;
    close(made);
    return sent && closed ? NULL : zero;
}

static void strangers_are_turned_away(void **state)
{
    (void)state;
    member members[3];
    pthread_t zero, stranger;
    void *trouble = NULL;
    set_up(members, 2, do_everything);
    assert_int_equal(pthread_create(&zero, NULL, run_member, &members[0]), 0);
    assert_int_equal(pthread_create(&stranger, NULL, be_a_stranger, &members[0]), 0);
    pthread_join(stranger, &trouble);
    assert_null(trouble);
    members[2] = members[1];
    members[2].settings.run = "another";
    (void)run_member(&members[2]);
    assert_int_equal(members[2].status, DL_ERR_DATA);
    assert_contains(members[2].err.text, "rank 0 of another run listens at this address");
    (void)run_member(&members[1]);
    pthread_join(zero, NULL);
    all_went_well(members, 2);
}

enum { IDLE_COUNT = 5 };

/* Each would be waited for 5 s: together longer than the limit. */
static void silent_strangers_delay_nobody(void **state)
{
    (void)state;
    member members[2];
    pthread_t zero;
    int idle[IDLE_COUNT];
    dl_error err = {0};
    set_up(members, 2, do_everything);
    for (int r = 0; r < 2; r++)
        members[r].settings.limit_s = 20;
    assert_int_equal(pthread_create(&zero, NULL, run_member, &members[0]), 0);
    for (int i = 0; i < IDLE_COUNT; i++)
        assert_int_equal(dl_rank_connect("127.0.0.1", members[0].settings.port,
                                         dl_clock_ns() + 120 * DL_NS_PER_S, &idle[i], &err),
                         DL_OK);
    (void)run_member(&members[1]);
    pthread_join(zero, NULL);
    all_went_well(members, 2);
    for (int i = 0; i < IDLE_COUNT; i++)
        close(idle[i]);
}

static void strangers_are_named_where_ranks_lack(void **state)
{
    (void)state;
    bool named = false;
    for (double limit_s = LEAST_LIMIT_S; !named && limit_s < LIMIT_S; limit_s *= 2) {
        member members[2];
        pthread_t zero;
        int idle = -1;
        dl_error err = {0};
        set_up(members, 2, do_nothing);
        members[0].settings.limit_s = limit_s;
        const int64_t until_ns = dl_clock_ns() + (int64_t)dl_s_to_ns(limit_s);
        assert_int_equal(pthread_create(&zero, NULL, run_member, &members[0]), 0);
        const dl_status connected =
            dl_rank_connect("127.0.0.1", members[0].settings.port, until_ns, &idle, &err);
        pthread_join(zero, NULL);
        if (connected == DL_OK) close(idle);
        assert_int_equal(members[0].status, DL_ERR_SYSTEM);
        assert_contains(members[0].err.text, "rank 1 of 2 did not come to 127.0.0.1:");
        named = strstr(members[0].err.text, "; 1 other connection introduced no rank of dlprof") !=
                NULL;
    }
    assert_true(named);
}

/* A service that is there already, and is no rank. */
static void *be_another_service(void *argument)
{
    int *listener = argument, made;
    char *answer = dl_calloc(1, 4096, "answer");
    if (dl_rank_accept(*listener, dl_clock_ns() + 120 * DL_NS_PER_S, &made)) {
        (void)dl_rank_send(made, answer, 4096, dl_clock_ns() + 120 * DL_NS_PER_S);
        close(made);
    }
    free(answer);
    return NULL;
}

static void addresses_are_checked(void **state)
{
    (void)state;
    member two[2], one;
    int listener = -1;
    pthread_t service;
    set_up(two, 2, do_nothing);
    one = two[0];
    assert_int_equal(dl_rank_listen("127.0.0.1", 0, &listener, NULL), DL_OK);
    one.settings.port = dl_rank_port(listener);
    (void)run_member(&one);
    assert_int_equal(one.status, DL_ERR_SYSTEM);
    assert_contains(one.err.text, "cannot listen at 127.0.0.1:");
    one.settings.rank = 1;
    assert_int_equal(pthread_create(&service, NULL, be_another_service, &listener), 0);
    (void)run_member(&one);
    pthread_join(service, NULL);
    close(listener);
    assert_int_equal(one.status, DL_ERR_DATA);
    assert_contains(one.err.text, "is no rank of dlprof");
    one.settings.host = "no such host";
    (void)run_member(&one);
    assert_int_equal(one.status, DL_ERR_NAME);
    assert_contains(one.err.text, "no address of host 'no such host'");
}

static void numbers_are_checked(void **state)
{
    (void)state;
    static const dl_rank_settings wrong[] = {
        {.rank = 0, .size = 0, .limit_s = 1, .port = 1},
        {.rank = 0, .size = DL_RANKS_MAX + 1, .limit_s = 1, .port = 1},
        {.rank = 2, .size = 2, .limit_s = 1, .port = 1},
        {.rank = -1, .size = 2, .limit_s = 1, .port = 1},
        {.rank = 0, .size = 2, .limit_s = 0, .port = 1},
        {.rank = 0, .size = 2, .limit_s = 2 * DL_RANK_LIMIT_MAX_S, .port = 1},
        {.rank = 0, .size = 2, .limit_s = 1, .port = 0},
        {.rank = 0, .size = 2, .limit_s = 1, .port = 65536},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dl_rank_group *group = NULL;
        dl_error err = {0};
        assert_int_equal(dl_rank_group_join(&group, &wrong[i], &err), DL_ERR_RANGE);
        assert_null(group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_one_processs_bits),
        cmocka_unit_test(ranks_tell_one_another),
        cmocka_unit_test(all_learn_who_is_lost),
        cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(ranks_must_do_the_same),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(ranks_must_agree_in_settings),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(silent_strangers_delay_nobody),
        cmocka_unit_test(strangers_are_named_where_ranks_lack),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(numbers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
