#include "sim/report/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/report/explain.h"
#include "sim/report/report.h"

#define SECONDS_PER_HOUR 3600.0

/* Which results have a column; in the order of the reference. */
typedef enum group {
    ALL,
    BY_WORKER, /* [scenario] per_worker = yes */
    ON_GPUS,
    SPLIT,     /* a [pipeline] */
    AVERAGING, /* a mode with an interval */
    SYNCER,
    FAILURES,
    ABSENCES,
    TRACED,   /* costs with [trace NUMBER] */
    FITTED,   /* rows that are marked as fitted or contradictory */
    LEFT_OUT, /* --left-out */
    EXPLAINED,
    GROUPS
} group;

static const char *const group_titles[GROUPS] = {
    [ALL] = "In all results",
    [BY_WORKER] = "With `[scenario] per_worker = yes`",
    [ON_GPUS] = "On GPUs",
    [SPLIT] = "With `[pipeline]`",
    [AVERAGING] = "With a mode that has an interval (`average`, `bmuf`, `easgd`, `async_average`); "
                  "empty in rows of other modes",
    [SYNCER] = "With a syncer (mode `async_average`); empty in rows of other modes",
    [FAILURES] = "With `[failures]`; empty in rows with a syncer",
    [ABSENCES] = "With `[failures] away` or `worker_mtbf_s`",
    [TRACED] =
        "Where a cost file has `[trace NUMBER]`; the own point of a trace counts as a fitted "
        "row",
    [FITTED] = "Where the measured table marks rows as fitted or contradictory",
    [LEFT_OUT] = "With `--left-out`",
    [EXPLAINED] = "With `--explain`, last",
};

/* --- how values are read --------------------------------------------------------------------- */

static dl_datum number_at(const void *object, const dl_column *column)
{
    if (object == NULL) return dl_datum_none();
    return dl_datum_number(*(const double *)(const void *)((const char *)object + column->offset));
}

static dl_datum of_row(const void *row, const dl_column *column)
{
    return number_at(((const dl_result *)row)->row, column);
}

static dl_datum of_averaging(const void *row, const dl_column *column)
{
    return number_at(((const dl_result *)row)->row->mean.averaging, column);
}

static dl_datum of_syncer(const void *row, const dl_column *column)
{
    return number_at(((const dl_result *)row)->row->mean.syncer, column);
}

static dl_datum of_measured(const void *row, const dl_column *column)
{
    return dl_datum_number(((const dl_result *)row)->measured->value[column->index]);
}

/* A getter of one column, with `r` its row. */
#define GETTER(name, value)                                        \
    static dl_datum name(const void *row, const dl_column *column) \
    {                                                              \
        const dl_result *r = row;                                  \
        (void)column;                                              \
        return value;                                              \
    }

static bool has_measurement(const dl_result *r)
{
    return r->measured->runs > 0 || r->measured->failed_runs > 0;
}

static double standard_error(const dl_result *r, double times)
{
    return r->measured->value[DL_MEASURE_PER_S] + times * r->measured->value[DL_MEASURE_PER_S_ERR];
}

GETTER(cores_of,
       r->row->point.cores != DL_CORES_GPU ? dl_datum_count(r->row->point.cores) : dl_datum_none())
GETTER(workers_of, dl_datum_count(r->row->point.workers))
GETTER(batch_of, dl_datum_count(r->row->point.batch))
GETTER(mode_of, dl_datum_text(r->row->point.mode->name))
GETTER(busiest_of, dl_datum_text(r->row->mean.usage.busiest))
GETTER(origin_of, dl_datum_text(dl_origin_name(r->row->origin)))
GETTER(extrapolated_of, dl_datum_count(r->row->extrapolated))
GETTER(runs_of, r->measured->runs > 0 ? dl_datum_count(r->measured->runs) : dl_datum_none())
GETTER(measured_rate, r->measured->runs == 0 && r->measured->failed_runs > 0
                          ? dl_datum_text("error")
                          : dl_datum_number(r->measured->value[DL_MEASURE_PER_S]))
GETTER(measured_low, dl_datum_number(standard_error(r, -1)))
GETTER(measured_high, dl_datum_number(standard_error(r, 1)))
GETTER(measured_p10, dl_datum_number(dl_measured_quantile(r->measured, 0.1)))
GETTER(measured_p90, dl_datum_number(dl_measured_quantile(r->measured, 0.9)))
GETTER(error_of, dl_datum_number(dl_report_error_frac(r->row, r->measured)))
GETTER(measured_by_worker, dl_datum_list(r->measured->worker_staleness, r->row->point.workers))
GETTER(source_of, dl_datum_text(r->measured->source))
GETTER(steps_by_worker, dl_datum_list(r->row->mean.worker_step_s, r->row->mean.workers))
GETTER(staleness_by_worker, dl_datum_list(r->row->worker_staleness, r->row->mean.workers))
GETTER(use_of, dl_datum_text(has_measurement(r) ? dl_measured_use_names[r->measured->use] : NULL))
GETTER(note_of, dl_datum_text(r->measured->note))
GETTER(left_out_of, dl_datum_number(r->measured->left_out_frac))
GETTER(link_of, dl_datum_text(r->row->mean.usage.link))
GETTER(memory_frac, dl_datum_number(r->row->memory.needs_bytes / r->row->memory.has_bytes))
GETTER(why_not, dl_datum_text(r->row->error))
GETTER(dominant_of,
       dl_datum_text(r->row->error == NULL ? dl_part_names[dl_dominant_part(r->row)] : NULL))
GETTER(dominant_frac,
       dl_datum_number(r->row->error == NULL ? r->row->mean.part_frac[dl_dominant_part(r->row)]
                                             : (double)NAN))

static double usd_per_hour_of(const dl_result *r)
{
    return dl_gpu_options_usd_per_hour(r->variant->scenario.gpu, dl_point_gpus(&r->row->point));
}

static double epoch_s_of(const dl_result *r)
{
    const int64_t samples = r->variant->scenario.samples_per_epoch;
    return samples > 0 ? (double)samples / r->row->mean.throughput_per_s : (double)NAN;
}

GETTER(usd_per_hour, dl_datum_number(usd_per_hour_of(r)))
GETTER(epoch_s, dl_datum_number(epoch_s_of(r)))
GETTER(usd_per_epoch, dl_datum_number(usd_per_hour_of(r) * epoch_s_of(r) / SECONDS_PER_HOUR))

/* --- split models */

static const dl_split_result *split_of(const dl_result *r)
{
    return dl_point_is_split(&r->row->point) ? r->row->mean.split : NULL;
}

static dl_datum of_split(const void *row, const dl_column *column)
{
    return number_at(split_of(row), column);
}

static dl_datum first_layers(const void *row, const dl_column *column)
{
    const dl_result *r = row;
    (void)column;
    if (!dl_point_is_split(&r->row->point)) return dl_datum_none();
    return dl_datum_owned_text(
        dl_run_split_text(&r->variant->scenario, &r->variant->costs, &r->row->point));
}

static dl_datum stage_memory(const void *row, const dl_column *column)
{
    const dl_result *r = row;
    const dl_point *point = &r->row->point;
    (void)column;
    if (!dl_point_is_split(point)) return dl_datum_none();
    double *memory = dl_calloc((size_t)point->stages, sizeof *memory, "memory of stages");
    for (int s = 0; s < point->stages; s++)
        memory[s] =
            dl_run_stage_memory(&r->variant->scenario, &r->variant->costs, point, s).needs_bytes;
    return dl_datum_owned_list(memory, point->stages);
}

GETTER(gpus_of, dl_datum_count(dl_point_gpus(&r->row->point)))
GETTER(stages_of, dl_datum_count(r->row->point.stages))
GETTER(micro_batches_of, dl_point_is_split(&r->row->point)
                             ? dl_datum_count(r->row->point.micro_batches)
                             : dl_datum_none())
GETTER(schedule_of, dl_datum_text(dl_point_is_split(&r->row->point)
                                      ? dl_schedule_names[r->variant->scenario.pipeline->schedule]
                                      : NULL))
GETTER(stage_busy, split_of(r) != NULL ? dl_datum_list(split_of(r)->busy_frac, split_of(r)->stages)
                                       : dl_datum_none())

/* --- failures */

/* Whether the row's job fails; a syncer goes on without a worker that does. */
static bool may_fail(const dl_result *r)
{
    return dl_failures_given(&r->variant->scenario.failures) && r->row->mean.step_mean_s > 0 &&
           r->row->mean.syncer == NULL;
}

static double goodput_of(const dl_result *r)
{
    const dl_scenario *scenario = &r->variant->scenario;
    if (!may_fail(r)) return (double)NAN;
    return dl_failures_goodput(&scenario->failures, r->row->point.workers, scenario->steps,
                               r->row->mean.step_mean_s);
}

static double best_steps_of(const dl_result *r)
{
    const dl_scenario *scenario = &r->variant->scenario;
    if (!may_fail(r) || !(scenario->failures.mtbf_s > 0)) return (double)NAN;
    return (double)dl_failures_best_steps(&scenario->failures, r->row->point.workers,
                                          scenario->steps, r->row->mean.step_mean_s);
}

GETTER(job_goodput, dl_datum_number(goodput_of(r)))
GETTER(job_per_s, dl_datum_number(goodput_of(r) * r->row->mean.throughput_per_s))
GETTER(best_steps, dl_datum_number(best_steps_of(r)))

/* --- the table ------------------------------------------------------------------------------- */

#define ROW(name_, unit_, member, help_)                                                    \
    {                                                                                       \
        .name = (name_), .unit = (unit_), .group = ALL, .offset = offsetof(dl_row, member), \
        .get = of_row, .help = (help_)                                                      \
    }
#define OF(get_, group_, type, name_, unit_, member, help_)                                    \
    {                                                                                          \
        .name = (name_), .unit = (unit_), .group = (group_), .offset = offsetof(type, member), \
        .get = (get_), .help = (help_)                                                         \
    }
#define MEASURED(name_, unit_, measure, help_)                                                  \
    {                                                                                           \
        .name = (name_), .unit = (unit_), .group = ALL, .index = (measure), .get = of_measured, \
        .help = (help_)                                                                         \
    }
#define BY(get_, group_, name_, unit_, help_)                                               \
    {                                                                                       \
        .name = (name_), .unit = (unit_), .group = (group_), .get = (get_), .help = (help_) \
    }

static const dl_column point_columns[] = {
    BY(cores_of, ALL, "cores", NULL, "that the workers share; empty on GPUs"),
    BY(workers_of, ALL, "workers", NULL, "number of workers"),
    BY(batch_of, ALL, "batch", "samples", "of a step, of all workers together"),
    BY(mode_of, ALL, "sync", NULL, "`[sync] mode`"),
};

/* clang-format off */
static const dl_column columns[] = {
    ROW("step_mean_s", "s", mean.step_mean_s, "time of a worker's step: mean"),
    ROW("step_p50_s", "s", mean.step_p50_s, "median"),
    ROW("step_p99_s", "s", mean.step_p99_s, "99 % quantile"),
    ROW("step_sd_s", "s", mean.step_sd_s, "standard deviation"),
    ROW("throughput_per_s", "samples/s", mean.throughput_per_s,
        "over the common span of all workers; median of the replicates"),
    ROW("throughput_low_per_s", "samples/s", low_per_s,
        "95 % interval of one run, lower end; empty with one replicate of which nothing is assumed"),
    ROW("throughput_high_per_s", "samples/s", high_per_s, "upper end"),
    ROW("speedup", NULL, speedup,
        "throughput over that of one worker without exchange, with the same total batch (the same "
        "batch per worker where the scenario gives `batch_per_worker`). On GPUs of several models "
        "the one worker is on the fastest of them"),
    ROW("speedup_low", NULL, speedup_low,
        "95 % interval of the ratio of runs with the same costs and noise, lower end"),
    ROW("speedup_high", NULL, speedup_high, "upper end"),
    ROW("efficiency", NULL, efficiency,
        "speedup / workers; a GPU counts as the part of the fastest one that its speed is"),
    ROW("compute_frac", NULL, mean.part_frac[DL_PART_COMPUTE],
        "share of the workers' time in forward and backward passes and their own updates; the six "
        "shares add up to 1"),
    ROW("dispatch_frac", NULL, mean.part_frac[DL_PART_DISPATCH], "in the host's own time"),
    ROW("communication_frac", NULL, mean.part_frac[DL_PART_COMMUNICATION],
        "in copies and collectives"),
    ROW("averaging_frac", NULL, mean.part_frac[DL_PART_AVERAGING],
        "in averaging and the server's update"),
    ROW("waiting_frac", NULL, mean.part_frac[DL_PART_WAITING],
        "waiting for other workers, the lock or the core"),
    ROW("input_frac", NULL, mean.part_frac[DL_PART_INPUT], "in input"),
    ROW("applied_frac", NULL, mean.applied_frac,
        "share of the computed gradients that an update contains"),
    ROW("updates_per_s", "1/s", mean.updates_per_s, "updates of the shared parameters"),
    ROW("staleness_mean", "updates", staleness_mean,
        "updates that the server applied between a worker's read of the parameters and the "
        "application of its gradient; empty where parameters are not shared. `average` with a lag: "
        "local steps between sending parameters and merging their average"),
    ROW("staleness_sd", "updates", staleness_sd, "standard deviation"),
    ROW("staleness_p50", "updates", staleness_p50, "quantiles"),
    ROW("staleness_p90", "updates", staleness_p90, NULL),
    ROW("staleness_p99", "updates", staleness_p99, NULL),
    ROW("staleness_max", "updates", staleness_max, "largest"),
    ROW("drift_steps_mean", "steps", mean.drift_steps_mean,
        "local updates since the parameters were last averaged; modes with an interval"),
    ROW("drift_steps_max", "steps", mean.drift_steps_max, "largest"),
    ROW("clock_lag_max", "steps", mean.clock_lag_max,
        "that a worker was ahead of the slowest one, at most"),
    BY(busiest_of, ALL, "busiest", NULL, "resource with the largest share of busy time"),
    ROW("busiest_frac", NULL, mean.usage.busiest_frac, "that share"),
    BY(origin_of, ALL, "origin", NULL,
       "the least trustworthy origin of the costs that were used"),
    BY(extrapolated_of, ALL, "extrapolated", NULL,
       "1: the point or its baseline lies outside of what the costs were measured at"),
    BY(runs_of, ALL, "measured_runs", NULL,
       "runs of the point in the measured table; the next are empty without"),
    MEASURED("measured_step_s", "s", DL_MEASURE_STEP_S, "median"),
    BY(measured_rate, ALL, "measured_per_s", "samples/s", "median; `error` if all runs failed"),
    BY(measured_low, ALL, "measured_low_per_s", "samples/s", "one standard error below"),
    BY(measured_high, ALL, "measured_high_per_s", "samples/s", "and above"),
    BY(measured_p10, ALL, "measured_p10_per_s", "samples/s",
       "quantiles of the runs, with five or more"),
    BY(measured_p90, ALL, "measured_p90_per_s", "samples/s", NULL),
    BY(error_of, ALL, "error_frac", NULL, "predicted / measured throughput - 1"),
    MEASURED("measured_staleness_mean", "updates", DL_MEASURE_STALENESS_MEAN,
             "as in the measured table"),
    MEASURED("measured_staleness_sd", "updates", DL_MEASURE_STALENESS_SD, NULL),
    MEASURED("measured_staleness_p50", "updates", DL_MEASURE_STALENESS_P50, NULL),
    MEASURED("measured_staleness_p90", "updates", DL_MEASURE_STALENESS_P90, NULL),
    BY(measured_by_worker, ALL, "measured_staleness_mean_by_worker", "updates", NULL),
    BY(source_of, ALL, "measured_source", NULL, NULL),
    BY(steps_by_worker, BY_WORKER, "step_mean_s_by_worker", "s",
       "one number per worker, separated by `;`"),
    BY(staleness_by_worker, BY_WORKER, "staleness_mean_by_worker", "updates", NULL),
    BY(link_of, ON_GPUS, "link", NULL, "the busiest link"),
    OF(of_row, ON_GPUS, dl_row, "link_frac", NULL, mean.usage.link_frac,
       "its share of busy time"),
    OF(of_row, ON_GPUS, dl_row, "memory_bytes", "B", memory.needs_bytes,
       "needed on the fullest GPU; empty where the cost file does not say"),
    BY(memory_frac, ON_GPUS, "memory_frac", NULL, "over what it has"),
    BY(usd_per_hour, ON_GPUS, "usd_per_hour", "USD/h",
       "price of the nodes used, where the machine file has one"),
    BY(epoch_s, ON_GPUS, "epoch_s", "s", "time per epoch, with `samples_per_epoch`"),
    BY(usd_per_epoch, ON_GPUS, "usd_per_epoch", "USD", "price per epoch"),
    BY(why_not, ON_GPUS, "error", NULL,
       "why the point was not run (it does not fit into memory); its other columns are empty then"),
    BY(gpus_of, SPLIT, "gpus_used", NULL, "of all workers"),
    BY(stages_of, SPLIT, "pipeline_stages", NULL,
       "of each worker; with one stage the rest is empty"),
    BY(micro_batches_of, SPLIT, "pipeline_micro_batches", NULL, NULL),
    BY(schedule_of, SPLIT, "pipeline_schedule", NULL, NULL),
    OF(of_split, SPLIT, dl_split_result, "bubble_frac", NULL, bubble_frac,
       "share of the GPUs' time in which a stage waits for another"),
    OF(of_split, SPLIT, dl_split_result, "crossing_bytes", "B", crossed_bytes,
       "activations and their gradients that cross between stages in a step, over all workers"),
    OF(of_split, SPLIT, dl_split_result, "exchange_bytes", "B", reduced_bytes,
       "gradients that are reduced in a step, over all workers"),
    BY(first_layers, SPLIT, "stage_first_layer", NULL, "one per stage, separated by `;`"),
    BY(stage_busy, SPLIT, "stage_busy_frac", NULL, NULL),
    BY(stage_memory, SPLIT, "stage_memory_bytes", "B", NULL),
    OF(of_averaging, AVERAGING, dl_averaging_result, "utilisation_frac", NULL, utilisation_frac,
       "of the workers' time, that in local steps: computing, its launches and input; the rest is "
       "exchange, also inside a site, and waiting"),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_step_mean_s", "s", outer_step_mean_s,
       "time of `interval` local steps with their exchange, over all workers: mean; with a syncer "
       "from one merge's end to the next, the first from the start"),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_step_p50_s", "s", outer_step_p50_s,
       "quantiles"),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_step_p95_s", "s", outer_step_p95_s,
       NULL),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_blocked_s", "s", blocked_s,
       "of a worker's outer step, what is not in local steps: exchange that these do not hide, and "
       "waiting for others, so it may exceed `outer_exchange_s`"),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_sent_bytes", "B", site_sent_bytes,
       "in an outer step to other sites (nodes, where the machine file has no sites), by the site "
       "that sends most; empty on cores"),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_exchange_s", "s", exchange_s,
       "of a worker's outer step, the time for which its parameters are copied and averaged, all "
       "fragments, whether local steps hide it (`lag`) or not; without waiting for others. Empty "
       "with a syncer, and with `inside` without a lag"),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads", NULL, uploaded,
       "of all learners; the sum of the next four"),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_applied", NULL, applied,
       "merged into the parameters"),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_too_stale", NULL, too_stale,
       "dropped, as beyond the bound of staleness"),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_superseded", NULL, superseded,
       "replaced by a newer one of the same learner"),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_unmerged", NULL, unmerged,
       "left when the run ended"),
    OF(of_syncer, SYNCER, dl_syncer_result, "merges", NULL, merges, "in the run"),
    OF(of_syncer, SYNCER, dl_syncer_result, "goodput_frac", NULL, goodput_frac,
       "the part of all learners' time in which they computed steps that were not lost: not "
       "superseded, too stale, or of an interval in which they failed"),
    OF(of_syncer, SYNCER, dl_syncer_result, "weight_mean", NULL, weight_mean,
       "of the uploads applied, by `weight_power`: mean weight"),
    OF(of_syncer, SYNCER, dl_syncer_result, "applied_weight_frac", NULL, applied_weight_frac,
       "their weights added up, over all uploads"),
    BY(job_goodput, FAILURES, "job_goodput_frac", NULL,
       "the part of the job's time that goes into steps which need not be done again"),
    BY(job_per_s, FAILURES, "job_per_s", "samples/s", "throughput times that"),
    BY(best_steps, FAILURES, "best_checkpoint_steps", "steps",
       "the `checkpoint_steps` with the largest expected goodput, by `mtbf_s`"),
    OF(of_row, ABSENCES, dl_row, "worker_goodput_frac", NULL, mean.goodput_frac,
       "the part of all workers' time, absences too, in which they computed steps that were not "
       "lost; `applied_frac` of mode `average` is then the part of steps that were not lost"),
    OF(of_row, ABSENCES, dl_row, "worker_away_frac", NULL, mean.away_frac,
       "the part of all workers' time for which they were away"),
    OF(of_row, TRACED, dl_row, "left_out_collectives_s", "s", left_out_s,
       "time that the traced step's collectives which the row leaves out took on the device, with "
       "waits for other ranks; empty: it leaves out none. `+` in tables"),
    OF(of_row, TRACED, dl_row, "trace_error_frac", NULL, trace_error_frac,
       "predicted / traced throughput - 1 at the trace's own point, whether or not the scenario "
       "has it; of several traces the worst; empty where none can be compared, as on another GPU. "
       "`!` in tables, beyond 10 %"),
    BY(use_of, FITTED, "measured_use", NULL, "as in the table; `error` if all runs failed"),
    BY(note_of, FITTED, "measured_note", NULL, NULL),
    BY(left_out_of, LEFT_OUT, "left_out_error_frac", NULL,
       "`error_frac` with costs fitted to the other rows"),
    BY(dominant_of, EXPLAINED, "dominant", NULL,
       "the part that most of the workers' time goes to (`compute`, `dispatch`, ...)"),
    BY(dominant_frac, EXPLAINED, "dominant_frac", NULL, "its share"),
};
/* clang-format on */

/* --- the columns of a study ------------------------------------------------------------------ */

static dl_datum option_of(const void *row, const dl_column *column)
{
    const dl_point *point = &((const dl_result *)row)->row->point;
    if (!dl_point_shows(point, column->index)) return dl_datum_none();
    return dl_datum_number(point->option[column->index]);
}

static dl_datum key_of(const void *row, const dl_column *column)
{
    const dl_result *r = row;
    return dl_datum_text(
        dl_study_cell(r->study, r->variant, &r->row->point, (size_t)column->index));
}

static void choose_groups(bool has[GROUPS], const dl_study *study, const dl_sweep *sweep,
                          const dl_measured *measured, bool explained)
{
    const dl_scenario *first = &study->variants[0].scenario; /* all variants have GPUs, or none; */
    has[ALL] = true;
    has[BY_WORKER] = first->per_worker;
    has[ON_GPUS] = first->gpu != NULL;
    has[SPLIT] = first->pipeline != NULL; /* likewise */
    has[EXPLAINED] = explained;
    for (size_t v = 0; v < study->variant_count; v++) {
        has[FAILURES] |= dl_failures_given(&study->variants[v].scenario.failures);
        has[ABSENCES] |= dl_absences_given(&study->variants[v].scenario.absences);
        has[TRACED] |= study->variants[v].costs.trace_count > 0;
    }
    for (size_t i = 0; i < sweep->row_count; i++) {
        const unsigned options = sweep->rows[i].point.mode->options;
        has[AVERAGING] |= (options & 1u << DL_SYNC_INTERVAL) != 0;
        has[SYNCER] |= (options & 1u << DL_SYNC_SYNCER) != 0;
        if (measured == NULL) continue;
        const dl_measured_use use = measured[i].use;
        has[FITTED] |= use == DL_USE_FITTED || use == DL_USE_CONTRADICTION;
        has[LEFT_OUT] |= !isnan(measured[i].left_out_frac);
    }
}

static void add_column(dl_results *results, const dl_column *column)
{
    DL_APPEND(results->columns, results->column_count, "columns") = column;
}

/* The point's columns, the modes' options, the swept keys. */
static void add_keys(dl_results *results, const dl_study *study)
{
    const size_t count = DL_SYNC_SWEPT + study->key_count;
    dl_column *own = dl_calloc(count, sizeof *own, "columns of keys");
    for (size_t i = 0; i < DL_LENGTH(point_columns); i++)
        add_column(results, &point_columns[i]);
    for (size_t i = 0; i < count; i++) {
        const bool is_option = i < DL_SYNC_SWEPT;
        const size_t key = i - DL_SYNC_SWEPT;
        own[i] = (dl_column){.name = is_option ? dl_sync_options[i].name : study->keys[key].column,
                             .get = is_option ? option_of : key_of,
                             .index = (int)(is_option ? i : key)};
        add_column(results, &own[i]);
    }
    results->of_keys = own;
    results->key_count = results->column_count;
}

void dl_results_make(dl_results *results, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured, bool explained)
{
    bool has[GROUPS] = {false};
    *results = (dl_results){.count = sweep->row_count};
    results->results = dl_calloc(sweep->row_count, sizeof *results->results, "results");
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        results->results[i] = (dl_result){study, &study->variants[row->variant], row,
                                          measured != NULL ? &measured[i] : NULL};
    }
    choose_groups(has, study, sweep, measured, explained);
    add_keys(results, study);
    for (size_t c = 0; c < DL_LENGTH(columns); c++)
        if (has[columns[c].group]) add_column(results, &columns[c]);
}

void dl_results_free(dl_results *results)
{
    free(results->results);
    free(results->columns);
    free(results->of_keys);
    *results = (dl_results){0};
}

/* --- the reference --------------------------------------------------------------------------- */

static void put_reference(FILE *out, const dl_column *rows, size_t count, int chosen)
{
    for (size_t c = 0; c < count; c++) {
        if (rows[c].group != chosen) continue;
        fprintf(out, "| `%s` |", rows[c].name);
        fprintf(out, " %s |", rows[c].unit != NULL ? rows[c].unit : "");
        fprintf(out, " %s |\n", rows[c].help != NULL ? rows[c].help : "likewise");
    }
}

void dl_columns_reference(FILE *out)
{
    fputs(
        "# Columns of results\n\n"
        "Made by `dlsim --columns`. After the columns of the point come one for each option of a "
        "mode\n"
        "(`interval`, `n`, `bound`, `k`, `moving_rate`, `block_momentum`, `accumulate`, `lag`) and "
        "one for\n"
        "each other key that the scenario varies, named as the key (`machine` for `[machine] "
        "file`,\n"
        "`noise` for `[noise] kind`, `input_cores` for `[input] cores`).\n",
        out);
    for (int g = 0; g < GROUPS; g++) {
        fprintf(out, "\n## %s\n\n| column | unit | |\n|---|---|---|\n", group_titles[g]);
        if (g == ALL) put_reference(out, point_columns, DL_LENGTH(point_columns), g);
        put_reference(out, columns, DL_LENGTH(columns), g);
    }
}
