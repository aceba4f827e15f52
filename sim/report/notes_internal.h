/* Lists of notes that are being made. */
#ifndef DL_SIM_NOTES_INTERNAL_H
#define DL_SIM_NOTES_INTERNAL_H

#include <stddef.h>

#include "sim/report/notes.h"

typedef struct dl_note_list {
    char **notes; /* [count] */
    size_t count;
} dl_note_list;

/* Adds a note unless the list has it already. Takes ownership of `note`. */
void dl_note_add(dl_note_list *list, char *note);

/* Returns the name of the costs' file without its folder, so that the output does not depend on the
 * location of the file. */
const char *dl_note_file(const dl_costs *costs);

#endif
