#include "sim/scenario/study_notes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

typedef struct note_list {
    char **notes;
    size_t count;
} note_list;

/* Takes `note` over. */
static void add(note_list *list, char *note)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->notes[i], note) != 0) continue;
        free(note);
        return;
    }
    list->notes = dl_realloc(list->notes, list->count + 1, sizeof *list->notes, "notes");
    list->notes[list->count++] = note;
}

/* Without its folder: what is written is the same from wherever the file is read. */
static const char *file_of(const dl_costs *costs)
{
    const char *slash = strrchr(costs->path, '/');
    return slash != NULL ? slash + 1 : costs->path;
}

/* On GPUs, what no run needs is simulated without. */
static void add_unknown(note_list *list, const dl_costs *costs)
{
    char *missing =
        dl_costs_missing(costs, DL_NEED_GPU_MEMORY | DL_NEED_PARAMETERS | DL_NEED_STATE);
    if (missing != NULL) {
        add(list, dl_format("unknown in %s: %s: whether a point fits into its GPUs is not checked",
                            file_of(costs), missing));
    }
    free(missing);
    if (dl_costs_have_input(costs)) return;
    add(list,
        dl_format("unknown in %s: [op input], [input] bytes_per_sample: batches are taken to be "
                  "on the GPUs",
                  file_of(costs)));
}

static void add_scaling(note_list *list, const dl_variant *variant)
{
    const dl_scaling *s = &variant->scaling;
    const dl_costs *costs = &variant->costs;
    if (s->differs) {
        add(list, dl_format("%s is of %s, not of %s: its times are taken as they are ([workload] "
                            "scale_compute scales them)",
                            file_of(costs), costs->device, s->to));
    }
    if (!s->scaled) return;
    add(list, dl_format("compute of %s scaled from %s to %s: forward and backward x %.3g, update "
                        "x %.3g; the intervals have it %.2g times as fast and as slow",
                        file_of(costs), s->from, s->to, s->compute_factor, s->update_factor,
                        exp(DL_SCALING_SPREAD)));
}

char **dl_study_notes(const dl_study *study, size_t *count)
{
    note_list list = {0};
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        if (variant->scenario.gpu == NULL) continue;
        add_unknown(&list, &variant->costs);
        add_scaling(&list, variant);
    }
    *count = list.count;
    return list.notes;
}

void dl_study_notes_free(char **notes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(notes[i]);
    free(notes);
}
