/* Bytes moved and updates on GPUs: exact in each mode, on one PCIe box and on two nodes. n = 4
 * workers, 48 steps each, no noise; B bytes of parameters. A push or pull moves B (a compressed
 * push its message), a ring or two trees 2 (n - 1) B. A hierarchy of m nodes with g GPUs each moves
 * 2 (g - 1) B in each node, and 2 (m - 1) B between the nodes. topk: each worker's message to n - 1
 * others. */
#include "tests/gpu_fixture.h"
#include "tests/oracles/oracles.h"

#define TWO_NODES "gpus = 0, 2, 4, 6\n"
#define RING "[exchange]\nalgorithm = ring\n"

enum { N = 4, STEPS = 48, BYTES = 80000 };

/* Messages divided by B: a bit per parameter and two numbers; a value and an index for 1 % of the
 * parameters. */
#define ONE_BIT (1.0 / 32 + 8.0 / BYTES)
#define TOP_K (200 * 8.0 / BYTES)

typedef struct amounts {
    const char *what, *sections;
    double updates, units; /* in total; in total, in units of B */
} amounts;

static const amounts cases[] = {
    {"none", "[sync]\nmode = none\n", 0, 0},
    {"allreduce", "[sync]\nmode = allreduce\n" RING, STEPS, STEPS * 2 * (N - 1)},
    {"allreduce in buckets",
     "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\nbucket_bytes = 30000\n", STEPS,
     STEPS * 2 * (N - 1)},
    {"ps", "[sync]\nmode = ps\n", STEPS, STEPS * 2 * N},
    {"ps, 2 shards", "[sync]\nmode = ps\n[exchange]\nshards = 2\n", STEPS, STEPS * 2 * N},
    {"ps, fp16", "[sync]\nmode = ps\n[exchange]\ncompress = fp16\n", STEPS, STEPS * 1.5 * N},
    {"ps, 1bit", "[sync]\nmode = ps\n[exchange]\ncompress = 1bit\n", STEPS,
     STEPS *(1 + ONE_BIT) * N},
    {"ps, topk", "[sync]\nmode = ps\n[exchange]\ncompress = topk\ntopk_frac = 0.01\n", STEPS,
     STEPS *(1 + TOP_K) * N},
    {"ps, lag 1", "[sync]\nmode = ps\nlag = 1\n", STEPS, STEPS * 2 * N},
    {"ps on gpu:0", "[sync]\nmode = ps\nwhere = gpu:0\n", STEPS, STEPS * 2 * (N - 1)},
    {"allreduce, tree", "[sync]\nmode = allreduce\n[exchange]\nalgorithm = tree\n", STEPS,
     STEPS * 2 * (N - 1)},
    {"allreduce, 1bit", "[sync]\nmode = allreduce\n" RING "compress = 1bit\n", STEPS,
     STEPS * 2 * (N - 1) * ONE_BIT},
    {"allreduce, topk", "[sync]\nmode = allreduce\n" RING "compress = topk\ntopk_frac = 0.01\n",
     STEPS, STEPS *N *(N - 1) * TOP_K},
    {"allreduce, lag 1", "[sync]\nmode = allreduce\nlag = 1\n" RING, STEPS, STEPS * 2 * (N - 1)},
    {"average", "[sync]\nmode = average\nwhere = cpu\ninterval = 4\n", STEPS / 4,
     STEPS / 4 * 2 * N},
    {"average by all-reduce", "[sync]\nmode = average\nwhere = allreduce\ninterval = 4\n" RING,
     STEPS / 4, STEPS / 4 * 2 * (N - 1)},
    {"ksync", "[sync]\nmode = ksync\nk = 4\n", STEPS, STEPS * 2 * N},
    /* The first three workers send a gradient and begin another one, which is cancelled: two steps
     * per update. */
    {"kbatchsync", "[sync]\nmode = kbatchsync\nk = 4\n", STEPS / 2, STEPS / 2 * 2 * N},
    {"bmuf", "[sync]\nmode = bmuf\nwhere = cpu\ninterval = 4\n", STEPS / 4, STEPS / 4 * 2 * N},
};

static void check(const amounts *c, const char *where, const char *machine)
{
    dl_run_result r =
        fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH "[overlap]\nslowdown = 1\n",
                         machine, N, STEPS, c->sections);
    oracle_near(c->updates, (double)r.updates, 0, "%s on %s: updates", c->what, where);
    oracle_near(c->units * BYTES, r.usage.traffic_bytes, 1e-9 * c->units * BYTES,
                "%s on %s: bytes moved", c->what, where);
    dl_run_result_free(&r);
}

/* Workers that do not wait for one another end when the first one has done its steps. Each gradient
 * is pushed, and parameters are pulled for it; gradients after the last update, fewer than c, are
 * in no update. */
typedef struct free_mode {
    const char *what, *sections;
    int gradients; /* c: gradients per update */
} free_mode;

static const free_mode free_modes[] = {
    {"async", "[sync]\nmode = async\n", 1},
    {"ssp", "[sync]\nmode = ssp\nbound = 1\n", 1},
    {"softsync", "[sync]\nmode = softsync\nn = 2\n", 2},
    {"kasync", "[sync]\nmode = kasync\nk = 2\n", 2},
    {"kbatchasync", "[sync]\nmode = kbatchasync\nk = 6\n", 6},
};

static void check_free(const free_mode *m, const char *where, const char *machine)
{
    dl_run_result r =
        fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, machine, N, STEPS, m->sections);
    const double applied = oracle_staleness_of(&r, -1).count;
    oracle_near(applied / m->gradients, (double)r.updates, 0, "%s on %s: updates", m->what, where);
    oracle_near(applied * 2 * BYTES, r.usage.traffic_bytes, (m->gradients - 1) * 2.0 * BYTES,
                "%s on %s: bytes moved", m->what, where);
    dl_run_result_free(&r);
}

static void check_easgd(const char *where, const char *machine)
{
    dl_run_result r = fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, machine, N, STEPS,
                                       "[sync]\nmode = easgd\ninterval = 4\n");
    oracle_near((double)r.updates * 2 * BYTES, r.usage.traffic_bytes, 0, "easgd on %s: bytes moved",
                where);
    dl_run_result_free(&r);
}

static const amounts hierarchy = {
    "allreduce, hierarchical", "[sync]\nmode = allreduce\n[exchange]\nalgorithm = hierarchical\n",
    STEPS, STEPS *(2 * 2 * (N / 2 - 1) + 2 * (2 - 1))};

void oracles_gpus(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(&cases[i], "a PCIe box", "");
        check(&cases[i], "two nodes", TWO_NODES);
    }
    for (size_t i = 0; i < sizeof free_modes / sizeof *free_modes; i++) {
        check_free(&free_modes[i], "a PCIe box", "");
        check_free(&free_modes[i], "two nodes", TWO_NODES);
    }
    check(&hierarchy, "two nodes", TWO_NODES);
    check_easgd("a PCIe box", "");
    check_easgd("two nodes", TWO_NODES);
}
