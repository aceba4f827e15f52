/* What averaging and quantising reach of a GPU's memory bandwidth, beside copies within the GPU of
 * the same run: BENCH records, timed by the GPU's marks around several operations that are issued
 * while it is held up.
 *
 *   name                              bytes       vectors     what
 *   gpu_copy                          one vector  -           from one place in its memory to another
 *   gpu_average                       one vector  n averaged  in one pass
 *   gpu_fp16_encode, gpu_fp16_decode, gpu_1bit_encode, gpu_1bit_decode
 *                                     one vector  -           to and from a message
 *
 * `worker` is the GPU, threads 1. dl_bench_memory_print sets the rates beside one another. */
#ifndef DL_PROFILER_BENCH_GPU_MEMORY_H
#define DL_PROFILER_BENCH_GPU_MEMORY_H

#include "profiler/bench/bench_gpu.h"

/* Largest vector; less where a GPU has not DL_BENCH_GPU_VECTORS + 3 times 16 of them. */
#define DL_BENCH_GPU_VECTOR_BYTES ((size_t)256 << 20)
#define DL_BENCH_GPU_VECTORS 8

/* Measures the GPUs one after another for config->seconds together, each case twice at least; the
 * samples go to a stream of `writer`. DL_ERR_SYSTEM if a GPU fails. */
dl_status dl_bench_gpu_memory(dl_trace_writer *writer, const dl_bench_gpu_config *config,
                              dl_error *err) DL_MUST_CHECK;

#endif
