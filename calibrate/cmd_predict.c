#include "calibrate/commands.h"

#include <math.h>
#include <stdio.h>

#include "calibrate/replay/collectives.h"
#include "calibrate/trace_inputs.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/rows.h"
#include "common/units.h"
#include "trace/activity/rank_clock.h"

#define PROGRAM "dlcal predict"

typedef struct settings {
    bool json, together, align;
    dl_step_hints hints;
    dl_read_options read;
} settings;

/* --- individual ranks ------------------------------------------------------------------------- */

/* Error of a time relative to the recorded one. */
static double missed(double ns, const dl_prediction *s)
{
    return ns / s->recorded_ns - 1;
}

static void put_prediction(dl_rows *to, const dl_trace *trace, const dl_step_line *line,
                           const dl_prediction *s)
{
    dl_rows_add(to,
                "file|=%s |trace=%-s device|GPU=%u steps=%zu collectives|coll.=%zu "
                "unknown_sizes|unknown=%zu recorded_ns|recorded=%gns replayed_ns|=%g "
                "|replay=%+.2f%% empty_ns|=%g |nothing=%+.2f%% added_ns|=%g |added=%+.2f%% "
                "predicted_ns|=%g |modelled=%+.2f%%",
                trace->path, dl_base_name(trace->path), line->device, s->steps, s->collectives,
                s->unknown, s->recorded_ns, s->replayed_ns, missed(s->replayed_ns, s), s->empty_ns,
                missed(s->empty_ns, s), s->added_ns, missed(s->added_ns, s), s->predicted_ns,
                missed(s->predicted_ns, s));
}

/* Sum and maximum of the absolute errors of all lines, for the summary. */
typedef struct tally {
    size_t lines;
    double sum, largest;
    bool unknown; /* a collective has no size */
} tally;

static dl_status predict_trace(const dl_trace *trace, const settings *set, dl_rows *to,
                               tally *errors, dl_error *err)
{
    DL_SCOPED(dl_replay_run) run = {0};
    DL_SCOPED(dl_instances) instances = {0};
    DL_SCOPED(dl_transfer) transfer = {0};
    DL_SCOPED(dl_activity_steps) steps = {0};
    dl_status status = dl_activity_steps_init(&steps, trace, &set->hints, err);
    if (status == DL_OK) status = dl_replay_build(&run, &trace, 1, err);
    if (status == DL_OK) {
        dl_instances_find(&instances, &run);
        dl_transfer_fit(&transfer, &instances, &run);
    }
    for (size_t i = 0; i < steps.count && status == DL_OK; i++) {
        dl_prediction prediction;
        status = dl_predict_steps(&prediction, &run, &instances, &transfer, &steps.lines[i], err);
        if (status == DL_ERR_DATA) {
            /* Continue with the other devices and traces. */
            dl_error_print(err, PROGRAM, stderr);
            status = DL_OK;
            continue;
        }
        if (status != DL_OK) break;
        put_prediction(to, trace, &steps.lines[i], &prediction);
        const double error = fabs(missed(prediction.predicted_ns, &prediction));
        errors->unknown |= prediction.unknown > 0;
        errors->sum += error;
        errors->largest = fmax(errors->largest, error);
        errors->lines++;
    }
    return status;
}

static dl_status predict_each(dl_trace_inputs *in, const settings *set, dl_error *err)
{
    tally errors = {0};
    dl_json json = {.out = stdout};
    dl_rows to = {.out = set->json ? NULL : stdout, .json = set->json ? &json : NULL};
    dl_status status = DL_OK;
    dl_rows_begin(&to, NULL, NULL);
    if (!set->json) printf("mean step as recorded, and the error of each prediction in %%\n");
    for (size_t i = 0; i < in->count && status == DL_OK; i++)
        status = predict_trace(in->traces[i], set, &to, &errors, err);
    dl_rows_end(&to, 0);
    if (set->json) putchar('\n');
    if (status == DL_OK && errors.lines == 0)
        status = dl_error_set(err, DL_ERR_DATA, "no trace could be predicted");
    if (status == DL_OK && !set->json && errors.unknown)
        printf("unknown: collectives of unknown size, whose whole time is taken as waiting\n");
    if (status == DL_OK && !set->json && errors.lines > 1) {
        printf("modelled: mean error %.2f %%, largest %.2f %%\n",
               100 * errors.sum / (double)errors.lines, 100 * errors.largest);
    }
    return status;
}

/* --- all ranks together ----------------------------------------------------------------------- */

static void put_ranks(dl_rows *to, const dl_multi_rank *multi)
{
    dl_rows_begin(to, "collectives", NULL);
    for (size_t i = 0; i < multi->count; i++) {
        const dl_multi_rank_instance *j = &multi->instances[i];
        dl_rows_add(to,
                    "name|collective=%-s bytes=%gB modelled_ns|modelled=%gns "
                    "recorded_ns|recorded=%gns worst_end_ns|worst end=%+gns",
                    j->instance->name, j->instance->bytes, j->transfer_ns, (double)j->recorded_ns,
                    (double)j->worst_end_ns);
    }
    dl_rows_end(to, 0);
}

static void print_ranks(const dl_multi_rank *multi, size_t ranks)
{
    printf("%zu ranks, %zu collectives: time from the last rank's start to the end,\n"
           "and the largest difference of a rank's end from the recorded one\n"
           "\n",
           ranks, multi->count);
    put_ranks(&(dl_rows){.out = stdout}, multi);
    printf("\nfarthest end: %s\n", DL_NS_TEXT(multi->worst_end_ns));
}

static void write_ranks(const dl_multi_rank *multi, size_t ranks)
{
    dl_json json = {.out = stdout};
    dl_json_begin(&json, NULL, '{');
    dl_json_members(&json, "ranks=%g worst_end_ns=%g", (double)ranks, (double)multi->worst_end_ns);
    put_ranks(&(dl_rows){.json = &json}, multi);
    dl_json_end(&json, '}');
    putchar('\n');
}

/* Warns if the ranks' clocks differ: a collective cannot end on one rank before another has
 * joined. */
static void warn_of_clocks(const dl_trace_inputs *in)
{
    DL_AUTOFREE dl_rank_clock *clocks = dl_calloc(in->count, sizeof *clocks, "clocks");
    dl_error ignored = {0};
    const dl_status status =
        dl_rank_clocks_find(clocks, (const dl_trace *const *)in->traces, in->count, &ignored);
    for (size_t i = 1; i < in->count && status == DL_OK; i++) {
        const dl_rank_clock *c = &clocks[i];
        if (c->low_ns > c->high_ns || (c->low_ns <= 0 && c->high_ns >= 0)) continue;
        fprintf(stderr, PROGRAM ": %s: its clock is off by about %s: try --align\n",
                in->traces[i]->path, DL_SIGNED_NS_TEXT(-c->offset_ns));
    }
}

static dl_status predict_together(dl_trace_inputs *in, const settings *set, dl_error *err)
{
    if (in->count < 2) {
        return dl_error_set(err, DL_ERR_USAGE, "--together needs the traces of two or more ranks");
    }
    DL_SCOPED(dl_replay_run) run = {0};
    DL_SCOPED(dl_instances) instances = {0};
    DL_SCOPED(dl_multi_rank) multi = {0};
    dl_status status = set->align ? dl_trace_inputs_align(in, err) : DL_OK;
    if (!set->align) warn_of_clocks(in);
    if (status == DL_OK) {
        status = dl_replay_build(&run, (const dl_trace *const *)in->traces, in->count, err);
    }
    if (status == DL_OK) {
        dl_instances_find(&instances, &run);
        status = dl_multi_rank_replay(&multi, &run, &instances, err);
    }
    if (status == DL_OK && set->json) write_ranks(&multi, in->count);
    if (status == DL_OK && !set->json) print_ranks(&multi, in->count);
    if (status == DL_OK && !set->json && instances.left_alone > 0) {
        printf("%zu kernels of collectives keep their recorded times, as their numbers differ "
               "between ranks\n",
               instances.left_alone);
    }
    return status;
}

static dl_status predict(const dl_text_list *paths, void *user, dl_error *err)
{
    const settings *set = user;
    if (set->align && !set->together) {
        return dl_error_set(err, DL_ERR_USAGE, "--align needs --together");
    }
    DL_SCOPED(dl_trace_inputs) in = {0};
    dl_status status = DL_OK;
    for (size_t i = 0; i < paths->count && status == DL_OK; i++)
        status = dl_trace_inputs_read(&in, paths->items[i], &set->read, PROGRAM, err);
    dl_notes_print(&in.notes, "", PROGRAM ": ", stderr);
    if (status == DL_OK && in.count == 0)
        status = dl_error_set(err, DL_ERR_DATA, "no trace has GPU operations");
    if (status == DL_OK) {
        status = set->together ? predict_together(&in, set, err) : predict_each(&in, set, err);
    }
    return status;
}

/* Rejects an option of dlsim; the error names the commands that predict other machines. */
static dl_status refuse_word(const char *given, const char **option DL_UNUSED, dl_error *err)
{
    static const char *const words[] = {"machine", "workers", "gpus", "nodes", "mode"};
    if (dl_names_find(given, words, DL_LENGTH(words)) < 0) return DL_OK;
    return dl_error_set(
        err, DL_ERR_USAGE,
        "--%s: other numbers of GPUs and machines are predicted from the trace by "
        "dlcal costs TRACE -o costs.ini, then dlsim --costs costs.ini --machine NAME",
        given);
}

int dl_calibrate_predict(int argc, char **argv)
{
    settings set = {0};
    const dl_option options[] = {
        DL_OPT_FLAG("together", 0, &set.together,
                    "The traces are all ranks of one run, on a common clock: predict the ends of "
                    "their collectives from the arrivals of the ranks.",
                    .group = "Prediction"),
        DL_OPT_FLAG("align", 0, &set.align,
                    "With --together: first put the ranks on a common clock, by the ends of "
                    "their collectives."),
        DL_OPT_FLAG("json", 0, &set.json, "Print JSON.", .group = "Output"),
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary =
            "Replay a trace with modelled collectives in place of its own. Print the error of "
            "the mean step: replayed unchanged, without collectives, with all transfers added to "
            "that, and with modelled transfers and the peers' lateness of other steps.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = 100000,
        .word = refuse_word,
    };
    return dl_trace_command_main(&command, argc, argv, predict, &set, &set.read, &set.hints);
}
