/* Common content of the units of a cut sequence, the similarity of their order, and both for the
 * units of a period. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/steps_internal.h"

/* Maximum number of units used for the quartile of a count; more would change it little. */
#define CONTENT_UNITS 400

/* Limits of dl_units_order_match: pairs of units compared, and symbols skipped per mismatch. */
#define ORDER_PAIRS 100
#define SKIP_MAX 16

/* Number of symbols of one kind in one unit. */
typedef struct kind_count {
    uint32_t kind, count;
} kind_count;

DL_ORDER(compare_kinds, kind_count, DL_BY(kind), DL_BY(count));

size_t dl_unit_end(const dl_units *units, size_t i)
{
    return i + 1 < units->count ? units->cuts[i + 1] : units->end;
}

static size_t length_of(const dl_units *units, size_t i)
{
    return dl_unit_end(units, i) - units->cuts[i];
}

#define LONE_OF 4 /* minimum number of units of which a lone longest one is not usual */

/* Length of the unit that holds the middle symbol of the first `count` units sorted by length,
 * without one that is over twice as long as any other. */
static size_t usual_length(const dl_units *units, size_t count)
{
    DL_AUTOFREE size_t *lengths = dl_calloc(count, sizeof *lengths, "lengths of units");
    size_t sum = 0, passed = 0, usual = 0;
    for (size_t i = 0; i < count; i++)
        sum += lengths[i] = length_of(units, i);
    qsort(lengths, count, sizeof *lengths, dl_compare_sizes);
    if (count >= LONE_OF && lengths[count - 1] > 2 * lengths[count - 2]) sum -= lengths[--count];
    for (size_t i = 0; i < count && 2 * passed < sum; i++)
        passed += usual = lengths[i];
    return usual;
}

size_t dl_units_choose(const dl_units *units, size_t *chosen, size_t most)
{
    size_t count = units->count > 1 ? units->count - 1 : units->count;
    if (count == 0) return 0;
    size_t usual = usual_length(units, count), fit = 0, found = 0, seen = 0;
    for (size_t i = 0; i < count; i++)
        fit += 2 * length_of(units, i) >= usual && length_of(units, i) <= 2 * usual;
    size_t every = (fit + most - 1) / most;
    for (size_t i = 0; i < count; i++) {
        if (2 * length_of(units, i) < usual || length_of(units, i) > 2 * usual) continue;
        if (seen++ % every == 0) chosen[found++] = i;
    }
    return found;
}

/* Returns the sorted pairs of the chosen units' kinds and counts, *pair_count of them. */
static kind_count *count_kinds(const dl_units *units, const size_t *chosen, size_t chosen_count,
                               size_t *pair_count)
{
    size_t most = 0, found = 0;
    for (size_t i = 0; i < chosen_count; i++)
        most += length_of(units, chosen[i]);
    kind_count *pairs = dl_calloc(most, sizeof *pairs, "content of units");
    DL_AUTOFREE uint32_t *counts = dl_calloc(units->kind_count, sizeof *counts, "content of units");
    for (size_t i = 0; i < chosen_count; i++) {
        size_t first = units->cuts[chosen[i]], end = dl_unit_end(units, chosen[i]);
        for (size_t place = first; place < end; place++)
            counts[units->symbols[place]]++;
        for (size_t place = first; place < end; place++) {
            uint32_t kind = units->symbols[place];
            if (counts[kind] > 0) pairs[found++] = (kind_count){kind, counts[kind]};
            counts[kind] = 0;
        }
    }
    qsort(pairs, found, sizeof *pairs, compare_kinds);
    *pair_count = found;
    return pairs;
}

size_t dl_units_content(const dl_units *units, uint32_t *content)
{
    size_t chosen[CONTENT_UNITS], pair_count = 0, sum = 0;
    memset(content, 0, units->kind_count * sizeof *content);
    size_t chosen_count = dl_units_choose(units, chosen, CONTENT_UNITS);
    DL_AUTOFREE kind_count *pairs = count_kinds(units, chosen, chosen_count, &pair_count);
    /* A quarter of the units may have a lower count; units without the kind have no pair. */
    size_t below = chosen_count / 4;
    DL_GROUPS (first, end, pair_count, pairs[end].kind == pairs[first].kind) {
        size_t without = chosen_count - (end - first);
        if (without > below) continue;
        content[pairs[first].kind] = pairs[first + below - without].count;
        sum += content[pairs[first].kind];
    }
    return sum;
}

size_t dl_units_common(const uint32_t *symbols, size_t first, size_t end, const uint32_t *content,
                       uint32_t *left)
{
    size_t common = 0;
    for (size_t i = first; i < end; i++) {
        if (left[symbols[i]] == 0) continue;
        left[symbols[i]]--;
        common++;
    }
    for (size_t i = first; i < end; i++)
        left[symbols[i]] = content[symbols[i]];
    return common;
}

double dl_units_explained(const dl_units *units, const uint32_t *content)
{
    if (units->end == 0) return 0;
    DL_AUTOFREE uint32_t *left = dl_calloc(units->kind_count, sizeof *left, "content of units");
    memcpy(left, content, units->kind_count * sizeof *left);
    size_t head_end = units->count > 0 ? units->cuts[0] : units->end;
    size_t common = dl_units_common(units->symbols, 0, head_end, content, left);
    for (size_t i = 0; i < units->count; i++)
        common +=
            dl_units_common(units->symbols, units->cuts[i], dl_unit_end(units, i), content, left);
    return (double)common / (double)units->end;
}

/* Advances *a and *b by the smallest total to the next two consecutive equal symbols; returns false
 * if one of them would have to skip more than SKIP_MAX. */
static bool resume(const uint32_t *symbols, size_t *a, size_t a_end, size_t *b, size_t b_end)
{
    for (size_t skip = 1; skip <= 2 * SKIP_MAX; skip++) {
        size_t least = skip > SKIP_MAX ? skip - SKIP_MAX : 0;
        for (size_t i = least; i <= skip - least; i++) {
            size_t x = *a + i, y = *b + skip - i;
            if (x + 1 >= a_end || y + 1 >= b_end) continue;
            if (symbols[x] != symbols[y] || symbols[x + 1] != symbols[y + 1]) continue;
            *a = x;
            *b = y;
            return true;
        }
    }
    return false;
}

/* Share of the shorter part's symbols that a .. a_end and b .. b_end have in the same order. */
static double order_match(const uint32_t *symbols, size_t a, size_t a_end, size_t b, size_t b_end)
{
    size_t shorter = a_end - a < b_end - b ? a_end - a : b_end - b, equal = 0;
    while (a < a_end && b < b_end) {
        if (symbols[a] == symbols[b]) {
            equal++, a++, b++;
        } else if (!resume(symbols, &a, a_end, &b, b_end)) {
            a += SKIP_MAX, b += SKIP_MAX;
        }
    }
    return shorter > 0 ? (double)equal / (double)shorter : 0;
}

/* Median order match over pairs of neighbouring units; with `shifted`, the first unit of each pair
 * is replaced by its second half and the first half of the second unit. */
static double median_match(const dl_units *units, bool shifted)
{
    if (units->count < 2) return 0;
    double matches[ORDER_PAIRS];
    size_t pairs = units->count - 1, every = (pairs + ORDER_PAIRS - 1) / ORDER_PAIRS, count = 0;
    for (size_t i = 0; i < pairs; i += every) {
        size_t first = units->cuts[i], next = units->cuts[i + 1], end = dl_unit_end(units, i + 1);
        size_t a = shifted ? first + (next - first) / 2 : first;
        size_t a_end = shifted ? next + (end - next) / 2 : next;
        matches[count++] = order_match(units->symbols, a, a_end, next, end);
    }
    qsort(matches, count, sizeof *matches, dl_compare_doubles);
    return matches[count / 2];
}

double dl_units_order_match(const dl_units *units)
{
    return median_match(units, false);
}

double dl_units_order_gain(const dl_units *units)
{
    double chance = median_match(units, true);
    return chance < 1 ? (median_match(units, false) - chance) / (1 - chance) : 0;
}

/* --- periods --------------------------------------------------------------------------------- */

dl_units dl_period_units(const dl_period *period, const dl_sequence *sequence)
{
    return (dl_units){.symbols = sequence->symbols,
                      .cuts = period->cuts,
                      .count = period->cut_count,
                      .end = sequence->count,
                      .kind_count = sequence->kind_count};
}

void dl_period_measure(dl_period *period, const dl_sequence *sequence)
{
    const dl_units units = dl_period_units(period, sequence);
    if (period->content == NULL)
        period->content = dl_calloc(sequence->kind_count, sizeof(uint32_t), "content of units");
    period->length = dl_units_content(&units, period->content);
    period->order_match = dl_units_order_match(&units);
    period->explained = dl_units_explained(&units, period->content);
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
