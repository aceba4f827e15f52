/* Text below the table of advised layouts. */
#include "sim/report/layout_advice.h"

#include <stdint.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/fits.h"

static dl_advice_pair pair_of(const dl_layout_advice *advice, size_t other)
{
    const dl_row *rows = advice->sweep.rows;
    return dl_advice_pair_of(rows[0].rates, rows[other].rates, rows[0].rate_count,
                             rows[0].mean.throughput_per_s / rows[other].mean.throughput_per_s);
}

static void print_searched(FILE *out, const dl_layout_advice *advice)
{
    const size_t *counts = advice->counts;
    DL_AUTOFREE char *uncached =
        counts[DL_LAYOUT_UNCACHED] == 0
            ? dl_strdup("")
            : dl_format(" and %zu fit only without the allocator's cache (up to %.0f %%, --fits)",
                        counts[DL_LAYOUT_UNCACHED], 100 * DL_RESERVE_FRAC);
    dl_wrap_print(out, 2,
                  "Of %zu layouts with micro-batch, recomputation, schedule and sharding %zu need "
                  "more memory "
                  "than there is%s, %zu were simulated, %zu were not: %s%s%s%s",
                  advice->count, counts[DL_LAYOUT_UNFIT], uncached, counts[DL_LAYOUT_RAN],
                  counts[DL_LAYOUT_WAITS],
                  advice->stopped
                      ? "--max-points ended the search, there may be a better one."
                      : "their passes, bubble or launches alone take longer than the steps shown.",
                  counts[DL_LAYOUT_REFUSED] > 0 ? " Not possible: " : "",
                  counts[DL_LAYOUT_REFUSED] > 0 && advice->refused != NULL ? advice->refused : "",
                  counts[DL_LAYOUT_REFUSED] > 0 ? "." : "");
    if (advice->uncached.options != NULL)
        dl_wrap_print(
            out, 2,
            "Faster, but fits only without the cache: %s, %.4g samples/s, %.3g times those of the "
            "advised one; with the cache (%.0f %%) it lacks %s.",
            advice->uncached.options, advice->uncached.throughput_per_s, advice->uncached.ratio,
            100 * DL_RESERVE_FRAC, DL_BYTES_TEXT(advice->uncached.lacks_bytes));
    if (advice->is_uncached)
        dl_wrap_print(out, 2,
                      "None fits with the allocator's cache: these run out of memory unless the "
                      "cache is almost empty.");
}

/* Returns the parts of a step, "compute 9.51 s, communication 410 ms"; the caller frees it. */
static char *parts_of(const dl_row *row)
{
    char *text = NULL;
    for (int p = 0; p < DL_PART_COUNT; p++) {
        if (row->mean.part_frac[p] < 0.005) continue;
        dl_join_format(&text, ", ", "%s %s", dl_part_names[p],
                       DL_NS_TEXT(dl_s_to_ns(row->mean.part_frac[p] * row->mean.step_mean_s)));
    }
    return text;
}

static char *name_of(const dl_layout_advice *advice, dl_layout_usual usual)
{
    switch (usual) {
    case DL_LAYOUT_GIVEN: return dl_format("The given layout, %s", advice->given);
    case DL_LAYOUT_FSDP: return dl_strdup("All GPUs sharing all parameters");
    default:
        return dl_strdup(
            "Megatron's usual choice (tp within a node, the fewest stages that fit, ZeRO 1)");
    }
}

static void print_usual(FILE *out, const dl_layout_advice *advice, dl_layout_usual usual)
{
    const size_t row = advice->usual[usual];
    const dl_row *rows = advice->sweep.rows;
    if (usual == DL_LAYOUT_GIVEN && advice->given == NULL) return;
    DL_AUTOFREE char *name = name_of(advice, usual), *text = NULL;
    if (usual == DL_LAYOUT_GIVEN && advice->given_count == 0) {
        text = dl_format("%s: not among those.", name);
    } else if (row >= advice->sweep.row_count) {
        text = dl_format("%s: none fits.", name);
    } else if (row == 0) {
        text = dl_format("%s: that is the one advised.", name);
    } else {
        const dl_advice_pair pair = pair_of(advice, row);
        DL_AUTOFREE char *own = parts_of(&rows[row]), *best = parts_of(&rows[0]);
        text =
            dl_format("%s, at best %s: the advised one is %.3g times as fast, ahead in %zu of %zu "
                      "draws%s. A step has %s; the advised one's %s.",
                      name, advice->options[row], pair.ratio, pair.wins, pair.draws,
                      pair.differ ? "" : ": cannot be told apart", own, best);
    }
    dl_wrap_print(out, 2, "%s", text);
}

/* Names the rows that the draws do not tell apart from the first one. */
static void print_rivals(FILE *out, const dl_layout_advice *advice)
{
    DL_AUTOFREE char *rows = NULL;
    const size_t count = advice->sweep.row_count;
    size_t least = SIZE_MAX, most = 0, draws = 0;
    for (size_t i = 1, next; i < count; i = next) {
        next = i + 1;
        if (pair_of(advice, i).differ) continue;
        for (next = i; next < count && !pair_of(advice, next).differ; next++) {
            const dl_advice_pair pair = pair_of(advice, next);
            if (pair.wins < least) least = pair.wins;
            if (pair.wins > most) most = pair.wins;
            draws = pair.draws;
        }
        dl_join_format(&rows, ", ", next > i + 1 ? "%zu to %zu" : "%zu", i + 1, next);
    }
    DL_AUTOFREE char *wins =
        least < most ? dl_format("%zu to %zu", least, most) : dl_format("%zu", most);
    DL_AUTOFREE char *text =
        !advice->varies ? dl_strdup("Nothing varies: small differences mean nothing.")
        : rows == NULL  ? dl_strdup("All others are slower in 97.5 % of the draws.")
                       : dl_format("Cannot be told apart from the first: row%s %s, slower in %s of "
                                   "%zu draws.",
                                   strpbrk(rows, ", ") != NULL ? "s" : "", rows, wins, draws);
    dl_wrap_print(out, 2, "%s", text);
}

void dl_layout_advice_print(FILE *out, const dl_layout_advice *advice)
{
    dl_wrap_print(out, 2, "Advised: %s", advice->options[0]);
    print_searched(out, advice);
    print_rivals(out, advice);
    for (int u = 0; u < DL_LAYOUT_USUALS; u++)
        print_usual(out, advice, (dl_layout_usual)u);
}
