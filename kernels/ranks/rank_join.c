/* How the ranks of a run find one another, and make their ring. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "kernels/ranks/rank_internal.h"
#include "kernels/ranks/rank_socket.h"

#define MAGIC "DLRANKS"
#define VERSION 2

/* What a rank sends of the settings, so that a difference can be named. */
#define SETTINGS_BYTES 4096

/* Longest wait for what a connection says of itself; who says nothing is no rank. */
#define INTRODUCTION_S 5.0

/* The others wait this much longer than rank 0, to hear from it who did not come. */
#define GRACE_S 2.0

enum { TO_GATHER = 1, TO_MAKE_RING = 2 };

/* What a rank says of itself on a new connection. */
typedef struct introduction {
    char magic[8];
    uint32_t version, purpose;
    int32_t rank, size;
    uint32_t port; /* where it listens */
    uint32_t unused;
    uint64_t run, settings;             /* hashes */
    char settings_text[SETTINGS_BYTES]; /* perhaps cut */
    char host[DL_RANK_HOST_BYTES];
} introduction;

/* Rank 0's answer when all have come, or one must go. After a welcome: entries of all ranks. */
typedef struct answer {
    char magic[8];
    uint32_t welcome;
    char refusal[DL_ERROR_TEXT_BYTES];
} answer;

typedef struct entry {
    dl_rank_address address; /* of the rank's machine as rank 0 sees it; not set of rank 0 itself */
    uint32_t port;           /* where the rank listens */
    char host[DL_RANK_HOST_BYTES];
} entry;

/* What the ranks need until the ring is made. */
typedef struct gathering {
    dl_rank_group *group;
    const dl_rank_settings *settings;
    int64_t deadline_ns;
    introduction own;
    int listener;
    int controls[DL_RANKS_MAX]; /* rank 0: to each other rank; else only [0]; -1: none */
    int came;                   /* rank 0: how many others have */
    entry *entries;             /* [size] */
} gathering;

static int64_t after(double seconds)
{
    return dl_clock_ns() + dl_ns_ceil(dl_s_to_ns(seconds));
}

static void make_introduction(gathering *g)
{
    const dl_rank_settings *settings = g->settings;
    g->own = (introduction){.magic = MAGIC,
                            .version = VERSION,
                            .rank = settings->rank,
                            .size = settings->size,
                            .run = dl_hash_text(settings->run),
                            .settings = dl_hash_text(settings->settings)};
    snprintf(g->own.settings_text, sizeof g->own.settings_text, "%s", settings->settings);
    (void)gethostname(g->own.host, sizeof g->own.host - 1);
}

/* A connection that has not said all of its introduction. */
typedef struct pending {
    int made;
    size_t got; /* bytes of `said` */
    int64_t until_ns;
    introduction said;
} pending;

/* Connections that are read side by side, so that those who say nothing delay no rank. With more
 * than PENDING_MAX at once the rest wait in the listener's queue. */
#define PENDING_MAX (2 * DL_RANKS_MAX)
typedef struct reception {
    int listener;
    int count;
    int strangers; /* turned away: silent for INTRODUCTION_S, gone, or no ranks */
    pending at[PENDING_MAX];
} reception;

static reception *open_reception(int listener)
{
    reception *r = dl_calloc(1, sizeof *r, "connections of ranks");
    r->listener = listener;
    return r;
}

static void close_reception(reception *r)
{
    for (int i = 0; i < r->count; i++)
        close(r->at[i].made);
    free(r);
}

static void take_connections(reception *r)
{
    int made;
    while (r->count < PENDING_MAX && dl_rank_accept(r->listener, 0, &made)) {
        pending *p = &r->at[r->count++];
        p->made = made;
        p->got = 0;
        p->until_ns = after(INTRODUCTION_S);
    }
}

typedef enum reading { READING_ON, READING_DONE, READING_STRANGER } reading;

/* What has come of an introduction until now. */
static reading read_more(pending *p)
{
    char *said = (char *)&p->said;
    while (p->got < sizeof p->said) {
        const ssize_t moved = recv(p->made, said + p->got, sizeof p->said - p->got, 0);
        const bool later = moved < 0 && dl_rank_would_wait();
        if (later) return dl_clock_ns() < p->until_ns ? READING_ON : READING_STRANGER;
        if (moved <= 0) return READING_STRANGER;
        p->got += (size_t)moved;
        const size_t known = p->got < sizeof p->said.magic ? p->got : sizeof p->said.magic;
        if (memcmp(said, MAGIC, known) != 0) return READING_STRANGER;
    }
    if (p->said.version != VERSION) return READING_STRANGER;
    p->said.host[sizeof p->said.host - 1] = '\0';
    p->said.settings_text[sizeof p->said.settings_text - 1] = '\0';
    return READING_DONE;
}

/* Until somebody connects or says something, or time is up for one or for all. */
static void wait_for_news(const reception *r, int64_t deadline_ns)
{
    struct pollfd news[PENDING_MAX + 1];
    for (int i = 0; i < r->count; i++) {
        news[i] = (struct pollfd){.fd = r->at[i].made, .events = POLLIN};
        if (r->at[i].until_ns < deadline_ns) deadline_ns = r->at[i].until_ns;
    }
    const bool room = r->count < PENDING_MAX;
    news[r->count] = (struct pollfd){.fd = room ? r->listener : -1, .events = POLLIN};
    (void)poll(news, (nfds_t)r->count + 1, dl_rank_left_ms(deadline_ns));
}

/* The next rank that has introduced itself, and its connection, which the caller closes; strangers
 * are turned away meanwhile. False at the deadline. */
static bool receive_rank(reception *r, int64_t deadline_ns, int *made, introduction *found)
{
    for (;;) {
        take_connections(r);
        for (int i = 0; i < r->count;) {
            const reading now = read_more(&r->at[i]);
            if (now == READING_ON) {
                i++;
                continue;
            }
            *made = r->at[i].made;
            if (now == READING_DONE) *found = r->at[i].said;
            r->at[i] = r->at[--r->count];
            if (now == READING_DONE) return true;
            close(*made);
            r->strangers++;
        }
        if (dl_clock_ns() >= deadline_ns) return false;
        wait_for_news(r, deadline_ns);
    }
}

static void refuse(int made, const char *text)
{
    answer no = {.magic = MAGIC};
    snprintf(no.refusal, sizeof no.refusal, "%s", text);
    (void)dl_rank_send(made, &no, sizeof no, after(INTRODUCTION_S));
}

/* The word of `text` that starts there, up to the next blank or the end. */
static int word_bytes(const char *text)
{
    return (int)strcspn(text, " ");
}

#define WORD_BYTES 100

/* The word, perhaps cut, as an error shows it. */
static void copy_word(char word[WORD_BYTES], const char *text)
{
    const char *shown = *text != '\0' ? text : "nothing";
    snprintf(word, WORD_BYTES, "%.*s", word_bytes(shown), shown);
}

/* Other settings: names the first word of them in which the two differ. */
static dl_status differ(const introduction *own, const introduction *other, dl_error *err)
{
    const char *a = own->settings_text, *b = other->settings_text;
    while (*a != '\0' && word_bytes(a) == word_bytes(b) &&
           strncmp(a, b, (size_t)word_bytes(a)) == 0) {
        a += word_bytes(a);
        b += word_bytes(b);
        a += *a == ' ';
        b += *b == ' ';
    }
    if (*a == '\0' && *b == '\0') {
        return dl_error_set(err, DL_ERR_DATA,
                            "rank %d on %s was started with other options than rank 0", other->rank,
                            other->host);
    }
    char of_own[WORD_BYTES], of_other[WORD_BYTES];
    copy_word(of_own, a);
    copy_word(of_other, b);
    return dl_error_set(err, DL_ERR_DATA,
                        "rank %d on %s was started with other options than rank 0, or is of "
                        "another version: %s, not %s",
                        other->rank, other->host, of_other, of_own);
}

/* What is wrong with a rank of this run; DL_OK: nothing. */
static dl_status check_rank(const gathering *g, const introduction *other, dl_error *err)
{
    const int size = g->settings->size;
    if (other->size != size) {
        return dl_error_set(err, DL_ERR_DATA,
                            "a rank was started as one of %d, rank 0 as one of %d", other->size,
                            size);
    }
    if (other->settings != g->own.settings) return differ(&g->own, other, err);
    if (other->rank < 1 || other->rank >= size || g->controls[other->rank] >= 0) {
        return dl_error_set(err, DL_ERR_DATA, "there is a second rank %d, on %s", other->rank,
                            other->host);
    }
    return DL_OK;
}

/* Lets one connection in, or turns it away; DL_ERR_DATA if that ends the run. */
static dl_status admit(gathering *g, int made, const introduction *other, dl_error *err)
{
    if (other->purpose != TO_GATHER) {
        close(made);
        return DL_OK;
    }
    if (other->run != g->own.run) {
        refuse(made, "rank 0 of another run listens at this address");
        close(made);
        return DL_OK;
    }
    dl_error why = {0};
    const dl_status status = check_rank(g, other, &why);
    if (status != DL_OK) {
        refuse(made, why.text);
        close(made);
        for (int r = 1; r < g->settings->size; r++)
            if (g->controls[r] >= 0) refuse(g->controls[r], why.text);
        if (err != NULL) *err = why;
        return status;
    }
    g->controls[other->rank] = made;
    g->came++;
    entry *of = &g->entries[other->rank];
    of->address = dl_rank_peer(made);
    of->port = other->port;
    memcpy(of->host, other->host, sizeof of->host);
    return DL_OK;
}

/* "1, 3": those who have not come. */
static char *missing_ranks(const gathering *g, int *count)
{
    char *text = dl_strdup("");
    *count = 0;
    for (int r = 1; r < g->settings->size; r++) {
        if (g->controls[r] >= 0) continue;
        char *longer = dl_format("%s%s%d", text, *count > 0 ? ", " : "", r);
        free(text);
        text = longer;
        ++*count;
    }
    return text;
}

static dl_status some_did_not_come(const gathering *g, int strangers, dl_error *err)
{
    int count;
    dl_error why = {0};
    char *missing = missing_ranks(g, &count);
    char others[100] = "";
    if (strangers > 0) {
        snprintf(others, sizeof others, "; %d other connection%s introduced no rank of dlprof",
                 strangers, strangers > 1 ? "s" : "");
    }
    const dl_status status = dl_error_set(
        &why, DL_ERR_SYSTEM, "rank%s %.200s of %d did not come to %.100s:%d within %g s%s",
        count > 1 ? "s" : "", missing, g->settings->size, g->settings->host, g->settings->port,
        g->settings->limit_s, others);
    for (int r = 1; r < g->settings->size; r++)
        if (g->controls[r] >= 0) refuse(g->controls[r], why.text);
    free(missing);
    if (err != NULL) *err = why;
    return status;
}

/* Rank 0: waits for all, then sends all addresses to all. */
static dl_status gather(gathering *g, dl_error *err)
{
    const int size = g->settings->size;
    dl_status status = dl_rank_listen(g->settings->host, g->settings->port, &g->listener, err);
    memcpy(g->entries[0].host, g->own.host, sizeof g->own.host);
    reception *at = open_reception(g->listener);
    while (status == DL_OK && g->came < size - 1) {
        int made;
        introduction other;
        if (receive_rank(at, g->deadline_ns, &made, &other)) {
            status = admit(g, made, &other, err);
        } else {
            status = some_did_not_come(g, at->strangers + at->count, err);
        }
    }
    close_reception(at);
    const answer yes = {.magic = MAGIC, .welcome = 1};
    for (int r = 1; status == DL_OK && r < size; r++) {
        if (dl_rank_send(g->controls[r], &yes, sizeof yes, g->deadline_ns) == DL_RANK_IO_DONE &&
            dl_rank_send(g->controls[r], g->entries, (size_t)size * sizeof *g->entries,
                         g->deadline_ns) == DL_RANK_IO_DONE)
            continue;
        status = dl_error_set(err, DL_ERR_SYSTEM, "rank %d on %s went away before the start", r,
                              g->entries[r].host);
    }
    return status;
}

/* Another rank: introduces itself to rank 0, and receives all addresses. */
static dl_status register_with(gathering *g, dl_error *err)
{
    const dl_rank_settings *settings = g->settings;
    const size_t bytes = (size_t)settings->size * sizeof *g->entries;
    dl_status status = dl_rank_listen(settings->host, 0, &g->listener, err);
    if (status != DL_OK) return status;
    status = dl_rank_connect(settings->host, settings->port, g->deadline_ns, &g->controls[0], err);
    if (status != DL_OK) return status;
    g->own.port = (uint32_t)dl_rank_port(g->listener);
    g->own.purpose = TO_GATHER;
    g->deadline_ns += dl_ns_ceil(dl_s_to_ns(GRACE_S));
    answer got;
    dl_rank_io io = dl_rank_send(g->controls[0], &g->own, sizeof g->own, g->deadline_ns);
    if (io == DL_RANK_IO_DONE) {
        io = dl_rank_receive(g->controls[0], &got, sizeof got, g->deadline_ns);
    }
    if (io == DL_RANK_IO_DONE && memcmp(got.magic, MAGIC, sizeof got.magic) != 0) {
        return dl_error_set(err, DL_ERR_DATA, "who listens at %s:%d is no rank of dlprof",
                            settings->host, settings->port);
    }
    if (io == DL_RANK_IO_DONE && got.welcome == 0) {
        got.refusal[sizeof got.refusal - 1] = '\0';
        return dl_error_set(err, DL_ERR_DATA, "rank %d was turned away at %.100s:%d: %.300s",
                            settings->rank, settings->host, settings->port, got.refusal);
    }
    if (io == DL_RANK_IO_DONE) {
        io = dl_rank_receive(g->controls[0], g->entries, bytes, g->deadline_ns);
    }
    if (io == DL_RANK_IO_DONE) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "rank 0 at %s:%d %s while the ranks gathered",
                        settings->host, settings->port,
                        io == DL_RANK_IO_CLOSED ? "has gone" : "says nothing");
}

/* Where the next rank listens. Who reached rank 0 by the loopback is known there by that; from
 * another machine it is where rank 0 is. */
static dl_rank_address next_address(const gathering *g)
{
    const int next = (g->settings->rank + 1) % g->settings->size;
    if (next == 0) return dl_rank_peer(g->controls[0]);
    const entry *found = &g->entries[next];
    const bool beside_zero = dl_rank_address_is_loopback(&found->address);
    const dl_rank_address machine =
        beside_zero && g->settings->rank != 0 ? dl_rank_peer(g->controls[0]) : found->address;
    return dl_rank_at_port(machine, (int)found->port);
}

static dl_status make_ring(gathering *g, dl_error *err)
{
    dl_rank_group *group = g->group;
    const int before = (g->settings->rank + g->settings->size - 1) % g->settings->size;
    const dl_rank_address address = next_address(g);
    const dl_status status = dl_rank_connect_to(&address, g->deadline_ns, &group->next, err);
    if (status != DL_OK) return status;
    g->own.purpose = TO_MAKE_RING;
    (void)dl_rank_send(group->next, &g->own, sizeof g->own, g->deadline_ns);
    reception *at = open_reception(g->listener);
    introduction other;
    int made;
    while (group->prev < 0 && receive_rank(at, g->deadline_ns, &made, &other)) {
        if (other.purpose == TO_MAKE_RING && other.run == g->own.run && other.rank == before) {
            group->prev = made;
        } else {
            close(made);
        }
    }
    close_reception(at);
    if (group->prev >= 0) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "rank %d on %s did not connect", before,
                        g->entries[before].host);
}

static void take_hosts(gathering *g)
{
    dl_rank_group *group = g->group;
    for (int r = 0; r < group->size; r++) {
        memcpy(group->hosts[r], g->entries[r].host, sizeof group->hosts[r]);
        group->hosts[r][sizeof group->hosts[r] - 1] = '\0';
        if (strcmp(group->hosts[r], g->own.host) != 0) continue;
        group->local_rank += r < group->rank;
        group->local_size++;
    }
}

dl_status dl_rank_find(dl_rank_group *group, const dl_rank_settings *settings, dl_error *err)
{
    gathering *g = dl_calloc(1, sizeof *g, "ranks to find");
    *g = (gathering){
        .group = group, .settings = settings, .deadline_ns = after(group->limit_s), .listener = -1};
    for (int r = 0; r < DL_RANKS_MAX; r++)
        g->controls[r] = -1;
    g->entries = dl_calloc((size_t)settings->size, sizeof *g->entries, "addresses of ranks");
    make_introduction(g);
    dl_status status = settings->rank == 0 ? gather(g, err) : register_with(g, err);
    if (status == DL_OK) status = make_ring(g, err);
    if (status == DL_OK) take_hosts(g);
    for (int r = 0; r < settings->size; r++)
        if (g->controls[r] >= 0) close(g->controls[r]);
    if (g->listener >= 0) close(g->listener);
    free(g->entries);
    free(g);
    return status;
}
