/* Micro-benchmarks: a quick run has samples of every kind with the fields documented in
 * record.h. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/train_case.h"

#include "common/cpu.h"
#include "profiler/bench/bench_internal.h"

#define PATH "test_bench.dlt"
#define COPIES 3
#define PARAMETER_BYTES ((size_t)80000)

static dl_trace trace;
static int cores;
static dl_bench bench;

static bool is_of(const dl_record *record, dl_bench_name name)
{
    return strcmp(dl_trace_name(&trace, record), dl_bench_names[name]) == 0;
}

/* mlp in single precision; the vectors exchanged are smaller than its parameters, which would take
 * minutes under ThreadSanitizer. */
static dl_status measure(double seconds, dl_error *err)
{
    dl_train_config train = small_config();
    train.precision = DL_FLOAT;
    train.optimizer.momentum = 0.9;
    const int batches[] = {16, 8};
    const dl_bench_config config = {.train = train,
                                    .parameter_bytes = PARAMETER_BYTES,
                                    .data = &data,
                                    .batches = batches,
                                    .batch_count = 2,
                                    .workers_max = COPIES,
                                    .seconds = seconds,
                                    .quick = true};
    dl_trace_writer *writer = NULL;
    dl_status status = dl_trace_writer_open(&writer, PATH, err);
    if (status != DL_OK) return status;
    dl_bench_init(&bench, writer);
    status = dl_bench_run(&bench, &config, err);
    if (status == DL_OK) status = dl_trace_writer_close(&writer, err);
    if (status == DL_OK) status = dl_trace_read(&trace, PATH, err);
    return status;
}

/* Uses the shortest bursts: threads that miss one another on busy cores meet in longer ones. */
static int run_bench(void **state)
{
    make_data(state);
    cores = dl_cpu_count();
    dl_error err = {0};
    const dl_status status = measure(0.1, &err);
    if (status != DL_OK) print_error("%s\n", err.text);
    return status != DL_OK;
}

/* A line gives the burst in which a case was finally measured, or says that it was not measured. */
static void gaps_are_told(void **state DL_UNUSED)
{
    const dl_bench gaps = {.gaps = {{DL_BENCH_LOCK, 2, 0.5, true}, {DL_BENCH_SLICE, 3, 4, false}},
                           .gap_count = 2};
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dl_bench_print_gaps(&gaps, out);
    fclose(out);
    assert_contains(
        text,
        "lock of 2 threads: no sample in bursts as short as asked for, measured in one of 0.5 s\n");
    assert_contains(
        text,
        "slice of 3 threads: no sample in bursts as short as asked for, nor in one of 4 s: not");
}

/* Runs the bench, and returns its trace, which it writes to the file. */
static dl_trace trace_of(const dl_bench_config *config, const char *path)
{
    dl_trace_writer *writer = NULL;
    dl_error err = {0};
    dl_bench made;
    dl_trace written = {0};
    assert_int_equal(dl_trace_writer_open(&writer, path, &err), DL_OK);
    dl_bench_init(&made, writer);
    assert_int_equal(dl_bench_run(&made, config, &err), DL_OK);
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    assert_int_equal(dl_trace_read(&written, path, &err), DL_OK);
    return written;
}

/* A bench that is stopped from the start measures nothing, which is not an error. */
static void stop_ends_every_part(void **state DL_UNUSED)
{
    const atomic_bool stop = true;
    const int batch = 8;
    dl_train_config train = small_config();
    train.stop = &stop;
    const dl_bench_config config = {.train = train,
                                    .parameter_bytes = PARAMETER_BYTES,
                                    .data = &data,
                                    .batches = &batch,
                                    .batch_count = 1,
                                    .workers_max = COPIES,
                                    .seconds = 3600};
    DL_SCOPED(dl_trace) stopped = trace_of(&config, "test_bench_stop.dlt");
    assert_true(stopped.complete);
    assert_int_equal(stopped.record_count, 0);
}

/* A snapshot holds exchange of the model's size, and the steps of as many copies as there are cores
 * (up to workers_max, in powers of two; one on a single core) once for each batch size. */
static void snapshot_holds_what_changes_with_the_state(void **state DL_UNUSED)
{
    dl_train_config train = small_config();
    train.precision = DL_FLOAT;
    const int batches[] = {16, 8};
    const dl_bench_config config = {.train = train,
                                    .parameter_bytes = PARAMETER_BYTES,
                                    .data = &data,
                                    .batches = batches,
                                    .batch_count = 2,
                                    .workers_max = COPIES,
                                    .seconds = 0.1,
                                    .kind = DL_BENCH_SNAPSHOT};
    DL_SCOPED(dl_trace) snapshot = trace_of(&config, "test_bench_snapshot.dlt");
    const unsigned copies = cores < 2 ? 1 : 2;
    size_t count[DL_BENCH_NAME_COUNT] = {0}, steps_of[17] = {0};
    for (size_t i = 0; i < snapshot.record_count; i++) {
        const dl_record *record = &snapshot.records[i];
        int name = 0;
        while (strcmp(dl_trace_name(&snapshot, record), dl_bench_names[name]) != 0)
            name++;
        count[name]++;
        if (name == DL_BENCH_STEP) {
            assert_int_equal(record->vectors, copies);
            steps_of[record->samples]++;
        } else {
            assert_int_equal(record->bytes, PARAMETER_BYTES);
        }
    }
    for (int name = 0; name < DL_BENCH_NAME_COUNT; name++) {
        const bool shared = name == DL_BENCH_SHARED_WRITE || name == DL_BENCH_SHARED_READ;
        const bool wanted = (shared && cores > 1) || name == DL_BENCH_COPY ||
                            name == DL_BENCH_AVERAGE || name == DL_BENCH_UPDATE ||
                            name == DL_BENCH_STEP;
        if (wanted != (count[name] > 0)) fail_msg("%zu of %s", count[name], dl_bench_names[name]);
    }
    assert_true(steps_of[8] > 0 && steps_of[16] > 0);
}

static int free_bench(void **state)
{
    dl_trace_free(&trace);
    return free_data(state);
}

/* Whether a case of the kind had no sample even in bursts of seconds, on a machine with other
 * load. */
static bool is_gap(dl_bench_name name)
{
    for (int i = 0; i < bench.gap_count; i++)
        if (bench.gaps[i].name == name && !bench.gaps[i].found) return true;
    return false;
}

static void every_kind_has_positive_durations(void **state DL_UNUSED)
{
    for (int name = 0; name < DL_BENCH_NAME_COUNT; name++) {
        size_t count = 0, positive = 0;
        if (name == DL_BENCH_PASS) continue; /* GPUs only */
        for (size_t i = 0; i < trace.record_count; i++) {
            const dl_record *record = &trace.records[i];
            assert_int_equal(record->kind, DL_RECORD_BENCH);
            if (!is_of(record, (dl_bench_name)name)) continue;
            count++;
            positive += record->duration_ns > 0;
        }
        if (count == 0 && !is_gap((dl_bench_name)name))
            fail_msg("no samples of %s", dl_bench_names[name]);
        if (2 * positive < count) fail_msg("%s takes no time", dl_bench_names[name]);
    }
}

/* Checks the names, which dlcal reads. */
static void messages_are_of_every_kind(void **state DL_UNUSED)
{
    for (int kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++) {
        const int at = kind - DL_QUANTISE_FP16;
        const char *to = strchr(dl_bench_names[DL_BENCH_QUANTISE + at], '_') + 1;
        const char *from = strchr(dl_bench_names[DL_BENCH_DEQUANTISE + at], '_') + 1;
        assert_string_equal(to, dl_quantise_names[kind]);
        assert_string_equal(from, dl_quantise_names[kind]);
    }
}

/* Copies, averages and updates come in the model's size, 64 KiB, and 1/4 to 4 times the parameters.
 */
static void exchange_has_all_sizes(void **state DL_UNUSED)
{
    const uint64_t bytes[] = {65536,           PARAMETER_BYTES / 4, PARAMETER_BYTES / 2,
                              PARAMETER_BYTES, 2 * PARAMETER_BYTES, 4 * PARAMETER_BYTES};
    for (int name = DL_BENCH_COPY; name <= DL_BENCH_UPDATE; name++) {
        unsigned found = 0;
        for (size_t i = 0; i < trace.record_count; i++) {
            const dl_record *record = &trace.records[i];
            if (!is_of(record, (dl_bench_name)name)) continue;
            unsigned size = 0;
            while (size < 6 && (record->bytes > bytes[size] || record->bytes + 4 <= bytes[size])) {
                size++;
            }
            assert_true(size < 6);
            found |= 1u << size;
            assert_true(record->threads >= 1 && record->threads <= (unsigned)cores);
            if (name == DL_BENCH_COPY) assert_true(record->phase >= DL_PHASE_PUSH);
            if (name != DL_BENCH_COPY) assert_in_range(record->vectors, 1, DL_BENCH_QUICK_VECTORS);
        }
        assert_int_equal(found, 0x3f);
    }
}

/* Updates by one gradient have the parameters' size: they come from real rounds, with one vector
 * per thread. */
static void updates_of_one_gradient_are_there(void **state DL_UNUSED)
{
    size_t count = 0;
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *record = &trace.records[i];
        count += is_of(record, DL_BENCH_UPDATE) && record->vectors == 1 &&
                 record->bytes == PARAMETER_BYTES;
    }
    assert_true(count > 0);
}

/* Every k = 1..COPIES and every batch has steps in ascending order, without the first two of a
 * copy. The copy that finishes first ends the run, so that on a busy machine another copy may have
 * no steps. */
static void steps_of_side_by_side_copies(void **state DL_UNUSED)
{
    bool seen[COPIES + 1][17] = {{false}};
    const dl_record *last = NULL;
    for (size_t i = 0; i < trace.record_count; i++) {
        const dl_record *record = &trace.records[i];
        if (!is_of(record, DL_BENCH_STEP)) continue;
        assert_in_range(record->vectors, 1, COPIES);
        assert_true(record->worker < record->vectors);
        assert_true(record->samples == 8 || record->samples == 16);
        assert_int_equal(record->threads,
                         record->vectors < (unsigned)cores ? record->vectors : (unsigned)cores);
        assert_true(record->step >= 2);
        const bool goes_on = last != NULL && last->vectors == record->vectors &&
                             last->samples == record->samples && last->worker == record->worker &&
                             record->step > 2;
        if (goes_on) assert_int_equal(record->step, last->step + 1);
        seen[record->vectors][record->samples] = true;
        last = record;
    }
    for (int k = 1; k <= COPIES; k++)
        assert_true(seen[k][8] && seen[k][16]);
}

static void thread_counts(void **state DL_UNUSED)
{
    int counts[DL_BENCH_COUNTS_MAX];
    assert_int_equal(dl_bench_thread_counts(1, counts), 1);
    assert_int_equal(counts[0], 1);
    assert_int_equal(dl_bench_thread_counts(6, counts), 4);
    assert_int_equal(counts[2], 4);
    assert_int_equal(counts[3], 6);
    assert_int_equal(dl_bench_thread_counts(8, counts), 4);
    assert_int_equal(counts[3], 8);
}

/* Cores are assigned as in training: worker w runs on core (first + w) mod cores. */
static void cores_of_threads(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.cores = 1;
    config.first_core = 5;
    DL_AUTOFREE int *list = dl_bench_cores(&config, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(list[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_told),
        cmocka_unit_test(stop_ends_every_part),
        cmocka_unit_test(snapshot_holds_what_changes_with_the_state),
        cmocka_unit_test(every_kind_has_positive_durations),
        cmocka_unit_test(messages_are_of_every_kind),
        cmocka_unit_test(exchange_has_all_sizes),
        cmocka_unit_test(updates_of_one_gradient_are_there),
        cmocka_unit_test(steps_of_side_by_side_copies),
        cmocka_unit_test(thread_counts),
        cmocka_unit_test(cores_of_threads),
    };
    return cmocka_run_group_tests(tests, run_bench, free_bench);
}
