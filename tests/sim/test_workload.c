#include "tests/check.h"

#include <math.h>

#include "sim/workload.h"
#include "tests/sim_fixture.h"

#include <stdlib.h>

/* Batch 10: input 150 (100 + 5 each); forward 3000, backward -500 + 4000: compute 6500; update -5 +
 * 1 counts as 0. */
static void work_of_a_step(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs =
        fixture_costs("[costs]\nschema = 1\nparameter_bytes = 7\n"
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
}

/* Forward -1010 + 10, backward 4000: the backward pass is no longer than both passes together,
 * 3000. */
static void backward_is_part_of_compute(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs =
        fixture_costs("[costs]\nschema = 1\n"
                      "[op a.forward]\nfixed_ns = -1010\nper_sample_ns = 1\n"
                      "[op a.backward]\nfixed_ns = 0\nper_sample_ns = 400\n");
    dl_workload workload;
    dl_workload_init(&workload, &costs, 10);
    assert_true(workload.compute_ns == 3000 && workload.backward_ns == 3000);
}

/* 1000 bytes: copy 7 + 1000 / 2e9 s = 507 ns and 2000 bytes of traffic; average of 3 vectors
 * 10 + 1000 (3 / 4 + 1 / 2) = 1260 ns and 4000 bytes; update of 2 with a latency of -5000: 0 ns. */
static void work_of_bytes(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(
        "[costs]\nschema = 1\n[copy]\nlatency_ns = 7\nbandwidth_bytes_per_s = 2e9\n"
        "[average]\nlatency_ns = 10\nread_bytes_per_s = 4e9\nwrite_bytes_per_s = 2e9\n"
        "[update]\nlatency_ns = -5000\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n");
    dl_workload workload;
    dl_workload_init(&workload, &costs, 1);
    dl_work copy = dl_byte_work(&workload.copy, 1000, 1);
    assert_near(copy.full_speed_ns, 507, 1e-12);
    assert_near(copy.traffic_bytes, 2000, 1e-12);
    dl_work average = dl_byte_work(&workload.average, 1000, 3);
    assert_near(average.full_speed_ns, 1260, 1e-12);
    assert_near(average.traffic_bytes, 4000, 1e-12);
    assert_true(dl_byte_work(&workload.update, 1000, 2).full_speed_ns == 0);
    dl_work both = dl_work_add(copy, average);
    assert_near(both.full_speed_ns, 1767, 1e-12);
    assert_near(both.traffic_bytes, 6000, 1e-12);
}

/* Known at 2 (1.1) and 6 (1.5): 1 at 1, halfway at 4, the last value beyond 6. */
static void sharing_is_linear_between_known_values(void **state DL_UNUSED)
{
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

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Writes 4001 draws of a value in ascending order. */
static void sorted_draws(const char *line, double *(*value_of)(dl_costs *), double *draws)
{
    char text[200];
    snprintf(text, sizeof text, "[costs]\nschema = 1\n%s\n", line);
    DL_SCOPED(dl_costs) costs = fixture_costs(text);
    for (uint32_t d = 0; d < 4001; d++) {
        dl_random stream;
        dl_random_init(&stream, 1, d, 0, 0);
        DL_AUTO(dl_costs_draw_free) dl_costs drawn;
        dl_costs_draw(&costs, &stream, &drawn);
        draws[d] = *value_of(&drawn);
    }
    qsort(draws, 4001, sizeof *draws, compare_doubles);
}

static double *fixed_of(dl_costs *costs)
{
    return &costs->ops[0].fixed_ns.value;
}

static double *serial_of(dl_costs *costs)
{
    return &costs->dispatch.serial_ns.value;
}

static double *slowdown_of(dl_costs *costs)
{
    return &costs->overlap_slowdown.value;
}

static double *spread_of(dl_costs *costs)
{
    return &costs->gpu_spread_frac.value;
}

static double *bandwidth_of(dl_costs *costs)
{
    return &costs->copy.bandwidth_bytes_per_s.value;
}

/* The median is unchanged, a small error is the standard deviation, and no draw leaves the range.
 * The standard error of a median of 4001 draws is 1.25 sd / 63 = 2 % of the sd; for a lognormal
 * with sd 2.29 times the median, s = 1.02, it is 2 % of the median. */
static void draws_keep_the_median_and_the_range(void **state DL_UNUSED)
{
    static const struct {
        const char *line;
        double *(*value_of)(dl_costs *);
        double median, tolerance, sd, low, high;
    } cases[] = {
        {"[op a.forward]\nfixed_ns = 100 +- 3", fixed_of, 100, 0.002, 3, 0, 1e13},
        {"[op a.forward]\nfixed_ns = 1 +- 5", fixed_of, 1, 0.1, (double)NAN, 1e-99, 1e13},
        {"[op a.forward]\nfixed_ns = -100 +- 30", fixed_of, -100, 0.02, 30, -1e9, 1e13},
        {"[dispatch]\nserial_ns = 143000 +- 327000", serial_of, 143000, 0.08, (double)NAN, 1, 1e15},
        {"[dispatch]\nserial_ns = 0 +- 300", serial_of, 0, 0, (double)NAN, 0, 1e13},
        {"[overlap]\nslowdown = 1.04 +- 0.1", slowdown_of, 1.04, 0.005, (double)NAN, 1, 1e15},
        {"[overlap]\nslowdown = 1 +- 0.1", slowdown_of, 1, 0, (double)NAN, 1, 1e15},
        {"[spread]\ngpu_frac = 0.9 +- 0.3", spread_of, 0.9, 0.03, (double)NAN, 0, 1},
        {"[spread]\ngpu_frac = 0.3 +- 0.01", spread_of, 0.3, 0.002, 0.01, 0, 1},
        {"[copy]\nbandwidth_bytes_per_s = 1e9 +- 9e9", bandwidth_of, 1e9, 0.15, (double)NAN, 1,
         1e15},
    };
    static double draws[4001];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sorted_draws(cases[i].line, cases[i].value_of, draws);
        assert_near(draws[2000], cases[i].median, cases[i].tolerance);
        assert_true(draws[0] >= cases[i].low && draws[4000] <= cases[i].high);
        /* the quantiles of one standard deviation */
        const double sd = (draws[3366] - draws[634]) / 2;
        if (!isnan(cases[i].sd)) assert_near(sd, cases[i].sd, 0.08);
        assert_true(draws[4000] > draws[0]);
    }
}

static dl_costs one_draw(const dl_costs *costs, uint32_t number)
{
    dl_random stream;
    dl_random_init(&stream, 1, number, 0, 0);
    dl_costs drawn;
    dl_costs_draw(costs, &stream, &drawn);
    return drawn;
}

/* Times of a collective are off by the same number of standard errors at all sizes: 100 +- 3 and
 * 200 +- 6 keep the ratio of 2 (3 % of both: the same lognormal), halfway are 150 +- 4.5. With 4001
 * draws the sd is known to 1.1 %. Another collective's times are independent: the product of both,
 * 100 +- 3 and 100 +- 4, has 5 %. */
static void times_of_a_collective_are_drawn_together(void **state DL_UNUSED)
{
    enum { DRAWS = 4001 };
    static double half[DRAWS], both[DRAWS];
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\n[collective allreduce 2]\nbytes_0 = 100 +- 3\n"
                      "bytes_1000 = 200 +- 6\n[collective allreduce 4]\nbytes_0 = 100 +- 4\n"
                      "bytes_1000 = 100\n");
    for (uint32_t d = 0; d < DRAWS; d++) {
        DL_AUTO(dl_costs_draw_free) dl_costs drawn = one_draw(&costs, d);
        const dl_collective_cost *two = &drawn.collectives[0];
        const double at_0 = dl_collective_cost_ns(two, 0);
        assert_near(dl_collective_cost_ns(two, 1000), 2 * at_0, 1e-12);
        half[d] = dl_collective_cost_ns(two, 500);
        both[d] = at_0 * dl_collective_cost_ns(&drawn.collectives[1], 0);
        assert_true(dl_collective_cost_ns(&drawn.collectives[1], 1000) == 100);
    }
    qsort(half, DRAWS, sizeof *half, compare_doubles);
    qsort(both, DRAWS, sizeof *both, compare_doubles);
    assert_near(half[2000], 150, 0.002);
    assert_near((half[3366] - half[634]) / 2, 4.5, 0.05);
    assert_near((both[3366] - both[634]) / 2, 500, 0.05);
    assert_true(costs.collectives[0].times[0].time_ns.value == 100);
    dl_costs_free(&costs);
}

/* Factors exp(-0.1), 1, exp(0.1): the logarithm of another start's factor is 0.1 times Student's t
 * with two degrees of freedom, whose quantiles are 0.8165 (75 %) and 4.3027 (97.5 %); for 4001
 * draws four standard deviations of the shares are 3.2 and 1.4 %. A collective that was slow in the
 * starts in which this one was fast has the inverse factor. With two starts that are far apart no
 * factor exceeds 10, and a single start has no effect. */
static void another_start_is_drawn(void **state DL_UNUSED)
{
    enum { DRAWS = 4001 };
    DL_SCOPED(dl_costs) costs = fixture_costs(
        "[costs]\nschema = 1\n"
        "[collective allreduce 2]\nstarts = 0.904837418, 1, 1.105170918\nbytes_0 = 1\n"
        "bytes_1000 = 2\n"
        "[allreduce_pair 2]\nstarts = 1.105170918, 1, 0.904837418\nbytes_0 = 1\nbytes_1000 = 2\n"
        "[roundtrip 2]\nstarts = 0.1, 10\nbytes_0 = 1\nbytes_1000 = 2\n"
        "[roundtrip 1]\nstarts = 1.5\nbytes_0 = 1\nbytes_1000 = 2\n");
    int half = 0, most = 0;
    bool reached = false;
    assert_true(dl_costs_have_errors(&costs));
    for (uint32_t d = 0; d < DRAWS; d++) {
        DL_AUTO(dl_costs_draw_free) dl_costs drawn = one_draw(&costs, d);
        double factor[4];
        for (int i = 0; i < 4; i++) {
            factor[i] = dl_collective_cost_ns(&drawn.collectives[i], 0);
            assert_near(dl_collective_cost_ns(&drawn.collectives[i], 1000), 2 * factor[i], 1e-12);
        }
        half += fabs(log(factor[0])) < 0.08165;
        most += fabs(log(factor[0])) < 0.43027;
        assert_near(factor[0] * factor[1], 1, 1e-5);
        assert_true(factor[2] >= 0.1 && factor[2] <= 10 && factor[3] == 1);
        reached |= factor[2] == 10;
    }
    assert_near(half, 0.5 * DRAWS, 0.064);
    assert_near(most, 0.95 * DRAWS, 0.0145);
    assert_true(reached);
}

/* Without a stream, or without errors, the costs remain the same bit for bit. */
static void costs_without_errors_are_not_drawn(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 100 +- 3\n"
                                   "[overlap]\nslowdown = 1.04\n");
    dl_random stream;
    dl_random_init(&stream, 1, 1, 0, 0);
    dl_costs drawn;
    dl_costs_draw(&costs, NULL, &drawn);
    assert_true(drawn.ops[0].fixed_ns.value == 100);
    dl_costs_draw_free(&drawn);
    dl_costs_draw(&costs, &stream, &drawn);
    assert_true(drawn.ops[0].fixed_ns.value != 100 && drawn.overlap_slowdown.value == 1.04);
    assert_true(costs.ops[0].fixed_ns.value == 100);
    dl_costs_draw_free(&drawn);
    assert_true(dl_costs_have_errors(&costs));
    costs.ops[0].fixed_ns.error = 0;
    assert_false(dl_costs_have_errors(&costs));
    dl_costs_free(&costs);
}

/* A measured run's factors scale each line as a whole. */
static void exchange_takes_the_factors_of_a_run(void **state DL_UNUSED)
{
    dl_workload w = {.copy = {10, 1, 0},
                     .average = {20, 2, 3},
                     .update = {30, 4, 5},
                     .shared_pull_ns_per_byte = 7};
    dl_workload_exchange_run(&w, &(dl_exchange_run){2, 3, 4, 5});
    assert_true(dl_byte_work(&w.copy, 100, 1).full_speed_ns == 2 * 110);
    assert_true(dl_byte_work(&w.average, 100, 2).full_speed_ns == 3 * 720);
    assert_true(dl_byte_work(&w.update, 100, 1).full_speed_ns == 4 * 930);
    assert_true(dl_byte_work(&w.copy, 100, 1).traffic_bytes == 200);
    assert_true(w.shared_pull_ns_per_byte == 35 && w.shared_push_ns_per_byte == 0);
}

/* The all-reduce and the broadcast of processes were not measured, and follow from [gloo], beside
 * three measured collectives of other numbers of ranks. An all-reduce of two takes 2 x (1 us + 8 bytes / (1
 * GB/s)). */
static void lines_are_added_to_measured_collectives(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\n[collective broadcast 4]\nbytes_0 = 1\nbytes_8 = 2\n"
                      "[collective broadcast 8]\nbytes_0 = 1\nbytes_8 = 2\n"
                      "[collective broadcast 16]\nbytes_0 = 1\nbytes_8 = 2\n"
                      "[gloo]\nlatency_ns = 1000\nbytes_per_s = 1e9\n");
    DL_AUTO(dl_costs_draw_free) dl_costs drawn;
    dl_costs_draw(&costs, NULL, &drawn);
    dl_costs_draw_processes(&drawn, 2);
    assert_int_equal(drawn.collective_count, 5);
    assert_int_equal(drawn.collectives[3].kind, DL_ALLREDUCE);
    assert_near(dl_collective_cost_ns(&drawn.collectives[3], 8), 2016, 1e-9);
    dl_costs_free(&costs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange_takes_the_factors_of_a_run),
        cmocka_unit_test(work_of_a_step),
        cmocka_unit_test(backward_is_part_of_compute),
        cmocka_unit_test(work_of_bytes),
        cmocka_unit_test(sharing_is_linear_between_known_values),
        cmocka_unit_test(draws_keep_the_median_and_the_range),
        cmocka_unit_test(times_of_a_collective_are_drawn_together),
        cmocka_unit_test(another_start_is_drawn),
        cmocka_unit_test(costs_without_errors_are_not_drawn),
        cmocka_unit_test(lines_are_added_to_measured_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
