/* Notes on a study beside its results, among them: unknown costs, which are left out; costs that
 * are estimated or of another GPU; settings without effect; and traces. */
#ifndef DL_SIM_NOTES_H
#define DL_SIM_NOTES_H

#include "common/notes.h"
#include "sim/sweep.h"

/* Kinds of notes, as flags. */
enum {
    DL_NOTES_LEADING = 1, /* on settings that may not be what the user meant */
    DL_NOTES_COMPUTE = 2, /* origin of compute times: its effect is that of DL_INFLUENCE_COMPUTE */
    DL_NOTES_OTHER = 4,
    DL_NOTES_ALL = 7
};

/* Adds the notes of these kinds, in the order above. Call after dl_study_read_costs and after costs
 * are switched off, as those need not be known. */
void dl_study_notes(dl_notes *notes, const dl_study *study, unsigned kinds);

/* Adds notes on the traces of the costs (sim/traced.h): their own steps, the collectives that the
 * rows leave out, and measured collectives that no row has. */
void dl_traced_notes(dl_notes *notes, const dl_study *study, const dl_sweep *sweep);

/* Adds the notes in the study's cost files, "FILE: text". */
void dl_file_notes(dl_notes *notes, const dl_study *study);

/* Returns the name of the costs' file without its folder, so that the output does not depend on the
 * location of the file. */
const char *dl_note_file(const dl_costs *costs);

#endif
