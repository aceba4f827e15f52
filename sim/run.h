/* One run: simulates one point of a sweep with one replicate of the noise and one draw of the
 * costs.
 *
 * Draw 0 uses the costs as they are; every other draw samples them from their standard errors. All
 * points of a replicate use the same noise streams, and all points of a draw the same costs (common
 * random numbers), so that common variation cancels in the ratio of two points. */
#ifndef DL_SIM_RUN_H
#define DL_SIM_RUN_H

#include "common/bytes.h"
#include "sim/costs/assume.h"
#include "sim/platform/platform.h"
#include "sim/scenario/scenario.h"

/* DL_LOG_STEPS: largest number of steps, over all workers, that a run logs individually; beyond it,
 * quantiles are accurate to one part in a thousand (sim/tally.h). DL_STALENESS_NUMBERS: largest
 * number of entries in a result's table of staleness by worker. */
#define DL_LOG_STEPS (1 << 20)
#define DL_STEP_QUANTILES 100
#define DL_STALENESS_NUMBERS (1 << 22)

/* Categories of a worker's time. */
typedef enum dl_part {
    DL_PART_COMPUTE, /* forward, backward, and update on the worker */
    DL_PART_DISPATCH,
    DL_PART_COMMUNICATION, /* copies: push, pull, all-reduce */
    DL_PART_AVERAGING,     /* averaging, and the update on the server */
    DL_PART_WAITING,       /* waiting at barriers, for locks, conditions and the core's run queue,
                            * and absences */
    DL_PART_INPUT,
    DL_PART_COUNT
} dl_part;

extern const char *const dl_part_names[DL_PART_COUNT];

/* Periodic callback; gets the completed fraction of the run's steps and the fraction per step, and
 * returns whether the run continues. */
typedef struct dl_run_watch {
    bool (*goes_on)(void *user, double done_frac, double step_frac);
    void *user;
} dl_run_watch;

typedef struct dl_run_config {
    const dl_scenario *scenario;
    const dl_costs *costs; /* not drawn; must contain what the point needs */
    const dl_point *point;
    uint32_t replicate; /* number of the noise replicate */
    uint32_t draw;      /* number of the cost draw */
    double compute_log; /* logarithm of a factor on forward, backward, update and bucket copies; 0:
                         * none */
    bool by_spread;     /* compute_log applies in full to the GPUs of largest spread_log
                         * (dl_model_costs), and to others in proportion to their spread_log */
    bool without_slow;  /* baseline run: ignores slow workers and lasting differences between GPUs
                         * of a model */
    bool on_policy; /* baseline with generators: generation and training alternate on all GPUs */
    int64_t steady_after; /* > 0: end the run once steps repeat, but not before this many steps;
                           * requires no noise */
    int64_t log_steps;    /* largest number of steps logged individually, over all workers; 0:
                           * DL_LOG_STEPS */
    bool is_whole;        /* simulates all GPUs of split models, also those that are alike */
    const dl_team_observer *observer; /* NULL = no observer */
    const dl_run_watch *watch;        /* NULL = no watch */
} dl_run_config;

/* Results of a split model (sim/island/island.h). */
typedef struct dl_split_result {
    int stages;
    double bubble_frac;                  /* idle fraction of all GPUs' time; included in waiting */
    double crossed_bytes, reduced_bytes; /* bytes per step, over all workers */
    double busy_frac[DL_STAGES_MAX];     /* fraction of time in which a stage's GPUs run forward,
                                      * backward or update */
} dl_split_result;

/* Results of a mode with local steps. An outer step of a worker lasts from the end of one exchange
 * of all parameters to the end of the next; figures are over the outer steps of all workers. With a
 * syncer, an outer step lasts from one merge to the next, and the first one from the start or the
 * last merge of the warm-up. All members are doubles (sim/sweep.c). */
typedef struct dl_averaging_result {
    double utilisation_frac;  /* share of the workers' time in local steps: compute, launches and
                               * input. The rest is exchange (including that inside sites) and
                               * waiting */
    double outer_step_mean_s; /* NaN, like the next five fields, if no outer step is complete */
    double outer_step_p50_s, outer_step_p95_s; /* also NaN if steps are not logged (log_steps) */
    double blocked_s;       /* time per worker and interval outside local steps: exposed exchange
                             * and waiting for others */
    double site_sent_bytes; /* bytes per outer step sent to other sites (to other nodes on a machine
                             * without sites) by the site or node that sends most; NaN on a CPU
                             * machine */
    double exchange_s;      /* time per worker and interval in which its parameters are copied and
                             * averaged, hidden or not. Without a lag it is NaN with a syncer, and
                             * with `inside`, whose exchange inside sites cannot be told from that
                             * between sites */
} dl_averaging_result;

/* Results of a syncer (sim/sync/syncer.h); counts are means over the runs of a row. All members are
 * doubles. */
typedef struct dl_syncer_result {
    double uploaded, applied, too_stale, superseded, unmerged, merges;
    double weight_mean;         /* mean weight of the applied uploads; NaN: none */
    double applied_weight_frac; /* sum of the weights of applied uploads over the number of all
                                 * uploads */
    double goodput_frac;        /* fraction of the learners' time spent computing steps that were
                                 * not lost */
} dl_syncer_result;

/* Every pointer must also be listed in sim/run_codec.c, which frees and encodes results. */
typedef struct dl_run_result {
    int workers;
    double samples;          /* samples of all steps except those whose gradient the mode dropped */
    double span_s;           /* from the start, or the first end of a worker's warm-up, to the end
                              * of the last worker's last step */
    double throughput_per_s; /* samples / span_s, as `dlprof train` counts it */
    double steady_per_s;     /* samples per second once steps repeat (steady_after); all other
                              * fields are then 0. 0: steps did not repeat */
    double tail_frac;    /* share of the span after the first worker has done all its steps, when
                          * the others only finish their current step */
    double applied_frac; /* share of gradients or uploads that entered an update; NaN: none */
    int64_t updates;     /* updates of the shared parameters; 0: none */
    double updates_per_s;
    double step_mean_s;                       /* mean over the workers of their mean step */
    double step_sd_s, step_p50_s, step_p99_s; /* over all steps of all workers */
    double *step_quantiles_s;        /* [DL_STEP_QUANTILES] (i + 0.5) / DL_STEP_QUANTILES of
                                               * these steps, ascending; NULL: not logged, or the
                                               * scenario has no measured table */
    double part_frac[DL_PART_COUNT]; /* fractions of all workers' time; they sum to 1 */
    double goodput_frac, away_frac;  /* NaN without absences (sim/absence.h) */
    double drift_steps_mean, drift_steps_max; /* mean and largest number of local steps since the
                                               * last exchange; NaN without drift */
    double clock_lag_max;                     /* largest lead, in steps, over the slowest worker */
    dl_usage usage;
    double *worker_step_s; /* [workers] mean step time */
    int64_t *staleness;    /* [staleness_rows x staleness_bins] number of applied gradients by
                            * staleness */
    int staleness_rows;    /* number of workers; 1 (all workers pooled) if the table would be too
                            * large or steps are not logged; 0 without bins */
    int staleness_bins;    /* 0: no applied gradient has a staleness */
    int64_t *worker_stale_sum, *worker_stale_count; /* [workers] sum and number of the staleness of
                                                     * applied gradients, or NULL */
    int64_t events;
    dl_split_result *split;         /* NULL: the model is not split */
    dl_averaging_result *averaging; /* NULL: the mode has no interval */
    dl_syncer_result *syncer;       /* NULL: no syncer */
    dl_rollout_result *rollout;     /* NULL: no generators */
} dl_run_result;

/* Whether replicates of the scenario differ at the same costs. */
bool dl_run_varies(const dl_scenario *scenario, const dl_costs *costs);

/* Simulates the run. DL_ERR_DATA if a step takes no time, if workers wait for one another forever,
 * or if all leave before one has done a step; DL_ERR_RANGE if the run takes more than DL_NS_MAX or
 * its watch ended it; otherwise errors of the GPUs' set-up. With steady_after, a run whose steps
 * repeat (sim/team.h) ends early and sets only steady_per_s; this does not apply to split models,
 * recorded steps, loaders, absences, a syncer, or work that differs between steps. Release *result
 * with dl_run_result_free. */
dl_status dl_run(const dl_run_config *config, dl_run_result *result, dl_error *err) DL_MUST_CHECK;
void dl_run_result_free(dl_run_result *result);

/* Encodes a result for another process of the same program. Decoding frees the previous content of
 * *result; it returns false and leaves *result unchanged if the bytes are not a result for a point
 * with `workers` workers. */
void dl_run_result_encode(const dl_run_result *result, dl_bytes *into);
bool dl_run_result_decode(dl_run_result *result, int workers, const void *data, size_t bytes);

/* Runs replicate 0 with the undrawn costs, only for its observer. */
dl_status dl_run_observe(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                         const dl_team_observer *observer, dl_error *err) DL_MUST_CHECK;

/* GPU memory that the point needs; NaN without GPUs, if keys give the trainer's rate, or if the
 * costs do not determine it. If the scenario's generators do not fit, the generators' memory
 * (dl_generate_memory). */
dl_gpu_memory dl_run_memory(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);

/* A lower bound of step times at the undrawn costs, in ns (tests/sim/test_random_layouts.c):
 * compute and update of a worker of one GPU. For a split model, the larger of the step's launches
 * and the slowest stage's passes and update, with a flush also the first micro-batch's path to that
 * stage and the last one's path back; with_tensors: adds the collectives of GPUs that divide
 * layers, at half of a call's time. Other exchanges are not included. 0 with noise, a recorded
 * step, several GPU models, or workers on cores. */
double dl_run_least_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                       bool with_tensors);

/* The set of costs that the point needs (dl_cost_need), including those of its noise. */
unsigned dl_run_needs(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Adds default values for costs that the point (NULL: any point of the scenario) needs but the
 * costs lack, and records them in *made. Nothing is needed if the scenario refuses missing
 * costs. */
void dl_run_assume(const dl_scenario *scenario, dl_costs *costs, const dl_point *point,
                   dl_assumptions *made);

/* The least reliable origin of the costs and machine values that the point's run depends on. */
dl_origin dl_run_origin(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Whether the point's steps start with the collectives of sim/step_collectives.h, provided that the
 * costs have any. */
bool dl_run_starts_with_collectives(const dl_scenario *scenario, const dl_point *point);

/* Whether the point lies outside the range in which the costs were measured: samples per
 * micro-batch, number of processes in an exchange, number of co-running instances or, for several
 * threads on cores, number of cores. False if the trainer's rate is given. */
bool dl_run_extrapolates(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Steps per worker, including warm-up. Without a warm-up in the scenario, the scenario's steps are
 * rounded up to whole intervals, and averages with a lag get a warm-up unless workers may be
 * absent. dl_run_observed_steps: the steps of an observed run, which does not get that warm-up. */
int64_t dl_run_steps(const dl_scenario *scenario, const dl_point *point);
int64_t dl_run_observed_steps(const dl_scenario *scenario, const dl_point *point);

/* The header of a section, as "[collective allreduce 4]", that a point of processes on cores needs
 * and the costs lack; NULL if there is none. The caller frees the text. */
char *dl_run_collective_missing(const dl_scenario *scenario, const dl_costs *costs,
                                const dl_point *point);

/* For a split model. dl_run_split_missing: byte sizes of layers that the point needs and the costs
 * lack, formatted as by dl_costs_missing. dl_run_stage_memory: memory needed by a GPU of the stage,
 * and available on the stage's smallest GPU (NaN if unknown); for workers of one GPU the same as
 * dl_run_memory. dl_run_split_text: the first layer of
 * each stage, "conv1;fc1". The caller frees the texts. */
char *dl_run_split_missing(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point);
dl_gpu_memory dl_run_stage_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int stage);
char *dl_run_split_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

#endif
