/* Rates of host memory, measured with threads that are bound to cores.
 *
 * The triad a[i] = b[i] + s c[i] of McCalpin's STREAM: best of several passes over arrays that are
 * far larger than the caches, three times 8 bytes an element. Where the processor reads a line of a
 * before it writes it, memory moves a third more than is counted.
 *
 * Between sockets: the threads of each socket read arrays in the memory of the next one, all at
 * once. What it leaves out: processors that place memory otherwise than where it is written first.
 */
#ifndef DL_PROFILER_MACHINE_STREAM_H
#define DL_PROFILER_MACHINE_STREAM_H

#include "common/status.h"

typedef struct dl_stream_config {
    int threads; /* one on each of the allowed cores 0 .. threads-1; at most dl_cpu_count() */
    double array_bytes;            /* each of the three arrays, all threads together */
    int passes;                    /* >= 1 */
    int (*socket_of_cpu)(int cpu); /* any number for each socket */
} dl_stream_config;

typedef struct dl_stream_rates {
    double triad_bytes_per_s; /* of the whole machine */
    double link_bytes_per_s;  /* from each socket to the next; 0 with one socket */
} dl_stream_rates;

/* Threads on all allowed cores, arrays of four times the caches but at least 64 MiB and at most a
 * sixteenth of the memory, ten passes (STREAM's rules), sockets as
 * Linux has them. Bytes of the whole machine; 0 = unknown. */
dl_stream_config dl_stream_default_config(double cache_bytes, double memory_bytes);

/* Measures all threads together. DL_ERR_SYSTEM if threads cannot be made or bound. */
dl_status dl_stream_measure(const dl_stream_config *config, dl_stream_rates *rates,
                            dl_error *err) DL_MUST_CHECK;

#endif
