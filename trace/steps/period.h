/* Period detection: where the repeated units of a sequence of symbols begin.
 *
 * The match of a sequence with itself some lag later, which others detect periods by, is only a
 * figure of merit here: as soon as one symbol in a hundred is lost, or blocks lie between the
 * units, the units shift against each other and no lag matches well. Rare kinds keep their
 * distances.
 *
 * 1. Anchors. A kind that occurs about once a unit, at regular distances, cuts the sequence; if no
 *    kind does, a pair or triple of successive kinds. Every number of units is tried, in steps of
 *    12 %: at each the most regular kind is taken, and what it cuts must hold the same symbols in
 *    the same order.
 * 2. Of several such cuttings (layers, mini-batches, cycles of mini-batches and an averaging) the
 *    shortest units are taken, of those that hold a copy of a batch from the host if any do, for a
 *    step reads its batch; else of those that explain at least 0.8 of what the best ones explain.
 * 3. Units around a lost anchor are cut where the symbols look most like those around other cuts.
 * 4. The cuts move to the place of the unit with the largest median idle time before it. A place
 *    where copies from the host begin, and one behind an optimizer's kernel, are each credited 10 %
 *    of the unit's time, because a busy device waits nowhere and a starved one everywhere.
 *
 * At most DL_PERIOD_SYMBOLS symbols are looked at to find the period, then all of them once to cut.
 */
#ifndef DL_TRACE_PERIOD_H
#define DL_TRACE_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/symbols.h"

#define DL_PERIOD_SYMBOLS 50000

/* A sequence, borrowed. */
typedef struct dl_sequence {
    const uint32_t *symbols; /* [count], each below kind_count */
    const int64_t *idle_ns;  /* [count] before each symbol */
    const int64_t *start_ns; /* [count] */
    const uint8_t *roles;    /* [kind_count] of dl_symbol_role */
    size_t count;
    uint32_t kind_count;
} dl_sequence;

/* Owns its arrays; release with dl_period_free. */
typedef struct dl_period {
    size_t *cuts; /* [cut_count] ascending places at which a unit begins */
    size_t cut_count;
    uint32_t *content;  /* [kind_count] how often the usual unit holds each kind */
    size_t length;      /* sum of content: symbols of the usual unit */
    double lag_match;   /* 0..1: share of the symbols of rare kinds that equal the one a unit later,
                           at the best of the lags within 10 % of the mean unit */
    double order_match; /* 0..1: as dl_units_order_match */
    double explained;   /* 0..1: as dl_units_explained */
    const char *reason; /* why cut_count is 0, else NULL; static text */
} dl_period;

/* Finds the units of `sequence`; zero `period` before. given > 0 is the number of symbols of a
 * unit, which then is not looked for. Fewer than 3 units, or no period, gives cut_count 0 and the
 * reason. */
void dl_period_find(dl_period *period, const dl_sequence *sequence, size_t given);

/* Cuts at every place of `cuts[cut_count]` (ascending) as they are: content and explained only.
 * Copies `cuts`. */
void dl_period_of_cuts(dl_period *period, const dl_sequence *sequence, const size_t *cuts,
                       size_t cut_count);

/* Moves the cuts of `period` as point 4 above says. */
void dl_period_rotate(dl_period *period, const dl_sequence *sequence);

/* Sets content, length, order_match and explained for the present cuts. */
void dl_period_measure(dl_period *period, const dl_sequence *sequence);

/* Joins units that only accumulate gradients: where the usual unit holds no optimizer's kernel, and
 * every k-th one, k >= 2, does, k units are one, ending with that one. What precedes the first whole
 * one is in no unit then. */
void dl_period_join(dl_period *period, const dl_sequence *sequence);

void dl_period_free(dl_period *period);

#endif
