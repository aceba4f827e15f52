/* Micro-benchmarks of GPUs: copies, reductions, launches, as BENCH records (their names and fields:
 * bench_gpu_cases.h). All through the functions that training uses (kernels/device.h).
 *
 * Copies of pinned memory are timed by the GPU's marks around several of them, all issued while the
 * GPU is held up, so that the host's time to issue does not count. Pageable memory keeps the host
 * busy, and is timed by the host's clock. */
#ifndef DL_PROFILER_BENCH_GPU_H
#define DL_PROFILER_BENCH_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "kernels/device.h"
#include "profiler/progress.h"
#include "trace/dlt/dlt.h"

typedef struct dl_bench_gpu_config {
    const dl_device_type *type;
    int first, count;        /* GPUs first .. first + count - 1 are measured */
    double seconds;          /* about so long; every case is measured twice at least */
    bool quick;              /* copies of at most DL_BENCH_GPU_QUICK_BYTES */
    const atomic_bool *stop; /* once true, the rest is left out; NULL = never */
} dl_bench_gpu_config;

#define DL_BENCH_GPU_BYTES_MAX ((size_t)512 << 20)
#define DL_BENCH_GPU_QUICK_BYTES ((size_t)1 << 20)

/* Whether config->stop says so. */
bool dl_bench_gpu_stopped(const dl_bench_gpu_config *config);

/* Measures all; the samples go to a stream of `writer`. DL_ERR_SYSTEM if a GPU fails. */
dl_status dl_bench_gpu(dl_trace_writer *writer, const dl_bench_gpu_config *config,
                       dl_error *err) DL_MUST_CHECK;

#endif
