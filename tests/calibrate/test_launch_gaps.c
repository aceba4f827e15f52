/* Traces of training on a GPU with short operations: the upper bound of the launch time, with
 * unchanged operations and sharing. */
#include "calibrate/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "tests/calibrate/calibrate_traces.h"
#include "tests/check.h"

#define FORWARD_NS 400000
#define BACKWARD_NS 600000
#define UPDATE_NS 100000
#define GAP_NS 50000 /* host gap before a step */

static void add(made_trace *trace, dl_record record, int64_t duration_ns)
{
    record.staleness = DL_NO_STALENESS;
    record.start_ns = trace->now_ns;
    record.duration_ns = duration_ns;
    dl_trace_stream_append(trace->stream, &record);
    if (record.kind != DL_RECORD_STEP) trace->now_ns += duration_ns;
}

/* The backward pass takes 50 us more per sample above 10. */
static void write_run(const char *path, uint32_t batch)
{
    made_trace trace;
    made_open(&trace, path, "train", "tiny");
    dl_trace_writer_meta(trace.writer, "device_count", "1");
    const uint32_t fc = dl_trace_writer_intern(trace.writer, "fc");
    const int64_t times_ns[] = {FORWARD_NS, BACKWARD_NS + 50000 * ((int64_t)batch - 10), UPDATE_NS};
    for (uint32_t step = 0; step < 40; step++) {
        const int64_t start_ns = trace.now_ns;
        trace.now_ns += GAP_NS;
        for (int p = 0; p < 3; p++) {
            add(&trace,
                (dl_record){.kind = DL_RECORD_COMPUTE,
                            .phase = (dl_phase)(DL_PHASE_FORWARD + p),
                            .name = fc,
                            .step = step,
                            .samples = batch},
                times_ns[p]);
        }
        const int64_t step_ns = trace.now_ns - start_ns;
        trace.now_ns = start_ns;
        add(&trace, (dl_record){.kind = DL_RECORD_STEP, .step = step, .samples = batch}, step_ns);
        trace.now_ns = start_ns + step_ns;
    }
    made_close(&trace);
}

/* Writes passes of the GPU alone with these times at batch 10 and 20, and copies: one 1.1 ms, two
 * 1.1 ms, four 1.76 ms. */
static void write_bench(const char *path, int64_t at_10_ns, int64_t at_20_ns)
{
    static const int64_t copies_ns[] = {0, 1100000, 1100000, 0, 1760000};
    made_trace trace;
    made_open(&trace, path, "bench", "tiny");
    dl_trace_writer_meta(trace.writer, "device_count", "1");
    for (int i = 0; i < 10; i++) {
        made_sample(
            &trace, "pass",
            (dl_record){.samples = 10, .vectors = 1, .threads = 1, .duration_ns = at_10_ns});
        made_sample(
            &trace, "pass",
            (dl_record){.samples = 20, .vectors = 1, .threads = 1, .duration_ns = at_20_ns});
        made_sample(&trace, "launch", (dl_record){.threads = 1, .duration_ns = 4000});
        made_sample(&trace, "barrier", (dl_record){.threads = 2, .duration_ns = 250});
    }
    for (uint32_t k = 1; k <= 4; k *= 2) {
        for (uint32_t w = 0; w < k; w++) {
            for (uint32_t s = 0; s < 10; s++) {
                made_sample(&trace, "step",
                            (dl_record){.worker = w,
                                        .step = s,
                                        .samples = 10,
                                        .vectors = k,
                                        .threads = 1,
                                        .duration_ns = copies_ns[k]});
            }
        }
    }
    made_close(&trace);
}

static const char *const paths[] = {"launch_gaps_10.dlt", "launch_gaps_20.dlt",
                                    "launch_gaps_bench.dlt"};

static dl_calibration fitted(int64_t at_10_ns, int64_t at_20_ns)
{
    dl_calibration made = {0};
    dl_error err = {0};
    write_run(paths[0], 10);
    write_run(paths[1], 20);
    write_bench(paths[2], at_10_ns, at_20_ns);
    if (dl_calibration_fit(&made, paths, 3, &err) != DL_OK) fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++)
        remove(paths[i]);
    return made;
}

static bool says(const dl_calibration *made, const char *text)
{
    for (size_t i = 0; i < made->notes.count; i++)
        if (strstr(made->notes.lines[i], text) != NULL) return true;
    return false;
}

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-3F)

/* The pass takes 1 ms in training with 10 samples and 1.5 ms with 20, and 0.3 and 0.5 ms alone.
 * Launching does not depend on the batch, so it takes 1 ms at most, more than 3 operations of 4 us.
 * Operations and steps of copies stay as measured with the same gaps. */
static void gaps_bound_launching(void **state DL_UNUSED)
{
    DL_SCOPED(dl_calibration) made = fitted(300000, 500000);
    const dl_costs *costs = &made.costs;
    NEAR(dl_costs_step_ns(costs, 10, "forward"), FORWARD_NS);
    NEAR(dl_costs_step_ns(costs, 20, "backward"), BACKWARD_NS + 500000);
    NEAR(dl_costs_step_ns(costs, 10, "dispatch"), GAP_NS);
    NEAR(costs->dispatch.per_worker_ns.value, 1e6);
    NEAR(costs->sharing[2].value, 0.5);
    NEAR(costs->sharing[4].value, 0.4);
    assert_true(says(&made,
                     "at batch 10 the GPU waits for launches during 70 % of a pass: launching a "
                     "step is taken to need at most 1000.0 us"));
}

/* Within 5 %, [dispatch] is one launch for each of 3 operations. */
static void a_busy_gpu_has_none(void **state DL_UNUSED)
{
    DL_SCOPED(dl_calibration) made = fitted(990000, 1440000);
    NEAR(dl_costs_step_ns(&made.costs, 10, "forward"), FORWARD_NS);
    NEAR(made.costs.dispatch.per_worker_ns.value, 3 * 4000);
    NEAR(made.costs.dispatch.launch_ns.value, 4000);
    NEAR(made.costs.sharing[2].value, 0.5);
    assert_true(says(&made, "at most 4.0 % of a pass"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_bound_launching),
        cmocka_unit_test(a_busy_gpu_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
