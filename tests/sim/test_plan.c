#include "tests/machine_fixture.h"

#include <stdlib.h>

#include "common/random.h"
#include "sim/collective/collective.h"
#include "sim/collective/plan_internal.h"
#include "tests/sim_fixture.h"

#define RANKS_MAX 64

/* A collective on a network, and a copy by others on the same network. */
typedef struct course {
    dl_engine engine;
    dl_network network;
    dl_collective collective;
    int64_t ends_ns[2]; /* ends of two runs in sequence */
    int64_t copied_ns;
    int runs;
} course;

/* A copy by others, and its start. */
typedef struct disturbance {
    dl_place from, to;
    double bytes;
    int64_t start_ns;
} disturbance;

static void arrive(course *c)
{
    for (int r = 0; r < c->collective.rank_count; r++)
        dl_collective_arrive(&c->collective);
}

static void on_reduced(void *user, int unused DL_UNUSED)
{
    course *c = user;
    c->ends_ns[c->runs++] = c->engine.now_ns;
    if (c->runs < 2) arrive(c);
}

static void on_copied(void *user, int unused DL_UNUSED)
{
    course *c = user;
    c->copied_ns = c->engine.now_ns;
}

/* Runs the collective twice; `other` NULL: undisturbed. */
static void run(course *c, const dl_links *links, const dl_collective_config *config,
                const disturbance *other, bool apart)
{
    dl_error err = {0};
    *c = (course){0};
    dl_network_init(&c->network, &c->engine, 1);
    dl_network_add_links(&c->network, links);
    if (dl_collective_init(&c->collective, &c->network, links, config, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    c->collective.plan.is_apart = apart;
    const int flows = c->collective.plan.transfer_count + 1;
    dl_network_reserve(&c->network, flows);
    dl_engine_init(&c->engine, 2 * flows + 10);
    dl_collective_on_done(&c->collective, on_reduced, c, 0);
    if (other != NULL) {
        dl_route route;
        dl_links_route(links, other->from, other->to, &route);
        dl_network_start(&c->network, dl_network_route_class(&c->network, &route), other->bytes,
                         other->start_ns, on_copied, c, 0);
    }
    arrive(c);
    dl_engine_run(&c->engine);
    assert_int_equal(c->runs, 2);
    assert_int_equal(c->network.active_flows, 0);
    assert_int_equal(c->network.claim_count, 0);
    assert_true(other == NULL || c->copied_ns > 0);
}

static void free_course(course *c)
{
    dl_collective_free(&c->collective);
    dl_network_free(&c->network);
    dl_engine_free(&c->engine);
}

/* Two nodes of four GPUs below two PCIe switches, with one NIC each. */
#define FIXTURE_NODES                                                                             \
    "[machine]\nschema = 1\nname = nodes\npeer = all\ngpudirect = yes\nnodes = 2\n" FIXTURE_PARTS \
    "[host]\nmemory_bytes_per_s = 40GB/s\n[switch a]\nparent = socket0\n"                         \
    "link = x16\n[switch b]\nparent = socket0\nlink = x16\n[gpus 0-1]\nmodel = g\n"               \
    "parent = a\nlink = x16\n[gpus 2-3]\nmodel = g\nparent = b\nlink = x16\n[nics 0]\n"           \
    "parent = b\nlink = x16\nport = wire\n"

/* Four GPUs that send through host memory. */
#define FIXTURE_STAGED                                                               \
    "[machine]\nschema = 1\nname = staged\npeer = none\n" FIXTURE_PARTS              \
    "[host]\nmemory_bytes_per_s = 80GB/s\n[gpus 0-3]\nmodel = g\nparent = socket0\n" \
    "link = x16\n"

/* Three nodes of four GPUs below two PCIe switches, with a NIC per GPU, on an NVSwitch that can
 * sum. */
#define FIXTURE_RAILS                                                                         \
    "[machine]\nschema = 1\nname = rails\npeer = switch\ngpudirect = yes\nnodes = "           \
    "3\n" FIXTURE_PARTS "[host]\nmemory_bytes_per_s = 40GB/s\n[switch a]\nparent = socket0\n" \
    "link = x16\n[switch b]\nparent = socket0\nlink = x16\n[gpus 0-1]\nmodel = g\n"           \
    "parent = a\nlink = x16\n[gpus 2-3]\nmodel = g\nparent = b\nlink = x16\n[nics 0-1]\n"     \
    "parent = a\nlink = x16\nport = wire\n[nics 2-3]\nparent = b\nlink = x16\nport = wire\n"  \
    "[nvswitch]\nlink = fast\nsum_frac = 0.9\n"

typedef struct bench {
    dl_machine machine;
    dl_links links;
    dl_place ranks[RANKS_MAX];
    dl_collective_config config;
} bench;

static void make_bench(bench *b, const char *text, const char *algorithm, int fidelity,
                       double bytes)
{
    memset(b, 0, sizeof *b);
    b->machine = fixture_machine(text);
    dl_links_init(&b->links, &b->machine);
    const int per_node = b->machine.kinds[0].gpu_count, count = b->machine.nodes * per_node;
    for (int r = 0; r < count; r++)
        b->ranks[r] = gpu_place(r / per_node, r % per_node);
    b->config = (dl_collective_config){.kind = DL_ALLREDUCE,
                                       .algorithm = algorithm,
                                       .fidelity = (dl_fidelity)fidelity,
                                       .ranks = b->ranks,
                                       .rank_count = count,
                                       .bytes = bytes,
                                       .chunk_bytes = DL_CHUNK_BYTES};
}

static void free_bench(bench *b)
{
    dl_links_free(&b->links);
    dl_machine_free(&b->machine);
}

static const struct {
    const char *machine, *algorithm;
} cases
    [] =
        {
            {FIXTURE_CROSSBAR, "ring"},
            {FIXTURE_CROSSBAR, "tree"}, /* both children of a rank send to it concurrently */
            {FIXTURE_STAGED, "ring"},
            {FIXTURE_STAGED, "tree"},
            {FIXTURE_NODES, "ring"},
            {FIXTURE_NODES, "tree"},
            {FIXTURE_NODES, "node_tree"},
            {FIXTURE_RAILS, "node_tree"},
            {FIXTURE_RAILS, "nvls_tree"},
            {FIXTURE_NODES, "hierarchical"}, /* four rings between the nodes share a wire */
};

static void assert_same_bytes(const dl_network *a, const dl_network *b)
{
    for (int l = 0; l < a->link_count; l++)
        assert_near(a->bytes[l], b->bytes[l], 1e-6);
}

/* An undisturbed run is one event, ends at the same ns as if simulated transfer by transfer, and
 * moves the same bytes over every link. */
static void an_undisturbed_run_is_one_event(void **state DL_UNUSED)
{
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        for (int fidelity = 0; fidelity < 2; fidelity++) {
            bench b;
            course whole, apart;
            make_bench(&b, cases[i].machine, cases[i].algorithm, fidelity, 4e6);
            run(&whole, &b.links, &b.config, NULL, false);
            run(&apart, &b.links, &b.config, NULL, true);
            assert_int_equal(whole.ends_ns[0], apart.ends_ns[0]);
            assert_int_equal(whole.ends_ns[1], apart.ends_ns[1]);
            assert_same_bytes(&whole.network, &apart.network);
            /* Two runs with a launch and an end each. */
            assert_int_equal(whole.engine.handled, 4);
            free_course(&whole);
            free_course(&apart);
            free_bench(&b);
        }
    }
}

/* A copy of random size over a random route that starts at a random time: both end at the same
 * times as if every transfer were simulated, except for rounding of each change of shares to whole
 * ns. */
static void a_disturbed_run_goes_on_transfer_by_transfer(void **state DL_UNUSED)
{
    enum { TRIES = 60 };
    dl_random random;
    dl_random_init(&random, 7, 0, 0, 0);
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        for (int k = 0; k < TRIES; k++) {
            bench b;
            course whole, apart;
            make_bench(&b, cases[i].machine, cases[i].algorithm, k % 2, 4e6);
            run(&apart, &b.links, &b.config, NULL, true);
            const int64_t both_ns = apart.ends_ns[1];
            free_course(&apart);
            const uint64_t ranks = (uint64_t)b.config.rank_count;
            const uint64_t from = dl_random_below(&random, ranks);
            const uint64_t to = (from + 1 + dl_random_below(&random, ranks - 1)) % ranks;
            const disturbance other = {.from = b.ranks[from],
                                       .to = b.ranks[to],
                                       .bytes = 1e3 + 2e6 * dl_random_uniform(&random),
                                       .start_ns =
                                           (int64_t)dl_random_below(&random, (uint64_t)both_ns)};
            run(&whole, &b.links, &b.config, &other, false);
            run(&apart, &b.links, &b.config, &other, true);
            const double rounding_ns = 2.0 + apart.collective.plan.transfer_count / 20;
            assert_near((double)whole.ends_ns[0], (double)apart.ends_ns[0],
                        rounding_ns / (double)apart.ends_ns[0]);
            assert_near((double)whole.ends_ns[1], (double)apart.ends_ns[1],
                        rounding_ns / (double)apart.ends_ns[1]);
            assert_near((double)whole.copied_ns, (double)apart.copied_ns,
                        rounding_ns / (double)apart.copied_ns);
            assert_same_bytes(&whole.network, &apart.network);
            free_course(&whole);
            free_course(&apart);
            free_bench(&b);
        }
    }
}

/* A machine of nodes with up to eight GPUs on an NVSwitch, below switches and sockets, with at most
 * as many NICs, and sometimes with one part that breaks the symmetry. */
static void random_machine(dl_random *random, char *text, size_t bytes)
{
    const int nodes = 2 + (int)dl_random_below(random, 5),
              gpus = 2 + (int)dl_random_below(random, 7);
    const int sockets = 1 + (int)dl_random_below(random, 2);
    const int below = 1 + (int)dl_random_below(random, 2);  /* GPUs per PCIe switch */
    const int shared = 1 + (int)dl_random_below(random, 2); /* GPUs per NIC */
    const int odd = (int)dl_random_below(random, 12);       /* NIC or GPU that differs */
    static const char *const directs[] = {"yes", "no"}, *const peers[] = {"switch", "none", "all"};
    size_t used = (size_t)snprintf(
        text, bytes,
        "[machine]\nschema = 1\nname = m\nnodes = %d\npeer = %s\ngpudirect = %s\n" FIXTURE_PARTS
        "[link slow]\nbytes_per_s = 7GB/s\nlatency_ns = 100\n"
        "[host]\nmemory_bytes_per_s = %.17g\nsockets = %d\n%s[nvswitch]\nlink = %s\nsum_frac = "
        "0.9\n",
        nodes, peers[dl_random_below(random, 3)], directs[dl_random_below(random, 2)],
        1e10 * (1 + 9 * dl_random_uniform(random)), sockets,
        sockets > 1 ? "socket_link = duplex\n" : "",
        dl_random_below(random, 2) == 0 ? "fast" : "duplex");
    for (int w = 0; w * below < gpus; w++)
        used += (size_t)snprintf(text + used, bytes - used,
                                 "[switch s%d]\nparent = socket%d\nlink = x16\n", w,
                                 w * below * sockets / gpus);
    for (int g = 0; g < gpus; g++) {
        used += (size_t)snprintf(text + used, bytes - used,
                                 "[gpus %d]\nmodel = g\nparent = s%d\nlink = %s\n", g, g / below,
                                 g == odd ? "slow" : "x16");
        if (g % shared != 0) continue;
        used += (size_t)snprintf(text + used, bytes - used,
                                 "[nics %d]\nparent = s%d\nlink = x16\nport = %s\n", g / shared,
                                 g / below, g + 1 == odd ? "slow" : "wire");
    }
}

/* A folded plan ends at the same ns as the whole plan, and moves the same bytes over every link. */
static void folded_is_whole(void **state DL_UNUSED)
{
    enum { TRIES = 300 };
    static const char *const algorithms[] = {"node_tree", "nvls_tree"};
    int folded = 0;
    dl_random random;
    dl_random_init(&random, 11, 0, 0, 0);
    for (int k = 0; k < TRIES; k++) {
        char text[8192];
        bench b;
        course whole, apart;
        random_machine(&random, text, sizeof text);
        make_bench(&b, text, algorithms[k % 2], k % 8 >= 6,
                   1e3 * pow(1e5, dl_random_uniform(&random)));
        if (k % 5 == 0) b.config.rank_count -= 1;
        if (k % 10 == 5) { /* every second GPU */
            int count = 0;
            for (int r = 0; r < b.config.rank_count; r++)
                if (b.ranks[r].index % 2 == 0) b.ranks[count++] = b.ranks[r];
            b.config.rank_count = count;
        }
        dl_error err = {0};
        double ignored_ns;
        if (dl_collective_idle_ns(&b.links, &b.config, &ignored_ns, &err) == DL_OK) {
            run(&whole, &b.links, &b.config, NULL, false);
            run(&apart, &b.links, &b.config, NULL, true);
            folded += whole.collective.plan.fold != NULL;
            if (whole.ends_ns[0] != apart.ends_ns[0] || whole.ends_ns[1] != apart.ends_ns[1])
                fail_msg("%d: %lld ns folded, %lld whole\n%s", k, (long long)whole.ends_ns[0],
                         (long long)apart.ends_ns[0], text);
            assert_same_bytes(&whole.network, &apart.network);
            assert_near(dl_collective_sent_bytes(&whole.collective),
                        dl_collective_sent_bytes(&apart.collective), 1e-12);
            assert_null(apart.collective.plan.fold);
            free_course(&whole);
            free_course(&apart);
        }
        free_bench(&b);
    }
    print_message("%d of %d folded\n", folded, TRIES);
    assert_true(folded > TRIES / 5 && folded < TRIES * 9 / 10);
}

/* The latest of many plans are stored, each under its key and number of links. */
static void times_of_plans_are_kept(void **state DL_UNUSED)
{
    enum { PLANS = 1000, LINKS = 3 };
    int known = 0;
    for (int k = 0; k < PLANS; k++) {
        const double bytes[LINKS] = {k, 1, 2};
        dl_plan_remember((dl_plan_key){1000 + (uint64_t)k, 7}, 10 * k, bytes, LINKS);
    }
    for (int k = 0; k < PLANS; k++) {
        const dl_plan_key key = {1000 + (uint64_t)k, 7}, other = {key.a, 8};
        double bytes[LINKS] = {0};
        int64_t time_ns = -1;
        assert_false(dl_plan_recall(other, &time_ns, bytes, LINKS));
        assert_false(dl_plan_recall(key, &time_ns, bytes, LINKS - 1));
        if (!dl_plan_recall(key, &time_ns, bytes, LINKS)) continue;
        known++;
        assert_int_equal(time_ns, 10 * k);
        assert_true(bytes[0] == k && bytes[1] == 1 && bytes[2] == 2);
        assert_true(k >= PLANS - 256);
    }
    assert_int_equal(known, 256);
    const int many = 64 << 20;
    DL_AUTOFREE double *large = dl_calloc((size_t)many, sizeof *large, "bytes of links");
    int64_t time_ns;
    dl_plan_remember((dl_plan_key){1, 2}, 1, large, many);
    assert_false(dl_plan_recall((dl_plan_key){1, 2}, &time_ns, large, many));
}

/* A link with enough capacity for all transfers delays none: 4 GPUs send in turn through host
 * memory of 80 bytes per ns, which each byte crosses twice, over their links of 10. */
static void a_wide_link_limits_nobody(void **state DL_UNUSED)
{
    bench b;
    course whole, apart;
    make_bench(&b, FIXTURE_STAGED, "ring", DL_FIDELITY_CHUNK, 4e6);
    run(&whole, &b.links, &b.config, NULL, false);
    run(&apart, &b.links, &b.config, NULL, true);
    assert_int_equal(whole.ends_ns[1], apart.ends_ns[1]);
    assert_int_equal(whole.engine.handled, 4);
    assert_true(apart.engine.handled > 100);
    free_course(&whole);
    free_course(&apart);
    free_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_undisturbed_run_is_one_event),
        cmocka_unit_test(a_disturbed_run_goes_on_transfer_by_transfer),
        cmocka_unit_test(folded_is_whole),
        cmocka_unit_test(times_of_plans_are_kept),
        cmocka_unit_test(a_wide_link_limits_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
