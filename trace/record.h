/* Record model of traces of training workers and micro-benchmarks.
 *
 * A record is one interval of one worker's time line (or one sample of a micro-benchmark). Workers
 * count from 0. Times are CLOCK_MONOTONIC nanoseconds of one machine, so all workers of a trace
 * share one time axis. Unused fields are 0 (staleness: DL_NO_STALENESS).
 *
 * A worker's records are in the order of their ends. A STEP record is written at the end of the
 * step and spans it; the other records of the step lie inside it and do not overlap. Time that no
 * record covers is host time (loop, calls): `dispatch` in the split of a step. */
#ifndef DL_TRACE_RECORD_H
#define DL_TRACE_RECORD_H

#include <stdint.h>

typedef enum dl_record_kind {
    DL_RECORD_STEP = 1, /* step of a worker; sets step, samples, staleness (asynchronous) */
    DL_RECORD_COMPUTE,  /* operation; sets name (layer), phase, samples */
    DL_RECORD_COPY,     /* copy between worker's and server's memory; sets bytes, phase */
    DL_RECORD_AVERAGE, /* arithmetic of a server or a collective; sets bytes of one vector, vectors,
                        * threads */
    DL_RECORD_WAIT,    /* blocked worker; sets name ("barrier" or "lock") */
    DL_RECORD_INPUT,   /* preparation of a batch; sets samples, bytes */
    DL_RECORD_SLOWDOWN, /* intentional delay (--slow) */
    DL_RECORD_BENCH     /* sample of a micro-benchmark, see below */
} dl_record_kind;

typedef enum dl_phase {
    DL_PHASE_NONE = 0,
    DL_PHASE_FORWARD,
    DL_PHASE_BACKWARD,
    DL_PHASE_UPDATE, /* optimizer */
    DL_PHASE_PUSH,   /* worker to server */
    DL_PHASE_PULL    /* server to worker */
} dl_phase;

#define DL_NO_STALENESS (-1)

/* Upper limit of worker numbers (exclusive), which keeps tables indexed by worker small. */
#define DL_WORKER_LIMIT 65536

typedef struct dl_record {
    dl_record_kind kind;
    dl_phase phase;
    uint32_t worker;
    uint32_t name;    /* index of the name in the trace's strings; 0: none */
    uint32_t step;    /* step number of the worker, from 0 */
    uint32_t samples; /* samples of this worker in this step (its batch) */
    uint32_t vectors; /* AVERAGE: number of vectors averaged; BENCH: see the table below */
    uint32_t threads; /* AVERAGE, BENCH: number of concurrent threads */
    uint64_t bytes;
    int64_t staleness; /* STEP in asynchronous modes: updates between read and application of the
                        * parameters */
    int64_t start_ns;
    int64_t duration_ns; /* >= 0 */
} dl_record;

/* Names of BENCH records and the meaning of their fields (duration_ns is the time of one
 * operation):
 *
 *   name       bytes        vectors      threads      samples  duration_ns
 *   "copy"     one copy     -            concurrent   -        one worker's push or pull (phase)
 *   "average"  one vector   n averaged   working      -        the whole average of n vectors
 *   "update"   parameters   n summed     1            -        server: sum n gradients, update
 *   "barrier"  -            -            arriving     -        last arrival to a worker's release
 *   "wakeup"   -            -            cores        -        post to running, on another core
 *                                                              (2) or on the same one (1)
 *   "lock"     -            -            contending   -        one hand-over of the server's lock
 *   "slice"    -            runnable     1            -        time that one thread keeps a core
 *   "step"     -            k copies     cores used   batch    one step of copy `worker`, without
 *                                                              exchange; if copies share a GPU
 *                                                              (threads 1): its operations there
 *   "pass"     -            1            1            batch    forward and backward on a GPU that
 *                                                              does not wait for launches
 *   "quantise_fp16", ..., "dequantise_fp16", ...
 *              one vector   -            1            -        encoding of a model's parameters in
 *                                                              each message kind of
 *                                                              kernels/quantise.h, or decoding;
 *                                                              topk keeps 1 % of them
 *   "learned"  one vector   -            1            -        difference of two models' parameters,
 *                                                              written to a third vector
 *   "shared_write", "shared_read"
 *              one vector   -            1            -        a copy to a vector that another core
 *                                                              has read, or from one it has written
 * dlprof bench shapes on a device (worker) or on cores (threads); step: number of the round:
 *   "forward 2048x512x1536", "data ...", "weight ..."
 *              read and     number       working      0, or    a product (trace/shape.h); samples:
 *              written      in a layer                number   its number in a step of the network
 *   "move", "norm", "norm_backward", "activation", ..., "loss", ..., "update"
 *              as above     as above     working      0, or    to += from, layer norm, GELU, softmax
 *                                                     vectors  and its loss, Adam
 *   "attention 64x256x64", "attention_backward ..."
 *              as above     as above     working      as above causal; heads x tokens x numbers
 *   "layer"    -            -            working      batch    all kernels of a layer, each as often
 *                                                              as its number in a layer says
 *   "launch"   -            -            1            kernels  host time to launch as many
 * GPUs: see profiler/bench/bench_gpu.h. */

/* Return "step", "compute", ... and "forward", "push", ...; "none" for DL_PHASE_NONE; never
 * NULL. */
const char *dl_record_kind_name(dl_record_kind kind);
const char *dl_phase_name(dl_phase phase);

#endif
