#include "calibrate/calibration.h"

#include <gsl/gsl_errno.h>
#include <math.h>

#include "common/random.h"
#include "tests/bench_samples.h"
#include "tests/check.h"

typedef struct fitted {
    dl_comm_fit comm;
    dl_costs costs;
    dl_notes notes;
} fitted;

static dl_status fit(const dl_dataset *dataset, fitted *f, dl_error *err)
{
    *f = (fitted){.costs = {.parameter_bytes = 1000000, .cores = 2}};
    return dl_comm_costs_fit(dataset, &f->comm, &f->costs, &f->notes, err);
}

static void release(dl_dataset *dataset, fitted *f)
{
    dl_dataset_free(dataset);
    dl_comm_fit_free(&f->comm);
    dl_costs_free(&f->costs);
    dl_notes_free(&f->notes);
}

/* Adds n samples of `time_ns` with 2 % noise, 5 % of them preempted for 1 ms. */
static void add_noisy(dl_dataset *dataset, dl_sample_kind kind, dl_record record, double time_ns,
                      int n, dl_random *random)
{
    for (int i = 0; i < n; i++) {
        double sample_ns = time_ns * (1 + 0.02 * dl_random_normal(random));
        if (dl_random_uniform(random) < 0.05) sample_ns += 1e6;
        record.duration_ns = (int64_t)(sample_ns + 0.5);
        add_sample(dataset, kind, record);
    }
}

static const uint64_t sizes[] = {65536, 250000, 500000, 1000000, 2000000, 4000000};

/* Copies: 2000 ns + bytes / (10 GB/s). Samples with two threads, three times as slow, are
 * ignored. */
static void test_copies(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    for (int i = 0; i < 6; i++) {
        const double time_ns = 2000 + (double)sizes[i] * 0.1;
        for (dl_phase phase = DL_PHASE_PUSH; phase <= DL_PHASE_PULL; phase++) {
            dl_record record = {.bytes = sizes[i], .threads = 1, .phase = phase};
            add_noisy(&dataset, DL_SAMPLE_COPY, record, time_ns, 40, &random);
            record.threads = 2;
            add_noisy(&dataset, DL_SAMPLE_COPY, record, 3 * time_ns, 40, &random);
        }
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    const dl_value latency = f.costs.copy.latency_ns, rate = f.costs.copy.bandwidth_bytes_per_s;
    assert_true(latency.known && rate.known && latency.origin == DL_ORIGIN_FITTED);
    assert_true(fabs(latency.value - 2000) < 3 * latency.error && latency.error < 2000);
    assert_true(fabs(rate.value - 1e10) < 3 * rate.error && rate.error < 2e8);
    assert_int_equal(rate.count, 480);
    assert_int_equal(f.comm.lines[DL_COMM_COPY].count, 24);
    assert_true(isnan(f.comm.lines[DL_COMM_COPY].points[23].fitted_ns));
    assert_false(f.costs.average.latency_ns.known);
    release(&dataset, &f);
}

/* Averages: 1000 ns + bytes (n / (20 GB/s) + 1 / (5 GB/s)); updates likewise with other rates. */
static void test_averages_and_updates(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    dl_random random;
    dl_random_init(&random, 4, 0, 0, 0);
    for (int i = 0; i < 6; i++) {
        for (uint32_t n = 1; n <= 16; n *= 2) {
            const double bytes = (double)sizes[i];
            const dl_record record = {.bytes = sizes[i], .vectors = n, .threads = 1};
            add_noisy(&dataset, DL_SAMPLE_AVERAGE, record, 1000 + bytes * (n / 20.0 + 1 / 5.0), 40,
                      &random);
            add_noisy(&dataset, DL_SAMPLE_UPDATE, record, 3000 + bytes * (n / 8.0 + 1 / 2.0), 40,
                      &random);
        }
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    const dl_value values[] = {f.costs.average.latency_ns,        f.costs.average.read_bytes_per_s,
                               f.costs.average.write_bytes_per_s, f.costs.update.latency_ns,
                               f.costs.update.read_bytes_per_s,   f.costs.update.write_bytes_per_s};
    const double truth[] = {1000, 20e9, 5e9, 3000, 8e9, 2e9};
    for (int i = 0; i < 6; i++) {
        assert_true(values[i].known);
        assert_true(fabs(values[i].value - truth[i]) < 3 * values[i].error);
        if (i % 3 > 0) assert_true(values[i].error < 0.03 * truth[i]);
    }
    release(&dataset, &f);
}

/* 1 MB in 100 us is 10 GB/s, and back in 40 us 25 GB/s; three of nine samples were preempted. */
static void test_messages(void **state DL_UNUSED)
{
    const int int8 = DL_COMPRESS_INT8 - DL_COMPRESS_FP16;
    const dl_sample_kind encode = (dl_sample_kind)(DL_SAMPLE_QUANTISE + int8);
    const dl_sample_kind decode = (dl_sample_kind)(DL_SAMPLE_DEQUANTISE + int8);
    assert_string_equal(dl_sample_kind_names[encode], "quantise_int8");
    assert_string_equal(dl_sample_kind_names[decode], "dequantise_int8");
    dl_dataset dataset = {0};
    for (int i = 0; i < 9; i++) {
        dl_record record = {.bytes = 1000000, .threads = 1, .duration_ns = i < 6 ? 100000 : 900000};
        add_sample(&dataset, encode, record);
        record.duration_ns = 40000;
        add_sample(&dataset, decode, record);
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    assert_true(fabs(f.costs.quantise[DL_COMPRESS_INT8].encode_bytes_per_s.value - 10e9) < 1);
    assert_true(fabs(f.costs.quantise[DL_COMPRESS_INT8].decode_bytes_per_s.value - 25e9) < 1);
    assert_int_equal(f.costs.quantise[DL_COMPRESS_INT8].decode_bytes_per_s.count, 9);
    assert_false(f.costs.quantise[DL_COMPRESS_FP16].encode_bytes_per_s.known);
    release(&dataset, &f);
}

/* Two regimes, 0.05 ns per byte up to the parameters' size and 0.5 beyond twice that: the line fits
 * the used sizes, with an error below 5 % at the parameters' size. */
static void test_other_regimes_do_not_bend_the_line(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    dl_random random;
    dl_random_init(&random, 3, 0, 0, 0);
    for (int i = 0; i < 6; i++) {
        const double ns_per_byte = sizes[i] > 1000000 ? 0.5 : 0.05;
        add_noisy(&dataset, DL_SAMPLE_COPY, (dl_record){.bytes = sizes[i], .threads = 1},
                  (double)sizes[i] * ns_per_byte, 40, &random);
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    const dl_comm_point *used = &f.comm.lines[DL_COMM_COPY].points[3];
    assert_int_equal(used->bytes, 1000000);
    assert_true(fabs(used->fitted_ns / used->time_ns.value - 1) < 0.05);
    release(&dataset, &f);
}

/* One size and one number of vectors: proportional, read = write, both noted. 8e6 bytes * 2 in 4 ms
 * are 4 GB/s each way. */
static void test_what_does_not_vary_is_assumed(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    for (int i = 0; i < 10; i++) {
        add_sample(
            &dataset, DL_SAMPLE_AVERAGE,
            (dl_record){.bytes = 8000000, .vectors = 1, .threads = 1, .duration_ns = 4000000});
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    assert_true(f.costs.average.latency_ns.value == 0);
    assert_int_equal(f.costs.average.latency_ns.origin, DL_ORIGIN_ASSUMED);
    assert_true(fabs(f.costs.average.read_bytes_per_s.value - 4e9) < 1e3);
    assert_true(fabs(f.costs.average.write_bytes_per_s.value - 4e9) < 1e3);
    assert_int_equal(f.notes.count, 2);
    assert_contains(f.notes.lines[0], "one size only");
    assert_contains(f.notes.lines[1], "read and write");
    release(&dataset, &f);
}

/* bytes (n + 1) - 100 us: the latency would be negative and is constrained to 0. */
static void test_negative_latency_is_held(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    for (uint32_t n = 1; n <= 4; n *= 2) {
        for (uint64_t bytes = 500000; bytes <= 2000000; bytes *= 2) {
            add_sample(&dataset, DL_SAMPLE_UPDATE,
                       (dl_record){.bytes = bytes,
                                   .vectors = n,
                                   .threads = 1,
                                   .duration_ns = (int64_t)(bytes * (n + 1) - 100000)});
        }
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    assert_true(f.costs.update.latency_ns.known && f.costs.update.latency_ns.value == 0);
    assert_int_equal(f.notes.count, 1);
    assert_contains(f.notes.lines[0], "update: the fitted latency is below 0");
    release(&dataset, &f);
}

/* A time that decreases with the number of vectors would make reading free: read = write is used
 * instead. */
static void test_free_reading_is_merged(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    for (uint32_t n = 1; n <= 4; n *= 2) {
        for (uint64_t bytes = 500000; bytes <= 2000000; bytes *= 2) {
            add_sample(&dataset, DL_SAMPLE_UPDATE,
                       (dl_record){.bytes = bytes,
                                   .vectors = n,
                                   .threads = 1,
                                   .duration_ns = (int64_t)(bytes - bytes * n / 20)});
        }
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    assert_true(f.costs.update.read_bytes_per_s.value > 0);
    assert_true(f.costs.update.read_bytes_per_s.value == f.costs.update.write_bytes_per_s.value);
    assert_int_equal(f.notes.count, 1);
    assert_contains(f.notes.lines[0], "read and write");
    release(&dataset, &f);
}

static void test_time_must_grow(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    for (uint64_t bytes = 500000; bytes <= 2000000; bytes *= 2) {
        add_sample(
            &dataset, DL_SAMPLE_COPY,
            (dl_record){.bytes = bytes, .threads = 1, .duration_ns = 3000000 - (int64_t)bytes});
    }
    fitted f;
    dl_error err = {0};
    assert_int_equal(fit(&dataset, &f, &err), DL_ERR_DATA);
    assert_contains(err.text, "copy: time does not grow");
    release(&dataset, &f);
}

/* Barrier and lock use threads with cores (2 of 2, not 8), wake-ups those across cores (threads 2),
 * not on the waker's core, slices all samples. */
static void test_medians(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    for (int i = -2; i <= 2; i++) {
        add_sample(&dataset, DL_SAMPLE_BARRIER, (dl_record){.threads = 2, .duration_ns = 400 + i});
        add_sample(&dataset, DL_SAMPLE_BARRIER, (dl_record){.threads = 8, .duration_ns = 9000});
        add_sample(&dataset, DL_SAMPLE_LOCK, (dl_record){.threads = 2, .duration_ns = 300 + i});
        add_sample(&dataset, DL_SAMPLE_WAKEUP, (dl_record){.threads = 1, .duration_ns = 5000});
        add_sample(&dataset, DL_SAMPLE_WAKEUP, (dl_record){.threads = 2, .duration_ns = 30000 + i});
        add_sample(&dataset, DL_SAMPLE_SLICE,
                   (dl_record){.vectors = 2, .threads = 1, .duration_ns = 4000000 + i});
    }
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    assert_true(f.costs.barrier_ns.value == 400 && f.costs.barrier_ns.count == 5);
    assert_true(f.costs.lock_ns.value == 300);
    assert_true(f.costs.wakeup_ns.value == 30000);
    assert_true(f.costs.slice_ns.value == 4000000);
    /* sqrt(5) / 2 = 1.1 indices around index 2, rounded outwards, are 0 and 4: (402 - 398) / 2 */
    assert_true(fabs(f.costs.barrier_ns.error - 2) < 1e-12);
    assert_int_equal(f.costs.barrier_ns.origin, DL_ORIGIN_MEASURED);
    release(&dataset, &f);
}

/* Only uncontended samples are available, as on one core, and are used. */
static void test_medians_of_what_there_is(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    add_sample(&dataset, DL_SAMPLE_LOCK, (dl_record){.threads = 1, .duration_ns = 70});
    add_sample(&dataset, DL_SAMPLE_SLICE, (dl_record){.threads = 1, .duration_ns = 0});
    fitted f;
    assert_int_equal(fit(&dataset, &f, NULL), DL_OK);
    assert_true(f.costs.lock_ns.value == 70);
    assert_false(f.costs.slice_ns.known || f.costs.barrier_ns.known);
    release(&dataset, &f);
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_averages_and_updates),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_other_regimes_do_not_bend_the_line),
        cmocka_unit_test(test_what_does_not_vary_is_assumed),
        cmocka_unit_test(test_negative_latency_is_held),
        cmocka_unit_test(test_free_reading_is_merged),
        cmocka_unit_test(test_time_must_grow),
        cmocka_unit_test(test_medians),
        cmocka_unit_test(test_medians_of_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
