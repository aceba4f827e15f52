#include "calibrate/trace_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "trace/activity/kernel_class.h"
#include "trace/activity/operators.h"
#include "trace/activity/rank_clock.h"

static bool has_work(const dl_trace *trace)
{
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (dl_activity_is_device_work(&trace->activities[i])) return true;
    }
    return false;
}

/* Returns whether a framework's operators ran only on cores. */
static bool has_operators(const dl_trace *trace)
{
    DL_SCOPED(dl_cpu_operators) operators = {0};
    dl_cpu_operators_find(&operators, trace);
    return operators.count > 0;
}

static void take_process(dl_trace_inputs *in, dl_read_trace *item, const char *path)
{
    in->traces[in->count++] = &item->trace;
    for (size_t i = 0; i < item->notes.count; i++)
        dl_notes_add(&in->notes, "%s: %s", dl_base_name(path), item->notes.lines[i]);
}

/* Skips a process whose device work was not recorded, with a message; with `cores`, returns
 * DL_ERR_DATA. */
static dl_status pass_over(const dl_trace_inputs *in, const char *program, const dl_trace *trace,
                           const char *lost, dl_error *err)
{
    if (in->cores) return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0, "%s", lost);
    fprintf(stderr, "%s: %s: %s\n", program, trace->path, lost);
    return DL_OK;
}

dl_status dl_trace_inputs_read(dl_trace_inputs *in, const char *path, const dl_read_options *read,
                               const char *program, dl_error *err)
{
    in->files = dl_realloc(in->files, in->file_count + 1, sizeof *in->files, "traces");
    dl_read_traces *file = &in->files[in->file_count];
    *file = (dl_read_traces){0};
    dl_status status = dl_read(file, path, read, err);
    if (status != DL_OK) return status;
    in->file_count++;
    in->traces = dl_realloc(in->traces, in->count + file->count, sizeof(dl_trace *), "traces");
    for (size_t i = 0; i < file->count && status == DL_OK; i++) {
        dl_trace *trace = &file->items[i].trace;
        DL_AUTOFREE char *lost = dl_cpu_lost_device(trace);
        const bool cores = !has_work(trace) && has_operators(trace);
        if (lost != NULL) {
            status = pass_over(in, program, trace, lost, err);
        } else if (has_work(trace) || (cores && in->cores)) {
            take_process(in, &file->items[i], path);
        } else if (cores) {
            fprintf(stderr,
                    "%s: %s: it is of training on cores, without a device: see dlcal costs\n",
                    program, trace->path);
        } else if (trace->activity_count == 0 && trace->record_count > 0) {
            fprintf(stderr, "%s: %s: it is a recording of dlprof train: see dlcal fit\n", program,
                    trace->path);
        } else {
            fprintf(stderr, "%s: %s: it holds no work of a device: see dlcal info\n", program,
                    trace->path);
        }
    }
    return status;
}

void dl_trace_inputs_free(dl_trace_inputs *in)
{
    for (size_t i = 0; i < in->file_count; i++)
        dl_read_free(&in->files[i]);
    free(in->files);
    free(in->traces);
    dl_notes_free(&in->notes);
    *in = (dl_trace_inputs){0};
}

dl_status dl_trace_inputs_align(dl_trace_inputs *in, dl_error *err)
{
    DL_AUTOFREE dl_rank_clock *clocks = dl_calloc(in->count, sizeof *clocks, "clocks");
    dl_status status =
        dl_rank_clocks_find(clocks, (const dl_trace *const *)in->traces, in->count, err);
    int64_t least_ns = 0;
    for (size_t i = 0; i < in->count && status == DL_OK; i++) {
        if (clocks[i].offset_ns < least_ns) least_ns = clocks[i].offset_ns;
    }
    for (size_t i = 0; i < in->count && status == DL_OK; i++)
        status = dl_rank_clock_apply(in->traces[i], clocks[i].offset_ns - least_ns, err);
    return status;
}

/* A command with the rules of its user. */
typedef struct trace_command {
    dl_command_fn run;
    void *user;               /* argument of run */
    dl_text_list collectives; /* items "PATTERNS=COLLECTIVE" */
} trace_command;

static dl_status run_with_rules(const dl_text_list *paths, void *user, dl_error *err)
{
    const trace_command *given = user;
    const size_t count = given->collectives.count;
    DL_AUTOFREE dl_kernel_rule *rules = dl_calloc(count, sizeof *rules, "rules of collectives");
    dl_status status = DL_OK;
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_error cause = {0};
        if (dl_comm_rule_parse(given->collectives.items[i], &rules[i], &cause) != DL_OK)
            status = dl_error_set(err, DL_ERR_USAGE, "--collective: %s", cause.text);
    }
    dl_kernel_use_rules(rules, count);
    if (status == DL_OK) status = given->run(paths, given->user, err);
    dl_kernel_use_rules(NULL, 0);
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)rules[i].patterns);
    return status;
}

int dl_trace_command_main(const dl_command *command, int argc, char **argv, dl_command_fn run,
                          void *user, dl_read_options *read, dl_step_hints *hints)
{
    trace_command given = {.run = run, .user = user};
    const dl_option shared[] = {
        DL_OPT_LIST("collective", 0, &given.collectives, "TEXT=COLLECTIVE",
                    "Collective (AllReduce, AlltoAll, ...) of kernels and ranges with TEXT in "
                    "their names: '|' separates several texts, '*' is any text, '^' the name's "
                    "start.",
                    .group = "Reading traces"),
        DL_OPT_TEXT("rank", 0, &read->rank, "NUMBER",
                    "Rank to read from files with several processes (Nsight Systems: the number "
                    "that dlcal info gives it)."),
        DL_OPT_TEXT("process", 0, &read->process, "PID",
                    "Process to read from files with several, by its PID."),
    };
    const size_t own = command->option_count, of_steps = hints != NULL ? DL_STEP_OPTION_COUNT : 0;
    const size_t more = of_steps + DL_LENGTH(shared);
    DL_AUTOFREE dl_option *options = dl_calloc(own + more, sizeof *options, "options");
    memcpy(options, command->options, own * sizeof *options);
    if (hints != NULL) dl_step_options(hints, options + own);
    memcpy(options + own + of_steps, shared, sizeof shared);
    dl_command whole = *command;
    whole.options = options;
    whole.option_count = own + more;
    const int exit_status = dl_command_main(&whole, argc, argv, run_with_rules, &given);
    dl_text_list_free(&given.collectives);
    return exit_status;
}
