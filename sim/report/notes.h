/* Notes on a study beside its results, among them: unknown costs, which are left out; costs that
 * are estimated or of another GPU; settings without effect; and traces. */
#ifndef DL_SIM_NOTES_H
#define DL_SIM_NOTES_H

#include "sim/sweep.h"

typedef enum dl_note_rank {
    DL_NOTE_LEADING, /* on settings that may not be what the user meant */
    DL_NOTE_COMPUTE, /* origin of compute times: its effect is that of DL_INFLUENCE_COMPUTE */
    DL_NOTE_OTHER
} dl_note_rank;

/* Returns the notes, each once, as an array of *count owned strings; release with
 * dl_study_notes_free. Sets *ranks, unless NULL, to an array of their ranks, which the caller
 * frees. Call after dl_study_read_costs and after costs are switched off, as those need not be
 * known. */
char **dl_study_notes(const dl_study *study, size_t *count, dl_note_rank **ranks);
void dl_study_notes_free(char **notes, size_t count);

/* Returns notes on the traces of the costs (sim/traced.h): their own steps, the collectives that
 * the rows leave out, and measured collectives that no row has. Release with
 * dl_study_notes_free. */
char **dl_traced_notes(const dl_study *study, const dl_sweep *sweep, size_t *count);

/* Returns the notes in the study's cost files, each once, "FILE: text". Release with
 * dl_study_notes_free. */
char **dl_file_notes(const dl_study *study, size_t *count);

#endif
