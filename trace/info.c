#include "trace/info.h"

#include <stdlib.h>
#include <string.h>

#define TOP_ROWS 15

dl_info_settings dl_info_settings_default(void)
{
    return (dl_info_settings){.top = TOP_ROWS};
}

void dl_info_options(dl_info_settings *settings, const char *json, dl_option *table)
{
    const dl_option own[DL_INFO_OPTION_COUNT] = {
        {.name = "json", .type = DL_OPTION_FLAG, .target = &settings->json, .help = json},
        {.name = "top",
         .type = DL_OPTION_INT,
         .target = &settings->top,
         .low = 1,
         .high = 1000000,
         .argument = "ROWS",
         .help = "kernels, collectives and calls to print; JSON holds all"},
        {.name = "step-marks",
         .type = DL_OPTION_REGEX,
         .target = &settings->marks,
         .argument = "REGEX",
         .help = "ranges and marks that are training steps, as an extended regular expression"},
        {.name = "step-period",
         .type = DL_OPTION_INT,
         .target = &settings->period,
         .low = 0,
         .high = UINT32_MAX,
         .argument = "COUNT",
         .help = "kernels, copies and graph launches of a training step; 0 = find out"},
    };
    memcpy(table, own, sizeof own);
}

dl_status dl_info_summarise(dl_activity_summary *summary, const dl_trace *trace,
                            const dl_info_settings *settings, dl_error *err)
{
    const dl_step_hints hints = {.marks = settings->marks, .period = (size_t)settings->period};
    dl_activity_steps steps = {0};
    const dl_status status =
        dl_activity_steps_init(&steps, trace->activities, trace->activity_count, trace->strings,
                               trace->string_count, &hints, err);
    if (status != DL_OK) return status;
    dl_activity_summary_init(summary, trace, &steps);
    dl_activity_steps_free(&steps);
    return DL_OK;
}

void dl_info_let_go(dl_trace *trace)
{
    free(trace->activities);
    trace->activities = NULL;
    trace->activity_count = 0;
}

void dl_info_compare(const dl_activity_summary *summaries, size_t count, FILE *out)
{
    size_t with_devices = 0;
    for (size_t i = 0; i < count; i++)
        with_devices += summaries[i].device_count > 0;
    if (with_devices < 2) return;
    fputc('\n', out);
    dl_activity_summaries_compare(summaries, count, out);
}
