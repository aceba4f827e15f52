/* Bench samples by hand, for the tests of calibrate/. */
#ifndef DL_TESTS_BENCH_SAMPLES_H
#define DL_TESTS_BENCH_SAMPLES_H

#include "calibrate/dataset.h"
#include "common/alloc.h"

/* Appends to the last bench trace of the data set, creating the first. */
static inline void add_sample(dl_dataset *dataset, dl_sample_kind kind, dl_record record)
{
    if (dataset->bench_count == 0) {
        dataset->benches = dl_calloc(1, sizeof *dataset->benches, "bench");
        dataset->benches[0].path = dl_strdup("bench");
        dataset->bench_count = 1;
    }
    dl_bench_trace *bench = &dataset->benches[dataset->bench_count - 1];
    bench->samples = dl_realloc(bench->samples, bench->count + 1, sizeof record, "bench");
    record.kind = DL_RECORD_BENCH;
    record.name = (uint32_t)kind;
    bench->samples[bench->count++] = record;
}

#endif
