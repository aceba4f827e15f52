#include "trace/steps/period.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/steps/period_anchor.h"

/* Numbers of units that are tried: each this much larger than the one before, with a tolerance that
 * leaves no gap between them. */
#define REPEATS_FACTOR 1.12
#define REPEATS_TOLERANCE 0.08
/* Numbers of units that count as equal: a given period is rounded, symbols are lost, other work
 * lies in between. */
#define UNITS_TOLERANCE 0.25
/* The lag match is taken over kinds that occur at most RARE_FACTOR times a unit, of so many symbols
 * or three units, at lags that differ by LAG_TOLERANCE from the mean unit: lost symbols shorten it.
 */
#define RARE_FACTOR 1.25
#define LAG_SYMBOLS 6000
#define LAG_TOLERANCE 0.1
/* A shorter unit explains less when a block (averaging) comes between some units only. */
#define EXPLAINED_RELATIVE 0.8
#define CUTTINGS_MAX 128
/* Cuttings of a window that are tried on the whole sequence. */
#define TRIES 4
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

static void try_repeats(cutting_list *list, const dl_window *window, const dl_sequence *sequence,
                        double repeats, double tolerance)
{
    dl_cutting cutting;
    if (list->count == CUTTINGS_MAX) return;
    if (!dl_window_cut(window, repeats, tolerance, sequence->roles, &cutting)) return;
    list->items[list->count++] = cutting;
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

static dl_units units_of(const dl_period *period, const dl_sequence *sequence)
{
    return (dl_units){.symbols = sequence->symbols,
                      .cuts = period->cuts,
                      .count = period->cut_count,
                      .end = sequence->count,
                      .kind_count = sequence->kind_count};
}

void dl_period_measure(dl_period *period, const dl_sequence *sequence)
{
    const dl_units units = units_of(period, sequence);
    if (period->content == NULL)
        period->content = dl_calloc(sequence->kind_count, sizeof(uint32_t), "content of units");
    period->length = dl_units_content(&units, period->content);
    period->order_match = dl_units_order_match(&units);
    period->explained = dl_units_explained(&units, period->content);
}

/* The rare symbols' best match around the mean unit; 0 without rare kinds. */
static double rare_lag_match(const dl_period *period, const dl_sequence *sequence)
{
    size_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "rare symbols"), count = 0;
    uint32_t *rare = dl_calloc(sequence->count, sizeof *rare, "rare symbols");
    for (size_t i = 0; i < sequence->count; i++)
        counts[sequence->symbols[i]]++;
    for (size_t i = 0; i < sequence->count; i++) {
        uint32_t kind = sequence->symbols[i];
        bool usual = period->content[kind] > 0;
        if (usual && (double)counts[kind] <= RARE_FACTOR * (double)period->cut_count)
            rare[count++] = kind;
    }
    double lag = (double)count / (double)period->cut_count, best = 0;
    size_t used = 3 * lag > LAG_SYMBOLS ? (size_t)(3 * lag) : LAG_SYMBOLS;
    if (used > DL_PERIOD_SYMBOLS) used = DL_PERIOD_SYMBOLS;
    if (used > count) used = count;
    const uint32_t *middle = rare + (count - used) / 2;
    for (size_t k = (size_t)ceil(lag * (1 - LAG_TOLERANCE));
         k > 0 && (double)k <= ceil(lag * (1 + LAG_TOLERANCE)) && 2 * k <= used; k++) {
        double match = lag_match(middle, used, k);
        if (match > best) best = match;
    }
    free(counts);
    free(rare);
    return best;
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
        if (ratio < 1 - UNITS_TOLERANCE || ratio > 1 + UNITS_TOLERANCE)
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
    *period = (dl_period){0};
    period->cuts = dl_anchor_cuts(&anchor, sequence, &period->cut_count);
    dl_period_measure(period, sequence);
    dl_period_rotate(period, sequence);
    dl_period_measure(period, sequence);
    const dl_units units = units_of(period, sequence);
    if (dl_units_in_order(&units) && period->explained >= DL_EXPLAINED_MIN &&
        is_no_chance(period, sequence)) {
        period->lag_match = rare_lag_match(period, sequence);
        return true;
    }
    dl_period_free(period);
    return false;
}

static void collect_cuttings(cutting_list *list, const dl_window *window,
                             const dl_sequence *sequence, size_t given)
{
    if (given > 0) {
        try_repeats(list, window, sequence, (double)window->count / (double)given, UNITS_TOLERANCE);
        return;
    }
    for (double repeats = 3; repeats <= (double)window->count / 2; repeats *= REPEATS_FACTOR)
        try_repeats(list, window, sequence, repeats, REPEATS_TOLERANCE);
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
