#include "trace/activity/steps_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"

#define DL_ANCHOR_KINDS 3

/* Thresholds for accepting units. Repeated steps that lost 5 % of their symbols have an order match
 * of 0.9; steps must explain half of the symbols. With few units chance matches are more likely, so
 * the order gain must reach DL_ORDER_GAIN_MIN * (1 + 2 / units), 0.67 for three units. */
#define DL_ORDER_MIN 0.7
#define DL_ORDER_GAIN_MIN 0.4
#define DL_EXPLAINED_MIN 0.5

/* `length` successive kinds; a unit starts at the last one. */
typedef struct dl_anchor {
    uint32_t kinds[DL_ANCHOR_KINDS];
    size_t length;
} dl_anchor;

/* Part of a sequence in which the period is searched. Owns its arrays. */
typedef struct dl_window {
    uint32_t *symbols; /* [count] kinds, renumbered from 0 without gaps */
    uint32_t *kinds;   /* [kind_count] kind numbers in the sequence */
    uint32_t *grams;   /* [count] the `gram_length` symbols ending at each symbol, numbered from 0
                        * without gaps */
    size_t count, gram_length;
    uint32_t kind_count, gram_count;
    size_t *gram_first; /* [gram_count + 1] gram g occurs at gram_places[gram_first[g] ..
                         * gram_first[g + 1] - 1] */
    size_t *gram_places;
} dl_window;

/* A possible cutting of the window. */
typedef struct dl_cutting {
    uint32_t gram; /* the anchor */
    size_t units;  /* number of occurrences of the anchor */
    double explained;
    uint8_t roles; /* roles in the usual unit, or-ed */
} dl_cutting;

#define REGULAR_MIN 0.75

/* Number of symbols compared on each side of a cut to find a lost anchor; minimum number of equal
 * ones on each side, and on both sides together. */
#define SIDE 8
#define SIDE_EQUAL_MIN 3
#define SIDES_EQUAL_MIN 8

DL_ORDER(compare_u64, uint64_t, DL_COMPARE(*a, *b));

/* Encodes the `length` symbols up to index `last`. A window has fewer than 2^16 kinds, so a gram
 * fits. */
static uint64_t gram_code(const uint32_t *symbols, size_t last, size_t length)
{
    uint64_t code = 0;
    for (size_t i = 0; i < length && i <= last; i++)
        code |= (uint64_t)(symbols[last - i] + 1) << 20 * i;
    return code;
}

/* Writes to numbers[count] the index of each of codes[count] among the sorted distinct codes, and
 * returns the number of distinct codes. */
static uint32_t number_codes(uint64_t *codes, size_t count, uint32_t *numbers)
{
    DL_AUTOFREE uint64_t *sorted = dl_calloc(count, sizeof *sorted, "window of symbols");
    memcpy(sorted, codes, count * sizeof *codes);
    qsort(sorted, count, sizeof *sorted, compare_u64);
    size_t distinct = 0;
    for (size_t i = 0; i < count; i++) {
        if (distinct == 0 || sorted[i] != sorted[distinct - 1]) sorted[distinct++] = sorted[i];
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t *found = bsearch(&codes[i], sorted, distinct, sizeof *sorted, compare_u64);
        numbers[i] = (uint32_t)(found - sorted);
    }
    memcpy(codes, sorted, distinct * sizeof *codes);
    return (uint32_t)distinct;
}

static void number_grams(dl_window *window, const uint32_t *symbols)
{
    size_t count = window->count;
    DL_AUTOFREE uint64_t *codes = dl_calloc(count, sizeof *codes, "window of symbols");
    window->symbols = dl_calloc(count, sizeof *window->symbols, "window of symbols");
    window->grams = dl_calloc(count, sizeof *window->grams, "window of symbols");
    for (size_t i = 0; i < count; i++)
        codes[i] = symbols[i];
    window->kind_count = number_codes(codes, count, window->symbols);
    window->kinds = dl_calloc(window->kind_count, sizeof *window->kinds, "window of symbols");
    for (uint32_t kind = 0; kind < window->kind_count; kind++)
        window->kinds[kind] = (uint32_t)codes[kind];
    for (size_t i = 0; i < count; i++)
        codes[i] = gram_code(window->symbols, i, window->gram_length);
    window->gram_count = number_codes(codes, count, window->grams);
}

/* Initializes the grams of `symbols` [count <= DL_PERIOD_SYMBOLS], of 1 .. DL_ANCHOR_KINDS symbols
 * each. */
static void window_init(dl_window *window, const uint32_t *symbols, size_t count,
                        size_t gram_length)
{
    *window = (dl_window){.count = count, .gram_length = gram_length};
    number_grams(window, symbols);
    window->gram_first = dl_calloc((size_t)window->gram_count + 2, sizeof(size_t), "grams");
    window->gram_places = dl_calloc(count, sizeof(size_t), "grams");
    size_t *next = window->gram_first + 1; /* after the loops, next[g] is the end of gram g's
                                            * places */
    for (size_t i = 0; i < count; i++)
        next[window->grams[i] + 1]++;
    for (uint32_t g = 0; g < window->gram_count; g++)
        next[g + 1] += next[g];
    for (size_t i = 0; i < count; i++)
        window->gram_places[next[window->grams[i]]++] = i;
}

/* Returns the anchor of gram g. */
static dl_anchor window_anchor(const dl_window *window, uint32_t gram)
{
    size_t place = window->gram_places[window->gram_first[gram]];
    dl_anchor anchor = {.length =
                            place + 1 < window->gram_length ? place + 1 : window->gram_length};
    for (size_t i = 0; i < anchor.length; i++)
        anchor.kinds[i] = window->kinds[window->symbols[place + 1 - anchor.length + i]];
    return anchor;
}

static void window_free(dl_window *window)
{
    free(window->symbols);
    free(window->kinds);
    free(window->grams);
    free(window->gram_first);
    free(window->gram_places);
    *window = (dl_window){0};
}

/* Regularity of the distances between an anchor's places. */
typedef struct regularity {
    double near;      /* share of the distances between 0.5 and 1.5 times their median */
    double covered;   /* sum of these distances */
    double variation; /* squared coefficient of variation of all distances */
    size_t median;
} regularity;

/* Returns the regularity of places[count >= 3]; `distances` is scratch for count - 1 values. */
static regularity regularity_of(const size_t *places, size_t count, size_t *distances)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        distances[i] = places[i + 1] - places[i];
        sum += (double)distances[i];
        squares += (double)distances[i] * (double)distances[i];
    }
    size_t number = count - 1, near = 0;
    qsort(distances, number, sizeof *distances, dl_compare_sizes);
    size_t median = distances[number / 2];
    double covered = 0;
    for (size_t i = 0; i < number; i++) {
        if (2 * distances[i] < median || 2 * distances[i] > 3 * median) continue;
        near++;
        covered += (double)distances[i];
    }
    double mean = sum / (double)number;
    return (regularity){.near = (double)near / (double)number,
                        .covered = covered,
                        .variation = squares / (double)number / (mean * mean) - 1,
                        .median = median};
}

/* Returns whether the units repeat in sufficiently similar order. */
static bool units_in_order(const dl_units *units)
{
    if (units->count < 2) return false;
    double gain_min = DL_ORDER_GAIN_MIN * (1 + 2 / (double)units->count);
    return dl_units_order_match(units) >= DL_ORDER_MIN && dl_units_order_gain(units) >= gain_min;
}

/* Returns whether the units that start at the gram's occurrences repeat each other; fills the
 * cutting. `distance` is the median distance between successive occurrences. */
static bool evaluate(const dl_window *window, const uint8_t *roles, size_t distance,
                     dl_cutting *cutting)
{
    const dl_units units = {.symbols = window->symbols,
                            .cuts = window->gram_places + window->gram_first[cutting->gram],
                            .count = cutting->units,
                            .end = window->count,
                            .kind_count = window->kind_count};
    if (!units_in_order(&units)) return false;
    DL_AUTOFREE uint32_t *content =
        dl_calloc(window->kind_count, sizeof *content, "content of units");
    uint32_t kinds = 0;
    size_t length = dl_units_content(&units, content);
    cutting->explained = dl_units_explained(&units, content);
    cutting->roles = 0;
    for (uint32_t kind = 0; kind < window->kind_count; kind++) {
        kinds += content[kind] > 0;
        if (content[kind] > 0) cutting->roles |= roles[window->kinds[kind]];
    }
    /* A single repeated kind is not a step: every launch would be one. */
    if (kinds < 2) return false;
    /* Many short units beside a few long ones that hold most of the symbols are not a
     * repetition. */
    return cutting->explained >= DL_EXPLAINED_MIN && length <= 2 * distance;
}

/* Finds the most regular anchor among those that occur repeats * (1 +- tolerance) times, at least
 * 3: three quarters of its distances lie between 0.5 and 1.5 times their median, and the sum of
 * these distances is the largest. Returns false if no anchor qualifies, or if `evaluate` rejects
 * the units of the anchor found. `roles` as in dl_sequence. */
static bool window_cut(const dl_window *window, double repeats, double tolerance,
                       const uint8_t *roles, dl_cutting *cutting)
{
    DL_AUTOFREE size_t *distances =
        dl_calloc(window->count, sizeof *distances, "distances of anchors");
    regularity best = {.covered = -1};
    for (uint32_t gram = 0; gram < window->gram_count; gram++) {
        size_t count = window->gram_first[gram + 1] - window->gram_first[gram];
        if (count < 3 || (double)count < repeats * (1 - tolerance) ||
            (double)count > repeats * (1 + tolerance))
            continue;
        regularity found =
            regularity_of(window->gram_places + window->gram_first[gram], count, distances);
        /* Short distances within one phase of the run may be more regular than those of steps. */
        if (found.near < REGULAR_MIN || found.covered < best.covered ||
            (found.covered <= best.covered && found.variation >= best.variation))
            continue;
        best = found;
        cutting->gram = gram;
        cutting->units = count;
    }
    return best.covered > 0 && evaluate(window, roles, best.median, cutting);
}

static bool anchored(const dl_anchor *anchor, const uint32_t *symbols, size_t place)
{
    if (place + 1 < anchor->length) return false;
    return memcmp(symbols + place + 1 - anchor->length, anchor->kinds,
                  anchor->length * sizeof *anchor->kinds) == 0;
}

/* A growing list of cuts. */
typedef struct cut_list {
    size_t *cuts;
    size_t count;
} cut_list;

/* Returns the number of symbols around `place` that equal those around the cut `model`, without
 * the anchor, which was lost at `place`; 0 if either side has fewer than SIDE_EQUAL_MIN equal
 * symbols. */
static size_t sides_equal(const dl_sequence *sequence, size_t place, size_t model)
{
    size_t before = 0, after = 0;
    for (size_t i = 0; i < SIDE; i++) {
        if (place + i < sequence->count && model + 1 + i < sequence->count)
            after += sequence->symbols[place + i] == sequence->symbols[model + 1 + i];
        if (place > i && model > i)
            before += sequence->symbols[place - 1 - i] == sequence->symbols[model - 1 - i];
    }
    return before >= SIDE_EQUAL_MIN && after >= SIDE_EQUAL_MIN ? before + after : 0;
}

/* Returns the most probable place of the lost anchor that ends the unit starting at `first`: about
 * `length` symbols later, where the symbols match those around the cut `model`; 0 if no place
 * matches. */
static size_t find_lost(const dl_sequence *sequence, size_t first, size_t length, size_t end,
                        size_t model)
{
    size_t expected = first + length, best = 0, most = SIDES_EQUAL_MIN - 1;
    for (size_t off = 0; off <= 3 * length / 10; off++) {
        for (int sign = 1; sign >= -1; sign -= 2) {
            size_t place = sign > 0 ? expected + off : expected - off;
            if (place + length / 2 > end) continue;
            size_t equal = sides_equal(sequence, place, model);
            if (equal <= most) continue;
            most = equal;
            best = place;
        }
    }
    return best;
}

/* Returns a cut whose unit has about the usual length, with room for its sides. */
static size_t choose_model(const dl_units *units, size_t *length)
{
    size_t chosen[101];
    size_t count = dl_units_choose(units, chosen, 101);
    for (size_t i = 0; i < count; i++)
        chosen[i] = dl_unit_end(units, chosen[i]) - units->cuts[chosen[i]];
    qsort(chosen, count, sizeof *chosen, dl_compare_sizes);
    *length = count > 0 ? chosen[count / 2] : 0;
    for (size_t i = 1; i < units->count; i++) {
        size_t own = dl_unit_end(units, i) - units->cuts[i];
        size_t before = units->cuts[i] - units->cuts[i - 1];
        if (own == *length && before == *length) return units->cuts[i];
    }
    return units->count > 1 ? units->cuts[1] : 0;
}

/* Cuts the whole sequence at each anchor, and at the probable places of lost anchors. Returns
 * *cut_count cuts; the caller frees them. */
static size_t *anchor_cuts(const dl_anchor *anchor, const dl_sequence *sequence, size_t *cut_count)
{
    cut_list plain = {0}, list = {0};
    for (size_t i = 0; i < sequence->count; i++) {
        if (anchored(anchor, sequence->symbols, i)) DL_APPEND(plain.cuts, plain.count, "cuts") = i;
    }
    const dl_units units = {.symbols = sequence->symbols,
                            .cuts = plain.cuts,
                            .count = plain.count,
                            .end = sequence->count,
                            .kind_count = sequence->kind_count};
    size_t length = 0, model = choose_model(&units, &length);
    for (size_t i = 0; i < plain.count; i++) {
        size_t first = plain.cuts[i], end = dl_unit_end(&units, i);
        DL_APPEND(list.cuts, list.count, "cuts") = first;
        while (length > 0 && 2 * (end - first) > 3 * length) {
            first = find_lost(sequence, first, length, end, model);
            if (first == 0) break;
            DL_APPEND(list.cuts, list.count, "cuts") = first;
        }
    }
    free(plain.cuts);
    *cut_count = list.count;
    return list.cuts;
}

/* The search tries numbers of units in a geometric series with this factor; the tolerance around
 * each number leaves no gap to the next. */
#define REPEATS_FACTOR 1.12
#define REPEATS_TOLERANCE 0.08
/* Relative tolerance of the number of units implied by a given period: the period is rounded,
 * symbols are lost, and other work lies between units. */
#define UNITS_TOLERANCE 0.25
/* The lag match compares symbols of kinds that occur at most RARE_FACTOR times per unit: the middle
 * LAG_SYMBOLS of them, or three units if these are more, at lags within LAG_TOLERANCE of the mean
 * unit, because lost symbols shorten units. */
#define RARE_FACTOR 1.25
#define LAG_SYMBOLS 6000
#define LAG_TOLERANCE 0.1
/* Minimum relative share of explained symbols: a shorter unit explains less if a block (averaging)
 * lies between only some units. */
#define EXPLAINED_RELATIVE 0.8
#define CUTTINGS_MAX 128
/* Maximum number of a window's cuttings tried on the whole sequence. */
#define TRIES 4
/* Number of final parts of a sequence to try, each half as long as the previous one, and thresholds
 * for units there: chance repetitions are more likely in shorter parts. */
#define LATE_HALVES 6
#define LATE_UNITS_MIN 5
#define LATE_ORDER_MIN 0.95
#define LATE_EXPLAINED_MIN 0.75
#define LATE_LAG_MIN 0.5
/* Minimum number of symbols: fewer repeat by chance. */
#define SYMBOLS_MIN 16
/* Unrelated symbols often form units of fewer than SHORT_UNIT symbols. The lag match of such units
 * at their own length must have a Cohen's kappa, (match - chance) / (1 - chance), of at least
 * SHORT_KAPPA_MIN; chance is the sum of the squared shares of the kinds. */
#define SHORT_UNIT 10
#define SHORT_KAPPA_MIN 0.5

/* Cuttings found so far. */
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
    if (!window_cut(window, repeats, tolerance, sequence->roles, &cutting)) return;
    list->items[list->count++] = cutting;
}

static int phases_of(const dl_cutting *cutting)
{
    return __builtin_popcount(cutting->roles & DL_ROLE_PHASES);
}

/* Returns the cutting with the shortest units, by rule 2 of steps_internal.h; NULL without
 * cuttings. */
static const dl_cutting *choose_cutting(const cutting_list *list)
{
    int phases = 0;
    uint8_t input = 0;
    double explained = 0;
    for (size_t i = 0; i < list->count; i++)
        phases = phases_of(&list->items[i]) > phases ? phases_of(&list->items[i]) : phases;
    for (size_t i = 0; i < list->count; i++)
        if (phases_of(&list->items[i]) == phases) input |= list->items[i].roles & DL_ROLE_INPUT;
    for (size_t i = 0; i < list->count; i++) {
        const dl_cutting *cutting = &list->items[i];
        if (phases_of(cutting) == phases && (cutting->roles & DL_ROLE_INPUT) == input &&
            cutting->explained > explained)
            explained = cutting->explained;
    }
    const dl_cutting *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const dl_cutting *cutting = &list->items[i];
        if (phases_of(cutting) != phases || (cutting->roles & DL_ROLE_INPUT) != input) continue;
        if (input == 0 && cutting->explained < EXPLAINED_RELATIVE * explained) continue;
        if (best == NULL || cutting->units > best->units) best = cutting;
    }
    return best;
}

/* Returns the best lag match of the rare symbols at lags around the mean unit; 0 without rare
 * kinds. */
static double rare_lag_match(const dl_period *period, const dl_sequence *sequence)
{
    size_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "rare symbols"), count = 0;
    DL_AUTOFREE uint32_t *rare = dl_calloc(sequence->count, sizeof *rare, "rare symbols");
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
    return best;
}

/* Returns whether the units repeat more than by chance; units of SHORT_UNIT symbols or more are not
 * tested. */
static bool is_no_chance(const dl_period *period, const dl_sequence *sequence)
{
    if (period->length >= SHORT_UNIT) return true;
    if (period->length == 0 || period->length >= sequence->count) return false;
    DL_AUTOFREE size_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "shares of kinds");
    for (size_t i = 0; i < sequence->count; i++)
        counts[sequence->symbols[i]]++;
    double chance = 0, match = lag_match(sequence->symbols, sequence->count, period->length);
    for (uint32_t kind = 0; kind < sequence->kind_count; kind++) {
        double share = (double)counts[kind] / (double)sequence->count;
        chance += share * share;
    }
    return match - chance >= SHORT_KAPPA_MIN * (1 - chance);
}

/* Removes the cuttings whose number of units is within UNITS_TOLERANCE of `units`. */
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

/* Fills `period` by cutting the whole sequence at the cutting's anchor. Returns false, with the
 * period freed, if the units do not repeat well enough. */
static bool try_cutting(dl_period *period, const dl_sequence *sequence, const dl_window *window,
                        const dl_cutting *cutting)
{
    const dl_anchor anchor = window_anchor(window, cutting->gram);
    *period = (dl_period){0};
    period->cuts = anchor_cuts(&anchor, sequence, &period->cut_count);
    dl_period_measure(period, sequence);
    dl_period_rotate(period, sequence);
    dl_period_measure(period, sequence);
    const dl_units units = dl_period_units(period, sequence);
    if (units_in_order(&units) && period->explained >= DL_EXPLAINED_MIN &&
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

/* Finds the period in symbols[count], and cuts `sequence` by it; given = 0: unknown period. */
static bool find_in(dl_period *period, const uint32_t *symbols, size_t count, size_t gram_length,
                    const dl_sequence *sequence, size_t given)
{
    dl_window window;
    window_init(&window, symbols, count, gram_length);
    cutting_list list = {.count = 0};
    collect_cuttings(&list, &window, sequence, given);
    bool found = false;
    for (int tries = 0; tries < TRIES && !found; tries++) {
        const dl_cutting *best = choose_cutting(&list);
        if (best == NULL) break;
        found = try_cutting(period, sequence, &window, best);
        if (!found) forget_units(&list, best->units);
    }
    window_free(&window);
    return found;
}

/* Copies the symbols of the rarest kinds, except those that occur once, to `thin`, at most
 * DL_PERIOD_SYMBOLS. Returns their number. */
static size_t thin_out(const dl_sequence *sequence, uint32_t *thin)
{
    DL_AUTOFREE size_t *counts = dl_calloc(sequence->kind_count, sizeof *counts, "rare symbols");
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
    return kept;
}

/* Searches units in the middle of the sequence, after the warm-up; then, in a sequence of more than
 * DL_PERIOD_SYMBOLS symbols without a given period, among its rare kinds. */
static bool find_units(dl_period *period, const dl_sequence *sequence, size_t given)
{
    size_t count = sequence->count < DL_PERIOD_SYMBOLS ? sequence->count : DL_PERIOD_SYMBOLS;
    const uint32_t *middle = sequence->symbols + (sequence->count - count) / 2;
    for (size_t length = 1; length <= DL_ANCHOR_KINDS; length++) {
        if (find_in(period, middle, count, length, sequence, given)) return true;
    }
    if (count == sequence->count || given > 0) return false;
    DL_AUTOFREE uint32_t *thin = dl_calloc(sequence->count, sizeof *thin, "rare symbols");
    size_t kept = thin_out(sequence, thin);
    return kept > 0 && find_in(period, thin, kept, 1, sequence, 0);
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

dl_sequence dl_sequence_from(const dl_sequence *sequence, size_t first)
{
    dl_sequence rest = *sequence;
    rest.symbols += first;
    rest.idle_ns += first;
    rest.start_ns += first;
    rest.count -= first;
    return rest;
}

/* Finds the units of the part that starts at `first`; cuts are indices in the whole sequence. */
static bool find_from(dl_period *period, const dl_sequence *sequence, size_t first, size_t given)
{
    const dl_sequence rest = dl_sequence_from(sequence, first);
    if (!find_units(period, &rest, given)) return false;
    if (period->cut_count < LATE_UNITS_MIN || period->order_match < LATE_ORDER_MIN ||
        period->explained < LATE_EXPLAINED_MIN || period->lag_match < LATE_LAG_MIN) {
        dl_period_free(period);
        return false;
    }
    for (size_t i = 0; i < period->cut_count; i++)
        period->cuts[i] += first;
    return true;
}

/* Returns the start of the repeated units, of which `period` holds the last: goes back from its
 * first cut by one unit length at a time, to the place after which content symbols most outnumber
 * others. */
static size_t first_of_late(const dl_period *period, const dl_sequence *sequence)
{
    DL_AUTOFREE uint32_t *left = dl_calloc(sequence->kind_count, sizeof *left, "content of units");
    memcpy(left, period->content, sequence->kind_count * sizeof *left);
    size_t place = period->cuts[0], first = place;
    int64_t score = 0, best = 0;
    while (place >= period->length) {
        place -= period->length;
        const size_t common = dl_units_common(sequence->symbols, place, place + period->length,
                                              period->content, left);
        score += 2 * (int64_t)common - (int64_t)period->length;
        if (score <= best) continue;
        best = score;
        first = place;
    }
    return first;
}

void dl_period_find_late(dl_period *period, const dl_sequence *sequence, size_t given)
{
    *period = (dl_period){0};
    size_t first = sequence->count / 2;
    bool found = false;
    for (int half = 0; half < LATE_HALVES && !found; half++) {
        if (sequence->count - first < SYMBOLS_MIN) break;
        found = find_from(period, sequence, first, given);
        first += (sequence->count - first) / 2;
    }
    if (!found) {
        period->reason = "no part of the device work repeats regularly";
        return;
    }
    dl_period whole = {0};
    if (!find_from(&whole, sequence, first_of_late(period, sequence), given)) return;
    dl_period_free(period);
    *period = whole;
}

#define GIVEN_MATCH_MIN 0.8
#define MULTIPLE_MATCH 0.98 /* minimum ratio of the match at lag / parts to the match at lag */

/* Number of symbols of a quick comparison before a full one. */
#define PROBE_SYMBOLS 1000

/* Lag match over at most `most` symbols. */
static double given_match(const dl_sequence *sequence, size_t lag, size_t most)
{
    const size_t used = sequence->count - lag < most ? sequence->count : lag + most;
    return lag_match(sequence->symbols, used, lag);
}

/* Returns whether the sequence repeats equally well at a fraction of the lag. */
static bool is_multiple(const dl_sequence *sequence, size_t lag, double match)
{
    for (size_t parts = 2; parts <= lag; parts++) {
        if (lag % parts == 0 &&
            given_match(sequence, lag / parts, DL_PERIOD_SYMBOLS) >= MULTIPLE_MATCH * match)
            return true;
    }
    return false;
}

bool dl_period_find_given(dl_period *period, const dl_sequence *sequence, size_t given)
{
    const size_t least = given - given / 4, most = given + given / 4;
    size_t lag = 0, count = 0;
    double best = GIVEN_MATCH_MIN;
    *period = (dl_period){0};
    for (size_t l = least; l > 0 && l <= most && 2 * l <= sequence->count; l++) {
        if (given_match(sequence, l, PROBE_SYMBOLS) < GIVEN_MATCH_MIN / 2) continue;
        const double match = given_match(sequence, l, DL_PERIOD_SYMBOLS);
        if (match <= best) continue;
        best = match;
        lag = l;
    }
    if (lag == 0 || is_multiple(sequence, lag, best)) return false;
    DL_AUTOFREE size_t *cuts = dl_calloc(sequence->count / lag + 1, sizeof *cuts, "cuts");
    for (size_t place = 0; place < sequence->count; place += lag)
        cuts[count++] = place;
    dl_period_of_cuts(period, sequence, cuts, count);
    period->lag_match = best;
    return true;
}
