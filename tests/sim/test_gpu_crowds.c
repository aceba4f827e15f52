/* Copies of equal workers to and from a server form one class of flows (sim/platform/gpu_crowds.c):
 * results equal those with a class per worker. */
#include "common/random.h"
#include "tests/gpu_fixture.h"

enum { SCENARIOS = 200 };

static int below(dl_random *stream, int end)
{
    return (int)dl_random_below(stream, (uint64_t)end);
}

/* Draws one of several rates, in an uneven number of bytes/s. */
static double rate(dl_random *stream)
{
    static const double rates[] = {2e8, 1e9, 1.5e9, 2e10};
    return rates[below(stream, (int)DL_LENGTH(rates))] * (1 + dl_random_uniform(stream) / 100);
}

/* Nodes with one or two GPUs each, the first one possibly with another port, and three more nodes.
 * With `apart` the last two exchange traffic that does not affect the workers; but with other jobs
 * each worker has its own classes. */
static void make_machine(dl_random *stream, int nodes, bool apart, char *text, size_t room)
{
    const double slot = rate(stream), wire = rate(stream);
    const int used = snprintf(
        text, room,
        "[machine]\nschema = 1\nname = nodes\nnodes = %d\npeer = all\ngpudirect = %s\n"
        "[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = 100GB/s\n"
        "fp32_flop_per_s = 1Tflop/s\n"
        "[link slot]\nbytes_per_s = %.0f\nlatency_ns = %d\n"
        "[link wire]\nbytes_per_s = %.0f\nlatency_ns = %d\n"
        "[link wide]\nbytes_per_s = 4GB/s\nlatency_ns = 700\n"
        "[host]\nmemory_bytes_per_s = 1000GB/s\n"
        "[gpus 0]\nmodel = g\nparent = socket0\nlink = slot\n%s"
        "[nics 0]\nparent = socket0\nlink = slot\nport = wire\n",
        nodes + 3, below(stream, 2) == 0 ? "yes" : "no", slot, below(stream, 300), wire,
        below(stream, 4000),
        below(stream, 3) == 0 ? "[gpus 1]\nmodel = g\nparent = socket0\nlink = slot\n" : "");
    static const char *const kinds[] = {
        "", "", "[nodes 0]\nkind = a\n[nics 0 of a]\nparent = socket0\nlink = slot\nport = wide\n"};
    const char *kind = kinds[below(stream, 3)];
    const int all = used + snprintf(text + used, room - (size_t)used, "%s", kind);
    if (!apart) return;
    snprintf(text + all, room - (size_t)all,
             "[traffic o]\nfrom = %d\nto = %d\nbytes = 1\nevery_ns = 1e5\n", nodes + 1, nodes + 2);
}

static dl_run_result run(int seed, bool apart)
{
    static const char *const modes[] = {"async\n",
                                        "ps\n",
                                        "ps\nserver_threads = 3\n",
                                        "softsync\nn = 2\n",
                                        "kbatchasync\nk = 3\n",
                                        "easgd\nmoving_rate = 0.5\n",
                                        "average\ninterval = 2\naverage_state = yes\n"};
    char machine[2048], costs[1024], rest[256];
    dl_random stream;
    dl_random_init(&stream, (uint64_t)seed, 0, 0, 0);
    const int nodes = 2 + below(&stream, 9), workers = 2 + below(&stream, nodes - 1);
    make_machine(&stream, nodes, apart, machine, sizeof machine);
    snprintf(
        costs, sizeof costs,
        "[costs]\nschema = 1\nparameter_bytes = %d\nstate_bytes = 4001\n"
        "[op a.forward]\nfixed_ns = %d\nper_sample_ns = 0\n"
        "[op a.backward]\nfixed_ns = %d\nper_sample_ns = 0\n"
        "[op a.update]\nfixed_ns = 1003\nper_sample_ns = 0\n"
        "[average]\nlatency_ns = 10\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n"
        "[update]\nlatency_ns = 10\nread_bytes_per_s = 1e9, measured\nwrite_bytes_per_s = 1e9\n"
        "[sync]\nbarrier_ns = 7\nlock_ns = 11\n" FIXTURE_FREE_DISPATCH,
        10001 + below(&stream, 40000), 20000 + below(&stream, 60000),
        20000 + below(&stream, 90000));
    const char *mode = modes[below(&stream, (int)DL_LENGTH(modes))];
    char where[24] = "cpu";
    if (below(&stream, 2) == 0 && strstr(mode, "threads") == NULL)
        snprintf(where, sizeof where, "gpu:%d", workers);
    snprintf(rest, sizeof rest,
             "[sync]\nwhere = %s\nmode = %s[noise]\nkind = lognormal\nsigma = 0.2\n", where, mode);
    return fixture_run_machine(machine, costs, "", workers, 3 + below(&stream, 12), rest);
}

static void assert_close(int seed, const char *what, double a, double b, double frac)
{
    if (fabs(a - b) > frac * fabs(a)) fail_msg("seed %d: %s %.17g and %.17g", seed, what, a, b);
}

/* Steps, staleness and bytes are equal to the ns, in modes in which no two workers request the lock
 * at the same ns; fractions of the run's time are only close: with other jobs the last event may be
 * up to 0.1 ms later. */
static void results_are_those_of_separate_classes(void **state DL_UNUSED)
{
    for (int seed = 0; seed < SCENARIOS; seed++) {
        DL_SCOPED(dl_run_result) crowd = run(seed, false), apart = run(seed, true);
        assert_close(seed, "span", crowd.span_s, apart.span_s, 1e-12);
        for (int w = 0; w < crowd.workers; w++)
            assert_close(seed, "step", crowd.worker_step_s[w], apart.worker_step_s[w], 1e-12);
        const size_t bins = (size_t)crowd.staleness_rows * (size_t)crowd.staleness_bins;
        assert_int_equal(crowd.staleness_bins, apart.staleness_bins);
        for (size_t i = 0; i < bins; i++)
            assert_int_equal(crowd.staleness[i], apart.staleness[i]);
        assert_close(seed, "bytes", crowd.usage.traffic_bytes, apart.usage.traffic_bytes, 1e-12);
        assert_close(seed, "sent", crowd.usage.sent_bytes, apart.usage.sent_bytes, 1e-12);
        assert_close(seed, "link", crowd.usage.link_frac, apart.usage.link_frac,
                     0.1e-3 / crowd.span_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_those_of_separate_classes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
