/* Anchors: rare symbols that occur about once a unit, and the cuts that they make. */
#ifndef DL_TRACE_PERIOD_ANCHOR_H
#define DL_TRACE_PERIOD_ANCHOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/steps/period.h"
#include "trace/steps/unit_content.h"

#define DL_ANCHOR_KINDS 3

/* What units must reach. Repeated steps of which 5 % were lost have an order match of 0.9; half the
 * work being in steps is what makes a trace worth cutting. Few units repeat by chance more easily:
 * their order gain must reach DL_ORDER_GAIN_MIN * (1 + 2 / units), 0.67 for three. */
#define DL_ORDER_MIN 0.7
#define DL_ORDER_GAIN_MIN 0.4
#define DL_EXPLAINED_MIN 0.5

/* So many kinds in a row; the cut is at the last one. */
typedef struct dl_anchor {
    uint32_t kinds[DL_ANCHOR_KINDS];
    size_t length;
} dl_anchor;

/* Part of a sequence in which a period is looked for. Owns its arrays. */
typedef struct dl_window {
    uint32_t *symbols; /* [count] kinds, numbered anew from 0 without gaps */
    uint32_t *kinds;   /* [kind_count] their numbers in the sequence */
    uint32_t *grams;   /* [count] `gram_length` symbols up to each, numbered from 0 without gaps */
    size_t count, gram_length;
    uint32_t kind_count, gram_count;
    size_t *gram_first; /* [gram_count + 1] gram g occurs at gram_places[gram_first[g]] to ... */
    size_t *gram_places;
} dl_window;

/* The grams of `symbols` [count <= DL_PERIOD_SYMBOLS], of 1 .. DL_ANCHOR_KINDS symbols each. */
void dl_window_init(dl_window *window, const uint32_t *symbols, size_t count, size_t gram_length);
void dl_window_free(dl_window *window);

/* Number of places of gram g. */
size_t dl_window_occurrences(const dl_window *window, uint32_t gram);

/* Whether the units repeat each other's order well enough. */
bool dl_units_in_order(const dl_units *units);

/* One way to cut the window. */
typedef struct dl_cutting {
    uint32_t gram; /* the anchor */
    size_t units;  /* occurrences of it */
    double explained;
    bool has_input; /* a usual unit holds a copy from the host */
} dl_cutting;

/* Looks for the most regular anchor that occurs about `repeats` times (at least 3, within the share
 * `tolerance`): three quarters of its distances must lie from half to 1.5 times the median one, and
 * the sum of these be the largest. False if there is none or the units that it cuts are not in
 * order or explain less than DL_EXPLAINED_MIN. `roles` as in dl_sequence. */
bool dl_window_cut(const dl_window *window, double repeats, double tolerance, const uint8_t *roles,
                   dl_cutting *cutting);

/* The anchor of gram g. */
dl_anchor dl_window_anchor(const dl_window *window, uint32_t gram);

/* Cuts of the whole sequence at the anchor, those between which one was lost included. Returns the
 * array, owned by the caller; *cut_count places. */
size_t *dl_anchor_cuts(const dl_anchor *anchor, const dl_sequence *sequence, size_t *cut_count);

#endif
