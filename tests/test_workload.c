#include "tests/check.h"

#include <math.h>

#include "sim/workload.h"
#include "tests/sim_fixture.h"

/* Batch 10: input 150 (100 + 5 each); forward 3000, backward -500 + 4000: compute 6500; update -5 +
 * 1 counts as 0. */
static void work_of_a_step(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 7\n"
                                   "[op input]\nfixed_ns = 100\nper_sample_ns = 5\n"
                                   "[op a.forward]\nfixed_ns = 0\nper_sample_ns = 300\n"
                                   "[op a.backward]\nfixed_ns = -500\nper_sample_ns = 400\n"
                                   "[op a.update]\nfixed_ns = -5\nper_sample_ns = 0.1\n");
    dl_workload workload;
    dl_workload_init(&workload, &costs, 10);
    assert_true(workload.input_ns == 150 && workload.dispatch_ns == 0);
    assert_true(workload.compute_ns == 6500 && workload.update_ns == 0);
    assert_true(workload.parameter_bytes == 7 && workload.state_bytes == 0);
    assert_true(isinf(workload.memory_bytes_per_ns) && isinf(workload.slice_ns));
    dl_costs_free(&costs);
}

/* Forward -1010 + 10, backward 4000: the pass backward is no longer than both passes, 3000. */
static void backward_is_part_of_compute(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n"
                                   "[op a.forward]\nfixed_ns = -1010\nper_sample_ns = 1\n"
                                   "[op a.backward]\nfixed_ns = 0\nper_sample_ns = 400\n");
    dl_workload workload;
    dl_workload_init(&workload, &costs, 10);
    assert_true(workload.compute_ns == 3000 && workload.backward_ns == 3000);
    dl_costs_free(&costs);
}

/* 1000 bytes: copy 7 + 1000 / 2e9 s = 507 ns and 2000 bytes of traffic; average of 3 vectors
 * 10 + 1000 (3 / 4 + 1 / 2) = 1260 ns and 4000 bytes; update of 2 with a latency of -5000: 0 ns. */
static void work_of_bytes(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs(
        "[costs]\nschema = 1\n[copy]\nlatency_ns = 7\nbandwidth_bytes_per_s = 2e9\n"
        "[average]\nlatency_ns = 10\nread_bytes_per_s = 4e9\nwrite_bytes_per_s = 2e9\n"
        "[update]\nlatency_ns = -5000\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n");
    dl_workload workload;
    dl_workload_init(&workload, &costs, 1);
    dl_work copy = dl_workload_copy(&workload, 1000);
    assert_near(copy.full_speed_ns, 507, 1e-12);
    assert_near(copy.traffic_bytes, 2000, 1e-12);
    dl_work average = dl_workload_average(&workload, 1000, 3);
    assert_near(average.full_speed_ns, 1260, 1e-12);
    assert_near(average.traffic_bytes, 4000, 1e-12);
    assert_true(dl_workload_update(&workload, 1000, 2).full_speed_ns == 0);
    dl_work both = dl_work_add(copy, average);
    assert_near(both.full_speed_ns, 1767, 1e-12);
    assert_near(both.traffic_bytes, 6000, 1e-12);
    dl_costs_free(&costs);
}

/* Known at 2 (1.1) and 6 (1.5): 1 at 1, halfway at 4, the last value beyond 6. */
static void sharing_is_linear_between_known_values(void **state)
{
    (void)state;
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\n[sharing]\ncopies_2 = 1.1\ncopies_6 = 1.5\n");
    assert_near(dl_sharing(&costs, 1), 1, 1e-12);
    assert_near(dl_sharing(&costs, 2), 1.1, 1e-12);
    assert_near(dl_sharing(&costs, 3), 1.2, 1e-12);
    assert_near(dl_sharing(&costs, 4), 1.3, 1e-12);
    assert_near(dl_sharing(&costs, 6), 1.5, 1e-12);
    assert_near(dl_sharing(&costs, 900), 1.5, 1e-12);
    assert_int_equal(dl_sharing_known(&costs), 6);
    dl_costs_free(&costs);
    costs = fixture_costs("[costs]\nschema = 1\n");
    assert_near(dl_sharing(&costs, 5), 1, 1e-12);
    assert_int_equal(dl_sharing_known(&costs), 1);
    dl_costs_free(&costs);
}

/* 2000 draws of 100 +- 3: mean within 4 standard errors (0.27), deviation within 10 %; pairs are
 * symmetric; a value without error stays; 1 +- 5 never becomes negative. */
static void draws_have_the_standard_error(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n"
                                   "[op a.forward]\nfixed_ns = 100 +- 3\nper_sample_ns = 1 +- 5\n"
                                   "[sync]\nlock_ns = 7\n");
    double sum = 0, squares = 0;
    for (uint32_t r = 0; r < 2000; r++) {
        dl_random stream, again;
        dl_random_init(&stream, 1, r, 0, 0);
        again = stream;
        dl_costs up, down;
        dl_costs_draw(&costs, &stream, 1, &up);
        dl_costs_draw(&costs, &again, -1, &down);
        double off = up.ops[0].fixed_ns.value - 100;
        assert_near(down.ops[0].fixed_ns.value, 100 - off, 1e-12);
        assert_true(up.ops[0].per_sample_ns.value > 0 && up.lock_ns.value == 7);
        sum += off;
        squares += off * off;
        dl_costs_draw_free(&up);
        dl_costs_draw_free(&down);
    }
    assert_true(fabs(sum / 2000) < 0.27);
    assert_near(sqrt(squares / 2000), 3, 0.1);
    assert_true(costs.ops[0].fixed_ns.value == 100);
    dl_costs_free(&costs);
}

/* A measured run's factors scale the whole of each line. */
static void exchange_takes_the_factors_of_a_run(void **state)
{
    (void)state;
    dl_workload w = {.copy = {10, 1, 0}, .average = {20, 2, 3}, .update = {30, 4, 5}};
    dl_workload_exchange_run(&w, &(dl_exchange_run){2, 3, 4});
    assert_true(dl_workload_copy(&w, 100).full_speed_ns == 2 * 110);
    assert_true(dl_workload_average(&w, 100, 2).full_speed_ns == 3 * 720);
    assert_true(dl_workload_update(&w, 100, 1).full_speed_ns == 4 * 930);
    assert_true(dl_workload_copy(&w, 100).traffic_bytes == 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange_takes_the_factors_of_a_run),
        cmocka_unit_test(work_of_a_step),
        cmocka_unit_test(backward_is_part_of_compute),
        cmocka_unit_test(work_of_bytes),
        cmocka_unit_test(sharing_is_linear_between_known_values),
        cmocka_unit_test(draws_have_the_standard_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
