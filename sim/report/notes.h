/* Notes on a study beside its results, among them: unknown costs, which are left out; costs that
 * are estimated or of another GPU; settings without effect; and traces. */
#ifndef DL_SIM_NOTES_H
#define DL_SIM_NOTES_H

#include "sim/sweep.h"

/* Kinds of notes, as flags. */
enum {
    DL_NOTES_LEADING = 1, /* on settings that may not be what the user meant */
    DL_NOTES_COMPUTE = 2, /* origin of compute times: its effect is that of DL_INFLUENCE_COMPUTE */
    DL_NOTES_OTHER = 4,
    DL_NOTES_ALL = 7
};

/* Returns the notes of these kinds, in the order above and each once, as an array of *count owned
 * strings; release with dl_study_notes_free. Call after dl_study_read_costs and after costs are
 * switched off, as those need not be known. */
char **dl_study_notes(const dl_study *study, unsigned kinds, size_t *count);
void dl_study_notes_free(char **notes, size_t count);

/* Returns notes on the traces of the costs (sim/traced.h): their own steps, the collectives that
 * the rows leave out, and measured collectives that no row has. Release with
 * dl_study_notes_free. */
char **dl_traced_notes(const dl_study *study, const dl_sweep *sweep, size_t *count);

/* Returns the notes in the study's cost files, each once, "FILE: text". Release with
 * dl_study_notes_free. */
char **dl_file_notes(const dl_study *study, size_t *count);

#endif
