/* A run of reinforcement learning with answers that are generated concurrently with training:
 * generator replicas, a queue of complete groups, one trainer, copies of the weights from it to the
 * replicas.
 *
 * A group is the n answers to one prompt, used together. A replica has up to in_flight_max requests
 * in flight; each gets 1 / t(c) tokens per second while there are c requests (dl_decode). So all
 * requests of a replica advance at one rate: a virtual clock per replica counts tokens, and the
 * only events are ends of answers. The trainer takes `prompts` complete groups, makes one update,
 * and after each copy_every updates copies the weights; groups that an update allows begin after
 * its copy, if it has one. Times are seconds in double precision, so that sums of a few of them are
 * exact to 1e-12.
 *
 * The age of a group, in updates: the trainer's updates when the group is taken, minus the updates
 * in the replica's weights when the group's first token was begun. The age by newest token
 * subtracts the updates in the weights when the group's last token ended.
 *
 * Exact laws (tests/sim/test_rollout.c): tokens generated = used + discarded + left; the sum of the
 * ages of all groups equals the number of groups begun and not yet consumed, summed over the ends
 * of updates; DL_RULE_AHEAD with copy_every = 1 and nothing discarded: mean age = bound. */
#ifndef DL_SIM_ROLLOUT_H
#define DL_SIM_ROLLOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/generate/lengths.h"

/* Rules for when a group may begin; B = prompts, U = copy_every. */
typedef enum dl_rule {
    DL_RULE_AHEAD,     /* number begun minus number discarded < (updates + bound + 1) B */
    DL_RULE_WINDOW,    /* number begun since the last copy plus number outstanding at that copy < (1
                        * + bound) U B */
    DL_RULE_INSTALLED, /* like ahead, with the updates up to the last copied one */
    DL_RULE_WORKERS    /* fewer than `workers` groups are in flight, and fewer than `buffer`
                        * complete ones in the queue */
} dl_rule;

/* Order in which the trainer takes complete groups. */
typedef enum dl_taking {
    DL_TAKES_COMPLETED, /* in order of completion */
    DL_TAKES_OLDEST,    /* complete groups in order of their beginning */
    DL_TAKES_IN_ORDER   /* in order of their beginning, waiting for incomplete ones */
} dl_taking;

/* Seconds per token of one request while c requests are in flight on a replica: a + b c, or linear
 * interpolation between points (count > 0), extrapolated from the last two points and constant
 * below the first. */
typedef struct dl_decode {
    double a_s, b_s;
    const double *requests, *token_s; /* [count] ascending requests; borrowed */
    int count;
    double log_scale; /* logarithm of a factor on all these times */
} dl_decode;

double dl_decode_token_s(const dl_decode *decode, double requests);

/* Settings of a run. All times are >= 0. */
typedef struct dl_rollout_config {
    int replicas;
    int in_flight_max; /* largest number of requests per replica; others wait */
    dl_decode decode;
    double prefill_token_s; /* time per token of context that a replica recomputes after a copy */
    dl_lengths lengths;
    double prompt_tokens;   /* tokens of a prompt, per answer; the trainer computes them too */
    int answers;            /* answers per group */
    double tool_s, tool_cv; /* wait of a group after its last token, log-normal; cv 0: constant */

    int prompts;    /* groups per update */
    int copy_every; /* updates between copies */
    dl_rule rule;
    double bound;
    int64_t workers; /* largest number of groups in flight; 0: no limit */
    int64_t buffer;  /* largest queue of complete groups, for DL_RULE_WORKERS; 0: no limit */
    double age_max;  /* older groups are discarded while the trainer waits for a batch; INFINITY:
                      * none */
    bool requeues;   /* the prompt of a discarded group is answered again, before new prompts */
    dl_taking taking;
    bool barrier; /* the trainer starts when all groups until the next copy are complete */

    double train_fixed_s, train_token_s; /* per update; per token of answers and prompts */
    double copy_s;                       /* time of a copy for the trainer; generation pauses for
                                          * the last pause_s of it */
    double pause_s;                      /* seconds, <= copy_s */
    bool drains;     /* requests in flight end before a copy; otherwise they continue with new
                      * weights */
    bool by_replica; /* replicas receive copies in sequence, each in an equal part of copy_s */
    double validation_s;
    int64_t validation_every; /* updates between validations; 0: none */
    bool validation_stops_generators, validation_stops_trainer;

    int64_t updates, warmup; /* numbers of counted updates, and of updates before them */
    uint64_t seed;
    uint32_t replicate;
} dl_rollout_config;

/* State of the trainer or of a replica, for observers. */
typedef enum dl_rollout_state {
    DL_ROLLOUT_WORKING, /* trainer: updating; replica: answering */
    DL_ROLLOUT_WAITING, /* trainer: too few complete groups; replica: no group may begin */
    DL_ROLLOUT_DRAINING,
    DL_ROLLOUT_COPYING, /* replica: paused for the copy */
    DL_ROLLOUT_VALIDATING,
    DL_ROLLOUT_STATES
} dl_rollout_state;

extern const char *const dl_rollout_state_names[DL_ROLLOUT_STATES];

#define DL_ROLLOUT_TRAINER (-1)

typedef struct dl_rollout_observer {
    /* `who` (a replica, or DL_ROLLOUT_TRAINER) was in `state` from start_s to end_s. */
    void (*state)(void *user, int who, dl_rollout_state state, double start_s, double end_s);
    /* An update has ended. queued: complete groups in the queue; in_flight: groups in flight; age:
     * mean age of its batch. */
    void (*update)(void *user, int64_t update, double now_s, int64_t queued, int64_t in_flight,
                   double age);
    void *user;
} dl_rollout_observer;

/* Numbers of groups, or of their tokens, in the whole run. */
typedef struct dl_rollout_count {
    double begun, used, discarded, left; /* of tokens, `begun` counts those generated; left: groups
                                          * begun and neither used nor discarded, or the tokens
                                          * generated for these */
} dl_rollout_count;

/* Results of the counted updates; the counts `tokens` and `groups` cover the whole run. All members
 * are doubles, so that results can be averaged, and copied as bytes. */
typedef struct dl_rollout_result {
    double span_s, update_s;
    double trainer_frac[DL_ROLLOUT_STATES];   /* fractions of the span; they sum to 1 */
    double generator_frac[DL_ROLLOUT_STATES]; /* fractions of the replicas' time; they sum to 1 */
    double at_max_frac;                       /* fraction of the replicas' time with in_flight_max
                                               * requests */
    double requests_mean;                     /* mean number of requests in flight per replica */
    double in_flight_mean, queue_mean;        /* mean numbers of groups */
    double group_s, queue_s;                  /* mean time of a group in flight, and in the queue */
    double groups_per_s, taken_per_s;         /* groups completed; groups used or discarded */
    double tokens_per_s, useful_tokens_per_s; /* tokens generated; tokens of used groups */
    double batch_tokens;                      /* tokens per update that the trainer computes */
    double samples;                           /* number of answers used */
    double age_mean, newest_age_mean, discarded_age_mean; /* discarded_age_mean: NaN if no group was
                                                           * discarded */
    double age_p95, age_max, newest_age_max;
    double
        outstanding_mean; /* groups begun and not consumed at the ends of updates, over prompts */
    double length_mean;   /* mean length of the answers of used groups */
    dl_rollout_count tokens, groups;
    double age_sum, left_age_sum, outstanding_sum; /* sums of the law of ages (see above), over the
                                                    * whole run */
    double events;
} dl_rollout_result;

typedef struct dl_rollout_ages {
    int64_t *counts; /* [bins] used groups of counted updates by age; the caller frees it */
    int bins;
    double *update_s; /* [updates] durations of the counted updates; the caller frees it */
} dl_rollout_ages;

/* Runs the simulation. Returns false if no update can ever be made, because the trainer waits for
 * groups that the bound does not allow to begin; *result is then undefined and *ages empty.
 * `observer` may be NULL. */
bool dl_rollout_run(const dl_rollout_config *config, const dl_rollout_observer *observer,
                    dl_rollout_result *result, dl_rollout_ages *ages);

#endif
