#include "sim/timeline.h"

#include "common/chrome_trace.h"

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

dl_status dl_timeline_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err)
{
    dl_chrome_trace trace;
    dl_status status = dl_chrome_trace_open(&trace, path, err);
    if (status != DL_OK) return status;
    char text[DL_POINT_TEXT_BYTES];
    dl_chrome_trace_process(&trace, WORKERS_PID, dl_point_text(text, sizeof text, point));
    for (int w = 0; w < point->workers; w++) {
        snprintf(text, sizeof text, "worker %d", w);
        dl_chrome_trace_thread(&trace, WORKERS_PID, w, text);
        if (point->option[DL_SYNC_LAG] > 0) {
            snprintf(text, sizeof text, "helper of worker %d", w);
            dl_chrome_trace_thread(&trace, WORKERS_PID, point->workers + w, text);
        }
    }
    const dl_team_observer observer = {.user = &trace, .state = on_state, .step = on_step};
    dl_run_result result = {0};
    status = dl_run(
        &(dl_run_config){
            .scenario = scenario, .costs = costs, .point = point, .observer = &observer},
        &result, err);
    dl_run_result_free(&result);
    dl_error late = {0};
    dl_status closed = dl_chrome_trace_close(&trace, &late);
    if (status == DL_OK && closed != DL_OK) {
        if (err != NULL) *err = late;
        return closed;
    }
    return status;
}
