/* What the units of a cut sequence of symbols have in common.
 *
 * The usual content of a unit is, for each kind, the number of symbols that three quarters of the
 * units reach (the lower quartile): lost symbols and blocks that only some units have do not
 * change it. Only units of a usual length are asked, so that forward-only validation batches are
 * not: from half to twice the length of the unit in which the middle symbol lies, when units are
 * sorted by length.
 */
#ifndef DL_TRACE_UNIT_CONTENT_H
#define DL_TRACE_UNIT_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Symbols with the places at which units begin; all borrowed. Unit i is symbols[cuts[i]] to before
 * symbols[cuts[i + 1]], the last one ends at `end`. What lies before cuts[0] is in no unit. */
typedef struct dl_units {
    const uint32_t *symbols;
    const size_t *cuts; /* [count] ascending */
    size_t count, end;
    uint32_t kind_count;
} dl_units;

size_t dl_unit_end(const dl_units *units, size_t i);

/* Indices of at most `most` units of usual length, evenly spread over them, into chosen[most];
 * returns how many. The last unit, which may be cut off, is left out if others are there. */
size_t dl_units_choose(const dl_units *units, size_t *chosen, size_t most);

/* The usual content into content[kind_count]; returns its sum. */
size_t dl_units_content(const dl_units *units, uint32_t *content);

/* Number of symbols in first .. end that are content: of each kind at most content[kind]. left
 * [kind_count] is scratch that must equal `content` before and does so afterwards. */
size_t dl_units_common(const uint32_t *symbols, size_t first, size_t end, const uint32_t *content,
                       uint32_t *left);

/* Share of the symbols up to units->end that are content of their unit (those before the first cut
 * counting as a unit); 0 without symbols. */
double dl_units_explained(const dl_units *units, const uint32_t *content);

/* How well units repeat the order of the unit before: the median, over at most 100 pairs of
 * neighbours, of the share of the shorter unit's symbols that follow each other in both, when both
 * are read side by side and up to 16 symbols may be skipped at a time to find two equal ones again.
 * 1 for exact repetition, 1 - 2d or so if a share d of the symbols was lost; 0 without pairs. */
double dl_units_order_match(const dl_units *units);

/* By how much more than by chance: (match - chance) / (1 - chance), where chance is the order match
 * of units with ones that are moved by half a unit. 1 for exact repetition, about 0 for symbols
 * without order, however few kinds there are. */
double dl_units_order_gain(const dl_units *units);

#endif
