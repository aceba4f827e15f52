#include "tests/calibrate/calibrate_traces.h"

#include "tests/check.h"

const made_op made_ops[MADE_OPS] = {
    {"input", DL_RECORD_INPUT, DL_PHASE_NONE, 1000, 100},
    {"fc", DL_RECORD_COMPUTE, DL_PHASE_FORWARD, 20000, 5000},
    {"fc", DL_RECORD_COMPUTE, DL_PHASE_BACKWARD, 30000, 12000},
    {"fc", DL_RECORD_COMPUTE, DL_PHASE_UPDATE, 50000, 0},
};

void made_open(made_trace *trace, const char *path, const char *kind, const char *model)
{
    *trace = (made_trace){.now_ns = 1000000};
    assert_int_equal(dl_trace_writer_open(&trace->writer, path, NULL), DL_OK);
    dl_trace_writer_meta(trace->writer, "kind", kind);
    dl_trace_writer_meta(trace->writer, "model", model);
    dl_trace_writer_meta(trace->writer, "device", "test box");
    dl_trace_writer_meta(trace->writer, "parameter_bytes", "1000000");
    dl_trace_writer_meta(trace->writer, "state_bytes", "1000000");
    dl_trace_writer_meta(trace->writer, "cores", "2");
    trace->stream = dl_trace_writer_stream(trace->writer);
}

void made_close(made_trace *trace)
{
    assert_int_equal(dl_trace_writer_close(&trace->writer, NULL), DL_OK);
}

void made_sample(made_trace *trace, const char *name, dl_record record)
{
    record.kind = DL_RECORD_BENCH;
    record.name = dl_trace_writer_intern(trace->writer, name);
    record.staleness = DL_NO_STALENESS;
    record.start_ns = trace->now_ns;
    trace->now_ns += record.duration_ns;
    dl_trace_stream_append(trace->stream, &record);
}

static void add_step(made_trace *trace, uint32_t step, uint32_t batch, double late_ns,
                     const made_variation *variation, dl_random *random)
{
    const int64_t start_ns = trace->now_ns;
    const uint64_t hit = late_ns > 0 ? dl_random_below(random, MADE_OPS) : MADE_OPS;
    trace->now_ns += MADE_DISPATCH_NS;
    for (uint64_t i = 0; i < MADE_OPS; i++) {
        const made_op *op = &made_ops[i];
        const double z = variation->sd_frac > 0 ? dl_random_normal(random) : 0;
        const double time_ns =
            (op->fixed_ns + op->per_sample_ns * batch) * (1 + variation->sd_frac * z) +
            (i == hit ? late_ns : 0);
        const dl_record record = {.kind = op->kind,
                                  .phase = op->phase,
                                  .name = dl_trace_writer_intern(trace->writer, op->name),
                                  .step = step,
                                  .samples = batch,
                                  .staleness = DL_NO_STALENESS,
                                  .start_ns = trace->now_ns,
                                  .duration_ns = (int64_t)(time_ns + 0.5)};
        trace->now_ns += record.duration_ns;
        dl_trace_stream_append(trace->stream, &record);
    }
    const dl_record mark = {.kind = DL_RECORD_STEP,
                            .name = dl_trace_writer_intern(trace->writer, "step"),
                            .step = step,
                            .samples = batch,
                            .staleness = DL_NO_STALENESS,
                            .start_ns = start_ns,
                            .duration_ns = trace->now_ns - start_ns};
    dl_trace_stream_append(trace->stream, &mark);
}

void made_steps(made_trace *trace, uint32_t batch, uint32_t steps, int64_t warm_up_ns,
                const made_variation *variation, dl_random *random)
{
    for (uint32_t s = 0; s < steps; s++) {
        double late_ns = 0;
        if (variation->outlier_frac > 0 && dl_random_uniform(random) < variation->outlier_frac) {
            late_ns = variation->outlier_ns;
        }
        if (s == 0 && warm_up_ns > 0) late_ns = (double)warm_up_ns;
        add_step(trace, s, batch, late_ns, variation, random);
    }
}

void made_train(const char *path, uint32_t batch, uint32_t steps, const made_variation *variation,
                uint64_t seed)
{
    made_trace trace;
    dl_random random;
    dl_random_init(&random, seed, 0, 0, batch);
    made_open(&trace, path, "train", "tiny");
    dl_trace_writer_meta(trace.writer, "workers", "1");
    made_steps(&trace, batch, steps, 0, variation, &random);
    made_close(&trace);
}
