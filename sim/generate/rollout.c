#include "sim/generate/rollout.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

/* Added to the replicate for the random streams of tool waits, so that they differ from those of
 * lengths. */
#define TOOL_REPLICATE (1u << 20)

const char *const dl_rollout_state_names[DL_ROLLOUT_STATES] = {"working", "waiting", "draining",
                                                               "copying", "validating"};

static double unscaled_s(const dl_decode *decode, double requests)
{
    const double *x = decode->requests, *y = decode->token_s;
    if (decode->count == 0) return decode->a_s + decode->b_s * requests;
    if (decode->count == 1 || requests <= x[0]) return y[0];
    int i = 1;
    while (i + 1 < decode->count && x[i] < requests)
        i++;
    return y[i - 1] + (y[i] - y[i - 1]) * (requests - x[i - 1]) / (x[i] - x[i - 1]);
}

double dl_decode_token_s(const dl_decode *decode, double requests)
{
    return exp(decode->log_scale) * unscaled_s(decode, requests);
}

/* --- state ----------------------------------------------------------------------------------- */

typedef struct group {
    int64_t number;
    int64_t draw;          /* number of the draw of its lengths: a new one, or that of the discarded
                            * group whose prompt it repeats */
    int64_t first, newest; /* updates in the weights at its first and newest token; -1: none yet */
    int64_t done;          /* rank in the order of completion */
    double began_s, done_s;
    double tokens;
    int unstarted, running; /* numbers of answers */
} group;

/* An element of a heap of groups, or of answers of groups. */
typedef struct entry {
    double key, length; /* length: tokens of an answer */
    int64_t group;
} entry;

/* A heap with the smallest key on top. */
typedef struct entries {
    entry *items;
    size_t count, room;
} entries;

typedef struct replica {
    entries requests;       /* requests in flight, by their end on the virtual clock, in tokens */
    double clock;           /* tokens that a request in flight since the replica was last idle would
                             * have */
    double now_s, token_s;  /* time of `clock`; current seconds per token */
    int64_t version;        /* number of updates in its weights */
    double answer_s;        /* time when the next answer ends; INFINITY: none */
    double stalled_until_s; /* > now_s: paused */
    bool validates;         /* paused for validation */
    double pause_s, install_s; /* next copy: start of the pause, and installation of the weights;
                                * INFINITY: none */
    double shown_s;            /* start of the reported state */
    dl_rollout_state shown;
} replica;

typedef struct totals {
    double state_s[DL_ROLLOUT_STATES], generator_s[DL_ROLLOUT_STATES];
    double at_max_s, request_s, in_flight_s, queue_s;
    double tokens, group_s, completed, queued_s, consumed;
    double used_tokens, used_groups, batch_tokens, age, newest_age, age_max, newest_age_max;
    double discarded_age, discarded_groups, outstanding;
} totals;

typedef struct rollout {
    const dl_rollout_config *config;
    const dl_rollout_observer *observer;
    replica *replicas;
    double *next_s; /* [replicas] time of each replica's next event */
    group *groups;  /* [group_count] slots of groups */
    size_t group_count;
    int64_t *free_slots;
    size_t free_count;
    entries waiting;   /* answers not yet in flight, by group: whole groups in order */
    entries tools;     /* complete groups in their tool wait */
    entries queue;     /* complete groups ready for the trainer */
    int64_t *requeued; /* draws of discarded groups, starting at requeued_first */
    size_t requeued_count, requeued_first;
    double *answers; /* [answers] scratch space */
    dl_lengths_log lengths;

    double now_s;
    int64_t updates;   /* updates made */
    int64_t announced; /* updates complete with their copies, which the rules count */
    int64_t installed; /* last copied update */
    int64_t drawn;     /* group whose lengths are in `answers`; -1: none */
    int64_t admitted, window_admitted, window_outstanding; /* groups begun: in total, and since the
                                                            * last copy; groups outstanding at that
                                                            * copy */
    int64_t numbers, completions;
    int64_t running_groups; /* groups admitted and not complete */
    int64_t begun_open;     /* groups begun and neither used nor discarded */
    dl_rollout_state trainer;
    double trainer_until_s; /* INFINITY: the trainer waits */
    double trainer_since_s;
    double batch_age, batch_tokens;
    bool counts; /* the warm-up is over */
    double counted_from_s, update_from_s;
    totals sum;
    dl_rollout_count tokens, group_counts;
    double age_sum, outstanding_sum, events;
    dl_rollout_ages *ages;
    int64_t measured_updates;
} rollout;

/* --- heaps ----------------------------------------------------------------------------------- */

static bool before(const entry *a, const entry *b)
{
    return a->key < b->key || (a->key == b->key && a->group < b->group);
}

static void entries_push(entries *heap, entry item)
{
    if (heap->count == heap->room) {
        heap->room = heap->room > 0 ? 2 * heap->room : 64;
        heap->items = dl_realloc(heap->items, heap->room, sizeof *heap->items, "groups");
    }
    size_t i = heap->count++;
    for (; i > 0 && before(&item, &heap->items[(i - 1) / 2]); i = (i - 1) / 2)
        heap->items[i] = heap->items[(i - 1) / 2];
    heap->items[i] = item;
}

static entry entries_pop(entries *heap)
{
    const entry top = heap->items[0], last = heap->items[--heap->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
        if (child + 1 < heap->count && before(&heap->items[child + 1], &heap->items[child]))
            child++;
        if (!before(&heap->items[child], &last)) break;
        heap->items[i] = heap->items[child];
    }
    heap->items[i] = last;
    return top;
}

/* --- time ------------------------------------------------------------------------------------ */

static int in_flight(const replica *r)
{
    return (int)r->requests.count;
}

static bool is_stalled(const replica *r, double now_s)
{
    return r->stalled_until_s > now_s;
}

static dl_rollout_state state_of(const rollout *s, const replica *r)
{
    if (is_stalled(r, r->now_s)) return r->validates ? DL_ROLLOUT_VALIDATING : DL_ROLLOUT_COPYING;
    if (in_flight(r) > 0) return DL_ROLLOUT_WORKING;
    return s->trainer == DL_ROLLOUT_DRAINING ? DL_ROLLOUT_DRAINING : DL_ROLLOUT_WAITING;
}

/* Reports the replica's state up to now if it has changed. */
static void show(rollout *s, int index)
{
    replica *r = &s->replicas[index];
    const dl_rollout_state state = state_of(s, r);
    if (s->observer == NULL || state == r->shown) return;
    if (r->now_s > r->shown_s)
        s->observer->state(s->observer->user, index, r->shown, r->shown_s, r->now_s);
    r->shown = state;
    r->shown_s = r->now_s;
}

/* Advances the replica to the current time; it has no event before. */
static void advance(rollout *s, replica *r)
{
    const double passed_s = s->now_s - r->now_s;
    if (passed_s > 0) {
        const dl_rollout_state state = state_of(s, r);
        s->sum.generator_s[state] += passed_s;
        s->sum.request_s += passed_s * in_flight(r);
        if (in_flight(r) == s->config->in_flight_max) s->sum.at_max_s += passed_s;
        if (state == DL_ROLLOUT_WORKING) {
            const double tokens = passed_s / r->token_s;
            r->clock += tokens;
            s->sum.tokens += tokens * in_flight(r);
            s->tokens.begun += tokens * in_flight(r);
        }
    }
    r->now_s = s->now_s;
}

/* Recomputes the replica's next event after a change. */
static void plan(rollout *s, int index)
{
    replica *r = &s->replicas[index];
    double next_s = fmin(r->pause_s, r->install_s);
    r->answer_s = INFINITY;
    if (is_stalled(r, r->now_s)) {
        next_s = fmin(next_s, r->stalled_until_s);
    } else if (in_flight(r) > 0) {
        r->token_s = dl_decode_token_s(&s->config->decode, in_flight(r));
        r->answer_s = r->now_s + (r->requests.items[0].key - r->clock) * r->token_s;
        next_s = fmin(next_s, r->answer_s);
    }
    s->next_s[index] = next_s;
    show(s, index);
}

static void add_time(rollout *s, double to_s)
{
    const double passed_s = to_s - s->now_s;
    s->sum.state_s[s->trainer] += passed_s;
    s->sum.in_flight_s += passed_s * (double)s->running_groups;
    s->sum.queue_s += passed_s * (double)s->queue.count;
    s->now_s = to_s;
}

static void set_trainer(rollout *s, dl_rollout_state state, double until_s)
{
    if (s->trainer == state) {
        s->trainer_until_s = until_s;
        return;
    }
    if (state == DL_ROLLOUT_DRAINING || s->trainer == DL_ROLLOUT_DRAINING) {
        for (int i = 0; i < s->config->replicas; i++)
            advance(s, &s->replicas[i]); /* the state of idle replicas changes */
    }
    if (s->observer != NULL && s->now_s > s->trainer_since_s)
        s->observer->state(s->observer->user, DL_ROLLOUT_TRAINER, s->trainer, s->trainer_since_s,
                           s->now_s);
    s->trainer_since_s = s->now_s;
    s->trainer = state;
    s->trainer_until_s = until_s;
    for (int i = 0; s->observer != NULL && i < s->config->replicas; i++) {
        if (s->replicas[i].now_s == s->now_s) show(s, i);
    }
}

/* --- groups ---------------------------------------------------------------------------------- */

static int64_t take_slot(rollout *s)
{
    if (s->free_count > 0) return s->free_slots[--s->free_count];
    DL_APPEND(s->groups, s->group_count, "groups") = (group){0};
    return (int64_t)s->group_count - 1;
}

static void free_slot(rollout *s, int64_t slot)
{
    DL_APPEND(s->free_slots, s->free_count, "groups") = slot;
}

/* Whether the rule allows another group to begin now. */
static bool may_begin(const rollout *s)
{
    const dl_rollout_config *c = s->config;
    const double batch = c->prompts;
    const double ahead = (double)s->admitted - s->group_counts.discarded;
    if (c->workers > 0 && s->running_groups >= c->workers) return false;
    switch (c->rule) {
    case DL_RULE_AHEAD: return ahead < ((double)s->announced + c->bound + 1) * batch;
    case DL_RULE_INSTALLED: return ahead < ((double)s->installed + c->bound + 1) * batch;
    case DL_RULE_WINDOW:
        return (double)(s->window_admitted + s->window_outstanding) <
               (1 + c->bound) * c->copy_every * batch;
    case DL_RULE_WORKERS: return c->buffer == 0 || (int64_t)s->queue.count < c->buffer;
    }
    return false;
}

static void admit(rollout *s)
{
    while (may_begin(s)) {
        const int64_t slot = take_slot(s);
        group *g = &s->groups[slot];
        const bool again = s->requeued_first < s->requeued_count;
        *g = (group){
            .number = s->admitted++, .first = -1, .newest = -1, .unstarted = s->config->answers};
        g->draw = again ? s->requeued[s->requeued_first++] : s->numbers++;
        s->window_admitted++;
        s->running_groups++;
        entries_push(&s->waiting, (entry){(double)g->number, 0, slot});
        g->began_s = s->now_s;
    }
}

/* The replica with the fewest requests among those that are not paused and below the limit; -1 if
 * there is none. */
static int least_loaded(const rollout *s)
{
    int best = -1, least = s->config->in_flight_max;
    for (int i = 0; i < s->config->replicas; i++) {
        const replica *r = &s->replicas[i];
        if (in_flight(r) >= least || is_stalled(r, s->now_s)) continue;
        least = in_flight(r);
        best = i;
        if (least == 0) break;
    }
    return best;
}

static void draw_answers(rollout *s, const group *g)
{
    const dl_rollout_config *c = s->config;
    dl_lengths_draw(&c->lengths, &s->lengths, c->seed, c->replicate, g->draw, s->answers,
                    c->answers);
}

/* Starts answers while replicas are below their limit. */
static void dispatch(rollout *s)
{
    const bool copies = s->trainer == DL_ROLLOUT_DRAINING || s->trainer == DL_ROLLOUT_COPYING;
    if (s->config->drains && copies) return;
    while (s->waiting.count > 0) {
        const int64_t slot = s->waiting.items[0].group;
        group *g = &s->groups[slot];
        if (g->number != s->drawn) draw_answers(s, g);
        s->drawn = g->number;
        while (g->unstarted > 0) {
            const int index = least_loaded(s);
            if (index < 0) return;
            replica *r = &s->replicas[index];
            advance(s, r);
            if (in_flight(r) == 0) r->clock = 0;
            const double length = s->answers[s->config->answers - g->unstarted];
            if (g->first < 0) {
                g->first = r->version;
                s->begun_open++;
                s->group_counts.begun++;
            }
            g->unstarted--;
            g->running++;
            g->tokens += length;
            entries_push(&r->requests, (entry){r->clock + length, length, slot});
            plan(s, index);
        }
        entries_pop(&s->waiting);
    }
}

static double age_of(const rollout *s, const group *g)
{
    return (double)(s->updates - g->first);
}

static void complete(rollout *s, int64_t slot)
{
    group *g = &s->groups[slot];
    g->done = s->completions++;
    g->done_s = s->now_s;
    s->running_groups--;
    s->sum.group_s += s->now_s - g->began_s;
    s->sum.completed++;
    entries_push(
        &s->queue,
        (entry){(double)(s->config->taking != DL_TAKES_COMPLETED ? g->number : g->done), 0, slot});
}

/* Ends a group after its last answer, or starts its tool wait. */
static void end_group(rollout *s, int64_t slot)
{
    const dl_rollout_config *c = s->config;
    double wait_s = c->tool_s;
    if (wait_s > 0 && c->tool_cv > 0) {
        dl_random stream;
        dl_random_init(&stream, c->seed, c->replicate + TOOL_REPLICATE,
                       (uint32_t)((uint64_t)s->groups[slot].draw >> 32),
                       (uint32_t)s->groups[slot].draw);
        const double sigma = dl_lengths_sigma(c->tool_cv);
        wait_s *= exp(sigma * dl_random_normal(&stream) - sigma * sigma / 2);
    }
    if (wait_s > 0) {
        entries_push(&s->tools, (entry){s->now_s + wait_s, 0, slot});
    } else {
        complete(s, slot);
    }
}

/* --- the trainer ----------------------------------------------------------------------------- */

static void discard(rollout *s, int64_t slot)
{
    const group *g = &s->groups[slot];
    const double age = age_of(s, g);
    s->tokens.discarded += g->tokens;
    s->group_counts.discarded++;
    s->begun_open--;
    s->age_sum += age;
    s->sum.discarded_age += age;
    s->sum.discarded_groups++;
    s->sum.queued_s += s->now_s - g->done_s;
    s->sum.consumed++;
    if (s->config->requeues) DL_APPEND(s->requeued, s->requeued_count, "prompts") = g->draw;
    free_slot(s, slot);
}

static void discard_old(rollout *s)
{
    size_t kept = 0;
    const size_t count = s->queue.count;
    entry *items = s->queue.items;
    if (!(s->config->age_max < INFINITY)) return;
    for (size_t i = 0; i < count; i++) {
        if (age_of(s, &s->groups[items[i].group]) > s->config->age_max) {
            discard(s, items[i].group);
        } else {
            items[kept++] = items[i];
        }
    }
    if (kept == count) return;
    s->queue.count = 0;
    for (size_t i = 0; i < kept; i++)
        entries_push(&s->queue, items[i]);
}

static void count_age(rollout *s, int64_t age)
{
    dl_rollout_ages *ages = s->ages;
    if (age >= ages->bins) {
        ages->counts =
            dl_realloc(ages->counts, (size_t)age + 1, sizeof *ages->counts, "ages of groups");
        for (int64_t i = ages->bins; i <= age; i++)
            ages->counts[i] = 0;
        ages->bins = (int)age + 1;
    }
    ages->counts[age]++;
}

static void use(rollout *s, int64_t slot)
{
    const group *g = &s->groups[slot];
    const double age = age_of(s, g), newest = (double)(s->updates - g->newest);
    s->tokens.used += g->tokens;
    s->group_counts.used++;
    s->begun_open--;
    s->batch_age += age / s->config->prompts;
    s->batch_tokens += g->tokens + s->config->prompt_tokens * s->config->answers;
    s->age_sum += age;
    s->sum.used_tokens += g->tokens;
    s->sum.used_groups++;
    s->sum.age += age;
    s->sum.newest_age += newest;
    s->sum.age_max = fmax(s->sum.age_max, age);
    s->sum.newest_age_max = fmax(s->sum.newest_age_max, newest);
    s->sum.queued_s += s->now_s - g->done_s;
    s->sum.consumed++;
    if (s->counts) count_age(s, (int64_t)age);
    free_slot(s, slot);
}

/* Number of complete groups that the trainer needs before it starts. */
static int64_t wanted(const rollout *s)
{
    const dl_rollout_config *c = s->config;
    if (!c->barrier) return c->prompts;
    return (int64_t)c->prompts * (c->copy_every - s->updates % c->copy_every);
}

/* Whether the next `count` groups in order are all complete; earlier groups are used or
 * discarded. */
static bool are_next(const rollout *s, int64_t count)
{
    const double end = s->group_counts.used + s->group_counts.discarded + (double)count;
    int64_t found = 0;
    for (size_t i = 0; i < s->queue.count; i++)
        found += s->queue.items[i].key < end;
    return found >= count;
}

/* Takes a batch if the trainer waits and a batch is complete. */
static void try_batch(rollout *s)
{
    if (s->trainer != DL_ROLLOUT_WAITING) return;
    discard_old(s);
    if ((int64_t)s->queue.count < wanted(s)) return;
    if (s->config->taking == DL_TAKES_IN_ORDER && !are_next(s, wanted(s))) return;
    s->batch_age = s->batch_tokens = 0;
    for (int i = 0; i < s->config->prompts; i++)
        use(s, entries_pop(&s->queue).group);
    s->sum.batch_tokens += s->batch_tokens;
    set_trainer(s, DL_ROLLOUT_WORKING,
                s->now_s + s->config->train_fixed_s + s->config->train_token_s * s->batch_tokens);
}

/* Begins everything that the last events allow: updates, groups, requests. */
static void go_on(rollout *s)
{
    int64_t admitted;
    do { /* discarding may allow more groups */
        admitted = s->admitted;
        admit(s);
        try_batch(s);
        admit(s);
    } while (s->admitted != admitted);
    dispatch(s);
}

static void start_counting(rollout *s)
{
    for (int i = 0; i < s->config->replicas; i++)
        advance(s, &s->replicas[i]);
    s->counts = true;
    s->counted_from_s = s->update_from_s = s->now_s;
    s->sum = (totals){0};
}

/* Records that the update and its copy are complete. */
static void announce(rollout *s)
{
    s->announced = s->updates;
    s->outstanding_sum += (double)s->begun_open;
    s->sum.outstanding += (double)s->begun_open;
}

/* Ends the update, with its copy and validation. */
static void end_update(rollout *s)
{
    if (s->observer != NULL)
        s->observer->update(s->observer->user, s->updates, s->now_s, (int64_t)s->queue.count,
                            s->running_groups, s->batch_age);
    if (s->counts) s->ages->update_s[s->measured_updates++] = s->now_s - s->update_from_s;
    s->update_from_s = s->now_s;
    if (!s->counts && s->updates >= s->config->warmup) start_counting(s);
    set_trainer(s, DL_ROLLOUT_WAITING, INFINITY);
}

static void stop_for_validation(rollout *s, int index, double until_s)
{
    replica *r = &s->replicas[index];
    advance(s, r);
    if (until_s > r->stalled_until_s) {
        r->stalled_until_s = until_s;
        r->validates = true;
    }
    plan(s, index);
}

/* Announces an update, and validates if that is due. */
static void validate(rollout *s)
{
    const dl_rollout_config *c = s->config;
    announce(s);
    const bool due = c->validation_every > 0 && s->updates % c->validation_every == 0;
    if (!due || c->validation_s == 0) {
        end_update(s);
        return;
    }
    if (c->validation_stops_generators) {
        for (int i = 0; i < c->replicas; i++)
            stop_for_validation(s, i, s->now_s + c->validation_s);
    }
    if (c->validation_stops_trainer) {
        set_trainer(s, DL_ROLLOUT_VALIDATING, s->now_s + c->validation_s);
    } else {
        end_update(s);
    }
}

static void install(rollout *s, int index)
{
    const dl_rollout_config *c = s->config;
    replica *r = &s->replicas[index];
    r->version = s->updates;
    r->install_s = INFINITY;
    if (c->prefill_token_s == 0 || in_flight(r) == 0) return;
    double context = 0; /* tokens of prompts, and generated parts of answers */
    for (int i = 0; i < in_flight(r); i++)
        context +=
            c->prompt_tokens + r->requests.items[i].length - (r->requests.items[i].key - r->clock);
    r->stalled_until_s = fmax(r->stalled_until_s, s->now_s + c->prefill_token_s * context);
    r->validates = false;
}

/* Starts a copy of the weights; requests that must end before it have ended. */
static void copy(rollout *s)
{
    const dl_rollout_config *c = s->config;
    const double until_s = s->now_s + c->copy_s;
    for (int i = 0; i < c->replicas; i++) {
        replica *r = &s->replicas[i];
        const double share = c->by_replica ? (double)(i + 1) / c->replicas : 1;
        r->install_s = i + 1 == c->replicas ? until_s : s->now_s + share * c->copy_s;
        r->pause_s = fmax(s->now_s, r->install_s - c->pause_s);
        advance(s, r);
        plan(s, i);
    }
    set_trainer(s, DL_ROLLOUT_COPYING, until_s);
}

static bool all_idle(const rollout *s)
{
    for (int i = 0; i < s->config->replicas; i++)
        if (in_flight(&s->replicas[i]) > 0) return false;
    return true;
}

static void end_answers(rollout *s, replica *r)
{
    r->clock = r->requests.items[0].key;
    while (in_flight(r) > 0 && r->requests.items[0].key <= r->clock) {
        const entry ended = entries_pop(&r->requests);
        group *g = &s->groups[ended.group];
        s->events++;
        if (r->version > g->newest) g->newest = r->version;
        if (--g->running == 0 && g->unstarted == 0) end_group(s, ended.group);
    }
}

static void replica_event(rollout *s, int index)
{
    replica *r = &s->replicas[index];
    advance(s, r);
    if (r->answer_s <= s->now_s) end_answers(s, r);
    if (r->pause_s <= s->now_s) {
        r->stalled_until_s = fmax(r->stalled_until_s, r->install_s);
        r->validates = false;
        r->pause_s = INFINITY;
    }
    if (r->install_s <= s->now_s) install(s, index);
    plan(s, index);
    if (s->trainer == DL_ROLLOUT_DRAINING && all_idle(s)) copy(s);
}

/* Gives the replicas the new weights, before anything else begins. */
static void end_copy(rollout *s)
{
    for (int i = 0; i < s->config->replicas; i++)
        if (s->replicas[i].install_s < INFINITY) replica_event(s, i);
    s->installed = s->updates;
    s->window_admitted = 0;
    s->window_outstanding = s->running_groups + (int64_t)s->queue.count;
    validate(s);
}

static void end_training(rollout *s)
{
    const dl_rollout_config *c = s->config;
    s->updates++;
    if (s->updates % c->copy_every != 0) {
        validate(s);
    } else if (c->drains && !all_idle(s)) {
        set_trainer(s, DL_ROLLOUT_DRAINING, INFINITY);
    } else {
        copy(s);
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

static int first_replica(const rollout *s)
{
    int first = 0;
    for (int i = 1; i < s->config->replicas; i++)
        if (s->next_s[i] < s->next_s[first]) first = i;
    return first;
}

/* Runs the next event; false if there is none. */
static bool step(rollout *s)
{
    const int first = first_replica(s);
    const double tool_s = s->tools.count > 0 ? s->tools.items[0].key : INFINITY;
    const double next_s = fmin(fmin(s->next_s[first], tool_s), s->trainer_until_s);
    if (!(next_s < INFINITY)) return false;
    add_time(s, next_s);
    if (s->trainer == DL_ROLLOUT_COPYING && s->trainer_until_s <= next_s) {
        end_copy(s);
    } else if (s->next_s[first] <= next_s) {
        replica_event(s, first);
    } else if (tool_s <= next_s) {
        complete(s, entries_pop(&s->tools).group);
    } else if (s->trainer == DL_ROLLOUT_WORKING) {
        end_training(s);
    } else {
        end_update(s); /* after validation */
    }
    if (s->measured_updates < s->config->updates) go_on(s);
    return true;
}

/* --- the figures ----------------------------------------------------------------------------- */

static void count_left(rollout *s, double *left_age_sum)
{
    for (size_t i = 0; i < s->queue.count; i++) {
        const group *g = &s->groups[s->queue.items[i].group];
        s->tokens.left += g->tokens;
        *left_age_sum += age_of(s, g);
    }
    for (size_t i = 0; i < s->tools.count; i++) {
        s->tokens.left += s->groups[s->tools.items[i].group].tokens;
        *left_age_sum += age_of(s, &s->groups[s->tools.items[i].group]);
    }
    /* Tokens of groups in flight: those of all their answers, minus the part not yet generated. */
    DL_AUTOFREE bool *seen = dl_calloc(s->group_count + 1, sizeof *seen, "groups");
    for (int i = 0; i < s->config->replicas; i++) {
        const replica *r = &s->replicas[i];
        for (int j = 0; j < in_flight(r); j++) {
            const group *g = &s->groups[r->requests.items[j].group];
            s->tokens.left -= r->requests.items[j].key - r->clock;
            if (seen[r->requests.items[j].group]) continue;
            seen[r->requests.items[j].group] = true;
            s->tokens.left += g->tokens;
            *left_age_sum += age_of(s, g);
        }
    }
    if (s->waiting.count > 0) { /* a group has begun but has no answer in flight now */
        const group *g = &s->groups[s->waiting.items[0].group];
        if (g->first >= 0 && g->running == 0) {
            s->tokens.left += g->tokens;
            *left_age_sum += age_of(s, g);
        }
    }
    s->group_counts.left = (double)s->begun_open;
}

static double age_quantile(const dl_rollout_ages *ages, double p)
{
    int64_t total = 0, seen = 0;
    for (int i = 0; i < ages->bins; i++)
        total += ages->counts[i];
    for (int i = 0; i < ages->bins; i++) {
        seen += ages->counts[i];
        if ((double)seen >= p * (double)total) return i;
    }
    return (double)NAN;
}

static void measure(rollout *s, dl_rollout_result *result)
{
    const dl_rollout_config *c = s->config;
    const totals *t = &s->sum;
    const double span_s = s->now_s - s->counted_from_s, replicas = c->replicas;
    *result = (dl_rollout_result){
        .span_s = span_s,
        .update_s = span_s / (double)c->updates,
        .at_max_frac = t->at_max_s / (span_s * replicas),
        .requests_mean = t->request_s / (span_s * replicas),
        .in_flight_mean = t->in_flight_s / span_s,
        .queue_mean = t->queue_s / span_s,
        .group_s = t->group_s / t->completed,
        .queue_s = t->queued_s / t->consumed,
        .groups_per_s = t->completed / span_s,
        .taken_per_s = t->consumed / span_s,
        .tokens_per_s = t->tokens / span_s,
        .useful_tokens_per_s = t->used_tokens / span_s,
        .batch_tokens = t->batch_tokens / (double)c->updates,
        .samples = t->used_groups * c->answers,
        .age_mean = t->age / t->used_groups,
        .newest_age_mean = t->newest_age / t->used_groups,
        .discarded_age_mean = t->discarded_age / t->discarded_groups,
        .age_p95 = age_quantile(s->ages, 0.95),
        .age_max = t->age_max,
        .newest_age_max = t->newest_age_max,
        .outstanding_mean = t->outstanding / ((double)c->updates * c->prompts),
        .length_mean = t->used_tokens / (t->used_groups * c->answers),
        .age_sum = s->age_sum,
        .outstanding_sum = s->outstanding_sum,
        .events = s->events,
    };
    for (int i = 0; i < DL_ROLLOUT_STATES; i++) {
        result->trainer_frac[i] = t->state_s[i] / span_s;
        result->generator_frac[i] = t->generator_s[i] / (span_s * replicas);
    }
    count_left(s, &result->left_age_sum);
    result->tokens = s->tokens;
    result->groups = s->group_counts;
}

static void start(rollout *s, const dl_rollout_config *config, const dl_rollout_observer *observer,
                  dl_rollout_ages *ages)
{
    *ages = (dl_rollout_ages){0};
    *s = (rollout){.config = config, .observer = observer, .ages = ages, .drawn = -1};
    s->replicas = dl_calloc((size_t)config->replicas, sizeof *s->replicas, "replicas");
    s->next_s = dl_calloc((size_t)config->replicas, sizeof *s->next_s, "replicas");
    s->answers = dl_calloc((size_t)config->answers, sizeof *s->answers, "answers");
    ages->update_s = dl_calloc((size_t)config->updates, sizeof *ages->update_s, "updates");
    s->lengths = dl_lengths_log_of(&config->lengths);
    s->trainer = DL_ROLLOUT_WAITING;
    s->trainer_until_s = INFINITY;
    s->counts = config->warmup == 0;
    for (int i = 0; i < config->replicas; i++) {
        replica *r = &s->replicas[i];
        r->pause_s = r->install_s = r->answer_s = s->next_s[i] = INFINITY;
        r->shown = DL_ROLLOUT_WAITING;
    }
}

static void end(rollout *s)
{
    for (int i = 0; i < s->config->replicas; i++)
        free(s->replicas[i].requests.items);
    free(s->replicas);
    free(s->next_s);
    free(s->groups);
    free(s->free_slots);
    free(s->waiting.items);
    free(s->tools.items);
    free(s->queue.items);
    free(s->requeued);
    free(s->answers);
}

bool dl_rollout_run(const dl_rollout_config *config, const dl_rollout_observer *observer,
                    dl_rollout_result *result, dl_rollout_ages *ages)
{
    rollout s;
    bool goes = true;
    start(&s, config, observer, ages);
    go_on(&s);
    while (goes && s.measured_updates < config->updates)
        goes = step(&s);
    for (int i = 0; i < config->replicas; i++)
        advance(&s, &s.replicas[i]);
    if (goes) {
        measure(&s, result);
    } else {
        free(ages->counts);
        free(ages->update_s);
        *ages = (dl_rollout_ages){0};
    }
    end(&s);
    return goes;
}
