/* Laws of a rollout, each checked by its closed form. */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "common/random.h"
#include "sim/generate/rollout.h"
#include "tests/near.h"

#define EXACT 1e-9

/* Four replicas, batches of 8 groups of 4 answers; generation and an update take about equally
 * long. */
static dl_rollout_config usual(void)
{
    return (dl_rollout_config){
        .replicas = 4,
        .in_flight_max = 64,
        .decode = {.a_s = 0.01, .b_s = 0.0005},
        .lengths = {.mean = 500, .cv = 0.8, .cap = 2000, .group_frac = 0.5},
        .prompt_tokens = 100,
        .answers = 4,
        .prompts = 8,
        .copy_every = 1,
        .bound = 1,
        .age_max = (double)INFINITY,
        .train_fixed_s = 1,
        .train_token_s = 3e-4,
        .copy_s = 0.5,
        .pause_s = 0.25,
        .updates = 60,
        .warmup = 10,
        .seed = 3,
    };
}

static dl_rollout_result run(const dl_rollout_config *config)
{
    dl_rollout_result result;
    dl_rollout_ages ages;
    assert_true(dl_rollout_run(config, NULL, &result, &ages));
    free(ages.counts);
    free(ages.update_s);
    return result;
}

static bool equals(double actual, double expected)
{
    return near_scaled(actual, expected, 1e-300, EXACT);
}

/* Random settings of all kinds, by number. */
static dl_rollout_config any(int number)
{
    dl_rollout_config c = usual();
    dl_random stream;
    dl_random_init(&stream, 7, 0, 0, (uint32_t)number);
#define ONE_IN(n) (dl_random_below(&stream, n) == 0)
    c.rule = (dl_rule)dl_random_below(&stream, 4);
    c.bound = (double)dl_random_below(&stream, 4);
    c.copy_every = 1 + (int)dl_random_below(&stream, 4);
    c.replicas = 1 + (int)dl_random_below(&stream, 6);
    if (ONE_IN(2)) c.in_flight_max = 1 + (int)dl_random_below(&stream, 9);
    if (ONE_IN(2) || c.rule == DL_RULE_WORKERS) c.workers = 8 + (int)dl_random_below(&stream, 30);
    if (ONE_IN(2)) c.age_max = c.copy_every - 1 + (double)dl_random_below(&stream, 3);
    /* Groups begun on one copy may have to be older than age_max allows. */
    if (c.rule == DL_RULE_WORKERS) c.buffer = 8 + (int)dl_random_below(&stream, 30);
    /* A smaller bound would allow no update before the next copy. */
    if (c.rule == DL_RULE_INSTALLED) c.bound += c.copy_every - 1;
    c.requeues = ONE_IN(2);
    c.taking = (dl_taking)dl_random_below(&stream, 3);
    c.drains = ONE_IN(3);
    c.by_replica = ONE_IN(3);
    if (ONE_IN(3)) c.prefill_token_s = 1e-5;
    if (ONE_IN(3)) c.tool_s = 2;
    c.tool_cv = ONE_IN(2) ? 1 : 0;
    c.validation_s = ONE_IN(3) ? 3 : 0;
    c.validation_every = 5;
    c.validation_stops_generators = ONE_IN(2);
    c.validation_stops_trainer = ONE_IN(2);
#undef ONE_IN
    return c;
}

/* Law 1: generated = used + discarded + left. */
static void tokens_and_groups_are_conserved(void **state DL_UNUSED)
{
    int discarding = 0;
    for (int i = 0; i < 300; i++) {
        const dl_rollout_config c = any(i);
        const dl_rollout_result r = run(&c);
        assert_true(near_scaled(r.tokens.used + r.tokens.discarded + r.tokens.left, r.tokens.begun,
                                1, 1e-11));
        assert_true(equals(r.groups.used + r.groups.discarded + r.groups.left, r.groups.begun));
        assert_true(r.groups.used == (double)(c.prompts * (c.updates + c.warmup)));
        double trainer = 0, generator = 0;
        for (int s = 0; s < DL_ROLLOUT_STATES; s++) {
            trainer += r.trainer_frac[s];
            generator += r.generator_frac[s];
        }
        assert_true(equals(trainer, 1) && equals(generator, 1));
        discarding += r.groups.discarded > 0;
    }
    assert_true(discarding > 20);
}

/* Law 2, Little's law: the numbers of groups in flight and in the queue are their rates times their
 * times, except for groups at the ends of the run. */
static void littles_law_holds(void **state DL_UNUSED)
{
    for (int i = 0; i < 60; i++) {
        dl_rollout_config c = any(i);
        c.updates = 1000;
        const dl_rollout_result r = run(&c);
        assert_true(near_scaled(r.groups_per_s * r.group_s, r.in_flight_mean, 0.1, 0.005));
        assert_true(near_scaled(r.taken_per_s * r.queue_s, r.queue_mean, 1, 0.005));
    }
}

/* Law 3: the ages of all groups sum to the numbers begun and not consumed at the ends of updates.
 * Checked with a copy after each update; a replica that gets its copy early has newer weights than
 * the count assumes. */
static void ages_sum_to_the_groups_outstanding(void **state DL_UNUSED)
{
    for (int i = 0; i < 200; i++) {
        dl_rollout_config c = any(i);
        c.copy_every = 1;
        c.by_replica = false;
        const dl_rollout_result r = run(&c);
        assert_true(near_scaled(r.age_sum + r.left_age_sum, r.outstanding_sum, 1, EXACT));
    }
}

/* Law 4: if everything that may begin is in flight immediately, a group's mean age is the bound:
 * that many groups are outstanding at the end of each update. The mean over a number of updates
 * differs by the groups outstanding at its ends; with equally long answers it does not. */
static void mean_age_is_the_bound_whatever_the_speeds(void **state DL_UNUSED)
{
    static const double speeds[] = {0.01, 0.3, 1, 3, 100};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        for (int bound = 0; bound < 5; bound++) {
            dl_rollout_config c = usual();
            c.bound = bound;
            c.train_token_s *= speeds[i];
            dl_rollout_result r = run(&c);
            assert_true(near_scaled(r.outstanding_mean, bound, 1, EXACT));
            assert_true(near_scaled(r.age_mean, bound, 1, 1.0 / 60));
            c.lengths.cv = 0;
            r = run(&c);
            assert_true(near_scaled(r.age_mean, bound, 1, EXACT));
        }
    }
    for (int every = 2; every < 5; every++) {
        dl_rollout_config c = usual();
        c.rule = DL_RULE_INSTALLED;
        c.copy_every = every;
        c.bound = every - 1;
        c.updates = 60;
        c.warmup = 12;
        const dl_rollout_result r = run(&c);
        assert_true(near_scaled(r.age_mean, (every - 1) / 2.0, 1, EXACT));
        assert_true(r.age_max == every - 1);
    }
}

static void note_age(void *user, int64_t update, double now_s, int64_t queued, int64_t in_flight,
                     double age)
{
    (void)now_s, (void)queued, (void)in_flight;
    ((double *)user)[update - 1] = age;
}

static void no_state(void *user, int who, dl_rollout_state state, double start_s, double end_s)
{
    (void)user, (void)who, (void)state, (void)start_s, (void)end_s;
}

/* Law 5: marin-community/marin issue 8936: copies every 2 updates, bound and largest age 1, batches
 * of 32: of 96 groups begun on a version, 64 are used, at ages 0 and 1, and 32 discarded. Counted
 * from the installed version, none is discarded. */
static void the_public_ledger_is_reproduced(void **state DL_UNUSED)
{
    dl_rollout_config c = usual();
    c.prompts = 32;
    c.copy_every = 2;
    c.age_max = 1;
    c.updates = 5;
    c.warmup = 0;
    double ages[5];
    const dl_rollout_observer observer = {.state = no_state, .update = note_age, .user = ages};
    static const double published[] = {0, 1, 0, 1, 0};
    dl_rollout_result r;
    dl_rollout_ages by_age;
    assert_true(dl_rollout_run(&c, &observer, &r, &by_age));
    for (int i = 0; i < 5; i++)
        assert_true(ages[i] == published[i]);
    assert_int_equal(by_age.bins, 2);
    assert_true(by_age.counts[0] == 96 && by_age.counts[1] == 64);
    free(by_age.counts);
    free(by_age.update_s);
    /* Versions 0 and 2 are complete: 2 x 96 = 2 x (64 + 32); of version 4, 32 of 64 are used. */
    assert_true(r.groups.begun == 2 * 96 + 64);
    assert_true(r.groups.used == 2 * 64 + 32);
    assert_true(r.groups.discarded == 2 * 32);
    c.rule = DL_RULE_INSTALLED;
    r = run(&c);
    assert_true(r.groups.discarded == 0 && r.groups.used == 160);
}

/* Forced discards: W groups in flight imply a mean age above the largest allowed age. */
static void discards_are_forced_where_too_much_is_in_flight(void **state DL_UNUSED)
{
    dl_rollout_config c = usual();
    c.rule = DL_RULE_WORKERS;
    c.age_max = 1;
    c.workers = 8; /* one batch: mean age at most 1 */
    c.train_token_s = 0;
    c.train_fixed_s = 0.001;
    c.copy_s = c.pause_s = 0;
    assert_true(run(&c).groups.discarded < 0.2 * run(&c).groups.begun);
    c.workers = 64; /* eight batches */
    assert_true(run(&c).groups.discarded > 0.5 * run(&c).groups.begun);
}

static int ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Time until a replica has ended these answers, begun together; the longest ends last. */
static double alone_s(const dl_decode *decode, double *lengths, int count)
{
    double sum_s = 0, before = 0;
    qsort(lengths, (size_t)count, sizeof *lengths, ascending);
    for (int i = 0; i < count; i++) {
        sum_s += (lengths[i] - before) * (decode->a_s + decode->b_s * (count - i));
        before = lengths[i];
    }
    return sum_s;
}

/* Law 6: bound 0 gives the synchronous step, which waits for the slowest replica. */
static void bound_zero_is_the_synchronous_step(void **state DL_UNUSED)
{
    dl_rollout_config c = usual();
    c.bound = 0;
    c.updates = 20;
    c.warmup = 0;
    const dl_lengths_log at = dl_lengths_log_of(&c.lengths);
    double span_s = 0;
    for (int update = 0; update < c.updates; update++) {
        double by_replica[4][8], longest = 0, tokens = 0, generate_s = 0;
        for (int g = 0; g < c.prompts; g++) {
            double answers[4];
            dl_lengths_draw(&c.lengths, &at, c.seed, 0, update * c.prompts + g, answers, 4);
            for (int i = 0; i < 4; i++) {
                by_replica[i][g] = answers[i]; /* assigned in turn */
                tokens += answers[i] + c.prompt_tokens;
                longest = fmax(longest, answers[i]);
            }
        }
        for (int i = 0; i < 4; i++)
            generate_s = fmax(generate_s, alone_s(&c.decode, by_replica[i], c.prompts));
        assert_true(generate_s >= longest * c.decode.a_s);
        span_s += generate_s + c.train_fixed_s + c.train_token_s * tokens + c.copy_s;
    }
    c.barrier = true;
    dl_rollout_result r = run(&c);
    assert_true(equals(r.span_s, span_s));
    c.barrier = false; /* same result, as all groups of a batch begin together */
    assert_true(equals(run(&c).span_s, span_s));
    assert_true(r.age_mean == 0);
}

/* Law 7: if one side takes no time, the other side's time is the update time. */
static void one_infinitely_fast_side_leaves_the_others_time(void **state DL_UNUSED)
{
    dl_rollout_config c = usual();
    c.decode = (dl_decode){.a_s = 1e-16};
    dl_rollout_result r = run(&c);
    assert_true(equals(r.update_s, c.train_fixed_s + c.train_token_s * r.batch_tokens + c.copy_s));
    c = usual();
    c.lengths.cv = 0;
    c.train_fixed_s = c.train_token_s = c.copy_s = c.pause_s = 0;
    c.rule = DL_RULE_WORKERS;
    c.workers = 16; /* groups of 4 answers on 4 replicas: 16 requests each */
    r = run(&c);
    const double rate = 4 * 16 / (c.decode.a_s + 16 * c.decode.b_s);
    assert_true(equals(r.update_s, 8 * 4 * 500 / rate));
}

/* Law 8, and bounds of law 7: with constant lengths and c requests in flight, R c / (a + b c)
 * tokens/s; and an update takes at least as long as the slower side, and less than both
 * together. */
static void constant_lengths_give_the_decode_rate(void **state DL_UNUSED)
{
    static const int in_flight[] = {1, 4, 16, 64};
    for (int i = 0; i < 4; i++) {
        dl_rollout_config c = usual();
        const int each = in_flight[i];
        c.lengths.cv = 0;
        c.rule = DL_RULE_WORKERS;
        c.workers = each; /* groups of 4 answers on 4 replicas */
        c.train_fixed_s = 0.1;
        c.train_token_s = 0;
        c.copy_s = c.pause_s = 0;
        c.prompts = each;
        const double token_s = c.decode.a_s + c.decode.b_s * each;
        const dl_rollout_result r = run(&c);
        assert_true(equals(r.tokens_per_s, 4 * each / token_s));
        assert_true(equals(r.requests_mean, each));
        for (double train_s = 1; train_s < 100; train_s *= 3) {
            c.train_fixed_s = train_s;
            const double generate_s = 500 * token_s, update_s = run(&c).update_s;
            assert_true(update_s >= fmax(generate_s, train_s) * (1 - EXACT));
            assert_true(update_s <= (generate_s + train_s) * (1 + EXACT));
        }
    }
}

/* Law 9: with ideal scaling on the same GPUs there is no gain: 8 GPUs do a step with a share s of
 * generation in time 1; with a fraction x of them generating it takes max(s / x, (1 - s) / (1 -
 * x)). */
static void ideal_scaling_gains_nothing_on_the_same_gpus(void **state DL_UNUSED)
{
    static const int generators[] = {1, 2, 4};
    for (double share = 0.1; share < 0.95; share += 0.1) {
        for (int i = 0; i < 3; i++) {
            const double x = generators[i] / 8.0;
            dl_rollout_config c = usual();
            c.lengths = (dl_lengths){.mean = 100, .cap = (double)INFINITY};
            c.copy_s = c.pause_s = 0;
            c.prompts = 16; /* 64 answers, in waves of 8 per replica */
            c.in_flight_max = 8;
            /* A replica generates equally many tokens per second with any number of requests. */
            c.decode = (dl_decode){.b_s = share * 8 / 6400.0};
            c.train_token_s = 0;
            c.replicas = 8;
            c.train_fixed_s = 1 - share;
            c.bound = 0;
            c.barrier = true;
            assert_true(equals(run(&c).update_s, 1));
            c.replicas = generators[i];
            c.train_fixed_s = (1 - share) / (1 - x);
            c.bound = 2;
            c.barrier = false;
            const double update_s = run(&c).update_s;
            assert_true(equals(update_s, fmax(share / x, (1 - share) / (1 - x))));
            assert_true(update_s >= 1 - EXACT);
        }
    }
}

/* Refuses a trainer that can take none of the groups that may begin. */
/* Two groups of one answer in flight, of 10 tokens and of 1, at one second per token: the first
 * update ends with the short one, or with the long one if that comes first in the order. */
static void batches_are_taken_in_order(void **state DL_UNUSED)
{
    static const double list[] = {10, 1, 1, 1};
    static const double first_s[] = {1, 1, 10};
    for (int taking = DL_TAKES_COMPLETED; taking <= DL_TAKES_IN_ORDER; taking++) {
        const dl_rollout_config c = {
            .replicas = 1,
            .in_flight_max = 8,
            .decode = {.a_s = 1},
            .lengths = {.mean = 3, .cap = (double)INFINITY, .list = list, .count = 4},
            .answers = 1,
            .prompts = 1,
            .copy_every = 1,
            .bound = 1,
            .age_max = (double)INFINITY,
            .taking = (dl_taking)taking,
            .updates = 8,
        };
        dl_rollout_result r;
        dl_rollout_ages ages;
        assert_true(dl_rollout_run(&c, NULL, &r, &ages));
        assert_true(equals(ages.update_s[0], first_s[taking]));
        free(ages.counts);
        free(ages.update_s);
    }
}

static void a_run_that_stands_still_is_refused(void **state DL_UNUSED)
{
    dl_rollout_config c = usual();
    dl_rollout_result r;
    dl_rollout_ages ages;
    c.rule = DL_RULE_WORKERS;
    c.workers = 4;
    c.buffer = 2; /* a batch needs 8 */
    assert_false(dl_rollout_run(&c, NULL, &r, &ages));
}

/* Between the points of a curve, seconds per token are linear. */
static void decode_curves_are_interpolated(void **state DL_UNUSED)
{
    static const double requests[] = {1, 10, 100}, token_s[] = {0.01, 0.019, 0.1};
    const dl_decode curve = {.requests = requests, .token_s = token_s, .count = 3};
    assert_true(equals(dl_decode_token_s(&curve, 1), 0.01));
    assert_true(equals(dl_decode_token_s(&curve, 4), 0.013));
    assert_true(equals(dl_decode_token_s(&curve, 55), 0.0595));
    assert_true(equals(dl_decode_token_s(&curve, 200), 0.19));
}

/* The mean of many draws is that of the capped distribution; answers of a group are correlated by
 * their share. */
static void lengths_have_their_mean_and_correlation(void **state DL_UNUSED)
{
    const dl_lengths lengths = {.mean = 500, .cv = 0.8, .cap = 1000, .group_frac = 0.5};
    const dl_lengths_log at = dl_lengths_log_of(&lengths);
    double sum = 0, first = 0, squares = 0, products = 0, most = 0;
    const int groups = 40000;
    for (int g = 0; g < groups; g++) {
        double answers[2];
        dl_lengths_draw(&lengths, &at, 1, 0, g, answers, 2);
        sum += answers[0] + answers[1];
        most = fmax(most, answers[0]);
        const double x = answers[0] - 500, y = answers[1] - 500;
        first += x;
        squares += x * x;
        products += x * y;
    }
    assert_true(near_scaled(sum / (2 * groups), 500, 1, 0.01));
    assert_true(most == 1000);
    assert_true(fabs(products / squares - 0.5) < 0.05);
    (void)first;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_and_groups_are_conserved),
        cmocka_unit_test(littles_law_holds),
        cmocka_unit_test(ages_sum_to_the_groups_outstanding),
        cmocka_unit_test(mean_age_is_the_bound_whatever_the_speeds),
        cmocka_unit_test(the_public_ledger_is_reproduced),
        cmocka_unit_test(discards_are_forced_where_too_much_is_in_flight),
        cmocka_unit_test(bound_zero_is_the_synchronous_step),
        cmocka_unit_test(one_infinitely_fast_side_leaves_the_others_time),
        cmocka_unit_test(constant_lengths_give_the_decode_rate),
        cmocka_unit_test(ideal_scaling_gains_nothing_on_the_same_gpus),
        cmocka_unit_test(batches_are_taken_in_order),
        cmocka_unit_test(a_run_that_stands_still_is_refused),
        cmocka_unit_test(decode_curves_are_interpolated),
        cmocka_unit_test(lengths_have_their_mean_and_correlation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
