/* Effects of one slow worker. With a core for each worker it never increases the throughput. If
 * workers share cores it can, as a longer job may end a schedule sooner (Graham 1969, "Bounds on
 * multiprocessing timing anomalies"): it disturbs what delays the others. Two such cases are tested
 * below, and again without the cause of the delay: then there is no gain, and the throughput never
 * reaches that of equal workers with a core each. */
#include "tests/sim_fixture.h"

enum { STEPS = 2000 };

/* Computing takes 350 us, push and pull 50 us each, an update 200 + 50 + 50 us, wake-ups 30 us;
 * slices of 4 ms. */
#define SERVER_COSTS                                                                   \
    "[costs]\nschema = 1\nparameter_bytes = 50000\n"                                   \
    "[op a.forward]\nfixed_ns = 350000\nper_sample_ns = 0\n"                           \
    "[copy]\nlatency_ns = 0\nbandwidth_bytes_per_s = 1e9\n"                            \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"     \
    "[update]\nlatency_ns = 200000\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n" \
    "[memory]\ntotal_bytes_per_s = 1e12\n"                                             \
    "[sync]\nbarrier_ns = 0\nlock_ns = 0\nwakeup_ns = 30000\nslice_ns = 4e6\n"         \
    "[sharing]\ncopies_2 = 1\n"

/* A small model: computing takes 89 us, push and pull 5 us each, an update 50 + 5 + 5 us: 159 us
 * per gradient. */
#define SMALL_COSTS(wakeup_ns)                                                           \
    "[costs]\nschema = 1\nparameter_bytes = 5000\n"                                      \
    "[op a.forward]\nfixed_ns = 89000\nper_sample_ns = 0\n"                              \
    "[copy]\nlatency_ns = 0\nbandwidth_bytes_per_s = 1e9\n"                              \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"       \
    "[update]\nlatency_ns = 50000\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"    \
    "[memory]\ntotal_bytes_per_s = 1e12\n"                                               \
    "[sync]\nbarrier_ns = 0\nlock_ns = 100\nwakeup_ns = " wakeup_ns "\nslice_ns = 4e6\n" \
    "[sharing]\ncopies_2 = 1\n"

/* Samples per second, with one sample per step and worker 0 slowed down by the factor `slow`. */
static double per_s(const char *costs, const char *mode, int cores, int workers, const char *sync,
                    double slow)
{
    char noise[64];
    snprintf(noise, sizeof noise, "[noise]\nslow = 0:%g\n", slow);
    DL_SCOPED(dl_run_result) r = fixture_run_mode(costs, mode, cores, workers, STEPS, sync, noise);
    return r.throughput_per_s;
}

/* Excludes modes in which several workers make an update and a worker that has contributed
 * continues (softsync, kasync, kbatchasync): the order of arrival determines who is in which
 * update. */
static void with_cores_of_their_own_it_is_no_gain(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *sync;
    } modes[] = {{"none", ""},
                 {"allreduce", ""},
                 {"ps", ""},
                 {"async", ""},
                 {"average", "interval = 3\n"},
                 {"bmuf", "interval = 3\n"},
                 {"ksync", "k = 2\n"},
                 {"ssp", "bound = 3\n"},
                 {"kbatchsync", "k = 1\n"},
                 {"easgd", "interval = 3\n"}};
    static const char *const costs[] = {FIXTURE_COSTS, SERVER_COSTS, SMALL_COSTS("27500")};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (int i = 0; i < 9; i++) {
            const int workers = 3 + i / 3;
            const double equal_per_s =
                per_s(costs[i % 3], modes[m].mode, workers, workers, modes[m].sync, 1);
            for (double slow = 1.1; slow < 4; slow *= 1.5) {
                const double slow_per_s =
                    per_s(costs[i % 3], modes[m].mode, workers, workers, modes[m].sync, slow);
                if (slow_per_s <= equal_per_s * (1 + 1e-9)) continue;
                fail_msg("%s, %d workers, costs %d: %.9g samples/s with one %g times as slow, "
                         "%.9g without",
                         modes[m].mode, workers, i % 3, slow_per_s, slow, equal_per_s);
            }
        }
    }
}

/* With 3 workers on 2 cores any worker's first gradient makes the update, so with a core each there
 * would be one every 350 + 50 + 300 + 50 = 750 us. Workers 0 and 2 share a core. If one of them is
 * first, its slice may end during its push or update, (50 + 300) / 750 of the time, and worker 1
 * waits until the other one has computed a useless gradient, so that a tenth is lost. If worker 0
 * or 2 is slow, more updates are by worker 1, which is never preempted. */
static void it_may_keep_updates_from_being_preempted(void **state DL_UNUSED)
{
    const double ceiling_per_s = 1 / 750e-6;
    const double equal_per_s = per_s(SERVER_COSTS, "kbatchsync", 2, 3, "k = 1\n", 1);
    assert_true(equal_per_s < 0.92 * ceiling_per_s);
    for (double slow = 1.5; slow < 3; slow += 0.5) {
        const double slow_per_s = per_s(SERVER_COSTS, "kbatchsync", 2, 3, "k = 1\n", slow);
        assert_true(slow_per_s > 1.04 * equal_per_s);
        assert_true(slow_per_s < ceiling_per_s * (1 + 1e-9));
        assert_near(per_s(SERVER_COSTS, "kbatchsync", 3, 3, "k = 1\n", slow), ceiling_per_s, 1e-3);
    }
}

/* 4 workers on 2 cores meet at the server's lock and at the bound, sleep there, and have work again
 * 27.5 us after they are woken. In lockstep both workers of a core sleep simultaneously: of the 200
 * us of a core per gradient, 41 us are idle. A worker that is 1.1 times as slow breaks the
 * lockstep: 182 us, 21 idle. If wake-ups take no time it is 174 us for both. */
static void it_may_break_a_lockstep(void **state DL_UNUSED)
{
    static const struct {
        const char *costs;
        double least, most; /* limits of the gain */
    } cases[] = {{SMALL_COSTS("27500"), 1.08, 1.12}, {SMALL_COSTS("0"), 0, 1.001}};
    for (int i = 0; i < 2; i++) {
        const double equal_per_s = per_s(cases[i].costs, "ssp", 2, 4, "bound = 3\n", 1);
        const double slow_per_s = per_s(cases[i].costs, "ssp", 2, 4, "bound = 3\n", 1.1);
        assert_true(slow_per_s >= cases[i].least * equal_per_s);
        assert_true(slow_per_s <= cases[i].most * equal_per_s);
        assert_true(slow_per_s < per_s(cases[i].costs, "ssp", 4, 4, "bound = 3\n", 1));
        assert_near(2 / equal_per_s, i == 0 ? 200e-6 : 174e-6, 0.005);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_cores_of_their_own_it_is_no_gain),
        cmocka_unit_test(it_may_keep_updates_from_being_preempted),
        cmocka_unit_test(it_may_break_a_lockstep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
