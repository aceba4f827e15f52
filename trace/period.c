#include "trace/period.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/period_anchor.h"
#include "trace/unit_content.h"

/* The smallest lag that reaches one of these shares of the best match is a period: the first is the
 * usual one, the others find steps within longer cycles (validation every so many steps). */
static const double lag_relative[] = {0.9, 0.7, 0.5};
#define LAG_LEVELS (sizeof lag_relative / sizeof *lag_relative)
/* Below it no lag is a period: unrelated symbols of three kinds match by a third. */
#define LAG_MATCH_MIN 0.12
/* Symbols of one rarity threshold whose lags are tried, up to half as many lags. */
#define LAG_SYMBOLS 6000
/* The number of anchors may differ so much from the number of periods: lost ones, the period's
 * own rounding, cut-off units at both ends of short sequences. */
#define REPEATS_TOLERANCE 0.25
/* Multiples of a unit's repeats at which shorter units within it are looked for, and the tolerance
 * there, where the number is known better. */
#define SHORTER_MAX 64
#define SHORTER_TOLERANCE 0.1
/* A shorter unit explains less when a block (averaging) comes between some units only. */
#define EXPLAINED_RELATIVE 0.8
#define CUTTINGS_MAX 128
/* Cuttings of a window that are tried on the whole sequence. */
#define TRIES 4
#define RECURRING_MIN 0.3
/* Fewer symbols repeat by chance. */
#define SYMBOLS_MIN 16
/* Units of fewer symbols are so short that unrelated symbols often make them up. They must match at
 * their own length by so much more than by chance: Cohen's kappa, (match - chance) / (1 - chance),
 * chance = the sum of the squared shares of the kinds. */
#define SHORT_UNIT 10
#define SHORT_KAPPA_MIN 0.5

/* The cuttings found so far. */
typedef struct cutting_list {
    dl_cutting items[CUTTINGS_MAX];
    size_t count;
} cutting_list;

static double lag_match(const uint32_t *symbols, size_t count, size_t lag)
{
    size_t equal = 0;
    for (size_t i = 0; i + lag < count; i++)
        equal += symbols[i] == symbols[i + lag];
    return (double)equal / (double)(count - lag);
}

/* Match of each lag up to half of `count`, into matches[count / 2 + 1]; returns the best one. */
static double match_lags(const uint32_t *symbols, size_t count, double *matches)
{
    double best = 0;
    for (size_t lag = 1; lag <= count / 2; lag++) {
        matches[lag] = lag_match(symbols, count, lag);
        if (matches[lag] > best) best = matches[lag];
    }
    return best;
}

/* Number of symbols whose kinds recur after `lag` in RECURRING_MIN of the cases: without the rare
 * ones of a noisy start, which would be counted as repeats. */
static size_t recurring(const uint32_t *symbols, size_t count, size_t lag, uint32_t kind_count)
{
    size_t *counts = dl_calloc(kind_count, sizeof *counts, "recurring kinds"), sum = 0;
    size_t *equal = dl_calloc(kind_count, sizeof *equal, "recurring kinds");
    for (size_t i = 0; i < count; i++) {
        counts[symbols[i]]++;
        equal[symbols[i]] += i + lag < count && symbols[i + lag] == symbols[i];
    }
    for (uint32_t kind = 0; kind < kind_count; kind++) {
        if ((double)equal[kind] >= RECURRING_MIN * (double)counts[kind]) sum += counts[kind];
    }
    free(counts);
    free(equal);
    return sum;
}

static void try_repeats(cutting_list *list, const dl_window *window, const dl_sequence *sequence,
                        double repeats, double tolerance, double match)
{
    dl_cutting cutting = {.lag_match = match};
    if (list->count == CUTTINGS_MAX || repeats * (1 + tolerance) < 3) return;
    if (!dl_window_cut(window, repeats, tolerance, sequence->roles, &cutting)) return;
    list->items[list->count++] = cutting;
}

/* Cuttings by the lag matches of the grams that occur 2 to `most` times. */
static void try_rarity(cutting_list *list, const dl_window *window, const dl_sequence *sequence,
                       uint32_t *rare, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < window->count; i++) {
        size_t occurrences = dl_window_occurrences(window, window->grams[i]);
        if (occurrences >= 2 && occurrences <= most) rare[count++] = window->grams[i];
    }
    const uint32_t *symbols = rare;
    size_t used = count;
    if (count > LAG_SYMBOLS) {
        symbols += (count - LAG_SYMBOLS) / 2;
        used = LAG_SYMBOLS;
    }
    double *matches = dl_calloc(used / 2 + 1, sizeof *matches, "lag matches");
    double best = match_lags(symbols, used, matches);
    for (size_t i = 0, before = 0; best >= LAG_MATCH_MIN && i < LAG_LEVELS; i++) {
        size_t lag = 1;
        while (matches[lag] < lag_relative[i] * best)
            lag++;
        if (lag != before) {
            double share = (double)recurring(symbols, used, lag, window->gram_count) / (double)used;
            double most_repeats = (double)count / (double)lag;
            try_repeats(list, window, sequence, most_repeats, REPEATS_TOLERANCE, matches[lag]);
            if (share < 1)
                try_repeats(list, window, sequence, share * most_repeats, REPEATS_TOLERANCE,
                            matches[lag]);
        }
        before = lag;
    }
    free(matches);
}

/* Mini-batches inside the cycles found so far: in cycles of two, no lag shows them. They are told
 * from layers by their copy from the host. */
static void try_shorter(cutting_list *list, const dl_window *window, const dl_sequence *sequence)
{
    size_t found = list->count;
    for (size_t i = 0; i < found; i++) {
        if (!list->items[i].has_input) continue;
        for (size_t m = 2; m <= SHORTER_MAX; m++) {
            double repeats = (double)(m * list->items[i].units);
            if (repeats > (double)window->count / 2) break;
            try_repeats(list, window, sequence, repeats, SHORTER_TOLERANCE,
                        list->items[i].lag_match);
        }
    }
}

/* The shortest units among those that are steps as far as one can tell; NULL without cuttings. */
static const dl_cutting *choose_cutting(const cutting_list *list)
{
    bool input = false;
    double explained = 0;
    for (size_t i = 0; i < list->count; i++)
        input |= list->items[i].has_input;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].has_input == input && list->items[i].explained > explained)
            explained = list->items[i].explained;
    }
    const dl_cutting *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const dl_cutting *cutting = &list->items[i];
        if (cutting->has_input != input) continue;
        if (!input && cutting->explained < EXPLAINED_RELATIVE * explained) continue;
        if (best == NULL || cutting->units > best->units) best = cutting;
    }
    return best;
}

void dl_period_measure(dl_period *period, const dl_sequence *sequence)
{
    const dl_units units = {.symbols = sequence->symbols,
                            .cuts = period->cuts,
                            .count = period->cut_count,
                            .end = sequence->count,
                            .kind_count = sequence->kind_count};
    if (period->content == NULL)
        period->content = dl_calloc(sequence->kind_count, sizeof(uint32_t), "content of units");
    period->length = dl_units_content(&units, period->content);
    period->order_match = dl_units_order_match(&units);
    period->explained = dl_units_explained(&units, period->content);
}

/* Whether units as short as these repeat more than by chance. */
static bool is_no_chance(const dl_period *period, const dl_sequence *sequence)
{
    if (period->length >= SHORT_UNIT) return true;
    if (period->length == 0 || period->length >= sequence->count) return false;
    size_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "shares of kinds");
    for (size_t i = 0; i < sequence->count; i++)
        counts[sequence->symbols[i]]++;
    double chance = 0, match = lag_match(sequence->symbols, sequence->count, period->length);
    for (uint32_t kind = 0; kind < sequence->kind_count; kind++) {
        double share = (double)counts[kind] / (double)sequence->count;
        chance += share * share;
    }
    free(counts);
    return match - chance >= SHORT_KAPPA_MIN * (1 - chance);
}

/* Leaves out the cuttings with about so many units. */
static void forget_units(cutting_list *list, size_t units)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        double ratio = (double)list->items[i].units / (double)units;
        if (ratio < 1 - REPEATS_TOLERANCE || ratio > 1 + REPEATS_TOLERANCE)
            list->items[kept++] = list->items[i];
    }
    list->count = kept;
}

/* The units that the anchor of `cutting` cuts from the whole sequence; false, and nothing kept, if
 * they do not repeat well enough there. */
static bool try_cutting(dl_period *period, const dl_sequence *sequence, const dl_window *window,
                        const dl_cutting *cutting)
{
    const dl_anchor anchor = dl_window_anchor(window, cutting->gram);
    *period = (dl_period){.lag_match = cutting->lag_match};
    period->cuts = dl_anchor_cuts(&anchor, sequence, &period->cut_count);
    dl_period_measure(period, sequence);
    dl_period_rotate(period, sequence);
    dl_period_measure(period, sequence);
    if (period->order_match >= DL_ORDER_MIN && period->explained >= DL_EXPLAINED_MIN &&
        is_no_chance(period, sequence))
        return true;
    dl_period_free(period);
    return false;
}

static void collect_cuttings(cutting_list *list, const dl_window *window,
                             const dl_sequence *sequence, size_t given)
{
    if (given > 0) {
        try_repeats(list, window, sequence, (double)window->count / (double)given,
                    REPEATS_TOLERANCE, 0);
        return;
    }
    uint32_t *rare = dl_calloc(window->count, sizeof *rare, "rare symbols");
    for (size_t most = 4; most < 2 * window->count; most *= 2)
        try_rarity(list, window, sequence, rare, most);
    free(rare);
    try_shorter(list, window, sequence);
}

/* Finds the period and its units from symbols[count] of the sequence; given = 0: it is not known.
 */
static bool find_in(dl_period *period, const uint32_t *symbols, size_t count, size_t gram_length,
                    const dl_sequence *sequence, size_t given)
{
    dl_window window;
    dl_window_init(&window, symbols, count, gram_length);
    cutting_list list = {.count = 0};
    collect_cuttings(&list, &window, sequence, given);
    bool found = false;
    for (int tries = 0; tries < TRIES && !found; tries++) {
        const dl_cutting *best = choose_cutting(&list);
        if (best == NULL) break;
        found = try_cutting(period, sequence, &window, best);
        if (!found) forget_units(&list, best->units);
    }
    dl_window_free(&window);
    return found;
}

/* Keeps the rarest kinds of a long sequence, DL_PERIOD_SYMBOLS symbols at most; returns how many.
 */
static size_t thin_out(const dl_sequence *sequence, uint32_t *thin)
{
    size_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "rare symbols");
    size_t most = 0, kept = 0;
    for (size_t i = 0; i < sequence->count; i++)
        counts[sequence->symbols[i]]++;
    for (size_t limit = 4; limit < sequence->count; limit *= 2) {
        size_t sum = 0;
        for (uint32_t kind = 0; kind < sequence->kind_count; kind++)
            sum += counts[kind] > 1 && counts[kind] <= limit ? counts[kind] : 0;
        if (sum > DL_PERIOD_SYMBOLS) break;
        most = limit;
    }
    for (size_t i = 0; i < sequence->count; i++) {
        size_t count = counts[sequence->symbols[i]];
        if (count > 1 && count <= most) thin[kept++] = sequence->symbols[i];
    }
    free(counts);
    return kept;
}

/* In the middle of the sequence, where the warm-up is over; then over all of its rare kinds. */
static bool find_units(dl_period *period, const dl_sequence *sequence, size_t given)
{
    size_t count = sequence->count < DL_PERIOD_SYMBOLS ? sequence->count : DL_PERIOD_SYMBOLS;
    const uint32_t *middle = sequence->symbols + (sequence->count - count) / 2;
    for (size_t length = 1; length <= DL_ANCHOR_KINDS; length++) {
        if (find_in(period, middle, count, length, sequence, given)) return true;
    }
    if (count == sequence->count || given > 0) return false;
    uint32_t *thin = dl_calloc(sequence->count, sizeof *thin, "rare symbols");
    size_t kept = thin_out(sequence, thin);
    bool found = kept > 0 && find_in(period, thin, kept, 1, sequence, 0);
    free(thin);
    return found;
}

void dl_period_find(dl_period *period, const dl_sequence *sequence, size_t given)
{
    *period = (dl_period){0};
    if (sequence->count < SYMBOLS_MIN) {
        period->reason = "too little device work";
        return;
    }
    if (find_units(period, sequence, given)) return;
    period->reason = given > 0 ? "the device work does not repeat at the given period"
                               : "the device work does not repeat regularly";
}

void dl_period_of_cuts(dl_period *period, const dl_sequence *sequence, const size_t *cuts,
                       size_t cut_count)
{
    *period = (dl_period){.cut_count = cut_count};
    period->cuts = dl_calloc(cut_count, sizeof *cuts, "cuts");
    memcpy(period->cuts, cuts, cut_count * sizeof *cuts);
    dl_period_measure(period, sequence);
}

void dl_period_free(dl_period *period)
{
    free(period->cuts);
    free(period->content);
    *period = (dl_period){0};
}
