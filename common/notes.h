/* Notes on a result: assumptions, omissions, doubtful values. Modules collect them; the program
 * prints them. */
#ifndef DL_COMMON_NOTES_H
#define DL_COMMON_NOTES_H

#include <stddef.h>

#include "common/status.h"

/* Owns its lines; zero before use, release with dl_notes_free. */
typedef struct dl_notes {
    char **lines; /* [count] one sentence each, without newline */
    size_t count;
} dl_notes;

/* Adds the formatted sentence unless the notes already contain it. */
void dl_notes_add(dl_notes *notes, const char *format, ...) DL_PRINTF(2, 3);

void dl_notes_free(dl_notes *notes);

#endif
