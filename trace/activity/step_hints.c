/* Options that define steps, and checks for contradictions between them and with a trace. */
#include <string.h>

#include "common/alloc.h"
#include "trace/activity/steps_internal.h"

void dl_step_options(dl_step_hints *hints, dl_option *table)
{
    const dl_option own[DL_STEP_OPTION_COUNT] = {
        DL_OPT_REGEX("step-marks", 0, &hints->marks, "REGEX",
                     "Extended regular expression of the ranges and marks that are training "
                     "steps.",
                     .group = "Reading traces"),
        DL_OPT_INT("step-period", 0, &hints->period, 0, UINT32_MAX, "COUNT",
                   "Number of kernels, copies and graph launches per training step, without "
                   "collectives, within a quarter (default: detected)."),
        DL_OPT_FLAG("one-step", 0, &hints->one_step, "Treat the trace as a single training step."),
    };
    memcpy(table, own, sizeof own);
}

dl_status dl_step_hints_check(const dl_step_hints *hints, dl_error *err)
{
    if (!hints->one_step || (hints->marks == NULL && hints->period <= 0)) return DL_OK;
    return dl_error_set(err, DL_ERR_USAGE,
                        "--one-step cannot be combined with --step-marks or --step-period");
}

/* Describes the regular steps of the line, for an error message. */
static char *tell_steps(const dl_step_line *line)
{
    size_t works = 0;
    for (size_t i = 0; i < line->count; i++)
        if (line->steps[i].label == DL_STEP_REGULAR) works += line->steps[i].count;
    if (line->regular_count == 0) return dl_strdup("no steps are found without it either");
    if (line->device == DL_NO_DEVICE)
        return dl_format("%zu steps are found by %s", line->regular_count,
                         dl_step_method_name(line->method));
    return dl_format("%zu steps of about %zu kernels and copies are found by %s",
                     line->regular_count, works / line->regular_count,
                     dl_step_method_name(line->method));
}

/* Returns whether marks or updates show that a line has several steps. */
static bool shows_several(const dl_step_line *line)
{
    const bool sure =
        line->method == DL_STEPS_MARKS || line->method == DL_STEPS_OPTIMIZER || line->updates;
    return sure && line->regular_count > 1;
}

static dl_status refuse_one_step(const dl_step_line *line, dl_error *err)
{
    DL_AUTOFREE char *found = tell_steps(line);
    return dl_error_set(err, DL_ERR_DATA, "--one-step: %s%s: the trace is not of one step", found,
                        line->updates ? ", each with an optimizer's update" : "");
}

dl_status dl_step_hints_check_one(const dl_activity_steps *steps, dl_error *err)
{
    for (size_t i = 0; i < steps->count; i++)
        if (shows_several(&steps->lines[i])) return refuse_one_step(&steps->lines[i], err);
    return DL_OK;
}

dl_status dl_step_hints_refuse_period(int64_t given, const dl_activity_steps *steps, dl_error *err)
{
    DL_AUTOFREE char *found =
        steps->count > 0 ? tell_steps(&steps->lines[0]) : dl_strdup("no device did anything");
    const bool on_cores = steps->count > 0 && steps->lines[0].device == DL_NO_DEVICE;
    return on_cores
               ? dl_error_set(err, DL_ERR_DATA,
                              "--step-period: it counts kernels, copies and graph launches of "
                              "devices, of which this trace has none: %s; --step-marks names "
                              "ranges that are steps",
                              found)
               : dl_error_set(err, DL_ERR_DATA,
                              "--step-period: a device's kernels, copies and graph launches do "
                              "not repeat every %lld, or not twice: %s",
                              (long long)given, found);
}
