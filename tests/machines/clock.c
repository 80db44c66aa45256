#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* The clock of the machine is CLOCK_AHEAD milliseconds ahead of the kernel's. What waits until a time of that clock is
   told the kernel's; times since boot, which are small, are as they are. */

static void add(struct timespec *time, long sign) {
    static long ahead, is_read;
    if (!is_read) {
        const char *text = getenv("CLOCK_AHEAD");
        ahead = text ? atol(text) : 0;
        is_read = 1;
    }
    time->tv_sec += sign * (ahead / 1000);
    time->tv_nsec += sign * (ahead % 1000) * 1000000;
    if (time->tv_nsec >= 1000000000) { time->tv_nsec -= 1000000000; time->tv_sec++; }
    if (time->tv_nsec < 0) { time->tv_nsec += 1000000000; time->tv_sec--; }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int code = syscall(SYS_clock_gettime, clock, time);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) add(time, 1);
    return code;
}

int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec kernel = *until;
    if (kernel.tv_sec > 1000000000) add(&kernel, -1);
    return real(condition, mutex, &kernel);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec kernel = *until;
    if (kernel.tv_sec > 1000000000) add(&kernel, -1);
    return real(condition, mutex, &kernel);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec kernel = *until;
    if (kernel.tv_sec > 1000000000) add(&kernel, -1);
    return real(semaphore, &kernel);
}
