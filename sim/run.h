/* One run: one point of a sweep, one replicate of its noise, one draw of its costs, and the result.
 *
 * Draw 0 uses the costs as they are, every other one draws them from their standard errors. All
 * points of a replicate have the same noise streams, and all points of a draw the same costs
 * (common random numbers), so that common variation cancels in the ratio of two points.
 */
#ifndef DL_SIM_RUN_H
#define DL_SIM_RUN_H

#include "common/bytes.h"
#include "sim/costs/assume.h"
#include "sim/platform/platform.h"
#include "sim/scenario/scenario.h"

/* Most steps of all workers together that a run logs individually (quantiles of more are off by up
 * to a thousandth, sim/tally.h), and most entries of a result's table of staleness by worker. */
#define DL_LOG_STEPS (1 << 20)
#define DL_STALENESS_NUMBERS (1 << 22)

/* Parts of a worker's time. */
typedef enum dl_part {
    DL_PART_COMPUTE, /* forward, backward, the update on the worker */
    DL_PART_DISPATCH,
    DL_PART_COMMUNICATION, /* copies */
    DL_PART_AVERAGING,     /* averaging, and the server's update */
    DL_PART_WAITING,       /* barrier, lock; its core's run queue */
    DL_PART_INPUT,
    DL_PART_COUNT
} dl_part;

/* "compute", "dispatch", "communication", "averaging", "waiting", "input". */
extern const char *const dl_part_names[DL_PART_COUNT];

/* How a run is simulated; programs use the fastest way, tests compare them. Results are equal,
 * except for rounding where steps are not logged individually. */
typedef enum dl_run_way {
    DL_RUN_FASTEST,
    DL_RUN_BY_EVENTS, /* with events for each worker */
    DL_RUN_DIRECTLY   /* without (sim/platform/platform.h); if impossible, DL_ERR_UNSUPPORTED */
} dl_run_way;

/* Called from time to time with the completed fraction of the run's steps and the fraction of one
 * step; decides whether the run continues. Not called for runs computed without events. */
typedef struct dl_run_watch {
    bool (*goes_on)(void *user, double done_frac, double step_frac);
    void *user;
} dl_run_watch;

typedef struct dl_run_config {
    const dl_scenario *scenario;
    const dl_costs *costs; /* undisturbed; must have what the point needs */
    const dl_point *point;
    uint32_t replicate;   /* of the noise */
    uint32_t draw;        /* of the costs */
    double compute_log;   /* of a factor on forward, backward and update; 0: none */
    bool by_spread;       /* the factor holds for the GPUs of largest spread_log (dl_model_costs);
                             for others in proportion to theirs */
    bool without_slow;    /* the baseline: its worker is not slow */
    bool on_policy;       /* the baseline with generators: both sides on all GPUs in turn */
    int64_t steady_after; /* > 0: the run ends once steps repeat, not before this many; no noise */
    int64_t log_steps;    /* largest number kept individually, of all workers; 0: DL_LOG_STEPS */
    dl_run_way way;
    const dl_team_observer *observer; /* NULL = none */
    const dl_run_watch *watch;        /* NULL = none */
} dl_run_config;

/* Results of a split model (sim/island/island.h). */
typedef struct dl_split_result {
    int stages;
    double bubble_frac;                  /* of all GPUs' time, included in waiting */
    double crossed_bytes, reduced_bytes; /* of a step, over all workers */
    double busy_frac[DL_STAGES_MAX]; /* of the time of a stage's GPUs: forward, backward, update */
} dl_split_result;

/* Results of a mode with local steps. An outer step is the time from the end of one exchange of all
 * parameters to the end of the next, over all workers; with a syncer, from one merge to the next,
 * the first one from the start. */
typedef struct dl_averaging_result {
    double utilisation_frac;  /* share of the workers' time in local steps: computing, its
                                 launches and input; the rest is exchange, also inside sites, and
                                 waiting */
    double outer_step_mean_s; /* NaN, as are the next five, if none is complete */
    double outer_step_p50_s, outer_step_p95_s; /* also NaN if steps are not kept (log_steps) */
    double blocked_s;       /* time of a worker's interval outside local steps: exchange that is
                               not hidden, and waiting for others */
    double site_sent_bytes; /* per outer step to other sites, or nodes of a machine without
                               sites, by the one that sends most; NaN on a CPU machine */
    double exchange_s;      /* time of a worker's interval in which its parameters are copied and
                               averaged, hidden or not; also NaN with averages inside sites,
                               which cannot be told from those between sites, except with a lag */
} dl_averaging_result;

/* Results of a syncer (sim/sync/syncer.h); counts are means over the runs of a row. */
typedef struct dl_syncer_result {
    double uploaded, applied, too_stale, superseded, unmerged, merges;
    double weight_mean;         /* of the uploads applied; NaN: there were none */
    double applied_weight_frac; /* weights of those applied, over all uploads */
    double goodput_frac;        /* of the learners' time, computing steps that were not lost */
} dl_syncer_result;

/* Each pointer is also listed in sim/run_codec.c, which frees and copies results. */
typedef struct dl_run_result {
    int workers;
    double samples;          /* of all steps except those whose gradient the mode dropped */
    double span_s;           /* from the common start to the end of the last worker's last step */
    double throughput_per_s; /* samples / span_s, as `dlprof train` counts it */
    double steady_per_s; /* of repeating steps (steady_after): then all else here is 0; else 0 */
    double tail_frac;    /* share of the span after the first worker has done all its steps: the
                            others only end their current step */
    double applied_frac; /* share of all gradients, or uploads, that entered an update; NaN:
                            there were no uploads */
    int64_t updates;     /* of the shared parameters; 0: none */
    double updates_per_s;
    double step_mean_s;                       /* mean over the workers of their mean step */
    double step_sd_s, step_p50_s, step_p99_s; /* over all steps of all workers */
    double part_frac[DL_PART_COUNT];          /* of all workers' time; sum 1 */
    double goodput_frac, away_frac;           /* with absences (sim/absence.h); else NaN */
    double drift_steps_mean, drift_steps_max; /* NaN without drift */
    double clock_lag_max;                     /* steps ahead of the slowest worker */
    dl_usage usage;
    double *worker_step_s; /* [workers] mean step */
    int64_t *staleness;    /* [staleness_rows x staleness_bins] applied gradients by staleness */
    int staleness_rows;    /* workers; 1, for all together, where that would be too many numbers */
    int staleness_bins;    /* 0: the mode has none */
    int64_t *worker_stale_sum, *worker_stale_count; /* [workers] of applied gradients, or NULL */
    int64_t events;
    dl_split_result *split;         /* NULL: the model is not split */
    dl_averaging_result *averaging; /* NULL: the mode has no interval */
    dl_syncer_result *syncer;       /* NULL: there is none */
    dl_rollout_result *rollout;     /* NULL: there are no generators */
} dl_run_result;

/* Whether replicates of the scenario differ at the same costs. */
bool dl_run_varies(const dl_scenario *scenario, const dl_costs *costs);

/* Simulates the run. DL_ERR_DATA if a step takes no time at all, DL_ERR_RANGE if the run takes more
 * than DL_NS_MAX, or was ended by its watch. With steady_after, a run whose steps repeat
 * (sim/team.h) ends early, with only steady_per_s as its result; a split model's does not. Release
 * *result with dl_run_result_free. */
dl_status dl_run(const dl_run_config *config, dl_run_result *result, dl_error *err) DL_MUST_CHECK;
void dl_run_result_free(dl_run_result *result);

/* Encodes a result for another process of the same program. Decoding frees the old content of
 * *result; it returns false, and leaves *result unchanged, if the bytes are not a result of a point
 * with `workers`. */
void dl_run_result_encode(const dl_run_result *result, dl_bytes *into);
bool dl_run_result_decode(dl_run_result *result, int workers, const void *data, size_t bytes);

/* Runs replicate 0 with the undrawn costs, for the observer only. */
dl_status dl_run_observe(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                         const dl_team_observer *observer, dl_error *err) DL_MUST_CHECK;

/* The GPU memory that the point needs; NaN without GPUs or if the costs do not determine it. If the
 * scenario's generators do not fit, the memory that they need (dl_generate_memory). */
dl_gpu_memory dl_run_memory(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);

/* A lower bound of step times at the undrawn costs, in ns (tests/sim/test_random_layouts.c): the
 * slowest stage's passes and update, with a flush also the first micro-batch's way to it and the
 * last one's way back; or its launches. with_tensors: includes the collectives of GPUs that divide
 * layers, half of the time of a call. No other exchange. 0 with noise, a recorded step, GPUs of
 * several models, or on cores. */
double dl_run_least_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                       bool with_tensors);

/* The set of costs that the point needs (dl_cost_need), including those of its noise. */
unsigned dl_run_needs(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Adds defaults for costs that the point (NULL: any point of the scenario) needs and the costs
 * lack, and records them in *made. */
void dl_run_assume(const dl_scenario *scenario, dl_costs *costs, const dl_point *point,
                   dl_assumptions *made);

/* The least trustworthy origin of the costs that the point's run depends on. */
dl_origin dl_run_origin(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Whether the point's steps start with the collectives of sim/step_collectives.h, if the costs have
 * any. */
bool dl_run_starts_with_collectives(const dl_scenario *scenario, const dl_point *point);

/* Whether the point lies outside the range where the costs were measured: batch of a worker,
 * co-running instances or, for more than one worker, the number of cores. */
bool dl_run_extrapolates(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Steps of a worker, warm-up included: the scenario's, rounded up to whole intervals if it has no
 * warm-up. Averages that lag then have one of their own, but not in a run that is observed. */
int64_t dl_run_steps(const dl_scenario *scenario, const dl_point *point);
int64_t dl_run_observed_steps(const dl_scenario *scenario, const dl_point *point);

/* The [collective ...] that a point of processes on cores lacks; NULL if none. The caller frees
 * it. */
char *dl_run_collective_missing(const dl_scenario *scenario, const dl_costs *costs,
                                const dl_point *point);

/* For a split model: bytes of layers that the point needs and the costs lack, in the form of
 * dl_costs_missing; memory needed by a GPU of the stage and available on its smallest GPU (NaN if
 * unknown); "conv1;fc1", the first layers of the stages. The caller frees the texts. */
char *dl_run_split_missing(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point);
dl_gpu_memory dl_run_stage_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int stage);
char *dl_run_split_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

#endif
