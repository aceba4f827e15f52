#include "calibrate/table/table_notes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/cost_file.h"
#include "calibrate/dataset.h"
#include "common/alloc.h"
#include "common/options.h"
#include "common/units.h"

/* A standard error above this part of the value: the cost is known by its size only. */
#define VAGUE_FRAC 0.5

const char *dl_table_value_text(char text[DL_TABLE_VALUE_BYTES], const char *name, double value)
{
    const char *key = strrchr(name, ' ');
    key = key != NULL ? key + 1 : name;
    if (strstr(key, "_per_s") != NULL && strstr(key, "per_sample") == NULL) {
        dl_format_bytes(text, DL_TABLE_VALUE_BYTES - 2, value);
        return strcat(text, "/s");
    }
    if (strstr(key, "_ns") != NULL) return dl_format_ns(text, DL_TABLE_VALUE_BYTES, value);
    if (strstr(key, "bytes") != NULL) return dl_format_bytes(text, DL_TABLE_VALUE_BYTES, value);
    snprintf(text, DL_TABLE_VALUE_BYTES, "%.3g", value);
    return text;
}

static void note_cost(dl_table_fit *fit, size_t j)
{
    const dl_table_estimate *e = &fit->estimates[j];
    const char *name = fit->unknown.items[j].name;
    char bound[DL_TABLE_VALUE_BYTES];
    if (!e->determined && isnan(e->bound)) {
        dl_notes_add(&fit->notes, "%s: no row depends on it; left out of the cost file", name);
    } else if (!e->determined) {
        dl_notes_add(
            &fit->notes, "%s: not determined, the rows only say %s %s; left out of the cost file",
            name, e->at_most ? "at most" : "at least", dl_table_value_text(bound, name, e->bound));
    } else if (e->confused == 0 && e->error > VAGUE_FRAC * e->value) {
        dl_notes_add(&fit->notes, "%s: hardly determined, its standard error is %.0f %%", name,
                     100 * e->error / e->value);
    }
}

/* Of costs that are the sum of two passes. */
static void note_passes(dl_table_fit *fit)
{
    bool joined = false;
    for (size_t j = 0; j < fit->unknown.count; j++)
        joined |= fit->unknown.items[j].rest != NULL;
    if (!joined) return;
    dl_notes_add(&fit->notes,
                 "[op network.*] is the sum of [op network.forward] and [op network.backward], of "
                 "which a third is taken for the forward pass: assumed");
}

/* "A, B and C cannot be told apart": one note a group. */
static void note_groups(dl_table_fit *fit)
{
    for (int group = 1;; group++) {
        char *members = NULL;
        for (size_t j = 0; j < fit->unknown.count; j++) {
            if (fit->estimates[j].confused != group) continue;
            char *longer = dl_format("%s%s%s", members != NULL ? members : "",
                                     members != NULL ? ", " : "", fit->unknown.items[j].name);
            free(members);
            members = longer;
        }
        bool further = false;
        for (size_t j = 0; j < fit->unknown.count; j++)
            further |= fit->estimates[j].confused > group;
        if (members != NULL) {
            dl_notes_add(&fit->notes,
                         "%s: the rows do not tell them apart (condition number %.0f); only "
                         "together do they mean something",
                         members, fit->condition);
        }
        free(members);
        if (!further) return;
    }
}

static void note_row(dl_table_fit *fit, size_t i)
{
    const dl_table_row *row = &fit->rows.rows[i];
    char point[DL_POINT_TEXT_BYTES];
    dl_point_text(point, sizeof point, &row->point);
    if (row->failed) {
        dl_notes_add(&fit->notes, "line %d (%s): an error in the source, not used", row->line,
                     point);
    } else if (fit->residuals[i].unexplained) {
        dl_notes_add(&fit->notes,
                     "line %d (%s): %+.1f %% off, more than %.0f robust sigmas (%.1f %% each); its "
                     "weight is %.2f",
                     row->line, point, 100 * fit->residuals[i].error_frac, DL_TABLE_OUTLIER,
                     100 * fit->sigma_frac, fit->residuals[i].weight);
    }
}

/* Rows of which the workers cannot share the batch. */
static void note_shares(dl_table_fit *fit)
{
    size_t count = 0;
    for (size_t i = 0; i < fit->rows.count; i++)
        count +=
            !fit->rows.rows[i].failed && fit->rows.rows[i].batch != fit->rows.rows[i].point.batch;
    if (count == 0) return;
    dl_notes_add(&fit->notes,
                 "%zu row%s with a batch that the workers cannot share evenly: simulated with the "
                 "largest share for all",
                 count, count > 1 ? "s" : "");
}

void dl_table_notes_add(dl_table_fit *fit)
{
    for (size_t j = 0; j < fit->unknown.count; j++)
        note_cost(fit, j);
    note_groups(fit);
    note_passes(fit);
    if (fit->rows.used == fit->determined) {
        dl_notes_add(&fit->notes, "as many rows as costs: nothing tells how well they are known");
    }
    for (size_t i = 0; i < fit->rows.count; i++)
        note_row(fit, i);
    note_shares(fit);
    if (fit->left_out_count < fit->rows.used) {
        dl_notes_add(&fit->notes,
                     "%zu of %zu rows cannot be left out: without them the others do not determine "
                     "all costs",
                     fit->rows.used - fit->left_out_count, fit->rows.used);
    }
}

/* Each source once, in the order of the rows. */
static void add_sources(dl_notes *from, const dl_table_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        size_t before = 0;
        while (before < i && strcmp(rows->rows[before].source, rows->rows[i].source) != 0)
            before++;
        if (before < i || rows->rows[i].source[0] == '\0') continue;
        dl_notes_add(from, "  source: %s", rows->rows[i].source);
    }
}

dl_status dl_table_fit_write(const dl_table_fit *fit, const char *path, dl_error *err)
{
    char date[DL_DATE_BYTES];
    dl_notes from = {0};
    const dl_table_rows *rows = &fit->rows;
    dl_notes_add(&from, "dlcal %s, %s: fitted through the simulator to", dl_version(),
                 dl_date_text(date));
    dl_notes_add(&from, "  %zu rows of %s, lines %d to %d, scenario %s", rows->used,
                 dl_base_name(rows->path), rows->rows[0].line, rows->rows[rows->count - 1].line,
                 dl_base_name(fit->scenario.path));
    add_sources(&from, rows);
    dl_notes_add(&from,
                 "Residuals: root mean square %.1f %%; left out: mean %.1f %%, largest %.1f %%",
                 100 * fit->rms_frac, 100 * fit->left_out_mean_frac, 100 * fit->left_out_max_frac);
    const dl_status status = dl_cost_file_write(&fit->costs, path, &from, &fit->notes, err);
    dl_notes_free(&from);
    return status;
}
