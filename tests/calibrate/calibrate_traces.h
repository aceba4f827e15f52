/* Synthetic traces with known costs, for the tests of calibrate/. */
#ifndef DL_TESTS_CALIBRATE_CALIBRATE_TRACES_H
#define DL_TESTS_CALIBRATE_CALIBRATE_TRACES_H

#include <stdint.h>

#include "common/random.h"
#include "trace/dlt/dlt.h"

/* A trace being written. Everything here asserts that it works. */
typedef struct made_trace {
    dl_trace_writer *writer;
    dl_trace_stream *stream;
    int64_t now_ns;
} made_trace;

/* Meta: kind, model, device "test box", parameter_bytes 1000000, state_bytes 1000000, cores 2. */
void made_open(made_trace *trace, const char *path, const char *kind, const char *model);
void made_close(made_trace *trace);

/* One BENCH sample; `record` without kind, name and start. */
void made_sample(made_trace *trace, const char *name, dl_record record);

/* The true costs of a train trace that is made: name, phase, ns = fixed + per_sample batch. */
typedef struct made_op {
    const char *name;
    dl_record_kind kind;
    dl_phase phase;
    double fixed_ns, per_sample_ns;
} made_op;

#define MADE_OPS 4
extern const made_op made_ops[MADE_OPS]; /* "input", "fc" forward and backward, "fc" update */
#define MADE_DISPATCH_NS 400

/* How a train trace varies. */
typedef struct made_variation {
    double sd_frac;      /* normal, of each operation by itself */
    double outlier_frac; /* of the steps; one operation takes outlier_ns more */
    double outlier_ns;
} made_variation;

/* Writes `steps` steps; a slow first one when `warm_up_ns` > 0. */
void made_steps(made_trace *trace, uint32_t batch, uint32_t steps, int64_t warm_up_ns,
                const made_variation *variation, dl_random *random);

/* A whole train trace of one worker. */
void made_train(const char *path, uint32_t batch, uint32_t steps, const made_variation *variation,
                uint64_t seed);

#endif
