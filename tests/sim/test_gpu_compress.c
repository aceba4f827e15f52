/* Compressed exchange: bytes are exact, and encoding and decoding messages takes the time of their
 * traffic in a GPU's memory of 100 GB/s (tests/gpu_fixture.h), at the fraction of that rate which a
 * kind reaches. 80 kB are 20 000 parameters. */
#include "tests/gpu_fixture.h"

#define COSTS FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH

static double ps_step_ns(const char *exchange)
{
    char rest[256];
    snprintf(rest, sizeof rest, "[sync]\nmode = ps\n[exchange]\n%s", exchange);
    return fixture_step_ns(COSTS, "", 1, rest);
}

static void assert_ns(double actual, double expected)
{
    if (fabs(actual - expected) > 4) fail_msg("%.1f is not %.1f ns", actual, expected);
}

/* Step with a push of `message` bytes: pull 8200 ns, sum of one vector 160 000 ns. */
static double expected_ns(double traffic, double message)
{
    return 1e6 + traffic / 100 + message / 10 + 200 + 8200 + 160e3;
}

static void pushes_are_smaller(void **state DL_UNUSED)
{
    assert_ns(ps_step_ns(""), expected_ns(0, 80e3));
    assert_ns(ps_step_ns("compress = fp16\n"), expected_ns((80e3 + 40e3) / 0.85, 40e3));
    const double bits = 20000 / 8 + 8; /* and two values of 4 bytes */
    assert_ns(ps_step_ns("compress = 1bit\n"), expected_ns((3 * 80e3 + bits) / 0.63, bits));
    assert_ns(ps_step_ns("compress = topk\ntopk_frac = 0.01\n"),
              expected_ns((3 * 80e3 + 1600) / 0.09, 1600)); /* 200 values and their indices */
    assert_ns(ps_step_ns("compress = int8\n"), expected_ns((80e3 + 20e3) / 0.78, 20e3));
    assert_ns(ps_step_ns("compress = fp4\n"), expected_ns((80e3 + 10e3) / 0.45, 10e3));
}

static double moved(const char *exchange)
{
    char rest[256];
    snprintf(rest, sizeof rest, "[sync]\nmode = %s", exchange);
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(COSTS, "", 4, 10, rest);
    return r.usage.traffic_bytes / 10;
}

/* Bytes of all four workers per step: push and pull; 2 (n - 1) S; (n - 1) n message. */
static void bytes_are_exact(void **state DL_UNUSED)
{
    assert_near(moved("ps\n"), 4 * 160e3, 1e-12);
    assert_near(moved("ps\n[exchange]\ncompress = fp16\n"), 4 * 120e3, 1e-12);
    assert_near(moved("ps\n[exchange]\ncompress = 1bit\nshards = 2\n"),
                4 * (80e3 + 2 * (10000 / 8 + 8)), 1e-12);
    assert_near(moved("allreduce\n[exchange]\nalgorithm = ring\ncompress = fp16\n"), 6 * 40e3,
                1e-9);
    assert_near(
        moved("allreduce\n[exchange]\nalgorithm = ring\ncompress = topk\ntopk_frac = 0.01\n"),
        4 * 3 * 1600, 1e-9);
}

/* Two GPUs: encoding of 120 kB at 85 GB/s, 2 (200 + message / 2 / 10), decoding at 43, update. */
static void reductions_are_smaller(void **state DL_UNUSED)
{
    const double made_ns = 120e3 / 85, read_ns = 120e3 / 43;
    const char *fp16 = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\ncompress = fp16\n";
    assert_ns(fixture_step_ns(COSTS, "", 2, fp16),
              1.1e6 + made_ns + 2 * (200 + 20e3 / 10) + read_ns);
    /* Encoded during the backward pass, which takes that much longer. */
    const char *overlap = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n"
                          "compress = fp16\noverlap = yes\n";
    assert_ns(fixture_step_ns(COSTS "[overlap]\nslowdown = 1\n", "", 2, overlap),
              1.1e6 + made_ns + 2 * (200 + 20e3 / 10) + read_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_are_smaller),
        cmocka_unit_test(bytes_are_exact),
        cmocka_unit_test(reductions_are_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
