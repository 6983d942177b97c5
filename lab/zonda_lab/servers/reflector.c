/* A server without DNS: measures the limit for UDP and TCP on sockets; with faults, tests the lab.
 *
 * usage: reflector ADDRESS PORT echo|null [stall-every-ms=N stall-ms=N] [wrong-every=N] [drop-every=N] [delay-us=N]
 *
 * echo answers each query with a copy of itself, padded to 200 bytes, QR and AA set, one answer counted.
 * null discards all queries except SOA, which it answers for readiness probes.
 * A stall pauses the server; every N-th answer is wrong (SERVFAIL) or missing; delay-us is added to each batch.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 128, SLOT = 4096, ANSWER = 200, STREAMS = 65536, FRAME = 2048 };

static struct {
    int null;
    long stall_every_ms, stall_ms, wrong_every, drop_every, delay_us;
} option;

struct stream {
    int used;
    unsigned char in[FRAME];
};

static unsigned char slot[BATCH][SLOT];
static struct stream *streams[STREAMS];

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_us(long us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static void stall_if_due(void) {
    static int64_t next;
    if (!option.stall_every_ms) return;
    if (!next) next = now_ms() + option.stall_every_ms;
    if (now_ms() < next) return;
    pause_us(option.stall_ms * 1000);
    next = now_ms() + option.stall_every_ms;
}

static int asks_for_soa(const unsigned char *query, int length) {
    int at = 12;
    while (at < length && query[at]) at += query[at] + 1;
    return at + 2 < length && query[at + 1] == 0 && query[at + 2] == 6;
}

/* Turns the query into its answer in place; returns its length, 0 for none. */
static int answer(unsigned char *message, int length) {
    static long count;
    if (length < 12 || (option.null && !asks_for_soa(message, length))) return 0;
    count++;
    if (option.drop_every && count % option.drop_every == 0) return 0;
    message[2] |= 0x84;
    message[3] = option.wrong_every && count % option.wrong_every == 0 ? 2 : 0;
    message[7] = 1;
    if (length >= ANSWER) return length;
    memset(message + length, 0, ANSWER - length);
    return ANSWER;
}

static void serve_datagrams(int socket) {
    static struct mmsghdr in[BATCH], out[BATCH];
    static struct iovec from[BATCH], to[BATCH];
    static struct sockaddr_in peer[BATCH];
    for (int i = 0; i < BATCH; i++) {
        from[i] = (struct iovec){slot[i], SLOT};
        in[i].msg_hdr = (struct msghdr){.msg_name = &peer[i], .msg_namelen = sizeof peer[i], .msg_iov = &from[i], .msg_iovlen = 1};
    }
    int got = recvmmsg(socket, in, BATCH, MSG_DONTWAIT, NULL), ready = 0;
    if (got > 0 && option.delay_us) pause_us(option.delay_us);
    for (int i = 0; i < got; i++) {
        int length = answer(slot[i], (int)in[i].msg_len);
        if (!length) continue;
        to[ready] = (struct iovec){slot[i], (size_t)length};
        out[ready].msg_hdr = in[i].msg_hdr;
        out[ready].msg_hdr.msg_iov = &to[ready];
        ready++;
    }
    for (int sent = 0, n; sent < ready; sent += n)
        if ((n = sendmmsg(socket, out + sent, (unsigned)(ready - sent), 0)) <= 0) break;
}

static void close_stream(int stream) {
    free(streams[stream]);
    streams[stream] = NULL;
    close(stream);
}

static void serve_stream(int fd) {
    struct stream *s = streams[fd];
    ssize_t got = recv(fd, s->in + s->used, (size_t)(FRAME - s->used), 0);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) close_stream(fd);
        return;
    }
    s->used += (int)got;
    for (int length; s->used >= 2 && s->used - 2 >= (length = s->in[0] << 8 | s->in[1]);) {
        unsigned char frame[2 + FRAME + ANSWER];
        memcpy(frame + 2, s->in + 2, (size_t)length);
        int reply = answer(frame + 2, length);
        frame[0] = (unsigned char)(reply >> 8), frame[1] = (unsigned char)reply;
        s->used -= length + 2;
        memmove(s->in, s->in + length + 2, (size_t)s->used);
        if (reply && send(fd, frame, (size_t)reply + 2, MSG_NOSIGNAL) != reply + 2) {
            close_stream(fd);
            return;
        }
    }
    if (s->used == FRAME) close_stream(fd);
}

static void accept_all(int listener, int poll) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        if (fd >= STREAMS || !(streams[fd] = calloc(1, sizeof **streams))) {
            close(fd);
            continue;
        }
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
    }
}

static int listening(int type, const char *address, const char *port) {
    int fd = socket(AF_INET, type | SOCK_NONBLOCK, 0), size = 8 << 20, on = 1;
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr.s_addr = inet_addr(address)};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (void *)&local, sizeof local) || (type == SOCK_STREAM && listen(fd, 4096))) {
        perror("reflector");
        exit(1);
    }
    return fd;
}

static void read_option(const char *text) {
    if (sscanf(text, "stall-every-ms=%ld", &option.stall_every_ms) == 1 || sscanf(text, "stall-ms=%ld", &option.stall_ms) == 1 ||
        sscanf(text, "wrong-every=%ld", &option.wrong_every) == 1 || sscanf(text, "drop-every=%ld", &option.drop_every) == 1 ||
        sscanf(text, "delay-us=%ld", &option.delay_us) == 1)
        return;
    fprintf(stderr, "reflector: unknown option %s\n", text);
    exit(2);
}

static void quit(int number) { _exit(number == SIGTERM ? 0 : 1); }

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--version")) return puts("reflector 1.0") < 0;
    if (argc < 4) return fprintf(stderr, "usage: reflector ADDRESS PORT echo|null [fault=N...]\n"), 2;
    option.null = !strcmp(argv[3], "null");
    for (int i = 4; i < argc; i++) read_option(argv[i]);
    signal(SIGTERM, quit);
    int poll = epoll_create1(0), datagrams = listening(SOCK_DGRAM, argv[1], argv[2]), listener = listening(SOCK_STREAM, argv[1], argv[2]);
    struct epoll_event events[BATCH], event = {.events = EPOLLIN, .data.fd = datagrams};
    epoll_ctl(poll, EPOLL_CTL_ADD, datagrams, &event);
    event.data.fd = listener;
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poll, events, BATCH, -1);
        stall_if_due();
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == datagrams) serve_datagrams(fd);
            else if (fd == listener) accept_all(fd, poll);
            else serve_stream(fd);
        }
    }
}
