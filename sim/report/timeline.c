#include "sim/report/timeline.h"

#include "common/chrome_trace.h"
#include "sim/run.h"

#define WORKERS_PID 1

static void on_state(void *user, int worker, dl_worker_state state, int64_t start_ns,
                     int64_t end_ns)
{
    dl_chrome_trace_slice(user, WORKERS_PID, worker, "activity", dl_worker_state_names[state],
                          start_ns, end_ns - start_ns, NULL, 0);
}

static void on_step(void *user, int worker, int64_t step, int64_t start_ns, int64_t end_ns,
                    int staleness)
{
    const dl_chrome_arg args[] = {{.key = "step", .number = (double)step},
                                  {.key = "staleness", .number = staleness}};
    dl_chrome_trace_slice(user, WORKERS_PID, worker, "step", "step", start_ns, end_ns - start_ns,
                          args, staleness == DL_NO_STALENESS_YET ? 1 : 2);
}

static void on_pass(void *user, int gpu, bool forward, int micro_batch, int64_t start_ns,
                    int64_t end_ns)
{
    const dl_chrome_arg args[] = {{.key = "micro-batch", .number = micro_batch}};
    dl_chrome_trace_slice(user, WORKERS_PID, gpu, "pass", forward ? "forward" : "backward",
                          start_ns, end_ns - start_ns, args, 1);
}

static void name_tracks(dl_chrome_trace *trace, const dl_point *point)
{
    char text[DL_POINT_TEXT_BYTES];
    const int stages = dl_point_is_split(point) ? point->stages : 1;
    dl_chrome_trace_process(trace, WORKERS_PID, dl_point_text(text, sizeof text, point));
    for (int t = 0; t < point->workers * stages; t++) {
        snprintf(text, sizeof text, "worker %d", t);
        if (stages > 1) snprintf(text, sizeof text, "worker %d stage %d", t / stages, t % stages);
        dl_chrome_trace_thread(trace, WORKERS_PID, t, text);
        if (point->option[DL_SYNC_LAG] > 0) {
            snprintf(text, sizeof text, "helper of worker %d", t);
            dl_chrome_trace_thread(trace, WORKERS_PID, point->workers + t, text);
        }
    }
}

dl_status dl_timeline_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err)
{
    dl_chrome_trace trace;
    dl_status status = dl_chrome_trace_open(&trace, path, err);
    if (status != DL_OK) return status;
    name_tracks(&trace, point);
    const dl_team_observer observer = {
        .user = &trace, .state = on_state, .step = on_step, .pass = on_pass};
    dl_run_result result = {0};
    status = dl_run(
        &(dl_run_config){
            .scenario = scenario, .costs = costs, .point = point, .observer = &observer},
        &result, err);
    dl_run_result_free(&result);
    return dl_chrome_trace_end(&trace, status, err);
}
