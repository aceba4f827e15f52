#include "trace/steps/period_anchor.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define REGULAR_MIN 0.75

/* Symbols on each side of a cut that are compared to find a lost anchor; how many of them must be
 * equal on each side, and in sum. */
#define SIDE 8
#define SIDE_EQUAL_MIN 3
#define SIDES_EQUAL_MIN 8

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int compare_sizes(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* `length` symbols up to number `last`. A window has fewer than 2^16 kinds, so a gram fits. */
static uint64_t gram_code(const uint32_t *symbols, size_t last, size_t length)
{
    uint64_t code = 0;
    for (size_t i = 0; i < length && i <= last; i++)
        code |= (uint64_t)(symbols[last - i] + 1) << 20 * i;
    return code;
}

/* Replaces each of codes[count] by the number of its value in numbers[count]; sorts the distinct
 * ones to the front of `codes` and returns how many there are. */
static uint32_t number_codes(uint64_t *codes, size_t count, uint32_t *numbers)
{
    uint64_t *sorted = dl_calloc(count, sizeof *sorted, "window of symbols");
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
    free(sorted);
    return (uint32_t)distinct;
}

static void number_grams(dl_window *window, const uint32_t *symbols)
{
    size_t count = window->count;
    uint64_t *codes = dl_calloc(count, sizeof *codes, "window of symbols");
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
    free(codes);
}

void dl_window_init(dl_window *window, const uint32_t *symbols, size_t count, size_t gram_length)
{
    *window = (dl_window){.count = count, .gram_length = gram_length};
    number_grams(window, symbols);
    window->gram_first = dl_calloc((size_t)window->gram_count + 2, sizeof(size_t), "grams");
    window->gram_places = dl_calloc(count, sizeof(size_t), "grams");
    size_t *next = window->gram_first + 1; /* becomes the end of each gram's places */
    for (size_t i = 0; i < count; i++)
        next[window->grams[i] + 1]++;
    for (uint32_t g = 0; g < window->gram_count; g++)
        next[g + 1] += next[g];
    for (size_t i = 0; i < count; i++)
        window->gram_places[next[window->grams[i]]++] = i;
}

dl_anchor dl_window_anchor(const dl_window *window, uint32_t gram)
{
    size_t place = window->gram_places[window->gram_first[gram]];
    dl_anchor anchor = {.length =
                            place + 1 < window->gram_length ? place + 1 : window->gram_length};
    for (size_t i = 0; i < anchor.length; i++)
        anchor.kinds[i] = window->kinds[window->symbols[place + 1 - anchor.length + i]];
    return anchor;
}

void dl_window_free(dl_window *window)
{
    free(window->symbols);
    free(window->kinds);
    free(window->grams);
    free(window->gram_first);
    free(window->gram_places);
    *window = (dl_window){0};
}

size_t dl_window_occurrences(const dl_window *window, uint32_t gram)
{
    return window->gram_first[gram + 1] - window->gram_first[gram];
}

/* How regular the distances of an anchor's places are. */
typedef struct regularity {
    double near;      /* share of the distances near their median */
    double covered;   /* sum of these distances */
    double variation; /* squared coefficient of variation of all distances */
    size_t median;
} regularity;

/* Of places[count >= 3]; `distances` is scratch for count - 1. */
static regularity regularity_of(const size_t *places, size_t count, size_t *distances)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        distances[i] = places[i + 1] - places[i];
        sum += (double)distances[i];
        squares += (double)distances[i] * (double)distances[i];
    }
    size_t number = count - 1, near = 0;
    qsort(distances, number, sizeof *distances, compare_sizes);
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

bool dl_units_in_order(const dl_units *units)
{
    if (units->count < 2) return false;
    double gain_min = DL_ORDER_GAIN_MIN * (1 + 2 / (double)units->count);
    return dl_units_order_match(units) >= DL_ORDER_MIN && dl_units_order_gain(units) >= gain_min;
}

/* Whether the units that the gram's places cut repeat each other; fills the cutting. `distance` is
 * the median one of the places. */
static bool judge(const dl_window *window, const uint8_t *roles, size_t distance,
                  dl_cutting *cutting)
{
    const dl_units units = {.symbols = window->symbols,
                            .cuts = window->gram_places + window->gram_first[cutting->gram],
                            .count = cutting->units,
                            .end = window->count,
                            .kind_count = window->kind_count};
    if (!dl_units_in_order(&units)) return false;
    uint32_t *content = dl_calloc(window->kind_count, sizeof *content, "content of units");
    uint32_t kinds = 0;
    size_t length = dl_units_content(&units, content);
    cutting->explained = dl_units_explained(&units, content);
    cutting->has_input = false;
    for (uint32_t kind = 0; kind < window->kind_count; kind++) {
        kinds += content[kind] > 0;
        if (content[kind] > 0 && roles[window->kinds[kind]] & DL_ROLE_INPUT)
            cutting->has_input = true;
    }
    free(content);
    /* One kind over and over is no step: every launch would be one. */
    if (kinds < 2) return false;
    /* Many short units beside few long ones that hold most of the symbols are no repetition. */
    return cutting->explained >= DL_EXPLAINED_MIN && length <= 2 * distance;
}

bool dl_window_cut(const dl_window *window, double repeats, double tolerance, const uint8_t *roles,
                   dl_cutting *cutting)
{
    size_t *distances = dl_calloc(window->count, sizeof *distances, "distances of anchors");
    regularity best = {.covered = -1};
    for (uint32_t gram = 0; gram < window->gram_count; gram++) {
        size_t count = dl_window_occurrences(window, gram);
        if (count < 3 || (double)count < repeats * (1 - tolerance) ||
            (double)count > repeats * (1 + tolerance))
            continue;
        regularity found =
            regularity_of(window->gram_places + window->gram_first[gram], count, distances);
        /* Short distances within some phase of the run may be more regular than a step's. */
        if (found.near < REGULAR_MIN || found.covered < best.covered ||
            (found.covered <= best.covered && found.variation >= best.variation))
            continue;
        best = found;
        cutting->gram = gram;
        cutting->units = count;
    }
    free(distances);
    return best.covered > 0 && judge(window, roles, best.median, cutting);
}

static bool anchored(const dl_anchor *anchor, const uint32_t *symbols, size_t place)
{
    if (place + 1 < anchor->length) return false;
    return memcmp(symbols + place + 1 - anchor->length, anchor->kinds,
                  anchor->length * sizeof *anchor->kinds) == 0;
}

/* Cuts with the sequence that they cut, growing. */
typedef struct cut_list {
    size_t *cuts;
    size_t count, capacity;
} cut_list;

static void add_cut(cut_list *list, size_t place)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->cuts = dl_realloc(list->cuts, list->capacity, sizeof *list->cuts, "cuts");
    }
    list->cuts[list->count++] = place;
}

/* Equal symbols around `place` and around the cut `model`, leaving out the anchor, which only the
 * model still has; 0 unless both sides show some. */
static size_t sides_equal(const dl_sequence *sequence, size_t place, size_t model)
{
    size_t before = 0, behind = 0;
    for (size_t i = 0; i < SIDE; i++) {
        if (place + i < sequence->count && model + 1 + i < sequence->count)
            behind += sequence->symbols[place + i] == sequence->symbols[model + 1 + i];
        if (place > i && model > i)
            before += sequence->symbols[place - 1 - i] == sequence->symbols[model - 1 - i];
    }
    return before >= SIDE_EQUAL_MIN && behind >= SIDE_EQUAL_MIN ? before + behind : 0;
}

/* Where a unit that begins at `first` and whose anchor is `length` later was lost probably ends; 0
 * if nothing there looks like the surroundings of `model`. */
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

/* A cut whose unit has about the usual length, with room for its sides. */
static size_t choose_model(const dl_units *units, size_t *length)
{
    size_t chosen[101];
    size_t count = dl_units_choose(units, chosen, 101);
    for (size_t i = 0; i < count; i++)
        chosen[i] = dl_unit_end(units, chosen[i]) - units->cuts[chosen[i]];
    qsort(chosen, count, sizeof *chosen, compare_sizes);
    *length = count > 0 ? chosen[count / 2] : 0;
    for (size_t i = 1; i < units->count; i++) {
        size_t own = dl_unit_end(units, i) - units->cuts[i];
        size_t before = units->cuts[i] - units->cuts[i - 1];
        if (own == *length && before == *length) return units->cuts[i];
    }
    return units->count > 1 ? units->cuts[1] : 0;
}

size_t *dl_anchor_cuts(const dl_anchor *anchor, const dl_sequence *sequence, size_t *cut_count)
{
    cut_list plain = {0}, list = {0};
    for (size_t i = 0; i < sequence->count; i++) {
        if (anchored(anchor, sequence->symbols, i)) add_cut(&plain, i);
    }
    const dl_units units = {.symbols = sequence->symbols,
                            .cuts = plain.cuts,
                            .count = plain.count,
                            .end = sequence->count,
                            .kind_count = sequence->kind_count};
    size_t length = 0, model = choose_model(&units, &length);
    for (size_t i = 0; i < plain.count; i++) {
        size_t first = plain.cuts[i], end = dl_unit_end(&units, i);
        add_cut(&list, first);
        while (length > 0 && 2 * (end - first) > 3 * length) {
            first = find_lost(sequence, first, length, end, model);
            if (first == 0) break;
            add_cut(&list, first);
        }
    }
    free(plain.cuts);
    *cut_count = list.count;
    return list.cuts;
}
