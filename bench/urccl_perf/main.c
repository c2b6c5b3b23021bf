/* SPDX-License-Identifier: Apache-2.0 */
/* How fast is it, in the manner of ucx_perftest and ib_write_bw. --help says how to ask. */
#include "client.h"
#include "handshake.h"
#include "idle.h"
#include "register.h"
#include "serve.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char default_listen[] = "127.0.0.1:18515";

static void run_client(const struct options *o, const struct whom *whom)
{
	struct client c;

	client_open(&c, o, whom);
	if (o->job == JOB_RANDOM)
		client_random(&c);
	else if (o->job == JOB_PING)
		client_ping(&c);
	else
		client_measure(&c);
	client_close(&c);
}

/*
 * A context does not live through fork(), so both are opened after it; the server says where it is
 * by a pipe.
 */
static void run_self(const struct options *o)
{
	struct whom whom;
	int fd[2], status;
	pid_t child;
	ssize_t n;

	if (pipe(fd) < 0 || (child = fork()) < 0)
		bench_die("cannot start a server: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		serve(o, 1, fd[1]);
		_exit(0);
	}
	close(fd[1]);
	n = read(fd[0], whom.bytes, sizeof(whom.bytes));
	close(fd[0]);
	if (n <= 0)
		bench_die("the server did not start");
	whom.len = (uint32_t)n;
	run_client(o, &whom);
	bench_flush();
	if (waitpid(child, &status, 0) < 0 || status)
		bench_die("the server failed");
}

static void run_against(const struct options *o)
{
	struct whom whom;

	whom.len = (uint32_t)strlen(o->address);
	if (whom.len > sizeof(whom.bytes))
		bench_die("'%s' is no HOST:PORT", o->address);
	memcpy(whom.bytes, o->address, whom.len);
	run_client(o, &whom);
}

static void run_load(struct options *o)
{
	switch (o->role) {
	case ROLE_SERVE:
		o->listen = o->listen ? o->listen : default_listen;
		serve(o, 0, -1);
		break;
	case ROLE_SELF:
		run_self(o);
		break;
	case ROLE_NOP:
		run_client(o, NULL);
		break;
	default:
		run_against(o);
	}
}

int main(int argc, char **argv)
{
	struct options o;

	options_parse(&o, argc, argv);
	switch (o.job) {
	case JOB_IDLE:
		idle_measure(&o);
		break;
	case JOB_HANDSHAKES:
		handshake_measure(&o);
		break;
	case JOB_REGISTER:
		register_measure(&o);
		break;
	default:
		run_load(&o);
	}
	bench_flush();
	return 0;
}
