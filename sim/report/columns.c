#include "sim/report/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "sim/fits.h"
#include "sim/report/accuracy.h"
#include "sim/workloads/architecture.h"

#define SECONDS_PER_HOUR 3600.0
#define HOURS_PER_DAY 24.0
#define FITS_EXPLAINED \
    6 /* last rows, those of most workers, with settings that fit: the search is
                          * slow */

/* Groups of columns, in the order of the reference documentation. */
typedef enum group {
    ALL,
    BY_WORKER, /* [scenario] per_worker = yes */
    ON_GPUS,
    SPLIT,     /* a scenario with [machine] layout or [pipeline] */
    ADVISED,   /* --advise layout */
    AVERAGING, /* a mode with an interval */
    SYNCER,
    FAILURES,
    ABSENCES,
    TARGET, /* [target] */
    GENERATORS,
    TOKENS,   /* [workload] model whose samples are token sequences */
    STEPS,    /* a measured table with steps */
    TRACED,   /* costs with [trace NUMBER] */
    FITTED,   /* rows marked as traced, fitted or contradictory */
    LEFT_OUT, /* --left-out */
    EXPLAINED,
    GROUPS
} group;

static const char *const group_titles[GROUPS] = {
    [ALL] = "In all results",
    [BY_WORKER] = "With `[scenario] per_worker = yes`",
    [ON_GPUS] = "On GPUs",
    [SPLIT] = "With `[machine] layout` or `[pipeline]`",
    [ADVISED] = "With `--advise layout`",
    [AVERAGING] = "With a mode that has an interval (`average`, `bmuf`, `easgd`, `async_average`); "
                  "empty in rows of other modes",
    [SYNCER] = "With a syncer (mode `async_average`); empty in rows of other modes",
    [FAILURES] = "With `[failures]`; empty in rows with a syncer",
    [ABSENCES] = "With `[failures] away` or `worker_mtbf_s`",
    [TARGET] = "With `[target] samples`; empty in rows whose factor is not known",
    [GENERATORS] =
        "With `[generators]`; a step is an update, and the shares of time are the trainer's",
    [TOKENS] = "With a `[workload] model` that is a transformer",
    [STEPS] = "If the measured table has `step_quantiles_s`",
    [TRACED] =
        "If a cost file has `[trace NUMBER]`; the point of the trace itself is a `traced` row, "
        "which judges nothing",
    [FITTED] = "If a row is traced, or marked in the measured table as fitted or contradictory",
    [LEFT_OUT] = "With `--left-out`",
    [EXPLAINED] = "With `--explain`, as the last columns",
};

/* --- getters ---------------------------------------------------------------------------------- */

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

/* Defines the getter of one column; `r` is its row. */
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
GETTER(mode_of, dl_datum_text(dl_point_mode(&r->row->point)))
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
GETTER(steps_distance_of, dl_datum_number(dl_accuracy_steps_frac(r->row, r->measured)))
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

static dl_datum memory_by_kind(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_gpu_memory *memory = &((const dl_result *)row)->row->memory;
    if (isnan(memory->needs_bytes)) return dl_datum_none();
    double *bytes = dl_calloc(DL_GPU_CONTENTS + 1, sizeof *bytes, "memory by kind");
    for (int k = 0; k < DL_GPU_CONTENTS; k++)
        bytes[k] = dl_gpu_content_of(&memory->content, k);
    bytes[DL_GPU_CONTENTS] = dl_memory_reserve_bytes(memory);
    return dl_datum_owned_list(bytes, DL_GPU_CONTENTS + 1);
}

GETTER(why_not, dl_datum_text(r->row->error))
GETTER(dominant_of,
       dl_datum_text(r->row->error == NULL ? dl_part_names[dl_dominant_part(r->row)] : NULL))
GETTER(dominant_frac,
       dl_datum_number(r->row->error == NULL ? r->row->mean.part_frac[dl_dominant_part(r->row)]
                                             : (double)NAN))

static double usd_per_hour_of(const dl_result *r)
{
    return dl_scenario_usd_per_hour(&r->variant->scenario, &r->row->point);
}

static double epoch_s_of(const dl_result *r)
{
    const int64_t samples =
        r->variant->scenario.gpu != NULL ? r->variant->scenario.samples_per_epoch : 0;
    return samples > 0 ? (double)samples / r->row->mean.throughput_per_s : (double)NAN;
}

GETTER(usd_per_hour, dl_datum_number(usd_per_hour_of(r)))
GETTER(epoch_s, dl_datum_number(epoch_s_of(r)))
GETTER(usd_per_epoch, dl_datum_number(usd_per_hour_of(r) * epoch_s_of(r) / SECONDS_PER_HOUR))

/* --- transformers */

static double tokens_per_s_of(const dl_result *r)
{
    return r->tokens > 0 ? (double)r->tokens * r->row->mean.throughput_per_s : (double)NAN;
}

/* Model FLOPs utilisation: the rate of the model's own FLOPs over the summed peak rates of the GPUs
 * used, in the precision of the matrix products; NaN if a rate is unknown. Chowdhery et al., PaLM
 * (2022), appendix B: recomputation (activation checkpointing, fused attention) does not count. */
static double mfu_of(const dl_result *r)
{
    const dl_scenario *scenario = &r->variant->scenario;
    double peak = 0;
    if (r->tokens == 0 || scenario->gpu == NULL) return (double)NAN;
    for (int g = 0; g < dl_point_gpus(&r->row->point); g++) {
        const dl_place place = dl_gpu_options_place(scenario->gpu, g);
        const dl_gpu_model *model =
            dl_machine_model(&scenario->gpu->machine, place.node, place.index);
        const dl_quantity *rate = dl_gpu_model_flop_per_s(model, dl_scenario_arithmetic(scenario));
        if (!rate->known) return (double)NAN;
        peak += rate->value;
    }
    return r->row->mean.throughput_per_s * r->model_flop / peak;
}

GETTER(tokens_per_s, dl_datum_number(tokens_per_s_of(r)))
GETTER(mfu, dl_datum_number(mfu_of(r)))

/* --- split models */

static const dl_split_result *split_of(const dl_result *r)
{
    return dl_point_is_split(&r->row->point) ? r->row->mean.split : NULL;
}

static dl_datum of_split(const void *row, const dl_column *column)
{
    return number_at(split_of(row), column);
}

static dl_datum first_layers(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    if (r->row->point.stages <= 1) return dl_datum_none();
    return dl_datum_owned_text(
        dl_run_split_text(&r->variant->scenario, &r->variant->costs, &r->row->point));
}

static dl_datum stage_memory(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    const dl_point *point = &r->row->point;
    if (!dl_point_is_split(point)) return dl_datum_none();
    const int stages = dl_point_split(point).stages;
    double *memory = dl_calloc((size_t)stages, sizeof *memory, "memory of stages");
    for (int s = 0; s < stages; s++)
        memory[s] =
            dl_run_stage_memory(&r->variant->scenario, &r->variant->costs, point, s).needs_bytes;
    return dl_datum_owned_list(memory, stages);
}

static dl_datum stage_staleness(const void *row, const dl_column *column DL_UNUSED)
{
    const dl_result *r = row;
    const dl_split split = dl_point_split(&r->row->point);
    if (split.stages == 1) return dl_datum_none();
    double *staleness = dl_calloc((size_t)split.stages, sizeof *staleness, "stages");
    for (int s = 0; s < split.stages; s++)
        staleness[s] = dl_pipeline_staleness(r->variant->scenario.pipeline->schedule, &split, s);
    return dl_datum_owned_list(staleness, split.stages);
}

GETTER(gpus_of, dl_datum_count(dl_point_gpus(&r->row->point)))
GETTER(stages_of, dl_datum_count(r->row->point.stages))
GETTER(micro_batches_of, dl_point_is_split(&r->row->point)
                             ? dl_datum_count(dl_point_split(&r->row->point).micro_batches)
                             : dl_datum_none())
GETTER(schedule_of, dl_datum_text(dl_point_is_split(&r->row->point)
                                      ? dl_schedule_names[r->variant->scenario.pipeline->schedule]
                                      : NULL))
/* Returns the number of GPUs that share a stage's parameters; 1 if the split's shards only have
 * parts of sequences or experts. */
static int shards_of_split(dl_split split)
{
    return dl_split_is_sharded(&split) ? split.shards : 1;
}

GETTER(shards_of, dl_point_is_split(&r->row->point)
                      ? dl_datum_count(shards_of_split(dl_point_split(&r->row->point)))
                      : dl_datum_none())
GETTER(tensor_of, dl_point_is_split(&r->row->point)
                      ? dl_datum_count(dl_point_split(&r->row->point).tensor)
                      : dl_datum_none())
GETTER(stage_busy, split_of(r) != NULL ? dl_datum_list(split_of(r)->busy_frac, split_of(r)->stages)
                                       : dl_datum_none())

/* --- failures */

bool dl_result_may_fail(const dl_result *r)
{
    return dl_failures_given(&r->variant->scenario.failures) && r->row->mean.step_mean_s > 0 &&
           r->row->mean.syncer == NULL;
}

/* Mean time between random failures of the row's job, s; 0: no random failures. */
static double mean_s_of(const dl_result *r)
{
    const dl_gpu_options *gpu = r->variant->scenario.gpu;
    int nodes = gpu == NULL, last = -1;
    for (int g = 0; gpu != NULL && g < dl_point_gpus(&r->row->point); g++) {
        const int node = dl_gpu_options_place(gpu, g).node; /* nodes ascend with g */
        nodes += node != last;
        last = node;
    }
    const dl_point *point = &r->row->point;
    const int parts = point->workers * (gpu != NULL ? dl_point_ranks(point) : 1);
    return dl_failures_mean_s(&r->variant->scenario.failures, parts, nodes);
}

static double target_factor_of(const dl_result *r)
{
    const dl_target *target = &r->variant->scenario.target;
    const dl_point *point = &r->row->point;
    if (target->samples == 0 || r->row->error != NULL) return (double)NAN;
    return dl_target_factor_of(target, point->mode, point->option[DL_SYNC_INTERVAL],
                               r->row->staleness_mean);
}

/* Steps of the row's job if failures.job_steps does not set them: the steps to the target, else the
 * simulated steps. */
static int64_t job_steps_of(const dl_result *r)
{
    const dl_scenario *scenario = &r->variant->scenario;
    const double factor = target_factor_of(r);
    const double samples_a_step = r->row->mean.throughput_per_s * r->row->mean.step_mean_s;
    if (isnan(factor) || !(samples_a_step > 0)) return scenario->steps;
    return (int64_t)fmin(
        1e12, fmax(1, round(factor * (double)scenario->target.samples / samples_a_step)));
}

static double goodput_of(const dl_result *r)
{
    const dl_scenario *scenario = &r->variant->scenario;
    if (!dl_result_may_fail(r)) return (double)NAN;
    return dl_failures_goodput(&scenario->failures, mean_s_of(r), job_steps_of(r),
                               r->row->mean.step_mean_s);
}

static double best_steps_of(const dl_result *r)
{
    const dl_scenario *scenario = &r->variant->scenario;
    if (!dl_result_may_fail(r) || mean_s_of(r) == 0) return (double)NAN;
    return (double)dl_failures_best_steps(&scenario->failures, mean_s_of(r), job_steps_of(r),
                                          r->row->mean.step_mean_s);
}

GETTER(job_goodput, dl_datum_number(goodput_of(r)))
GETTER(job_per_s, dl_datum_number(goodput_of(r) * r->row->mean.throughput_per_s))
GETTER(lost_hours, dl_datum_number(HOURS_PER_DAY *(1 - goodput_of(r))))
GETTER(lost_usd, dl_datum_number(HOURS_PER_DAY *(1 - goodput_of(r)) * usd_per_hour_of(r)))
GETTER(best_steps, dl_datum_number(best_steps_of(r)))

/* --- target */

double dl_result_target_s(const dl_result *r)
{
    const double goodput = dl_result_may_fail(r) ? goodput_of(r) : 1;
    return target_factor_of(r) * (double)r->variant->scenario.target.samples /
           (goodput * r->row->mean.throughput_per_s);
}

double dl_result_target_usd(const dl_result *r)
{
    return usd_per_hour_of(r) * dl_result_target_s(r) / SECONDS_PER_HOUR;
}

GETTER(target_factor, dl_datum_number(target_factor_of(r)))
GETTER(target_s, dl_datum_number(dl_result_target_s(r)))
GETTER(target_usd, dl_datum_number(dl_result_target_usd(r)))

/* --- the table ------------------------------------------------------------------------------- */

/* The last argument is the help text, which further members may follow. */
#define OF(get_, group_, type, name_, unit_, member, ...)                                      \
    {                                                                                          \
        .name = (name_), .unit = (unit_), .group = (group_), .offset = offsetof(type, member), \
        .get = (get_), .help = __VA_ARGS__                                                     \
    }
#define ROW(name_, unit_, member, ...) OF(of_row, ALL, dl_row, name_, unit_, member, __VA_ARGS__)
#define MEASURED(name_, unit_, measure, ...)                                                    \
    {                                                                                           \
        .name = (name_), .unit = (unit_), .group = ALL, .index = (measure), .get = of_measured, \
        .help = __VA_ARGS__                                                                     \
    }
#define BY(get_, group_, name_, unit_, ...)                                                     \
    {                                                                                           \
        .name = (name_), .unit = (unit_), .group = (group_), .get = (get_), .help = __VA_ARGS__ \
    }

static const dl_column point_columns[] = {
    BY(cores_of, ALL, "cores", NULL, "number of cores that the workers share; empty on GPUs",
       DL_PLAIN("cores", 0)),
    BY(workers_of, ALL, "workers", NULL, "number of workers", DL_PLAIN("workers", 0)),
    BY(batch_of, ALL, "batch", "samples", "size of a step's batch, all workers together",
       DL_PLAIN("batch", 0)),
    BY(mode_of, ALL, "sync", NULL, "`[sync] mode`", DL_WORD("sync")),
};

/* clang-format off */
static const dl_column columns[] = {
    ROW("step_mean_s", "s", mean.step_mean_s, "time of a worker's step: mean", DL_TIME("step")),
    ROW("step_p50_s", "s", mean.step_p50_s, "its median"),
    ROW("step_p99_s", "s", mean.step_p99_s, "its 99 % quantile"),
    ROW("step_sd_s", "s", mean.step_sd_s, "its standard deviation"),
    ROW("throughput_per_s", "samples/s", mean.throughput_per_s,
        "throughput, median of the replicates ([time "
        "span](method.md#throughput))", DL_RATE("samples/s")),
    ROW("throughput_low_per_s", "samples/s", low_per_s,
        "lower end of one run's 95 % interval; empty with one replicate, no assumptions and no "
        "run_frac"),
    ROW("throughput_high_per_s", "samples/s", high_per_s, "upper end of this interval"),
    ROW("speedup", NULL, speedup,
        "[speedup](simulating.md#staleness-and-speedup) over one worker without exchange",
        DL_PLAIN("speedup", 2)),
    ROW("speedup_low", NULL, speedup_low,
        "lower end of its 95 % interval"),
    ROW("speedup_high", NULL, speedup_high, "upper end of this interval"),
    ROW("efficiency", NULL, efficiency,
        "speedup / workers; a slower GPU counts by its speed"),
    ROW("compute_frac", NULL, mean.part_frac[DL_PART_COMPUTE],
        "share of the workers' time in computing; the six shares add up to "
        "1", DL_PERCENT("comp. %", 1)),
    ROW("dispatch_frac", NULL, mean.part_frac[DL_PART_DISPATCH], "share in the host's own time", DL_PERCENT("host %", 1)),
    ROW("communication_frac", NULL, mean.part_frac[DL_PART_COMMUNICATION],
        "share in copies and collectives, also those that stop a worker's "
        "GPU", DL_PERCENT("comm. %", 1)),
    ROW("averaging_frac", NULL, mean.part_frac[DL_PART_AVERAGING],
        "share in averaging and the server's update, also on a worker's "
        "GPU", DL_PERCENT("avg. %", 1)),
    ROW("waiting_frac", NULL, mean.part_frac[DL_PART_WAITING],
        "share of waiting for other workers, the lock or the core", DL_PERCENT("wait %", 1)),
    ROW("input_frac", NULL, mean.part_frac[DL_PART_INPUT], "share in input", DL_PERCENT("input %", 1)),
    ROW("applied_frac", NULL, mean.applied_frac,
        "share of the computed gradients that an update contains", DL_PERCENT("steps kept %", 1)),
    ROW("updates_per_s", "1/s", mean.updates_per_s, "number of updates of the shared parameters per second"),
    ROW("staleness_mean", "updates", staleness_mean,
        "[staleness](simulating.md#staleness-and-speedup) of the applied gradients: mean; of "
        "`average` with a lag, local steps between sending and merging", DL_PLAIN("staleness", 2)),
    ROW("staleness_sd", "updates", staleness_sd, "its standard deviation", DL_PLAIN("sd", 2)),
    ROW("staleness_p50", "updates", staleness_p50, "its quantiles", DL_PLAIN("p50", 0)),
    ROW("staleness_p90", "updates", staleness_p90, NULL, DL_PLAIN("p90", 0)),
    ROW("staleness_p99", "updates", staleness_p99, NULL),
    ROW("staleness_max", "updates", staleness_max, "the largest"),
    ROW("drift_steps_mean", "steps", mean.drift_steps_mean,
        "local updates since the last average: mean"),
    ROW("drift_steps_max", "steps", mean.drift_steps_max, "their largest number"),
    ROW("clock_lag_max", "steps", mean.clock_lag_max,
        "largest lead over the slowest worker"),
    BY(busiest_of, ALL, "busiest", NULL, "the busiest resource"),
    ROW("busiest_frac", NULL, mean.usage.busiest_frac, "this share"),
    BY(origin_of, ALL, "origin", NULL,
       "least trustworthy origin of the costs used"),
    BY(extrapolated_of, ALL, "extrapolated", NULL,
       "1 if the point or its baseline is outside the range of measured costs, else 0"),
    BY(runs_of, ALL, "measured_runs", NULL,
       "runs of the point in the measured table; if 0, the following columns are "
       "empty", DL_PLAIN("runs", 0)),
    MEASURED("measured_step_s", "s", DL_MEASURE_STEP_S, "median of their step times"),
    BY(measured_rate, ALL, "measured_per_s", "samples/s", "median of their throughputs; `error` if all runs failed", DL_RATE("measured/s")),
    BY(measured_low, ALL, "measured_low_per_s", "samples/s", "this median less one standard error"),
    BY(measured_high, ALL, "measured_high_per_s", "samples/s", "this median plus one standard error"),
    BY(measured_p10, ALL, "measured_p10_per_s", "samples/s",
       "quantiles of the runs, if there are at least five"),
    BY(measured_p90, ALL, "measured_p90_per_s", "samples/s", NULL),
    BY(error_of, ALL, "error_frac", NULL, "predicted / measured throughput - 1", DL_SIGNED("error %", 1)),
    MEASURED("measured_staleness_mean", "updates", DL_MEASURE_STALENESS_MEAN,
             "as in the measured table", DL_PLAIN("measured staleness", 2)),
    MEASURED("measured_staleness_sd", "updates", DL_MEASURE_STALENESS_SD, NULL, DL_PLAIN("measured sd", 2)),
    MEASURED("measured_staleness_p50", "updates", DL_MEASURE_STALENESS_P50, NULL, DL_PLAIN("measured p50", 0)),
    MEASURED("measured_staleness_p90", "updates", DL_MEASURE_STALENESS_P90, NULL, DL_PLAIN("measured p90", 0)),
    BY(measured_by_worker, ALL, "measured_staleness_mean_by_worker", "updates", NULL, DL_PLAIN("measured by worker", 2)),
    BY(source_of, ALL, "measured_source", NULL, "source, as in the measured table"),
    BY(steps_by_worker, BY_WORKER, "step_mean_s_by_worker", "s",
       "mean time of each worker's steps, separated by `;`"),
    BY(staleness_by_worker, BY_WORKER, "staleness_mean_by_worker", "updates", "the same of the mean staleness", DL_PLAIN("by worker", 2)),
    BY(link_of, ON_GPUS, "link", NULL, "the busiest link"),
    OF(of_row, ON_GPUS, dl_row, "link_frac", NULL, mean.usage.link_frac,
       "share of the time for which it is busy"),
    OF(of_row, ON_GPUS, dl_row, "memory_bytes", "B", memory.needs_bytes,
       "memory needed on the fullest GPU, if known", DL_BYTES("memory")),
    BY(memory_frac, ON_GPUS, "memory_frac", NULL, "the same over the GPU's capacity", DL_PERCENT("memory %", 1)),
    BY(memory_by_kind, ON_GPUS, "memory_by_kind_bytes", "B",
       "its [parts](layouts.md#memory) in their order, separated by `;`, and the reserve"),
    BY(usd_per_hour, ON_GPUS, "usd_per_hour", "USD/h",
       "price of the nodes used, if known", DL_PLAIN("USD/h", 2)),
    BY(epoch_s, ON_GPUS, "epoch_s", "s", "time per epoch, with `samples_per_epoch`", DL_TIME("epoch")),
    BY(usd_per_epoch, ON_GPUS, "usd_per_epoch", "USD", "price per epoch", DL_PLAIN("USD/epoch", 2)),
    BY(why_not, ON_GPUS, "error", NULL,
       "why the point was not run"),
    BY(gpus_of, SPLIT, "gpus_used", NULL, "number of GPUs of all workers"),
    BY(stages_of, SPLIT, "pipeline_stages", NULL,
       "each worker's pipeline; with one stage the last two are empty"),
    BY(micro_batches_of, SPLIT, "pipeline_micro_batches", NULL, NULL),
    BY(schedule_of, SPLIT, "pipeline_schedule", NULL, NULL),
    OF(of_split, SPLIT, dl_split_result, "bubble_frac", NULL, bubble_frac,
       "share of the GPUs' time in which a stage waits for another"),
    OF(of_split, SPLIT, dl_split_result, "crossing_bytes", "B", crossed_bytes,
       "activations and gradients that cross between stages in a step, all workers"),
    OF(of_split, SPLIT, dl_split_result, "exchange_bytes", "B", reduced_bytes,
       "exchanged in a step by workers, and inside them by fsdp, tp, ..."),
    BY(first_layers, SPLIT, "stage_first_layer", NULL,
       "first layer and busy share per stage, separated by `;`"),
    BY(stage_busy, SPLIT, "stage_busy_frac", NULL, NULL),
    BY(stage_memory, SPLIT, "stage_memory_bytes", "B", "memory needed per stage"),
    BY(stage_staleness, SPLIT, "stage_staleness", NULL,
       "updates by which each stage's weights are old"),
    BY(shards_of, SPLIT, "shards", NULL,
       "GPUs that share a stage's, or the worker's, parameters (fsdp)"),
    BY(tensor_of, SPLIT, "tensor", NULL, "GPUs that divide each layer (tp)"),
    OF(of_row, ADVISED, dl_row, "equal_layouts", NULL, equal_layouts,
       "other layouts that the row stands for (within 0.5 %)",
       DL_PLAIN("equal", 0)),
    OF(of_averaging, AVERAGING, dl_averaging_result, "utilisation_frac", NULL, utilisation_frac,
       "share of the workers' time in local steps", DL_PERCENT("local steps %", 1)),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_step_mean_s", "s", outer_step_mean_s,
       "time of `interval` local steps with their exchange, mean over workers; with a syncer from "
       "one merge's end to the next", DL_TIME("outer step")),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_step_p50_s", "s", outer_step_p50_s,
       "its quantiles"),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_step_p95_s", "s", outer_step_p95_s,
       NULL, DL_TIME("p95")),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_blocked_s", "s", blocked_s,
       "part outside local steps: exchange that is not hidden, and waiting", DL_TIME("blocked")),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_sent_bytes", "B", site_sent_bytes,
       "sent by the busiest site (or node) to others in an outer step; empty on "
       "cores", DL_BYTES("site sends")),
    OF(of_averaging, AVERAGING, dl_averaging_result, "outer_exchange_s", "s", exchange_s,
       "time in which its parameters are copied and averaged, hidden (`lag`) or not, without "
       "waits; empty with a syncer, and with `inside` without a lag", DL_TIME("exchange")),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads", NULL, uploaded,
       "number of uploads of all learners, the sum of the next four", DL_PLAIN("uploads", 0)),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_applied", NULL, applied,
       "those merged into the parameters", DL_PLAIN("applied", 0)),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_too_stale", NULL, too_stale,
       "those dropped because they are staler than the bound", DL_PLAIN("too stale", 0)),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_superseded", NULL, superseded,
       "those replaced by a newer one of the learner", DL_PLAIN("superseded", 0)),
    OF(of_syncer, SYNCER, dl_syncer_result, "uploads_unmerged", NULL, unmerged,
       "those left when the run ended", DL_PLAIN("unmerged", 0)),
    OF(of_syncer, SYNCER, dl_syncer_result, "merges", NULL, merges, "number of merges in the run", DL_PLAIN("merges", 0)),
    OF(of_syncer, SYNCER, dl_syncer_result, "goodput_frac", NULL, goodput_frac,
       "share of all learners' time in steps that were not lost (by uploads superseded or too "
       "stale, or failures)", DL_PERCENT("goodput %", 1)),
    OF(of_syncer, SYNCER, dl_syncer_result, "weight_mean", NULL, weight_mean,
       "mean weight of the applied uploads, by `weight_power`", DL_PLAIN("weight", 3)),
    OF(of_syncer, SYNCER, dl_syncer_result, "applied_weight_frac", NULL, applied_weight_frac,
       "their sum over the number of all uploads"),
    BY(job_goodput, FAILURES, "job_goodput_frac", NULL,
       "share of the job's time in steps that need not be repeated", DL_PERCENT("job goodput %", 2)),
    BY(job_per_s, FAILURES, "job_per_s", "samples/s", "throughput times this share", DL_RATE("job samples/s")),
    BY(best_steps, FAILURES, "best_checkpoint_steps", "steps",
       "the `checkpoint_steps` with the largest expected goodput", DL_PLAIN("best checkpoint", 0)),
    BY(lost_hours, FAILURES, "lost_hours_per_day", "h",
       "hours of a day lost to checkpoints, repeated steps and restarts", DL_PLAIN("lost h/day", 3)),
    BY(lost_usd, FAILURES, "lost_usd_per_day", "USD", "price of these hours, if known", DL_PLAIN("lost USD/day", 2)),
    OF(of_row, ABSENCES, dl_row, "worker_goodput_frac", NULL, mean.goodput_frac,
       "share of all workers' time, absences included, in steps that were not lost "
       "(`applied_frac` of `average`: share of the steps)", DL_PERCENT("worker goodput %", 1)),
    OF(of_row, ABSENCES, dl_row, "worker_away_frac", NULL, mean.away_frac,
       "share of all workers' time in which they were away", DL_PERCENT("away %", 1)),
    BY(target_factor, TARGET, "target_factor", NULL,
       "samples to the target over synchronous training's", DL_PLAIN("factor", 2)),
    BY(target_s, TARGET, "target_s", "s",
       "time to the target (by `job_per_s` with "
       "`[failures]`)", DL_RATE("hours"), .scale = 1 / SECONDS_PER_HOUR),
    BY(target_usd, TARGET, "usd_to_target", "USD", "price of this time, if known", DL_RATE("USD")),
    BY(tokens_per_s, TOKENS, "tokens_per_s", "tokens/s", "throughput of all workers in tokens", DL_RATE("tokens/s")),
    BY(mfu, TOKENS, "mfu_frac", NULL,
       "model FLOPs utilisation (PaLM, 2022, appendix B), of the peak in `[workload] arithmetic`. "
       "Half of causal scores count if attention is fused; recomputation does "
       "not", DL_PERCENT("MFU %", 1)),
    BY(steps_distance_of, STEPS, "step_distance_frac", NULL,
       "Kolmogorov-Smirnov distance of the measured steps from the simulated ones, of all workers",
       DL_PERCENT("KS %", 0)),
    OF(of_row, TRACED, dl_row, "left_out_collectives_s", "s", left_out_s,
       "device time of the traced collectives that the row leaves out (`+` in tables)"),
    OF(of_row, TRACED, dl_row, "trace_error_frac", NULL, trace_error_frac,
       "predicted / traced throughput - 1 at the trace's own point (`!` in tables beyond 10 %)"),
    BY(use_of, FITTED, "measured_use", NULL, "as in the table; `error` if all runs failed", DL_WORD("row")),
    BY(note_of, FITTED, "measured_note", NULL, NULL),
    BY(left_out_of, LEFT_OUT, "left_out_error_frac", NULL,
       "`error_frac` with costs fitted to the other rows", DL_SIGNED("error left out %", 1)),
    BY(dominant_of, EXPLAINED, "dominant", NULL,
       "the largest part of the workers' time (`compute`, `dispatch`, ...)"),
    BY(dominant_frac, EXPLAINED, "dominant_frac", NULL, "its share"),
};
/* clang-format on */

/* --- the columns by heading ------------------------------------------------------------------- */

static const dl_column *find(const dl_column *rows, size_t count, const char *heading)
{
    for (size_t c = 0; c < count; c++)
        if (rows[c].heading != NULL && strcmp(rows[c].heading, heading) == 0) return &rows[c];
    return NULL;
}

const dl_column *dl_result_column(const char *heading)
{
    const dl_column *column = find(point_columns, DL_LENGTH(point_columns), heading);
    if (column == NULL) column = find(columns, DL_LENGTH(columns), heading);
    if (column == NULL) column = find(dl_generator_columns, dl_generator_column_count, heading);
    if (column == NULL) column = find(dl_table_columns, dl_table_column_count, heading);
    if (column == NULL) column = find(dl_layout_columns, dl_layout_column_count, heading);
    DL_ASSERT(column != NULL, "no column '%s'", heading);
    return column;
}

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

static dl_datum key_text_of(const void *row, const dl_column *column)
{
    const dl_result *r = row;
    const char *text = dl_study_text(r->study, r->variant, &r->row->point, (size_t)column->index);
    return dl_datum_text(text[0] != '\0' ? text : NULL);
}

static void choose_groups(bool has[GROUPS], const dl_study *study, const dl_sweep *sweep,
                          const dl_measured *measured, bool explained)
{
    /* Either all variants have GPUs, or none. */
    const dl_scenario *first = &study->variants[0].scenario;
    has[ALL] = true;
    has[BY_WORKER] = first->per_worker;
    has[ON_GPUS] = first->gpu != NULL;
    has[SPLIT] = first->pipeline != NULL; /* either all variants have it, or none */
    has[EXPLAINED] = explained;
    for (size_t v = 0; v < study->variant_count; v++) {
        has[FAILURES] |= dl_failures_given(&study->variants[v].scenario.failures);
        has[TARGET] |= study->variants[v].scenario.target.samples > 0;
        has[GENERATORS] |= study->variants[v].scenario.generators != NULL;
        has[ABSENCES] |= dl_absences_given(&study->variants[v].scenario.absences);
        has[TRACED] |= study->variants[v].costs.trace_count > 0;
    }
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_mode *mode = sweep->rows[i].point.mode;
        has[AVERAGING] |= dl_mode_takes(mode, DL_SYNC_INTERVAL);
        has[ADVISED] |= !isnan(sweep->rows[i].equal_layouts);
        has[SYNCER] |= dl_mode_takes(mode, DL_SYNC_SYNCER);
        if (measured == NULL) continue;
        const dl_measured_use use = measured[i].use;
        has[FITTED] |= use != DL_USE_UNSEEN && use != DL_USE_ERROR;
        has[LEFT_OUT] |= !isnan(measured[i].left_out_frac);
        has[STEPS] |= measured[i].steps_s != NULL;
    }
}

static void add_column(dl_results *results, const dl_column *column)
{
    DL_APPEND(results->columns, results->column_count, "columns") = column;
}

/* Adds the columns of the point, of the modes' options and of the swept keys. */
static void add_keys(dl_results *results, const dl_study *study)
{
    const size_t count = DL_SYNC_SWEPT + study->key_count;
    dl_column *own = dl_calloc(count, sizeof *own, "columns of keys");
    dl_column *shown = dl_calloc(count, sizeof *shown, "columns of keys for people");
    for (size_t i = 0; i < DL_LENGTH(point_columns); i++)
        add_column(results, &point_columns[i]);
    for (size_t i = 0; i < count; i++) {
        const bool is_option = i < DL_SYNC_SWEPT;
        const size_t key = i - DL_SYNC_SWEPT;
        own[i] = (dl_column){.name = is_option ? dl_sync_options[i].name : study->keys[key].column,
                             .get = is_option ? option_of : key_of,
                             .index = (int)(is_option ? i : key)};
        add_column(results, &own[i]);
        shown[i] = own[i];
        shown[i].heading = own[i].name;
        shown[i].form = is_option ? DL_FORM_RATE : DL_FORM_TEXT;
        if (!is_option) shown[i].get = key_text_of;
    }
    results->of_keys = own;
    results->options = shown;
    results->option_count = count;
    results->key_count = results->column_count;
}

/* Returns the tokens per sample (0: none) and sets the model FLOPs per sample: the backward pass
 * takes twice the matrix products of the forward pass, or once if weights are frozen. */
static int64_t tokens_of(const dl_variant *variant, double *model_flop)
{
    dl_architecture network = {0};
    *model_flop = (double)NAN;
    if (variant->scenario.model == NULL ||
        dl_architecture_make(&network, variant->scenario.model, NULL) != DL_OK) {
        return 0;
    }
    const int64_t tokens = network.sequence;
    *model_flop = 0; /* sum over all GPUs that share the layers */
    for (size_t l = 0; l < network.layer_count; l++)
        *model_flop +=
            network.tensor * network.context *
            (3 * dl_pass_flop(&network.layers[l].forward) - network.layers[l].frozen_flop);
    dl_architecture_free(&network);
    return tokens;
}

void dl_results_make(dl_results *results, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured, bool explained)
{
    bool has[GROUPS] = {false};
    size_t unfit = 0;
    for (size_t i = 0; i < sweep->row_count; i++)
        unfit += sweep->rows[i].error != NULL;
    *results = (dl_results){.count = sweep->row_count};
    results->results = dl_calloc(sweep->row_count, sizeof *results->results, "results");
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        const bool same = i > 0 && sweep->rows[i - 1].variant == row->variant;
        const dl_variant *variant = &study->variants[row->variant];
        results->results[i] = (dl_result){
            .study = study,
            .variant = variant,
            .row = row,
            .measured = measured != NULL ? &measured[i] : NULL,
        };
        dl_result *result = &results->results[i];
        if (same) {
            result->tokens = results->results[i - 1].tokens;
            result->model_flop = results->results[i - 1].model_flop;
        } else {
            result->tokens = tokens_of(variant, &result->model_flop);
        }
        has[TOKENS] |= result->tokens > 0;
        dl_report_marks(results->results[i].marks, row);
        results->results[i].says_fit = row->error != NULL && unfit-- <= FITS_EXPLAINED;
    }
    choose_groups(has, study, sweep, measured, explained);
    add_keys(results, study);
    for (size_t c = 0; c < DL_LENGTH(columns); c++)
        if (has[columns[c].group]) add_column(results, &columns[c]);
    for (size_t c = 0; c < dl_generator_column_count && has[GENERATORS]; c++)
        if (dl_generator_columns[c].name != NULL) add_column(results, &dl_generator_columns[c]);
}

void dl_results_free(dl_results *results)
{
    free(results->results);
    free(results->columns);
    free(results->of_keys);
    free(results->options);
    *results = (dl_results){0};
}

/* --- the reference --------------------------------------------------------------------------- */

/* Whether column names imply this unit. */
static bool is_in_names(const char *unit)
{
    static const char *const said[] = {"",      "s",   "B",         "h",       "USD",
                                       "USD/h", "1/s", "samples/s", "tokens/s"};
    return dl_names_find(unit, said, DL_LENGTH(said)) >= 0;
}

/* A column without help shares the table row of the column before it if the units are equal. */
static void put_reference(FILE *out, const dl_column *rows, size_t count, int chosen)
{
    for (size_t c = 0, next; c < count; c = next) {
        next = c + 1;
        if (rows[c].group != chosen || rows[c].name == NULL) continue;
        const char *unit = rows[c].unit != NULL ? rows[c].unit : "";
        fprintf(out, "| `%s`", rows[c].name);
        while (next < count && rows[next].group == chosen && rows[next].name != NULL &&
               rows[next].help == NULL &&
               strcmp(rows[next].unit != NULL ? rows[next].unit : "", unit) == 0) {
            fprintf(out, ", `%s`", rows[next++].name);
        }
        fputs(" | ", out);
        if (!is_in_names(unit)) fprintf(out, "%s: ", unit);
        fprintf(out, "%s |\n", rows[c].help != NULL ? rows[c].help : "likewise");
    }
}

void dl_columns_reference(FILE *out)
{
    fputs("# Columns of results\n\n"
          "The columns of `dlsim`'s [results](formats.md#results), made by `dlsim --columns`. "
          "Units are in\n"
          "their names (`_s`, `_per_s`, `_bytes`, `usd`; `_frac` is a share from 0 to 1); others "
          "stand before a\n"
          "colon. After the columns of the point (`cores` to `sync`) there is one for each option "
          "of a mode\n"
          "(`interval`, `n`, `bound`, `k`, `moving_rate`, `block_momentum`, `accumulate`, `lag`) "
          "and for each\n"
          "other key that the scenario varies (`machine` for `[machine] file`, `noise` for "
          "`[noise] kind`,\n"
          "`input_cores`).\n",
          out);
    for (int g = 0; g < GROUPS; g++) {
        fprintf(out, "\n## %s\n\n| column | meaning |\n|-|-|\n", group_titles[g]);
        if (g == ALL) put_reference(out, point_columns, DL_LENGTH(point_columns), g);
        put_reference(out, columns, DL_LENGTH(columns), g);
        if (g == GENERATORS)
            put_reference(out, dl_generator_columns, dl_generator_column_count,
                          DL_COLUMNS_OF_GENERATORS);
    }
}
