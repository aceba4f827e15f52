/* Text and CSV reports of measured times and a machine's times. */
#include <math.h>
#include <stdlib.h>

#include "calibrate/links/compare.h"
#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "common/rows.h"
#include "common/sort.h"
#include "common/units.h"
#include "common/wrap.h"

#define ROWS 8 /* printed sizes per series */

/* Indices into verdicts[], minus 1. */
enum { SLOWER = -1, EXPECTED, FASTER, NOT_JUDGED };

static const char *const verdicts[] = {"slower", "as expected", "faster", "not judged"};

static int side_of(const dl_link_part *part, double ratio)
{
    if (isnan(ratio)) return NOT_JUDGED;
    return dl_link_is_expected(part, ratio) ? EXPECTED : ratio < 1 ? SLOWER : FASTER;
}

/* Prints and frees `text`. */
static void print_line(char *text, int indent, FILE *out)
{
    fprintf(out, "%*s", indent, "");
    dl_wrap(out, text, indent, indent + 2, dl_wrap_columns(out));
    free(text);
}

/* Returns whether host time may explain the part: a thread that calls NCCL for several GPUs takes
 * time for each, which delays small sizes (docs/studies/collectives.md). */
static bool waits_for_host(const dl_link_comparison *c, const dl_link_part *part)
{
    return c->result != NULL && c->result->series->thread_gpus > 1 &&
           part == &c->parts[DL_LINK_SMALL] && part->ratio.median < 1;
}

/* Returns a text that explains why the part is outside its bound, or says that no change explains
 * it; the caller frees it. */
static char *explanation(const dl_link_comparison *c, const dl_link_part *part)
{
    if (c->other_device) {
        return dl_format("the log is of %s, the machine has other GPUs", c->result->series->device);
    }
    if (waits_for_host(c, part)) {
        return dl_format("one thread calls for %d GPUs (nGpus), and its own time may limit the "
                         "rates: measure with one process per GPU",
                         c->result->series->thread_gpus);
    }
    if (part->reasons != NULL) return dl_format("as expected if %s", part->reasons);
    return dl_strdup(part->ratio.median < 1
                         ? "none of the single changes of the machine that were tried explains this"
                         : "the machine is another one, or its file has too low rates");
}

/* --- ranges of sizes with one verdict -------------------------------------------------------- */

/* Finds the verdict on each of the part's sizes, side[part->count]: the size's own verdict, or that
 * of its two neighbours if they agree, since a single deviating size is chance; of three sizes or
 * more, the first and the last take their neighbour's. An outlier takes the verdict of the previous
 * size. */
static void find_sides(const dl_link_comparison *c, const dl_link_part *part, int *side)
{
    const dl_link_compared *sizes = &c->sizes[part->first];
    for (size_t i = 0; i < part->count; i++) {
        side[i] = side_of(part, dl_link_ratio(&sizes[i]));
        if (sizes[i].outlier) side[i] = i > 0 ? side[i - 1] : EXPECTED;
    }
    for (size_t i = 1; i + 1 < part->count; i++)
        if (side[i - 1] == side[i + 1]) side[i] = side[i - 1];
    if (part->count < 3) return;
    side[0] = side[1];
    side[part->count - 1] = side[part->count - 2];
}

static const char *verdict_of(const dl_link_comparison *c, const dl_link_part *part, size_t index)
{
    int verdict = side_of(part, part->ratio.median);
    if (c->result != NULL && verdict != NOT_JUDGED) {
        DL_AUTOFREE int *side = dl_calloc(part->count, sizeof *side, "verdicts");
        find_sides(c, part, side);
        verdict = side[index - part->first];
    }
    return verdicts[verdict + 1];
}

/* Prints a line such as "0.45 (0.41 to 0.52), slower by more than 10 %". */
static void print_ratio(const char *of, dl_link_range ratio, const dl_link_part *part, int indent,
                        FILE *out)
{
    const int verdict = side_of(part, ratio.median);
    print_line(dl_format("%s: %.2f (%.2f to %.2f), %s%s %.0f %%", of, ratio.median, ratio.least,
                         ratio.most, verdicts[verdict + 1],
                         verdict == EXPECTED ? " within" : " by more than", 100 * part->bound),
               indent, out);
}

/* Prints "33.6 MB to 1.07 GB: ..." for sizes[n] with the same verdict. */
static void print_range(const dl_link_compared *sizes, size_t n, const dl_link_part *part,
                        FILE *out)
{
    const dl_link_range ratio = dl_link_ratios(sizes, n);
    if (isnan(ratio.median)) return; /* all sizes are outliers */
    DL_AUTOFREE char *of = dl_format("%s to %s", DL_BYTES_TEXT(sizes[0].point->bytes),
                                     DL_BYTES_TEXT(sizes[n - 1].point->bytes));
    print_ratio(of, ratio, part, 4, out);
}

/* Prints each range of sizes of the part that have the same verdict; prints nothing if all sizes
 * have the same one. Returns the number of ranges. */
static size_t print_ranges(const dl_link_comparison *c, const dl_link_part *part, const char *of,
                           FILE *out)
{
    size_t ranges = 0;
    DL_AUTOFREE int *side = dl_calloc(part->count, sizeof *side, "verdicts");
    find_sides(c, part, side);
    DL_GROUPS (first, end, part->count, side[end] == side[first]) {
        if (end - first == part->count) break;
        if (ranges++ == 0) fprintf(out, "  %s, by range:\n", of);
        print_range(&c->sizes[part->first + first], end - first, part, out);
    }
    return ranges;
}

static void print_part(const dl_link_comparison *c, const dl_link_part *part, const char *of,
                       FILE *out)
{
    if (part->count == 0 || isnan(part->ratio.median)) return;
    const size_t ranges = c->result != NULL ? print_ranges(c, part, of, out) : 0;
    if (ranges == 0) print_ratio(of, part->ratio, part, 2, out);
    if (!dl_link_is_expected(part, part->ratio.median)) {
        print_line(explanation(c, part), 4, out);
    } else if (ranges > 0) {
        print_line(dl_strdup("most sizes are as expected, so the machine's links are fine: others "
                             "differ by the library's choice of algorithm and protocol, or by "
                             "other traffic; measure them again"),
                   4, out);
    }
    if (part->assumed != NULL) print_line(dl_format("rests on assumed %s", part->assumed), 4, out);
}

/* Adds the row of a size, or of a test's rates (in files only). The text report has GB/s as printed
 * by nccl-tests: busbw for collectives. */
static void put_row(dl_rows *to, const dl_link_comparison *c, size_t index)
{
    const dl_link_series *s = c->result != NULL ? c->result->series : NULL;
    const dl_link_compared *size = s != NULL ? &c->sizes[index] : NULL;
    const bool small = size != NULL && index < c->parts[DL_LINK_SMALL].count;
    const bool outlier = size != NULL && size->outlier;
    const dl_link_part *part = &c->parts[small ? DL_LINK_SMALL : DL_LINK_LARGE];
    const double none = (double)NAN, factor = s != NULL ? dl_link_busbw_factor(s) : none;
    const double bytes = size != NULL ? size->point->bytes : none;
    const double time_ns = size != NULL ? size->point->time_ns : none;
    const double machine_ns = size != NULL ? size->machine_ns : none;
    const double rate = size != NULL ? bytes / time_ns * DL_NS_PER_S : c->rate_bytes_per_s;
    const double machine = size != NULL ? bytes / machine_ns * DL_NS_PER_S : c->machine_rate;
    const double alone = isnan(factor) ? 1e-9 : none; /* factor to GB/s for tests without busbw */
    dl_rows_add(
        to,
        "file|=%s name|=%s place|=%s ranks|=%d nodes|=%d bytes|size=%gB measured_ns|measured=%gns "
        "machine_ns|machine=%gns measured_bytes_per_s|=%g machine_bytes_per_s|=%g |GB/s=%.4g "
        "|machine's=%.4g |busbw GB/s=%.4g |machine's=%.4g ratio=%.2f algorithm=%-s "
        "protocol=%-s part|=%s bound_frac|=%g verdict|=%s assumed|=%s reasons|=%s |=%-s",
        dl_base_name(s != NULL ? s->path : c->path), s != NULL ? s->name : c->test,
        s != NULL ? dl_link_place_names[s->place] : "", c->ranks, c->nodes, bytes, time_ns,
        machine_ns, rate, machine, rate * alone, machine * alone, 1e-9 * rate * factor,
        1e-9 * machine * factor, size != NULL ? dl_link_ratio(size) : part->ratio.median,
        size != NULL ? size->algorithm : NULL, size != NULL ? size->protocol : NULL,
        size == NULL ? "rate"
        : outlier    ? "outlier"
        : small      ? "small"
                     : "large",
        part->bound, verdict_of(c, part, index), part->assumed, part->reasons,
        outlier ? "outlier" : "");
}

static void print_series(const dl_link_comparison *c, FILE *out)
{
    char name[128];
    fprintf(out, "\n%.60s", dl_link_series_text(name, sizeof name, c->result->series));
    if (c->nodes > 1) fprintf(out, ", %d nodes", c->nodes);
    fprintf(out, "\n  %.60s\n", dl_base_name(c->result->series->path));
    dl_rows to = {.out = out, .indent = 2};
    dl_rows_begin(&to, NULL, NULL);
    for (size_t row = 0, before = SIZE_MAX; row < ROWS; row++) {
        const size_t i = (row * (c->count - 1) + (ROWS - 1) / 2) / (ROWS - 1);
        if (i != before) put_row(&to, c, i);
        before = i;
    }
    dl_rows_end(&to, 0);
    for (int k = 0; k < DL_LINK_PARTS; k++) {
        const dl_link_part *part = &c->parts[k];
        if (part->count == 0) continue;
        const bool small = k == DL_LINK_SMALL;
        const dl_link_compared *end = &c->sizes[small ? part->count - 1 : part->first];
        DL_AUTOFREE char *of =
            dl_format("%s %s", small ? "small sizes, up to" : "large sizes, from",
                      DL_BYTES_TEXT(end->point->bytes));
        print_part(c, part, of, out);
    }
}

static void print_test(const dl_link_comparison *c, FILE *out)
{
    DL_AUTOFREE char *of =
        dl_format("%zu measured, %s/s; machine %s/s (medians)", c->rate_count,
                  DL_BYTES_TEXT(c->rate_bytes_per_s), DL_BYTES_TEXT(c->machine_rate));
    fprintf(out, "\n%s\n", c->test);
    print_part(c, &c->parts[DL_LINK_LARGE], of, out);
}

void dl_link_comparisons_print(const dl_link_comparisons *comparisons, FILE *out)
{
    print_line(dl_format("compared with %s (%s); ratio: measured speed over the machine's, by the "
                         "named algorithm and protocol",
                         comparisons->title, comparisons->machine),
               0, out);
    for (size_t i = 0; i < comparisons->count; i++) {
        const dl_link_comparison *c = &comparisons->items[i];
        if (c->result != NULL) {
            print_series(c, out);
        } else {
            print_test(c, out);
        }
    }
    if (!isnan(comparisons->shared_bytes_per_s)) {
        fputs("\n", out);
        print_line(dl_format("one cause explains all rows that depend on [shm] bytes_per_s: both "
                             "directions through host memory share %s/s%s",
                             DL_BYTES_TEXT(comparisons->shared_bytes_per_s),
                             comparisons->shared_or_ports
                                 ? "; slow ports of the nodes would look the same"
                                 : ""),
                   0, out);
    }
    dl_notes_print(&comparisons->notes, "\nnot compared\n", "  - ", out);
}

dl_status dl_link_comparisons_write(const dl_link_comparisons *comparisons, const char *path,
                                    dl_error *err)
{
    dl_output output;
    dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_csv_writer csv = {.out = output.out};
    dl_csv_comment(&csv, "dlcal %s links: measured times compared with %s (%s)", dl_version(),
                   comparisons->title, comparisons->machine);
    dl_rows rows = {.csv = &csv};
    for (size_t i = 0; i < comparisons->count; i++) {
        const dl_link_comparison *c = &comparisons->items[i];
        const size_t count = c->result != NULL ? c->count : 1;
        for (size_t k = 0; k < count; k++)
            put_row(&rows, c, k);
    }
    return dl_output_close(&output, err);
}
