/* The reader of PyTorch's traces: Chrome-trace JSON as its profiler (libkineto) writes it since
 * PyTorch 1.8, on NVIDIA and AMD GPUs, also gzipped, also written again by other programs.
 *
 *   event                                    becomes
 *   kernel, Kernel                           KERNEL
 *   gpu_memcpy, Memcpy; gpu_memset, Memset   MEMCPY; MEMSET. A copy without a size (ROCm) takes
 *                                            that of the hipMemcpy call of its correlation
 *   *_runtime, Runtime, *_driver             CALL; object = External id of its operator
 *   cuda_sync                                SYNC; object = event << 32 | correlation of its record
 *   (and for each record waited for)         EVENT of that object, at the call that recorded it
 *   cpu_op, Operator, user_annotation        RANGE, detail = its category; object = External id
 *   overhead                                 OVERHEAD
 *   record_param_comms, nccl:* ranges,       COLLECTIVE: of the first of the three that the file
 *     args of collectives' kernels             has; and COMM for each process group
 *
 * Not taken: flows (they repeat correlations), gpu_user_annotation (repeats ranges), instants,
 * python_function (counted in a note).
 *
 * Times are microseconds whatever displayTimeUnit says, from baseTimeNanoseconds (0 if missing);
 * they become ns without rounding. External ids link only where they differ from the correlation:
 * PyTorch 1.12 to 2.2 writes the correlation there. Text: json_events.h. */
#ifndef DL_TRACE_READERS_KINETO_H
#define DL_TRACE_READERS_KINETO_H

#include "trace/readers/json_events.h"
#include "trace/readers/reader.h"

extern const dl_trace_reader dl_kineto_reader;

/* Reads the text that `read` gives; item is zeroed, of which `name` becomes the trace's path and,
 * if the text does not tell the rank, maybe gives it ("..._rank3.json"). Errors as dl_read. */
dl_status dl_kineto_read_text(dl_read_trace *item, const char *name, dl_json_source *read,
                              void *source, const dl_read_options *options,
                              dl_error *err) DL_MUST_CHECK;

#endif
