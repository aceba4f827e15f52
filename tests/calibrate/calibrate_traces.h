/* Synthetic traces with known costs, for the tests of calibrate/. */
#ifndef DL_TESTS_CALIBRATE_CALIBRATE_TRACES_H
#define DL_TESTS_CALIBRATE_CALIBRATE_TRACES_H

#include <stdint.h>

#include "common/random.h"
#include "trace/dlt/dlt.h"

/* A trace under construction. All functions here assert success. */
typedef struct made_trace {
    dl_trace_writer *writer;
    dl_trace_stream *stream;
    int64_t now_ns;
} made_trace;

/* Opens a trace with meta data: kind, model, device "test box", parameter_bytes 1000000,
 * state_bytes 1000000, cores 2. */
void made_open(made_trace *trace, const char *path, const char *kind, const char *model);
void made_close(made_trace *trace);

/* Adds one BENCH sample; `record` excludes kind, name and start. */
void made_sample(made_trace *trace, const char *name, dl_record record);

/* True costs of a generated train trace: name, phase, ns = fixed + per_sample x batch. */
typedef struct made_op {
    const char *name;
    dl_record_kind kind;
    dl_phase phase;
    double fixed_ns, per_sample_ns;
} made_op;

#define MADE_OPS 4
extern const made_op made_ops[MADE_OPS]; /* "input", "fc" forward and backward, "fc" update */
#define MADE_DISPATCH_NS 400

/* Variation of a train trace. */
typedef struct made_variation {
    double sd_frac;      /* normally distributed, independent for each operation */
    double outlier_frac; /* fraction of steps in which one operation takes outlier_ns more */
    double outlier_ns;
} made_variation;

/* Writes `steps` steps; the first is slower by warm_up_ns > 0. */
void made_steps(made_trace *trace, uint32_t batch, uint32_t steps, int64_t warm_up_ns,
                const made_variation *variation, dl_random *random);

/* Writes a whole train trace of one worker. */
void made_train(const char *path, uint32_t batch, uint32_t steps, const made_variation *variation,
                uint64_t seed);

#endif
