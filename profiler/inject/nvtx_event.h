/* NVTX's events in terms of dl_activity: one function per kind of event, whatever its attributes.
 */
#ifndef DL_PROFILER_INJECT_NVTX_EVENT_H
#define DL_PROFILER_INJECT_NVTX_EVENT_H

#include <wchar.h>

#include "profiler/inject/nvtx_domain.h"

#define DL_NVTX_WIDE_TEXT_BYTES 4096 /* in UTF-8, with the NUL; longer wide texts are cut */

/* The wide text in UTF-8, written to `buffer`; "" for NULL. */
const char *dl_nvtx_narrow(const wchar_t *text, char buffer[DL_NVTX_WIDE_TEXT_BYTES]);

/* Payloads of one event. */
typedef struct dl_nvtx_payloads {
    const nvtxPayloadData_t *data; /* the program's, NULL if there are none */
    size_t count;
} dl_nvtx_payloads;

dl_nvtx_payloads dl_nvtx_payloads_make(const nvtxPayloadData_t *data, size_t count);
dl_nvtx_payloads dl_nvtx_payloads_attributes(const nvtxEventAttributes_t *attributes);

/* The text of an event in `domain`, given in one of NVTX's ways. An event that has payloads only
 * has the text of an entry marked so, else its schema's name. */
dl_nvtx_message dl_nvtx_message_text(const dl_nvtx_domain *domain, const char *text);
dl_nvtx_message dl_nvtx_message_wide(const dl_nvtx_domain *domain, const wchar_t *text);
dl_nvtx_message dl_nvtx_message_attributes(const dl_nvtx_domain *domain,
                                           const nvtxEventAttributes_t *attributes);
dl_nvtx_message dl_nvtx_message_payloads(const dl_nvtx_domain *domain, dl_nvtx_payloads payloads);

/* Records a mark. */
void dl_nvtx_event_mark(const dl_nvtx_domain *domain, dl_nvtx_message message);

/* Begins a range of the calling thread; returns its level. Ends the innermost one of the domain;
 * returns its level, or NVTX_NO_PUSH_POP_TRACKING if there is none. */
int dl_nvtx_event_push(const dl_nvtx_domain *domain, dl_nvtx_message message,
                       dl_nvtx_payloads payloads);
int dl_nvtx_event_pop(const dl_nvtx_domain *domain, dl_nvtx_payloads payloads);

/* Begins a range that any thread may end; returns its id, 0 if it could not be kept. */
nvtxRangeId_t dl_nvtx_event_start(const dl_nvtx_domain *domain, dl_nvtx_message message,
                                  dl_nvtx_payloads payloads);
void dl_nvtx_event_end(nvtxRangeId_t id, dl_nvtx_payloads payloads);

#endif
