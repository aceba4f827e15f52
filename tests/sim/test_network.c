#include "tests/check.h"

#include <math.h>

#include "common/random.h"
#include "sim/network/network.h"
#include "tests/sim/maxmin.h"

#define ENDS_MAX 64
#define LINKS_MAX 32

/* A network in which 1 byte takes 1 ns at a rate of 1e9, and the times when flows ended. */
typedef struct bench {
    dl_engine engine;
    dl_network network;
    int64_t end_ns[ENDS_MAX];
    int order[ENDS_MAX], ended;
} bench;

/* Rate of a flow of the class, which must have a flow. */
static double rate_of(const dl_network *network, int class)
{
    return network->bundles[network->classes[class].bundle].rate;
}

static void setup(bench *b, int links, const double *capacity)
{
    memset(b, 0, sizeof *b);
    dl_engine_init(&b->engine, 2 * ENDS_MAX + 1);
    dl_network_init(&b->network, &b->engine, ENDS_MAX);
    for (int l = 0; l < links; l++)
        assert_int_equal(dl_network_add_link(&b->network, capacity[l]), l);
}

static void teardown(bench *b)
{
    dl_network_free(&b->network);
    dl_network_free(&b->network);
    dl_engine_free(&b->engine);
}

static void note_end(void *user, int flow)
{
    bench *b = user;
    b->end_ns[flow] = b->engine.now_ns;
    b->order[b->ended++] = flow;
}

static const unsigned char once[] = {1, 1, 1, 1}, twice[] = {2};

static void start(bench *b, int flow, double bytes, int64_t delay_ns, int count, const int *links)
{
    int class = dl_network_class(&b->network, links, once, count);
    dl_network_start(&b->network, class, bytes, delay_ns, note_end, b, flow);
}

enum { A, B, C };

/* 950 bytes each over a common link of 1 byte per ns, the second one also over an unshared link of
 * 0.05: it takes 19000 ns, the others, with 0.475 each, 2000. The first one uses the common link
 * alone when the second starts, and the third joins the second. */
static void who_comes_second_keeps_its_narrow_link(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 4, (const double[]){1e9, 0.05e9, 10e9, 10e9});
    start(&b, A, 950, 0, 2, (const int[]){0, 2});
    start(&b, B, 950, 0, 2, (const int[]){0, 1});
    start(&b, C, 950, 0, 2, (const int[]){0, 3});
    dl_engine_run(&b.engine);
    assert_int_equal(b.end_ns[A], 2000);
    assert_int_equal(b.end_ns[B], 19000);
    assert_int_equal(b.end_ns[C], 2000);
    teardown(&b);
}

static void count_broken(void *user)
{
    (*(int *)user)++;
}

/* A link that was added after a claim on other links is not claimed. */
static void links_added_after_a_claim_are_free(void **state DL_UNUSED)
{
    bench b;
    int broken = 0;
    setup(&b, 1, (const double[]){1e9});
    const int claim =
        dl_network_claim_links(&b.network, (const int[]){0}, 1, count_broken, &broken);
    assert_true(claim >= 0);
    for (int l = 1; l < 1000; l++)
        assert_int_equal(dl_network_add_link(&b.network, 1e9), l);
    for (int flow = 0; flow < 50; flow++)
        start(&b, flow, 1000, 0, 1, (const int[]){20 * flow + 19});
    dl_engine_run(&b.engine);
    for (int flow = 0; flow < 50; flow++)
        assert_int_equal(b.end_ns[flow], 1000);
    assert_int_equal(broken, 0);
    dl_network_release_links(&b.network, claim, (const int[]){0}, 1);
    teardown(&b);
}

/* 1000 and 3000 bytes start at 0: each has rate 0.5 until 2000, when the first ends; the second
 * then has 2000 bytes left and the link to itself: 4000. */
static void two_flows_share_a_link(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 1, (const double[]){1e9});
    start(&b, 0, 1000, 0, 1, (const int[]){A});
    start(&b, 1, 3000, 0, 1, (const int[]){A});
    dl_engine_run(&b.engine);
    assert_int_equal(b.end_ns[0], 2000);
    assert_int_equal(b.end_ns[1], 4000);
    assert_true(b.network.bytes[A] == 4000);
    assert_int_equal(b.network.class_count, 1);
    teardown(&b);
}

/* The first is alone for 1000 ns (1000 of 4000 bytes), then shares the link until the second's 500
 * bytes have moved (at 2000, 1500 done), then has 2500 left: 4500. */
static void arrivals_change_shares(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 1, (const double[]){1e9});
    start(&b, 0, 4000, 0, 1, (const int[]){A});
    start(&b, 1, 500, 1000, 1, (const int[]){A});
    dl_engine_run(&b.engine);
    assert_int_equal(b.end_ns[1], 2000);
    assert_int_equal(b.end_ns[0], 4500);
    teardown(&b);
}

/* A has 10, B 4: flow 0 over A (8), 1 over A and B (2), 2 over B (2) bytes per ns. Flow 2 ends at
 * 1000 with 2000 bytes; then only flow 1 uses B, and A is full first: 0 has 6, 1 has 4. Flow 0 has
 * moved 8000 of 14000 then, and ends at 2000; flow 1 has moved 2000, moves 4000 more by 2000, and 4
 * per ns after that: 7000 bytes in 2250. */
static void the_bottleneck_moves(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 2, (const double[]){10e9, 4e9});
    start(&b, 0, 14000, 0, 1, (const int[]){A});
    start(&b, 1, 7000, 0, 2, (const int[]){A, B});
    start(&b, 2, 2000, 0, 1, (const int[]){B});
    dl_engine_run(&b.engine);
    assert_int_equal(b.end_ns[2], 1000);
    assert_int_equal(b.end_ns[0], 2000);
    assert_int_equal(b.end_ns[1], 2250);
    teardown(&b);
}

/* A byte that crosses the link twice counts twice: 1000 bytes take 2000 ns alone; with a plain flow
 * each has a third: 3000 ns for both. */
static void a_link_may_be_crossed_twice(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 1, (const double[]){1e9});
    int class = dl_network_class(&b.network, (const int[]){A}, twice, 1);
    dl_network_start(&b.network, class, 1000, 0, note_end, &b, 0);
    start(&b, 1, 1000, 0, 1, (const int[]){A});
    assert_int_equal(b.network.class_count, 2);
    dl_engine_run(&b.engine);
    assert_int_equal(b.end_ns[0], 3000);
    assert_int_equal(b.end_ns[1], 3000);
    assert_true(b.network.bytes[A] == 3000);
    teardown(&b);
}

/* The delay passes before bytes move; without bytes or links it is the whole duration. */
static void delays_come_first(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 1, (const double[]){1e9});
    start(&b, 0, 100, 50, 1, (const int[]){A});
    start(&b, 1, 0, 70, 1, (const int[]){A});
    start(&b, 2, 100, 30, 0, NULL);
    dl_engine_run(&b.engine);
    assert_int_equal(b.end_ns[0], 150);
    assert_int_equal(b.end_ns[1], 70);
    assert_int_equal(b.end_ns[2], 30);
    teardown(&b);
}

/* Flow 1 connects A and B: 0 (A) and 2 (B) are independent before and after it. All end in time, so
 * each component kept its event. */
static void components_join_and_part(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 2, (const double[]){1e9, 1e9});
    start(&b, 0, 3000, 0, 1, (const int[]){A});
    start(&b, 2, 4000, 0, 1, (const int[]){B});
    start(&b, 1, 500, 1000, 2, (const int[]){A, B});
    dl_engine_run(&b.engine);
    assert_int_equal(b.end_ns[1], 2000); /* half of each link */
    assert_int_equal(b.end_ns[0], 3500);
    assert_int_equal(b.end_ns[2], 4500);
    teardown(&b);
}

/* Equal flows end together, and are reported in the order of their starts. */
static void equal_flows_end_together(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 2, (const double[]){1e9, 1e9});
    for (int f = 0; f < 20; f++)
        start(&b, f, 100, 0, 1, (const int[]){A});
    dl_engine_run(&b.engine);
    for (int f = 0; f < 20; f++) {
        assert_int_equal(b.end_ns[f], 2000);
        assert_int_equal(b.order[f], f);
    }
    /* one start each, one common computation of rates, one end for all */
    assert_int_equal(b.engine.handled, 22);
    teardown(&b);
}

/* A flow started at the end of another one gets the same rate. */
static void start_next(void *user, int flow)
{
    bench *b = user;
    note_end(user, flow);
    if (flow < 9) {
        int class = dl_network_class(&b->network, (const int[]){A}, once, 1);
        dl_network_start(&b->network, class, 100, 10, start_next, b, flow + 1);
    }
}

static void flows_may_follow_each_other(void **state DL_UNUSED)
{
    bench b;
    setup(&b, 1, (const double[]){1e9});
    int class = dl_network_class(&b.network, (const int[]){A}, once, 1);
    dl_network_start(&b.network, class, 100, 10, start_next, &b, 0);
    dl_engine_run(&b.engine);
    for (int f = 0; f < 10; f++)
        assert_int_equal(b.end_ns[f], 110 * (f + 1));
    assert_int_equal(b.network.active_flows, 0);
    teardown(&b);
}

/* Reference implementation: every flow separately, all rates solved at each event. */
typedef struct plain_flow {
    int links[4], count;
    double bytes, left, start_ns, end_ns;
} plain_flow;

static double plain_step(plain_flow *flows, int count, int links, const double *capacity,
                         double now_ns)
{
    dl_maxmin system;
    dl_maxmin_init(&system, links, count, 4 * count);
    for (int l = 0; l < links; l++)
        dl_maxmin_add_link(&system, capacity[l]);
    int moving[ENDS_MAX], moving_count = 0;
    double next_ns = INFINITY;
    for (int f = 0; f < count; f++) {
        if (flows[f].start_ns > now_ns) next_ns = fmin(next_ns, flows[f].start_ns);
        if (flows[f].start_ns > now_ns || flows[f].left <= 0) continue;
        dl_maxmin_add_flow(&system, 1, INFINITY, flows[f].links, flows[f].count);
        moving[moving_count++] = f;
    }
    dl_maxmin_solve(&system);
    for (int i = 0; i < moving_count; i++)
        next_ns = fmin(next_ns, now_ns + flows[moving[i]].left / system.rate[i] * 1e9);
    for (int i = 0; i < moving_count; i++) {
        plain_flow *f = &flows[moving[i]];
        f->left -= system.rate[i] * 1e-9 * (next_ns - now_ns);
        if (f->left > 1e-9 * f->bytes) continue;
        f->left = 0;
        f->end_ns = next_ns;
    }
    dl_maxmin_free(&system);
    return next_ns;
}

static void choose_flow(dl_random *stream, int links, plain_flow *f)
{
    f->count = 0;
    for (int l = 0; l < links; l++) {
        if (f->count < 4 && dl_random_below(stream, 3) == 0) f->links[f->count++] = l;
    }
    if (f->count == 0) f->links[f->count++] = (int)dl_random_below(stream, (uint64_t)links);
    f->bytes = f->left = 1000 + (double)dl_random_below(stream, 1000000);
    f->start_ns = (double)dl_random_below(stream, 3000);
}

/* Runs `count` flows on both networks and compares their ends, and the bytes that crossed the
 * links. */
static void compare_with_plain(plain_flow *flows, int count, int links, const double *capacity,
                               int round)
{
    double crossed[LINKS_MAX] = {0};
    bench b;
    setup(&b, links, capacity);
    for (int f = 0; f < count; f++) {
        start(&b, f, flows[f].bytes, (int64_t)flows[f].start_ns, flows[f].count, flows[f].links);
        for (int i = 0; i < flows[f].count; i++)
            crossed[flows[f].links[i]] += flows[f].bytes;
    }
    for (double now_ns = -1; isfinite(now_ns);)
        now_ns = plain_step(flows, count, links, capacity, now_ns);
    dl_engine_run(&b.engine);
    assert_int_equal(b.ended, count);
    for (int f = 0; f < count; f++) {
        double off = (double)b.end_ns[f] - flows[f].end_ns;
        /* each earlier event may have been rounded up by 1 ns */
        if (fabs(off) > 2.0 * ENDS_MAX) fail_msg("round %d, flow %d: %g ns", round, f, off);
    }
    for (int l = 0; l < links; l++)
        assert_true(fabs(b.network.bytes[l] - crossed[l]) < 1e-6);
    teardown(&b);
}

static void random_flows_end_as_in_the_plain_solver(void **state DL_UNUSED)
{
    enum { LINKS = 6 };
    dl_random stream;
    dl_random_init(&stream, 5, 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        double capacity[LINKS];
        for (int l = 0; l < LINKS; l++)
            capacity[l] = 1e9 * (1 + (double)dl_random_below(&stream, 100));
        plain_flow flows[ENDS_MAX];
        int count = 1 + (int)dl_random_below(&stream, ENDS_MAX);
        for (int f = 0; f < count; f++)
            choose_flow(&stream, LINKS, &flows[f]);
        compare_with_plain(flows, count, LINKS, capacity, round);
    }
}

/* Workers with one unshared link each, followed by all combinations of three links: bundles with
 * classes that are sometimes limited by their unshared links, whose rates range from far above to
 * far below a fair share; some workers have two concurrent flows. */
static void random_workers_end_as_in_the_plain_solver(void **state DL_UNUSED)
{
    enum { SHARED = 3, WORKERS = 24, LINKS = SHARED + WORKERS };
    dl_random stream;
    dl_random_init(&stream, 6, 0, 0, 0);
    for (int round = 0; round < 400; round++) {
        double capacity[LINKS];
        int spread = 1 + (int)dl_random_below(&stream, 100);
        for (int l = 0; l < LINKS; l++) {
            capacity[l] = 1e9 * (1 + (double)dl_random_below(&stream, (uint64_t)spread));
            if (l < SHARED) capacity[l] *= 8;
        }
        plain_flow flows[ENDS_MAX];
        int count = 1 + (int)dl_random_below(&stream, ENDS_MAX);
        for (int f = 0; f < count; f++) {
            int worker = (int)dl_random_below(&stream, WORKERS), way = worker % 5 + 1;
            plain_flow *flow = &flows[f];
            choose_flow(&stream, LINKS, flow);
            flow->count = 0;
            flow->links[flow->count++] = SHARED + worker;
            for (int l = 0; l < SHARED; l++) {
                if (way >> l & 1) flow->links[flow->count++] = l;
            }
            if (round % 3 == 0) flow->bytes = flow->left = 30000; /* simultaneous ends */
        }
        compare_with_plain(flows, count, LINKS, capacity, round);
    }
}

static const struct {
    int64_t at_ns;
    double wide, narrow; /* rates of workers 0 and 1, and of 2 */
} narrow_cases[] = {{500, 5.5e9, 1e9}, {1500, 12e9 / 21, 12e9 / 21}, {4000, 5.5e9, 1e9}};

static void check_rates(void *user, int i)
{
    bench *b = user;
    for (int w = 0; w < 3; w++) {
        int class = dl_network_class(&b->network, (const int[]){0, w + 1}, once, 2);
        double rate = w == 2 ? narrow_cases[i].narrow : narrow_cases[i].wide;
        assert_true(fabs(rate_of(&b->network, class) - rate) <= 1e-9 * rate);
    }
}

/* The server's link has 12, the workers' unshared links 10, 10 and 1: rates 5.5, 5.5 and 1. With 18
 * more workers with 10, a share is 12 / 21 < 1: the slow worker is in the common bundle. When they
 * have ended it is separate again. */
static void narrow_links_of_their_own_stand_out(void **state DL_UNUSED)
{
    enum { WORKERS = 21 };
    double capacity[WORKERS + 1];
    for (int l = 0; l <= WORKERS; l++)
        capacity[l] = 10e9;
    capacity[0] = 12e9;
    capacity[3] = 1e9;
    bench b;
    setup(&b, WORKERS + 1, capacity);
    for (int w = 0; w < WORKERS; w++)
        start(&b, w, w < 3 ? 1e6 : 1000, w < 3 ? 0 : 1000, 2, (const int[]){0, w + 1});
    for (int i = 0; i < 3; i++)
        dl_engine_after(&b.engine, narrow_cases[i].at_ns, check_rates, &b, i);
    dl_engine_run(&b.engine);
    assert_int_equal(b.ended, WORKERS);
    teardown(&b);
}

/* The bytes that cross a link never exceed its capacity times the time, and one link is full
 * throughout: 60 flows over A and then over one of 20 other links. */
static void capacity_is_never_exceeded(void **state DL_UNUSED)
{
    enum { LINKS = 21, FLOWS = 60 };
    double capacity[LINKS] = {1e9};
    for (int l = 1; l < LINKS; l++)
        capacity[l] = 1e9;
    bench b;
    setup(&b, LINKS, capacity);
    double total = 0;
    for (int f = 0; f < FLOWS; f++) {
        start(&b, f, 100 * (f + 1), 0, 2, (const int[]){0, 1 + f % 20});
        total += 100 * (f + 1);
    }
    dl_engine_run(&b.engine);
    assert_true(b.network.bytes[0] == total);
    double last_ns = (double)b.engine.now_ns;
    assert_true(last_ns >= total && last_ns <= total + FLOWS);
    teardown(&b);
}

/* Workers that start a flow, wait for its end, pause, and start the next one, over links that all
 * of them share and one unshared link each; and other workers over some of the shared links, with
 * slow unshared links. */
enum { CROWD_SHARED = 3, CROWD_MOST = 24, OTHERS = 6, CROWD_FLOWS = 12 };

typedef struct crowd_case {
    double capacity[CROWD_SHARED], own, others[OTHERS];
    unsigned char times[CROWD_SHARED];
    int shared, own_at, workers;
    double bytes, other_bytes;
    int64_t pause_ns[CROWD_MOST + OTHERS][CROWD_FLOWS];
} crowd_case;

typedef struct crowd_run {
    dl_engine engine;
    dl_network network;
    const crowd_case *of;
    int class[CROWD_MOST + OTHERS], ended[CROWD_MOST + OTHERS];
    int64_t end_ns[CROWD_MOST + OTHERS][CROWD_FLOWS];
} crowd_run;

static void start_one(crowd_run *r, int who);

static void end_one(void *user, int who)
{
    crowd_run *r = user;
    r->end_ns[who][r->ended[who]++] = r->engine.now_ns;
    if (r->ended[who] < CROWD_FLOWS) start_one(r, who);
}

static void start_one(crowd_run *r, int who)
{
    const double bytes = who < r->of->workers ? r->of->bytes : r->of->other_bytes;
    dl_network_start(&r->network, r->class[who], bytes, r -> of -> pause_ns[who][r->ended[who]],
                     end_one, r, who);
}

/* The class of a worker's flows over the shared links and its unshared one. */
static int separate_class(crowd_run *r)
{
    const crowd_case *of = r->of;
    int links[CROWD_SHARED + 1], count = 0;
    unsigned char times[CROWD_SHARED + 1];
    for (int i = 0; i <= of->shared; i++) {
        if (i == of->own_at) {
            links[count] = dl_network_add_link(&r->network, of->own);
            times[count++] = 1;
        }
        if (i == of->shared) break;
        links[count] = i;
        times[count++] = of->times[i];
    }
    return dl_network_class(&r->network, links, times, count);
}

static void run_crowd(crowd_run *r, const crowd_case *of, bool as_crowd)
{
    const int links[] = {0, 1, 2}, agents = of->workers + OTHERS;
    *r = (crowd_run){.of = of};
    dl_engine_init(&r->engine, 2 * agents + 1);
    dl_network_init(&r->network, &r->engine, agents);
    for (int i = 0; i < of->shared; i++)
        dl_network_add_link(&r->network, of->capacity[i]);
    int crowd = -1;
    if (as_crowd) {
        const int own = dl_network_add_link(&r->network, of->own);
        crowd = dl_network_crowd(&r->network, links, of->times, of->shared, own, of->own_at);
    }
    for (int w = 0; w < of->workers; w++)
        r->class[w] = as_crowd ? crowd : separate_class(r);
    for (int o = 0; o < OTHERS; o++) {
        const int over[] = {o % of->shared, dl_network_add_link(&r->network, of->others[o])};
        r->class[of->workers + o] = dl_network_class(&r->network, over, once, 2);
    }
    for (int who = 0; who < agents; who++)
        start_one(r, who);
    dl_engine_run(&r->engine);
}

static void choose_crowd(dl_random *stream, int round, crowd_case *c)
{
    const bool is_round = round % 2 == 0; /* then many events are simultaneous */
    *c = (crowd_case){.shared = 1 + (int)dl_random_below(stream, CROWD_SHARED),
                      .workers = 1 + (int)dl_random_below(stream, CROWD_MOST)};
    double narrowest = INFINITY;
    for (int i = 0; i < c->shared; i++) {
        c->capacity[i] = 1e8 * (1 + 100 * dl_random_uniform(stream));
        c->times[i] = (unsigned char)(1 + dl_random_below(stream, 2));
        narrowest = fmin(narrowest, c->capacity[i] / c->times[i]);
    }
    c->own_at = (int)dl_random_below(stream, (uint64_t)c->shared + 1);
    static const double own[] = {0.3, 1, 1.5}; /* times the slowest shared link's rate */
    c->own = narrowest * own[dl_random_below(stream, 3)];
    for (int o = 0; o < OTHERS; o++)
        c->others[o] = 1e7 * (1 + 200 * dl_random_uniform(stream));
    c->bytes = is_round ? 10000 : 1 + (double)dl_random_below(stream, 50000);
    c->other_bytes = is_round ? 2000 : 1 + (double)dl_random_below(stream, 50000);
    for (int who = 0; who < CROWD_MOST + OTHERS; who++) {
        for (int f = 0; f < CROWD_FLOWS; f++)
            c->pause_ns[who][f] = is_round ? 1000 * (int64_t)dl_random_below(stream, 20)
                                           : (int64_t)dl_random_below(stream, 200000);
    }
}

static void crowds_end_as_separate_flows(void **state DL_UNUSED)
{
    static crowd_case c;
    static crowd_run apart, crowd;
    dl_random stream;
    dl_random_init(&stream, 8, 0, 0, 0);
    for (int round = 0; round < 2000; round++) {
        choose_crowd(&stream, round, &c);
        run_crowd(&apart, &c, false);
        run_crowd(&crowd, &c, true);
        for (int who = 0; who < c.workers + OTHERS; who++) {
            for (int f = 0; f < CROWD_FLOWS; f++) {
                if (apart.end_ns[who][f] == crowd.end_ns[who][f]) continue;
                fail_msg("round %d: flow %d of %d of %d ends at %lld ns, and at %lld", round, f,
                         who, c.workers, (long long)apart.end_ns[who][f],
                         (long long)crowd.end_ns[who][f]);
            }
        }
        for (int l = 0; l < c.shared; l++)
            assert_true(fabs(crowd.network.bytes[l] - apart.network.bytes[l]) <=
                        1e-12 * apart.network.bytes[l]);
        dl_network_free(&apart.network);
        dl_network_free(&crowd.network);
        dl_engine_free(&apart.engine);
        dl_engine_free(&crowd.engine);
    }
}

typedef struct busy {
    int count, link[4];
    double bytes[4];
    int64_t start_ns[4], end_ns[4];
} busy;

static void note_busy(void *user, int link, double bytes, int64_t start_ns, int64_t end_ns)
{
    busy *b = user;
    assert_in_range(b->count, 0, 3);
    b->link[b->count] = link;
    b->bytes[b->count] = bytes;
    b->start_ns[b->count] = start_ns;
    b->end_ns[b->count++] = end_ns;
}

/* Link 0 moves 100 bytes of A from 0 and 100 of B from 50 on, 200 until 200 ns, while B also crosses
 * link 1; after a pause it moves 100 of C. */
static void busy_times_of_links_are_observed(void **state DL_UNUSED)
{
    bench b;
    busy seen = {0};
    setup(&b, 2, (const double[]){1e9, 1e9});
    dl_network_watch(&b.network, note_busy, &seen);
    start(&b, A, 100, 0, 1, (const int[]){0});
    start(&b, B, 100, 50, 2, (const int[]){0, 1});
    start(&b, C, 100, 300, 1, (const int[]){0});
    dl_engine_run(&b.engine);
    assert_int_equal(seen.count, 3);
    const int of_1 = seen.link[0] == 1 ? 0 : 1, of_0 = 1 - of_1;
    assert_int_equal(seen.link[of_1], 1);
    assert_float_equal(seen.bytes[of_1], 100, 0);
    assert_int_equal(seen.start_ns[of_1], 50);
    assert_float_equal(seen.bytes[of_0], 200, 0);
    assert_int_equal(seen.start_ns[of_0], 0);
    assert_int_equal(seen.end_ns[of_0], 200);
    assert_int_equal(seen.link[2], 0);
    assert_float_equal(seen.bytes[2], 100, 0);
    assert_int_equal(seen.start_ns[2], 300);
    assert_int_equal(seen.end_ns[2], 400);
    teardown(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_times_of_links_are_observed),
        cmocka_unit_test(two_flows_share_a_link),
        cmocka_unit_test(arrivals_change_shares),
        cmocka_unit_test(the_bottleneck_moves),
        cmocka_unit_test(a_link_may_be_crossed_twice),
        cmocka_unit_test(delays_come_first),
        cmocka_unit_test(components_join_and_part),
        cmocka_unit_test(equal_flows_end_together),
        cmocka_unit_test(who_comes_second_keeps_its_narrow_link),
        cmocka_unit_test(links_added_after_a_claim_are_free),
        cmocka_unit_test(flows_may_follow_each_other),
        cmocka_unit_test(random_flows_end_as_in_the_plain_solver),
        cmocka_unit_test(random_workers_end_as_in_the_plain_solver),
        cmocka_unit_test(narrow_links_of_their_own_stand_out),
        cmocka_unit_test(capacity_is_never_exceeded),
        cmocka_unit_test(crowds_end_as_separate_flows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
